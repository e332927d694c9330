import { part, type CallOptions, type Client } from './client.js';
import type { ContextInfo } from './types.js';

export interface ContextSpec {
  /** python3, node24, ...; the sandbox's own when neither this nor a language is given. */
  runtime?: string;
  language?: string;
  /** The initial working directory. Default: /workspace. */
  cwd?: string;
  env?: Record<string, string>;
}

/** Interpreters of a jail, each with its own variables and working directory. `runCode` takes their ids as `context`. */
export class Contexts {
  readonly #client: Client;
  readonly #base: string;

  constructor(client: Client, base: string) {
    this.#client = client;
    this.#base = `${base}/contexts`;
  }

  /** Its interpreter is started by the first run. */
  create(options: ContextSpec & CallOptions = {}): Promise<ContextInfo> {
    const { signal, ...json } = options;
    return this.#client.json('POST', this.#base, { json, ...(signal ? { signal } : {}) });
  }

  async list(options: CallOptions = {}): Promise<ContextInfo[]> {
    return (await this.#client.json<{ contexts: ContextInfo[] }>('GET', this.#base, options)).contexts;
  }

  get(id: string, options: CallOptions = {}): Promise<ContextInfo> {
    return this.#client.json('GET', `${this.#base}/${part(id)}`, options);
  }

  /** Ends its interpreter; its variables are lost. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#client.request('DELETE', `${this.#base}/${part(id)}`, options);
  }

  /** Interrupts what it runs, as Ctrl-C does; its variables stay. */
  interrupt(id: string, options: CallOptions = {}): Promise<ContextInfo> {
    return this.#client.json('POST', `${this.#base}/${part(id)}/interrupt`, options);
  }

  /** A new interpreter in its place; its variables are lost. */
  restart(id: string, options: CallOptions = {}): Promise<ContextInfo> {
    return this.#client.json('POST', `${this.#base}/${part(id)}/restart`, options);
  }
}
