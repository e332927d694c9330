import { Client } from './client.js';
import { runCode, type RunOptions, type RunResult } from './run.js';
import type { Connection } from './objects.js';

/** Runs code once, in a new sandbox that is deleted afterwards: TypeScript in an isolate unless it says otherwise. */
export function runOnce(code: string, options: RunOptions & Connection = {}): Promise<RunResult> {
  const { client, ...rest } = options;
  return runCode(Client.from(client), '/v1/run_code', code, rest);
}
