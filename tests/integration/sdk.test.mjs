// The TypeScript package against a real daemon, on the Node that runs this file.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { run, serve, sleep, tempDir } from './lib.mjs';

const T = { timeout: 600000 };
const SOURCE = fileURLToPath(new URL('../..', import.meta.url));
const PACKAGE = process.env.SG_SDK;
const sdk = await import(pathToFileURL(join(PACKAGE, 'dist/index.js')));
const { Client, Sandbox, Session, Snapshot, Volume, CodeBox } = sdk;

async function setup(t) {
  const server = await serve(t);
  const client = new Client({ url: server.url, token: server.token });
  return { server, client, box: () => Sandbox.create({ client, tier: 'jail' }) };
}

const until = async (is) => {
  for (let i = 0; !(await is()); i++) {
    assert.ok(i < 1800, `not so after three minutes: ${is}`);
    await sleep(100);
  }
};

test('code: values, output as it comes, errors as data', T, async (t) => {
  const { client, box } = await setup(t);
  const sandbox = await box();
  const seen = { stdout: '', stderr: '', values: [], errors: [] };
  const calls = {
    language: 'python', onStdout: (text) => (seen.stdout += text), onStderr: (text) => (seen.stderr += text),
    onResult: (value) => seen.values.push(value), onError: (error) => seen.errors.push(error),
  };
  const good = await sandbox.runCode('import sys\nx = 20\nprint("out")\nprint("err", file=sys.stderr)\nx + 1', calls);
  assert.deepEqual([good.success, good.result, good.text, good.stdout, good.stderr], [true, 21, '21', 'out\n', 'err\n']);
  assert.deepEqual([seen.stdout, seen.stderr, seen.values[0].data['text/plain']], ['out\n', 'err\n', '21']);
  const plain = await sandbox.runCode('x + 2', { language: 'python' });
  assert.deepEqual([plain.result, plain.stdout], [22, '']);
  const bad = await sandbox.runCode('open("f", "w").close()\n1 / 0', calls);
  assert.deepEqual([bad.success, bad.error.name, seen.errors.length], [false, 'ZeroDivisionError', 1]);
  assert.match(bad.error.traceback, /1 \/ 0/);
  assert.deepEqual(bad.files.map(({ path, change }) => [path, change]), [['/workspace/f', 'created']]);
  assert.deepEqual([bad.stateLost, bad.moreFiles], [false, false]);
  assert.equal((await sandbox.runCode('exit 3', { language: 'bash' })).stateLost, true);
  const late = await sandbox.runCode('while True: pass', { language: 'python', timeoutMs: 300 });
  assert.deepEqual([late.success, late.status], [false, 'timeout']);

  const lines = [];
  const once = await sdk.runOnce('console.log("a"); console.log("b"); ({ n: 1 as number })', { client, onStdout: (text) => lines.push(text) });
  assert.deepEqual([once.result, once.stdout, lines], [{ n: 1 }, 'a\nb\n', ['a\n', 'b\n']]);
  assert.deepEqual((await sdk.runOnce('console.log(1); 2', { client })).stdout, '1\n');
  assert.equal((await sdk.runOnce('throw new TypeError("no")', { client })).error.name, 'TypeError');
});

test('contexts, and an abort that interrupts and keeps variables', T, async (t) => {
  const { box } = await setup(t);
  const sandbox = await box();
  const other = await sandbox.contexts.create({ runtime: 'python3', cwd: '/tmp' });
  assert.equal((await sandbox.contexts.get(other.id)).state, 'cold');
  await sandbox.runCode('x = "other"', { context: other.id });
  await sandbox.runCode('x = "own"', { runtime: 'python3' });
  assert.equal((await sandbox.runCode('x', { context: other.id })).result, 'other');
  assert.deepEqual((await sandbox.contexts.list()).map(({ id }) => id).sort(), [other.id, 'python3'].sort());
  // Aborted by a signal, and by an interrupt of another client.
  const controller = new AbortController();
  const long = sandbox.runCode('import time\nx = "changed"\nopen("/workspace/on", "w").close()\ntime.sleep(600)',
    { runtime: 'python3', signal: controller.signal });
  await until(() => sandbox.files.exists('/workspace/on'));
  controller.abort();
  await assert.rejects(long, { name: 'AbortError' });
  assert.equal((await sandbox.runCode('x', { runtime: 'python3' })).result, 'changed');
  const again = sandbox.runCode('time.sleep(600)', { runtime: 'python3' });
  await until(async () => (await sandbox.contexts.get('python3')).state === 'busy');
  await sandbox.interrupt();
  assert.equal((await again).error.name, 'KeyboardInterrupt');
  assert.equal((await sandbox.runCode('x', { runtime: 'python3' })).result, 'changed');
  await sandbox.contexts.restart('python3');
  assert.equal((await sandbox.runCode('x', { runtime: 'python3' })).error.name, 'NameError');
  await sandbox.contexts.delete(other.id);
  assert.deepEqual((await sandbox.contexts.list()).map(({ id }) => id), ['python3']);
});

test('an abort ends the command of commands.run', T, async (t) => {
  const { box } = await setup(t);
  const sandbox = await box();
  const isQuiet = async () => (await sandbox.commands.list({ running: true })).length === 0;
  const begins = (name) => until(() => sandbox.files.exists(`/tmp/${name}`));
  // With a signal the answer is as it was without.
  const { signal } = new AbortController();
  const whole = await sandbox.commands.run('echo out; echo err >&2; exit 3', { signal });
  assert.deepEqual([whole.stdout, whole.stderr, whole.exitCode, whole.leftOut], ['out\n', 'err\n', 3, null]);
  const long = await sandbox.commands.run('seq 1 400000', { signal });
  assert.match(long.stdout, /^1\n2\n[^]*characters left out[^]*\n400000\n$/);
  assert.ok(long.stdout.length < 1.2e6 && long.leftOut.stdout.bytes > 1e6, `${long.stdout.length}`);

  for (const more of [{}, { onStdout: () => undefined }]) {
    const polite = new AbortController();
    const asked = sandbox.commands.run('trap "touch /tmp/cleaned; exit 1" INT; touch /tmp/polite; while :; do sleep 0.1; done', { signal: polite.signal, ...more });
    await begins('polite');
    polite.abort();
    await assert.rejects(asked, { name: 'AbortError' });
    assert.ok(await sandbox.files.exists('/tmp/cleaned'));
    assert.ok(await isQuiet());
    await sandbox.commands.run('rm /tmp/polite /tmp/cleaned');
  }
  const deaf = new AbortController();
  const ignores = sandbox.commands.run('trap "" INT; touch /tmp/deaf; while :; do sleep 0.1; done', { signal: deaf.signal });
  await begins('deaf');
  deaf.abort(new Error('enough'));
  await assert.rejects(ignores, { message: 'enough' });
  await until(isQuiet);
  // Before the server has told of it; and before it was asked for.
  const early = new AbortController();
  const started = sandbox.commands.run('sleep 600', { signal: early.signal });
  setTimeout(() => early.abort(), 1);
  await assert.rejects(started, { name: 'AbortError' });
  await until(isQuiet);
  await assert.rejects(sandbox.commands.run('touch /tmp/never', { signal: AbortSignal.abort() }), { name: 'AbortError' });
  assert.equal(await sandbox.files.exists('/tmp/never'), false);
  // One that was started outlives what was asked for with it.
  const stays = new AbortController();
  const detached = await sandbox.commands.start('sleep 600', { signal: stays.signal });
  stays.abort();
  assert.deepEqual((await sandbox.commands.list({ running: true })).map(({ id }) => id), [detached.id]);
  await detached.kill();
});

test('ports: URLs for a browser, a public host, hidden again', T, async (t) => {
  const { box } = await setup(t);
  const sandbox = await box();
  await sandbox.files.write('/workspace/index.html', 'hello from inside');
  await sandbox.commands.start('python3 -m http.server 8000');
  const url = await sandbox.getUrl(8000, { seconds: 600 });
  const listens = async (from) => {
    const answer = await fetch(from);
    return answer.status === 200 && (await answer.text()) === 'hello from inside';
  };
  await until(() => listens(url));
  assert.equal((await fetch(url.replace(/\?.*/, ''))).status, 401);
  assert.ok(await listens(`http://${await sandbox.getHost(8000)}/`));
  assert.deepEqual((await sandbox.ports.list()).map(({ port, public: isPublic }) => [port, isPublic]), [[8000, true]]);
  await sandbox.ports.hide(8000);
  assert.notEqual((await fetch(url)).status, 200);
});

test('commands: to the end, behind, found again, killed', T, async (t) => {
  const { box } = await setup(t);
  const sandbox = await box();
  const ended = await sandbox.commands.run('echo out; echo err >&2; exit 3');
  assert.deepEqual([ended.exitCode, ended.stdout, ended.stderr], [3, 'out\n', 'err\n']);
  assert.equal((await sandbox.commands.run(['printf', '%s', 'a b'], { env: { A: '1' } })).stdout, 'a b');
  let heard = '';
  const streamed = await sandbox.commands.run('cat; echo done', { input: 'given\n', onStdout: (text) => (heard += text) });
  assert.deepEqual([heard, streamed.stdout, streamed.exitCode], ['given\ndone\n', 'given\ndone\n', 0]);

  // Characters that pieces cut are whole; what one answer cannot hold is said.
  const long = await sandbox.commands.run(['sh', '-c', 'seq 1 200000; yes aäö€ | head -n 300000'], { onStdout: () => {} });
  assert.equal(long.stdout, Array.from({ length: 200000 }, (_, i) => `${i + 1}\n`).join('') + 'aäö€\n'.repeat(300000));
  assert.equal(long.leftOut, null);
  const held = await sandbox.commands.run(['seq', '1', '400000']);
  assert.equal(held.stdout.replace(/^\.\.\..*\n/m, '').length + held.leftOut.stdout.bytes, 2688895);

  const started = await sandbox.commands.start('read line; echo "got $line"; exec sleep 100', { stdin: true });
  await started.write('word\n');
  const again = await sandbox.commands.connect(started.id);
  for await (const piece of again.output()) {
    assert.deepEqual([piece.stream, piece.text, piece.nextOffset], ['stdout', 'got word\n', 9]);
    break;
  }
  assert.deepEqual((await sandbox.commands.list({ running: true })).map(({ id }) => id), [started.id]);
  await assert.rejects(again.wait({ timeoutMs: 50 }), { name: 'TimeoutError', code: 'timeout', status: 504 });
  await sandbox.commands.kill(started.id);
  assert.equal((await again.wait()).end, 'killed');
  assert.equal(await again.text(), 'got word\n');
  const bytes = await sandbox.commands.start('printf "\\377\\000x"');
  await bytes.wait();
  const pieces = [];
  for await (const piece of bytes.output()) pieces.push(...piece.bytes);
  assert.deepEqual(pieces, [255, 0, 120]);
});

test('files: every verb', T, async (t) => {
  const { box } = await setup(t);
  const { files } = await box();
  const info = await files.write('/workspace/dir/a.txt', 'one\ntwo\ntwo\n');
  assert.deepEqual([info.size, info.type], [12, 'file']);
  assert.equal(await files.read('/workspace/dir/a.txt'), 'one\ntwo\ntwo\n');
  await files.write('/workspace/b.bin', new Uint8Array([0, 255, 1]));
  assert.deepEqual([...await files.readBinary('/workspace/b.bin')], [0, 255, 1]);
  assert.deepEqual((await files.list()).map(({ path }) => path).sort(), ['b.bin', 'dir']);
  assert.equal((await files.listPage('/workspace', { limit: 1 })).truncated, true);
  assert.equal((await files.stat('/workspace/dir')).type, 'directory');
  assert.deepEqual([await files.exists('/workspace/dir'), await files.exists('/workspace/none')], [true, false]);
  assert.deepEqual(await files.glob('**/*.txt'), ['/workspace/dir/a.txt']);
  assert.deepEqual((await files.grep('tw.', { path: '/workspace', include: '*.txt' })).map(({ line, text }) => [line, text]), [[2, 'two'], [3, 'two']]);
  await assert.rejects(files.edit('/workspace/dir/a.txt', 'two', '2'), { name: 'FileError', code: 'ambiguous_match' });
  await assert.rejects(files.edit('/workspace/dir/a.txt', 'six', '6'), { code: 'no_match' });
  assert.equal(await files.edit('/workspace/dir/a.txt', 'two', '2', { all: true }), 2);
  await files.mkdir('/workspace/x/y');
  await files.move('/workspace/dir/a.txt', '/workspace/x/y/a.txt');
  await assert.rejects(files.read('/workspace/dir/a.txt'), { name: 'NotFoundError', path: '/workspace/dir/a.txt' });
  await assert.rejects(files.delete('/workspace/x'), { name: 'ConflictError' });
  await files.delete('/workspace/x', { recursive: true });
  await assert.rejects(files.read('/workspace'), { name: 'FileError', code: 'not_a_file' });
  await assert.rejects(files.glob('['), { name: 'InvalidError', code: 'invalid_pattern' });
  await files.symlink('/workspace/link', 'b.bin');
  await files.chmod('/workspace/b.bin', 0o600);
  assert.equal((await files.stat('/workspace/link')).mode, 0o600);
  assert.equal((await files.stat('/workspace/link', { follow: false })).type, 'symlink');
  const { etag } = await files.stat('/workspace/b.bin');
  await files.write('/workspace/b.bin', 'new', { ifMatch: etag });
  await assert.rejects(files.write('/workspace/b.bin', 'newer', { ifMatch: etag }), { code: 'no_match' });
  await assert.rejects(files.write('/workspace/b.bin', 'newer', { isNew: true }), { name: 'ConflictError' });

  const big = new Uint8Array(3 << 20).map((_, i) => i * 7);
  await files.upload('/workspace/big', new Blob([big]).stream());
  let count = 0, sum = 0;
  for await (const bytes of await files.download('/workspace/big', { offset: 1 << 20 })) {
    count += bytes.length;
    for (const byte of bytes) sum += byte;
  }
  assert.deepEqual([count, sum], [2 << 20, big.subarray(1 << 20).reduce((a, b) => a + b, 0)]);
  const { url } = await files.signedUrl('/workspace/b.bin');
  assert.equal(await (await fetch(url)).text(), 'new');
  const put = await files.signedUrl('/workspace/signed', { method: 'PUT', expiresSeconds: 60 });
  assert.equal((await fetch(put.url, { method: 'PUT', body: 'by url' })).status, 201);
  assert.equal(await files.read('/workspace/signed'), 'by url');
  const tar = await new Response(await files.downloadTar('/workspace')).arrayBuffer();
  assert.ok(await files.uploadTar('/workspace/copy', new Uint8Array(tar)) > 0);
  assert.equal(await files.read('/workspace/copy/signed'), 'by url');
});

test('files: a watch tells of changes until it is left', T, async (t) => {
  const { box } = await setup(t);
  const { files } = await box();
  const watch = files.watch('/workspace');
  const seen = (async () => {
    for await (const change of watch) if (change.path === 'seen') return change;
  })();
  // Whether the watch stands is known only by what it tells.
  let isOver = false;
  seen.then(() => { isOver = true; });
  for (let i = 0; !isOver && i < 3600; i++) {
    await files.write('/workspace/seen', String(i));
    await sleep(50);
  }
  const change = await seen;
  assert.deepEqual([change.path, change.kind], ['seen', 'file']);
});

for (const way of ['as it is here', 'without a WebSocket'])
  test(`a terminal, left and found again, ${way}`, T, async (t) => {
    const { box } = await setup(t);
    const sandbox = await box();
    const { WebSocket } = globalThis;
    if (way === 'without a WebSocket') {
      delete globalThis.WebSocket;
      t.after(() => { if (WebSocket) globalThis.WebSocket = WebSocket; });
    }
    let seen = '';
    const onData = (bytes) => (seen += Buffer.from(bytes));
    const terminal = await sandbox.pty.create(['/bin/sh'], { rows: 10, cols: 40, onData });
    await terminal.resize(33, 99);
    await terminal.write('stty size; echo marker-$((40+2))\n');
    await until(() => seen.includes('marker-42\r\n'));
    assert.match(seen, /33 99/);
    terminal.disconnect();
    const { offset } = terminal;
    let later = '';
    const again = await sandbox.pty.connect(terminal.id, { offset, onData: (bytes) => (later += Buffer.from(bytes)) });
    await again.write('exit 7\n');
    assert.equal((await again.exited).exitCode, 7);
    assert.ok(!later.includes('marker-42'), later);
    if (WebSocket) globalThis.WebSocket = WebSocket;
  });

test('lives: pause, resume, fork, checkpoint, rollback, stop, lists', T, async (t) => {
  const { client } = await setup(t);
  const sandbox = await Sandbox.create({ client, tier: 'jail', name: 'first', metadata: { team: 'red' }, timeoutMs: 0 });
  await sandbox.files.write('/workspace/f', 'one');
  const kept = await sandbox.checkpoint({ name: 'one' });
  assert.equal(kept.name, 'one');
  await sandbox.files.write('/workspace/f', 'two');
  assert.equal((await sandbox.pause()).info.state, 'paused');
  assert.equal((await sandbox.resume()).info.state, 'running');
  await sandbox.runCode('x=1', { language: 'bash' });
  const [fork] = await sandbox.fork();
  assert.deepEqual([fork.info.forkedFrom, await fork.files.read('/workspace/f')], [sandbox.id, 'two']);
  assert.equal(typeof fork.info.contexts[0].live, 'boolean', JSON.stringify(fork.info));
  await sandbox.rollback('one');
  assert.equal(await sandbox.files.read('/workspace/f'), 'one');
  assert.equal((await sandbox.update({ name: 'second' })).info.name, 'second');
  assert.equal((await sandbox.setTimeout(60000)).info.timeoutMs, 60000);
  const { sandboxes } = await Sandbox.list({ client, metadata: { team: 'red' }, state: ['running'] });
  assert.ok(sandboxes.some(({ id }) => id === sandbox.id));
  const same = await Sandbox.get(sandbox.id, { client });
  assert.equal(same.info.name, 'second');
  assert.equal((await same.connect()).info.state, 'running');
  assert.equal((await same.stop()).info.state, 'stopped');
  await assert.rejects(same.files.read('/workspace/f'), { name: 'NotFoundError', code: 'gone' });
  await same.delete();
  await assert.rejects(Sandbox.get(sandbox.id, { client }), { name: 'NotFoundError' });
  await fork.delete();
});

test('volumes, snapshots, sessions', T, async (t) => {
  const { client } = await setup(t);
  const volume = await Volume.create({ client, name: 'data' });
  await volume.files.write('/workspace/kept', 'yes');
  const sandbox = await Sandbox.create({ client, tier: 'jail', volume: volume.id });
  assert.equal(await sandbox.files.read('/workspace/kept'), 'yes');
  await sandbox.commands.run('mkdir -p /opt/x && echo tree >/opt/x/f');
  await assert.rejects(volume.delete(), { name: 'ConflictError', code: 'busy' });
  const snapshot = await Snapshot.create({ client, sandbox: sandbox.id, slug: 'some-tree' });
  const standing = await Sandbox.create({ client, tier: 'jail', snapshots: ['some-tree'] });
  assert.equal(await standing.files.read('/opt/x/f'), 'tree\n');
  assert.deepEqual((await Snapshot.list({ client })).snapshots.map(({ slug }) => slug), ['some-tree']);
  assert.equal((await Snapshot.get('some-tree', { client })).id, snapshot.id);
  await standing.delete();
  await snapshot.delete();
  await sandbox.delete();
  assert.equal((await Volume.get('data', { client })).id, volume.id);
  assert.equal((await Volume.list({ client })).volumes.length, 1);
  await volume.delete();

  const session = await Session.create({ client, id: 'my-own-session', sandbox: { tier: 'jail' } });
  assert.equal((await session.runCode('n = 4\nn', { language: 'python' })).result, 4);
  await session.files.write('/workspace/f', 'of the session');
  assert.equal((await session.rest()).info.state, 'dormant');
  assert.equal((await session.commands.run('cat f')).stdout, 'of the session');
  assert.equal((await session.use()).info.session, 'my-own-session');
  assert.equal((await session.callTool('read', { path: 'f' })).answer.content, 'of the session');
  assert.match(await session.systemPrompt(), /run_code/);
  await session.saveModule('lib/one.js', 'export const one = 1');
  assert.deepEqual((await session.listModules()).map(({ path }) => path), ['lib/one.js']);
  await session.deleteModule('lib/one.js');
  assert.equal((await Session.list({ client })).sessions.length, 1);
  await (await Session.get('my-own-session', { client })).delete();
});

test('CodeBox', T, async (t) => {
  const { client } = await setup(t);
  const box = new CodeBox({ client });
  assert.equal(await box.status(), 'new');
  await assert.rejects(box.run('1'), { name: 'ConflictError', message: /start\(\)/ });
  assert.equal(await box.start(), 'running');
  await box.upload('data.csv', 'a,b\n');
  assert.deepEqual(await box.run('print(open("data.csv").read(), end="")'), { type: 'text', content: 'a,b\n' });
  assert.deepEqual(await box.run('x = 2\nx * 3'), { type: 'text', content: '6' });
  const failed = await box.run('nope');
  assert.equal(failed.type, 'error');
  assert.match(failed.content, /NameError/);
  const again = await CodeBox.fromId(box.id, { client });
  assert.deepEqual(await again.run('x'), { type: 'text', content: '2' });
  assert.deepEqual(await again.list(), ['data.csv']);
  assert.equal(Buffer.from(await again.download('data.csv')).toString(), 'a,b\n');
  await assert.rejects(box.install('x; rm -rf /'), { name: 'InvalidError' });
  assert.equal(await box.stop(), 'stopped');
});

test('errors have their family, and only what may be repeated is', T, async (t) => {
  const { server, client } = await setup(t);
  assert.throws(() => new Client({ token: '' }), { name: 'AuthError' });
  await assert.rejects(Sandbox.list({ client: { url: server.url, token: 'wrong' } }), { name: 'AuthError', code: 'unauthorized', status: 401,
    message: /the server rejected the token: pass a valid \{ token \} or set SANDGLASS_TOKEN/ });
  await assert.rejects(Sandbox.create({ client, tier: 'none' }), { name: 'InvalidError', status: 400 });
  const error = await Sandbox.get('nosuchsandbox', { client }).catch((caught) => caught);
  assert.ok(error instanceof sdk.NotFoundError && error instanceof sdk.SandglassError && error.requestId);

  const asked = [];
  const flaky = createServer((request, response) => {
    asked.push([request.method, request.headers['idempotency-key']]);
    if (asked.length % 2 === 1) return request.socket.destroy();
    response.end(JSON.stringify({ id: 'x', sandboxes: [], next: null, commands: [] }));
  });
  flaky.listen(0, '127.0.0.1');
  await once(flaky, 'listening');
  t.after(() => flaky.close());
  const shaky = new Client({ url: `http://127.0.0.1:${flaky.address().port}`, token: 'x' });
  await Sandbox.list({ client: shaky });
  assert.equal(asked.length, 2);
  const made = await Sandbox.create({ client: shaky });
  assert.equal(asked.length, 4);
  assert.ok(asked[2][1] && asked[2][1] === asked[3][1]);
  await assert.rejects(made.commands.run('true'), { name: 'UnavailableError', code: 'unavailable' });
  assert.equal(asked.length, 5);
  const leaving = new AbortController();
  leaving.abort(new Error('changed my mind'));
  await assert.rejects(Sandbox.list({ client, signal: leaving.signal }), /changed my mind|abort/i);
  const silent = createServer(() => {});
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.after(() => { silent.closeAllConnections(); silent.close(); });
  const waiting = new Client({ url: `http://127.0.0.1:${silent.address().port}`, token: 'x', requestTimeoutMs: 50, retries: 0 });
  await assert.rejects(Sandbox.list({ client: waiting }), { name: 'TimeoutError' });
});

test('ids lead to no other route, redirects are not followed, and codes only become errors', T, async (t) => {
  const seen = [];
  const answer = { status: 200, headers: {}, body: '{"id":"x","commands":[]}' };
  const hostile = createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    seen.push({ url: request.url, host: request.headers.host, body });
    response.writeHead(answer.status, answer.headers).end(answer.body);
  });
  hostile.listen(0, '127.0.0.1');
  await once(hostile, 'listening');
  t.after(() => { hostile.closeAllConnections(); hostile.close(); });
  const { port } = hostile.address();
  const client = new Client({ url: `http://127.0.0.1:${port}`, token: 'secret', retries: 0 });
  const box = await Sandbox.create({ client });
  for (const id of ['../sandboxes/x/stop?', 'a/b#', '%2e%2e', 'a\\b', '..%2f']) {
    await box.commands.kill(id);
    await box.commands.connect(id);
    await Sandbox.get(id, { client });
    const part = encodeURIComponent(id);
    assert.deepEqual(seen.splice(-3).map(({ url }) => url),
      [`/v1/commands/${part}/kill`, `/v1/commands/${part}`, `/v1/sandboxes/${part}`]);
  }
  for (const id of ['', '.', '..']) {
    await assert.rejects(box.commands.kill(id), { name: 'InvalidError' });
    await assert.rejects(Sandbox.get(id, { client }), { name: 'InvalidError' });
  }

  seen.length = 0;
  for (const status of [301, 302, 303, 307, 308]) {
    Object.assign(answer, { status, headers: { location: `http://localhost:${port}/v1/other` } });
    await assert.rejects(Sandbox.create({ client, env: { KEY: 'value' } }), { code: 'misdirected', status });
  }
  assert.deepEqual(seen.map(({ host }) => host), Array(5).fill(`127.0.0.1:${port}`));

  for (const code of ['constructor', '__proto__', 'toString']) {
    Object.assign(answer, { status: 400, headers: {}, body: JSON.stringify({ error: { code, message: 'odd' } }) });
    const error = await Sandbox.get('x', { client }).catch((caught) => caught);
    assert.ok(error instanceof sdk.SandglassError && error.code === code && error.message === 'odd', String(error));
  }
});

test('the examples of the README run', T, async (t) => {
  const { server } = await setup(t);
  const dir = tempDir(t);
  mkdirSync(join(dir, 'node_modules'));
  symlinkSync(PACKAGE, join(dir, 'node_modules/sandglass'));
  const readme = readFileSync(join(SOURCE, 'sdk/ts/README.md'), 'utf8');
  const examples = [...readme.matchAll(/```js\n([^]*?)```/g)].map(([, code]) => code)
    .filter((code) => !code.includes('sandglass/ai')); // those need the AI SDK: sdk_ai.test.mjs
  assert.ok(examples.length >= 4);
  const outputs = await Promise.all(examples.map(async (code, i) => {
    const file = join(dir, `example${i}.mjs`);
    writeFileSync(file, code);
    const child = await run([file], { bin: process.execPath, cwd: dir,
      env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token } });
    assert.equal(child.code, 0, `${code}\n${child.stderr}`);
    return child.stdout;
  }));
  const all = outputs.join('');
  for (const said of ['hello\n42\none\ntwo\n', '[ 1, 4, 9 ]\n', "[ 'topic.md' ]\n[ '/workspace/topic.md' ]\n# Topic\nPATH_ESCAPES\n", "{ type: 'text', content: 'a,b\\n1,2\\n' }"]) assert.ok(all.includes(said), all);
});

test('docs: added, found, read whole, removed; modules with what is said of them', T, async (t) => {
  const { client } = await setup(t);
  const { docs } = sdk;
  const added = await docs.add({ name: 'guide.md', package: '@acme/sdk', text: '# Guide\n## Login\nCall createClient.\n' }, { client });
  assert.deepEqual([added.kind, added.state], ['upload', 'ready']);
  const found = await docs.search('create client', { client, package: '@acme/sdk', limit: 1 });
  assert.deepEqual([found.results[0].heading, found.total, found.mode], ['Guide > Login', 1, 'keyword']);
  assert.match((await docs.page(found.results[0].page, { client })).text, /^# Guide/);
  assert.equal((await docs.list({ client }))[0].id, added.id);
  await docs.remove(added.id, { client });
  assert.equal((await docs.search('create client', { client })).total, 0);
  const session = await Session.create({ client, sandbox: { tier: 'isolate' } });
  await session.saveModule('lib/one.js', 'export const one = 1', { description: 'Gives a walrus', exports: ['one'] });
  assert.deepEqual((await session.listModules()).map((each) => [each.path, each.exports, each.scope]), [['lib/one.js', ['one'], 'session']]);
  await until(async () => (await docs.search('walrus', { client, session: session.id })).total === 1);
});
