import { Approvals } from './approvals.js';
import { errorOf, SandglassError } from './errors.js';
import { readEvents, type StreamEvent } from './sse.js';

/** How to reach a server. */
export interface ClientOptions {
  /** Default: SANDGLASS_URL, or http://127.0.0.1:7070. */
  url?: string;
  /** Default: SANDGLASS_TOKEN. */
  token?: string;
  /** Milliseconds for an answer that is no stream to begin; 0 for no limit. Default 0: runs may be long. */
  requestTimeoutMs?: number;
  /** How often a request that may be repeated is repeated. Default 2. */
  retries?: number;
  /** Another fetch: for tests, proxies, or certificates of one's own. */
  fetch?: typeof fetch;
}

/** Where a call goes and how it is ended. */
export interface CallOptions {
  signal?: AbortSignal;
}

export interface RequestOptions extends CallOptions {
  query?: Record<string, string | number | boolean | undefined>;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as it is. */
  body?: BodyInit | ReadableStream<Uint8Array>;
  headers?: Record<string, string>;
  /** May be sent twice: it reads only, or has an idempotency key. GETs are anyway. */
  repeatable?: boolean;
}

const DEFAULT_URL = 'http://127.0.0.1:7070';

function environment(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name];
}

function isBrowser(): boolean {
  const { process } = globalThis as { process?: { versions?: { node?: string } } };
  return process?.versions?.node === undefined;
}

/** One server and one token. Sandboxes, sessions and the rest hold a client and share it. */
export class Client {
  readonly url: string;
  /** What waits for a person's decision. */
  readonly approvals: Approvals;
  readonly #token: string;
  readonly #fetch: typeof fetch;
  readonly #retries: number;
  readonly #timeoutMs: number;

  constructor(options: ClientOptions = {}) {
    this.url = (options.url ?? environment('SANDGLASS_URL') ?? DEFAULT_URL).replace(/\/+$/, '');
    const token = options.token ?? environment('SANDGLASS_TOKEN');
    if (!token)
      throw errorOf('unauthorized', 'no token: pass { token } or set SANDGLASS_TOKEN; `sandglass serve` prints where it is');
    this.#token = token;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#retries = options.retries ?? 2;
    this.#timeoutMs = options.requestTimeoutMs ?? 0;
    this.approvals = new Approvals(this);
  }

  /** A client as it is, or one made of options. */
  static from(from: Client | ClientOptions | undefined): Client {
    return from instanceof Client ? from : new Client(from);
  }

  /** The JSON of the response; undefined if it has none. */
  async json<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const response = await this.request(method, path, options);
    const text = await response.text();
    return (text === '' ? undefined : JSON.parse(text)) as T;
  }

  /** Events as they come. Leaving the loop ends the request. */
  async *events(method: string, path: string, options: RequestOptions = {}): AsyncGenerator<StreamEvent> {
    const headers = { ...options.headers, accept: 'text/event-stream' };
    const response = await this.request(method, path, { ...options, headers });
    if (response.body) yield* readEvents(response.body as ReadableStream<Uint8Array>);
  }

  /** One request; an answer that is an error is thrown. Repeats what may be repeated. */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    const mayRepeat = options.repeatable ?? (method === 'GET' || method === 'HEAD');
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#once(method, path, options);
      } catch (error) {
        if (!mayRepeat || attempt >= this.#retries || options.signal?.aborted || !isPassing(error)) throw error;
        await pause(Math.min(error.retryAfterMs ?? 100 * 2 ** attempt, 5000), options.signal);
      }
    }
  }

  /** Browsers cannot put the token on a WebSocket's handshake, and Node before 22 has none. */
  get canSendHeadersOnWebSocket(): boolean {
    return (globalThis as { WebSocket?: unknown }).WebSocket !== undefined && !isBrowser();
  }

  /** Where canSendHeadersOnWebSocket. */
  webSocket(path: string): WebSocket {
    const init = { headers: { authorization: `Bearer ${this.#token}` } };
    return new WebSocket(this.url.replace(/^http/, 'ws') + path, init as unknown as string[]);
  }

  async #once(method: string, path: string, options: RequestOptions): Promise<Response> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.#token}`, ...options.headers };
    let body = options.body;
    if (options.json !== undefined) {
      headers['content-type'] = 'application/json';
      body = JSON.stringify(options.json);
    }
    // Browsers send streams only over HTTP/2, or not at all: there the body is collected first.
    if (body instanceof ReadableStream && isBrowser()) body = await new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).blob();
    const isStream = body instanceof ReadableStream;
    const timer = new Deadline(this.#timeoutMs, options.signal);
    try {
      const response = await this.#fetch(this.url + path + queryOf(options.query), {
        method, headers, body: body as BodyInit | undefined, signal: timer.signal,
        // The server never redirects. Another server that answers must not get the token or body a second time.
        redirect: 'manual',
        ...(isStream ? { duplex: 'half' } : {}),
      } as RequestInit);
      if (response.ok) return response;
      if (response.type === 'opaqueredirect' || (response.status >= 300 && response.status < 400))
        throw errorOf('misdirected', `${this.url} is no address of a server: it redirects to ${response.headers.get('location') ?? 'another one'}`,
          { status: response.status });
      throw await errorOfResponse(response);
    } catch (error) {
      if (error instanceof SandglassError || options.signal?.aborted) throw error;
      if (timer.isOver)
        throw errorOf('timeout', `${method} ${path}: no answer after ${this.#timeoutMs} ms`, { cause: error });
      throw errorOf('unavailable', `${this.url} does not answer: ${causeOf(error)}`, { cause: error });
    } finally {
      timer.done();
    }
  }
}

/** Ends a request at its time or with the caller's signal; after the head of the answer only with the latter. */
class Deadline {
  readonly #controller = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  isOver = false;

  constructor(ms: number, signal: AbortSignal | undefined) {
    if (signal?.aborted) this.#controller.abort(signal.reason);
    signal?.addEventListener('abort', () => this.#controller.abort(signal.reason), { once: true });
    if (ms > 0) this.#timer = setTimeout(() => { this.isOver = true; this.#controller.abort(); }, ms);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  done(): void {
    clearTimeout(this.#timer);
  }
}

/** Worth another try: nobody answered, or the server says "later". */
function isPassing(error: unknown): error is SandglassError {
  return error instanceof SandglassError &&
    (error.code === 'unavailable' || error.code === 'timeout' && error.status === 0 ||
      error.code === 'limit_reached' && error.retryAfterMs !== undefined);
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

/** An id or a name as one part of a path, whatever is in it: it cannot lead to another route. */
export function part(text: string): string {
  const coded = encodeURIComponent(text);
  if (coded === '' || coded === '.' || coded === '..') throw errorOf('invalid', `'${text}' is no id`);
  return coded;
}

function queryOf(query: RequestOptions['query']): string {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(String(value))}`);
  return pairs.length > 0 ? `?${pairs.join('&')}` : '';
}

async function errorOfResponse(response: Response): Promise<SandglassError> {
  const retryAfter = Number(response.headers.get('retry-after') ?? NaN);
  const details = { status: response.status, ...(Number.isFinite(retryAfter) ? { retryAfterMs: retryAfter * 1000 } : {}) };
  const text = await response.text().catch(() => '');
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string; path?: string; requestId?: string } };
    // The server's words are for curl.
    const message = error.code === 'unauthorized'
      ? 'the server rejected the token: pass a valid { token } or set SANDGLASS_TOKEN; `sandglass serve` prints where it is' : error.message;
    return errorOf(error.code, message, { ...details, ...(error.path === undefined ? {} : { path: error.path }),
      ...(error.requestId === undefined ? {} : { requestId: error.requestId }) });
  } catch {
    const code = response.status >= 500 ? 'unavailable' : 'invalid';
    return errorOf(code, `HTTP ${response.status}: ${text.slice(0, 200)}`, details);
  }
}

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}

/** For creates: the same key again gives the first object instead of a second one. */
export function idempotencyKey(): string {
  // randomUUID is not there on pages that came over plain HTTP from another machine.
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
