// One environment in a sandbox: what a shell installs is found by cells, and the other way round; the
// programs on PATH are those of the sandbox's runtime.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { startDns } from './egress_lib.mjs';
import { run as cli, serve, tempDir, until } from './lib.mjs';
import { startIndex, startRegistry } from './packages_lib.mjs';

const T = { timeout: 600000 };
const added = join(process.env.SG_RUNTIMES ?? '/nowhere', 'runtimes');
const hasPip = existsSync('/usr/lib/python3/dist-packages/pip');
const hasNpm = ['/usr/bin/npm', '/usr/local/bin/npm'].some(existsSync);

// A server whose sandboxes may go to an index and a registry of the test's.
async function setup(t, runtime, needs) {
  if (!needs) return t.skip('no installer on this machine');
  if (runtime.startsWith('node') && !existsSync(join(added, 'trees', runtime))) return t.skip(`${runtime} was not added`);
  const index = await startIndex(t), registry = await startRegistry(t);
  const dns = await startDns(t, { 'index.test': ['127.0.0.1'], 'registry.test': ['127.0.0.1'] });
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, `[egress]\ndns_servers = ["${dns.address}"]\n`);
  const dir = mkdtempSync(join(tmpdir(), 'sandglass-it-')); // the server's: it goes with it
  if (existsSync(added)) symlinkSync(added, join(dir, 'runtimes'));
  const server = await serve(t, { dir, args: ['--config', config] });
  const post = async (path, body) => {
    const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } });
    return { http: answer.status, ...(await answer.json()) };
  };
  const places = [['index.test', index.port], ['registry.test', registry.port]];
  const box = await post('/v1/sandboxes', { tier: 'jail', runtime,
    network: places.map(([host, port]) => `allow ${host}:${port}; private ${host}=127.0.0.1:${port}`).join('; '),
    env: { PIP_INDEX_URL: `http://index.test:${index.port}/simple/`, PIP_TRUSTED_HOST: 'index.test', PIP_RETRIES: '0',
      NPM_CONFIG_REGISTRY: `http://registry.test:${registry.port}/`, NPM_CONFIG_FETCH_RETRIES: '0' } });
  if (box.http !== 201) return t.skip(`no jails here: ${JSON.stringify(box)}`);
  const run = async (code, more = {}) => {
    const answer = await post(`/v1/sandboxes/${box.id}/run_code`, { code, timeoutMs: 300000, ...more });
    assert.equal(answer.success, true, JSON.stringify(answer));
    return answer.result;
  };
  // A command of the API; what it prints.
  const sh = async (shell) => {
    const answer = await post(`/v1/sandboxes/${box.id}/commands`, { command: shell, timeoutMs: 300000 });
    assert.equal(answer.exitCode, 0, JSON.stringify(answer));
    return answer.stdout;
  };
  return { index, registry, server, box, post, run, sh };
}

test('Python: what pip installs in a shell is found by cells, and the other way round', T, async (t) => {
  const it = await setup(t, 'python3', hasPip);
  if (!it) return;
  it.index.add('fromshell', '1.0', 'fromshell', 'word = "shell"');
  it.index.add('fromcell', '1.0', 'fromcell', 'word = "cell"');
  it.index.add('asked', '1.0', 'asked', 'word = "asked"');
  it.index.add('asked', '2.0', 'asked', 'word = "newer"');
  assert.equal(await it.run('1 + 1'), 2, 'the interpreter is there before the package');
  const said = await it.sh('pip install fromshell 2>&1');
  assert.doesNotMatch(said, /externally-managed|error/i);
  assert.equal(await it.run('import fromshell\nfromshell.word', { install: false }), 'shell');
  assert.equal(await it.run('import fromcell\nfromcell.word'), 'cell');
  assert.equal(await it.sh('python3 -c "import fromcell; print(fromcell.word)"'), 'cell\n');
  assert.equal(await it.run('%pip install -q asked==1.0\nimport asked\nasked.word'), 'asked');
  assert.equal(await it.sh('python -m pip install -q asked==2.0 && python -c "import asked; print(asked.word)"'), 'newer\n');
  assert.match(await it.sh('pip list 2>/dev/null'), /^asked +2\.0$/m);
  assert.equal(await it.sh('pip uninstall -qy asked 2>&1; python3 -c "import asked" 2>&1 | tail -1'), "ModuleNotFoundError: No module named 'asked'\n");
  // In other kinds of cells, and in a virtual environment, which keeps to itself.
  assert.equal((await it.post(`/v1/sandboxes/${it.box.id}/run_code`, { language: 'bash', code: 'python3 -c "import fromshell; print(fromshell.word)"' })).stdout, 'shell\n');
  assert.equal(await it.sh('python3 -m venv --without-pip v && pip --python v/bin/python install -q asked==1.0 && . v/bin/activate && ' +
    'python -c "import asked; print(asked.word)"; python -c "import fromshell" 2>&1 | tail -1'), "asked\nModuleNotFoundError: No module named 'fromshell'\n");
});

test('Python: a package with a .pth file, and one that is installed before the first cell', T, async (t) => {
  const it = await setup(t, 'python3', hasPip);
  if (!it) return;
  it.index.add('early', '1.0', 'early', 'word = "early"');
  await it.sh('pip install -q early && mkdir -p proj/src && echo "word = 5" > proj/src/mine.py && ' +
    'echo /workspace/proj/src > "$(python3 -m site --user-site)/mine.pth"');
  assert.equal(await it.sh('python3 -c "import mine; print(mine.word)"'), '5\n');
  assert.deepEqual(await it.run('import early, mine\n[early.word, mine.word]', { install: false }), ['early', 5]);
  await it.sh('mkdir -p /workspace/late && echo "word = 6" > late/late.py && echo /workspace/late > "$(python3 -m site --user-site)/late.pth"');
  assert.equal(await it.run('import late\nlate.word', { install: false }), 6);
});

for (const runtime of ['node24', 'python3'])
  test(`${runtime}: what npm installs in a shell is found by cells of JavaScript, and the other way round`, T, async (t) => {
    const it = await setup(t, runtime, hasNpm && existsSync(join(added, 'trees/node24')));
    if (!it) return;
    for (const name of ['fromshell', 'fromcell', 'everywhere'])
      it.registry.add(name, '1.0.0', { 'index.js': `exports.word = "${name}";` });
    const js = { language: 'javascript' };
    assert.equal(await it.run('1 + 1', js), 2);
    const said = await it.sh('npm install fromshell 2>&1');
    assert.match(said, /added 1 package/);
    assert.equal(await it.run('const { word } = await import("fromshell"); word', { ...js, install: false }), 'fromshell');
    assert.equal(await it.run('import { word as other } from "fromcell"; other', js), 'fromcell');
    await it.sh('npm install -g everywhere');
    assert.equal(await it.run('require("everywhere").word', { ...js, install: false }), 'everywhere');
    await it.sh('mkdir -p /tmp/elsewhere; echo \'import { word } from "fromcell"; import all from "everywhere"; console.log(word, all.word)\' > /tmp/elsewhere/a.mjs; ' +
      'echo \'console.log(require("fromcell").word, require.resolve("everywhere"))\' > /tmp/elsewhere/b.cjs');
    assert.equal(await it.sh('node /tmp/elsewhere/a.mjs'), 'fromcell everywhere\n');
    assert.equal(await it.sh('node /tmp/elsewhere/b.cjs'), 'fromcell /workspace/.sandglass/node/lib/node_modules/everywhere/index.js\n');
    // As with packages of a snapshot, which lie in /node_modules: npm would take "/" for the project.
    assert.match(await it.sh('mkdir -p /node_modules/other /tmp/new && cd /tmp/new && npm install fromshell && ls node_modules && npm prefix'), /added 1 package[^]*\nfromshell\n\/tmp\/new\n/);
    assert.match(await it.sh('node -e "require(\'nosuch\')" 2>&1 || true'), /Cannot find module 'nosuch'/);
  });

test('the programs on PATH are those of the runtime, wherever commands are started', T, async (t) => {
  const it = await setup(t, 'node24', hasNpm);
  if (!it) return;
  const version = await it.run('process.version');
  assert.match(version, /^v24\./);
  assert.equal(await it.sh('node --version; command -v npm npx pip python3 python >/dev/null && echo all'), `${version}\nall\n`);
  assert.equal((await it.post(`/v1/sandboxes/${it.box.id}/run_code`, { language: 'bash', code: 'node --version' })).stdout, `${version}\n`);
  const env = { ...process.env, SANDGLASS_URL: it.server.url, SANDGLASS_TOKEN: it.server.token };
  const one = await cli(['sandbox', 'exec', it.box.id, '--', 'node', '--version'], { env });
  assert.equal(one.stdout, `${version}\n`, one.stderr);
  const python = await it.sh('python3 -c "import sys; print(sys.version.split()[0])"');
  assert.equal((await it.post(`/v1/sandboxes/${it.box.id}/run_code`, { language: 'python', code: 'import sys\nprint(sys.version.split()[0])' })).stdout, python);
  const background = await it.post(`/v1/sandboxes/${it.box.id}/commands`, { command: 'node --version > /workspace/version', detached: true });
  assert.ok(background.http < 300, JSON.stringify(background));
  await until(async () => (await it.sh('cat version 2>/dev/null || true')) !== '');
  assert.equal(await it.sh('cat version'), `${version}\n`);
});
