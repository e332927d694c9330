// Sources of documents: directories, files and packages of the configuration and of the API, again at start and after a failure;
// events of sources; a model that is added later; filters; modules that sessions share.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { serve, tempDir, until } from './lib.mjs';
import { hasNpm, packagesReady, start as startWorld, world } from './sessions_lib.mjs';

const T = { timeout: 600000 };

// A server with these documents of @acme/sdk in its configuration. `again` starts it again on the same directory.
async function start(t, docs, { dir = tempDir(t), extra = '', env = {} } = {}) {
  const config = join(dir, 'config.toml'), data = join(dir, 'data');
  mkdirSync(data, { recursive: true });
  writeFileSync(config, `[search]\nretry_seconds = 1\n${extra}`
    + (docs.length ? `[[sandbox.dependencies]]\npackage = "@acme/sdk"\ndocs = ${JSON.stringify(docs)}\n` : ''));
  const server = await serve(t, { dir: data, args: ['--config', config], env: { ...process.env, SANDGLASS_BUILD_DEPENDENCIES: '', ...env } });
  server.ask = async (method, path, body) => {
    const response = await server.get(path, { method, ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }) });
    const text = await response.text();
    return { status: response.status, text, json: text.startsWith('{') ? JSON.parse(text) : {} };
  };
  server.search = async (query, more = '') => {
    const answer = await server.ask('GET', `/v1/docs/search?query=${encodeURIComponent(query)}${more}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json;
  };
  server.total = async (query, more) => (await server.search(query, more)).total;
  server.sources = async () => (await server.ask('GET', '/v1/docs')).json.sources;
  server.source = async (location) => (await server.sources()).find((each) => each.location === location);
  server.settled = () => until(async () => (await server.ask('GET', '/readyz')).json.docs?.state === 'ready');
  server.again = async (newDocs = docs) => {
    server.child.kill('SIGTERM');
    await server.exit;
    return start(t, newDocs, { dir, extra, env });
  };
  return server;
}

// Events since the first one, as they come.
function follow(t, server, token = server.token) {
  const events = [], controller = new AbortController();
  t.after(() => controller.abort());
  (async () => {
    const answer = await server.get('/v1/events?after=0', { headers: { accept: 'application/x-ndjson', authorization: `Bearer ${token}` }, signal: controller.signal });
    let text = '';
    for await (const part of answer.body) {
      text += Buffer.from(part).toString();
      const lines = text.split('\n');
      text = lines.pop();
      for (const line of lines.filter(Boolean)) events.push(JSON.parse(line));
    }
  })().catch(() => {});
  return events;
}

const HTML = '<html><head><title>Web</title><script>stolen()</script></head><body><nav>menu</nav><main><h2>Colours</h2><p>Paint it turquoise.</p></main></body></html>';

test('a directory and a file of the configuration: added, changed and gone', T, async (t) => {
  const docs = tempDir(t), home = tempDir(t), file = join(home, 'handbook.md');
  mkdirSync(join(docs, 'sub'));
  writeFileSync(join(docs, 'a.md'), 'apples\n');
  writeFileSync(join(docs, 'sub', 'page.html'), HTML);
  writeFileSync(file, '# Handbook\n## Fruit\nbananas\n');
  let server = await start(t, [docs, '~/handbook.md'], { env: { HOME: home } });
  await server.settled();
  assert.deepEqual((await server.sources()).map((each) => [each.kind, each.state, each.configured, each.pages]).sort(),
    [['directory', 'ready', true, 1], ['directory', 'ready', true, 2]]);
  assert.equal((await server.search('apples')).results[0].url, 'a.md');
  const banana = (await server.search('bananas')).results[0];
  assert.deepEqual([banana.url, banana.heading, banana.package], ['handbook.md', 'Handbook > Fruit', '@acme/sdk']);
  const html = (await server.search('turquoise')).results[0];
  assert.deepEqual([html.heading, html.content], ['Web > Colours', 'Paint it turquoise.']);
  assert.equal(await server.total('stolen menu'), 0);
  // Changed: at the next start.
  writeFileSync(join(docs, 'a.md'), 'oranges\n');
  writeFileSync(join(docs, 'b.htm'), HTML.replace('turquoise', 'crimson'));
  writeFileSync(file, 'cherries\n');
  server = await server.again();
  await server.settled();
  assert.deepEqual(await Promise.all(['apples', 'oranges', 'crimson', 'bananas', 'cherries'].map((word) => server.total(word))), [0, 1, 1, 0, 1]);
  // Gone: a file of the directory, and the file itself.
  rmSync(join(docs, 'a.md'));
  rmSync(file);
  server = await server.again();
  await until(async () => (await server.source(file))?.state === 'failed');
  await until(async () => (await server.source(docs)).pages === 2);
  assert.deepEqual(await Promise.all(['oranges', 'crimson', 'cherries'].map((word) => server.total(word))), [0, 1, 0]);
  // Not in the configuration any more.
  server = await server.again([]);
  await until(async () => (await server.sources()).length === 0);
  assert.equal(await server.total('crimson'), 0);
});

test('a directory that cannot be read is tried again without a restart, and keeps what it had', T, async (t) => {
  const home = tempDir(t), docs = join(home, 'docs');
  symlinkSync('docs', docs); // leads to itself: it cannot be opened, and it is not gone
  let server = await start(t, [docs]);
  await until(async () => (await server.source(docs))?.state === 'failed');
  assert.equal((await server.ask('GET', '/readyz')).json.docs.failed, 1);
  rmSync(docs);
  mkdirSync(docs);
  writeFileSync(join(docs, 'a.md'), 'apples\n');
  await until(async () => (await server.source(docs)).state === 'ready');
  assert.equal(await server.total('apples'), 1);
  renameSync(docs, join(home, 'away'));
  symlinkSync('docs', docs);
  server = await server.again();
  await until(async () => (await server.source(docs)).state === 'failed');
  assert.equal(await server.total('apples'), 1);
});

test('a directory of the API is read again at start; HTML of uploads is converted', T, async (t) => {
  const docs = tempDir(t);
  writeFileSync(join(docs, 'a.md'), 'apples\n');
  let server = await start(t, []);
  assert.equal((await server.ask('POST', '/v1/docs', { directory: docs, package: 'p' })).status, 201);
  assert.equal((await server.ask('POST', '/v1/docs', { name: 'page.html', text: HTML })).status, 201);
  assert.equal((await server.ask('POST', '/v1/docs', { name: 'many', pages: [{ path: 'x.htm', text: HTML.replace('turquoise', 'crimson') }] })).status, 201);
  for (const word of ['turquoise', 'crimson']) assert.equal((await server.search(word)).results[0].heading, 'Web > Colours');
  assert.equal(await server.total('stolen menu'), 0);
  writeFileSync(join(docs, 'a.md'), 'oranges\n');
  writeFileSync(join(docs, 'b.md'), 'plums\n');
  server = await server.again();
  await until(async () => await server.total('oranges') === 1 && await server.total('plums') === 1);
  assert.equal(await server.total('apples'), 0);
  const source = (await server.sources()).find((each) => each.kind === 'directory');
  assert.deepEqual([source.state, source.pages, source.configured], ['ready', 2, false]);
});

test('a start reads only what has changed', T, async (t) => {
  const docs = tempDir(t);
  for (const name of ['a.md', 'b.md']) writeFileSync(join(docs, name), `${name} apples\n`);
  let server = await start(t, [docs], { env: { SANDGLASS_LOG_LEVEL: 'debug' } });
  const read = async (pages, modules) => {
    await server.settled();
    await until(() => /docs\.directory/.test(server.stderr) && /docs\.modules/.test(server.stderr));
    assert.deepEqual([/docs\.directory .*pages=2 read=(\d+)/.exec(server.stderr)?.[1], /docs\.modules .*read=(\d+)/.exec(server.stderr)?.[1]], [`${pages}`, `${modules}`]);
  };
  await read(2, 0);
  assert.equal((await server.ask('POST', '/v1/sessions', { id: 'session-r', sandbox: { tier: 'isolate' } })).status, 201);
  const put = (description, scope) => server.ask('PUT', '/v1/sessions/session-r/modules', { path: 'lib/x.js', source: 'export const x = 1', description, scope });
  assert.equal((await put('Counts penguins')).status, 204);
  await until(async () => await server.total('penguins', '&session=session-r') === 1);
  server = await server.again();
  await read(0, 0);
  assert.equal(await server.total('apples'), 2);
  assert.equal(await server.total('penguins', '&session=session-r'), 1);
  writeFileSync(join(docs, 'b.md'), 'pears\n');
  server = await server.again();
  await read(1, 0);
  assert.deepEqual([await server.total('apples'), await server.total('pears')], [1, 1]);
});

test('events: docs.ready and docs.failed of each source, of the configuration and of the API', T, async (t) => {
  const home = tempDir(t), good = join(home, 'good.md'), bad = join(home, 'bad.md');
  writeFileSync(good, 'apples\n');
  symlinkSync('bad.md', bad);
  const server = await start(t, [good, bad]), events = follow(t, server);
  const of = (kind, id) => events.find((each) => each.event === kind && each.data.id === id);
  await until(async () => (await server.sources()).filter((each) => each.state !== 'waiting').length === 2);
  const ids = Object.fromEntries((await server.sources()).map((each) => [each.location, each.id]));
  await until(() => of('docs.ready', ids[good]) && of('docs.failed', ids[bad]));
  assert.match(of('docs.failed', ids[bad]).data.detail, /bad\.md/);
  // One event for all failures in a row; then one when it is there.
  const first = (await server.source(bad)).checkedAt;
  await until(async () => (await server.source(bad)).checkedAt !== first);
  rmSync(bad);
  writeFileSync(bad, 'pears\n');
  await until(() => of('docs.ready', ids[bad]));
  assert.equal(events.filter((each) => each.event === 'docs.failed').length, 1);
  const added = await server.ask('POST', '/v1/docs', { name: 'a.md', text: 'plums\n' });
  await until(() => of('docs.ready', added.json.id));
  // Another tenant gets those of the configuration, not those of this one.
  const { token } = (await server.ask('POST', '/v1/tokens', { tenant: 'other', scopes: ['read', 'run'] })).json;
  const seen = follow(t, server, token);
  const theirs = await (await server.get('/v1/docs', { method: 'POST', headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'b.md', text: 'figs' }) })).json();
  await until(() => seen.some((each) => each.data.id === theirs.id));
  assert.deepEqual([...new Set(seen.map((each) => each.data.id))].sort(), [ids[good], ids[bad], theirs.id].sort());
  assert.equal(of('docs.ready', theirs.id), undefined);
  const url = await server.ask('POST', '/v1/docs', { url: 'http://127.0.0.1:9/x.md' });
  await until(() => of('docs.failed', url.json.id));
});

const noPackages = !hasNpm ? 'no npm on this machine' : process.getuid() !== 0 ? 'only root sees into the jails of another process' : false;

test('a package whose documentation could not be collected is tried again; HTML of it is converted', { ...T, skip: noPackages }, async (t) => {
  const it = await world(t), mark = `mark-${process.pid}-${Date.now()}`, data = join(tempDir(t), 'data');
  mkdirSync(data);
  it.registry.add('documented', '1.0.0', { 'index.js': 'exports.x = 1;', 'README.md': '# Documented\n## Install\nUse marmalade.\n', 'docs/page.html': HTML, [mark]: '' });
  const sections = '[search]\nretry_seconds = 1\n[[sandbox.dependencies]]\npackage = "documented"\ndocs = ["package"]\n';
  // Processes of the sandbox that has the package, which is the one that collects its documentation.
  const inside = () => readdirSync('/proc').filter((each) => /^\d+$/.test(each) && existsSync(`/proc/${each}/root/node_modules/documented/${mark}`));
  let server, source, failed = false;
  // It is killed while it collects. Where it was too quick for that, at the next start.
  while (!failed) {
    server?.child.kill('SIGTERM');
    await server?.exit;
    server = await startWorld(t, it, sections, { data });
    if (!server) return;
    source = async () => (await server.ask('GET', '/v1/docs')).sources?.[0] ?? {};
    const first = (await source()).checkedAt;
    await packagesReady(server);
    for (;;) {
      for (const each of inside()) try { process.kill(Number(each), 'SIGKILL'); } catch { /* it has ended */ }
      const { state, checkedAt } = await source();
      failed = state === 'failed';
      if (failed || (state === 'ready' && checkedAt !== first)) break;
    }
  }
  await until(async () => (await source()).state === 'ready');
  const search = async (query) => server.ask('GET', `/v1/docs/search?query=${query}`);
  assert.equal((await search('turquoise')).results[0].heading, 'Web > Colours');
  assert.equal((await search('marmalade')).results[0].url, 'README.md');
});

const models = join(process.env.SG_RUNTIMES ?? '/nowhere', 'models');
const noModel = existsSync(join(models, 'files/minilm')) ? false : 'the model minilm was not added';

test('a model that is added while the server runs is used without a restart', { ...T, skip: noModel }, async (t) => {
  const dir = tempDir(t);
  const server = await start(t, [], { dir }), events = follow(t, server);
  await server.ask('POST', '/v1/docs', { name: 'a.md', text: '# Handbook\n## Vehicles\nThe automobile must be refuelled every evening.\n## Kitchen\nBread is baked at dawn.\n' });
  assert.equal((await server.search('petrol for the car')).mode, 'keyword');
  assert.equal(events.filter((each) => each.event === 'docs.vectors').length, 0);
  rmSync(join(dir, 'data', 'models'), { recursive: true, force: true });
  symlinkSync(models, join(dir, 'data', 'models'));
  await until(async () => (await server.ask('GET', '/readyz')).json.docs.vectors === 2);
  const found = await server.search('petrol for the car');
  assert.deepEqual([found.mode, found.results[0].heading], ['hybrid', 'Handbook > Vehicles']);
  assert.match((await server.ask('GET', '/readyz')).json.docs.model, /^minilm /);
  await until(() => events.some((each) => each.event === 'docs.vectors'));
  // Again when later documents have theirs.
  await server.ask('POST', '/v1/docs', { name: 'b.md', text: '## Garden\nRoses are pruned in winter.\n' });
  await until(() => events.filter((each) => each.event === 'docs.vectors').length === 2);
  assert.equal((await server.ask('GET', '/readyz')).json.docs.vectors, 3);
});

test('filter: a volume names its session', T, async (t) => {
  const server = await start(t, []), volumes = [];
  for (const id of ['session-v', 'session-w']) {
    const made = await server.ask('POST', '/v1/sessions', { id, sandbox: { tier: 'jail' } });
    const ran = await server.ask('POST', `/v1/sessions/${id}/commands`, { command: 'echo ok' });
    if (made.status !== 201 || !/ok/.test(ran.text)) return t.skip('no jails on this machine');
    volumes.push((await server.ask('GET', `/v1/sessions/${id}`)).json.volume);
  }
  await server.ask('PUT', '/v1/sessions/session-v/modules', { path: 'lib/count.js', source: 'export const count = 1', description: 'Counts penguins' });
  await until(async () => await server.total('penguins', '&session=session-v') === 1);
  const found = await server.search('penguins', `&volume=${volumes[0]}`);
  assert.deepEqual(found.results.map((each) => each.heading), ['lib/count.js']);
  assert.equal(await server.total('penguins', `&volume=${volumes[1]}`), 0);
  assert.equal((await server.ask('GET', '/v1/docs/search?query=penguins&volume=unknown')).status, 404);
});

test('filter: a document of no known language is found under each language', T, async (t) => {
  const server = await start(t, []);
  for (const [name, package_] of [['plain.md', undefined], ['free.md', 'our handbook'], ['npm.md', '@acme/sdk'], ['py.md', 'pypi:acme']])
    await server.ask('POST', '/v1/docs', { name, package: package_, text: `## One\nwalrus\n` });
  const names = async (language) => (await server.search('walrus', `&kind=doc&limit=20${language ? `&language=${language}` : ''}`)).results.map((each) => each.url).sort();
  assert.deepEqual(await names(''), ['free.md', 'npm.md', 'plain.md', 'py.md']);
  assert.deepEqual(await names('python'), ['free.md', 'plain.md', 'py.md']);
  assert.deepEqual(await names('javascript'), ['free.md', 'npm.md', 'plain.md']);
  assert.deepEqual(await names('typescript'), ['free.md', 'npm.md', 'plain.md']);
  assert.deepEqual(await names('bash'), ['free.md', 'plain.md']);
});

test('modules whose file is gone leave no gap in the results', T, async (t) => {
  const server = await start(t, []);
  const made = await server.ask('POST', '/v1/sessions', { id: 'session-g', sandbox: { tier: 'jail' } });
  const sh = (command) => server.ask('POST', '/v1/sessions/session-g/commands', { command });
  if (made.status !== 201 || !/ok/.test((await sh('echo ok')).text)) return t.skip('no jails on this machine');
  await sh('mkdir lib; for n in 1 2 3; do echo x > lib/$n.py; done');
  for (const n of [1, 2, 3])
    assert.equal((await server.ask('PUT', '/v1/sessions/session-g/modules', { path: `lib/${n}.py`, description: 'penguins penguins penguins' })).status, 204);
  await server.ask('POST', '/v1/docs', { name: 'a.md', text: '## Birds\nA long text about many other things in which penguins are named only once among all the others.\n' });
  await until(async () => await server.total('penguins', '&session=session-g') === 4);
  assert.equal((await server.search('penguins', '&session=session-g&limit=1')).results[0].type, 'module');
  await sh('rm -r lib');
  const found = await server.search('penguins', '&session=session-g&limit=1');
  assert.deepEqual([found.results.map((each) => each.url), found.total], [['a.md'], 1]);
});

test('a module of scope "user" is imported in other sessions of its tenant, one of scope "session" is not', T, async (t) => {
  const server = await start(t, []);
  for (const id of ['session-a', 'session-b', 'session-c'])
    assert.equal((await server.ask('POST', '/v1/sessions', { id, sandbox: { tier: 'isolate' } })).status, 201);
  const put = (session, module) => server.ask('PUT', `/v1/sessions/${session}/modules`, module);
  const run = async (session, code) => (await server.ask('POST', `/v1/sessions/${session}/run_code`, { code })).json;
  assert.equal((await put('session-a', { path: 'lib/base.js', source: 'export const base = 40', scope: 'user' })).status, 204);
  assert.equal((await put('session-a', { path: 'lib/sum.js', source: "import { base } from './base.js'; export const sum = (n) => base + n", scope: 'user',
    description: 'Adds to the base', usage: "import { sum } from './lib/sum.js'; sum(2)" })).status, 204);
  assert.equal((await put('session-a', { path: 'lib/own.js', source: 'export const own = 1' })).status, 204);
  let found;
  await until(async () => (found = (await server.search('adds sum', '&session=session-b&kind=module')).results.find((each) => each.heading === 'lib/sum.js')) !== undefined);
  const used = await run('session-b', found.content);
  assert.equal(String(used.result), '42', JSON.stringify(used));
  const refused = await run('session-b', "import { own } from './lib/own.js'; own");
  assert.ok(refused.error, JSON.stringify(refused));
  // Its own module of that path wins, and that of the other session is as it was.
  assert.equal((await put('session-c', { path: 'lib/base.js', source: 'export const base = 1' })).status, 204);
  assert.equal(String((await run('session-c', "import { base } from './lib/base.js'; base")).result), '1');
  assert.equal(String((await run('session-a', "import { base } from './lib/base.js'; base")).result), '40');
});
