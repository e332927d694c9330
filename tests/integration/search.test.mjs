// Documents and their search: uploads, URLs through the egress gate, saved modules; what fails, shrinks and is gone.
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { run, tempDir, until } from './lib.mjs';
import { T, models, noModel, site, start, stateOf, url } from './search_lib.mjs';
import { hasNpm, start as startWorld, world } from './sessions_lib.mjs';

test('an upload is found at once, replaced and removed', T, async (t) => {
  const server = await start(t, []);
  const added = await server.ask('POST', '/v1/docs', { name: 'guide.md', package: '@acme/sdk', text: '# Guide\n## Login\nCall createClient with a token.\n## Upload\nFiles are sent in parts.\n' });
  assert.equal(added.status, 201, added.text);
  assert.deepEqual([added.json.kind, added.json.state, added.json.configured], ['upload', 'ready', false]);
  const found = await server.search('how do I send files');
  assert.equal(found.mode, 'keyword');
  assert.equal(found.results[0].heading, 'Guide > Upload');
  assert.deepEqual([found.results[0].type, found.results[0].package, found.results[0].url], ['doc', '@acme/sdk', 'guide.md']);
  assert.ok(found.results[0].score > 0.9 && found.results[0].content.includes('sent in parts'));
  assert.equal((await server.search('create_client')).results[0].heading, 'Guide > Login');
  assert.ok((await server.search('creatClinet')).corrected);
  // A whole page, and neighbours.
  const page = await server.ask('GET', `/v1/docs/pages/${found.results[0].page}`);
  assert.match(page.json.text, /^# Guide/);
  assert.match((await server.search('files', '&neighbours=1')).results[0].before, /createClient/);
  // Replaced: what the new one does not have is gone.
  await server.ask('POST', '/v1/docs', { name: 'guide.md', package: '@acme/sdk', text: '# Guide\n## Login\nCall createClient with a token.\n' });
  assert.equal((await server.search('files parts')).total, 0);
  assert.equal((await server.sources()).length, 1);
  assert.equal((await server.ask('DELETE', `/v1/docs/${added.json.id}`)).status, 204);
  assert.equal((await server.search('createClient')).total, 0);
  assert.equal((await server.ask('DELETE', `/v1/docs/${added.json.id}`)).status, 404);
});

test('a directory of the server, an upload of several pages, and what is refused', T, async (t) => {
  const server = await start(t, []);
  const dir = tempDir(t);
  mkdirSync(join(dir, 'sub'));
  writeFileSync(join(dir, 'README.md'), '# Readme\napples\n');
  writeFileSync(join(dir, 'sub', 'types.d.ts'), 'export declare function pearTree(): void;\n');
  writeFileSync(join(dir, 'image.png'), 'oranges');
  writeFileSync(join(dir, 'bad.md'), Buffer.from([0xff, 0xfe, 0x00]));
  const added = await server.ask('POST', '/v1/docs', { directory: dir, package: 'p' });
  assert.equal(added.status, 201, added.text);
  assert.equal((await server.search('pear_tree')).results[0].url, 'sub/types.d.ts');
  assert.equal((await server.search('oranges')).total, 0);
  assert.match((await server.sources())[0].error, /bad\.md.*not UTF-8/);
  const pages = await server.ask('POST', '/v1/docs', { name: 'many', pages: [{ path: 'a.md', text: 'kiwis' }, { path: 'b.md', text: 'plums' }] });
  assert.equal(pages.status, 201, pages.text);
  assert.equal((await server.search('plums')).results[0].url, 'b.md');
  for (const [body, status, message] of [
    [{}, 400, /one of url, directory/], [{ url: 'ftp://x/' }, 501, /scheme|http/i], [{ url: 'nonsense' }, 400, /url/],
    [{ text: 'x' }, 400, /name/], [{ directory: '/does/not/exist' }, 404, /open/], [{ name: 'x', text: 'y', url: 'http://a.test/' }, 400, /one of/],
    [{ name: 'a\nb', text: 'y' }, 400, /one line/]]) {
    const refused = await server.ask('POST', '/v1/docs', body);
    assert.equal(refused.status, status, JSON.stringify(body) + refused.text);
    assert.match(refused.text, message);
  }
});

test('pages of URLs: each answer with its expected rows', T, async (t) => {
  const it = await site(t);
  it.pages['/guide.md'] = { body: '# Guide\n## Login\nUse a token.\n', etag: '"v1"' };
  it.pages['/page.html'] = { type: 'text/html; charset=utf-8', body: '<html><head><title>Web</title><script>stolen()</script></head><body><nav>menu</nav><main><h2>Colours</h2><p>Paint it <b>turquoise</b>.</p></main></body></html>' };
  it.pages['/moved'] = { status: 302, headers: { location: '/new.md' }, body: '' };
  it.pages['/new.md'] = { body: '# New\n## Place\nArrived in Lisbon.\n' };
  it.pages['/image'] = { type: 'image/png', body: 'PNG' };
  it.pages['/huge.md'] = { body: `# Huge\n${'enormous '.repeat(700000)}` };
  it.pages['/empty.md'] = { body: '  \n' };
  it.pages['/broken.md'] = { status: 500, body: 'oops' };
  it.pages['/slow.md'] = { serve: (request, response) => { response.writeHead(200, { 'content-type': 'text/markdown' }); response.write('# S'); } };
  it.pages['/away.md'] = { status: 302, headers: { location: 'http://127.0.0.1:1/' }, body: '' };
  const all = ['/guide.md', '/page.html', '/moved', '/image', '/huge.md', '/empty.md', '/broken.md', '/missing.md', '/away.md', '/slow.md'];
  const server = await start(t, all.map((path) => url(it, path)), { port: it.port });
  const done = async (path) => { let one; await until(async () => (one = await stateOf(server, url(it, path)))?.checkedAt); return one; };
  const expected = { '/guide.md': ['ready', 1], '/page.html': ['ready', 1], '/moved': ['ready', 1], '/image': ['failed', 0], '/huge.md': ['failed', 0],
    '/empty.md': ['failed', 0], '/broken.md': ['failed', 0], '/missing.md': ['failed', 0], '/away.md': ['failed', 0], '/slow.md': ['failed', 0] };
  for (const path of all) {
    const one = await done(path);
    assert.deepEqual([one.state, one.pages], expected[path], `${path}: ${JSON.stringify(one)}`);
    assert.equal(one.configured, true);
  }
  assert.match((await done('/image')).error, /content type 'image\/png'/);
  assert.match((await done('/missing.md')).error, /404/);
  assert.match((await done('/huge.md')).error, /large|more than|limit/i);
  assert.equal((await server.search('token')).results[0].heading, 'Guide > Login');
  const html = await server.search('turquoise');
  assert.equal(html.results[0].heading, 'Web > Colours');
  assert.equal(html.results[0].content, 'Paint it turquoise.');
  assert.equal((await server.search('stolen menu')).total, 0);
  assert.equal((await server.search('Lisbon')).results[0].url, url(it, '/moved'));
  const ready = await server.ask('GET', '/readyz');
  assert.ok(ready.json.docs.failed >= 7 && ready.json.docs.chunks >= 3, ready.text);
  // What is in the configuration cannot be removed.
  const one = await stateOf(server, url(it, '/guide.md'));
  assert.equal((await server.ask('DELETE', `/v1/docs/${one.id}`)).status, 403);
});

test('a page that fails keeps its chunks and is tried again; one that shrinks or goes does too', T, async (t) => {
  const it = await site(t);
  it.pages['/a.md'] = { body: '# A\n## One\napples\n## Two\noranges\n', etag: '"1"' };
  let server = await start(t, [url(it, '/a.md')], { port: it.port });
  await until(async () => (await stateOf(server, url(it, '/a.md')))?.state === 'ready');
  // Not changed: one conditional request, nothing new.
  server = await server.again();
  await until(() => it.seen.filter((each) => each.headers['if-none-match'] === '"1"').length > 0);
  assert.equal((await server.search('oranges')).total, 1);
  // Out of order: the old chunks are found, and it is tried until it works, though smaller.
  it.pages['/a.md'] = { status: 503, body: 'later' };
  server = await server.again();
  await until(async () => (await stateOf(server, url(it, '/a.md')))?.state === 'failed');
  assert.equal((await server.search('oranges')).total, 1);
  it.pages['/a.md'] = { body: '# A\n## One\napples\n', etag: '"2"' };
  await until(async () => (await stateOf(server, url(it, '/a.md')))?.state === 'ready');
  assert.equal((await server.search('oranges')).total, 0);
  assert.equal((await server.search('apples')).total, 1);
  // Gone at the source.
  delete it.pages['/a.md'];
  server = await server.again();
  await until(async () => (await stateOf(server, url(it, '/a.md')))?.state === 'failed');
  assert.equal((await server.search('apples')).total, 0);
  // Not in the configuration any more.
  it.pages['/a.md'] = { body: '# A\n## One\napples\n' };
  await until(async () => (await server.search('apples')).total === 1);
  server = await server.again([]);
  await until(async () => (await server.sources()).length === 0);
  assert.equal((await server.search('apples')).total, 0);
});

test('an address that is not public is opened only by the operator', T, async (t) => {
  const it = await site(t);
  it.pages['/secret.md'] = { body: 'internal apples\n' };
  const server = await start(t, [], { port: it.port });
  const made = await server.ask('POST', '/v1/docs', { url: `http://127.0.0.1:${it.port}/secret.md` });
  assert.equal(made.status, 201, made.text);
  await until(async () => (await server.sources())[0]?.state === 'failed');
  assert.equal(it.seen.length, 0);
  assert.equal((await server.search('apples')).total, 0);
});

test('hostile questions are only words', T, async (t) => {
  const server = await start(t, []);
  await server.ask('POST', '/v1/docs', { name: 'a.md', text: 'apples and pears\n' });
  for (const query of ['"', 'a AND (', 'NEAR(', 'body:*', "'; DROP TABLE doc_pages; --", '*', '((((', '-', '%', 'x'.repeat(4000)])
    await server.search(query);
  assert.equal((await server.ask('GET', '/v1/docs/search')).status, 400);
  assert.equal((await server.ask('GET', '/v1/docs/search?query=%00x')).status, 400);
  assert.equal((await server.ask('GET', `/v1/docs/search?query=${'x'.repeat(5000)}`)).status, 400);
  assert.equal((await server.search('apples')).total, 1);
});

test('kill -9 while pages come in: index and rows agree afterwards', T, async (t) => {
  const dir = tempDir(t);
  let server = await start(t, [], { dir });
  const session = (await server.ask('POST', '/v1/sessions', { id: 'session-k', sandbox: { tier: 'isolate' } }));
  assert.equal(session.status, 201, session.text);
  for (let round = 0; round < 3; round++) {
    const pages = (n) => Array.from({ length: 20 }, (_, i) => ({ path: `${i}.md`, text: `## S\nround${round}x${n} page${i}\n` }));
    const asked = [];
    for (let n = 0; n < 10; n++) {
      asked.push(server.ask('POST', '/v1/docs', { name: 'many', pages: pages(n) }).catch(() => null));
      asked.push(server.ask('PUT', '/v1/sessions/session-k/modules', { path: `m${n}.js`, source: `export const round${round} = 1`, description: `module round${round}y` }).catch(() => null));
    }
    await asked[round * 4];
    server.child.kill('SIGKILL');
    await server.exit;
    await Promise.all(asked);
    server = await start(t, [], { dir });
    // All pages of the upload are there, each with the text of one round; what the list counts is what is found.
    await until(async () => (await server.ask('GET', '/readyz')).json.docs?.state === 'ready');
    const [source] = await server.sources();
    assert.equal(source.chunks, source.pages, JSON.stringify(source));
    let found = 0;
    const versions = new Set();
    for (let i = 0; i < 20; i++) {
      const { total, results } = await server.search(`page${i}`, '&kind=doc');
      found += total > 0;
      if (total > 0) versions.add(/round\d+x\d+/.exec(results[0].content)[0]);
    }
    assert.equal(found, source.pages);
    assert.equal(versions.size, 1, [...versions].join(' '));
    const modules = (await server.ask('GET', '/v1/sessions/session-k/modules')).json.modules;
    let seen = 0;
    await until(async () => (seen = (await server.search('module', '&kind=module&session=session-k&limit=50')).total) === modules.length);
    assert.equal(seen, modules.length);
  }
});

import { renameSync, rmSync } from 'node:fs';
// At each point: among the rows of an upload, before they are committed, and between the commit and the answer.
for (const [point, survives] of [['docs.in_upload', 'old'], ['docs.before_commit', 'old'], ['docs.after_commit', 'new']])
  test(`kill -9 at ${point}: an upload of many pages is ${survives} as a whole`, T, async (t) => {
    const dir = tempDir(t), source = tempDir(t);
    const upload = (server, text) => server.ask('POST', '/v1/docs', { name: 'many', pages: Array.from({ length: 50 }, (_, i) => ({ path: `${i}.md`, text: `## S\n${text} page${i}\n` })) });
    const ends = async (request, server) => { await request.catch(() => null); await server.exit; };
    let server = await start(t, [], { dir });
    assert.equal((await upload(server, 'apples')).status, 201);
    writeFileSync(join(source, 'a.md'), 'figs\n');
    writeFileSync(join(source, 'b.md'), 'figs\n');
    assert.equal((await server.ask('POST', '/v1/docs', { directory: source })).status, 201);
    server.child.kill('SIGTERM');
    await server.exit;
    // A start reads the directory again, and must not: meanwhile its name leads to itself.
    const away = () => { renameSync(source, `${source}.away`); symlinkSync(source, source); };
    const back = () => { rmSync(source); renameSync(`${source}.away`, source); };
    t.after(() => rmSync(`${source}.away`, { recursive: true, force: true }));
    away();
    server = await start(t, [], { dir, env: { SG_CRASH_AT: point } });
    await ends(upload(server, 'pears'), server);
    if (server.child.signalCode !== 'SIGKILL') return t.skip('built without -Dfaults=true');
    // A directory too: both files have changed, one is new.
    for (const name of ['a.md', 'b.md', 'c.md']) writeFileSync(join(`${source}.away`, name), 'dates\n');
    server = await start(t, [], { dir, env: { SG_CRASH_AT: point } });
    back();
    await ends(server.ask('POST', '/v1/docs', { directory: source }), server);
    away();
    server = await start(t, [], { dir });
    await until(async () => (await server.ask('GET', '/readyz')).json.docs?.state === 'ready');
    const counts = {};
    for (const word of ['apples', 'pears', 'figs', 'dates']) counts[word] = (await server.search(word)).total;
    assert.deepEqual(counts, survives === 'old' ? { apples: 50, pears: 0, figs: 2, dates: 0 } : { apples: 0, pears: 50, figs: 0, dates: 3 });
    const rows = Object.fromEntries((await server.sources()).map((each) => [each.kind, [each.pages, each.chunks]]));
    assert.deepEqual(rows, survives === 'old' ? { upload: [50, 50], directory: [2, 2] } : { upload: [50, 50], directory: [3, 3] });
    // And it goes on from there.
    assert.equal((await upload(server, 'plums')).status, 201);
    assert.equal((await server.search('plums')).total, 50);
  });

test('hostile documents cost only their bounds, and others are found meanwhile', T, async (t) => {
  const server = await start(t, []);
  const put = (name, text) => server.ask('POST', '/v1/docs', { name, text });
  assert.equal((await put('good.md', '# Good\n## Fruit\nripe mangoes\n')).status, 201);
  const big = 3_900_000, fill = (pattern) => pattern.repeat(big / pattern.length);
  const hostile = { 'word.md': 'x'.repeat(big), 'quadratic.md': fill('[a](') , 'fences.md': fill('```\n'), 'deep.md': fill('> * '), 'headings.md': fill('## a\n'),
    'emphasis.md': fill('*a_'), 'camel.txt': fill('aB'), 'types.d.ts': fill('export type A\n') };
  for (const [name, text] of Object.entries(hostile)) {
    let answer;
    const under = put(name, text).then((each) => { answer = each; });
    // The thread that answers questions does not wait for a document that is being read.
    do assert.equal((await server.search('mangoes')).total, 1); while (await Promise.race([under, new Promise((done) => setTimeout(done, 50, true))]));
    assert.equal(answer.status, 201, `${name} ${answer.text}`);
  }
  assert.equal((await put('huge.md', 'x'.repeat(10_000_000))).status, 400);
  const nul = await put('nul.md', 'a\0b');
  assert.ok(nul.status === 400 || nul.status === 201, nul.text);
  const listed = await server.sources();
  const why = Object.fromEntries(listed.map((each) => [each.location, each.error ?? '']));
  assert.match(why['headings.md'], /more than 20000 sections/);
  for (const each of listed) assert.ok(each.chunks <= 20000, JSON.stringify(each));
  assert.equal((await server.search('mangoes')).total, 1);
  assert.equal((await server.search('a\0b').catch(() => ({ total: 0 }))).total, 0);
});

test('a page that cannot be read keeps its old chunks and names the reason', T, async (t) => {
  const server = await start(t, []);
  const put = (pages) => server.ask('POST', '/v1/docs', { name: 'set', pages });
  await put([{ path: 'a.md', text: '## A\napples\n' }, { path: 'b.md', text: '## B\nbananas\n' }]);
  const again = await put([{ path: 'a.md', text: '## x\n'.repeat(30000) }, { path: 'b.md', text: '## B\nblueberries\n' }]);
  assert.equal(again.status, 201, again.text);
  assert.equal((await server.search('apples')).total, 1);
  assert.equal((await server.search('bananas')).total, 0);
  assert.equal((await server.search('blueberries')).total, 1);
  const [source] = await server.sources();
  assert.deepEqual([source.state, source.pages, source.chunks], ['ready', 2, 2]);
  assert.match(source.error, /a\.md: the document has more than 20000 sections/);
});

test('saved modules are found by their session, shared by scope, and go with their row', T, async (t) => {
  const server = await start(t, []);
  for (const id of ['session-a', 'session-b'])
    assert.equal((await server.ask('POST', '/v1/sessions', { id, sandbox: { tier: 'isolate' } })).status, 201);
  await server.ask('POST', '/v1/docs', { name: 'csv.md', text: '# CSV\n## Reading\nHow to parse spreadsheets.\n' });
  const put = await server.ask('PUT', '/v1/sessions/session-a/modules', { path: 'lib/csv.js', source: 'export const rows = (text) => text.split("\\n")',
    description: 'Parses spreadsheets', exports: ['rows'], usage: "import { rows } from './lib/csv.js'" });
  assert.equal(put.status, 204, put.text);
  await until(async () => (await server.search('spreadsheets', '&session=session-a')).total === 2);
  const both = await server.search('parses spreadsheets rows', '&session=session-a');
  const module = both.results.find((each) => each.type === 'module');
  assert.deepEqual([module.heading, module.package, module.content, module.exports, module.description],
    ['lib/csv.js', 'session', "import { rows } from './lib/csv.js'", ['rows'], 'Parses spreadsheets']);
  assert.equal((await server.search('spreadsheets', '&session=session-b')).total, 1);
  assert.equal((await server.search('spreadsheets')).total, 1);
  await server.ask('PUT', '/v1/sessions/session-a/modules', { path: 'lib/csv.js', source: 'x', description: 'Parses spreadsheets', scope: 'user' });
  await until(async () => (await server.search('spreadsheets', '&session=session-b')).total === 2);
  assert.equal((await server.search('spreadsheets', '&kind=module')).results[0].type, 'module');
});

test('the command line adds, lists, finds and removes', T, async (t) => {
  const server = await start(t, []);
  const dir = tempDir(t), env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const cli = async (...args) => run(['docs', ...args], { env });
  writeFileSync(join(dir, 'guide.md'), '# Guide\n## Fruit\nPeel bananas first.\n');
  const added = await cli('add', dir, '--package', 'p', '--name', 'mine', '--json');
  assert.equal(added.code, 0, added.stderr);
  const id = JSON.parse(added.stdout).id;
  const found = await cli('search', 'peeling', 'banana');
  assert.match(found.stdout, /Guide > Fruit\n\s+guide\.md\n\s+Peel bananas first/);
  assert.equal(JSON.parse((await cli('search', 'bananas', '--json')).stdout).total, 1);
  assert.match((await cli('ls')).stdout, /mine/);
  assert.match((await cli('status')).stdout, /^ready: 1 sources, 1 chunks, 0 with vectors.*by words only/);
  assert.equal((await cli('add', join(dir, 'none.md'))).code, 1);
  assert.match((await cli('add', join(dir, 'none.md'))).stderr, /neither a URL nor a file/);
  assert.equal((await cli('rm', id)).code, 0);
  assert.match((await cli('search', 'bananas')).stdout, /Nothing found/);
});

// What a model would do, call by call: it reads what it found, uses it, saves what worked, and finds that again later.
test('end to end: search_docs, run_code with what it found, a saved module found again', T, async (t) => {
  const server = await start(t, []);
  assert.equal((await server.ask('POST', '/v1/sessions', { id: 'session-e', sandbox: { tier: 'isolate' } })).status, 201);
  const offered = async () => {
    const { json } = await server.ask('GET', '/v1/tools');
    return { has: json.tools.some((tool) => tool.name === 'search_docs'), prompt: json.systemPrompt.includes('search_docs') };
  };
  const tool = async (name, args) => {
    const { status, json, text } = await server.ask('POST', `/v1/sessions/session-e/tools/${name}`, args);
    assert.equal(status, 200, text);
    return json.answer;
  };
  assert.deepEqual(await offered(), { has: false, prompt: false });
  await server.ask('POST', '/v1/docs', { name: 'acme.md', package: '@acme/sdk', text: `# Acme\n## Slugs\nA slug is the title in lower case with dashes: \`title.toLowerCase().split(' ').join('-')\`.\n${'## Filler\nOther words about other things.\n'.repeat(30)}` });
  assert.deepEqual(await offered(), { has: true, prompt: true });
  const found = await tool('search_docs', { query: 'how do I make a slug of a title?' });
  assert.equal(found.success, true);
  assert.equal(found.results[0].heading, 'Acme > Slugs');
  assert.equal(found.mode, 'keyword');
  const expression = /`([^`]+)`/.exec(found.results[0].content)[1];
  const ran = await tool('run_code', { code: `const title = 'Hello Big World'; ${expression}`, description: 'slug', language: 'javascript' });
  assert.equal(ran.result, 'hello-big-world', JSON.stringify(ran));
  const saved = await server.ask('PUT', '/v1/sessions/session-e/modules', { path: 'lib/slug.js', source: `export const slug = (title) => ${expression};`,
    description: 'Makes a slug of a title', exports: ['slug'], usage: "import { slug } from './lib/slug.js'; slug('A B')" });
  assert.equal(saved.status, 204, saved.text);
  await server.ask('POST', '/v1/sessions/session-e/rest'); // the next run is in a new sandbox
  let again;
  await until(async () => (again = (await tool('search_docs', { query: 'slug of a title' })).results.find((each) => each.type === 'module')) !== undefined);
  assert.equal(again.heading, 'lib/slug.js');
  const used = await tool('run_code', { code: `${again.content}`, description: 'slug again', language: 'javascript' });
  assert.equal(used.result, 'a-b', JSON.stringify(used));
  // Sized for a model, and says how many are left out.
  const many = await tool('search_docs', { query: 'other words', limit: 20 });
  assert.equal(many.results.length, 20);
  assert.ok(many.more >= 10 && JSON.stringify(many).length < 14000, JSON.stringify(many).length);
});

test('a module that is a file of the volume is found only while the file exists', T, async (t) => {
  const server = await start(t, []);
  const made = await server.ask('POST', '/v1/sessions', { id: 'session-f', sandbox: { tier: 'jail' } });
  if (made.status !== 201) return t.skip('no jails on this machine');
  const sh = (command) => server.ask('POST', '/v1/sessions/session-f/commands', { command });
  const first = await sh('echo ok');
  if (!/ok/.test(first.text)) return t.skip('no jails on this machine');
  const module = { path: 'lib/tool.py', description: 'Counts penguins', exports: ['count'], usage: 'from lib.tool import count' };
  const missing = await server.ask('PUT', '/v1/sessions/session-f/modules', module);
  assert.equal(missing.status, 404, missing.text);
  assert.match(missing.text, /write it first/);
  await sh('mkdir -p lib && echo "def count(): return 3" > lib/tool.py');
  const saved = await server.ask('PUT', '/v1/sessions/session-f/modules', module);
  assert.equal(saved.status, 204, saved.text);
  const total = async () => (await server.search('penguins', '&session=session-f')).total;
  await until(async () => (await total()) === 1);
  await sh('rm lib/tool.py');
  assert.equal(await total(), 0);
  assert.deepEqual((await server.ask('GET', '/v1/sessions/session-f/modules')).json.modules, []);
  // With the volume all of them go.
  await sh('echo "def count(): return 3" > lib/tool.py');
  assert.equal((await server.ask('PUT', '/v1/sessions/session-f/modules', module)).status, 204);
  await until(async () => (await total()) === 1);
  await server.ask('POST', '/v1/sessions/session-f/rest');
  assert.equal(await total(), 1);
  const volume = (await server.ask('GET', '/v1/sessions/session-f')).json.volume;
  await until(async () => (await server.ask('DELETE', `/v1/volumes/${volume}`)).status === 204);
  await until(async () => (await total()) === 0);
});

test('docs = ["package"]: README, docs/, declarations and docstrings of what is installed', { ...T, skip: hasNpm ? false : 'no npm on this machine' }, async (t) => {
  const it = await world(t);
  it.registry.add('documented', '1.0.0', { 'index.js': 'exports.x = 1;', 'README.md': '# Documented\n## Install\nUse marmalade.\n',
    'docs/deep.md': '# Deep\n## Diving\nMind the nitrogen.\n', 'index.d.ts': 'export declare function openHatch(): void;\n', 'other.txt': 'walrus' });
  it.index.add('acme-tools', '1.0', 'acmetools', 'def twice(text):\n    """Repeats a porcupine."""\n    return text * 2');
  const server = await startWorld(t, it, '[[sandbox.dependencies]]\npackage = "documented"\ndocs = ["package"]\n[[sandbox.dependencies]]\npackage = "pypi:acme-tools"\ndocs = ["package"]\n');
  if (!server) return;
  const search = async (query, more = '') => server.ask('GET', `/v1/docs/search?query=${query}${more}`);
  await until(async () => (await server.ask('GET', '/v1/docs')).sources.every((each) => each.state !== 'waiting'));
  const { sources } = await server.ask('GET', '/v1/docs');
  assert.ok(sources.every((each) => each.state === 'ready' && each.pages > 0), JSON.stringify(sources));
  assert.equal((await search('marmalade')).results[0].url, 'README.md');
  assert.equal((await search('nitrogen')).results[0].heading, 'Deep > Diving');
  assert.equal((await search('open_hatch')).results[0].url, 'index.d.ts');
  assert.equal((await search('walrus')).total, 0);
  const python = await search('porcupine', '&language=python');
  assert.deepEqual([python.results[0].package, python.results[0].heading], ['pypi:acme-tools', 'acmetools > twice']);
});

test('with the model, meaning is found without the words, after a restart too', { ...T, skip: noModel }, async (t) => {
  const dir = tempDir(t);
  mkdirSync(join(dir, 'data'));
  symlinkSync(models, join(dir, 'data', 'models'));
  let server = await start(t, [], { dir });
  await server.ask('POST', '/v1/docs', { name: 'a.md', text: '# Handbook\n## Vehicles\nThe automobile must be refuelled every evening.\n## Kitchen\nBread is baked at dawn.\n## Garden\nRoses are pruned in winter.\n' });
  await until(async () => (await server.ask('GET', '/readyz')).json.docs?.vectors === 3);
  const found = await server.search('where do I put petrol into my car');
  assert.deepEqual([found.mode, found.results[0].heading], ['hybrid', 'Handbook > Vehicles'], JSON.stringify(found));
  const tool = await server.ask('GET', '/readyz');
  assert.match(tool.json.docs.model, /^minilm /);
  // Kept over a restart.
  server.child.kill('SIGTERM');
  await server.exit;
  server = await start(t, [], { dir });
  await until(async () => (await server.ask('GET', '/readyz')).json.docs?.state === 'ready');
  assert.equal((await server.ask('GET', '/readyz')).json.docs.vectors, 3);
  assert.equal((await server.search('petrol for the car')).mode, 'hybrid');
});
