// Variables of Python interpreters whose sandbox has packages of a snapshot, as every session has while the
// configuration lists dependencies.
import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from './lib.mjs';
import { start, world } from './sessions_lib.mjs';

const T = { timeout: 280000 };
const py = { language: 'python' };

async function begin(t, it, packages) {
  const server = await start(t, it, packages.map((name) => `[[sandbox.dependencies]]\npackage = "${name}"\n`).join(''),
    { env: { SANDGLASS_ZYGOTE_AT_START: 'true' } });
  if (server === null) return null;
  await until(() => server.stderr.includes('event=jail.zygote') && (!packages.some((name) => name.startsWith('pypi:'))
    || server.stderr.includes('event=jail.plain_zygote')));
  if (/event=jail.(plain_)?zygote.*error/.test(server.stderr)) {
    t.skip(server.stderr);
    return null;
  }
  return server;
}

function is(answer, result) {
  assert.deepEqual([answer.success, answer.stateLost, answer.result], [true, false, result], answer.text);
}

async function sleepsAndWakes(server, session, code, result) {
  const first = await session.run(code, py);
  assert.deepEqual([first.success, first.stateLost], [true, false], first.text);
  for (let i = 0; i < 2; i++) {
    const rest = await server.ask('POST', `/v1/sessions/${session.id}/rest`, {});
    assert.equal(rest.state, 'dormant', rest.text);
    assert.equal(await server.figure('sandglass_variables_kept'), 1, server.stderr);
    const woken = await session.run('look()', py);
    assert.equal(woken.stateLost, false, server.stderr.split('\n').filter((line) => line.includes('variables')).join('\n'));
    is(woken, result);
  }
}

test('packages that the template has not imported', T, async (t) => {
  const it = await world(t), server = await begin(t, it, ['pypi:acme-tools', 'esm-only']);
  if (server === null) return;
  const session = await server.session({ sandbox: { tier: 'jail' } });
  await sleepsAndWakes(server, session, 'import acmetools\nx = ["a"]\ndef look():\n  return acmetools.twice(x[0])', 'aa');
  // A new context of the sandbox is a fork, too, and so is one behind a rollback.
  const at = `/v1/sandboxes/${(await session.box()).id}`;
  const made = await server.ask('POST', `${at}/checkpoints`, {});
  assert.equal(made.status, 201, made.text);
  is(await session.run('x[0] = "b"; look()', py), 'bb');
  const back = await server.ask('POST', `${at}/rollback`, { checkpoint: made.id });
  assert.equal(back.status, 200, back.text);
  is(await session.run('look()', py), 'aa');
});

test('packages that the template has imported in another version', T, async (t) => {
  const it = await world(t);
  it.index.add('numpy', '99.0', 'numpy', 'def own(): return "mine"');
  const server = await begin(t, it, ['pypi:numpy']);
  if (server === null) return;
  const session = await server.session({ sandbox: { tier: 'jail' } });
  await sleepsAndWakes(server, session, 'import numpy\nx = [1]\ndef look():\n  x.append(2); return [numpy.own(), x[:2]]', ['mine', [1, 2]]);
  // Another interpreter of the same sandbox, after the first one came back.
  const { id: context } = await server.ask('POST', `/v1/sessions/${session.id}/contexts`, { runtime: 'python3' });
  const other = await session.run('import numpy; y = 5; numpy.own()', { context });
  assert.equal(other.result, 'mine', other.text);
  await server.ask('POST', `/v1/sessions/${session.id}/rest`, {});
  is(await session.run('look()', py), ['mine', [1, 2]]);
  is(await session.run('y', { context }), 5);
});
