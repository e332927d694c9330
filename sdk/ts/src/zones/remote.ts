import type { Files } from '../files.js';
import type { MatchList, PathList } from '../types.js';
import { FILE_MAX, LIST_MAX, type EditAsked, type GlobAsked, type GrepAsked, type ZoneBackend } from './backend.js';
import { ZoneError, zoneErrorOf } from './errors.js';
import type { Zone, ZonePath } from './path.js';

/** A sandbox, a session or a volume of a server: the fence is the sandbox's own. */
export class RemoteBackend implements ZoneBackend {
  readonly #files: Files;
  readonly #zones: readonly Zone[];

  /** A volume has only /workspace. */
  constructor(files: Files, zones: readonly Zone[]) {
    this.#files = files;
    this.#zones = zones;
  }

  read(at: ZonePath): Promise<Uint8Array> {
    return this.#ask(at, async () => {
      const bytes = await this.#files.download(at.path);
      return gather(bytes, at);
    });
  }

  async write(at: ZonePath, content: Uint8Array): Promise<void> {
    await this.#ask(at, () => this.#files.write(at.path, content));
  }

  delete(at: ZonePath, recursive: boolean): Promise<void> {
    return this.#ask(at, () => this.#files.delete(at.path, { recursive }));
  }

  exists(at: ZonePath): Promise<boolean> {
    return this.#ask(at, async () => {
      try {
        return at.below === '' || await this.#files.exists(at.path);
      } catch (error) {
        if ((error as { code?: string }).code === 'not_a_directory') return false;
        throw error;
      }
    });
  }

  list(at: ZonePath): Promise<string[]> {
    return this.#ask(at, async () => {
      if (await this.#isUnmade(at)) return [];
      const { entries, truncated } = await this.#files.listPage(at.path, { limit: LIST_MAX });
      if (truncated) throw new ZoneError('TOO_MANY_RESULTS', `'${at.path}' has more than ${LIST_MAX} entries`, at.path);
      return entries.map(({ path }) => path);
    });
  }

  /** As code inside sees it. */
  resolve(at: ZonePath): Promise<string> {
    return this.#ask(at, async () => at.path);
  }

  glob(at: ZonePath, { pattern, ...rest }: GlobAsked): Promise<PathList> {
    return this.#ask(at, async () => await this.#isUnmade(at) ? { paths: [], truncated: false }
      : this.#files.globPage(pattern, { path: at.path, ...rest }));
  }

  grep(at: ZonePath, { pattern, ...rest }: GrepAsked): Promise<MatchList> {
    return this.#ask(at, async () => await this.#isUnmade(at) ? { matches: [], truncated: false }
      : this.#files.grepPage(pattern, { path: at.path, ...rest }));
  }

  edit(at: ZonePath, { old, new: text, all = false }: EditAsked): Promise<number> {
    return this.#ask(at, () => this.#files.edit(at.path, old, text, { all }));
  }

  async close(): Promise<void> {}

  /** A zone is there before anything is in it. */
  async #isUnmade(at: ZonePath): Promise<boolean> {
    return at.below === '' && !await this.#files.exists(at.path);
  }

  async #ask<T>(at: ZonePath, verb: () => Promise<T>): Promise<T> {
    if (!this.#zones.includes(at.zone))
      throw new ZoneError('ZONE_NOT_CONFIGURED', `the zone of '${at.path}' has no directory: a volume has only /workspace`, at.path);
    try {
      return await verb();
    } catch (error) {
      throw zoneErrorOf(error, at.path);
    }
  }
}

async function gather(bytes: ReadableStream<Uint8Array>, at: ZonePath): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  const reader = bytes.getReader(); // not every browser can iterate over a stream
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    pieces.push(next.value);
    size += next.value.length;
    if (size <= FILE_MAX) continue;
    await reader.cancel().catch(() => {});
    throw new ZoneError('TOO_LARGE', `'${at.path}' has more than ${FILE_MAX} bytes`, at.path);
  }
  const all = new Uint8Array(size);
  let end = 0;
  for (const piece of pieces) {
    all.set(piece, end);
    end += piece.length;
  }
  return all;
}
