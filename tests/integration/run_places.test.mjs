// Code in sandboxes of the server, beside what run_runtimes.test.mjs asks of every runtime: kernels that
// were started ahead, sessions, the command line, pauses, and what is refused.
import assert from 'node:assert/strict';
import test from 'node:test';
import { run, until } from './lib.mjs';
import { setup, T } from './runtimes_lib.mjs';

for (const [runtime, own] of [['node24', { NODE_OPTIONS: '--no-deprecation' }], ['deno', { DENO_NO_PROMPT: '1' }]])
  test(`${runtime}: an interpreter that was started ahead is given to the next caller`, T, async (t) => {
    const server = await setup(t, runtime);
    if (!server) return;
    // Its process is older than the wish for it; on a loaded machine that may take some tries.
    const code = '[Date.now() - process.uptime() * 1000, process.env.GIVEN, process.env.SANDGLASS_KERNEL_AHEAD, process.cwd()]';
    const ask = async (more) => {
      const askedMs = Date.now();
      const box = await server.post('/v1/sandboxes', { tier: 'jail', runtime, ...more });
      assert.equal(box.http, 201, box.raw);
      const run = await server.post(`/v1/sandboxes/${box.id}/run_code`, { code });
      assert.equal(run.success, true, run.raw);
      assert.equal(run.executionCount, 1);
      await server.get(`/v1/sandboxes/${box.id}`, { method: 'DELETE' });
      return { isAhead: run.result[0] < askedMs - 100, rest: run.result.slice(1) };
    };
    await until(async () => {
      const { isAhead, rest } = await ask({ env: { GIVEN: 'mine' } });
      assert.deepEqual(rest, ['mine', null, '/workspace']);
      return isAhead;
    });
    assert.equal((await ask({ env: own })).isAhead, false, 'its options were read as it started');
    assert.equal((await ask({ limits: { pids: 77 } })).isAhead, false, 'other limits');
  });

test('a session keeps its files, and its interpreter while it is awake', T, async (t) => {
  const server = await setup(t, 'python3');
  if (!server) return;
  const made = await server.post('/v1/sessions', { sandbox: { tier: 'jail', runtime: 'python3' } });
  assert.equal(made.http, 201, made.raw);
  const run = (code) => server.post(`/v1/sessions/${made.id}/run_code`, { code });
  const first = await run('x = 7\nopen("kept", "w").write("f")\nx');
  if (first.http === 501 || /quota|volume/.test(first.raw)) return t.skip(`no volumes here: ${first.raw}`);
  assert.equal(first.result, 7, first.raw);
  assert.equal((await run('x')).result, 7);
  assert.equal((await server.post(`/v1/sessions/${made.id}/rest`)).http, 200);
  const later = await run('open("kept").read()');
  assert.equal(later.result, 'f', later.raw);
  assert.equal((await run('x')).error.name, 'NameError');
});

test('the command line runs in a sandbox of the server', T, async (t) => {
  const server = await setup(t, 'python3');
  if (!server) return;
  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const id = server.box.split('/').at(-1);
  const cli = (...args) => run(['run', '--sandbox', id, ...args], { env });
  assert.deepEqual(await cli('-e', 'x = 5\nprint("said")\nx'), { code: 0, signal: null, stdout: 'said\n5\n', stderr: '' });
  assert.equal(JSON.parse((await cli('--json', '-e', 'x + 1')).stdout).result, 6);
  const failed = await cli('-e', '1 / 0');
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /^Traceback[^]*ZeroDivisionError: division by zero\n$/);
  assert.equal((await cli('--timeout', '300', '-e', 'while True: pass')).code, 124);
  assert.equal((await cli('--runtime', 'bash', '-e', 'echo $((1 + 1))')).stdout, '2\n');
  assert.equal((await cli('--env', 'GIVEN=here', '-e', 'import os; os.environ["GIVEN"]')).stdout, "'here'\n");
  const late = await server.run('while True: pass', { timeoutMs: 300, short: true });
  assert.match(late.content, /Timeout: the code was interrupted; its variables are kept. It was ended after 300 ms, the limit of the call/, late.raw);
  const made = await server.post(`${server.box}/contexts`, { cwd: '/tmp' });
  assert.equal((await cli('--context', made.id, '-e', 'import os; os.getcwd()')).stdout, "'/tmp'\n");
  assert.match((await cli('--context', 'nosuchcontext', '-e', '1')).stderr, /no context 'nosuchcontext'/);
  assert.match((await cli('--memory', '64', '-e', '1')).stderr, /--memory cannot be combined with --sandbox/);
  const lost = await run(['run', '--context', 'x', '-e', '1'], { env });
  assert.match(lost.stderr, /--context needs --sandbox or --session/);
});

test('a run in a sandbox that is paused is answered at once, and goes on with its variables', T, async (t) => {
  const server = await setup(t, 'python3', { idleMs: 0 });
  if (!server) return;
  assert.equal((await server.run('x = 5')).success, true);
  const waiting = server.run('import time\nx += 1\nopen("/workspace/on", "w").close()\ntime.sleep(600)\nx = 0', { timeoutMs: 10000 });
  await until(async () => (await server.get(`${server.box}/files?path=/workspace/on`)).status === 200);
  const paused = await server.post(`${server.box}/pause`);
  if (paused.http === 501) return t.skip(`nothing is paused here: ${paused.raw}`);
  assert.equal(paused.http, 200, paused.raw);
  const late = await waiting;
  assert.equal(late.http, 409, late.raw);
  assert.match(late.error.message, /was paused; its processes continue when it is resumed/);
  const after = await server.run('x'); // which resumes it; the code before has its own limit
  assert.equal(after.result, 6, after.raw);
});

test('python is a name of python3', T, async (t) => {
  const server = await setup(t, 'python3');
  if (!server) return;
  const cell = await server.run('import subprocess\nsubprocess.run(["python", "-c", "print(6 * 7)"])');
  assert.equal(cell.stdout, '42\n', cell.raw);
  const command = await server.post(`${server.box}/commands`, { argv: ['python', '-c', 'print(6 * 7)'] });
  assert.ok(command.http < 300 && /42/.test(command.raw), command.raw);
});

test('bash: a cell finds the status of the one before, and no syntax costs the shell', T, async (t) => {
  const server = await setup(t, 'bash');
  if (!server) return;
  const { run } = server;
  await run('arr=(a "b c" d); f() { return 4; }');
  assert.equal((await run('trap "echo trapped" ERR; f')).stdout, 'trapped\n');
  assert.equal((await run('echo $?; trap - ERR')).stdout, '4\n');
  assert.equal((await run('echo $?')).stdout, '0\n');
  for (const open of ['echo $(', 'if true; then', 'echo "x', "echo 'x", 'f() {', 'echo $(cat <<EOF', 'echo hi\nfor']) {
    const broken = await run(open);
    assert.deepEqual([broken.error?.name, broken.stateLost], ['ExitStatus', false], open + broken.raw);
    assert.match(broken.stderr, /^bash: eval: line \d: /m, open);
  }
  assert.equal((await run("echo \"${arr[1]}\" 'it'\\''s'")).stdout, "b c it's\n");
  const left = await run('exit 3');
  assert.deepEqual([left.error.message, left.stateLost], ['3', true]);
  assert.match(left.stderr, /the shell ended; its variables are gone/);
});

test('what cannot be run is refused by name', T, async (t) => {
  const server = await setup(t, 'python3');
  if (!server) return;
  const isolate = await server.post('/v1/sandboxes', { tier: 'isolate' });
  const mixed = await server.post(`/v1/sandboxes/${isolate.id}/run_code`, { code: '1', language: 'python' });
  assert.match(mixed.raw, /use a sandbox of the tier 'jail'/);
  const contexts = await server.get(`/v1/sandboxes/${isolate.id}/contexts`);
  assert.deepEqual((await contexts.json()).contexts.map(({ id, state }) => [id, state]), [['js', 'idle']]);
  assert.match((await server.post(`/v1/sandboxes/${isolate.id}/contexts`, {})).raw, /an isolate has one context, 'js'/);
  await server.get(`/v1/sandboxes/${isolate.id}`, { method: 'DELETE' });
  const ruby = await server.post('/v1/run_code', { code: '1', runtime: 'ruby' });
  assert.match(ruby.raw, /unknown runtime 'ruby'/);
  assert.match((await server.post('/v1/run_code', { code: '1', language: 'cobol' })).raw, /no runtime runs 'cobol'; the languages are python, /);
  assert.match((await server.post('/v1/run_code', { code: '1', language: 'Python', runtime: 'bash' })).raw, /runtime 'bash' does not run Python/);
  assert.equal((await server.post('/v1/run_code', { code: '1 + 1', language: 'Python' })).result, 2);
  assert.match((await server.post('/v1/run_code', { code: 'true', runtime: 'bash', requirements: ['numpy'] })).raw, /bash has no packages to install/);
  assert.equal((await server.run('1', { context: 'nosuchcontext' })).http, 404);
  assert.equal((await server.run('1', { env: { 'a b': '1' } })).http, 400);
  const box = await server.post('/v1/sandboxes', { tier: 'jail', runtime: 'cobol' });
  assert.match(box.raw, /unknown runtime 'cobol'/);
});
