// Deleting many things at once, names in place of ids, and disk usage.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { run, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };
const ends = [];
let server, env;

const ask = async (method, path, body) => {
  const answer = await server.get(path, { method,
    ...(body ? { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } } : {}) });
  return { status: answer.status, ...(answer.status === 204 ? {} : await answer.json()) };
};
const cli = (...args) => run(args, { env });
const box = async (spec) => (await ask('POST', '/v1/sandboxes', { tier: 'memory', ...spec })).id;
const ids = async () => (await ask('GET', '/v1/sandboxes')).sandboxes.map(({ id }) => id).sort();

before(async () => {
  const t = { after: (call) => ends.push(call) }, home = tempDir(t);
  server = await serve(t);
  env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token, HOME: home, XDG_CONFIG_HOME: home };
});
after(async () => { for (const end of ends.reverse()) await end(); });

test('sandbox rm takes ids, names, labels and states', T, async () => {
  const [a, b, c, d, e, f] = await Promise.all([box(), box({ name: 'by name' }), box({ metadata: { team: 'red' } }),
    box({ metadata: { team: 'red', job: '7' } }), box({ metadata: { team: 'blue' } }), box()]);
  let out = await cli('sandbox', 'rm', a, 'by name', 'notthere');
  assert.equal(out.code, 1);
  assert.equal(out.stdout, `${a}\nby name\n`);
  assert.match(out.stderr, /^sandglass: no sandbox or session 'notthere'$/m);
  assert.deepEqual(await ids(), [c, d, e, f].sort());
  out = await cli('sandbox', 'rm', '--label', 'team=red', '--label', 'job=7', '--dry-run');
  assert.deepEqual([out.code, out.stdout, out.stderr], [0, `${d}\n`, '1 sandbox would be deleted\n']);
  out = await cli('sandbox', 'rm', '--label', 'team=red', '--json');
  assert.deepEqual(JSON.parse(out.stdout).deleted.sort(), [c, d].sort());
  await ask('POST', `/v1/sandboxes/${e}/stop`);
  assert.equal((await cli('sandbox', 'rm', '--all', '--state', 'stopped')).stdout, `${e}\n`);
  assert.deepEqual(await ids(), [f]);
  // Nothing by mistake.
  for (const words of [[], [f, '--all'], ['--label', 'team'], ['--older-than', 'soon']]) {
    out = await cli('sandbox', 'rm', ...words);
    assert.equal(out.code, 2, words.join(' '));
  }
  assert.equal((await cli('sandbox', 'rm', '--older-than', '1h')).stdout, '');
  assert.equal((await cli('sandbox', 'rm', '--all')).stdout, `${f}\n`);
  assert.deepEqual(await ids(), []);
});

test('prune deletes what is over', T, async () => {
  const [runs, stops, waits] = await Promise.all([box(), box(), box()]);
  await ask('POST', `/v1/sandboxes/${stops}/stop`);
  await ask('POST', `/v1/sandboxes/${waits}/pause`);
  assert.equal((await cli('prune', '--older-than', '7d')).stderr, '0 sandboxes deleted\n');
  assert.deepEqual(JSON.parse((await cli('prune', '--dry-run', '--json')).stdout), { wouldDelete: [stops], failed: 0 });
  assert.equal((await cli('prune')).stdout, `${stops}\n`);
  assert.match((await cli('prune', '--state', 'stoped')).stderr, /unknown state 'stoped'/);
  assert.equal((await cli('prune', '--state', 'paused')).stdout, `${waits}\n`);
  assert.deepEqual(await ids(), [runs]);
  await cli('sandbox', 'rm', runs);
});

test('volume rm takes names and labels, and leaves what is in use', T, async () => {
  const made = async (spec) => (await ask('POST', '/v1/volumes', { tier: 'memory', ...spec })).id;
  const kept = JSON.parse((await cli('volume', 'create', '--tier', 'memory', '--label', 'team=red', '--json')).stdout);
  assert.deepEqual(kept.metadata, { team: 'red' });
  const [a, b, used] = [await made({ name: 'my data' }), await made(), await made({ metadata: { team: 'red' } })];
  const user = await box({ volume: used });
  let out = await cli('volume', 'rm', 'my data', b);
  assert.equal(out.stdout, `my data\n${b}\n`, out.stderr);
  out = await cli('volume', 'rm', '--label', 'team=red');
  assert.equal(out.stdout, `${kept.id}\n`);
  out = await cli('volume', 'rm', used);
  assert.equal(out.code, 1);
  assert.match(out.stderr, /in use by sandbox/);
  assert.equal((await ask('GET', `/v1/volumes/${a}`)).status, 404);
  await cli('sandbox', 'rm', user);
  await cli('volume', 'rm', used);
});

test('a name stands for an id in paths, bodies and on the command line', T, async () => {
  const id = await box({ name: 'my box' });
  assert.equal((await ask('GET', '/v1/sandboxes/my%20box')).id, id);
  assert.deepEqual((await ask('GET', '/v1/sandboxes/my%20box/commands')).commands, []);
  assert.equal((await ask('POST', '/v1/sandboxes/my%20box/pause')).id, id);
  assert.equal(JSON.parse((await cli('sandbox', 'get', 'my box', '--json')).stdout).id, id);
  const second = await box({ name: 'my box' });
  const refused = await ask('DELETE', '/v1/sandboxes/my%20box');
  assert.deepEqual([refused.status, refused.error.code], [409, 'conflict']);
  for (const each of [id, second]) assert.ok(refused.error.message.includes(each), refused.error.message);
  assert.equal((await ask('GET', '/v1/sandboxes/nobody')).status, 404);
  assert.equal((await cli('sandbox', 'rm', id, second)).code, 0);
  // A fork has no name: its parent is still found by its own.
  const parent = await box({ name: 'parent' });
  const { sandboxes: [fork] } = await ask('POST', '/v1/sandboxes/parent/fork', {});
  assert.ok(!fork.name, JSON.stringify(fork));
  assert.equal((await ask('GET', '/v1/sandboxes/parent')).id, parent);
  assert.equal((await cli('sandbox', 'rm', parent, fork.id)).code, 0);
});

test('du shows disk usage by object', T, async (t) => {
  const made = await ask('POST', '/v1/sandboxes', { name: 'large', tier: 'jail' });
  if (made.status !== 201) return t.skip(made.error.message);
  const volume = await ask('POST', '/v1/volumes', { name: 'du volume', tier: 'jail' });
  const ran = await ask('POST', `/v1/sandboxes/${made.id}/commands`,
    { command: 'head -c 3000000 /dev/urandom > /home/sandbox/f; sync /home/sandbox/f; seq 1 1000' });
  assert.equal(ran.exitCode, 0, ran.stderr);
  const find = (answer, kind, id = null) => answer.items.find((item) => item.kind === kind && item.id === id);
  let answer;
  await until(async () => {
    answer = await ask('GET', '/v1/du');
    return find(answer, 'logs').bytes >= 3893 && (made.storage === 'memory' || find(answer, 'sandbox', made.id).bytes >= 3000000);
  });
  assert.equal(answer.totalBytes, answer.items.reduce((sum, { bytes }) => sum + bytes, 0));
  assert.deepEqual(answer.items.map(({ bytes }) => bytes), answer.items.map(({ bytes }) => bytes).sort((a, b) => b - a));
  assert.equal(find(answer, 'sandbox', made.id).name, 'large');
  assert.ok(find(answer, 'volume', volume.id).bytes > 0);
  assert.ok(find(answer, 'database').bytes > 0);
  assert.match((await cli('du')).stdout, /^BYTES +KIND +STATE +ID +NAME\n(.*\n)*.*sandbox +running +\S+ +large/);
  await cli('sandbox', 'rm', made.id);
  await cli('volume', 'rm', volume.id);
});
