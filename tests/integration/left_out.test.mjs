// What an answer leaves out is said in it, on every surface, with the setting or the request that gives it.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { run, serve, tempDir } from './lib.mjs';

const T = { timeout: 600000 };
const { Client, Sandbox } = await import(pathToFileURL(join(process.env.SG_SDK, 'dist/index.js')));
const MESSAGE = /\.\.\. 7 more lines on stdout were not kept: the setting isolate\.console_lines is 5/;
const LINES = 'for (let i = 0; i < 12; i++) console.log("line", i); for (let i = 0; i < 6; i++) console.error("bad"); 42';
const ends = [];
let server, env, isolate, jail, client;

const post = async (path, body = {}) => {
  const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } });
  return answer.json();
};
const tool = async (args) => (await post(`/v1/sandboxes/${jail}/tools/run_code`, { description: 'test', ...args })).answer;

before(async () => {
  const t = { after: (call) => ends.push(call) };
  const dir = tempDir(t), config = join(dir, 'config.toml');
  writeFileSync(config, '[isolate]\nconsole_lines = 5\n');
  server = await serve(t, { args: ['--config', config] });
  env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token, SANDGLASS_CONFIG: config, HOME: dir, XDG_CONFIG_HOME: dir };
  client = new Client({ url: server.url, token: server.token });
  isolate = (await post('/v1/sandboxes', { tier: 'isolate' })).id;
  jail = (await post('/v1/sandboxes', { tier: 'jail' })).id;
});
after(async () => { for (const end of ends.reverse()) await end(); });

test('lines of an isolate that were not kept: HTTP, whole and short', T, async () => {
  const whole = await post(`/v1/sandboxes/${isolate}/run_code`, { code: LINES });
  assert.deepEqual([whole.truncatedStdout, whole.truncatedStderr, whole.result], [7, 1, 42]);
  assert.match(whole.truncatedMessage, MESSAGE);
  assert.match(whole.truncatedMessage, /1 more lines on stderr/);
  const short = await post(`/v1/sandboxes/${isolate}/run_code`, { code: LINES, short: true });
  assert.match(short.content, MESSAGE);
  assert.match(short.content, /42$/);
  const all = await post(`/v1/sandboxes/${isolate}/run_code`, { code: 'console.log("a"); 1' });
  assert.deepEqual([all.truncatedStdout, all.truncatedMessage], [0, null]);
});

test('lines of an isolate that were not kept: command line', T, async () => {
  const session = (await post('/v1/sessions', { sandbox: { tier: 'isolate' } })).id;
  for (const place of [['--sandbox', isolate], ['--session', session], ['--config', env.SANDGLASS_CONFIG]]) {
    const { code, stdout, stderr } = await run(['run', ...place, '-e', LINES], { env });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /line 4\n42\n$/);
    assert.match(stderr, MESSAGE, place[0]);
  }
  const { stdout, stderr } = await run(['run', '--sandbox', isolate, '--json', '-e', LINES], { env });
  assert.match(JSON.parse(stdout).truncatedMessage, MESSAGE);
  assert.match(stderr, MESSAGE);
});

test('lines of an isolate that were not kept: the tool run_code and the TypeScript package', T, async () => {
  const { answer } = await post(`/v1/sandboxes/${isolate}/tools/run_code`, { code: LINES, description: 'test' });
  assert.match(answer.note, MESSAGE);
  const sandbox = await Sandbox.get(isolate, { client });
  for (const calls of [{}, { onStdout: () => {} }]) {
    const result = await sandbox.runCode(LINES, calls);
    assert.deepEqual([result.truncatedStdout, result.truncatedStderr], [7, 1]);
    assert.match(result.truncatedMessage, MESSAGE);
  }
  const all = await sandbox.runCode('1');
  assert.deepEqual([all.truncatedStdout, all.truncatedMessage], [0, null]);
});

test('the tool run_code says what it leaves out: text, images, files', T, async (t) => {
  if (jail === undefined) return t.skip('no jails here');
  const long = await tool({ language: 'python', code: '"x" * 100000' });
  assert.match(long.result, /\.\.\. 34,4\d\d bytes .*left out \.\.\./);
  const exact = await tool({ language: 'python', code: '"x" * 60000' });
  assert.deepEqual([exact.result.length, exact.note], [60000, undefined]);
  const images = await tool({ language: 'python', code: 'class P:\n  def __init__(self, n): self.n = n\n'
    + '  def _repr_png_(self): return b"\\x89PNG\\r\\n\\x1a\\n" + bytes(self.n)\n'
    + 'print("text")\nfor i in range(11): display(P(10))\ndisplay(P(5 << 20))' });
  assert.equal(images.images, 8);
  assert.match(images.note, /3 more images were left out: an answer has 8/);
  assert.match(images.note, /1 images were left out: larger than 4 MiB/);
  // A long text does not drop the pictures after it.
  const both = await tool({ language: 'python', code: 'display("x" * 70000)\ndisplay(P(10))' });
  assert.equal(both.images, 1);
  const files = await tool({ language: 'python', code: 'for i in range(63): open(f"f{i}", "w").close()' });
  assert.equal(files.files.length, 50);
  assert.match(files.note, /^13 more changed files are not in the list/);
});

test('a value that is too large for a stream is named, and is in the JSON answer', T, async (t) => {
  if (jail === undefined) return t.skip('no jails here');
  const args = ['run', '--sandbox', jail, '--lang', 'python', '-e', '"x" * 4000000'];
  const shown = await run(args, { env });
  assert.deepEqual([shown.code, shown.stdout], [0, '[a value too large for a stream: --json has it]\n']);
  assert.equal(JSON.parse((await run([...args, '--json'], { env })).stdout).result.length, 4000000);
  const sandbox = await Sandbox.get(jail, { client });
  const values = [];
  const result = await sandbox.runCode('"x" * 4000000', { language: 'python', onResult: (value) => values.push(value) });
  assert.match(values[0].omitted, /too large for a stream/);
  assert.deepEqual([values[0].data, values[0].main, result.result], [{}, true, null]);
});

test('values beyond what one answer holds are counted, with the way out', T, async (t) => {
  if (jail === undefined) return t.skip('no jails here');
  const code = 'for i in range(1005): display(i)';
  const whole = await post(`/v1/sandboxes/${jail}/run_code`, { language: 'python', code });
  assert.equal(whole.truncatedResults, 5);
  assert.match(whole.truncatedMessage, /^5 values were left out: one answer holds 1000 values and 16 MiB/);
  assert.match((await tool({ language: 'python', code })).note, /^5 values were left out/);
  const short = await post(`/v1/sandboxes/${jail}/run_code`, { language: 'python', code, short: true });
  assert.match(short.content, /\n\.\.\. 5 values were left out: .* \.\.\.$/);
});

test('lines of an isolate that one answer does not hold are counted', T, async (t) => {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, '[isolate]\nconsole_lines = 1000\ntimeout_ms = 60000\n');
  const other = await serve(t, { args: ['--config', config] });
  const answer = await other.get('/v1/run_code', { method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ language: 'js', code: 'const s = "x".repeat(60000); for (let i = 0; i < 100; i++) console.log(s); 1' }) });
  const whole = await answer.json();
  const lines = whole.stdout.split('\n').length - 1;
  assert.ok(lines > 50 && lines < 100, `${lines}`);
  assert.equal(whole.truncatedStdout, 100 - lines);
  assert.equal(whole.truncatedMessage, `... ${100 - lines} lines did not fit into one answer: print less`);
});
