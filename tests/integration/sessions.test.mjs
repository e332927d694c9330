// Sessions are what config.toml says: each key of [sandbox], [[sandbox.dependencies]] and [secrets.NAME] by its effect.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import test from 'node:test';
import { tempDir, until } from './lib.mjs';
import { addBundler, hasBundler, hasNpm, hasRuntime, packagesReady, start, world } from './sessions_lib.mjs';

const T = { timeout: 600000 };
const noNpm = hasNpm ? false : 'no npm on this machine';
const noNode = hasRuntime('node24') ? noNpm : 'node24 was not added';

const USE = `import { AcmeClient, version } from '@acme/sdk';
import greet, { kind } from 'esm-only';
const client = new AcmeClient({ apiKey: process.env.ACME_API_KEY as string, url: 'URL' });
const issues: { id: string }[] = await client.issues();
({ version, kind, hello: greet('you'), id: issues[0].id, key: process.env.ACME_API_KEY })`;

test('packages, keys and hosts of the dependencies are in every session', { ...T, skip: noNode }, async (t) => {
  const it = await world(t);
  const server = await start(t, it, `[sandbox]\nruntime = "node24"\n${it.acme}[[sandbox.dependencies]]\npackage = "esm-only"\nversion = "0.4.0"\n`);
  if (!server) return;
  const session = await server.session(); // made while the packages are being installed: its first use waits for them
  assert.equal(session.runtime, 'node24', session.text);
  const ran = await session.run(USE.replace('URL', it.url), { language: 'typescript' });
  assert.equal(ran.status, 200, ran.text);
  assert.deepEqual({ ...ran.result, key: '' }, { version: '2.1.0', kind: 'esm', hello: 'hello you', id: 'ENG-1', key: '' }, ran.text);
  assert.match(ran.result.key, /^sgs_/);
  assert.equal(it.api.seen.at(-1).headers.authorization, `Bearer ${it.key}`);
  const common = await session.run('const { version } = require("@acme/sdk"); version', { language: 'javascript' });
  assert.equal(common.result, '2.1.0', common.text);
  // In a shell of the session too.
  const shell = await session.sh(`curl -sS -H "authorization: Bearer $ACME_API_KEY" ${it.url}/issues; env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'`);
  assert.match(shell.stdout, /ENG-1/, shell.text);
  for (const spelled of it.hidden) assert.ok(!(ran.text + common.text + shell.text).includes(spelled), 'the key is inside');
  // Nothing else is open, and a session that asks for more has both.
  assert.match((await session.sh('curl -sS https://example.org/ 2>&1')).stdout, /blocked|denied|403/i);
  const box = await session.box();
  assert.match(box.network, new RegExp(`allow ${it.at}`));
  const wider = await server.session({ sandbox: { network: 'allow more.test:8443' } });
  assert.match((await wider.sh(`curl -sS -H "authorization: Bearer $ACME_API_KEY" ${it.url}/issues`)).stdout, /ENG-1/);
  assert.match((await wider.box()).network, /more\.test:8443/);
  // One that wants no network has none, and no key.
  const closed = await server.session({ sandbox: { network: 'none' } });
  assert.equal((await closed.sh('echo "[$ACME_API_KEY]"')).stdout, '[]\n');
  assert.equal((await closed.box()).network, 'none');
});

test('a sandbox of its own has nothing of that unless it asks', { ...T, skip: noNpm }, async (t) => {
  const it = await world(t);
  const server = await start(t, it, `[sandbox]\n${it.acme}`);
  if (!server) return;
  await packagesReady(server);
  const box = await server.ask('POST', '/v1/sandboxes', {});
  const sh = await server.ask('POST', `/v1/sandboxes/${box.id}/commands`, { command: 'ls /node_modules 2>/dev/null; echo "[$ACME_API_KEY]"' });
  assert.equal(sh.stdout, '[]\n', sh.text);
});

test('memory_mb, region and runtime are those of the sandbox; what a session asks for wins', T, async (t) => {
  const it = await world(t);
  const server = await start(t, it, '[sandbox]\nmemory_mb = 200\nregion = "ord"\nvolume_capacity_mb = 64\nvolume_ttl_minutes = 7\nidle_seconds = 900\n');
  if (!server) return;
  const session = await server.session();
  assert.deepEqual([session.region, session.idleMs], ['ord', 900000], session.text);
  const ate = await session.run('x = bytearray(400 << 20)\nprint("still here")', { language: 'python' });
  assert.doesNotMatch(ate.stdout ?? '', /still here/, ate.text);
  const box = await session.box();
  assert.deepEqual([box.limits.memoryMb, box.region], [200, 'ord'], box.text);
  const mine = await server.session({ sandbox: { limits: { memoryMb: 700 } } });
  assert.match((await mine.run('x = bytearray(400 << 20)\nprint("fits")', { language: 'python' })).stdout, /fits/);
  const { volumes } = await server.ask('GET', '/v1/volumes');
  const volume = volumes.find((each) => each.session === session.id);
  assert.deepEqual([volume.region, volume.capacityMb, volume.ttlMs], ['ord', 64, 7 * 60000], JSON.stringify(volume));
  const full = await session.sh('head -c 100M /dev/zero >/workspace/big 2>&1 || echo no');
  assert.match(full.stdout, /No space left|no/, full.text);
});

test('mode says when the sandbox is made, provider what it is', T, async (t) => {
  const it = await world(t);
  const warm = await start(t, it, '[sandbox]\nmode = "warm"\n');
  if (!warm) return;
  assert.equal((await warm.session()).state, 'active');
  const lazy = await start(t, it, '[sandbox]\nmode = "lazy"\nprovider = "isolate"\nmemory_mb = 24\n');
  const session = await lazy.session();
  assert.deepEqual([session.state, session.tier, session.sandbox], ['dormant', 'isolate', null], session.text);
  assert.equal((await session.run('1 + 1')).result, 2);
  assert.equal((await session.box()).limits.memoryMb, 24);
});

test('provider = "deno" is a jail with Deno', { ...T, skip: hasRuntime('deno') ? noNpm : 'deno was not added' }, async (t) => {
  const it = await world(t);
  const server = await start(t, it, `[sandbox]\nprovider = "deno"\nregion = "ord"\n${it.acme}[[sandbox.dependencies]]\npackage = "esm-only"\n`);
  if (!server) return;
  const session = await server.session();
  assert.deepEqual([session.tier, session.runtime], ['jail', 'deno'], session.text);
  // Its first cell may have garbage collected.
  const heavy = await session.run('const list = []; for (let i = 0; i < 3e6; i++) list.push({ i }); list.length', { language: 'typescript' });
  assert.equal(heavy.result, 3e6, heavy.text);
  const ran = await session.run(USE.replace('URL', it.url), { language: 'typescript' });
  assert.equal(ran.result?.id, 'ENG-1', ran.text);
  assert.equal((await session.run('Deno.version.deno')).result.split('.')[0], '2');
});

test('a session whose time is up is dormant; its files stay', T, async (t) => {
  const it = await world(t);
  const server = await start(t, it, '[sandbox]\nidle_seconds = 1\n');
  if (!server) return;
  const session = await server.session();
  await session.sh('echo kept >/workspace/file');
  await until(async () => (await server.ask('GET', `/v1/sessions/${session.id}`)).state === 'dormant');
  assert.equal((await session.sh('cat /workspace/file')).stdout, 'kept\n');
});

test('enabled = false: no packages, no keys, no tools, no warnings', T, async (t) => {
  const it = await world(t);
  const server = await start(t, it, `[sandbox]\nenabled = false\n${it.acme}`, { env: { ACME_API_KEY: '' } });
  if (!server) return;
  const ready = await server.ask('GET', '/readyz');
  assert.deepEqual([ready.snapshot, ready.warnings], [undefined, []], ready.text);
  assert.deepEqual((await server.ask('GET', '/v1/tools')).tools, []);
  const session = await server.session();
  assert.equal((await session.sh('echo "[$ACME_API_KEY]"')).stdout, '[]\n');
});

test('a key that is not set is a warning, and says so where it is used', { ...T, skip: noNpm }, async (t) => {
  const it = await world(t);
  const more = '[secrets.other]\nfrom = "env:SG_NOT_SET"\nhosts = ["api.acme.test"]\n';
  const server = await start(t, it, `[sandbox]\n${it.acme}${more}`, { env: { ACME_API_KEY: '' } });
  if (!server) return;
  const { warnings } = await server.ask('GET', '/readyz');
  assert.equal(warnings.length, 2, JSON.stringify(warnings));
  assert.match(warnings[0], /the environment variable ACME_API_KEY \(secret_env of @acme\/sdk/);
  assert.match(warnings[1], /secrets\.other: env:SG_NOT_SET is not set/);
  assert.match(server.stderr, /config\.warning.*ACME_API_KEY/);
  const session = await server.session();
  const sh = await session.sh(`curl -sS -H "authorization: Bearer $ACME_API_KEY" ${it.url}/issues`);
  assert.match(sh.stdout, /secret_missing.*ACME_API_KEY has no value on this server/, sh.text);
  const isolate = await server.session({ sandbox: { tier: 'isolate' } });
  const ran = await isolate.run(`await fetch('${it.url}/issues', { headers: { authorization: 'Bearer ' + process.env.ACME_API_KEY } })`);
  assert.match(ran.text, /ACME_API_KEY has no value on this server/, ran.text);
  assert.equal(it.api.seen.length, 0, 'nothing reached the host');
});

test('packages that cannot be installed: the reason is reported, and sessions work without', { ...T, skip: noNpm }, async (t) => {
  const it = await world(t);
  const server = await start(t, it, '[sandbox]\n[[sandbox.dependencies]]\npackage = "absent"\n');
  if (!server) return;
  const session = await server.session();
  assert.equal((await session.sh('echo works')).stdout, 'works\n');
  const ready = await server.ask('GET', '/readyz');
  assert.equal(ready.snapshotState, 'failed');
  assert.match(ready.snapshotDetail, /^npm: the registry has no such package/);
});

const dependency = (name, more = '') => `[[sandbox.dependencies]]\npackage = "${name}"\n${more}`;

test('an isolate imports packages too', { ...T, skip: hasBundler ? noNpm : 'esbuild is not installed: tools/deps' }, async (t) => {
  const it = await world(t);
  addBundler(it.registry);
  const server = await start(t, it, `[sandbox]\nprovider = "isolate"\n${it.acme}${['esm-only', 'needs-files', 'broken'].map((name) => dependency(name)).join('')}`);
  if (!server) return;
  const session = await server.session();
  const ran = await session.run(USE.replace('URL', it.url), { language: 'typescript' });
  assert.deepEqual({ ...ran.result, key: '' }, { version: '2.1.0', kind: 'esm', hello: 'hello you', id: 'ENG-1', key: '' }, ran.text);
  assert.match(ran.result.key, /^sgs_/);
  assert.equal(it.api.seen.at(-1).headers.authorization, `Bearer ${it.key}`);
  for (const spelled of it.hidden) assert.ok(!ran.text.includes(spelled), 'the key is inside');
  // What a file of the session imports; the whole of a package; its name as Deno writes it.
  await server.ask('PUT', `/v1/sessions/${session.id}/modules`, { path: 'lib/hello.ts', source: 'import greet from "esm-only";\nexport const hello = (who: string) => greet(who);' });
  assert.equal((await session.run('import { hello } from "./lib/hello.ts"; hello("file")')).result, 'hello file');
  assert.equal((await session.run('const all = await import("npm:esm-only"); all.kind')).result, 'esm');
  // It is there when the session has slept.
  assert.equal((await session.run('globalThis.kept = (await import("esm-only")).default; 1')).result, 1);
  await server.ask('POST', `/v1/sessions/${session.id}/rest`);
  assert.equal((await session.run('kept("again")')).result, 'hello again');
  // What cannot work says why, where it is used.
  const files = await session.run('import { read } from "needs-files"; read("/etc/passwd")');
  assert.match(files.error.message, /Node's module 'fs' does not exist in an isolate/, files.text);
  const broken = await session.run('import "broken"');
  assert.match(broken.error.message, /cannot import 'broken'.*packages of the configuration/, broken.text);
  const { packages } = (await server.ask('GET', '/v1/snapshots')).snapshots[0];
  const found = Object.fromEntries(packages.map((each) => [each.package, [each.version, each.importable, each.isolate]]));
  assert.deepEqual(found, { '@acme/sdk': ['2.1.0', true, true], 'esm-only': ['0.4.0', true, true],
    'needs-files': ['3.0.0', true, true], broken: ['1.1.0', false, false] });
  assert.match(packages.find((each) => each.package === 'broken').reason, /it does not even load/);
  const { systemPrompt } = await server.ask('GET', '/v1/tools');
  assert.match(systemPrompt, /TypeScript and JavaScript.*@acme\/sdk 2\.1\.0 \(its key is in the environment variable ACME_API_KEY\)/);
  assert.doesNotMatch(systemPrompt, /broken/);
});

test('the prompt names what is there, with its version, and nothing else', { ...T, skip: noNode }, async (t) => {
  const it = await world(t), data = tempDir(t);
  let open;
  it.registry.gate = new Promise((done) => { open = done; });
  const server = await start(t, it, `[sandbox]\n${it.acme}${dependency('broken')}${dependency('pypi:acme-tools')}`, { env: { ACME_API_KEY: '' }, data });
  if (!server) return;
  const prompt = async () => (await server.ask('GET', '/v1/tools')).systemPrompt;
  const early = await prompt();
  assert.doesNotMatch(early, /acme|broken/i, early);
  assert.match(early, /being installed/);
  open();
  await packagesReady(server);
  const text = await prompt();
  assert.match(text, /TypeScript and JavaScript.*@acme\/sdk 2\.1\.0 \(its key ACME_API_KEY is not set on this server/, text);
  assert.match(text, /Python.*acme-tools 0\.9 \(import acmetools\)/, text);
  assert.doesNotMatch(text, /broken|being installed/);
  const session = await server.session();
  assert.equal((await session.run('import acmetools\nacmetools.twice("ab")', { language: 'python' })).result, 'abab');
  assert.equal((await session.sh('python3 -c "import acmetools; print(acmetools.twice(1))"')).stdout, '2\n');
  // Other packages: what the list before them had goes.
  const slug = (await server.ask('GET', '/readyz')).snapshot;
  await server.ask('DELETE', `/v1/sessions/${session.id}`);
  server.child.kill('SIGTERM');
  await server.exit;
  const next = await start(t, it, `[sandbox]\n${dependency('esm-only')}`, { data });
  await packagesReady(next);
  assert.match((await next.ask('GET', '/v1/tools')).systemPrompt, /esm-only 0\.4\.0/);
  await until(() => next.stderr.includes(`slug=${slug}`) && next.stderr.includes('snapshot.old'));
  const rows = () => spawnSync('/usr/bin/python3', ['-c', 'import sqlite3, sys\nprint([row[0] for row in sqlite3.connect(sys.argv[1]).execute("SELECT slug FROM snapshots")])',
    join(data, 'sandglass.db')], { encoding: 'utf8' }).stdout;
  await until(() => !rows().includes(slug));
});
