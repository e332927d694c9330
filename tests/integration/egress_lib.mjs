// A small outside world on loopback: a name server, allowed and forbidden hosts, a private service.
// 127.0.0.2 and 127.0.0.3 count as public through a switch of test builds (SG_TEST_PUBLIC).
import dgram from 'node:dgram';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { join } from 'node:path';
import { run, tempDir } from './lib.mjs';
import { OPENSSL, makeCerts } from './net.mjs';

function question(packet) {
  const labels = [];
  let at = 12;
  while (packet[at] > 0) {
    labels.push(packet.subarray(at + 1, at + 1 + packet[at]).toString('latin1'));
    at += 1 + packet[at];
  }
  return { name: labels.join('.').toLowerCase(), type: packet.readUInt16BE(at + 1), end: at + 5 };
}

// "::1" and "10.0.0.1" as the bytes of a record.
function addressBytes(text) {
  if (!text.includes(':')) return text.split('.').map(Number);
  const [before, after = []] = text.split('::').map((part) => part.split(':').filter((word) => word !== ''));
  const words = text.includes('::') ? [...before, ...Array(8 - before.length - after.length).fill('0'), ...after] : before;
  return words.flatMap((word) => [parseInt(word, 16) >> 8, parseInt(word, 16) & 255]);
}

const nameBytes = (name) => [...name.split('.').flatMap((label) => [label.length, ...Buffer.from(label)]), 0];

// Answers for the names it has, counts every query. An entry is a list of addresses, or a function of the type of the
// question that gives one, later if it likes; { alias } in it is a CNAME before them.
export async function startDns(t, names) {
  const socket = dgram.createSocket('udp4');
  const dns = { queries: [], names };
  let is_closed = false;
  socket.on('message', async (packet, from) => {
    const { name, type, end } = question(packet);
    dns.queries.push(name);
    const entry = dns.names[name], known = (typeof entry === 'function' ? await entry(type) : entry) ?? [];
    const records = known.filter((each) => each.alias || type === (each.includes(':') ? 28 : 1)).map((each) => {
      const bytes = each.alias ? nameBytes(each.alias) : addressBytes(each);
      return Buffer.from([0xc0, 12, 0, each.alias ? 5 : type, 0, 1, 0, 0, 0, 0, 0, bytes.length, ...bytes]);
    });
    // What follows an alias belongs to it.
    const alias = known.find((each) => each.alias);
    if (alias && records.length > 1)
      for (let i = 1; i < records.length; i++) records[i] = Buffer.concat([Buffer.from(nameBytes(alias.alias)), records[i].subarray(2)]);
    const head = Buffer.from(packet.subarray(0, end));
    head.writeUInt16BE(0x8180 | (entry ? 0 : 3), 2);
    head.writeUInt16BE(records.length, 6);
    head.writeUInt16BE(0, 10);
    if (!is_closed) socket.send(Buffer.concat([head, ...records]), from.port, from.address);
  });
  socket.on('close', () => (is_closed = true));
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  t.after(() => socket.close());
  dns.address = `127.0.0.1:${socket.address().port}`;
  return dns;
}

async function startServer(t, server, host, port) {
  server.hits = 0;
  server.on('connection', () => server.hits++);
  server.listen(port, host);
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections?.(); server.close(); });
  return server;
}

// One server on each address, all on one port, which others may have on one of them.
async function startServers(t, handlers) {
  for (let i = 0; ; i++) {
    const servers = [];
    try {
      for (const [host, handler] of handlers)
        servers.push(await startServer(t, http.createServer(handler), host, servers[0]?.address().port ?? 0));
      return servers;
    } catch (error) {
      if (error.code !== 'EADDRINUSE' || i === 100) throw error;
      for (const server of servers) server.close();
    }
  }
}

const answer = (who) => (request, response) => {
  response.setHeader('x-who', who);
  response.end(`${who} ${request.method} ${request.url} host=${request.headers.host}\n`);
};

// { port, tlsPort, dns, ok, evil, inner, exec(args) }; all plain servers share one port.
export async function world(t, { handler } = {}) {
  const dir = tempDir(t);
  const dns = await startDns(t, {
    'ok.test': ['127.0.0.2'], 'www.ok.test': ['127.0.0.2'], 'evil.test': ['127.0.0.3'],
    'inside.test': ['127.0.0.1'], 'mixed.test': ['127.0.0.2', '127.0.0.1'], 'meta.test': ['169.254.169.254'],
    'denied.ok.test': ['127.0.0.2'],
  });
  const [ok, evil, inner] = await startServers(t, [['127.0.0.2', handler ?? answer('ok')], ['127.0.0.3', answer('evil')],
    ['127.0.0.1', answer('inner')]]);
  const { port } = ok.address();
  const config = join(dir, 'config.toml');
  writeFileSync(config, `[egress]\ndns_servers = ["${dns.address}"]\n`);
  const env = { ...process.env, SG_TEST_PUBLIC: '127.0.0.2/32 127.0.0.3/32' };
  const exec = (args, options = {}) => run(['exec', '--config', config, ...args], { env, ...options });
  const stage = { dir, dns, ok, evil, inner, port, config, env, exec };
  stage.startTls = async (name, host = '127.0.0.2') => {
    if (!OPENSSL) return null;
    const certs = makeCerts(dir, [name]);
    const server = await startServer(t, https.createServer(certs, answer(name)), host, 0);
    return { server, port: server.address().port, caFile: certs.ca };
  };
  // Why nothing here can be tested, or null.
  const control = await exec(['--allow-host', `ok.test:${port}`, '--', 'true']);
  stage.skip = control.code === 0 ? null : `no jail with a gateway here: ${control.stderr.trim()}`;
  const reached = await exec(['--allow-host', `ok.test:${port}`, '--', 'curl', '-sS', `http://ok.test:${port}/`]);
  if (stage.skip === null && /address_not_public|not public/.test(reached.stdout + reached.stderr))
    stage.skip = 'loopback counts as public only in -Dfaults=true builds';
  ok.hits = evil.hits = inner.hits = 0;
  dns.queries.length = 0;
  return stage;
}
