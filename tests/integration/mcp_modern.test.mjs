// The Model Context Protocol without sessions (revision 2026-07-28), spoken by its official client, over pipes and HTTP.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { BIN, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };
const VERSION = '2026-07-28';
const META = 'io.modelcontextprotocol/';
const require = createRequire(join(process.env.SG_BUILD, '../npm/test/package.json'));
const load = async (name) => {
  try { return await import(pathToFileURL(require.resolve(`@modelcontextprotocol/client${name}`))); } catch { return null; }
};
const sdk = await load('');
const { StdioClientTransport } = (await load('/stdio')) ?? {};
const skip = sdk === null ? 'the client is not installed: tools/deps test' : false;

async function connect(t, transport, mode) {
  const it = new sdk.Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  await it.connect(transport);
  t.after(() => it.close());
  return it;
}

const overPipes = async (t, mode = { pin: VERSION }) => ({
  it: await connect(t, new StdioClientTransport({ command: BIN, args: ['mcp'], env: { ...process.env, TMPDIR: tempDir(t) }, stderr: 'inherit' }), mode),
});

const overHttp = async (t, mode = { pin: VERSION }) => {
  const server = await serve(t);
  const another = (path = '/mcp') => connect(t, new sdk.StreamableHTTPClientTransport(new URL(server.url + path),
    { requestInit: { headers: { authorization: `Bearer ${server.token}` } } }), mode);
  return { it: await another(), server, another };
};

const call = async (it, name, args, options) => {
  const answer = await it.callTool({ name, arguments: args }, options);
  return { ...answer, value: JSON.parse(answer.content[0].text) };
};

for (const [way, open] of [['pipes', overPipes], ['HTTP', overHttp]]) {
  test(`tools work without a session, over ${way}`, { ...T, skip }, async (t) => {
    const { it } = await open(t);
    assert.equal(it.getServerVersion().name, 'sandglass');
    assert.match(it.getInstructions(), /sandbox/);
    assert.equal((await it.listTools()).tools.length, 13);
    // What one request writes the next one finds.
    assert.equal((await call(it, 'write', { path: 'ä.txt', content: 'one\n' })).value.created, true);
    assert.equal((await call(it, 'read', { path: 'ä.txt' })).structuredContent.content, 'one\n');
    assert.equal((await call(it, 'read', { path: 'none' })).isError, true);
    await assert.rejects(it.callTool({ name: 'none', arguments: {} }), /unknown tool/);
    const progress = [], logged = [];
    it.setNotificationHandler('notifications/message', ({ params }) => logged.push(params.data));
    // The client throws away progress that comes together with the answer: the last word is not what is looked at.
    const steps = call(it, 'bash', { command: 'echo step one; sleep 0.2; echo step two; until [ -e go ]; do sleep 0.05; done' },
      { onprogress: (each) => progress.push(each.message) });
    await until(() => progress.join('').includes('step two'));
    await call(it, 'write', { path: 'go', content: '' });
    await steps;
    assert.match(progress.join('\n'), /step one[^]*step two/);
    assert.deepEqual(logged, []); // it was not asked for
    await it.callTool({ name: 'bash', arguments: { command: 'echo logged' }, _meta: { [`${META}logLevel`]: 'info' } });
    assert.match(logged.join(''), /logged/);
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
    await call(it, 'bash', { command: `echo ${png} | base64 -d >p.png` });
    assert.deepEqual((await call(it, 'read', { path: 'p.png' })).content[1], { type: 'image', data: png, mimeType: 'image/png' });
    const { messages } = await it.getPrompt({ name: 'analyze_file', arguments: { path: 'p.png' } });
    assert.match(messages[0].content.text, /p\.png/);
    assert.deepEqual((await it.complete({ ref: { type: 'ref/prompt', name: 'analyze_file' }, argument: { name: 'path', value: 'p' } })).completion.values, ['p.png']);
  });

  test(`a call that is given up ends its command, over ${way}`, { ...T, skip }, async (t) => {
    const { it } = await open(t);
    const stop = new AbortController();
    const begun = call(it, 'bash', { command: 'echo $$ >pid; sleep 1000' }, { signal: stop.signal });
    await until(async () => (await call(it, 'exists', { path: 'pid' })).value.exists);
    stop.abort('enough');
    await assert.rejects(begun);
    await until(async () => (await call(it, 'bash', { command: 'kill -0 $(cat pid) 2>/dev/null && echo alive || echo gone' })).value.stdout === 'gone\n');
  });

  test(`files are resources and can be listened to, over ${way}`, { ...T, skip }, async (t) => {
    const { it } = await open(t);
    const uri = 'file://workspace/some%20dir/%C3%BC.txt';
    await call(it, 'write', { path: 'some dir/ü.txt', content: 'text' });
    assert.deepEqual((await it.listResources()).resources.map((each) => each.uri), [uri]);
    assert.equal((await it.readResource({ uri })).contents[0].text, 'text');
    await assert.rejects(it.readResource({ uri: 'file://workspace/none' }), { code: -32602 });
    await assert.rejects(it.readResource({ uri: 'file://workspace/../etc/passwd' }), { code: -32602 });
    const updated = [];
    let lists = 0;
    it.setNotificationHandler('notifications/resources/updated', ({ params }) => updated.push(params.uri));
    it.setNotificationHandler('notifications/resources/list_changed', () => lists++);
    const subscription = await it.listen({ resourceSubscriptions: [uri, 'file:///etc/passwd'], resourcesListChanged: true, toolsListChanged: true });
    assert.deepEqual(subscription.honoredFilter, { resourceSubscriptions: [uri], resourcesListChanged: true });
    await until(async () => {
      await call(it, 'write', { path: 'some dir/ü.txt', content: String(Math.random()) });
      await call(it, 'write', { path: `n${Math.random()}`, content: '' });
      return updated.length > 0 && lists > 0;
    });
    assert.deepEqual([...new Set(updated)], [uri]);
    await subscription.close();
    // Another one may follow; the first gets nothing more.
    const again = await it.listen({ resourceSubscriptions: ['file://workspace/other'] });
    await until(async () => {
      await call(it, 'write', { path: 'other', content: String(Math.random()) });
      return updated.includes('file://workspace/other');
    });
    await again.close();
  });

  test(`a client that can do both chooses the newer one, over ${way}`, { ...T, skip }, async (t) => {
    const { it } = await open(t, 'auto');
    assert.equal(it.getProtocolEra(), 'modern');
    assert.equal((await call(it, 'exists', { path: 'none' })).value.exists, false);
    const { it: old } = await open(t, 'legacy');
    assert.equal(old.getProtocolEra(), 'legacy');
    assert.equal((await call(old, 'exists', { path: 'none' })).value.exists, false);
  });
}

test('requests of a token share a sandbox, by the name in the URL', { ...T, skip }, async (t) => {
  const { it, another, server } = await overHttp(t);
  const [same, apart] = [await another(), await another('/mcp?session=apart')];
  await call(it, 'write', { path: 'f', content: 'of the token' });
  assert.equal((await call(same, 'read', { path: 'f' })).value.content, 'of the token');
  assert.equal((await call(apart, 'exists', { path: 'f' })).value.exists, false);
  // Both at once, with the same ids, and each gets its own answer.
  const answers = await Promise.all([it, same].map((each, i) => Promise.all([1, 2, 3].map((n) => call(each, 'bash', { command: `sleep 0.1; echo ${i}-${n}` })))));
  assert.deepEqual(answers.map((of) => of.map(({ value }) => value.stdout.trim())), [['0-1', '0-2', '0-3'], ['1-1', '1-2', '1-3']]);
  // Another token of the same tenant has another one.
  const made = await (await server.get('/v1/tokens', { method: 'POST', body: JSON.stringify({ scopes: ['run', 'files', 'read'] }),
    headers: { 'content-type': 'application/json' } })).json();
  const other = await connect(t, new sdk.StreamableHTTPClientTransport(new URL(`${server.url}/mcp`),
    { requestInit: { headers: { authorization: `Bearer ${made.token}` } } }), { pin: VERSION });
  assert.equal((await call(other, 'exists', { path: 'f' })).value.exists, false);
  const { sessions } = await (await server.get('/v1/sessions')).json();
  assert.equal(sessions.filter(({ name }) => name === 'mcp').length, 3);
});

// Needs no client: the headers repeat the body, and nothing else is taken.
test('what the headers say must be what the body says', T, async (t) => {
  const server = await serve(t);
  const meta = { [`${META}protocolVersion`]: VERSION, [`${META}clientCapabilities`]: {} };
  const ask = async (method, params, headers = {}, id = 1) => {
    const response = await server.get('/mcp', { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', ...(id === null ? {} : { id }), method, params }),
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': VERSION, 'mcp-method': method, ...headers } });
    const text = await response.text();
    return { status: response.status, session: response.headers.get('mcp-session-id'), ...(text.startsWith('{') ? JSON.parse(text) : { text }) };
  };
  // The first request of all makes the session; it is answered as JSON where nothing else is wanted.
  const first = await ask('tools/call', { name: 'bash', arguments: { command: 'echo first' }, _meta: meta }, { 'mcp-name': 'bash', accept: 'application/json' });
  assert.equal(first.result.structuredContent.stdout, 'first\n');
  const read = { uri: 'file://workspace/ä', _meta: meta };
  const table = [
    [['tools/list', { _meta: meta }], 200, undefined],
    [['server/discover', { _meta: meta }], 200, undefined],
    [['resources/read', read, { 'mcp-name': 'file://workspace/x' }], 400, -32020],
    [['resources/read', read], 400, -32020],
    [['resources/read', read, { 'mcp-name': `=?base64?${Buffer.from(read.uri).toString('base64')}?=` }], 200, -32602], // there is no such file
    [['tools/call', { name: 'exists', arguments: { path: 'x' }, _meta: meta }, { 'mcp-name': 'read' }], 400, -32020],
    [['tools/list', { _meta: meta }, { 'mcp-method': 'tools/call' }], 400, -32020],
    [['tools/list', { _meta: meta }, { 'mcp-protocol-version': '2025-11-25' }], 400, -32020],
    [['tools/list', { _meta: { ...meta, [`${META}protocolVersion`]: '1900-01-01' } }, { 'mcp-protocol-version': '1900-01-01' }], 400, -32022],
    [['tools/list', { _meta: { [`${META}protocolVersion`]: VERSION } }], 400, -32602],
    [['tools/list', {}], 400, -32602],
    [['tools/list', { _meta: 'odd' }], 400, -32602],
    [['ping', { _meta: meta }], 404, -32601],
    [['initialize', { _meta: meta }], 404, -32601],
    [['resources/subscribe', { uri: 'file://workspace/x', _meta: meta }], 404, -32601],
    [['odd/method', { _meta: meta }], 404, -32601],
    [['subscriptions/listen', { _meta: meta }], 200, -32602],
    [['subscriptions/listen', { _meta: meta, notifications: [] }], 200, -32602],
  ];
  for (const [args, status, code] of table) {
    const answer = await ask(...args);
    const { error } = answer.text === undefined ? answer : JSON.parse(/^data: (.*)$/m.exec(answer.text)[1]);
    assert.deepEqual([answer.status, error?.code, answer.session], [status, code, null], JSON.stringify([args, answer]).slice(0, 500));
  }
  for (const id of [{}, [], 1.5, true]) {
    const { status, error } = await ask('tools/list', { _meta: meta }, {}, id);
    assert.deepEqual([status, error.code], [400, 'invalid'], JSON.stringify(id));
  }
  assert.equal((await ask('notifications/cancelled', { requestId: 1 }, {}, null)).status, 202);
  const { result } = await ask('server/discover', { _meta: meta });
  assert.deepEqual([result.resultType, result.supportedVersions, result.cacheScope], ['complete', [VERSION], 'public']);
  assert.equal(result._meta[`${META}serverInfo`].name, 'sandglass');
  const { error } = await ask('tools/list', { _meta: { ...meta, [`${META}protocolVersion`]: '2025-11-25' } }, { 'mcp-protocol-version': '2025-11-25' });
  assert.equal(error.code, -32022); // that one has an initialize
  assert.deepEqual(error.data, { supported: [VERSION], requested: '2025-11-25' });
  // One that has neither header nor body of it is a client of before.
  const bare = await server.get('/mcp', { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }), headers: { 'content-type': 'application/json' } });
  assert.equal(bare.status, 400);
});
