// What a hostile name server, a hostile host and a hostile program do to the gate of a jail, by the catalogue of attacks.
// Verdicts come from outside: servers that count. Each case has its control.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import test from 'node:test';
import { world } from './egress_lib.mjs';
import { stage as serverStage } from './sandbox_net_lib.mjs';

const timeout = 600_000;
const bare = 'env -i PATH=/usr/bin:/bin';
const python = existsSync('/usr/bin/python3');
const later = (ms, value) => new Promise((done) => setTimeout(done, ms, value).unref());

// A server that answers each connection by hand; `got` has what arrived.
async function raw(t, serve, host = '127.0.0.2') {
  const it = { got: [], connections: 0 };
  const made = net.createServer((socket) => {
    const index = it.connections++;
    it.got[index] = '';
    socket.on('error', () => {});
    socket.on('data', (data) => { it.got[index] += data.toString('latin1'); });
    serve(socket, it);
  });
  made.listen(0, host);
  await once(made, 'listening');
  t.after(() => made.close());
  it.port = made.address().port;
  return it;
}

test('NET-06: rebinding, mixed and late answers lead to a judged address or nowhere', { timeout }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  const { port } = stage;
  let turns = 0;
  Object.assign(stage.dns.names, {
    'turns.test': (type) => (type === 1 ? [turns++ === 0 ? '127.0.0.2' : '127.0.0.1'] : []),
    'pair.test': ['127.0.0.2', '127.0.0.1'], 'six.test': ['127.0.0.2', '::1'], 'only6.test': ['::1'],
    'alias.test': [{ alias: 'inside.test' }, '127.0.0.1'], 'good-alias.test': [{ alias: 'ok.test' }, '127.0.0.2'],
    'soon.test': () => later(300, ['127.0.0.2']), 'late.test': () => later(60000, ['127.0.0.2']),
  });
  const names = ['turns', 'pair', 'six', 'only6', 'alias', 'good-alias', 'soon', 'late'].map((name) => `${name}.test`);
  const get = async (name, prefix, times = 1) => {
    const url = `http://${name}:${port}/`;
    const ran = await stage.exec(['--json', ...names.flatMap((each) => ['--allow-host', `${each}:${port}`]), '--', 'sh', '-c',
      `for i in $(seq ${times}); do ${prefix} curl -sS -m 20 '${url}'; [ ${times} = 1 ] || sleep 0.5; done`]);
    const report = JSON.parse(ran.stdout);
    return { text: report.stdout, blocked: report.blocked.map((each) => each.reason) };
  };
  const results = {}, turning = get('turns.test', '', 8);
  await Promise.all(['', bare].flatMap((prefix) => names.filter((name) => name !== 'turns.test').map(async (name) => {
    results[`${prefix && 'captured '}${name}`] = await get(name, prefix);
  })));
  for (const [name, { text, blocked }] of Object.entries(results)) {
    const good = /good-alias|soon/.test(name);
    assert.equal(/^ok GET/.test(text), good, `${name}: ${text}`);
    // A name that is not resolved in time is not refused to a client that asks only for its address.
    if (!good && !/late/.test(name)) assert.match(String(blocked), /address_not_public/, `${name}: ${blocked}`);
  }
  // The first answer is public, all others are not: what is connected to is what was judged.
  const turned = await turning;
  assert.match(turned.text, /^ok GET/, turned.text);
  assert.ok(turns >= 2, 'the name was looked up again');
  assert.deepEqual(turned.blocked, ['address_not_public']);
  assert.equal(stage.inner.hits, 0);
});

// A hello of TLS as openssl writes it, with the name that is asked for.
function hello(name) {
  return execFileSync('/usr/bin/python3', ['-c', `
import ssl, sys
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = context.wrap_bio(into, out, server_hostname=${name === null ? 'None' : JSON.stringify(name)})
try: tls.do_handshake()
except ssl.SSLWantReadError: pass
sys.stdout.write(out.read().hex())`], { encoding: 'utf8' });
}

test('NET-09: a tunnel carries what names its host and nothing else', { timeout }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  if (!python) return t.skip('no python3 on this machine');
  // On a port of its own anything but TLS and HTTP may pass; those must be for the host.
  const cases = { other: [hello('evil.test'), 1, false], none: [hello(null), 1, false], text: [Buffer.from('not TLS at all\r\n\r\n').toString('hex'), 1, true],
    http: [Buffer.from('GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n').toString('hex'), 1, false], split: [hello('ok.test'), 20, true] };
  const program = (port) => `import socket, sys, time
data, pieces, how = bytes.fromhex(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if how == 'connect':
    s = socket.create_connection(('127.0.0.1', 3128)); s.sendall(b'CONNECT ok.test:${port} HTTP/1.1\\r\\n\\r\\n'); assert b' 200 ' in s.recv(4096)
else: s = socket.create_connection(('ok.test', ${port}))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
step = -(-len(data) // pieces)
for i in range(0, len(data), step): s.sendall(data[i:i + step]); time.sleep(0.01)
s.settimeout(60)
try: print('closed' if s.recv(100) == b'' else 'answered')
except ConnectionResetError: print('closed')
except TimeoutError: print('open')`;
  await Promise.all(['connect', 'capture'].flatMap((how) => Object.entries(cases).map(async ([name, [data, pieces, passes]]) => {
    // It answers when all of it is there, so that nobody has to wait for what does not come.
    const host = await raw(t, (socket, it) => socket.on('data', () => it.got.join('').length * 2 >= data.length && socket.end('seen')));
    const ran = await stage.exec(['--allow-host', `ok.test:${host.port}`, '--', '/usr/bin/python3', '-c', program(host.port), data, String(pieces), how]);
    assert.equal(Buffer.from(host.got.join(''), 'latin1').toString('hex'), passes ? data : '', `${how} ${name}: ${ran.stdout}${ran.stderr}`);
  })));
});

test('NET-09: on port 443 nothing but TLS for the host passes', { timeout }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  if (!python || process.getuid?.() !== 0) return t.skip('no python3, or no right to listen on port 443');
  const made = net.createServer((socket) => { socket.on('error', () => {}); socket.on('data', (data) => { got += data.toString('latin1'); socket.end('seen'); }); });
  let got = '';
  // An address that no other test has.
  const address = `127.${1 + (process.pid % 250)}.${1 + ((process.pid >> 8) % 250)}.9`;
  made.listen(443, address);
  await once(made, 'listening');
  t.after(() => made.close());
  stage.dns.names['ok.test'] = [address];
  const env = { ...stage.env, SG_TEST_PUBLIC: `${address}/32` };
  for (const [text, passes] of [[Buffer.from('SSH-2.0-x\r\n').toString('hex'), false], [hello('evil.test'), false], [hello('ok.test'), true]]) {
    got = '';
    const ran = await stage.exec(['--allow-host', 'ok.test', '--', '/usr/bin/python3', '-c',
      `import socket; s = socket.create_connection(('ok.test', 443)); s.sendall(bytes.fromhex('${text}')); s.settimeout(60)
try: s.recv(10)
except OSError: pass`], { env });
    assert.equal(got.length > 0, passes, `${text.slice(0, 20)}: ${ran.stderr}`);
  }
});

test('NET-10: answers that are none end, and the gate stays small', { timeout }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  const endless = (text) => (socket) => {
    const more = () => { while (!socket.destroyed && socket.write(text)); };
    socket.on('drain', more);
    more();
  };
  const answers = {
    '/headers': (socket) => { socket.write('HTTP/1.1 200 OK\r\n'); endless(`x-a: ${'b'.repeat(1000)}\r\n`)(socket); },
    '/many': (socket) => socket.end('HTTP/1.1 200 OK\r\n' + 'x: y\r\n'.repeat(10000) + '\r\n'),
    '/lengths': (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 5\r\n\r\nhello'),
    '/chunk': (socket) => socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8000000000000000\r\nx'),
    '/interim': endless('HTTP/1.1 100 Continue\r\n\r\n'),
    '/garbage': (socket) => socket.end('\x15\x03\x01 no HTTP\r\n\r\n'),
    '/body': (socket) => { socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n'); endless('x'.repeat(65536))(socket); },
    '/bomb': (socket) => { socket.write('HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n'); endless('\0'.repeat(65536))(socket); },
    '/slow': (socket) => { socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n'); const timer = setInterval(() => socket.write('x'), 500); socket.on('close', () => clearInterval(timer)); },
    '/fine': (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfine\n'),
  };
  const memory = [];
  const host = await raw(t, (socket) => socket.once('data', (data) => {
    // While the answers run: what the gate's processes have, each of them.
    for (const pid of execFileSync('sh', ['-c', 'cd /proc; grep -l "^sandglass-gateway" [0-9]*/cmdline 2>/dev/null | cut -d/ -f1; true'], { encoding: 'utf8' }).split('\n').filter(Boolean))
      try { memory.push(Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)); } catch { /* gone */ }
    answers[/^\S+ (\S+)/.exec(data.toString('latin1'))[1]](socket);
  }));
  const paths = Object.keys(answers).filter((path) => path !== '/fine');
  const ran = await stage.exec(['--json', '--allow-host', `ok.test:${host.port}`, '--net-answer', '20m', '--net-time', '3s', '--', 'sh', '-c', `
    for p in ${paths.join(' ')}; do (curl -sS -m 60 -o /dev/null -w "$p %{http_code} %{exitcode}\\n" http://ok.test:${host.port}$p 2>/dev/null) & done
    for i in 1 2 3; do curl -sS http://ok.test:${host.port}/fine; sleep 0.3; done
    wait`]);
  const report = JSON.parse(ran.stdout);
  assert.equal(report.stdout.match(/^fine$/gm)?.length, 3, report.stdout + report.stderr);
  for (const path of paths) {
    const line = report.stdout.split('\n').find((each) => each.startsWith(`${path} `));
    assert.ok(line, `${path}: ${report.stdout}`);
    assert.doesNotMatch(line, / 200 0$/, line);
  }
  if (!/asan/.test(process.env.SG_BUILD ?? '')) assert.ok(Math.max(...memory) < 32 * 1024, `${Math.max(...memory)} KiB`);
});

test('NET-08, NET-11: odd requests to the proxy reach the host once, or not at all', { timeout }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  if (!python) return t.skip('no python3 on this machine');
  const host = await raw(t, (socket, it) => socket.on('data', () => { if (it.got.at(-1).includes('\r\n\r\n')) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi'); }));
  const at = `ok.test:${host.port}`, lf = 'Host: ' + at;
  const refused = [
    ...['file', 'ftp', 'gopher', 'dict', 'data', 'unix', 'ldap', 'jar'].map((scheme) => `GET ${scheme}://${at}/ HTTP/1.1\r\n${lf}\r\n\r\n`),
    ...[22, 25, 6379, 0, 65536, -1, '443x'].flatMap((port) => [`GET http://ok.test:${port}/ HTTP/1.1\r\nHost: ok.test:${port}\r\n\r\n`, `CONNECT ok.test:${port} HTTP/1.1\r\n\r\n`]),
    `GET http://${at}/ HTTP/1.1\r\nHost: evil.test\r\n\r\n`,
    `GET http://${at}/ HTTP/1.1\r\n${lf}\r\nHost: evil.test\r\n\r\n`,
    `GET http://${at}/a b HTTP/1.1\r\n${lf}\r\n\r\n`,
    `GET http://${at}/ HTTP/1.1\r\n${lf}\r\nX: a\nY: b\r\n\r\n`,
    `GET http://${at}/ HTTP/1.1\r\n${lf}\r\nX: a\0b\r\n\r\n`,
    `GET http://${at}/ HTTP/1.1\r\n${lf}\r\nX : a\r\n\r\n`,
    `GET http://${at}/ HTTP/1.1\r\n${lf}\r\n folded: a\r\n\r\n`,
    `POST http://${at}/ HTTP/1.1\r\n${lf}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `POST http://${at}/ HTTP/1.1\r\n${lf}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!`,
    `POST http://${at}/ HTTP/1.1\r\n${lf}\r\nTransfer-Encoding: gzip\r\n\r\nx`,
    `GET http://${at}/ HTTP/2.0\r\n${lf}\r\n\r\n`,
  ];
  // A second request behind the first must not slip through unread, nor headers for the proxy.
  const passed = `GET http://${at}/first HTTP/1.1\r\n${lf}\r\nProxy-Authorization: x\r\nUpgrade: h2c\r\nConnection: Upgrade, X-Gone\r\nX-Gone: 1\r\n\r\nGET http://${at}/second HTTP/1.1\r\nHost: evil.test\r\n\r\n`;
  const program = `import json, socket, sys
out = []
for text in json.load(sys.stdin):
    s = socket.create_connection(('127.0.0.1', 3128)); s.settimeout(20); s.sendall(text.encode('latin1')); got = b''
    try:
        while True:
            more = s.recv(65536)
            if not more: break
            got += more
    except ConnectionResetError: pass
    out.append(got.decode('latin1').split('\\r\\n')[0])
print(json.dumps(out))`;
  const ask = async (texts) => {
    const ran = await stage.exec(['--allow-host', at, '--', 'sh', '-c', `/usr/bin/python3 -c "$1" <<'END'\n${JSON.stringify(texts)}\nEND`, 'sh', program]);
    return JSON.parse(ran.stdout || `"${ran.stderr}"`);
  };
  const answers = await ask(refused);
  answers.forEach((line, i) => assert.match(line, /^HTTP\/1\.1 (40[03]|431|501|505|502)|^$/, `${JSON.stringify(refused[i])}: ${line}`));
  assert.deepEqual(host.got.filter((text) => text !== ''), []);
  assert.deepEqual(await ask([passed]), ['HTTP/1.1 200 OK']);
  const arrived = host.got.join('');
  assert.match(arrived, /^GET \/first HTTP\/1\.1\r\n/);
  assert.doesNotMatch(arrived, /second|evil|proxy-authorization|h2c|x-gone: 1/i);
});

test('NET-12: no channel leads to the daemon, to another sandbox or to the metadata address', { timeout }, async (t) => {
  const it = await serverStage(t, { names: { 'api.test': '127.0.0.1', 'meta.test': '169.254.169.254' } });
  if (it.skip) return t.skip(it.skip);
  const { port } = it.server, service = 9000 + (process.pid % 1000);
  const own = Object.values(networkInterfaces()).flat().filter((each) => !each.internal && !each.scopeid).slice(0, 3)
    .map((each) => (each.family === 'IPv6' ? `[${each.address}]` : each.address));
  const hosts = [...new Set(['127.0.0.1', 'localhost', hostname().toLowerCase(), ...own, '[::1]', '0.0.0.0', 'api.test', 'meta.test', '169.254.169.254'])]
    .filter((host) => /^[a-z0-9.:[\]-]+$/.test(host));
  const network = `allow ${hosts.flatMap((host) => [`${host}:${port}|80|${service}`]).join(', ')}, ${it.plainAt}`;
  const log = () => it.server.stderr.split('\n').filter((line) => line.includes('event=http.request') && line.includes('route=/healthz')).length;
  const [victim, attacker, isolate] = [await it.create({}), await it.create({ network }), await it.create({ tier: 'isolate', network })];
  for (const box of [victim, attacker, isolate]) assert.equal(box.status, 201, box.text);
  if (python) {
    const begun = await it.sh(victim.id, `(cd /tmp && echo banner > index.html && exec python3 -m http.server ${service} >/dev/null 2>&1) & until curl -s 127.0.0.1:${service}; do sleep 0.1; done`);
    assert.match(begun.stdout, /banner/, begun.text);
  }
  // The control: the log shows the client, and the attacker has a network.
  await it.call('GET', '/healthz');
  await it.call('GET', '/healthz');
  const before = log();
  assert.ok(before >= 1, 'the log shows requests');
  assert.equal((await it.sh(attacker.id, `curl -sS http://${it.plainAt}/x`)).stdout, 'plain /x\n');
  const channels = ['', '-p -x http://127.0.0.1:3128', '-x socks5h://127.0.0.1:3128', "--noproxy '*'"];
  const urls = hosts.flatMap((host) => [`http://${host}:${port}/healthz`, `http://${host}/healthz`, `http://${host}:${service}/`]);
  const script = urls.map((url) => channels.map((channel) => `curl -s -m 10 ${channel} '${url}' -w ' %{http_code}\\n' -o /dev/stdout || :`).join('\n')).join('\n');
  const tried = await it.sh(attacker.id, script, { timeoutMs: 100_000 });
  assert.doesNotMatch(tried.stdout, / 200$/m, tried.stdout);
  assert.doesNotMatch(tried.stdout, /banner/);
  const fetched = await it.run(isolate.id, `const out = [];
    for (const url of ${JSON.stringify(urls)}) out.push(await api.fetch(url, { timeoutMs: 2000 }).then((r) => url + ' ' + r.status, () => 'refused'));
    out.filter((each) => each !== 'refused').join()`);
  assert.doesNotMatch(fetched.text, / 200/, fetched.text);
  assert.equal(log(), before, 'a request reached the API');
});
