import { part, type Client } from '../client.js';
import type { MatchList, PathList } from '../types.js';
import type { EditAsked, GlobAsked, GrepAsked, ZoneBackend } from './backend.js';
import { zoneErrorOf } from './errors.js';
import type { ZonePath } from './path.js';

/** Directories of a server's machine, which its configuration gives out by a name. */
export class HttpBackend implements ZoneBackend {
  readonly #client: Client;
  readonly #route: string;

  constructor(client: Client, zone: string) {
    this.#client = client;
    this.#route = `/v1/zones/${part(zone)}/files`;
  }

  read(at: ZonePath): Promise<Uint8Array> {
    return this.#ask(at, async () => {
      const response = await this.#client.request('GET', this.#route, { query: { path: at.path } });
      return new Uint8Array(await response.arrayBuffer());
    });
  }

  async write(at: ZonePath, content: Uint8Array): Promise<void> {
    const headers = { 'content-type': 'application/octet-stream' };
    await this.#ask(at, () => this.#client.request('PUT', this.#route,
      { query: { path: at.path }, body: content as unknown as BodyInit, headers }));
  }

  async delete(at: ZonePath, recursive: boolean): Promise<void> {
    await this.#ask(at, () => this.#client.request('DELETE', this.#route, { query: { path: at.path, recursive } }));
  }

  exists(at: ZonePath): Promise<boolean> {
    return this.#ask(at, async () => (await this.#look<{ exists: boolean }>('exists', at)).exists);
  }

  list(at: ZonePath): Promise<string[]> {
    return this.#ask(at, async () => (await this.#look<{ names: string[] }>('list', at)).names);
  }

  resolve(at: ZonePath): Promise<string> {
    return this.#ask(at, async () => (await this.#look<{ path: string }>('resolve', at)).path);
  }

  glob(at: ZonePath, asked: GlobAsked): Promise<PathList> {
    return this.#ask(at, () => this.#look<PathList>('glob', at, asked));
  }

  grep(at: ZonePath, asked: GrepAsked): Promise<MatchList> {
    return this.#ask(at, () => this.#look<MatchList>('grep', at, asked));
  }

  edit(at: ZonePath, asked: EditAsked): Promise<number> {
    return this.#ask(at, async () => (await this.#client.json<{ count: number }>('POST', `${this.#route}/edit`,
      { json: { path: at.path, ...asked } })).count);
  }

  async close(): Promise<void> {}

  #look<T>(verb: string, at: ZonePath, asked: object = {}): Promise<T> {
    return this.#client.json<T>('POST', `${this.#route}/${verb}`, { json: { path: at.path, ...asked }, repeatable: true });
  }

  async #ask<T>(at: ZonePath, verb: () => Promise<T>): Promise<T> {
    try {
      return await verb();
    } catch (error) {
      throw zoneErrorOf(error, at.path);
    }
  }
}
