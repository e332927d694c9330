import { part, type CallOptions, type Client } from './client.js';
import type { CommandInfo, TimeLimit } from './types.js';

export interface CommandOptions extends CallOptions {
  /** Default: /workspace. */
  cwd?: string;
  env?: Record<string, string>;
  user?: string;
  /** What it reads first. */
  input?: string;
  /** Input follows with `Command.write`. */
  stdin?: boolean;
  timeoutMs?: TimeLimit;
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
}

/** Output that did not come. */
export interface MissingOutput {
  bytes: number;
  /** Where it is known. */
  lines?: number | null;
}

/** A command that has ended. */
export interface CommandResult extends CommandInfo {
  stdout: string;
  stderr: string;
  /** What stdout and stderr do not hold, by stream; null when they are whole. Without onStdout and onStderr
   * they hold at most 1 MiB each. */
  leftOut: { stdout?: MissingOutput; stderr?: MissingOutput; tty?: MissingOutput; hint?: string } | null;
}

/** A piece of what a command puts out. */
export interface CommandOutput {
  stream: 'stdout' | 'stderr' | 'tty';
  text: string;
  bytes: Uint8Array;
  /** Offset after this piece. */
  nextOffset: number;
  /** Output of this stream before this piece that the log does not keep. */
  missing?: MissingOutput;
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

  /**
   * Runs to the end. A command that fails has an exitCode other than 0; that is no exception. Aborting `signal` ends the
   * command: it is interrupted (INT), and killed when it still runs two seconds later.
   */
  async run(command: CommandLine, options: CommandOptions = {}): Promise<CommandResult> {
    const { onStdout, onStderr, signal, ...rest } = options;
    const json = { ...lineOf(command), ...rest };
    if (!onStdout && !onStderr && !signal) return this.#client.json<CommandResult>('POST', `${this.#base}/commands`, { json });
    signal?.throwIfAborted();
    const isWhole = onStdout !== undefined || onStderr !== undefined;
    const output = { stdout: new Gathered(isWhole), stderr: new Gathered(isWhole) };
    const pieces = new Pieces();
    const ending = new Ending(this.#client, signal);
    try {
      for await (const { event, data } of this.#client.events('POST', `${this.#base}/commands`, { json, signal: ending.stream })) {
        if (event === 'started') {
          ending.started((data as CommandInfo).id);
        } else if (event === 'stdout' || event === 'stderr') {
          const { text } = pieces.take(event, data, undefined);
          output[event].add(text);
          (event === 'stdout' ? onStdout : onStderr)?.(text);
        } else if (event === 'gap') {
          pieces.miss(data);
        } else if (event === 'error') {
          throw new Error((data as { message?: string }).message ?? 'the stream of the command failed');
        } else if (event === 'end' && (data as CommandInfo).id !== undefined && !signal?.aborted) {
          const { stdout, stderr } = output;
          return { ...data as CommandInfo, stdout: stdout.text, stderr: stderr.text, leftOut: leftOutOf(pieces.leftOut, output) };
        }
      }
    } catch (error) {
      if (!signal?.aborted) throw error;
    } finally {
      await ending.done();
    }
    signal?.throwIfAborted();
    throw new Error('the stream ended before the command did; it keeps running: see commands.list()');
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

  /** Waits for its end; TimeoutError when it still runs after `timeoutMs`, and it keeps running. */
  async wait(options: CallOptions & { timeoutMs?: number } = {}): Promise<CommandInfo> {
    const { signal, ...json } = options;
    this.info = await this.#client.json<CommandInfo>('POST', `/v1/commands/${this.id}/wait`,
      { json, repeatable: true, ...(signal ? { signal } : {}) });
    return this.info;
  }

  /** Its output from `offset` on, and with `follow` what comes until its end: all of it, a command that is
   * faster than its reader waits. */
  async *output(options: CallOptions & { offset?: number; follow?: boolean } = {}): AsyncGenerator<CommandOutput> {
    const { offset = 0, follow = true, signal } = options;
    const request = { query: { offset, follow }, ...(signal ? { signal } : {}) };
    const pieces = new Pieces();
    for await (const { event, id, data } of this.#client.events('GET', `/v1/commands/${this.id}/logs`, request)) {
      if (event === 'stdout' || event === 'stderr' || event === 'tty') yield pieces.take(event, data, id);
      else if (event === 'gap') pieces.miss(data);
      else if (event === 'error') throw new Error((data as { message?: string }).message ?? 'cannot read the log');
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

/** How long a command may take to heed an interrupt, and a server to say that it has started one. */
const GRACE_MS = 2000;

/** Ends a command when the caller's signal is aborted, also one of which the server has not told yet. */
class Ending {
  readonly #client: Client;
  readonly #signal: AbortSignal | undefined;
  readonly #controller = new AbortController();
  readonly #onAbort = (): void => { this.#end(); };
  #id: string | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #ended: Promise<void> | undefined;

  constructor(client: Client, signal: AbortSignal | undefined) {
    this.#client = client;
    this.#signal = signal;
    signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** Ends the stream, once the command was told. */
  get stream(): AbortSignal {
    return this.#controller.signal;
  }

  started(id: string): void {
    this.#id = id;
    if (this.#signal?.aborted) this.#end();
  }

  #end(): void {
    clearTimeout(this.#timer);
    if (this.#id === undefined) this.#timer = setTimeout(() => this.#controller.abort(), GRACE_MS);
    else this.#ended ??= this.#interrupt(`/v1/commands/${part(this.#id)}`).finally(() => this.#controller.abort());
  }

  /** A command that has ended meanwhile cannot be told anything: that is what was wanted. */
  async #interrupt(base: string): Promise<void> {
    try {
      await this.#client.request('POST', `${base}/signal`, { json: { signal: 'INT' } });
      await this.#client.request('POST', `${base}/wait`, { json: { timeoutMs: GRACE_MS } });
    } catch {
      await this.#client.request('POST', `${base}/kill`).catch(() => undefined);
    }
  }

  async done(): Promise<void> {
    this.#signal?.removeEventListener('abort', this.#onAbort);
    clearTimeout(this.#timer);
    await this.#ended;
  }
}

const GATHERED_MAX = 1 << 20;

/** All of a text, or its first and its last half MiB, as in answers that are no stream. */
class Gathered {
  readonly #isWhole: boolean;
  #head = '';
  #tail = '';
  cut = 0;

  constructor(isWhole: boolean) {
    this.#isWhole = isWhole;
  }

  add(text: string): void {
    const room = this.#isWhole ? text.length : Math.max(GATHERED_MAX / 2 - this.#head.length, 0);
    this.#head += text.slice(0, room);
    this.#tail += text.slice(room);
    if (this.#tail.length > GATHERED_MAX) this.#shorten();
  }

  #shorten(): void {
    const from = Math.max(this.#tail.length - GATHERED_MAX / 2, 0);
    this.cut += from;
    this.#tail = this.#tail.slice(from);
  }

  get text(): string {
    this.#shorten();
    return this.cut === 0 ? this.#head + this.#tail : `${this.#head}\n... ${this.cut} characters left out ...\n${this.#tail}`;
  }
}

function leftOutOf(missing: CommandResult['leftOut'], output: { stdout: Gathered; stderr: Gathered }): CommandResult['leftOut'] {
  const all = { ...missing };
  for (const stream of ['stdout', 'stderr'] as const)
    if (output[stream].cut > 0) all[stream] = { bytes: (all[stream]?.bytes ?? 0) + output[stream].cut, lines: null };
  return Object.keys(all).length === 0 ? null : all;
}

/** Pieces of output as they come. Bytes that are no UTF-8 come as base64; a character may begin in one piece and end
 * in the next. */
class Pieces {
  readonly #decoders = new Map<string, TextDecoder>();
  readonly #missing = new Map<string, MissingOutput>();
  leftOut: CommandResult['leftOut'] = null;

  miss(data: unknown): void {
    const { stream, bytes, lines } = data as { stream: CommandOutput['stream']; bytes: number; lines: number | null };
    this.#missing.set(stream, { bytes, lines });
    const before = this.leftOut?.[stream];
    this.leftOut = { ...this.leftOut, [stream]: { bytes: bytes + (before?.bytes ?? 0),
      lines: lines === null || before?.lines === null ? null : lines + (before?.lines ?? 0) } };
  }

  take(stream: CommandOutput['stream'], data: unknown, id: string | undefined): CommandOutput {
    const { text, base64, offset = 0 } = data as { text?: string; base64?: string; offset?: number };
    const bytes = base64 === undefined ? new TextEncoder().encode(text ?? '')
      : Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    let decoder = this.#decoders.get(stream);
    if (!decoder) this.#decoders.set(stream, decoder = new TextDecoder('utf-8', { ignoreBOM: true }));
    const missing = this.#missing.get(stream);
    this.#missing.delete(stream);
    return { stream, bytes, text: decoder.decode(bytes, { stream: true }),
      nextOffset: id === undefined ? offset + bytes.length : Number(id), ...(missing ? { missing } : {}) };
  }
}
