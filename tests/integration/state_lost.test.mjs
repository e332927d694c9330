// Variables of earlier runs: each loss is said by the first run after it, once, with its reason, on every surface.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { run as cli, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };

// Nothing is kept, so that each loss happens; what is kept is for variables.test.mjs.
async function start(t, dir, more = '') {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, `[sandbox]\nkeep_variables_mb = 0\n${more}`);
  const server = await serve(t, { dir, args: ['--config', config] });
  server.ask = async (method, path, body) => {
    const answer = await server.get(path, { method, body: body && JSON.stringify(body),
      headers: { 'content-type': 'application/json' } });
    const text = await answer.text();
    return { ...(text.startsWith('{') ? JSON.parse(text) : {}), http: answer.status, raw: text };
  };
  server.box = async (spec) => {
    const made = await server.ask('POST', '/v1/sandboxes', spec);
    assert.equal(made.http, 201, made.raw);
    return `/v1/sandboxes/${made.id}`;
  };
  server.session = async (spec) => {
    const made = await server.ask('POST', '/v1/sessions', spec);
    assert.equal(made.http, 201, made.raw);
    return `/v1/sessions/${made.id}`;
  };
  server.run = (at, code, rest) => server.ask('POST', `${at}/run_code`, { code, ...rest });
  server.env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  return server;
}

async function jailed(t, dir, more) {
  const server = await start(t, dir, more);
  const probe = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', runtime: 'python3' });
  if (probe.http === 201) {
    await server.ask('DELETE', `/v1/sandboxes/${probe.id}`);
    return server;
  }
  t.skip(`no jails with python3 here: ${probe.raw}`);
  return null;
}

const told = ({ stateLost, stateLostReason }) => [stateLost, stateLostReason];
const kept = (answer) => assert.deepEqual(told(answer), [false, null], answer.raw);
function lost(answer, reason) {
  assert.deepEqual(told(answer), [true, reason], answer.raw);
  assert.ok(Math.abs(Date.now() - Date.parse(answer.stateLostAt)) < 3600000, answer.raw);
  assert.match(answer.stateLostMessage, answer.stateLostReason.startsWith('volume_')
    ? /^The session's files in \/workspace were deleted at \d{4}-.*Z: (?:its volume was deleted|.*volume_ttl_minutes.*)\. Variables of earlier runs were lost, too; define them again\.$/
    : /^Variables of earlier runs were lost: .*, at \d{4}-.*Z; define them again\.$/);
}

// The loss is said by the next run and by no other.
async function once(server, at, reason, rest) {
  lost(await server.run(at, '1', rest), reason);
  kept(await server.run(at, '2', rest));
}

test('an interpreter that ends, in a cell and between two', T, async (t) => {
  const server = await jailed(t);
  if (server === null) return;
  const at = await server.box({ tier: 'jail', runtime: 'python3', limits: { memoryMb: 256 } });
  kept(await server.run(at, 'x = 1'));
  kept(await server.run(at, 'x'));
  kept(await server.run(at, '1 / 0')); // an error is no loss
  // By itself. The run says so, and the first one after it, whichever the client saw.
  lost(await server.run(at, 'import os; os._exit(3)'), 'exited');
  await once(server, at, 'exited');
  // By its time: deaf to the interrupt.
  kept(await server.run(at, 'import signal, time'));
  lost(await server.run(at, 'signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)', { timeoutMs: 3000 }), 'timeout');
  await once(server, at, 'timeout');
  // One that heeds the interrupt keeps its variables.
  kept(await server.run(at, 'x = 5'));
  const interrupted = await server.run(at, 'import time; time.sleep(60)', { timeoutMs: 300 });
  assert.equal(interrupted.status, 'timeout', interrupted.raw);
  kept(interrupted);
  assert.equal((await server.run(at, 'x')).result, 5);
  // By its memory.
  const full = await server.run(at, 'b = []\nwhile True: b.append(bytearray(1 << 20))');
  if (full.status === 'out_of_memory') {
    lost(full, 'out_of_memory');
    await once(server, at, 'out_of_memory');
  }
  // Between two runs.
  kept(await server.run(at, 'import os, threading, time\ndef leave():\n    while not os.path.exists("/tmp/leave"): time.sleep(0.01)\n'
    + '    os._exit(3)\nthreading.Thread(target=leave).start()'));
  assert.equal((await server.ask('POST', `${at}/commands`, { command: 'touch /tmp/leave' })).exitCode, 0);
  await until(async () => (await server.ask('GET', `${at}/contexts/python3`)).state === 'cold');
  await once(server, at, 'exited');
  // Each context for itself.
  kept(await server.run(at, 'y=1', { language: 'bash' }));
  lost(await server.run(at, 'exit 3', { language: 'bash' }), 'exited');
  kept(await server.run(at, '1'));
  await once(server, at, 'exited', { language: 'bash' });
  // A restart is said, a context that its caller deleted is not missed.
  await server.ask('POST', `${at}/contexts/python3/restart`, {});
  await once(server, at, 'context_restart');
  await server.ask('DELETE', `${at}/contexts/python3`);
  kept(await server.run(at, '1'));
});

test('pause, rollback and fork', T, async (t) => {
  const server = await jailed(t);
  if (server === null) return;
  const at = await server.box({ tier: 'jail', runtime: 'python3' });
  kept(await server.run(at, 'x = 1'));
  assert.equal((await server.ask('POST', `${at}/pause`, {})).state, 'paused');
  const back = await server.run(at, 'x');
  kept(back);
  assert.equal(back.result, 1);
  const { id: first } = await server.ask('POST', `${at}/checkpoints`, {});
  assert.equal((await server.ask('POST', `${at}/rollback`, { checkpoint: first })).http, 200);
  await once(server, at, 'rollback');
  // A context of its own went with it: the refusal says so.
  const { id: own } = await server.ask('POST', `${at}/contexts`, { runtime: 'python3' });
  kept(await server.run(at, 'x = 3', { context: own }));
  assert.equal((await server.ask('POST', `${at}/rollback`, { checkpoint: first })).http, 200);
  const gone = await server.run(at, 'x', { context: own });
  assert.deepEqual([gone.http, /rolled back.*; create another/.test(gone.error.message)], [404, true], gone.raw);
  lost(await server.run(at, '1'), 'rollback');
  // A fork that could not take the interpreter along says so.
  kept(await server.run(at, 'x = 2'));
  const { sandboxes: [fork] } = await server.ask('POST', `${at}/fork`, { count: 1 });
  const copy = `/v1/sandboxes/${fork.id}`;
  if (fork.contexts[0].live) kept(await server.run(copy, 'x'));
  else await once(server, copy, 'fork');
  kept(await server.run(at, 'x'));
  const { sandboxes: [old] } = await server.ask('POST', `${at}/fork`, { count: 1, checkpoint: first });
  await once(server, `/v1/sandboxes/${old.id}`, 'fork');
});

test('isolates bring their variables back', T, async (t) => {
  const dir = tempDir(t);
  let server = await start(t, dir);
  const at = await server.box({ tier: 'isolate' }), two = await server.box({ tier: 'isolate' });
  const { id: empty } = await server.ask('POST', `${at}/checkpoints`, {});
  kept(await server.run(at, 'globalThis.x = 1'));
  const { id: first } = await server.ask('POST', `${at}/checkpoints`, {});
  kept(await server.run(at, 'globalThis.x = 2'));
  assert.equal((await server.ask('POST', `${at}/rollback`, { checkpoint: first })).http, 200);
  const rolled = await server.run(at, 'x');
  kept(rolled);
  assert.equal(rolled.result, 1);
  const { sandboxes: [fork] } = await server.ask('POST', `${at}/fork`, { count: 1 });
  kept(await server.run(`/v1/sandboxes/${fork.id}`, 'x'));
  assert.equal((await server.ask('POST', `${at}/rollback`, { checkpoint: empty })).http, 200);
  await once(server, at, 'rollback');
  // The limit of a call ends the code, not the isolate.
  kept(await server.run(at, 'globalThis.z = 5'));
  const late = await server.run(at, 'for (;;);', { timeoutMs: 200 });
  kept(late);
  assert.equal(late.status, 'timeout', late.raw);
  assert.equal((await server.run(at, 'z')).result, 5);
  // Code that ends its isolate: the sandbox goes on with a new one.
  const full = await server.run(at, 'const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1));');
  if (full.stateLost) await once(server, at, full.stateLostReason);
  // A session sleeps and wakes with its variables; so does a paused one over a restart.
  const session = await server.session({ sandbox: { tier: 'isolate' }, id: 'awake-again' });
  kept(await server.run(session, 'globalThis.x = 7'));
  assert.equal((await server.ask('POST', `${session}/rest`, {})).state, 'dormant');
  const woken = await server.run(session, 'x');
  kept(woken);
  assert.equal(woken.result, 7);
  kept(await server.run(two, 'globalThis.y = 1'));
  await server.ask('POST', `${two}/pause`, {});
  server.child.kill('SIGKILL');
  await server.exit;
  server = await start(t, dir);
  const resumed = await server.run(two, 'y');
  kept(resumed);
  assert.equal(resumed.result, 1);
  await once(server, at, 'restart');
  await once(server, session, 'restart');
});

test('a session that slept, and a server that was killed', T, async (t) => {
  const dir = tempDir(t);
  let server = await jailed(t, dir);
  if (server === null) return;
  const session = await server.session({ sandbox: { tier: 'jail' }, id: 'sleeper-1' });
  const silent = await server.session({ sandbox: { tier: 'jail' }, id: 'silent-one', warm: true });
  const box = await server.box({ tier: 'jail', runtime: 'python3' });
  kept(await server.run(session, 'x = 1', { language: 'python' }));
  const slept = await server.ask('POST', `${session}/rest`, {});
  assert.equal(slept.state, 'dormant', slept.raw);
  await once(server, session, 'dormant', { language: 'python' });
  kept(await server.run(box, 'x = 1'));
  server.child.kill('SIGKILL');
  await server.exit;
  server = await start(t, dir);
  await once(server, box, 'restart');
  await once(server, session, 'restart', { language: 'python' });
  kept(await server.run(silent, '1', { language: 'python' })); // it never ran code
  // A loss that nobody was told of yet survives the next one, and a stop in good order.
  await server.ask('POST', `${session}/rest`, {});
  server.child.kill('SIGTERM');
  await server.exit;
  server = await start(t, dir);
  await once(server, session, 'dormant', { language: 'python' });
  await once(server, box, 'restart');
});

test('a volume that expired or was deleted', T, async (t) => {
  const dir = tempDir(t), config = 'volume_ttl_minutes = 1\n';
  let server = await jailed(t, dir, config);
  if (server === null) return;
  const ran = await server.session({ sandbox: { tier: 'jail' }, id: 'ran-before' });
  const wrote = await server.session({ sandbox: { tier: 'jail' }, id: 'wrote-before' });
  kept(await server.run(ran, 'x = 1', { language: 'python' }));
  await server.get(`${wrote}/files?path=/workspace/a`, { method: 'PUT', body: 'mine' });
  for (const each of [ran, wrote]) await server.ask('POST', `${each}/rest`, {});
  await server.ask('DELETE', `/v1/volumes/${(await server.ask('GET', wrote)).volume}`);
  server.child.kill('SIGTERM');
  await server.exit;
  // As if an hour had gone by.
  const aged = spawnSync('/usr/bin/python3', ['-c', 'import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n'
    + 'db.execute("UPDATE session_volumes SET used_ms = used_ms - 3600000")\ndb.commit()', join(dir, 'sandglass.db')]);
  if (aged.status !== 0) return t.skip(`no sqlite3 module: ${aged.stderr}`);
  server = await start(t, dir, config);
  await until(async () => (await server.ask('GET', ran)).volumeExpiredAt !== null);
  await once(server, ran, 'volume_expired', { language: 'python' });
  assert.equal((await server.ask('GET', ran)).volumeExpiredAt, null);
  await once(server, wrote, 'volume_deleted', { language: 'python' });
});

test('the same on every surface', T, async (t) => {
  const server = await jailed(t);
  if (server === null) return;
  const session = await server.session({ sandbox: { tier: 'jail' }, id: 'surfaces' }), python = { language: 'python' };
  const lose = async () => {
    await server.run(session, 'x = 1', python);
    assert.equal((await server.ask('POST', `${session}/rest`, {})).state, 'dormant');
  };
  // The command line: a line on stderr, once.
  await lose();
  for (const format of [[], ['--json']]) {
    const first = await cli(['run', '--session', 'surfaces', '--lang', 'python', '-e', 'print(1)', ...format], { env: server.env });
    assert.equal(first.code, 0, first.stderr);
    assert.match(first.stderr, /^sandglass: Variables of earlier runs were lost: .*dormant.*define them again\.\n$/);
    const next = await cli(['run', '--session', 'surfaces', '--lang', 'python', '-e', 'print(1)', ...format], { env: server.env });
    assert.deepEqual([next.code, next.stderr], [0, '']);
    await lose();
  }
  // A stream's last event.
  const events = await (await server.get(`${session}/run_code`, { method: 'POST', body: JSON.stringify({ code: '1', ...python }),
    headers: { 'content-type': 'application/json', accept: 'application/x-ndjson' } })).text();
  const end = events.trim().split('\n').map(JSON.parse).find((each) => each.event === 'end').data;
  assert.deepEqual(told(end), [true, 'dormant'], events);
  // Tools: the model reads it.
  await lose();
  const tool = await server.ask('POST', `${session}/tools/run_code`, { code: '1', description: 'look' });
  assert.deepEqual(told(tool.answer), [true, 'dormant'], tool.raw);
  assert.match(tool.raw, /Variables of earlier runs were lost: the session was dormant/);
  const again = await server.ask('POST', `${session}/tools/run_code`, { code: '1', description: 'look' });
  assert.equal(again.answer.stateLost, undefined, again.raw);
  // The short form for models.
  await lose();
  const short = await server.run(session, 'print(1)', { ...python, short: true });
  assert.match(short.content, /^Variables of earlier runs were lost: .*\n1\n$/);
  // The TypeScript package.
  if (process.env.SG_SDK) {
    const { Client, Session } = await import(pathToFileURL(join(process.env.SG_SDK, 'dist/index.js')));
    await lose();
    const it = await Session.get('surfaces', { client: new Client({ url: server.url, token: server.token }) });
    const result = await it.runCode('1', python);
    assert.deepEqual(told(result), [true, 'dormant']);
    assert.match(result.stateLostMessage, /dormant/);
    kept(await it.runCode('1', python));
  }
  // MCP: in the text and in the structured answer.
  let head = {};
  const call = async (method, params, id) => {
    const answer = await server.get('/mcp', { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...head } });
    const text = await answer.text();
    if (answer.headers.get('mcp-session-id')) head = { 'mcp-session-id': answer.headers.get('mcp-session-id') };
    const line = text.split('\n').findLast((each) => /^(data: )?\{/.test(each));
    return line === undefined ? {} : JSON.parse(line.replace(/^data: /, '')).result;
  };
  await call('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } }, 1);
  await call('notifications/initialized', {});
  const code = (text) => call('tools/call', { name: 'run_code', arguments: { code: text, description: 'look', language: 'python' } }, 2);
  await code('x = 1');
  const { sessions } = await server.ask('GET', '/v1/sessions');
  for (const { id } of sessions) await server.ask('POST', `/v1/sessions/${id}/rest`, {});
  const seen = await code('1');
  assert.equal(seen.structuredContent.stateLostReason, 'dormant', JSON.stringify(seen));
  assert.match(seen.content[0].text, /Variables of earlier runs were lost/);
  assert.equal((await code('1')).structuredContent.stateLost, undefined);
});
