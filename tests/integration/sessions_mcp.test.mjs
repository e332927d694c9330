// The configuration of sessions, seen by clients of the Model Context Protocol: over pipes and over HTTP.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import test from 'node:test';
import { BIN, tempDir, until } from './lib.mjs';
import { hasNpm, hasRuntime, packagesReady, start, world } from './sessions_lib.mjs';

const T = { timeout: 600000 };
const skip = !hasNpm ? 'no npm on this machine' : hasRuntime('node24') ? false : 'node24 was not added';
const SECTIONS = (it) => `[sandbox]\nruntime = "node24"\nmemory_mb = 300\ntimeout_seconds = 2\n${it.acme}`;

// Requests and answers, however they travel.
const speak = (send) => async (method, params) => {
  const answer = await send({ jsonrpc: '2.0', id: ++speak.id, method, params });
  if (answer.error) throw new Error(answer.error.message);
  return answer.result;
};
speak.id = 0;
const hello = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };

async function overPipes(t, it, home, env = {}) {
  const child = spawn(BIN, ['mcp', '--config', it.config], { stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, SANDGLASS_HOME: home, TMPDIR: it.dir, ACME_API_KEY: it.key, ...env } });
  const waiting = new Map(), client = { child, stderr: '' };
  child.stderr.on('data', (data) => (client.stderr += data));
  child.stdin.on('error', () => {});
  createInterface(child.stdout).on('line', (line) => {
    const message = JSON.parse(line);
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  });
  t.after(() => child.kill('SIGKILL'));
  const gone = once(child, 'close').then(() => ({ error: { message: `it ended: ${client.stderr}` } }));
  client.ask = speak((message) => Promise.race([gone, new Promise((done) => {
    waiting.set(message.id, done);
    child.stdin.write(`${JSON.stringify(message)}\n`);
  })]));
  client.end = async () => { child.stdin.end(); await gone; };
  client.about = await client.ask('initialize', hello);
  return client;
}

async function overHttp(server) {
  let session;
  const client = { ask: speak(async (message) => {
    const answer = await server.get('/mcp', { method: 'POST', body: JSON.stringify(message),
      headers: { 'content-type': 'application/json', accept: 'application/json', ...(session ? { 'mcp-session-id': session } : {}) } });
    session ??= answer.headers.get('mcp-session-id');
    return answer.json();
  }) };
  client.about = await client.ask('initialize', hello);
  return client;
}

const call = async (client, name, args) => {
  let answer;
  await until(async () => {
    answer = await client.ask('tools/call', { name, arguments: { ...(name === 'run_code' ? { description: 'a test' } : {}), ...args } });
    return !/packages of the configuration are still being installed/.test(JSON.stringify(answer)); // after a minute
  }, 500);
  return { ...answer.structuredContent, isError: answer.isError === true, text: JSON.stringify(answer) };
};

// What every client must find.
async function check(client, it) {
  const ran = await call(client, 'run_code', { language: 'typescript', timeoutMs: 0, code: `import { AcmeClient, version } from '@acme/sdk';
const found: { id: string }[] = await new AcmeClient({ apiKey: process.env.ACME_API_KEY, url: '${it.url}' }).issues();
[version, found[0].id, process.env.ACME_API_KEY, process.version]` });
  assert.deepEqual(ran.result?.slice(0, 2), ['2.1.0', 'ENG-1'], ran.text);
  assert.match(ran.result[2], /^sgs_/);
  assert.match(ran.result[3], /^v24/);
  assert.equal(it.api.seen.at(-1).headers.authorization, `Bearer ${it.key}`);
  for (const spelled of it.hidden) assert.ok(!ran.text.includes(spelled), 'the key is inside');
  const shell = await call(client, 'bash', { command: `curl -sS -H "authorization: Bearer $ACME_API_KEY" ${it.url}/issues` });
  assert.match(shell.stdout, /ENG-1/, shell.text);
  // One execution has the configured time, the sandbox the configured memory.
  const late = await call(client, 'run_code', { language: 'javascript', code: 'for (;;) {}' });
  assert.equal(late.isError, true, late.text);
  assert.match(late.text, /time limit|timeout|timed out|out of time/i, late.text);
  assert.match(late.text, /timeout_seconds/, late.text);
}

test('over HTTP, of both kinds', { ...T, skip }, async (t) => {
  const it = await world(t);
  const server = await start(t, it, SECTIONS(it));
  if (!server) return;
  await packagesReady(server);
  const client = await overHttp(server);
  assert.match(client.about.instructions, /@acme\/sdk 2\.1\.0/);
  await check(client, it);
  const box = (await server.ask('GET', '/v1/sandboxes')).sandboxes.find((each) => each.session);
  assert.equal(box.limits.memoryMb, 300);
  // A request that stands for itself.
  const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} };
  const answer = await server.get('/mcp', { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call',
    params: { name: 'run_code', arguments: { language: 'javascript', description: 'a test', timeoutMs: 0, code: 'require("@acme/sdk").version' }, _meta: meta } }),
  headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call', 'mcp-name': 'run_code' } });
  assert.match(await answer.text(), /"result\\?":\s*\\?"2\.1\.0/);
});

test('over pipes, with an engine of its own that finds its packages again', { ...T, skip }, async (t) => {
  const it = await world(t);
  it.write(SECTIONS(it));
  const home = tempDir(t);
  mkdirSync(home, { recursive: true });
  symlinkSync(join(process.env.SG_RUNTIMES, 'runtimes'), join(home, 'runtimes'));
  let open;
  it.registry.gate = new Promise((done) => { open = done; });
  const first = await overPipes(t, it, home);
  assert.doesNotMatch(first.about.instructions, /@acme/, 'they are being installed');
  assert.match(first.about.instructions, /being installed/);
  open();
  await check(first, it); // its first call has waited for them
  await first.end();
  const asked = it.registry.asked.length;
  const second = await overPipes(t, it, home);
  assert.match(second.about.instructions, /@acme\/sdk 2\.1\.0/);
  assert.equal(it.registry.asked.length, asked, 'nothing is installed again');
  // Another one at the same time has a directory of its own.
  const third = await overPipes(t, it, home);
  assert.deepEqual(readdirSync(join(home, 'mcp')).sort(), ['0', '1']);
  await third.end();
  await check(second, it);
  await call(second, 'write', { path: 'left.txt', content: 'x' });
  second.child.kill('SIGKILL');
  await once(second.child, 'exit');
  const fourth = await overPipes(t, it, home);
  assert.equal((await call(fourth, 'exists', { path: 'left.txt' })).exists, false, 'a session of its own');
  await fourth.end();
  assert.deepEqual(readdirSync(it.dir).filter((name) => name.startsWith('sandglass-mcp-')), []);
});

test('over pipes, a key that is not set is said at the start', { ...T, skip }, async (t) => {
  const it = await world(t);
  it.write(`[sandbox]\n${it.acme}`);
  const home = tempDir(t);
  const client = await overPipes(t, it, home, { ACME_API_KEY: '' });
  await until(() => /config\.warning.*ACME_API_KEY/.test(client.stderr));
  await client.end();
});
