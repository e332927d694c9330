// Packages on demand: from an index on loopback that serves wheels which the test builds.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import test from 'node:test';
import { startDns } from './egress_lib.mjs';
import { serve, tempDir } from './lib.mjs';

const T = { timeout: 180000 };

// A wheel is a zip; Python packs it.
const PACK = `
import sys, zipfile
path, name, version, module, source, needs = sys.argv[1:]
info = f"{name}-{version}.dist-info"
meta = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n" + (f"Requires-Dist: {needs}\\n" if needs else "")
with zipfile.ZipFile(path, "w") as wheel:
    wheel.writestr(f"{module}.py", source)
    wheel.writestr(f"{info}/METADATA", meta)
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(f"{info}/RECORD", "")
`;

async function startIndex(t) {
  const dir = tempDir(t);
  const index = { asked: [], wheels: {} };
  index.add = (name, version, module, source, needs = '') => {
    const file = `${name.replaceAll('-', '_')}-${version}-py3-none-any.whl`;
    execFileSync('/usr/bin/python3', ['-c', PACK, join(dir, file), name.replaceAll('-', '_'), version, module, source, needs]);
    (index.wheels[name.toLowerCase()] ??= []).push(file);
  };
  const server = http.createServer((request, response) => {
    index.asked.push(request.url);
    const [, place, name] = request.url.split('/');
    if (place === 'simple' && index.wheels[name]) {
      response.setHeader('content-type', 'text/html');
      response.end(index.wheels[name].map((file) => `<a href="/files/${file}">${file}</a>`).join('\n'));
    } else if (place === 'files') {
      response.end(readFileSync(join(dir, name)));
    } else {
      response.statusCode = 404;
      response.end('none');
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections(); server.close(); });
  index.port = server.address().port;
  return index;
}

const post = (server) => async (path, body) => {
  const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' } });
  return { http: answer.status, ...(await answer.json()) };
};

async function setup(t, { network = true } = {}) {
  if (!existsSync('/usr/lib/python3/dist-packages/pip')) {
    t.skip('no pip on this machine');
    return null;
  }
  const index = await startIndex(t);
  const dns = await startDns(t, { 'index.test': ['127.0.0.1'] });
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, `[egress]\ndns_servers = ["${dns.address}"]\n[packages]\npypi_index = "http://index.test:${index.port}/simple/"\n`);
  const server = await serve(t, { args: ['--config', config] });
  server.post = post(server);
  server.spec = { tier: 'jail', runtime: 'python3',
    ...(network ? { network: `allow index.test:${index.port}; private index.test=127.0.0.1:${index.port}` } : {}),
    env: { PIP_INDEX_URL: `http://index.test:${index.port}/simple/`, PIP_TRUSTED_HOST: 'index.test', PIP_RETRIES: '0' } };
  const box = await server.post('/v1/sandboxes', server.spec);
  if (box.http !== 201) {
    t.skip(`no jails here: ${JSON.stringify(box)}`);
    return null;
  }
  const run = (code, options = {}) => server.post(`/v1/sandboxes/${box.id}/run_code`, { code, timeoutMs: 60000, ...options });
  return { server, index, run };
}

test('a missing module is installed, under the name of its package, and the code runs again', T, async (t) => {
  const it = await setup(t);
  if (!it) return;
  it.index.add('python-telegram-bot', '1.0', 'telegram', 'import helper\ndef load(text): return helper.twice(text)', 'helper');
  it.index.add('helper', '1.0', 'helper', 'def twice(text): return text * 2');
  const first = await it.run('import telegram\ntelegram.load("ab")');
  assert.equal(first.result, 'abab', JSON.stringify(first));
  assert.match(first.stderr, /installed 'python-telegram-bot' for the module 'telegram'; running the code again/);
  assert.deepEqual(first.files, [], 'packages are no work of the code');
  const asked = it.index.asked.length;
  assert.equal((await it.run('import telegram, helper\ntelegram.load("c")')).result, 'cc');
  assert.equal(it.index.asked.length, asked, 'nothing is asked twice');
  // A new interpreter finds it too, and so do the programs it starts.
  assert.equal((await it.run('import subprocess, sys\nsubprocess.run([sys.executable, "-c", "import telegram; print(telegram.load(\'x\'))"], capture_output=True, text=True).stdout')).result, 'xx\n');
});

test('the configured index is what the group pypi stands for, or what pip uses here', T, async (t) => {
  const it = await setup(t);
  if (!it) return;
  it.index.add('python-telegram-bot', '1.0', 'telegram', 'loaded = 1');
  it.index.add('early', '1.0', 'early', 'word = "early"');
  const ask = async (server) => {
    const box = await server.post('/v1/sandboxes', { tier: 'jail', runtime: 'python3', network: 'allow pypi', requirements: ['early'] });
    return server.post(`/v1/sandboxes/${box.id}/run_code`, { code: 'import early, telegram\n[early.word, telegram.loaded]', timeoutMs: 60000 });
  };
  const own = await serve(t, { env: { ...process.env, PIP_INDEX_URL: `http://me:secret@127.0.0.1:${it.index.port}/simple/` } });
  own.post = post(own);
  for (const server of [it.server, own]) {
    const done = await ask(server);
    assert.deepEqual(done.result, ['early', 1], JSON.stringify(done));
    assert.match(done.stderr, /installed 'python-telegram-bot' for the module 'telegram'/);
  }
  const box = await own.post('/v1/sandboxes', { tier: 'jail', runtime: 'python3', network: 'allow pypi' });
  const env = await own.post(`/v1/sandboxes/${box.id}/run_code`, { code: 'import os\nstr(dict(os.environ))' });
  assert.match(env.result, /127\.0\.0\.1/);
  assert.doesNotMatch(env.result, /secret/, 'credentials stay outside');
});

test('what no index has is an error that says so, once', T, async (t) => {
  const it = await setup(t);
  if (!it) return;
  const none = await it.run('import nosuchpackage');
  assert.equal(none.error.name, 'ModuleNotFoundError');
  assert.match(none.error.message, /No module named 'nosuchpackage'; the package 'nosuchpackage' may have it: the installer failed: ERROR:/);
  const off = await it.run('import nosuchpackage', { install: false });
  assert.equal(off.error.message, "No module named 'nosuchpackage'");
  it.index.add('broken', '1.0', 'broken', 'import alsomissing');
  const chain = await it.run('import broken');
  assert.equal(chain.error.name, 'ModuleNotFoundError');
  assert.equal(chain.executionCount, 4);
  const asked = await it.run('%pip install --quiet nosuchpackage');
  assert.equal(asked.error?.name, 'CalledProcessError', JSON.stringify(asked));
});

test('without a network the error says how to have one', T, async (t) => {
  const it = await setup(t, { network: false });
  if (!it) return;
  const shut = await it.run('import cv2');
  assert.match(shut.error.message, /'opencv-python-headless' may have it: the sandbox has no network.*network: "allow HOST"/);
  assert.equal(it.index.asked.length, 0);
});

test('requirements are there before the first run; %pip installs where the kernel looks', T, async (t) => {
  const it = await setup(t);
  if (!it) return;
  it.index.add('wanted', '1.0', 'wanted', 'version = 1');
  it.index.add('wanted', '2.0', 'wanted', 'version = 2');
  it.index.add('later', '1.0', 'later', 'word = "there"');
  const first = await it.run('import wanted\nwanted.version', { requirements: ['wanted<2'] });
  assert.equal(first.result, 1, JSON.stringify(first));
  const asked = it.index.asked.length;
  assert.equal((await it.run('1', { requirements: ['wanted<2'] })).result, 1);
  assert.equal(it.index.asked.length, asked);
  const pip = await it.run('%pip install --quiet later\nimport later\nlater.word');
  assert.equal(pip.result, 'there', JSON.stringify(pip));
  const bad = await it.run('1', { requirements: ['--index-url=http://evil'] });
  assert.equal(bad.http, 400);
  const none = await it.run('1', { requirements: ['nosuchpackage'] });
  assert.equal(none.error.name, 'InstallError');
});

test('packages of a session outlive its sandbox', T, async (t) => {
  const it = await setup(t);
  if (!it) return;
  it.index.add('kept', '1.0', 'kept', 'word = "kept"');
  const made = await it.server.post('/v1/sessions', { sandbox: it.server.spec });
  const run = (code) => it.server.post(`/v1/sessions/${made.id}/run_code`, { code, timeoutMs: 60000 });
  const first = await run('import kept\nkept.word');
  if (first.http !== 200) return t.skip(`no volumes here: ${JSON.stringify(first)}`);
  assert.equal(first.result, 'kept', JSON.stringify(first));
  await it.server.post(`/v1/sessions/${made.id}/rest`, {});
  const asked = it.index.asked.length;
  assert.equal((await run('import kept\nkept.word')).result, 'kept');
  assert.equal(it.index.asked.length, asked);
});

test('requirements of a sandbox are there before its first run, whoever asks', T, async (t) => {
  const it = await setup(t);
  if (!it) return;
  it.index.add('givenone', '1.0', 'givenone', 'value = 1');
  it.index.add('givenone', '2.0', 'givenone', 'value = 2');
  const spec = { ...it.server.spec, requirements: ['givenone==1.0'] };
  const box = await it.server.post('/v1/sandboxes', spec);
  assert.equal(box.http, 201, JSON.stringify(box));
  const run = (code, more = {}) => it.server.post(`/v1/sandboxes/${box.id}/run_code`, { code, install: false, ...more });
  assert.equal((await run('echo shell', { language: 'bash' })).stdout, 'shell\n');
  assert.deepEqual(it.index.asked, [], 'another runtime needs none of them');
  const first = await run('import givenone\ngivenone.value');
  assert.equal(first.result, 1, JSON.stringify(first));
  const asked = it.index.asked.length;
  assert.equal((await run('givenone.value + 1')).result, 2);
  assert.equal(it.index.asked.length, asked, 'once');
  const none = await it.server.post('/v1/sandboxes', { ...it.server.spec, requirements: ['nosuchpackage'] });
  const failed = await it.server.post(`/v1/sandboxes/${none.id}/run_code`, { code: 'x = 1' });
  assert.equal(failed.error.name, 'InstallError', JSON.stringify(failed));
  const session = await it.server.post('/v1/sessions', { sandbox: spec });
  assert.equal((await it.server.post(`/v1/sessions/${session.id}/run_code`,
    { code: 'import givenone\ngivenone.value', install: false })).result, 1, JSON.stringify(session));
  for (const [wrong, code] of [[{ runtime: 'bash' }, 400], [{ requirements: ['--index-url=x'] }, 400]]) {
    const answer = await it.server.post('/v1/sandboxes', { ...spec, ...wrong });
    assert.ok(answer.http >= code && answer.http < 600 && answer.http !== 201, JSON.stringify(answer));
    assert.match(JSON.stringify(answer), /requirements/);
  }
});

test('requirements are installed once for all who go on from a tree', T, async (t) => {
  const it = await setup(t);
  if (!it) return;
  it.index.add('oncefor', '1.0', 'oncefor', 'value = 1');
  it.index.add('oncefor', '2.0', 'oncefor', 'value = 2');
  const spec = { ...it.server.spec, requirements: ['oncefor==1.0'] };
  const run = (where, more = {}) => it.server.post(`/v1/${where}/run_code`,
    { code: 'import oncefor\noncefor.value', install: false, timeoutMs: 60000, ...more });
  const box = await it.server.post('/v1/sandboxes', spec);
  assert.equal((await run(`sandboxes/${box.id}`)).result, 1);
  const session = await it.server.post('/v1/sessions', { sandbox: spec });
  const first = await run(`sessions/${session.id}`);
  const hasVolumes = first.http === 200;
  if (hasVolumes) assert.equal(first.result, 1, JSON.stringify(first));
  const asked = it.index.asked.length;

  const forks = await it.server.post(`/v1/sandboxes/${box.id}/fork`, { count: 1 });
  if (forks.http === 201) {
    const fork = await run(`sandboxes/${forks.sandboxes[0].id}`);
    assert.equal(fork.result, 1, JSON.stringify(fork));
  }
  if (hasVolumes) {
    await it.server.post(`/v1/sessions/${session.id}/rest`, {});
    assert.equal((await run(`sessions/${session.id}`)).result, 1);
  }
  assert.equal(it.index.asked.length, asked, `nothing is asked again: ${it.index.asked.slice(asked)}`);

  // A run's own take each other's place; those of the sandbox are met once.
  const ask = (requirement) => run(`sandboxes/${box.id}`, { requirements: [requirement], code: 'import subprocess, sys\n' +
    'int(subprocess.run([sys.executable, "-c", "import oncefor; print(oncefor.value)"], capture_output=True, text=True).stdout)' });
  assert.equal((await ask('oncefor>1')).result, 2);
  assert.equal((await ask('oncefor==2.0')).result, 2);
  const note = await it.server.get(`/v1/sandboxes/${box.id}/files?path=/workspace/.sandglass/installed`);
  assert.equal(await note.text(), 'python3 oncefor==1.0\npython3 oncefor==2.0\n');
});
