// The process that compares meaning, under a running server: its settings, its confinement, its end, a model that is damaged.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { tempDir, until } from './lib.mjs';
import { T, models, noModel, start } from './search_lib.mjs';

const WITH_MODEL = { ...T, skip: noModel };
const HANDBOOK = '# Handbook\n## Vehicles\nThe automobile must be refuelled every evening.\n## Kitchen\nBread is baked at dawn.\n';
const PETROL = 'where do I put petrol into my car';

/** A server with the model and two sections whose vectors are computed. */
async function withModel(t, options = {}, place = (to) => symlinkSync(models, to)) {
  const dir = tempDir(t);
  mkdirSync(join(dir, 'data'));
  place(join(dir, 'data', 'models'));
  const server = await start(t, [], { dir, ...options });
  server.docs = async () => (await server.ask('GET', '/readyz')).json.docs;
  return server;
}
const addHandbook = async (server) => {
  assert.equal((await server.ask('POST', '/v1/docs', { name: 'a.md', text: HANDBOOK })).status, 201);
  await until(async () => (await server.docs())?.vectors === 2);
};

// Of the server: the warden is a child of it too, and a program is named by the first of its arguments.
function embedder(server) {
  const children = readFileSync(`/proc/${server.child.pid}/task/${server.child.pid}/children`, 'utf8').trim().split(' ');
  return Number(children.find((pid) => {
    try { return readFileSync(`/proc/${pid}/comm`, 'utf8') === 'embedder\n'; } catch { return false; }
  }) ?? 0);
}

test('[search] threads is how many threads the embedder has; each is confined', WITH_MODEL, async (t) => {
  for (const threads of [1, 3]) {
    const server = await withModel(t, { search: `threads = ${threads}\n` });
    await addHandbook(server);
    const pid = embedder(server);
    assert.ok(pid > 0, 'no embedder is running');
    const tasks = readdirSync(`/proc/${pid}/task`);
    assert.equal(tasks.length, threads);
    for (const task of tasks) {
      const status = readFileSync(`/proc/${pid}/task/${task}/status`, 'utf8');
      assert.match(status, /\nNoNewPrivs:\t1\nSeccomp:\t2\n/);
      assert.match(status, /\nCapEff:\t0{16}\n/);
    }
  }
});

test('[search] model = "none": only words count, with a model at hand and vectors in the rows', WITH_MODEL, async (t) => {
  let server = await withModel(t);
  await addHandbook(server);
  assert.equal((await server.search(PETROL)).mode, 'hybrid');
  server = await server.again([], { search: 'model = "none"\n' });
  await until(async () => (await server.ask('GET', '/readyz')).json.docs?.state === 'ready');
  const { docs } = (await server.ask('GET', '/readyz')).json;
  assert.deepEqual([docs.chunks, docs.vectors, docs.model ?? ''], [2, 0, '']);
  const found = await server.search(PETROL);
  assert.deepEqual([found.mode, found.total], ['keyword', 0]);
  assert.deepEqual([(await server.search('automobile')).mode, (await server.search('automobile')).total], ['keyword', 1]);
  assert.equal(embedder(server), 0);
});

test('a module is found by meaning', WITH_MODEL, async (t) => {
  const server = await withModel(t);
  await addHandbook(server);
  assert.equal((await server.ask('POST', '/v1/sessions', { id: 'session-m', sandbox: { tier: 'isolate' } })).status, 201);
  const saved = await server.ask('PUT', '/v1/sessions/session-m/modules', { path: 'lib/money.js', source: 'export const sum = (a) => a.reduce((x, y) => x + y, 0)',
    description: 'Adds up the amounts of an invoice', exports: ['sum'] });
  assert.equal(saved.status, 204, saved.text);
  await until(async () => (await server.docs())?.vectors === 3);
  const found = await server.search('calculate the total price of a bill', '&session=session-m');
  assert.deepEqual([found.mode, found.results[0].type, found.results[0].heading], ['hybrid', 'module', 'lib/money.js'], JSON.stringify(found));
});

test('an embedder that is killed is started again, and no question is lost', WITH_MODEL, async (t) => {
  const server = await withModel(t);
  await addHandbook(server);
  const first = embedder(server);
  process.kill(first, 'SIGKILL');
  for (let i = 0; i < 5; i++) assert.equal((await server.search(PETROL)).results[0].heading, 'Handbook > Vehicles');
  await until(async () => (await server.search(PETROL)).mode === 'hybrid');
  assert.ok(embedder(server) > 0 && embedder(server) !== first);
});

test('a damaged model: keywords answer and say so; with a whole one meaning is found again', WITH_MODEL, async (t) => {
  let server = await withModel(t, {}, (to) => cpSync(models, to, { recursive: true, dereference: true }));
  await addHandbook(server);
  server.child.kill('SIGTERM');
  await server.exit;
  const weights = join(server.dir, 'models/files/minilm/model/model.fp16.safetensors');
  const whole = readFileSync(weights);
  truncateSync(weights, Math.floor(whole.length / 2));
  server = await server.again();
  await until(async () => (await server.ask('GET', '/readyz')).json.docs?.state === 'ready');
  const found = await server.search('automobile');
  assert.deepEqual([found.mode, found.total, found.results[0].heading], ['keyword', 1, 'Handbook > Vehicles']);
  assert.match(server.stderr, /docs\.query/);
  cpSync(join(models, 'files/minilm/model/model.fp16.safetensors'), weights, { force: true });
  await until(async () => (await server.search(PETROL)).mode === 'hybrid');
  assert.equal((await server.search(PETROL)).results[0].heading, 'Handbook > Vehicles');
});
