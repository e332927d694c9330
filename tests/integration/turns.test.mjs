// Automatic checkpoints of /workspace: made before calls that change files, undone, compared.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { run as cli, serve, tempDir } from './lib.mjs';

const T = { timeout: 600000 };

async function start(t, { dir, config = '' } = {}) {
  const file = join(tempDir(t), 'config.toml');
  writeFileSync(file, config);
  const server = await serve(t, { dir, args: ['--config', file] });
  server.ask = async (method, path, body) => {
    const answer = await server.get(path, { method, body: body && JSON.stringify(body),
      headers: { 'content-type': 'application/json' } });
    const text = await answer.text();
    return { ...(text.startsWith('{') ? JSON.parse(text) : {}), http: answer.status, raw: text };
  };
  server.put = (at, path, text) => server.get(`${at}/files?path=${path}`, { method: 'PUT', body: text });
  server.read = async (at, path) => (await server.get(`${at}/files?path=${path}`)).text();
  server.exec = async (at, command) => {
    const done = await server.ask('POST', `${at}/commands`, { command });
    assert.equal(done.exitCode, 0, done.raw);
    return done;
  };
  server.turns = async (at) => (await server.ask('GET', `${at}/checkpoints`)).checkpoints.filter((each) => each.automatic);
  server.befores = async (at) => (await server.turns(at)).map((each) => each.before);
  return server;
}

async function box(t, server, spec) {
  const made = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', ...spec });
  if (made.http === 201) return `/v1/sandboxes/${made.id}`;
  t.skip(`no jails here: ${made.raw}`);
  return null;
}

const brief = (diff) => diff.files.map(({ path, change, sizeBefore, sizeAfter }) => [path, change, sizeBefore, sizeAfter]);

test('before each call that changes files, and not when nothing changed', T, async (t) => {
  const server = await start(t, { config: '[sandbox]\ncheckpoint_count = 4\n' });
  const at = await box(t, server, { checkpoints: 'turn', runtime: 'python3' });
  if (at === null) return;
  assert.equal((await server.ask('GET', at)).checkpointMode, 'turn');
  await server.put(at, '/workspace/a.txt', 'one\ntwo\n');
  assert.deepEqual(await server.befores(at), ['write']);
  await server.exec(at, 'echo three >> a.txt; echo new > b.txt');
  assert.deepEqual(await server.befores(at), ['write', 'exec']);
  // What changes nothing leads to no checkpoint; reading asks for none.
  await server.exec(at, 'true');
  assert.deepEqual(await server.befores(at), ['write', 'exec', 'exec']);
  await server.exec(at, 'cat a.txt');
  await server.read(at, '/workspace/a.txt');
  await server.ask('GET', `${at}/files?path=/workspace&list=true`);
  assert.deepEqual(await server.befores(at), ['write', 'exec', 'exec']);
  // What the last call did, and what the one before did.
  const turns = await server.turns(at);
  const diff = await server.ask('GET', `${at}/diff?from=${turns[1].id}`);
  assert.deepEqual(brief(diff), [['a.txt', 'changed', 8, 14], ['b.txt', 'added', null, 4]], diff.raw);
  assert.equal(diff.files[0].text, '@@ -1,2 +1,3 @@\n one\n two\n+three\n');
  const between = await server.ask('GET', `${at}/diff?from=${turns[0].id}&to=${turns[1].id}`);
  assert.deepEqual(brief(between), [['a.txt', 'added', null, 8]], between.raw);
  assert.deepEqual((await server.ask('GET', `${at}/diff`)).files, []);
  // Undo goes on with the interpreter: variables stay.
  const run = (code) => server.ask('POST', `${at}/run_code`, { code, language: 'python' });
  assert.equal((await run('x = 5; open("a.txt", "w").write("lost")')).success, true);
  const undone = await server.ask('POST', `${at}/undo`, {});
  assert.deepEqual([undone.http, undone.before], [200, 'run_code'], undone.raw);
  assert.equal(await server.read(at, '/workspace/a.txt'), 'one\ntwo\nthree\n');
  const kept = await run('x');
  assert.deepEqual([kept.result, kept.stateLost], [5, false], kept.raw);
  // One more step, and to a given one; what an undo replaced can be had back.
  const second = await server.ask('POST', `${at}/undo`, {});
  assert.equal(second.before, 'exec', second.raw);
  assert.equal(await server.read(at, '/workspace/a.txt'), 'one\ntwo\n');
  assert.equal((await server.get(`${at}/files?path=/workspace/b.txt`)).status, 404);
  const [replaced] = (await server.turns(at)).filter((each) => each.before === 'undo').slice(-1);
  assert.equal((await server.ask('POST', `${at}/undo`, { to: replaced.id })).http, 200);
  assert.equal(await server.read(at, '/workspace/a.txt'), 'one\ntwo\nthree\n');
  // No more than the configuration allows.
  for (let i = 0; i < 8; i++) await server.exec(at, `echo ${i} > n`);
  assert.equal((await server.turns(at)).length, 4);
  const none = await server.ask('POST', `${at}/undo`, { to: turns[0].id });
  assert.deepEqual([none.http, none.error.message], [404, `no automatic checkpoint '${turns[0].id}'`]);
  // Tools and edits are calls as well.
  const edited = await server.ask('POST', `${at}/tools/edit`, { path: 'n', oldString: '7', newString: '8' });
  assert.equal(edited.isError, false, edited.raw);
  assert.equal((await server.befores(at)).at(-1), 'edit');
});

test('a session keeps them while it sleeps and over a kill', T, async (t) => {
  const dir = tempDir(t), config = '[sandbox]\ncheckpoints = "turn"\n';
  let server = await start(t, { dir, config });
  const probe = await box(t, server, {});
  if (probe === null) return;
  await server.ask('DELETE', probe);
  assert.equal((await server.ask('POST', '/v1/sessions', { id: 'turning-1', sandbox: { tier: 'jail' } })).http, 201);
  const at = '/v1/sessions/turning-1';
  await server.exec(at, 'echo 1 > f; ln -s /usr/bin/env link; mkdir -p d && echo x > d/e && chmod 700 d/e');
  await server.exec(at, 'echo 2 > f; rm -r d link');
  assert.equal((await server.ask('POST', `${at}/rest`, {})).state, 'dormant');
  assert.deepEqual(await server.befores(at), ['exec', 'exec']);
  server.child.kill('SIGKILL');
  await server.exit;
  server = await start(t, { dir, config });
  const diff = await server.ask('GET', `${at}/diff`);
  assert.deepEqual(brief(diff).map(([path, change]) => [path, change]),
    [['d/e', 'deleted'], ['f', 'changed'], ['link', 'deleted']], diff.raw);
  assert.equal((await server.ask('POST', `${at}/undo`, {})).before, 'exec');
  const { stdout } = await server.exec(at, 'cat f; readlink link; stat -c %a d/e; cat d/e');
  assert.equal(stdout, '1\n/usr/bin/env\n700\nx\n');
  // A manual session has none, and says how to get them.
  await server.ask('POST', '/v1/sessions', { id: 'by-hand-1', sandbox: { tier: 'jail', checkpoints: 'manual' } });
  await server.exec('/v1/sessions/by-hand-1', 'echo 1 > f');
  const none = await server.ask('POST', '/v1/sessions/by-hand-1/undo', {});
  assert.deepEqual([none.http, /checkpoints "turn"/.test(none.error.message)], [409, true], none.raw);
  const isolate = await server.ask('POST', '/v1/sandboxes', { tier: 'isolate', checkpoints: 'turn' });
  assert.match(isolate.error.message, /the tier 'isolate' has none/);
  assert.equal((await server.ask('POST', '/v1/sandboxes', { tier: 'isolate' })).checkpointMode, 'manual');
});

test('what cannot be kept is said, and stops nobody', T, async (t) => {
  const server = await start(t, { config: '[sandbox]\ncheckpoint_mb = 1\n' });
  const at = await box(t, server, { checkpoints: 'turn' });
  if (at === null) return;
  await server.exec(at, 'head -c 3000000 /dev/urandom > big');
  await server.exec(at, 'echo still works > small');
  const list = await server.ask('GET', `${at}/checkpoints`);
  assert.match(list.note, /^no checkpoint before exec: \/workspace holds more than 1 MiB; \[sandbox\] checkpoint_mb is the limit$/);
  assert.ok(Date.parse(list.noteAt) > 0);
  // Files that nobody may read, FIFOs and sockets are not changed by an undo.
  await server.exec(at, 'rm big; echo secret > closed; chmod 000 closed; mkfifo pipe; echo a > f');
  await server.exec(at, 'echo b > f');
  const undone = await server.ask('POST', `${at}/undo`, {});
  assert.equal(undone.http, 200, undone.raw);
  const { stdout } = await server.exec(at, 'cat f; ls -d closed pipe');
  assert.equal(stdout, 'a\nclosed\npipe\n');
  // Many calls at once share one.
  await server.exec(at, 'echo c > f');
  const before = (await server.turns(at)).length;
  await Promise.all(Array.from({ length: 6 }, (_, i) => server.exec(at, `cat f > copy-${i}`)));
  assert.ok((await server.turns(at)).length - before <= 6);
});

test('on the command line and in the package', T, async (t) => {
  const server = await start(t);
  const at = await box(t, server, { checkpoints: 'turn' });
  if (at === null) return;
  const id = at.split('/').at(-1), env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  await server.put(at, '/workspace/a.txt', 'one\n');
  await server.exec(at, 'echo two >> a.txt');
  const shown = await cli(['sandbox', 'diff', id], { env });
  assert.deepEqual([shown.code, shown.stdout], [0, 'changed  a.txt  4 -> 8 bytes\n--- a.txt\n+++ a.txt\n@@ -1 +1,2 @@\n one\n+two\n'], shown.stderr);
  const listed = await cli(['sandbox', 'checkpoints', id], { env });
  assert.match(listed.stdout, /write/);
  const undone = await cli(['sandbox', 'undo', id], { env });
  assert.deepEqual([undone.code, undone.stderr], [0, '']);
  assert.match(undone.stdout, /^\/workspace was restored to its state before exec at /);
  assert.equal(await server.read(at, '/workspace/a.txt'), 'one\n');
  if (!process.env.SG_SDK) return;
  const { Client, Sandbox } = await import(pathToFileURL(join(process.env.SG_SDK, 'dist/index.js')));
  const sandbox = await Sandbox.get(id, { client: new Client({ url: server.url, token: server.token }) });
  await sandbox.files.write('/workspace/a.txt', 'three\n');
  const [turn] = (await sandbox.checkpoints()).checkpoints.slice(-1);
  assert.deepEqual([turn.automatic, turn.before], [true, 'write']);
  const diff = await sandbox.diff({ from: turn.id });
  assert.deepEqual(brief(diff), [['a.txt', 'changed', 4, 6]]);
  assert.equal((await sandbox.undo()).before, 'write');
  assert.equal(await sandbox.files.read('/workspace/a.txt'), 'one\n');
});

// One MCP client, in the plain form of its messages.
function mcp(server) {
  let session, id = 0;
  const send = async (method, params) => {
    const answer = await server.get('/mcp', { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }),
      headers: { 'content-type': 'application/json', accept: 'application/json', ...(session ? { 'mcp-session-id': session } : {}) } });
    session ??= answer.headers.get('mcp-session-id');
    return answer.json();
  };
  return {
    open: () => send('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } }),
    names: async () => (await send('tools/list', {})).result.tools.map(({ name }) => name),
    call: (name, args) => send('tools/call', { name, arguments: args }),
  };
}

test('models are offered undo where it is configured, and nowhere else', T, async (t) => {
  const names = async (server) => (await server.ask('GET', '/v1/tools')).tools.map(({ name }) => name);
  const plain = await start(t);
  const there = await box(t, plain, { checkpoints: 'turn' });
  if (there === null) return;
  assert.ok(!(await names(plain)).includes('undo'));
  assert.equal((await plain.ask('POST', `${there}/tools/undo`, {})).http, 404);

  const server = await start(t, { config: '[sandbox]\nundo_tool = true\n' });
  assert.ok((await names(server)).includes('undo'));
  const at = await box(t, server, { checkpoints: 'turn' });
  const call = (name, args, where = at) => server.ask('POST', `${where}/tools/${name}`, args);
  const none = await call('undo', {});
  assert.deepEqual([none.isError, none.answer.error.code], [true, 'not_found'], none.raw);
  await call('write', { path: 'a.txt', content: 'one' });
  await call('bash', { command: 'echo two > a.txt' });
  await call('edit', { path: 'a.txt', oldString: 'two', newString: 'three' });
  const back = await call('undo', {});
  assert.deepEqual([back.isError, back.answer.success], [false, true], back.raw);
  assert.equal(await server.read(at, '/workspace/a.txt'), 'two\n');
  await call('undo', {});
  assert.equal(await server.read(at, '/workspace/a.txt'), 'one');
  // To one that an answer has named: what the first undo had replaced.
  const replaced = (await call('undo', {})).answer.checkpoints.find(({ before }) => before === 'undo');
  const again = await call('undo', { to: replaced.checkpoint });
  assert.equal(again.answer.success, true, again.raw);
  assert.equal(again.answer.checkpoint, replaced.checkpoint);
  assert.equal(await server.read(at, '/workspace/a.txt'), 'three\n');
  const wrong = await call('undo', { to: 'nothing-of-that-name' });
  assert.match(wrong.answer.error.hint, /omit 'to'/, wrong.raw);
  // Where no automatic checkpoints are made it says so, and a client of a session is not shown it.
  const manual = await call('undo', {}, await box(t, server, {}));
  assert.equal(manual.answer.error.code, 'conflict', manual.raw);
  const without = mcp(server);
  await without.open();
  assert.ok(!(await without.names()).includes('undo'));

  const turns = await start(t, { config: '[sandbox]\nundo_tool = true\nprovider = "jail"\ncheckpoints = "turn"\n' });
  const client = mcp(turns);
  await client.open();
  assert.ok((await client.names()).includes('undo'));
  await client.call('write', { path: 'a.txt', content: 'one' });
  await client.call('bash', { command: 'rm a.txt' });
  const undone = (await client.call('undo', {})).result;
  assert.equal(undone.structuredContent?.before, 'exec', JSON.stringify(undone));
  assert.equal((await client.call('read', { path: 'a.txt' })).result.structuredContent.content, 'one');
});
