// A tenant's quota holds however many ask at once: what is made counts before it is there, and what
// turns out too large is not kept.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { serve, tempDir } from './lib.mjs';

const MIB = 1 << 20;

// A server and a token of a tenant of its own with this quota.
async function stage(t, quota, options) {
  const server = await serve(t, options);
  const admin = await ask(server, server.token, 'POST', '/v1/tokens', { scopes: ['read', 'run', 'files'], tenant: 'small', quota });
  assert.equal(admin.status, 201, admin.text);
  const call = (method, path, body) => ask(server, admin.token, method, path, body);
  return { server, call, token: admin.token };
}

async function ask(server, token, method, path, body) {
  const answer = await fetch(server.url + path, { method, body: body && JSON.stringify(body),
    headers: { authorization: `Bearer ${token}`, ...(body ? { 'content-type': 'application/json' } : {}) } });
  const text = await answer.text();
  return { text, ...(text.startsWith('{') ? JSON.parse(text) : {}), status: answer.status };
}

// This many at once: `made` of them were created, the others were refused for the quota.
async function race(count, one, made) {
  const answers = await Promise.all(Array.from({ length: count }, (_, i) => one(i)));
  const good = answers.filter((each) => each.status < 300);
  for (const each of answers.filter((other) => other.status >= 300))
    assert.deepEqual([each.status, each.error?.code], [429, 'limit_reached'], each.text);
  assert.equal(good.length, made, answers.map((each) => each.text).join('\n'));
  return good;
}

async function filled(call, mib) {
  const box = await call('POST', '/v1/sandboxes', { tier: 'jail', limits: { memoryMb: 256, diskMb: 64 } });
  if (box.status !== 201) return null;
  const wrote = await call('POST', `/v1/sandboxes/${box.id}/commands`, { command: `head -c ${mib * MIB} /dev/urandom > /workspace/data` });
  assert.equal(wrote.exitCode, 0, wrote.text);
  return box;
}

test('ten snapshots at once with room for one', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t, { diskMb: 64 + 40 });
  const box = await filled(call, 30);
  if (!box) return t.skip('no jail here');
  const made = await race(10, () => call('POST', '/v1/snapshots', { sandbox: box.id }), 1);
  const { snapshots } = await call('GET', '/v1/snapshots');
  assert.deepEqual(snapshots.map((each) => each.id), [made[0].id]);
  // What was refused holds nothing: with the first one gone there is room for the next.
  assert.equal((await call('DELETE', `/v1/snapshots/${made[0].id}`)).status, 204);
  await race(3, () => call('POST', '/v1/snapshots', { sandbox: box.id }), 1);
});

test('nine checkpoints of nine sandboxes at once with room for one', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t, { diskMb: 9 * 64 + 30 });
  const boxes = await Promise.all(Array.from({ length: 9 }, () => filled(call, 20)));
  if (!boxes[0]) return t.skip('no jail here');
  await race(9, (i) => call('POST', `/v1/sandboxes/${boxes[i].id}/checkpoints`, {}), 1);
  const counts = await Promise.all(boxes.map(async ({ id }) => (await call('GET', `/v1/sandboxes/${id}`)).checkpoints.length));
  assert.equal(counts.reduce((sum, each) => sum + each), 1);
});

test('a name is for one checkpoint, also of those that are being made', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t, {});
  const box = await filled(call, 5) ?? await call('POST', '/v1/sandboxes', { tier: 'memory' });
  const answers = await Promise.all([1, 2, 3].map(() => call('POST', `/v1/sandboxes/${box.id}/checkpoints`, { name: 'one' })));
  assert.deepEqual(answers.map((each) => each.status).sort(), [201, 409, 409], answers.map((each) => each.text).join('\n'));
  assert.equal((await call('GET', `/v1/sandboxes/${box.id}`)).checkpoints.length, 1);
});

test('the numbers of [limits] hold at once too', { timeout: 600_000 }, async (t) => {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, '[limits]\ncheckpoints = 2\nsnapshots = 2\nvolumes = 2\nsessions = 2\nsandboxes = 3\n');
  const { call } = await stage(t, {}, { args: ['--config', config] });
  const box = await call('POST', '/v1/sandboxes', { tier: 'memory' });
  await race(6, () => call('POST', `/v1/sandboxes/${box.id}/checkpoints`, {}), 2);
  await race(6, () => call('POST', '/v1/snapshots', { sandbox: box.id }), 2);
  await race(6, () => call('POST', '/v1/volumes', { tier: 'memory' }), 2);
  await race(6, () => call('POST', '/v1/sessions', { sandbox: { tier: 'memory' } }), 2);
  await race(6, () => call('POST', '/v1/sandboxes', { tier: 'memory' }), 2);
});

test('a work that failed gives back what it had reserved', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t, { diskMb: 500 });
  const isolate = await call('POST', '/v1/sandboxes', { tier: 'isolate', limits: { diskMb: 16 } });
  const box = await call('POST', '/v1/sandboxes', { tier: 'memory', limits: { diskMb: 16 } });
  if (isolate.status !== 201) return t.skip(`no isolates here: ${isolate.text}`);
  for (let i = 0; i < 3; i++) {
    const failed = await Promise.all([
      call('POST', '/v1/snapshots', { sandbox: isolate.id }),
      call('POST', '/v1/snapshots', { sandbox: 'nosuchsandbox' }),
      call('POST', '/v1/sandboxes/nosuchsandbox/checkpoints', {}),
    ]);
    assert.deepEqual(failed.map((each) => each.status), [501, 404, 404], failed.map((each) => each.text).join('\n'));
  }
  assert.equal((await call('POST', '/v1/snapshots', { sandbox: box.id })).status, 201);
  assert.equal((await call('POST', `/v1/sandboxes/${box.id}/checkpoints`, {})).status, 201);
});

test('sandboxes, forks and volumes', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t, { sandboxes: 3, diskMb: 400 });
  const spec = { tier: 'memory', limits: { diskMb: 16 } };
  const [parent] = await race(1, () => call('POST', '/v1/sandboxes', spec), 1);
  // All forks of a call or none: two calls for two each, and room for two.
  const [forked] = await race(4, () => call('POST', `/v1/sandboxes/${parent.id}/fork`, { count: 2 }), 1);
  assert.equal(forked.sandboxes.length, 2);
  assert.equal((await call('GET', '/v1/sandboxes')).sandboxes.length, 3);
  await race(3, () => call('POST', '/v1/sandboxes', spec), 0);
  assert.equal((await call('DELETE', `/v1/sandboxes/${forked.sandboxes[0].id}`)).status, 204);
  await race(5, () => call('POST', '/v1/sandboxes', spec), 1);
  await race(5, () => call('POST', '/v1/volumes', { tier: 'memory', capacityMb: 300 }), 1);
});

// A sandbox with automatic checkpoints, and what it lists of them.
async function turning(call, limits = { memoryMb: 256, diskMb: 64 }) {
  const box = await call('POST', '/v1/sandboxes', { tier: 'jail', checkpoints: 'turn', limits });
  if (box.status !== 201) return null;
  const fill = async (mib) => {
    const wrote = await call('POST', `/v1/sandboxes/${box.id}/commands`, { command: `head -c ${mib * MIB} /dev/urandom > /workspace/data && wc -c < /workspace/data` });
    assert.deepEqual([wrote.exitCode, wrote.stdout], [0, `${mib * MIB}\n`], wrote.text);
  };
  const list = async () => {
    const listed = await call('GET', `/v1/sandboxes/${box.id}/checkpoints`);
    const turns = listed.checkpoints.filter((each) => each.automatic);
    return { note: listed.note, count: turns.length, bytes: turns.reduce((sum, each) => sum + each.sizeBytes, 0) };
  };
  return { ...box, fill, list };
}

test('automatic checkpoints are disk in a quota: without room none is made, and the work continues', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t, { diskMb: 64 + 16 });
  const box = await turning(call);
  if (!box) return t.skip('no jail here');
  for (let i = 0; i < 4; i++) await box.fill(10);
  // Before the first there was nothing to keep, before the second 10 MiB; 20 are too many.
  const first = await box.list();
  assert.equal(first.count, 2);
  assert.ok(first.bytes > 10 * MIB && first.bytes < 16 * MIB, `${first.bytes} bytes`);
  assert.match(first.note, /no checkpoint before exec: the quota of 83886080 bytes of disk/);
  // What was skipped holds nothing: small files fit again, and then the note is gone.
  await box.fill(1);
  await box.fill(2);
  const second = await box.list();
  assert.deepEqual([second.count, second.note], [3, null]);
  // A snapshot has only what they leave.
  await box.fill(10);
  await race(2, () => call('POST', '/v1/snapshots', { sandbox: box.id }), 0);
});

test('automatic checkpoints of four sandboxes at once with room for one', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t, { diskMb: 4 * 64 + 15 });
  const boxes = await Promise.all([1, 2, 3, 4].map(() => turning(call)));
  if (!boxes[0]) return t.skip('no jail here');
  await Promise.all(boxes.map((each) => each.fill(10)));
  await Promise.all(boxes.map((each) => each.fill(11)));
  const lists = await Promise.all(boxes.map((each) => each.list()));
  assert.equal(lists.filter((each) => each.bytes > 10 * MIB).length, 1, JSON.stringify(lists));
  assert.equal(lists.filter((each) => each.note?.includes('bytes of disk')).length, 3, JSON.stringify(lists));
});

test('automatic checkpoints count in [limits] checkpoints', { timeout: 600_000 }, async (t) => {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, '[limits]\ncheckpoints = 3\n[sandbox]\ncheckpoint_count = 2\n');
  const { call } = await stage(t, {}, { args: ['--config', config] });
  const boxes = [await turning(call), await turning(call)];
  if (!boxes[0]) return t.skip('no jail here');
  for (let i = 1; i < 5; i++) for (const box of boxes) await box.fill(i);
  // The first keeps two and replaces its oldest; one is left for the second.
  const lists = [await boxes[0].list(), await boxes[1].list()];
  assert.deepEqual(lists.map((each) => each.count), [2, 1]);
  assert.match(lists[1].note, /limits\.checkpoints/);
  assert.equal(lists[0].note, null);
  const refused = await call('POST', `/v1/sandboxes/${boxes[0].id}/checkpoints`, {});
  assert.deepEqual([refused.status, refused.error.code], [429, 'limit_reached'], refused.text);
});

const fillMore = async (call, box, mib) => {
  const wrote = await call('POST', `/v1/sandboxes/${box.id}/commands`, { command: `head -c ${mib * MIB} /dev/urandom > /workspace/$(date +%N)` });
  assert.equal(wrote.exitCode, 0, wrote.text);
};
const deleted = async (call, box) => assert.equal((await call('DELETE', `/v1/sandboxes/${box.id}`)).status, 204);
const assertNoRoom = (answer) => assert.deepEqual([answer.status, answer.error?.code], [429, 'limit_reached'], answer.text);

// fork, fill, delete the parent, and again: what a fork is based on stays, so it counts.
test('files that forks share with deleted sandboxes count in a quota', { timeout: 600_000 }, async (t) => {
  const dir = tempDir(t);
  const { server, call, token } = await stage(t, { diskMb: 2 * 64 + 15 }, { dir });
  const first = await filled(call, 10);
  if (!first) return t.skip('no jail here');
  const fork = (box) => call('POST', `/v1/sandboxes/${box.id}/fork`, {});
  const second = (await fork(first)).sandboxes[0];
  await deleted(call, first);
  await fillMore(call, second, 10);
  const made = await fork(second); // two limits, and the 10 MiB of the first
  assert.equal(made.status, 201, made.text);
  const third = made.sandboxes[0];
  await deleted(call, second);
  assertNoRoom(await fork(third)); // the 20 MiB of both
  assertNoRoom(await call('POST', '/v1/sandboxes', { tier: 'jail', limits: { diskMb: 64 } }));
  // Also after a restart.
  server.child.kill('SIGTERM');
  await once(server.child, 'exit');
  const again = await serve(t, { dir });
  const later = (method, path, body) => ask(again, token, method, path, body);
  assertNoRoom(await later('POST', `/v1/sandboxes/${third.id}/fork`, {}));
  // Gone with the last that is based on them.
  await deleted(later, third);
  const fresh = await later('POST', '/v1/sandboxes', { tier: 'jail', limits: { diskMb: 2 * 64 + 15 } });
  assert.equal(fresh.status, 201, fresh.text);
});

test('the copy that a fork of a busy sandbox is based on counts in a quota', { timeout: 600_000 }, async (t) => {
  const { call } = await stage(t, { diskMb: 2 * 64 + 15 });
  const box = await filled(call, 10);
  if (!box) return t.skip('no jail here');
  const busy = await call('POST', `/v1/sandboxes/${box.id}/commands`, { command: 'sleep 600', detached: true });
  assert.ok(busy.status < 300, busy.text);
  const made = await call('POST', `/v1/sandboxes/${box.id}/fork`, {});
  assert.equal(made.status, 201, made.text);
  await deleted(call, made.sandboxes[0]);
  await fillMore(call, box, 10);
  assertNoRoom(await call('POST', `/v1/sandboxes/${box.id}/fork`, {}));
  assert.equal((await call('GET', '/v1/sandboxes')).sandboxes.length, 1);
});

test('snapshots of a directory at once with room for one', { timeout: 600_000 }, async (t) => {
  const server = await serve(t), dir = tempDir(t);
  writeFileSync(join(dir, 'data'), randomBytes(10 * MIB));
  const admin = await ask(server, server.token, 'POST', '/v1/tokens', { scopes: ['read', 'run', 'admin', 'approve'], tenant: 'small', quota: { diskMb: 15 } });
  assert.equal(admin.status, 201, admin.text);
  const call = (method, path, body) => ask(server, admin.token, method, path, body);
  const [made] = await race(4, () => call('POST', '/v1/snapshots', { directory: dir }), 1);
  assert.deepEqual((await call('GET', '/v1/snapshots')).snapshots.map((each) => each.id), [made.id]);
});

// An upload is unpacked in a sandbox, whose disk counts meanwhile.
test('uploads of archives at once with room for one', { timeout: 600_000 }, async (t) => {
  const { server, call, token } = await stage(t, { diskMb: 2048 + 5 }); // 2 GiB for the sandbox; less is left than the first one holds
  const owner = (method, path, body) => ask(server, server.token, method, path, body);
  const box = await filled(owner, 10);
  if (!box) return t.skip('no jail here');
  const made = await owner('POST', '/v1/snapshots', { sandbox: box.id });
  assert.equal(made.status, 201, made.text);
  const out = await fetch(`${server.url}/v1/snapshots/${made.id}/export`, { headers: { authorization: `Bearer ${server.token}` } });
  const bytes = Buffer.from(await out.arrayBuffer());
  assert.equal(out.status, 200, bytes.toString().slice(0, 300));
  const upload = async () => {
    const answer = await fetch(`${server.url}/v1/snapshots/upload`, { method: 'POST', body: bytes,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/octet-stream' } });
    const text = await answer.text();
    return { ...JSON.parse(text), text, status: answer.status };
  };
  await race(3, upload, 1);
  assert.equal((await call('GET', '/v1/snapshots')).snapshots.length, 1);
});
