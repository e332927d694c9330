// One table of hosts and addresses, every channel, one verdict: the proxy, CONNECT, SOCKS 5, captured connections,
// DNS and an isolate's fetch agree with each other and with `sandglass policy test`. NET-02 to NET-05 and NET-12.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { run } from './lib.mjs';
import { world } from './egress_lib.mjs';

const allowed = ['ok.test', 'OK.TEST', 'Ok.Test.', 'ok.test.', 'www.ok.test', 'WWW.ok.test', '127.0.0.2'];

const long = 'a'.repeat(64), huge = `${'abcdefghi.'.repeat(30)}ok.test`;
const refused = [
  // Hosts nobody allowed, and look-alikes.
  'evil.test', 'EVIL.test', 'evil.test.', 'sub.evil.test', 'evilok.test', 'ok.test.evil.test', 'ok.test-evil.test',
  'evil-ok.test', 'xok.test', 'ok.tests', 'ok.tes', 'test', 'com', 'denied.ok.test', 'DENIED.ok.test.', 'a.denied.ok.test',
  'xn--ok-test.test', 'xn--k-cua.test', 'localhost', 'localhost.', 'LOCALHOST', 'ip6-localhost', 'sandbox',
  // Spellings.
  'ok.test..', '.ok.test', 'ok..test', '..', '.', '-ok.test', 'ok.test-', 'ok-.test', '[ok.test]', 'ok.test%00', 'ok%2etest',
  'ok.test%2e', '%6fk.test', 'ok_test', 'ok.test@evil.test', 'user@ok.test', 'evil.test@ok.test', 'ok.test#evil.test',
  'ok.test?evil.test', 'ok.test/evil.test', 'ok.test\\evil.test', 'ok.test\\@evil.test', 'ok.test\0.evil.test',
  'evil.test\0.ok.test', 'ok.test\u00a0', 'o\u043a.test', 'ok\u3002test', '\u24de\u24da.test', 'ok.test;evil.test',
  'ok.test,evil.test', `${long}.ok.test`, huge, 'ok .test', 'ok\t.test', '*.ok.test', '*', 'ok.test|evil.test',
  // Names that lead inside.
  'inside.test', 'mixed.test', 'meta.test', 'missing.test',
  // This machine and its networks, in every notation.
  '127.0.0.1', '127.0.0.4', '127.1', '127.0.1', '2130706433', '0x7f000001', '0x7f.0.0.1', '0177.0.0.1', '127.0.0.01', '0',
  '0.0.0.0', '127.0.0.1.', '127.0.0.2.', '1.2.3', '1.2.3.4.5', '256.1.1.1', '10.0.0.1', '172.16.0.1', '192.168.1.1',
  '100.64.0.1', '169.254.169.254', '198.18.0.99', '224.0.0.1', '240.0.0.1', '255.255.255.255', '127.0.0.3', '8.8.8.8',
  '[::]', '[::1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::ffff:127.0.0.2]', '[0:0:0:0:0:0:0:1]', '[::1%25lo]',
  '[fe80::1]', '[fc00::1]', '[fd00:ec2::254]', '[ff02::1]', '[64:ff9b::7f00:1]', '[2002:7f00:1::]', '[::127.0.0.1]',
  '[2001:db8::1]', '[::1', '::1', '1::2::3',
];

// Own addresses of this machine, where the daemon's API would be.
const own = Object.values(networkInterfaces()).flat().filter((each) => !each.internal)
  .map((each) => (each.family === 'IPv6' ? `[${each.address}]` : each.address)).slice(0, 2);

// What can be written into a request at all: blanks and line ends would be another request.
const sendable = (host) => !/[\s\0]/.test(host);

test('every channel gives the same verdict', { timeout: 600_000 }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  if (!existsSync('/usr/bin/node')) return t.skip('no node in /usr/bin, which a jail sees');
  const { port } = stage;
  const targets = [...allowed, ...refused, ...own];
  assert.ok(targets.length >= 100, `${targets.length}`);
  // The last ones are allowed by name: where they lead is what refuses them.
  const named = ['ok.test', '*.ok.test', '127.0.0.2', 'inside.test', 'mixed.test', 'meta.test', '127.0.0.1', '10.0.0.1',
    '[::1]', '169.254.169.254', ...own];
  const options = named.flatMap((host) => ['--allow-host', `${host}:${port}`]);
  const deny = ['--deny-host', 'denied.ok.test', '--deny-host', '*.denied.ok.test'];
  const workspace = join(stage.dir, 'work');
  mkdirSync(workspace, { mode: 0o777 });
  copyFileSync(new URL('./egress_probe.mjs', import.meta.url), join(workspace, 'probe.mjs'));
  writeFileSync(join(workspace, 'targets.json'), JSON.stringify({ targets, port, proxy: 3128 }));
  const ran = await stage.exec(['--json', '-w', workspace, ...options, ...deny, '--', '/usr/bin/node', 'probe.mjs']);
  assert.equal(JSON.parse(ran.stdout).exitCode, 0, JSON.parse(ran.stdout).stderr + ran.stderr);
  const results = JSON.parse(JSON.parse(ran.stdout).stdout);

  const wrong = [];
  const expect = (channel, host, verdict) => {
    const wanted = allowed.includes(host) ? 'allow' : 'block';
    if (verdict !== undefined && verdict !== wanted) wrong.push(`${channel} ${JSON.stringify(host)}: ${verdict}`);
  };
  for (const [channel, verdicts] of Object.entries(results))
    for (const host of targets) {
      if (channel === 'dns' && host.toLowerCase().startsWith('localhost')) continue; // it is the sandbox itself
      expect(channel, host, verdicts[host]);
    }

  // An isolate's fetch, through the same gate; in batches, since its time is short.
  const script = (hosts) => `const out = {};
    for (const host of ${JSON.stringify(hosts)})
      try { out[host] = (await api.fetch('http://' + host + ':${port}/')).headers['x-who'] === 'ok' ? 'allow' : 'block'; }
      catch { out[host] = 'block'; }
    out`;
  for (let i = 0; i < targets.length; i += 15) {
    const batch = targets.slice(i, i + 15).filter(sendable);
    const fetched = await run(['run', '--json', '--config', stage.config, '--timeout', '120000', ...options, ...deny, '-e', script(batch)],
      { env: stage.env });
    const { result } = JSON.parse(fetched.stdout);
    for (const host of batch) expect('fetch', host, result[host]);
  }
  assert.deepEqual(wrong, []);
  assert.equal(stage.evil.hits, 0);
  assert.equal(stage.inner.hits, 0);
  // Not one query left for a name that the policy does not know.
  const known = /^((.*\.)?ok|inside|mixed|meta)\.test$/;
  assert.deepEqual(stage.dns.queries.filter((name) => !known.test(name)), []);
});
