// Checkpoints, forks, pauses and snapshots of jails over HTTP, as a client and as a user sees them.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { run, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };

async function setup(t, options = {}) {
  const server = await serve(t, options);
  server.ask = async (method, path, body) => {
    const answer = await server.get(path, { method, body: body && JSON.stringify(body),
      headers: { 'content-type': 'application/json' } });
    const text = await answer.text();
    return { ...(text.startsWith('{') ? JSON.parse(text) : {}), status: answer.status, text };
  };
  server.post = (path, body) => server.ask('POST', path, body ?? {});
  server.sh = async (id, command) => (await server.post(`/v1/sandboxes/${id}/commands`, { command })).stdout;
  server.make = async (body = {}) => (await server.post('/v1/sandboxes', { tier: 'jail', ...body })).id;
  server.layers = () => readdirSync(join(server.dir, 'layers')).filter((name) => name !== '.trash').length;
  server.cli = (...args) => run(args,
    { env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token } });
  const probe = await server.post('/v1/sandboxes', { tier: 'jail' });
  if (probe.status !== 201) {
    t.skip(`no jails here: ${probe.text}`);
    return null;
  }
  await server.ask('DELETE', `/v1/sandboxes/${probe.id}`);
  return server;
}

test('checkpoint, rollback and fork', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const id = await server.make();
  await server.sh(id, 'echo one >f');
  assert.equal((await server.post(`/v1/sandboxes/${id}/checkpoints`, { name: 'one' })).status, 201);
  await server.sh(id, 'echo two >f');
  const forks = await server.post(`/v1/sandboxes/${id}/fork`, { count: 2 });
  assert.equal(forks.status, 201);
  const back = await server.post(`/v1/sandboxes/${id}/rollback`, { checkpoint: 'one' });
  assert.deepEqual([back.status, back.state], [200, 'running']);
  assert.equal(await server.sh(id, 'cat f'), 'one\n');
  for (const fork of forks.sandboxes) assert.equal(await server.sh(fork.id, 'cat f'), 'two\n');
  for (const each of [id, ...forks.sandboxes.map((fork) => fork.id)])
    assert.equal((await server.ask('DELETE', `/v1/sandboxes/${each}`)).status, 204);
  await until(() => server.layers() === 0);
});

// Where it lies on a disk of its own, what was written stays where it is, however much it is.
test('a checkpoint on a disk copies nothing', { timeout: 180000 }, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const disks = () => readdirSync(join(server.dir, 'disks')).filter((name) => !name.startsWith('.'));
  const used = () => disks().map((name) => join(server.dir, 'disks', name, 'disk.img'))
    .reduce((sum, path) => sum + (existsSync(path) ? statSync(path).blocks * 512 : 0), 0);
  const id = await server.make({ timeoutMs: 0, limits: { diskMb: 2048 } });
  if ((await server.ask('GET', `/v1/sandboxes/${id}`)).storage !== 'disk') { t.skip('no disks here'); return; }
  await server.sh(id, 'head -c 300M /dev/urandom >big; cksum big >sum; echo one >f; sync');
  assert.equal((await server.post(`/v1/sandboxes/${id}/checkpoints`, { name: 'one' })).status, 201);
  await server.sh(id, 'echo two >f; rm big; head -c 1M /dev/zero >more; echo t >/tmp/t; sync');
  const fork = (await server.post(`/v1/sandboxes/${id}/fork`, { checkpoint: 'one' })).sandboxes[0].id;
  const second = (await server.post(`/v1/sandboxes/${id}/fork`)).sandboxes[0].id;
  assert.equal((await server.post(`/v1/sandboxes/${id}/rollback`, { checkpoint: 'one' })).status, 200);
  assert.equal(await server.sh(id, 'cat f; cksum big | cmp - sum && ls; ls /tmp'), 'one\nbig\nf\nsum\n');
  assert.equal(server.layers(), 0);
  assert.ok(used() < 450 << 20, `${used()} bytes are used`); // once, not twice
  // A sandbox that uses it keeps it, and only that long.
  await server.ask('DELETE', `/v1/sandboxes/${id}`);
  assert.equal(await server.sh(fork, 'cat f; cksum big | cmp - sum && echo same'), 'one\nsame\n');
  assert.equal(await server.sh(second, 'cat f; test -e big || echo gone'), 'two\ngone\n');
  const shown = await server.cli('du');
  assert.match(shown.stdout, /kept disk/);
  for (const each of [fork, second]) assert.equal((await server.ask('DELETE', `/v1/sandboxes/${each}`)).status, 204);
  await until(() => used() < 150 << 20);
  assert.equal(server.layers(), 0);
});

test('a checkpoint, a rollback and a fork hold after kill -9 at once', T, async (t) => {
  const dir = tempDir(t);
  const first = await setup(t, { dir });
  if (!first) return;
  const id = await first.make({ timeoutMs: 0 });
  await first.sh(id, 'echo one >f');
  await first.post(`/v1/sandboxes/${id}/checkpoints`, { name: 'one' });
  await first.sh(id, 'echo two >f');
  await first.post(`/v1/sandboxes/${id}/checkpoints`, { name: 'two' });
  await first.sh(id, 'echo three >f');
  const fork = (await first.post(`/v1/sandboxes/${id}/fork`)).sandboxes[0].id;
  assert.equal((await first.post(`/v1/sandboxes/${id}/rollback`, { checkpoint: 'two' })).status, 200);
  first.child.kill('SIGKILL');
  await first.exit;
  const second = await setup(t, { dir });
  const onDisk = (await second.ask('GET', `/v1/sandboxes/${id}`)).storage === 'disk';
  assert.equal(await second.sh(id, 'cat f'), 'two\n');
  if (onDisk) assert.equal(await second.sh(fork, 'cat f; echo mine >f'), 'three\n');
  assert.equal((await second.post(`/v1/sandboxes/${id}/rollback`, { checkpoint: 'one' })).status, 200);
  second.child.kill('SIGKILL');
  await second.exit;
  const third = await setup(t, { dir });
  assert.equal(await third.sh(id, 'cat f'), 'one\n');
  if (onDisk) assert.equal(await third.sh(fork, 'cat f'), 'mine\n');
});

test('a paused jail comes back after kill -9 and after a stop', T, async (t) => {
  const dir = tempDir(t);
  const first = await setup(t, { dir });
  if (!first) return;
  const id = await first.make({ timeoutMs: 0 });
  await first.sh(id, 'echo kept >f');
  assert.equal((await first.post(`/v1/sandboxes/${id}/pause`)).state, 'paused');
  first.child.kill('SIGKILL');
  await first.exit;
  const second = await setup(t, { dir });
  assert.equal((await second.ask('GET', `/v1/sandboxes/${id}`)).state, 'paused');
  assert.equal(await second.sh(id, 'cat f; echo more >g'), 'kept\n');
  second.child.kill('SIGTERM'); // running: put aside in good order
  await second.exit;
  const third = await setup(t, { dir });
  assert.equal(await third.sh(id, 'cat g'), 'more\n');
});

test('the command line makes checkpoints and goes back', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const id = await server.make();
  await server.sh(id, 'echo one >f');
  const made = await server.cli('sandbox', 'checkpoint', id, '--name', 'one');
  assert.match(made.stdout, /^\w{26}\n$/);
  await server.sh(id, 'echo two >f');
  const back = await server.cli('sandbox', 'rollback', id, 'one');
  assert.match(back.stdout, /running/);
  assert.equal(await server.sh(id, 'cat f'), 'one\n');
  const fork = await server.cli('sandbox', 'fork', id, '--count', '2');
  assert.equal(fork.stdout.trim().split('\n').length, 2);
  const wrong = await server.cli('sandbox', 'rollback', id, 'nowhere');
  assert.notEqual(wrong.code, 0);
  assert.match(wrong.stderr, /no checkpoint 'nowhere'/);
});

test('a snapshot of a sandbox is what others begin with', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const id = await server.make();
  await server.sh(id, 'echo base >f');
  const made = await server.post('/v1/snapshots', { sandbox: id, slug: 'base-files' });
  assert.deepEqual([made.status, made.state, made.tier], [201, 'ready', 'jail']);
  const user = await server.make({ snapshots: ['base-files'] });
  assert.equal(await server.sh(user, 'cat f'), 'base\n');
  const refused = await server.ask('DELETE', '/v1/snapshots/base-files');
  assert.deepEqual([refused.status, refused.error.code], [409, 'conflict']);
  for (const each of [id, user]) await server.ask('DELETE', `/v1/sandboxes/${each}`);
  assert.equal((await server.ask('DELETE', '/v1/snapshots/base-files')).status, 204);
  await until(() => server.layers() === 0);
});
