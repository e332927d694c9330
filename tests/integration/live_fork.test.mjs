// Forks of a sandbox whose Python kernel runs: variables, figures and files are in all of them.
import assert from 'node:assert/strict';
import test from 'node:test';
import { box, forked, post } from './forked_lib.mjs';
import { run as cli, serve, until } from './lib.mjs';

const T = { timeout: 600000 };
const SEED = 'hash("of the zygote") % 2**40'; // the same in all forks of one zygote

async function goesItsOwnWay(t, server) {
  const one = await forked(t, server, { env: { MINE: 'yes' } });
  if (one === null) return;
  const set = await one.run('import os, random\nn = [1, 2]\nclass P:\n  def f(self): return len(n)\np = P()\n'
    + 'log = open("log", "w+"); log.write("from before"); log.flush()\ng = iter(range(9)); next(g)\nos.environ["OWN"] = "set"');
  assert.equal(set.success, true, set.raw);
  const forks = await one.fork(5);
  assert.equal(forks.http, 201, forks.raw);
  assert.equal(forks.sandboxes.length, 5);
  for (const each of forks.sandboxes)
    assert.deepEqual(each.contexts, [{ id: 'python3', live: true, reason: null }], forks.raw);
  const seen = new Set();
  for (const [i, each] of forks.sandboxes.entries()) {
    const fork = box(server, each.id);
    const here = await fork.run(`n.append(${i}); log.write(" and ${i}"); log.flush()\n`
      + 'print(n, p.f(), next(g), os.environ["MINE"], os.environ["OWN"], os.getcwd(), open("log").read())\nrandom.random()');
    assert.equal(here.stdout, `[1, 2, ${i}] 3 1 yes set /workspace from before and ${i}\n`, here.raw);
    assert.equal(here.executionCount, 3, here.raw);
    seen.add(here.result);
  }
  assert.equal(seen.size, 5, 'each has randomness of its own');
  const still = await one.run('print(n, next(g), open("log").read())');
  assert.equal(still.stdout, '[1, 2] 1 from before\n', still.raw);
  // A fork of a fork, by the command line.
  const done = await cli(['sandbox', 'fork', forks.sandboxes[3].id, '--json'],
    { env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token } });
  const second = JSON.parse(done.stdout).sandboxes[0];
  assert.equal(second.contexts[0].live, true, done.stdout);
  const plain = await cli(['sandbox', 'fork', forks.sandboxes[3].id],
    { env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token } });
  assert.match(plain.stdout, /^\w{26}\n$/);
  assert.equal(plain.stderr, `${plain.stdout.trim()}: context python3 keeps its variables\n`);
  const again = await box(server, second.id).run('print(n, p.f(), next(g), open("log").read())');
  assert.equal(again.stdout, '[1, 2, 3] 3 2 from before and 3\n', again.raw);
}

async function beginsAnew(t, server) {
  const one = await forked(t, server, { limits: { memoryMb: 256 } });
  if (one === null) return;
  assert.equal((await one.run('x = 1')).success, true);
  const made = await post(server, `/v1/sandboxes/${one.id}/contexts`, { runtime: 'bash' });
  assert.equal(made.http, 201, made.raw);
  const busy = one.run('import os, time\nwhile not os.path.exists("/workspace/go"): time.sleep(0.01)');
  for (let state = ''; state !== 'busy';)
    state = (await (await server.get(`/v1/sandboxes/${one.id}/contexts/python3`)).json()).state;
  const during = await one.fork(1);
  assert.equal(during.http, 201, during.raw);
  const told = Object.fromEntries(during.sandboxes[0].contexts.map((each) => [each.id, each]));
  assert.deepEqual([told.python3.live, told.python3.reason], [false, 'it was running code'], during.raw);
  assert.equal(told[made.id].live, false);
  const fresh = await box(server, during.sandboxes[0].id).run('"x" in globals()');
  assert.equal(fresh.result, false, fresh.raw);
  await server.get(`/v1/sandboxes/${one.id}/files?path=/workspace/go`, { method: 'PUT', body: '' });
  assert.equal((await busy).success, true);
  // More than half of the sandbox's memory: it continues, its fork starts fresh.
  assert.equal((await one.run('big = bytearray(150 << 20); big[::4096] = b"x" * (150 << 8)')).success, true);
  const large = await one.fork(1);
  const [context] = large.sandboxes[0].contexts.filter((each) => each.id === 'python3');
  assert.deepEqual([context.live, /larger than the \d+ MiB that the sandbox's memory limit leaves for a copy/.test(context.reason)], [false, true], large.raw);
  const kept = await one.run('len(big)');
  assert.equal(kept.result, 150 << 20, kept.raw);
}

// As many kernels as one zygote may have: 1000, or 40 for a warden with that setting. The next zygote takes a
// moment to import.
const EACH = process.env.SG_SOAK ? 250 : 10;
async function useUpZygote(server, first) {
  const others = await Promise.all([1, 2, 3, 4].map(() => post(server, '/v1/sandboxes', { tier: 'jail', runtime: 'python3' })));
  await Promise.all(others.map(async ({ id }) => {
    for (let i = 0; i < EACH; i++) {
      const done = await box(server, id).run(`${i}`, { files: false });
      assert.equal(done.result, i, done.raw);
      assert.equal((await post(server, `/v1/sandboxes/${id}/contexts/python3/restart`, {})).http, 200);
    }
  }));
  for (let end = Date.now() + 180000; Date.now() < end;) {
    const made = await post(server, '/v1/sandboxes', { tier: 'jail', runtime: 'python3' });
    const { result, raw } = await box(server, made.id).run(SEED);
    assert.equal(typeof result, 'number', raw);
    await server.get(`/v1/sandboxes/${made.id}`, { method: 'DELETE' });
    if (result !== first) return;
  }
  throw new Error('the zygote was never replaced');
}

async function outlivesItsZygote(t, server) {
  const one = await forked(t, server);
  if (one === null) return;
  const { result } = await one.run(`x = [7]\n${SEED}`);
  const session = '/v1/sessions/sleeps-long', code = { language: 'python' };
  assert.equal((await post(server, '/v1/sessions', { id: 'sleeps-long', sandbox: { tier: 'jail' } })).http, 201);
  assert.equal((await post(server, `${session}/run_code`, { ...code, code: `x = [8]\n${SEED}` })).result, result);
  assert.equal((await post(server, `${session}/rest`, {})).state, 'dormant');
  await useUpZygote(server, result);
  const forks = await one.fork(2);
  for (const each of forks.sandboxes) {
    assert.deepEqual(each.contexts, [{ id: 'python3', live: true, reason: null }], forks.raw);
    assert.deepEqual((await box(server, each.id).run('x')).result, [7]);
  }
  // No jail has kernels of it any more: what is kept of a session that sleeps keeps the zygote.
  const { sandboxes } = await (await server.get('/v1/sandboxes?limit=1000')).json();
  for (const { id } of sandboxes) await server.get(`/v1/sandboxes/${id}`, { method: 'DELETE' });
  const woken = await post(server, `${session}/run_code`, { ...code, code: 'x' });
  assert.deepEqual([woken.result, woken.stateLost], [[8], false], woken.raw);
}

async function hurtsItself(t, server) {
  const one = await forked(t, server);
  if (one === null) return;
  // The frame that asks for it is answered, and the file holds what a tenant likes.
  for (const [bytes, live] of [['b"rubbish" * 9999', false], ['b""', false]]) {
    const set = await one.run('import os, sandglass.main as m, sys, socket, array\n'
      + 'def copy(request):\n'
      + '    s = socket.socket(fileno=os.dup(m.kernel.channel.fd))\n'
      + '    _, fds, _, _ = socket.recv_fds(s, 1, 1)\n'
      + `    os.write(fds[0], ${bytes}); os.close(fds[0])\n    return b"+"\nm.copy = copy`);
    assert.equal(set.success, true, set.raw);
    const forks = await one.fork(2);
    assert.equal(forks.http, 201, forks.raw);
    for (const each of forks.sandboxes) {
      assert.equal(each.contexts[0].live, live, forks.raw);
      assert.match(each.contexts[0].reason, /image/, forks.raw);
      assert.equal((await box(server, each.id).run('1 + 1')).result, 2);
    }
  }
  const held = await one.run('def copy(request):\n    s = socket.socket(fileno=os.dup(m.kernel.channel.fd))\n'
    + '    global fd, mapped\n    import mmap\n    _, fds, _, _ = socket.recv_fds(s, 1, 1)\n    fd = fds[0]\n'
    + '    os.ftruncate(fd, 1 << 16); mapped = mmap.mmap(fd, 1 << 16)\n    return b"+"\nm.copy = copy');
  assert.equal(held.success, true, held.raw);
  const forks = await one.fork(1);
  assert.equal(forks.sandboxes[0].contexts[0].live, false, forks.raw);
  assert.match(forks.sandboxes[0].contexts[0].reason, /changed/, forks.raw);
  assert.equal((await one.run('1 + 1')).result, 2);
}

// The first thing that an attacker tries.
test('the first sandbox of a server has a kernel that can be forked', T, async (t) => {
  const server = await serve(t, { env: { ...process.env, SANDGLASS_ZYGOTE_AT_START: 'true' } });
  await until(() => server.stderr.includes('event=jail.zygote'));
  if (/event=jail.zygote.*error/.test(server.stderr)) return t.skip(server.stderr);
  const made = await post(server, '/v1/sandboxes', { tier: 'jail', runtime: 'python3' });
  const one = box(server, made.id);
  assert.equal((await one.run('x = 41')).success, true);
  const forks = await one.fork(1);
  assert.deepEqual(forks.sandboxes?.[0].contexts, [{ id: 'python3', live: true, reason: null }], forks.raw);
  assert.equal((await box(server, forks.sandboxes[0].id).run('x + 1')).result, 42);
});

test('live forks', T, async (t) => {
  const server = await serve(t);
  await t.test('the variables of a running kernel are in all forks, and each goes its own way', (u) => goesItsOwnWay(u, server));
  await t.test('what cannot continue starts fresh and says why', (u) => beginsAnew(u, server));
  await t.test('an interpreter that damages its own image harms only its fork', (u) => hurtsItself(u, server));
});

test('a kernel goes on in forks after its zygote was replaced', T, async (t) => {
  const server = await serve(t, { env: { ...process.env, SG_TEST_WITHOUT: process.env.SG_SOAK ? '' : 'many_forks' } });
  await outlivesItsZygote(t, server);
});
