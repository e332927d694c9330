// Kernels that the server forks from a zygote: the same behaviour, another way to start.
import assert from 'node:assert/strict';
import test from 'node:test';
import { AGE, EXE, forked, pooled, post } from './forked_lib.mjs';
import { serve } from './lib.mjs';

const T = { timeout: 600000 };

test('variables, output, environment, timeouts and restarts are those of any kernel', T, async (t) => {
  const server = await serve(t);
  const box = await forked(t, server);
  if (box === null) return;
  assert.equal((await box.run('kept = 41')).success, true);
  const next = await box.run('import os\nprint(os.getcwd(), os.environ.get("GIVEN"), os.environ["HOME"])\nkept + 1', { env: { GIVEN: 'given' } });
  assert.deepEqual([next.result, next.stdout], [42, '/workspace given /home/sandbox\n'], next.raw);
  const late = await box.run('while True: pass', { timeoutMs: 500 });
  assert.deepEqual([late.status, late.stateLost], ['timeout', false], late.raw);
  assert.equal((await box.run('kept')).result, 41);
  const died = await box.run('import os; os._exit(3)');
  assert.equal(died.success, false);
  const again = await box.run(EXE);
  assert.match(String(again.result), /^.memfd:/, again.raw);
});

test('a kernel that waited is given environment, limits and randomness of its own', T, async (t) => {
  const server = await serve(t);
  if (await forked(t, server) === null) return;
  const one = await pooled(server, { env: { MINE: 'one' }, limits: { memoryMb: 96 } });
  const two = await pooled(server, { env: { MINE: 'two' } });
  const LOOK = 'import os, random\nprint(os.environ.get("MINE"), os.environ["HOME"], os.getcwd(), '
    + '[n for n in os.environ if "SANDGLASS" in n], sorted(n for n in globals() if n[0] != "_"))\nrandom.random()';
  const [first, second] = [await one.run(LOOK), await two.run(LOOK)];
  const names = "['os', 'random', 's', 'time']";
  const child = await one.run('import subprocess as _s; _s.run(["true"]).returncode');
  assert.equal(child.result, 0, child.raw);
  assert.equal(first.stdout, `one /home/sandbox /workspace [] ${names}\n`, first.raw);
  assert.equal(second.stdout, `two /home/sandbox /workspace [] ${names}\n`, second.raw);
  assert.notEqual(first.result, second.result);
  const full = await one.run('x = bytearray(200 << 20)');
  assert.ok(['out_of_memory', 'died'].includes(full.status), full.raw);
  assert.equal((await two.run('x = bytearray(200 << 20); len(x) >> 20')).result, 200);
  // pyplot was imported by the zygote, which has drawn nothing.
  const drawn = await two.run('import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\nplt.scatter([1], [2]);');
  if (drawn.error?.name !== 'ModuleNotFoundError')
    assert.deepEqual(drawn.results?.map(({ data }) => 'image/png' in data), [true, true], drawn.raw);
  // Who wants what cannot be given to a finished jail has one made.
  for (const spec of [{ limits: { pids: 77 } }, { env: { PYTHONPATH: '/workspace/lib' } }]) {
    const askedMs = Date.now();
    const box = await post(server, '/v1/sandboxes', { tier: 'jail', runtime: 'python3', ...spec });
    const { result, raw } = await post(server, `/v1/sandboxes/${box.id}/run_code`, { code: AGE });
    assert.ok(result < (Date.now() - askedMs) / 1000 + 1, raw); // started for this sandbox
    const { stdout } = await post(server, `/v1/sandboxes/${box.id}/run_code`,
      { code: 'import os, resource\nprint(os.environ.get("PYTHONPATH"), resource.getrlimit(resource.RLIMIT_NPROC)[0])' });
    assert.match(stdout, spec.limits === undefined ? /^\/workspace\/lib / : / 79\n/); // the two threads of init are not counted
  }
});

// Both are in one memory group of the sandbox; the context that the kernel ends is the one that asked for too much.
test('an interpreter that runs out of memory does not end the other contexts of its sandbox', T, async (t) => {
  const server = await serve(t);
  const box = await forked(t, server, { limits: { memoryMb: 256 } });
  if (box === null) return;
  const at = `/v1/sandboxes/${box.id}/contexts`;
  const [full, other] = [await post(server, at, { runtime: 'python3' }), await post(server, at, { runtime: 'python3' })];
  const ask = (context, code) => box.run(code, { context: context.id });
  assert.equal((await ask(other, `kept = bytearray(b'k' * (20 << 20))\n${EXE}`)).result?.slice(0, 7), '/memfd:');
  assert.equal((await ask(full, `${EXE}`)).result?.slice(0, 7), '/memfd:');
  for (let round = 0; round < 2; round++) {
    const ended = await ask(full, 'x = []\nwhile True: x.append(bytearray(b"x" * (8 << 20)))');
    assert.ok(['out_of_memory', 'error'].includes(ended.status), ended.raw);
    const still = await ask(other, 'kept.count(b"k") >> 20');
    assert.deepEqual([still.result, still.stateLost], [20, false], still.raw);
  }
});
