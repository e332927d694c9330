import type { CallOptions, Client } from './client.js';
import { findObject, listObjects, makeObject, type Connection } from './objects.js';
import { Place } from './place.js';
import { Sandbox } from './sandbox.js';
import type { Page, SandboxInfo, SandboxSpec, SessionInfo, TimeLimit } from './types.js';

export interface SessionSpec {
  /** Of your choice; left out: a random one. */
  id?: string;
  name?: string;
  /** Make its sandbox at once. */
  warm?: boolean;
  /** Its sandbox is closed after so long without work; its files stay. */
  idleMs?: TimeLimit;
  /** Its files are deleted after so long without use; 0: never; left out: as the server is configured. */
  volumeTtlMs?: TimeLimit;
  sandbox?: SandboxSpec;
}

/** What search finds a module by. */
export interface ModuleAbout {
  description?: string;
  exports?: string[];
  /** An example. */
  usage?: string;
  /** user: sessions of the same tenant find it too. */
  scope?: 'session' | 'user';
}

export interface SavedModule {
  path: string;
  source: string;
  description: string | null;
  exports: string[];
  usage: string | null;
  scope: 'session' | 'user';
  updatedAt: string | null;
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

  /** Code that later runs may import by its path, and search finds. Without source: a file of /workspace. */
  async saveModule(path: string, source: string | undefined, options: ModuleAbout & CallOptions = {}): Promise<void> {
    const { signal, ...about } = options;
    await this.client.request('PUT', `${this.base}/modules`, {
      json: { path, ...(source === undefined ? {} : { source }), ...about }, repeatable: true, ...(signal ? { signal } : {}) });
  }

  async listModules(options: CallOptions = {}): Promise<SavedModule[]> {
    return (await this.client.json<{ modules: SavedModule[] }>('GET', `${this.base}/modules`, options)).modules;
  }

  async deleteModule(path: string, options: CallOptions = {}): Promise<void> {
    await this.client.request('DELETE', `${this.base}/modules`, { query: { path }, ...options });
  }
}
