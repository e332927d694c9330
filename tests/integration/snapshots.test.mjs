// Snapshots from packages and from directories: built once, by the first request, and gone without
// a trace when that fails. The registry is on loopback and serves what the test packs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import test from 'node:test';
import { startDns } from './egress_lib.mjs';
import { run, serve, tempDir, until } from './lib.mjs';
import { withSnapshots } from './snapshots_lib.mjs';

const T = { timeout: 600000 };

async function startRegistry(t) {
  const dir = tempDir(t);
  const registry = { asked: [] };
  mkdirSync(join(dir, 'package'));
  writeFileSync(join(dir, 'package', 'package.json'), '{"name":"tiny","version":"1.0.0","main":"i.js"}');
  writeFileSync(join(dir, 'package', 'i.js'), 'module.exports = 42');
  execFileSync('/bin/tar', ['-C', dir, '-czf', join(dir, 'tiny.tgz'), 'package']);
  const server = http.createServer(async (request, response) => {
    registry.asked.push(request.url);
    await registry.gate;
    if (request.url.endsWith('.tgz')) return response.end(readFileSync(join(dir, 'tiny.tgz')));
    if (request.url !== '/tiny') return response.writeHead(404).end('{}');
    return response.end(JSON.stringify({ name: 'tiny', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': {
      name: 'tiny', version: '1.0.0', dist: { tarball: `${registry.url}tiny/-/tiny-1.0.0.tgz` } } } }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections(); server.close(); });
  registry.url = `http://registry.test:${server.address().port}/`;
  return registry;
}

// A server whose machine names that registry.
async function setup(t, { dependencies = '', dir = tempDir(t), registry } = {}) {
  if (!existsSync('/usr/bin/npm')) {
    t.skip('no npm on this machine');
    return null;
  }
  registry ??= await startRegistry(t);
  const dns = await startDns(t, { 'registry.test': ['127.0.0.1'] });
  const home = tempDir(t), config = join(home, 'config.toml');
  writeFileSync(config, `[egress]\ndns_servers = ["${dns.address}"]\n[sandbox]\nprovider = "jail"\n${dependencies}`);
  const server = await serve(t, { dir, args: ['--config', config],
    env: { ...process.env, HOME: home, npm_config_registry: registry.url } });
  server.registry = registry;
  return withSnapshots(t, server);
}

const TINY = '[[sandbox.dependencies]]\npackage = "tiny"\nversion = "1.0.0"\n';

test('the configuration\'s dependencies are built at start, and once', T, async (t) => {
  const dir = tempDir(t);
  const server = await setup(t, { dependencies: TINY, dir });
  if (!server) return;
  await until(async () => (await server.ask('GET', '/readyz')).snapshotState === 'ready');
  const { snapshot } = await server.ask('GET', '/readyz');
  assert.match(snapshot, /^deps-[0-9a-f]{20}$/);
  const box = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', snapshots: [snapshot] });
  assert.equal(await server.sh(box.id, 'node -p \'require("tiny")\'; ls -A ~'), '42\n');
  await server.ask('DELETE', `/v1/sandboxes/${box.id}`);
  await until(async () => JSON.stringify(await server.left()) === '{"layers":1,"sandboxes":0,"snapshots":1}');
  server.child.kill('SIGKILL');
  await server.exit;
  const asked = server.registry.asked.length;
  const again = await setup(t, { dependencies: TINY, dir, registry: server.registry });
  await until(async () => (await again.ask('GET', '/readyz')).snapshotState === 'ready');
  assert.equal(server.registry.asked.length, asked);
});

test('two who want the same get one build', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const wanted = { dependencies: { tiny: '1.0.0' } };
  const both = await Promise.all([server.ask('POST', '/v1/snapshots', wanted), server.ask('POST', '/v1/snapshots', wanted)]);
  assert.deepEqual(both.map((each) => each.status), [201, 201], both[0].text);
  assert.equal(both[0].id, both[1].id);
  assert.equal(both[0].source, 'dependencies');
  const later = await server.cli('snapshot', 'build', 'tiny@1.0.0');
  assert.ok(later.stdout.includes(both[0].id), later.stdout + later.stderr);
  assert.equal(server.registry.asked.filter((url) => url === '/tiny').length, 1);
  await until(async () => (await server.left()).sandboxes === 0);
  assert.match((await server.cli('snapshot', 'get', both[0].slug)).stdout, /state: +ready\n[^]*source: +dependencies\n/);
});

test('a failed build leaves its reason and nothing else', T, async (t) => {
  const server = await setup(t, { dependencies: '[[sandbox.dependencies]]\npackage = "absent"\n' });
  if (!server) return;
  await until(async () => (await server.ask('GET', '/readyz')).snapshotState === 'failed');
  assert.match((await server.ask('GET', '/readyz')).snapshotDetail, /^npm: the registry has no such package/);
  const failed = await server.ask('POST', '/v1/snapshots', { dependencies: { absent: '' } });
  assert.deepEqual([failed.status, failed.error.code], [503, 'unavailable']);
  await until(async () => JSON.stringify(await server.left()) === '{"layers":0,"sandboxes":0,"snapshots":0}');
  for (const name of ['--global', 'file:/etc', '../x', 'a b', 'pypi:'])
    assert.equal((await server.ask('POST', '/v1/snapshots', { dependencies: { [name]: '' } })).status, 400, name);
  // What does not need it works.
  assert.equal((await server.ask('POST', '/v1/sandboxes', { tier: 'jail' })).status, 201);
});

test('a kill in the middle of a build leaves nothing', T, async (t) => {
  const dir = tempDir(t);
  const server = await setup(t, { dir });
  if (!server) return;
  let open;
  server.registry.gate = new Promise((done) => (open = done));
  void server.ask('POST', '/v1/snapshots', { dependencies: { tiny: '' } }).catch(() => {});
  await until(() => server.registry.asked.includes('/tiny'));
  server.child.kill('SIGKILL');
  await server.exit;
  open();
  const next = await setup(t, { dir, registry: server.registry });
  await until(async () => (await next.ask('GET', '/readyz')).status === 200);
  await until(async () => JSON.stringify(await next.left()) === '{"layers":0,"sandboxes":0,"snapshots":0}');
  assert.equal((await next.ask('POST', '/v1/snapshots', { dependencies: { tiny: '' } })).status, 201);
});

test('a directory of the host, for the operator', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const from = tempDir(t);
  mkdirSync(join(from, 'data'));
  writeFileSync(join(from, 'data', 'f'), 'from the host\n');
  symlinkSync('/etc/shadow', join(from, 'data', 'link'));
  const made = await server.ask('POST', '/v1/snapshots', { directory: from, slug: 'host-files' });
  assert.deepEqual([made.status, made.source], [201, 'directory'], made.text);
  const box = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', snapshots: ['host-files'] });
  assert.equal(await server.sh(box.id, 'cat /data/f; cat /data/link 2>/dev/null || echo no'), 'from the host\nno\n');
  const token = (await server.cli('token', 'create', '--scope', 'read,run')).stdout.trim();
  const refused = await server.get('/v1/snapshots', { method: 'POST', body: JSON.stringify({ directory: '/etc' }),
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' } });
  assert.equal(refused.status, 403);
});
