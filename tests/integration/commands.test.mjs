// Commands in a jail over HTTP: answers, events, logs, input, terminals; and code in isolates.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, run, serve, sleep, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };

async function setup(t) {
  const server = await serve(t);
  server.post = async (path, body, headers = {}) => {
    const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body ?? {}),
      headers: { 'content-type': 'application/json', ...headers } });
    const text = await answer.text();
    const one = text.startsWith('{') && text.indexOf('\n') === text.length - 1;
    return { ...(one ? JSON.parse(text) : {}), status: answer.status, text };
  };
  const sandbox = await server.post('/v1/sandboxes', { tier: 'jail' });
  if (sandbox.status !== 201) {
    t.skip(`no jails here: ${sandbox.text}`);
    return null;
  }
  server.box = `/v1/sandboxes/${sandbox.id}`;
  server.env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  server.id = sandbox.id;
  return server;
}

const lines = (text) => text.trim().split('\n').map((line) => JSON.parse(line));

test('a command answers with what it put out', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const done = await server.post(`${server.box}/commands`, { command: 'echo out; echo err >&2; exit 3' });
  assert.deepEqual([done.status, done.exitCode, done.end, done.stdout, done.stderr],
    [201, 3, 'exited', 'out\n', 'err\n']);
  const both = await server.post(`${server.box}/commands`, { command: 'true', argv: ['true'] });
  assert.equal(both.status, 400);
  const refused = async (body) => {
    const answer = await server.post(`${server.box}/commands`, body);
    return [answer.status, answer.error?.code];
  };
  await server.post(`${server.box}/commands`, { command: 'echo text >plain; cp plain junk; chmod +x junk' });
  assert.deepEqual(await refused({ argv: ['/no/such/program'] }), [404, 'program_not_found']);
  assert.deepEqual(await refused({ argv: ['/workspace/plain'] }), [403, 'not_executable']);
  assert.deepEqual(await refused({ argv: ['/workspace/junk'] }), [400, 'exec_format_error']);
  assert.deepEqual(await refused({ argv: ['true'], cwd: '/no/such/dir' }), [400, 'bad_cwd']);
  assert.deepEqual(await refused({ argv: ['true'], cwd: 'here' }), [400, 'bad_cwd']);
  const late = await server.post(`${server.box}/commands`, { argv: ['sleep', '30'], timeoutMs: 100 });
  assert.equal(late.end, 'timeout');
  const binary = await server.post(`${server.box}/commands`, { command: "printf '\\377\\376'" });
  assert.equal(binary.stdout, '\ufffd\ufffd');
  const raw = await (await server.get(`/v1/commands/${binary.id}/output`)).arrayBuffer();
  assert.deepEqual([...new Uint8Array(raw)], [255, 254]);
});

test('a stream tells of a command as it runs, and goes on where it was left', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const { text } = await server.post(`${server.box}/commands`, { command: 'echo one; sleep 0.1; echo two' },
    { accept: 'application/x-ndjson' });
  const events = lines(text);
  assert.equal(events[0].event, 'started');
  assert.equal(events.at(-1).event, 'end');
  assert.equal(events.at(-1).data.exitCode, 0);
  const out = events.filter((each) => each.event === 'stdout');
  assert.equal(out.map((each) => each.data.text).join(''), 'one\ntwo\n');
  // From behind the first piece on.
  const again = await server.get(`/v1/commands/${events[0].data.id}/logs`, { headers: {
    accept: 'application/x-ndjson', 'last-event-id': '4' } });
  const rest = lines(await again.text());
  assert.deepEqual(rest.map((each) => each.data.text ?? each.event), ['two\n', 'end']);
});

test('detached commands, input, signals, waiting', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const cat = await server.post(`${server.box}/commands`, { argv: ['cat'], stdin: true, detached: true });
  assert.equal(cat.state, 'running');
  for (const [query, body] of [['', 'hello '], ['?close=true', 'world']])
    assert.equal((await server.get(`/v1/commands/${cat.id}/stdin${query}`, { method: 'POST', body })).status, 204);
  const ended = await server.post(`/v1/commands/${cat.id}/wait`, {});
  assert.equal(ended.exitCode, 0);
  assert.equal(await (await server.get(`/v1/commands/${cat.id}/output?stream=stdout`)).text(), 'hello world');
  const sleeper = await server.post(`${server.box}/commands`, { argv: ['sleep', '100'], detached: true });
  assert.equal((await server.post(`/v1/commands/${sleeper.id}/wait`, { timeoutMs: 50 })).status, 504);
  assert.equal((await server.post(`/v1/commands/${sleeper.id}/signal`, { signal: 'NONSENSE' })).status, 400);
  assert.equal((await server.post(`/v1/commands/${sleeper.id}/signal`, { signal: 'SIGTERM' })).status, 204);
  const killed = await server.post(`/v1/commands/${sleeper.id}/wait`, {});
  assert.deepEqual([killed.end, killed.signal], ['killed', 15]);
  const { commands } = await (await server.get(`${server.box}/commands`)).json();
  assert.equal(commands.length, 2);
});

test('a client that leaves does not end the command', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const leave = new AbortController();
  const asked = server.get(`${server.box}/commands`, { method: 'POST', signal: leave.signal,
    headers: { 'content-type': 'application/json' }, body: '{"command":"until [ -e /tmp/go ]; do sleep 0.05; done; echo still here"}' });
  await until(async () => (await (await server.get(`${server.box}/commands`)).json()).commands.length === 1);
  leave.abort();
  await assert.rejects(asked);
  const [command] = (await (await server.get(`${server.box}/commands`)).json()).commands;
  await server.post(`${server.box}/commands`, { command: 'touch /tmp/go' });
  await server.post(`/v1/commands/${command.id}/wait`, {});
  assert.equal(await (await server.get(`/v1/commands/${command.id}/output`)).text(), 'still here\n');
});

test('a terminal over WebSocket, left and found again', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const command = await server.post(`${server.box}/commands`, { argv: ['/bin/sh'], tty: true, rows: 10, cols: 40 });
  if (command.status !== 201) return t.skip(`no terminals: ${command.text}`);
  const attach = (query = '') => {
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/commands/${command.id}/tty${query}`,
      { headers: { authorization: `Bearer ${server.token}` } });
    socket.binaryType = 'arraybuffer';
    const seen = { socket, bytes: '', words: [], closed: 0 };
    socket.onmessage = ({ data }) => {
      if (typeof data === 'string') seen.words.push(JSON.parse(data));
      else seen.bytes += Buffer.from(data).toString();
    };
    socket.onclose = ({ code }) => { seen.closed = code; };
    return seen;
  };
  const first = attach('?offset=0');
  await until(() => first.words[0]?.type === 'attached' || first.closed);
  assert.equal(first.closed, 0);
  first.socket.send(JSON.stringify({ type: 'resize', rows: 33, cols: 99 }));
  first.socket.send(Buffer.from('stty size; echo marker-$((40+2))\n'));
  await until(() => first.bytes.includes('marker-42'));
  assert.match(first.bytes, /33 99/);
  first.socket.close();
  const second = attach('?offset=0');
  await until(() => second.bytes.includes('marker-42'));
  second.socket.send(JSON.stringify({ type: 'input', data: 'exit 7\n' }));
  await until(() => second.closed);
  assert.equal(second.closed, 1000);
  assert.equal(second.words.at(-1).command.exitCode, 7);
});

test('code in isolates: once, with state, as events', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const once = await server.post('/v1/run_code', { code: 'console.log("hi"); [1, 2].map((n: number) => n * 2)' });
  assert.equal(once.status, 200, once.text);
  assert.deepEqual([once.success, once.result, once.stdout], [true, [2, 4], 'hi\n']);
  const thrown = await server.post('/v1/run_code', { code: 'throw new TypeError("no")' });
  assert.deepEqual([thrown.status, thrown.success, thrown.error.name], [200, false, 'TypeError']);
  const { text } = await server.post('/v1/run_code', { code: 'console.log(1); console.error(2); 3' },
    { accept: 'application/x-ndjson' });
  assert.deepEqual(lines(text).map((each) => each.event), ['stdout', 'stderr', 'result', 'end']);
  assert.equal(lines(text)[2].data.value, 3);
  const box = await server.post('/v1/sandboxes', { tier: 'isolate' });
  const eval_ = (code) => server.post(`/v1/sandboxes/${box.id}/run_code`, { code });
  await eval_('globalThis.n = 41');
  assert.equal((await eval_('n + 1')).result, 42);
  const { sandboxes: [fork] } = await server.post(`/v1/sandboxes/${box.id}/fork`, {});
  await eval_('n = 0');
  assert.equal((await server.post(`/v1/sandboxes/${fork.id}/run_code`, { code: 'n' })).result, 41);
  const unknown = await server.post('/v1/run_code', { code: '1', languge: 'js' });
  assert.match(unknown.text, /did you mean 'language'/);
});

test('the same on the command line', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const cli = (...args) => run(args, { env: server.env });
  const done = await cli('sandbox', 'exec', server.id, '--', 'sh', '-c', 'echo out; echo err >&2; exit 3');
  assert.deepEqual([done.code, done.stdout, done.stderr], [3, 'out\n', 'err\n']);
  const id = (await cli('sandbox', 'exec', '-d', server.id, '--', 'sh', '-c', 'echo 1; sleep 0.2; echo 2')).stdout.trim();
  assert.equal((await cli('logs', '-f', id)).stdout, '1\n2\n');
  assert.equal((await cli('logs', id)).stdout, '1\n2\n');
  const dir = tempDir(t);
  const bytes = randomBytes(3 << 20);
  writeFileSync(join(dir, 'near'), bytes);
  assert.equal((await cli('cp', join(dir, 'near'), `${server.id}:/workspace/far`)).stderr, '');
  assert.equal((await cli('cp', `${server.id}:/workspace/far`, join(dir, 'back'))).code, 0);
  assert.ok(readFileSync(join(dir, 'back')).equals(bytes));
  await cli('sandbox', 'exec', server.id, '--', 'sh', '-c', 'echo hello > /workspace/hello');
  assert.equal((await cli('fs', 'cat', server.id, '/workspace/hello')).stdout, 'hello\n');
  await cli('sandbox', 'exec', server.id, '--', 'sh', '-c', 'mkdir -p node_modules/x; echo hello > node_modules/x/hello');
  assert.equal((await cli('fs', 'glob', server.id, '**/hello')).stdout, '/workspace/hello\n');
  assert.equal((await cli('fs', 'glob', '--search-all', server.id, '**/hello')).stdout, '/workspace/hello\n/workspace/node_modules/x/hello\n');
  assert.match((await cli('fs', 'grep', server.id, '^hel')).stdout, /\/workspace\/hello/);
  assert.match((await cli('cp', 'a', 'b')).stderr, /one argument of cp must be/);
});

test('exec passes input, signals and exit codes on', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const exec = (options, ...argv) => run(['sandbox', 'exec', ...options, server.id, '--', ...argv], { env: server.env });
  const child = (options, ...argv) => {
    const made = spawn(BIN, ['sandbox', 'exec', ...options, server.id, '--', ...argv], { env: server.env });
    made.text = '';
    made.stdout.on('data', (data) => (made.text += data));
    made.ended = once(made, 'close');
    return made;
  };
  const bytes = randomBytes(300000);
  const cat = child(['--stdin'], 'sha256sum');
  cat.stdin.end(bytes);
  await cat.ended;
  assert.equal(cat.text, `${createHash('sha256').update(bytes).digest('hex')}  -\n`);
  const file = join(tempDir(t), 'input');
  writeFileSync(file, 'from a file\n');
  assert.equal(execFileSync('/bin/sh', ['-c', '"$0" sandbox exec -i "$1" -- cat <"$2"', BIN, server.id, file],
    { env: server.env, encoding: 'utf8' }), 'from a file\n');
  assert.equal((await exec([], 'cat')).stdout, '', '/dev/null gives nothing');

  const polite = child([], 'sh', '-c', 'trap "echo asked; exit 5" INT; echo ready; while :; do sleep 0.05; done');
  await until(() => polite.text.includes('ready'));
  polite.kill('SIGINT');
  assert.deepEqual([(await polite.ended)[0], polite.text], [5, 'ready\nasked\n']);
  const deaf = child([], 'sh', '-c', 'trap "echo no" INT; echo ready; while :; do sleep 0.05; done');
  await until(() => deaf.text.includes('ready'));
  deaf.kill('SIGINT');
  await until(() => deaf.text.includes('no'));
  await sleep(300); // two that come at once are one
  deaf.kill('SIGINT');
  assert.equal((await deaf.ended)[0], 128 + 9);

  assert.equal((await exec(['--env', 'A=b', '-e', 'C=d e'], 'sh', '-c', 'echo $A $C')).stdout, 'b d e\n');
  assert.equal((await exec(['--timeout', '200ms'], 'sleep', '30')).code, 124);
  assert.equal((await exec([], '/no/such')).code, 127);
  assert.equal((await exec([], '/etc/passwd')).code, 126);
  assert.equal((await exec(['--cwd', '/no/such'], 'true')).code, 125);
  assert.equal((await run(['sandbox', 'exec', 'nobody', '--', 'true'], { env: server.env })).code, 125);
  const odd = await exec(['--env', 'A'], 'true');
  assert.deepEqual([odd.code, odd.stderr], [2, "sandglass: --env takes K=V, got 'A'\n"]);
  assert.match((await exec(['-d', '-i'], 'true')).stderr, /--detach and --stdin cannot be combined/);
});

test('grep tells line and column, with the lines around when asked', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  await server.post(`${server.box}/commands`, { command: "printf 'one\\nand two\\nthree\\n' >f" });
  const grep = async (more) => (await server.post(`${server.box}/files/grep`, { path: '/workspace', pattern: 'tw.', ...more })).matches;
  const match = { path: '/workspace/f', line: 2, column: 5, text: 'and two' };
  assert.deepEqual(await grep({}), [match]);
  assert.deepEqual(await grep({ context: 1 }), [
    { path: '/workspace/f', line: 1, text: 'one', context: true }, match, { path: '/workspace/f', line: 3, text: 'three', context: true }]);
});

test('bytes: ranges, versions, signed URLs', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const url = `${server.box}/files?path=/workspace/file`;
  const put = await server.get(url, { method: 'PUT', body: '0123456789' });
  assert.equal(put.status, 201);
  const whole = await server.get(url);
  const etag = whole.headers.get('etag');
  assert.equal(await whole.text(), '0123456789');
  assert.equal(etag, `"${(await put.json()).file.etag}"`);
  const range = async (range, headers = {}) => {
    const answer = await server.get(url, { headers: { range, ...headers } });
    return [answer.status, answer.headers.get('content-range'), await answer.text()];
  };
  assert.deepEqual(await range('bytes=2-4'), [206, 'bytes 2-4/10', '234']);
  assert.deepEqual(await range('bytes=7-'), [206, 'bytes 7-9/10', '789']);
  assert.deepEqual(await range('bytes=-3'), [206, 'bytes 7-9/10', '789']);
  assert.equal((await range('bytes=10-'))[0], 416);
  assert.equal((await range('bytes=1-2', { 'if-range': '"other"' }))[0], 200);
  for (const seen of [etag, `W/${etag}`, `"x", ${etag}`, etag.slice(1, -1)])
    assert.equal((await server.get(url, { headers: { 'if-none-match': seen } })).status, 304);
  assert.deepEqual(await range('bytes=2-4', { 'if-range': etag }), [206, 'bytes 2-4/10', '234']);
  assert.equal((await range('bytes=9223372036854775807-'))[0], 416);
  // Around the size up to which contents come with the first answer.
  for (const size of [0, 1, 65535, 65536, 65537, 200000]) {
    const bytes = randomBytes(size);
    await server.get(url, { method: 'PUT', body: bytes });
    const got = await server.get(url);
    assert.equal(got.headers.get('content-length'), `${size}`);
    assert.ok(Buffer.from(await got.arrayBuffer()).equals(bytes), `${size} bytes`);
    if (size < 65536) continue;
    for (const [from, to] of [[1, size], [0, 65536], [1, 65537], [size - 65536, size], [size - 1, size]]) {
      const part = await server.get(url, { headers: { range: `bytes=${from}-${to - 1}` } });
      assert.ok(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(from, to)), `${from} to ${to} of ${size}`);
    }
  }
  const code = async (path) => { const got = await server.get(`${server.box}/files?path=${path}`); return [got.status, (await got.json()).error.code]; };
  assert.deepEqual(await code('/workspace/none'), [404, 'not_found']);
  assert.equal((await code('/workspace'))[1], 'not_a_file');
  assert.equal((await code('/dev/null'))[1], 'not_a_file');
  await server.get(url, { method: 'PUT', body: '0123456789' });
  const signed = await server.post(`${server.box}/files/sign`, { path: '/workspace/file', expiresSeconds: 3600 });
  assert.equal(await (await fetch(signed.url)).text(), '0123456789');
  // A URL for something else and one that was forged are refused alike.
  const refused = async (url, options) => {
    const answer = await fetch(url, options);
    assert.equal(answer.status, 401);
    assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
    return (await answer.json()).error.message;
  };
  const wrong = [await refused(signed.url.replace('file&', 'other&')), await refused(signed.url, { method: 'PUT', body: 'x' }),
    await refused(signed.url, { method: 'DELETE' }), await refused(signed.url.replace('/files?', '/tar?')),
    await refused(signed.url.replace(/expires=\d+/, 'expires=1')), await refused(signed.url.replace(/signature=./, 'signature=x')),
    await refused(signed.url.replace(/&expires=\d+/, ''))];
  assert.deepEqual(new Set(wrong), new Set(["the URL's signature is not for this method and path, or the URL was changed; " +
    'request a new one with POST .../files/sign']));
  const short = await server.post(`${server.box}/files/sign`, { path: '/workspace/file', expiresSeconds: 1 });
  await until(async () => (await fetch(short.url)).status === 401);
  assert.equal(await refused(short.url), `this signed URL expired at ${short.expiresAt}; request a new one with POST .../files/sign`);
});

test('a stopping server says a last word to those who listen', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const feed = await server.get('/v1/events?after=0', { headers: { accept: 'application/x-ndjson' } });
  const reader = feed.body.getReader();
  let text = '';
  const more = async () => {
    const { value, done } = await reader.read();
    if (!done) text += Buffer.from(value).toString();
    return done;
  };
  await more();
  server.child.kill('SIGTERM');
  while (!(await more()));
  assert.equal(lines(text).at(-1).event, 'end');
  assert.deepEqual(await server.exit, { code: 0, signal: null });
});

test('hostile words are kept as they are, or refused', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const words = ["'; DROP TABLE x;--", '%', '_', 'a\r\nb', '\u001b[31mred', '${jndi:ldap://x}', '../..',
    'x'.repeat(1 << 20)];
  for (const word of words) {
    const made = await server.post('/v1/sandboxes', { tier: 'memory', name: word, metadata: { word } });
    assert.ok([201, 400, 413].includes(made.status), `${word.slice(0, 20)}: ${made.text.slice(0, 200)}`);
    if (made.status === 201) {
      assert.equal(made.name, word);
      assert.deepEqual(made.metadata, { word });
    }
    const path = `/v1/sandboxes/${encodeURIComponent(word.slice(0, 4000))}`;
    assert.equal((await server.get(path)).status, made.status === 201 ? 200 : 404); // by its name
    assert.ok([200, 400].includes((await server.get(`/v1/sandboxes?name=${encodeURIComponent(word.slice(0, 2000))}`)).status));
  }
  for (const body of ['{"name":"a","name":"b"}', '{"name":"\\ud800"}', '{"name":"a\\u0000b"}', '\ufeff{}', '{} x',
    '{"limits":{"cpus":1e999}}', `{"metadata":${'{"a":'.repeat(100)}1${'}'.repeat(100)}}`, '{/**/}', '[1]', '"x"', 'null'])
    assert.equal((await server.get('/v1/sandboxes', { method: 'POST', body,
      headers: { 'content-type': 'application/json' } })).status, 400, body);
  assert.equal((await server.get('/readyz')).status, 200);
});
