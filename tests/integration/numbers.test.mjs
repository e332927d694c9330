// One number has several spellings in JSON: 2, 2.0 and 2e0. Each integer that a route, a query or a
// tool takes has the same effect in each of them, and what is no integer is refused by its name.
import assert from 'node:assert/strict';
import test from 'node:test';
import { serve, until } from './lib.mjs';

const JSON_TYPE = { 'content-type': 'application/json' };

// A number as it shall stand in the text: JSON.stringify would write 2.0 as 2.
class Spelled {
  constructor(text) { this.text = text; }
}
const write = (value) => value instanceof Spelled ? value.text
  : Array.isArray(value) ? `[${value.map(write).join()}]`
  : value !== null && typeof value === 'object'
    ? `{${Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}:${write(each)}`).join()}}`
  : JSON.stringify(value);

// Where integers stand below a schema, as paths of keys.
function integersOf(schema, path = []) {
  if (!schema) return [];
  if (schema.type === 'integer') return [{ path, schema }];
  const found = Object.entries(schema.properties ?? {}).flatMap(([key, each]) => integersOf(each, [...path, key]));
  // A time is a number or "none": the number is one of the alternatives.
  for (const each of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) found.push(...integersOf(each, path));
  return schema.items ? [...found, ...integersOf(schema.items, [...path, '0'])] : found;
}

function withMember(base, [key, ...rest], value) {
  if (key === undefined) return value;
  if (key === '0') return [withMember(base?.[0], rest, value)];
  return { ...base, [key]: withMember(base?.[key], rest, value) };
}

// One that is allowed, has an effect where it is small, and is not what stands there without it.
function pick({ path, schema }, route) {
  // Limits of time are far longer than the test: none of them may pass while it runs.
  const fitting = { memoryMb: 64, diskMb: 64, pids: 40, timeoutMs: 3600000, idleMs: 3600000, execMs: 3600000, ttlMs: 3600000,
    volumeTtlMs: 3600000, netIdleMs: 60000, netTotalMs: 3600000, netHeadBytes: 4096,
    netBytesPerSecond: 65536, netBytesTotal: 1048576, netAnswerBytes: 65536, capacityMb: 5, mode: 448, expiresSeconds: 3600, seconds: 3600 }[path.at(-1)] ?? 2;
  return Math.max(schema.minimum ?? 0, Math.min(schema.maximum ?? 1e9, fitting));
}

// The leaves of an answer without ids, dates and durations.
const CHANGING = /^(durationMs|version|logEnd|token|requestId|usage|executionCount|etag)$|[sS]ize/;
function leaves(value, path = '', out = new Map()) {
  if (value !== null && typeof value === 'object') {
    for (const [key, each] of Object.entries(value))
      if (!CHANGING.test(key)) leaves(each, `${path}.${key}`, out);
    return out;
  }
  return out.set(path, typeof value === 'string' ? value.replace(/[a-z]+_[A-Za-z0-9]+|[A-Za-z0-9_-]{20,}|\d+/g, '#') : value);
}

// What answers to one and the same question have in common, an answer to another spelling has too.
async function compare(ask, [first, ...others], where) {
  await ask(first); // may be the one that starts something
  const once = leaves(await ask(first)), twice = leaves(await ask(first));
  for (const text of others) {
    const other = leaves(await ask(text));
    for (const [path, value] of once)
      if (twice.has(path) && twice.get(path) === value)
        assert.equal(other.get(path), value, `${where} ${text}: ${path}`);
  }
  assert.ok(once.get('.status') !== 500, `${where}: ${JSON.stringify([...once])}`);
}

async function answerOf(server, method, path, text) {
  const reply = await server.get(path, text === undefined ? { method } : { method, body: text, headers: JSON_TYPE });
  const body = await reply.text();
  try { return { status: reply.status, body: JSON.parse(body) }; } catch { return { status: reply.status, body }; }
}

const post = async (server, path, body) => {
  const reply = await answerOf(server, 'POST', path, typeof body === 'string' ? body : JSON.stringify(body));
  assert.ok(reply.status < 300, JSON.stringify(reply));
  return reply.body;
};

// What the routes are asked for apart from their integers.
function baseOf(path, required = []) {
  const base = { code: '1 + 1', path: '/workspace', scopes: ['read'], pattern: 't*', mode: 448, rows: 5, cols: 5,
    kind: 'custom', subject: 'x', title: 'x' };
  const body = Object.fromEntries(required.filter((name) => name in base).map((name) => [name, base[name]]));
  if (/run_code$/.test(path)) return { ...body, language: 'javascript', ...(path === '/v1/run_code' ? {} : { language: 'bash' }) };
  if (/(sandboxes|sessions)\/\{id\}\/commands$/.test(path)) return { command: 'true' };
  if (path === '/v1/sandboxes') return { tier: 'memory' };
  if (path === '/v1/sessions') return { sandbox: { tier: 'memory' } };
  if (/\/files\/mkdir$/.test(path)) return { ...body, path: '/workspace/made', parents: true };
  return body;
}

// Where even the plain number is refused: no zone is configured, not every host can resize a disk, and
// a wait for a command that goes on ends with an error.
const REFUSED = /^(post \/v1\/zones\/|patch .* limits\.diskMb|post .*\/wait )/;

// What a query takes apart from its integers, and its body.
function queryOf(method, path) {
  if (/\/tar$/.test(path)) return { query: 'path=/workspace/tar', body: method === 'put' ? EMPTY_TAR : undefined };
  if (/\/files$/.test(path)) return { query: 'path=/workspace/n', body: method === 'put' ? 'text' : undefined };
  if (/\/docs\/search$/.test(path)) return { query: 'query=number' };
  return { query: path.endsWith('/output') ? 'follow=false' : '' };
}
const EMPTY_TAR = new Uint8Array(1024);

test('every integer of every route means the same in each spelling', { timeout: 600000 }, async (t) => {
  const server = await serve(t);
  const sandbox = await post(server, '/v1/sandboxes', { tier: 'jail', name: 'numbers', limits: { diskMb: 32 } });
  const session = await post(server, '/v1/sessions', { sandbox: { tier: 'jail' } });
  const volume = await post(server, '/v1/volumes', {});
  const command = await post(server, `/v1/sandboxes/${sandbox.id}/commands`, { command: 'echo text; sleep 600', tty: true });
  await until(async () => (await (await server.get(`/v1/commands/${command.id}/logs`)).text()).includes('text'));
  const ids = { sandboxes: sandbox.id, sessions: session.id, volumes: volume.id, commands: command.id };
  for (const noun of ['sandboxes', 'sessions', 'volumes']) {
    const put = await server.get(`/v1/${noun}/${ids[noun]}/files?path=/workspace/n`, { method: 'PUT', body: 'text' });
    assert.ok(put.status < 300, await put.text());
    assert.ok((await server.get(`/v1/${noun}/${ids[noun]}/tar?path=/workspace/tar`, { method: 'PUT', body: EMPTY_TAR })).status < 300);
  }
  const fill = (path) => path.replace(/\/v1\/(\w+)\/\{id\}/, (_, noun) => `/v1/${noun}/${ids[noun] ?? 'x'}`)
    .replace('{name}', 'x').replace('{port}', '8080').replace('{rest}', 'x');

  const doc = await (await server.get('/openapi.json')).json();
  let bodies = 0, queries = 0, times = 0;
  for (const [path, operations] of Object.entries(doc.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const schema = operation.requestBody?.content?.['application/json']?.schema;
      for (const integer of integersOf(schema)) {
        const n = pick(integer, path), where = `${method} ${path} ${integer.path.join('.')}`;
        const ask = (text) => answerOf(server, method.toUpperCase(), fill(path),
          write(withMember(baseOf(path, schema.required), integer.path, new Spelled(text))));
        // Waiting for a command that never ends is what the limit of time is for.
        const spellings = path.endsWith('/wait') ? ['20', '20.0', '2e1'] : [`${n}`, `${n}.0`, `${n}e0`];
        await compare(ask, spellings, where);
        // It is the effect that is compared, not one refusal with another.
        const first = await ask(spellings[0]);
        assert.ok(first.status < 300 || REFUSED.test(where), `${where}: ${JSON.stringify(first)}`);
        times += /Ms$/.test(where);
        for (const text of [`${n}.5`, '1e300', '9007199254740994.0']) {
          const refused = await ask(text);
          assert.equal(refused.status, 400, `${where} ${text}: ${JSON.stringify(refused)}`);
          assert.match(refused.body.error.message, new RegExp(integer.path.at(-1)), where);
        }
        bodies++;
      }
      for (const query of (operation.parameters ?? []).filter((each) => each.in === 'query' && integersOf(each.schema).length > 0)) {
        if (path.endsWith('/tty')) continue; // a WebSocket
        const where = `${method} ${path}?${query.name}`, base = queryOf(method, path);
        const ask = async (text) => {
          const reply = await server.get(`${fill(path)}?${base.query}&${query.name}=${text}`, { method: method.toUpperCase(), body: base.body });
          const body = await reply.text();
          return { status: reply.status, body: body.startsWith('{') ? JSON.parse(body) : body };
        };
        const spellings = query.name === 'mode' ? ['448', '448.0', '4.48e2', '%20448'] : ['1', '1.0', '1e0', '%201'];
        await compare(ask, spellings, where);
        const first = await ask(spellings[0]);
        assert.ok(first.status < 300, `${where}: ${JSON.stringify(first)}`);
        const refused = await ask('1.5');
        assert.equal(refused.status, 400, where);
        queries++;
      }
    }
  }
  t.diagnostic(`${bodies} members, of which ${times} are times, and ${queries} query parameters`);
  assert.ok(bodies > 80 && times > 15 && queries > 20, `${bodies} ${times} ${queries}`);
});

test('a limit written 2.0 limits', { timeout: 600000 }, async (t) => {
  const server = await serve(t);
  const token = await post(server, '/v1/tokens', '{"scopes":["read"],"expiresSeconds":2.0,"ratePerMinute":3e0,'
    + '"quota":{"sandboxes":2.0,"memoryMb":64.0,"diskMb":1e2}}');
  assert.ok(Date.parse(token.expiresAt) - Date.now() < 10000, token.expiresAt);
  assert.equal(token.ratePerMinute, 3);
  assert.deepEqual(token.quota, { sandboxes: 2, memoryMb: 64, diskMb: 100 });
  await until(async () =>
    (await fetch(`${server.url}/v1/sandboxes`, { headers: { authorization: `Bearer ${token.token}` } })).status === 401);

  const sandbox = await post(server, '/v1/sandboxes', '{"tier":"jail","limits":{"memoryMb":128.0,"pids":40.0},"timeoutMs":6e5}');
  assert.equal(sandbox.limits.memoryMb, 128);
  assert.equal(sandbox.limits.pids, 40);
  assert.equal(sandbox.timeoutMs, 600000);
  const ended = await post(server, `/v1/sandboxes/${sandbox.id}/commands`, '{"command":"sleep 600","timeoutMs":3e2}');
  const over = await post(server, `/v1/commands/${ended.id}/wait`, {});
  assert.equal(over.state, 'ended');
  assert.notEqual(over.exitCode, 0);
  const forks = await post(server, `/v1/sandboxes/${sandbox.id}/fork`, '{"count":2.0}');
  assert.equal(forks.sandboxes.length, 2);
  assert.equal((await (await server.get('/v1/sandboxes?limit=1e0')).json()).sandboxes.length, 1);
});

test('the arguments of tools, over HTTP and MCP', { timeout: 600000 }, async (t) => {
  const server = await serve(t);
  const sandbox = await post(server, '/v1/sandboxes', { tier: 'jail' });
  const call = (tool, args) => post(server, `/v1/sandboxes/${sandbox.id}/tools/${tool}`, args);
  await call('bash', { command: 'seq 1 9 > /workspace/n' });

  const { tools } = await (await server.get('/v1/tools')).json();
  const fitting = { path: '/workspace/n', pattern: '[0-9]', command: 'sleep 600; echo late', code: '1' };
  const skipped = new Set(['bash_output', 'bash_kill']); // need a command; their numbers are read by the same function
  let count = 0;
  for (const tool of tools) {
    const schema = tool.inputSchema ?? tool.input_schema ?? tool.parameters;
    for (const { path } of skipped.has(tool.name) ? [] : integersOf(schema)) {
      const base = Object.fromEntries((schema.required ?? []).map((name) => [name, fitting[name] ?? 'x']));
      const n = !/Ms$/.test(path[0]) ? 2 : tool.name === 'bash' ? 1000 : 600000; // the limit of bash passes
      const ask = async (text) => answerOf(server, 'POST', `/v1/sandboxes/${sandbox.id}/tools/${tool.name}`,
        write({ ...base, [path[0]]: new Spelled(text) }));
      await compare(ask, [`${n}`, `${n}.0`], `${tool.name} ${path}`);
      assert.match(JSON.stringify(await ask(`${n}.5`)), new RegExp(path[0]));
      count++;
    }
  }
  assert.ok(count >= 4, `${count} arguments`);

  const read = async (text) => JSON.stringify(await call('read', `{"path":"/workspace/n",${text}}`));
  assert.equal(await read('"offset":3.0,"limit":2e0'), await read('"offset":3,"limit":2'));
  assert.notEqual(await read('"offset":3.0,"limit":2e0'), await read('"offset":1'));

  const mcp = async (method, params, headers = {}) => server.get('/mcp', { method: 'POST',
    headers: { ...JSON_TYPE, accept: 'application/json, text/event-stream', ...headers },
    body: `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}` });
  const opened = await mcp('initialize', '{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"n","version":"1"}}');
  const id = opened.headers.get('mcp-session-id');
  const answer = await (await mcp('tools/call', '{"name":"bash","arguments":{"command":"sleep 600","timeoutMs":3e2}}',
    { 'mcp-session-id': id })).text();
  assert.match(answer, /timeout/); // and not after two minutes, which is the default
});
