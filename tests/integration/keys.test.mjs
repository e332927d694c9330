// Idempotency keys: a repeated create makes nothing twice.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import test from 'node:test';
import { serve, sleep, tempDir, until } from './lib.mjs';

async function stage(t, options) {
  const server = await serve(t, options);
  const call = async (method, path, body, key) => {
    const raw = body instanceof Uint8Array;
    const answer = await server.get(path, { method, body: raw ? body : body && JSON.stringify(body),
      headers: { 'content-type': raw ? 'application/octet-stream' : 'application/json', ...(key ? { 'idempotency-key': key } : {}) } });
    const text = await answer.text();
    return { status: answer.status, text, ...(text.startsWith('{') ? JSON.parse(text) : {}) };
  };
  return { server, call };
}

const BODIES = { sandboxes: { tier: 'memory' }, sessions: { sandbox: { tier: 'memory' } }, volumes: { tier: 'memory' } };

for (const [noun, body] of Object.entries(BODIES)) {
  test(`${noun}: the same key gives the first one, also later`, { timeout: 600_000 }, async (t) => {
    const { call } = await stage(t);
    const path = `/v1/${noun}`;
    const all = await Promise.all([1, 2, 3].map(() => call('POST', path, body, 'one')));
    for (const each of all) assert.deepEqual([each.status, each.id], [201, all[0].id], each.text);
    const again = await call('POST', path, body, 'one');
    assert.deepEqual([again.status, again.id], [201, all[0].id], again.text);
    assert.notEqual((await call('POST', path, body, 'two')).id, all[0].id);
    assert.notEqual((await call('POST', path, body)).id, all[0].id);
    assert.equal((await call('POST', path, { ...body, name: 'other' }, 'one')).status, 409);
  });
}

test('what was deleted may be made again with its key', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t);
  for (const noun of ['sessions', 'volumes']) {
    const first = await call('POST', `/v1/${noun}`, BODIES[noun], 'k');
    assert.equal((await call('DELETE', `/v1/${noun}/${first.id}`)).status, 204);
    const next = await call('POST', `/v1/${noun}`, BODIES[noun], 'k');
    assert.equal(next.status, 201, next.text);
    assert.notEqual(next.id, first.id);
  }
});

test('keys outlive a restart, and one that failed is free', { timeout: 600_000 }, async (t) => {
  const { server, call } = await stage(t);
  const first = await call('POST', '/v1/sessions', BODIES.sessions, 'k');
  assert.equal((await call('POST', '/v1/volumes', { tier: 'isolate' }, 'v')).status, 501);
  assert.equal((await call('POST', '/v1/volumes', { tier: 'memory' }, 'v')).status, 201);
  server.child.kill('SIGTERM');
  await server.exit;
  const next = await stage(t, { dir: server.dir });
  const again = await next.call('POST', '/v1/sessions', BODIES.sessions, 'k');
  assert.deepEqual([again.status, again.id], [201, first.id], again.text);
});

test('a command is started once', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t);
  const boxes = [await call('POST', '/v1/sandboxes', { tier: 'jail' }), await call('POST', '/v1/sandboxes', { tier: 'jail' })];
  if (boxes[0].status !== 201) return t.skip(`no jail here: ${boxes[0].text}`);
  const run = (box, key) => call('POST', `/v1/sandboxes/${box.id}/commands`, { command: 'echo x >> count; cat count' }, key);
  const first = await run(boxes[0], 'k');
  assert.equal(first.stdout, 'x\n', first.text);
  const again = await run(boxes[0], 'k');
  assert.equal(again.status, 409, again.text);
  assert.match(again.error.message, new RegExp(`has already started command '${first.id}'`));
  assert.equal((await run(boxes[1], 'k')).stdout, 'x\n'); // another sandbox, another key
  assert.equal((await run(boxes[0], 'l')).stdout, 'x\nx\n');
});

async function restarted(t, server) {
  server.child.kill('SIGTERM');
  await server.exit;
  return stage(t, { dir: server.dir });
}

const ids = (answer) => answer.sandboxes?.map((each) => each.id);
const refused = (answer, key) => {
  assert.equal(answer.status, 409, answer.text);
  assert.match(answer.error.message, new RegExp(`Idempotency-Key '${key}' was already used with a different request`));
};

test('forks are made once', { timeout: 600_000 }, async (t) => {
  const { server, call } = await stage(t);
  const parent = await call('POST', '/v1/sandboxes', { tier: 'memory' });
  const path = `/v1/sandboxes/${parent.id}/fork`;
  // The first is still at work when the others come.
  const all = await Promise.all([1, 2, 3, 4].map(() => call('POST', path, { count: 3 }, 'k')));
  for (const each of all) assert.deepEqual([each.status, ids(each)], [201, ids(all[0])], each.text);
  assert.equal(new Set(ids(all[0])).size, 3);
  refused(await call('POST', path, { count: 2 }, 'k'), 'k');
  assert.notDeepEqual(ids(await call('POST', path, { count: 3 }, 'l')), ids(all[0]));
  // One is gone: the others are returned. All are gone: it may be done again.
  await call('DELETE', `/v1/sandboxes/${ids(all[0])[0]}`);
  assert.deepEqual(ids(await call('POST', path, { count: 3 }, 'k')), ids(all[0]).slice(1));
  for (const id of ids(all[0]).slice(1)) await call('DELETE', `/v1/sandboxes/${id}`);
  const fresh = await call('POST', path, { count: 3 }, 'k');
  assert.equal(ids(fresh).filter((id) => ids(all[0]).includes(id)).length, 0);
  const next = await restarted(t, server);
  const later = await next.call('POST', path, { count: 3 }, 'k');
  assert.deepEqual([later.status, ids(later)], [201, ids(fresh)], later.text);
});

test('a fork that failed leaves its key free, and a waiting caller gets the reason', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t);
  const parent = await call('POST', '/v1/sandboxes', { tier: 'memory' });
  const path = `/v1/sandboxes/${parent.id}/fork`;
  const all = await Promise.all([1, 2].map(() => call('POST', path, { checkpoint: 'later' }, 'k')));
  for (const each of all) assert.equal(each.status, 404, each.text);
  await call('POST', `/v1/sandboxes/${parent.id}/checkpoints`, { name: 'later' });
  assert.equal((await call('POST', path, { checkpoint: 'later' }, 'k')).status, 201);
});

test('a checkpoint is made once', { timeout: 600_000 }, async (t) => {
  const { server, call } = await stage(t);
  const box = await call('POST', '/v1/sandboxes', { tier: 'memory' });
  const path = `/v1/sandboxes/${box.id}/checkpoints`;
  const all = await Promise.all([1, 2, 3].map(() => call('POST', path, { name: 'a' }, 'k')));
  for (const each of all) assert.deepEqual([each.status, each.id, each.createdAt], [201, all[0].id, all[0].createdAt], each.text);
  refused(await call('POST', path, { name: 'b' }, 'k'), 'k');
  const next = await restarted(t, server);
  assert.equal((await next.call('POST', path, { name: 'a' }, 'k')).id, all[0].id);
  const late = await next.call('POST', path, { name: 'late' }, 'l');
  assert.equal((await next.call('POST', `/v1/sandboxes/${box.id}/rollback`, { checkpoint: 'a' })).status, 200);
  // The rollback has dropped it.
  assert.notEqual((await next.call('POST', path, { name: 'late' }, 'l')).id, late.id);
});

async function withJails(t) {
  const made = await stage(t);
  const probe = await made.call('POST', '/v1/sandboxes', { tier: 'jail' });
  if (probe.status !== 201) {
    t.skip(`no jail here: ${probe.text}`);
    return null;
  }
  return { ...made, box: probe };
}

test('a snapshot of a sandbox or a directory is made once', { timeout: 600_000 }, async (t) => {
  const made = await withJails(t);
  if (!made) return;
  const dir = tempDir(t);
  writeFileSync(join(dir, 'f'), 'x');
  const bodies = { s: { sandbox: made.box.id }, d: { directory: dir } };
  const first = {};
  for (const [key, body] of Object.entries(bodies)) {
    const all = await Promise.all([1, 2, 3].map(() => made.call('POST', '/v1/snapshots', body, key)));
    for (const each of all) assert.deepEqual([each.status, each.id], [201, all[0].id], each.text);
    refused(await made.call('POST', '/v1/snapshots', { ...body, slug: 'another-one' }, key), key);
    first[key] = all[0].id;
  }
  const { call } = await restarted(t, made.server);
  for (const [key, body] of Object.entries(bodies)) {
    assert.equal((await call('POST', '/v1/snapshots', body, key)).id, first[key]);
    assert.equal((await call('DELETE', `/v1/snapshots/${first[key]}`)).status, 204);
    const again = await call('POST', '/v1/snapshots', body, key);
    assert.equal(again.status, 201, again.text);
    assert.notEqual(again.id, first[key]);
  }
  assert.equal((await call('GET', '/v1/snapshots')).snapshots.length, 2);
});

function tarOf(t, text) {
  const dir = tempDir(t);
  mkdirSync(join(dir, 'tree'));
  writeFileSync(join(dir, 'tree/f'), text);
  execFileSync('/bin/tar', ['-cf', join(dir, 'it.tar'), '-C', join(dir, 'tree'), '.']);
  return readFileSync(join(dir, 'it.tar'));
}

test('an archive is taken once', { timeout: 600_000 }, async (t) => {
  const made = await withJails(t);
  if (!made) return;
  const path = '/v1/snapshots/upload?slug=from-a-tar';
  const bytes = tarOf(t, 'one');
  const all = await Promise.all([1, 2, 3].map(() => made.call('POST', path, bytes, 'k')));
  for (const each of all) assert.deepEqual([each.status, each.id], [201, all[0].id], each.text);
  refused(await made.call('POST', path, tarOf(t, 'two'), 'k'), 'k');
  refused(await made.call('POST', '/v1/snapshots/upload?slug=another-tar', bytes, 'k'), 'k');
  const out = await made.server.get(`/v1/snapshots/${all[0].id}/export`);
  const packed = new Uint8Array(await out.arrayBuffer());
  const imported = await made.call('POST', '/v1/snapshots/upload?form=export', packed, 'i');
  assert.equal(imported.status, 201, imported.text);
  const { call } = await restarted(t, made.server);
  assert.equal((await call('POST', path, bytes, 'k')).id, all[0].id);
  assert.equal((await call('POST', '/v1/snapshots/upload?form=export', packed, 'i')).id, imported.id);
  assert.equal((await call('GET', '/v1/snapshots')).snapshots.length, 2);
});

test('an upload that broke off leaves its key free', { timeout: 600_000 }, async (t) => {
  const made = await withJails(t);
  if (!made) return;
  const bytes = tarOf(t, 'one');
  const socket = net.connect(made.server.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(`POST /v1/snapshots/upload HTTP/1.1\r\nHost: 127.0.0.1:${made.server.port}\r\nAuthorization: Bearer ${made.server.token}\r\n` +
    `Idempotency-Key: k\r\nContent-Type: application/octet-stream\r\nContent-Length: ${bytes.length}\r\n\r\n`);
  socket.write(bytes.subarray(0, 512));
  await until(async () => (await made.call('GET', '/v1/snapshots')).snapshots.length === 1);
  const second = made.call('POST', '/v1/snapshots/upload', bytes, 'k'); // waits for the first
  await Promise.race([second, sleep(300)]);
  socket.destroy();
  const told = await second; // 201 where it came too late to meet the first
  if (told.status !== 201) {
    assert.deepEqual([told.status, told.error.code], [423, 'busy'], told.text);
    assert.match(told.error.message, /first upload with this Idempotency-Key was cut off; send it again/);
  }
  const third = await made.call('POST', '/v1/snapshots/upload', bytes, 'k');
  assert.equal(third.status, 201, third.text);
  assert.equal((await made.call('GET', '/v1/snapshots')).snapshots.length, 1);
});

test('a key may have 255 bytes, and no more', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t);
  assert.equal((await call('POST', '/v1/volumes', BODIES.volumes, 'k'.repeat(255))).status, 201);
  const long = await call('POST', '/v1/volumes', BODIES.volumes, 'k'.repeat(256));
  assert.equal(long.status, 400);
  assert.match(long.error.message, /Idempotency-Key: must have at most 255 bytes/);
});

// The program that reads the database as an owner of a copy would read it.
const sql = (dir, text, ...values) => {
  const done = spawnSync('/usr/bin/python3', ['-c', `import json, sqlite3, sys
base = sqlite3.connect(sys.argv[1]); rows = base.execute(sys.argv[2], sys.argv[3:]).fetchall(); base.commit(); print(json.dumps(rows))`,
    join(dir, 'sandglass.db'), text, ...values], { encoding: 'utf8' });
  return done.status === 0 ? JSON.parse(done.stdout) : null;
};
const stored = (dir) => ['sandglass.db', 'sandglass.db-wal'].map((name) => join(dir, name)).filter(existsSync)
  .map((path) => readFileSync(path)).reduce((one, other) => Buffer.concat([one, other]), Buffer.alloc(0));
const stop = async (server) => { server.child.kill('SIGTERM'); await server.exit; };

test('the database has no hash that a guessed secret could be compared with', { timeout: 600_000 }, async (t) => {
  const { server, call } = await stage(t);
  const body = { tier: 'memory', env: { PIN: '4711' }, name: 'guess' };
  const first = await call('POST', '/v1/sandboxes', body, 'k');
  assert.equal(first.status, 201, first.text);
  const digest = createHash('sha256').update(JSON.stringify(body)).digest();
  await stop(server);
  const bytes = stored(server.dir);
  assert.ok(bytes.includes('hmac.'));
  assert.ok(!bytes.includes(digest.toString('hex')) && !bytes.includes(digest));

  const next = await stage(t, { dir: server.dir });
  assert.equal((await next.call('POST', '/v1/sandboxes', body, 'k')).id, first.id);
  refused(await next.call('POST', '/v1/sandboxes', { ...body, env: { PIN: '4712' } }, 'k'), 'k');

  // What an older version left: it is replaced at the start and goes on working.
  await stop(next.server);
  if (sql(server.dir, 'UPDATE idempotency_keys SET request_hash = ?', digest.toString('hex')) === null)
    return t.skip('python3 has no sqlite3');
  assert.ok(stored(server.dir).includes(digest.toString('hex')));
  const later = await stage(t, { dir: server.dir });
  assert.equal((await later.call('POST', '/v1/sandboxes', body, 'k')).id, first.id);
  await stop(later.server);
  const [[kept]] = sql(server.dir, 'SELECT request_hash FROM idempotency_keys');
  assert.match(kept, /^hmac\.[0-9a-f]{64}$/);

  // With another sealing key, as in a copy of only the database, a key fits nothing.
  writeFileSync(join(server.dir, 'secrets.key'), Buffer.alloc(32, 7), { mode: 0o600 });
  const foreign = await stage(t, { dir: server.dir });
  refused(await foreign.call('POST', '/v1/sandboxes', body, 'k'), 'k');
});
