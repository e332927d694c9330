// What people and models write into cells of Python, in kernels of both kinds: started by their
// program and forked from a zygote.
import assert from 'node:assert/strict';
import test from 'node:test';
import { box, EXE, forked, post } from './forked_lib.mjs';
import { serve, until } from './lib.mjs';

const T = { timeout: 600000 };
const CHART = 'application/vnd.sandglass.chart+json';
const CHARTS = [
  ['plt.barh(["a", "b"], [5, 6])', { type: 'bar', elements: [{ label: 'a', value: 5 }, { label: 'b', value: 6 }] }],
  ['plt.bar([-.2, .8], [1, 2], .4, label="m"); plt.bar([.2, 1.2], [3, 4], .4, label="w"); plt.xticks([0, 1], ["A", "B"])',
    { type: 'bar', elements: [{ label: 'A', group: 'm', value: 1 }, { label: 'B', group: 'm', value: 2 },
      { label: 'A', group: 'w', value: 3 }, { label: 'B', group: 'w', value: 4 }] }],
  ['plt.bar([10, 20, 40], [1, 2, 3])', { type: 'bar', elements: [10, 20, 40].map((label, i) => ({ label, value: i + 1 })) }],
  ['plt.plot(np.array(["2024-01-01", "2024-01-02"], "datetime64[ns]"), [1, np.nan]); plt.axhline(1)',
    { type: 'line', elements: [{ label: '', points: [['2024-01-01', 1], ['2024-01-02', null]] }] }],
  ['plt.boxplot([[1, 2, 3], [2, 3, 9]])', null],
  ['plt.fill_between([1, 2], [3, 4])', null],
];

// Each: code, and what its answer has.
const CELLS = {
  'a coroutine is waited for where it says so': [['async def f(): return 7\nf()', { result: null }], ['await f()', { result: 7 }],
    ['import asyncio\nasyncio.run(f())', { result: 7 }]],
  'a line of a string that looks like a magic stays one': [['s = """\n%cd /nowhere\n!false\n"""\n!echo said\nprint(s, end="")',
    { stdout: 'said\n\n%cd /nowhere\n!false\n' }]],
  'an error behind a magic is reported at its own line': [['!true\nx = = 1', { error: /line 2\)/ }]],
  'magics of notebooks': [
    ['!echo one \\\n  two', { stdout: 'one two\n' }],
    ['# about it\n\n%%bash\necho $BASH_VERSION | cut -c1', { stdout: '5\n' }],
    ['%%sh\necho $0', { stdout: '/bin/sh\n' }],
    ['%cd -q /tmp\n%cd -q /\n%cd -', { stdout: '/tmp\n' }], ['%cd -q /workspace', {}],
    ['%%capture kept\nprint("hidden"); display(1)\n2', { stdout: '', results: [] }], ['kept.stdout, len(kept.outputs)', { result: ['hidden\n', 2] }],
    ['%%writefile one.py\nmade = 5', {}], ['%%writefile -a one.py\nprint(made, __name__)', { stdout: 'Appending to one.py\n' }],
    ['%run one.py\nmade', { stdout: '5 __main__\n', result: 5 }],
    ['%load_ext autoreload', { error: null }],
    ['%%html\n<b>x</b>', { shown: { 'text/html': '<b>x</b>' } }],
    ['%%javascript\nf()', { shown: { 'application/javascript': 'f()' } }],
    ['%%timeit -n 2 -r 1\n1', { stdout: / us per loop \(best of 1, 2 loops each\)/ }],
    ['def g(a, b=1):\n    "Does it."\ng?', { stdout: 'Signature: g(a, b=1)\nType: function\nDoes it.\n' }],
    ['%nosuch', { error: /There are: cat cd/ }],
    ['%%time\nx = 1\n!echo in\n1 / 0', { error: /line 4, in <module>\n    1 \/ 0\n/, stdout: /^in\nCPU/ }],
    ['pip install --nosuchoption', { error: /CalledProcessError/ }], ['!pip install --nosuchoption', { error: /CalledProcessError/ }]],
  'what cells take from IPython': [
    ['from IPython.display import display, HTML, Markdown, Image, clear_output\nclear_output()\nh = display(HTML("<i>x</i>"), display_id=True)\nh.update(1)',
      { stdout: '', shown: { 'text/html': '<i>x</i>' } }],
    ['import base64\nImage(base64.b64decode("iVBORw0KGgo="))', { shown: { 'image/png': 'iVBORw0KGgo=' } }],
    ['display({"image/png": "iVBORw0KGgo="}, raw=True)', { shown: { 'image/png': 'iVBORw0KGgo=' } }],
    ['get_ipython().run_line_magic("pwd", "")', { result: '/workspace' }],
    ['from IPython import get_ipython\nget_ipython().getoutput("echo x")', { result: ['x'] }],
    ['exec("def of_a_library(): return get_ipython()", lib := {})\nlib["of_a_library"]() is None', { result: true }]],
  'values as JSON': [['import datetime, collections\n{1: collections.Counter("aa"), None: datetime.date(2024, 1, 2)}',
    { result: { 1: { a: 2 }, null: '2024-01-02' } }], ['{(1, 2): 3}', { result: null }], ['l = []; l += [l, l]; l', { result: null }]],
  'a child of a fork ends with its cell': [
    ['import os, sys\npid = os.fork()\nif pid == 0:\n    sys.exit(3)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])', { result: 3 }],
    ['pid = os.fork()\nif pid == 0: 1 / 0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])', { result: 1, stderr: /ZeroDivisionError/ }],
    ['mine = os.getpid()\npid = os.fork()\nif pid == 0: display("child")\nelse: os.waitpid(pid, 0)', { stdout: "'child'\n" }],
    ['mine == os.getpid()', { result: true }]],
  'what C says comes in order': [['import ctypes\nc = ctypes.CDLL(None)\nprint("a"); _ = c.puts(b"b"); print("c"); _ = c.printf(b"d")', { stdout: 'a\nb\nc\nd' }]],
  'streams that were closed or lost are there again': [['import sys\ndel sys.stdout', {}], ['print(1)', { stdout: '1\n' }],
    ['sys.stdout.close()', {}], ['print(2)', { stdout: '2\n' }], ['sys.stderr = None', {}], ['print(3, file=sys.stderr)', { stderr: '3\n' }]],
  'an error points at what failed': [['nosuch.thing', { error: /\n    nosuch\.thing\n    \^{6}\n/ }]],
};

// The same where IPython is not installed.
const HIDE = 'import importlib.machinery as m\nreal = m.PathFinder.find_spec\n'
  + 'm.PathFinder.find_spec = lambda name, *more: None if name.startswith("IPython") else real(name, *more)';
const BARE = [...CELLS['what cells take from IPython'], ['import IPython\nIPython.__path__', { result: [] }],
  ['from IPython.display import *\nMath("x"), IFrame("a", 1, 2);', {}], ['import IPython.core', { error: /No module named 'IPython.core'/ }],
  ['m.PathFinder.find_spec = real\nimport IPython.display', {}]];

const matches = (text, wanted, raw) => (wanted instanceof RegExp ? assert.match(String(text), wanted, raw) : assert.deepEqual(text, wanted, raw));

async function check(run, code, { error = null, shown, ...wanted }) {
  const answer = await run(code);
  if (error === null) assert.equal(answer.error, null, answer.raw);
  else assert.match(answer.error.message + answer.error.traceback, error, answer.raw);
  for (const [name, value] of Object.entries(wanted)) matches(answer[name], value, answer.raw);
  for (const [mime, text] of Object.entries(shown ?? {})) assert.equal(answer.results[0].data[mime], text, answer.raw);
}

async function charts(t, run) {
  const there = await run('import numpy as np, matplotlib.pyplot as plt');
  if (!there.success) return t.skip('no matplotlib on this machine');
  for (const [code, wanted] of CHARTS) {
    const { results, raw } = await run(`${code};\nplt.show()`);
    const found = results[0].data[CHART] && JSON.parse(results[0].data[CHART]);
    assert.deepEqual(found && { type: found.type, elements: found.elements }, wanted ?? undefined, raw);
  }
}

async function ordered(server, { id }) {
  const answer = await server.get(`/v1/sandboxes/${id}/run_code`, { method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/x-ndjson' },
    body: JSON.stringify({ code: 'import sys, time\nfor _ in range(3):\n    print("o", end=""); time.sleep(.05)\n'
      + '    print("e", end="", file=sys.stderr); time.sleep(.05)' }) });
  const events = (await answer.text()).trim().split('\n').map((line) => JSON.parse(line));
  assert.equal(events.filter(({ event }) => /^std/.test(event)).map(({ data }) => data.text).join(''), 'oeoeoe');
}

const WAITS = ['import threading\nthreading.Event().wait()', 'import os\nos.read(os.pipe()[0], 1)',
  'while True: display("x" * 300000)', '!sleep 6000'];

async function interrupted(server, { id, run }) {
  await run('kept = 1');
  for (const [n, code] of WAITS.entries()) {
    // It is known to run by the file that it has made.
    const running = run(`open("/workspace/on-${n}", "w").close()\n${code}`);
    await until(async () => (await server.get(`/v1/sandboxes/${id}/files?path=/workspace/on-${n}`)).status === 200);
    await post(server, `/v1/sandboxes/${id}/contexts/python3/interrupt`, {});
    const { status, error, raw } = await running;
    assert.equal(status, 'interrupted', `${code}: ${raw.slice(0, 2000)}`);
    assert.doesNotMatch(error.traceback, /sandglass/);
    if (code.startsWith('!')) assert.doesNotMatch(error.traceback, /subprocess/);
  }
  assert.equal((await run('kept')).result, 1);
}

async function bare(server, { id, run }) {
  assert.equal((await post(server, `/v1/sandboxes/${id}/contexts/python3/restart`, {})).http, 200);
  for (const [code, wanted] of [[HIDE, {}], ...BARE]) await check((each) => run(each, { install: false }), code, wanted);
}

async function threads({ run }) {
  const { results, raw } = await run('import threading\ndef show(n):\n  for _ in range(20): display(str(n) * 200000)\n'
    + 'all = [threading.Thread(target=show, args=(n,)) for n in range(4)]\n[t.start() for t in all]; [t.join() for t in all];');
  assert.ok(results.every(({ data }) => /^'(\d)\1*'$/.test(data['text/plain'])), raw.slice(0, 500));
  assert.equal((await run('1 + 1')).result, 2);
}

test('cells of Python', T, async (t) => {
  const server = await serve(t);
  const made = await post(server, '/v1/sandboxes', { tier: 'jail', runtime: 'python3' });
  if (made.http !== 201) return t.skip(`no sandbox with python3 here: ${made.raw}`);
  const kernels = { 'by its program': box(server, made.id) };
  assert.doesNotMatch((await kernels['by its program'].run(EXE)).raw, /memfd:/);
  kernels['by a fork'] = await forked(t, server);
  for (const [how, kernel] of Object.entries(kernels)) {
    for (const [name, cells] of Object.entries(CELLS))
      await t.test(`${name}: ${how}`, async () => { for (const [code, wanted] of cells) await check(kernel.run, code, wanted); });
    await t.test(`the data of charts: ${how}`, (u) => charts(u, kernel.run));
    await t.test(`the streams are reported in order: ${how}`, () => ordered(server, kernel));
    await t.test(`whatever waits is interrupted, and variables stay: ${how}`, () => interrupted(server, kernel));
    await t.test(`threads may display: ${how}`, () => threads(kernel));
    await t.test(`a machine without IPython: ${how}`, () => bare(server, kernel));
  }
});
