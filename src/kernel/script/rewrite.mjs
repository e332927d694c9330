// Cells are written as modules are, and evaluated as scripts: V8's REPL mode has no module to resolve from
// or to export to. `import x from 'y'` and import() become calls of a function that imports on their
// behalf, `export` is blanked out.
//
// In that mode a name can be declared again only with the same keyword. So `const` becomes `let` at the top level,
// and a declaration that V8 refuses becomes an assignment.

const CALL = '__sandglass_import';
const META = '__sandglass_meta';

const BETWEEN = /[^"'`/{}]*/y; // places where a literal, a comment or a hole of a template may begin or end

/** Where code is code: spans outside of strings, comments and regular expressions. */
function* codeSpans(text) {
  const depth = []; // braces of template holes
  let start = 0;
  let last = '';
  for (let at = 0; at < text.length;) {
    BETWEEN.lastIndex = at;
    const [between] = BETWEEN.exec(text);
    last = between.trimEnd().at(-1) ?? last;
    at += between.length;
    const end = literalEnd(text, at, last, depth);
    if (end > at) {
      yield [start, at];
      [start, at, last] = [end, end, 'x'];
    } else {
      last = text[at];
      at += 1;
    }
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
  if (all !== undefined) targets.push(`let ${all} = ${call};`);
  if (fallback !== undefined) targets.push(`let ${fallback} = (${call}).default;`);
  if (names !== undefined) targets.push(`let { ${names.trim().replace(/\s+as\s+/g, ': ').replace(/\s+/g, ' ')} } = ${call};`);
  const lines = '\n'.repeat(whole.split('\n').length - 1); // what follows keeps its line
  return indent + (targets.length === 0 ? `${call};` : targets.join(' ')) + lines;
}

/** What changes within a statement. */
function inCode(text) {
  let out = '';
  let done = 0;
  for (const [start, end] of codeSpans(text)) {
    out += text.slice(done, start) + text.slice(start, end)
      .replace(/(?<![\w$.])import(?=\s*\()/g, CALL).replace(/(?<![\w$.])import\s*\.\s*meta\b/g, META);
    done = end;
  }
  return out + text.slice(done);
}

/** The places where a line or a statement behind another begins, outside of every literal, with the number of
 * brackets that are open there. */
function starts(text) {
  const found = new Map([[0, 0]]);
  let depth = 0;
  for (const [start, end] of codeSpans(text))
    for (const { 0: mark, index } of text.slice(start, end).matchAll(/[()[\]{}\n;]/g)) {
      if ('([{'.includes(mark)) depth += 1;
      if (')]}'.includes(mark)) depth -= 1;
      if ('\n;}'.includes(mark)) found.set(start + index + 1, depth);
    }
  return found;
}

/** Replaces what `pattern` finds at the beginning of a statement of the top level, blanks before it included. */
function atTop(text, pattern, change) {
  let places; // takes its time, and most patterns find nothing
  return text.replace(new RegExp(`(?<=^|[;}])([ \\t]*)(?:${pattern})`, 'gm'), (whole, indent, ...rest) =>
    (places ??= starts(text)).get(rest.findLast((each) => typeof each === 'number')) === 0 ? indent + change(whole.slice(indent.length), ...rest) : whole);
}

const blank = (text) => text.replace(/[^\n]/g, ' ');

const withoutExports = (text) => atTop(text, '(?:export\\s+(?:default\\s+)?(?=(?:const|let|var|class|function|async)\\b)|export\\s+default\\b|export\\s*\\{[^}]*\\}\\s*;?)', blank);

function withImports(text) {
  if (!text.includes('import')) return text;
  const places = starts(text);
  return inCode(text.replace(DECLARATION, (...match) =>
    places.has(match.at(-2)) ? declaration(...match.slice(0, 8)) : match[0]));
}

/** The cell as V8 can evaluate it; lines and, where it can be, columns stay. */
export const asScript = (text) => atTop(withImports(withoutExports(text.replace(/^#!/, '//'))), 'const(?=[\\s[{])', () => 'let  ');

/** The end of the block that begins behind `at` at the top level. */
function blockEnd(text, at) {
  for (const [place, depth] of starts(text)) if (place > at && depth === 0 && text[place - 1] === '}') return place;
  return text.length;
}

/** The script with an assignment to `name`, which an earlier one has declared otherwise, where it declares it
 * again, or with the other kind of declaration where it is one of several; as it is when it has none. */
export function assigning(text, name) {
  const word = name.replaceAll('$', '\\$');
  const plain = atTop(text, `(?:let|var)\\s+(?=${word}(?![\\w$]))`, blank);
  if (plain !== text) return plain;
  const other = { let: 'var', var: 'let' };
  const taken = atTop(text, `(?:let|var)(?=\\s*[{[][^=;]*(?<![\\w$])${word}(?![\\w$]))`, (kind) => other[kind]);
  if (taken !== text) return taken;
  let begin = -1;
  atTop(text, `(?:(?:async\\s+)?function\\s*\\*?|class)\\s+${word}(?![\\w$])`, (whole, ...rest) => {
    begin = rest.findLast((each) => typeof each === 'number');
    return whole;
  });
  if (begin < 0) return text;
  const end = blockEnd(text, begin);
  return `${text.slice(0, begin)}${name} = ${text.slice(begin, end)};${text.slice(end)}`;
}

/** `load(name, options)` imports; `meta()` gives what `import.meta` is. */
export function provide(load, meta) {
  Object.defineProperty(globalThis, CALL, { value: load });
  Object.defineProperty(globalThis, META, { get: meta });
}
