// Snapshots as archives: out, away, in again and booted; archives that were damaged or made up are
// refused by name and leave nothing (FS-11 for imports, VOL-01).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import test from 'node:test';
import { serve, tempDir, until } from './lib.mjs';
import { withSnapshots } from './snapshots_lib.mjs';

const T = { timeout: 600000 };

async function setup(t) {
  const server = await serve(t);
  server.send = (bytes, query) => server.ask('POST', `/v1/snapshots/upload?${query}`, bytes, 'application/octet-stream');
  server.box = async (...snapshots) => {
    const made = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', snapshots });
    assert.equal(made.status, 201, made.text);
    return made.id;
  };
  return withSnapshots(t, server);
}

const clean = (server) => until(async () => JSON.stringify(await server.left()) ===
  JSON.stringify({ layers: 0, sandboxes: 0, snapshots: 0 }));

// Two layers: the second changes, removes and replaces what the first has.
async function makeSnapshot(server) {
  const first = await server.box();
  await server.sh(first, 'mkdir -p /app/sub && echo one >/app/a && echo gone >/app/b && echo d >/app/sub/f && ' +
    'head -c 3000000 /dev/urandom >/app/big && ln -s /usr/bin/env /app/env && ln -s ../etc /app/up && chmod 750 /app/a');
  const base = await server.ask('POST', '/v1/snapshots', { sandbox: first });
  assert.equal(base.status, 201, base.text);
  const second = await server.box(base.id);
  await server.sh(second, 'rm /app/b && rm -r /app/sub && echo file >/app/sub && echo two >/app/a && echo new >/app/new');
  const made = await server.ask('POST', '/v1/snapshots', { sandbox: second, slug: 'whole-one' });
  assert.equal(made.status, 201, made.text);
  const look = 'cd /app && stat -c "%n %A %s %F" * | sort && sha256sum a big new sub && readlink env up';
  const seen = await server.sh(second, look);
  for (const id of [first, second]) await server.ask('DELETE', `/v1/sandboxes/${id}`);
  return { base, made, look, seen };
}

test('a snapshot goes out, away, in again and boots', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const { base, made, look, seen } = await makeSnapshot(server);
  assert.match(seen, /new/);
  const file = join(tempDir(t), 'it.tar.zst');
  const out = await server.cli('snapshot', 'export', 'whole-one', file);
  assert.deepEqual([out.code, out.stderr], [0, '']);
  // It can be checked with ordinary tools.
  const manifest = execFileSync('/bin/tar', ['--zstd', '-xOf', file, 'MANIFEST'], { encoding: 'utf8' });
  const parts = [...manifest.matchAll(/^part (\S+) (\d+) (\S+)$/gm)];
  assert.equal(parts.length, 2, manifest);
  for (const [, name, bytes, hash] of parts) {
    const part = execFileSync('/bin/tar', ['--zstd', '-xOf', file, name], { maxBuffer: 1 << 28 });
    assert.deepEqual([part.length, createHash('sha256').update(part).digest('hex')], [Number(bytes), hash]);
  }
  for (const id of [made.id, base.id]) assert.equal((await server.ask('DELETE', `/v1/snapshots/${id}`)).status, 204);
  await clean(server);
  const back = await server.cli('snapshot', 'import', '--slug', 'it-is-back', file);
  assert.equal(back.code, 0, back.stderr);
  const box = await server.box('it-is-back');
  assert.equal(await server.sh(box, look), seen);
  assert.equal(await server.sh(box, 'test -e /app/b || echo gone'), 'gone\n');
  assert.equal((await server.ask('DELETE', `/v1/snapshots/${back.stdout.trim()}`)).status, 409);
  await server.ask('DELETE', `/v1/sandboxes/${box}`);
  assert.equal((await server.ask('DELETE', '/v1/snapshots/it-is-back')).status, 204);
  assert.equal((await server.ask('GET', '/v1/snapshots/it-is-back/export')).status, 404);
  await clean(server);
});

test('an export that was damaged, cut off or changed is refused and leaves nothing', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const box = await server.box();
  await server.sh(box, 'mkdir /app && seq 1 20000 >/app/f');
  const made = await server.ask('POST', '/v1/snapshots', { sandbox: box });
  await server.ask('DELETE', `/v1/sandboxes/${box}`);
  const good = Buffer.from(await (await server.get(`/v1/snapshots/${made.id}/export`)).arrayBuffer());
  await server.ask('DELETE', `/v1/snapshots/${made.id}`);
  const flip = (at) => { const bad = Buffer.from(good); bad[at] ^= 16; return bad; };
  const other = tempDir(t);
  const repack = (edit) => {
    execFileSync('/bin/tar', ['--zstd', '-C', other, '-xf', '-'], { input: good });
    const manifest = readFileSync(join(other, 'MANIFEST'), 'latin1');
    writeFileSync(join(other, 'MANIFEST'), edit(manifest), 'latin1');
    return execFileSync('/bin/tar', ['--zstd', '-C', other, '-cf', '-', 'MANIFEST', '000.tar'], { maxBuffer: 1 << 28 });
  };
  const cases = [
    [flip(good.length >> 1), 400, /import/], [flip(good.length - 900), 400, /import/],
    [good.subarray(0, good.length >> 1), 400, /import/], [good.subarray(0, 10), 400, /import/],
    [Buffer.from('no archive at all'), 400, /import/],
    [repack((text) => text.replace(/ [0-9a-f]{64}/, ` ${'0'.repeat(64)}`)), 400, /contents differ from the manifest/],
    [repack((text) => text.replace('snapshot 1', 'snapshot 2')), 501, /version 2/],
    [repack((text) => text.replace(/000.tar \d+/, '000.tar 7')), 400, /size differs from the manifest/],
  ];
  for (const [bytes, status, says] of cases) {
    const answer = await server.send(bytes, 'form=export');
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.error.message, says);
  }
  assert.equal((await server.send(repack((text) => text), 'form=export&slug=good-one')).status, 201);
  assert.equal((await server.send(good, 'form=export&slug=good-one')).status, 409);
  assert.equal((await server.send(good, 'form=export&slug=NO')).status, 400);
  await server.ask('DELETE', '/v1/snapshots/good-one');
  await clean(server);
});

// tar headers by hand: what no honest program would write.
function entry(name, { type = '0', link = '', data = Buffer.alloc(0), size = data.length } = {}) {
  const head = Buffer.alloc(512);
  head.write(name, 0, 100, 'latin1');
  head.write('0004755\0', 100); head.write('0000000\0', 108); head.write('0000000\0', 116);
  head.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  head.write('07346545000\0', 136); head.write('        ', 148); head.write(type, 156);
  head.write(link, 157, 100, 'latin1'); head.write('ustar\x0000', 257, 'latin1');
  head.write(`${head.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, '0')}\0 `, 148);
  return Buffer.concat([head, data, Buffer.alloc((512 - data.length % 512) % 512)]);
}
const archive = (...entries) => Buffer.concat([...entries, Buffer.alloc(1024)]);

test('a tar becomes a snapshot; what a tar may not hold is refused by name', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const f = entry('app/f', { data: Buffer.from('hi\n') });
  const made = await server.send(archive(entry('app/', { type: '5' }), f, entry('app/l', { type: '2', link: 'f' })),
    'form=tar&slug=from-a-tar');
  assert.equal(made.status, 201, made.text);
  assert.equal(made.source, 'tar');
  const box = await server.box('from-a-tar');
  assert.equal(await server.sh(box, 'cat /app/l; stat -c %A /app/f'), 'hi\n-rwxr-xr-x\n'); // without set-id
  await server.ask('DELETE', `/v1/sandboxes/${box}`);
  await server.ask('DELETE', '/v1/snapshots/from-a-tar');
  const zeros = tempDir(t);
  execFileSync('/bin/sh', ['-c', `head -c 60000000 /dev/zero >${zeros}/zeros`]);
  const cases = [
    [archive(f, entry('../x')), 400, /\.\.\/x/], [archive(f, entry('/abs')), 400, /\/abs/],
    [archive(entry('dev', { type: '3' })), 400, /'dev'/], [archive(entry('pipe', { type: '6' })), 400, /'pipe'/],
    [archive(entry('h', { type: '1', link: '../../etc/passwd' })), 400, /\.\./],
    [archive(entry('l', { type: '2', link: '/etc' }), entry('l/x')), 400, /is not a directory/],
    [archive(f, f), 409, /twice/], [archive(f).subarray(0, 600), 400, /archive/],
    [archive(entry('big', { size: 8589934591 })), 413, /bytes/],
    [execFileSync('/bin/tar', ['--zstd', '-C', zeros, '-cf', '-', 'zeros'], { maxBuffer: 1 << 28 }), 413, /times its size/],
    [archive(entry('usr/bin/sh', { data: Buffer.from('x') })), null, /usr|sh/],
    [archive(entry('proc/x')), null, /proc|x/], [Buffer.alloc(0), 400, /archive|empty/],
  ];
  for (const [bytes, status, says] of cases) {
    const answer = await server.send(bytes, 'form=tar');
    if (status) assert.equal(answer.status, status, answer.text);
    assert.ok(answer.status >= 400 && answer.status < 500, answer.text);
    assert.match(answer.error.message, says);
  }
  await clean(server);
});

test('a client that goes away half-way leaves nothing', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  for (let i = 0; i < 5; i++) {
    const socket = net.connect(server.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(`POST /v1/snapshots/upload?slug=half-of-it HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n` +
      `Authorization: Bearer ${server.token}\r\nContent-Type: application/octet-stream\r\nContent-Length: 9000000\r\n\r\n`);
    socket.write(archive(entry('app/f', { data: Buffer.alloc(100000) })));
    if (i % 2) await until(async () => (await server.ask('GET', '/v1/snapshots')).snapshots.length === 1);
    socket.destroy();
    await until(async () => (await server.ask('GET', '/v1/snapshots')).snapshots.length === 0);
  }
  await clean(server);
});

test('slow uploads of one tenant leave room for others', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const { token } = await server.ask('POST', '/v1/tokens', { tenant: 'slow', scopes: ['read', 'files'] });
  const authorization = `Bearer ${token}`;
  const sockets = [];
  for (let i = 0; i < 4; i++) {
    const socket = net.connect(server.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(`POST /v1/snapshots/upload HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nAuthorization: ${authorization}\r\n` +
      'Content-Type: application/octet-stream\r\nContent-Length: 9000000\r\n\r\n');
    sockets.push(socket);
  }
  const theirs = async () => (await (await server.get('/v1/snapshots', { headers: { authorization } })).json()).snapshots;
  await until(async () => (await theirs()).length === 4);
  const one = archive(entry('app/f', { data: Buffer.from('one') }));
  const fifth = await server.get('/v1/snapshots/upload', { method: 'POST', body: one,
    headers: { authorization, 'content-type': 'application/octet-stream' } });
  assert.equal((await fifth.json()).error.code, 'busy');
  assert.equal((await server.send(one, 'slug=in-between')).status, 201);
  for (const socket of sockets) socket.destroy();
  await until(async () => (await theirs()).length === 0);
});

test('a tar goes into a directory that is there, also where a volume begins', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const volume = await server.ask('POST', '/v1/volumes', { tier: 'jail' });
  assert.equal(volume.status, 201, volume.text);
  const put = (place, path, bytes, more = '') =>
    server.ask('PUT', `/v1/${place}/tar?path=${path}${more}`, bytes, 'application/octet-stream');
  const read = async (place, path) => (await server.get(`/v1/${place}/files?path=${path}`)).text();
  const one = archive(entry('d/a', { data: Buffer.from('one') }), entry('d/kept', { data: Buffer.from('kept') }));
  const two = archive(entry('d/a', { data: Buffer.from('two') }), entry('e', { data: Buffer.from('new') }));
  for (const place of [`volumes/${volume.id}`, `sandboxes/${await server.box()}`]) {
    assert.equal((await put(place, '/workspace', one)).status, 200);
    assert.equal((await put(place, '/workspace', two)).count, 2);
    assert.deepEqual([await read(place, '/workspace/d/a'), await read(place, '/workspace/d/kept'),
      await read(place, '/workspace/e')], ['two', 'kept', 'new']);
    assert.equal((await put(place, '/workspace/d', two, '&new=true')).status, 409);
    assert.equal((await put(place, '/workspace/fresh', two, '&new=true')).status, 200);
    // What is refused changes nothing, and leaves nothing.
    assert.equal((await put(place, '/workspace', archive(entry('d/a', { data: Buffer.from('bad') }), entry('e/x')))).status, 409);
    assert.equal(await read(place, '/workspace/d/a'), 'two');
    const left = await server.ask('POST', `/v1/${place}/files/list`, { path: '/workspace' });
    assert.deepEqual(left.entries.map((each) => each.path).sort(), ['d', 'e', 'fresh']);
  }
});
