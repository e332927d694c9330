// `sandglass run --runtime`: cells of Python and bash in a jail, as a person types them.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { run, tempDir } from './lib.mjs';

const home = (t) => ({ env: { ...process.env, SANDGLASS_HOME: join(tempDir(t), 'home') } });

async function cell(t, runtime, code, ...options) {
  const done = await run(['run', '--runtime', runtime, '--json', ...options, '-e', code], home(t));
  if (/cgroup|controller/.test(done.stderr)) t.skip('this host has no memory limit to give');
  return { ...done, json: done.stdout === '' ? null : JSON.parse(done.stdout) };
}

test('output as it comes, then the value', async (t) => {
  const done = await run(['run', '--runtime', 'python3', '-e', 'print("out")\n[1, 2]'], home(t));
  assert.equal(done.stdout, 'out\n[1, 2]\n', done.stderr);
  assert.equal(done.code, 0);
});

test('a value has its text, its JSON and what it offers', async (t) => {
  const { json } = await cell(t, 'python3',
    'class H:\n  def _repr_html_(self): return "<b>h</b>"\ndisplay(H())\n{"a": [1, None]}');
  assert.equal(json.success, true);
  assert.deepEqual(json.result, { a: [1, null] });
  assert.equal(json.text, "{'a': [1, None]}");
  assert.deepEqual(json.results.map(({ main }) => main), [false, true]);
  assert.equal(json.results[0].data['text/html'], '<b>h</b>');
});

test('an error has its name, its message and the lines of the code', async (t) => {
  const { code, json } = await cell(t, 'python3', 'def f():\n    raise KeyError("k")\nf()');
  assert.equal(code, 1);
  assert.deepEqual([json.error.name, json.error.message], ['KeyError', "'k'"]);
  assert.match(json.error.traceback, /File "<cell 1>", line 2, in f/);
  assert.doesNotMatch(json.error.traceback, /sandglass/);
});

test('a timeout is 124, whether the interrupt works or not', async (t) => {
  const interrupted = await cell(t, 'python3', 'print("on")\nwhile True: pass', '--timeout', '5000');
  assert.equal(interrupted.code, 124);
  assert.equal(interrupted.json.error.name, 'Timeout');
  assert.match(interrupted.json.error.traceback, /KeyboardInterrupt/);
  assert.equal(interrupted.json.stdout, 'on\n');
  const deaf = await cell(t, 'python3',
    'import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [2])\nwhile True: pass', '--timeout', '5000');
  assert.equal(deaf.code, 124);
  assert.equal(deaf.json.error.name, 'Timeout');
});

test('code that ends its interpreter, and code without end of memory, say so', async (t) => {
  const left = await cell(t, 'python3', 'import os\nos._exit(0)');
  assert.equal(left.json.error.name, 'KernelDied');
  const hog = await cell(t, 'python3', 'x = [bytearray(1 << 20) for _ in range(400)]', '--memory', '64');
  assert.deepEqual([hog.json.status, hog.json.error.name], ['out_of_memory', 'OutOfMemory']);
});

test('files of the workspace are read and written', async (t) => {
  const dir = tempDir(t);
  writeFileSync(join(dir, 'in.csv'), 'a,b\n1,2\n3,5\n');
  const { json } = await cell(t, 'python3',
    'import csv\nrows = list(csv.DictReader(open("in.csv")))\nopen("out", "w").write("made")\nsum(int(r["b"]) for r in rows)',
    '--workspace', dir);
  assert.equal(json.result, 7, JSON.stringify(json.error));
  assert.equal(readFileSync(join(dir, 'out'), 'utf8'), 'made');
});

test('a figure comes back as a picture with its data', async (t) => {
  if (!existsSync('/usr/lib/python3/dist-packages/matplotlib')) return t.skip('no matplotlib on this machine');
  const { json } = await cell(t, 'python3',
    'import matplotlib.pyplot as plt\nplt.bar(["x", "y"], [3, 4])\nplt.title("t"); plt.show()\nplt.plot([1, 2]);', '--timeout', '60000');
  const [figure, next] = json.results;
  assert.ok('image/png' in next.data, 'what was shown is closed, and the next line draws another');
  assert.equal(Buffer.from(figure.data['image/png'], 'base64').toString('latin1', 1, 4), 'PNG');
  const chart = JSON.parse(figure.data['application/vnd.sandglass.chart+json']);
  assert.deepEqual(chart.elements, [{ label: 'x', value: 3 }, { label: 'y', value: 4 }]);
});

test('bash has the status of its last command', async (t) => {
  const fine = await run(['run', '--runtime', 'bash', '-e', 'cd /tmp; pwd; cat'], home(t));
  assert.deepEqual([fine.code, fine.stdout], [0, '/tmp\n']);
  const failed = await cell(t, 'bash', 'echo said; (exit 7)');
  assert.deepEqual([failed.json.error.name, failed.json.error.message, failed.json.stdout], ['ExitStatus', '7', 'said\n']);
});

test('variables for the code, and word of the time that it had', async (t) => {
  const options = home(t);
  options.env.OWN = 'copied';
  const given = await run(['run', '--runtime', 'bash', '--env', 'OWN', '--env', 'NEW=a=b', '-e', 'echo $OWN $NEW'], options);
  assert.equal(given.stdout, 'copied a=b\n', given.stderr);
  const none = await run(['run', '--runtime', 'bash', '--env', 'NO_SUCH', '-e', '1'], options);
  assert.match(none.stderr, /--env NO_SUCH: this variable is not set in the environment/);
  const late = await run(['run', '--runtime', 'python3', '--timeout', '3000', '-e', 'while True: pass'], options);
  assert.match(late.stderr, /KeyboardInterrupt\nTimeout: the code was interrupted after 3000 ms, the limit of --timeout\n$/);
});

test('what does not go together is refused by name', async (t) => {
  const unknown = await run(['run', '--runtime', 'ruby', '-e', '1'], home(t));
  assert.match(unknown.stderr, /unknown runtime 'ruby'; the runtimes are python3, .* and bash/);
  const mixed = await run(['run', '--runtime', 'python3', '--hint', 'city=x', '-e', '1'], home(t));
  assert.match(mixed.stderr, /--hint cannot be combined with --runtime/);
  const limits = await run(['run', '--sandbox', 'x', '--net-rate', '1m', '-e', '1'], home(t));
  assert.match(limits.stderr, /--net-rate cannot be combined with --sandbox/);
  const files = await run(['run', '--workspace', '.', '-e', '1'], home(t));
  assert.match(files.stderr, /--workspace needs --runtime/);
});
