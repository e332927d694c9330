// The commands that the pages print, taken from the pages and run as they stand there: what a new user types. Hosts of the
// outside are servers on loopback under the same names and ports; files that a page takes for granted are made first.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import { dirname, join } from 'node:path';
import test, { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { BIN, serve, tempDir } from './lib.mjs';
import { OPENSSL, makeCerts, nameServer } from './net.mjs';
import { startIndex, startRegistry } from './packages_lib.mjs';

const SOURCE = fileURLToPath(new URL('../..', import.meta.url));
const T = { timeout: 600_000 };

// Commands that a test cannot run, and why.
const NOT_RUN = {
  'make run': 'builds the release and serves until it is ended; tools/fresh runs it in a fresh Debian',
  'make test': 'runs this test',
  'sandglass runtime add node24 --file': 'the archive is a download of 50 MB; integration/runtime gives --file files of its own',
  'sandglass runtime rm': 'it would remove what other tests use; integration/runtime tests it',
};

// docs/API.md is run by integration/api.
const PAGES = ['README.md', ...readdirSync(join(SOURCE, 'docs')).filter((name) => name.endsWith('.md') && name !== 'API.md')
  .map((name) => `docs/${name}`), 'sdk/ts/README.md'];

/** The commands of a page's shell blocks, in order. A command continues on lines that begin with a space. */
function commands(page) {
  const text = readFileSync(join(SOURCE, page), 'utf8');
  return [...text.matchAll(/^```sh\n([^]*?)^```/gm)].flatMap(([, block]) =>
    block.replaceAll(/\\\n\s*/g, ' ').split(/\n(?! )/).map((line) => line.trim()).filter((line) => line !== ''));
}

const isRun = (command) => !Object.keys(NOT_RUN).some((each) => command.startsWith(each));

// A host for each name below example.com, with port 443 as the pages say. The address is of this process only.
const HOSTS = ['example.com', 'api.example.com', 'index.example.com', 'files.example.com'];
const KEY = 'key_0123456789abcdef0123456789abcdef';

async function startHost(t, certs, handler) {
  for (let i = 0; i < 20; i++) {
    const address = `127.${50 + Math.floor(Math.random() * 150)}.${Math.floor(Math.random() * 250)}.${1 + Math.floor(Math.random() * 250)}`;
    const made = https.createServer(certs, handler);
    try {
      made.listen(443, address);
      await once(made, 'listening');
      t.after(() => { made.closeAllConnections(); made.close(); });
      return { address };
    } catch (error) {
      if (error.code !== 'EADDRINUSE') return { skip: `port 443 of loopback: ${error.message}` };
    }
  }
  return { skip: 'no free address' };
}

const atEnd = [], scope = { after: (end) => atEnd.push(end) };
after(async () => { for (const end of atEnd.reverse()) await end(); });
let it;

before(async () => {
  if (!OPENSSL) return (it = { skip: 'openssl is not installed' });
  const dir = tempDir(scope), certs = makeCerts(dir, HOSTS), seen = [];
  const host = await startHost(scope, certs, (request, response) => {
    seen.push({ url: request.url, ...request.headers });
    response.end(request.url === '/guide.md' ? '# Guide\n\n## Files\n\nUpload a file with putFile.\n' : '{"items": []}\n');
  });
  if (host.skip) return (it = host);
  const registry = await startRegistry(scope, { host: '127.0.0.1' }), index = await startIndex(scope);
  registry.add('left-pad', '1.0.0', { 'index.js': 'module.exports = 1' });
  if (process.env.SG_SDK && existsSync(process.env.SG_SDK)) registry.addInstalled(process.env.SG_SDK);
  index.add('cowsay', '1.0', 'cowsay', 'char_names = ["cow", "tux"]');
  const dns = await nameServer(scope, Object.fromEntries(HOSTS.map((name) => [name, host.address])));
  const config = join(dir, 'config.toml'), reports = join(dir, 'reports');
  mkdirSync(reports);
  writeFileSync(config, `[egress]\ndns_servers = ["${dns.address}"]\nca_file = "${certs.ca}"\n`
    + `private = [${HOSTS.map((name) => `"${name}=${host.address}:443"`).join(', ')}]\n`
    + `[packages]\nnpm_registry = "http://127.0.0.1:${registry.port}/"\npypi_index = "http://127.0.0.1:${index.port}/simple/"\n`
    + `[zones.reports]\nworkspace = "${reports}"\ntenants = ["*"]\n`);
  const env = { ...process.env, SANDGLASS_CONFIG: config, SANDGLASS_HOME: join(dir, 'home'), SSL_CERT_FILE: certs.ca, MY_KEY: KEY,
    npm_config_registry: `http://127.0.0.1:${registry.port}/`, npm_config_cache: join(dir, 'npm'), npm_config_audit: 'false',
    npm_config_fund: 'false', npm_config_update_notifier: 'false', PATH: `${dirname(BIN)}:${process.env.PATH}` };
  for (const name of ['CURL_CA_BUNDLE', 'NODE_EXTRA_CA_CERTS', 'REQUESTS_CA_BUNDLE']) delete env[name];
  const added = join(process.env.SG_RUNTIMES ?? '/nowhere', 'runtimes'); // what the set-up has added
  mkdirSync(env.SANDGLASS_HOME);
  if (existsSync(added)) symlinkSync(added, join(env.SANDGLASS_HOME, 'runtimes'));
  const server = await serve(scope, { env });
  Object.assign(env, { SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token });
  it = { env, server, seen, reports, ca: readFileSync(certs.ca, 'utf8'), hasDeno: existsSync(join(added, 'trees/deno')),
    hasNode: existsSync(join(added, 'trees/node24')) };
  const made = spawnSync(BIN, ['exec', '--', 'true'], { env, encoding: 'utf8' });
  if (made.status !== 0) it.skip = `no jail here: ${made.stderr}`;
}, T);

// What the page says of the user's own machine, for the test's. Its directory goes with the test.
async function sh(t, page, { files = {}, replace = {}, leaveOut = () => false } = {}) {
  const home = tempDir(t), wanted = commands(page).filter((command) => isRun(command) && !leaveOut(command));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(home, name)), { recursive: true });
    writeFileSync(join(home, name), text, { mode: 0o755 });
  }
  const own = { 'http://127.0.0.1:7070': it.server.url, '$(cat /var/lib/sandglass/token)': it.server.token, ...replace };
  const lines = wanted.map((command) => {
    const now = Object.entries(own).reduce((text, [from, to]) => text.replaceAll(from, to.replaceAll('HOME', home)), command)
      .replace(/^PATH=.*$/, ':');
    const isRefused = /# refused/.test(command);
    return `echo ${`'> ${command.split('\n')[0].replaceAll("'", '')}'`}\n${isRefused ? `if ${now.replace(/ *#.*$/, '')}; then exit 99; fi` : now}`;
  });
  const script = `set -e\ncurl() { command curl -sS --fail-with-body "$@"; echo; }\n${lines.join('\n')}\n`;
  // Not spawnSync: the hosts are in this process.
  const child = spawn('sh', ['-c', script], { env: it.env, cwd: home, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '', err = '';
  child.stdout.on('data', (data) => (out += data));
  child.stderr.on('data', (data) => (err += data));
  const [code] = await once(child, 'close');
  assert.equal(code, 0, `${page}: the last command fails\n${out}\n${err}`);
  return { out, err, home };
}

const skipped = (t) => {
  if (it.skip) t.skip(it.skip);
  return Boolean(it.skip);
};

test('every page with commands is run here', () => {
  const pages = PAGES.filter((page) => commands(page).length > 0);
  assert.deepEqual(pages.sort(), ['README.md', 'docs/APPROVALS.md', 'docs/DOCTOR.md', 'docs/EXEC.md', 'docs/MCP.md', 'docs/NETWORK.md', 'docs/PORTS.md',
    'docs/RUNTIMES.md', 'docs/SEARCH.md', 'docs/ZONES.md', 'sdk/ts/README.md'].sort(), 'a new page needs a test');
  for (const command of Object.keys(NOT_RUN))
    assert.ok(PAGES.some((page) => commands(page).some((each) => each.startsWith(command))), `${command} is on no page: delete it here`);
});

test("the README's first steps", T, async (t) => {
  if (skipped(t)) return;
  const { out, home } = await sh(t, 'README.md', { files: { 'package.json': '{"dependencies": {"left-pad": "1.0.0"}}' },
    leaveOut: (command) => !it.hasDeno && /runtime add deno/.test(command) });
  assert.match(out, /\[ ?1, 4, 9 ?\]/);
  assert.match(out, /example\.com[^\n]*\n200\n/);
  assert.match(out, /^45$/m);
  if (it.hasDeno) assert.match(out, /deno: '2\./);
  assert.match(out, /^42$/m);
  assert.ok(existsSync(join(home, 'node_modules/left-pad')), 'npm install');
  assert.match(out, /^hello$/m);
  assert.match(out, /"result":2/);
});

test('docs/RUNTIMES.md', T, async (t) => {
  if (skipped(t)) return;
  const task = `import os, ssl, urllib.request as u\ntrust = ssl.create_default_context(cafile=os.environ['SSL_CERT_FILE'])\n`
    + "ask = u.Request('https://api.example.com/keyed', headers={'Authorization': 'Bearer ' + os.environ['KEY']})\n"
    + "print('keyed', u.urlopen(ask, context=trust).status)\n";
  const { out, home } = await sh(t, 'docs/RUNTIMES.md', { files: { 'report.py': "open('report.txt', 'w').write('done'); 6 * 7", 'task.py': task },
    leaveOut: (command) => !it.hasNode && /node24/.test(command) });
  assert.match(out, /^6\.28/m);
  assert.match(out, /^Linux /m);
  assert.equal(readFileSync(join(home, 'report.txt'), 'utf8'), 'done');
  assert.match(out, /^keyed 200$/m);
  assert.equal(it.seen.find(({ url }) => url === '/keyed').authorization, `Bearer ${KEY}`);
  if (it.hasNode) assert.match(out, /'?v24\./);
  assert.match(out, /"text\/plain": ?"2"|"result": ?2/);
  assert.match(out, /"result": ?42/);
  assert.match(out, /"result": ?\["cow", ?"tux"\]/);
  assert.match(out, /"network":[^\n]*index\.example\.com/);
});

test('docs/DOCTOR.md', T, async (t) => {
  if (skipped(t)) return;
  const { out } = await sh(t, 'docs/DOCTOR.md');
  assert.match(out, /"probes"/);
});

test('docs/SEARCH.md', T, async (t) => {
  if (skipped(t)) return;
  const { out } = await sh(t, 'docs/SEARCH.md', { files: { 'docs/upload.md': '# Upload\n\nTo upload a file, call sendFile.\n' } });
  assert.match(out, /sendFile/);
});

test('docs/EXEC.md', T, async (t) => {
  if (skipped(t)) return;
  const { out } = await sh(t, 'docs/EXEC.md', { files: { Makefile: 'all:\n\tcc -o app app.c\ntest:\n\t@echo tested\n', 'data/a.csv': '1\n2\n' } });
  assert.match(out, /^42$/m);
  assert.match(out, /^cc -o app app\.c$/m);
  assert.match(out, /^tested$/m);
  assert.match(out, /2 \/mnt\/data\/a\.csv/);
});

test('docs/NETWORK.md', T, async (t) => {
  if (skipped(t)) return;
  const script = '#!/bin/sh\ncurl -sS -H "Authorization: Bearer $API_KEY" https://api.example.com/v1/sh\n';
  const task = "const name = process.env.API_KEY ?? '';\nconst answer = await fetch('https://api.example.com/v1/ts', { headers: { Authorization: `Bearer ${name}`, 'X-Token': name } });\nconsole.log('task', answer.status);\n";
  it.seen.length = 0;
  const { out, home } = await sh(t, 'docs/NETWORK.md', { files: { job: '#!/bin/sh\necho a job\n', 'task.sh': script, 'task.ts': task,
    'package.json': '{"dependencies": {"left-pad": "1.0.0"}}',
    'task.py': `import ssl, urllib.request as u\ntrust = ssl.create_default_context(cadata='''${it.ca}''')\n`
      + "print('py', u.urlopen('https://api.example.com/py', context=trust).status)\n", 'ca.pem': it.ca,
    'crawl.py': "print('crawled')\n", 'keys/example': KEY }, replace: { '/run/keys/example': 'HOME/keys/example',
    // Programs of a jail trust what the machine trusts; it does not know the test's authority.
    '-- curl https': '--ro HOME/ca.pem:/mnt/ca.pem -- curl --cacert /mnt/ca.pem https' } });
  assert.match(out, /"items": \[\]/);
  assert.match(out, /^a job$/m);
  assert.match(out, /^crawled$/m);
  assert.match(out, /^py 200$/m);
  assert.match(out, /^task 200$/m);
  assert.ok(existsSync(join(home, 'node_modules/left-pad')), 'npm install');
  const got = (url, header) => it.seen.filter((each) => each.url === url).map((each) => each[header]);
  assert.deepEqual(got('/v1/sh', 'authorization'), [`Bearer ${KEY}`], 'the script uses the key');
  const [first, second] = it.seen.filter((each) => each.url === '/v1/ts');
  assert.equal(first.authorization, `Bearer ${KEY}`);
  assert.match(second.authorization, /^Bearer sgs_/, 'only in the named header');
  assert.equal(second['x-token'], KEY);
});

test('docs/PORTS.md', T, async (t) => {
  if (skipped(t)) return;
  const { out } = await sh(t, 'docs/PORTS.md');
  const [first, second] = out.match(/^http:\S+$/gm);
  assert.match(first, /\/ports\/8000\/\?sandglass_token=/);
  assert.doesNotMatch(second, /token/);
});

test('docs/MCP.md', T, async (t) => {
  if (skipped(t)) return;
  const { out } = await sh(t, 'docs/MCP.md');
  assert.match(out, /"mcpServers"/);
});

test('docs/ZONES.md', T, async (t) => {
  if (skipped(t)) return;
  const { out, err } = await sh(t, 'docs/ZONES.md', { files: { 'topic.md': '# Topic\n' } });
  const answers = out.split(/^> .*\n/m).map((each) => each.trim());
  assert.equal(answers[3], 'topic.md');
  assert.equal(answers[5], '/workspace/topic.md');
  assert.equal(answers[6], '/workspace/topic.md:1:# Topic');
  assert.equal(answers[7], '1');
  assert.match(err, /outside/);
  assert.equal(answers.at(-1), 'topic.md');
  assert.equal(readFileSync(join(it.reports, 'topic.md'), 'utf8'), '# Topic\n');
});

test('docs/APPROVALS.md', T, async (t) => {
  if (skipped(t)) return;
  const ids = [];
  for (const subject of ['deploy-1', 'deploy-2']) {
    const answer = await it.server.get('/v1/approvals', { method: 'POST', headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ kind: 'custom', subject, title: `Deploy ${subject}`, detail: {} }) });
    ids.push((await answer.json()).id);
  }
  const { out } = await sh(t, 'docs/APPROVALS.md', { replace: { 'reject ID': `reject ${ids[1]}`, ' ID': ` ${ids[0]}` } });
  assert.match(out, new RegExp(ids[1]));
  const status = async (id) => (await (await it.server.get(`/v1/approvals/${id}`)).json()).status;
  assert.deepEqual(await Promise.all(ids.map(status)), ['approved', 'rejected']);
});

test('sdk/ts/README.md', T, async (t) => {
  if (skipped(t)) return;
  if (!process.env.SG_SDK || !existsSync(process.env.SG_SDK)) return t.skip('the TypeScript package was not built');
  const { home } = await sh(t, 'sdk/ts/README.md');
  assert.ok(existsSync(join(home, 'node_modules/sandglass/package.json')));
});
