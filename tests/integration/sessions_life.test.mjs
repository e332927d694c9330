// A session from its start to the end of its volume, as an application that gives a model a sandbox uses it: the
// packages are built at start, the sandbox is made at the first call, the model's code calls an API with a real client
// library and a key that it never sees, the session sleeps, wakes with its files, and at last its volume expires.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import test from 'node:test';
import { tempDir, until } from './lib.mjs';
import { addReal, hasNpm, hasRuntime, packagesReady, start, world } from './sessions_lib.mjs';

const SECTIONS = (it, runtime) => `
[sandbox]
enabled = true
${runtime === 'deno' ? 'provider = "deno"' : 'runtime = "node24"'}
mode = "lazy"
region = "ord"
volume_ttl_minutes = 30
volume_capacity_mb = 300
timeout_seconds = 300
memory_mb = 1280
idle_seconds = 3

[[sandbox.dependencies]]
package = "@octokit/request"
docs = ["https://docs.example.com/sdk.md"]
secret_env = "ACME_API_KEY"
hosts = ["${it.at}"]
`;

const SAVE = `import { request } from '@octokit/request';
import { mkdirSync, writeFileSync } from 'node:fs';
const { data } = await request({ baseUrl: 'URL', url: '/issues', headers: { authorization: \`token \${process.env.ACME_API_KEY}\` } });
mkdirSync('/workspace/lib', { recursive: true });
writeFileSync('/workspace/lib/issues.ts', 'export const first = (list: { id: string }[]): string => list[0].id;\\n');
writeFileSync('/workspace/issues.json', JSON.stringify(data.issues));
const answer: { id: string } = data.issues[0];
answer.id`;
const AGAIN = `import { first } from '/workspace/lib/issues.ts';
import { readFileSync } from 'node:fs';
first(JSON.parse(readFileSync('/workspace/issues.json', 'utf8')))`;
// Everywhere that code could look for the key.
const SEARCH = 'env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr "\\0" "\\n"; cat /workspace/issues.json; grep -rs "$1" / --include="*.json" --include="*.env" -l --exclude-dir=proc --exclude-dir=sys';

const skip = (runtime) => !hasNpm ? 'no npm on this machine' : hasRuntime(runtime) ? false : `${runtime} was not added`;

for (const runtime of ['node24', 'deno']) test(`${runtime}: a session from its first call to the end of its volume`, { timeout: 600000, skip: skip(runtime) }, async (t) => {
  const it = await world(t), data = tempDir(t);
  if (!addReal(it.registry, '@octokit/request')) return t.skip('@octokit/request is not installed: tools/deps');
  const run = (session, code, more = {}) => session.run(code, { language: 'typescript', ...more });
  let server = await start(t, it, SECTIONS(it, runtime), { data });
  if (!server) return;
  // Built at start, behind the answers.
  await packagesReady(server);
  const { snapshot } = await server.ask('GET', '/readyz');
  const [built] = (await server.ask('GET', '/v1/snapshots')).snapshots;
  assert.deepEqual([built.slug, built.packages[0].package, built.packages[0].importable], [snapshot, '@octokit/request', true], JSON.stringify(built));
  assert.match((await server.ask('GET', '/v1/tools')).systemPrompt, new RegExp(`@octokit/request ${built.packages[0].version} \\(its key`));
  // Lazy: nothing is made before the first call.
  const session = await server.session({ id: 'the-users-session' });
  assert.deepEqual([session.state, session.sandbox, session.volume, session.region], ['dormant', null, null, 'ord'], session.text);
  // Work in the background keeps it awake between two calls, however long the machine takes for them.
  const hold = () => server.ask('POST', `/v1/sessions/${session.id}/commands`, { command: 'sleep 6000', detached: true });
  const [first, held] = await Promise.all([run(session, SAVE.replace('URL', it.url)), hold()]);
  assert.equal(first.result, 'ENG-1', first.text);
  assert.equal(first.stateLost, false);
  assert.equal(it.api.seen.at(-1).headers.authorization, `token ${it.key}`, 'the key is on the wire');
  assert.equal((await run(session, 'answer.id')).result, 'ENG-1', 'a variable of the run before');
  const box = await session.box();
  assert.deepEqual([box.limits.memoryMb, box.limits.execMs, box.region, box.runtime], [1280, 300000, 'ord', runtime], box.text);
  const searched = await session.sh(SEARCH.replace('$1', it.key.slice(0, 12)));
  assert.match(searched.stdout, /ACME_API_KEY=sgs_/);
  for (const spelled of it.hidden) assert.ok(!(first.text + searched.text).includes(spelled), 'the key is inside');
  const kept = await server.ask('PUT', `/v1/sessions/${session.id}/modules`, { path: 'lib/issues.ts', source: 'export const one = 1;' });
  assert.ok(kept.status < 300, kept.text);
  // Without work it sleeps: the sandbox goes, the volume stays.
  assert.ok((await server.ask('POST', `/v1/commands/${held.id}/kill`, {})).status < 300);
  await until(async () => (await server.ask('GET', `/v1/sessions/${session.id}`)).state === 'dormant');
  assert.equal((await server.ask('GET', `/v1/sandboxes/${box.id}`)).status, 404);
  const asleep = await server.ask('GET', `/v1/sessions/${session.id}`);
  assert.equal((await server.ask('GET', `/v1/volumes/${asleep.volume}`)).capacityMb, 300);
  // The next call wakes it, with its files and its packages, and says that the variables are gone.
  const woken = await run(session, AGAIN);
  assert.equal(woken.result, 'ENG-1', woken.text);
  assert.deepEqual([woken.stateLost, woken.stateLostReason], [true, 'dormant'], woken.text);
  assert.equal((await run(session, SAVE.replace('URL', it.url))).result, 'ENG-1');
  // The server is restarted; nothing is installed again, and half an hour has gone by.
  await server.ask('POST', `/v1/sessions/${session.id}/rest`);
  server.child.kill('SIGTERM');
  await server.exit;
  const asked = it.registry.asked.length;
  const aged = spawnSync('/usr/bin/python3', ['-c', 'import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n'
    + 'db.execute("UPDATE session_volumes SET used_ms = used_ms - 31 * 60000")\ndb.commit()', join(data, 'sandglass.db')]);
  assert.equal(aged.status, 0, String(aged.stderr));
  server = await start(t, it, SECTIONS(it, runtime), { data });
  await packagesReady(server);
  assert.equal(it.registry.asked.length, asked, 'the packages are there');
  const again = Object.assign(session, { run: (code, more) => server.ask('POST', `/v1/sessions/${session.id}/run_code`, { code, ...more }) });
  await until(async () => (await server.ask('GET', `/v1/sessions/${session.id}`)).volumeExpiredAt !== null);
  assert.equal((await server.ask('GET', `/v1/volumes/${asleep.volume}`)).status, 404);
  assert.deepEqual((await server.ask('GET', `/v1/sessions/${session.id}/modules`)).modules, []);
  const [gone] = await Promise.all([run(again, 'import { existsSync } from "node:fs"; existsSync("/workspace/issues.json")'), hold()]);
  assert.deepEqual([gone.result, gone.stateLost], [false, true], gone.text);
  assert.match(gone.text, /volume_expired/);
  // From there on it is a session as any other.
  const fresh = await run(again, SAVE.replace('URL', it.url));
  assert.deepEqual([fresh.result, fresh.stateLost], ['ENG-1', false], fresh.text);
});
