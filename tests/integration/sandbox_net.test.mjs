// Sandboxes of the server and the one gate out: policies, ports, groups, changes while they run.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';
import { until } from './lib.mjs';
import { stage, timeout } from './sandbox_net_lib.mjs';

test('a jail reaches what its policy names, on its port, and nothing else', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const box = await it.create({ network: `allow ${it.plainAt}; deny denied.ok.test` });
  assert.equal(box.status, 201, box.text);
  const url = `http://${it.plainAt}/x`;
  const proxied = await it.sh(box.id, `curl -sS ${url}`);
  assert.equal(proxied.stdout, 'plain /x\n', proxied.text);
  const captured = await it.sh(box.id, `env -i PATH=/usr/bin:/bin curl -sS ${url}`);
  assert.equal(captured.stdout, 'plain /x\n', captured.text);
  const refused = await it.sh(box.id, `curl -sS http://evil.test:${it.evil.port}/; curl -sS -o /dev/null -w '%{http_code}' http://evil.test/`);
  assert.match(refused.stdout + refused.stderr, /403/, refused.text);
  assert.equal(it.evil.seen.length, 0);
  assert.ok(!it.dns.asked.includes('evil.test'), 'a query left for a host that is not allowed');
  const offline = await it.create({});
  for (const command of [`curl -sSf ${url}`, `env -i PATH=/usr/bin:/bin curl -sSf ${url}`]) {
    const none = await it.sh(offline.id, command);
    assert.notEqual(none.exitCode, 0, none.text);
  }
});

test('bytes through the gateway are counted for a sandbox and for the server', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const used = async (id) => (await it.call('GET', `/v1/sandboxes/${id}/usage`)).network.bytes;
  const all = () => it.server.figure('sandglass_network_bytes_total');
  const [box, other] = [await it.create({ network: `allow ${it.plainAt}` }), await it.create({ network: `allow ${it.plainAt}` })];
  assert.deepEqual([await used(box.id), await all()], [0, 0]);
  const sent = await it.sh(box.id, `head -c 300000 /dev/zero | curl -sS --data-binary @- http://${it.plainAt}/sent`);
  assert.equal(sent.stdout, 'plain /sent\n', sent.text);
  await until(async () => (await used(box.id)) >= 300000 && (await all()) >= 300000);
  assert.ok((await used(box.id)) < 400000);
  assert.equal(await used(other.id), 0, "another sandbox's");
});

test('an isolate goes through the same gate', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const box = await it.create({ tier: 'isolate', network: `allow ${it.plainAt}` });
  const good = await it.run(box.id, `(await fetch('http://${it.plainAt}/x')).text()`);
  assert.match(good.text, /plain \/x/, good.text);
  const bad = await it.run(box.id, `(await fetch('http://evil.test:${it.evil.port}/')).text()`);
  assert.match(bad.text, /network policy/, bad.text);
  await it.patch(box.id, { network: 'none' });
  const after = await it.run(box.id, `(await fetch('http://${it.plainAt}/x')).text()`);
  assert.ok(!after.text.includes('plain /x'), after.text);
});

test('a policy changes while the sandbox runs: from none to a network, to other hosts, and back', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const box = await it.create({});
  const plain = `curl -sSf --max-time 20 http://${it.plainAt}/x`;
  assert.notEqual((await it.sh(box.id, plain)).exitCode, 0);
  // A program that began without a network finds it: no variables, no restart.
  const early = await it.server.get(`/v1/sandboxes/${box.id}/commands`, { method: 'POST', headers: { 'content-type': 'application/json', accept: 'application/x-ndjson' },
    body: JSON.stringify({ command: `for i in $(seq 300); do ${plain} 2>/dev/null && exit 0; sleep 0.1; done; exit 9` }) });
  const changed = await it.patch(box.id, { network: `allow ${it.plainAt}` });
  assert.equal(changed.status, 200, changed.text);
  assert.match((await early.text()), /plain \/x/);
  assert.equal((await it.sh(box.id, plain)).stdout, 'plain /x\n');
  await it.patch(box.id, { network: `allow ok2.test:${it.other.port}` });
  assert.notEqual((await it.sh(box.id, `env -i PATH=/usr/bin:/bin ${plain}`)).stdout, 'plain /x\n');
  await it.patch(box.id, { network: 'none' });
  assert.notEqual((await it.sh(box.id, plain)).stdout, 'plain /x\n');
  await it.patch(box.id, { network: `allow ${it.plainAt}` });
  assert.equal((await it.sh(box.id, plain)).stdout, 'plain /x\n');
});

test('a change cuts connections that it does not allow', { timeout }, async (t) => {
  const it = await stage(t, { answer: (got, response) => response.write('begun\n') });
  if (it.skip) return t.skip(it.skip);
  const box = await it.create({ network: `allow ${it.at}` });
  const hanging = it.server.get(`/v1/sandboxes/${box.id}/commands`, { method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ command: `curl -sSNk ${it.url}/; echo over $?`, timeoutMs: 300000 }) });
  await until(() => it.tls.seen.length > 0);
  await it.patch(box.id, { network: 'none' });
  const ended = await (await hanging).json();
  assert.match(ended.stdout, /over [1-9]/, JSON.stringify(ended));
});

test('a port that a program inside has taken is named', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const box = await it.create({});
  const script = `python3 -c "
import socket, sys
s = socket.socket(); s.bind(('0.0.0.0', ${it.plain.port})); s.listen(); print('ready', flush=True); sys.stdin.read()"`;
  const begun = await it.sh(box.id, `(sleep 6000 | ${script} > /tmp/out 2>&1 &); until grep ready /tmp/out; do sleep 0.1; done`);
  assert.equal(begun.stdout, 'ready\n', begun.text);
  const refused = await it.patch(box.id, { network: `allow ${it.plainAt}` });
  assert.ok(refused.status >= 400, refused.text);
  assert.match(refused.error.message, new RegExp(`port ${it.plain.port}`), refused.text);
  const now = await it.call('GET', `/v1/sandboxes/${box.id}`);
  assert.equal(now.network, 'none');
});

test('without a network programs get an error at once that says how to get one', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const events = await it.events();
  const box = await it.create({});
  // Three at once, of which one connects first; captured ones are answered from then on.
  const urls = ['http://evil.test/', 'https://www.evil.test/', 'http://ok2.test/'];
  const told = await Promise.all(urls.map((url) => it.sh(box.id, `curl -sSv ${url} 2>&1`)));
  for (const each of told)
    assert.match(each.stdout, /403 Forbidden: blocked \S+: this sandbox has no network: .*--allow-host.*network/, each.text);
  const blocked = () => events.filter((each) => each.event === 'network.blocked');
  await until(() => blocked().length >= 3);
  assert.deepEqual([...new Set(blocked().map((each) => each.data.state))], ['policy_none']);
  assert.match(blocked()[0].data.detail, /^blocked \S+ by policy: this sandbox has no network/);
  const kernel = await it.run(box.id, 'curl -sS http://evil.test/', { language: 'bash' });
  assert.match(kernel.text, /this sandbox has no network/, kernel.text);
  const asked = it.dns.asked.filter((name) => /evil|ok2/.test(name));
  assert.deepEqual([it.evil.seen.length, asked], [0, []]);
  // One that came from the pool after it, and the same one with a network.
  assert.match((await it.sh((await it.create({})).id, 'curl -sS http://evil.test/')).stdout, /policy_none/);
  assert.equal((await it.patch(box.id, { network: `allow ${it.plainAt}` })).status, 200);
  assert.equal((await it.sh(box.id, `curl -sSf http://${it.plainAt}/x`)).stdout, 'plain /x\n');
});

test('a first connection and a change of the policy at the same time', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  for (let i = 0; i < 8; i++) {
    const box = await it.create({});
    const knock = it.sh(box.id, 'curl -sS http://evil.test/');
    const change = await it.patch(box.id, { network: `allow ${it.plainAt}` });
    assert.equal(change.status, 200, change.text);
    assert.match((await knock).stdout, /policy_none|host_not_allowed/);
    assert.equal((await it.sh(box.id, `curl -sSf http://${it.plainAt}/x`)).stdout, 'plain /x\n');
    await it.call('DELETE', `/v1/sandboxes/${box.id}`);
  }
});

test('what was blocked is an event and a log line, once per host', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const events = await it.events();
  const jail = await it.create({ network: `allow ${it.plainAt}` });
  const isolate = await it.create({ tier: 'isolate', network: `allow ${it.plainAt}` });
  for (let i = 0; i < 3; i++) {
    await it.sh(jail.id, 'curl -sS https://evil.test/; curl -sS http://www.evil.test/');
    await it.run(isolate.id, `fetch('https://evil.test/').catch(String)`);
  }
  const blocked = () => events.filter((each) => each.event === 'network.blocked');
  await until(() => blocked().length >= 3);
  const of = (id) => blocked().filter((each) => each.data.sandbox === id).map((each) => each.data.detail);
  assert.match(of(jail.id)[0], /^blocked evil\.test:443 by policy/);
  assert.equal(of(jail.id).length, 2, of(jail.id).join('\n'));
  assert.equal(of(isolate.id).length, 1);
  assert.equal(blocked()[0].data.state, 'host_not_allowed');
  const lines = () => it.server.stderr.split('\n').filter((line) => line.includes('network.blocked') && line.includes('evil.test:443'));
  await until(() => lines().length >= 2);
  assert.equal(lines().length, 2, lines().join('\n'));
  // A sandbox that tries every name gets reports of some, then no more.
  await it.sh(jail.id, 'for i in $(seq 300); do echo "url = http://h$i.test/"; done > /tmp/c; curl -sS -K /tmp/c -o /dev/null 2>/dev/null; true', { timeoutMs: 300000 });
  await until(() => of(jail.id).some((line) => /they are not reported/.test(line)));
  assert.ok(of(jail.id).length <= 257);
});

test('groups stand for the registries of the server', { timeout }, async (t) => {
  const home = {};
  const it = await stage(t, { env: home, names: { 'npm.test': '127.0.0.1' } });
  if (it.skip) return t.skip(it.skip);
  const none = await it.create({ network: 'allow npm' });
  if (none.status !== 201) assert.match(none.error.message, /group 'npm'.*registry/, none.text);
  home.npm_config_registry = `http://npm.test:${it.plain.port}/reg/`;
  await it.call('GET', '/v1/sandboxes');
  it.server.child.kill('SIGTERM');
  await it.server.exit;
  await it.start();
  // The first word of a group may come when a sandbox runs already: that waits for it, too.
  const late = await it.create({ network: `allow ${it.plainAt}` });
  const named = await it.patch(late.id, { network: 'allow npm' });
  assert.equal(named.status, 200, named.text);
  assert.equal((await it.sh(late.id, 'curl -sS $npm_config_registry')).stdout, 'plain /reg/\n');
  const box = await it.create({ network: 'allow npm' });
  assert.equal(box.status, 201, box.text);
  assert.equal(box.network, 'allow npm');
  const got = await it.sh(box.id, 'curl -sS $npm_config_registry');
  assert.equal(got.stdout, 'plain /reg/\n', got.text);
  const other = await it.sh(box.id, `curl -sS http://${it.plainAt}/`);
  assert.match(other.stdout, /not_allowed/, other.text);
});

test('the gateway dies and sandboxes get another', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const box = await it.create({ network: `allow ${it.plainAt}` });
  const get = `curl -sS --max-time 5 http://${it.plainAt}/x`;
  const offline = await it.create({});
  assert.match((await it.sh(offline.id, get)).stdout, /policy_none/);
  assert.equal((await it.sh(box.id, get)).stdout, 'plain /x\n');
  const spawners = readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith('sandglass-gateway')
        && readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1].split(' ')[1] === String(it.server.child.pid);
    } catch { return false; }
  });
  assert.equal(spawners.length, 1, `${spawners}`);
  process.kill(Number(spawners[0]), 'SIGKILL');
  await until(async () => (await it.sh(box.id, get)).stdout === 'plain /x\n');
  await until(async () => /policy_none/.test((await it.sh(offline.id, get)).stdout));
});
