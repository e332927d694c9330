// Ending code: Ctrl-C in run, run --runtime and run --sandbox, sandglass interrupt, and prompts.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, run, serve, sleep, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };

// A program in a terminal, with keys for it. `exec`: a shell in between is ended by Ctrl-C too, and
// some shells (dash) then report 130 whatever the program's exit code is.
function terminal(t, args, env = {}) {
  const child = spawn('/usr/bin/script', ['-qec', `exec ${[BIN, ...args].map((word) => `'${word}'`).join(' ')}`, '/dev/null'],
    { env: { ...process.env, TERM: 'dumb', XDG_STATE_HOME: tempDir(t), SANDGLASS_HOME: tempDir(t), ...env } });
  const it = { child, text: '', end: once(child, 'close').then(([code]) => code) };
  child.stdout.on('data', (data) => (it.text += data));
  t.after(() => child.kill('SIGKILL'));
  child.stdin.on('error', () => {}); // keys that come when it has ended
  it.type = (keys) => child.stdin.write(keys);
  // What was seen is used up.
  it.sees = async (what) => {
    await until(() => what.test(it.text)).catch((error) => { throw new Error(`${error.message}: ${it.text}`); });
    it.text = it.text.slice(what.exec(it.text).index + what.exec(it.text)[0].length);
  };
  return it;
}

const hasTerminal = (t) => existsSync('/usr/bin/script') || t.skip('no script(1) on this machine');
const noJails = async () => {
  const tried = await run(['exec', '--', 'true']);
  return tried.code === 0 ? null : tried.stderr;
};

test('a prompt over Python keeps its variables, takes blocks and is interrupted', T, async (t) => {
  const why = await noJails();
  if (!hasTerminal(t) || why) return why && t.skip(`no jails here: ${why}`);
  const state = tempDir(t);
  const it = terminal(t, ['run', '--runtime', 'python3'], { XDG_STATE_HOME: state });
  await it.sees(/python3 in a jail\. Ctrl-C interrupts, Ctrl-D or \.exit ends the session\.\r\n/);
  await it.sees(/> /);
  it.type('x = 41\n');
  await it.sees(/> /);
  it.type('for i in range(2):\n');
  await it.sees(/\.\.\. /);
  it.type('    print("v", i + x)\n');
  await it.sees(/\.\.\. /);
  it.type('\n');
  await it.sees(/v 41\r\nv 42/);
  await it.sees(/> /);
  it.type('print("be" + "gun"); import time; time.sleep(600)\n');
  await it.sees(/begun/);
  it.type('\x03');
  await it.sees(/KeyboardInterrupt/);
  await it.sees(/> /);
  it.type('(x +\n');
  await it.sees(/\.\.\. /);
  it.type('1)\n');
  await it.sees(/\n42/);
  await it.sees(/> /);
  it.type('not whole');
  await it.sees(/not whole/);
  it.type('\x03'); // at the prompt: a new one
  await it.sees(/> /);
  it.type('x + 2\n');
  await it.sees(/\n43/);
  await it.sees(/> /);
  it.type('\x04');
  assert.equal(await it.end, 0);
  assert.match(readFileSync(join(state, 'sandglass/run_history'), 'utf8'), /time\.sleep/);
});

test('a prompt over an isolate is interrupted and keeps its variables', T, async (t) => {
  if (!hasTerminal(t)) return;
  const it = terminal(t, ['run', '--timeout', 'none']);
  await it.sees(/> /);
  it.type('globalThis.y = 5; console.log("be" + "gun"); while (true);\n');
  await it.sees(/begun/);
  it.type('\x03');
  await it.sees(/Interrupted: the code was interrupted/);
  await it.sees(/> /);
  it.type('y + 1\n');
  await it.sees(/\n6/);
  await it.sees(/> /);
  it.type('.exit\n');
  assert.equal(await it.end, 0);
});

test('Ctrl-C interrupts code that is run once, and the second one ends it', T, async (t) => {
  if (!hasTerminal(t)) return;
  const isolate = terminal(t, ['run', '--timeout', 'none', '-e', 'console.log("be" + "gun"); await new Promise(() => setInterval(() => {}, 1000))']);
  await isolate.sees(/begun/);
  isolate.type('\x03');
  assert.equal(await isolate.end, 130);
  const why = await noJails();
  if (why) return t.skip(`no jails here: ${why}`);
  const kernel = terminal(t, ['run', '--runtime', 'python3', '-e', 'print("be" + "gun", flush=True); import time; time.sleep(600)']);
  await kernel.sees(/begun/);
  kernel.type('\x03');
  assert.equal(await kernel.end, 130);
  const deaf = terminal(t, ['run', '--runtime', 'python3', '-e',
    'import signal, time; signal.signal(2, signal.SIG_IGN); print("be" + "gun", flush=True); time.sleep(600)']);
  await deaf.sees(/begun/);
  // The kernel makes one signal of two keys when the program has not run in between: the key is
  // pressed until two signals have come.
  deaf.type('\x03');
  let hasEnded = false;
  deaf.end.then(() => (hasEnded = true));
  await until(async () => {
    await sleep(500);
    if (!hasEnded) deaf.type('\x03');
    return hasEnded;
  });
  assert.equal(await deaf.end, 130);
});

test('code in a sandbox is interrupted by Ctrl-C and by sandglass interrupt', T, async (t) => {
  const server = await serve(t);
  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const post = async (path, body = {}) => (await server.get(path, { method: 'POST', body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' } })).json();
  const codes = { isolate: ['globalThis.x = 7; console.log("begun"); while (true);', 'x', '7'], jail: ['x = 7\nprint("begun", flush=True)\nwhile True: pass', 'x', '7'] };
  for (const [tier, [endless, look, seen]] of Object.entries(codes)) {
    const box = await post('/v1/sandboxes', { tier, ...(tier === 'jail' ? { runtime: 'python3' } : {}) });
    if (box.id === undefined) { t.diagnostic(`no ${tier} here`); continue; }
    const cli = (...args) => run(args, { env });
    const begin = async () => {
      const child = spawn(BIN, ['run', '--sandbox', box.id, '--timeout', 'none', '-e', endless], { env });
      const client = { child, text: '', end: once(child, 'close').then(([code]) => code) };
      child.stdout.on('data', (data) => (client.text += data));
      child.stderr.on('data', (data) => (client.text += data));
      t.after(() => child.kill('SIGKILL'));
      await until(() => /begun/.test(client.text));
      return client;
    };
    const interrupt = async (...more) => {
      const asked = await cli('interrupt', box.id, ...more);
      assert.equal(asked.code, 0, asked.stderr);
    };
    // timeout(1) signals its child and then the group: both at once are one Ctrl-C.
    for (let tries = 1; ; tries++) {
      const first = await begin();
      const { contexts } = await (await server.get(`/v1/sandboxes/${box.id}/contexts`)).json();
      assert.deepEqual(contexts.map(({ state }) => state), ['busy']);
      const since = performance.now();
      first.child.kill('SIGINT');
      first.child.kill('SIGINT');
      assert.equal(await first.end, 130, first.text);
      const tookMs = performance.now() - since;
      // Signals that a busy machine has kept apart are two: the second one ends the client or the code.
      if (/by the second signal|ended the code and its/.test(first.text) && tookMs > 15 && tries < 10) {
        t.diagnostic(`two signals within ${tookMs} ms were not one`);
        await interrupt();
        await until(async () => /no code is running in/.test((await cli('interrupt', box.id)).stderr));
        continue;
      }
      assert.doesNotMatch(first.text, /by the second signal|ended the code and its|detached/);
      break;
    }
    assert.equal((await cli('run', '--sandbox', box.id, '-e', look)).stdout.trim(), seen);
    const second = await begin();
    await interrupt();
    assert.equal(await second.end, 130, second.text);
    const nothing = await cli('interrupt', box.id);
    assert.match(nothing.stderr, /no code is running in/);
    const named = await begin();
    await interrupt('--context', tier === 'jail' ? 'python3' : 'js');
    assert.equal(await named.end, 130, named.text);
    const left = await begin();
    left.child.kill('SIGTERM');
    assert.equal(await left.end, 143);
    assert.match(left.text, /detached; the code may still be running/);
    await server.get(`/v1/sandboxes/${box.id}`, { method: 'DELETE' });
  }
  assert.equal((await run(['interrupt'], { env })).code, 2);
});

test('code that runs when the server is stopped is not taken for code that failed', T, async (t) => {
  const server = await serve(t);
  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const made = await (await server.get('/v1/sandboxes', { method: 'POST', body: JSON.stringify({ tier: 'isolate' }),
    headers: { 'content-type': 'application/json' } })).json();
  const child = spawn(BIN, ['run', '--sandbox', made.id, '--timeout', 'none', '-e',
    'console.log("begun"); await new Promise(() => setInterval(() => {}, 1000))'], { env });
  const client = { out: '', err: '', end: once(child, 'close').then(([code]) => code) };
  child.stdout.on('data', (data) => (client.out += data));
  child.stderr.on('data', (data) => (client.err += data));
  t.after(() => child.kill('SIGKILL'));
  await until(() => /begun/.test(client.out));
  server.child.kill('SIGTERM');
  assert.notEqual(await client.end, 0);
  assert.match(client.err, /the server is stopping: the code did not finish/);
});

// A server with a jail, and clients of it: `begin` waits until the code has said that it runs.
async function python(t) {
  const server = await serve(t);
  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const ask = async (method, path, body) => {
    const answer = await server.get(path, { method, ...(body === undefined ? {} : { body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' } }) });
    const text = await answer.text();
    return text === '' ? {} : JSON.parse(text);
  };
  const { id } = await ask('POST', '/v1/sandboxes', { tier: 'jail', runtime: 'python3' });
  if (id === undefined) return t.skip('no jails here');
  const box = `/v1/sandboxes/${id}`;
  let count = 0;
  const begin = async (code, ...more) => {
    const sign = `/workspace/begun.${count++}`;
    const child = spawn(BIN, ['run', '--sandbox', id, '--timeout', 'none', ...more, '-e', `open("${sign}", "w").close()\n${code}`], { env });
    const client = { child, out: '', err: '', end: once(child, 'close').then(([code]) => code) };
    child.stdout.on('data', (data) => (client.out += data));
    child.stderr.on('data', (data) => (client.err += data));
    client.sees = (what) => until(() => what.test(client.err)).catch((error) => { throw new Error(`${error.message}: ${client.err}`); });
    t.after(() => child.kill('SIGKILL'));
    await until(async () => (await ask('POST', `${box}/commands`, { argv: ['test', '-e', sign] })).exitCode === 0);
    return client;
  };
  return { server, id, box, ask, begin, cli: (...args) => run(args, { env }) };
}

const DEAF = 'import signal, time\nx = 7\nsignal.signal(2, signal.SIG_IGN)\nwhile True: time.sleep(600)';

test('the second Ctrl-C ends code in a sandbox with its interpreter, with and without --json', T, async (t) => {
  const { id, begin, cli } = await python(t) ?? {};
  if (id === undefined) return;
  for (const more of [[], ['--json']]) {
    const client = await begin(DEAF, ...more);
    client.child.kill('SIGINT');
    await client.sees(/interrupted the code; a second Ctrl-C ends it with its interpreter/);
    await sleep(300); // two signals at once are one
    client.child.kill('SIGINT');
    assert.equal(await client.end, 130, client.err);
    assert.match(client.err, /ended the code and its interpreter; variables are lost/);
    const next = await cli('run', '--sandbox', id, '-e', 'print("x" in globals())');
    assert.deepEqual([next.code, next.stdout], [0, 'False\n'], next.stderr);
    assert.match((await cli('interrupt', id)).stderr, /no code is running in/);
  }
});

test('Ctrl-C of run --sandbox --json interrupts the code, and the answer is printed', T, async (t) => {
  const { id, begin, cli } = await python(t) ?? {};
  if (id === undefined) return;
  const client = await begin('x = 7\nwhile True: pass', '--json');
  client.child.kill('SIGINT');
  assert.equal(await client.end, 130, client.err);
  assert.deepEqual([JSON.parse(client.out).status, JSON.parse(client.out).stateLost], ['interrupted', false]);
  assert.equal((await cli('run', '--sandbox', id, '-e', 'x')).stdout, '7\n');
  const left = await begin('x = 8\nwhile True: pass', '--json');
  left.child.kill('SIGTERM');
  assert.equal(await left.end, 143);
  assert.match(left.err, /detached; the code may still be running/);
  await cli('interrupt', id); // a server that stops waits for code
});

test('run --sandbox says that its sandbox was paused and resumed; Ctrl-C detaches from a paused one', T, async (t) => {
  const { id, box, ask, begin } = await python(t) ?? {};
  if (id === undefined) return;
  const code = 'import os, time\nwhile not os.path.exists("/workspace/go"): time.sleep(0.05)\nprint("done")';
  const waits = await begin(code);
  await ask('POST', `${box}/pause`);
  await waits.sees(/sandbox \S+ was paused.* The code waits; 'sandglass sandbox resume \S+' resumes it, Ctrl-C detaches/);
  await ask('POST', `${box}/resume`);
  await waits.sees(/sandbox \S+ was resumed/);
  await ask('POST', `${box}/commands`, { argv: ['touch', '/workspace/go'] });
  assert.equal(await waits.end, 0, waits.err);
  assert.equal(waits.out, 'done\n');
  await ask('POST', `${box}/commands`, { argv: ['rm', '/workspace/go'] });
  const leaves = await begin(code);
  await ask('POST', `${box}/pause`);
  await leaves.sees(/was paused/);
  leaves.child.kill('SIGINT');
  assert.equal(await leaves.end, 130);
  assert.match(leaves.err, /detached; the code may still be running/);
});

test('SIGINT and SIGTERM end run --sandbox when the server hangs', T, async (t) => {
  const { server, id, box, ask, begin, cli } = await python(t) ?? {};
  if (id === undefined) return;
  const clients = [];
  for (const more of [[], ['--json'], [], ['--json']]) {
    const context = await ask('POST', `${box}/contexts`, { runtime: 'python3' });
    clients.push(await begin('import time\ntime.sleep(600)', '--context', context.id, ...more));
  }
  server.child.kill('SIGSTOP');
  t.after(() => server.child.kill('SIGCONT'));
  clients[0].child.kill('SIGTERM');
  clients[1].child.kill('SIGTERM');
  clients[2].child.kill('SIGINT');
  clients[3].child.kill('SIGINT');
  assert.deepEqual(await Promise.all(clients.map(({ end }) => end)), [143, 143, 130, 130]);
  for (const { err } of clients.slice(0, 2)) assert.match(err, /detached; the code may still be running/);
  for (const { err } of clients.slice(2)) assert.match(err, /no response within 5 s from the server/);
  server.child.kill('SIGCONT');
  await cli('interrupt', id); // a server that stops waits for code
});
