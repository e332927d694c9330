// A little Internet of a test's own: a certificate authority, TLS servers on loopback that write
// down what they get, and a name server.
import { execFileSync } from 'node:child_process';
import dgram from 'node:dgram';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { join } from 'node:path';

export const OPENSSL = ['/usr/bin/openssl', '/usr/local/bin/openssl'].find((file) => existsSync(file));

const openssl = (...args) => execFileSync(OPENSSL, args, { stdio: ['ignore', 'pipe', 'pipe'] });

// Files of an authority and of a certificate for these names and for 127.0.0.1.
export function makeCerts(dir, names) {
  const at = (name) => join(dir, name);
  openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
    '-subj', '/CN=test root', '-keyout', at('ca.key'), '-out', at('ca.pem'));
  openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj', '/CN=test',
    '-keyout', at('server.key'), '-out', at('server.csr'));
  writeFileSync(at('server.ext'), `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')},IP:127.0.0.1\n`);
  openssl('x509', '-req', '-in', at('server.csr'), '-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial',
    '-days', '2', '-extfile', at('server.ext'), '-out', at('server.pem'));
  return { ca: at('ca.pem'), cert: readFileSync(at('server.pem')), key: readFileSync(at('server.key')) };
}

// A server whose requests are kept in `seen`, each with everything that was received of it.
export async function server(t, answer, certs) {
  const seen = [];
  const on = (request, response) => {
    const chunks = [];
    request.on('data', (data) => chunks.push(data));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString('latin1');
      const url = new URL(request.url, 'https://host');
      const got = { method: request.method, url: request.url, path: url.pathname, query: url.searchParams,
        headers: request.headers, body, trailers: request.trailers,
        text: [request.method, request.url, ...request.rawHeaders, body, ...request.rawTrailers].join('\n') };
      seen.push(got);
      answer(got, response);
    });
  };
  const made = certs ? https.createServer(certs, on) : http.createServer(on);
  made.listen(0, '127.0.0.1');
  await once(made, 'listening');
  t.after(() => { made.closeAllConnections(); made.close(); });
  return { seen, port: made.address().port, server: made };
}

// "fe80::1" and "10.0.0.1" as the bytes of a record.
function addressBytes(address) {
  if (!address.includes(':')) return address.split('.').map(Number);
  const [before, after = ''] = address.split('::').map((part) => part.split(':').filter((word) => word !== ''));
  const words = address.includes('::') ? [...before, ...Array(8 - before.length - after.length).fill('0'), ...after] : before;
  return words.flatMap((word) => [parseInt(word, 16) >> 8, parseInt(word, 16) & 255]);
}

// Answers A and AAAA queries from the table (an address, a list of them, or a function that gives
// either at each query); `asked` has the names.
export async function nameServer(t, table) {
  const socket = dgram.createSocket('udp4'), asked = [];
  socket.on('message', (query, from) => {
    let at = 12;
    const labels = [];
    for (; query[at] > 0; at += query[at] + 1) labels.push(query.toString('latin1', at + 1, at + 1 + query[at]));
    const name = labels.join('.').toLowerCase(), type = query.readUInt16BE(at + 1), entry = table[name];
    asked.push(name);
    const head = Buffer.from(query.subarray(0, at + 5));
    const records = [typeof entry === 'function' ? entry(type) : entry].flat()
      .filter((address) => address !== undefined && type === (address.includes(':') ? 28 : 1))
      .map((address) => {
        const bytes = addressBytes(address);
        return Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 1, 0, bytes.length, ...bytes]);
      });
    head.writeUInt16BE(entry === undefined ? 0x8183 : 0x8180, 2);
    head.writeUInt16BE(records.length, 6);
    head.writeUInt16BE(0, 8);
    head.writeUInt16BE(0, 10);
    socket.send(Buffer.concat([head, ...records]), from.port, from.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  t.after(() => socket.close());
  return { asked, address: `127.0.0.1:${socket.address().port}` };
}

// The spellings under which a value must not be found.
export function spellings(value) {
  const base64 = Buffer.from(value).toString('base64').replace(/=+$/, '');
  const inside = (before) => Buffer.from(before + value).toString('base64').slice(4, -4);
  return [value, base64, inside('a:'), inside('ab:'), inside('abc:'), Buffer.from(value).toString('hex'),
    encodeURIComponent(value), [...value].reverse().join('')];
}
