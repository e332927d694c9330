// The tier that runs nothing: files over maps, for tests and dry runs; what it cannot do it says.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import http from 'node:http';
import { once } from 'node:events';
import test from 'node:test';
import { serve, until } from './lib.mjs';

const T = { timeout: 600000 };

async function open(t, path = '/v1/sandboxes', body = { tier: 'memory' }) {
  const server = await serve(t);
  server.post = (where, what) => server.get(where, { method: 'POST', body: JSON.stringify(what),
    headers: { 'content-type': 'application/json' } });
  const made = await server.post(path, body);
  assert.equal(made.status, 201);
  server.base = `${path}/${(await made.json()).id}`;
  server.file = (name, options) => server.get(`${server.base}/files?path=/workspace/${name}`, options);
  return server;
}

test('contents go in and come out, in ranges, and only over what was seen', T, async (t) => {
  const server = await open(t);
  const bytes = randomBytes(3_000_000);
  const put = await server.file('big.bin', { method: 'PUT', body: bytes });
  assert.equal(put.status, 201);
  const { file } = await put.json();
  assert.equal(file.size, bytes.length);
  const got = await server.file('big.bin');
  assert.equal(got.status, 200);
  assert.ok(bytes.equals(Buffer.from(await got.arrayBuffer())));
  const part = await server.file('big.bin', { headers: { range: 'bytes=1000000-1999999' } });
  assert.equal(part.status, 206);
  assert.ok(bytes.subarray(1_000_000, 2_000_000).equals(Buffer.from(await part.arrayBuffer())));
  const stale = await server.file('big.bin', { method: 'PUT', body: 'x', headers: { 'if-match': '"1-1"' } });
  assert.equal((await stale.json()).error.code, 'no_match');
  assert.equal((await server.file('empty', { method: 'PUT', body: '' })).status, 201);
  assert.equal(await (await server.file('empty')).text(), '');
  assert.equal((await server.file('none')).status, 404);
  assert.equal((await server.get(`${server.base}/files?path=/workspace`)).status, 400);
});

test('a volume takes what fits and keeps it', T, async (t) => {
  const server = await open(t, '/v1/volumes', { tier: 'memory', capacityMb: 1 });
  const whole = await server.file('a', { method: 'PUT', body: 'kept' });
  assert.equal(whole.status, 201);
  const over = await server.file('b', { method: 'PUT', body: Buffer.alloc(2 << 20) });
  assert.equal((await over.json()).error.code, 'no_space');
  assert.equal(await (await server.file('a')).text(), 'kept');
  assert.equal((await server.file('b')).status, 404);
});

test('an upload to a sandbox that ends gets an error', T, async (t) => {
  const server = await open(t);
  const upload = http.request(`${server.url}${server.base}/files?path=/workspace/half`, { method: 'PUT',
    headers: { authorization: `Bearer ${server.token}`, 'content-length': 1 << 20 } });
  const answered = once(upload, 'response');
  upload.on('error', () => {});
  upload.write(Buffer.alloc(1 << 16));
  await until(async () => (await server.figure('sandglass_engine_waiting')) > 0);
  assert.equal((await server.get(server.base, { method: 'DELETE' })).status, 204);
  const [answer] = await answered;
  assert.equal(answer.statusCode, 410);
  answer.resume();
  upload.destroy();
});

test('what it cannot do is refused by code, with a word about it', T, async (t) => {
  const server = await open(t);
  await server.file('a.txt', { method: 'PUT', body: 'one\n' });
  for (const [answer, words] of [
    [server.post(`${server.base}/files/grep`, { path: '/workspace', pattern: 'o.e' }), /cannot grep/],
    [server.get(`${server.base}/tar?path=/workspace`), /no archives/],
    [server.get(`${server.base}/tar?path=/workspace/in`, { method: 'PUT', body: 'x' }), /no archives/],
    [server.post(`${server.base}/commands`, { argv: ['true'] }), /cannot/],
    [server.post(`${server.base}/run_code`, { code: '1' }), /cannot/],
  ]) {
    const { status } = await answer, { error } = await (await answer).json();
    assert.deepEqual([status, error.code], [501, 'unsupported'], error.message);
    assert.match(error.message, words);
  }
});

test('a volume can be deleted right after its files were worked with', T, async (t) => {
  const server = await open(t);
  for (const tier of ['memory', 'jail']) {
    for (let n = 0; n < 5; n++) {
      const made = await server.post('/v1/volumes', { tier, capacityMb: 20 });
      if (made.status !== 201) break; // no jails here
      const at = `/v1/volumes/${(await made.json()).id}`, file = `${at}/files?path=/workspace/f`;
      assert.equal((await server.get(file, { method: 'PUT', body: Buffer.alloc(3 << 20) })).status, 201);
      const both = await Promise.all([server.get(file), server.post(`${at}/files/list`, { path: '/workspace' })]);
      assert.deepEqual(both.map((answer) => answer.status), [200, 200]);
      assert.equal((await both[0].arrayBuffer()).byteLength, 3 << 20);
      const gone = await server.get(at, { method: 'DELETE' });
      assert.equal(gone.status, 204, await gone.text());
      assert.equal((await server.get(at)).status, 404);
    }
  }
});
