// What others have made to try servers of the Model Context Protocol: the inspector's command line, and the
// conformance suite.
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { once } from 'node:events';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, isSanitized, run, serve, tempDir } from './lib.mjs';

const T = { timeout: 600000 };
const MODULES = join(process.env.SG_BUILD, '../npm/test/node_modules');
const INSPECTOR = join(MODULES, '@modelcontextprotocol/inspector-cli');
const CONFORMANCE = join(MODULES, '@modelcontextprotocol/conformance/dist/index.js');
// What they say does not depend on a sanitizer, and what a sanitizer says is said by mcp.test.mjs.
const NEXT = join(MODULES, 'mcp-conformance-next/dist/index.js'); // knows revision 2026-07-28
const skip = isSanitized ? 'not under a sanitizer' : [INSPECTOR, CONFORMANCE, NEXT].every(existsSync) ? false : 'not installed: tools/deps test';

// It looks for the package.json of the whole inspector two directories up.
function inspector(t) {
  const dir = tempDir(t);
  mkdirSync(join(dir, 'inspector/cli'), { recursive: true });
  cpSync(join(INSPECTOR, 'build'), join(dir, 'inspector/cli/build'), { recursive: true });
  writeFileSync(join(dir, 'inspector/package.json'), '{"name":"inspector","version":"1.0.3","type":"module"}');
  symlinkSync(MODULES, join(dir, 'node_modules'));
  return async (...args) => {
    const { code, stdout, stderr } = await run([join(dir, 'inspector/cli/build/index.js'), ...args],
      { bin: process.execPath, env: { ...process.env, TMPDIR: dir, NODE_COMPILE_CACHE: join(dir, 'compiled') } });
    assert.equal(code, 0, `${args.join(' ')}: ${stderr}`);
    return JSON.parse(stdout);
  };
}

// Every tool, as one session after the other can call it: the command line has a session for each call.
const calls = {
  run_code: [['code=6*7', 'description=a sum', 'language=python'], ({ result }) => assert.equal(String(result), '42')],
  bash: [['command=echo hello'], ({ stdout }) => assert.equal(stdout, 'hello\n')],
  bash_output: [['id=nosuchcommand'], ({ error }) => assert.equal(error.code, 'not_found')],
  bash_stop: [['id=nosuchcommand'], ({ error }) => assert.equal(error.code, 'not_found')],
  read: [['path=none'], ({ error }) => assert.equal(error.code, 'not_found')],
  write: [['path=a.txt', 'content=text'], ({ created }) => assert.equal(created, true)],
  edit: [['path=none', 'oldString=a', 'newString=b'], ({ error }) => assert.equal(error.code, 'not_found')],
  glob: [['pattern=*'], ({ paths }) => assert.deepEqual(paths, [])],
  grep: [['pattern=x'], ({ matches }) => assert.deepEqual(matches, [])],
  list: [['path=/workspace'], ({ entries }) => assert.deepEqual(entries, [])],
  exists: [['path=none'], ({ exists }) => assert.equal(exists, false)],
  delete: [['path=none'], ({ error }) => assert.equal(error.code, 'not_found')],
  move: [['from=none', 'to=other'], ({ error }) => assert.equal(error.code, 'not_found')],
};

// What takes long is the start of Node, once for each call: this many at a time, and no pause between them.
async function inParallel(most, jobs) {
  const left = [...jobs];
  await Promise.all(Array.from({ length: most }, async () => {
    for (let job = left.shift(); job; job = left.shift()) await job();
  }));
}

async function inspect(t, server) {
  const ask = inspector(t);
  const target = server ? [`${server.url}/mcp`, '--transport', 'http', '--header', `Authorization: Bearer ${server.token}`] : [BIN, 'mcp'];
  const lists = [
    ['tools/list', ({ tools }) => assert.deepEqual(tools.map(({ name }) => name).sort(), Object.keys(calls).sort())],
    ['prompts/list', ({ prompts }) => assert.equal(prompts.length, 2)],
    ['resources/list', ({ resources }) => assert.deepEqual(resources, [])],
  ];
  await inParallel(3, [
    ...lists.map(([method, check]) => async () => check(await ask(...target, '--method', method))),
    ...Object.entries(calls).map(([name, [args, check]]) => async () => {
      const { content } = await ask(...target, '--method', 'tools/call', '--tool-name', name, '--tool-arg', ...args);
      check(JSON.parse(content[0].text));
    }),
  ]);
}

// The suite expects a server without a token that has tools, prompts and files of certain names. Between them stands
// this: it adds the token and says the names that this server has. Messages and streams pass as they are.
const dot = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const slowly = 'for i in 1 2 3; do echo $i; sleep 0.2; done';
const tools = {
  test_simple_text: ['bash', { command: 'echo hello' }],
  test_image_content: ['run_code', { description: 'a picture', language: 'python',
    code: `import base64\nclass Dot:\n  def _repr_png_(self): return base64.b64decode("${dot}")\nDot()` }],
  test_error_handling: ['read', { path: 'none' }],
  test_tool_with_logging: ['bash', { command: slowly }],
  test_tool_with_progress: ['bash', { command: slowly }],
};
const prompts = {
  test_simple_prompt: ['explore', () => ({ question: 'what is here?' })],
  test_prompt_with_arguments: ['explore', ({ arg1, arg2 }) => ({ question: `${arg1} ${arg2}` })],
};
// A file of the session, and what makes it before it is read.
const uris = {
  'test://watched-resource': ['watched.txt'],
  'test://static-text': ['static.txt', 'echo text'],
  'test://static-binary': ['static.bin', 'printf "\\000\\001\\377"'],
  'test://template/123/data': ['template/123/data', 'echo the data of 123'],
};

function translate(message) {
  const { method, params } = message;
  if (method === 'tools/call' && tools[params.name]) [params.name, params.arguments] = tools[params.name];
  if (method === 'prompts/get' && prompts[params.name]) {
    const [name, argumentsOf] = prompts[params.name];
    message.params = { ...params, name, arguments: argumentsOf(params.arguments ?? {}) };
  }
  if (method === 'completion/complete' && prompts[params.ref.name])
    Object.assign(params, { ref: { type: 'ref/prompt', name: 'analyze_file' }, argument: { ...params.argument, name: 'path' } });
  if (params?.uri && uris[params.uri]) params.uri = `file://workspace/${uris[params.uri][0]}`;
  return message;
}

// A header that repeats a name of the body repeats this server's; one that does not is not ours.
const nameOf = ({ params } = {}) => params?.uri ?? params?.name;

// The session is the suite's own: what it reads is written there first, with a tool of this server.
async function prepare(server, headers, { method, params }) {
  const [file, make] = method === 'resources/read' && uris[params.uri] || [];
  if (make === undefined) return;
  const { 'mcp-session-id': session, 'mcp-protocol-version': version } = headers;
  const call = { name: 'bash', arguments: { command: `mkdir -p "$(dirname ${file})"; ${make} > ${file}` }, _meta: params._meta };
  const own = session ? { 'mcp-session-id': session } : { 'mcp-protocol-version': version, 'mcp-method': 'tools/call', 'mcp-name': 'bash' };
  const response = await fetch(`${server.url}/mcp`, { method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', id: 'prepare', method: 'tools/call', params: call }),
    headers: { 'content-type': 'application/json', accept: 'application/json', authorization: `Bearer ${server.token}`, ...own } });
  assert.equal((await response.json()).result?.isError ?? false, false);
}

async function between(t, server) {
  const proxy = http.createServer(async (request, response) => {
    const { port } = proxy.address();
    const own = (value) => value?.replace(`:${port}`, `:${server.port}`);
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const message = pieces.length > 0 ? JSON.parse(Buffer.concat(pieces)) : undefined;
    if (message) await prepare(server, request.headers, message);
    const named = message && nameOf(message);
    const body = message && Buffer.from(JSON.stringify(translate(message)));
    const headers = { ...request.headers, host: own(request.headers.host), authorization: `Bearer ${server.token}` };
    if (headers.origin) headers.origin = own(headers.origin);
    if (named !== undefined && headers['mcp-name'] === named) headers['mcp-name'] = nameOf(message);
    delete headers['transfer-encoding'];
    if (body) headers['content-length'] = body.length;
    const asked = http.request({ host: '127.0.0.1', port: server.port, path: request.url, method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
    });
    asked.on('error', () => response.destroy());
    response.on('close', () => asked.destroy());
    asked.end(body);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => { proxy.closeAllConnections(); proxy.close(); });
  return `http://127.0.0.1:${proxy.address().port}/mcp`;
}

// docs/MCP.md names those that are left out, and why.
const both = ['completion-complete', 'tools-list', 'tools-call-simple-text', 'tools-call-image', 'tools-call-error', 'tools-call-with-progress',
  'server-sse-multiple-streams', 'resources-list', 'resources-read-text', 'resources-read-binary', 'resources-templates-read', 'prompts-list',
  'prompts-get-simple', 'prompts-get-with-args', 'dns-rebinding-protection'];
const suites = [
  ['the conformance suite', CONFORMANCE, ['--suite', 'all'], [...both, 'server-initialize', 'logging-set-level', 'ping', 'tools-call-with-logging',
    'server-sse-polling', 'resources-subscribe', 'resources-unsubscribe']],
  ['the conformance suite of 2026-07-28', NEXT, ['--requirements', '2026-07-28'], [...both, 'server-stateless', 'caching', 'http-header-validation',
    'sep-2164-resource-not-found', 'input-required-result-missing-input-response', 'input-required-result-unsupported-methods',
    'input-required-result-ignore-extra-params', 'input-required-result-validate-input']],
];
// They want tools that only a server made for the suite has. What they are for is tried by mcp_modern.test.mjs, but for
// what a tool does that needs an ability of its client: no tool does.
const needless = ['sep-2575-server-rejects-undeclared-capability', 'sep-2575-missing-capability-http-400',
  'sep-2575-http-server-no-independent-requests-on-stream', 'sep-2575-server-no-log-without-loglevel'];

// The scenarios that passed, by the files that the suite writes.
function passedIn(dir) {
  return readdirSync(dir).filter((each) => {
    const checks = JSON.parse(readFileSync(join(dir, each, 'checks.json'), 'utf8'));
    return checks.length > 0 && checks.every(({ id, status }) => status !== 'FAILURE' || needless.includes(id));
  }).map((each) => each.replace(/^server-(.*)-\d{4}-\d\d-\d\dT.*$/, '$1'));
}

// The suites give an answer a second or two: one that a busy machine kept waiting is requested once more, by itself.
async function conform(t, server, [, suite, args, scenarios]) {
  const url = await between(t, server);
  const ask = async (dir, which) => ({ ...await run([suite, 'server', '--url', url, ...which, '-o', dir], { bin: process.execPath, cwd: dir }), passed: passedIn(dir) });
  const { passed } = await ask(tempDir(t), args);
  for (const name of scenarios.filter((each) => !passed.includes(each))) {
    const again = await ask(tempDir(t), ['--scenario', name, ...(suite === NEXT ? ['--spec-version', '2026-07-28'] : [])]);
    assert.deepEqual(again.passed, [name], again.stdout.slice(-3000) + again.stderr);
  }
}

// All at once: the suites wait for most of their time.
test('peers', { ...T, skip, concurrency: 4 }, async (t) => {
  await Promise.all([
    t.test('the inspector lists and calls every tool, over pipes', T, (t) => inspect(t)),
    t.test('the inspector lists and calls every tool, over HTTP', T, async (t) => inspect(t, await serve(t))),
    ...suites.map((suite) => t.test(suite[0], T, async (t) => conform(t, await serve(t), suite))),
  ]);
});
