import type { CallOptions, Client } from './client.js';
import { Files } from './files.js';
import { findObject, listObjects, makeObject, type Connection } from './objects.js';
import type { Page, Tier, TimeLimit, VolumeInfo } from './types.js';

export interface VolumeSpec {
  name?: string;
  tier?: Tier;
  capacityMb?: number;
  /** It is deleted this long after its last use. Left out, 0 or 'none': it stays. */
  ttlMs?: TimeLimit;
  /** Labels to find it by. */
  metadata?: Record<string, string>;
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
    return new Volume(...await makeObject<VolumeInfo>('volumes', options));
  }

  /** By id or name. */
  static async get(id: string, options: Connection & CallOptions = {}): Promise<Volume> {
    return new Volume(...await findObject<VolumeInfo>('volumes', id, options));
  }

  static async list(options: Page & Connection & CallOptions = {}): Promise<{ volumes: VolumeInfo[]; next: string | null }> {
    return listObjects('volumes', options);
  }

  get id(): string {
    return this.info.id;
  }

  /** Refused while a sandbox has it. */
  async delete(options: CallOptions = {}): Promise<void> {
    await this.client.request('DELETE', `/v1/volumes/${this.id}`, options);
  }
}
