// TLS on the same port, on a port of its own, and a Unix socket beside them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { join } from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import { run, serve, sleep, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };

function certificate(t) {
  const dir = tempDir(t);
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
    '-keyout', 'key.pem', '-out', 'cert.pem', '-days', '2', '-subj', '/CN=localhost',
    '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'], { cwd: dir, stdio: 'ignore' });
  chmodSync(join(dir, 'key.pem'), 0o600);
  return dir;
}

function config(t, lines) {
  const file = join(tempDir(t), 'config.toml');
  writeFileSync(file, `[server]\n${lines.join('\n')}\n`);
  return file;
}

// One request; gives { status, body }.
function ask(client, options) {
  return new Promise((done, failed) => {
    const request = client.request(options, (answer) => {
      let body = '';
      answer.on('data', (data) => (body += data));
      answer.on('end', () => done({ status: answer.statusCode, body }));
    });
    request.on('error', failed);
    request.end(options.body);
  });
}

test('the first byte decides between TLS and plain HTTP', T, async (t) => {
  const dir = certificate(t);
  const file = config(t, [`tls_cert = "${dir}/cert.pem"`, `tls_key = "${dir}/key.pem"`]);
  const server = await serve(t, { args: ['--config', file] });
  assert.match(server.stdout, /is ready at https:\/\//);
  const at = { host: '127.0.0.1', port: server.port, rejectUnauthorized: false,
    headers: { authorization: `Bearer ${server.token}` } };
  assert.equal((await ask(https, { ...at, path: '/version' })).status, 200);
  assert.equal((await ask(http, { ...at, path: '/version' })).status, 200);
  const agent = new https.Agent({ keepAlive: true });
  for (let i = 0; i < 20; i++)
    assert.equal((await ask(https, { ...at, agent, path: '/metrics' })).status, 200);
  agent.destroy();
  // The judge stands behind TLS too.
  const answer = await new Promise((done) => {
    let text = '';
    const socket = tls.connect({ ...at, servername: 'localhost' }, () =>
      socket.write(`GET  /healthz HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n\r\n`));
    socket.on('data', (data) => (text += data));
    socket.on('close', () => done(text));
    socket.on('error', () => {});
  });
  assert.match(answer, /^HTTP\/1\.1 400 /);
  // Old protocols are refused, and so is what is neither.
  await assert.rejects(ask(https, { ...at, path: '/healthz', minVersion: 'TLSv1', maxVersion: 'TLSv1.1' }));
  const junk = net.connect(server.port, '127.0.0.1');
  junk.on('error', () => {});
  junk.resume();
  junk.end(Buffer.concat([Buffer.from([0x16, 3, 1]), Buffer.alloc(200, 0x41)]));
  await new Promise((done) => junk.on('close', done));
  assert.equal((await ask(https, { ...at, path: '/healthz' })).status, 200);
});

test('TLS leaves nothing behind and drains', T, async (t) => {
  const dir = certificate(t);
  const file = config(t, [`tls_cert = "${dir}/cert.pem"`, `tls_key = "${dir}/key.pem"`]);
  const server = await serve(t, { args: ['--config', file] });
  const before = await server.descriptors();
  for (let i = 0; i < 30; i++) {
    const socket = i % 2 ? net.connect(server.port, '127.0.0.1')
      : tls.connect({ port: server.port, host: '127.0.0.1', rejectUnauthorized: false });
    socket.on('error', () => {});
    await new Promise((done) => socket.on('connect', done));
    if (i % 3 === 0) socket.write('GET /');
    await sleep(5);
    socket.destroy();
  }
  await until(async () => (await server.figure('process_open_fds')) <= before + 1);
  server.child.kill('SIGTERM');
  assert.deepEqual(await server.exit, { code: 0, signal: null });
});

// Below the ports that the kernel gives to those who ask for any.
async function freePort() {
  for (;;) {
    const port = 10000 + Math.floor(Math.random() * 20000);
    const taken = net.createServer().listen(port, '127.0.0.1');
    const isFree = await Promise.race([once(taken, 'listening').then(() => true), new Promise((done) => taken.on('error', () => done(false)))]);
    await new Promise((done) => taken.close(done));
    if (isFree) return port;
  }
}

test('a port only for TLS, and a Unix socket beside', T, async (t) => {
  const dir = certificate(t);
  const socket = join(tempDir(t), 'sandglass.sock'), port = await freePort();
  const file = config(t, [`tls_cert = "${dir}/cert.pem"`, `tls_key = "${dir}/key.pem"`,
    `tls_listen = "127.0.0.1:${port}"`, `unix_socket = "${socket}"`]);
  const server = await serve(t, { args: ['--config', file] });
  const at = { host: '127.0.0.1', rejectUnauthorized: false };
  assert.equal((await ask(http, { ...at, port: server.port, path: '/healthz' })).status, 200);
  assert.equal((await ask(https, { ...at, port, path: '/healthz' })).status, 200);
  await assert.rejects(ask(http, { ...at, port, path: '/healthz' }));
  await assert.rejects(ask(https, { ...at, port: server.port, path: '/healthz' }));
  assert.equal((await ask(http, { socketPath: socket, path: '/healthz', headers: { host: 'localhost' } })).status, 200);
  server.child.kill('SIGTERM');
  await server.exit;
  assert.ok(!existsSync(socket));
});

test('wrong keys are distinguished', T, async (t) => {
  const dir = certificate(t), other = certificate(t);
  const start = (lines) => run(['serve', '--listen', '127.0.0.1:0', '--data-dir', join(tempDir(t), 'd'),
    '--config', config(t, lines)]);
  const half = await start([`tls_cert = "${dir}/cert.pem"`]);
  assert.match(half.stderr, /TLS needs both server\.tls_cert and server\.tls_key/);
  const foreign = await start([`tls_cert = "${dir}/cert.pem"`, `tls_key = "${other}/key.pem"`]);
  assert.match(foreign.stderr, /TLS key '.*key\.pem'/);
  chmodSync(join(dir, 'key.pem'), 0o644);
  const open = await start([`tls_cert = "${dir}/cert.pem"`, `tls_key = "${dir}/key.pem"`]);
  assert.match(open.stderr, /accessible to others; run chmod 600/);
  assert.notEqual(open.code, 0);
});

test('pages of other origins are served only where configured', T, async (t) => {
  const file = config(t, ['cors_origins = ["https://app.example.com"]']);
  const server = await serve(t, { args: ['--config', file] });
  const from = (origin, extra = {}) => server.get('/version', { headers: { origin }, ...extra });
  const good = await from('https://app.example.com');
  assert.equal(good.status, 200);
  assert.equal(good.headers.get('access-control-allow-origin'), 'https://app.example.com');
  assert.equal((await from('https://evil.example.com')).status, 403);
  const preflight = await fetch(`${server.url}/version`, { method: 'OPTIONS', headers: {
    origin: 'https://app.example.com', 'access-control-request-method': 'POST' } });
  assert.equal(preflight.status, 204);
  assert.match(preflight.headers.get('access-control-allow-headers'), /Authorization/);
  const plain = await serve(t);
  for (const [name] of (await plain.get('/version')).headers) assert.doesNotMatch(name, /^access-control/);
});

test('--name wants a name', T, async (t) => {
  const bad = await run(['serve', '--listen', '127.0.0.1:0', '--data-dir', join(tempDir(t), 'd'), '--name', 'a b']);
  assert.equal(bad.code, 2);
  assert.match(bad.stderr, /--name must be a host like box\.example\.com, got 'a b'/);
});

test('the command line trusts a private authority when it is named, and tells TLS errors as such', T, async (t) => {
  const dir = certificate(t), other = certificate(t);
  const file = config(t, [`tls_cert = "${dir}/cert.pem"`, `tls_key = "${dir}/key.pem"`]);
  const server = await serve(t, { args: ['--config', file] });
  const env = { ...process.env, SANDGLASS_URL: `https://127.0.0.1:${server.port}`, SANDGLASS_TOKEN: server.token };
  delete env.SSL_CERT_FILE;
  const list = (args = [], more = {}) => run(['sandbox', 'ls', '--json', ...args], { env: { ...env, ...more } });
  assert.equal((await list(['--cacert', `${dir}/cert.pem`])).code, 0);
  assert.equal((await list([], { SSL_CERT_FILE: `${dir}/cert.pem` })).code, 0);
  for (const refused of [await list(), await list(['--cacert', `${other}/cert.pem`])]) {
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /^sandglass: TLS to https:\/\/127\.0\.0\.1:\d+ failed: .*certificate.*; .*--cacert FILE or SSL_CERT_FILE\n$/);
  }
  assert.match((await list(['--cacert', '/nope.pem'])).stderr, /^sandglass: TLS to .* failed: .*\/nope\.pem/);
});
