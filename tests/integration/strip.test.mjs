// Strips every TypeScript source of the pinned npm packages (tools/npm/test) and compares with
// ts-blank-space, character for character; what it refuses must be refused too, with a line.
//
//   node --test tests/integration/strip.test.mjs      SG_BUILD: build tree, default build/debug

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const build = path.resolve(root, process.env.SG_BUILD ?? 'build/debug');
const program = path.join(build, 'tests/integration/strip_files');
const modules = path.join(root, 'build/npm/test/node_modules');

const FILES_MIN = 2000;
const SOURCE_MAX = 512 << 10; // STRIP_SOURCE_MAX
const missing = [program, modules].find((name) => !fs.existsSync(name));
const skip = missing ? `${missing} is missing; run tools/deps` : false;

function sources(dir) {
  const found = [];
  for (const entry of fs.readdirSync(dir, { withFileTypes: true })) {
    const name = path.join(dir, entry.name);
    if (entry.isDirectory()) found.push(...sources(name));
    else if (entry.isFile() && /(?<!\.d)\.([cm]?ts|tsx)$/.test(entry.name)) found.push(name);
  }
  return found.sort();
}

function stripAll(files) {
  const run = spawnSync(program, { input: files.map((name) => name + '\n').join(''), maxBuffer: 1 << 30, encoding: 'utf8' });
  assert.equal(run.status, 0, `strip_files ended with ${run.signal ?? run.status}: ${run.stderr}`);
  const lines = run.stdout.trimEnd().split('\n');
  assert.equal(lines.length, files.length);
  return lines.map((line) => JSON.parse(line));
}

// What ts-blank-space makes of a file, with the compiler it brings along.
const { blankSourceFile } = skip ? {} : await import(pathToFileURL(path.join(modules, 'ts-blank-space/out/index.js')));
const ts = skip ? null : createRequire(path.join(modules, 'ts-blank-space/out/index.js'))('typescript');

function reference(name, text) {
  const kind = name.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
  const file = ts.createSourceFile(name, text, { languageVersion: ts.ScriptTarget.ESNext }, false, kind);
  let refused = null;
  const js = blankSourceFile(file, (node) => (refused ??= node));
  const at = refused ? refused.getStart(file) : file.parseDiagnostics[0]?.start;
  return at === undefined ? { ok: true, js } : { ok: false, line: file.getLineAndCharacterOfPosition(at).line + 1 };
}

function firstDifference(name, text, ours, theirs) {
  const [a, b] = [ours.split('\n'), theirs.split('\n')];
  const i = a.findIndex((line, k) => line !== b[k]);
  return `${path.relative(modules, name)}:${i + 1}\n  source ${text.split('\n')[i]}\n  ours   ${a[i]}\n  theirs ${b[i]}`;
}

test('types are blanked as ts-blank-space blanks them', { skip }, (t) => {
  const files = sources(modules).filter((name) => fs.statSync(name).size <= SOURCE_MAX);
  assert.ok(files.length >= FILES_MIN, `only ${files.length} sources in ${modules}`);
  const count = { files: files.length, bytes: 0, equal: 0, refused: 0 };
  const problems = [];
  stripAll(files).forEach((ours, i) => {
    const text = fs.readFileSync(files[i], 'utf8');
    const theirs = reference(files[i], text);
    count.bytes += text.length;
    if (theirs.ok && ours.ok && ours.js === theirs.js) count.equal++;
    else if (!theirs.ok && !ours.ok && ours.line > 0) count.refused++;
    else if (theirs.ok && ours.ok) problems.push(firstDifference(files[i], text, ours.js, theirs.js));
    else problems.push(`${path.relative(modules, files[i])}: ${ours.ok ? `accepted, but not by the reference (line ${theirs.line})` : ours.message}`);
  });
  t.diagnostic(JSON.stringify(count));
  assert.equal(problems.length, 0, `${problems.length} differences:\n${problems.slice(0, 20).join('\n')}`);
});

test('the stripped text is the same size, line by line', { skip }, () => {
  const files = sources(path.join(modules, 'rxjs/src')).slice(0, 100);
  stripAll(files).forEach((ours, i) => {
    if (!ours.ok) return;
    const widths = (text) => text.split('\n').map((line) => line.length);
    assert.deepEqual(widths(ours.js), widths(fs.readFileSync(files[i], 'utf8')), files[i]);
  });
});

test('a refusal names the construct and its place', { skip }, () => {
  const dir = fs.mkdtempSync(path.join(build, 'strip-'));
  const cases = { 'enum.ts': 'let a\n enum E { A }', 'namespace.ts': 'namespace N { export let a = 1 }', 'syntax.ts': 'let a =\n  1 +;' };
  const names = Object.keys(cases).map((name) => path.join(dir, name));
  names.forEach((name) => fs.writeFileSync(name, cases[path.basename(name)]));
  const results = stripAll(names).map(({ code, line, column, message }) => [code, line, column, message.replace(/;.*/s, '')]);
  fs.rmSync(dir, { recursive: true });
  assert.deepEqual(results, [
    ['unsupported', 2, 2, 'line 2, column 2: an enum has a meaning at run time and cannot be erased'],
    ['unsupported', 1, 1, 'line 1, column 1: a namespace with values has a meaning at run time and cannot be erased'],
    ['invalid', 2, 6, "line 2, column 6: syntax error: unexpected '"],
  ]);
});
