import { Client, type CallOptions } from './client.js';
import type { FileContent } from './files.js';
import { findObject, listObjects, makeObject, type Connection } from './objects.js';
import type { Page, SnapshotInfo } from './types.js';

/** From exactly one of dependencies, sandbox and directory. */
export interface SnapshotSpec {
  slug?: string;
  /** Package (npm name or pypi:NAME) to version; "" for the newest. */
  dependencies?: Record<string, string>;
  /** Id of the sandbox whose files it holds. */
  sandbox?: string;
  /** A directory of the server's machine; needs the scope admin. */
  directory?: string;
}

/** An immutable file tree on which any number of sandboxes can stand. */
export class Snapshot {
  readonly client: Client;
  info: SnapshotInfo;

  constructor(client: Client, info: SnapshotInfo) {
    this.client = client;
    this.info = info;
  }

  /** Answers when it is made. */
  static async create(options: SnapshotSpec & Connection & CallOptions): Promise<Snapshot> {
    return new Snapshot(...await makeObject<SnapshotInfo>('snapshots', options));
  }

  /** From a tar (plain, gzip or zstd), or from what `export` gave. */
  static async upload(archive: FileContent, options: { slug?: string; form?: 'tar' | 'export' } & Connection & CallOptions = {}): Promise<Snapshot> {
    const { client: connection, signal, ...query } = options;
    const client = Client.from(connection);
    const info = await client.json<SnapshotInfo>('POST', '/v1/snapshots/upload', { query, body: archive as BodyInit,
      headers: { 'content-type': 'application/octet-stream' }, ...(signal ? { signal } : {}) });
    return new Snapshot(client, info);
  }

  static async get(id: string, options: Connection & CallOptions = {}): Promise<Snapshot> {
    return new Snapshot(...await findObject<SnapshotInfo>('snapshots', id, options));
  }

  static async list(options: Page & Connection & CallOptions = {}): Promise<{ snapshots: SnapshotInfo[]; next: string | null }> {
    return listObjects('snapshots', options);
  }

  get id(): string {
    return this.info.id;
  }

  /** A tar.zst with a manifest, for `upload` with form "export", anywhere. */
  async export(options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const response = await this.client.request('GET', `/v1/snapshots/${this.id}/export`, options);
    return (response.body ?? new Blob([]).stream()) as ReadableStream<Uint8Array>;
  }

  /** Fails while a sandbox uses it. */
  async delete(options: CallOptions = {}): Promise<void> {
    await this.client.request('DELETE', `/v1/snapshots/${this.id}`, options);
  }
}
