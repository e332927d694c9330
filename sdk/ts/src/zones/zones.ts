import { Client, type CallOptions, type ClientOptions } from '../client.js';
import type { Connection } from '../objects.js';
import { Sandbox } from '../sandbox.js';
import { Session } from '../session.js';
import type { ToolAnswer, ToolName, ToolTarget } from '../tools.js';
import type { Match, MatchList, PathList } from '../types.js';
import { Volume } from '../volume.js';
import { FILE_MAX, type GlobAsked, type GrepAsked, type ZoneBackend } from './backend.js';
import { ZoneError } from './errors.js';
import { HttpBackend } from './http.js';
import { MemoryBackend } from './memory.js';
import { parseZonePath, zoneNames, type Zone, type ZonePath } from './path.js';
import { RemoteBackend } from './remote.js';
import { callZoneTool, zoneToolNames } from './tools.js';
import { WorkerBackend } from './worker.js';

const ROOT = '/workspace';

interface Common {
  /** What changes something is READ_ONLY. */
  readOnly?: boolean;
}

interface OnHost extends Common {
  /** The sandglass program, whose worker accesses the directories. Default: SANDGLASS_BIN, or "sandglass". */
  bin?: string;
}

/** Where the zones lie. */
export type ZonesOptions =
  /** Both zones below one directory, which is made: `.sandbox/workspace`, `.sandbox/cache`. */
  | OnHost & { mode: 'sandboxed'; root?: string }
  /** Each zone a directory of this machine; a zone without one is ZONE_NOT_CONFIGURED. */
  | OnHost & { mode: 'direct'; workspace?: string; cache?: string }
  /** One directory, as /workspace. */
  | OnHost & { mode: 'single'; directory: string }
  /** A live sandbox, a session, or a volume (which has only /workspace). */
  | Common & { mode: 'sandbox'; sandbox: Sandbox | Session | Volume }
  /** Directories that a server gives out as [zones.NAME] of its configuration. */
  | Common & { mode: 'remote'; zone: string; client?: Client | ClientOptions }
  /** Nothing outlives the object: for tests. */
  | Common & { mode: 'memory' };

export type ZoneGlobOptions = Omit<GlobAsked, 'pattern'> & { path?: string };
export type ZoneGrepOptions = Omit<GrepAsked, 'pattern'> & { path?: string };

/** The same verbs over every backend; errors are ZoneErrors with the same code for the same cause. */
export interface ZoneSandbox extends ToolTarget {
  read(path: string): Promise<string>;
  readBinary(path: string): Promise<Uint8Array>;
  write(path: string, content: string): Promise<void>;
  writeBinary(path: string, content: Uint8Array): Promise<void>;
  delete(path: string, options?: { recursive?: boolean }): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** Names, sorted. */
  list(path: string): Promise<string[]>;
  /** Its path for other programs: on this machine, or in the sandbox. */
  resolve(path: string): Promise<string>;
  /** Files below a directory, by default /workspace: `**`, `*`, `?`, `[a-z]`, `{a,b}`. */
  glob(pattern: string, options?: ZoneGlobOptions): Promise<string[]>;
  /** As glob, and whether there are more. */
  globPage(pattern: string, options?: ZoneGlobOptions): Promise<PathList>;
  /** Lines that match a regular expression. */
  grep(pattern: string, options?: ZoneGrepOptions): Promise<Match[]>;
  /** As grep, and whether there are more. */
  grepPage(pattern: string, options?: ZoneGrepOptions): Promise<MatchList>;
  /** Replaces text, which must be there exactly once unless `all` is set; gives how often it was replaced. */
  edit(path: string, oldText: string, newText: string, options?: { all?: boolean }): Promise<number>;
  close(): Promise<void>;
}

class Zones implements ZoneSandbox {
  readonly #backend: ZoneBackend;
  readonly #readOnly: boolean;
  readonly toolNames: readonly ToolName[] = zoneToolNames;

  constructor(backend: ZoneBackend, readOnly: boolean) {
    this.#backend = backend;
    this.#readOnly = readOnly;
  }

  async read(path: string): Promise<string> {
    return new TextDecoder().decode(await this.readBinary(path));
  }

  async readBinary(path: string): Promise<Uint8Array> {
    return this.#backend.read(parseZonePath(path));
  }

  write(path: string, content: string): Promise<void> {
    return this.writeBinary(path, new TextEncoder().encode(content));
  }

  async writeBinary(path: string, content: Uint8Array): Promise<void> {
    const at = this.#toChange(path, 'written');
    if (content.length > FILE_MAX)
      throw new ZoneError('TOO_LARGE', `${content.length} bytes for '${path}'; the limit is ${FILE_MAX}`, path);
    await this.#backend.write(at, content);
  }

  async delete(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    await this.#backend.delete(this.#toChange(path, 'deleted'), options.recursive ?? false);
  }

  async exists(path: string): Promise<boolean> {
    return this.#backend.exists(parseZonePath(path));
  }

  async list(path: string): Promise<string[]> {
    return (await this.#backend.list(parseZonePath(path))).sort();
  }

  async resolve(path: string): Promise<string> {
    return this.#backend.resolve(parseZonePath(path));
  }

  async glob(pattern: string, options: ZoneGlobOptions = {}): Promise<string[]> {
    return (await this.globPage(pattern, options)).paths;
  }

  async globPage(pattern: string, { path = ROOT, ...rest }: ZoneGlobOptions = {}): Promise<PathList> {
    return this.#backend.glob(parseZonePath(path), { pattern, ...rest });
  }

  async grep(pattern: string, options: ZoneGrepOptions = {}): Promise<Match[]> {
    return (await this.grepPage(pattern, options)).matches;
  }

  async grepPage(pattern: string, { path = ROOT, ...rest }: ZoneGrepOptions = {}): Promise<MatchList> {
    return this.#backend.grep(parseZonePath(path), { pattern, ...rest });
  }

  async edit(path: string, oldText: string, newText: string, { all = false }: { all?: boolean } = {}): Promise<number> {
    return this.#backend.edit(this.#toChange(path, 'edited'), { old: oldText, new: newText, all });
  }

  close(): Promise<void> {
    return this.#backend.close();
  }

  callTool(name: ToolName, args: Record<string, unknown>, _options?: CallOptions): Promise<ToolAnswer> {
    return callZoneTool(this, name, args);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #toChange(path: string, how: string): ZonePath {
    const at = parseZonePath(path);
    if (at.below === '') throw new ZoneError('INVALID', `'${path}' is a zone: it cannot be ${how}`, path);
    if (this.#readOnly) throw new ZoneError('READ_ONLY', 'this tree is read-only', path);
    return at;
  }
}

function workerOf(options: OnHost, args: string[]): WorkerBackend {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  const bin = options.bin ?? process?.env?.['SANDGLASS_BIN'] ?? 'sandglass';
  return new WorkerBackend(bin, options.readOnly ? [...args, '--read-only'] : args);
}

function backendOf(options: ZonesOptions): ZoneBackend {
  switch (options.mode) {
    case 'sandboxed':
      return workerOf(options, ['--root', options.root ?? '.sandbox']);
    case 'direct':
      return workerOf(options, zoneNames.flatMap((zone: Zone) =>
        options[zone] === undefined ? [] : ['--direct', `${zone}=${options[zone]}`]));
    case 'single':
      return workerOf(options, ['--direct', `workspace=${options.directory}`]);
    case 'sandbox':
      return new RemoteBackend(options.sandbox.files, options.sandbox instanceof Volume ? ['workspace'] : zoneNames);
    case 'remote':
      return new HttpBackend(Client.from(options.client), options.zone);
    case 'memory':
      return new MemoryBackend();
    default:
      throw new ZoneError('INVALID', `unknown mode '${(options as { mode: string }).mode}': sandboxed, direct, single, sandbox, remote or memory`);
  }
}

/** The file façade: /workspace and /cache over directories of this machine or a server's, a sandbox or a volume, or memory. */
export function createSandbox(options: ZonesOptions): ZoneSandbox {
  if (options.mode === 'direct' && options.workspace === undefined && options.cache === undefined)
    throw new ZoneError('ZONE_NOT_CONFIGURED', 'no zone has a directory: pass workspace, cache, or both');
  return new Zones(backendOf(options), options.readOnly ?? false);
}

/** The same for the id of a sandbox of a server. */
export async function connectSandbox(id: string, options: Connection & Common = {}): Promise<ZoneSandbox> {
  const { client, ...rest } = options;
  return createSandbox({ mode: 'sandbox', sandbox: await Sandbox.get(id, { client: Client.from(client) }), ...rest });
}
