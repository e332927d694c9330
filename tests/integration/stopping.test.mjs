// An orderly stop of the server (SIGTERM): what runs has the time of server.drain_seconds, and callers of what did not end get an error.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, serve, sleep, tempDir, until } from './lib.mjs';

const T = { timeout: 280000 };
const ndjson = { 'content-type': 'application/json', accept: 'application/x-ndjson' };
const lines = (text) => text.split('\n').filter(Boolean).map((line) => JSON.parse(line));

/** null, and the test skipped, where there are no jails. */
async function start(t, { drain, dir } = {}) {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, `[server]\ndrain_seconds = ${drain}\n`);
  const server = await serve(t, { dir, args: ['--config', config] });
  server.ask = async (method, path, body, headers = { 'content-type': 'application/json' }) => {
    const answer = await server.get(path, { method, body: body && JSON.stringify(body), headers });
    const text = await answer.text();
    return { ...(headers === ndjson || !text.startsWith('{') ? {} : JSON.parse(text)), status: answer.status, text };
  };
  await until(async () => (await server.get('/readyz')).status === 200);
  const box = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', runtime: 'python3' });
  if (box.status !== 201) {
    t.skip(`no jails here: ${box.text}`);
    return null;
  }
  server.box = `/v1/sandboxes/${box.id}`;
  server.id = box.id;
  return server;
}

const begun = (server, name) => until(async () => (await server.get(`${server.box}/files?path=/workspace/${name}`)).status === 200);

test('a stream that ends in time is whole', T, async (t) => {
  const server = await start(t, { drain: 100 });
  if (server === null) return;
  // They end when the server has said that it stops.
  const wait = (name) => `touch ${name}; while [ ! -e go ]; do sleep 0.1; done; echo whole`;
  const run = server.ask('POST', `${server.box}/run_code`, { code: wait('one'), language: 'bash', timeoutMs: 0 }, ndjson);
  const exec = server.ask('POST', `${server.box}/commands`, { command: wait('two') }, ndjson);
  await begun(server, 'one');
  await begun(server, 'two');
  const ender = await server.ask('POST', `${server.box}/commands`, { command: 'sleep 3; touch go', detached: true });
  assert.equal(ender.status, 201, ender.text);
  server.child.kill('SIGTERM');
  const [ran, executed] = await Promise.all([run, exec]);
  assert.equal(lines(ran.text).at(-1).data.success, true, ran.text);
  assert.match(ran.text, /whole/);
  const last = lines(executed.text).at(-1);
  assert.deepEqual([last.event, last.data.exitCode], ['end', 0], executed.text);
  assert.deepEqual(await server.exit, { code: 0, signal: null });
});

test('a call that does not end in time gets the error that the server was stopped, and how long it ran', T, async (t) => {
  const dir = tempDir(t), server = await start(t, { drain: 1, dir });
  if (server === null) return;
  const long = (name) => `touch ${name}; sleep 1000`;
  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const child = spawn(BIN, ['run', '--json', '--sandbox', server.id, '--runtime', 'bash', '-e', long('one')], { env });
  const client = { out: '', err: '', end: once(child, 'close').then(([code]) => code) };
  child.stdout.on('data', (data) => (client.out += data));
  child.stderr.on('data', (data) => (client.err += data));
  t.after(() => child.kill('SIGKILL'));
  const { context } = await server.ask('POST', `${server.box}/run_code`, { code: '1', language: 'python' });
  const plain = server.ask('POST', `${server.box}/run_code`, { code: `import os\n${'os.system("touch two; sleep 1000")'}`, context, timeoutMs: 0 });
  const stream = server.ask('POST', `${server.box}/commands`, { command: long('three') }, ndjson);
  const waits = server.ask('POST', `${server.box}/commands`, { command: long('four') });
  const detached = await server.ask('POST', `${server.box}/commands`, { command: long('five'), detached: true });
  for (const name of ['one', 'two', 'three', 'four', 'five']) await begun(server, name);
  server.child.kill('SIGTERM');
  const answers = await Promise.all([plain, waits]);
  for (const answer of answers) {
    assert.deepEqual([answer.status, answer.error?.code], [503, 'unavailable'], answer.text);
    assert.match(answer.error.message, /the server was stopped; all processes in sandbox .* have ended; its files are kept/);
  }
  assert.match((await stream).text, /"event":"end","data":\{"reason":"the server is stopping"\}/);
  assert.notEqual(await client.end, 0);
  assert.match(client.out + client.err, /the server was stopped/);
  assert.deepEqual(await server.exit, { code: 0, signal: null });
  const later = await start(t, { drain: 1, dir });
  const command = await later.ask('GET', `/v1/commands/${detached.id}`);
  assert.deepEqual([command.state, command.end, command.reason], ['ended', 'stopped', 'the server was stopped'], command.text);
  assert.ok(command.durationMs >= 1000, command.text);
  assert.equal(Date.parse(command.endedAt) - Date.parse(command.startedAt), Math.round(command.durationMs));
});

test('a command of a server that was killed has the time until then', T, async (t) => {
  const dir = tempDir(t), server = await start(t, { drain: 1, dir });
  if (server === null) return;
  const command = await server.ask('POST', `${server.box}/commands`, { command: 'sleep 1000', detached: true });
  const alive = () => statSync(join(dir, 'store.lock')).mtimeMs;
  await until(() => alive() > Date.parse(command.startedAt) + 2000);
  server.child.kill('SIGKILL');
  await server.exit;
  await sleep(4000);
  const later = await start(t, { drain: 1, dir });
  const lost = await later.ask('GET', `/v1/commands/${command.id}`);
  assert.deepEqual([lost.end, lost.reason], ['lost', "the server or the sandbox ended unexpectedly; the command's exit status is unknown"], lost.text);
  // Not how long the server was away.
  const ended = Date.parse(lost.endedAt), ready = Date.now();
  assert.ok(lost.durationMs >= 2000 && ended <= ready - 4000, lost.text);
});
