import { part, type CallOptions, type Client } from './client.js';
import type { CommandInfo } from './types.js';

export interface CommandOptions extends CallOptions {
  /** /workspace when left out. */
  cwd?: string;
  env?: Record<string, string>;
  user?: string;
  /** What it reads first. */
  input?: string;
  /** Input follows with `Command.write`. */
  stdin?: boolean;
  timeoutMs?: number;
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
}

/** A command that has ended. */
export interface CommandResult extends CommandInfo {
  stdout: string;
  stderr: string;
}

/** A piece of what a command puts out. */
export interface CommandOutput {
  stream: 'stdout' | 'stderr' | 'tty';
  text: string;
  bytes: Uint8Array;
  /** Where to go on behind this piece. */
  nextOffset: number;
}

/** A command for sh -c, or program and arguments. */
export type CommandLine = string | string[];

/** Commands of a sandbox or a session. */
export class Commands {
  readonly #client: Client;
  readonly #base: string;

  constructor(client: Client, base: string) {
    this.#client = client;
    this.#base = base;
  }

  /** Runs to the end. A command that fails has an exitCode other than 0; that is no exception. */
  async run(command: CommandLine, options: CommandOptions = {}): Promise<CommandResult> {
    const { onStdout, onStderr, signal, ...rest } = options;
    const request = { json: { ...lineOf(command), ...rest }, ...(signal ? { signal } : {}) };
    if (!onStdout && !onStderr)
      return this.#client.json<CommandResult>('POST', `${this.#base}/commands`, request);
    const output = { stdout: '', stderr: '' };
    for await (const { event, data } of this.#client.events('POST', `${this.#base}/commands`, request)) {
      if (event === 'stdout' || event === 'stderr') {
        const { text } = pieceOf(event, data, undefined);
        output[event] += text;
        (event === 'stdout' ? onStdout : onStderr)?.(text);
      } else if (event === 'end') {
        return { ...data as CommandInfo, ...output };
      }
    }
    throw new Error('the stream ended before the command did; it goes on: see commands.list()');
  }

  /** Starts one and does not wait for its end. It outlives this program. */
  async start(command: CommandLine, options: Omit<CommandOptions, 'onStdout' | 'onStderr'> = {}): Promise<Command> {
    const { signal, ...rest } = options;
    const info = await this.#client.json<CommandInfo>('POST', `${this.#base}/commands`,
      { json: { ...lineOf(command), ...rest, detached: true }, ...(signal ? { signal } : {}) });
    return new Command(this.#client, info);
  }

  /** One that was started before, by its id. */
  async connect(id: string, options: CallOptions = {}): Promise<Command> {
    return new Command(this.#client, await this.#client.json<CommandInfo>('GET', `/v1/commands/${part(id)}`, options));
  }

  /** Of a sandbox; those of a session are those of its sandbox. */
  async list(options: CallOptions & { running?: boolean; limit?: number; after?: string } = {}): Promise<CommandInfo[]> {
    const { signal, ...query } = options;
    const { commands } = await this.#client.json<{ commands: CommandInfo[] }>('GET', `${this.#base}/commands`,
      { query, ...(signal ? { signal } : {}) });
    return commands;
  }

  /** Kills one, with all its children. */
  async kill(id: string, options: CallOptions = {}): Promise<void> {
    await this.#client.request('POST', `/v1/commands/${part(id)}/kill`, options);
  }
}

/** A command that was started. */
export class Command {
  readonly #client: Client;
  /** As it was when last asked for. */
  info: CommandInfo;

  constructor(client: Client, info: CommandInfo) {
    this.#client = client;
    this.info = info;
  }

  get id(): string {
    return this.info.id;
  }

  /** Waits for its end; TimeoutError when it still runs after `timeoutMs`, and it goes on. */
  async wait(options: CallOptions & { timeoutMs?: number } = {}): Promise<CommandInfo> {
    const { signal, ...json } = options;
    this.info = await this.#client.json<CommandInfo>('POST', `/v1/commands/${this.id}/wait`,
      { json, repeatable: true, ...(signal ? { signal } : {}) });
    return this.info;
  }

  /** What it has put out from `offset` on, and with `follow` what comes until its end. */
  async *output(options: CallOptions & { offset?: number; follow?: boolean } = {}): AsyncGenerator<CommandOutput> {
    const { offset = 0, follow = true, signal } = options;
    const request = { query: { offset, follow }, ...(signal ? { signal } : {}) };
    for await (const { event, id, data } of this.#client.events('GET', `/v1/commands/${this.id}/logs`, request)) {
      if (event === 'stdout' || event === 'stderr' || event === 'tty') yield pieceOf(event, data, id);
      else if (event === 'end' && (data as CommandInfo).id !== undefined) this.info = data as CommandInfo;
    }
  }

  /** All that it has put out so far, as text. */
  async text(stream: 'stdout' | 'stderr' | 'all' = 'all', options: CallOptions = {}): Promise<string> {
    const response = await this.#client.request('GET', `/v1/commands/${this.id}/output`, { query: { stream }, ...options });
    return response.text();
  }

  /** To its standard input; needs `stdin: true` at its start. */
  async write(input: string | Uint8Array, options: CallOptions & { close?: boolean } = {}): Promise<void> {
    const { close, ...rest } = options;
    await this.#client.request('POST', `/v1/commands/${this.id}/stdin`, { query: { close }, body: input as BodyInit,
      headers: { 'content-type': 'application/octet-stream' }, ...rest });
  }

  /** TERM, INT, HUP, KILL, ... */
  async signal(signal: string, options: CallOptions = {}): Promise<void> {
    await this.#client.request('POST', `/v1/commands/${this.id}/signal`, { json: { signal }, ...options });
  }

  async kill(options: CallOptions = {}): Promise<void> {
    await this.#client.request('POST', `/v1/commands/${this.id}/kill`, options);
  }
}

export function lineOf(command: CommandLine): { command: string } | { argv: string[] } {
  return typeof command === 'string' ? { command } : { argv: command };
}

/** Bytes that are no UTF-8 come as base64. */
function pieceOf(stream: CommandOutput['stream'], data: unknown, id: string | undefined): CommandOutput {
  const { text, base64, offset = 0 } = data as { text?: string; base64?: string; offset?: number };
  const bytes = base64 === undefined ? new TextEncoder().encode(text ?? '')
    : Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return { stream, bytes, text: text ?? new TextDecoder().decode(bytes),
    nextOffset: id === undefined ? offset + bytes.length : Number(id) };
}
