import { Client, idempotencyKey, type CallOptions } from './client.js';
import { Files } from './files.js';
import type { Connection } from './sandbox.js';
import type { Page, Tier, VolumeInfo } from './types.js';

export interface VolumeSpec {
  name?: string;
  tier?: Tier;
  capacityMb?: number;
  /** It goes this long after its last use; -1: it stays. */
  ttlMs?: number;
}

/** A durable directory, mounted at /workspace; it outlives sandboxes. */
export class Volume {
  readonly client: Client;
  /** Also when no sandbox has it. */
  readonly files: Files;
  info: VolumeInfo;

  constructor(client: Client, info: VolumeInfo) {
    this.client = client;
    this.info = info;
    this.files = new Files(client, `/v1/volumes/${info.id}`);
  }

  static async create(options: VolumeSpec & Connection & CallOptions = {}): Promise<Volume> {
    const { client: connection, signal, ...spec } = options;
    const client = Client.from(connection);
    const info = await client.json<VolumeInfo>('POST', '/v1/volumes', { json: spec, repeatable: true,
      headers: { 'idempotency-key': idempotencyKey() }, ...(signal ? { signal } : {}) });
    return new Volume(client, info);
  }

  /** By id or name. */
  static async get(id: string, options: Connection & CallOptions = {}): Promise<Volume> {
    const { client: connection, ...rest } = options;
    const client = Client.from(connection);
    return new Volume(client, await client.json<VolumeInfo>('GET', `/v1/volumes/${encodeURIComponent(id)}`, rest));
  }

  static async list(options: Page & Connection & CallOptions = {}): Promise<{ volumes: VolumeInfo[]; next: string | null }> {
    const { client: connection, signal, ...query } = options;
    return Client.from(connection).json('GET', '/v1/volumes', { query: { ...query }, ...(signal ? { signal } : {}) });
  }

  get id(): string {
    return this.info.id;
  }

  /** Refused while a sandbox has it. */
  async delete(options: CallOptions = {}): Promise<void> {
    await this.client.request('DELETE', `/v1/volumes/${this.id}`, options);
  }
}
