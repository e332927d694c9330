// What a tenant tries from within a kernel: one that was forked for it, one that waited, one that goes on from another.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { box, forked, pooled, post } from './forked_lib.mjs';
import { serve, until } from './lib.mjs';

const T = { timeout: 600000 };
const PROBES = join(process.env.SG_BUILD, 'tests/escape');
const GOLDEN = readFileSync(new URL('../escape/golden/posture-kernel.txt', import.meta.url), 'utf8');

async function kinds(t, server) {
  const one = await forked(t, server, { limits: { pids: 255 } }); // of which none waits
  if (one === null) return null;
  const source = await forked(t, server);
  const { sandboxes: [fork], raw } = await source.fork(1);
  assert.deepEqual(fork.contexts, [{ id: 'python3', live: true, reason: null }], raw);
  return { forked: one, pooled: await pooled(server), live: box(server, fork.id) };
}

// As tests/unit/runtime/test_fork.c asks it; threads and children have nothing else.
const POSTURE = `import os, re, resource, threading, time
def held(path):
    for line in open(path):
        if re.match('Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:|Threads', line): yield line.strip()
for fd in sorted(map(int, os.listdir('/proc/self/fd'))):
    try: print('fd', fd, re.sub(r'\\d+', 'N', os.readlink(f'/proc/self/fd/{fd}')))
    except OSError: pass
own = list(held('/proc/self/status'))
print(*own, sep='\\n')
for name in 'NOFILE CORE MEMLOCK MSGQUEUE SIGPENDING STACK RTPRIO NICE NPROC'.split():
    print('limit', name, *resource.getrlimit(getattr(resource, 'RLIMIT_' + name)))
print('cwd', os.getcwd(), 'ppid', os.getppid(), 'leader', os.getsid(0) == os.getpid())
print('exe', os.readlink('/proc/self/exe'), 'umask', oct(os.umask(0o22)))
children = []
for _ in range(4):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    pid = os.fork()
    if pid == 0: time.sleep(60), os._exit(0)
    children.append(pid)
plain = lambda lines: [line for line in lines if not line.startswith('Threads')]
for path in [f'/proc/self/task/{n}/status' for n in os.listdir('/proc/self/task')] + [f'/proc/{n}/status' for n in children]:
    if plain(held(path)) != plain(own): print('differs', path, *held(path))
for pid in children: os.kill(pid, 9), os.waitpid(pid, 0)
sorted(os.environ)`;

async function posture(all) {
  const golden = GOLDEN.split('\n').filter((line) => !line.startsWith('env ')).join('\n');
  const names = {};
  for (const [kind, one] of Object.entries(all)) {
    const { stdout, result, raw } = await one.run(POSTURE);
    const same = stdout.replace('/memfd:kernel-python ', '/memfd:kernel ').replace('NPROC 257 257', 'NPROC 258 258');
    assert.equal(same, golden, `${kind}: ${raw}`);
    names[kind] = result;
  }
  assert.deepEqual(names.pooled, names.forked);
  assert.deepEqual(names.live, names.forked);
}

// The programs of tests/escape, with the kernel as their parent. "31": killed by SIGSYS, without output.
async function probes(server, all, list) {
  for (const [kind, one] of Object.entries(all))
    for (const [name, ...args] of list.map((line) => line.split(' '))) {
      const put = await server.get(`/v1/sandboxes/${one.id}/files?path=/workspace/${name}`,
        { method: 'PUT', body: readFileSync(join(PROBES, name)) });
      assert.ok(put.ok, await put.text());
      const { stdout, raw } = await one.run(`import os, subprocess\nos.chmod("${name}", 0o755)\n`
        + `done = subprocess.run(${JSON.stringify([`./${name}`, ...args])}, capture_output=True, text=True)\n`
        + 'print(done.returncode, done.stdout, done.stderr)');
      assert.match(stdout ?? '', args.length > 0 ? /^-31 \s*$/ : /^0 held\n/, `${name}, ${kind}: ${raw}`);
    }
}

// Each prints what it got away with.
const ATTEMPTS = {
  'ISO-13: nobody else is signalled': 'import os\nown = set(map(int, os.listdir("/proc/self/task")))\n'
    + 'for pid in set(range(1, 400)) - own:\n    try: os.kill(pid, 19 if pid == 1 else 9); print("signalled", pid)\n    except OSError: pass',
  'ISO-16: init tells nothing': 'import os\nfor name in "environ cmdline maps mem fd root cwd exe".split():\n    path = "/proc/1/" + name\n'
    + '    for look in (os.listdir, os.readlink, lambda p: open(p, "rb").read(1)):\n'
    + '        try: print("saw", name, look(path))\n        except OSError: pass',
  'RES-01: a fork bomb ends at the limit': 'import os, signal\nchildren = []\ntry:\n    while len(children) < 1000:\n        pid = os.fork()\n'
    + '        if pid == 0: signal.pause()\n        children.append(pid)\nexcept BlockingIOError: pass\n'
    + 'for pid in children: os.kill(pid, 9), os.waitpid(pid, 0)\nif not 100 < len(children) <= 256: print(len(children))',
  'RES-11: no other priority': 'import os\nfor attempt in (lambda: os.nice(-20), lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))):\n'
    + '    try: print("got", attempt())\n    except PermissionError: pass',
};

async function attempts(one, code) {
  const { status, stdout, raw } = await one.run(code);
  assert.deepEqual([status, stdout], ['ok', ''], raw);
}

async function exhausts(one) {
  const loud = await one.run('import sys; _ = sys.stdout.write("x" * (64 << 20))');
  // A mark in the middle says what is missing.
  const half = 'x'.repeat(512 << 10);
  assert.ok(loud.stdout.startsWith(half) && loud.stdout.endsWith(half), loud.stdout.slice(512 << 10, (512 << 10) + 200));
  assert.ok(loud.stdout.length < (1 << 20) + 500);
  assert.equal(loud.truncatedStdout, 63 << 20);
  const full = await one.run('x = [bytearray(b"x" * (1 << 20)) for _ in range(1000)]');
  assert.deepEqual([full.status, full.stateLost], ['out_of_memory', true], full.raw);
  const deaf = await one.run('import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n'
    + 'for _ in range(4):\n    if os.fork() == 0:\n        os.setsid()\n        os.fork()\n        break\nwhile True: pass', { timeoutMs: 500 });
  assert.deepEqual([deaf.status, deaf.stateLost], ['timeout', true], deaf.raw);
  const after = await one.run('import os; [n for n in os.listdir("/proc") if n.isdigit() and n != str(os.getpid())]');
  assert.deepEqual(after.result, [], after.raw);
}

test('kernels that are forked on demand, that wait, and that go on from others', T, async (t) => {
  const server = await serve(t);
  const all = await kinds(t, server);
  if (all === null) return;
  await t.test('ISO-01: the posture equals the golden file', () => posture(all));
  const foreign = process.arch === 'x64' ? ['i386', 'i386-mount', 'x32', 'x32-socket'].map((abi) => `iso05_foreign_abi ${abi}`) : [];
  await t.test('ISO-02 to ISO-12, RES-03, RES-09: the probes find their fence', () => probes(server, all, [
    'iso02_setid', 'iso03_namespaces', 'iso04_newer_calls', ...foreign, 'iso06_kernel_doors', 'iso07_sockets', 'iso08_overwrite_exe',
    'iso09_leaked_fds', 'iso10_cgroups', 'iso11_proc', 'iso12_devices', 'res03_memory_places', 'res09_descriptors']));
  for (const [kind, one] of Object.entries(all)) {
    for (const [name, code] of Object.entries(ATTEMPTS)) await t.test(`${name}: ${kind}`, () => attempts(one, code));
    await t.test(`RES-02, RES-06, RES-07: what it uses up is its own: ${kind}`, () => exhausts(one));
  }
});

// The line in the hands of the code. The run that this begins is the kernel's first: its id is 1.
const LINE = `import os, socket, struct, time, sandglass.main as m
line = socket.socket(fileno=os.dup(m.kernel.channel.fd))
text = lambda b: struct.pack('<I', len(b)) + b
def say(type, id, fields, flags=0): line.sendall(struct.pack('<IHHI', len(fields), type, flags, id) + fields)
done = lambda id, ok=1: say(131, id, struct.pack('<II', id, ok))
`;

test('code that speaks the line of its kernel', T, async (t) => {
  const server = await serve(t);
  const one = await forked(t, server);
  if (one === null) return;
  const attack = async (code, more) => {
    assert.equal((await post(server, `/v1/sandboxes/${one.id}/contexts/python3/restart`, {})).http, 200);
    return one.run(LINE + code, more);
  };
  await t.test('answers what it has not read: it ends, not the server', async () => {
    const first = await attack('done(1)\nfor id in range(2, 30):\n    while not os.path.exists(f"/workspace/{id}"): time.sleep(0.01)\n    done(id)');
    assert.equal(first.status, 'ok', first.raw);
    const code = '#'.repeat(4000000);
    let last = { status: 'ok' };
    for (let id = 2; id < 30 && last.status === 'ok'; id++) {
      const running = one.run(code, { files: false, timeoutMs: 60000 });
      await until(async () => (await (await server.get(`/v1/sandboxes/${one.id}/contexts/python3`)).json()).state === 'busy');
      await server.get(`/v1/sandboxes/${one.id}/files?path=/workspace/${id}`, { method: 'PUT', body: '' });
      last = await running;
    }
    assert.equal(last.status, 'died', last.raw);
    assert.equal((await one.run('1 + 1')).result, 2);
  });
  await t.test('answers twice', async () => {
    const twice = await attack('done(1); done(1); time.sleep(60)');
    assert.equal(twice.status, 'ok', twice.raw);
    const next = await one.run('1 + 1');
    assert.ok(next.result === 2 || next.stateLost, next.raw);
    assert.equal((await one.run('2 + 2')).result, 4);
  });
  await t.test('shows a hundred thousand things of types that are none', async () => {
    const shown = await attack('types = [b"text/\\n\\x1b[2J\\x00", b"\\xff\\xfe", b"", b"x" * 4096, b"text/plain"]\n'
      + 'one = struct.pack("<I", 5) + b"".join(text(t) + text(b"\\xff\\x00" * 20) for t in types)\n'
      + 'frame = struct.pack("<IHHI", len(one), 129, 0, 1) + one\n'
      + 'for _ in range(1000): line.sendall(frame * 20)\ndone(1); time.sleep(60)', { timeoutMs: 300000 });
    assert.equal(shown.status, 'ok', shown.raw?.slice(0, 300));
    assert.ok(shown.raw.length < 40 << 20 && shown.truncatedResults > 0);
    for (const { data } of shown.results)
      for (const type of Object.keys(data)) assert.ok(type.length > 0 && type.length <= 128, JSON.stringify(type));
  });
  await t.test('misses modules that are no names', async () => {
    for (const name of ['--index-url=http://127.0.0.1:9/', '-r', '../x', 'a\\nb', 'a b', 'http://127.0.0.1:9/x.whl', 'a\\x00b', '\\xff', '/etc']) {
      const missed = await attack(`say(130, 1, text(b"ModuleNotFoundError") + text(b"m") + text(b"t") + text(b"${name}"))\ndone(1, 0); time.sleep(60)`);
      assert.deepEqual([missed.status, missed.error?.message], ['error', 'm'], `${name}: ${missed.raw}`);
    }
    const real = await attack('say(130, 1, text(b"ModuleNotFoundError") + text(b"m") + text(b"t") + text(b"flask"))\ndone(1, 0); time.sleep(60)');
    assert.match(real.error.message, /^m; package 'flask' could not be installed: /, real.raw);
  });
});
