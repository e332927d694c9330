// Keys that programs in a jail use and never see, the longer cases: git and npm with a token, slow
// programs, and what processes outside show meanwhile. exec_secrets.test.mjs has the others.
import assert from 'node:assert';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, run as start, until } from './lib.mjs';
import { OPENSSL } from './net.mjs';
import { keyStage } from './secrets_lib.mjs';

const timeout = 600_000;

function echo(got, response) {
  if (got.path === '/slow') response.write('begun');
  else response.end(`you sent ${got.headers['x-api-key']}\n`);
}

// { skip } says why nothing can be tested here.
async function setup(t, { answer = echo, programs = ['curl'] } = {}) {
  const missing = programs.find((program) => !existsSync(`/usr/bin/${program}`));
  if (!OPENSSL || missing) return { skip: `${missing ?? 'openssl'} is not installed` };
  const it = await keyStage(t, { names: ['ok.test'], answer });
  const args = ['exec', '--config', it.config, '--allow-host', it.at];
  it.url = `https://${it.at}`;
  it.env.SG_OTHER = 'another-value';
  it.args = [...args, '--secret', it.secret];
  // Runs a command inside; whatever it says is searched for the value.
  it.exec = async (command, more = []) => {
    const ran = await start([...it.args, ...more, '--', ...command], { env: it.env });
    it.check(ran);
    return ran;
  };
  it.sh = (script, more) => it.exec(['sh', '-c', script], more);
  const control = await start([...args, '--', 'true'], { env: it.env });
  return control.code === 0 ? it : { skip: `no jail with a gateway here: ${control.stderr.trim()}` };
}

// Some programs read hundreds of roots between CONNECT and their first byte.
test('a program that is slow to begin is still opened', { timeout }, async (t) => {
  const it = await setup(t, { programs: ['python3'] });
  if (it.skip) return t.skip(it.skip);
  const code = `import os, socket, ssl, time
s = socket.create_connection(('127.0.0.1', 3128))
s.sendall(b'CONNECT ${it.at} HTTP/1.1\\r\\n\\r\\n')
s.recv(1000)
time.sleep(0.5)
s = ssl.create_default_context().wrap_socket(s, server_hostname='ok.test')
s.sendall(('GET / HTTP/1.1\\r\\nHost: ${it.at}\\r\\nX-Api-Key: ' + os.environ['KEY'] + '\\r\\n\\r\\n').encode())
print(s.recv(10000).decode())`;
  const ran = await it.exec(['/usr/bin/python3', '-c', code]);
  assert.match(ran.stdout, /you sent sgs_/, ran.stdout + ran.stderr);
  assert.strictEqual(it.tls.seen[0].headers['x-api-key'], it.value);
});

test('programs that read no variables trust the sandbox\'s authority too', { timeout }, async (t) => {
  const it = await setup(t);
  if (it.skip) return t.skip(it.skip);
  const python = `import urllib.request as u; r = u.Request('${it.url}/', headers={'X-Api-Key': '$KEY'}); print(u.urlopen(r).read().decode())`;
  const commands = { curl: `curl -sS -H "X-Api-Key: $KEY" ${it.url}/`, wget: `wget -q -O - --header "X-Api-Key: $KEY" ${it.url}/`,
    python3: `/usr/bin/python3 -c "${python}"` };
  for (const [program, command] of Object.entries(commands))
    for (const more of [[], ['--overlay']]) {
      if (!existsSync(`/usr/bin/${program}`)) continue;
      const ran = await it.sh(`exec env -i PATH=/usr/bin:/bin KEY=$KEY sh -c '${command.replaceAll("'", `'\\''`)}'`, more);
      assert.match(ran.stdout, /^you sent sgs_/, `${program}: ${ran.stdout}${ran.stderr}`);
      assert.strictEqual(it.tls.seen.pop().headers['x-api-key'], it.value);
    }
});

test('git clones with a key that it never sees', { timeout }, async (t) => {
  const files = { root: null };
  const it = await setup(t, { programs: ['git'], answer: (got, response) => {
    if (got.headers.authorization !== 'Basic ' + Buffer.from(`git:${it.value}`).toString('base64')) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' });
      response.end();
      return;
    }
    const file = join(files.root, got.path);
    if (!existsSync(file)) response.statusCode = 404;
    response.end(existsSync(file) ? readFileSync(file) : '');
  } });
  if (it.skip) return t.skip(it.skip);
  const git = (...args) => execFileSync('/usr/bin/git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], { cwd: it.dir, stdio: 'pipe' });
  git('init', '-q', 'work');
  git('-C', 'work', 'commit', '-q', '--allow-empty', '-m', 'the first');
  git('clone', '-q', '--bare', 'work', 'repo.git');
  git('-C', 'repo.git', 'update-server-info');
  files.root = it.dir;
  const ran = await it.sh(`cd /tmp && GIT_TERMINAL_PROMPT=0 git clone -q https://git:$KEY@${it.at}/repo.git && git -C repo log --format=%s`);
  assert.strictEqual(ran.stdout, 'the first\n', ran.stderr);
});

test('npm installs with a token that it never sees', { timeout }, async (t) => {
  const pack = { bytes: null };
  const it = await setup(t, { programs: ['npm'], answer: (got, response) => {
    if (got.headers.authorization !== `Bearer ${it.value}`) response.writeHead(401).end('{}');
    else if (got.path.endsWith('.tgz')) response.end(pack.bytes);
    else response.end(JSON.stringify({ name: 'tiny', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': {
      name: 'tiny', version: '1.0.0', dist: { tarball: `${it.url}/tiny/-/tiny-1.0.0.tgz` } } } }));
  } });
  if (it.skip) return t.skip(it.skip);
  mkdirSync(join(it.dir, 'package'));
  writeFileSync(join(it.dir, 'package', 'package.json'), '{"name":"tiny","version":"1.0.0","main":"i.js"}');
  writeFileSync(join(it.dir, 'package', 'i.js'), 'module.exports = 42');
  execFileSync('/bin/tar', ['-C', it.dir, '-czf', join(it.dir, 'tiny.tgz'), 'package']);
  pack.bytes = readFileSync(join(it.dir, 'tiny.tgz'));
  const ran = await it.sh(`mkdir -p /tmp/app && cd /tmp/app && echo '{"name":"app","version":"1.0.0"}' > package.json &&
    printf 'registry=${it.url}/\\n//${it.at}/:_authToken=\${KEY}\\n' > .npmrc &&
    npm install --no-audit --no-fund --ignore-scripts tiny >&2 && node -p 'require("tiny")' && cat package-lock.json`);
  assert.match(ran.stdout, /^42\n/, ran.stdout + ran.stderr);
});

// What every process that descends from `pid` shows of itself.
function* showings(pid) {
  for (const name of ['environ', 'cmdline', 'maps'])
    try { yield [`${name} of ${pid}`, readFileSync(`/proc/${pid}/${name}`, 'latin1')]; } catch {}
  let children = '';
  try { children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8'); } catch {}
  for (const child of children.trim().split(' ').filter(Boolean)) yield* showings(child);
}

test('SEC-01: no process outside shows the value, and no core file holds it', { timeout }, async (t) => {
  const it = await setup(t);
  if (it.skip) return t.skip(it.skip);
  // While a request is under way; and what a crash leaves.
  const child = spawn('/bin/sh', ['-c', 'ulimit -c unlimited; exec "$0" "$@"', BIN, ...it.args, '--', 'sh', '-c',
    `curl -sS -H "X-Api-Key: $KEY" ${it.url}/slow`], { env: it.env, cwd: it.dir, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data));
  const ended = once(child, 'close');
  await until(() => it.tls.seen.length > 0);
  for (const [what, text] of showings(child.pid))
    for (const spelled of it.hidden) assert.ok(!text.includes(spelled), what);
  child.kill('SIGSEGV');
  await ended;
  for (const spelled of it.hidden) assert.ok(!output.includes(spelled));
  for (const name of readdirSync(it.dir))
    assert.ok(!readFileSync(join(it.dir, name), 'latin1').includes(it.value), name);
});

test('SEC-08: mistakes are named and values are not', { timeout }, async (t) => {
  const it = await setup(t);
  if (it.skip) return t.skip(it.skip);
  const pasted = 'sk-live-0123456789';
  for (const [text, says] of [
    [`KEY2=${pasted}@ok.test`, /env:VARIABLE or file:\/PATH/],
    [pasted, /NAME=env:VARIABLE@HOST/],
    ['KEY2=env:NOT_THERE@ok.test', /environment variable NOT_THERE is not set/],
    ['KEY2=env:SG_OTHER@evil.test', /--allow-host evil\.test:443/],
  ]) {
    const ran = await it.exec(['true'], ['--secret', text]);
    assert.notStrictEqual(ran.code, 0);
    assert.match(ran.stderr, says);
    assert.ok(!ran.stderr.includes(pasted), ran.stderr);
  }
});
