import type { MatchList, PathList } from '../types.js';
import { LIST_MAX, type EditAsked, type GlobAsked, type GrepAsked, type ZoneBackend } from './backend.js';
import { ZoneError } from './errors.js';
import type { ZonePath } from './path.js';
import { globExpression, grepFiles, isLeftOut, replaceText } from './search.js';

const FOUND_MAX = 1000;

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

  async glob(at: ZonePath, { pattern, searchAll = false, limit = FOUND_MAX }: GlobAsked): Promise<PathList> {
    const expression = globExpression(pattern);
    if (isFile(this.#need(at))) throw notADirectory(at);
    const paths = this.#files(at).map(([path]) => path)
      .filter((path) => expression.test(path) && (searchAll || !isLeftOut(path, pattern)));
    return { paths: paths.slice(0, limit).map((path) => `${at.path}/${path}`), truncated: paths.length > limit };
  }

  async grep(at: ZonePath, asked: GrepAsked): Promise<MatchList> {
    const isSingle = isFile(this.#need(at));
    const files = this.#files(at).filter(([path]) => asked.searchAll || !isLeftOut(path, asked.include ?? ''));
    const { matches, truncated } = grepFiles(files, asked);
    return { matches: matches.map((match) => ({ ...match, path: isSingle ? at.path : `${at.path}/${match.path}` })), truncated };
  }

  async edit(at: ZonePath, asked: EditAsked): Promise<number> {
    const { text, count } = replaceText(new TextDecoder().decode(await this.read(at)), asked, at.path);
    await this.write(at, new TextEncoder().encode(text));
    return count;
  }

  async close(): Promise<void> {}

  /** All below, by their paths below it; a file is itself. */
  #files(at: ZonePath): [string, Uint8Array][] {
    const found: [string, Uint8Array][] = [];
    const walk = (node: Node, path: string): void => {
      if (isFile(node)) found.push([path, node]);
      else for (const [name, below] of node) walk(below, path === '' ? name : `${path}/${name}`);
    };
    const node = this.#need(at);
    walk(node, isFile(node) ? at.below.slice(at.below.lastIndexOf('/') + 1) : '');
    return found.sort(([a], [b]) => (a < b ? -1 : 1));
  }

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
    if (node === undefined) throw new ZoneError('NOT_FOUND', `'${at.path}' not found`, at.path);
    return node;
  }
}

function notADirectory(at: ZonePath): ZoneError {
  return new ZoneError('NOT_A_DIRECTORY', `'${at.path}': a part of the path is not a directory`, at.path);
}
