// Variables of Python interpreters that come back: after a session slept, and after a rollback.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { serve, sleep, tempDir, until } from './lib.mjs';

const T = { timeout: 240000 };
const py = { language: 'python' };

// null, with the test skipped, where no interpreter is forked from a zygote.
async function start(t, { dir, config = '' } = {}) {
  const file = join(tempDir(t), 'config.toml');
  writeFileSync(file, `[sandbox]\n${config}\n`);
  const server = await serve(t, { dir, args: ['--config', file], env: { ...process.env, SANDGLASS_ZYGOTE_AT_START: 'true' } });
  server.ask = async (method, path, body) => {
    const answer = await server.get(path, { method, body: body && JSON.stringify(body),
      headers: { 'content-type': 'application/json' } });
    const text = await answer.text();
    return { ...(text.startsWith('{') ? JSON.parse(text) : {}), http: answer.status, raw: text };
  };
  server.box = async (spec) => {
    const made = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', runtime: 'python3', ...spec });
    assert.equal(made.http, 201, made.raw);
    return `/v1/sandboxes/${made.id}`;
  };
  server.session = async (id, spec) => {
    const made = await server.ask('POST', '/v1/sessions', { id, sandbox: { tier: 'jail', ...spec?.sandbox }, idleMs: spec?.idleMs });
    assert.equal(made.http, 201, made.raw);
    return `/v1/sessions/${id}`;
  };
  server.run = (at, code, more) => server.ask('POST', `${at}/run_code`, { code, ...py, ...more });
  server.rest = async (at) => assert.equal((await server.ask('POST', `${at}/rest`, {})).state, 'dormant');
  server.checkpoint = async (at) => {
    const made = await server.ask('POST', `${at}/checkpoints`, {});
    assert.equal(made.http, 201, made.raw);
    return made.id;
  };
  server.rollback = async (at, checkpoint) => {
    const back = await server.ask('POST', `${at}/rollback`, { checkpoint });
    assert.equal(back.http, 200, back.raw);
  };
  server.kept = () => server.figure('sandglass_variables_kept');
  await until(() => server.stderr.includes('event=jail.zygote') || server.stderr.includes('event=provider.unavailable'));
  if (/event=jail.zygote.*error|event=provider.unavailable.*jail/.test(server.stderr)) {
    t.skip(server.stderr);
    return null;
  }
  return server;
}

const told = ({ stateLost, stateLostReason }) => [stateLost, stateLostReason];
function is(answer, result) {
  assert.deepEqual([...told(answer), answer.result], [false, null, result], answer.raw);
}
const ran = (answer) => assert.deepEqual([answer.success, ...told(answer)], [true, false, null], answer.raw);
const lost = (answer, reason) => assert.deepEqual(told(answer), [true, reason], answer.raw);
const big = (mib) => `big = bytearray(${mib} << 20); big[::4096] = b"x" * (${mib} << 8)`;
const descriptors = (server) => readdirSync(`/proc/${server.child.pid}/fd`).length;

test('a session wakes with its variables', T, async (t) => {
  const server = await start(t);
  if (server === null) return;
  const at = await server.session('sleeps-well', { sandbox: { env: { MINE: 'yes' } } });
  ran(await server.run(at, 'import os\nx = [1]\ng = iter(range(9)); next(g)\nlog = open("log", "w+"); log.write("before"); log.flush()\n'
    + 'gone = open("/tmp/gone", "w")\nos.environ["OWN"] = "set"'));
  const { id: own } = await server.ask('POST', `${at}/contexts`, { runtime: 'python3', cwd: '/tmp' });
  ran(await server.run(at, 'y = 5', { language: undefined, context: own }));
  await server.rest(at);
  assert.equal(await server.kept(), 1);
  assert.ok(await server.figure('sandglass_variables_kept_bytes') > 1 << 20);
  const woken = await server.run(at, 'x.append(2); log.write(" and after"); log.flush()\n'
    + '[x, next(g), open("log").read(), os.environ["OWN"], os.environ["MINE"]]');
  is(woken, [[1, 2], 1, 'before and after', 'set', 'yes']);
  assert.equal(woken.executionCount, 2);
  // A file outside of the volume is gone, and its descriptor says so.
  const closed = await server.run(at, 'gone.write("x"); gone.flush()');
  assert.equal(closed.error?.name, 'OSError', closed.raw);
  is(await server.run(at, 'import os; [y, os.getcwd()]', { language: undefined, context: own }), [5, '/tmp']);
  assert.equal(await server.kept(), 0);
  // Again and again, and by the session's own time without work.
  for (let i = 0; i < 3; i++) {
    await server.rest(at);
    is(await server.run(at, 'len(x)'), 2);
  }
  const idle = await server.session('sleeps-soon', { idleMs: 1000 });
  ran(await server.run(idle, 'z = 7'));
  await until(async () => (await server.ask('GET', idle)).state === 'dormant');
  assert.equal(await server.kept(), 1);
  is(await server.run(idle, 'z'), 7);
  // A loss that nobody was told of is still told; what lives on is not lost by it.
  ran(await server.run(at, 'import os, threading; threading.Timer(0.1, os._exit, [3]).start()', { language: undefined, context: own }));
  await until(async () => (await server.ask('GET', `${at}/contexts/${own}`)).state === 'cold');
  await server.rest(at);
  is(await server.run(at, 'len(x)'), 2);
});

test('a rollback brings the variables of the checkpoint back', T, async (t) => {
  const server = await start(t);
  if (server === null) return;
  const at = await server.box();
  const empty = await server.checkpoint(at);
  assert.equal(await server.kept(), 0);
  // An interpreter that waited in the sandbox and has run nothing is not asked, though a shell has variables.
  const shell = await server.box();
  ran(await server.run(shell, 'x=1', { language: 'bash' }));
  await server.checkpoint(shell);
  assert.equal(await server.kept(), 0);
  ran(await server.run(at, 'v = [1]; open("f", "w").write("one")'));
  const { id: own } = await server.ask('POST', `${at}/contexts`, { runtime: 'python3' });
  ran(await server.run(at, 'w = 1', { context: own }));
  const first = await server.checkpoint(at);
  assert.equal(await server.kept(), 1);
  ran(await server.run(at, 'v.append(2); open("f", "w").write("two")'));
  const second = await server.checkpoint(at);
  assert.equal(await server.kept(), 2);
  const { id: late } = await server.ask('POST', `${at}/contexts`, { runtime: 'python3' });
  ran(await server.run(at, 'v.append(3); w = 9'));
  ran(await server.run(at, 'u = 1', { context: late }));
  assert.equal((await server.ask('DELETE', `${at}/contexts/${own}`)).http, 204);
  const look = '[v, open("f").read()]';
  // Twice to the same, and code that comes meanwhile waits.
  for (let i = 0; i < 2; i++) {
    let isBack = false;
    const back = server.rollback(at, second).then(() => { isBack = true; }), during = [];
    for (; !isBack; await sleep(10)) during.push(server.run(at, 'v', { files: false }));
    await back;
    for (const each of await Promise.all(during)) {
      if (each.result?.length === 2) is(each, [1, 2]);
      assert.notEqual(each.error?.name, 'NameError', each.raw);
    }
    is(await server.run(at, look), [[1, 2], 'two']);
    ran(await server.run(at, 'v.append(4)'));
  }
  is(await server.run(at, 'w', { context: own }), 1);
  assert.equal((await server.run(at, 'u', { context: late })).http, 404);
  await server.rollback(at, first);
  assert.equal(await server.kept(), 1); // that of the second went with it
  is(await server.run(at, look), [[1], 'one']);
  // A fork of a checkpoint goes on from there as well.
  ran(await server.run(at, 'v.append(5)'));
  const { sandboxes: forks, raw } = await server.ask('POST', `${at}/fork`, { count: 2, checkpoint: first });
  for (const fork of forks) {
    assert.deepEqual(fork.contexts.map((each) => each.live), [true, true], raw);
    is(await server.run(`/v1/sandboxes/${fork.id}`, look), [[1], 'one']);
  }
  // Before there were any.
  await server.rollback(at, empty);
  lost(await server.run(at, '"v" in globals()'), 'rollback');
  assert.equal(await server.kept(), 0);
  // The end of the sandbox frees what its checkpoints keep.
  ran(await server.run(at, 'v = 1'));
  await server.checkpoint(at);
  assert.equal((await server.ask('DELETE', at)).http, 204);
  assert.equal(await server.kept(), 0);
  assert.equal(await server.figure('sandglass_variables_kept_bytes'), 0);
});

test('the server pays for what it keeps, the sandbox for what it uses', T, async (t) => {
  const server = await start(t);
  if (server === null) return;
  const at = await server.box();
  const used = async () => (await server.ask('GET', `${at}/usage`)).memory.bytes ?? -1;
  ran(await server.run(at, big(60)));
  const before = await used();
  if (before < 0) return t.skip('the host does not count memory');
  assert.ok(before > 60 << 20, `${before}`);
  const kept = [];
  for (let i = 0; i < 3; i++) kept.push(await server.checkpoint(at));
  assert.equal(await server.kept(), 3);
  await until(async () => await used() < before + (20 << 20));
  await server.rollback(at, kept[2]);
  assert.ok(await used() > 60 << 20, `${await used()}`);
  is(await server.run(at, '[len(big), big.count(b"x")]'), [60 << 20, 60 << 8]);
});

test('what does not fit is reported', T, async (t) => {
  const server = await start(t, { config: 'keep_variables_mb = 48\nkeep_variables_total_mb = 64' });
  if (server === null) return;
  const one = await server.session('one-small'), two = await server.session('two-small'), large = await server.session('too-large');
  ran(await server.run(large, big(80)));
  await server.rest(large);
  assert.equal(await server.kept(), 0);
  assert.match(server.stderr, /event=variables.skipped.*its memory is larger than the 48 MiB that \[sandbox\] keep_variables_mb gives to it/);
  lost(await server.run(large, '"big" in globals()'), 'dormant');
  ran(await server.run(large, '1'));
  // Together too large: the oldest goes.
  for (const at of [one, two]) {
    ran(await server.run(at, big(30)));
    await server.rest(at);
  }
  assert.deepEqual([await server.kept(), await server.figure('sandglass_variables_dropped_total')], [1, 1]);
  assert.match(server.stderr, /event=variables.dropped.*one-small/);
  lost(await server.run(one, '"big" in globals()'), 'dormant');
  is(await server.run(two, 'len(big)'), 30 << 20);
  // The checkpoints of one sandbox share a bound. An interpreter has 10 to 20 MB of its own besides.
  const box = await server.box();
  ran(await server.run(box, big(20)));
  const first = await server.checkpoint(box), second = await server.checkpoint(box);
  assert.equal(await server.kept(), 1);
  await server.rollback(box, second);
  is(await server.run(box, 'len(big)'), 20 << 20);
  await server.rollback(box, first);
  lost(await server.run(box, '"big" in globals()'), 'rollback');
  // Code that runs cannot be kept.
  const busy = server.run(two, 'import time; time.sleep(30)');
  await until(async () => (await server.ask('GET', `${two}/contexts/python3`)).state === 'busy');
  await server.rest(two);
  await busy;
  lost(await server.run(two, '1'), 'dormant');
});

test('nothing is kept where the configuration says so, nor for automatic checkpoints', T, async (t) => {
  const off = await start(t, { config: 'keep_variables_mb = 0' });
  if (off === null) return;
  const at = await off.session('no-memory'), box = await off.box();
  ran(await off.run(at, 'x = 1'));
  await off.rest(at);
  lost(await off.run(at, '1'), 'dormant');
  ran(await off.run(box, 'x = 1'));
  const first = await off.checkpoint(box);
  assert.equal(await off.kept(), 0);
  await off.rollback(box, first);
  lost(await off.run(box, '1'), 'rollback');
  const turns = await start(t, { config: 'checkpoints = "turn"' });
  const each = await turns.box();
  for (let i = 0; i < 3; i++) ran(await turns.run(each, `x = ${i}; open("f", "w").write("${i}")`));
  assert.ok((await turns.ask('GET', `${each}/checkpoints`)).raw.includes('run_code'));
  assert.equal(await turns.kept(), 0);
});

test('what nobody can want any more is freed', T, async (t) => {
  const server = await start(t);
  if (server === null) return;
  const rested = async (id) => {
    const at = await server.session(id);
    ran(await server.run(at, 'x = 1'));
    await server.rest(at);
    return at;
  };
  await server.ask('DELETE', await rested('warming-up'));
  await until(async () => descriptors(server) === (await sleep(300), descriptors(server)));
  const before = descriptors(server);
  const at = await rested('to-delete'), other = await rested('its-volume');
  assert.equal(await server.kept(), 2);
  assert.equal((await server.ask('DELETE', at)).http, 204);
  assert.equal(await server.kept(), 1);
  const { volume } = await server.ask('GET', other);
  assert.equal((await server.ask('DELETE', `/v1/volumes/${volume}`)).http, 204);
  assert.equal(await server.kept(), 0);
  lost(await server.run(other, '1'), 'volume_deleted');
  await server.ask('DELETE', other);
  await until(() => descriptors(server) <= before + 2);
  // The warden dies, and with it every process that could go on.
  const third = await rested('warden-dies');
  const [warden] = readdirSync(`/proc/${server.child.pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${server.child.pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean))
    .filter((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8').includes('warden'));
  process.kill(Number(warden), 'SIGKILL');
  await until(async () => await server.kept() === 0);
  lost(await server.run(third, '1'), 'dormant');
});

// The frame that asks for the memory is answered by the tenant's own code, and the file holds what that likes.
test('an interpreter that damages its saved state starts fresh', T, async (t) => {
  const server = await start(t);
  if (server === null) return;
  const at = await server.session('spoils-it');
  const spoil = (write) => 'import os, sandglass.main as m, socket\ndef copy(request):\n'
    + '    s = socket.socket(fileno=os.dup(m.kernel.channel.fd))\n    _, fds, _, _ = socket.recv_fds(s, 1, 1)\n'
    + `    ${write}; os.close(fds[0])\n    return b"+"\nm.copy = copy`;
  for (const [write, kept] of [['os.write(fds[0], b"rubbish" * 9999)', 1], ['None', 1], ['os.ftruncate(fds[0], 1 << 44)', 0],
    ['os.ftruncate(fds[0], 300 << 20)', 0], ['os.posix_fallocate(fds[0], 0, 60 << 20)', 1]]) {
    ran(await server.run(at, spoil(write)));
    await server.rest(at);
    assert.equal(await server.kept(), kept, write);
    lost(await server.run(at, '1 + 1'), 'dormant');
    const box = await server.box();
    ran(await server.run(box, spoil(write)));
    const first = await server.checkpoint(box);
    assert.equal(await server.kept(), kept, write);
    await server.rollback(box, first);
    lost(await server.run(box, '1 + 1'), 'rollback');
    await server.ask('DELETE', box);
  }
});

// As SEC-07 has it for commands: what the state holds of an earlier life means nothing.
test('an interpreter that goes on has the placeholders of its new life', T, async (t) => {
  const server = await start(t);
  if (server === null) return;
  const sandbox = { network: 'allow api.example.com', secrets: [{ name: 'KEY', value: 'v'.repeat(24), hosts: ['api.example.com'] }] };
  const at = await server.session('has-a-key', { sandbox }), box = await server.box(sandbox);
  const look = 'import os; os.environ["KEY"]';
  const shell = async (place) => (await server.run(place, 'printf %s "$KEY"', { language: 'bash' })).stdout;
  const seen = new Set();
  const check = async (place) => {
    const answer = await server.run(place, `x = 1; ${look}`);
    ran(answer);
    assert.match(answer.result, /^sgs_/);
    assert.equal(await shell(place), answer.result);
    assert.ok(!seen.has(answer.result));
    seen.add(answer.result);
  };
  await check(at);
  await server.rest(at);
  is(await server.run(at, 'x'), 1);
  await check(at);
  await check(box);
  const first = await server.checkpoint(box);
  for (let i = 0; i < 2; i++) {
    await server.rollback(box, first);
    is(await server.run(box, 'x'), 1);
    await check(box);
  }
});

test('a server that ends keeps nothing, and the next one says so', T, async (t) => {
  const dir = tempDir(t);
  for (const [signal, name] of [['SIGTERM', 'stops-well'], ['SIGKILL', 'is-killed']]) {
    let server = await start(t, { dir });
    if (server === null) return;
    const at = await server.session(name), box = await server.box();
    ran(await server.run(at, 'x = 1'));
    await server.rest(at);
    ran(await server.run(box, 'x = 1'));
    const first = await server.checkpoint(box);
    assert.equal(await server.kept(), 2);
    server.child.kill(signal);
    const { code } = await server.exit;
    if (signal === 'SIGTERM') assert.equal(code, 0, server.stderr);
    server = await start(t, { dir });
    lost(await server.run(at, '1'), 'dormant');
    lost(await server.run(box, 'x = 2'), 'restart');
    await server.rollback(box, first);
    lost(await server.run(box, '1'), 'rollback');
    server.child.kill('SIGTERM');
    await server.exit;
  }
  // While interpreters write down what they hold.
  const server = await start(t, { dir });
  const at = await server.session('in-between');
  ran(await server.run(at, big(150)));
  void server.ask('POST', `${at}/rest`, {}).catch(() => {});
  await sleep(60);
  server.child.kill('SIGTERM');
  assert.equal((await server.exit).code, 0, server.stderr);
});
