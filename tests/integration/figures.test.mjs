// What operators see: figures for Prometheus, and `sandglass top`.
import assert from 'node:assert/strict';
import test from 'node:test';
import { run, serve, until } from './lib.mjs';

const T = { timeout: 600000 };

async function start(t) {
  const server = await serve(t);
  server.call = (method, path, body) => server.get(path, { method, body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' } });
  server.pool = (tier, state) => server.figure(`sandglass_pool{tier="${tier}",state="${state}"}`);
  server.taken = async (tier) => (await server.figure(`sandglass_pool_taken_total{tier="${tier}",how="ready"}`)) +
    (await server.figure(`sandglass_pool_taken_total{tier="${tier}",how="built"}`));
  return server;
}

// The workers of isolates that are kept ready: one that was taken is replaced.
test('figures of the pool of isolates', T, async (t) => {
  const server = await start(t);
  const ran = await server.call('POST', '/v1/run_code', { code: '1+1' });
  if (ran.status !== 200) return t.skip(`no isolates here: ${await ran.text()}`);
  await until(async () => (await server.pool('isolate', 'ready')) === (await server.pool('isolate', 'wanted')));
  assert.equal(await server.figure('sandglass_exec_seconds_count{tier="isolate",kind="eval",outcome="ok"}'), 1);
  assert.ok((await server.taken('isolate')) >= 1);
});

test('figures of the pool of jails', T, async (t) => {
  const server = await start(t);
  const made = await server.call('POST', '/v1/sandboxes', { tier: 'jail' });
  if (made.status !== 201) return t.skip(`no jails here: ${await made.text()}`);
  await until(async () => (await server.taken('jail')) >= 1);
  await until(async () => {
    const ready = await server.pool('jail', 'ready');
    return ready > 0 && ready <= (await server.pool('jail', 'wanted'));
  });
});

test('figures by tier and outcome; top', T, async (t) => {
  const server = await start(t), { call } = server;
  const name = 'a-name-that-is-much-too-long-for-a-table-of-eighty-columns-x';
  const { id } = await (await call('POST', '/v1/sandboxes', { tier: 'memory', name })).json();
  const other = await (await call('POST', '/v1/sandboxes', { tier: 'memory', idleMs: 1 })).json();
  await call('POST', `/v1/sandboxes/${id}/files/stat`, { path: '/workspace/none' });
  await call('POST', `/v1/sandboxes/${id}/files/list`, { path: '/workspace' });
  const text = async () => (await server.get('/metrics')).text();
  await until(async () => (await text()).includes('sandglass_sandboxes{tier="memory",state="paused"} 1'));
  const figures = await text();
  for (const line of [
    'sandglass_sandboxes{tier="memory",state="running"} 1', 'sandglass_timeouts_total{kind="idle"} 1',
    'sandglass_sandboxes{tier="jail",state="running"} 0',
    'sandglass_sandbox_create_seconds_count{tier="memory",outcome="ok"} 2',
    'sandglass_file_seconds_count{tier="memory",verb="stat",outcome="not_found"} 1',
    'sandglass_file_seconds_count{tier="memory",verb="list",outcome="ok"} 1',
    'sandglass_retries_total{kind="store"} 0', 'sandglass_retries_total{kind="run"} 0',
    'sandglass_commands_running 0', 'sandglass_store_failures_total 0', 'sandglass_builder_restarts_total 0',
  ]) assert.ok(figures.includes(`${line}\n`), line);
  assert.match(figures, /sandglass_store_commit_seconds_count [1-9]/);
  // Each name is listed once, and every line is one of Prometheus' form.
  const heads = figures.match(/^# TYPE \S+/gm);
  assert.equal(new Set(heads).size, heads.length);
  for (const line of figures.trimEnd().split('\n'))
    assert.match(line, /^(# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"]*",?)+\})? [-+.e\d]+)$/, line);

  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const top = await run(['top', '--once'], { env });
  assert.equal(top.code, 0, top.stderr);
  const lines = top.stdout.trimEnd().split('\n');
  assert.match(lines[0], /^2 sandboxes, 1 running, 1 paused$/);
  assert.match(lines[3], /^ID +STATE +CPUS +MEMORY +DISK \(MB\) ENDS +NAME$/);
  assert.deepEqual(lines.slice(4).map((line) => line.split(/\s+/)[0]), [other.id, id]);
  for (const line of lines) assert.ok(line.length <= 80, `${line.length}: ${line}`);
  const json = await run(['top', '--json'], { env });
  assert.equal(JSON.parse(json.stdout).sandboxes.length, 2);
  for (const each of [id, other.id]) await call('DELETE', `/v1/sandboxes/${each}`);
});

test('a line of the log names its request and its sandbox', T, async (t) => {
  const server = await serve(t, { env: { ...process.env, SANDGLASS_LOG_LEVEL: 'debug', SANDGLASS_LOG_FORMAT: 'json' } });
  const call = async (request, method, path, body) => (await server.get(path, { method, body: body && JSON.stringify(body),
    headers: { 'content-type': 'application/json', 'x-request-id': request } })).json();
  const told = async (request, event = 'http.request') => {
    const find = () => server.stderr.split('\n').slice(0, -1).map((line) => JSON.parse(line))
      .find((line) => line.request === request && line.event === event);
    await until(find);
    return find();
  };
  const { id } = await call('it-creates', 'POST', '/v1/sandboxes', { tier: 'memory' });
  assert.equal((await told('it-creates')).sandbox, id); // only the answer names it
  await call('it-looks', 'GET', `/v1/sandboxes/${id}`);
  assert.equal((await told('it-looks')).sandbox, id);
  await call('it-stops', 'POST', `/v1/sandboxes/${id}/stop`);
  assert.equal((await told('it-stops', 'sandbox.state')).sandbox, id); // the engine's own line
  await call('it-lists', 'GET', '/v1/sandboxes');
  assert.ok(!('sandbox' in await told('it-lists')));
  // A session has its sandbox behind its own name.
  const session = await call('it-opens', 'POST', '/v1/sessions', { sandbox: { tier: 'memory' } });
  const used = await call('it-uses', 'POST', `/v1/sessions/${session.id}/use`);
  assert.equal((await told('it-uses')).sandbox, used.id);
  await call('it-asks', 'GET', `/v1/sessions/${session.id}`);
  assert.equal((await told('it-asks')).sandbox, used.id);
});
