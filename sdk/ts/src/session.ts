import type { CallOptions, Client } from './client.js';
import { findObject, listObjects, makeObject, type Connection } from './objects.js';
import { Place } from './place.js';
import { Sandbox } from './sandbox.js';
import type { Page, SandboxInfo, SandboxSpec, SessionInfo } from './types.js';

export interface SessionSpec {
  /** Of your choice; left out: a random one. */
  id?: string;
  name?: string;
  /** Make its sandbox at once. */
  warm?: boolean;
  /** Its sandbox is closed after so long without work; its files stay. */
  idleMs?: number;
  sandbox?: SandboxSpec;
}

/** A caller's line of work: at most one sandbox, made when needed, and a volume that stays. */
export class Session extends Place<SessionInfo> {
  constructor(client: Client, info: SessionInfo) {
    super(client, info, 'sessions');
  }

  static async create(options: SessionSpec & Connection & CallOptions = {}): Promise<Session> {
    return new Session(...await makeObject<SessionInfo>('sessions', options));
  }

  static async get(id: string, options: Connection & CallOptions = {}): Promise<Session> {
    return new Session(...await findObject<SessionInfo>('sessions', id, options));
  }

  static async list(options: Page & Connection & CallOptions = {}): Promise<{ sessions: SessionInfo[]; next: string | null }> {
    return listObjects('sessions', options);
  }

  /** Its sandbox, made or brought back. */
  async use(options: CallOptions = {}): Promise<Sandbox> {
    return new Sandbox(this.client, await this.client.json<SandboxInfo>('POST', `${this.base}/use`, options));
  }

  /** Closes its sandbox now; its files stay. */
  rest(options: CallOptions = {}): Promise<this> {
    return this.become('POST', '/rest', options);
  }

  /** Code that later runs may import by its path. */
  async saveModule(path: string, source: string, options: CallOptions = {}): Promise<void> {
    await this.client.request('PUT', `${this.base}/modules`, { json: { path, source }, repeatable: true, ...options });
  }

  async listModules(options: CallOptions = {}): Promise<{ path: string; source: string; updatedAt: string | null }[]> {
    return (await this.client.json<{ modules: { path: string; source: string; updatedAt: string | null }[] }>(
      'GET', `${this.base}/modules`, options)).modules;
  }

  async deleteModule(path: string, options: CallOptions = {}): Promise<void> {
    await this.client.request('DELETE', `${this.base}/modules`, { query: { path }, ...options });
  }
}
