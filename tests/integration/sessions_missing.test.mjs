// Dependencies of the configuration that cannot be installed: the others are there, and every caller gets the reason.
import assert from 'node:assert/strict';
import test from 'node:test';
import { start, world } from './sessions_lib.mjs';

const T = { timeout: 280000 };
const list = (names) => names.map((name) => `[[sandbox.dependencies]]\npackage = "${name}"\n`).join('');
const why = /the server's configuration lists this package.*could not be installed when the server started: (npm|pypi): the (registry|index) has no such package/s;

test('what can be installed is there, and what cannot is named with its reason', T, async (t) => {
  const it = await world(t);
  it.registry.add('throws-object', '1.0.0', { 'index.js': 'throw { a: 1 };' });
  const names = ['pypi:acme-tools', 'pypi:no-such-thing', 'esm-only', 'no-such-npm', '@acme/sdk', 'throws-object'];
  const server = await start(t, it, list(names));
  if (server === null) return;
  const session = await server.session({ sandbox: { tier: 'jail' } });
  const fine = await session.run('import acmetools; acmetools.twice("a")', { language: 'python' });
  assert.equal(fine.result, 'aa', fine.text);
  const both = await session.run('const a = await import("esm-only"), b = await import("@acme/sdk"); [a.kind, typeof b.default]', { language: 'typescript' });
  assert.deepEqual(both.result, ['esm', 'object'], both.text);
  // Where the code fails, with the model's tools and without.
  const python = await session.run('import no_such_thing', { language: 'python' });
  assert.match(python.error.message, why, python.text);
  assert.match(python.error.traceback, /\[sandglass\] the server's configuration lists this package/);
  const node = await session.run('await import("no-such-npm/deep.js")', { language: 'typescript' });
  assert.match(node.error.message, why, node.text);
  const tool = await server.ask('POST', `/v1/sessions/${session.id}/tools/run_code`, 
    { code: 'import no_such_thing', language: 'python', description: 'try' });
  assert.match(tool.text, why);
  const other = await session.run('import never_listed', { language: 'python' });
  assert.doesNotMatch(other.error.message, /configuration/);
  // For the operator.
  const ready = await server.ask('GET', '/readyz');
  assert.deepEqual([ready.snapshotState, ready.snapshotDetail], ['ready', 'not installed: no-such-npm, pypi:no-such-thing'], ready.text);
  const warning = (name) => ready.warnings.find((text) => text.includes(`'${name}'`));
  assert.match(warning('no-such-npm'), /could not be installed: npm: the registry has no such package/);
  assert.match(warning('pypi:no-such-thing'), /could not be installed: pypi: the index has no such package/);
  assert.equal(warning('throws-object'), "sandbox.dependencies: 'throws-object' cannot be imported: it threw { a: 1 }");
  assert.equal(ready.warnings.length, 3, ready.text);
  assert.match(server.stderr, /event=snapshot.left_out.*package=no-such-npm error="npm: the registry has no such package/);
  // For the model.
  const { systemPrompt } = await server.ask('GET', '/v1/tools');
  assert.match(systemPrompt, /@acme\/sdk 2.1.0/);
  assert.match(systemPrompt, /esm-only 0.4.0/);
  assert.match(systemPrompt, /acme-tools 0.9/);
  assert.doesNotMatch(systemPrompt, /no-such|throws-object/);
});

test('an isolate says it, too', T, async (t) => {
  const it = await world(t);
  const server = await start(t, it, `[sandbox]\nprovider = "isolate"\n${list(['esm-only', 'no-such-npm'])}`);
  if (server === null) return;
  const session = await server.session({});
  const missing = await session.run('import x from "no-such-npm"; x');
  assert.match(missing.error.message, why, missing.text);
});

test('a later start tries again, and has what an earlier one had when it cannot', T, async (t) => {
  const it = await world(t), names = list(['pypi:acme-tools', 'pypi:late-one']);
  const first = await start(t, it, names);
  if (first === null) return;
  const stop = (server) => { server.child.kill('SIGTERM'); return server.exit; };
  const run = async (server, code) => (await server.session({ sandbox: { tier: 'jail' } })).run(code, { language: 'python' });
  assert.equal((await run(first, 'import acmetools; 1')).result, 1);
  await stop(first);
  // The index is away: what was installed is still there.
  const wheels = it.index.wheels;
  it.index.wheels = {};
  const second = await start(t, it, names, { data: first.dir });
  assert.equal((await run(second, 'import acmetools; 2')).result, 2, second.stderr);
  assert.equal((await second.ask('GET', '/readyz')).snapshotDetail, 'not installed: pypi:late-one');
  await stop(second);
  it.index.wheels = wheels;
  it.index.add('late-one', '1.0', 'lateone', 'word = "late"');
  const third = await start(t, it, names, { data: first.dir });
  assert.equal((await run(third, 'import acmetools, lateone; lateone.word')).result, 'late', third.stderr);
  const ready = await third.ask('GET', '/readyz');
  assert.deepEqual([ready.snapshotState, ready.snapshotDetail, ready.warnings], ['ready', '', []], ready.text);
});
