// What a sandbox is held to, seen from inside and outside: its processes, memory and cpu.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { run, serve, until } from './lib.mjs';

const T = { timeout: 600000 };

async function setup(t, options) {
  const server = await serve(t, options);
  server.call = async (method, path, body) => {
    const answer = await server.get(path, { method, headers: { 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    return { status: answer.status, text, json: text.startsWith('{') ? JSON.parse(text) : null };
  };
  server.make = async (spec = {}) => {
    const made = await server.call('POST', '/v1/sandboxes', { tier: 'jail', ...spec });
    assert.equal(made.status, 201, made.text);
    return made.json.id;
  };
  server.exec = async (id, script, spec = {}) => {
    const ran = await server.call('POST', `/v1/sandboxes/${id}/commands`, { argv: ['bash', '-c', script], ...spec });
    assert.ok(ran.status < 300, ran.text);
    return ran.json;
  };
  return server;
}

// --- Ends ---

// Processes of the host whose command line has the word.
function count(word) {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(word);
    } catch {
      return false; // it ended meanwhile
    }
  }).length;
}

for (const without of ['', 'kill', 'unified'])
  test(`a storm of forks ends with its sandbox${without && ` without ${without}`}`, T, async (t) => {
    const server = await setup(t, { env: { ...process.env, SG_TEST_WITHOUT: without } });
    for (const paused of [false, true]) {
      const id = await server.make({ limits: { cpus: 0.1 } }), word = `storm-${id}`;
      await server.exec(id, `exec perl -e 'for(1..64){if(!fork){while(1){exit if fork}}} sleep 600 #${word}'`, { detached: true });
      await until(() => count(word) > 16);
      if (paused) assert.equal((await server.call('POST', `/v1/sandboxes/${id}/pause`)).json.state, 'paused');
      const since = Date.now();
      const gone = await server.call('DELETE', `/v1/sandboxes/${id}`);
      t.diagnostic(`${paused ? 'paused' : 'running'}: ${Date.now() - since} ms`);
      assert.ok(gone.status < 300, gone.text);
      assert.equal(count(word), 0);
    }
  });

// --- Changes ---

const sized = (mb) => `perl -e '$x = "x" x (${mb} << 20); print length($x) >> 20'`;

test('PATCH changes the memory and cpu limits of a running sandbox', T, async (t) => {
  const server = await setup(t);
  const id = await server.make({ limits: { memoryMb: 128, netConnections: 7 } }), box = `/v1/sandboxes/${id}`;
  assert.notEqual((await server.exec(id, sized(150))).stdout, '150');
  const raised = await server.call('PATCH', box, { limits: { memoryMb: 768, cpus: 0.5 } });
  assert.equal(raised.status, 200, raised.text);
  assert.equal(raised.json.limits.memoryMb, 768);
  assert.equal(raised.json.limits.cpus, 0.5);
  assert.equal(raised.json.limits.netConnections, 7, 'limits of the network stay');
  assert.equal((await server.exec(id, sized(150))).stdout, '150');

  // A limit below what is in use is refused, with the number; then it can be lowered.
  const holder = await server.exec(id, `exec perl -e '$|=1; $x = "x" x (200 << 20); print "up"; sleep 600'`, { detached: true });
  await until(async () => (await server.call('GET', `/v1/commands/${holder.id}`)).json.logEnd > 0);
  const refused = await server.call('PATCH', box, { limits: { memoryMb: 64 } });
  assert.equal(refused.status, 409, refused.text);
  assert.match(refused.json.error.message, /[234]\d\d MiB of memory are in use.*64 MiB/);
  assert.equal((await server.call('GET', box)).json.limits.memoryMb, 768);
  await server.call('POST', `/v1/commands/${holder.id}/kill`, {});
  await until(async () => (await server.call('PATCH', box, { limits: { memoryMb: 96 } })).status === 200);
  assert.notEqual((await server.exec(id, sized(150))).exitCode, 0);

  // By the command line; it holds over a pause.
  const updated = await run(['sandbox', 'update', id, '--memory', '512m'],
    { env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token } });
  assert.equal(updated.code, 0, updated.stderr);
  await server.call('POST', `${box}/pause`);
  assert.equal((await server.call('GET', box)).json.limits.memoryMb, 512);
  assert.equal((await server.exec(id, sized(150))).stdout, '150');

  const isolate = await server.make({ tier: 'isolate' });
  const fixed = await server.call('PATCH', `/v1/sandboxes/${isolate}`, { limits: { memoryMb: 64 } });
  assert.equal(fixed.json.error.code, 'unsupported', fixed.text);
});

test('changed limits hold after a restart, and count for the quota', T, async (t) => {
  const first = await setup(t);
  const made = await first.call('POST', '/v1/tokens', { name: 'small', scopes: ['run', 'read'], quota: { memoryMb: 512 } });
  assert.equal(made.status, 201, made.text);
  const as = async (server, method, path, body) => {
    const answer = await fetch(server.url + path, { method, body: JSON.stringify(body),
      headers: { authorization: `Bearer ${made.json.token}`, 'content-type': 'application/json' } });
    return { status: answer.status, json: await answer.json() };
  };
  const boxes = [];
  for (let n = 0; n < 2; n++)
    boxes.push((await as(first, 'POST', '/v1/sandboxes', { tier: 'jail', limits: { memoryMb: 128 } })).json.id);
  // Each of both fits, and not both.
  const answers = await Promise.all(boxes.map((id) =>
    as(first, 'PATCH', `/v1/sandboxes/${id}`, { limits: { memoryMb: 300 } })));
  assert.deepEqual(answers.map((each) => each.status).sort(), [200, 429], JSON.stringify(answers));
  const raised = boxes[answers[0].status === 200 ? 0 : 1];
  await first.call('POST', `/v1/sandboxes/${raised}/pause`);
  first.child.kill('SIGTERM');
  await first.exit;
  const second = await setup(t, { dir: first.dir });
  assert.equal((await second.call('GET', `/v1/sandboxes/${raised}`)).json.limits.memoryMb, 300);
  assert.equal((await second.exec(raised, sized(100))).stdout, '100');
});

const hasResource = () => (BigInt(`0x${/^CapEff:\s*(\w+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]}`) >> 24n & 1n) === 1n;

test('PATCH changes the size of the disk, or refuses the whole request and says why', T, async (t) => {
  const first = await setup(t);
  const id = await first.make({ limits: { memoryMb: 256, diskMb: 256 } }), box = `/v1/sandboxes/${id}`;
  if ((await first.call('GET', box)).json.storage !== 'disk') return t.skip('files are in memory here');
  const df = async (server) => Number((await server.exec(id, `df -P --block-size=1M /workspace | awk 'NR == 2 {print $2}'`)).stdout);
  const limits = async (server) => {
    const { memoryMb, diskMb, cpus } = (await server.call('GET', box)).json.limits;
    return { memoryMb, diskMb, cpus };
  };
  await first.exec(id, 'echo kept > /workspace/kept; sync');
  const before = await limits(first), size = await df(first), memory = async () => (await first.call('GET', `${box}/usage`)).json.memory.limitBytes;
  const had = await memory();

  // Not with what cannot be undone beside it; not past the quota.
  const both = await first.call('PATCH', box, { limits: { diskMb: 512, netConnections: 3 } });
  assert.equal(both.json.error.code, 'invalid', both.text);
  assert.match(both.json.error.message, /limits\.diskMb.*separate request/);
  const token = await first.call('POST', '/v1/tokens', { name: 'small', scopes: ['run', 'read'], quota: { diskMb: 400 } });
  const past = await fetch(first.url + box, { method: 'PATCH', body: JSON.stringify({ limits: { diskMb: 512 } }),
    headers: { authorization: `Bearer ${token.json.token}`, 'content-type': 'application/json' } });
  assert.equal(past.status, 429, await past.text());

  const grown = await first.call('PATCH', box, { limits: { diskMb: 512, memoryMb: 384 } });
  if (grown.status === 200) {
    assert.deepEqual(await limits(first), { ...before, memoryMb: 384, diskMb: 512 });
    assert.ok(await df(first) > size * 1.8, `${await df(first)} MiB`);
  } else {
    assert.equal(grown.json.error.code, 'unsupported', grown.text);
    assert.match(grown.json.error.message, /^the disk cannot be resized: .*growing an image needs CAP_SYS_RESOURCE \(Docker: --cap-add SYS_RESOURCE\); or create a sandbox from a snapshot of this one with another limits\.diskMb$/);
    assert.deepEqual(await limits(first), before);
    assert.equal(await df(first), size);
    assert.equal(await memory(), had);
    assert.notEqual((await first.exec(id, sized(300))).stdout, '300', 'the memory limit is the one before');
    // By the command line, with the same words; the way out works.
    const cli = await run(['sandbox', 'update', id, '--disk', '1g'],
      { env: { ...process.env, SANDGLASS_URL: first.url, SANDGLASS_TOKEN: first.token } });
    assert.notEqual(cli.code, 0);
    assert.match(cli.stderr, /the disk cannot be resized.*CAP_SYS_RESOURCE.*snapshot/);
    // Only this capability decides.
    assert.ok(!hasResource(), 'the server has CAP_SYS_RESOURCE');
    const snapshot = await first.call('POST', '/v1/snapshots', { sandbox: id, slug: 'larger-disk' });
    assert.ok(snapshot.status < 300, snapshot.text);
    const larger = await first.make({ snapshots: ['larger-disk'], limits: { diskMb: 512 } });
    assert.equal((await first.exec(larger, 'cat /workspace/kept')).stdout, 'kept\n');
  }
  assert.equal((await first.exec(id, 'cat /workspace/kept && echo more > /workspace/more')).stdout, 'kept\n');

  // The same after a restart, where the disk is not in use at first.
  const now = await limits(first), shown = await df(first);
  await first.call('POST', `${box}/pause`);
  first.child.kill('SIGTERM');
  await first.exit;
  const second = await setup(t, { dir: first.dir });
  const resting = await second.call('PATCH', box, { limits: { diskMb: 700, memoryMb: 300 } });
  assert.equal(resting.status, 409, resting.text);
  assert.match(resting.json.error.message, /resume/);
  assert.deepEqual(await limits(second), now);
  assert.equal(await df(second), shown);
  assert.equal((await second.exec(id, 'cat /workspace/more')).stdout, 'more\n');
});

// --- Memory ---

const hog = `exec perl -e '@x; push @x, "x" x (8 << 20) while 1'`;

test('out of memory ends the command that asked for it and nothing else', T, async (t) => {
  const server = await setup(t);
  const id = await server.make({ limits: { memoryMb: 192 } }), box = `/v1/sandboxes/${id}`;
  const beside = await server.exec(id, 'exec sleep 600', { detached: true });
  assert.equal((await server.get(`${box}/files?path=/workspace/kept`, { method: 'PUT', body: 'kept' })).status, 201);
  const goesOn = async (what) => {
    assert.equal((await server.call('GET', `/v1/commands/${beside.id}`)).json.state, 'running', what);
    assert.equal(await (await server.get(`${box}/files?path=/workspace/kept`)).text(), 'kept', what);
    assert.equal((await server.exec(id, 'echo fine')).stdout, 'fine\n', what);
    assert.equal((await server.call('GET', box)).json.state, 'running', what);
  };
  for (const [what, script] of Object.entries({
    'one process': hog,
    'a child of a shell': `(${hog}); exit $?`,
    'many processes': `for i in $(seq 24); do (exec perl -e '$x = "x" x (8 << 20); sleep 600') & done; wait -n; kill $(jobs -p); exit 137`,
    'a file in memory': `exec perl -e 'open F, ">", "/dev/shm/full"; $x = "x" x (1 << 20); push @x, $x and print F $x while 1'`,
    'a memory file': `exec /usr/bin/python3 -c 'import os; fd = os.memfd_create("full")\nwhile True: os.write(fd, bytes(1 << 20))'`,
  })) {
    const ran = await server.exec(id, script, { timeoutMs: 300000 });
    await server.exec(id, 'rm -f /dev/shm/full');
    assert.equal(ran.end, 'out_of_memory', `${what}: ${JSON.stringify(ran)}`);
    if (what === 'a child of a shell') assert.equal(ran.exitCode, 137);
    // Where the shell lived on, one of its processes was ended.
    assert.equal(/^out of memory: a process of 'bash' was killed /.test(ran.reason), ran.exitCode !== null, `${what}: ${JSON.stringify(ran)}`);
    assert.match(ran.reason, /^out of memory: (a process of )?'bash' was killed at the sandbox's limit of 192 MiB \(peak 1\d\d MiB\).*sandbox update \S+ --memory 384m/, what);
    await goesOn(what);
  }
  // A command that merely fails beside a hog is not said to have run out of memory.
  // They start apart: those that start at the same moment share a memory group.
  const failing = await server.exec(id, 'grep :memory: /proc/self/cgroup || echo up; until [ -e /tmp/go ]; do sleep 0.1; done; exit 3', { detached: true });
  await until(async () => (await server.call('GET', `/v1/commands/${failing.id}`)).json.logEnd > 0);
  // A command that has run for 20 ms has its group for itself when the next one has started.
  const group = async () => (await server.exec(id, 'grep :memory: /proc/self/cgroup')).stdout;
  const taken = await (await server.get(`/v1/commands/${failing.id}/output?stream=stdout`)).text();
  if (/:memory:\/\d+$/m.test(taken)) await until(async () => (await group()) !== taken);
  const full = await server.exec(id, hog);
  await server.exec(id, 'touch /tmp/go');
  const failed = (await server.call('POST', `/v1/commands/${failing.id}/wait`, {})).json;
  assert.deepEqual([full.end, failed.end, failed.exitCode, failed.reason], ['out_of_memory', 'exited', 3, null]);
  // By the command line.
  const shown = await run(['sandbox', 'exec', id, '--', 'bash', '-c', hog],
    { env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token } });
  assert.equal(shown.code, 137, shown.stderr);
  assert.match(shown.stderr, /out of memory: 'bash' was killed at the sandbox's limit of 192 MiB \(peak 1\d\d MiB\)/);
});

for (const runtime of ['python3', 'node24', 'bash'])
  test(`out of memory ends a cell of ${runtime}, and says so`, T, async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'sandglass-it-')), added = join(process.env.SG_RUNTIMES ?? '/nowhere', 'runtimes');
    if (existsSync(added)) symlinkSync(added, join(dir, 'runtimes')); // what the set-up has added
    const server = await setup(t, { dir });
    const made = await server.call('POST', '/v1/sandboxes', { tier: 'jail', runtime, limits: { memoryMb: 256 } });
    if (made.status !== 201) return t.skip(made.json.error.message);
    const box = `/v1/sandboxes/${made.json.id}`;
    const beside = await server.exec(made.json.id, 'exec sleep 600', { detached: true });
    const code = { python3: 'x = []\nwhile True: x.append(bytearray(8 << 20))',
      node24: 'const x = []; while (true) x.push(Buffer.alloc(8 << 20, 1))', bash: hog.replace('exec ', '') }[runtime];
    for (let n = 0; n < 2; n++) {
      const ran = await server.call('POST', `${box}/run_code`, { code });
      if (ran.status >= 400 && n === 0) return t.skip(ran.text);
      if (runtime !== 'bash') { // there a child is ended, and bash goes on
        assert.equal(ran.json.status, 'out_of_memory', ran.text);
        assert.match(ran.json.error.message, /at the sandbox's limit of 256 MiB.*sandbox update \S+ --memory 512m/);
      }
      assert.equal((await server.call('GET', `/v1/commands/${beside.id}`)).json.state, 'running');
    }
    const next = await server.call('POST', `${box}/run_code`, { code: runtime === 'bash' ? 'echo 2' : '1 + 1' });
    assert.match(next.text, /2/);
  });

// --- Use ---

test('the usage of a sandbox is reported with its limits', T, async (t) => {
  const server = await setup(t);
  const id = await server.make({ limits: { memoryMb: 256, cpus: 1, diskMb: 1024 } }), box = `/v1/sandboxes/${id}`;
  const use = async () => {
    const answer = await server.call('GET', `${box}/usage`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json;
  };
  const before = await use();
  assert.deepEqual([before.memory.limitBytes, before.cpu.limitCpus, before.processes.limit], [256 << 20, 1, 256]);
  assert.ok(before.memory.bytes < 32 << 20, JSON.stringify(before));
  assert.equal(before.processes.count, 0);
  const holder = await server.exec(id, `dd if=/dev/zero of=/workspace/big bs=1M count=20 2>/dev/null; exec perl -e '$|=1; ` +
    `$x = "x" x (64 << 20); print "up"; 1 while 1'`, { detached: true });
  await until(async () => (await server.call('GET', `/v1/commands/${holder.id}`)).json.logEnd > 0);
  await until(async () => (await use()).cpu.cpus > 0.01); // it runs without end
  const now = await use();
  assert.ok(now.memory.bytes > 64 << 20 && now.memory.peakBytes >= now.memory.bytes, JSON.stringify(now));
  assert.ok(now.cpu.usedMs > before.cpu.usedMs);
  assert.equal(now.processes.count, 1);
  if (now.disk.bytes !== null) {
    assert.ok(now.disk.bytes >= 20 << 20 && now.disk.limitBytes === 1 << 30, JSON.stringify(now));
    await until(async () => (await server.figure('sandglass_sandboxes_disk_bytes')) >= 20 << 20);
    await server.exec(id, 'rm /workspace/big; sync');
    await until(async () => (await server.figure('sandglass_sandboxes_disk_bytes')) < 20 << 20);
  }
  assert.equal(await server.figure('sandglass_sandboxes_disk_limit_bytes'), 1 << 30);
  assert.equal(now.network.bytes, 0);
  const top = await run(['top', '--once'], { env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token } });
  assert.match(top.stdout, new RegExp(`${id} +running +\\d\\.\\d\\d +\\d{2,3}/256 `));
  await until(async () => (await server.figure('sandglass_jails_memory_bytes')) > 64 << 20);
  assert.equal(await server.figure('sandglass_sandboxes_memory_limit_bytes'), 256 << 20);
  assert.equal((await server.call('GET', '/v1/sandboxes/nosuch/usage')).status, 404);
  await server.call('POST', `/v1/commands/${holder.id}/kill`, {});

  const isolate = await server.make({ tier: 'isolate' });
  const unknown = (await server.call('GET', `/v1/sandboxes/${isolate}/usage`)).json;
  assert.equal(unknown.memory.bytes, null);
});

// They are kernel memory that no control group counts.
test('a process with too many record locks is killed, and the log says so', T, async (t) => {
  const server = await setup(t);
  const id = await server.make();
  const lock = (files, each) => `import fcntl, time
for f in range(${files}):
    at = open(f'/tmp/locked{f}', 'w'); globals()[f'f{f}'] = at
    for i in range(${each}, 0, -1): fcntl.lockf(at, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * i)
print('locked', flush=True)`;
  const few = await server.exec(id, `/usr/bin/python3 -c "${lock(8, 1000)}"`);
  assert.deepEqual([few.exitCode, few.stdout], [0, 'locked\n'], JSON.stringify(few));
  const many = await server.exec(id, `/usr/bin/python3 -c "${lock(12, 1000)}\ntime.sleep(600)"; echo $?`);
  assert.match(many.stdout, /137\n$/, JSON.stringify(many));
  await until(() => server.stderr.includes(`event=jail.locks sandbox=${id}`));
  assert.equal((await server.exec(id, 'echo alive')).stdout, 'alive\n');
});
