// The example of the C library, as a C program would use it.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';
import { BIN, run, serve } from './lib.mjs';

const T = { timeout: 600000 };
const EXAMPLE = process.env.SG_C_EXAMPLE;
const SAID = 'the sum is 6\n6\n';

test('over a daemon', T, async (t) => {
  const server = await serve(t);
  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const child = await run([], { bin: EXAMPLE, env });
  assert.deepEqual([child.stderr, child.stdout, child.code], ['', SAID, 0]);
  const wrong = await run([], { bin: EXAMPLE, env: { ...env, SANDGLASS_TOKEN: 'wrong' } });
  assert.deepEqual([wrong.code, /\(unauthorized\)/.test(wrong.stderr)], [1, true], wrong.stderr);
});

test('lost variables, automatic checkpoints and documents', T, async (t) => {
  const server = await serve(t);
  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const child = await run([], { bin: process.env.SG_C_VERBS, env });
  assert.deepEqual([child.stderr, child.code], ['', 0], child.stdout);
  const said = Object.fromEntries(child.stdout.trimEnd().split('\n').map((line) => [line.split(' ')[0], line.slice(line.indexOf(' ') + 1)]));
  const of = (name) => JSON.parse(said[name]);
  assert.deepEqual([of('kept').result, of('kept').stateLost], [41, false]);
  assert.deepEqual([of('lost').stateLost, typeof of('lost').stateLostReason, typeof of('lost').stateLostMessage], [true, 'string', 'string'], said.lost);
  const changed = of('diff').files.find(({ path }) => path === 'note');
  assert.match(changed.text, /-one\n\+two/, said.diff);
  assert.deepEqual([of('undo').automatic, of('undo').before], [true, 'exec'], said.undo);
  assert.equal(said.note, 'one');
  assert.match(of('since').files[0].text, /-two\n\+one/, 'since the undo');
  assert.deepEqual([of('added').package, of('added').location], ['@acme/sdk', 'guide.md']);
  assert.match(of('found').results[0].content, /createPenguin/);
  assert.deepEqual(of('elsewhere').results, []);
  assert.match(said.unknown, /no automatic checkpoint 'another one'/);
  assert.match(said.nowhere, /no automatic checkpoint 'another one'/);
  assert.match(said.refused, /^invalid /);
});

test('with a server of its own, of which nothing stays', T, async () => {
  // Found by a mark in its environment: others may run the same.
  const mark = `SG_TEST_MARK=${randomUUID()}`;
  const child = await run([BIN], { bin: EXAMPLE, env: { ...process.env, SG_TEST_MARK: mark.slice(13) } });
  assert.deepEqual([child.stderr, child.stdout, child.code], ['', SAID, 0]);
  const left = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid)).filter((pid) => {
    try { return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(mark); } catch { return false; }
  });
  assert.deepEqual(left, []);
  const none = await run(['/no/such/program'], { bin: EXAMPLE });
  assert.deepEqual([none.code, none.stderr], [1, 'no server, or no token\n']);
});
