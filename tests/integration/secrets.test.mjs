// Keys that code in an isolate uses and never sees: `sandglass run --secret` against TLS servers of
// the test's own. The cases are named after the catalogue of attacks.
import assert from 'node:assert';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, readSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, isSanitized, run as start, until } from './lib.mjs';
import { OPENSSL } from './net.mjs';
import { keyStage } from './secrets_lib.mjs';

const skip = OPENSSL ? false : 'openssl is not installed';

async function setup(t) {
  const it = await keyStage(t);
  it.args = (code, ...more) => ['run', '--config', it.config, ...it.allow, '--secret', it.secret,
    ...(more.includes('--timeout') ? [] : ['--timeout', '120000']), ...more, '-e', code];
  // The value of the code, which is also searched for the canary.
  it.run = async (code, ...more) => {
    const ran = await start(it.args(code, '--json', ...more), { env: it.env });
    it.check(ran);
    const result = JSON.parse(ran.stdout);
    assert.strictEqual(ran.code, 0, ran.stdout);
    return result.value ?? result.result;
  };
  return it;
}

const PLACEHOLDER = /^sgs_[a-z2-7]{32}$/;

test('SEC-02: the bound host gets the value, the code sees the placeholder', { skip }, async (t) => {
  const it = await setup(t);
  const got = await it.run(`const key = process.env.KEY;
    const one = await fetch('https://ok.test:${it.tls.port}/echo', { headers: { Authorization: 'Bearer ' + key } });
    const two = await api.fetch('https://ok.test:${it.tls.port}/echo', { headers: { 'X-Api-Key': key } });
    return { key, one: await one.text(), two: two.body, echo: two.headers['x-echo'] };`);
  assert.match(got.key, PLACEHOLDER);
  assert.strictEqual(got.one, `you sent Bearer ${got.key}`);
  assert.strictEqual(got.two, `you sent ${got.key}`);
  assert.strictEqual(got.echo, got.key);
  assert.deepStrictEqual(it.tls.seen.map((each) => each.headers.authorization ?? each.headers['x-api-key']),
    [`Bearer ${it.value}`, it.value]);
  assert.strictEqual(it.tls.seen[0].headers['accept-encoding'], 'identity');
});

test('SEC-02: other hosts and ports get the placeholder', { skip }, async (t) => {
  const it = await setup(t);
  await it.run(`for (const url of ['https://ok2.test:${it.tls.port}', 'https://sub.ok.test:${it.tls.port}',
      'https://ok.test:${it.other.port}', 'http://ok.test:${it.plain.port}'])
    await api.fetch(url + '/', { headers: { Authorization: 'Bearer ' + process.env.KEY } });`);
  const seen = it.all.flatMap((each) => each.seen);
  assert.strictEqual(seen.length, 4);
  for (const each of seen) {
    assert.match(each.headers.authorization, /^Bearer sgs_/);
    assert.ok(!each.text.includes(it.value));
  }
});

test('SEC-03: a placeholder anywhere else stays one', { skip }, async (t) => {
  const it = await setup(t);
  await it.run(`const key = process.env.KEY, at = 'https://ok.test:${it.tls.port}';
    await api.fetch(at + '/' + key + '?key=' + key);
    await api.fetch(at + '/', { method: 'POST', body: JSON.stringify({ key }), headers: { 'Content-Type': 'application/json' } });
    for (const name of ['User-Agent', 'Referer', 'Cookie', 'Origin', 'X-Forwarded-For', 'X-Request-Id', 'Accept'])
      await api.fetch(at + '/', { headers: { [name]: key } });
    for (const value of ['Bearer x' + key, 'Bearer ' + key + 'x', 'Bearer ' + key + ',' + key, 'a b ' + key,
        'Bearer "' + key + '"', key.slice(0, -1) + (key.endsWith('a') ? 'b' : 'a')])
      await api.fetch(at + '/', { headers: { Authorization: value } });`);
  assert.strictEqual(it.tls.seen.length, 15);
  for (const each of it.tls.seen) {
    assert.ok(!each.text.includes(it.value), each.text);
    assert.ok(each.text.includes('sgs_'), each.text);
  }
});

test('SEC-04: the placeholder of another run is worth nothing', { skip }, async (t) => {
  const it = await setup(t);
  const old = await it.run('return process.env.KEY');
  const now = await it.run(`await api.fetch('https://ok.test:${it.tls.port}/', { headers: { Authorization: '${old}' } });
    return process.env.KEY;`);
  assert.notStrictEqual(old, now);
  assert.strictEqual(it.tls.seen[0].headers.authorization, old);
});

test('SEC-05: a redirect to elsewhere carries neither', { skip }, async (t) => {
  const it = await setup(t);
  for (const [to, where] of [[`https://ok2.test:${it.tls.port}/`, it.tls], [`https://ok.test:${it.other.port}/`, it.other]]) {
    await it.run(`await api.fetch('https://ok.test:${it.tls.port}/to?url=' + encodeURIComponent('${to}'),
      { redirect: 'follow', headers: { Authorization: 'Bearer ' + process.env.KEY, 'X-Api-Key': process.env.KEY } });`);
    const last = where.seen.at(-1);
    assert.strictEqual(last.path, '/');
    assert.ok(!last.text.includes(it.value) && !last.text.includes('sgs_'), last.text);
  }
});

test('SEC-06: what a host hands back is the placeholder', { skip }, async (t) => {
  const it = await setup(t);
  const got = await it.run(`const at = 'https://ok.test:${it.tls.port}', headers = { 'X-Api-Key': process.env.KEY };
    const texts = [];
    for (const path of ['/echo', '/echo?status=401', '/drops', '/spelled']) {
      const answer = await api.fetch(at + path, { headers });
      texts.push(answer.body, JSON.stringify(answer.headers), answer.statusText);
    }
    return { key: process.env.KEY, texts };`);
  assert.strictEqual(got.texts[0], `you sent ${got.key}`);
  assert.strictEqual(got.texts[6], `<${got.key}>`);
  assert.deepStrictEqual(JSON.parse(JSON.parse(got.texts[9]).json), got.key);
  assert.ok(!JSON.stringify(got).includes('cnry'));
});

test('Basic authorization holds a placeholder too', { skip }, async (t) => {
  const it = await setup(t);
  await it.run(`await api.fetch('https://ok.test:${it.tls.port}/',
    { headers: { Authorization: 'Basic ' + btoa('x-token:' + process.env.KEY) } });`);
  assert.strictEqual(Buffer.from(it.tls.seen[0].headers.authorization.slice(6), 'base64').toString(), `x-token:${it.value}`);
});

// Everything that a process shows of itself, and, where we may, all of its memory.
function* showings(pid, withMemory) {
  for (const name of ['environ', 'cmdline', 'comm', 'maps'])
    try { yield [name, readFileSync(`/proc/${pid}/${name}`, 'latin1')]; } catch {}
  if (!withMemory) return;
  let memory;
  try { memory = openSync(`/proc/${pid}/mem`); } catch { return; }
  for (const line of readFileSync(`/proc/${pid}/maps`, 'latin1').split('\n')) {
    const range = /^([0-9a-f]+)-([0-9a-f]+) r/.exec(line);
    if (!range || line.includes('[v')) continue;
    const from = BigInt('0x' + range[1]), size = Number(BigInt('0x' + range[2]) - from);
    for (let at = 0; at < Math.min(size, 256 << 20); at += 4 << 20) {
      const bytes = Buffer.alloc(Math.min((4 << 20) + 256, size - at));
      try { yield [`memory ${line}`, bytes.toString('latin1', 0, readSync(memory, bytes, 0, bytes.length, Number(from) + at))]; }
      catch {}
    }
  }
  closeSync(memory);
}

const children = (pid) => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);

test('SEC-01: no process shows the value, and no core file holds it', { skip }, async (t) => {
  const it = await setup(t);
  const code = `await api.fetch('https://ok.test:${it.tls.port}/slow', { headers: { 'X-Api-Key': process.env.KEY }, timeoutMs: 30000 })`;
  const child = spawn('/bin/sh', ['-c', 'ulimit -c unlimited; exec "$0" "$@"', BIN, ...it.args(code, '--timeout', '60000')],
    { env: it.env, cwd: it.dir, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data));
  const ended = once(child, 'close');
  await until(() => it.tls.seen.length > 0);
  assert.strictEqual(it.tls.seen[0].headers['x-api-key'], it.value);
  const workers = children(child.pid);
  assert.ok(workers.length > 0);
  const { hidden } = it;
  // A sanitizer's runtime keeps a copy of the environment from before it is wiped.
  for (const [pid, withMemory] of [[child.pid, false], ...workers.map((worker) => [worker, !isSanitized])])
    for (const [what, text] of showings(pid, withMemory))
      for (const spelled of hidden) assert.ok(!text.includes(spelled), `${what} of ${pid}`);
  // The control: where memory can be read at all, it is found in the process that sends it. A
  // sanitizer's maps are too many to be read in time.
  const own = isSanitized ? [] : [...showings(child.pid, true)].filter(([what]) => what.startsWith('memory'));
  assert.ok(own.length === 0 || own.some(([, text]) => text.includes(it.value)));
  child.kill('SIGSEGV');
  await ended;
  for (const spelled of hidden) assert.ok(!output.includes(spelled));
  for (const name of readdirSync(it.dir))
    assert.ok(!readFileSync(join(it.dir, name), 'latin1').includes(it.value), name);
});

test('SEC-08: mistakes are named and values are not', { skip }, async (t) => {
  const it = await setup(t);
  const pasted = 'sk-live-0123456789';
  const rows = [
    [['--secret', `KEY=${pasted}@ok.test`], /env:VARIABLE or file:\/PATH/],
    [['--secret', pasted], /NAME=env:VARIABLE@HOST/],
    [['--secret', 'KEY=env:NOT_THERE@ok.test'], /environment variable NOT_THERE is not set/],
    [['--secret', 'KEY=env:SG_CANARY@*.ok.test'], /hosts must be exact/],
    [['--secret', 'KEY=env:SG_CANARY@evil.test'], /--allow-host evil\.test:443/],
    [['--secret', `KEY=file:${it.dir}/none@ok.test`], /open '.*none'/],
    [['--secret', it.secret, '--secret', it.secret.replace('SG_CANARY', 'SG_TWO')], /given twice/],
  ];
  for (const [args, says] of rows) {
    const { code, stdout, stderr } = await start(['run', '--config', it.config, ...it.allow, ...args, '-e', '1'],
      { env: { ...it.env, SG_TWO: 'another-value' } });
    assert.notStrictEqual(code, 0);
    assert.match(stderr, says);
    for (const hidden of [it.value, pasted, 'another-value']) assert.ok(!(stdout + stderr).includes(hidden), stderr);
  }
});

test('secrets of config.toml are given by name', { skip }, async (t) => {
  const it = await setup(t);
  const file = join(it.dir, 'key.txt');
  writeFileSync(file, it.value + '\n');
  const table = (from) => `${it.settings}[secrets.my-key]\nfrom = "${from}"\nhosts = ["ok.test:${it.tls.port}"]\nheaders = ["X-My-Key"]\n`;
  const code = `const answer = await api.fetch('https://ok.test:${it.tls.port}/', { headers: { 'X-My-Key': process.env.MY_KEY } });
    console.log(process.env.MY_KEY);`;
  for (const from of ['env:SG_CANARY', `file:${file}`]) {
    writeFileSync(it.config, table(from));
    const { code: exit, stdout, stderr } = await start(['run', '--config', it.config, ...it.allow, '--secret', 'my-key', '-e', code],
      { env: it.env });
    assert.strictEqual(exit, 0, stderr);
    assert.match(stdout.trim(), PLACEHOLDER);
    assert.strictEqual(it.tls.seen.at(-1).headers['x-my-key'], it.value);
    const shown = await start(['config', 'show', '--config', it.config], { env: it.env });
    assert.ok(!shown.stdout.includes(it.value));
    assert.match(shown.stdout, /\[secrets\.my-key\]/);
  }
  writeFileSync(it.config, `[secrets.my-key]\nfrom = "env:X"\nvalue = "${it.value}"\nhosts = ["ok.test"]\n`);
  const inline = await start(['run', '--config', it.config, '-e', '1']);
  assert.match(inline.stderr, /config\.toml:3:\d+: secrets\.my-key\.value: secrets are not read from the file; from names/);
  assert.ok(!inline.stderr.includes(it.value));
});
