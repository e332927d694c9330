// Zones, the file façade: one table of good, bad and hostile input, the same answers from every backend.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { pathToFileURL } from 'node:url';
import { BIN, isSanitized, run, serve, tempDir } from './lib.mjs';

const T = { timeout: 120000 };
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
    close: async () => {},
  };
}

async function runBytes(bin, args, input) {
  const child = spawn(bin, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  const out = [], err = [];
  child.stdout.on('data', (data) => out.push(data));
  child.stderr.on('data', (data) => err.push(data));
  child.stdin.on('error', () => {}); // one that refuses reads nothing
  child.stdin.end(input ?? '');
  const [code] = await once(child, 'close');
  return { code, stdout: Buffer.concat(out), stderr: Buffer.concat(err).toString() };
}

const cli = (dir) => through(async (verb, path, input) => {
  if (path.includes('\0')) throw new ZoneError('INVALID', 'no command line can hold it');
  const args = ['fs', '--direct', `workspace=${dir}`, '--json', verb.replace('_all', ''), path, ...(verb === 'delete_all' ? ['-r'] : [])];
  const child = await runBytes(BIN, args, input);
  if (child.code === 0) return child;
  const { error } = JSON.parse(child.stdout.toString() || assert.fail(child.stderr));
  throw new ZoneError(error.code.toUpperCase(), error.message, path);
});

const ofC = (dir) => through(async (verb, path, input) => {
  if (path.includes('\0')) throw new ZoneError('INVALID', 'no C string can hold it');
  const child = await runBytes(process.env.SG_C_ZONES, [BIN, dir, verb, path], input);
  if (child.code === 0) return child;
  const { error } = JSON.parse(child.stdout.toString() || assert.fail(child.stderr));
  throw new ZoneError(error.code.toUpperCase(), error.message, path);
});

// name, maker, has /cache, is fenced by its directories (and not by a sandbox), can hold links
const backends = [
  ['sandboxed', onHost((dir) => createSandbox({ mode: 'sandboxed', root: join(dir, 'root'), bin: BIN })), true, 'root/workspace'],
  ['direct', onHost((dir) => {
    for (const zone of ['w', 'c']) mkdirSync(join(dir, zone));
    return createSandbox({ mode: 'direct', workspace: join(dir, 'w'), cache: join(dir, 'c'), bin: BIN });
  }), true, 'w'],
  ['single', onHost((dir) => createSandbox({ mode: 'single', directory: dir, bin: BIN })), false, '.'],
  ['command line', onHost(cli), false, '.'],
  ['the C library', onHost(ofC), false, '.'],
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
    ['--direct', 'workspace=.', 'read'], ['--root', '.', '--direct', 'workspace=.', 'list', '/workspace']])
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
