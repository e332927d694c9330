import type { Match, MatchList } from '../types.js';
import type { EditAsked, GrepAsked } from './backend.js';
import { ZoneError } from './errors.js';

/** For the backend that has no program to ask: the same patterns and answers, on what is in memory. */

const FOUND_DEFAULT = 100;
const LINE_MAX = 1024;

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;
const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');

function invalid(pattern: string, why: string): ZoneError {
  return new ZoneError('INVALID_PATTERN', `'${pattern}': ${why}`);
}

/** `**` as a whole component, `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`, `\\x`. */
export function globExpression(pattern: string): RegExp {
  let source = '', depth = 0;
  for (let i = 0; i < pattern.length; i++) {
    const rest = pattern.slice(i);
    const isStart = i === 0 || '/{,'.includes(pattern[i - 1] as string);
    const set = /^\[([!^]?)(\]?[^\]]*)\]/.exec(rest);
    if (isStart && rest.startsWith('**/')) [source, i] = [`${source}(?:[^/]+/)*`, i + 2];
    else if (isStart && /^\*\*(?=$|[,}])/.test(rest)) [source, i] = [`${source}.*`, i + 1];
    else if (rest[0] === '*') source += '[^/]*';
    else if (rest[0] === '?') source += '[^/]';
    else if (rest[0] === '[' && !set) throw invalid(pattern, 'a [ has no end');
    else if (set) [source, i] = [`${source}(?!/)[${set[1] ? '^' : ''}${(set[2] as string).replace(/[\\\]^[]/g, '\\$&')}]`, i + set[0].length - 1];
    else if (rest[0] === '{') [source, depth] = [`${source}(?:`, depth + 1];
    else if (rest[0] === '}' && depth > 0) [source, depth] = [`${source})`, depth - 1];
    else if (rest[0] === ',' && depth > 0) source += '|';
    else if (rest[0] === '\\' && rest.length > 1) source += escaped(pattern[++i] as string);
    else source += escaped(rest[0] as string);
  }
  if (depth > 0) throw invalid(pattern, 'a { has no end');
  return new RegExp(`^(?:${source})$`, 's');
}

/** Below a directory that searches leave out, unless the pattern names it. */
export function isLeftOut(path: string, pattern: string): boolean {
  return path.split('/').slice(0, -1).some((name) => ['.git', 'node_modules', '.sandglass'].includes(name) && !pattern.includes(name));
}

function grepExpression({ pattern, ignoreCase }: GrepAsked): RegExp {
  try {
    return new RegExp(pattern, ignoreCase ? 'i' : '');
  } catch (error) {
    throw invalid(pattern, (error as Error).message);
  }
}

/** Binary files are passed over. */
export function grepFiles(files: [string, Uint8Array][], asked: GrepAsked): MatchList {
  const expression = grepExpression(asked), limit = asked.limit ?? FOUND_DEFAULT;
  const wanted = asked.include === undefined ? undefined : globExpression(asked.include);
  const nameOf = (path: string): string => (asked.include?.includes('/') ? path : path.slice(path.lastIndexOf('/') + 1));
  const matches: Match[] = [];
  for (const [path, bytes] of files) {
    if (bytes.includes(0) || (wanted && !wanted.test(nameOf(path)))) continue;
    const lines = new TextDecoder().decode(bytes).split('\n');
    for (const [i, text] of lines.entries()) {
      const found = i === lines.length - 1 && text === '' ? null : expression.exec(text);
      if (!found) continue;
      if (matches.length === limit) return { matches, truncated: true };
      matches.push({ path, line: i + 1, column: bytesOf(text.slice(0, found.index)) + 1, text: text.slice(0, LINE_MAX) });
    }
  }
  return { matches, truncated: false };
}

export function replaceText(text: string, asked: EditAsked, path: string): { text: string; count: number } {
  if (asked.old === '') throw new ZoneError('INVALID', 'old is empty', path);
  const parts = text.split(asked.old), count = parts.length - 1;
  if (count === 0) throw new ZoneError('NO_MATCH', `the text is not in '${path}'`, path);
  if (count > 1 && !asked.all) throw new ZoneError('AMBIGUOUS_MATCH', `the text occurs ${count} times in '${path}'`, path);
  return { text: parts.join(asked.new), count };
}
