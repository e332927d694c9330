// Fault plan 9.5 and 9.6, VOL-02 and VOL-04 against the real server: stops at any moment, clocks that
// jump, a machine that sleeps; and what holds after every restart.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, serve, sleep, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };
const FULL = Boolean(process.env.SG_SOAK);

async function start(t, options = {}) {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, '[sandbox]\nprovider = "memory"\n');
  const server = await serve(t, { ...options, args: ['--config', config] });
  server.ask = async (method, path, body) => {
    const answer = await server.get(path, { method, body: body && JSON.stringify(body),
      headers: { 'content-type': 'application/json' } });
    const text = await answer.text();
    return { ...(text.startsWith('{') ? JSON.parse(text) : {}), status: answer.status, text };
  };
  server.ready = () => until(async () => (await server.get('/readyz')).status === 200);
  server.kill = async () => { server.child.kill('SIGKILL'); await server.exit; };
  server.states = async () => Object.fromEntries((await server.ask('GET', '/v1/sandboxes?limit=1000')).sandboxes
    .map((box) => [box.id, box.state]));
  return server;
}

const jails = async (t, server) => {
  const probe = await server.ask('POST', '/v1/sandboxes', { tier: 'jail' });
  if (probe.status !== 201) t.skip(`no jails here: ${probe.text}`);
  else await server.ask('DELETE', `/v1/sandboxes/${probe.id}`);
  return probe.status === 201;
};

test('a stop at any moment of the start leaves a store that starts', T, async (t) => {
  const dir = tempDir(t);
  const first = await start(t, { dir });
  const kept = await first.ask('POST', '/v1/sandboxes', { name: 'kept' });
  assert.equal(kept.status, 201, kept.text);
  await first.kill();
  for (let i = 0; i < (FULL ? 60 : 10); i++) {
    const child = spawn(BIN, ['serve', '--listen', '127.0.0.1:0', '--data-dir', dir], { stdio: 'ignore' });
    const end = once(child, 'exit');
    await sleep(i * 6);
    child.kill('SIGTERM');
    const twice = i % 3 === 0;
    if (twice) child.kill('SIGTERM'); // during another stop, which a second signal makes a hasty one
    const [code, signal] = await end;
    // Before it has taken over its signals it ends as any program does.
    assert.ok(code === 0 || signal === 'SIGTERM' || (twice && code === 1), `${code} ${signal} after ${i * 6} ms`);
  }
  const last = await start(t, { dir });
  await last.ready();
  assert.equal((await last.ask('GET', `/v1/sandboxes/${kept.id}`)).name, 'kept');
});

test('a second signal ends the server at once, whatever its stop is waiting for', T, async (t) => {
  const dir = tempDir(t);
  for (let i = 0; i < (FULL ? 60 : 16); i++) {
    const child = spawn(BIN, ['serve', '--listen', '127.0.0.1:0', '--data-dir', dir],
      { stdio: ['ignore', 'ignore', 'pipe'] });
    const end = once(child, 'close');
    let log = '';
    child.stderr.on('data', (data) => { log += data; });
    await until(() => log.includes('event=server.ready'));
    child.kill('SIGTERM');
    await sleep(i % 4);
    child.kill('SIGTERM');
    const [code, signal] = await end;
    assert.ok(code === 0 || code === 1, `${code} ${signal}\n${log}`);
  }
});

test('a clock that is set back or on ends nothing early and nothing late', T, async (t) => {
  const shift = join(tempDir(t), 'shift');
  writeFileSync(shift, '0');
  const server = await start(t, { env: { ...process.env, SG_CLOCK_SHIFT: shift } });
  const before = new Date((await server.ask('POST', '/v1/sandboxes', {})).createdAt);
  writeFileSync(shift, '86400000');
  const after = new Date((await server.ask('POST', '/v1/sandboxes', {})).createdAt);
  if (after - before < 80000000) return t.skip('this build has no faults');
  for (const jump of FULL ? [86400000, -86400000, 3600000, -3600000] : [86400000, -3600000]) {
    writeFileSync(shift, '0');
    const begun = performance.now();
    const short = await server.ask('POST', '/v1/sandboxes', { timeoutMs: 2500 });
    const long = await server.ask('POST', '/v1/sandboxes', { timeoutMs: 600000 });
    const idle = await server.ask('POST', '/v1/sandboxes', { idleMs: 600000 });
    const volume = await server.ask('POST', '/v1/volumes', { ttlMs: 600000 });
    assert.equal(volume.status, 201, volume.text);
    writeFileSync(shift, String(jump));
    await until(async () => (await server.ask('GET', `/v1/sandboxes/${short.id}`)).state === 'paused');
    assert.ok(performance.now() - begun > 2400, `not early with the clock ${jump} ms away`);
    for (const box of [long, idle]) assert.equal((await server.ask('GET', `/v1/sandboxes/${box.id}`)).state, 'running');
    assert.equal((await server.ask('GET', `/v1/volumes/${volume.id}`)).status, 200);
  }
});

test('a machine that sleeps: what is due is done when it wakes, and nothing else', T, async (t) => {
  const server = await start(t);
  const due = await server.ask('POST', '/v1/sandboxes', { timeoutMs: 1000 });
  const not = await server.ask('POST', '/v1/sandboxes', { timeoutMs: 600000 });
  server.child.kill('SIGSTOP');
  await sleep(FULL ? 60000 : 2500);
  server.child.kill('SIGCONT');
  await until(async () => (await server.ask('GET', `/v1/sandboxes/${due.id}`)).state === 'paused');
  assert.equal((await server.ask('GET', `/v1/sandboxes/${not.id}`)).state, 'running');
});

test('after kill -9: interrupted and told, one line each; a further restart changes nothing', T, async (t) => {
  const dir = tempDir(t), count = FULL ? 900 : 60;
  let server = await start(t, { dir });
  const boxes = [];
  while (boxes.length < count) {
    const more = await Promise.all(Array.from({ length: 20 }, () => server.ask('POST', '/v1/sandboxes', {})));
    boxes.push(...more.map((box) => box.id));
  }
  const gone = await server.ask('POST', '/v1/volumes', { ttlMs: 1000 });
  const stays = await server.ask('POST', '/v1/volumes', { ttlMs: 3600000 });
  await server.ask('POST', `/v1/sandboxes/${boxes[0]}/pause`);
  await server.kill();
  await sleep(1100); // time goes on while nobody counts
  const left = () => readdirSync(dir).filter((name) => !/^(sandglass\.db|store\.|token|key)/.test(name)).sort().join();
  server = await start(t, { dir });
  assert.equal((await server.get('/healthz')).status, 200); // it serves before it has cleared up
  await server.ready();
  const states = await server.states();
  assert.equal(Object.keys(states).length, count);
  assert.equal(states[boxes[0]], 'paused');
  assert.ok(boxes.slice(1).every((id) => states[id] === 'interrupted'));
  for (const id of boxes.slice(1)) await until(() => server.stderr.includes(`event=reconcile.sandbox sandbox=${id}`));
  await until(async () => (await server.ask('GET', `/v1/volumes/${gone.id}`)).status === 404);
  assert.equal((await server.ask('GET', `/v1/volumes/${stays.id}`)).status, 200);
  const files = left();
  await server.kill();
  server = await start(t, { dir });
  await server.ready();
  assert.deepEqual(await server.states(), states);
  assert.ok(!server.stderr.includes('reconcile.sandbox'), server.stderr);
  assert.equal(left(), files);
});

test('VOL-02: one writer; a lease of a killed server is void, also one of a transfer', T, async (t) => {
  const dir = tempDir(t);
  let server = await start(t, { dir });
  if (!(await jails(t, server))) return;
  const volume = await server.ask('POST', '/v1/volumes', { tier: 'jail' });
  assert.equal(volume.status, 201, volume.text);
  const box = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', volume: volume.id });
  const second = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', volume: volume.id });
  assert.deepEqual([second.status, second.error.code], [423, 'busy']);
  await server.ask('DELETE', `/v1/sandboxes/${box.id}`);
  // Half an upload into the volume itself: a place made for it holds the lease.
  const socket = net.connect(server.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(`PUT /v1/volumes/${volume.id}/files?path=/workspace/half HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n` +
    `Authorization: Bearer ${server.token}\r\nContent-Length: 9000000\r\n\r\nhalf`);
  await until(async () => (await server.ask('GET', `/v1/volumes/${volume.id}`)).sandbox);
  await server.kill();
  socket.destroy();
  server = await start(t, { dir });
  await server.ready();
  assert.deepEqual(await server.states(), {}); // nobody made that place but the server
  const again = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', volume: volume.id });
  assert.equal(again.status, 201, again.text);
  const list = await server.ask('POST', `/v1/sandboxes/${again.id}/files/list`, { path: '/workspace' });
  assert.ok(!list.entries.some((entry) => /half|\.sandglass-/.test(entry.path)), list.text);
});

test('VOL-04: a snapshot restored many times gives nothing twice', T, async (t) => {
  const server = await start(t);
  if (!(await jails(t, server))) return;
  const box = await server.ask('POST', '/v1/sandboxes', { tier: 'jail' });
  await server.ask('POST', `/v1/sandboxes/${box.id}/commands`, { command: 'echo here >/f' });
  const snapshot = await server.ask('POST', '/v1/snapshots', { sandbox: box.id });
  const seen = { id: new Set(), random: new Set(), boot: new Set() };
  const times = FULL ? 100 : 12;
  for (let i = 0; i < times; i++) {
    const made = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', snapshots: [snapshot.id], timeoutMs: 600000 });
    const said = await server.ask('POST', `/v1/sandboxes/${made.id}/commands`,
      { command: 'cat /f; head -c 16 /dev/urandom | od -An -tx1 | tr -d " \\n"' });
    const [here, random] = said.stdout.split('\n');
    assert.equal(here, 'here');
    seen.id.add(made.id), seen.random.add(random);
    // Its clocks are its own.
    assert.ok(new Date(made.expiresAt) - Date.now() > 500000, made.text);
    await server.ask('DELETE', `/v1/sandboxes/${made.id}`);
  }
  assert.deepEqual([seen.id.size, seen.random.size], [times, times]);
});
