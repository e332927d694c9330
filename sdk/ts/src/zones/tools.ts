import { SandglassError } from '../errors.js';
import type { ToolAnswer, ToolName } from '../tools.js';
import { ZoneError } from './errors.js';
import type { ZoneSandbox } from './zones.js';

/** The tools that the façade's verbs can carry. */
export const zoneToolNames: readonly ToolName[] = ['read', 'write', 'edit', 'glob', 'grep', 'list', 'exists', 'delete'];

const TEXT_MAX = 100 << 10;
const LINES_DEFAULT = 2000;
const PATHS_MAX = 1000;
const MATCHES_DEFAULT = 100;
const LINE_SHOWN = 400;

const hints: Record<string, string> = {
  INVALID: 'Correct the arguments and call again.',
  NOT_FOUND: 'Look for the right path with list or glob.',
  NOT_A_FILE: 'This is a directory: use list or glob.',
  NOT_A_DIRECTORY: 'This is a file: use read, or name its directory.',
  INVALID_PATTERN: 'Escape special characters that should match literally.',
  PATTERN_TOO_COMPLEX: 'Use a simpler pattern.',
  PATH_ESCAPES: 'Use a path below /workspace.',
  READ_ONLY: 'Write below /workspace.',
  CONFLICT: 'Check the current state first, then call again.',
  NO_MATCH: 'Read the file again and copy the text exactly, including spaces.',
  AMBIGUOUS_MATCH: 'Add lines around the text to make it unique, or set replaceAll.',
  TOO_LARGE: 'Read a part: offset is the first line, limit the number of lines; or use grep.',
  TOO_MANY_RESULTS: 'Narrow the search.',
  ZONE_NOT_CONFIGURED: 'Use a path below /workspace.',
};

type Args = Record<string, unknown>;

/** A relative path is meant below /workspace, none is /workspace itself. */
function pathOf(args: Args, name = 'path'): string {
  const path = args[name];
  if (path === undefined || path === '' || path === '.') return '/workspace';
  return String(path).startsWith('/') ? String(path) : `/workspace/${String(path)}`;
}

async function textOf(zones: ZoneSandbox, path: string): Promise<string> {
  const bytes = await zones.readBinary(path);
  try {
    if (bytes.includes(0)) throw new TypeError();
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ZoneError('INVALID', `${path} is not text (${bytes.length} bytes)`, path);
  }
}

async function read(zones: ZoneSandbox, args: Args): Promise<object> {
  const path = pathOf(args);
  const text = await textOf(zones, path);
  const size = new TextEncoder().encode(text).length;
  const hasRange = args['offset'] !== undefined || args['limit'] !== undefined;
  if (!hasRange && size > TEXT_MAX) throw new ZoneError('TOO_LARGE', `${path} has ${size} bytes, more than the limit of ${TEXT_MAX}`, path);
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const startLine = Number(args['offset'] ?? 1);
  const wanted = lines.slice(startLine - 1, startLine - 1 + Number(args['limit'] ?? (hasRange ? LINES_DEFAULT : lines.length)));
  let content = '', count = 0;
  for (const line of wanted) {
    if (content.length + line.length > TEXT_MAX && count > 0) break;
    content += line.slice(0, TEXT_MAX);
    count++;
  }
  const truncated = startLine - 1 + count < lines.length;
  return { path, content, size, startLine, lines: count, truncated, ...(truncated ? { nextOffset: startLine + count } : {}) };
}

async function write(zones: ZoneSandbox, args: Args): Promise<object> {
  const path = pathOf(args), content = String(args['content'] ?? '');
  const created = !await zones.exists(path);
  await zones.write(path, content);
  return { path, created, size: new TextEncoder().encode(content).length };
}

async function edit(zones: ZoneSandbox, args: Args): Promise<object> {
  const path = pathOf(args);
  const replaced = await zones.edit(path, String(args['oldString'] ?? ''), String(args['newString'] ?? ''), { all: args['replaceAll'] === true });
  return { path, replaced, size: (await zones.readBinary(path)).length };
}

async function glob(zones: ZoneSandbox, args: Args): Promise<object> {
  const found = await zones.globPage(String(args['pattern']), { path: pathOf(args, 'dirPath'), searchAll: args['searchAll'] === true, limit: PATHS_MAX });
  return { ...found, ...(found.truncated ? { note: 'There are more: narrow the pattern or name a directory further down.' } : {}) };
}

async function grep(zones: ZoneSandbox, args: Args): Promise<object> {
  const { matches, truncated } = await zones.grepPage(String(args['pattern']), { path: pathOf(args, 'dirPath'),
    ...(args['glob'] === undefined ? {} : { include: String(args['glob']) }), ignoreCase: args['ignoreCase'] === true, searchAll: args['searchAll'] === true,
    limit: Number(args['maxResults'] ?? MATCHES_DEFAULT) });
  return { matches: matches.map(({ path, line, text }) => ({ path, line, text: text.slice(0, LINE_SHOWN) })), truncated,
    ...(truncated ? { note: 'There are more: narrow pattern, glob or directory, or raise maxResults.' } : {}) };
}

const verbs: Partial<Record<ToolName, (zones: ZoneSandbox, args: Args) => Promise<object>>> = {
  read, write, edit, glob, grep,
  list: async (zones, args) => ({ entries: (await zones.list(pathOf(args))).map((name) => ({ name })), truncated: false }),
  exists: async (zones, args) => ({ exists: await zones.exists(pathOf(args)) }),
  delete: async (zones, args) => {
    await zones.delete(pathOf(args), { recursive: args['recursive'] === true });
    return { deleted: 1 };
  },
};

/** A tool on the façade, answered as the server answers it. */
export async function callZoneTool(zones: ZoneSandbox, name: ToolName, args: Args): Promise<ToolAnswer> {
  try {
    const verb = verbs[name];
    if (!verb) throw new ZoneError('INVALID', `unknown tool '${name}'`);
    return { isError: false, answer: { success: true, ...await verb(zones, args) }, images: [] };
  } catch (error) {
    if (!(error instanceof SandglassError)) throw error;
    const hint = hints[error.code] ?? 'Tell the user: you cannot correct this error yourself.';
    const answer = { success: false, error: { code: error.code.toLowerCase(), message: error.message, hint } };
    return { isError: true, answer, images: [] };
  }
}
