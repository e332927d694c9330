// What ends things by time: limits of commands, cells and sandboxes, who set them, and what is said.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, run, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };

// A server with this configuration, and one jail in it.
async function setup(t, config = '', box = {}) {
  const file = join(tempDir(t), 'config.toml');
  writeFileSync(file, config);
  const server = await serve(t, { args: ['--config', file] });
  server.ask = async (method, path, body) => {
    const answer = await server.get(path, { method, ...(body === undefined ? {} : { body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' } }) });
    const text = await answer.text();
    return { ...(text.startsWith('{') ? JSON.parse(text) : {}), status: answer.status, text };
  };
  server.post = (path, body = {}) => server.ask('POST', path, body);
  const made = await server.post('/v1/sandboxes', { tier: 'jail', ...box });
  if (made.status !== 201) {
    t.skip(`no jails here: ${made.text}`);
    return null;
  }
  server.id = made.id;
  server.box = `/v1/sandboxes/${made.id}`;
  server.env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  server.cli = (...args) => run(args, { env: server.env });
  // A client that goes on, with all it has said.
  server.client = (args, options = {}) => {
    const child = spawn(BIN, args, { env: server.env, ...options });
    const client = { child, text: '', end: once(child, 'close').then(([code, signal]) => ({ code, signal })) };
    child.stdout?.on('data', (data) => (client.text += data));
    child.stderr?.on('data', (data) => (client.text += data));
    client.sees = (what) => until(() => what.test(client.text)).catch((error) => { throw new Error(`${error.message}: ${client.text}`); });
    t.after(() => child.kill('SIGKILL'));
    return client;
  };
  // Lines of a stream as objects, as they come.
  server.stream = async (path, body) => {
    const abort = new AbortController();
    t.after(() => abort.abort());
    const answer = await server.get(path, { signal: abort.signal, method: body === undefined ? 'GET' : 'POST',
      headers: { accept: 'application/x-ndjson', 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    const stream = { events: [], abort: () => abort.abort(), status: answer.status };
    (async () => {
      let rest = '';
      for await (const bytes of answer.body) {
        const lines = (rest + Buffer.from(bytes).toString()).split('\n');
        rest = lines.pop();
        stream.events.push(...lines.filter((line) => line !== '').map((line) => JSON.parse(line)));
      }
    })().catch(() => {});
    stream.find = (event, test = () => true) => stream.events.find((each) => each.event === event && test(each.data));
    return stream;
  };
  server.look = () => server.ask('GET', server.box);
  return server;
}

test('nothing has a time limit unless one is set', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const box = await server.look();
  assert.deepEqual([box.timeoutMs, box.expiresAt, box.idleMs, box.limits.execMs, box.limits.commandMs], [0, null, 300000, 0, 0]);
  for (const body of [{ argv: ['true'] }, { argv: ['true'], detached: true }, { argv: ['true'], tty: true },
    { argv: ['true'], timeoutMs: 0 }, { argv: ['true'], timeoutMs: 'none' }]) {
    const done = await server.post(`${server.box}/commands`, body);
    assert.deepEqual([done.status, done.timeoutMs, done.timeoutBy], [201, 0, null], JSON.stringify(body));
  }
  for (const [path, body] of [[`${server.box}/commands`, { argv: ['true'], timeoutMs: -1 }], ['/v1/sandboxes', { timeoutMs: -1 }],
    ['/v1/sandboxes', { idleMs: -1 }], ['/v1/sandboxes', { limits: { execMs: -1 } }], ['/v1/volumes', { ttlMs: -1 }],
    ['/v1/sessions', { volumeTtlMs: -1 }]])
    assert.equal((await server.post(path, body)).status, 400, JSON.stringify(body));
  const refused = await server.post(`${server.box}/commands`, { argv: ['true'], timeoutMs: 'soon' });
  assert.match(refused.error.message, /timeoutMs must be an integer from 0 to 31536000000 or "none", got "soon"/);
  for (const [member, spelling] of [['timeoutMs', 'none'], ['timeoutMs', 0], ['idleMs', 'none'], ['idleMs', 0]]) {
    const other = await server.post('/v1/sandboxes', { tier: 'memory', [member]: spelling });
    assert.equal(other[member], 0, `${member} ${spelling}`);
  }
  const session = await server.post('/v1/sessions', { idleMs: 'none' });
  assert.equal(session.idleMs, 0);
  // Of isolates the configuration's, which a call raises or takes away.
  const isolate = await server.post('/v1/sandboxes', { tier: 'isolate' });
  assert.equal(isolate.limits.execMs, 3000);
  for (const [asked, effective] of [[60000, 60000], [0, 0], ['none', 0]]) {
    const ran = await server.post(`/v1/sandboxes/${isolate.id}/run_code`, { code: '1', timeoutMs: asked });
    assert.equal(ran.environment.timeoutMs, effective);
  }
  // Without a server.
  assert.equal((await server.cli('exec', '--timeout', 'none', '--', 'true')).code, 0);
  assert.equal((await server.cli('exec', '--timeout', '0', '--', 'true')).code, 0);
  assert.equal((await server.cli('sandbox', 'exec', server.id, '--timeout', 'none', '--', 'true')).code, 0);
});

test('a command that a limit ended says after how long, by which limit and how to change it', T, async (t) => {
  const server = await setup(t, '[jail]\ncommand_seconds = 1\n');
  if (!server) return;
  assert.equal((await server.look()).limits.commandMs, 1000);
  const sleep = { argv: ['sleep', '60'] };
  const called = await server.post(`${server.box}/commands`, { ...sleep, timeoutMs: 300 });
  assert.deepEqual([called.end, called.timeoutMs, called.timeoutBy], ['timeout', 300, 'timeoutMs']);
  assert.match(called.reason, /^ended after 300 ms, the limit of the call \(timeoutMs, --timeout\); give a larger one, or 0 for none$/);
  const configured = await server.post(`${server.box}/commands`, sleep);
  assert.match(configured.reason, /^ended after 1 s, jail.command_seconds of the server's configuration; give the call a timeoutMs/);
  // The store says the same, later.
  assert.equal((await server.ask('GET', `/v1/commands/${configured.id}`)).reason, configured.reason);
  const detached = await server.post(`${server.box}/commands`, { ...sleep, detached: true });
  assert.deepEqual([detached.state, detached.timeoutMs], ['running', 0]);
  const kept = await server.post(`${server.box}/commands`, { argv: ['sleep', '1.5'], timeoutMs: 'none' });
  assert.equal(kept.exitCode, 0);
  const own = await server.post('/v1/sandboxes', { tier: 'jail', limits: { execMs: 400 } });
  const sandbox = await server.post(`/v1/sandboxes/${own.id}/commands`, sleep);
  assert.match(sandbox.reason, /^ended after 400 ms, limits.execMs of the sandbox/);
  const cell = await server.post(`/v1/sandboxes/${own.id}/run_code`, { code: 'sleep 60', language: 'bash' });
  assert.match(cell.error.message ?? JSON.stringify(cell.error), /after 400 ms, limits.execMs of the sandbox; give the call a timeoutMs/);
  const line = await server.cli('sandbox', 'exec', server.id, '--timeout', '300ms', '--', 'sleep', '60');
  assert.equal(line.code, 124);
  assert.match(line.stderr, /ended after 300 ms, the limit of the call/);
  const jail = await server.cli('exec', '--timeout', '300ms', '--', 'sleep', '60');
  assert.equal(jail.code, 124);
  assert.match(jail.stderr, /ended after 300 ms, the limit of --timeout/);
  const tool = await server.post(`${server.box}/tools/bash`, { command: 'sleep 60', timeoutMs: 300 });
  assert.match(tool.text, /"reason":"ended after 300 ms, the limit of the call/);
});

test('the tool bash has 120 s unless it is asked for more; 0 and none are no limit, on every surface', T, async (t) => {
  const server = await setup(t, '[isolate]\ntimeout_ms = 300\n');
  if (!server) return;
  const limits = async (args) => {
    const ran = await server.post(`${server.box}/tools/bash`, { command: 'true', ...args });
    assert.equal(ran.isError, false, ran.text);
    const { commands } = await server.ask('GET', `${server.box}/commands`);
    return [commands.at(-1).timeoutMs, commands.at(-1).timeoutBy];
  };
  assert.deepEqual(await limits({}), [120000, 'tool']);
  assert.deepEqual(await limits({ timeoutMs: 5000 }), [5000, 'timeoutMs']);
  for (const args of [{ timeoutMs: 0 }, { timeoutMs: 'none' }, { background: true }]) assert.deepEqual(await limits(args), [0, null]);
  const { tools } = await server.ask('GET', '/v1/tools?format=mcp');
  const bash = tools.find(({ name }) => name === 'bash').inputSchema.properties.timeoutMs;
  assert.match(bash.description, /^Default 120000; 0 or none for no limit/);
  const refused = await server.post(`${server.box}/tools/bash`, { command: 'true', timeoutMs: 'soon' });
  assert.match(refused.text, /timeoutMs must be an integer from 0 to 31536000000 or \\"none\\"/);
  // Code in an isolate, which has a limit by default.
  const { id } = await server.post('/v1/sandboxes', { tier: 'isolate' });
  const code = 'const end = Date.now() + 600; while (Date.now() < end); "over"';
  const say = async (args) => (await server.post(`/v1/sandboxes/${id}/tools/run_code`, { code, description: 'test', ...args })).answer;
  assert.equal((await say({})).error.code, 'timeout');
  for (const timeoutMs of [0, 'none']) assert.equal((await say({ timeoutMs })).result, 'over');
  // Options of the command line.
  for (const none of ['0', '0s', '0ms', 'none']) {
    const ran = await server.cli('run', '--sandbox', id, '--timeout', none, '-e', code);
    assert.deepEqual([ran.code, ran.stdout], [0, '"over"\n'], `${none}: ${ran.stderr}`);
    const started = await server.cli('sandbox', 'exec', server.id, '--timeout', none, '--', 'true');
    assert.equal(started.code, 0, `${none}: ${started.stderr}`);
    const { commands } = await server.ask('GET', `${server.box}/commands`);
    assert.equal(commands.at(-1).timeoutMs, 0);
  }
});

test('sandbox.timeout_seconds limits one code execution in a session and pauses nothing', T, async (t) => {
  const server = await setup(t, '[sandbox]\ntimeout_seconds = 1\n');
  if (!server) return;
  const session = await server.post('/v1/sessions', {});
  const run = (code, more = {}) => server.post(`/v1/sessions/${session.id}/run_code`, { code, language: 'bash', ...more });
  const late = await run('x=5; sleep 60');
  assert.equal(JSON.parse(late.text).status, 'timeout', late.text);
  assert.match(late.text, /after 1 s, sandbox.timeout_seconds of the server's configuration; give the call a timeoutMs/);
  const box = await server.ask('GET', `/v1/sandboxes/${late.sandbox}`);
  assert.deepEqual([box.state, box.timeoutMs, box.limits.execMs, box.limits.commandMs], ['running', 0, 1000, 0]);
  const kept = await run('echo $x; sleep 1.5; echo over', { timeoutMs: 0 });
  assert.match(kept.text, /5\\nover/);
  // A sandbox that belongs to no session has no such limit.
  assert.equal((await server.look()).limits.execMs, 0);
});

test('an absolute limit is shown, warned of, and told to who is attached when it comes', T, async (t) => {
  const server = await setup(t, '', { timeoutMs: 600000 });
  if (!server) return;
  const events = await server.stream(`/v1/events?sandbox=${server.id}`);
  const box = await server.look();
  const left = Date.parse(box.expiresAt) - Date.now();
  assert.ok(left > 300000 && left <= 600000, box.expiresAt);
  assert.equal(events.find('sandbox.expiring'), undefined);
  await server.post(`${server.box}/timeout`, { timeoutMs: 63000 });
  await until(() => events.find('sandbox.expiring')); // a minute before its end
  assert.match(events.find('sandbox.expiring').data.detail, /the sandbox will be paused at 20\S* by its time limit \(timeoutMs\).*timeoutMs 0 removes it/);
  await server.post(`${server.box}/timeout`, { timeoutMs: 600000 });
  // A shorter one, set again, is warned of at once and comes soon.
  const started = await server.post(`${server.box}/commands`, { argv: ['sleep', '600'], detached: true });
  const follower = await server.stream(`/v1/commands/${started.id}/logs?follow=true`);
  const cell = await server.stream(`${server.box}/run_code`, { code: 'sleep 600', language: 'bash' });
  const client = server.client(['sandbox', 'exec', server.id, '--', 'sleep', '600']);
  const waiting = server.post(`/v1/commands/${started.id}/wait`);
  const collected = server.post(`${server.box}/commands`, { argv: ['sleep', '600'] });
  const single = server.post(`${server.box}/run_code`, { code: 'sleep 600', language: 'bash', context: undefined });
  await until(async () => (await server.ask('GET', `${server.box}/commands?running=true`)).commands.length === 3);
  await until(async () => (await server.ask('GET', `${server.box}/contexts`)).contexts.some(({ state }) => state === 'busy'));
  await server.post(`${server.box}/timeout`, { timeoutMs: 2000 });
  await until(async () => (await server.look()).state === 'paused');
  const said = /its time limit of 2 s \(timeoutMs\) has passed/;
  assert.match((await server.look()).reason, said);
  await until(() => follower.find('state') && cell.find('state'));
  assert.deepEqual([follower.find('state').data.state, cell.find('state').data.state], ['paused', 'paused']);
  assert.match(follower.find('state').data.reason, said);
  await client.sees(/was paused: its time limit of 2 s \(timeoutMs\) has passed\. The command waits/);
  for (const answer of [await waiting, await collected, await single])
    assert.deepEqual([answer.status, /was paused: its time limit of 2 s.*continue when it is resumed/.test(answer.error.message)], [409, true], answer.text);
  // A client that connects now gets it at once.
  const late = await server.stream(`/v1/commands/${started.id}/logs?follow=true`);
  await until(() => late.find('state'));
  assert.equal((await server.post(`/v1/commands/${started.id}/wait`)).status, 409);
  // The client waits until it is resumed, or until it is interrupted.
  await server.post(`${server.box}/timeout`, { timeoutMs: 'none' });
  await server.post(`${server.box}/resume`);
  await client.sees(/was resumed/);
  await until(() => follower.find('state', (data) => data.state === 'running') && late.find('state', (data) => data.state === 'running'));
  await server.post(`${server.box}/pause`);
  await until(() => /was paused\. The command waits/.test(client.text));
  client.child.kill('SIGINT');
  assert.deepEqual(await client.end, { code: 130, signal: null });
  assert.match(client.text, /detached; the command continues when the sandbox is resumed/);
  // With onTimeout kill its commands say why they ended.
  const other = await server.post('/v1/sandboxes', { tier: 'jail', timeoutMs: 600000, onTimeout: 'kill' });
  const asked = server.post(`/v1/sandboxes/${other.id}/commands`, { argv: ['sleep', '600'] });
  await until(async () => (await server.ask('GET', `/v1/sandboxes/${other.id}/commands?running=true`)).commands.length === 1);
  await server.post(`/v1/sandboxes/${other.id}/timeout`, { timeoutMs: 1000 });
  const killed = await asked;
  assert.deepEqual([killed.end, killed.reason], ['stopped', 'the sandbox was stopped: its time limit of 1 s (timeoutMs) has passed']);
});

test('what works is not idle, and what does nothing is paused', T, async (t) => {
  const server = await setup(t, '[sandbox]\nidle_seconds = 1\n');
  if (!server) return;
  const make = async () => (await server.post('/v1/sandboxes', { tier: 'jail' })).id;
  const [command, cell, events, port, watched, idle] = await Promise.all([...Array(6)].map(make));
  await server.post(`/v1/sandboxes/${command}/commands`, { argv: ['sleep', '600'], detached: true });
  await server.stream(`/v1/sandboxes/${cell}/run_code`, { code: 'sleep 600', language: 'bash' });
  const feed = await server.stream(`/v1/events?sandbox=${events}`);
  await server.post(`/v1/sandboxes/${events}/resume`); // it may have been paused before
  const watch = await server.stream(`/v1/sandboxes/${watched}/watch?path=/workspace`);
  assert.equal(watch.status, 200);
  // It ends with its connection.
  await server.post(`/v1/sandboxes/${port}/commands`, { command: '/usr/bin/python3 -c "' + "import socket\ns=socket.create_server(('127.0.0.1',8000))\nc=s.accept()[0]\nc.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n1')\nwhile c.recv(4096): pass" + '" & echo', detached: true });
  const open = new AbortController();
  t.after(() => open.abort());
  let answer;
  await until(async () => (answer = await server.get(`/v1/sandboxes/${port}/ports/8000/`, { signal: open.signal }).catch(() => undefined))?.status === 200);
  const state = async (id) => (await server.ask('GET', `/v1/sandboxes/${id}`)).state;
  await until(async () => await state(idle) === 'paused');
  assert.match((await server.ask('GET', `/v1/sandboxes/${idle}`)).reason, /it was idle for its idle limit of 1 s \(idleMs\)/);
  // Three more limits end: those of sandboxes that were made one after the other.
  for (let n = 0; n < 3; n++) {
    const next = await make();
    await until(async () => await state(next) === 'paused');
  }
  assert.deepEqual(await Promise.all([command, cell, events, port, watched].map(state)), Array(5).fill('running'));
  feed.abort();
  watch.abort();
  open.abort();
  await until(async () => await state(events) === 'paused' && await state(watched) === 'paused' && await state(port) === 'paused');
  assert.deepEqual(await Promise.all([command, cell].map(state)), ['running', 'running']);
});

test('SIGINT and SIGTERM end a client whose server hangs', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const clients = [
    server.client(['sandbox', 'exec', server.id, '--', 'sleep', '600']),
    server.client(['sandbox', 'exec', server.id, '--', 'sh', '-c', 'echo up; trap "" INT TERM; sleep 600']),
    server.client(['sandbox', 'exec', server.id, '--', 'yes'], { stdio: ['ignore', 'pipe', 'pipe'] }), // its output is not read
    server.client(['shell', server.id], { stdio: ['pipe', 'pipe', 'pipe'] }),
    server.client(['logs', '-f', (await server.post(`${server.box}/commands`, { argv: ['sleep', '600'], detached: true })).id]),
  ];
  clients[2].child.stdout.pause();
  await clients[1].sees(/up/);
  await clients[3].sees(/\$ /);
  await until(async () => (await server.ask('GET', `${server.box}/commands?running=true`)).commands.length === 5);
  // Each has come to where it takes signals; logs takes none.
  const takes = ({ child }) => BigInt(`0x${/SigCgt:\s*(\w+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1]}`) & (1n << 14n);
  await until(() => clients.slice(0, 4).every(takes));
  server.child.kill('SIGSTOP');
  try {
    const late = server.client(['sandbox', 'exec', server.id, '--', 'true']);
    await until(() => takes(late));
    clients.forEach((client, i) => client.child.kill(i % 2 ? 'SIGTERM' : 'SIGINT'));
    late.child.kill('SIGTERM');
    const ends = await Promise.all([...clients, late].map((client) => client.end));
    assert.deepEqual(ends.map(({ code, signal }) => code ?? signal), [130, 143, 130, 143, 'SIGINT', 143], clients.map((client) => client.text.slice(-200)).join('\n'));
  } finally {
    server.child.kill('SIGCONT');
  }
});

test('a client that reads nothing of a stream is cut after server.reader_idle_seconds', T, async (t) => {
  const server = await setup(t, '[server]\nreader_idle_seconds = 5\n');
  if (!server) return;
  // More than sockets and pipes hold.
  const flood = () => server.client(['sandbox', 'exec', server.id, '--', 'sh', '-c', 'head -c 30000000 /dev/zero; echo'],
    { stdio: ['ignore', 'pipe', 'pipe'] });
  // Does the server have a connection on which bytes wait for their reader?
  const local = `:${server.port.toString(16).toUpperCase().padStart(4, '0')}`;
  const isStuck = () => readFileSync('/proc/net/tcp', 'utf8').split('\n').map((line) => line.trim().split(/\s+/))
    .some(([, from, , state, queues]) => from?.endsWith(local) && state === '01' && parseInt(queues, 16) > 0);
  const gone = flood();
  gone.child.stdout.pause();
  await until(isStuck);
  const patient = flood();
  assert.equal((await patient.end).code, 0, patient.text.slice(-300));
  assert.equal(patient.text.length, 30000001);
  await until(() => !isStuck());
  gone.child.stdout.resume();
  assert.notEqual((await gone.end).code, 0);
  assert.match(gone.text.slice(-300), /lost the connection to the server/);
});

test('what a command or a cell has left running is work: neither a sandbox nor a session sleeps on it', T, async (t) => {
  const server = await setup(t, '[sandbox]\nidle_seconds = 1\n', { idleMs: 1000 });
  if (!server) return;
  const session = await server.post('/v1/sessions', { idleMs: 1000, sandbox: { tier: 'jail' } });
  const leave = 'nohup sleep 600 >/dev/null 2>&1 & echo $!';
  const left = await server.post(`${server.box}/commands`, { command: leave });
  const cell = await server.post(`/v1/sessions/${session.id}/run_code`,
    { language: 'python', code: 'import subprocess\nsubprocess.Popen(["sleep", "600"]).pid' });
  // Interpreters that wait are no work.
  const third = await server.post('/v1/sandboxes', { tier: 'jail', idleMs: 1000 });
  for (const language of ['python', 'bash']) await server.post(`/v1/sandboxes/${third.id}/run_code`, { language, code: 'true' });
  const stateOf = async (path) => (await server.ask('GET', path)).state;
  await until(async () => await stateOf(`/v1/sandboxes/${third.id}`) === 'paused');
  // More limits end: those of sandboxes that were made one after the other.
  for (let n = 0; n < 2; n++) {
    const next = await server.post('/v1/sandboxes', { tier: 'jail', idleMs: 1000 });
    await until(async () => await stateOf(`/v1/sandboxes/${next.id}`) === 'paused');
  }
  const group = await server.figure('sandglass_sandboxes{tier="jail",state="running"}');
  if (group === 0) return t.skip('this host does not count the processes of a jail');
  assert.deepEqual([await stateOf(server.box), await stateOf(`/v1/sessions/${session.id}`)], ['running', 'active']);
  // When it has ended they are idle.
  await server.post(`${server.box}/commands`, { command: `kill ${left.stdout.trim()}` });
  await server.post(`/v1/sessions/${session.id}/commands`, { command: `kill ${cell.result}` });
  await until(async () => await stateOf(server.box) === 'paused');
  await until(async () => await stateOf(`/v1/sessions/${session.id}`) === 'dormant');
});

test('an isolate that stays has the limit of each call, not that of its first', T, async (t) => {
  const server = await setup(t, '[isolate]\ntimeout_ms = 1000\n', { tier: 'isolate' });
  if (!server) return;
  const go = (timeoutMs) => server.post(`${server.box}/run_code`, { code: 'await new Promise((done) => setTimeout(done, 2000)); 1', timeoutMs });
  for (const timeoutMs of [0, 600000]) {
    const ran = await go(timeoutMs);
    assert.equal(ran.result, 1, ran.text);
  }
  const late = await go();
  assert.match(late.error.message, /ended after 1 s, isolate\.timeout_ms/, late.text);
});
