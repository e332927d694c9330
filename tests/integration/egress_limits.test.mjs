// The limits of a sandbox's network hold in a jail, in an isolate and in the sandboxes of a server, and a slow peer costs
// only the sandbox that called it. Each has its control: the same program within the limit succeeds.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import http from 'node:http';
import test from 'node:test';
import { run, until } from './lib.mjs';
import { world } from './egress_lib.mjs';
import { stage as serverStage } from './sandbox_net_lib.mjs';

const timeout = 600_000;
const KIB = 1024;
// A server that waits holds up no end.
const sleep = (ms) => new Promise((done) => setTimeout(done, ms).unref());

// What the server does is in the path; it counts what it has open.
function peer() {
  const it = { open: 0, most: 0, hold: 0, waiting: [] };
  const answers = {
    // Answered when as many are there as shall be, or when no more come.
    hold(response) {
      it.most = Math.max(it.most, ++it.open);
      response.on('close', () => it.open--);
      it.waiting.push(response);
      const let_go = () => { for (const each of it.waiting.splice(0)) each.end('held\n'); };
      if (it.open >= it.hold) setTimeout(let_go, 300);
    },
    body: (response, url) => response.end(Buffer.alloc(Number(url.searchParams.get('n')), 'x')),
    chunks(response, url) {
      for (let left = Number(url.searchParams.get('n')); left > 0; left -= 10_000) response.write('x'.repeat(Math.min(left, 10_000)));
      response.end();
    },
    async silent(response, url) {
      response.write('begun\n');
      await sleep(Number(url.searchParams.get('ms')));
      response.end('spoke\n');
    },
    async drip(response, url) {
      for (let left = Number(url.searchParams.get('n')); left > 0 && !response.destroyed; left--) {
        response.write('.');
        await sleep(200);
      }
      response.end('whole\n');
    },
    head: (response, url) => response.setHeader('x-long', 'h'.repeat(Number(url.searchParams.get('n')))).end('headed\n'),
  };
  it.handler = (request, response) => {
    const url = new URL(request.url, 'http://host');
    request.resume();
    (answers[url.pathname.slice(1)] ?? (() => response.end('here\n')))(response, url);
  };
  return it;
}

// A jail and an isolate that each fetch; { skip } says why not.
async function both(t) {
  const server = peer(), stage = await world(t, { handler: server.handler });
  if (stage.skip) return { skip: stage.skip };
  if (!existsSync('/usr/bin/curl')) return { skip: 'curl is not installed' };
  const host = `ok.test:${stage.port}`, allow = ['--allow-host', host];
  const it = { server, stage, host, url: `http://${host}` };
  // { ok, bytes, text, blocked }
  it.jail = async (path, limits = [], curl = []) => {
    const ran = await stage.exec(['--json', ...allow, ...limits, '--', 'curl', '-sS', ...curl, it.url + path]);
    const report = JSON.parse(ran.stdout);
    return { ok: report.exitCode === 0, text: report.stdout + report.stderr, bytes: report.stdout.length, blocked: report.blocked.map((each) => each.reason) };
  };
  it.isolate = async (path, limits = [], options = '{}') => {
    const code = `api.fetch(${JSON.stringify(it.url + path)}, ${options}).then((r) => r.status + ' ' + r.body, (e) => 'Error: ' + e.message)`;
    const ran = await run(['run', '--json', '--config', stage.config, '--timeout', '120000', '--memory', '64', ...allow, ...limits, '-e', code], { env: stage.env });
    const text = String(JSON.parse(ran.stdout).result ?? ran.stdout);
    return { ok: text.startsWith('200'), text, bytes: text.length };
  };
  return it;
}
const kinds = ['jail', 'isolate'];

test('connections at once: the next ones wait', { timeout }, async (t) => {
  const it = await both(t);
  if (it.skip) return t.skip(it.skip);
  const urls = Array.from({ length: 6 }, (_, i) => `${it.url}/hold?${i}`);
  const calls = {
    jail: async (limits) => (await it.stage.exec(['--allow-host', it.host, ...limits, '--', 'sh', '-c',
      `${urls.map((url) => `env -i /usr/bin/curl -sS '${url}' & `).join('')} wait`])).stdout,
    isolate: async (limits) => (await run(['run', '--config', it.stage.config, '--timeout', '120000', '--allow-host', it.host, ...limits, '-e',
      `console.log((await Promise.all(${JSON.stringify(urls)}.map(async (url) => (await api.fetch(url)).body))).join(''))`], { env: it.stage.env })).stdout,
  };
  for (const kind of kinds)
    for (const [limits, most] of [[[], 6], [['--net-connections', '2'], 2]]) {
      Object.assign(it.server, { most: 0, hold: most });
      const got = await calls[kind](limits);
      assert.equal(got.match(/held/g)?.length, 6, `${kind} ${limits}: ${got}`);
      assert.equal(it.server.most, most, `${kind} ${limits}`);
    }
});

test('bytes in all: what goes beyond is cut, told, and later requests say so', { timeout }, async (t) => {
  const it = await both(t);
  if (it.skip) return t.skip(it.skip);
  const body = `/body?n=${600 * KIB}`, limit = ['--net-total', '300k'];
  for (const kind of kinds) {
    assert.ok((await it[kind](body, ['--net-total', '3m'])).ok, kind);
    const cut = await it[kind](body, limit);
    assert.ok(!cut.ok, `${kind}: ${cut.text.slice(-200)}`);
    assert.ok(cut.bytes < 400 * KIB, `${kind}: ${cut.bytes}`);
  }
  // Whatever the channel, and twice: once cut, once refused with an answer.
  for (const channel of [[], ['--proxytunnel', '-x', 'http://127.0.0.1:3128'], ['--noproxy', '*'], ['-x', 'socks5h://127.0.0.1:3128']]) {
    const ran = await it.stage.exec(['--json', '--allow-host', it.host, ...limit, '--', 'sh', '-c',
      `curl -sS ${channel.map((word) => `'${word}'`).join(' ')} -o /tmp/a '${it.url}${body}' || echo cut; wc -c < /tmp/a; curl -sS -m 20 '${it.url}/body?n=1'`]);
    const report = JSON.parse(ran.stdout), [cut, bytes, after] = report.stdout.split('\n');
    assert.equal(cut, 'cut', `${channel}: ${ran.stdout}`);
    assert.ok(Number(bytes) < 400 * KIB, `${channel}: ${bytes}`);
    assert.match(after, /"code":"limit_reached","error":"blocked ok\.test:\d+: the sandbox has used up its 307200 bytes"/);
    assert.deepEqual([...new Set(report.blocked.map((each) => each.reason))], ['limit_reached']);
  }
  const ran = await run(['run', '--config', it.stage.config, '--timeout', '120000', '--allow-host', it.host, ...limit, '-e',
    `for (const path of ['${body}', '/body?n=1']) await api.fetch('${it.url}' + path).catch((e) => console.log(e.code, e.message))`], { env: it.stage.env });
  assert.match(ran.stdout, /^(limit_reached .*used up its 307200 bytes\n){2}/, ran.stdout + ran.stderr);
});

test('bytes a second: nothing is lost, and it takes its time', { timeout }, async (t) => {
  const it = await both(t);
  if (it.skip) return t.skip(it.skip);
  // The least time that this many bytes may take; there is no promise about the longest.
  const takes = async (call, ms) => {
    const begin = Date.now(), got = await call;
    assert.ok(Date.now() - begin > ms, `${Date.now() - begin} ms`);
    return got;
  };
  const path = `/body?n=${440 * KIB}`, rate = ['--net-rate', '200k'];
  await Promise.all(kinds.map(async (kind) => {
    assert.ok((await it[kind](path)).ok, kind);
    const got = await takes(it[kind](path, rate), 1500);
    assert.ok(got.ok && got.bytes >= 440 * KIB, `${kind}: ${got.bytes} ${got.text.slice(0, 100)}`);
  }));
  // What is sent counts too.
  const sent = await takes(it.isolate('/body?n=1', rate, `{ method: 'POST', body: 'y'.repeat(${440 * KIB}) }`), 1500);
  assert.ok(sent.ok, sent.text);
});

test('silence ends a connection, and so does its age', { timeout }, async (t) => {
  const it = await both(t);
  if (it.skip) return t.skip(it.skip);
  await Promise.all(kinds.map(async (kind) => {
    const [spoke, silent, whole, old] = await Promise.all([
      it[kind]('/silent?ms=1500', ['--net-idle', '30s', '--net-time', '30s']), it[kind]('/silent?ms=60000', ['--net-idle', '500ms']),
      it[kind]('/drip?n=8', ['--net-idle', '30s', '--net-time', '30s']), it[kind]('/drip?n=1000', ['--net-time', '1s'])]);
    assert.match(spoke.text, /spoke/, kind);
    assert.ok(!silent.ok && !silent.text.includes('spoke'), `${kind}: ${silent.text}`);
    assert.match(whole.text, /whole/, kind);
    assert.ok(!old.ok, `${kind}: ${old.text}`);
  }));
  // At its rate all the time, and its other connections still end.
  const ran = await it.stage.exec(['--allow-host', it.host, '--net-idle', '500ms', '--net-rate', '20k', '--', 'sh', '-c',
    `curl -sS -m 60 -o /dev/null '${it.url}/body?n=5000000' & curl -sS '${it.url}/silent?ms=60000'; echo over $?; kill $!`]);
  assert.match(ran.stdout, /over [1-9]/, ran.stdout + ran.stderr);
});

test('heads and answers have sizes', { timeout }, async (t) => {
  const it = await both(t);
  if (it.skip) return t.skip(it.skip);
  for (const kind of kinds) {
    assert.match((await it[kind](`/head?n=${20 * KIB}`)).text, /headed/, kind);
    const long = await it[kind](`/head?n=${20 * KIB}`, ['--net-head', '8k']);
    assert.doesNotMatch(long.text, /headed/, kind);
    assert.match(long.text, /larger than|too long/, `${kind}: ${long.text}`);
    for (const path of ['body', 'chunks']) {
      const small = await it[kind](`/${path}?n=${50 * KIB}`, ['--net-answer', '100k']);
      assert.ok(small.ok && small.bytes >= 50 * KIB, `${kind} ${path}: ${small.text.slice(-200)}`);
      const large = await it[kind](`/${path}?n=${200 * KIB}`, ['--net-answer', '100k']);
      assert.ok(large.bytes < 110 * KIB, `${kind} ${path}: ${large.bytes}`);
      assert.match(large.text, kind === 'jail' && path === 'chunks' ? /curl: \(/ : /larger than/, `${kind} ${path}: ${large.text.slice(-200)}`);
    }
  }
  // A request's head as well.
  const header = ['-H', `x-long: ${'q'.repeat(20 * KIB)}`];
  assert.ok((await it.jail('/body?n=1', [], header)).ok);
  assert.match((await it.jail('/body?n=1', ['--net-head', '8k'], header)).text, /the head is too long/);
  const wrong = await run(['exec', '--net-head', '10b', '--', 'true']);
  assert.match(wrong.stderr, /--net-head '10b' is not between 1k and 1m/);
});

// NET-10: every kind of slow and endless peer at once in one sandbox; another one of the same server goes on.
test('slow and endless peers cost only their own sandbox', { timeout }, async (t) => {
  const it = await serverStage(t);
  if (it.skip) return t.skip(it.skip);
  const slow = http.createServer((request, response) => {
    if (request.url === '/endless') {
      const more = () => { while (!response.destroyed && response.write('x'.repeat(65536))); };
      response.on('drain', more);
      more();
    } else if (request.url === '/headers') {
      request.socket.write('HTTP/1.1 200 OK\r\n');
      const timer = setInterval(() => request.socket.write('x-a: b\r\n'), 50);
      request.socket.on('close', () => clearInterval(timer)).on('error', () => {});
    } else response.write('.');
  });
  slow.listen(0, '127.0.0.1');
  await once(slow, 'listening');
  t.after(() => { slow.closeAllConnections(); slow.close(); });
  const at = `ok.test:${slow.address().port}`;
  const network = `allow ${at}, ${it.plainAt}; private ok.test=127.0.0.1:${slow.address().port}`;
  const hostile = await it.create({ network, limits: { netConnections: 40 } });
  const quiet = await it.create({ network: `allow ${it.plainAt}` });
  const isolate = await it.create({ tier: 'isolate', network: `allow ${it.plainAt}` });
  for (const box of [hostile, quiet, isolate]) assert.equal(box.status, 201, box.text);
  let connected = 0;
  slow.on('connection', () => connected++);
  const begun = await it.sh(hostile.id, `for i in $(seq 20); do for p in endless headers drip; do
    (curl -sS --limit-rate 1k -o /dev/null http://${at}/$p >/dev/null 2>&1 &) ; done; done`);
  assert.equal(begun.exitCode, 0, begun.text);
  await until(() => connected >= 20);
  // ALIVE: the daemon answers, and others reach their hosts.
  for (let i = 0; i < 3; i++) {
    assert.equal((await it.call('GET', '/healthz')).status, 200);
    assert.equal((await it.sh(quiet.id, `curl -sS http://${it.plainAt}/x`)).stdout, 'plain /x\n');
    assert.match((await it.run(isolate.id, `(await fetch('http://${it.plainAt}/y')).text()`)).text, /plain \/y/);
  }
  assert.ok(connected <= 40, `${connected} of at most 40 connections`);
});

test('a server\'s sandboxes have them too, changed while they run and kept over a pause', { timeout }, async (t) => {
  const it = await serverStage(t, { answer: (got, response) => response.end('z'.repeat(Number(got.query.get('n')))) });
  if (it.skip) return t.skip(it.skip);
  const network = `allow ${it.at}`;
  const get = { jail: (box, n) => it.sh(box.id, `curl -sSk -o /tmp/a -w 'got %{size_download}' '${it.url}/?n=${n}' || echo failed $?`),
    isolate: (box, n) => it.run(box.id, `api.fetch('${it.url}/?n=${n}').then((r) => 'got ' + r.body.length, (e) => 'failed ' + e.code)`) };
  for (const tier of kinds) {
    const box = await it.create({ tier, network, limits: { netBytesTotal: 400_000, netHeadBytes: 4096, netAnswerBytes: 300_000 } });
    assert.equal(box.status, 201, box.text);
    assert.deepEqual([box.limits.netBytesTotal, box.limits.netHeadBytes, box.limits.netAnswerBytes], [400_000, 4096, 300_000]);
    assert.match((await get[tier](box, 250_000)).text, /got 250000/, tier);
    const over = await get[tier](box, 250_000);
    assert.match(over.text, /failed/, over.text);
    if (tier === 'jail') {
      // What was used stays used; a pause gives no new bytes.
      await it.call('POST', `/v1/sandboxes/${box.id}/pause`);
      await it.call('POST', `/v1/sandboxes/${box.id}/resume`);
    }
    assert.match((await get[tier](box, 10)).text, /failed/, `${tier} afterwards`);
    const more = await it.patch(box.id, { limits: { netBytesTotal: 2_000_000 } });
    assert.equal(more.status, 200, more.text);
    assert.match((await get[tier](box, 250_000)).text, /got 250000/, `${tier}, with more`);
    for (const limits of [{ netHeadBytes: 10 }, { netAnswerBytes: -1 }, { netBytesPerSecond: 1 }])
      assert.equal((await it.patch(box.id, { limits })).status, 400, JSON.stringify(limits));
  }
});
