// Runtimes that are added, each as a kernel in a jail: what cells are given and what comes of them. Where
// they differ, the table says how. Those that were not added are skipped by name.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { kernel, runtimes } from './cells.mjs';
import { tempDir } from './lib.mjs';

const js = {
  value: ['({ a: [1, null], s: "x" })', { a: [1, null], s: 'x' }, "{ a: [ 1, null ], s: 'x' }"],
  nothing: 'const unused = 1;',
  state: ['let n = 20; const f = (x) => x * 2; class C {}', 'n += 1; f(n)', 42],
  streams: 'console.log("out"); console.error("err"); console.log("more")',
  error: ['const fail = () => {\n  throw new RangeError("far");\n};\nfail();', 'RangeError', 'far', /cell-1:2/],
  thrown: ['throw { code: 5 }', 'Error', '{ code: 5 }'],
  syntax: ['let = = 3', 'SyntaxError'],
  busy: 'while (true);',
  idle: 'await new Promise(() => {})',
  exit: ['process.exit(3)', 'SystemExit'],
  die: 'process.reallyExit(1)',
  input: ['prompt("name?")', 'NoInput'],
  missing: ['await import("no-such-package")', 'no-such-package'],
  bytes: 'process.stdout.write(Buffer.from([0x61, 0xff, 0xfe, 0x0a]))',
  huge: 'const row = "x".repeat(1 << 20); for (let i = 0; i < 32; i++) process.stdout.write(row); 0',
  child: 'require("node:child_process").execSync("echo from a child", { stdio: "inherit" }); 0',
  html: 'display({ _repr_html_: () => "<b>h</b>" })',
  png: 'Buffer.from("89504e470d0a1a0a00", "hex")',
  file: 'require("node:fs").readFileSync("in.txt", "utf8")',
  late: ['setTimeout(() => console.log("late"), 30); 1', 'await new Promise((r) => setTimeout(r, 300)); 2'],
};

const cells = {
  // The same scripts in another Node: what could differ, not all of it again.
  node22: { value: js.value, nothing: js.nothing, state: js.state, busy: js.busy, idle: js.idle },
  node24: js,
  // Deno's own words for what Node says otherwise.
  deno: { ...js,
    exit: ['Deno.exit(3)', 'SystemExit'],
    bytes: 'Deno.stdout.writeSync(new Uint8Array([0x61, 0xff, 0xfe, 0x0a])); 0',
    child: 'new Deno.Command("sh", { args: ["-c", "echo from a child"], stdout: "inherit" }).outputSync(); 0',
    file: 'Deno.readTextFileSync("in.txt")',
  },
};

const known = await runtimes();

for (const [name, has] of Object.entries(cells)) {
  const skip = known.get(name)?.state === 'absent' ? `${name} is not on this machine: ${known.get(name).remedy}` : false;
  const check = (title, given, run) =>
    given !== undefined && test(`${name}: ${title}`, { skip }, run);

  check('the value of the last expression', has.value, async (t) => {
    const cell = kernel(t, name);
    const [code, result, text] = has.value;
    const done = await cell(code);
    assert.deepEqual([done.ok, done.result, done.text], [true, result, text], done.stderr);
    assert.deepEqual((await cell(has.nothing)).shown, []);
  });

  check('variables and functions stay', has.state, async (t) => {
    const cell = kernel(t, name);
    const [first, second, expected] = has.state;
    assert.equal((await cell(first)).ok, true);
    const done = await cell(second);
    assert.deepEqual(done.result ?? done.stdout, expected);
    assert.equal(done.count, 2);
    await cell(first); // declared again
    assert.deepEqual((({ result, stdout }) => result ?? stdout)(await cell(second)), expected);
  });

  check('what is written comes out, also of children', has.streams, async (t) => {
    const cell = kernel(t, name);
    const done = await cell(has.streams);
    assert.deepEqual([done.stdout, done.stderr], ['out\nmore\n', 'err\n']);
    assert.equal((await cell(has.child)).stdout, 'from a child\n');
  });

  check('errors have a name, a message and the lines of the code', has.error, async (t) => {
    const cell = kernel(t, name);
    const [code, error, message, line] = has.error;
    const done = await cell(code);
    assert.deepEqual([done.ok, done.error.name, done.error.message], [false, error, message]);
    assert.match(done.error.traceback, line);
    assert.doesNotMatch(done.error.traceback, /\/opt\/sandglass|node:internal|ext:/);
    const [bad, kind] = has.syntax;
    assert.equal((await cell(bad)).error.name, kind);
    if (has.thrown) {
      const { error: thrown } = await cell(has.thrown[0]);
      assert.deepEqual([thrown.name, thrown.message], has.thrown.slice(1));
    }
    assert.equal((await cell(has.state[0])).ok, true);
  });

  check('an interrupt ends the run and keeps the variables', has.busy, async (t) => {
    const cell = kernel(t, name);
    const [first, second, expected] = has.state;
    await cell(first);
    for (const code of [has.busy, has.idle]) {
      const done = await cell(`console.log('begun'); ${code}`, { interruptMs: 300 });
      assert.deepEqual([done.ok, done.error?.name], [false, has.interrupted ?? 'Interrupted'], code);
    }
    const done = await cell(second);
    assert.deepEqual(done.result ?? done.stdout, expected);
  });

  check('exit() ends the run, not the kernel', has.exit, async (t) => {
    const cell = kernel(t, name);
    await cell(has.state[0]);
    assert.equal((await cell(has.exit[0])).error.name, has.exit[1]);
    assert.deepEqual((await cell(has.state[1])).result, has.state[2]);
  });

  check('a kernel that dies is gone', has.die, async (t) => {
    const cell = kernel(t, name);
    assert.equal((await cell(has.die)).gone, true);
  });

  check('nobody can be asked', has.input, async (t) => {
    const cell = kernel(t, name);
    const done = await cell(has.input[0]);
    assert.equal(done.ok, false);
    assert.match(done.error.name, new RegExp(has.input[1]));
  });

  check('a missing module is named', has.missing, async (t) => {
    const cell = kernel(t, name);
    const done = await cell(has.missing[0]);
    assert.deepEqual([done.ok, done.error?.module], [false, has.missing[1]]);
  });

  check('any bytes, any number of them', has.bytes, async (t) => {
    const cell = kernel(t, name);
    assert.match((await cell(has.bytes)).stdout, /^a.+\n$/);
    assert.equal((await cell(has.huge)).stdoutBytes, 32 << 20);
  });

  check('rich values', has.html, async (t) => {
    const cell = kernel(t, name);
    const done = await cell(has.html);
    assert.equal(done.shown[0].data['text/html'], '<b>h</b>', JSON.stringify(done));
    if (has.png) assert.equal((await cell(has.png)).main['image/png'], 'iVBORw0KGgoA');
  });

  check('files of the workspace', has.file, async (t) => {
    const dir = tempDir(t);
    writeFileSync(join(dir, 'in.txt'), 'hello');
    const done = await kernel(t, name, { workspace: dir })(has.file);
    assert.equal(done.result ?? done.stdout, 'hello', JSON.stringify(done.error));
  });

  check('what a run leaves behind goes on', has.late, async (t) => {
    const cell = kernel(t, name);
    const first = await cell(has.late[0]);
    assert.equal(first.result, 1);
    const done = await cell(has.late[1]);
    assert.deepEqual([done.result, first.stdout + done.stdout], [2, 'late\n']); // early where the cell took long
  });
}

test('node22: imports and TypeScript', { skip: known.get('node22')?.state === 'absent' && 'node22 is not on this machine' }, async (t) => {
  const cell = kernel(t, 'node22');
  assert.equal((await cell('import { sep } from "node:path"; const s: string = sep; s', { language: 'typescript' })).result, '/');
});

for (const name of ['node24', 'deno']) {
  const skip = known.get(name)?.state === 'absent' ? `${name} is not on this machine: ${known.get(name).remedy}` : false;

  test(`${name}: imports, also of what /workspace holds`, { skip }, async (t) => {
    const dir = tempDir(t);
    mkdirSync(join(dir, 'node_modules/pkg'), { recursive: true });
    writeFileSync(join(dir, 'node_modules/pkg/package.json'), '{"name":"pkg","version":"1.0.0","main":"main.js"}');
    writeFileSync(join(dir, 'node_modules/pkg/main.js'), 'module.exports = { seven: 7 };');
    writeFileSync(join(dir, 'own.mjs'), 'export const five = 5; export default 6;');
    writeFileSync(join(dir, 'typed.ts'), 'enum Count { Nine = 9 }\nexport class Held<T> { constructor(public of: T) {} }\nexport const nine: number = new Held(Count.Nine).of;');
    const cell = kernel(t, name, { workspace: dir });
    const done = await cell('import six, { five } from "./own.mjs"; import pkg from "pkg";\nimport { nine } from "./typed.ts"\n[five, six, pkg.seven, nine, require("pkg").seven, (await import("./own.mjs")).five]');
    assert.deepEqual(done.result, [5, 6, 7, 9, 7, 5], JSON.stringify(done));
    const gone = await cell('import x from "./gone.mjs"');
    assert.match(gone.error.message, /gone\.mjs/);
    assert.equal((await cell('const text = `\nimport a from "b"\n`; text.length')).result, 19);
  });

  test(`${name}: TypeScript`, { skip }, async (t) => {
    const cell = kernel(t, name);
    const types = await cell('interface P { x: number }\nconst p: P = { x: 4 };\np.x as number', { language: 'typescript' });
    assert.equal(types.result, 4, JSON.stringify(types));
    assert.equal((await cell('enum E { A = 5 }\nE.A', { language: 'typescript' })).result, 5);
    assert.equal((await cell('p.x')).result, 4);
    const bad = await cell('const x: = 3', { language: 'typescript' });
    assert.equal(bad.error.name, 'SyntaxError', JSON.stringify(bad));
  });

  test(`${name}: a name may be declared again, in whatever way`, { skip }, async (t) => {
    const cell = kernel(t, name);
    const ways = ['const N = 1', 'let N = 2, other = 3', 'var N = 4', 'function N() { return {} }\n[5].map(N)', 'class N { a() {} }',
      'async function N() {}', 'import N from "node:fs"', 'const { N } = { N: 6 }', 'import { sep as N } from "node:path"', 'const [N] = [7]'];
    for (const before of ways)
      for (const after of ways) {
        const done = await cell(before).then(() => cell(after));
        assert.equal(done.ok, true, `${before}\n${after}\n${JSON.stringify(done.error)}`);
      }
    assert.equal((await cell('const N = 8; N')).result, 8);
    assert.equal((await cell('let twice = 1; let twice = 2')).error.name, 'SyntaxError');
    assert.match((await cell('"one"\nconst text = `\nconst N = ${`x`};\n`; text')).result, /const N = x/);
  });

  test(`${name}: a promise at the end is waited for`, { skip }, async (t) => {
    const cell = kernel(t, name);
    const soon = 'const soon = (value) => new Promise((done) => setTimeout(done, 30, value));';
    const main = await cell(`${soon}\nasync function main() { console.log(await soon("late")); return 7 }\nmain()`);
    assert.deepEqual([main.result, main.stdout], [7, 'late\n'], JSON.stringify(main));
    for (const code of ['(async () => { throw new RangeError("far") })()', 'soon().then(() => { throw new RangeError("far") })']) {
      const failed = await cell(code);
      assert.deepEqual([failed.ok, failed.error?.name, failed.stderr], [false, 'RangeError', ''], code);
    }
    assert.equal((await cell('(async () => { await soon(); process.exit(3) })()')).error.name, 'SystemExit');
    const stuck = await cell('console.log("begun"); new Promise(() => {})', { interruptMs: 300 });
    assert.deepEqual([stuck.error?.name, stuck.gone], ['Interrupted', false]);
    const busy = await cell('(async () => { await soon(); console.log("begun"); while (true); })()', { interruptMs: 400 });
    assert.deepEqual([busy.ok, busy.gone], [false, false]);
    assert.equal((await cell('await soon(5)')).result, 5);
  });

  test(`${name}: what is written for a file runs`, { skip }, async (t) => {
    const cell = kernel(t, name);
    const done = await cell('#!/usr/bin/env node\nimport { createRequire } from "node:module";\nconst require = createRequire(import.meta.url);\n' +
      'export const five = 5;\nexport default function six() { return require("node:path").sep }\nexport { five as again };\n[five, six(), import.meta.dirname, import.meta.filename]');
    assert.deepEqual(done.result, [5, '/', '/workspace', '/workspace/cell.js'], JSON.stringify(done.error));
    const common = await cell('module.exports = { a: 1 }; [require.main === module, __dirname, __filename, exports.a]');
    assert.deepEqual(common.result, [false, '/workspace', '/workspace/cell.js', 1], JSON.stringify(common.error));
  });

  test(`${name}: errors within errors, and where types go wrong`, { skip }, async (t) => {
    const cell = kernel(t, name);
    const many = await cell('throw new AggregateError([new Error("one"), "two"], "many", { cause: new TypeError("why", { cause: { deep: 3 } }) })');
    for (const each of [/^AggregateError: many$/m, /^\[error\]: Error: one$/m, /^\[error\]: 'two'$/m, /^\[cause\]: TypeError: why$/m, /^\[cause\]: \{ deep: 3 \}$/m])
      assert.match(many.error.traceback, each);
    const odd = await cell('throw Object.defineProperty(new Error("odd"), "cause", { get() { throw 1 } })');
    assert.equal(odd.error.message, 'odd');
    const bad = await cell('const x = 1;\nconst y: number = ;', { language: 'typescript' });
    assert.match(bad.error.traceback, /^cell-\d+:2\nconst y: number = ;\n {18}\^\n\nSyntaxError: /);
  });

  test(`${name}: busy code behind an await, in a timer, in a child`, { skip }, async (t) => {
    const cell = kernel(t, name);
    await cell('let kept = 1');
    for (const code of ['await new Promise((r) => setTimeout(r, 20)); while (true);',
      'setTimeout(() => { while (true); }, 5); await new Promise(() => {})',
      'require("child_process").execSync("sleep 60")',
      'const { promise } = Promise.withResolvers(); await promise']) {
      const done = await cell(`console.log('begun'); ${code}`, { interruptMs: 400 });
      assert.deepEqual([done.ok, done.gone], [false, false], code);
      assert.equal((await cell('kept += 1')).ok, true, code);
    }
    assert.equal((await cell('kept')).result, 5);
  });

  test(`${name}: an error outside of the run is reported and ends nothing`, { skip }, async (t) => {
    const cell = kernel(t, name);
    const done = await cell('setTimeout(() => { throw new Error("stray") }, 5); Promise.reject(new Error("lost"));\nawait new Promise((r) => setTimeout(r, 200)); 1');
    assert.equal(done.result, 1);
    for (const each of [/^Uncaught Error: lost$/m, /^Uncaught Error: stray$/m]) assert.match(done.stderr, each);
    assert.doesNotMatch(done.stderr, /node:|opt\/sandglass/);
  });

  test(`${name}: values as isolates tell them`, { skip }, async (t) => {
    const cell = kernel(t, name);
    const results = [['new Map([[1, { a: 2 }]])', [[1, { a: 2 }]]], ['new Set([1])', [1]], ['10n', '10n'], ['NaN', null],
      ['new Date(0)', '1970-01-01T00:00:00.000Z'], ['/x/g', '/x/g'], ['Symbol("a")', 'Symbol(a)'],
      ['[undefined, () => 1]', [null, '[Function (anonymous)]']]];
    for (const [code, result] of results) assert.deepEqual((await cell(code)).result, result, code);
    const loop = await cell('const o = {}; o.o = o; o');
    assert.deepEqual([loop.ok, loop.text], [true, '<ref *1> { o: [Circular *1] }']);
    assert.equal((await cell('({ [Symbol.for("Jupyter.display")]: () => ({ "text/markdown": "*m*", "image/png": "iVBORw0KGgoA" }) })')).main['image/png'], 'iVBORw0KGgoA');
  });
}
