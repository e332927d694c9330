import type { ChildProcess } from 'node:child_process';
import type { MatchList, PathList } from '../types.js';
import type { EditAsked, GlobAsked, GrepAsked, ZoneBackend } from './backend.js';
import { ZoneError, type ZoneCode } from './errors.js';
import type { ZonePath } from './path.js';

interface Waiting {
  at: ZonePath;
  resolve: (body: Uint8Array) => void;
  reject: (error: ZoneError) => void;
}

interface Answer {
  code: string | undefined; // of an error
  body: Uint8Array;
}

/**
 * Directories of this machine, through a worker that can reach nothing else: `sandglass fs serve`. JavaScript has no
 * openat2, and a check of a path before its use is no check where links can be planted meanwhile.
 */
export class WorkerBackend implements ZoneBackend {
  readonly #bin: string;
  readonly #args: string[];
  #child: ChildProcess | undefined;
  #failure: ZoneError | undefined;
  #stderr = '';
  #in: Uint8Array = new Uint8Array(0);
  #waiting: Waiting[] = [];

  constructor(bin: string, args: string[]) {
    this.#bin = bin;
    this.#args = args;
  }

  read(at: ZonePath): Promise<Uint8Array> {
    return this.#ask('read', at);
  }

  async write(at: ZonePath, content: Uint8Array): Promise<void> {
    await this.#ask('write', at, content);
  }

  async delete(at: ZonePath, recursive: boolean): Promise<void> {
    await this.#ask(recursive ? 'delete_all' : 'delete', at);
  }

  async exists(at: ZonePath): Promise<boolean> {
    return (await this.#ask('exists', at))[0] === 0x31;
  }

  async list(at: ZonePath): Promise<string[]> {
    return text(await this.#ask('list', at)).split('\0').slice(0, -1);
  }

  async resolve(at: ZonePath): Promise<string> {
    return text(await this.#ask('resolve', at));
  }

  glob(at: ZonePath, asked: GlobAsked): Promise<PathList> {
    return this.#askJson('glob', at, asked);
  }

  grep(at: ZonePath, asked: GrepAsked): Promise<MatchList> {
    return this.#askJson('grep', at, asked);
  }

  async edit(at: ZonePath, asked: EditAsked): Promise<number> {
    return (await this.#askJson<{ count: number }>('edit', at, asked)).count;
  }

  /** Ends the worker; a later call starts another. */
  async close(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null) return;
    await new Promise<void>((ended) => {
      child.once('exit', () => ended());
      child.ref(); // who waits for its end is not ended before it
      child.stdin?.end();
    });
  }

  async #askJson<T>(verb: string, at: ZonePath, asked: object): Promise<T> {
    return JSON.parse(text(await this.#ask(verb, at, new TextEncoder().encode(JSON.stringify(asked))))) as T;
  }

  async #ask(verb: string, at: ZonePath, data: Uint8Array = new Uint8Array(0)): Promise<Uint8Array> {
    const child = this.#child ?? await this.#start();
    if (this.#failure) throw this.#failure;
    const path = new TextEncoder().encode(at.path);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ at, resolve, reject });
      // A program that only waits for nothing more may end: the worker does not hold it.
      child.ref();
      child.stdin?.write(`${verb} ${path.length} ${data.length}\n`);
      child.stdin?.write(path);
      child.stdin?.write(data);
    });
  }

  async #start(): Promise<ChildProcess> {
    const { spawn } = await import('node:child_process').catch((error: unknown) => {
      throw new ZoneError('UNAVAILABLE', 'directories of this machine cannot be used in a browser: use mode remote, sandbox or memory', undefined, error);
    });
    if (this.#child) return this.#child;
    const child = spawn(this.#bin, ['fs', ...this.#args, 'serve'], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child = child;
    this.#failure = undefined;
    this.#stderr = '';
    child.stdin.on('error', () => {}); // its end tells why
    child.stdout.on('data', (bytes: Uint8Array) => this.#take(bytes));
    child.stderr.on('data', (bytes: Uint8Array) => { this.#stderr += text(bytes); });
    child.on('error', (error) => this.#end(child, `${this.#bin} cannot be started (${error.message}): install sandglass or pass { bin }`));
    child.on('close', () => this.#end(child, this.#stderr.trim().replace(/^sandglass: /, '') || 'the worker of the zone set ended'));
    this.#rest();
    return child;
  }

  /** While nobody waits the worker does not keep this program alive. */
  #rest(): void {
    const child = this.#child;
    child?.unref();
    for (const pipe of [child?.stdin, child?.stdout, child?.stderr]) (pipe as { unref?: () => void } | null | undefined)?.unref?.();
  }

  #end(child: ChildProcess, why: string): void {
    if (this.#child !== child && this.#child !== undefined) return;
    this.#child = undefined;
    this.#in = new Uint8Array(0);
    for (const waiting of this.#waiting.splice(0)) waiting.reject(new ZoneError('UNAVAILABLE', why, waiting.at.path));
  }

  #take(bytes: Uint8Array): void {
    const all = new Uint8Array(this.#in.length + bytes.length);
    all.set(this.#in);
    all.set(bytes, this.#in.length);
    this.#in = all;
    for (let answer = this.#next(); answer; answer = this.#next()) {
      const waiting = this.#waiting.shift();
      if (answer.code === undefined) waiting?.resolve(answer.body);
      else waiting?.reject(new ZoneError(answer.code.toUpperCase() as ZoneCode, text(answer.body), waiting.at.path));
    }
    if (this.#waiting.length === 0) this.#rest();
  }

  #next(): Answer | undefined {
    const end = this.#in.indexOf(10);
    if (end < 0) return undefined;
    const words = text(this.#in.subarray(0, end)).split(' ');
    const size = Number(words[words.length - 1]);
    if (this.#in.length < end + 1 + size) return undefined;
    const body = this.#in.slice(end + 1, end + 1 + size);
    this.#in = this.#in.slice(end + 1 + size);
    return { code: words[0] === 'ok' ? undefined : words[1], body };
  }
}

function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
