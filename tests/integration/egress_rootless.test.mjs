// The network of `sandglass exec` and `run` for a user without privileges: when the tests run as root, nobody (65534);
// else the user who runs them. It has no cgroups, so limits of memory and cpu are declined by name.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, copyFileSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, run, tempDir } from './lib.mjs';
import { OPENSSL, makeCerts, nameServer, server, spellings } from './net.mjs';

const timeout = 600_000;
const NOBODY = 65534, amRoot = process.getuid() === 0;

const answer = (got, response) => response.end(`you sent ${got.headers.authorization ?? 'nothing'}`);

async function setup(t) {
  if (!OPENSSL) return { skip: 'openssl is not installed' };
  const dir = tempDir(t), certs = makeCerts(dir, ['ok.test']), home = join(dir, 'home'), tmp = join(dir, 'tmp');
  const value = 'cnry_' + randomBytes(16).toString('hex');
  const tls = await server(t, answer, certs), plain = await server(t, answer);
  const dns = await nameServer(t, { 'ok.test': '127.0.0.1' });
  // The build tree may lie where only root may look.
  const bin = join(dir, 'sandglass'), config = join(dir, 'config.toml');
  copyFileSync(BIN, bin);
  writeFileSync(config, `[egress]\ndns_servers = ["${dns.address}"]\nca_file = "${certs.ca}"\n` +
    `private = ["ok.test=127.0.0.1:${tls.port}", "ok.test=127.0.0.1:${plain.port}"]\n`);
  for (const path of [dir, bin]) chmodSync(path, 0o755);
  for (const path of [certs.ca, config]) chmodSync(path, 0o644);
  for (const path of [home, tmp]) {
    mkdirSync(path);
    if (amRoot) chownSync(path, NOBODY, NOBODY);
  }
  const env = { PATH: process.env.PATH, HOME: home, SANDGLASS_HOME: join(home, 'data'), TMPDIR: tmp, SG_CANARY: value };
  const who = amRoot ? { uid: NOBODY, gid: NOBODY } : {};
  const stage = { tmp, value, tls, plain, https: `https://ok.test:${tls.port}`, http: `http://ok.test:${plain.port}` };
  const network = [tls, plain].flatMap(({ port }) => ['--allow-host', `ok.test:${port}`])
    .concat('--secret', `KEY=env:SG_CANARY@ok.test:${tls.port}`);
  stage.run = async (verb, ...args) => {
    const ran = await run([verb, '--json', '--config', config, ...network, ...args], { bin, env, cwd: dir, ...who });
    for (const spelled of spellings(value)) assert.ok(!(ran.stdout + ran.stderr).includes(spelled), 'the value came out');
    return ran;
  };
  stage.exec = async (...command) => JSON.parse((await stage.run('exec', '--memory', 'none', '--cpus', 'none', '--', ...command)).stdout);
  const control = await stage.exec('true');
  if (control.reason === 'not_started') stage.skip = `no jail with a gateway for this user here: ${control.error.message}`;
  return stage;
}

const scene = (title, play) => test(title, { timeout }, async (t) => {
  const stage = await setup(t);
  return stage.skip ? t.skip(stage.skip) : play(stage, t);
});

const received = (one) => one.seen.map((got) => got.text).join('\n');
const bare = ['env', '-u', 'http_proxy', '-u', 'https_proxy', '-u', 'HTTPS_PROXY', '-u', 'ALL_PROXY', '-u', 'all_proxy'];

scene('by proxy and captured, plain and opened', async (stage) => {
  const call = (url) => ['sh', '-c', `id -u; curl -sS -m 30 -H "Authorization: Bearer $KEY" ${url}/`];
  for (const prefix of [[], bare]) {
    stage.tls.seen.length = stage.plain.seen.length = 0;
    const opened = await stage.exec(...prefix, ...call(stage.https));
    assert.match(opened.stdout, /^\d+\nyou sent Bearer sgs_[a-z0-9]{32}$/, opened.stderr);
    assert.ok(received(stage.tls).includes(`Bearer ${stage.value}`), 'the host got the key');
    const plain = await stage.exec(...prefix, ...call(stage.http));
    assert.match(plain.stdout, /^\d+\nyou sent Bearer sgs_[a-z0-9]{32}$/, plain.stderr);
    assert.ok(!received(stage.plain).includes(stage.value));
  }
  assert.deepEqual(readdirSync(stage.tmp), []); // the file of roots is gone
});

scene('what is not named is refused, with a word', async (stage) => {
  const report = await stage.exec('sh', '-c', 'curl -sS -m 30 -o /dev/null -w "%{http_code}" http://other.test/');
  assert.equal(report.stdout, '403', report.stderr);
  assert.deepEqual(report.blocked.map(({ host, port }) => [host, port]), [['other.test', 80]]);
  const address = await stage.exec(...bare, 'curl', '-sS', '-m', '30', '-o', '/dev/null', '-w', '%{http_code}',
    `http://127.0.0.1:${stage.plain.port}/`);
  assert.equal(address.stdout, '403', address.stderr); // the name may be reached there, the address may not
  assert.equal(received(stage.plain), '');
});

scene('a cell of a kernel has the same', async (stage) => {
  const free = ['--memory', 'none', '--cpus', 'none', '--timeout', '60000'];
  const call = `curl -sS -m 30 -H "Authorization: Bearer $KEY" ${stage.https}/`;
  const shell = await stage.run('run', '--runtime', 'bash', ...free, '-e', call);
  assert.match(JSON.parse(shell.stdout).stdout, /^you sent Bearer sgs_/, shell.stdout + shell.stderr);
  assert.ok(received(stage.tls).includes(`Bearer ${stage.value}`), 'the host got the key');
});

scene('a limit that this user cannot have is refused by name', async (stage) => {
  const ran = await stage.run('run', '--runtime', 'bash', '-e', 'true');
  if (ran.code !== 0) assert.match(ran.stderr, /cannot limit (memory|cpu time).*--(memory|cpus) none to run without/);
});
