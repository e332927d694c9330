// The API tells of itself: the document is valid, every operation in it answers as it says, and the
// examples of docs/API.md run.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { run, serve, tempDir } from './lib.mjs';

const T = { timeout: 600000 };
const SOURCE = fileURLToPath(new URL('../..', import.meta.url));
const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

async function validator(t) {
  const modules = join(SOURCE, 'build/npm/test/node_modules');
  if (!existsSync(join(modules, '@seriousme'))) return t.skip('npm packages: make deps-test');
  const path = createRequire(join(modules, 'x.js')).resolve('@seriousme/openapi-schema-validator');
  return (await import(pathToFileURL(path))).Validator;
}

test('the document is valid OpenAPI 3.1', T, async (t) => {
  const Validator = await validator(t);
  if (!Validator) return;
  const server = await serve(t);
  const document = await (await server.get('/openapi.json')).json();
  const checker = new Validator();
  const result = await checker.validate(document);
  assert.deepEqual(result.errors ?? [], []);
  assert.equal(result.valid, true);
  assert.equal(checker.version, '3.1');
  const ids = Object.values(document.paths).flatMap((path) =>
    METHODS.filter((method) => path[method]).map((method) => path[method].operationId));
  assert.equal(new Set(ids).size, ids.length, 'operation ids are unique');
  // Every reference leads somewhere.
  for (const [, name] of JSON.stringify(document).matchAll(/#\/components\/schemas\/(\w+)/g))
    assert.ok(document.components.schemas[name], name);
});

// Checks answers against the document. A member that the document does not name is an error here, too:
// every object with properties is closed in the copy that is compiled.
async function answerChecker(t, document) {
  const modules = join(SOURCE, 'build/npm/test/node_modules');
  if (!existsSync(join(modules, 'ajv'))) return t.skip('npm packages: make deps-test');
  const load = createRequire(join(modules, 'x.js'));
  const ajv = new (load('ajv/dist/2020.js').default)({ strict: false, allErrors: true });
  load('ajv-formats').default(ajv);
  const closed = structuredClone(document);
  const close = (schema) => {
    if (schema === null || typeof schema !== 'object') return;
    if (schema.properties && schema.additionalProperties === undefined) schema.additionalProperties = false;
    Object.values(schema).forEach(close);
  };
  close(closed);
  ajv.addSchema(closed, 'document');
  return (path, status, value, method = 'post') => {
    const place = `/paths/${path.replaceAll('/', '~1')}/${method}/responses/${status}/content/application~1json/schema`;
    const validate = ajv.compile({ $ref: `document#${encodeURI(place)}` });
    const ok = validate(value);
    return ok ? [] : validate.errors.map((each) => `${each.instancePath} ${each.message} ${JSON.stringify(each.params)}`);
  };
}

test('every answer in JSON has a schema', T, async () => {
  const document = JSON.parse((await run(['api', 'schema'])).stdout);
  const untyped = [];
  const walk = (schema, place) => {
    const isObject = [schema.type].flat().includes('object');
    if (isObject && !schema.properties && schema.additionalProperties === undefined) untyped.push(place);
    if (Object.keys(schema).length === 0) untyped.push(place);
    for (const [name, each] of Object.entries(schema.properties ?? {})) walk(each, `${place}.${name}`);
    for (const each of [schema.items, ...(schema.anyOf ?? [])]) if (each) walk(each, `${place}[]`);
  };
  for (const [name, schema] of Object.entries(document.components.schemas)) walk(schema, name);
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, { responses }] of Object.entries(methods))
      for (const [status, { content }] of Object.entries(responses))
        if (content?.['application/json']) walk(content['application/json'].schema, `${method} ${path} ${status}`);
  assert.deepEqual(untyped, []);
});

test('answers of runs and commands fit their schema', T, async (t) => {
  const server = await serve(t);
  const check = await answerChecker(t, await (await server.get('/openapi.json')).json());
  if (!check) return;
  const post = async (path, pattern, body) => {
    const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' } });
    const value = await answer.json();
    if (answer.ok) assert.deepEqual(check(pattern, answer.status, value), [], JSON.stringify(value).slice(0, 2000));
    return { status: answer.status, value };
  };
  const once = (body) => post('/v1/run_code', '/v1/run_code', body);
  for (const code of ['console.log(1); ({a: [1]})', 'throw new TypeError("no")', 'undefined', 'while (true) {}'])
    for (const short of [false, true])
      assert.equal((await once({ code, short, timeoutMs: 500, hints: { city: 'Oslo' } })).status, 200, code);
  const wrong = check('/v1/run_code', 200, { ...(await once({ code: '1' })).value, unknown: 1 });
  assert.match(wrong.join(), /unknown/, 'a member without a schema is found');

  for (const format of ['json', 'mcp', 'openai', 'anthropic'])
    assert.deepEqual(check('/v1/tools', 200, await (await server.get(`/v1/tools?format=${format}`)).json(), 'get'), [], format);

  const made = await post('/v1/sandboxes', '/v1/sandboxes', { tier: 'jail', runtime: 'python3' });
  if (made.status !== 201) return t.diagnostic(`no sandbox with python3 here: ${JSON.stringify(made.value)}`);
  const at = `/v1/sandboxes/${made.value.id}`, pattern = '/v1/sandboxes/{id}';
  for (const code of ['print("hi")\n{"a": [1]}', 'open("/workspace/made", "w").write("x")', '1 / 0', 'None',
    'import os\nos.remove("/workspace/made")', 'import time\ntime.sleep(60)', 'import os\nos._exit(3)', '2'])
    for (const short of [false, true])
      assert.equal((await post(`${at}/run_code`, `${pattern}/run_code`, { code, short, timeoutMs: 2000 })).status, 200, code);
  assert.equal((await post(`${at}/run_code`, `${pattern}/run_code`, { code: '3', files: false })).value.files, null);
  for (const command of ['echo out; echo err >&2; exit 3', 'head -c 3000000 /dev/zero | tr "\\0" "x"', 'kill -9 $$', 'sleep 60'])
    assert.equal((await post(`${at}/commands`, `${pattern}/commands`, { command, timeoutMs: 2000 })).status, 201, command);
  assert.equal((await post(`${at}/commands`, `${pattern}/commands`, { command: 'true', detached: true })).status, 201);
});

// A value that a schema lets pass.
function sample(schema) {
  if (schema.enum) return schema.enum[0];
  switch (schema.type) {
    case 'string': return 'x'.repeat(Math.max(schema.minLength ?? 0, 1));
    case 'integer': return Math.max(schema.minimum ?? 1, 1);
    case 'number': return Math.max(schema.minimum ?? 1, 1);
    case 'boolean': return false;
    case 'array': return Array(schema.minItems ?? 0).fill(0).map(() => sample(schema.items));
    case 'object': return Object.fromEntries((schema.required ?? []).map((name) =>
      [name, sample(schema.properties[name])]));
  }
}

test('every operation answers as the document says', T, async (t) => {
  const server = await serve(t);
  const document = await (await server.get('/openapi.json')).json();
  const bodies = new Set();
  let count = 0;
  for (const [pattern, path] of Object.entries(document.paths)) {
    for (const method of METHODS.filter((each) => path[each])) {
      const operation = path[method];
      const url = pattern.replace('{port}', '8000').replace(/\{\w+\}/g, 'nosuchthing1');
      const body = operation.requestBody?.content['application/json'];
      const init = { method: method.toUpperCase(), signal: AbortSignal.timeout(300000) };
      if (body) {
        init.headers = { 'content-type': 'application/json' };
        init.body = JSON.stringify(sample(body.schema));
      }
      const name = `${init.method} ${pattern}`;
      if (!operation.security) {
        for (const authorization of [undefined, 'Bearer wrong', 'Bearer ']) {
          const headers = { ...init.headers, ...(authorization ? { authorization } : {}) };
          const refused = await fetch(server.url + url, { ...init, headers });
          assert.ok([401, 429].includes(refused.status), `${name} without a token`);
          if (refused.status === 401)
            bodies.add((await refused.text()).replace(/"requestId":"[^"]*"/, ''));
        }
      }
      const answer = await server.get(url, init);
      const content = answer.headers.get('content-type') ?? '';
      const text = content.startsWith('text/event-stream') ? '' : await answer.text();
      await answer.body?.cancel().catch(() => {});
      assert.ok(operation.responses[answer.status],
        `${name} gave ${answer.status}, which is not documented: ${text}`);
      if (answer.status >= 400) {
        const { error, jsonrpc } = JSON.parse(text);
        if (jsonrpc) { // what is said in a protocol of its own is answered in it
          assert.deepEqual([pattern, typeof error.code], ['/mcp', 'number'], name);
          count++;
          continue;
        }
        assert.equal(error.requestId, answer.headers.get('x-request-id'), name);
        assert.ok(operation.responses[answer.status].description.includes(`\`${error.code}\``), name);
      }
      // An unknown member is refused by name, unless members are another's to name: a tool's arguments.
      if (body && body.schema.additionalProperties !== true) {
        const odd = { ...init, body: JSON.stringify({ ...sample(body.schema), nonsense: 1 }) };
        const refused = await server.get(url, odd);
        const refusal = await refused.text();
        assert.equal(refused.status, 400, name);
        assert.match(refusal, /nonsense/, name);
      }
      count++;
    }
  }
  assert.ok(bodies.size <= 1, 'one body for every refusal');
  t.diagnostic(`${count} operations`);
});

test('docs/API.md is what the program prints', T, async () => {
  const { stdout } = await run(['api', 'docs']);
  assert.equal(readFileSync(join(SOURCE, 'docs/API.md'), 'utf8'), stdout,
    'docs/API.md is old: sandglass api docs >docs/API.md');
});

test('every operation is on the page', T, async () => {
  const page = readFileSync(join(SOURCE, 'docs/API.md'), 'utf8');
  const { paths } = JSON.parse((await run(['api', 'schema'])).stdout);
  const missing = [];
  for (const [path, methods] of Object.entries(paths))
    for (const method of Object.keys(methods)) {
      // Files are described once for the three places that have them.
      const told = path.replace(/^\/v1\/(sessions|volumes)(?=\/\{id\}\/(files|tar|watch))/, '/v1/sandboxes');
      const heads = [method.toUpperCase(), 'ANY'].map((word) => `### ${word} \`${told}\`
`);
      if (!heads.some((head) => page.includes(head))) missing.push(`${method.toUpperCase()} ${path}`);
    }
  assert.deepEqual(missing, []);
});

// Fresh objects for an example to work on. What this host's tiers cannot give stays empty.
async function objects(server, dir) {
  const post = async (path, body) => {
    const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' } });
    return answer.ok && answer.status !== 204 ? answer.json() : {};
  };
  const sandbox = await post('/v1/sandboxes', { metadata: { team: 'red' } });
  const hello = await server.get(`/v1/sandboxes/${sandbox.id}/files?path=/workspace/hello.txt`,
    { method: 'PUT', body: 'hello' });
  const port = await server.get(`/v1/sandboxes/${sandbox.id}/ports/8000`, { method: 'PUT', body: '{}',
    headers: { 'content-type': 'application/json' } });
  await post(`/v1/sandboxes/${sandbox.id}/checkpoints`, { name: 'before' });
  const command = await post(`/v1/sandboxes/${sandbox.id}/commands`,
    { argv: ['sleep', '1'], stdin: true, detached: true });
  const tty = await post(`/v1/sandboxes/${sandbox.id}/commands`, { argv: ['sleep', '1'], tty: true });
  const session = await post('/v1/sessions', {});
  await server.get(`/v1/sessions/${session.id}/modules`, { method: 'PUT',
    body: JSON.stringify({ path: 'lib/one.js', source: 'export const one = 1' }),
    headers: { 'content-type': 'application/json' } });
  const volume = await post('/v1/volumes', {});
  const snapshot = await post('/v1/snapshots', { sandbox: sandbox.id });
  const token = await post('/v1/tokens', { scopes: ['read'] });
  const approval = await post('/v1/approvals', { kind: 'custom', subject: 'deploy-42', title: 'Deploy' });
  const tar = spawnSync('tar', ['-cf', join(dir, 'tree.tar'), '-C', dir, 'file']);
  assert.equal(tar.status, 0);
  return { SANDBOX: sandbox.id, COMMAND: command.id, TTY: tty.id, HELLO: hello.ok ? 'there' : undefined,
    PORT: port.ok ? 'there' : undefined, SESSION: session.id, VOLUME: volume.id,
    SNAPSHOT: snapshot.id, TOKEN_ID: token.id, APPROVAL: approval.id };
}

test('every example of docs/API.md runs', T, async (t) => {
  const dir = tempDir(t);
  const config = join(dir, 'config.toml');
  writeFileSync(join(dir, 'file'), 'hello');
  const tier = process.env.SG_TEST_TIER ?? 'memory';
  writeFileSync(config, `[sandbox]\nprovider = "${tier}"\n`);
  const server = await serve(t, { args: ['--config', config] });
  const page = readFileSync(join(SOURCE, 'docs/API.md'), 'utf8');
  const examples = page.split(/^### /m).slice(1).map((part) =>
    [part.split('\n')[0], /```sh\n([^]*?)```/.exec(part)?.[1]]).filter(([, script]) => script);
  assert.ok(examples.length > 4);
  const left_out = [];
  for (const [title, script] of examples) {
    const env = { ...process.env, URL: server.url, TOKEN: server.token };
    for (const [name, id] of Object.entries(await objects(server, dir))) env[name] = id ?? 'notthere';
    if (title.includes('/resize')) env.COMMAND = env.TTY;
    const missing = /\$(SANDBOX|COMMAND|SESSION|VOLUME|SNAPSHOT|TOKEN_ID)/.exec(script);
    const result = spawnSync('sh', ['-ec', script.replaceAll(/^curl /gm, 'curl -sS --fail-with-body ')],
      { env, cwd: dir, encoding: 'utf8' });
    if (result.status === 0 || (script.includes('--max-time') && result.status === 28)) continue;
    // The tier may lack a verb, never anything else.
    const code = /"code":"(\w+)"/.exec(result.stdout)?.[1];
    const lacks = code === 'unsupported' || result.stderr.includes('error: 501') ||
      (env.PORT === 'notthere' && title.includes('/ports/') && code === 'not_found') || (env.HELLO === 'notthere' && code === 'not_found') || (missing && env[missing[1]] === 'notthere');
    assert.ok(lacks, `${title}: ${script}${result.stdout}${result.stderr}`);
    left_out.push(title);
  }
  t.diagnostic(`${examples.length - left_out.length} examples; not with this tier: ${left_out.join(', ')}`);
});

test('an error names the member of the body that it is about', T, async (t) => {
  const server = await serve(t);
  const post = (path, body) => server.get(path, { method: 'POST', body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' } });
  const box = await (await post('/v1/sandboxes', { tier: 'memory' })).json();
  for (const [path, body, member] of [
    ['/v1/sandboxes', { nmae: 'x' }, 'nmae'],
    ['/v1/sandboxes', { limits: { memroy: 1 } }, 'limits.memroy'],
    ['/v1/sandboxes', { limits: { memoryMb: 'x' } }, 'limits.memoryMb'],
    ['/v1/sandboxes', { secrets: [{ name: 'A', hosts: ['a.test'], vlaue: 'x' }] }, 'secrets[0]'], // which one is not repeated: it may be the secret
    ['/v1/sandboxes', { tier: 'memory', limits: { pids: 1 } }, 'limits.pids'],
    ['/v1/sandboxes', { tier: 'memory', name: 'a\nb' }, 'name'],
    ['/v1/sandboxes', { tier: 'memory', env: { '=': '1' } }, 'env'],
    ['/v1/sandboxes', { tier: 'memory', network: 'alow x' }, 'network'],
    ['/v1/sandboxes', { tier: 'memory', runtime: 'cobol' }, 'runtime'],
    ['/v1/sessions', { sandbox: { tier: 'memory', env: { '=': '1' } } }, 'sandbox.env'],
    ['/v1/sessions', { sandbox: { limits: { pdis: 8 } } }, 'sandbox.limits.pdis'],
    ['/v1/sessions', { id: 'X' }, 'id'],
    ['/v1/volumes', { capacityMb: 0 }, 'capacityMb'],
    ['/v1/snapshots', { sandbox: box.id, slug: 'X' }, 'slug'],
    ['/v1/snapshots', { dependencies: { '-x': '1' } }, 'dependencies'],
    [`/v1/sandboxes/${box.id}/fork`, { count: 65 }, 'count'],
    [`/v1/sandboxes/${box.id}/commands`, { command: 'x', cwd: 'tmp' }, 'cwd'],
    [`/v1/sandboxes/${box.id}/files/list`, { pth: '/' }, 'pth'],
    ['/v1/tokens', { tenant: 'a', name: 'b\n', scopes: ['read'] }, 'name'],
  ]) {
    const answer = await post(path, body);
    const { error } = await answer.json();
    assert.deepEqual([error?.path, answer.status >= 400], [member, true], `${path} ${JSON.stringify(body)}: ${JSON.stringify(error)}`);
  }
});
