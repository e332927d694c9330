import type { CallOptions, Client } from './client.js';
import { findObject, listObjects, makeObject, type Connection } from './objects.js';
import { Place } from './place.js';
import { Ports } from './ports.js';
import { Ptys } from './pty.js';
import type { CheckpointInfo, Limits, Page, SandboxInfo, SandboxSpec, SandboxState, Secret, TimeLimit, Usage } from './types.js';

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
  timeoutMs?: TimeLimit;
  idleMs?: TimeLimit;
  onTimeout?: 'pause' | 'kill';
}

/** A place where untrusted code runs. */
export class Sandbox extends Place<SandboxInfo> {
  readonly ports: Ports;
  readonly pty: Ptys;

  constructor(client: Client, info: SandboxInfo) {
    super(client, info, 'sandboxes');
    this.ports = new Ports(client, this.base);
    this.pty = new Ptys(client, this.base);
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

  /** Keeps it, standing still, until something needs it. */
  pause(options: CallOptions = {}): Promise<this> {
    return this.become('POST', '/pause', options);
  }

  resume(options: CallOptions = {}): Promise<this> {
    return this.become('POST', '/resume', options);
  }

  /** Brings it to life whatever state it is in, and counts as work. */
  connect(options: CallOptions & { timeoutMs?: TimeLimit } = {}): Promise<this> {
    return this.#change('/connect', { ...options });
  }

  /** Ends it. Its files go; its record and logs stay until it is deleted. */
  stop(options: CallOptions = {}): Promise<this> {
    return this.become('POST', '/stop', options);
  }

  /** New sandboxes that begin with this one's state, or with a checkpoint's; `info.contexts` tells which variables came along. */
  async fork(options: CallOptions & { count?: number; checkpoint?: string } = {}): Promise<Sandbox[]> {
    const { signal, ...json } = options;
    const { sandboxes } = await this.client.json<{ sandboxes: SandboxInfo[] }>('POST', `${this.base}/fork`,
      { json, ...(signal ? { signal } : {}) });
    return sandboxes.map((info) => new Sandbox(this.client, info));
  }

  /** Keeps its present state under a name of its own. */
  checkpoint(options: CallOptions & { name?: string } = {}): Promise<CheckpointInfo> {
    const { signal, ...json } = options;
    return this.client.json('POST', `${this.base}/checkpoints`, { json, ...(signal ? { signal } : {}) });
  }

  /** Goes back to a checkpoint, by id or name. */
  rollback(checkpoint: string, options: CallOptions = {}): Promise<this> {
    return this.#change('/rollback', { checkpoint, ...options });
  }

  /** When it is paused (or killed), from now on; 0 or 'none' for never. */
  setTimeout(timeoutMs: TimeLimit, options: CallOptions & { onTimeout?: 'pause' | 'kill' } = {}): Promise<this> {
    return this.#change('/timeout', { timeoutMs, ...options });
  }

  /** A URL of a server inside, for a browser: with a token for the port, or without one when it is public. */
  async getUrl(port: number, options: CallOptions & { public?: boolean; seconds?: number } = {}): Promise<string> {
    const { public: isPublic, seconds, ...rest } = options;
    if (isPublic) return (await this.ports.expose(port, { public: true, ...rest })).url;
    return (await this.ports.token(port, { ...rest, ...(seconds === undefined ? {} : { seconds }) })).openUrl;
  }

  /** The public address of a port without its scheme and the "/" at its end: `http://${await sandbox.getHost(3000)}/`. */
  async getHost(port: number, options: CallOptions = {}): Promise<string> {
    return (await this.getUrl(port, { ...options, public: true })).replace(/^https?:\/\//, '').replace(/\/$/, '');
  }

  /** What it uses now, beside its limits. */
  usage(options: CallOptions = {}): Promise<Usage> {
    return this.client.json('GET', `${this.base}/usage`, options);
  }

  async update(change: SandboxChange, options: CallOptions = {}): Promise<this> {
    this.info = await this.client.json<SandboxInfo>('PATCH', this.base, { json: change, ...options });
    return this;
  }

  async #change(verb: string, { signal, ...json }: CallOptions & Record<string, unknown>): Promise<this> {
    this.info = await this.client.json<SandboxInfo>('POST', this.base + verb, { json, ...(signal ? { signal } : {}) });
    return this;
  }
}
