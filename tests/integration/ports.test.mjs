// Servers in a sandbox, reached from outside: by path and by host name, HTTP and WebSocket.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import test from 'node:test';
import { connect, isSanitized, run, serve, sleep, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };
const DOMAIN = 'box.test';
const INSIDE = new URL('ports_inside.mjs', import.meta.url);

async function setup(t, lines = []) {
  if (!existsSync('/usr/bin/node')) {
    t.skip('no /usr/bin/node to serve with inside');
    return null;
  }
  const dir = tempDir(t), config = join(dir, 'config.toml');
  writeFileSync(config, ['[server]', `domain = "${DOMAIN}"`, ...lines].join('\n'));
  const server = await serve(t, { dir: join(dir, 'data'), args: ['--config', config] });
  server.call = async (method, path, body, headers = {}) => {
    const answer = await server.get(path, { method, headers: { 'content-type': 'application/json', ...headers },
      body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, text,
      ...(text.startsWith('{') ? { json: JSON.parse(text) } : {}) };
  };
  const made = await server.call('POST', '/v1/sandboxes', { tier: 'jail', limits: { memoryMb: 512 } });
  if (made.status !== 201) {
    t.skip(`no jails here: ${made.text}`);
    return null;
  }
  server.id = made.json.id;
  server.box = `/v1/sandboxes/${server.id}`;
  server.env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  await server.get(`${server.box}/files?path=/workspace/inside.mjs`, { method: 'PUT', body: readFileSync(INSIDE) });
  const started = await server.call('POST', `${server.box}/commands`,
    { argv: ['/usr/bin/node', '/workspace/inside.mjs'], detached: true, timeoutMs: 0 });
  server.command = started.json.id;
  server.inside = async () => (await server.get(`/v1/commands/${server.command}/output`)).text();
  await until(async () => (await server.inside()).includes('ready'));
  return server;
}

// One server and one sandbox for all of them, in this order.
const scenes = [];
const scene = (name, play) => scenes.push([name, play]);

// fetch chooses its own Host; this does not.
function ask(server, { host, path = '/', method = 'GET', headers = {}, body, agent } = {}) {
  return new Promise((done, failed) => {
    const request = http.request({ host: '127.0.0.1', port: server.port, path, method, agent,
      headers: { ...(host ? { host } : {}), ...headers } }, (response) => {
      const pieces = [];
      response.on('data', (data) => pieces.push(data));
      response.on('error', failed);
      response.on('end', () => done({ status: response.statusCode, headers: response.headers,
        text: Buffer.concat(pieces).toString(), response }));
    });
    request.on('error', failed);
    request.end(body);
  });
}

scene('by path, with the token of the API', async (server, t) => {
  const at = `${server.box}/ports/8000`;
  const auth = { authorization: `Bearer ${server.token}` };
  const seen = await ask(server, { path: `${at}/some/%2e%2e/path?q=1&sandglass_token=x&r=`, headers: { ...auth, cookie: 'sid=7',
    'x-forwarded-for': '6.6.6.6', 'x-app': 'mine', connection: 'keep-alive, x-hop', 'x-hop': '1', 'x-request-id': 'req-1' } });
  assert.equal(seen.status, 200);
  const { method, url, headers } = JSON.parse(seen.text);
  assert.deepEqual([method, url, headers.host, headers['x-app']], ['GET', '/some/%2e%2e/path?q=1&r=', 'localhost:8000', 'mine']);
  assert.equal(headers['x-forwarded-for'], '127.0.0.1');
  assert.equal(headers['x-forwarded-host'], `127.0.0.1:${server.port}`);
  assert.equal(headers['x-forwarded-proto'], 'http');
  assert.equal(headers['x-forwarded-prefix'], at);
  assert.equal(headers['x-request-id'], 'req-1');
  assert.ok(!seen.text.includes(server.token), 'the token stays outside');
  assert.deepEqual([headers.authorization, headers['x-hop']], [undefined, undefined]);
  assert.equal(headers.cookie, undefined, 'cookies of the shared origin stay outside');
  // The page belongs to no origin, and what is about the connection or the origin is dropped.
  assert.equal(seen.headers['x-own'], 'yes');
  assert.match(seen.headers['content-security-policy'], /^sandbox (?!.*same-origin)/);
  for (const name of ['x-secret', 'keep-alive', 'clear-site-data', 'set-cookie'])
    if (name !== 'keep-alive' || seen.headers[name]?.includes('9')) assert.equal(seen.headers[name], undefined, name);
  const moved = await ask(server, { path: `${at}/go?to=/login`, headers: auth });
  assert.deepEqual([moved.status, moved.headers.location, moved.headers['set-cookie']], [302, `${at}/login`, undefined]);
  const far = await ask(server, { path: `${at}/go?to=//evil.test/x`, headers: { authorization: `Bearer ${server.token}` } });
  assert.equal(far.headers.location, '//evil.test/x');
  const head = await ask(server, { path: `${at}/x`, method: 'HEAD', headers: { authorization: `Bearer ${server.token}` } });
  assert.deepEqual([head.status, head.text], [200, '']);
  assert.equal((await server.call('DELETE', `${at}/none`)).status, 204);
  assert.equal((await server.call('GET', `${server.box}/ports/8002/x`)).text, 'six /x');
});

scene('hostile answers harm nobody', async (server, t) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const say = (text) => ask(server, { agent, path: `${server.box}/ports/8001/${Buffer.from(text, 'latin1').toString('base64url')}`,
    headers: { authorization: `Bearer ${server.token}` } });
  const bad = [
    'nonsense', '', 'HTTP/1.1 200 OK\n\nbody', 'HTTP/2 200\r\n\r\n', 'HTTP/1.1 2x0 OK\r\n\r\n', 'HTTP/1.1 999 x\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc',
    'HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc', 'HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc',
    'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n', 'HTTP/1.1 200 OK\r\nX : y\r\n\r\n',
    'HTTP/1.1 200 OK\r\n folded: y\r\n\r\n', 'HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n', 'HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n', `HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(101)}\r\n`,
    'HTTP/1.1 100 Continue\r\n\r\n'.repeat(20),
  ];
  for (const text of bad) {
    const got = await say(text);
    assert.equal(got.status, 502, JSON.stringify(text));
    assert.equal(JSON.parse(got.text).error.code, 'bad_answer');
  }
  // What follows an answer is not taken for the next one on the client's connection.
  const two = await say('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Own: 1\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil');
  assert.deepEqual([two.status, two.text, two.headers['x-own']], [200, 'ok', '1']);
  const next = await say('HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.0 201 Made\r\n\r\nto the end');
  assert.deepEqual([next.status, next.text], [201, 'to the end']);
  const chunks = await say('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\nTrail: er\r\n\r\n');
  assert.deepEqual([chunks.status, chunks.text], [200, 'abcde']);
  assert.equal((await say('HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n')).status, 304);
  // An answer that breaks off is seen to break off.
  for (const half of ['HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n0\r\n\r\n'])
    await assert.rejects(say(half), JSON.stringify(half));
  assert.equal((await server.get('/healthz')).status, 200);
});

scene('bytes stream both ways and memory stays flat', async (server, t) => {
  const at = `${server.url}${server.box}/ports/8000`, auth = { authorization: `Bearer ${server.token}` };
  const piece = randomBytes(1 << 20), pieces = 48;
  const hash = createHash('sha256');
  const upload = () => new ReadableStream({ start() { this.n = 0; },
    pull(c) { if (this.n++ < pieces) c.enqueue(piece); else c.close(); } });
  for (let i = 0; i < pieces; i++) hash.update(piece);
  const want = hash.digest('hex');
  const rss = () => server.figure('process_resident_memory_bytes');
  const before = await rss();
  // Without a length it goes on in chunks, with one as it is.
  let sum = await (await fetch(`${at}/sum`, { method: 'POST', headers: auth, body: upload(), duplex: 'half' })).json();
  assert.deepEqual(sum, { bytes: pieces << 20, sum: want, te: 'chunked' });
  sum = await (await fetch(`${at}/sum`, { method: 'PUT', headers: auth, body: piece })).json();
  assert.deepEqual([sum.bytes, sum.te], [1 << 20, undefined]);
  // In many small chunks, of which several come at once.
  const drops = http.request(`${at}/sum`, { method: 'POST', headers: auth });
  const dropped = new Promise((done, failed) => drops.on('error', failed).on('response', (res) => done(res)));
  for (let i = 0; i < 2000; i++) if (!drops.write(piece.subarray(0, 5000))) await new Promise((done) => drops.once('drain', done));
  drops.end();
  sum = '';
  for await (const data of await dropped) sum += data;
  assert.equal(JSON.parse(sum).bytes, 2000 * 5000);
  // Down, to a reader that takes its time at first.
  const answer = await fetch(`${at}/big?bytes=${64 << 20}`, { headers: auth });
  await sleep(300);
  let got = 0;
  for await (const data of answer.body) got += data.length;
  assert.equal(got, 64 << 20);
  // An answer that begins long before the request ends is kept, up to 1 MiB.
  const echo = http.request(`${at}/echo`, { method: 'POST', headers: auth });
  let back = 0;
  const ended = new Promise((done, failed) => echo.on('error', failed).on('response', (res) => {
    assert.equal(res.headers['x-early'], 'yes');
    res.on('data', (data) => (back += data.length)).on('end', done).on('error', failed);
  }));
  for (let i = 0; i < 16; i++) if (!echo.write(piece.subarray(0, 32 << 10))) await new Promise((done) => echo.once('drain', done));
  echo.end();
  await ended;
  assert.equal(back, 512 << 10);
  const long = await fetch(`${at}/echo`, { method: 'POST', headers: auth, duplex: 'half', body: upload() }).catch(() => null);
  assert.ok(long === null || long.status === 502, `${long?.status}`);
  assert.ok(isSanitized || (await rss()) - before < 24 << 20, `grew from ${before} to ${await rss()}`);
  // One that does not wait for the body is heard when the client is done sending.
  const early = await fetch(`${at}/early`, { method: 'POST', headers: auth, body: piece });
  assert.equal(early.status, 413);
});

scene('who leaves is noticed inside', async (server, t) => {
  const leave = async (path, word) => {
    const abort = new AbortController();
    const answer = server.get(`${server.box}/ports/8000${path}`, { signal: abort.signal });
    if (word === 'closed') await (await answer).body.getReader().read();
    else { answer.catch(() => {}); await until(async () => (await server.inside()).includes('hanging')); }
    abort.abort();
    await until(async () => (await server.inside()).includes(word));
  };
  await leave('/ticks', 'closed');
  await leave('/hang', 'hang closed');
});

scene('WebSockets, by path and by host name', async (server, t) => {
  const descriptors = await server.descriptors();
  await server.call('PUT', `${server.box}/ports/8000`, { public: true });
  const host = `8000-${server.id}.${DOMAIN}`;
  const open = async (path, name, auth) => {
    const raw = await connect(server);
    raw.socket.write(`GET ${path} HTTP/1.1\r\nHost: ${name}\r\n${auth}Connection: Upgrade\r\nUpgrade: websocket\r\n` +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nfirst;');
    await until(() => raw.text.includes('first;'));
    assert.match(raw.text, /^HTTP\/1.1 101 [^]*Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/i);
    return raw;
  };
  const byPath = await open(`${server.box}/ports/8000/ws?x=1`, `127.0.0.1:${server.port}`, `Authorization: Bearer ${server.token}\r\n`);
  const byHost = await open('/ws?x=1', host, '');
  for (const raw of [byPath, byHost]) {
    assert.ok(raw.text.includes('hello /ws?x=1;'), raw.text);
    const start = raw.text.length, size = 8 << 20;
    raw.socket.write(Buffer.alloc(size, 'y'));
    await until(() => raw.text.length >= start + size);
    raw.socket.end();
    await raw.end;
  }
  // A request that asks for no upgrade is an ordinary one, and so is what a server does not take up.
  const plain = await ask(server, { host, path: '/x', headers: { upgrade: 'h2c', connection: 'upgrade' } });
  assert.equal(JSON.parse(plain.text).headers.upgrade, undefined);
  // Nothing of it stays; the client's own idle connections may.
  for (let n = 0; n < 20; n++) (await open('/ws?x=1', host, '')).socket.destroy();
  await until(async () => (await server.descriptors()) <= descriptors + 4);
  await server.call('DELETE', `${server.box}/ports/8000`);
});

scene('by host name: public, with a token, or not at all', async (server, t) => {
  const port = `${server.box}/ports/8000`, host = `8000-${server.id}.${DOMAIN}`;
  const auth = { authorization: `Bearer ${server.token}` };
  assert.equal((await ask(server, { host })).status, 401);
  assert.equal((await ask(server, { host: `8000-${server.id}.evil.test` })).status, 421);
  assert.equal((await ask(server, { host, headers: auth })).status, 200, 'the tenant is always let in');
  assert.equal((await server.call('GET', port)).status, 404);
  const exposed = await server.call('PUT', port, { public: false });
  assert.equal(exposed.json.url, `http://${host}:${server.port}/`);
  assert.equal((await ask(server, { host })).status, 401);
  const made = await server.call('POST', port, { seconds: 3600 });
  assert.equal(made.status, 201);
  const token = made.json.token;
  // A program sends it in a header, which goes no further; the application's own key does.
  const seen = await ask(server, { host: host.toUpperCase(), path: '/a?b', headers: {
    'x-sandglass-port-token': token, authorization: 'Bearer of-the-application', cookie: 'sandglass_port=z; own=1' } });
  const { headers, url } = JSON.parse(seen.text);
  assert.deepEqual([url, headers.host, headers.authorization, headers.cookie, headers['x-sandglass-port-token']],
    ['/a?b', host.toUpperCase(), 'Bearer of-the-application', 'own=1', undefined]);
  assert.equal(seen.headers['content-security-policy'], undefined);
  const revoked = await ask(server, { host, headers: { 'x-sandglass-port-token': token, authorization: `Bearer ${'a'.repeat(52)}` } });
  assert.equal(JSON.parse(revoked.text).headers.authorization, undefined, 'what looks like a token of ours stays');
  // A browser trades the address for a cookie.
  const open = new URL(made.json.openUrl);
  const first = await ask(server, { host, path: `${open.pathname}x?k=v&${open.search.slice(1)}`, headers: { accept: 'text/html,*/*' } });
  assert.deepEqual([first.status, first.headers.location], [303, '/x?k=v']);
  for (const away of ['//evil.test/', '/\\evil.test/']) {
    const kept = await ask(server, { host, path: `${away}?${open.search.slice(1)}`, headers: { accept: 'text/html' } });
    assert.deepEqual([kept.status, kept.headers.location], [303, '/'], 'a browser stays on this host');
  }
  const [cookie] = first.headers['set-cookie'][0].split(';');
  assert.match(first.headers['set-cookie'][0], /HttpOnly; SameSite=Lax$/);
  const with_ = (more) => ask(server, { host, headers: { cookie: `a=b; ${cookie}`, ...more } });
  assert.equal((await with_({})).status, 200);
  assert.equal(JSON.parse((await with_({})).text).headers.cookie, 'a=b');
  assert.equal((await with_({ origin: `http://${host}` })).status, 200);
  // Another sandbox's page is of the same site: its requests carry the cookie, which does not count.
  assert.equal((await with_({ origin: `http://8000-${'b'.repeat(26)}.${DOMAIN}` })).status, 401);
  assert.equal((await with_({ origin: 'null' })).status, 401);
  assert.equal((await with_({ 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' })).status, 401);
  assert.equal((await with_({ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' })).status, 200);
  // Cookies for the whole domain become cookies of this host.
  const moved = await ask(server, { host, path: '/go?to=/y', headers: auth });
  assert.deepEqual([moved.headers.location, moved.headers['set-cookie']], ['/y', ['a=1; Path=/', 'b=2']]);
  // One port's token is not another's, and hiding ends it.
  assert.equal((await ask(server, { host: `8002-${server.id}.${DOMAIN}`, headers: { 'x-sandglass-port-token': token } })).status, 401);
  await server.call('DELETE', port);
  assert.equal((await ask(server, { host, headers: { 'x-sandglass-port-token': token } })).status, 401);
  await server.call('PUT', port, { public: true });
  assert.equal((await ask(server, { host, headers: { origin: 'http://anywhere.test' } })).status, 200);
  assert.equal((await fetch(`${server.url}${port}/`)).status, 200, 'public by path, too');
  assert.deepEqual((await server.call('GET', `${server.box}/ports`)).json.ports.map((each) => [each.port, each.public]), [[8000, true]]);
  for (let n = 1; n < 32; n++) assert.equal((await server.call('PUT', `${server.box}/ports/${n}`, {})).status, 200);
  assert.equal((await server.call('PUT', `${server.box}/ports/99`, {})).status, 429);
  // A page of the API's own address may not be a sandbox's.
  assert.equal((await ask(server, { path: `${port}/`, headers: { ...auth, origin: 'http://evil.test' } })).status, 403);
});

scene('what does not work says why', async (server, t) => {
  const code = async (path) => { const got = await server.call('GET', path); return [got.status, got.json?.error.code]; };
  const nobody = await server.call('GET', `${server.box}/ports/9/`);
  assert.deepEqual([nobody.status, nobody.json.error.code], [502, 'no_listener']);
  assert.match(nobody.json.error.message, /port 9/);
  assert.deepEqual(await code(`${server.box}/ports/0/`), [400, 'invalid']);
  assert.deepEqual(await code(`${server.box}/ports/65536/`), [400, 'invalid']);
  assert.deepEqual(await code('/v1/sandboxes/aaaaaaaaaaaaaaaaaaaaaaaaaa/ports/80/'), [404, 'not_found']);
  const memory = (await server.call('POST', '/v1/sandboxes', { tier: 'memory' })).json.id;
  assert.deepEqual(await code(`/v1/sandboxes/${memory}/ports/80/`), [501, 'unsupported']);
  await server.call('DELETE', `${server.box}/ports/8000`);
  // Without a token nobody learns whether the sandbox is there.
  const stranger = async (id) => {
    const got = await fetch(`${server.url}/v1/sandboxes/${id}/ports/8000/`);
    return [got.status, (await got.json()).error.code];
  };
  assert.deepEqual(await stranger(server.id), await stranger('aaaaaaaaaaaaaaaaaaaaaaaaaa'));
  assert.equal((await stranger(server.id))[0], 401);
  // A paused sandbox is resumed.
  await server.call('POST', `${server.box}/pause`);
  assert.equal((await server.call('GET', `${server.box}/ports/8002/`)).text, 'six /');
  await server.call('POST', `${server.box}/stop`);
  assert.deepEqual(await code(`${server.box}/ports/8000/`), [410, 'gone']);
});

test('servers in a sandbox', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  for (const [name, play] of scenes) await t.test(name, (sub) => play(server, sub));
});
