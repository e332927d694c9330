// Cells are scripts, in which neither `import x from 'y'` nor import() work: V8's REPL mode has no
// module to resolve from. Both become calls of a function that imports on their behalf.

const CALL = '__sandglass_import';

/** Where code is code: spans outside of strings, comments and regular expressions. */
function* codeSpans(text) {
  const depth = []; // braces of template holes
  let start = 0;
  let last = '';
  for (let at = 0; at < text.length;) {
    const end = literalEnd(text, at, last, depth);
    if (end > at) {
      yield [start, at];
      [start, at, last] = [end, end, 'x'];
      continue;
    }
    if (!/\s/.test(text[at])) last = text[at];
    at += 1;
  }
  yield [start, text.length];
}

/** The end of the literal or comment that begins at `at`; `at` itself when none does. */
function literalEnd(text, at, last, depth) {
  const two = text.slice(at, at + 2);
  if (two === '//') return lineEnd(text, at);
  if (two === '/*') return after(text, '*/', at + 2);
  if (text[at] === '"' || text[at] === "'") return stringEnd(text, at);
  if (text[at] === '`') return templateEnd(text, at + 1, depth);
  if (text[at] === '/' && (last === '' || '(,=:[!&|?{};+-*%<>~^'.includes(last))) return regexEnd(text, at);
  if (depth.length > 0 && text[at] === '{') depth[depth.length - 1] += 1;
  if (depth.length > 0 && text[at] === '}' && (depth[depth.length - 1] -= 1) < 0) {
    depth.pop();
    return templateEnd(text, at + 1, depth);
  }
  return at;
}

const lineEnd = (text, at) => (at = text.indexOf('\n', at)) < 0 ? text.length : at;
const after = (text, mark, at) => (at = text.indexOf(mark, at)) < 0 ? text.length : at + mark.length;

function stringEnd(text, at) {
  for (let i = at + 1; i < text.length; i++)
    if (text[i] === '\\') i += 1;
    else if (text[i] === text[at] || text[i] === '\n') return i + 1;
  return text.length;
}

function templateEnd(text, at, depth) {
  for (let i = at; i < text.length; i++)
    if (text[i] === '\\') i += 1;
    else if (text[i] === '`') return i + 1;
    else if (text[i] === '$' && text[i + 1] === '{') {
      depth.push(0);
      return i + 2;
    }
  return text.length;
}

function regexEnd(text, at) {
  let inClass = false;
  for (let i = at + 1; i < text.length && text[i] !== '\n'; i++)
    if (text[i] === '\\') i += 1;
    else if (text[i] === '[') inClass = true;
    else if (text[i] === ']') inClass = false;
    else if (text[i] === '/' && !inClass) return i + 1;
  return at;
}

const DECLARATION = new RegExp([
  /(?<=^|;)([ \t]*)import\s*/, /(?:([\w$]+)\s*,?\s*)?/, /(?:\*\s*as\s+([\w$]+)\s*)?/, /(?:\{([^}]*)\}\s*)?/,
  /(?:from\s*)?(['"])((?:(?!\5).)+)\5/, /(?:\s*with\s*(\{[^}]*\}))?[ \t]*;?/].map((part) => part.source).join(''), 'gm');

function declaration(whole, indent, fallback, all, names, quote, from, attributes) {
  const options = attributes === undefined ? '' : `, { with: ${attributes} }`;
  const call = `await ${CALL}(${JSON.stringify(from)}${options})`;
  const targets = [];
  if (all !== undefined) targets.push(`const ${all} = ${call};`);
  if (fallback !== undefined) targets.push(`const { default: ${fallback} } = ${call};`);
  if (names !== undefined) targets.push(`const { ${names.trim().replace(/\s+as\s+/g, ': ').replace(/\s+/g, ' ')} } = ${call};`);
  const lines = '\n'.repeat(whole.split('\n').length - 1); // what follows keeps its line
  return indent + (targets.length === 0 ? `${call};` : targets.join(' ')) + lines;
}

function dynamic(text) {
  let out = '';
  let done = 0;
  for (const [start, end] of codeSpans(text)) {
    out += text.slice(done, start) + text.slice(start, end).replace(/(?<![\w$.])import(?=\s*\()/g, CALL);
    done = end;
  }
  return out + text.slice(done);
}

/** The places where a line or a statement behind another begins, outside of every literal. */
function starts(text) {
  const found = new Set([0]);
  for (const [start, end] of codeSpans(text))
    for (let at = start; at < end; at++) if (text[at] === '\n' || text[at] === ';') found.add(at + 1);
  return found;
}

export function withImports(text) {
  if (!text.includes('import')) return text;
  const places = starts(text);
  return dynamic(text.replace(DECLARATION, (...match) => {
    const at = match.at(-2);
    return places.has(at) ? declaration(...match.slice(0, 8)) : match[0];
  }));
}

export function provide(load) {
  Object.defineProperty(globalThis, CALL, { value: load });
}
