// The files of a sandbox lie on disk: what survives the end of the server, how large they may become,
// and that nothing is left of them.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };

async function start(t, options = {}) {
  const server = await serve(t, options);
  server.ask = async (method, path, body) => {
    const answer = await server.get(path, { method, body: body && JSON.stringify(body),
      headers: { 'content-type': 'application/json' } });
    const text = await answer.text();
    return { ...(text.startsWith('{') ? JSON.parse(text) : {}), status: answer.status, text };
  };
  server.make = async (body = {}) => {
    const made = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', ...body });
    assert.equal(made.status, 201, made.text);
    return made.id;
  };
  server.sh = async (id, command) => {
    const done = await server.ask('POST', `/v1/sandboxes/${id}/commands`, { command });
    assert.equal(done.status, 201, done.text);
    return done.stdout + done.stderr;
  };
  server.kill = async () => { server.child.kill('SIGKILL'); await server.exit; };
  const probe = await server.ask('POST', '/v1/sandboxes', { tier: 'jail' });
  if (probe.status !== 201) { t.skip(`no jails here: ${probe.text}`); return null; }
  const shown = await server.ask('GET', `/v1/sandboxes/${probe.id}`);
  server.onDisk = shown.storage === 'disk';
  await server.ask('DELETE', `/v1/sandboxes/${probe.id}`);
  return server;
}

// Without root there are no disks: that is said, and sandboxes write into memory.
async function startOnDisk(t, options) {
  const server = await start(t, options);
  if (server && !server.onDisk) { t.skip('the files of sandboxes lie in memory here'); return null; }
  return server;
}

const mounts = (dir) => readFileSync('/proc/self/mounts', 'utf8').split('\n').filter((line) => line.includes(` ${dir}/`));

function loops(dir) {
  const names = existsSync('/sys/block') ? readdirSync('/sys/block').filter((name) => name.startsWith('loop')) : [];
  return names.filter((name) => {
    try { return readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8').startsWith(`${dir}/`); } catch { return false; }
  });
}

// How many disks there are once a server has ended in order. One that has much to remove leaves
// files, never mounts, to the next start.
async function disksLeft(t, dir, wanted) {
  const count = () => readdirSync(join(dir, 'disks')).filter((name) => name !== '.trash').length + readdirSync(join(dir, 'disks', '.trash')).length;
  for (let i = 0; i < 5 && count() !== wanted; i++) {
    const server = await serve(t, { dir });
    await until(async () => (await server.get('/readyz')).status === 200);
    server.child.kill('SIGTERM');
    await server.exit;
  }
  return count();
}

test('a sandbox says where its files lie', T, async (t) => {
  const server = await start(t);
  if (!server) return;
  const id = await server.make();
  const shown = await server.ask('GET', `/v1/sandboxes/${id}`);
  assert.equal(shown.storage, process.getuid() === 0 && existsSync('/dev/loop-control') ? 'disk' : shown.storage);
  assert.match(shown.storage, /^(disk|memory)$/);
});

test('after kill -9 every file of a running sandbox is there', T, async (t) => {
  const dir = tempDir(t);
  const first = await startOnDisk(t, { dir });
  if (!first) return;
  const id = await first.make({ timeoutMs: 0 });
  await first.sh(id, 'mkdir many; i=0; while [ $i -lt 2000 ]; do echo $i >many/$i; i=$((i+1)); done; echo t >/tmp/t; echo h >~/h');
  await first.ask('POST', `/v1/sandboxes/${id}/checkpoints`, { name: 'one' });
  await first.sh(id, 'rm many/7; echo changed >many/8');
  const writer = await first.ask('POST', `/v1/sandboxes/${id}/commands`,
    { command: 'i=0; while :; do echo $i >>log; i=$((i+1)); done', detached: true });
  assert.ok(writer.status < 300, writer.text);
  let before = 0;
  await until(async () => (before = Number(await first.sh(id, 'wc -l <log'))) > 500);
  await first.kill();
  const second = await start(t, { dir });
  assert.equal((await second.ask('GET', `/v1/sandboxes/${id}`)).state, 'interrupted');
  assert.equal(await second.sh(id, 'ls many | wc -l; cat many/8 many/1999 /tmp/t ~/h; test -e many/7 || echo gone'),
    '1999\nchanged\n1999\nt\nh\ngone\n');
  assert.ok(Number(await second.sh(id, 'wc -l <log')) >= before);
  // And it goes on from there: back to the checkpoint, and kept once more.
  assert.equal((await second.ask('POST', `/v1/sandboxes/${id}/rollback`, { checkpoint: 'one' })).status, 200);
  assert.equal(await second.sh(id, 'cat many/7 many/8; test -e log || echo none; echo after >after'), '7\n8\nnone\n');
  await second.kill();
  const third = await start(t, { dir });
  assert.equal(await third.sh(id, 'cat many/7 after; test -e log || echo none'), '7\nafter\nnone\n');
  const forks = await third.ask('POST', `/v1/sandboxes/${id}/fork`, {});
  assert.equal(await third.sh(forks.sandboxes[0].id, 'cat after; ls many | wc -l'), 'after\n2000\n');
});

test('df tells the size, /tmp has the same limit, and a full disk says so', T, async (t) => {
  const server = await startOnDisk(t);
  if (!server) return;
  const id = await server.make({ limits: { diskMb: 100, memoryMb: 64 } });
  const sizes = (await server.sh(id, 'df -m --output=size / /tmp /workspace | tail -n 3')).trim().split(/\s+/).map(Number);
  for (const size of sizes) assert.ok(size >= 98 && size <= 110, `${sizes}`);
  // More than its memory, which is not what runs out.
  assert.equal(await server.sh(id, 'head -c 90M /dev/zero >f && stat -c %s f'), `${90 << 20}\n`);
  assert.match(await server.sh(id, 'head -c 90M /dev/zero >/tmp/g'), /No space left on device/);
  assert.match(await server.sh(id, 'cat /tmp/g f | wc -c; rm f /tmp/g; echo again >f && cat f'), /again\n$/);
});

// With a gigabyte of memory less than it writes: nothing of it is killed.
test('a large write does not end the sandbox', T, async (t) => {
  const server = await startOnDisk(t);
  if (!server) return;
  const id = await server.make({ limits: { diskMb: 1024, memoryMb: 64 } });
  await server.sh(id, 'echo kept >kept');
  assert.equal(await server.sh(id, 'dd if=/dev/zero of=big bs=1M count=600 2>/dev/null; stat -c %s big; cat kept'), `${600 << 20}\nkept\n`);
  const shown = await server.ask('GET', `/v1/sandboxes/${id}`);
  assert.equal(shown.state, 'running');
});

test('nothing in a sandbox keeps its files from being kept', T, async (t) => {
  const dir = tempDir(t);
  const first = await startOnDisk(t, { dir });
  if (!first) return;
  const id = await first.make({ timeoutMs: 0 });
  await first.sh(id, `echo kept >f; touch none; chmod 0 none; mkdir shut; echo in >shut/f; chmod 0 shut; truncate -s 8T sparse; mkfifo pipe;
    i=0; while [ $i -lt 300 ]; do mkdir -p d && cd d; i=$((i+1)); done; echo deep >deep`);
  const paused = await first.ask('POST', `/v1/sandboxes/${id}/pause`);
  assert.deepEqual([paused.status, paused.state], [200, 'paused'], paused.text);
  await first.kill();
  const second = await start(t, { dir });
  assert.equal(await second.sh(id, 'cat f; stat -c "%a" none shut; stat -c %s sparse; chmod 700 shut; cat shut/f; find . -name deep | wc -l'),
    'kept\n0\n0\n8796093022208\nin\n1\n');
});

test('nothing is left of what was deleted, nor of a server that has ended', T, async (t) => {
  const dir = tempDir(t);
  const first = await startOnDisk(t, { dir });
  if (!first) return;
  const ids = await Promise.all([1, 2, 3].map(() => first.make({ timeoutMs: 0 })));
  for (const id of ids) await first.sh(id, 'head -c 1M /dev/urandom >f');
  await first.kill();
  const second = await start(t, { dir });
  await until(async () => (await second.get('/readyz')).status === 200);
  for (const id of ids.slice(1)) assert.equal((await second.ask('DELETE', `/v1/sandboxes/${id}`)).status, 204);
  assert.equal(await second.sh(ids[0], 'stat -c %s f'), `${1 << 20}\n`);
  second.child.kill('SIGTERM');
  await second.exit;
  // The kernel lets go of a device a moment after the last mount has gone.
  await until(() => mounts(dir).length === 0 && loops(dir).length === 0);
  assert.equal(await disksLeft(t, dir, 1), 1);
});

// Removals that are queued, and a sweep that waits for the store, when the server is asked to end.
test('a server that ends during a burst of deletes leaves nothing', T, async (t) => {
  const dir = tempDir(t);
  for (let round = 0; round < 3; round++) {
    const server = await startOnDisk(t, { dir });
    if (!server) return;
    const kept = await server.make({ timeoutMs: 0 });
    await server.sh(kept, 'echo kept >f');
    const ids = await Promise.all(Array.from({ length: 32 }, () => server.make()));
    await Promise.all(ids.map((id) => server.ask('DELETE', `/v1/sandboxes/${id}`)));
    server.child.kill('SIGTERM');
    assert.deepEqual(await server.exit, { code: 0, signal: null }, server.stderr);
    await until(() => mounts(dir).length === 0 && loops(dir).length === 0);
  }
  assert.equal(await disksLeft(t, dir, 3), 3);
});

test('what a killed server left mounted goes with the next orderly end', T, async (t) => {
  const dir = tempDir(t);
  const first = await startOnDisk(t, { dir });
  if (!first) return;
  const kept = await first.make({ timeoutMs: 0 });
  await first.sh(kept, 'echo kept >f');
  const making = Array.from({ length: 24 }, () => first.ask('POST', '/v1/sandboxes', { tier: 'jail' }).catch(() => null));
  await Promise.race(making);
  await first.kill();
  await Promise.all(making);
  assert.notEqual(mounts(dir).length, 0);
  // Asked to end at once, before it has cleared up.
  const second = await serve(t, { dir });
  second.child.kill('SIGTERM');
  assert.deepEqual(await second.exit, { code: 0, signal: null }, second.stderr);
  await until(() => mounts(dir).length === 0 && loops(dir).length === 0);
  const third = await start(t, { dir });
  assert.equal(await third.sh(kept, 'cat f'), 'kept\n');
});

test('more sandboxes at once than wait ready are made on demand', T, async (t) => {
  const server = await startOnDisk(t);
  if (!server) return;
  const ids = await Promise.all(Array.from({ length: 24 }, () => server.make()));
  const said = await Promise.all(ids.map((id) => server.sh(id, `echo ${id} >f; cat f`)));
  assert.deepEqual(said, ids.map((id) => `${id}\n`));
  await Promise.all(ids.map((id) => server.ask('DELETE', `/v1/sandboxes/${id}`)));
});
