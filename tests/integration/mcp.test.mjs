// The Model Context Protocol, spoken by its official client, over pipes and over HTTP.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, utimesSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { BIN, run, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };
const require = createRequire(join(process.env.SG_BUILD, '../npm/test/package.json'));
const load = async (name) => {
  try { return await import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`))); } catch { return null; }
};
const sdk = await load('client/index.js');
const { StdioClientTransport } = (await load('client/stdio.js')) ?? {};
const { StreamableHTTPClientTransport } = (await load('client/streamableHttp.js')) ?? {};
const types = await load('types.js');
const skip = sdk === null ? 'the client is not installed: tools/deps' : false;

async function client(transport, t) {
  const it = new sdk.Client({ name: 'test', version: '1' });
  await it.connect(transport);
  t.after(() => it.close());
  return it;
}

const overPipes = async (t) => {
  const dir = tempDir(t);
  const transport = new StdioClientTransport({ command: BIN, args: ['mcp'], env: { ...process.env, TMPDIR: dir }, stderr: 'inherit' });
  const it = await client(transport, t);
  return { it, transport, dir };
};

const overHttp = async (t) => {
  const server = await serve(t);
  const make = (sessionId) => new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`),
    { requestInit: { headers: { authorization: `Bearer ${server.token}` } }, sessionId });
  const transport = make();
  return { it: await client(transport, t), transport, server, make };
};

const call = async (it, name, args, options) => {
  const answer = await it.callTool({ name, arguments: args }, undefined, options);
  return { ...answer, value: JSON.parse(answer.content[0].text) };
};

for (const [way, open] of [['pipes', overPipes], ['HTTP', overHttp]]) {
  test(`every tool is there and works, over ${way}`, { ...T, skip }, async (t) => {
    const { it } = await open(t);
    assert.equal(it.getServerVersion().name, 'sandglass');
    assert.match(it.getInstructions(), /sandbox/);
    const { tools } = await it.listTools(); // the client checks structured answers from here on
    const names = tools.map(({ name }) => name);
    for (const name of ['run_code', 'bash', 'read', 'write', 'edit', 'glob', 'grep', 'list', 'exists', 'delete', 'move'])
      assert.ok(names.includes(name), name);
    assert.equal((await call(it, 'write', { path: 'a/b.txt', content: 'one\ntwo\n' })).value.created, true);
    assert.equal((await call(it, 'read', { path: 'a/b.txt' })).structuredContent.content, 'one\ntwo\n');
    assert.equal((await call(it, 'edit', { path: 'a/b.txt', oldString: 'two', newString: 'three' })).value.replaced, 1);
    assert.deepEqual((await call(it, 'glob', { pattern: '**/*.txt' })).value.paths, ['/workspace/a/b.txt']);
    assert.equal((await call(it, 'grep', { pattern: 'th.ee' })).value.matches[0].line, 2);
    assert.equal((await call(it, 'list', {})).value.entries[0].name, 'a');
    assert.equal((await call(it, 'bash', { command: 'wc -l <a/b.txt' })).value.stdout.trim(), '2');
    assert.equal((await call(it, 'move', { from: 'a/b.txt', to: 'c.txt' })).isError, false);
    assert.equal((await call(it, 'exists', { path: 'c.txt' })).value.exists, true);
    assert.equal((await call(it, 'delete', { path: 'c.txt' })).value.deleted, 1);
    const wrong = await call(it, 'read', { path: 'c.txt' });
    assert.equal(wrong.isError, true);
    assert.equal(wrong.value.error.code, 'not_found');
    // Code that fails is an error for the model, with all that it said.
    const failed = await call(it, 'run_code', { code: 'print("so far")\nimport nosuchmodule', language: 'python', description: 'fails' });
    assert.equal(failed.isError, true);
    assert.deepEqual([failed.structuredContent.success, failed.value.stdout], [false, 'so far\n']);
    assert.match(failed.value.error.message, /^No module named 'nosuchmodule'; package 'nosuchmodule' could not be installed: the sandbox has no network\. Give it /);
    assert.equal((await call(it, 'run_code', { code: '6 * 7', language: 'python', description: 'works' })).isError, false);
    await assert.rejects(it.callTool({ name: 'none', arguments: {} }), /unknown tool/);
    await assert.rejects(it.request({ method: 'odd/method' }, types.EmptyResultSchema), /unknown method/);
    await it.ping();
  });

  test(`pictures, progress, logging and cancellation, over ${way}`, { ...T, skip }, async (t) => {
    const { it } = await open(t);
    const logged = [];
    it.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => logged.push(params.data));
    await it.setLoggingLevel('info');
    const progress = [];
    // The client throws away progress that comes together with the answer: the last word is not what is looked at.
    const steps = call(it, 'bash', { command: 'echo step one; sleep 0.2; echo step two; until [ -e go ]; do sleep 0.05; done' },
      { onprogress: (each) => progress.push(each.message) });
    await until(() => progress.join('').includes('step two'));
    await call(it, 'write', { path: 'go', content: '' });
    await steps;
    assert.match(progress.join('\n'), /step one[^]*step two/);
    assert.match(logged.join('\n'), /step two/);
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
    await call(it, 'bash', { command: `echo ${png} | base64 -d >p.png` });
    const shown = await call(it, 'read', { path: 'p.png' });
    assert.deepEqual(shown.content[1], { type: 'image', data: png, mimeType: 'image/png' });
    const stop = new AbortController();
    const begun = call(it, 'bash', { command: 'echo $$ >pid; sleep 1000' }, { signal: stop.signal });
    while (!(await call(it, 'exists', { path: 'pid' })).value.exists) ;
    stop.abort('enough');
    await assert.rejects(begun);
    // The command has ended with its call.
    for (;;) {
      const { value } = await call(it, 'bash', { command: 'kill -0 $(cat pid) 2>/dev/null && echo alive || echo gone' });
      if (value.stdout === 'gone\n') break;
    }
  });

  test(`files are resources, over ${way}`, { ...T, skip }, async (t) => {
    const { it } = await open(t);
    await call(it, 'write', { path: 'some dir/ü.txt', content: 'text' });
    await call(it, 'bash', { command: "printf 'a\\0b' >bin" });
    const { resources } = await it.listResources();
    const uri = 'file://workspace/some%20dir/%C3%BC.txt';
    assert.deepEqual(resources.map((each) => each.uri).sort(), ['file://workspace/bin', uri]);
    assert.equal((await it.readResource({ uri })).contents[0].text, 'text');
    assert.equal((await it.readResource({ uri: 'file://workspace/bin' })).contents[0].blob, 'YQBi');
    await assert.rejects(it.readResource({ uri: 'file://workspace/none' }), /none/);
    await assert.rejects(it.readResource({ uri: 'file:///etc/passwd' }), /file:\/\/workspace/);
    await assert.rejects(it.readResource({ uri: 'file://workspace/../etc/passwd' }));
    assert.deepEqual((await it.listResourceTemplates()).resourceTemplates.map((each) => each.name), ['workspace', 'docs']);
    await assert.rejects(it.readResource({ uri: 'docs://page/999' }), /no page/);
    const updated = [];
    it.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => updated.push(params.uri));
    await it.subscribeResource({ uri });
    while (updated.length === 0) await call(it, 'write', { path: 'some dir/ü.txt', content: String(Math.random()) });
    assert.equal(updated[0], uri);
    await it.unsubscribeResource({ uri });
    const { prompts } = await it.listPrompts();
    const { messages } = await it.getPrompt({ name: prompts[0].name, arguments: { path: 'bin' } });
    assert.match(messages[0].content.text, /bin/);
    await assert.rejects(it.getPrompt({ name: prompts[0].name }), /path is missing/);
    const complete = async (ref, value, name = 'path') => (await it.complete({ ref, argument: { name, value } })).completion;
    const prompt = { type: 'ref/prompt', name: 'analyze_file' }, template = { type: 'ref/resource', uri: 'file://workspace/{+path}' };
    assert.deepEqual(await complete(prompt, 'b'), { values: ['bin'], hasMore: false });
    assert.deepEqual((await complete(prompt, '/workspace/so')).values, ['/workspace/some dir/ü.txt']);
    assert.deepEqual((await complete(template, '')).values, ['bin', 'some dir/ü.txt']);
    assert.deepEqual((await complete(template, '{*')).values, []);
    assert.deepEqual((await complete(template, '../../etc/pass')).values, []);
    assert.deepEqual((await complete({ type: 'ref/prompt', name: 'explore' }, 'b', 'question')).values, []);
    await assert.rejects(complete({ type: 'ref/prompt', name: 'none' }, 'b'), /prompts\/list/);
    await assert.rejects(complete(prompt, 'b', 'none'), /unknown argument name/);
  });
}

test('a client that goes leaves nothing behind', { ...T, skip }, async (t) => {
  const { it, dir, transport } = await overPipes(t);
  await call(it, 'bash', { command: 'echo' });
  const { pid } = transport;
  assert.equal(readdirSync(dir).length, 1);
  await it.close();
  for (;;) try { process.kill(pid, 0); await new Promise((done) => setTimeout(done, 20)); } catch { break; }
  assert.deepEqual(readdirSync(dir), []);
});

test('what one that was killed has left goes at the next start', { ...T, skip }, async (t) => {
  const { it, dir, transport } = await overPipes(t);
  await call(it, 'bash', { command: 'echo' });
  const [left] = readdirSync(dir);
  process.kill(transport.pid, 'SIGKILL');
  for (;;) try { process.kill(transport.pid, 0); await new Promise((done) => setTimeout(done, 20)); } catch { break; }
  assert.deepEqual(readdirSync(dir), [left]);
  mkdirSync(join(dir, 'sandglass-mcp-new')); // may be about to be locked by its owner
  const long = new Date(Date.now() - 3600e3);
  utimesSync(join(dir, left), long, long);
  // Its helpers end a moment after it, and hold its lock until then.
  await until(async () => {
    const { code } = await run(['-c', ': | "$0" mcp', BIN], { bin: '/bin/sh', env: { ...process.env, TMPDIR: dir } });
    assert.equal(code, 0);
    return !readdirSync(dir).includes(left);
  });
  assert.deepEqual(readdirSync(dir), ['sandglass-mcp-new']);
});

test('a stream that broke off goes on behind its last event', { ...T, skip }, async (t) => {
  const { transport, server } = await overHttp(t);
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream',
    'mcp-session-id': transport.sessionId, 'mcp-protocol-version': '2025-11-25' };
  const eventsOf = async function* (response) {
    let text = '';
    for await (const bytes of response.body) {
      text += Buffer.from(bytes);
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const block = text.slice(0, end);
        text = text.slice(end + 2);
        const [, id] = /^id: (.*)$/m.exec(block) ?? [], [, data] = /^data: (.*)$/m.exec(block) ?? [];
        if (id !== undefined) yield { id, data: data ? JSON.parse(data) : null };
      }
    }
  };
  const leave = new AbortController();
  const params = { name: 'bash', arguments: { command: 'echo one; while [ ! -e go ]; do sleep 0.05; done; echo two' }, _meta: { progressToken: 7 } };
  const asked = await server.get('/mcp', { method: 'POST', headers, signal: leave.signal,
    body: JSON.stringify({ jsonrpc: '2.0', id: 'slow', method: 'tools/call', params }) });
  const seen = [];
  for await (const event of eventsOf(asked)) {
    seen.push(event);
    if (event.data?.method === 'notifications/progress') break;
  }
  leave.abort();
  assert.equal(seen[0].data, null); // the first event says where the stream can be taken up again
  const other = await server.get('/mcp', { method: 'POST', headers,
    body: JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'write', arguments: { path: 'go', content: '' } } }) });
  for await (const _ of eventsOf(other));
  const resumed = await server.get('/mcp', { headers: { ...headers, accept: 'text/event-stream', 'last-event-id': seen.at(-1).id } });
  const rest = [];
  for await (const event of eventsOf(resumed)) rest.push(event.data);
  assert.equal(rest.at(-1).id, 'slow');
  assert.match(rest.at(-1).result.structuredContent.stdout, /one\ntwo\n/);
  assert.ok(rest.every((each) => each.id === undefined || each.id === 'slow')); // nothing of the other stream
  // From its beginning, when it is over: all of it.
  const again = await server.get('/mcp', { headers: { ...headers, accept: 'text/event-stream', 'last-event-id': seen[0].id } });
  const all = [];
  for await (const event of eventsOf(again)) all.push(event.data);
  assert.deepEqual(all.at(-1), rest.at(-1));
  assert.ok(all.some((each) => each.method === 'notifications/progress'));
});

test('sessions over HTTP: known, ended, unknown, of others', { ...T, skip }, async (t) => {
  const { it, transport, server, make } = await overHttp(t);
  await call(it, 'write', { path: 'kept', content: 'x' });
  const again = new sdk.Client({ name: 'again', version: '1' });
  await again.connect(make(transport.sessionId));
  assert.equal((await call(again, 'exists', { path: 'kept' })).value.exists, true);
  const post = (headers, body = { jsonrpc: '2.0', id: 1, method: 'ping' }) => server.get('/mcp', { method: 'POST',
    body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } });
  assert.equal((await post({})).status, 400);
  assert.equal((await post({ 'mcp-session-id': 'nosuchsession' })).status, 404);
  assert.equal((await post({ 'mcp-session-id': transport.sessionId, 'mcp-protocol-version': '1999-01-01' })).status, 400);
  assert.equal((await post({ 'mcp-session-id': transport.sessionId, origin: 'http://evil.test' })).status, 403);
  assert.equal((await post({ 'mcp-session-id': transport.sessionId, authorization: 'Bearer wrong' })).status, 401);
  assert.deepEqual(await (await post({ 'mcp-session-id': transport.sessionId })).json(), { jsonrpc: '2.0', id: 1, result: {} });
  // Input that is not a message gets an error.
  for (const odd of [{ id: {} }, { id: null }, { id: 1.5 }, { id: [] }, { id: 1, method: 7 }, { method: undefined }]) {
    const answer = await post({ 'mcp-session-id': transport.sessionId }, { jsonrpc: '2.0', method: 'ping', ...odd });
    assert.deepEqual([answer.status, (await answer.json()).error.code], [400, 'invalid'], JSON.stringify(odd));
  }
  await transport.terminateSession();
  assert.equal((await post({ 'mcp-session-id': transport.sessionId })).status, 404);
});

test('clients of one tenant do not keep out those of another', T, async (t) => {
  const server = await serve(t);
  const post = (token, body, headers = {}) => fetch(`${server.url}/mcp`, { method: 'POST', body: JSON.stringify(body),
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers } });
  const initialize = { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25',
    capabilities: {}, clientInfo: { name: 'many', version: '1' } } };
  const begin = async (token) => {
    const answer = await post(token, initialize);
    await answer.text();
    return { status: answer.status, id: answer.headers.get('mcp-session-id') };
  };
  const tokenOf = async (tenant) => (await (await server.get('/v1/tokens', { method: 'POST',
    headers: { 'content-type': 'application/json' }, body: JSON.stringify({ tenant, scopes: ['run'] }) })).json()).token;
  const [many, other] = [await tokenOf('many'), await tokenOf('other')];
  const first = await begin(many);
  for (let i = 0; i < 1000; i += 25)
    for (const one of await Promise.all(Array.from({ length: 25 }, () => begin(many)))) assert.equal(one.status, 200);
  assert.equal((await begin(other)).status, 200);
  // The one that made room goes on with its session.
  const ping = await post(many, { jsonrpc: '2.0', id: 2, method: 'ping' }, { 'mcp-session-id': first.id });
  assert.deepEqual(await ping.json(), { jsonrpc: '2.0', id: 2, result: {} });
});

test('what a client is instructed to write down', T, async () => {
  for (const name of ['claude', 'cursor', 'vscode']) {
    const { code, stdout } = await run(['mcp', '--print-config', name]);
    assert.equal(code, 0);
    assert.match(JSON.stringify(JSON.parse(stdout)), /"args":\["mcp"\]/);
  }
  assert.equal((await run(['mcp', '--print-config', 'odd'])).code, 2);
});

test('search_docs is offered when there is something to search, and its pages are resources', { ...T, skip }, async (t) => {
  const { it, server } = await overHttp(t);
  const names = async () => (await it.listTools()).tools.map((each) => each.name);
  assert.ok(!(await names()).includes('search_docs'));
  const body = JSON.stringify({ name: 'guide.md', text: '# Guide\n## Login\nCall createClient.\n' });
  assert.equal((await server.get('/v1/docs', { method: 'POST', body, headers: { 'content-type': 'application/json' } })).status, 201);
  assert.ok((await names()).includes('search_docs'));
  const { value } = await call(it, 'search_docs', { query: 'create client' });
  assert.equal(value.results[0].heading, 'Guide > Login');
  const page = await it.readResource({ uri: `docs://page/${value.results[0].page}` });
  assert.match(page.contents[0].text, /^# Guide/);
});
