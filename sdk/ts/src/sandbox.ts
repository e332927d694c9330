import { Client, type CallOptions } from './client.js';
import { Commands } from './commands.js';
import { Files } from './files.js';
import { findObject, listObjects, makeObject, type Connection } from './objects.js';
import { Ptys } from './pty.js';
import { runCode, type RunOptions, type RunResult } from './run.js';
import { callTool, systemPrompt, type ToolAnswer, type ToolName, type ToolTarget } from './tools.js';
import type { CheckpointInfo, Limits, Page, SandboxInfo, SandboxSpec, SandboxState, Secret } from './types.js';

export interface SandboxFilter extends Page {
  state?: SandboxState | SandboxState[];
  name?: string;
  metadata?: Record<string, string>;
}

/** What may change while a sandbox lives; what is left out stays. */
export interface SandboxChange {
  name?: string;
  metadata?: Record<string, string>;
  network?: string;
  secrets?: Secret[];
  limits?: Limits;
  timeoutMs?: number;
  idleMs?: number;
  onTimeout?: 'pause' | 'kill';
}

/** A place where untrusted code runs. */
export class Sandbox implements ToolTarget {
  readonly client: Client;
  readonly files: Files;
  readonly commands: Commands;
  readonly pty: Ptys;
  /** As it was when last asked for. */
  info: SandboxInfo;

  constructor(client: Client, info: SandboxInfo) {
    this.client = client;
    this.info = info;
    this.files = new Files(client, this.#base);
    this.commands = new Commands(client, this.#base);
    this.pty = new Ptys(client, this.#base);
  }

  /** Makes one; it runs when this gives it. */
  static async create(options: SandboxSpec & Connection & CallOptions = {}): Promise<Sandbox> {
    return new Sandbox(...await makeObject<SandboxInfo>('sandboxes', options));
  }

  /** One that is there, by its id. */
  static async get(id: string, options: Connection & CallOptions = {}): Promise<Sandbox> {
    return new Sandbox(...await findObject<SandboxInfo>('sandboxes', id, options));
  }

  /** Those that are there, the newest last. */
  static async list(options: SandboxFilter & Connection & CallOptions = {}): Promise<{ sandboxes: SandboxInfo[]; next: string | null }> {
    const { state, metadata, ...rest } = options;
    const labels = metadata && Object.entries(metadata).map(([key, value]) => `${key}=${value}`).join(',');
    const query = { state: Array.isArray(state) ? state.join(',') : state, metadata: labels };
    return listObjects('sandboxes', { ...rest, ...query });
  }

  get id(): string {
    return this.info.id;
  }

  get #base(): string {
    return `/v1/sandboxes/${this.info.id}`;
  }

  /** Runs code; variables live from one run to the next. What it does wrong is part of the result. */
  runCode(code: string, options: RunOptions = {}): Promise<RunResult> {
    return runCode(this.client, `${this.#base}/run_code`, code, options, this.info.tier !== 'jail');
  }

  /** Asks the server what it is now. */
  refresh(options: CallOptions = {}): Promise<this> {
    return this.#become('GET', '', options);
  }

  /** Keeps it, standing still, until something needs it. */
  pause(options: CallOptions = {}): Promise<this> {
    return this.#become('POST', '/pause', options);
  }

  resume(options: CallOptions = {}): Promise<this> {
    return this.#become('POST', '/resume', options);
  }

  /** Brings it to life whatever state it is in, and counts as work. */
  connect(options: CallOptions & { timeoutMs?: number } = {}): Promise<this> {
    return this.#change('/connect', { ...options });
  }

  /** Ends it. Its files go; its record and logs stay until it is deleted. */
  stop(options: CallOptions = {}): Promise<this> {
    return this.#become('POST', '/stop', options);
  }

  /** Stops it and forgets it. */
  async delete(options: CallOptions = {}): Promise<void> {
    await this.client.request('DELETE', this.#base, options);
  }

  /** New sandboxes that begin with this one's state, or with a checkpoint's. */
  async fork(options: CallOptions & { count?: number; checkpoint?: string } = {}): Promise<Sandbox[]> {
    const { signal, ...json } = options;
    const { sandboxes } = await this.client.json<{ sandboxes: SandboxInfo[] }>('POST', `${this.#base}/fork`,
      { json, ...(signal ? { signal } : {}) });
    return sandboxes.map((info) => new Sandbox(this.client, info));
  }

  /** Keeps its present state under a name of its own. */
  checkpoint(options: CallOptions & { name?: string } = {}): Promise<CheckpointInfo> {
    const { signal, ...json } = options;
    return this.client.json('POST', `${this.#base}/checkpoints`, { json, ...(signal ? { signal } : {}) });
  }

  /** Goes back to a checkpoint, by id or name. */
  rollback(checkpoint: string, options: CallOptions = {}): Promise<this> {
    return this.#change('/rollback', { checkpoint, ...options });
  }

  /** When it is paused (or killed); -1 for never. */
  setTimeout(timeoutMs: number, options: CallOptions & { onTimeout?: 'pause' | 'kill' } = {}): Promise<this> {
    return this.#change('/timeout', { timeoutMs, ...options });
  }

  async update(change: SandboxChange, options: CallOptions = {}): Promise<this> {
    this.info = await this.client.json<SandboxInfo>('PATCH', this.#base, { json: change, ...options });
    return this;
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

  async #become(method: string, verb: string, options: CallOptions): Promise<this> {
    this.info = await this.client.json<SandboxInfo>(method, this.#base + verb, options);
    return this;
  }

  async #change(verb: string, { signal, ...json }: CallOptions & Record<string, unknown>): Promise<this> {
    this.info = await this.client.json<SandboxInfo>('POST', this.#base + verb, { json, ...(signal ? { signal } : {}) });
    return this;
  }
}
