// Packages on demand: from an index on loopback that serves wheels which the test builds.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { startDns } from './egress_lib.mjs';
import { run as cli, serve, tempDir, until } from './lib.mjs';
import { startIndex } from './packages_lib.mjs';

const T = { timeout: 600000 };

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
  const run = (code, options = {}) => server.post(`/v1/sandboxes/${box.id}/run_code`, { code, timeoutMs: 300000, ...options });
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
    return server.post(`/v1/sandboxes/${box.id}/run_code`, { code: 'import early, telegram\n[early.word, telegram.loaded]', timeoutMs: 300000 });
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
  assert.match(none.error.message, /^No module named 'nosuchpackage'; package 'nosuchpackage' could not be installed: the index has no such package, or no version for this Python\. Check the name/);
  // Where models and people look: the traceback, the short form.
  assert.match(none.error.traceback, /\nModuleNotFoundError: No module named 'nosuchpackage'\n\[sandglass\] package 'nosuchpackage' could not be installed: /);
  const short = await it.run('import nosuchpackage', { short: true });
  assert.equal(short.type, 'error');
  assert.match(short.content, /\[sandglass\] package 'nosuchpackage' could not be installed: the index has no such package/);
  const box = await it.server.post('/v1/sandboxes', it.server.spec);
  const shown = await cli(['run', '--sandbox', box.id, '-e', 'import nosuchpackage'],
    { env: { ...process.env, SANDGLASS_URL: it.server.url, SANDGLASS_TOKEN: it.server.token } });
  assert.equal(shown.code, 1, shown.stderr);
  assert.match(shown.stderr, /package 'nosuchpackage' could not be installed: the index has no such package/);
  it.index.add('older', '1.0', 'older', 'x = 1');
  const version = await it.run('1', { requirements: ['older>=3'] });
  assert.equal(version.error.message, 'the requirements could not be installed: no version matches. The index has 1.0.');
  const off = await it.run('import nosuchpackage', { install: false });
  assert.equal(off.error.message, "No module named 'nosuchpackage'");
  it.index.add('broken', '1.0', 'broken', 'import alsomissing');
  const chain = await it.run('import broken');
  assert.equal(chain.error.name, 'ModuleNotFoundError');
  assert.equal(chain.executionCount, 5);
  const asked = await it.run('%pip install --quiet nosuchpackage');
  assert.equal(asked.error?.name, 'CalledProcessError', JSON.stringify(asked));
  assert.match(asked.error.message, /^Command 'pip' returned non-zero exit status 1\.; pip failed: the index has no such package/);
  assert.match(asked.error.traceback, /\[sandglass\] pip failed: the index has no such package/);
});

test('an index that cannot be reached is not called blocked, and the reason is reported', T, async (t) => {
  const it = await setup(t);
  if (!it) return;
  const box = await it.server.post('/v1/sandboxes', { ...it.server.spec, network: 'allow nowhere.test:80, nowhere.test:443',
    env: { PIP_INDEX_URL: 'http://nowhere.test/simple/', PIP_TRUSTED_HOST: 'nowhere.test' } });
  const run = (code) => it.server.post(`/v1/sandboxes/${box.id}/run_code`, { code, timeoutMs: 300000 });
  const why = /the package index could not be reached: 'nowhere\.test' cannot be resolved: /;
  const demand = await run('import nosuchpackage');
  assert.match(demand.error.message, why, JSON.stringify(demand));
  const pip = await run('%pip install --index-url https://nowhere.test/simple/ nosuchpackage');
  assert.match(pip.error.traceback, new RegExp(`\\[sandglass\\] pip failed: ${why.source}`), JSON.stringify(pip));
  const curl = await run('!curl -sSv http://nowhere.test/ 2>&1');
  assert.match(curl.stdout, /502 Bad Gateway: 'nowhere\.test' cannot be resolved: /);
  assert.match(curl.stdout, /"code":"not_resolved","error":"'nowhere\.test' cannot be resolved: /);
  await until(() => it.server.stderr.includes('event=network.unresolved'));
  assert.doesNotMatch(it.server.stderr, /blocked nowhere|event=network.blocked/);
});

test('without a network the error says how to have one', T, async (t) => {
  const it = await setup(t, { network: false });
  if (!it) return;
  const shut = await it.run('import cv2');
  assert.match(shut.error.message, /package 'opencv-python-headless' could not be installed: the sandbox has no network\. Give it the network policy "allow pypi"/);
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
  const run = (code) => it.server.post(`/v1/sessions/${made.id}/run_code`, { code, timeoutMs: 300000 });
  const first = await run('import kept\nkept.word');
  if (first.http !== 200) return t.skip(`no volumes here: ${JSON.stringify(first)}`);
  assert.equal(first.result, 'kept', JSON.stringify(first));
  await it.server.post(`/v1/sessions/${made.id}/rest`, {});
  const asked = it.index.asked.length;
  assert.equal((await run('import kept\nkept.word')).result, 'kept');
  assert.equal(it.index.asked.length, asked);
});

test('requirements of a sandbox are there before its first run, for every caller', T, async (t) => {
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
    { code: 'import oncefor\noncefor.value', install: false, timeoutMs: 300000, ...more });
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
