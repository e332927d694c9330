// A day of ordinary work, small: a data job in the background with a server beside it, a shell that is left open, a build
// with much output and a slow reader, a session that sleeps, a restart and a kill -9 of the server in the middle.
// Nothing may be lost but what an answer said. `make soak PART=work` runs it for 40 minutes with 200 MB.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Transform } from 'node:stream';
import test from 'node:test';
import { BIN, run, serve, sleep, tempDir, until } from './lib.mjs';

const FULL = process.env.SG_SOAK === 'work';
const WORK_SECONDS = FULL ? 2400 : 3; // of work until the server is killed
const LAST_SECONDS = FULL ? 120 : 3;  // of the part of the job that comes to its end
const BUILD_LINES = FULL ? 4_000_000 : 150_000; // of 50 bytes
const READER = FULL ? 4 << 20 : 2 << 20; // bytes a second
const IDLE_SECONDS = 2; // of sandboxes and sessions: far below what the work takes
const T = { timeout: (WORK_SECONDS + 900) * 1000 };

async function start(t, dir, config) {
  const server = await serve(t, { dir, args: ['--config', config] });
  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  server.env = env;
  server.cli = async (...args) => run(args, { env });
  server.ok = async (...args) => {
    const ran = await server.cli(...args);
    assert.equal(ran.code, 0, `${args.join(' ')}: ${ran.stdout}${ran.stderr}`);
    return ran.stdout;
  };
  server.ask = async (method, path, body) => {
    const answer = await server.get(path, { method, ...(body ? { body: JSON.stringify(body) } : {}),
      headers: { 'content-type': 'application/json' } });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${text}`);
    return text === '' ? {} : JSON.parse(text);
  };
  return server;
}

// Writes a row, then says so: what was said must be in the file, whatever happens to the server.
const JOB = `
import os, sys, time
path, until = "/workspace/rows.csv", time.time() + float(sys.argv[1])
begin = sum(1 for _ in open(path)) if os.path.exists(path) else 0
with open(path, "a") as rows:
    n = begin
    while time.time() < until:
        rows.write(f"{n},{n * n}\\n"); rows.flush()
        print("row", n, flush=True)
        n += 1
        time.sleep(0.02)
print("done", n, flush=True)
`;

const startJob = (server, id, seconds) =>
  server.ok('sandbox', 'exec', '-d', id, '--', 'python3', '/workspace/job.py', String(seconds)).then((text) => text.trim());
const rowsOf = async (server, id) => (await server.ok('sandbox', 'exec', id, '--', 'cat', '/workspace/rows.csv')).trim().split('\n');

/** Every row that the log of the job speaks of is in the file, in order and whole. */
async function checkRows(server, id, command) {
  const log = await server.ok('logs', command);
  const said = [...log.matchAll(/^row (\d+)$/gm)].map(([, n]) => Number(n));
  const rows = await rowsOf(server, id);
  rows.forEach((row, n) => assert.equal(row, `${n},${n * n}`));
  assert.ok(said.length > 0, `the log says nothing: ${log.slice(0, 200)}`);
  assert.ok(rows.length > Math.max(...said), `${rows.length} rows, and the log speaks of row ${Math.max(...said)}`);
  return rows.length;
}

/** A terminal with a shell in it, as a person leaves it open. */
function shellOf(t, server, id) {
  const child = spawn('/usr/bin/script', ['-qec', `exec ${BIN} shell ${id}`, '/dev/null'], { env: { ...server.env, TERM: 'dumb' } });
  const shell = { text: '', end: once(child, 'close') };
  child.stdout.on('data', (data) => (shell.text += data));
  t.after(() => child.kill('SIGKILL'));
  shell.asks = async (line, answer) => {
    shell.text = '';
    child.stdin.write(`${line}\n`);
    await until(() => answer.test(shell.text)).catch((error) => { throw new Error(`${error.message}: ${shell.text}`); });
  };
  return shell;
}

/** Reads at a pace of its own, and hashes what came. */
async function slowly(stream, bytesPerSecond) {
  const hash = createHash('md5');
  let size = 0;
  const slow = new Transform({
    highWaterMark: 64 << 10,
    transform(piece, _, done) {
      size += piece.length;
      hash.update(piece);
      setTimeout(done, (piece.length / bytesPerSecond) * 1000);
    },
  });
  stream.pipe(slow).resume();
  await once(slow, 'end');
  return { size, md5: hash.digest('hex') };
}

async function build(server, id) {
  const script = `seq -f "line %040.0f end" 1 ${BUILD_LINES}`;
  const child = spawn(BIN, ['sandbox', 'exec', id, '--', 'sh', '-c', script], { env: server.env, stdio: ['ignore', 'pipe', 'pipe'] });
  let stderr = '';
  child.stderr.on('data', (data) => (stderr += data));
  const exit = once(child, 'exit');
  const got = await slowly(child.stdout, READER);
  const [code] = await exit;
  const wanted = createHash('md5');
  for (let n = 1; n <= BUILD_LINES; n++) wanted.update(`line ${String(n).padStart(40, '0')} end\n`);
  assert.equal(code, 0, stderr);
  assert.equal(got.md5, wanted.digest('hex'), `${got.size} bytes came; ${stderr}`);
}

/** A session that is not used: it becomes dormant, and reports that when it is used again. */
async function sleeper(server) {
  const id = (await server.ok('session', 'create', '--tier', 'jail', '--runtime', 'python3', '--idle', `${IDLE_SECONDS}s`)).trim();
  const cell = (code) => server.ask('POST', `/v1/sessions/${id}/run_code`, { code });
  assert.equal((await cell('x = 41\nopen("/workspace/kept.txt", "w").write("kept")')).stateLost, false);
  await until(async () => (await server.ask('GET', `/v1/sessions/${id}`)).state === 'dormant');
  const back = await cell('print(open("/workspace/kept.txt").read()); "x" in globals()');
  assert.match(back.stdout, /^kept/);
  // Its variables are there, or the answer says that they are gone, and why.
  assert.equal(back.stateLost, back.result !== true, JSON.stringify(back));
  if (back.stateLost) assert.equal(back.stateLostReason, 'dormant');
  return { id, cell };
}

test('ordinary work goes on, and what is lost is said', T, async (t) => {
  if (!existsSync('/usr/bin/script')) return t.skip('no script(1) on this machine');
  const dir = tempDir(t), config = join(tempDir(t), 'config.toml');
  // The volume of the session lives longer than the work.
  writeFileSync(config, `[sandbox]\nidle_seconds = ${IDLE_SECONDS}\nvolume_ttl_minutes = 600\n`);
  let server = await start(t, dir, config);
  const made = await server.cli('sandbox', 'create', '--tier', 'jail', '--runtime', 'python3', '--idle', `${IDLE_SECONDS}s`);
  if (made.code !== 0) return t.skip(made.stderr);
  const id = made.stdout.trim(), job = join(tempDir(t), 'job.py');
  writeFileSync(job, JOB);
  await server.ok('cp', job, `${id}:/workspace/job.py`);
  await server.ok('sandbox', 'exec', '-d', id, '--', 'python3', '-m', 'http.server', '8000', '--directory', '/workspace');
  let command = await startJob(server, id, 2 * WORK_SECONDS + 600);
  const shell = shellOf(t, server, id);
  await shell.asks('cd /tmp && echo r$((1+1))y', /r2y/);

  // Everything at once, longer than any idle limit.
  const url = (await server.ok('sandbox', 'url', id, '8000')).trim();
  await until(async () => (await fetch(url)).ok);
  const [session] = await Promise.all([sleeper(server), build(server, id), sleep(WORK_SECONDS * 1000)]);
  assert.equal((await server.ask('GET', `/v1/sandboxes/${id}`)).state, 'running');
  assert.match(await (await fetch(url)).text(), /rows\.csv/);
  await shell.asks('echo $PWD s$((2+2))l', /\/tmp s4l/);
  let rows = await checkRows(server, id, command);

  // kill -9: files stay; what ran is gone, and the answers say so.
  server.child.kill('SIGKILL');
  await server.exit;
  const [shellCode] = await shell.end;
  assert.notEqual(shellCode, 0);
  assert.match(shell.text, /server|connection/i, 'the shell says why it ended');
  server = await start(t, dir, config);
  await until(async () => (await server.get('/readyz')).status === 200);
  const lost = await server.ask('GET', `/v1/commands/${command}`);
  assert.equal(lost.state, 'ended');
  assert.notEqual(lost.end, 'exited', 'a command that the crash ended says so');
  const after = await checkRows(server, id, command);
  assert.ok(after >= rows, `${after} rows after the crash, ${rows} before`);
  const woken = await server.ask('POST', `/v1/sessions/${session.id}/run_code`, { code: '"x" in globals()' });
  assert.deepEqual([woken.result, woken.stateLost], [false, true]);
  assert.match(woken.stateLostReason, /^(restart|dormant)$/); // whichever came first
  const next = await server.ask('POST', `/v1/sessions/${session.id}/run_code`, { code: '1' });
  assert.ok(!next.stateLost || next.stateLostReason === 'dormant', JSON.stringify(next)); // it may have slept meanwhile

  // An orderly restart in the middle of the next part of the job.
  command = await startJob(server, id, 600);
  await until(async () => /^row \d/m.test(await server.ok('logs', command)));
  server.child.kill('SIGTERM');
  await server.exit;
  server = await start(t, dir, config);
  rows = await checkRows(server, id, command);
  assert.ok(rows >= after);

  // And to its end.
  command = await startJob(server, id, LAST_SECONDS);
  await until(async () => (await server.ask('GET', `/v1/commands/${command}`)).state === 'ended', LAST_SECONDS + 180);
  assert.equal((await server.ask('GET', `/v1/commands/${command}`)).exitCode, 0);
  assert.ok(await checkRows(server, id, command) > rows);

  // With nothing left to do it is paused, and its files are there when it is used again.
  await until(async () => (await server.ask('GET', `/v1/sandboxes/${id}`)).state === 'paused');
  assert.ok((await rowsOf(server, id)).length > rows);
});
