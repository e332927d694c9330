// A sandbox ends while everything that can be done with it is being done: each piece of work is notified of
// it, the server goes on, and nothing stays behind. The instants are chance; many rounds meet many.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { serve, sleep, until } from './lib.mjs';

const T = { timeout: process.env.SG_SOAK ? 6000000 : 600000 };
const ROUNDS = Number(process.env.SG_SOAK ?? 0) > 0 ? Math.ceil(2000 / Number(process.env.SG_SOAK)) : 12;
const LANES = 4; // sandboxes that end at the same time
const LARGE = Buffer.alloc(3 << 20, 'x');

const SERVER = `import socket, threading
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', 8000)); s.listen(64); print('ready', flush=True)
def one(c):
    c.recv(65536)
    c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 1000000\\r\\n\\r\\nsome')
    c.recv(1)
while True:
    c, _ = s.accept(); threading.Thread(target=one, args=(c,), daemon=True).start()
`;

async function setup(t, options) {
  const server = await serve(t, options);
  server.call = async (method, path, body) => {
    const answer = await server.get(path, { method, headers: { 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    return { status: answer.status, text, json: text.startsWith('{') ? JSON.parse(text) : null };
  };
  return server;
}

// A request on a connection of its own; its answer is read or, from a client that is slow, left to lie.
function begin(server, method, path, body, { reads = true, type = 'application/json', promise = 0 } = {}) {
  const socket = net.connect(server.port, '127.0.0.1'), text = body === undefined ? '' : body;
  const length = promise || Buffer.byteLength(text);
  const request = { text: '', socket };
  socket.on('error', () => {});
  socket.write(`${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nAuthorization: Bearer ${server.token}\r\n` +
    `Content-Type: ${type}\r\nContent-Length: ${length}\r\n${reads ? 'Connection: close\r\n' : ''}\r\n`);
  socket.write(text);
  if (reads) socket.on('data', (data) => { if (request.text.length < 4096) request.text += data.toString('latin1'); });
  else socket.pause();
  request.end = new Promise((done) => socket.on('close', done));
  return request;
}

const json = (value) => JSON.stringify(value);

// What may be under way in a sandbox, by tier.
const files = [
  (server, box) => begin(server, 'PUT', `${box}/files?path=/workspace/new`, LARGE, { promise: LARGE.length }),
  (server, box) => begin(server, 'PUT', `${box}/files?path=/workspace/half`, 'half', { promise: 1 << 20 }),
  (server, box) => begin(server, 'PUT', `${box}/files?path=/workspace/small`, 'all'),
  (server, box) => begin(server, 'GET', `${box}/files?path=/workspace/large`),
  (server, box) => begin(server, 'GET', `${box}/files?path=/workspace/large`, undefined, { reads: false }),
  (server, box) => begin(server, 'GET', `${box}/files?path=/workspace/middle`, undefined, { reads: false }),
  (server, box) => begin(server, 'POST', `${box}/files/list`, json({ path: "/workspace" })),
  (server, box) => begin(server, 'GET', `${box}/watch?path=/workspace`),
  (server, box) => begin(server, 'POST', `${box}/checkpoints`, '{}'),
  (server, box) => begin(server, 'POST', `${box}/fork`, json({ count: 1 })),
];
const WORKS = {
  memory: files,
  isolate: [
    (server, box) => begin(server, 'POST', `${box}/run_code`, json({ code: '1+1' })),
    (server, box) => begin(server, 'POST', `${box}/run_code`, json({ code: 'while (true);', timeoutMs: 2000 })),
    (server, box) => begin(server, 'POST', `${box}/run_code`, json({ code: 'await new Promise(() => {})', timeoutMs: 2000 })),
    (server, box) => begin(server, 'POST', `${box}/checkpoints`, '{}'),
    (server, box) => begin(server, 'POST', `${box}/fork`, json({ count: 1 })),
  ],
  jail: [...files,
    (server, box) => begin(server, 'POST', `${box}/commands`, json({ command: 'sleep 60', timeoutMs: 60000 })),
    (server, box) => begin(server, 'POST', `${box}/commands`, json({ command: 'head -c 5000000 /dev/zero; sleep 60', detached: true })),
    (server, box) => begin(server, 'POST', `${box}/run_code`, json({ code: 'echo hello; sleep 60', language: 'bash', timeoutMs: 60000 })),
    (server, box) => begin(server, 'GET', `${box}/tar?path=/workspace`, undefined, { reads: false }),
    (server, box) => begin(server, 'GET', `${box}/ports/8000/`, undefined, { reads: false }),
    (server, box) => begin(server, 'GET', `${box}/ports/8000/`),
    (server, box) => begin(server, 'GET', `${box}/ports/8001/`),
  ],
};

const ENDS = [
  (server, box) => server.call('DELETE', box),
  (server, box) => server.call('DELETE', box),
  async (server, box) => { await Promise.all([server.call('DELETE', box), server.call('DELETE', box)]); },
  (server, box) => server.call('POST', `${box}/stop`),
  (server, box) => server.call('POST', `${box}/pause`),
  async (server, box) => {
    await server.call('POST', `${box}/timeout`, { timeoutMs: 1 });
    await until(async () => ['stopped', 'paused', undefined].includes((await server.call('GET', box)).json.state));
  },
];

async function round(server, tier, n) {
  const made = await server.call('POST', '/v1/sandboxes', { tier, onTimeout: n % 2 ? 'kill' : 'pause' });
  assert.equal(made.status, 201, made.text);
  const box = `/v1/sandboxes/${made.json.id}`;
  if (tier !== 'isolate') {
    for (const [name, size] of [['large', LARGE.length], ['middle', 700 << 10]])
      await server.get(`${box}/files?path=/workspace/${name}`, { method: 'PUT', body: LARGE.subarray(0, size) });
  }
  if (tier === 'jail' && server.python) {
    const started = await server.call('POST', `${box}/commands`, { argv: [server.python, '-c', SERVER], detached: true, timeoutMs: 0 });
    if (n % 3 === 0)
      await until(async () => (await (await server.get(`/v1/commands/${started.json.id}/output`)).text()).includes('ready'));
  }
  const works = [];
  for (const [k, work] of WORKS[tier].entries()) if ((n * 7 + k * 3) % 4 !== 0) works.push(work(server, box));
  // At the same turn of the server's loop, or a little later.
  if (n % 4 !== 0) await sleep((n * 13) % 60);
  await ENDS[n % ENDS.length](server, box);
  assert.equal(server.child.exitCode, null, server.stderr);
  await server.call('DELETE', box);
  for (const work of works) { work.socket.resume(); setTimeout(() => work.socket.end(), 100); }
  await Promise.all(works.map((work) => work.end));
  for (const work of works)
    assert.ok(work.text === '' || /^HTTP\/1\.1 (1|2|404|408|409|410|423|499|50[1234])/.test(work.text), work.text.slice(0, 300));
  assert.equal((await server.call('GET', box)).status, 404);
}

// Killed below: all of its sandboxes are lost at once, while they are worked with and deleted.
async function makerDies(server) {
  const boxes = [];
  for (let n = 0; n < 3; n++) {
    const made = await server.call('POST', '/v1/sandboxes', { tier: 'jail' });
    boxes.push(`/v1/sandboxes/${made.json.id}`);
  }
  const works = boxes.flatMap((box) => WORKS.jail.map((work) => work(server, box)));
  await sleep(20);
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      if (status.includes(`\nPPid:\t${server.child.pid}\n`) && /^Name:\twarden/.test(status)) process.kill(Number(pid), 'SIGKILL');
    } catch { /* it has gone */ }
  }
  const ends = boxes.map((box) => server.call('DELETE', box));
  await Promise.all(ends);
  works.forEach((work) => { work.socket.resume(); work.socket.end(); });
  await Promise.all(works.map((work) => work.end));
  assert.equal(server.child.exitCode, null, server.stderr);
}

for (const tier of Object.keys(WORKS)) {
  test(`a sandbox of the tier ${tier} ends in the midst of its work`, T, async (t) => {
    const server = await setup(t);
    const first = await server.call('POST', '/v1/sandboxes', { tier });
    if (first.status !== 201) { t.skip(`no ${tier} here: ${first.text}`); return; }
    await server.call('DELETE', `/v1/sandboxes/${first.json.id}`);
    server.python = ['/usr/bin/python3'].find(existsSync);
    let n = 0;
    const lane = async () => { while (n < ROUNDS) await round(server, tier, n++); };
    await Promise.all(Array.from({ length: LANES }, lane));
    if (tier === 'jail') await makerDies(server);
    // Forks are sandboxes of their own.
    for (const each of (await server.call('GET', '/v1/sandboxes?limit=100')).json.sandboxes)
      await server.call('DELETE', `/v1/sandboxes/${each.id}`);
    assert.equal((await server.call('GET', '/v1/sandboxes')).json.sandboxes.length, 0);
    await until(async () => (await server.figure('sandglass_http_running_requests')) <= 1);
  });
}

// What a copy of the files would stumble over, and how it is looked at afterwards.
const HARD = {
  'a sparse file of a huge size': ['truncate -s 9000000000000000000 huge || truncate -s 8T huge', 'test $(stat -c %s huge) -gt 8000000000000'],
  'a file without rights': ['echo text >locked; chmod 000 locked', 'chmod 600 locked; test $(cat locked) = text'],
  'a directory without rights': ['mkdir closed; echo text >closed/in; chmod 000 closed', 'chmod 700 closed; test $(cat closed/in) = text'],
  'three hundred directories in each other': ['i=0; while test $i -lt 300; do mkdir d; cd d; i=$((i+1)); done; echo text >deep',
    'i=0; while test $i -lt 300; do cd d; i=$((i+1)); done; test $(cat deep) = text'],
};

// In memory the files are copied at the time limit; a file in place of their directory keeps disks away.
for (const storage of ['disk', 'memory']) test(`files that cannot be copied buy no time and lose no others (${storage})`, T, async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'sandglass-it-'));
  if (storage === 'memory') writeFileSync(join(dir, 'disks'), '');
  const server = await setup(t, { dir });
  await Promise.all(Object.entries(HARD).map(async ([what, [make, check]]) => {
    const made = await server.call('POST', '/v1/sandboxes', { tier: 'jail', timeoutMs: 600000 });
    if (made.status !== 201) { t.diagnostic(`no jail here: ${made.text}`); return; }
    const box = `/v1/sandboxes/${made.json.id}`;
    if (storage === 'memory') assert.equal(made.json.storage, 'memory');
    const ran = await server.call('POST', `${box}/commands`, { command: `echo kept >f; ${make}` });
    assert.equal(ran.json?.exitCode, 0, `${what}: ${ran.text}`);
    assert.equal((await server.call('POST', `${box}/timeout`, { timeoutMs: 1000 })).status, 200);
    let now;
    await until(async () => ['stopped', 'paused'].includes((now = (await server.call('GET', box)).json).state));
    assert.equal(now.state, 'paused', `${what}: ${now.reason}`);
    const kept = await server.call('POST', `${box}/commands`, { command: `cat f; ${check}` });
    assert.equal(kept.json?.stdout, 'kept\n', `${what}: ${kept.text}`);
    // On a disk nothing is copied, and everything is there.
    if (now.storage === 'disk') assert.equal(kept.json.exitCode, 0, `${what}: ${kept.text}`);
  }));
});
