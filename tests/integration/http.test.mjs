// Malformed and ambiguous requests over a real socket: each is refused, the connection ends, and
// the request hidden behind it is never executed.
import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { connect, serve, until } from './lib.mjs';

const CASES = [
  ['length and chunked', 'POST / HTTP/1.1', 'Content-Length: 5\r\nTransfer-Encoding: chunked', '0\r\n\r\n'],
  ['chunked and length', 'POST / HTTP/1.1', 'Transfer-Encoding: chunked\r\nContent-Length: 5', '0\r\n\r\n'],
  ['two lengths', 'POST / HTTP/1.1', 'Content-Length: 0\r\nContent-Length: 5'],
  ['two equal lengths', 'POST / HTTP/1.1', 'Content-Length: 0\r\nContent-Length: 0'],
  ...['+1', '0x10', ' 1', '1,1', '18446744073709551616', '-1', '1 ', '', '1e1', '１'].map(
    (n) => [`length '${n}'`, 'POST / HTTP/1.1', `Content-Length: ${n}`]),
  ...['chunked, identity', 'xchunked', 'identity', 'gzip', ',chunked', 'chunked,', '"chunked"'].map(
    (te) => [`coding '${te}'`, 'POST / HTTP/1.1', `Transfer-Encoding: ${te}`, '0\r\n\r\n']),
  ['coding twice', 'POST / HTTP/1.1', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked', '0\r\n\r\n'],
  ['blank before the colon', 'POST / HTTP/1.1', 'Transfer-Encoding : chunked', '0\r\n\r\n'],
  ['folded coding', 'POST / HTTP/1.1', 'Transfer-Encoding:\r\n chunked', '0\r\n\r\n'],
  ['chunked in HTTP/1.0', 'POST / HTTP/1.0', 'Transfer-Encoding: chunked', '0\r\n\r\n'],
  ['folded line', 'GET /healthz HTTP/1.1', 'A: b\r\n c'],
  ['bare LF in a header', 'GET /healthz HTTP/1.1', 'A: b\nC: d'],
  ['bare CR in a header', 'GET /healthz HTTP/1.1', 'A: b\rC: d'],
  ['NUL in a value', 'GET /healthz HTTP/1.1', 'A: b\0c'],
  ['NUL in a name', 'GET /healthz HTTP/1.1', 'A\0: b'],
  ['no colon', 'GET /healthz HTTP/1.1', 'nonsense'],
  ...['0x5', ' 5', '5 ', '00000000000000005', 'ffffffffffffffff5', '5;a\nb', '5;a=b', '', 'g', '-5'].map(
    (size) => [`chunk size '${size}'`, 'POST / HTTP/1.1', 'Transfer-Encoding: chunked',
      `${size}\r\nhello\r\n0\r\n\r\n`]),
  ['chunk without CRLF', 'POST / HTTP/1.1', 'Transfer-Encoding: chunked', '5\r\nhello0\r\n\r\n'],
  ['no last chunk', 'POST / HTTP/1.1', 'Transfer-Encoding: chunked', '5\r\nhello\r\n'],
  ['trailer', 'POST / HTTP/1.1', 'Transfer-Encoding: chunked', '0\r\nA: b\r\n\r\n'],
  ['HTTP/1.2', 'GET /healthz HTTP/1.2', 'A: b'],
  ['HTTP/2.0', 'GET /healthz HTTP/2.0', 'A: b'],
  ['absolute URL', 'GET http://evil.test/healthz HTTP/1.1', 'A: b'],
  ['two blanks', 'GET  /healthz HTTP/1.1', 'A: b'],
  ['tab for blank', 'GET\t/healthz HTTP/1.1', 'A: b'],
  ['long line', `GET /${'a'.repeat(1 << 20)} HTTP/1.1`, 'A: b'],
  ['long header', 'GET /healthz HTTP/1.1', `A: ${'b'.repeat(17 << 10)}`],
  ['many headers', 'GET /healthz HTTP/1.1', Array(101).fill('A: b').join('\r\n')],
];

const STATUSES = { 'long line': 414, 'long header': 431, 'many headers': 431,
  'HTTP/1.2': 505, 'HTTP/2.0': 505, 'HTTP/2 preface': 505 };

test('nothing behind a malformed request is executed', { timeout: 600000 }, async (t) => {
  const server = await serve(t);
  const host = `Host: 127.0.0.1:${server.port}\r\n`;
  const canary = `GET /version HTTP/1.1\r\n${host}Authorization: Bearer ${server.token}\r\n\r\n`;
  const raw = CASES.map(([name, line, headers, body = '']) =>
    [name, `${line}\r\n${host}${headers}\r\n\r\n${body}`]);
  raw.push(
    ['HTTP/0.9', 'GET /healthz\r\n'],
    ['HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['bare LF after the request line', `GET /healthz HTTP/1.1\n${host}\r\n`],
    ['bare LF at the end', `GET /healthz HTTP/1.1\r\n${host}\n`],
    ['empty line first', `\r\nGET /healthz HTTP/1.1\r\n${host}\r\n`],
    ['blank before the first header', `GET /healthz HTTP/1.1\r\n ${host}\r\n`],
    ['no Host', 'GET /healthz HTTP/1.1\r\n\r\n'],
    ['two Hosts', `GET /healthz HTTP/1.1\r\n${host}${host}\r\n`],
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  );
  for (const [name, bytes] of raw) {
    const whole = Buffer.from(bytes + canary, 'latin1');
    for (const pieces of [[whole], [whole.subarray(0, bytes.length >> 1),
      whole.subarray(bytes.length >> 1)]]) {
      const client = await connect(server);
      for (const piece of pieces) {
        client.socket.write(piece);
        await new Promise(setImmediate);
      }
      await client.end;
      // A peer that still sends when we close may see a reset instead of the answer.
      if (client.text !== '' || bytes.length < 60000)
        assert.equal(client.text.slice(0, 13), `HTTP/1.1 ${STATUSES[name] ?? 400} `, name);
      assert.doesNotMatch(client.text, /"name":"sandglass"/, name);
    }
  }
  assert.equal(await server.figure(
    'sandglass_http_requests_total{method="GET",route="/version",status="200"}'), 0);
  assert.equal(await server.figure('sandglass_http_refused_total'), raw.length * 2);
  const client = await connect(server);
  client.socket.write(canary.replace('\r\n', '\r\nConnection: close\r\n'));
  await client.end;
  assert.match(client.text, /"name":"sandglass"/, 'the control works when it is sent by itself');
});

test('vanishing clients leave no descriptor behind', { timeout: 600000 }, async (t) => {
  const server = await serve(t);
  const host = `Host: 127.0.0.1:${server.port}\r\n`;
  const states = ['', 'GET /hea', `GET /healthz HTTP/1.1\r\n${host}`,
    `POST /version HTTP/1.1\r\n${host}Content-Length: 100\r\n\r\nabc`,
    `GET /healthz HTTP/1.1\r\n${host}\r\n`];
  const before = await server.descriptors();
  for (let round = 0; round < 100; round++) {
    for (const state of states) {
      const client = await connect(server);
      client.socket.write(state);
      if (round % 3 === 0) client.socket.resetAndDestroy();
      else if (round % 3 === 1) client.socket.destroy();
      else client.socket.end(() => client.socket.destroy());
      await client.end;
    }
  }
  await until(async () => (await server.figure('process_open_fds')) <= before);
});

test('liveness needs no token and no particular Host; everything else needs both', async (t) => {
  const server = await serve(t);
  const ask = (path, host) => new Promise((done, failed) => {
    http.get({ host: '127.0.0.1', port: server.port, path, headers: host ? { host } : {} }, (answer) => {
      answer.resume();
      answer.on('end', () => done(answer.statusCode));
    }).on('error', failed);
  });
  assert.deepEqual([await ask('/healthz'), await ask('/healthz', '10.1.2.3:7070'), await ask('/healthz', 'probe.internal')], [200, 200, 200]);
  assert.deepEqual([await ask('/readyz'), await ask('/readyz', '10.1.2.3:7070'), await ask('/v1/sandboxes', 'probe.internal')], [401, 421, 421]);
});
