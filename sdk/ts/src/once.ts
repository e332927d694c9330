import { Client } from './client.js';
import { runCode, type RunOptions, type RunResult } from './run.js';
import type { Connection } from './objects.js';

const ofIsolates = new Set([undefined, 'js', 'ts', 'tsx', 'javascript', 'typescript']);

/** Runs code once, in a fresh sandbox that is gone afterwards: TypeScript in an isolate unless it says otherwise. */
export function runOnce(code: string, options: RunOptions & Connection = {}): Promise<RunResult> {
  const { client, ...rest } = options;
  const isLines = rest.runtime === undefined && ofIsolates.has(rest.language);
  return runCode(Client.from(client), '/v1/run_code', code, rest, isLines);
}
