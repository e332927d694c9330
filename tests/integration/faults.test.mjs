// Fault plan 9.1, 9.2 and 9.6 against the real server: a disk that is full or slow, kills of the
// server and of each of its helpers. What was acknowledged is there afterwards, the rest is named
// for what it is, and nothing is left running.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { isSanitized, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };

async function start(t, options) {
  const server = await serve(t, options);
  server.post = async (path, body) => {
    const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body ?? {}),
      headers: { 'content-type': 'application/json' } });
    return { ...(await answer.json()), status: answer.status };
  };
  server.json = async (path) => (await server.get(path)).json();
  server.remove = async (path) => (await server.get(path, { method: 'DELETE' })).status;
  return server;
}

// True when jails can be made here; the sandbox is `server.box`.
async function withJail(t, server, more = {}) {
  const box = await server.post('/v1/sandboxes', { tier: 'jail', ...more });
  if (box.status !== 201) t.skip(`no jails here: ${JSON.stringify(box.error)}`);
  server.id = box.id;
  server.box = `/v1/sandboxes/${box.id}`;
  return box.status === 201;
}

// Processes by a word of their command line, without those that have ended.
function processes(word) {
  return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid)).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').includes(word);
    } catch { return false; }
  });
}

// Some end while one looks.
const look = (path, how) => { try { return how(path, 'utf8'); } catch { return how === readdirSync ? [] : ''; } };
const children = (pid) => look(`/proc/${pid}/task`, readdirSync).flatMap((thread) =>
  look(`/proc/${pid}/task/${thread}/children`, readFileSync).split(' ').filter(Boolean)).map(Number);
const named = (pid, name) => children(pid).filter((child) => look(`/proc/${child}/comm`, readFileSync).includes(name));

// A word that no other process has: seconds to sleep.
const seconds = () => String(10000 + Math.random() * 10000);

async function kill(server) {
  server.child.kill('SIGKILL');
  await server.exit;
}

test('a full disk is reported, and work continues after it', T, async (t) => {
  const outer = tempDir(t), dir = join(outer, 'data'), filler = join(dir, 'filler');
  mkdirSync(dir, { mode: 0o700 });
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m,mode=700', 'tmpfs', dir]).status !== 0)
    return t.skip('no file system of our own here');
  try {
    let server = await start(t, { dir });
    if (!(await withJail(t, server))) return;
    const made = new Set([server.id]);
    spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=4k']);
    // What SQLite has already may take a few more.
    let refused = 0;
    for (let i = 0; i < 300 && refused < 3; i++) {
      const box = await server.post('/v1/sandboxes', { tier: 'memory' });
      assert.ok([201, 507].includes(box.status), JSON.stringify(box));
      if (box.status === 507) assert.equal(box.error.code, 'no_space');
      refused += box.status === 507;
      if (box.status === 201) made.add(box.id);
      assert.equal((await server.get('/healthz')).status, 200);
    }
    assert.equal(refused, 3);
    const volume = await server.post('/v1/volumes', { tier: 'memory' });
    assert.equal(volume.error?.code, 'no_space');
    // A command runs or is refused; its answer comes.
    const ran = await server.post(`${server.box}/commands`, { command: 'seq 20000' });
    assert.ok([201, 507].includes(ran.status), JSON.stringify(ran));
    rmSync(filler);
    const again = await server.post('/v1/sandboxes', { tier: 'memory' });
    assert.equal(again.status, 201);
    made.add(again.id);
    await kill(server);
    server = await start(t, { dir });
    for (const id of made) assert.equal((await server.json(`/v1/sandboxes/${id}`)).id, id);
    server.child.kill('SIGTERM');
    assert.equal((await server.exit).code, 0);
  } finally {
    spawnSync('umount', ['-l', dir]);
  }
});

test('a slow disk holds up who waits for it and nobody else', T, async (t) => {
  const server = await start(t, { env: { ...process.env, SG_STORE_SYNC_MS: '5000' } });
  const order = [];
  const session = server.post('/v1/sessions', {}).then((answer) => { order.push('session'); return answer; });
  for (let i = 0; i < 3; i++) assert.equal((await server.get('/healthz')).status, 200);
  order.push('alive');
  assert.equal((await session).status, 201);
  // Without faults built in the disk is as it is.
  if (readFileSync(process.env.SANDGLASS_BIN).includes('SG_STORE_SYNC_MS')) assert.deepEqual(order, ['alive', 'session']);
});

test('kill -9: nothing runs on, what ran is named, what was kept is there', T, async (t) => {
  const dir = tempDir(t), word = seconds();
  let server = await start(t, { dir });
  const volume = await server.post('/v1/volumes', { tier: 'jail' });
  if (volume.status !== 201) return t.skip(`no volumes here: ${JSON.stringify(volume.error)}`);
  if (!(await withJail(t, server, { volume: volume.id }))) return;
  const put = await server.get(`${server.box}/files?path=/workspace/kept`, { method: 'PUT', body: 'kept' });
  assert.equal(put.status, 201);
  const command = await server.post(`${server.box}/commands`, { argv: ['sleep', word], detached: true });
  assert.equal(command.status, 201);
  const done = await server.post(`${server.box}/commands`, { command: 'echo told' });
  await until(() => processes(word).length === 1);
  const warden = named(server.child.pid, 'warden');
  await kill(server);
  await until(() => processes(word).length === 0);
  await until(() => warden.every((pid) => !readdirSync('/proc').includes(String(pid))));

  server = await start(t, { dir });
  await until(async () => (await server.get('/readyz')).status === 200);
  assert.equal((await server.json(server.box ?? `/v1/sandboxes/${command.sandbox}`)).state, 'interrupted');
  assert.equal((await server.json(`/v1/commands/${command.id}`)).end, 'lost');
  const was = await server.json(`/v1/commands/${done.id}`);
  assert.deepEqual([was.end, was.exitCode], ['exited', 0]);
  assert.equal(await (await server.get(`/v1/commands/${done.id}/output`)).text(), 'told\n');
  // Use brings it back with its files; the lease of the dead server is void.
  const back = await server.get(`/v1/sandboxes/${command.sandbox}/files?path=/workspace/kept`);
  assert.equal(await back.text(), 'kept');
  assert.equal(await server.remove(`/v1/sandboxes/${command.sandbox}`), 204);
  assert.equal(await server.remove(`/v1/volumes/${volume.id}`), 204);
});

test('each helper killed separately: named, and the next one serves', T, async (t) => {
  const server = await start(t);
  if (!(await withJail(t, server))) return;
  const pid = server.child.pid;
  // The warden: its sandboxes are interrupted, the next one is made by the next warden.
  const [warden] = named(pid, 'warden');
  process.kill(warden, 'SIGKILL');
  await until(async () => (await server.json(server.box)).state === 'interrupted');
  assert.ok(await withJail(t, server));
  assert.notEqual(named(pid, 'warden')[0], warden);
  // The first process of one sandbox: that one has failed, the other lives.
  const other = (await server.post('/v1/sandboxes', { tier: 'jail' })).id, word = seconds();
  await server.post(`${server.box}/commands`, { argv: ['sleep', word], detached: true });
  await until(() => processes(word).length === 1);
  const status = readFileSync(`/proc/${processes(word)[0]}/status`, 'utf8');
  process.kill(Number(/^PPid:\t(\d+)/m.exec(status)[1]), 'SIGKILL');
  await until(async () => (await server.json(server.box)).state === 'failed');
  await until(() => processes(word).length === 0);
  assert.equal((await server.post(`/v1/sandboxes/${other}/commands`, { argv: ['true'] })).exitCode, 0);
  // The spawner of isolates.
  const code = { language: 'js', code: '1 + 1' };
  assert.equal((await server.post('/v1/run_code', code)).status, 200);
  for (const spawner of named(pid, 'spawner')) process.kill(spawner, 'SIGKILL');
  await until(async () => (await server.post('/v1/run_code', code)).status === 200);
});

test('a session sleeps, comes back with its files, and goes with its rows', T, async (t) => {
  const server = await start(t);
  const session = await server.post('/v1/sessions', { idleMs: 300, sandbox: { tier: 'jail' } });
  assert.equal(session.status, 201);
  const at = `/v1/sessions/${session.id}`;
  const first = await server.post(`${at}/commands`, { command: 'echo kept >/workspace/f; cat /workspace/f' });
  if (first.status !== 201) return t.skip(`no jails here: ${JSON.stringify(first.error)}`);
  assert.equal(first.stdout, 'kept\n');
  await until(async () => (await server.json(at)).state === 'dormant');
  assert.equal((await server.get(`/v1/sandboxes/${first.sandbox}`)).status, 404);
  const second = await server.post(`${at}/commands`, { command: 'cat /workspace/f' });
  assert.equal(second.stdout, 'kept\n');
  assert.notEqual(second.sandbox, first.sandbox);
  const { volume } = await server.json(at);
  assert.ok(volume);
  assert.equal(await server.remove(at), 204);
  assert.equal((await server.get(at)).status, 404);
  assert.equal((await server.get(`/v1/volumes/${volume}`)).status, 404);
});

// A group of its own that may use `bytes`; null where none can be made. It goes when it is empty.
function memoryGroup(t, bytes) {
  const own = readFileSync('/proc/self/cgroup', 'utf8').split('\n').map((line) => line.split(':'))
    .find(([, names]) => names === 'memory' || names === '');
  if (!own) return null;
  const isOld = own[1] === 'memory';
  const group = join(isOld ? '/sys/fs/cgroup/memory' : '/sys/fs/cgroup', own[2], `it-memory-${process.pid}`);
  try {
    mkdirSync(group);
  } catch { return null; }
  t.after(() => until(() => { try { rmdirSync(group); return true; } catch (why) { return why.code === 'ENOENT'; } }));
  try {
    writeFileSync(join(group, isOld ? 'memory.limit_in_bytes' : 'memory.max'), String(bytes));
    return group;
  } catch { return null; }
}

const family = (pid) => [pid, ...children(pid).flatMap(family)];

test('9.3: with 64 MiB for everything it answers, or is killed and has lost nothing', T, async (t) => {
  if (isSanitized) return t.skip('not under a sanitizer');
  const dir = join(tempDir(t), 'data'), group = memoryGroup(t, 64 << 20);
  if (!group) return t.skip('no memory limit to give here');
  const server = await start(t, { dir });
  for (const pid of family(server.child.pid)) {
    try { writeFileSync(join(group, 'cgroup.procs'), String(pid)); } catch (why) { assert.equal(why.code, 'ESRCH'); }
  }
  const kept = [], answers = new Set();
  // Once the server is gone there is nobody to answer: each ask says whether there was.
  const ask = async (path, body) => {
    try {
      const answer = await server.post(path, body);
      answers.add(answer.status);
      return answer;
    } catch { return null; }
  };
  await Promise.all([1, 2, 3, 4].map(async (client) => {
    for (let n = 0; n < 4; n++) {
      const volume = await ask('/v1/volumes', { name: `v${client}${n}` });
      if (volume?.status === 201) kept.push(volume.id);
      const box = await ask('/v1/sandboxes', { tier: client % 2 ? 'jail' : 'memory' });
      await ask('/v1/run_code', { code: '[...Array(100000).keys()].length' });
      if (box?.status === 201) await ask(`/v1/sandboxes/${box.id}/checkpoints`, {});
    }
  }));
  for (const status of answers) assert.ok([200, 201, 423, 429, 501, 503, 504, 507].includes(status), `${[...answers]}`);
  if (server.child.exitCode === null && server.child.signalCode === null) await kill(server);
  assert.equal((await server.exit).signal, 'SIGKILL', server.stderr);
  const next = await start(t, { dir });
  assert.ok(kept.length > 0);
  for (const id of kept) assert.equal((await next.get(`/v1/volumes/${id}`)).status, 200);
});
