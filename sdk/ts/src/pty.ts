import { part, type CallOptions, type Client } from './client.js';
import { Command, lineOf, type CommandLine } from './commands.js';
import { errorOf } from './errors.js';
import type { CommandInfo, TimeLimit } from './types.js';

export interface PtyOptions extends CallOptions {
  rows?: number;
  cols?: number;
  cwd?: string;
  env?: Record<string, string>;
  timeoutMs?: TimeLimit;
  /** The terminal's bytes. */
  onData?: (bytes: Uint8Array) => void;
}

export interface AttachOptions extends CallOptions {
  onData?: (bytes: Uint8Array) => void;
  /** Where the replay of output begins. Default: 64 KiB before the end. */
  offset?: number;
}

/** Terminals of a sandbox. They outlive the connection: see `connect`. */
export class Ptys {
  readonly #client: Client;
  readonly #base: string;

  constructor(client: Client, base: string) {
    this.#client = client;
    this.#base = base;
  }

  /** A shell, or another command, in a terminal of its own. */
  async create(command: CommandLine = ['/bin/bash'], options: PtyOptions = {}): Promise<Pty> {
    const { onData, signal, ...rest } = options;
    const info = await this.#client.json<CommandInfo>('POST', `${this.#base}/commands`,
      { json: { ...lineOf(command), ...rest, tty: true }, ...(signal ? { signal } : {}) });
    return Pty.attach(this.#client, info, { offset: 0, ...(onData ? { onData } : {}), ...(signal ? { signal } : {}) });
  }

  /** One that was made before. */
  async connect(id: string, options: AttachOptions = {}): Promise<Pty> {
    const info = await this.#client.json<CommandInfo>('GET', `/v1/commands/${part(id)}`);
    return Pty.attach(this.#client, info, options);
  }
}

/** How bytes come and go: a WebSocket where its handshake can carry the token, else a stream and requests. */
interface Line {
  send(bytes: Uint8Array): Promise<void>;
  resize(rows: number, cols: number): Promise<void>;
  close(): void;
}

/** One connection to a terminal. */
export class Pty {
  readonly command: Command;
  readonly #line: Line;
  /** When the command has ended; rejects when the connection breaks first. */
  readonly exited: Promise<CommandInfo>;
  readonly #place: Place;

  private constructor(command: Command, { line, exited }: Opened, place: Place) {
    this.command = command;
    this.#line = line;
    this.#place = place;
    this.exited = exited;
    exited.catch(() => {}); // an unhandled rejection would end the program; callers that wait still get it
  }

  get id(): string {
    return this.command.id;
  }

  /** Behind the last byte seen, counted from the terminal's beginning: for a later connect. */
  get offset(): number {
    return this.#place.offset;
  }

  /** Keys, as the terminal would send them. */
  write(input: string | Uint8Array): Promise<void> {
    return this.#line.send(typeof input === 'string' ? new TextEncoder().encode(input) : input);
  }

  resize(rows: number, cols: number): Promise<void> {
    return this.#line.resize(rows, cols);
  }

  kill(): Promise<void> {
    return this.command.kill();
  }

  /** Detaches from the terminal; its command keeps running. */
  disconnect(): void {
    this.#line.close();
  }

  /** @internal */
  static async attach(client: Client, info: CommandInfo, options: AttachOptions): Promise<Pty> {
    const command = new Command(client, info);
    const open = client.canSendHeadersOnWebSocket ? socketLine : streamLine;
    const place = { offset: 0, onData: options.onData };
    return new Pty(command, await open(client, command, options, place), place);
  }
}

/** How far the terminal was read. */
interface Place {
  offset: number;
  onData: ((bytes: Uint8Array) => void) | undefined;
}

interface Opened {
  line: Line;
  exited: Promise<CommandInfo>;
}

function pass(place: Place, bytes: Uint8Array, end: number): void {
  place.offset = end;
  place.onData?.(bytes);
}

function socketLine(client: Client, command: Command, options: AttachOptions, place: Place): Promise<Opened> {
  const query = options.offset === undefined ? '' : `?offset=${options.offset}`;
  const socket = client.webSocket(`/v1/commands/${command.id}/tty${query}`);
  socket.binaryType = 'arraybuffer';
  const line: Line = {
    send: async (bytes) => socket.send(bytes as Uint8Array<ArrayBuffer>),
    resize: async (rows, cols) => socket.send(JSON.stringify({ type: 'resize', rows, cols })),
    close: () => socket.close(),
  };
  options.signal?.addEventListener('abort', () => socket.close(), { once: true });
  return new Promise((opened, failed) => {
    const exited = new Promise<CommandInfo>((resolve, reject) => {
      socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
        if (typeof data !== 'string') return pass(place, new Uint8Array(data), place.offset + data.byteLength);
        const word = JSON.parse(data) as { type: string; offset?: number; command?: CommandInfo };
        if (word.type === 'attached') {
          place.offset = word.offset ?? 0;
          opened({ line, exited });
        }
        if (word.type === 'end' && word.command) {
          command.info = word.command;
          resolve(word.command);
        }
      };
      socket.onclose = ({ code, reason }: CloseEvent) => {
        const error = errorOf('unavailable', `the terminal's connection was closed (${code} ${reason})`);
        failed(error);
        reject(error);
      };
    });
    exited.catch(() => {});
  });
}

async function streamLine(client: Client, command: Command, options: AttachOptions, place: Place): Promise<Opened> {
  const ending = new AbortController();
  options.signal?.addEventListener('abort', () => ending.abort(), { once: true });
  const offset = place.offset = options.offset ?? Math.max(0, command.info.logEnd - (64 << 10));
  const follow = async (): Promise<CommandInfo> => {
    for await (const piece of command.output({ offset, signal: ending.signal }))
      pass(place, piece.bytes, piece.nextOffset);
    return command.wait();
  };
  let queue: Promise<unknown> = Promise.resolve(); // keys must not overtake each other
  const line: Line = {
    send: async (bytes) => {
      const sent = queue.then(() => command.write(bytes));
      queue = sent.catch(() => {});
      await sent;
    },
    resize: async (rows, cols) => {
      await client.request('POST', `/v1/commands/${command.id}/resize`, { json: { rows, cols } });
    },
    close: () => ending.abort(),
  };
  return { line, exited: follow() };
}
