// Checkpoints, forks, pauses and snapshots of jails over HTTP, as a client and as a user sees them.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { run, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 60000 };

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

test('a paused jail comes back after kill -9 and after a stop', T, async (t) => {
  const dir = tempDir(t);
  const first = await setup(t, { dir });
  if (!first) return;
  const id = await first.make({ timeoutMs: -1 });
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
  assert.equal(fork.stdout.trim().split('\n').length, 3);
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
