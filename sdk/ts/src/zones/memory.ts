import { LIST_MAX, type ZoneBackend } from './backend.js';
import { ZoneError } from './errors.js';
import type { ZonePath } from './path.js';

type Directory = Map<string, Node>;
type Node = Directory | Uint8Array;

const isFile = (node: Node): node is Uint8Array => node instanceof Uint8Array;

/** Nothing outlives the object: for tests. */
export class MemoryBackend implements ZoneBackend {
  readonly #zones: Record<string, Directory> = { workspace: new Map(), cache: new Map() };

  async read(at: ZonePath): Promise<Uint8Array> {
    const node = this.#need(at);
    if (!isFile(node)) throw new ZoneError('NOT_A_FILE', `'${at.path}' is a directory, not a regular file`, at.path);
    return node.slice();
  }

  async write(at: ZonePath, content: Uint8Array): Promise<void> {
    const names = at.below.split('/');
    const last = names.pop() as string;
    let directory = this.#zones[at.zone] as Directory;
    for (const name of names) {
      let next = directory.get(name);
      if (next === undefined) directory.set(name, next = new Map());
      if (isFile(next)) throw notADirectory(at);
      directory = next;
    }
    const there = directory.get(last);
    if (there !== undefined && !isFile(there)) throw new ZoneError('NOT_A_FILE', `'${at.path}' is a directory, not a regular file`, at.path);
    directory.set(last, content.slice());
  }

  async delete(at: ZonePath, recursive: boolean): Promise<void> {
    const node = this.#need(at);
    if (!isFile(node) && node.size > 0 && !recursive)
      throw new ZoneError('CONFLICT', `'${at.path}' is a directory that is not empty`, at.path);
    const slash = at.below.lastIndexOf('/');
    const parent = this.#find({ ...at, below: slash < 0 ? '' : at.below.slice(0, slash) }) as Directory;
    parent.delete(at.below.slice(slash + 1));
  }

  async exists(at: ZonePath): Promise<boolean> {
    try {
      return this.#find(at) !== undefined;
    } catch {
      return false; // below something that is not a directory
    }
  }

  async list(at: ZonePath): Promise<string[]> {
    const node = this.#need(at);
    if (isFile(node)) throw notADirectory(at);
    if (node.size > LIST_MAX) throw new ZoneError('TOO_MANY_RESULTS', `'${at.path}' has more than ${LIST_MAX} entries`, at.path);
    return [...node.keys()];
  }

  async resolve(at: ZonePath): Promise<string> {
    return at.path;
  }

  async close(): Promise<void> {}

  #find(at: ZonePath): Node | undefined {
    let node: Node | undefined = this.#zones[at.zone] as Directory;
    for (const name of at.below === '' ? [] : at.below.split('/')) {
      if (node === undefined) return undefined;
      if (isFile(node)) throw notADirectory(at);
      node = node.get(name);
    }
    return node;
  }

  #need(at: ZonePath): Node {
    const node = this.#find(at);
    if (node === undefined) throw new ZoneError('NOT_FOUND', `there is no '${at.path}'`, at.path);
    return node;
  }
}

function notADirectory(at: ZonePath): ZoneError {
  return new ZoneError('NOT_A_DIRECTORY', `'${at.path}': something on the way is not a directory`, at.path);
}
