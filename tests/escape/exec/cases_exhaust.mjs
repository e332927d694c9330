// RES-01..11: exhaustion. Each attack stops by itself a little past the limit it tests, so that a
// jail without that limit fails the test and not the host.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { SOAK, sized } from './jail.mjs';
import { assertControls, assertFindings, assertRan, eventually, outcome, signalNumber } from './check.mjs';
import { processes, withWord, zombies } from './clean.mjs';

const MIB = 1 << 20;
const DEADLINE_SLACK_MS = 150_000; /* far past deadline + grace, on a busy machine too; a hang is longer */
let tokens = 0;
const token = () => `tok${process.pid}x${++tokens}`;

/** Highest value of a measure while something runs. */
async function highest(measure, running) {
  let most = 0;
  let over = false;
  running.finally(() => { over = true; });
  for (; !over; await sleep(10)) most = Math.max(most, measure());
  return most;
}

function residentMib(pid) {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024;
  } catch {
    return 0;
  }
}

/** Resident memory of the caller's side: the program and its children outside any jail. */
function outsideMib(root) {
  const all = [...processes().values()];
  const own = fs.readlinkSync('/proc/self/ns/pid');
  const family = new Set([root]);
  for (let size = 0; size !== family.size;) {
    size = family.size;
    for (const p of all) if (family.has(p.parent)) family.add(p.pid);
  }
  return all.filter((p) => family.has(p.pid) && p.namespace === own)
    .reduce((sum, p) => sum + residentMib(p.pid), 0);
}

function assertOom(result) {
  assert.equal(result.json?.reason, 'oom', JSON.stringify({ ...result.json, stdout: undefined }));
  assert.notEqual(result.status, 0);
  assert.notEqual(result.status, 124);
}

async function assertOverAtDeadline(jail, args, options = {}) {
  const word = token();
  const began = Date.now();
  const result = await jail.probe('survivor', [...args, word],
    { timeout: '3s', json: true, patience: 180_000, ...options });
  assert.equal(result.overdue, false, 'the deadline was not kept');
  assert.ok(Date.now() - began < DEADLINE_SLACK_MS, 'the deadline was not kept');
  assert.equal(result.findings.last.started, args[0], result.stderr);
  assert.equal(result.status, 124);
  assert.equal(result.json.reason, 'timeout');
  await eventually(() => withWord(word).length === 0, 'all processes are gone');
}

const memoryAttack = (way, limit, most, extra = {}) => ({
  id: extra.id ?? 'RES-02', title: `${way} memory ends at the limit`, run: async (jail) => {
    const control = await jail.probe('memory', [way, 1], { memory: '64m' });
    assertRan(control);
    const result = await jail.probe('memory', [way, most], { memory: limit, json: true });
    const { last } = result.findings;
    assert.equal(last.had_all_mib, undefined, `had ${most} MiB with a limit of ${limit}`);
    /* A killed child need not take its parent along; the command then ends as it likes. */
    if (last.refused_at_mib === undefined && last.child !== 'signal 9') assertOom(result);
  } });

const fillAttack = (dir, way, most, limit, extra = {}) => ({
  id: extra.id ?? 'RES-03', title: `${way} in ${dir} end at the limit`, run: async (jail) => {
    const control = assertRan(await jail.probe('fill', [way, dir, 1]));
    assertFindings(control, { filled: '1', stopped_by: 'most' });
    const found = assertRan(await jail.probe('fill', [way, dir, most], { memory: extra.memory ?? '512m' }));
    assertFindings(found, { stopped_by: ['ENOSPC', 'EDQUOT'] });
    assert.ok(Number(found.last.filled) <= limit, `${found.last.filled} of at most ${limit}`);
    assertRan(await jail.probe('fill', [way, dir, 1])); /* the next jail starts empty */
  } });

const holdAttack = (kind, most, limit, reasons = ['EMFILE', 'ENFILE', 'ENOSPC']) => ({
  id: kind === 'ptys' ? 'RES-10' : 'RES-09', title: `${kind} end at the limit`, run: async (jail) => {
    assertFindings(assertRan(await jail.probe('hold_fds', [kind, 4])), { got: '4' });
    const found = assertRan(await jail.probe('hold_fds', [kind, most]));
    assertFindings(found, { stopped_by: reasons });
    assert.ok(Number(found.last.got) <= limit, `${found.last.got} of at most ${limit}`);
  } });

export const cases = [
  ...['fork', 'thread', 'vfork'].map((way) => ({
    id: 'RES-01', title: `a ${way} bomb ends at the limit`, run: async (jail) => {
      const word = token();
      const bomb = jail.probe('fork_bomb', [way, 300, 1, word], { pids: 32 });
      const most = await highest(() => withWord(word).length, bomb);
      const found = assertRan(await bomb);
      assertFindings(found, { stopped_by: 'EAGAIN' });
      const made = Number(found.last.made);
      assert.ok(made >= 8 && made < 32, `made ${made}`);
      assert.ok(most <= 32 + 4, `${most} processes seen from outside`);
      await eventually(() => withWord(word).length === 0, 'all processes are gone');
    } })),
  { id: 'RES-01', title: 'the default limit of processes is 256', run: async (jail) => {
    const found = assertRan(await jail.probe('fork_bomb', ['fork', 400]));
    assertFindings(found, { stopped_by: 'EAGAIN' });
    assert.ok(Number(found.last.made) < 256 && Number(found.last.made) > 200, found.last.made);
  } },
  { id: 'RES-01', title: 'a shell and python bomb are gone at the deadline', run: async (jail) => {
    for (const command of [
      ['bash', '-c', 'for i in $(seq 200); do sleep 60 & done; wait'],
      ['/usr/bin/python3', '-c', 'import os,time\nfor i in range(200):\n try:\n  os.fork()\n except OSError: pass\n' +
        ' if os.getpid()%7==0: time.sleep(0.01)\ntime.sleep(60)'],
    ]) {
      const result = await jail.run(command, { pids: 24, timeout: '2s', patience: 180_000 });
      assert.equal(result.status, 124, `${command[0]}: ${result.stderr.slice(-300)}`);
    }
  } },
  { id: 'RES-01', title: 'a chain of vanishing parents is reaped', run: async (jail) => {
    const result = await jail.probe('fork_bomb', ['chain', sized(2000, 100_000)], { pids: 32 });
    const found = assertRan(result);
    assert.ok(Number(found.last.made) > 1000, `made ${found.last.made}`);
  } },

  memoryAttack('touch', '64m', 192),
  memoryAttack('mmaps', '64m', 192),
  memoryAttack('child', '64m', 192, {}),
  memoryAttack('memfd', '64m', 192, { id: 'RES-03' }),
  memoryAttack('pipes', '16m', 28, { id: 'RES-03' }),
  memoryAttack('sockets', '64m', 1000, { id: 'RES-03' }),
  memoryAttack('shm', '64m', 192, { id: 'RES-03' }),
  memoryAttack('semaphores', '16m', 28, { id: 'RES-03' }),
  memoryAttack('watches', '16m', 28, { id: 'RES-03' }),
  { id: 'RES-02', title: 'an endless stack ends only the command', run: async (jail) => {
    const result = await jail.probe('memory', ['stack', 64], { json: true });
    assert.equal(signalNumber(result.json.signal), 11, JSON.stringify(outcome(result.json)));
    assert.equal(result.status, 139);
  } },
  { id: 'RES-02', title: 'python gets an error or is ended when memory is missing', run: async (jail) => {
    // Which of the two is the host's choice: it may promise more than it has.
    const result = await jail.run(['/usr/bin/python3', '-c',
      'try:\n bytearray(2**45)\nexcept MemoryError:\n print("told")'], { memory: '128m', json: true });
    if (result.json.stdout !== 'told\n') assertOom(result);
  } },
  { id: 'RES-02', title: 'an oom in one jail does not affect the neighbour', run: async (jail) => {
    const neighbour = jail.start(['sh', '-c', 'read line; echo "got $line"'], { keepStdin: true });
    assertOom(await jail.probe('memory', ['touch', 192], { memory: '64m', json: true }));
    neighbour.stdin.end('hello\n');
    assert.equal((await neighbour.done).stdout, 'got hello\n');
  } },
  // With cgroup v1 this has a limit of its own, which is what refuses; with v2 it may end the command.
  { id: 'RES-03', title: 'memory of connections ends at the limit', run: async (jail) => {
    const result = await jail.probe('memory', ['tcp', 100], { memory: '64m', json: true });
    const taken = Number(result.findings.last.tcp_mib);
    assert.ok(taken > 0 && taken <= 80, `${taken} MiB lie in connections`);
  } },
  { id: 'RES-03', title: 'locked memory ends at the limit', run: async (jail) => {
    const found = assertRan(await jail.probe('memory', ['mlock', 8]));
    assert.match(found.last.refused_at_mib ?? 'never', /^0 (ENOMEM|EPERM|EAGAIN)$/);
  } },
  fillAttack('/tmp', 'bytes', 80, 64),
  fillAttack('/tmp', 'files', 17000, 16384),
  fillAttack('/dev/shm', 'bytes', 80, 64),
  fillAttack('/dev/shm', 'files', 17000, 16384),
  { id: 'RES-03', title: 'what fills /tmp is charged to the jail', run: async (jail) => {
    const result = await jail.probe('fill', ['bytes', '/tmp', 60], { memory: '32m', json: true });
    if (result.findings.last.stopped_by === undefined) assertOom(result);
    else assert.equal(result.findings.last.stopped_by, 'ENOSPC');
  } },
  { id: 'RES-04', title: 'a workspace of its own ends at the limit', run: async (jail) => {
    const control = assertRan(await jail.probe('fill', ['bytes', '/workspace', 1]));
    assertFindings(control, { stopped_by: 'most' });
    const ways = SOAK ? [['fallocate', 1200], ['bytes', 1200], ['sparse', 1200], ['files', 300000], ['xattrs', 300000]]
      : [['fallocate', 1200]];
    for (const [way, most] of ways) {
      const result = await jail.probe('fill', [way, '/workspace', most], { json: true, timeout: '120s' });
      const stopped = result.findings.last.stopped_by;
      if (stopped === undefined) assertOom(result);
      else assert.ok(['ENOSPC', 'EDQUOT', 'EFBIG', 'EOPNOTSUPP'].includes(stopped), `${way}: ${stopped}`);
    }
  } },

  { id: 'RES-06', title: 'a flood is cut, counted and marked', run: async (jail) => {
    const kib = sized(8 << 10, 1 << 20);
    for (const way of ['out', 'both', 'line']) {
      const child = jail.start(['/opt/probes/probe_flood', way, String(kib)], { json: true, timeout: '60s' });
      const most = await highest(() => outsideMib(child.pid), child.done);
      const { json, status } = await child.done;
      assert.equal(status, 0, JSON.stringify(outcome(json)));
      assert.ok(Buffer.byteLength(json.stdout) <= MIB + 4096, `kept ${json.stdout.length}`);
      assert.ok(json.stdout.length >= MIB / 2, 'the first half MiB is kept');
      const text = JSON.stringify({ ...json, stdout: undefined, stderr: undefined });
      assert.match(text, /truncated\w*":\s*(true|\{[^}]*true|\[[^\]]*true)/i, `no truncated flag: ${text}`);
      assert.ok(text.includes(String(kib * 1024)), `no true count of ${kib * 1024}: ${text}`);
      assert.ok(most < 64, `${most} MiB resident outside`);
    }
  } },
  { id: 'RES-06', title: 'a flood without end is over at the deadline', run: async (jail) => {
    for (const [way, neverRead] of [['out', false], ['both', true], ['out', true], ['bytes', false]]) {
      const result = await jail.run(['/opt/probes/probe_flood', way, '0'],
        { timeout: '1s', neverRead, patience: 180_000, json: way === 'bytes' });
      assert.equal(result.overdue, false, `${way}: nobody reads, so it never ended`);
      assert.equal(result.status, 124, `${way} ${neverRead}: ${result.stderr.slice(-300)}`);
    }
  } },

  ...['deaf', 'daemons', 'stopped', 'vfork'].map((way) => ({
    id: way === 'stopped' || way === 'vfork' ? 'RES-08' : 'RES-07',
    title: `${way}: all are gone at the deadline`, run: (jail) => assertOverAtDeadline(jail, [way]) })),
  ...['daemon', 'respawn'].map((way) => ({
    id: 'RES-07', title: `${way}: the command ends with its leader, the rest with the jail`, run: async (jail) => {
      const word = token();
      const result = await jail.probe('survivor', [way, word], { json: true, timeout: '120s', patience: 180_000 });
      assertRan(result);
      assert.equal(result.status, 0);
      await eventually(() => withWord(word).length === 0, 'all processes are gone');
    } })),
  { id: 'RES-07', title: 'killing the caller takes the jail along', run: async (jail) => {
    for (const signal of ['SIGKILL', 'SIGTERM', 'SIGHUP']) {
      const word = token();
      const child = jail.start(['/opt/probes/probe_survivor', 'daemons', word], {});
      await eventually(() => withWord(word).filter((p) => p.name.startsWith('probe_')).length >= 5, 'daemons run');
      const caller = withWord(word).find((p) => p.command.includes(' exec ') && p.name === 'sandglass');
      process.kill(caller?.pid ?? child.pid, signal);
      await child.done;
      await eventually(() => withWord(word).length === 0, `all are gone after ${signal}`);
    }
  } },
  { id: 'RES-08', title: 'unreaped children leave no zombie', run: async (jail) => {
    const before = zombies().length;
    const count = sized(150, 10_000);
    const found = assertRan(await jail.probe('survivor', ['zombies', count], { pids: SOAK ? 1024 : 200 }));
    assert.ok(Number(found.last.zombies) >= 100, found.last.zombies);
    await assertOverAtDeadline(jail, ['zombies', 150]);
    await eventually(() => zombies().length <= before, 'no zombie more than before');
  } },

  holdAttack('files', 2000, 1024),
  holdAttack('sockets', 2000, 1024),
  holdAttack('epolls', 2000, 1024, ['EMFILE', 'ENOSPC', 'ENOMEM', 'EINVAL']),
  holdAttack('timers', 2000, 1024),
  holdAttack('eventfds', 2000, 1024),
  holdAttack('instances', 2000, 1024),
  holdAttack('inotify', 17000, 16384),
  holdAttack('posix_timers', 2000, 1024, ['EAGAIN']),
  holdAttack('signals', 2000, 1024, ['EAGAIN']),
  // Counted per user: with privilege a jail that has used up its own leaves those of the next.
  ...['instances', 'posix_timers', 'signals'].map((kind) => ({
    id: 'RES-09', title: `${kind} of one jail are not those of its neighbour`, run: async (jail) => {
      if (jail.account.name !== 'root') return;
      const holder = jail.start(['/opt/probes/probe_hold_fds', kind, '2000', 'hold'], { keepStdin: true });
      await new Promise((resolve, reject) => {
        let text = '';
        holder.stdout.on('data', (data) => { text += data; if (text.includes('done=1')) resolve(); });
        holder.done.then((over) => reject(new Error(`it ended: ${over.stderr}`)));
      });
      assertFindings(assertRan(await jail.probe('hold_fds', [kind, 4])), { got: '4' });
      holder.stdin.end();
      const over = await holder.done;
      assert.match(over.stdout, /stopped_by=(EMFILE|EAGAIN)\n/, over.stdout + over.stderr);
    } })),
  { id: 'RES-09', title: 'descriptors in flight end at the limit', run: async (jail) => {
    const count = () => Number(fs.readFileSync('/proc/sys/fs/file-nr', 'utf8').split('\t')[0]);
    const before = count();
    const found = assertRan(await jail.probe('hold_fds', ['passed', 20000]));
    assert.ok(Number(found.last.got) < 20000, `${found.last.got} in flight`);
    assertFindings(found, { stopped_by: ['ETOOMANYREFS', 'EMFILE', 'ENFILE'] });
    await eventually(() => count() < before + 2048, 'files are given back');
  } },
  holdAttack('ptys', 100, 16, ['ENOSPC']),
  { id: 'RES-10', title: 'a terminal that nobody reads holds back', run: async (jail) => {
    const found = assertRan(await jail.probe('flood', ['pty', sized(65536, 1 << 20)]));
    assertFindings(found, { 'pty.held': 'bounded' });
  } },

  { id: 'RES-11', title: 'no real-time class, no raised priority', run: async (jail) => {
    const found = assertRan(await jail.probe('scheduler', [4]));
    for (const name of ['sched.fifo', 'sched.rr', 'sched.fifo_reset', 'sched.fifo_high', 'sched.attr_fifo', 'sched.attr_deadline'])
      assert.equal(found.last[name], 'EPERM', name);
    assertFindings(found, { 'nice.minus20': ['EACCES', 'EPERM'], 'ioprio.realtime': ['EPERM', 'ENOSYS'] });
    assertControls(found);
  } },
  { id: 'RES-11', title: 'spinning threads get the share that was given', run: async (jail) => {
    // A share so small that a busy machine does not give less to eight threads by itself.
    const found = assertRan(await jail.probe('scheduler', [SOAK ? 64 : 8], { cpus: '0.02' }));
    assert.ok(Number(found.last.threads) >= 8);
    assert.ok(Number(found.last.cpu_percent) <= 6, `${found.last.cpu_percent} % of a core with 0.02`);
    const whole = assertRan(await jail.probe('scheduler', [8], {}));
    assert.ok(Number(whole.last.cpu_percent) <= 130, `${whole.last.cpu_percent} % of a core with the default of 1`);
  } },
  { id: 'RES-11', title: 'many jails one after the other leave nothing', run: async (jail) => {
    const files = () => Number(fs.readFileSync('/proc/sys/fs/file-nr', 'utf8').split('\t')[0]);
    const before = files();
    const most = sized(60, 10_000);
    for (let i = 0; i < most; i++) {
      const result = await jail.run(['true']);
      assert.equal(result.status, 0, `run ${i}: ${result.stderr}`);
    }
    await eventually(() => files() < before + 2048, 'files are given back');
  } },
];
