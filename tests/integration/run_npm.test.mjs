// npm packages on demand, in Node and in Deno: from a registry on loopback whose packages the test packs.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { startDns } from './egress_lib.mjs';
import { serve, tempDir } from './lib.mjs';
import { startRegistry } from './packages_lib.mjs';

const T = { timeout: 600000 };

async function setup(t, runtime, { network = true } = {}) {
  const added = join(process.env.SG_RUNTIMES ?? '/nowhere', 'runtimes');
  if (runtime.startsWith('node') && !['/usr/bin/npm', '/usr/local/bin/npm'].some(existsSync)) {
    t.skip('no npm on this machine');
    return null;
  }
  if (!existsSync(join(added, 'trees', runtime))) {
    t.skip(`${runtime} was not added`);
    return null;
  }
  const registry = await startRegistry(t);
  const dns = await startDns(t, { 'registry.test': ['127.0.0.1'] });
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, `[egress]\ndns_servers = ["${dns.address}"]\n[packages]\nnpm_registry = "http://registry.test:${registry.port}"\n`);
  const dir = mkdtempSync(join(tmpdir(), 'sandglass-it-')); // the server's: it goes with it
  symlinkSync(added, join(dir, 'runtimes'));
  const server = await serve(t, { dir, args: ['--config', config] });
  server.post = async (path, body) => {
    const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' } });
    return { http: answer.status, ...(await answer.json()) };
  };
  server.spec = { tier: 'jail', runtime,
    ...(network ? { network: `allow registry.test:${registry.port}; private registry.test=127.0.0.1:${registry.port}` } : {}),
    env: { NPM_CONFIG_REGISTRY: `http://registry.test:${registry.port}/`, NPM_CONFIG_FETCH_RETRIES: '0' } };
  const box = await server.post('/v1/sandboxes', server.spec);
  if (box.http !== 201) {
    t.skip(`no jails here: ${JSON.stringify(box)}`);
    return null;
  }
  const run = (code, options = {}) => server.post(`/v1/sandboxes/${box.id}/run_code`, { code, timeoutMs: 300000, ...options });
  return { server, registry, run };
}

const LEFT = { 'index.js': 'module.exports = (text) => require("twice")(text) + "!";', 'lib/more.js': 'exports.more = 5;' };

for (const runtime of ['node24', 'deno']) {
  const it = (name, body, options) => test(`${runtime}: ${name}`, T, async (t) => {
    const scene = await setup(t, runtime, options);
    if (scene) await body(scene, t);
  });

  it('a missing module is installed and the code runs again', async ({ run, registry }) => {
    registry.add('left', '1.0.0', LEFT, { twice: '^1.0.0' });
    registry.add('twice', '1.2.0', { 'index.js': 'module.exports = (text) => text + text;' });
    const first = await run('import left from "left"\nleft("ab")');
    assert.equal(first.result, 'abab!', JSON.stringify(first));
    assert.match(first.stderr, /installed 'left' for the module 'left'; running the code again/);
    assert.deepEqual(first.files, [], 'packages are no work of the code');
    const asked = registry.asked.length;
    const again = await run('import again from "left"; again("c")');
    assert.equal(again.result, 'cc!', JSON.stringify(again));
    assert.equal(registry.asked.length, asked, 'nothing is asked twice');
  });

  it('the configured registry is what the group npm stands for', async ({ server, registry }) => {
    registry.add('left', '1.0.0', LEFT, { twice: '^1.0.0' });
    registry.add('twice', '1.2.0', { 'index.js': 'module.exports = (text) => text + text;' });
    const box = await server.post('/v1/sandboxes', { tier: 'jail', runtime, network: 'allow npm', requirements: ['twice'] });
    const done = await server.post(`/v1/sandboxes/${box.id}/run_code`, { code: 'import left from "left"\nleft("ab")', timeoutMs: 300000 });
    assert.equal(done.result, 'abab!', JSON.stringify(done));
  });

  it('packages of a scope, and what no registry has', async ({ run, registry }) => {
    registry.add('@my/tool', '2.0.0', { 'index.js': 'exports.five = 5;' });
    const scoped = await run('const { five } = await import("@my/tool"); five');
    assert.equal(scoped.result, 5, JSON.stringify(scoped));
    const none = await run('await import("nosuchpackage")');
    assert.equal(none.success, false);
    assert.match(none.error.message, /'nosuchpackage'.*package 'nosuchpackage' could not be installed: the registry has no such package\. Check the name\./s);
    const off = await run('await import("nosuchpackage")', { install: false });
    assert.doesNotMatch(off.error.message, /installer/);
    const local = await run('await import("./nosuchfile.mjs")');
    assert.doesNotMatch(local.error.message, /installer/);
  });

  it('without a network the error says how to have one', async ({ run, registry }) => {
    const shut = await run('await import("left")');
    assert.match(shut.error.message, /package 'left' could not be installed: the sandbox has no network\. Give it the network policy "allow npm"/);
    assert.equal(registry.asked.length, 0);
  }, { network: false });

  it('requirements are there before the first run', async ({ run, registry }) => {
    for (const version of ['1.0.0', '2.0.0'])
      registry.add('wanted', version, { 'index.js': `exports.version = "${version}";` });
    const first = await run('import { version } from "wanted"; version', { requirements: ['wanted@^1'] });
    assert.equal(first.result, '1.0.0', JSON.stringify(first));
    for (const bad of ['--registry=http://evil', 'git+https://evil/x', '../up', 'wanted@file:/etc'])
      assert.equal((await run('1', { requirements: [bad] })).http, 400, bad);
    const none = await run('1', { requirements: ['nosuchpackage'] });
    assert.equal(none.error.name, 'InstallError');
  });
}

test('node24: require finds it too, and so do other modules', T, async (t) => {
  const it = await setup(t, 'node24');
  if (!it) return;
  it.registry.add('left', '1.0.0', LEFT, { twice: '^1.0.0' });
  it.registry.add('twice', '1.2.0', { 'index.js': 'module.exports = (text) => text + text;' });
  const first = await it.run('require("left/lib/more.js").more');
  assert.equal(first.result, 5, JSON.stringify(first));
  const file = await it.run('require("node:fs").writeFileSync("own.mjs", "import left from \'left\'; export default left(\'x\')"); (await import("./own.mjs")).default');
  assert.equal(file.result, 'xx!', JSON.stringify(file));
});

test('deno: npm: specifiers are its own to fetch', T, async (t) => {
  const it = await setup(t, 'deno');
  if (!it) return;
  it.registry.add('left', '1.0.0', LEFT, { twice: '^1.0.0' });
  it.registry.add('twice', '1.2.0', { 'index.js': 'module.exports = (text) => text + text;' });
  const done = await it.run('import left from "npm:left@1"; left("x")');
  assert.deepEqual([done.result, done.stderr], ['xx!', ''], JSON.stringify(done));
});

test('node24: packages of a session outlive its sandbox', T, async (t) => {
  const it = await setup(t, 'node24');
  if (!it) return;
  it.registry.add('kept', '1.0.0', { 'index.js': 'exports.word = "kept";' });
  const made = await it.server.post('/v1/sessions', { sandbox: it.server.spec });
  const run = (code) => it.server.post(`/v1/sessions/${made.id}/run_code`, { code, timeoutMs: 300000 });
  const first = await run('require("kept").word');
  if (first.http !== 200) return t.skip(`no volumes here: ${JSON.stringify(first)}`);
  assert.equal(first.result, 'kept', JSON.stringify(first));
  await it.server.post(`/v1/sessions/${made.id}/rest`, {});
  const asked = it.registry.asked.length;
  assert.equal((await run('require("kept").word')).result, 'kept');
  assert.equal(it.registry.asked.length, asked);
});
