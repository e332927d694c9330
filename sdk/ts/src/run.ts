import type { CallOptions, Client } from './client.js';
import type { TimeLimit } from './types.js';

/** A value as code showed it, by MIME type: "text/plain", "image/png" (base64), "application/json" (text). */
export interface RunValue {
  data: Record<string, string>;
  /** The value of the last expression, as opposed to something that was displayed on the way. */
  main: boolean;
  /** Why `data` is empty: the value is too large for a stream. A run without call-backs has it. */
  omitted?: string;
}

export interface RunError {
  name: string;
  message: string;
  traceback: string;
}

/** A file that a run changed. */
export interface ChangedFile {
  path: string;
  change: string;
  size?: number;
}

export interface RunOptions extends CallOptions {
  /** js, ts or tsx in an isolate; python, bash, javascript, ... in a jail. */
  language?: string;
  /** Instead of a language: python3, node24, ... */
  runtime?: string;
  /** Which interpreter of a jail. */
  context?: string;
  env?: Record<string, string>;
  timeoutMs?: TimeLimit;
  /** Packages that are installed before the code runs, once. */
  requirements?: string[];
  /** False: a missing module is an error, and not installed where it could be. */
  install?: boolean;
  /** Sources that the code may import, by path; for isolates. */
  modules?: Record<string, string>;
  /** Where the user is, for bridges. */
  hints?: { latitude?: number; longitude?: number; city?: string; country?: string };
  /** As it is printed. */
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
  /** Each value, when it is there. */
  onResult?: (value: RunValue) => void;
  /** What the code did wrong; the promise does not reject for it. */
  onError?: (error: RunError) => void;
}

/** Why the variables of earlier runs were lost. */
export type StateLostReason =
  | 'dormant' | 'restart' | 'rollback' | 'timeout' | 'out_of_memory' | 'volume_expired' | 'volume_deleted'
  | 'exited' | 'context_restart' | 'sandbox_ended' | 'fork' | (string & {});

/** How a run went. What the code does wrong is `error`, and no exception. */
export interface RunResult {
  success: boolean;
  status: string;
  /** The value of the last expression, where it can be said in JSON. */
  result: unknown;
  /** The same as text for people; null if it has none. */
  text: string | null;
  results: RunValue[];
  stdout: string;
  stderr: string;
  error: RunError | null;
  /** Variables of earlier runs are lost. Reported by the run that lost them and by the first run after a loss. */
  stateLost: boolean;
  /** Why; null while `stateLost` is false. */
  stateLostReason: StateLostReason | null;
  /** When, as an ISO date. */
  stateLostAt: string | null;
  /** The same as a sentence. */
  stateLostMessage: string | null;
  /** What `stdout` does not hold: bytes in a jail, console calls in an isolate. */
  truncatedStdout: number;
  truncatedStderr: number;
  /** What is missing in the output of an isolate or in `results`, and which setting or request gives it; else null. */
  truncatedMessage: string | null;
  files: ChangedFile[];
  /** `files` is not all. */
  moreFiles: boolean;
  durationMs: number;
  executionCount: number | undefined;
}

interface WireResult {
  success: boolean;
  status: string;
  result?: unknown;
  text?: string | null;
  results?: RunValue[];
  stdout?: string;
  stderr?: string;
  error: { name?: string; message?: string; traceback?: string; stack?: string } | null;
  stateLost?: boolean;
  stateLostReason?: StateLostReason | null;
  stateLostAt?: string | null;
  stateLostMessage?: string | null;
  truncatedStdout?: number;
  truncatedStderr?: number;
  truncatedMessage?: string | null;
  files?: ChangedFile[];
  moreFiles?: boolean;
  durationMs?: number;
  executionCount?: number;
}

function errorOfWire(error: WireResult['error']): RunError | null {
  if (!error) return null;
  return { name: error.name ?? 'Error', message: error.message ?? '', traceback: error.traceback ?? error.stack ?? '' };
}

/** An isolate's value has no MIME types of its own. */
function valuesOf(wire: WireResult): RunValue[] {
  if (wire.results) return wire.results;
  return wire.result === undefined || wire.result === null ? [] : [valueOf(wire.result)];
}

function valueOf(value: unknown): RunValue {
  const json = JSON.stringify(value);
  return { data: { 'text/plain': typeof value === 'string' ? value : json, 'application/json': json }, main: true };
}

function valueOfEvent(event: { data?: unknown; value?: unknown; main?: boolean; omitted?: string }): RunValue {
  if (event.omitted !== undefined) return { data: {}, main: event.main ?? false, omitted: event.omitted };
  return event.data ? event as RunValue : valueOf(event.value);
}

function resultOf(wire: WireResult): RunResult {
  const results = valuesOf(wire);
  const main = results.find((each) => each.main);
  const json = main?.data['application/json'];
  return {
    success: wire.success, status: wire.status, results,
    result: wire.result ?? (json === undefined ? null : JSON.parse(json) as unknown),
    text: wire.text ?? main?.data['text/plain'] ?? null,
    stdout: wire.stdout ?? '', stderr: wire.stderr ?? '', error: errorOfWire(wire.error),
    stateLost: wire.stateLost ?? false, stateLostReason: wire.stateLostReason ?? null,
    stateLostAt: wire.stateLostAt ?? null, stateLostMessage: wire.stateLostMessage ?? null,
    truncatedStdout: wire.truncatedStdout ?? 0, truncatedStderr: wire.truncatedStderr ?? 0,
    truncatedMessage: wire.truncatedMessage ?? null,
    files: wire.files ?? [], moreFiles: wire.moreFiles ?? false, durationMs: wire.durationMs ?? 0, executionCount: wire.executionCount,
  };
}

/** Runs code through one of the server's run_code routes. */
export async function runCode(client: Client, path: string, code: string, options: RunOptions): Promise<RunResult> {
  const { signal, onStdout, onStderr, onResult, onError, ...rest } = options;
  const request = { json: { code, ...rest }, ...(signal ? { signal } : {}) };
  if (!onStdout && !onStderr && !onResult && !onError)
    return resultOf(await client.json<WireResult>('POST', path, request));
  return stream(client, path, request, options);
}

async function stream(client: Client, path: string, request: object, calls: RunOptions): Promise<RunResult> {
  let stdout = '', stderr = '', end: WireResult | undefined;
  const results: RunValue[] = [];
  for await (const { event, data } of client.events('POST', path, request)) {
    if (event === 'stdout') {
      const text = (data as { text: string }).text;
      stdout += text;
      calls.onStdout?.(text);
    } else if (event === 'stderr') {
      const text = (data as { text: string }).text;
      stderr += text;
      calls.onStderr?.(text);
    } else if (event === 'result') {
      const value = valueOfEvent(data as { data?: unknown; value?: unknown; main?: boolean; omitted?: string });
      results.push(value);
      calls.onResult?.(value);
    } else if (event === 'error') {
      calls.onError?.(errorOfWire(data as WireResult['error']) as RunError);
    } else if (event === 'end' && (data as WireResult).success !== undefined) { // else the server's own, when it stops
      end = data as WireResult;
    }
  }
  if (!end) throw new Error('the stream ended before the code did');
  return resultOf({ ...end, stdout, stderr, results });
}
