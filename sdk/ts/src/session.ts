import type { CallOptions, Client } from './client.js';
import { Commands } from './commands.js';
import { Files } from './files.js';
import { findObject, listObjects, makeObject, type Connection } from './objects.js';
import { runCode, type RunOptions, type RunResult } from './run.js';
import { Sandbox } from './sandbox.js';
import { callTool, systemPrompt, type ToolAnswer, type ToolName, type ToolTarget } from './tools.js';
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
export class Session implements ToolTarget {
  readonly client: Client;
  readonly files: Files;
  readonly commands: Commands;
  info: SessionInfo;

  constructor(client: Client, info: SessionInfo) {
    this.client = client;
    this.info = info;
    this.files = new Files(client, this.#base);
    this.commands = new Commands(client, this.#base);
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

  get id(): string {
    return this.info.id;
  }

  get #base(): string {
    return `/v1/sessions/${this.info.id}`;
  }

  /** Runs code in its sandbox, which is made or brought back when needed. */
  runCode(code: string, options: RunOptions = {}): Promise<RunResult> {
    return runCode(this.client, `${this.#base}/run_code`, code, options, this.info.tier !== 'jail');
  }

  async refresh(options: CallOptions = {}): Promise<this> {
    this.info = await this.client.json<SessionInfo>('GET', this.#base, options);
    return this;
  }

  /** Its sandbox, made or brought back. */
  async use(options: CallOptions = {}): Promise<Sandbox> {
    return new Sandbox(this.client, await this.client.json<SandboxInfo>('POST', `${this.#base}/use`, options));
  }

  /** Closes its sandbox now; its files stay. */
  async rest(options: CallOptions = {}): Promise<this> {
    this.info = await this.client.json<SessionInfo>('POST', `${this.#base}/rest`, options);
    return this;
  }

  /** With its sandbox, its volume and its modules. */
  async delete(options: CallOptions = {}): Promise<void> {
    await this.client.request('DELETE', this.#base, options);
  }

  /** Code that later runs may import by its path. */
  async saveModule(path: string, source: string, options: CallOptions = {}): Promise<void> {
    await this.client.request('PUT', `${this.#base}/modules`, { json: { path, source }, repeatable: true, ...options });
  }

  async listModules(options: CallOptions = {}): Promise<{ path: string; source: string; updatedAt: string | null }[]> {
    return (await this.client.json<{ modules: { path: string; source: string; updatedAt: string | null }[] }>(
      'GET', `${this.#base}/modules`, options)).modules;
  }

  async deleteModule(path: string, options: CallOptions = {}): Promise<void> {
    await this.client.request('DELETE', `${this.#base}/modules`, { query: { path }, ...options });
  }

  callTool(name: ToolName, args: Record<string, unknown>, options: CallOptions = {}): Promise<ToolAnswer> {
    return callTool(this.client, this.#base, name, args, options);
  }

  systemPrompt(options: CallOptions = {}): Promise<string> {
    return systemPrompt(this.client, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete();
  }
}
