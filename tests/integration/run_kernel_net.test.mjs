// `sandglass run --runtime` with a network: cells reach what --allow-host names and use keys that they never see, as
// commands of `sandglass exec` do.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { run, tempDir } from './lib.mjs';
import { OPENSSL, makeCerts, nameServer, server, spellings } from './net.mjs';

const timeout = 600_000;

function answer(got, response) {
  response.writeHead(200, { 'content-type': 'text/plain' });
  response.end(got.path === '/long' ? 'x'.repeat(1 << 20) : `you sent ${got.headers.authorization ?? 'nothing'}`);
}

async function setup(t) {
  if (!OPENSSL) return { skip: 'openssl is not installed' };
  const dir = tempDir(t), certs = makeCerts(dir, ['ok.test']);
  const value = 'cnry_' + randomBytes(16).toString('hex');
  const tls = await server(t, answer, certs), plain = await server(t, answer);
  const dns = await nameServer(t, { 'ok.test': '127.0.0.1' });
  const config = join(dir, 'config.toml');
  writeFileSync(config, `[egress]\ndns_servers = ["${dns.address}"]\nca_file = "${certs.ca}"\n` +
    `private = ["ok.test=127.0.0.1:${tls.port}", "ok.test=127.0.0.1:${plain.port}"]\n`);
  const env = { ...process.env, SANDGLASS_HOME: join(dir, 'home'), SG_CANARY: value };
  const added = join(process.env.SG_RUNTIMES ?? '/nowhere', 'runtimes'); // what the set-up has added
  mkdirSync(env.SANDGLASS_HOME);
  if (existsSync(added)) symlinkSync(added, join(env.SANDGLASS_HOME, 'runtimes'));
  const stage = { dir, value, tls, plain, https: `https://ok.test:${tls.port}`, http: `http://ok.test:${plain.port}` };
  stage.allow = [tls, plain].flatMap(({ port }) => ['--allow-host', `ok.test:${port}`]);
  stage.secret = ['--secret', `KEY=env:SG_CANARY@ok.test:${tls.port}`];
  stage.raw = async (runtime, code, ...options) => {
    const ran = await run(['run', '--config', config, '--runtime', runtime, '--timeout', '60000', ...options, '-e', code], { env });
    for (const spelled of spellings(value)) assert.ok(!(ran.stdout + ran.stderr).includes(spelled), 'the value came out');
    return ran;
  };
  stage.cell = async (...given) => {
    const ran = await stage.raw(...given, '--json');
    assert.notEqual(ran.stdout, '', ran.stderr);
    return JSON.parse(ran.stdout);
  };
  stage.received = () => [tls, plain].flatMap((one) => one.seen.map((got) => got.text)).join('\n');
  const control = await stage.raw('bash', 'true', ...stage.allow, ...stage.secret);
  if (control.code !== 0) stage.skip = `no kernel in a jail with a gateway here: ${control.stderr}`;
  return stage;
}

const scene = (title, play) => test(title, { timeout }, async (t) => {
  const stage = await setup(t);
  return stage.skip ? t.skip(stage.skip) : play(stage, t);
});

const cells = {
  python3: (url) => `import os, urllib.request as u
u.urlopen(u.Request("${url}/", headers={"Authorization": "Bearer " + os.environ["KEY"]})).read().decode()`,
  node24: (url) => `const got = await fetch("${url}/", { headers: { authorization: "Bearer " + process.env.KEY } }); await got.text()`,
  deno: (url) => `const got = await fetch("${url}/", { headers: { authorization: "Bearer " + Deno.env.get("KEY") } }); await got.text()`,
  bash: (url) => `curl -sS -H "Authorization: Bearer $KEY" ${url}/`,
};

for (const [runtime, code] of Object.entries(cells))
  scene(`${runtime}: a cell uses the key, and sees the placeholder`, async (stage, t) => {
    const ran = await stage.raw(runtime, code(stage.https), ...stage.allow, ...stage.secret, '--json');
    if (/is not on this machine/.test(ran.stderr)) return t.skip(ran.stderr.trim());
    const json = JSON.parse(ran.stdout);
    assert.equal(json.success, true, ran.stdout);
    assert.match(runtime === 'bash' ? json.stdout : json.result, /^you sent Bearer sgs_[a-z0-9]{32}$/);
    assert.ok(stage.received().includes(`Bearer ${stage.value}`), 'the host got the key');
    assert.deepEqual(json.blocked, []);
  });

scene('over plain http a placeholder stays one', async (stage) => {
  const json = await stage.cell('python3', cells.python3(stage.http), ...stage.allow, ...stage.secret);
  assert.match(json.result, /^you sent Bearer sgs_/, JSON.stringify(json.error));
  assert.ok(!stage.received().includes(stage.value));
});

scene('a host that is not named is refused, with a word for both sides', async (stage) => {
  const code = `import urllib.request as u
try: u.urlopen("http://other.test/")
except u.HTTPError as e: print(e.code, e.headers["X-Sandglass-Refused"])`;
  const json = await stage.cell('python3', code, ...stage.allow);
  assert.match(json.stdout, /^403 \S+\n$/, JSON.stringify(json));
  assert.deepEqual(json.blocked.map(({ host, port }) => [host, port]), [['other.test', 80]]);
  const told = await stage.raw('python3', code, ...stage.allow);
  assert.match(told.stderr, /^sandglass: blocked other\.test:80/m);
});

scene('without --allow-host there is no network, and a secret has nowhere to go', async (stage) => {
  const none = await stage.cell('python3', `import urllib.request as u\nu.urlopen("${stage.http}/")`);
  assert.equal(none.success, false);
  assert.match(none.error.message, /403.*this sandbox has no network.*--allow-host/);
  assert.deepEqual(none.blocked.map(({ reason }) => reason), ['policy_none']);
  const lost = await stage.raw('python3', '1', ...stage.secret);
  assert.notEqual(lost.code, 0);
  assert.match(lost.stderr, /--allow-host/);
  assert.equal(stage.received(), '');
});

scene('limits of the network hold', async (stage) => {
  const code = `import urllib.request as u\nlen(u.urlopen("${stage.http}/long").read())`;
  const whole = await stage.cell('python3', code, ...stage.allow);
  assert.equal(whole.result, 1 << 20, JSON.stringify(whole.error));
  const cut = await stage.cell('python3', code, ...stage.allow, '--net-total', '64k');
  assert.equal(cut.success, false);
});
