// Idempotency keys: whoever repeats a create makes nothing twice.
import assert from 'node:assert/strict';
import test from 'node:test';
import { serve } from './lib.mjs';

async function stage(t, options) {
  const server = await serve(t, options);
  const call = async (method, path, body, key) => {
    const answer = await server.get(path, { method, body: body && JSON.stringify(body),
      headers: { 'content-type': 'application/json', ...(key ? { 'idempotency-key': key } : {}) } });
    const text = await answer.text();
    return { status: answer.status, text, ...(text.startsWith('{') ? JSON.parse(text) : {}) };
  };
  return { server, call };
}

const BODIES = { sandboxes: { tier: 'memory' }, sessions: { sandbox: { tier: 'memory' } }, volumes: { tier: 'memory' } };

for (const [noun, body] of Object.entries(BODIES)) {
  test(`${noun}: the same key gives the first one, also later`, { timeout: 60_000 }, async (t) => {
    const { call } = await stage(t);
    const path = `/v1/${noun}`;
    const all = await Promise.all([1, 2, 3].map(() => call('POST', path, body, 'one')));
    const made = all.filter((each) => each.status === 201);
    assert.ok(made.length > 0, all[0].text);
    assert.equal(new Set(made.map((each) => each.id)).size, 1);
    for (const each of all) assert.ok([201, 423].includes(each.status), each.text); // 423: still being made
    const again = await call('POST', path, body, 'one');
    assert.deepEqual([again.status, again.id], [201, made[0].id], again.text);
    assert.notEqual((await call('POST', path, body, 'two')).id, made[0].id);
    assert.notEqual((await call('POST', path, body)).id, made[0].id);
    assert.equal((await call('POST', path, { ...body, name: 'other' }, 'one')).status, 409);
  });
}

test('what was deleted may be made again with its key', { timeout: 60_000 }, async (t) => {
  const { call } = await stage(t);
  for (const noun of ['sessions', 'volumes']) {
    const first = await call('POST', `/v1/${noun}`, BODIES[noun], 'k');
    assert.equal((await call('DELETE', `/v1/${noun}/${first.id}`)).status, 204);
    const next = await call('POST', `/v1/${noun}`, BODIES[noun], 'k');
    assert.equal(next.status, 201, next.text);
    assert.notEqual(next.id, first.id);
  }
});

test('keys outlive a restart, and one that failed is free', { timeout: 60_000 }, async (t) => {
  const { server, call } = await stage(t);
  const first = await call('POST', '/v1/sessions', BODIES.sessions, 'k');
  assert.equal((await call('POST', '/v1/volumes', { tier: 'isolate' }, 'v')).status, 501);
  assert.equal((await call('POST', '/v1/volumes', { tier: 'memory' }, 'v')).status, 201);
  server.child.kill('SIGTERM');
  await server.exit;
  const next = await stage(t, { dir: server.dir });
  const again = await next.call('POST', '/v1/sessions', BODIES.sessions, 'k');
  assert.deepEqual([again.status, again.id], [201, first.id], again.text);
});

test('a command is started once', { timeout: 60_000 }, async (t) => {
  const { call } = await stage(t);
  const boxes = [await call('POST', '/v1/sandboxes', { tier: 'jail' }), await call('POST', '/v1/sandboxes', { tier: 'jail' })];
  if (boxes[0].status !== 201) return t.skip(`no jail here: ${boxes[0].text}`);
  const run = (box, key) => call('POST', `/v1/sandboxes/${box.id}/commands`, { command: 'echo x >> count; cat count' }, key);
  const first = await run(boxes[0], 'k');
  assert.equal(first.stdout, 'x\n', first.text);
  const again = await run(boxes[0], 'k');
  assert.equal(again.status, 409, again.text);
  assert.match(again.error.message, new RegExp(`has started command '${first.id}'`));
  assert.equal((await run(boxes[1], 'k')).stdout, 'x\n'); // another sandbox, another key
  assert.equal((await run(boxes[0], 'l')).stdout, 'x\nx\n');
});
