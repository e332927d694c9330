// Keys that programs in a jail use and never see: `sandglass exec --secret` against TLS servers of the test's own. The
// cases are named after the catalogue of attacks.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { run } from './lib.mjs';
import { OPENSSL } from './net.mjs';
import { keyStage } from './secrets_lib.mjs';

const timeout = 600_000;
const found = (program) => existsSync(`/usr/bin/${program}`);

async function setup(t) {
  if (!OPENSSL) return { skip: 'openssl is not installed' };
  const stage = await keyStage(t);
  stage.exec = async (command, ...more) => {
    const ran = await run(['exec', '--json', '--config', stage.config, ...stage.allow, '--secret', stage.secret,
      ...more, '--', ...command], { env: stage.env });
    stage.check(ran);
    return JSON.parse(ran.stdout);
  };
  const control = await stage.exec(['true']);
  if (control.reason === 'not_started') stage.skip = `no jail with a gateway here: ${control.error.message}`;
  return stage;
}

const received = (one) => one.seen.map((got) => got.text).join('\n');

test('SEC-02, SEC-06: programs use the key, and see the placeholder', { timeout }, async (t) => {
  const stage = await setup(t);
  if (stage.skip) return t.skip(stage.skip);
  const url = `https://ok.test:${stage.tls.port}`;
  const bare = ['env', '-u', 'https_proxy', '-u', 'HTTPS_PROXY', '-u', 'ALL_PROXY', '-u', 'all_proxy'];
  const python = `import os, urllib.request as u; r = u.Request("${url}/echo", headers={"X-Api-Key": os.environ["KEY"]}); print(u.urlopen(r).read().decode())`;
  const nodeScript = `fetch("${url}/echo", { headers: { authorization: "Bearer " + process.env.KEY } }).then(async (r) => console.log(await r.text()))`;
  const programs = {
    curl: ['sh', '-c', `curl -sS -i -H "Authorization: Bearer $KEY" ${url}/echo`],
    drops: ['sh', '-c', `curl -sS -H "Authorization: Bearer $KEY" ${url}/drops`],
    basic: ['sh', '-c', `curl -sS -u "me:$KEY" ${url}/echo`],
    python3: ['/usr/bin/python3', '-c', python],
    node: ['/usr/bin/node', '-e', nodeScript],
  };
  for (const [name, command] of Object.entries(programs))
    for (const prefix of [[], bare]) {
      if ((name === 'python3' || name === 'node') && !found(name)) continue;
      stage.tls.seen.length = 0;
      const report = await stage.exec([...prefix, ...command]);
      assert.equal(report.exitCode, 0, `${name}: ${report.stderr}`);
      const sent = received(stage.tls);
      const wanted = name === 'basic' ? Buffer.from(`me:${stage.value}`).toString('base64') : stage.value;
      assert.ok(sent.includes(wanted), `${name}: ${sent}`);
      if (name !== 'basic') assert.match(report.stdout, /sgs_[a-z0-9]{32}/, `${name}: ${report.stdout}`);
    }
});

test('SEC-03: a placeholder elsewhere stays one', { timeout }, async (t) => {
  const stage = await setup(t);
  if (stage.skip) return t.skip(stage.skip);
  const ok = `https://ok.test:${stage.tls.port}`;
  const calls = [
    `-H "Authorization: Bearer $KEY" https://ok2.test:${stage.tls.port}/echo --cacert /mnt/ca.pem`,
    `-H "Authorization: Bearer $KEY" https://sub.ok.test:${stage.tls.port}/echo --cacert /mnt/ca.pem`,
    `-H "Authorization: Bearer $KEY" https://ok.test:${stage.other.port}/echo --cacert /mnt/ca.pem`,
    `-H "Authorization: Bearer $KEY" http://ok.test:${stage.plain.port}/echo`,
    `${ok}/$KEY`, `"${ok}/?q=$KEY"`, `-d "$KEY" ${ok}/`, `-d '{"k":"'$KEY'"}' ${ok}/`, `-A "$KEY" ${ok}/`, `-e "$KEY" ${ok}/`,
    `-b "a=$KEY" ${ok}/`, `-H "Origin: $KEY" ${ok}/`, `-H "X-Forwarded-For: $KEY" ${ok}/`, `-H "X-Request-Id: $KEY" ${ok}/`,
    `-H "Authorization: Bearer x$KEY" ${ok}/`, `-H "Authorization: Bearer sgs_00000000000000000000000000000000" ${ok}/`,
    `-F "f=$KEY" ${ok}/`,
  ];
  const report = await stage.exec(['sh', '-c', calls.map((call) => `curl -sS -m 20 ${call} || exit 9`).join('\n')],
    '--ro', `${stage.certs.ca}:/mnt/ca.pem`);
  assert.equal(report.exitCode, 0, report.stderr + report.stdout);
  const texts = stage.all.flatMap((one) => one.seen.map((got) => got.text));
  assert.equal(texts.length, calls.length);
  for (const text of texts) {
    for (const spelled of stage.hidden) assert.ok(!text.includes(spelled), text);
    assert.match(text, /sgs_/);
  }
});

test('SEC-04: another sandbox\'s placeholder means nothing', { timeout }, async (t) => {
  const stage = await setup(t);
  if (stage.skip) return t.skip(stage.skip);
  const first = await stage.exec(['sh', '-c', 'echo $KEY']);
  const stolen = first.stdout.trim();
  assert.match(stolen, /^sgs_/);
  const second = await stage.exec(['sh', '-c', `curl -sS -H "Authorization: Bearer ${stolen}" https://ok.test:${stage.tls.port}/echo; echo; echo $KEY`]);
  assert.ok(second.stdout.includes(stolen));
  assert.ok(!second.stdout.endsWith(`${stolen}\n`));
  assert.ok(!received(stage.tls).includes(stage.value));
});

test('SEC-01: the value is nowhere inside', { timeout }, async (t) => {
  const stage = await setup(t);
  if (stage.skip) return t.skip(stage.skip);
  // The searcher gets the pieces, so that it does not find itself.
  const half = stage.value.length / 2, parts = [stage.value.slice(0, half), stage.value.slice(half)];
  const script = `
import os, sys
needle = (sys.argv[1] + sys.argv[2]).encode()
needles = [needle, needle[::-1], needle.hex().encode(), __import__("base64").b64encode(needle)[:-4]]
hits, looked = [], 0
def look(path):
    global looked
    try:
        with open(path, "rb") as f: data = f.read(4 << 20)
    except OSError: return
    looked += 1
    if any(n in data for n in needles): hits.append(path)
os.system('curl -sS -o /tmp/answer -H "Authorization: Bearer $KEY" https://ok.test:${stage.tls.port}/echo')
for top in ("/proc", "/etc", "/tmp", "/home", "/workspace", "/opt", "/dev/shm"):
    for dir, dirs, files in os.walk(top):
        if dir.startswith("/proc/") and dir.count("/") > 3: dirs[:] = []
        for name in files:
            if name not in ("kmsg", "pagemap", "mem", "kpagecount", "kpageflags", "cmdline"): look(os.path.join(dir, name))
for key, item in os.environ.items():
    if any(n in (key + item).encode() for n in needles): hits.append(key)
print("hits", hits, "looked", looked > 50)
`;
  if (!found('python3')) return t.skip('no python3 on this machine');
  const report = await stage.exec(['/usr/bin/python3', '-c', script, ...parts]);
  assert.match(report.stdout, /hits \[\] looked True/, report.stdout + report.stderr);
  assert.ok(received(stage.tls).includes(stage.value)); // the control: it was used
});

test('SEC-01: the value is in no environment, argument or file outside', { timeout }, async (t) => {
  const stage = await setup(t);
  if (stage.skip) return t.skip(stage.skip);
  const own = (text) => stage.hidden.some((spelled) => text.includes(spelled));
  const seen = [];
  // Runs in this process, whose own environment has no canary, while the jail waits for its answer.
  stage.tls.server.prependListener('request', () => {
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
      for (const file of ['environ', 'cmdline'])
        try {
          if (own(readFileSync(`/proc/${pid}/${file}`, 'latin1'))) seen.push(`${pid} ${file} ${readFileSync(`/proc/${pid}/cmdline`, 'latin1')}`);
        } catch { /* gone, or not ours to read */ }
  });
  const report = await stage.exec(['sh', '-c', `curl -sS -H "Authorization: Bearer $KEY" https://ok.test:${stage.tls.port}/echo`]);
  assert.equal(report.exitCode, 0, report.stderr);
  // The kernel keeps the first environment of the process that was given the variable; it is wiped there too.
  assert.deepEqual(seen, []);
  for (const name of readdirSync(stage.dir)) assert.ok(!own(readFileSync(join(stage.dir, name), 'latin1')), name);
});

test('a host that nobody vouches for gets nothing, and the client an answer', { timeout }, async (t) => {
  const stage = await setup(t);
  if (stage.skip) return t.skip(stage.skip);
  const config = join(stage.dir, 'strict.toml');
  writeFileSync(config, readFileSync(stage.config, 'utf8').replace(/ca_file = .*\n/, ''));
  const ran = await run(['exec', '--json', '--config', config, '--allow-host', stage.at, '--secret', stage.secret,
    '--', 'sh', '-c', `curl -sS -H "Authorization: Bearer $KEY" https://${stage.at}/echo`], { env: stage.env });
  assert.match(JSON.parse(ran.stdout).stdout, /"code":"forbidden"/, ran.stdout);
  assert.equal(stage.tls.seen.length, 0);
});
