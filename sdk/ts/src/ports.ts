import type { CallOptions, Client } from './client.js';
import type { PortInfo, PortTokenInfo } from './types.js';

/** Servers inside a sandbox, reached from outside (docs/PORTS.md). */
export class Ports {
  readonly #client: Client;
  readonly #base: string;

  constructor(client: Client, base: string) {
    this.#client = client;
    this.#base = `${base}/ports`;
  }

  /** Exposes a port: to clients with a token for it, or to everyone. A server need not listen on it yet. */
  expose(port: number, options: CallOptions & { public?: boolean } = {}): Promise<PortInfo> {
    const { signal, ...json } = options;
    return this.#client.json('PUT', `${this.#base}/${port}`, { json, ...(signal ? { signal } : {}) });
  }

  async list(options: CallOptions = {}): Promise<PortInfo[]> {
    return (await this.#client.json<{ ports: PortInfo[] }>('GET', this.#base, options)).ports;
  }

  /** A token for one port; exposes the port if need be. `openUrl` lets a browser in, token included. */
  token(port: number, options: CallOptions & { seconds?: number } = {}): Promise<PortTokenInfo> {
    const { signal, ...json } = options;
    return this.#client.json('POST', `${this.#base}/${port}`, { json, ...(signal ? { signal } : {}) });
  }

  /** Its tokens are void. */
  async hide(port: number, options: CallOptions = {}): Promise<void> {
    await this.#client.request('DELETE', `${this.#base}/${port}`, options);
  }
}
