// Kernels as tests drive them: one jail, one kernel, one cell after the other.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import readline from 'node:readline';
import { run, sleep } from './lib.mjs';

const BUILD = process.env.SG_BUILD;
export const HOME = process.env.SG_RUNTIMES; // with the runtimes that the set-up has added
export const env = { ...process.env, SANDGLASS_HOME: HOME };

// The state of each runtime, by name.
export async function runtimes() {
  const { stdout } = await run(['runtime', 'ls', '--json'], { env });
  return new Map(JSON.parse(stdout).map((row) => [row.name, row]));
}

// Starts a kernel; `cell(code, options)` runs code in it and gives what came of it.
export function kernel(t, runtime, { workspace } = {}) {
  const child = spawn(join(BUILD, 'tests/integration/cells'), [runtime], {
    stdio: ['pipe', 'pipe', 'inherit'], env: { ...env, ...(workspace && { CELLS_WORKSPACE: workspace }) } });
  const answers = [];
  const waiting = [];
  readline.createInterface({ input: child.stdout }).on('line', (line) => {
    const answer = JSON.parse(line);
    if (waiting.length > 0) waiting.shift()(answer); else answers.push(answer);
  });
  const ended = new Promise((done) => child.on('close', done));
  t.after(async () => {
    child.stdin.destroy();
    if (await Promise.race([ended, sleep(60000).then(() => 'late')]) === 'late') child.kill('SIGKILL');
  });
  return async (code, options = {}) => {
    child.stdin.write(`${JSON.stringify({ code, ...options })}\n`);
    const answer = answers.shift() ?? await Promise.race([new Promise((done) => waiting.push(done)),
      ended.then((code) => { throw new Error(`the kernel's driver ended with ${code}`); })]);
    const main = answer.shown.find((shown) => shown.main)?.data ?? {};
    return { ...answer, text: main['text/plain'], main,
      result: main['application/json'] === undefined ? undefined : JSON.parse(main['application/json']) };
  };
}
