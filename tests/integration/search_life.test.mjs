// What is searched over time: modules that go, pages that are asked for again, a damaged database; common words, large indexes.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { isSanitized, run, sleep, tempDir, until } from './lib.mjs';
import { T, site, start, stateOf, url } from './search_lib.mjs';

const module = { path: 'lib/penguin.js', source: 'export const count = 3', description: 'Counts penguins', exports: ['count'] };

/** A session with one module, and how many modules are found. */
async function withModule(t, tier, options = {}) {
  const server = await start(t, [], options);
  const made = await server.ask('POST', '/v1/sessions', { id: 'session-p', sandbox: { tier } });
  assert.equal(made.status, 201, made.text);
  const saved = await server.ask('PUT', '/v1/sessions/session-p/modules', { ...module, scope: 'user' });
  assert.equal(saved.status, 204, saved.text);
  server.total = async () => (await server.search('penguins')).total;
  await until(async () => (await server.total()) === 1);
  return server;
}

test('a module that is deleted is found no more, after a restart neither', T, async (t) => {
  const server = await withModule(t, 'isolate');
  assert.equal((await server.ask('DELETE', `/v1/sessions/session-p/modules?path=${module.path}`)).status, 204);
  await until(async () => (await server.total()) === 0);
  const again = await server.again();
  await until(async () => (await again.ask('GET', '/readyz')).json.docs?.state === 'ready');
  assert.equal((await again.search('penguins')).total, 0);
  assert.equal((await again.ask('GET', '/readyz')).json.docs.chunks, 0);
});

test('the modules of a session that is deleted are found no more', T, async (t) => {
  const server = await withModule(t, 'isolate');
  assert.equal((await server.ask('DELETE', '/v1/sessions/session-p')).status, 204);
  await until(async () => (await server.total()) === 0);
  await until(async () => (await server.ask('GET', '/readyz')).json.docs.chunks === 0);
});

test('the modules of a volume that expired are found no more', T, async (t) => {
  const server = await withModule(t, 'jail');
  const ran = await server.ask('POST', '/v1/sessions/session-p/commands', { command: 'echo ok' });
  if (!/ok/.test(ran.text)) return t.skip('no jails on this machine');
  await until(async () => (await server.ask('POST', '/v1/sessions/session-p/rest')).status < 300);
  assert.equal(await server.total(), 1);
  server.child.kill('SIGTERM');
  await server.exit;
  const aged = spawnSync('/usr/bin/python3', ['-c', 'import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n'
    + 'assert db.execute("UPDATE session_volumes SET used_ms = 1000").rowcount == 1\ndb.commit()', join(server.dir, 'sandglass.db')]);
  assert.equal(aged.status, 0, String(aged.stderr));
  const again = await server.again();
  await until(async () => (await again.ask('GET', '/v1/sessions/session-p')).json.volumeExpiredAt !== null);
  await until(async () => (await again.search('penguins')).total === 0);
});

test('a page is asked for again with the date that it had, and one that is gone (410) goes', T, async (t) => {
  const it = await site(t), date = 'Mon, 02 Mar 2026 10:00:00 GMT';
  const answers = { '/dated.md': '# Dated\n## Fruit\nripe mangoes\n', '/gone.md': '# Gone\n## Fruit\ngreen kiwis\n' };
  for (const path of Object.keys(answers)) it.pages[path] = { serve: (request, response) => {
    const isSame = request.headers['if-modified-since'] === date;
    response.writeHead(isSame ? 304 : 200, { 'content-type': 'text/markdown', 'last-modified': date });
    response.end(isSame ? '' : answers[path]);
  } };
  const docs = Object.keys(answers).map((path) => url(it, path));
  let server = await start(t, docs, { port: it.port });
  await until(async () => (await server.sources()).filter((each) => each.state === 'ready').length === 2);
  assert.ok(it.seen.every((each) => each.headers['if-modified-since'] === undefined));
  it.pages['/gone.md'] = { status: 410, body: 'gone' };
  it.seen.length = 0;
  server = await server.again();
  await until(async () => it.seen.length >= 2 && (await stateOf(server, docs[1])).pages === 0);
  assert.equal(it.seen.find((each) => each.url === '/dated.md').headers['if-modified-since'], date);
  assert.equal((await server.search('mangoes')).total, 1);
  assert.equal((await server.search('kiwis')).total, 0);
});

test('[search] refresh_hours: a page is asked for again after that time', { ...T, skip: isSanitized ? 'not under a sanitizer' : false }, async (t) => {
  const it = await site(t), clock = join(tempDir(t), 'ahead');
  it.pages['/guide.md'] = { body: '# Guide\n## Fruit\nripe mangoes\n' };
  writeFileSync(clock, '0');
  const server = await start(t, [url(it, '/guide.md')], { port: it.port, search: 'refresh_hours = 2\n', env: { LD_PRELOAD: process.env.SG_AHEAD, AHEAD_FILE: clock } });
  await until(async () => (await server.search('mangoes')).total === 1);
  it.pages['/guide.md'] = { body: '# Guide\n## Fruit\nripe papayas\n' };
  const before = it.seen.length;
  writeFileSync(clock, String(90 * 60));
  // Requests wake the server, so that it looks at its clock.
  for (let i = 0; i < 20; i++) { await server.search('papayas'); await sleep(10); }
  assert.equal(it.seen.length, before, 'asked too early');
  writeFileSync(clock, String(121 * 60));
  await until(async () => (await server.search('papayas')).total === 1);
  assert.equal((await server.search('mangoes')).total, 0);
});

test('a damaged docs.db does not keep the server from starting, and is named', T, async (t) => {
  const server = await start(t, []);
  await server.ask('POST', '/v1/docs', { name: 'a.md', text: 'apples\n' });
  server.child.kill('SIGTERM');
  await server.exit;
  const path = join(server.dir, 'docs.db');
  const bytes = readFileSync(path);
  writeFileSync(path, Buffer.concat([Buffer.alloc(4096, 0xa5), bytes.subarray(4096)]));
  const again = await server.again();
  await until(async () => (await again.ask('GET', '/readyz')).json.docs?.state === 'failed');
  const ready = await again.ask('GET', '/readyz');
  assert.equal(ready.status, 200, ready.text);
  assert.match(ready.json.docs.detail, /docs\.db|database/);
  const refused = await again.ask('GET', '/v1/docs/search?query=apples');
  assert.ok(refused.status >= 500, refused.text);
  assert.match(refused.text, /docs\.db|database/);
  // All else is served.
  assert.equal((await again.ask('POST', '/v1/sandboxes', { tier: 'isolate' })).status, 201);
});

test('terms in more than half of 200 or more chunks are left out, fewer chunks keep theirs', T, async (t) => {
  const server = await start(t, []);
  const put = (name, sections) => server.ask('POST', '/v1/docs', { name, text: sections.map((each, i) => `## Section ${i}\n${each}\n`).join('') });
  const numbers = (count, text) => Array.from({ length: count }, (_, i) => text(i));
  await put('a.md', numbers(150, () => 'walrus'));
  assert.equal((await server.search('walrus narwhal')).total, 150);
  await put('b.md', [...numbers(59, () => 'something else'), 'narwhal']);
  // 150 of 210 chunks have it: as the only word it is still a question, with another word it is left out.
  assert.equal((await server.search('walrus')).total, 150);
  const both = await server.search('walrus narwhal');
  assert.deepEqual([both.total, both.results[0].url], [1, 'b.md']);
  await put('c.md', numbers(100, () => 'something else')); // 150 of 310
  assert.equal((await server.search('walrus narwhal')).total, 151);
});

test('hostile questions on a large index answer, and others are served meanwhile', T, async (t) => {
  const server = await start(t, []);
  const letters = (n) => n.toString(26).padStart(4, '0').replace(/./g, (c) => String.fromCharCode(97 + parseInt(c, 26)));
  const word = (n) => `qu${letters(n * 37 % 456976)}zz`; // eight letters: two typing errors are allowed
  const text = Array.from({ length: 100 }, (_, i) => `## Part ${i}\n${Array.from({ length: 120 }, (_, j) => word(i * 120 + j)).join(' ')}\n`).join('');
  assert.equal((await server.ask('POST', '/v1/docs', { name: 'many.md', text: `${text}## Fruit\nripe mangoes\n` })).status, 201);
  // Each word is one that no document has, and is compared with each of 12,000 terms.
  const hostile = (seed) => Array.from({ length: 32 }, (_, i) => `qx${letters((seed * 32 + i) * 101 % 456976)}yy`).join(' ');
  let open = 0;
  const questions = Array.from({ length: 8 }, async (_, seed) => {
    open++;
    try { return await server.search(hostile(seed)); } finally { open--; }
  });
  assert.equal((await server.search('mangoes')).total, 1);
  assert.equal((await server.ask('GET', '/healthz')).status, 200);
  assert.equal((await server.ask('POST', '/v1/sandboxes', { tier: 'isolate' })).status, 201);
  for (const answer of await Promise.all(questions)) assert.equal(answer.mode, 'keyword');
  assert.equal(open, 0);
});

test('search_docs and `docs search` take package, session and limit; `docs add URL` fetches', T, async (t) => {
  const it = await site(t);
  it.pages['/guide.md'] = { body: '# Guide\n## Fruit\nPeel bananas first.\n' };
  const server = await start(t, [], { port: it.port });
  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const cli = async (...args) => {
    const done = await run(['docs', ...args, '--json'], { env });
    assert.equal(done.code, 0, done.stderr);
    return JSON.parse(done.stdout);
  };
  for (const name of ['one', 'two'])
    await server.ask('POST', '/v1/docs', { name: `${name}.md`, package: name, text: `# ${name}\n## Sea\nMany herrings.\n## Lake\nFew herrings.\n` });
  await server.ask('POST', '/v1/sessions', { id: 'session-c', sandbox: { tier: 'isolate' } });
  await server.ask('PUT', '/v1/sessions/session-c/modules', { path: 'lib/fish.js', source: 'export const fish = 1', description: 'Counts herrings' });
  await until(async () => (await cli('search', 'herrings', '--session', 'session-c')).total === 5);
  assert.equal((await cli('search', 'herrings')).total, 4);
  const two = await cli('search', 'herrings', '--package', 'two');
  assert.deepEqual([two.total, [...new Set(two.results.map((each) => each.url))]], [2, ['two.md']]);
  const first = await cli('search', 'herrings', '--limit', '1');
  assert.deepEqual([first.total, first.results.length], [4, 1]);
  const plain = await run(['docs', 'search', 'herrings', '--limit', '1'], { env });
  assert.match(plain.stdout, /3 more; see --limit/);
  const tool = async (args) => (await server.ask('POST', '/v1/sessions/session-c/tools/search_docs', args)).json.answer;
  const some = await tool({ query: 'herrings', package: 'one', limit: 1 });
  assert.deepEqual([some.results.length, some.results[0].url, some.more], [1, 'one.md', 1], JSON.stringify(some));
  assert.equal((await tool({ query: 'herrings', limit: 10 })).results.length, 5);
  const made = await cli('add', url(it, '/guide.md'), '--package', 'three');
  assert.deepEqual([made.kind, made.package, made.location], ['url', 'three', url(it, '/guide.md')]);
  // It is fetched: the one host that a test may reach is not public, and so it is refused.
  await until(async () => (await stateOf(server, url(it, '/guide.md'))).state === 'failed');
  assert.match((await stateOf(server, url(it, '/guide.md'))).error, /'docs\.test' cannot be resolved/);
  assert.equal(it.seen.length, 0);
});
