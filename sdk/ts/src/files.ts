import type { CallOptions, Client } from './client.js';
import { NotFoundError } from './errors.js';
import type { FileChange, FileInfo, Match, MatchList, PathList } from './types.js';

export type FileContent = string | Uint8Array | Blob | ReadableStream<Uint8Array>;

export interface WriteOptions extends CallOptions {
  /** Permission bits, as in 0o644. */
  mode?: number;
  /** Refuse to replace. */
  isNew?: boolean;
  /** Only over the version that has this etag. */
  ifMatch?: string;
}

export interface ListOptions extends CallOptions {
  recursive?: boolean;
  limit?: number;
  /** Continue after this entry. */
  after?: string;
}

export interface GlobOptions extends CallOptions {
  path?: string;
  /** Also in .git, node_modules and .sandglass. */
  searchAll?: boolean;
  limit?: number;
}

export interface GrepOptions extends CallOptions {
  path?: string;
  /** Only in files like "*.ts". */
  include?: string;
  ignoreCase?: boolean;
  /** Also in .git, node_modules and .sandglass. */
  searchAll?: boolean;
  /** Lines around a match. */
  context?: number;
  limit?: number;
}

export interface SignOptions extends CallOptions {
  method?: 'GET' | 'PUT';
  expiresSeconds?: number;
}

/** Files of a sandbox, a session or a volume. Paths are absolute, as code inside sees them. */
export class Files {
  readonly #client: Client;
  readonly #base: string;

  /** `base` is like "/v1/sandboxes/ID". */
  constructor(client: Client, base: string) {
    this.#client = client;
    this.#base = base;
  }

  /** A file as text. */
  async read(path: string, options: CallOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.readBinary(path, options));
  }

  /** A file as bytes. */
  async readBinary(path: string, options: CallOptions = {}): Promise<Uint8Array> {
    const response = await this.#client.request('GET', `${this.#base}/files`, { query: { path }, ...options });
    return new Uint8Array(await response.arrayBuffer());
  }

  /** A file of any length, as its bytes come. */
  async download(path: string, options: CallOptions & { offset?: number } = {}): Promise<ReadableStream<Uint8Array>> {
    const { offset, ...rest } = options;
    const headers: Record<string, string> = offset ? { range: `bytes=${offset}-` } : {};
    const response = await this.#client.request('GET', `${this.#base}/files`, { query: { path }, headers, ...rest });
    return (response.body ?? new Blob([]).stream()) as ReadableStream<Uint8Array>;
  }

  /** Writes a whole file; readers see the old one until the end. Missing directories are made. */
  async write(path: string, content: FileContent, options: WriteOptions = {}): Promise<FileInfo> {
    const { mode, isNew, ifMatch, signal } = options;
    const { file } = await this.#client.json<{ file: FileInfo }>('PUT', `${this.#base}/files`, {
      query: { path, mode, new: isNew }, body: content as BodyInit, ...(signal ? { signal } : {}),
      headers: { 'content-type': 'application/octet-stream', ...(ifMatch ? { 'if-match': `"${ifMatch}"` } : {}) },
      // The same bytes twice are the same file, unless the first try may have been what is in the way.
      repeatable: !isNew && !ifMatch && !(content instanceof ReadableStream),
    });
    return file;
  }

  /** Writes from a stream, in pieces: for files that should not stand in memory. Browsers gather it into a Blob first. */
  upload(path: string, content: ReadableStream<Uint8Array> | Blob, options: WriteOptions = {}): Promise<FileInfo> {
    return this.write(path, content, options);
  }

  /** Names in a directory, with what they are. */
  async list(path = '/workspace', options: ListOptions = {}): Promise<FileInfo[]> {
    return (await this.listPage(path, options)).entries;
  }

  /** As list, and whether more entries follow the last one. */
  listPage(path = '/workspace', options: ListOptions = {}): Promise<{ entries: FileInfo[]; truncated: boolean }> {
    return this.#ask('list', { path, ...options });
  }

  /** What a path is; a link is what it leads to unless `follow` is false. */
  async stat(path: string, options: CallOptions & { follow?: boolean } = {}): Promise<FileInfo> {
    return (await this.#ask<{ file: FileInfo }>('stat', { path, ...options })).file;
  }

  async exists(path: string, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      if (error instanceof NotFoundError && error.path !== undefined) return false;
      throw error;
    }
  }

  /** Absolute paths of what is below a directory: `**`, `*`, `?`, `[a-z]`, `{a,b}`. */
  async glob(pattern: string, options: GlobOptions = {}): Promise<string[]> {
    return (await this.globPage(pattern, options)).paths;
  }

  /** As glob, and whether there are more. */
  globPage(pattern: string, options: GlobOptions = {}): Promise<PathList> {
    return this.#ask('glob', { pattern, ...options });
  }

  /** Lines that match a regular expression. */
  async grep(pattern: string, options: GrepOptions = {}): Promise<Match[]> {
    return (await this.grepPage(pattern, options)).matches;
  }

  /** As grep, and whether there are more. */
  grepPage(pattern: string, options: GrepOptions = {}): Promise<MatchList> {
    return this.#ask('grep', { pattern, ...options });
  }

  /** Replaces text, which must be there exactly once unless `all` is set; gives how often it was replaced. */
  async edit(path: string, oldText: string, newText: string, options: CallOptions & { all?: boolean } = {}): Promise<number> {
    const { all, ...rest } = options;
    const body = { path, old: oldText, new: newText, ...(all === undefined ? {} : { all }) };
    return (await this.#change<{ count: number }>('edit', { ...body, ...rest })).count;
  }

  /** Makes a directory and those above it. */
  async mkdir(path: string, options: CallOptions & { mode?: number } = {}): Promise<FileInfo> {
    return (await this.#change<{ file: FileInfo }>('mkdir', { path, parents: true, ...options })).file;
  }

  async move(from: string, to: string, options: CallOptions & { replace?: boolean } = {}): Promise<FileInfo> {
    return (await this.#change<{ file: FileInfo }>('move', { path: from, to, ...options })).file;
  }

  async chmod(path: string, mode: number, options: CallOptions = {}): Promise<FileInfo> {
    return (await this.#change<{ file: FileInfo }>('chmod', { path, mode, ...options })).file;
  }

  async symlink(path: string, target: string, options: CallOptions = {}): Promise<FileInfo> {
    return (await this.#change<{ file: FileInfo }>('symlink', { path, target, ...options })).file;
  }

  /** A directory that is not empty needs `recursive`. */
  async delete(path: string, options: CallOptions & { recursive?: boolean } = {}): Promise<void> {
    const { recursive, ...rest } = options;
    await this.#client.request('DELETE', `${this.#base}/files`, { query: { path, recursive }, ...rest });
  }

  /** Changes below a directory, until the loop ends. The watch starts with the first call of next(). */
  async *watch(path = '/workspace', options: CallOptions & { recursive?: boolean } = {}): AsyncGenerator<FileChange> {
    const { recursive, ...rest } = options;
    for await (const { event, data } of this.#client.events('GET', `${this.#base}/watch`, { query: { path, recursive }, ...rest })) {
      if (event === 'end') return;
      const { type, ...more } = data as { path: string; from?: string; type?: FileChange['kind'] };
      yield { type: event as FileChange['type'], ...more, ...(type === undefined ? {} : { kind: type }) };
    }
  }

  /** A URL that needs no token: for one file and one method, until it expires. */
  async signedUrl(path: string, options: SignOptions = {}): Promise<{ url: string; expiresAt: string }> {
    return this.#ask<{ url: string; expiresAt: string }>('sign', { path, ...options });
  }

  /** A tree as a tar archive. */
  async downloadTar(path = '/workspace', options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const response = await this.#client.request('GET', `${this.#base}/tar`, { query: { path }, ...options });
    return (response.body ?? new Blob([]).stream()) as ReadableStream<Uint8Array>;
  }

  /** Unpacks a tar archive (plain, gzip or zstd) into a directory; gives how many entries it had. */
  async uploadTar(path: string, archive: FileContent, options: CallOptions = {}): Promise<number> {
    const headers = { 'content-type': 'application/x-tar' };
    const { count } = await this.#client.json<{ count: number }>('PUT', `${this.#base}/tar`,
      { query: { path }, body: archive as BodyInit, headers, ...options });
    return count;
  }

  #ask<T>(verb: string, { signal, ...json }: CallOptions & Record<string, unknown>): Promise<T> {
    return this.#client.json<T>('POST', `${this.#base}/files/${verb}`, { json, repeatable: true, ...(signal ? { signal } : {}) });
  }

  #change<T>(verb: string, { signal, ...json }: CallOptions & Record<string, unknown>): Promise<T> {
    return this.#client.json<T>('POST', `${this.#base}/files/${verb}`, { json, ...(signal ? { signal } : {}) });
  }
}
