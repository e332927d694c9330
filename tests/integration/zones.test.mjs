// Zones, the file façade: one table of good, bad and hostile input, the same answers from every backend.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { BIN, isSanitized, run, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };
const { Client, Sandbox, Session, Volume, createSandbox, ZoneError } = await import(pathToFileURL(join(process.env.SG_SDK, 'dist/index.js')));

const onHost = (make) => async (t) => {
  const dir = tempDir(t);
  const zones = make(dir);
  t.after(() => zones.close());
  return { zones, dir };
};

const onServer = (make) => async (t) => {
  const server = await serve(t);
  const client = new Client({ url: server.url, token: server.token });
  return { zones: createSandbox({ mode: 'sandbox', sandbox: await make(client) }) };
};

// Directories that a server's configuration gives out.
const onServersHost = (make) => async (t) => {
  const dir = tempDir(t);
  const server = await serveZones(t, `[zones.reports]\nworkspace = "${dir}"\ntenants = ["*"]\n`);
  const zones = make(server);
  t.after(() => zones.close());
  return { zones, dir };
};

async function serveZones(t, toml) {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, toml);
  return serve(t, { args: ['--config', config] });
}

// The façade's verbs through another program, which tells its errors by their code.
function through(ask) {
  const bytes = async (...args) => (await ask(...args)).stdout;
  return {
    read: async (path) => (await bytes('read', path)).toString(),
    readBinary: async (path) => new Uint8Array(await bytes('read', path)),
    write: async (path, content) => void await ask('write', path, content),
    writeBinary: async (path, content) => void await ask('write', path, content),
    delete: async (path, { recursive = false } = {}) => void await ask(recursive ? 'delete_all' : 'delete', path),
    exists: async (path) => (await bytes('exists', path)).toString().trim() === 'true',
    list: async (path) => (await bytes('list', path)).toString().split('\n').slice(0, -1).sort(),
    resolve: async (path) => (await bytes('resolve', path)).toString().trim(),
    globPage: async (pattern, { path = '/workspace', ...rest } = {}) => JSON.parse(await bytes('glob', path, JSON.stringify({ pattern, ...rest }))),
    grepPage: async (pattern, { path = '/workspace', ...rest } = {}) => JSON.parse(await bytes('grep', path, JSON.stringify({ pattern, ...rest }))),
    edit: async (path, old, text, { all = false } = {}) => JSON.parse(await bytes('edit', path, JSON.stringify({ old, new: text, all }))).count,
    close: async () => {},
  };
}

async function runBytes(bin, args, input, env = process.env) {
  const child = spawn(bin, args, { stdio: ['pipe', 'pipe', 'pipe'], env });
  const out = [], err = [];
  child.stdout.on('data', (data) => out.push(data));
  child.stderr.on('data', (data) => err.push(data));
  child.stdin.on('error', () => {}); // one that refuses reads nothing
  child.stdin.end(input ?? '');
  const [code] = await once(child, 'close');
  return { code, stdout: Buffer.concat(out), stderr: Buffer.concat(err).toString() };
}

const isSearch = (verb) => ['glob', 'grep', 'edit'].includes(verb);

// A search and an edit say in their arguments what the others of this file say in JSON.
function wordsOf(verb, path, input) {
  if (!isSearch(verb)) return [verb.replace('_all', ''), path, ...(verb === 'delete_all' ? ['-r'] : [])];
  const { pattern, old, new: text, include, ignoreCase, searchAll, all } = JSON.parse(input);
  return [verb, ...(include === undefined ? [] : ['--include', include]), ...(ignoreCase ? ['-i'] : []), ...(searchAll ? ['--search-all'] : []), ...(all ? ['--all'] : []),
    '--', path, ...(verb === 'edit' ? [old, text] : [pattern])];
}

const byWords = (options, env) => through(async (verb, path, input) => {
  if (path.includes('\0')) throw new ZoneError('INVALID', 'no command line can hold it');
  const child = await runBytes(BIN, ['fs', ...options, '--json', ...wordsOf(verb, path, input)], isSearch(verb) ? '' : input, env);
  if (child.code === 0) return child;
  const { error } = JSON.parse(child.stdout.toString() || assert.fail(child.stderr));
  throw new ZoneError(error.code.toUpperCase(), error.message, path);
});

const cli = (dir) => byWords(['--direct', `workspace=${dir}`]);
const farCli = (server) => byWords(['--zone', 'reports', '--url', server.url], { ...process.env, SANDGLASS_TOKEN: server.token });

// Nothing but HTTP.
const http = (server) => through(async (verb, path, body) => {
  const door = '/v1/zones/reports/files';
  const isBytes = ['read', 'write', 'delete', 'delete_all'].includes(verb);
  const method = { read: 'GET', write: 'PUT', delete: 'DELETE', delete_all: 'DELETE' }[verb] ?? 'POST';
  const query = `?path=${encodeURIComponent(path).replaceAll('%2F', '/')}${verb === 'delete_all' ? '&recursive=true' : ''}`;
  const response = await server.get(door + (isBytes ? query : `/${verb}`), {
    method, ...(isBytes ? {} : { headers: { 'content-type': 'application/json' } }),
    ...(isBytes ? body === undefined ? {} : { body } : { body: JSON.stringify({ path, ...(isSearch(verb) ? JSON.parse(body) : {}) }) }) });
  const bytes = Buffer.from(await response.arrayBuffer());
  if (!response.ok) {
    const { error } = JSON.parse(bytes.toString());
    throw new ZoneError(error.code.toUpperCase(), error.message, path);
  }
  if (isBytes || isSearch(verb)) return { stdout: bytes };
  const { exists, names, path: real } = JSON.parse(bytes.toString());
  return { stdout: Buffer.from(String(exists ?? real ?? names.map((name) => `${name}\n`).join(''))) };
});

const ofC = (dir) => through(async (verb, path, input) => {
  if (path.includes('\0')) throw new ZoneError('INVALID', 'no C string can hold it');
  const child = await runBytes(process.env.SG_C_ZONES, [BIN, dir, verb, path], input);
  if (child.code === 0) return child;
  const { error } = JSON.parse(child.stdout.toString() || assert.fail(child.stderr));
  throw new ZoneError(error.code.toUpperCase(), error.message, path);
});

// name, builder, has /cache, is fenced by its directories (and not by a sandbox), can hold links
const backends = [
  ['sandboxed', onHost((dir) => createSandbox({ mode: 'sandboxed', root: join(dir, 'root'), bin: BIN })), true, 'root/workspace'],
  ['direct', onHost((dir) => {
    for (const zone of ['w', 'c']) mkdirSync(join(dir, zone));
    return createSandbox({ mode: 'direct', workspace: join(dir, 'w'), cache: join(dir, 'c'), bin: BIN });
  }), true, 'w'],
  ['single', onHost((dir) => createSandbox({ mode: 'single', directory: dir, bin: BIN })), false, '.'],
  ['command line', onHost(cli), false, '.'],
  ['the C library', onHost(ofC), false, '.'],
  ['the C library, sandboxed', onHost((dir) => ofC(`root:${join(dir, 'root')}`)), true, 'root/workspace'],
  ['a server\'s directories', onServersHost(({ url, token }) => createSandbox({ mode: 'remote', zone: 'reports', client: { url, token } })), false, '.'],
  ['a server\'s directories, command line', onServersHost(farCli), false, '.'],
  ['a server\'s directories, HTTP', onServersHost(http), false, '.'],
  ['memory', onHost(() => createSandbox({ mode: 'memory' })), true],
  ['sandbox, jail', onServer((client) => Sandbox.create({ client, tier: 'jail' })), true],
  ['session', onServer((client) => Session.create({ client, sandbox: { tier: 'jail' } })), true],
  ['volume', onServer((client) => Volume.create({ client })), false],
];

const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);

// Run in order; an answer, or the code of the error.
const table = [
  ['exists', ['/workspace'], true],
  ['list', ['/workspace'], []],
  ['write', ['/workspace/report.md', 'ä report\n'], undefined],
  ['read', ['/workspace/report.md'], 'ä report\n'],
  ['write', ['/workspace/report.md', ''], undefined],
  ['read', ['/workspace/report.md'], ''],
  ['writeBinary', ['/workspace/deep/er/all.bin', bytes], undefined],
  ['readBinary', ['/workspace/deep/er/all.bin'], bytes],
  ['write', ['/workspace/deep/b c "d" \\ ü', 'odd name'], undefined],
  ['read', ['/workspace/deep/./er/../b c "d" \\ ü'], 'odd name'],
  ['read', ['//workspace///deep//b c "d" \\ ü'], 'odd name'],
  ['list', ['/workspace'], ['deep', 'report.md']],
  ['list', ['/workspace/deep/'], ['b c "d" \\ ü', 'er']],
  ['exists', ['/workspace/deep/er'], true],
  ['exists', ['/workspace/none'], false],
  ['exists', ['/workspace/report.md/below'], false],
  // What is not what it was taken for.
  ['read', ['/workspace/none'], 'NOT_FOUND'],
  ['read', ['/workspace/none/deeper'], 'NOT_FOUND'],
  ['read', ['/workspace/deep'], 'NOT_A_FILE'],
  ['read', ['/workspace'], 'NOT_A_FILE'],
  ['list', ['/workspace/none'], 'NOT_FOUND'],
  ['list', ['/workspace/report.md'], 'NOT_A_DIRECTORY'],
  ['read', ['/workspace/report.md/below'], 'NOT_A_DIRECTORY'],
  ['write', ['/workspace/report.md/below', 'x'], 'NOT_A_DIRECTORY'],
  ['write', ['/workspace/deep', 'x'], 'NOT_A_FILE'],
  ['write', ['/workspace', 'x'], 'INVALID'],
  ['delete', ['/workspace/none'], 'NOT_FOUND'],
  ['delete', ['/workspace/deep'], 'CONFLICT'],
  ['delete', ['/workspace'], 'INVALID'],
  ['delete', ['/workspace', { recursive: true }], 'INVALID'],
  // Paths that want out.
  ['read', ['/workspace/../etc/passwd'], 'PATH_ESCAPES'],
  ['read', ['/workspace/deep/../../../etc/passwd'], 'PATH_ESCAPES'],
  ['read', ['/../workspace/report.md'], 'PATH_ESCAPES'],
  ['read', ['/workspace/../workspace/report.md'], 'PATH_ESCAPES'],
  ['write', ['/workspace/../cache/x', 'x'], 'PATH_ESCAPES'],
  ['delete', ['/workspace/..', { recursive: true }], 'PATH_ESCAPES'],
  ['list', ['/workspace/../..'], 'PATH_ESCAPES'],
  ['exists', ['/workspace/../../etc'], 'PATH_ESCAPES'],
  ['resolve', ['/workspace/../x'], 'PATH_ESCAPES'],
  ['read', ['/etc/passwd'], 'ZONE_NOT_CONFIGURED'],
  ['read', ['/workspaces/x'], 'ZONE_NOT_CONFIGURED'],
  ['write', ['/proc/self/mem', 'x'], 'ZONE_NOT_CONFIGURED'],
  ['read', ['report.md'], 'INVALID'],
  ['read', ['../report.md'], 'INVALID'],
  ['read', [''], 'INVALID'],
  ['read', ['/'], 'INVALID'],
  ['read', ['/workspace/a\0b'], 'INVALID'],
  ['write', [`/workspace/${'n'.repeat(256)}`, 'x'], 'INVALID'],
  ['write', [`/workspace/${'n/'.repeat(2100)}x`, 'x'], 'INVALID'],
  ['read', ['/workspace/%2e%2e/%2e%2e/etc/passwd'], 'NOT_FOUND'],
  ['read', ['/workspace/..\\..\\etc\\passwd'], 'NOT_FOUND'],
  // Searches and edits.
  ['write', ['/workspace/find/one.md', '# One\nneedle hére\n'], undefined],
  ['write', ['/workspace/find/b/two.txt', 'Needle there\nno\nneedle\n'], undefined],
  ['writeBinary', ['/workspace/find/b/binary.md', Uint8Array.from([0, 110, 101, 101, 100, 108, 101, 10])], undefined],
  ['globPage', ['find/**/*.md'], { paths: ['/workspace/find/b/binary.md', '/workspace/find/one.md'], truncated: false }],
  ['globPage', ['**', { path: '/workspace/find' }], { paths: ['/workspace/find/b/binary.md', '/workspace/find/b/two.txt', '/workspace/find/one.md'], truncated: false }],
  ['globPage', ['{one,*/t[!x]?}.{md,txt}', { path: '/workspace/find' }], { paths: ['/workspace/find/b/two.txt', '/workspace/find/one.md'], truncated: false }],
  ['globPage', ['*/passwd'], { paths: [], truncated: false }],
  ['globPage', ['['], 'INVALID_PATTERN'],
  ['globPage', ['*', { path: '/workspace/none' }], 'NOT_FOUND'],
  ['globPage', ['*', { path: '/workspace/../..' }], 'PATH_ESCAPES'],
  ['globPage', ['*', { path: '/etc' }], 'ZONE_NOT_CONFIGURED'],
  ['grepPage', [' h.re$'], { matches: [{ path: '/workspace/find/one.md', line: 2, text: 'needle hére' }], truncated: false }],
  ['grepPage', ['needle', { path: '/workspace/find', ignoreCase: true, include: '*.txt' }], { matches: [
    { path: '/workspace/find/b/two.txt', line: 1, text: 'Needle there' }, { path: '/workspace/find/b/two.txt', line: 3, text: 'needle' }], truncated: false }],
  ['grepPage', ['^no', { path: '/workspace/find/b/two.txt' }], { matches: [{ path: '/workspace/find/b/two.txt', line: 2, text: 'no' }], truncated: false }],
  // What tools keep is left out unless it is requested.
  ['write', ['/workspace/skip/node_modules/x/i.js', 'needle\n'], undefined],
  ['write', ['/workspace/skip/.git/config', 'needle\n'], undefined],
  ['write', ['/workspace/skip/own.js', 'needle\n'], undefined],
  ['globPage', ['**', { path: '/workspace/skip' }], { paths: ['/workspace/skip/own.js'], truncated: false }],
  ['globPage', ['**', { path: '/workspace/skip', searchAll: true }], { paths: ['/workspace/skip/.git/config', '/workspace/skip/node_modules/x/i.js', '/workspace/skip/own.js'], truncated: false }],
  ['globPage', ['**/node_modules/**', { path: '/workspace/skip' }], { paths: ['/workspace/skip/node_modules/x/i.js'], truncated: false }],
  ['globPage', ['**', { path: '/workspace/skip/node_modules' }], { paths: ['/workspace/skip/node_modules/x/i.js'], truncated: false }],
  ['grepPage', ['needle', { path: '/workspace/skip' }], { matches: [{ path: '/workspace/skip/own.js', line: 1, text: 'needle' }], truncated: false }],
  ['grepPage', ['needle', { path: '/workspace/skip', searchAll: true }], { matches: ['.git/config', 'node_modules/x/i.js', 'own.js'].map((name) => (
    { path: `/workspace/skip/${name}`, line: 1, text: 'needle' })), truncated: false }],
  ['delete', ['/workspace/skip', { recursive: true }], undefined],
  ['grepPage', ['nothing like it'], { matches: [], truncated: false }],
  ['grepPage', ['('], 'INVALID_PATTERN'],
  ['grepPage', ['root', { path: '/workspace/../..' }], 'PATH_ESCAPES'],
  ['edit', ['/workspace/find/one.md', 'needle', 'pin'], 1],
  ['edit', ['/workspace/find/one.md', 'needle', 'pin'], 'NO_MATCH'],
  ['edit', ['/workspace/find/b/two.txt', 'e', 'E'], 'AMBIGUOUS_MATCH'],
  ['edit', ['/workspace/find/b/two.txt', 'e', 'E', { all: true }], 8],
  ['edit', ['/workspace/find/b/two.txt', '', 'E'], 'INVALID'],
  ['edit', ['/workspace/find', 'a', 'b'], 'NOT_A_FILE'],
  ['edit', ['/workspace/none', 'a', 'b'], 'NOT_FOUND'],
  ['edit', ['/workspace', 'a', 'b'], 'INVALID'],
  ['edit', ['/workspace/../x', 'a', 'b'], 'PATH_ESCAPES'],
  ['read', ['/workspace/find/one.md'], '# One\npin hére\n'],
  ['read', ['/workspace/find/b/two.txt'], 'NEEdlE thErE\nno\nnEEdlE\n'],
  ['delete', ['/workspace/find', { recursive: true }], undefined],
  // What is too large.
  ['writeBinary', ['/workspace/large', new Uint8Array((32 << 20) + 1)], 'TOO_LARGE'],
  ['exists', ['/workspace/large'], false],
  // And away.
  ['delete', ['/workspace/deep/er/all.bin'], undefined],
  ['delete', ['/workspace/deep/er'], undefined],
  ['delete', ['/workspace/deep', { recursive: true }], undefined],
  ['list', ['/workspace'], ['report.md']],
];

const inCache = [
  ['write', ['/cache/doc.pdf', 'of the cache'], undefined],
  ['read', ['/cache/doc.pdf'], 'of the cache'],
  ['exists', ['/workspace/doc.pdf'], false],
  ['list', ['/cache'], ['doc.pdf']],
  ['delete', ['/cache/doc.pdf'], undefined],
];
const withoutCache = ['read', 'exists', 'list', 'delete', 'resolve'].map((verb) => [verb, ['/cache/doc.pdf'], 'ZONE_NOT_CONFIGURED']);

async function check(zones, [verb, args, expected]) {
  const what = `${verb} ${JSON.stringify(args[0]).slice(0, 80)}`;
  const answer = await zones[verb](...args).catch((error) => error);
  for (const match of answer?.matches ?? []) delete match.column; // not every backend knows it
  if (typeof expected === 'string' && /^[A-Z_]+$/.test(expected)) {
    assert.ok(answer instanceof ZoneError, `${what}: ${answer}`);
    assert.equal(answer.code, expected, `${what}: ${answer.message}`);
  } else {
    assert.deepEqual(answer, expected, what);
  }
}

for (const [name, make, hasCache, place] of backends)
  test(`the table, ${name}`, T, async (t) => {
    const { zones, dir } = await make(t);
    for (const row of [...table, ...(hasCache ? inCache : withoutCache)]) await check(zones, row);
    if (dir === undefined || place === undefined) return;

    // Directories of this machine: what lies in the zone is there as it was written, and no link leads out.
    const workspace = join(dir, place);
    const canary = join(tempDir(t), 'canary');
    writeFileSync(canary, 'of the host');
    await zones.write('/workspace/sub/file', 'seen by others');
    const real = await zones.resolve('/workspace/sub/file');
    assert.equal(readFileSync(real, 'utf8'), 'seen by others');
    symlinkSync(canary, join(workspace, 'out'));
    symlinkSync(join(canary, '..'), join(workspace, 'outdir'));
    symlinkSync('sub/file', join(workspace, 'in'));
    symlinkSync('../../../../../../../../etc/passwd', join(workspace, 'up'));
    symlinkSync('loop', join(workspace, 'loop'));
    symlinkSync('/proc/self/fd/0', join(workspace, 'fd'));
    execFileSync('mkfifo', [join(workspace, 'fifo')]);
    const hostile = [
      ['read', ['/workspace/in'], 'seen by others'],
      ['read', ['/workspace/out'], 'PATH_ESCAPES'],
      ['read', ['/workspace/up'], 'PATH_ESCAPES'],
      ['read', ['/workspace/fd'], 'PATH_ESCAPES'],
      ['read', ['/workspace/outdir/canary'], 'PATH_ESCAPES'],
      ['write', ['/workspace/outdir/canary', 'mine'], 'PATH_ESCAPES'],
      ['write', ['/workspace/outdir/new', 'mine'], 'PATH_ESCAPES'],
      ['delete', ['/workspace/outdir/canary'], 'PATH_ESCAPES'],
      ['list', ['/workspace/outdir'], 'PATH_ESCAPES'],
      ['exists', ['/workspace/out'], 'PATH_ESCAPES'],
      ['resolve', ['/workspace/out'], 'PATH_ESCAPES'],
      ['read', ['/workspace/fifo'], 'NOT_A_FILE'],
      ['globPage', ['*', { path: '/workspace/outdir' }], 'PATH_ESCAPES'],
      ['grepPage', ['of the host'], { matches: [], truncated: false }],
      ['grepPage', ['.', { path: '/workspace/out' }], 'PATH_ESCAPES'],
      ['edit', ['/workspace/out', 'host', 'guest'], 'NOT_A_FILE'],
      ['edit', ['/workspace/outdir/canary', 'host', 'guest'], 'PATH_ESCAPES'],
      ['write', ['/workspace/out', 'replaces the link'], undefined],
      ['read', ['/workspace/out'], 'replaces the link'],
      ['delete', ['/workspace/outdir'], undefined],
    ];
    for (const row of hostile) await check(zones, row);
    await assert.rejects(zones.read('/workspace/loop'), ZoneError);
    assert.equal(readFileSync(canary, 'utf8'), 'of the host');
    assert.ok(!existsSync(join(canary, '../new')));
  });

test('read-only zones refuse what changes something', T, async (t) => {
  const dir = tempDir(t);
  writeFileSync(join(dir, 'f'), 'kept');
  for (const zones of [createSandbox({ mode: 'single', directory: dir, bin: BIN, readOnly: true }), createSandbox({ mode: 'memory', readOnly: true })]) {
    await check(zones, ['write', ['/workspace/x', 'x'], 'READ_ONLY']);
    await check(zones, ['delete', ['/workspace/f'], 'READ_ONLY']);
    await check(zones, ['edit', ['/workspace/f', 'kept', 'lost'], 'READ_ONLY']);
    await zones.close();
  }
  // The program refuses by itself, too.
  const child = await runBytes(BIN, ['fs', '--direct', `workspace=${dir}`, '--read-only', '--json', 'write', '/workspace/f'], 'mine');
  assert.deepEqual([child.code, JSON.parse(child.stdout).error.code], [1, 'read_only']);
  assert.equal(readFileSync(join(dir, 'f'), 'utf8'), 'kept');
});

test('modes and workers that cannot be', T, async (t) => {
  assert.throws(() => createSandbox({ mode: 'direct' }), { code: 'ZONE_NOT_CONFIGURED' });
  assert.throws(() => createSandbox({ mode: 'cloud' }), { code: 'INVALID', message: /cloud/ });
  const gone = createSandbox({ mode: 'direct', workspace: join(tempDir(t), 'none'), bin: BIN });
  await assert.rejects(gone.read('/workspace/x'), { code: 'UNAVAILABLE', message: /No such file/ });
  const absent = createSandbox({ mode: 'single', directory: '.', bin: '/no/such/program' });
  await assert.rejects(absent.read('/workspace/x'), { code: 'UNAVAILABLE', message: /install sandglass/ });
  for (const args of [['read', '/workspace/x'], ['--direct', 'etc=/etc', 'read', '/workspace/x'], ['--direct', 'workspace=.', 'fly', '/x'],
    ['--direct', 'workspace=.', 'read'], ['--direct', 'workspace=.', 'glob', '/workspace'], ['--direct', 'workspace=.', 'edit', '/workspace/x', 'old'], ['--root', '.', '--direct', 'workspace=.', 'list', '/workspace']])
    assert.equal((await run(['fs', ...args])).code, 2, args.join(' '));
});

test('many questions at once are answered each in its turn', T, async (t) => {
  const zones = createSandbox({ mode: 'single', directory: tempDir(t), bin: BIN });
  t.after(() => zones.close());
  await Promise.all(Array.from({ length: 100 }, (_, i) => zones.write(`/workspace/${i}`, 'x'.repeat(i * 1000))));
  const sizes = await Promise.all(Array.from({ length: 100 }, async (_, i) => (await zones.read(`/workspace/${i}`)).length));
  assert.deepEqual(sizes, Array.from({ length: 100 }, (_, i) => i * 1000));
  await zones.close();
  assert.equal((await zones.list('/workspace')).length, 100); // another worker
});

test('the worker gives up what it does not need', { ...T, skip: isSanitized && 'not under a sanitizer' }, async (t) => {
  const dir = tempDir(t);
  const child = spawn(BIN, ['fs', '--direct', `workspace=${dir}`, 'serve'], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill());
  child.stdin.write('exists 10 0\n/workspace');
  let answer = '';
  while (answer !== 'ok 1\n1') answer += (await once(child.stdout, 'data'))[0];
  const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
  assert.match(status, /NoNewPrivs:\t1/);
  assert.match(status, /Seccomp:\t2/);
  child.stdin.write('nonsense\n');
  const [code] = await once(child, 'exit');
  assert.notEqual(code, 0);
});

test('the tools of the façade answer as the server does', T, async (t) => {
  const server = await serve(t);
  const client = new Client({ url: server.url, token: server.token });
  const targets = [createSandbox({ mode: 'memory' }), createSandbox({ mode: 'single', directory: tempDir(t), bin: BIN }),
    await Session.create({ client, sandbox: { tier: 'jail' } })];
  const members = (answer) => Object.fromEntries(Object.entries(answer).filter(([key]) => !['error', 'note'].includes(key)));
  const calls = [
    ['write', { path: 'a.txt', content: 'one\ntwo\ntwo\n' }],
    ['write', { path: '/workspace/a.txt', content: 'one\ntwo\ntwo\n' }],
    ['read', { path: 'a.txt' }],
    ['read', { path: 'a.txt', offset: 2, limit: 1 }],
    ['read', { path: 'none' }],
    ['read', { path: '/workspace' }],
    ['edit', { path: 'a.txt', oldString: 'two', newString: '2' }],
    ['edit', { path: 'a.txt', oldString: 'six', newString: '6' }],
    ['edit', { path: 'a.txt', oldString: 'two', newString: '2', replaceAll: true }],
    ['read', { path: 'a.txt' }],
    ['glob', { pattern: '*.txt' }],
    ['glob', { pattern: '[' }],
    ['grep', { pattern: 'on.', glob: '*.txt' }],
    ['grep', { pattern: 'on.', dirPath: 'none' }],
    ['delete', { path: 'a.txt' }],
  ];
  for (const [name, args] of calls) {
    const answers = [];
    for (const target of targets) {
      const { isError, answer } = await target.callTool(name, args);
      answers.push({ isError, ...members(answer), code: answer.error?.code, hint: answer.error?.hint });
    }
    assert.deepEqual(answers[0], answers[2], `${name} ${JSON.stringify(args)}`);
    assert.deepEqual(answers[1], answers[2], `${name} ${JSON.stringify(args)}`);
  }
  await targets[1].close();
});

const post = async (server, path, body, token = server.token) => {
  const response = await server.get(path, { method: 'POST', body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` } });
  const text = await response.text();
  return text === '' ? undefined : JSON.parse(text);
};

test('a server searches and edits its directories', T, async (t) => {
  const root = join(tempDir(t), 'root');
  const server = await serveZones(t, `[zones.both]\nroot = "${root}"\n`);
  const zones = createSandbox({ mode: 'remote', zone: 'both', client: { url: server.url, token: server.token } });
  await zones.write('/workspace/a/one.md', '# One\nneedle here\n');
  await zones.write('/workspace/two.txt', 'Needle there\n');
  await zones.write('/cache/three.md', 'needle\n');
  assert.equal(readFileSync(join(root, 'cache/three.md'), 'utf8'), 'needle\n');
  symlinkSync('/etc', join(root, 'workspace/out'));
  const ask = (verb, body) => post(server, `/v1/zones/both/files/${verb}`, body);
  const table = [
    ['glob', { pattern: '**/*.md' }, { paths: ['/workspace/a/one.md'], truncated: false }],
    ['glob', { path: '/cache', pattern: '*' }, { paths: ['/cache/three.md'], truncated: false }],
    ['glob', { pattern: '**', limit: 1 }, { paths: ['/workspace/a/one.md'], truncated: true }],
    ['glob', { pattern: '**/passwd' }, { paths: [], truncated: false }],
    ['glob', { pattern: '[' }, 'invalid_pattern'],
    ['glob', { path: '/workspace/out', pattern: '*' }, 'path_escapes'],
    ['grep', { pattern: 'needle' }, { matches: [{ path: '/workspace/a/one.md', line: 2, column: 1, text: 'needle here' }], truncated: false }],
    ['grep', { pattern: 'needle', ignoreCase: true, include: '*.txt' },
      { matches: [{ path: '/workspace/two.txt', line: 1, column: 1, text: 'Needle there' }], truncated: false }],
    ['grep', { pattern: '(' }, 'invalid_pattern'],
    ['grep', { path: '/workspace/../..', pattern: 'root' }, 'path_escapes'],
    ['edit', { path: '/workspace/two.txt', old: 'there', new: 'gone' }, { count: 1 }],
    ['edit', { path: '/workspace/two.txt', old: 'there', new: 'gone' }, 'no_match'],
    ['edit', { path: '/workspace/two.txt', old: 'e', new: 'E' }, 'ambiguous_match'],
    ['edit', { path: '/workspace/two.txt', old: 'e', new: 'E', all: true }, { count: 4 }],
    ['edit', { path: '/workspace/none', old: 'e', new: 'E' }, 'not_found'],
    ['list', { path: `/workspace/${'ü'.repeat(4000)}` }, 'invalid'],
    ['list', { path: '/workspace', extra: 1 }, 'invalid'],
  ];
  for (const [verb, body, expected] of table) {
    const answer = await ask(verb, body);
    assert.deepEqual(typeof expected === 'string' ? answer.error?.code : answer, expected, `${verb} ${JSON.stringify(body).slice(0, 99)}: ${JSON.stringify(answer).slice(0, 200)}`);
  }
  assert.equal(await zones.read('/workspace/two.txt'), 'NEEdlE gonE\n');
});

test('only those whom the configuration names use a server\'s directories', T, async (t) => {
  const dir = tempDir(t);
  writeFileSync(join(dir, 'f'), 'kept');
  const server = await serveZones(t, [`[zones.all]\nworkspace = "${dir}"\nread_only = true\ntenants = ["*"]`,
    `[zones.acme]\ncache = "${dir}"\ntenants = ["acme"]`, `[zones.own]\nworkspace = "${dir}"`,
    `[zones.gone]\nworkspace = "${join(dir, 'none')}"\ntenants = ["acme"]`, ''].join('\n'));
  const tokenOf = async (tenant, scopes) => (await post(server, '/v1/tokens', { tenant, scopes })).token;
  const names = async (token) => (await (await server.get('/v1/zones', { headers: { authorization: `Bearer ${token}` } })).json()).zones?.map(({ name }) => name);
  const acme = await tokenOf('acme', ['read', 'files']), other = await tokenOf('other', ['files', 'read']), reader = await tokenOf('acme', ['read']);
  assert.deepEqual(await names(server.token), ['all', 'acme', 'own', 'gone']);
  assert.deepEqual(await names(acme), ['all', 'acme', 'gone']);
  assert.deepEqual(await names(other), ['all']);
  const code = async (zone, path, token) => (await post(server, `/v1/zones/${zone}/files/exists`, { path }, token)).error?.code;
  assert.equal(await code('acme', '/cache/f', acme), undefined);
  assert.equal(await code('acme', '/workspace/f', acme), 'zone_not_configured');
  assert.equal(await code('acme', '/cache/f', other), 'not_found');
  assert.equal(await code('own', '/workspace/f', acme), 'not_found');
  assert.equal(await code('acme', '/cache/f', reader), 'forbidden');
  assert.equal(await code('gone', '/workspace/f', acme), 'unavailable');
  const readOnly = createSandbox({ mode: 'remote', zone: 'all', client: { url: server.url, token: other } });
  await check(readOnly, ['read', ['/workspace/f'], 'kept']);
  await check(readOnly, ['write', ['/workspace/f', 'mine'], 'READ_ONLY']);
  await check(readOnly, ['delete', ['/workspace/f'], 'READ_ONLY']);
  for (const toml of ['[zones.x]', `[zones.x]\nroot = "${dir}"\ncache = "${dir}"`, '[zones.x]\nworkspace = "reports"'])
    await assert.rejects(serveZones(t, toml + '\n'), /zones\.x/);
});

test('the worker of a server\'s directories can end at any time', T, async (t) => {
  const dir = tempDir(t);
  const server = await serveZones(t, `[zones.w]\nworkspace = "${dir}"\n`);
  const zones = createSandbox({ mode: 'remote', zone: 'w', client: { url: server.url, token: server.token, retries: 0 } });
  await zones.write('/workspace/f', 'kept');
  const workers = () => execFileSync('ps', ['-o', 'pid=,args=', '--ppid', String(server.child.pid)]).toString().split('\n')
    .filter((line) => line.includes(`workspace=${dir}`)).map((line) => Number.parseInt(line, 10));
  const [worker] = workers();
  if (!isSanitized) {
    const status = readFileSync(`/proc/${worker}/status`, 'utf8');
    assert.match(status, /NoNewPrivs:\t1/);
    assert.match(status, /Seccomp:\t2/);
  }
  assert.equal(readFileSync(`/proc/${worker}/environ`, 'utf8'), '');
  // One that is stopped leaves its questions unanswered; its end answers them all.
  process.kill(worker, 'SIGSTOP');
  const asked = Array.from({ length: 10 }, () => zones.read('/workspace/f').catch(({ code }) => code));
  await until(async () => (await server.figure('sandglass_http_running_requests')) > asked.length); // and the one that asks
  const full = Array.from({ length: 30 }, () => zones.exists('/workspace/f').catch(({ code }) => code));
  await Promise.any(full.map(async (each) => assert.match(await each, /busy/i)));
  process.kill(worker, 'SIGKILL');
  assert.deepEqual(await Promise.all(asked), Array(10).fill('UNAVAILABLE'));
  await Promise.all(full);
  assert.equal(await zones.read('/workspace/f'), 'kept');
  assert.notEqual(workers()[0], worker);
  assert.equal(workers().length, 1);
});
