// Checkpoints of sandboxes with an idle Python interpreter: nothing is copied, and the interpreter notices nothing.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { EXE, box, forked, post } from './forked_lib.mjs';
import { serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };
const names = (server, dir) => readdirSync(join(server.dir, dir)).filter((name) => !name.startsWith('.'));
const layers = (server) => names(server, 'layers').length;
// Without what Python writes or not.
const LIST = 'ls | grep -v pycache | tr "\\n" " "';

function grown(server, one) {
  const at = `/v1/sandboxes/${one.id}`;
  one.checkpoint = async (name) => {
    const made = await post(server, `${at}/checkpoints`, { name });
    assert.equal(made.http, 201, made.raw);
  };
  one.rollback = async (checkpoint) => {
    const done = await post(server, `${at}/rollback`, { checkpoint });
    assert.equal(done.http, 200, done.raw);
  };
  one.sh = async (command) => (await post(server, `${at}/commands`, { command })).stdout;
  one.says = async (code, expected) => {
    const done = await one.run(code);
    assert.equal(done.stdout, expected, done.raw);
    assert.equal(done.stateLost, false, done.raw);
  };
  one.remove = async () => assert.equal((await server.get(at, { method: 'DELETE' })).status, 204);
  return one;
}

// null, with the test skipped, where files are not on a disk.
async function onDisk(t, server, one) {
  if (one === null) return null;
  const info = await (await server.get(`/v1/sandboxes/${one.id}`)).json();
  if (info.storage === 'disk') return grown(server, one);
  t.skip('no disks here');
  return null;
}

async function make(t, server) {
  const made = await post(server, '/v1/sandboxes', { tier: 'jail', runtime: 'python3' });
  if (made.http !== 201) {
    t.skip(`no sandbox with python3 here: ${made.raw}`);
    return null;
  }
  return onDisk(t, server, box(server, made.id));
}

test('an interpreter from its executable, and a fork of the template', T, async (t) => {
  const server = await serve(t);
  const first = await make(t, server);
  if (first === null) return;
  const { result } = await first.run(EXE);
  t.diagnostic(`the first is ${result}`);
  for (const one of [first, grown(server, await forked(t, server))]) {
    await one.says('import os, sys\nx = [1]\nos.makedirs("sub/deep"); open("f", "w").write("one\\n")\n'
      + 'open("old_module.py", "w").write("v = 1"); open("/tmp/t", "w").write("in tmp")\nheld = open("/tmp/t", "a")\n'
      + 'try:\n  import numpy, pandas; a = numpy.ones((200, 200)); a = a @ a\nexcept ImportError: a = None\n'
      + 'os.chdir("sub/deep"); open("rel", "w").write("r")\nprint(os.getcwd())', '/workspace/sub/deep\n');
    await one.checkpoint('first');
    assert.equal(layers(server), 0, 'nothing was copied');
    await one.says('print(os.getcwd(), open("rel").read(), x, open("../../f").read(), end="")\n'
      + 'open("rel", "a").write("s"); held.write(" still"); held.flush()', '/workspace/sub/deep r [1] one\n');
    assert.equal(await one.sh('cat sub/deep/rel /tmp/t'), 'rsin tmp still');
    await one.says('os.chdir("/workspace")\nimport old_module\nopen("new_module.py", "w").write("v = 2")\nimport new_module\n'
      + 'open("f", "a").write("two\\n"); x.append(2)\nprint(old_module.v, new_module.v)', '1 2\n');
    await one.checkpoint('second');
    await one.checkpoint('third');
    await one.says('os.remove("f"); x.append(3)\nopen("later.py", "w").write("v = 3")\nimport later\n'
      + 'print(later.v, os.getcwd(), os.path.exists("f"))', '3 /workspace False\n');
    const forks = await one.fork(2);
    assert.equal(forks.http, 201, forks.raw);
    assert.equal(layers(server), 0, 'nothing was copied');
    for (const each of forks.sandboxes) {
      const fork = grown(server, box(server, each.id));
      assert.equal(await fork.sh(`cat sub/deep/rel later.py; echo mine >mine; ${LIST}`),
        'rsv = 3later.py mine new_module.py old_module.py sub ');
      if (each.contexts[0].live) await fork.says('print(x, os.getcwd())', '[1, 2, 3] /workspace\n');
      await fork.remove();
    }
    await one.rollback('second');
    assert.equal(await one.sh(`cat f; ${LIST}`), 'one\ntwo\nf new_module.py old_module.py sub ');
    await one.rollback('first');
    assert.equal(await one.sh(`cat f sub/deep/rel; ${LIST}`), 'one\nrf old_module.py sub ');
    await one.remove();
  }
  await until(() => layers(server) === 0);
});

// What would be tied to the old root is copied as before, and nothing of it is lost.
const TIED = [
  ['an open file', 'f = open("log", "w"); f.write("before "); f.flush()', 'f.write("after"); f.close()', 'before after'],
  ['a file open for reading', 'open("log", "w").write("x"); f = open("log")', 'print(f.read(), end="")', 'x'],
  ['a thread', 'import threading, time, os\ngo = True\ndef tell():\n  n = 0\n  while go:\n    open("log", "w").write("told"); n += 1; time.sleep(0.002)\n'
    + 'th = threading.Thread(target=tell); th.start()', 'go = False; th.join(); print(os.listdir("/").count("log"))', 'told'],
  ['a child', 'import subprocess\np = subprocess.Popen("while ! test -e go; do sleep 0.01; done; echo child >log", shell=True)',
    'open("go", "w").close(); p.wait()', 'child\n'],
  ['a lie', 'import sandglass.main as m\nm.kernel.quiesce = lambda: True', 'open("log", "w").write("lied")', 'lied'],
  ['a lie with a file', 'import sandglass.main as m, os\nm.kernel.quiesce = lambda: os.chdir("/") or True\nf = open("log", "w")',
    'f.write("held"); f.close()\nos.chdir("/workspace")', 'held'],
  ['a late answer', 'import sandglass.main as m, time\nm.kernel.quiesce = lambda: time.sleep(1.5) or False', 'open("log", "w").write("late")', 'late'],
  ['an exit', 'import sandglass.main as m, os\nm.kernel.quiesce = lambda: os._exit(1)', 'open("log", "w").write("new")', 'new'],
  ['a directory that is gone', 'import os\nos.makedirs("d"); os.chdir("d"); os.rmdir("../d")', 'os.chdir("/workspace"); open("log", "w").write("up")', 'up'],
];

test('what is tied to the root is copied and stays right', T, async (t) => {
  const server = await serve(t);
  for (const [what, before, after, log] of TIED) {
    const one = await make(t, server);
    if (one === null) return;
    await one.says('open("f", "w").write("1")', '');
    const begun = await one.run(before);
    assert.equal(begun.success, true, begun.raw);
    const had = names(server, 'layers');
    await one.checkpoint('first');
    assert.equal(names(server, 'layers').filter((name) => !had.includes(name)).length, 1, `${what}: copied`);
    const done = await one.run(after);
    assert.equal(done.success, true, `${what}: ${done.raw}`);
    assert.equal(await one.sh('cat log'), log, what);
    await one.rollback('first');
    assert.equal(await one.sh('cat f'), '1', what);
    await one.remove();
  }
  await until(() => layers(server) === 0);
});

// A zombie has neither files nor a directory.
test('a child that has ended holds up nothing', T, async (t) => {
  const server = await serve(t);
  const one = await make(t, server);
  if (one === null) return;
  await one.says('import subprocess, time\np = subprocess.Popen(["true"])\n'
    + 'while open(f"/proc/{p.pid}/stat").read().split()[2] != "Z": time.sleep(0.01)', '');
  await one.checkpoint('first');
  assert.equal(layers(server), 0);
  await one.says('print(p.wait())', '0\n');
});

test('cells that come meanwhile, and kill -9', T, async (t) => {
  const dir = tempDir(t);
  const first = await serve(t, { dir });
  const one = await make(t, first);
  if (one === null) return;
  await one.says('import os\nn = 0\nos.mkdir("w"); os.chdir("w")', '');
  for (let i = 0; i < 20; i++) {
    const cells = [1, 2, 3].map(() => one.run('n += 1; open("n", "w").write(str(n)); print(os.getcwd())'));
    await one.checkpoint(`c${i}`);
    for (const done of await Promise.all(cells)) assert.equal(done.stdout, '/workspace/w\n', done.raw);
  }
  await one.says('print(n, open("n").read())', '60 60\n');
  await one.checkpoint('end');
  await one.says('open("n", "w").write("more")', '');
  first.child.kill('SIGKILL');
  await first.exit;
  const second = await serve(t, { dir });
  const again = grown(second, box(second, one.id));
  assert.equal(await again.sh('cat w/n'), 'more');
  await again.rollback('end');
  assert.equal(await again.sh('cat w/n'), '60');
  await again.remove();
  await until(() => layers(second) === 0);
});
