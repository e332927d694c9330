// Many clients at once, slow ones and vanishing ones: others are served, and nothing stays behind.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { isSanitized, serve, sleep, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };

async function setup(t) {
  const dir = tempDir(t), config = join(dir, 'config.toml');
  writeFileSync(config, ['[server]', 'max_connections = 256', 'max_connections_per_address = 4096',
    'header_timeout_seconds = 1', 'body_idle_seconds = 1'].join('\n'));
  const server = await serve(t, { dir: join(dir, 'data'), args: ['--config', config] });
  server.head = (method, path) => `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n` +
    `Authorization: Bearer ${server.token}\r\n`;
  // One connection of its own, as a client that was there before: it must go on being served.
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const once = () => new Promise((done, failed) => {
    http.get({ port: server.port, host: '127.0.0.1', path: '/healthz', agent }, (res) => {
      res.resume().on('end', () => done(res.statusCode));
    }).on('error', failed);
  });
  // An idle connection may be closed to make room: then a client comes again, as HTTP has it.
  server.alive = () => once().catch(once).catch(once);
  // The client's own idle connection may be the one that made room.
  const { figure, descriptors } = server;
  server.figure = (name) => figure(name).catch(() => figure(name)).catch(() => Infinity);
  server.descriptors = () => descriptors().catch(descriptors).catch(() => Infinity);
  server.cpu = () => server.figure('process_cpu_seconds_total');
  return server;
}

function open(server, bytes, { tick = 0, reads = true } = {}) {
  const socket = net.connect(server.port, '127.0.0.1');
  let timer = null;
  socket.on('error', () => {});
  socket.on('connect', () => {
    if (bytes) socket.write(bytes);
    if (tick) timer = setInterval(() => socket.write('x'), tick);
  });
  if (reads) socket.resume();
  else socket.pause();
  socket.gone = new Promise((done) => socket.on('close', () => { clearInterval(timer); done(); }));
  return socket;
}

test('API-06: slow clients, idle ones and storms keep nobody out', T, async (t) => {
  const server = await setup(t);
  assert.equal(await server.alive(), 200);
  const cpu = await server.cpu();
  // Heads and bodies that drip, more of them than there is room for.
  const slow = [];
  for (let n = 0; n < 150; n++) slow.push(open(server, server.head('GET', '/healthz'), { tick: 300 }));
  for (let n = 0; n < 60; n++)
    slow.push(open(server, `${server.head('POST', '/v1/sandboxes')}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n`,
      { tick: 300 }));
  for (let n = 0; n < 10; n++) { assert.equal(await server.alive(), 200); await sleep(50); }
  await Promise.all(slow.map((each) => each.gone));
  // Idle ones make room for those who ask.
  const idle = [];
  for (let n = 0; n < 400; n++) idle.push(open(server, ''));
  for (let n = 0; n < 10; n++) { assert.equal(await server.alive(), 200); await sleep(20); }
  idle.forEach((each) => each.destroy());
  await Promise.all(idle.map((each) => each.gone));
  // Connect and close, as fast as one client can.
  for (let round = 0; round < 10; round++) {
    const storm = Array.from({ length: 100 }, () => open(server, ''));
    await Promise.all(storm.map((each) => new Promise((done) => each.on('connect', done).on('close', done))));
    storm.forEach((each) => each.destroy());
    await Promise.all(storm.map((each) => each.gone));
    assert.equal(await server.alive(), 200);
  }
  await until(async () => (await server.figure('sandglass_http_connections')) < 8);
  assert.ok(isSanitized || (await server.cpu()) - cpu < 20, 'no busy loop');
});

test('API-08: ten thousand clients that vanish leave nothing', T, async (t) => {
  const server = await setup(t);
  const make = async (tier) => (await server.get('/v1/sandboxes', { method: 'POST', body: JSON.stringify({ tier }),
    headers: { 'content-type': 'application/json' } })).json();
  let made = await make('jail');
  const hasFiles = made.id !== undefined;
  if (!hasFiles) made = await make('memory'); // no jails here: its uploads are refused, which is an end, too
  const files = `/v1/sandboxes/${made.id}/files?path=/workspace/f`;
  await server.get(files, { method: 'PUT', body: Buffer.alloc(1 << 20, 'f') });
  // What each was doing when it left, and how it left.
  const light = [
    '', 'GET /heal', `${server.head('GET', '/healthz')}`, `${server.head('GET', '/healthz')}\r\n`,
    `${server.head('GET', '/v1/sandboxes')}\r\n`, `${server.head('GET', '/metrics')}\r\n`,
    `${server.head('POST', '/v1/sandboxes')}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"tier":`,
    `${server.head('POST', '/v1/volumes')}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{`,
  ];
  const heavy = [
    `${server.head('GET', files)}\r\n`, `${server.head('GET', '/v1/events')}\r\n`,
    `${server.head('PUT', `${files}2`)}Content-Length: 100000\r\n\r\nhalf`,
    `${server.head('PUT', `${files}3`)}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n`,
    `${server.head('GET', `/v1/sandboxes/${made.id}/watch?path=/workspace`)}\r\n`,
  ];
  const vanish = (n, states) => new Promise((done) => {
    const socket = net.connect(server.port, '127.0.0.1');
    socket.on('error', () => {}).on('close', done);
    socket.on('connect', () => {
      const bytes = states[n % states.length], leave = Math.floor(n / states.length) % 3;
      const go = () => (leave === 0 ? socket.destroy() : leave === 1 ? socket.resetAndDestroy() : socket.end(() => socket.destroy()));
      if (bytes) socket.write(bytes, go);
      else go();
    });
  });
  const rounds = async (count, states) => {
    for (let n = 0; n < count; n += 100) await Promise.all(Array.from({ length: 100 }, (_, k) => vanish(n + k, states)));
    await until(async () => (await server.figure('sandglass_http_connections')) < 8 &&
      (await server.figure('sandglass_http_running_requests')) <= 1);
  };
  await rounds(300, heavy); // what is allocated once is there
  await rounds(1000, light);
  const descriptors = await server.descriptors(), memory = await server.figure('process_resident_memory_bytes');
  await rounds(300, heavy);
  await rounds(8400, light);
  await until(async () => (await server.descriptors()) <= descriptors + 4);
  const grown = (await server.figure('process_resident_memory_bytes')) - memory;
  assert.ok(isSanitized || grown < 16 << 20, `grew by ${grown}`);
  // Nothing half-written stands there.
  if (hasFiles) {
    for (const each of ['2', '3']) assert.equal((await server.get(files + each)).status, 404);
    assert.equal((await (await server.get(files)).arrayBuffer()).byteLength, 1 << 20);
  }
  await server.get(`/v1/sandboxes/${made.id}`, { method: 'DELETE' });
});
