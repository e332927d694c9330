// Keys of the server's sandboxes: used on the wire, seen nowhere; and the limits of their network.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { run, until } from './lib.mjs';
import { stage, timeout } from './sandbox_net_lib.mjs';

function clean(it, text, where) {
  for (const spelled of it.hidden) assert.ok(!String(text).includes(spelled), `${where} shows the value`);
}

// The disk of the sandboxes is a file of many GiB, mostly holes: tar reads only what is written.
function content(path) {
  if (statSync(path).size < 1 << 28) return readFileSync(path, 'latin1');
  const read = spawnSync('tar', ['--sparse', '--hole-detection=seek', '-cf', '-', path], { maxBuffer: 2 ** 30 });
  // 1: the file changed meanwhile, which the disk of a running server does.
  assert.ok(read.status === 0 || read.status === 1 || !existsSync(path), `tar of ${path}: ${read.error ?? read.stderr}`);
  return read.stdout.toString('latin1');
}

// What the server deletes meanwhile is passed over.
const unlessGone = (read, otherwise) => {
  try { return read(); } catch (error) { if (error.code !== 'ENOENT') throw error; return otherwise; }
};

function* filesBelow(dir) {
  for (const entry of unlessGone(() => readdirSync(dir, { withFileTypes: true }), [])) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else if (entry.isFile()) yield path;
  }
}

const fetchKey = (it, more = '') => `const r = await fetch('${it.url}/', { headers: { 'X-Api-Key': process.env.KEY${more} } }); await r.text()`;

test('a key given over HTTP goes to its host and comes back as a placeholder', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const jail = await it.create({ network: `allow ${it.at}, ok2.test:${it.other.port}`, secrets: [it.key()] });
  assert.equal(jail.status, 201, jail.text);
  assert.deepEqual(jail.secrets, [{ name: 'KEY', config: null, hosts: [it.at], headers: [] }]);
  for (const program of [`curl -sS -H "X-Api-Key: $KEY" ${it.url}/`,
    `python3 -c 'import os, urllib.request as u; print(u.urlopen(u.Request("${it.url}/", headers={"X-Api-Key": os.environ["KEY"]})).read().decode())'`]) {
    const got = await it.sh(jail.id, program);
    assert.match(got.stdout, /you sent sgs_/, got.text);
    assert.equal(it.tls.seen.at(-1).headers['x-api-key'], it.value);
    clean(it, got.text, program);
  }
  // Elsewhere it stays what it is.
  const away = await it.sh(jail.id, `curl -sSk -H "X-Api-Key: $KEY" https://ok2.test:${it.other.port}/`);
  assert.match(it.other.seen.at(-1).headers['x-api-key'], /^sgs_/, away.text);
  const isolate = await it.create({ tier: 'isolate', network: `allow ${it.at}`, secrets: [it.key()] });
  const ran = await it.run(isolate.id, fetchKey(it));
  assert.match(ran.text, /you sent sgs_/, ran.text);
  assert.equal(it.tls.seen.at(-1).headers['x-api-key'], it.value);
  const once = await it.call('POST', '/v1/run_code', { code: fetchKey(it), network: `allow ${it.at}`, secrets: [it.key()] });
  assert.match(once.text, /you sent sgs_/, once.text);
  clean(it, ran.text + once.text, 'an isolate');
  const bound = await it.create({ network: 'none', secrets: [it.key()] });
  assert.equal(bound.status, 400);
  assert.match(bound.error.message, /does not allow this host/);
});

test('programs that read no variables trust the authority of a sandbox that began with one', { timeout }, async (t) => {
  const it = await stage(t, { tiers: ['jail'] });
  if (it.skip) return t.skip(it.skip);
  if (!existsSync('/usr/bin/wget')) return t.skip('wget is not installed');
  const get = (id, url) => it.sh(id, `env -i PATH=/usr/bin:/bin KEY=$KEY sh -c 'wget -q -O - --header "X-Api-Key: $KEY" ${url}/'`);
  const other = `https://ok2.test:${it.other.port}`;
  const box = await it.create({ network: `allow ${it.at}, ok2.test:${it.other.port}`, secrets: [it.key()] });
  assert.match((await get(box.id, it.url)).stdout, /^you sent sgs_/);
  assert.equal(it.tls.seen.at(-1).headers['x-api-key'], it.value);
  // Another authority, and after that an earlier state of the files.
  const both = [it.key({ hosts: [it.at, `ok2.test:${it.other.port}`] })];
  assert.equal((await it.patch(box.id, { secrets: both })).status, 200);
  assert.match((await get(box.id, other)).stdout, /^you sent sgs_/);
  assert.equal((await it.call('POST', `/v1/sandboxes/${box.id}/checkpoints`, { name: 'mark' })).status, 201);
  assert.equal((await it.call('POST', `/v1/sandboxes/${box.id}/rollback`, { checkpoint: 'mark' })).status, 200);
  assert.match((await get(box.id, it.url)).stdout, /^you sent sgs_/);
  // Only theirs: another sandbox trusts the host's roots and nothing else.
  const plain = await it.create({ network: `allow ${it.at}` });
  const lines = async (id) => (await it.sh(id, 'grep -c BEGIN /etc/ssl/certs/ca-certificates.crt')).stdout.trim();
  assert.equal(Number(await lines(box.id)), Number(await lines(plain.id)) + 1);
  assert.notEqual((await it.sh(box.id, 'echo x >> /etc/ssl/certs/ca-certificates.crt')).exitCode, 0);
  // Its first key while it runs: the variables lead there at once, the system's file with a new jail.
  assert.equal((await it.patch(plain.id, { secrets: [it.key()] })).status, 200);
  assert.match((await it.sh(plain.id, `curl -sS -H "X-Api-Key: $KEY" ${it.url}/`)).stdout, /^you sent sgs_/);
  assert.notEqual((await get(plain.id, it.url)).exitCode, 0);
  assert.equal((await it.call('POST', `/v1/sandboxes/${plain.id}/checkpoints`, { name: 'now' })).status, 201);
  assert.equal((await it.call('POST', `/v1/sandboxes/${plain.id}/rollback`, { checkpoint: 'now' })).status, 200);
  assert.match((await get(plain.id, it.url)).stdout, /^you sent sgs_/);
  assert.equal((await it.call('DELETE', `/v1/sandboxes/${plain.id}`)).status, 204);
  assert.equal((await it.call('DELETE', `/v1/sandboxes/${box.id}`)).status, 204);
  await until(() => readdirSync(join(it.data, 'roots')).length === 0);
});

// SEC-05
test('a redirect to another host, port or scheme loses the key', { timeout }, async (t) => {
  const it = await stage(t, { answer: (got, response) => {
    if (got.query.has('to')) response.writeHead(302, { location: got.query.get('to') }).end();
    else response.end('end');
  } });
  if (it.skip) return t.skip(it.skip);
  const network = `allow ${it.at}, ${it.plainAt}, ok2.test:${it.other.port}`;
  const isolate = await it.create({ tier: 'isolate', network, secrets: [it.key()] });
  const jail = await it.create({ network, secrets: [it.key()] });
  for (const to of [`https://ok2.test:${it.other.port}/there`, `http://${it.plainAt}/there`]) {
    await it.run(isolate.id, `fetch('${it.url}/?to=${encodeURIComponent(to)}', { headers: { Authorization: 'Bearer ' + process.env.KEY } }).then((r) => r.text(), String)`);
    await it.sh(jail.id, `curl -sSLk -H "Authorization: Bearer $KEY" '${it.url}/?to=${encodeURIComponent(to)}'`);
  }
  assert.ok(it.tls.seen.some((got) => got.headers.authorization === `Bearer ${it.value}`), 'the control');
  for (const got of [...it.other.seen, ...it.plain.seen]) {
    clean(it, got.text, got.url);
    assert.equal(got.headers.authorization, undefined);
  }
});

// SEC-07
test('forks and restored sandboxes get placeholders of their own; old ones mean nothing', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const box = await it.create({ tier: 'isolate', network: `allow ${it.at}`, secrets: [it.key()] });
  const placeholder = async (id) => /sgs_[a-z0-9]+/.exec((await it.run(id, 'process.env.KEY')).text)?.[0];
  const first = await placeholder(box.id);
  assert.ok(first);
  assert.equal(await placeholder(box.id), first, 'it stays while the sandbox does');
  await it.run(box.id, 'globalThis.kept = process.env.KEY');
  const mark = await it.call('POST', `/v1/sandboxes/${box.id}/checkpoints`, { name: 'mark' });
  assert.equal(mark.status, 201, mark.text);
  const fork = await it.call('POST', `/v1/sandboxes/${box.id}/fork`, { count: 2 });
  const seen = new Set([first]);
  for (const { id } of fork.sandboxes) {
    const own = await placeholder(id);
    assert.ok(own && !seen.has(own));
    seen.add(own);
    const old = await it.run(id, fetchKey(it).replaceAll('process.env.KEY', 'kept'));
    assert.equal(it.tls.seen.at(-1).headers['x-api-key'], first, old.text);
  }
  await it.call('POST', `/v1/sandboxes/${box.id}/rollback`, { checkpoint: 'mark' });
  const rolled = await placeholder(box.id);
  assert.ok(rolled && !seen.has(rolled));
  seen.add(rolled);
  await it.call('POST', `/v1/sandboxes/${box.id}/pause`);
  const resumed = await placeholder(box.id);
  assert.ok(resumed && !seen.has(resumed));
  await it.run(box.id, fetchKey(it).replaceAll('process.env.KEY', 'kept'));
  assert.equal(it.tls.seen.at(-1).headers['x-api-key'], first, 'what the image held is not replaced');
  const good = await it.run(box.id, fetchKey(it));
  assert.equal(it.tls.seen.at(-1).headers['x-api-key'], it.value, good.text);
});

// SEC-07 for jails: what goes on from an earlier state, or beside it.
test('forks, rollbacks, resumed jails and snapshots have no live placeholder and no value', { timeout }, async (t) => {
  const it = await stage(t, { tiers: ['jail'] });
  if (it.skip) return t.skip(it.skip);
  const network = `allow ${it.at}`;
  const box = await it.create({ tier: 'jail', network, secrets: [it.key()] });
  assert.equal(box.status, 201, box.text);
  const key = async (id) => (await it.sh(id, 'printf %s "$KEY"')).stdout;
  const send = async (id, text) => {
    const got = await it.sh(id, `curl -sS -H "X-Api-Key: ${text}" ${it.url}/`);
    assert.equal(got.exitCode, 0, got.text);
    return it.tls.seen.at(-1).headers['x-api-key'];
  };
  const first = await key(box.id), seen = new Set([first]);
  assert.match(first, /^sgs_/);
  assert.equal(await send(box.id, '$KEY'), it.value, 'the control');
  // Kept where images and snapshots keep it.
  await it.sh(box.id, 'printf %s "$KEY" > /home/sandbox/kept; printf %s "$KEY" > /workspace/kept');
  const fresh = async (id, what) => {
    const own = await key(id);
    assert.match(own, /^sgs_/, what);
    assert.ok(!seen.has(own), `${what} has a placeholder of its own`);
    seen.add(own);
    assert.equal(await send(id, '$KEY'), it.value, what);
    assert.equal(await send(id, first), first, `${what}: an old one means nothing`);
  };
  const mark = await it.call('POST', `/v1/sandboxes/${box.id}/checkpoints`, { name: 'mark' });
  assert.equal(mark.status, 201, mark.text);
  const fork = await it.call('POST', `/v1/sandboxes/${box.id}/fork`, { count: 1 });
  assert.ok(fork.sandboxes, fork.text);
  await fresh(fork.sandboxes[0].id, 'a fork');
  assert.equal(await send(box.id, first), it.value, 'the first one goes on meanwhile');
  const taken = await it.call('POST', '/v1/snapshots', { sandbox: box.id });
  assert.equal(taken.status, 201, taken.text);
  const restored = await it.create({ tier: 'jail', network, secrets: [it.key()], snapshots: [taken.id] });
  assert.equal(restored.status, 201, restored.text);
  assert.equal((await it.sh(restored.id, 'cat /home/sandbox/kept')).stdout, first, 'the snapshot has the file');
  await fresh(restored.id, 'a sandbox on the snapshot');
  const without = await it.create({ tier: 'jail', network, snapshots: [taken.id] });
  assert.equal((await it.sh(without.id, 'echo "[$KEY]"')).stdout, '[]\n');
  assert.equal((await it.call('POST', `/v1/sandboxes/${box.id}/rollback`, { checkpoint: 'mark' })).status, 200);
  await fresh(box.id, 'a rollback');
  // A pause goes on with the same processes, a restart with the image.
  it.server.child.kill('SIGTERM');
  await it.server.exit;
  await it.start();
  await fresh(box.id, 'a restart');
  for (const path of filesBelow(it.data)) clean(it, unlessGone(() => content(path), ''), path);
});

// SEC-08
test('no answer and no message repeats a value', { timeout }, async (t) => {
  const it = await stage(t, { tiers: ['isolate'] });
  if (it.skip) return t.skip(it.skip);
  const v = it.value, network = `allow ${it.at}`;
  const wrong = [{ secrets: v }, { secrets: { [v]: v } }, { secrets: [v] }, { secrets: [{ name: v }] }, { secrets: [{ [v]: 1 }] },
    { secrets: [it.key({ name: v + '!' })] }, { secrets: [it.key({ hosts: [v] })] }, { secrets: [it.key({ hosts: v })] },
    { secrets: [it.key({ hosts: [`*.${v}`] })] }, { secrets: [it.key({ headers: [v + ' x'] })] }, { secrets: [it.key({ headers: [`host`] })] },
    { secrets: [{ config: v }] }, { secrets: [it.key({ config: 'x' })] }, { secrets: [it.key(), it.key()] }, { secrets: [it.key({ value: v + '\n' + v })] },
    { secrets: [it.key({ value: v + '\u00e4' })] }, { secrets: [it.key({ value: v.repeat(400) })] }, { secrets: [it.key({ hosts: [] })] },
    { secrets: [it.key()], network: 'none' }, { secrets: [it.key()], tier: 'nothing' }, { secrets: [it.key()], limits: { pids: -1 } }];
  const box = await it.create({ tier: 'isolate', network, secrets: [it.key()] });
  assert.equal(box.status, 201, box.text);
  for (const body of wrong) {
    for (const answered of [await it.create({ tier: 'isolate', network, ...body }), await it.patch(box.id, body),
      await it.call('POST', '/v1/run_code', { code: '1', network, ...body })]) {
      assert.ok(answered.status === 400, `${JSON.stringify(Object.keys(body))} ${answered.status} ${answered.text}`);
      clean(it, answered.text, JSON.stringify(Object.keys(body)));
    }
  }
  const broken = await it.server.get('/v1/sandboxes', { method: 'POST', headers: { 'content-type': 'application/json' }, body: `{"secrets": [{"value": "${v}" "name"` });
  clean(it, await broken.text(), 'a body that is no JSON');
  for (const path of [`/v1/sandboxes/${box.id}`, '/v1/sandboxes', '/metrics', '/openapi.json'])
    clean(it, (await it.call('GET', path)).text, path);
  // For another host the value has to be given again.
  const moved = await it.patch(box.id, { network: 'allow evil.test', secrets: [{ name: 'KEY', hosts: ['evil.test'] }] });
  assert.equal(moved.status, 400, moved.text);
  const kept = await it.patch(box.id, { secrets: [{ name: 'KEY', hosts: [it.at] }] });
  assert.equal(kept.status, 200, kept.text);
  clean(it, it.server.stderr, 'the log');
});

test('a key is exchanged while a program holds its placeholder, and taken away', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const next = 'next_' + randomBytes(16).toString('hex');
  for (const tier of ['jail', 'isolate']) {
    const box = await it.create({ tier, network: `allow ${it.at}` });
    const key = async () => tier === 'jail' ? (await it.sh(box.id, 'echo $KEY')).stdout.trim()
      : /sgs_[a-z0-9]+/.exec((await it.run(box.id, 'String(process.env.KEY)')).text)?.[0] ?? '';
    const send = (text) => tier === 'jail' ? it.sh(box.id, `curl -sSk -H "X-Api-Key: ${text}" ${it.url}/`)
      : it.run(box.id, `(await fetch('${it.url}/', { headers: { 'X-Api-Key': '${text}' } })).text()`);
    assert.equal(await key(), '');
    const given = await it.patch(box.id, { secrets: [it.key()] });
    assert.equal(given.status, 200, given.text);
    const held = await key();
    assert.match(held, /^sgs_/);
    await send(held);
    assert.equal(it.tls.seen.at(-1).headers['x-api-key'], it.value);
    assert.equal((await it.patch(box.id, { secrets: [it.key({ value: next })] })).status, 200);
    assert.equal(await key(), held);
    await send(held);
    assert.equal(it.tls.seen.at(-1).headers['x-api-key'], next);
    assert.equal((await it.patch(box.id, { secrets: [] })).status, 200);
    await send(held);
    assert.equal(it.tls.seen.at(-1).headers['x-api-key'], held);
  }
});

// SEC-01 for the server: everything that it writes and shows.
test('a sweep finds the value nowhere, also after a crash and a restart', { timeout }, async (t) => {
  const it = await stage(t, { env: { SG_CONFIGURED: 'x' }, config: (stage) => `[secrets.example]\nfrom = "env:SG_CONFIGURED_KEY"\nhosts = ["ok.test:${stage.tls.port}"]\nvariable = "OWN"\n` });
  if (it.skip) return t.skip(it.skip);
  const events = await it.events();
  const jail = await it.create({ network: `allow ${it.at}`, secrets: [it.key()] });
  const isolate = await it.create({ tier: 'isolate', network: `allow ${it.at}`, secrets: [it.key()] });
  const session = await it.call('POST', '/v1/sessions', { sandbox: { tier: 'isolate', network: `allow ${it.at}`, secrets: [it.key()] } });
  assert.equal(session.status, 201, session.text);
  assert.match((await it.call('POST', `/v1/sessions/${session.id}/run_code`, { code: fetchKey(it) })).text, /you sent sgs_/);
  const unset = await it.create({ tier: 'isolate', network: `allow ${it.at}`, secrets: [{ config: 'example' }] });
  assert.match(unset.error.message, /environment has no/, unset.text);
  await it.sh(jail.id, `curl -sSv -H "X-Api-Key: $KEY" ${it.url}/`);
  await it.run(isolate.id, `${fetchKey(it)}; globalThis.it = process.env.KEY`);
  const inside = await it.sh(jail.id, 'env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr "\\0" "\\n"; cat /proc/self/maps; find / -xdev -type f -readable -size -200k -newer /proc/1/stat 2>/dev/null | head -500 | xargs cat 2>/dev/null | strings', { timeoutMs: 60000 });
  clean(it, inside.text, 'the inside');
  const taken = await it.call('POST', '/v1/snapshots', { sandbox: jail.id });
  assert.equal(taken.status, 201, taken.text);
  const exported = Buffer.from(await (await it.server.get(`/v1/snapshots/${taken.id}/export`)).arrayBuffer());
  assert.ok(exported.length > 0);
  clean(it, exported.toString('latin1'), 'an export');
  const unpacked = spawnSync('zstd', ['-dc'], { input: exported, maxBuffer: 1 << 28 });
  if (unpacked.status === 0) clean(it, unpacked.stdout.toString('latin1'), 'an export, unpacked');
  for (const answered of [taken, await it.call('POST', `/v1/sandboxes/${jail.id}/checkpoints`, { name: 'b' }),
    await it.call('POST', `/v1/sandboxes/${isolate.id}/checkpoints`, { name: 'a' }), await it.call('POST', `/v1/sandboxes/${isolate.id}/pause`),
    await it.call('GET', '/v1/sandboxes'), await it.call('GET', '/v1/sessions')]) clean(it, answered.text, 'an answer');
  clean(it, JSON.stringify(events), 'the events');
  const sweep = (when) => {
    clean(it, it.server.stderr, `the log ${when}`);
    for (const path of filesBelow(it.data)) clean(it, unlessGone(() => content(path), ''), `${path} ${when}`);
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
      for (const file of ['environ', 'cmdline'])
        try { clean(it, readFileSync(`/proc/${pid}/${file}`, 'latin1'), `/proc/${pid}/${file}`); } catch (error) { if (error.code === 'ERR_ASSERTION') throw error; }
  };
  sweep('while it runs');
  const key = statSync(join(it.data, 'secrets.key'));
  assert.equal(key.mode & 0o777, 0o600);
  assert.match(it.server.stderr, /level=debug/, 'the log is at its most talkative');
  // Every process that has a value dies with core files allowed: the gate's processes, then the server.
  const before = new Set([...readdirSync(it.dir), ...readdirSync('.')]);
  const family = execFileSync('ps', ['-o', 'pid=,args=', '--ppid', String(it.server.child.pid)], { encoding: 'utf8' }).split('\n')
    .filter((line) => line.includes('sandglass-gateway')).map((line) => parseInt(line, 10));
  assert.ok(family.length > 0, 'the gate runs');
  const workers = family.flatMap((pid) => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number));
  for (const pid of [...workers, ...family, it.server.child.pid]) {
    spawnSync('prlimit', ['--core=unlimited', '--pid', String(pid)]);
    process.kill(pid, 'SIGSEGV');
  }
  await it.server.exit;
  for (const name of [...readdirSync(it.dir), ...readdirSync('.')])
    assert.ok(before.has(name) || !/core/.test(name), `a core file: ${name}`);
  sweep('after a crash');
  await it.start();
  sweep('after the next start');
  // What was acknowledged works again: the sealed value opens.
  const again = await it.run(isolate.id, fetchKey(it));
  assert.match(again.text, /you sent sgs_/, again.text);
  assert.equal(it.tls.seen.at(-1).headers['x-api-key'], it.value);
});

test('a key of the configuration is given by name, to whom it is for', { timeout }, async (t) => {
  const own = 'conf_' + randomBytes(16).toString('hex');
  const it = await stage(t, { tiers: ['isolate'], env: { SG_CONFIGURED_KEY: own }, config: (stage) => `[secrets.example]\nfrom = "env:SG_CONFIGURED_KEY"\nhosts = ["ok.test:${stage.tls.port}"]\nvariable = "KEY"\ntenants = ["red"]\n` });
  if (it.skip) return t.skip(it.skip);
  const box = await it.create({ tier: 'isolate', network: `allow ${it.at}`, secrets: [{ config: 'example' }] });
  assert.equal(box.status, 201, box.text);
  assert.equal(box.secrets[0].config, 'example');
  await it.run(box.id, fetchKey(it));
  assert.equal(it.tls.seen.at(-1).headers['x-api-key'], own);
  for (const [tenant, status] of [['red', 201], ['blue', 400]]) {
    const token = await it.call('POST', '/v1/tokens', { tenant, scopes: ['read', 'run'] });
    const made = await it.server.get('/v1/sandboxes', { method: 'POST', headers: { 'content-type': 'application/json', authorization: `Bearer ${token.token}` },
      body: JSON.stringify({ tier: 'isolate', network: `allow ${it.at}`, secrets: [{ config: 'example' }] }) });
    assert.equal(made.status, status, await made.text());
  }
});

test('the command line makes and changes them', { timeout }, async (t) => {
  const it = await stage(t);
  if (it.skip) return t.skip(it.skip);
  const env = { ...process.env, SANDGLASS_URL: it.server.url, SANDGLASS_TOKEN: it.server.token, SG_CANARY: it.value };
  const made = await run(['sandbox', 'create', '--json', '--allow-host', it.at, '--secret', `KEY=env:SG_CANARY@${it.at}`, '--net-total', '10m'], { env });
  assert.equal(made.code, 0, made.stderr);
  const box = JSON.parse(made.stdout);
  assert.equal(box.limits.netBytesTotal, 10 << 20);
  await it.sh(box.id, `curl -sS -H "X-Api-Key: $KEY" ${it.url}/`);
  assert.equal(it.tls.seen.at(-1).headers['x-api-key'], it.value);
  const changed = await run(['sandbox', 'update', box.id, '--json', '--network', 'none', '--no-secrets'], { env });
  assert.equal(changed.code, 0, changed.stderr);
  assert.equal(JSON.parse(changed.stdout).network, 'none');
  assert.deepEqual(JSON.parse(changed.stdout).secrets, []);
  clean(it, made.stdout + made.stderr + changed.stdout + changed.stderr, 'the command line');
  assert.notEqual((await run(['sandbox', 'update', box.id], { env })).code, 0);
});
