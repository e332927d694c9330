// `sandglass serve` from start to end: what a user sees, and what happens when things go wrong.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { connect, run, serve, sleep, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };

test('start says where it is, where the token is and what to try', T, async (t) => {
  const server = await serve(t, { dir: join(tempDir(t), 'made', 'here') });
  const lines = server.stdout.split('\n');
  assert.match(lines[0], /^sandglass \d+\.\d+\.\d+ is ready at http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(lines[1], `Token: ${server.dir}/token`);
  assert.match(lines[2], /^Try: curl .*\/v1\/run_code$/);
  assert.equal(lines.length, 4);
  assert.equal(statSync(server.dir).mode & 0o777, 0o700);
  assert.equal(statSync(join(server.dir, 'token')).mode & 0o777, 0o600);
  assert.match(server.token, /^[a-z0-9]{52}$/);
  assert.equal(readFileSync(join(server.dir, 'run/pid'), 'utf8'), `${server.child.pid}\n`);
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
});

test('health, readiness, version', T, async (t) => {
  const server = await serve(t);
  const health = await fetch(`${server.url}/healthz`);
  assert.deepEqual([health.status, await health.json()], [200, { status: 'ok' }]);
  const ready = await server.get('/readyz');
  const { docs, ...said } = await ready.json();
  assert.deepEqual([ready.status, said], [200, { status: 'ready', warnings: [] }]);
  assert.deepEqual([docs.sources, docs.chunks, docs.failed], [0, 0, 0]);
  const version = await (await server.get('/version')).json();
  assert.equal(version.name, 'sandglass');
  assert.match(version.version, /^\d+\.\d+\.\d+$/);
});

test('every door but liveness wants the token', T, async (t) => {
  const server = await serve(t);
  const bodies = new Set();
  for (const path of ['/readyz', '/version', '/metrics', '/nothing']) {
    for (const authorization of [undefined, 'Bearer wrong', 'Bearer ', `Basic ${server.token}`,
      `Bearer ${server.token}x`, `Bearer ${server.token.slice(0, -1)}`]) {
      const headers = authorization === undefined ? {} : { authorization };
      const answer = await fetch(server.url + path, { headers });
      assert.equal(answer.status, 401, `${path} ${authorization}`);
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
      const body = await answer.json();
      delete body.error.requestId;
      bodies.add(JSON.stringify(body));
    }
  }
  assert.equal(bodies.size, 1);
});

test('wrong tokens are counted by address, right ones always served', T, async (t) => {
  const server = await serve(t);
  let answer;
  for (let i = 0; i < 100; i++) answer = await server.get('/version', { headers: { authorization: 'Bearer x' } });
  assert.equal(answer.status, 429);
  assert.match(answer.headers.get('retry-after'), /^\d+$/);
  assert.equal((await answer.json()).error.code, 'limit_reached');
  assert.equal((await server.get('/version')).status, 200);
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
});

test('errors have one shape', T, async (t) => {
  const server = await serve(t);
  const missing = await server.get('/nothing', { headers: { 'x-request-id': 'my-own.id_1' } });
  assert.equal(missing.status, 404);
  assert.equal(missing.headers.get('x-request-id'), 'my-own.id_1');
  assert.deepEqual(await missing.json(), { error: {
    code: 'not_found', message: "no route '/nothing'", requestId: 'my-own.id_1' } });
  const wrong = await server.get('/version', { method: 'DELETE' });
  assert.equal(wrong.status, 405);
  assert.equal(wrong.headers.get('allow'), 'GET, HEAD, OPTIONS');
  const odd = await server.get('/nothing', { headers: { 'x-request-id': 'not valid!' } });
  assert.match(odd.headers.get('x-request-id'), /^[a-z0-9]{26}$/);
  assert.equal((await server.get('/healthz', { method: 'HEAD' })).status, 200);
  const options = await server.get('/version', { method: 'OPTIONS' });
  assert.equal(options.status, 204);
  for (const [name] of options.headers) assert.doesNotMatch(name, /^access-control/);
});

test('metrics tell of build, process and requests', T, async (t) => {
  const server = await serve(t);
  for (let i = 0; i < 3; i++) await (await fetch(`${server.url}/healthz`)).text();
  const answer = await server.get('/metrics');
  assert.match(answer.headers.get('content-type'), /^text\/plain; version=0\.0\.4/);
  const text = await answer.text();
  for (const line of text.trimEnd().split('\n'))
    assert.match(line, /^(# (HELP|TYPE) \S+ .+|[a-z_]+(\{[^}]*\})? [0-9.e+-]+)$/);
  for (const name of ['sandglass_build_info', 'sandglass_uptime_seconds', 'process_threads',
    'process_cpu_seconds_total', 'process_resident_memory_bytes', 'process_open_fds'])
    assert.ok(text.includes(`\n${name}`), name);
  assert.ok(text.includes(
    'sandglass_http_requests_total{method="GET",route="/healthz",status="200"} 3\n'));
  assert.ok(text.includes(
    'duration_seconds_count{method="GET",route="/healthz"} 3\n'));
});

test('other hosts and origins are turned away', T, async (t) => {
  const server = await serve(t, { args: ['--name', 'box.example'] });
  const ask = async (headers) => {
    const raw = await connect(server);
    raw.socket.write(`GET /version HTTP/1.1\r\nConnection: close\r\nAuthorization: Bearer ${server.token}\r\n${headers}\r\n`);
    await raw.end;
    return Number(raw.text.split(' ')[1]);
  };
  const good = `Host: 127.0.0.1:${server.port}\r\n`;
  assert.equal(await ask(good), 200);
  assert.equal(await ask(`Host: localhost:${server.port}\r\n`), 200);
  assert.equal(await ask(`Host: [::1]:${server.port}\r\n`), 200);
  assert.equal(await ask(`Host: box.example:${server.port}\r\n`), 200);
  assert.equal(await ask('Host: box.example\r\n'), 200);
  assert.equal(await ask('Host: evil.test\r\n'), 421);
  assert.equal(await ask(`Host: evil.test:${server.port}\r\n`), 421);
  assert.equal(await ask(`Host: 127.0.0.1:${server.port + 1}\r\n`), 421);
  assert.equal(await ask(`Host: 127.0.0.1\r\n`), 421);
  assert.equal(await ask(''), 400);
  assert.equal(await ask(good + good), 400);
  assert.equal(await ask(`${good}Origin: ${server.url}\r\n`), 200);
  assert.equal(await ask(`${good}Origin: http://evil.test\r\n`), 403);
  assert.equal(await ask(`${good}Origin: null\r\n`), 403);
  assert.equal(await ask(`${good}Origin: http://127.0.0.1.evil.test\r\n`), 403);
});

test('SIGTERM lets a running answer finish, takes no more, and exits 0', T, async (t) => {
  const server = await serve(t);
  // Answers that the client does not read yet are requests that still run.
  const slow = await connect(server);
  slow.socket.pause();
  const one = `GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n` +
    `Authorization: Bearer ${server.token}\r\n\r\n`;
  slow.socket.write(one.repeat(4000));
  await until(async () => (await server.figure('sandglass_http_running_requests')) > 1);
  server.child.kill('SIGTERM');
  await until(() => server.stderr.includes('server.stopping'));
  await assert.rejects(fetch(`${server.url}/healthz`), 'the port is closed');
  assert.equal(server.child.exitCode, null, 'still draining');
  slow.socket.resume();
  await slow.end;
  assert.deepEqual(await server.exit, { code: 0, signal: null });
  // Every answer that was begun is whole: as many bodies as heads, the last one included.
  const heads = slow.text.match(/^HTTP\/1\.1 /gm).length;
  const lengths = [...slow.text.matchAll(/^Content-Length: (\d+)\r$/gm)].map((m) => Number(m[1]));
  assert.equal(lengths.length, heads);
  const ends = [...slow.text.matchAll(/\r\n\r\n/g)].map((m) => m.index + 4);
  assert.equal(slow.text.length - ends.at(-1), lengths.at(-1));
  assert.ok(!existsSync(join(server.dir, 'run/pid')));
});

test('SIGINT stops an idle server at once; a second signal stops a busy one', T, async (t) => {
  const idle = await serve(t);
  idle.child.kill('SIGINT');
  assert.deepEqual(await idle.exit, { code: 0, signal: null });

  const busy = await serve(t);
  const slow = await connect(busy);
  slow.socket.pause();
  slow.socket.write((`GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:${busy.port}\r\n` +
    `Authorization: Bearer ${busy.token}\r\n\r\n`).repeat(4000));
  await until(async () => (await busy.figure('sandglass_http_running_requests')) > 1);
  busy.child.kill('SIGTERM');
  await until(() => busy.stderr.includes('server.stopping'));
  assert.equal(busy.child.exitCode, null);
  busy.child.kill('SIGTERM');
  assert.deepEqual(await busy.exit, { code: 1, signal: null });
});

test('a port in use is one line that names it', T, async (t) => {
  const server = await serve(t);
  const second = await run(['serve', '--listen', `127.0.0.1:${server.port}`,
    '--data-dir', tempDir(t)]);
  assert.equal(second.code, 1);
  assert.equal(second.stdout, '');
  assert.match(second.stderr, new RegExp(
    `^sandglass: port ${server.port} is in use .*choose another port\n$`));
});

test('a second server on the same data is one line that names the first', T, async (t) => {
  const server = await serve(t);
  const second = await run(['serve', '--listen', '127.0.0.1:0', '--data-dir', server.dir]);
  assert.equal(second.code, 1);
  assert.match(second.stderr, new RegExp(
    `^sandglass: data directory '.*' is in use by process ${server.child.pid}; .*--data-dir\n$`));
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
});

test('a data directory that cannot be is one line that says what to do', T, async (t) => {
  const file = join(tempDir(t), 'file');
  writeFileSync(file, '');
  for (const dir of [file, join(file, 'below'), '/proc/nowhere']) {
    const result = await run(['serve', '--listen', '127.0.0.1:0', '--data-dir', dir]);
    assert.equal(result.code, 1, dir);
    assert.match(result.stderr, /^sandglass: data directory '.*--data-dir\n$/);
    assert.equal(result.stderr.split('\n').length, 2);
  }
});

test('a token file that cannot be trusted or used is refused with the way out', T, async (t) => {
  const good = 'a'.repeat(40);
  const cases = [['', 0o600], ['short', 0o600], [`${good} ${good}`, 0o600], ['a'.repeat(300), 0o600],
    [`${good}\u00e9`, 0o600], [good, 0o644], [good, 0o620]];
  for (const [text, mode] of cases) {
    const dir = tempDir(t);
    writeFileSync(join(dir, 'token'), text, { mode: 0o600 });
    chmodSync(join(dir, 'token'), mode);
    const { code, stderr } = await run(['serve', '--listen', '127.0.0.1:0', '--data-dir', dir]);
    assert.equal(code, 1, text);
    assert.match(stderr, /^sandglass: token file '.*remove it to get a new one.*\n$/);
  }
  const dir = tempDir(t);
  mkdirSync(join(dir, 'token'));
  assert.match((await run(['serve', '--listen', '127.0.0.1:0', '--data-dir', dir])).stderr,
    /is not a regular file/);
  // Mounted secrets are links.
  const linked = tempDir(t);
  writeFileSync(join(linked, 'secret'), `${good}\n`, { mode: 0o600 });
  symlinkSync('secret', join(linked, 'token'));
  const server = await serve(t, { dir: linked });
  await until(async () => (await server.get('/readyz')).status === 200);
});

test('a data directory that others can write is not used', T, async (t) => {
  const dir = tempDir(t);
  chmodSync(dir, 0o777);
  const { code, stderr } = await run(['serve', '--listen', '127.0.0.1:0', '--data-dir', dir]);
  assert.equal(code, 1);
  assert.match(stderr, /^sandglass: data directory '.*is writable by others; .*--data-dir\n$/);
});

test('without a home only the server asks for a place', T, async (t) => {
  if (process.getuid() !== 0) return t.skip('needs root to become a user without a home');
  // The build tree may lie where only root may look.
  const dir = tempDir(t), bin = join(dir, 'sandglass');
  chmodSync(dir, 0o755);
  copyFileSync(process.env.SANDGLASS_BIN, bin);
  const nobody = { bin, uid: 65534, gid: 65534, env: {}, cwd: '/' };
  const shown = await run(['config', 'show'], nobody);
  assert.equal(shown.code, 0, shown.stderr);
  assert.match(shown.stdout, /^# data_dir: not set/m);
  const refused = await run(['serve', '--listen', '127.0.0.1:0'], nobody);
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /^sandglass: no data directory: give --data-dir/);
});

test('SIGHUP drains like SIGTERM', T, async (t) => {
  const server = await serve(t);
  server.child.kill('SIGHUP');
  assert.deepEqual(await server.exit, { code: 0, signal: null });
  assert.ok(!existsSync(join(server.dir, 'run/pid')));
});

test('what is printed to try works for IPv6 and for every address', T, async (t) => {
  for (const listen of ['[::1]:0', '[::]:0', '0.0.0.0:0']) {
    const dir = tempDir(t);
    writeFileSync(join(dir, 'token'), 'a'.repeat(40), { mode: 0o600 });
    const server = await serve(t, { dir, listen });
    const command = /^Try: (.*)$/m.exec(server.stdout)[1];
    const answer = JSON.parse(execFileSync('/bin/sh', ['-c', `${command} -s`], { encoding: 'utf8' }));
    assert.deepEqual([answer.success, answer.result], [true, 42]);
  }
});

test('a bad address is a usage error', T, async (t) => {
  for (const listen of ['nonsense', 'example.com:80', '127.0.0.1:99999']) {
    const result = await run(['serve', '--listen', listen, '--data-dir', tempDir(t)]);
    assert.equal(result.code, 2, listen);
    assert.match(result.stderr, /^sandglass: address '/);
  }
});

test('other machines are let in only once there is a token', T, async (t) => {
  const dir = tempDir(t);
  const refused = await run(['serve', '--listen', '0.0.0.0:0', '--data-dir', dir]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /^sandglass: listen on 0\.0\.0\.0:0: other machines .*127\.0\.0\.1/);
  assert.ok(!existsSync(join(dir, 'token')));
  const first = await serve(t, { dir });
  first.child.kill('SIGTERM');
  await first.exit;
  const open = await serve(t, { dir, listen: '0.0.0.0:0' });
  assert.equal((await fetch(`${open.url}/healthz`)).status, 200);
});

test('kill -9 and start again: same token, nothing in the way', T, async (t) => {
  const dir = tempDir(t);
  let token;
  for (let i = 0; i < 5; i++) {
    const server = await serve(t, { dir });
    token ??= server.token;
    assert.equal(server.token, token);
    assert.equal((await server.get('/version')).status, 200);
    server.child.kill('SIGKILL');
    await server.exit;
  }
});

test('commands without an address find the server of their data directory', T, async (t) => {
  const parent = tempDir(t);
  for (const listen of ['127.0.0.1:0', '[::1]:0', `unix:${join(parent, 's')}`]) {
    const server = await serve(t, { listen });
    const env = { ...process.env, SANDGLASS_HOME: server.dir };
    for (const name of ['SANDGLASS_URL', 'SANDGLASS_TOKEN']) delete env[name];
    const done = await run(['sandbox', 'ls', '--json'], { env });
    assert.deepEqual([done.code, JSON.parse(done.stdout).sandboxes], [0, []], done.stderr);
    server.child.kill('SIGTERM');
    await server.exit;
    assert.ok(!existsSync(join(server.dir, 'run/url')));
  }
});

test('a unix socket serves too, and a stale one is no obstacle', T, async (t) => {
  const dir = tempDir(t), path = join(dir, 's');
  for (const signal of ['SIGKILL', 'SIGTERM']) {
    const server = await serve(t, { dir, listen: `unix:${path}` });
    assert.equal(statSync(path).mode & 0o777, 0o600);
    const raw = await connect(server, { path, port: undefined, host: undefined });
    raw.socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
    await raw.end;
    assert.match(raw.text, /^HTTP\/1\.1 200 /);
    server.child.kill(signal);
    await server.exit;
  }
  assert.ok(!existsSync(path));
});

test('a thousand connections are served, and one address does not get them all', T, async (t) => {
  const server = await serve(t);
  const all = [];
  for (let i = 0; i < 1000; i++)
    all.push(connect(server, { localAddress: `127.0.1.${1 + (i % 20)}` }));
  const raws = await Promise.all(all);
  const ask = `GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n\r\n`;
  for (const raw of raws) raw.socket.write(ask);
  await until(() => raws.every((raw) => raw.text.endsWith('{"status":"ok"}\n')));
  assert.ok((await server.figure('sandglass_http_connections')) >= 1000);
  for (const raw of raws) raw.socket.destroy();
  await until(async () => (await server.figure('sandglass_http_connections')) < 10);

  const greedy = await Promise.all(Array.from({ length: 200 }, () =>
    connect(server, { localAddress: '127.0.2.1' })));
  await until(() => greedy.filter((raw) => raw.closed).length >= 136);
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
  for (const raw of greedy) raw.socket.destroy();
});

test('a head that dribbles in is cut after ten seconds', T, async (t) => {
  const server = await serve(t);
  const slow = await connect(server);
  slow.socket.write('GET /healthz HTTP/1.1\r\n');
  while (!slow.closed) {
    slow.socket.write('A');
    await Promise.race([slow.end, sleep(1000)]);
  }
  assert.match(slow.text, /^HTTP\/1\.1 408 /);
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
});

test('out of descriptors it waits without spinning and goes on afterwards', T, async (t) => {
  const server = await serve(t, { files: 40 });
  const ticks = () => readFileSync(`/proc/${server.child.pid}/stat`, 'utf8').split(') ')[1].split(' ')
    .slice(11, 13).reduce((sum, n) => sum + Number(n), 0);
  const raws = await Promise.all(Array.from({ length: 60 }, () => connect(server)));
  // Those that it could take have been taken; one that spins never rests.
  await until(async () => {
    const some = ticks();
    await sleep(300);
    return ticks() - some < 3;
  });
  const before = ticks();
  await sleep(1000);
  assert.ok(ticks() - before < 50, 'less than half a core');
  for (const raw of raws) raw.socket.destroy();
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
});
