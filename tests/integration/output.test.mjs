// Everything that a command prints reaches who follows it, at the pace of who follows it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { BIN, isSanitized, run, serve, sleep, tempDir, until } from './lib.mjs';

const LINES = 3000000, NUMBERS_MD5 = '603ea3c5a8c80940ca761f015046e950'; // seq 1 3000000 | md5sum
const T = { timeout: 600000 };
const ends = [];
let server, box, env;

async function start(t, toml = '') {
  const dir = tempDir(t), config = join(dir, 'config.toml');
  mkdirSync(join(dir, 'data'));
  writeFileSync(config, toml);
  const made = await serve(t, { dir: join(dir, 'data'), args: ['--config', config] });
  made.ask = async (method, path, body, headers = {}) => {
    const answer = await made.get(path, { method, headers: { ...headers, ...(body ? { 'content-type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}) });
    return answer.status === 204 ? {} : answer.json();
  };
  made.env = { ...process.env, SANDGLASS_URL: made.url, SANDGLASS_TOKEN: made.token, HOME: dir, XDG_CONFIG_HOME: dir };
  return made;
}

before(async () => {
  server = await start({ after: (call) => ends.push(call) });
  env = server.env;
  box = (await server.ask('POST', '/v1/sandboxes', {})).id;
});
after(async () => { for (const end of ends.reverse()) await end(); });

// Takes a stream's bytes with pauses; gives their number and MD5.
async function take(stream, { pauseEvery = 0, pauseMs = 0 } = {}) {
  const hash = createHash('md5');
  let bytes = 0, next = pauseEvery;
  for await (const piece of stream) {
    hash.update(piece);
    bytes += piece.length;
    if (pauseEvery && bytes >= next) {
      next += pauseEvery;
      await sleep(pauseMs);
    }
  }
  return { bytes, md5: hash.digest('hex') };
}

function exec(...command) {
  const child = spawn(BIN, ['sandbox', 'exec', box, '--', ...command], { stdio: ['ignore', 'pipe', 'pipe'], env });
  child.text = '';
  child.stderr.on('data', (data) => (child.text += data));
  child.exit = once(child, 'close').then(([code]) => code);
  return child;
}

const events = async function* (path, options) {
  const answer = await server.get(path, { ...options, headers: { accept: 'application/x-ndjson', ...options?.headers } });
  let rest = '';
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
};
const bytesOf = ({ text, base64 }) => (base64 === undefined ? Buffer.from(text) : Buffer.from(base64, 'base64'));
const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))[1]);

test('exec prints all of 3,000,000 lines to a reader that is slow, and the server does not hold them', T, async () => {
  const child = exec('seq', '1', String(LINES));
  // It stands while nobody reads.
  let last = -1;
  await until(async () => {
    const [command] = (await server.ask('GET', `/v1/sandboxes/${box}/commands?running=true`)).commands;
    const isStill = command !== undefined && command.logEnd > 0 && command.logEnd === last;
    last = command?.logEnd ?? -1;
    await sleep(500);
    return isStill;
  });
  const before = rss();
  const got = await take(child.stdout, { pauseEvery: 1 << 20, pauseMs: 60 });
  assert.equal(await child.exit, 0, child.text);
  assert.equal(got.md5, NUMBERS_MD5);
  assert.equal(child.text, '');
  if (!isSanitized) assert.ok(rss() - before < 24 << 10, `${rss() - before} KiB more`);
});

test('bytes that are no text come as they are', T, async () => {
  const made = await server.ask('POST', `/v1/sandboxes/${box}/commands`,
    { command: 'head -c 12000000 /dev/urandom > /tmp/random; md5sum < /tmp/random' });
  const child = exec('cat', '/tmp/random');
  const got = await take(child.stdout, { pauseEvery: 1 << 20, pauseMs: 20 });
  assert.equal(await child.exit, 0);
  assert.equal(got.md5, made.stdout.slice(0, 32));
});

test('followers of different pace each get all of it; one that goes away holds nobody', T, async () => {
  // It begins when all of them follow it.
  const command = `echo ready >&2; until [ -e /tmp/go ]; do sleep 0.1; done; seq 1 ${LINES}`;
  const started = await server.ask('POST', `/v1/sandboxes/${box}/commands`, { command, detached: true });
  const path = `/v1/commands/${started.id}/logs?follow=true`;
  let following = 0;
  const follow = async (pauseEvery) => {
    const hash = createHash('md5');
    let seen = 0, last;
    for await (const { event, data } of events(path)) {
      if (event === 'stdout') hash.update(bytesOf(data));
      if (event === 'stderr') following++;
      assert.notEqual(event, 'gap');
      if (pauseEvery && ++seen % pauseEvery === 0) await sleep(20);
      last = event;
    }
    return [last, hash.digest('hex')];
  };
  const killed = spawn(BIN, ['logs', '--follow', started.id], { stdio: ['ignore', 'pipe', 'pipe'], env }); // its output is never read
  killed.stderr.once('data', () => following++);
  const all = [follow(0), follow(10), follow(40)];
  await until(() => following === 4);
  await server.ask('POST', `/v1/sandboxes/${box}/commands`, { command: 'touch /tmp/go' });
  // Nothing is written any more: the command waits for the one that does not read.
  let held = { logEnd: 0 };
  await until(async () => {
    const before = held.logEnd;
    await sleep(500);
    held = await server.ask('GET', `/v1/commands/${started.id}`);
    return held.logEnd === before && before > 1000;
  });
  assert.equal(held.state, 'running');
  killed.kill('SIGKILL');
  for (const [last, md5] of await Promise.all(all)) assert.deepEqual([last, md5], ['end', NUMBERS_MD5]);
});

test('over SSE, as plain bytes and with logs --follow', T, async () => {
  const sse = await server.get(`/v1/sandboxes/${box}/commands`, { method: 'POST', body: JSON.stringify({ command: 'seq 1 500000' }),
    headers: { accept: 'text/event-stream', 'content-type': 'application/json' } });
  const text = (await sse.text()).split('\n\n').filter((part) => /^event: stdout$/m.test(part))
    .map((part) => JSON.parse(/^data: (.*)$/m.exec(part)[1]).text).join('');
  const expected = createHash('md5').update(text).digest('hex');
  assert.match(text, /^1\n2\n[^]*\n499999\n500000\n$/);
  assert.equal(text.length, 3388895);
  const started = await server.ask('POST', `/v1/sandboxes/${box}/commands`, { command: 'sleep 1; seq 1 500000', detached: true });
  const plain = server.get(`/v1/commands/${started.id}/output?follow=true&stream=stdout`).then(({ body }) => take(body));
  const child = spawn(BIN, ['logs', '-f', started.id], { stdio: ['ignore', 'pipe', 'inherit'], env });
  assert.equal((await take(child.stdout, { pauseEvery: 1 << 20, pauseMs: 50 })).md5, expected);
  assert.equal((await plain).md5, expected);
});

test('a terminal over WebSocket loses nothing', T, async () => {
  const started = await server.ask('POST', `/v1/sandboxes/${box}/commands`, { command: 'sleep 1; seq 1 300000', tty: true });
  const { url } = { url: `${server.url.replace('http', 'ws')}/v1/commands/${started.id}/tty?offset=0` };
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${server.token}` } });
  socket.binaryType = 'arraybuffer';
  const pieces = [];
  socket.onmessage = ({ data }) => (typeof data === 'string' ? assert.doesNotMatch(data, /"gap"/) : pieces.push(Buffer.from(data)));
  await new Promise((done) => (socket.onclose = done));
  const lines = Buffer.concat(pieces).toString().split('\r\n');
  assert.equal(lines.length, 300001);
  assert.ok(lines.slice(0, -1).every((line, i) => line === String(i + 1)));
});

test('one answer says what it leaves out; a log says what it does not keep', T, async (t) => {
  const small = await start(t, '[logs]\nstream_mb = 1\n');
  const { id } = await small.ask('POST', '/v1/sandboxes', {});
  const answer = await small.ask('POST', `/v1/sandboxes/${id}/commands`, { command: 'seq 1 1000000; echo whole >&2' });
  const mark = /\n\.\.\. ([\d,]+) bytes \(([\d,]+) lines\) omitted from this response \.\.\.\n/.exec(answer.stdout);
  const number = (text) => Number(text.replaceAll(',', ''));
  assert.equal(number(mark[1]) + answer.stdout.length - mark[0].length + 1, 6888896);
  assert.deepEqual([answer.leftOut.stdout.bytes, answer.leftOut.stdout.lines], [number(mark[1]), number(mark[2])]);
  assert.equal(answer.leftOut.stderr, undefined);
  assert.match(answer.leftOut.hint, /text\/event-stream/);
  assert.equal(answer.stderr, 'whole\n');
  assert.equal((await small.ask('POST', `/v1/sandboxes/${id}/commands`, { command: 'echo short' })).leftOut, null);

  assert.ok(answer.truncated && answer.missingBytes > 5000000);
  const plain = await (await small.get(`/v1/commands/${answer.id}/output?stream=stdout`)).text();
  const gap = /\n\.\.\. ([\d,]+) bytes \(([\d,]+) lines\) not kept \.\.\.\n/.exec(plain);
  assert.equal(number(gap[1]) + plain.length - gap[0].length + 1, 6888896);
  const [head, tail] = plain.split(gap[0].slice(1));
  assert.equal(Number(tail.split('\n')[0]) - Number(head.split('\n').at(-2)) - 1, number(gap[2]));

  const printed = await run(['logs', answer.id], { env: small.env });
  assert.equal(printed.code, 0);
  assert.equal(printed.stdout, plain);
  assert.match(printed.stderr, /^whole\nsandglass: \d+ bytes of the output are missing/);
  const lines = await (await small.get(`/v1/commands/${answer.id}/logs`, { headers: { accept: 'application/x-ndjson' } })).text();
  const gaps = lines.trim().split('\n').map((line) => JSON.parse(line)).filter(({ event }) => event === 'gap');
  assert.deepEqual(gaps.map(({ data }) => [data.stream, data.bytes, data.lines]), [['stdout', number(gap[1]), number(gap[2])]]);
});

test('a client that reads nothing for too long is cut off with a message, and the command goes on', T, async (t) => {
  const strict = await start(t, '[logs]\nstream_mb = 1\nstalled_seconds = 2\n');
  const { id } = await strict.ask('POST', '/v1/sandboxes', {});
  const child = spawn(BIN, ['sandbox', 'exec', id, '--', 'seq', '1', String(4 * LINES)],
    { stdio: ['ignore', 'pipe', 'pipe'], env: strict.env });
  let message = '';
  child.stderr.on('data', (data) => (message += data));
  const exit = once(child, 'close');
  await until(async () => (await strict.ask('GET', `/v1/sandboxes/${id}/commands`)).commands[0]?.state === 'ended', 500);
  await take(child.stdout);
  assert.notEqual((await exit)[0], 0);
  assert.match(message, /the client read no output for 2 s .*logs\.stalled_seconds.*offset \d+/);
});

test('what a sandbox had put out when it was deleted is in the log', T, async () => {
  const { id } = await server.ask('POST', '/v1/sandboxes', {});
  const started = await server.ask('POST', `/v1/sandboxes/${id}/commands`, { command: 'seq 1 5000; sleep 100', detached: true });
  await until(async () => (await server.ask('GET', `/v1/commands/${started.id}`)).logEnd === 23893);
  await server.ask('DELETE', `/v1/sandboxes/${id}`);
  assert.match(await (await server.get(`/v1/commands/${started.id}/output`)).text(), /^1\n[^]*\n5000\n$/);
});

test('a cell streams all that it prints; one answer says what it leaves out', T, async (t) => {
  const made = await server.ask('POST', '/v1/sandboxes', { runtime: 'python3' });
  if (made.error) return t.skip(made.error.message);
  const code = 'for i in range(400): print(("x" * 99 + "\\n") * 1000, end="")\nprint("last")'; // 40 MB
  const path = `/v1/sandboxes/${made.id}/run_code`, options = { method: 'POST', body: JSON.stringify({ code, timeoutMs: 550000 }) };
  let text = 0, seen = 0, last = '';
  for await (const { event, data } of events(path, { ...options, headers: { 'content-type': 'application/json' } })) {
    if (event !== 'stdout') continue;
    text += data.text.length;
    last = data.text;
    if (++seen % 100 === 0) await sleep(10);
  }
  assert.equal(text, 40000005);
  assert.ok(last.endsWith('last\n'));
  const answer = await server.ask('POST', path, { code, timeoutMs: 550000 });
  const [mark] = /\.\.\. [\d,]+ bytes \([\d,]+ lines\) omitted from this response \.\.\.\n/.exec(answer.stdout);
  assert.equal(answer.stdout.length - mark.length + answer.truncatedStdout, 40000005);
  assert.ok(answer.stdout.endsWith('x\nlast\n'));
});
