// Runs inside a jail: tries each target of a list through each channel of the gateway, with only
// sockets, and prints one JSON object { channel: { target: "allow" | "block" } }.
import dgram from 'node:dgram';
import { readFileSync } from 'node:fs';
import net from 'node:net';

const { targets, port, proxy } = JSON.parse(readFileSync(new URL('./targets.json', import.meta.url)));

// Sends `first`, then whatever `next` makes of the bytes so far, until it gives a verdict or the end comes.
function talk(options, first, next) {
  return new Promise((done) => {
    const socket = net.connect(options);
    let got = Buffer.alloc(0);
    const end = (verdict) => { socket.destroy(); done(verdict); };
    socket.setTimeout(60000, () => end('timeout'));
    socket.on('error', () => end('block'));
    socket.on('close', () => end(next(got, true) ?? 'block'));
    socket.on('connect', () => socket.write(first));
    socket.on('data', (data) => {
      got = Buffer.concat([got, data]);
      const more = next(got, false);
      if (typeof more === 'string') end(more);
      else if (more !== undefined) socket.write(more);
    });
  });
}

const judge = (text) => (/HTTP\/1\.1 200 /.test(text) && /\bx-who: ok/i.test(text) ? 'allow' : 'block');
const plain = (host) => Buffer.from(`GET / HTTP/1.1\r\nHost: ${host}:${port}\r\nConnection: close\r\n\r\n`, 'latin1');

const byProxy = (host) => talk({ port: proxy, host: '127.0.0.1' },
  Buffer.from(`GET http://${host}:${port}/ HTTP/1.1\r\nHost: ${host}:${port}\r\n\r\n`, 'latin1'),
  (got, ended) => (ended ? judge(got.toString('latin1')) : undefined));

function byConnect(host) {
  let sent = false;
  return talk({ port: proxy, host: '127.0.0.1' }, Buffer.from(`CONNECT ${host}:${port} HTTP/1.1\r\n\r\n`, 'latin1'),
    (got, ended) => {
      const text = got.toString('latin1');
      if (ended) return judge(text.slice(text.indexOf('\r\n\r\n') + 4));
      if (sent || !text.startsWith('HTTP/1.1 200 ') || !text.includes('\r\n\r\n')) return undefined;
      sent = true;
      return plain(host);
    });
}

const quad = (host) => /^\d+\.\d+\.\d+\.\d+$/.test(host) && net.isIPv4(host);
const six = (host) => host.startsWith('[') && host.endsWith(']') && !host.includes('%') && net.isIPv6(host.slice(1, -1));

// IPv6 text to its bytes.
function sixBytes(text) {
  const address = new URL(`http://${text}/`).hostname.slice(1, -1);
  const [head, tail] = address.split('::').map((part) => (part ? part.split(':') : []));
  const groups = tail === undefined ? head
    : [...head, ...Array(8 - head.length - tail.length).fill('0'), ...tail];
  return Buffer.concat(groups.map((group) => Buffer.from(group.padStart(4, '0'), 'hex')));
}

function bySocks(host) {
  const name = Buffer.from(host, 'latin1');
  const address = quad(host) ? Buffer.from([1, ...host.split('.').map(Number)])
    : six(host) ? Buffer.concat([Buffer.from([4]), sixBytes(host)])
      : Buffer.concat([Buffer.from([3, name.length & 255]), name]);
  const request = Buffer.concat([Buffer.from([5, 1, 0]), address, Buffer.from([port >> 8, port & 255])]);
  let step = 0;
  return talk({ port: proxy, host: '127.0.0.1' }, Buffer.from([5, 1, 0]), (got, ended) => {
    if (ended) return got.length > 12 ? judge(got.subarray(12).toString('latin1')) : 'block';
    if (step === 0 && got.length >= 2) { step = 1; return request; }
    if (step === 1 && got.length >= 12) { step = 2; return got[3] === 0 ? plain(host) : 'block'; }
    return undefined;
  });
}

// One A query over UDP: { code, address }.
function lookup(host) {
  const labels = Buffer.concat(host.replace(/\.$/, '').split('.').map((label) => {
    const bytes = Buffer.from(label, 'latin1');
    return Buffer.concat([Buffer.from([bytes.length & 255]), bytes]);
  }));
  const packet = Buffer.concat([Buffer.from([7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]), labels, Buffer.from([0, 0, 1, 0, 1])]);
  return new Promise((done) => {
    const socket = dgram.createSocket('udp4');
    const timer = setTimeout(() => { socket.close(); done({ code: 'timeout' }); }, 60000);
    socket.on('message', (got) => {
      clearTimeout(timer);
      socket.close();
      const count = got.readUInt16BE(6);
      done({ code: got[3] & 15, address: count > 0 ? [...got.subarray(got.length - 4)].join('.') : undefined });
    });
    socket.send(packet, 53, '127.0.0.1');
  });
}

async function byDns(host) {
  if (quad(host) || six(host)) return undefined; // nothing to look up
  const { address } = await lookup(host);
  return address === undefined ? 'block' : 'allow';
}

async function byCapture(host) {
  let to = quad(host) ? host : six(host) ? host.slice(1, -1) : undefined;
  if (to === undefined) to = (await lookup(host)).address;
  if (to === undefined) return 'block';
  return talk({ port, host: to }, plain(host), (got, ended) => (ended ? judge(got.toString('latin1')) : undefined));
}

const channels = { proxy: byProxy, connect: byConnect, socks: bySocks, dns: byDns, capture: byCapture };
const results = {};
for (const [name, probe] of Object.entries(channels)) {
  results[name] = {};
  for (const target of targets) results[name][target] = await probe(target);
}
console.log(JSON.stringify(results));
