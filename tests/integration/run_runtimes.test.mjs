// One behaviour suite over every runtime that runs as a kernel, through the real server. A row is a
// behaviour; what a runtime does otherwise stands in its column. docs/RUNTIMES.md names the
// differences.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { setup, T } from './runtimes_lib.mjs';

// Code for each behaviour; null: the language has no such thing.
const CODE = {
  python3: {
    value: ['{"a": [1, None]}', { a: [1, null] }],
    hello: 'print("héllo")',
    error: ['def f():\n    raise KeyError("k")\nf()', 'KeyError', "'k'"],
    both: 'import sys\nprint("one", flush=True)\nprint("two", file=sys.stderr, flush=True)\nprint("three")',
    keep: ['kept = 41', 'kept + 1', 42],
    loop: 'import time\nprint("on", flush=True)\nwhile True: time.sleep(0.01)',
    deaf: 'import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [2])\nprint("on", flush=True)\nwhile True: pass',
    hog: 'x = [bytearray(b"x" * (1 << 20)) for _ in range(4000)]',
    write: ['open("made.txt", "w").write("12345")', 'open("made.txt", "a").write("67")',
      'import os; os.remove("made.txt")'],
    bytes: 'import os\nos.write(1, b"a\\xff\\xfeb")',
    huge: 'import sys\nfor _ in range(3000): sys.stdout.write("x" * 1023 + "\\n")',
    leave: ['exit(3)', 'SystemExit'],
    die: 'import os; os._exit(3)',
    child: 'import subprocess\nsubprocess.run(["sh", "-c", "echo child; echo said >&2"])',
    env: ['import os; os.environ["GIVEN"]', 'given'],
    cwd: ['import os; os.getcwd()', '/tmp'],
    picture: 'import base64\nclass P:\n  def _repr_png_(self): return b"\\x89PNG\\r\\n"\ndisplay(P())',
    threads: 'import threading, time\ndef go():\n  time.sleep(0.05); print("late")\nthreading.Thread(target=go, daemon=True).start()\nprint("now")',
    bomb: 'import os\ntry:\n  while True:\n    if os.fork() == 0: __import__("time").sleep(60)\nexcept OSError as e: print("refused", e.errno)',
    input: ['input()', 'EOFError'],
  },
  node24: {
    value: ['({ a: [1, null] })', { a: [1, null] }],
    hello: 'console.log("héllo")',
    error: ['throw new RangeError("far")', 'RangeError', 'far'],
    both: 'console.log("one"); console.error("two"); console.log("three")',
    keep: ['let kept = 41', 'kept + 1', 42],
    loop: 'console.log("on"); while (true);',
    deaf: 'console.log("on"); require("node:child_process").spawnSync("sh", ["-c", "trap \'\' INT; while true; do sleep 0.1; done"])',
    hog: 'const hog = []; while (true) hog.push(Buffer.alloc(1 << 20, 1))',
    write: ['require("node:fs").writeFileSync("made.txt", "12345")', 'require("node:fs").appendFileSync("made.txt", "67")',
      'require("node:fs").unlinkSync("made.txt")'],
    bytes: 'process.stdout.write(Buffer.from([0x61, 0xff, 0xfe, 0x62])); 0',
    huge: 'for (let i = 0; i < 3000; i++) process.stdout.write("x".repeat(1023) + "\\n"); 0',
    leave: ['process.exit(3)', 'SystemExit'],
    die: 'process.reallyExit(1)',
    child: 'require("node:child_process").execSync("echo child; echo said >&2", { stdio: "inherit" }); 0',
    env: ['process.env.GIVEN', 'given'],
    cwd: ['process.cwd()', '/tmp'],
    picture: 'Buffer.from("89504e470d0a1a0a00", "hex")',
    threads: 'setTimeout(() => console.log("late"), 50); console.log("now")',
    bomb: 'for (let i = 0; i < 200; i++) require("node:child_process").spawn("sleep", ["60"]).on("error", () => {}); 0',
    input: ['prompt("name?")', 'NoInput'],
  },
  deno: {
    value: ['({ a: [1, null] })', { a: [1, null] }],
    hello: 'console.log("héllo")',
    error: ['throw new RangeError("far")', 'RangeError', 'far'],
    both: 'console.log("one"); console.error("two"); console.log("three")',
    keep: ['let kept: number = 41', 'kept + 1', 42],
    loop: 'console.log("on"); while (true);',
    deaf: 'console.log("on"); new Deno.Command("sh", { args: ["-c", "trap \'\' INT; while true; do sleep 0.1; done"] }).outputSync()',
    hog: 'const hog = []; while (true) hog.push(new Uint8Array(1 << 20).fill(1))',
    write: ['Deno.writeTextFileSync("made.txt", "12345")', 'Deno.writeTextFileSync("made.txt", "67", { append: true })',
      'Deno.removeSync("made.txt")'],
    bytes: 'Deno.stdout.writeSync(new Uint8Array([0x61, 0xff, 0xfe, 0x62])); 0',
    huge: 'for (let i = 0; i < 3000; i++) console.log("x".repeat(1023)); 0',
    leave: ['Deno.exit(3)', 'SystemExit'],
    die: 'Deno.kill(Deno.pid, "SIGKILL"); while (true);',
    child: 'new Deno.Command("sh", { args: ["-c", "echo child; echo said >&2"], stdout: "inherit", stderr: "inherit" }).outputSync(); 0',
    env: ['Deno.env.get("GIVEN")', 'given'],
    cwd: ['Deno.cwd()', '/tmp'],
    picture: 'new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0])',
    threads: 'setTimeout(() => console.log("late"), 50); console.log("now")',
    bomb: 'for (let i = 0; i < 200; i++) try { new Deno.Command("sleep", { args: ["60"] }).spawn(); } catch { } 0',
    input: ['prompt("name?")', 'NoInput'],
  },
  bash: {
    value: null,
    hello: 'echo héllo',
    error: ['nosuchcommand', 'ExitStatus', '127'],
    both: 'echo one; sleep 0.05; echo two >&2; sleep 0.05; echo three',
    keep: ['kept=41', '((kept == 41)) && echo 42', null],
    loop: 'echo on; while true; do sleep 0.01; done',
    deaf: "trap '' INT; echo on; while true; do sleep 0.01 & wait; done",
    hog: 'x=$(head -c 3000000000 /dev/zero | tr "\\0" x)',
    write: ['printf 12345 > made.txt', 'printf 67 >> made.txt', 'rm made.txt'],
    bytes: "printf 'a\\377\\376b'",
    huge: "head -c 3072000 /dev/zero | tr '\\0' x",
    leave: ['exit 3', 'ExitStatus'],
    die: 'kill -9 $PPID; sleep 10',
    child: "sh -c 'echo child; echo said >&2'",
    env: ['echo $GIVEN', null],
    cwd: ['pwd', null],
    picture: null,
    threads: '(sleep 0.05; echo late) & echo now',
    bomb: 'for i in $(seq 2000); do sleep 60 & done; echo done',
    input: null,
  },
};

CODE['python3.13'] = CODE.python3;

// Follows a run as it comes; `on` sees each event.
async function follow(server, body, on) {
  const answer = await server.get(`${server.box}/run_code`, { method: 'POST', body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', accept: 'application/x-ndjson' } });
  let text = '';
  const all = [];
  for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
    text += part;
    for (let at; (at = text.indexOf('\n')) >= 0; text = text.slice(at + 1)) {
      const event = JSON.parse(text.slice(0, at));
      all.push(event);
      await on?.(event);
    }
  }
  return all;
}

// A tree that takes minutes to make: `make soak` has it made. Where it is already, a small part runs.
const is313There = existsSync(join(process.env.SG_RUNTIMES ?? '/nowhere', 'runtimes/roots/python3.13'));
const skip313 = process.env.SG_SOAK ? false : is313There ? 'the whole of it in make soak' : 'python3.13 was not added; in make soak';
const SMALL = /^values, output|^the short form/;

for (const [runtime, isForked] of [['python3', false], ['python3', true], ['bash', false], ['node24', false], ['deno', false],
  ['python3.13', false]]) {
  const code = CODE[runtime];
  const it = (name, body, options) => {
    const skip = runtime === 'python3.13' && !(is313There && SMALL.test(name)) && skip313;
    test(`${runtime}${isForked ? ' forked' : ''}: ${name}`, { ...T, skip }, async (t) => {
      const server = await setup(t, runtime, options, isForked);
      if (server) await body(server, t);
    });
  };

  it('values, output, errors, state', async ({ run }) => {
    const hello = await run(code.hello);
    assert.deepEqual([hello.success, hello.status, hello.stdout, hello.executionCount],
      [true, 'ok', 'héllo\n', 1], hello.raw);
    assert.equal(hello.runtime, runtime);
    if (code.value) {
      const value = await run(code.value[0]);
      assert.deepEqual(value.result, code.value[1]);
      assert.ok(value.text.length > 0);
      assert.equal(value.results.find((each) => each.main).data['text/plain'], value.text);
    }
    const failed = await run(code.error[0]);
    assert.deepEqual([failed.success, failed.error.name, failed.error.message],
      [false, code.error[1], code.error[2]]);
    const both = await run(code.both);
    assert.deepEqual([both.stdout, both.stderr], ['one\nthree\n', 'two\n']);
    const child = await run(code.child);
    assert.match(child.stdout, /^child\n/);
    assert.equal(child.stderr, 'said\n');
    await run(code.keep[0]);
    const kept = await run(code.keep[1]);
    assert.equal(kept.result ?? Number(kept.stdout), 42);
    if (code.input) assert.equal((await run(code.input[0])).error.name, code.input[1]);
  });

  it('environment, context, working directory', async (server) => {
    const given = await server.run(code.env[0], { env: { GIVEN: 'given' } });
    assert.equal(given.result ?? given.stdout.trim(), 'given', given.raw);
    const made = await server.post(`${server.box}/contexts`, { cwd: '/tmp', env: { GIVEN: 'of it' } });
    assert.deepEqual([made.http, made.runtime, made.state], [201, runtime, 'cold']);
    const there = await server.run(code.cwd[0], { context: made.id });
    assert.equal(there.result ?? there.stdout.trim(), '/tmp');
    const its = await server.run(code.env[0], { context: made.id });
    assert.equal(its.result ?? its.stdout.trim(), 'of it');
    await server.run(code.keep[0], { context: made.id });
    assert.notEqual((await server.run(code.keep[1])).success, true, 'a variable of another context');
    const list = JSON.parse((await (await server.get(`${server.box}/contexts`)).text()));
    assert.deepEqual(list.contexts.map(({ id, state }) => [id, state]), [[runtime, 'idle'], [made.id, 'idle']]);
    assert.equal((await server.get(`${server.box}/contexts/${made.id}`, { method: 'DELETE' })).status, 204);
    assert.equal((await server.run('1', { context: made.id })).http, 404);
    assert.equal((await server.post(`${server.box}/contexts`, { language: 'cobol' })).http, 404);
    const other = runtime === 'bash' ? 'python3' : 'bash';
    assert.equal((await server.run('1', { context: runtime, language: other })).http, 400);
  });

  it('a stream tells what happens as it happens', async (server) => {
    const all = await follow(server, { code: code.both });
    const said = all.filter(({ event }) => event === 'stdout').map(({ data }) => data.text).join('');
    assert.equal(said, 'one\nthree\n');
    assert.equal(all.at(-1).event, 'end');
    assert.equal(all.at(-1).data.success, true);
    const failed = await follow(server, { code: code.error[0] });
    assert.deepEqual(failed.slice(-2).map(({ event }) => event), ['error', 'end']);
    assert.equal(failed.at(-2).data.name, code.error[1]);
    if (!code.value) return;
    const value = await follow(server, { code: code.value[0] });
    assert.deepEqual(value.map(({ event }) => event), ['result', 'end']);
    assert.equal(value[0].data.main, true);
  });

  it('an interrupt keeps the variables, a restart drops them', async (server) => {
    await server.run(code.keep[0]);
    const ended = (await follow(server, { code: code.loop }, async ({ event, data }) => {
      if (event === 'stdout' && data.text.includes('on'))
        await server.post(`${server.box}/contexts/${runtime}/interrupt`);
    })).at(-1).data;
    assert.deepEqual([ended.success, ended.status, ended.stateLost], [false, 'interrupted', false]);
    const kept = await server.run(code.keep[1]);
    assert.equal(kept.result ?? Number(kept.stdout), 42);
    const dropped = (await follow(server, { code: code.loop }, async ({ event, data }) => {
      if (event === 'stdout' && data.text.includes('on'))
        await server.post(`${server.box}/contexts/${runtime}/restart`);
    })).at(-1).data;
    assert.deepEqual([dropped.error.name, dropped.stateLost], ['Restarted', true]);
    const gone = await server.run(code.keep[1]);
    assert.equal(gone.success, false);
    assert.equal(gone.executionCount, 1);
    const idle = await server.post(`${server.box}/contexts/${runtime}/interrupt`);
    assert.deepEqual([idle.http, idle.state], [200, 'idle']);
  });

  it('out of time: interrupted, or ended when deaf', async (server) => {
    await server.run(code.keep[0]);
    const interrupted = await server.run(code.loop, { timeoutMs: 3000 });
    assert.deepEqual([interrupted.status, interrupted.error.name, interrupted.stateLost, interrupted.stdout],
      ['timeout', 'Timeout', false, 'on\n'], interrupted.raw);
    const kept = await server.run(code.keep[1]);
    assert.equal(kept.result ?? Number(kept.stdout), 42);
    const deaf = await server.run(code.deaf, { timeoutMs: 3000 });
    assert.deepEqual([deaf.status, deaf.stateLost], ['timeout', true], deaf.raw);
    assert.match(deaf.error.message, /variables are gone/);
    assert.equal((await server.run(code.hello)).executionCount, 1);
  });

  it('out of memory is said, and the next run has a new interpreter', async (server) => {
    const hog = await server.run(code.hog, { timeoutMs: 300000 });
    assert.equal(hog.success, false, hog.raw);
    // A shell's child may be chosen instead of the shell.
    if (runtime !== 'bash') assert.deepEqual([hog.status, hog.stateLost], ['out_of_memory', true], hog.raw);
    assert.equal((await server.run(code.hello)).stdout, 'héllo\n');
  }, { limits: { memoryMb: 192 } });

  it('files that a run makes, changes and deletes', async ({ run, box, get }) => {
    const path = '/workspace/made.txt';
    assert.deepEqual((await run(code.write[0])).files, [{ path, change: 'created', size: 5 }]);
    assert.deepEqual((await run(code.hello)).files, []);
    assert.deepEqual((await run(code.write[1])).files, [{ path, change: 'changed', size: 7 }]);
    assert.equal(await (await get(`${box}/files?path=${path}`)).text(), '1234567');
    assert.deepEqual((await run(code.write[2])).files, [{ path, change: 'deleted', size: null }]);
    assert.equal((await run(code.hello, { files: false })).files, null);
    // What another process writes between two runs is not the run's.
    const put = await get(`${box}/files?path=/workspace/in.csv`, { method: 'PUT', body: 'a,b\n1,2\n' });
    assert.ok(put.ok, await put.text());
    assert.deepEqual((await run(code.hello)).files, []);
  });

  it('bytes that are no text, and more of it than an answer holds', async (server) => {
    const bytes = await server.run(code.bytes);
    assert.equal(bytes.stdout, 'a\ufffd\ufffdb');
    const huge = await server.run(code.huge, { timeoutMs: 300000 });
    assert.equal(huge.success, true, huge.raw.slice(0, 300));
    // Both ends, in whole lines where the output has lines, and between them a line about the rest.
    const lines = huge.stdout.split('\n');
    const mark = lines.find((line) => /^\.\.\. [\d,]+ bytes.* omitted from this response \.\.\.$/.test(line));
    assert.ok(mark, huge.stdout.slice((1 << 19) - 100, (1 << 19) + 100));
    // Output of a single line has none of these ends of lines itself.
    const shown = huge.stdout.length - mark.length - (lines.length === 3 ? 2 : 1);
    assert.equal(shown + huge.truncatedStdout, 3072000);
    assert.ok(shown <= 1 << 20 && shown > (1 << 20) - 4096, `${shown} bytes are shown`);
    const all = await follow(server, { code: code.huge, timeoutMs: 300000 });
    const streamed = all.filter(({ event }) => event === 'stdout').reduce((sum, { data }) => sum + data.text.length, 0);
    assert.equal(streamed, 3072000);
  });

  it('code that leaves, and code that takes its interpreter along', async ({ run }) => {
    await run(code.keep[0]);
    const left = await run(code.leave[0]);
    assert.deepEqual([left.success, left.error.name], [false, code.leave[1]]);
    const died = await run(code.die);
    assert.deepEqual([died.status, died.error.name, died.stateLost], ['died', 'KernelDied', true], died.raw);
    const again = await run(code.hello);
    assert.deepEqual([again.stdout, again.executionCount], ['héllo\n', 1]);
  });

  it('threads and children left behind do not hold up the next run', async ({ run }) => {
    assert.match((await run(code.threads)).stdout, /^now\n/);
    assert.match((await run(code.hello)).stdout, /héllo\n/);
  });

  it('a fork bomb ends at the limit, and the server goes on', async (server) => {
    const bomb = await server.run(code.bomb, { timeoutMs: 10000 });
    assert.equal(bomb.http, 200, bomb.raw);
    await server.post(`${server.box}/contexts/${runtime}/restart`);
    const again = await server.post('/v1/run_code', { code: code.hello, runtime });
    assert.equal(again.stdout, 'héllo\n', again.raw);
  }, { limits: { pids: 32 } });

  it('once: in a place that goes with the run', async (server) => {
    const once = await server.post('/v1/run_code', { code: code.hello, runtime });
    assert.deepEqual([once.http, once.stdout, once.sandbox], [200, 'héllo\n', undefined], once.raw);
    const list = await (await server.get('/v1/sandboxes')).json();
    assert.deepEqual(list.sandboxes.map(({ id }) => id), [server.box.split('/').at(-1)]);
  });

  it('the short form: errors, then a picture, then text', async ({ run }) => {
    assert.deepEqual(JSON.parse((await run(code.hello, { short: true })).raw), { type: 'text', content: 'héllo\n' });
    const error = JSON.parse((await run(code.error[0], { short: true })).raw);
    assert.equal(error.type, 'error');
    assert.ok(error.content.includes(code.error[1]));
    if (!code.picture) return;
    const picture = JSON.parse((await run(code.picture, { short: true })).raw);
    assert.deepEqual([picture.type, Buffer.from(picture.content, 'base64').toString('latin1', 1, 4)], ['image/png', 'PNG']);
  });
}

test('a jail that a zygote does not fit has its kernel by its program', T, async (t) => {
  const server = await setup(t, 'python3', {}, true);
  if (!server) return;
  const { stdout: site } = await server.post(`${server.box}/commands`, { command: 'python3 -m site --user-site' });
  const put = await server.get(`${server.box}/files?path=${site.trim()}/json/__init__.py`,
    { method: 'PUT', body: 'own = True\n' });
  assert.ok(put.ok, await put.text());
  const run = await server.run('print("runs")\n6 * 7');
  assert.deepEqual([run.result, run.stdout], [42, 'runs\n'], run.raw);
});

test('a runtime with a root of its own runs in no other sandbox', { ...T, skip: !is313There && skip313 }, async (t) => {
  const server = await setup(t, 'bash');
  if (!server) return;
  const refused = await server.run('1', { runtime: 'python3.13' });
  if (/is not on this machine/.test(refused.raw)) return t.skip('python3.13 was not added');
  assert.match(refused.raw, /python3\.13 has its own root filesystem: create a sandbox with the runtime 'python3\.13'/);
});
