// The command line against a running server: commands, sessions by name, labels, messages.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { BIN, run, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 240000 };
const ends = [];
let server, dir, box, env;

before(async () => {
  const t = { after: (call) => ends.push(call) };
  server = await serve(t);
  dir = tempDir(t);
  env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token, HOME: dir, XDG_CONFIG_HOME: dir };
  box = (await ask('POST', '/v1/sandboxes', { name: 'work' })).id;
});
after(async () => { for (const end of ends.reverse()) await end(); });

async function ask(method, path, body) {
  const answer = await server.get(path, { method, ...(body ? { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) } : {}) });
  return answer.status === 204 ? {} : answer.json();
}
const cli = (...args) => run(args, { env });
// What must not fail, and says nothing else.
const good = async (...args) => {
  const { code, stdout, stderr } = await cli(...args);
  assert.deepEqual([code, stderr], [0, ''], args.join(' '));
  return stdout;
};
const bad = async (...args) => {
  const { code, stderr } = await cli(...args);
  assert.notEqual(code, 0, args.join(' '));
  return stderr;
};
const rows = (table) => table.trimEnd().split('\n').slice(1);

test('the commands of a sandbox are listed and ended', T, async () => {
  const sleeper = (await good('sandbox', 'exec', '-d', box, '--', 'sh', '-c', "trap 'exit 4' TERM; while :; do sleep 0.1; done")).trim();
  const quiet = (await good('sandbox', 'exec', '-d', box, '--', 'sleep', '1000')).trim();
  const list = await good('sandbox', 'commands', 'work');
  assert.match(list, /^ID +STATE +PID +AGE +TTY +COMMAND\n/);
  assert.equal(rows(list).length, 2);
  const line = rows(list).find((row) => row.startsWith(sleeper));
  assert.match(line, / running +\d+ +\d+s +- +sh -c 'trap '\\''exit 4'\\'' TERM; while/);
  const asJson = JSON.parse(await good('sandbox', 'commands', '--json', box));
  const told = asJson.commands.find(({ id }) => id === quiet);
  assert.deepEqual([told.argv, told.state], [['sleep', '1000'], 'running']);
  // The process id is the one that the sandbox's own programs see.
  assert.match(await good('sandbox', 'exec', box, '--', 'cat', `/proc/${told.pid}/cmdline`), /^sleep\0/);

  assert.match(await bad('sandbox', 'kill', box), /give command ids or --all/);
  assert.match(await bad('sandbox', 'kill', box, 'nosuchcommand'), /no command 'nosuchcommand'/);
  const other = (await ask('POST', '/v1/sandboxes', {})).id;
  assert.match(await bad('sandbox', 'kill', other, sleeper), new RegExp(`command '${sleeper}' belongs to sandbox '${box}'`));
  assert.match(await bad('sandbox', 'kill', box, sleeper, '--signal', 'NONE'), /unknown signal 'NONE'/);
  await good('sandbox', 'kill', box, sleeper);
  await until(async () => rows(await good('sandbox', 'commands', box)).length === 1);
  await good('sandbox', 'kill', box, '--all', '-s', 'KILL');
  await until(async () => rows(await good('sandbox', 'commands', box)).length === 0);
  const all = rows(await good('sandbox', 'commands', '--all', box));
  assert.match(all.find((row) => row.startsWith(sleeper)), / exited 4 +- /);
  assert.match(all.find((row) => row.startsWith(quiet)), / killed +- /);
  assert.match(await bad('sandbox', 'kill', box, quiet), /has ended/);
});

test('labels are listed and searched for, and get prints a block', T, async () => {
  const red = (await good('sandbox', 'create', '--name', 'red one', '--label', 'team=red', '--label', 'job=7', '--memory', '256m', '--idle', '90s')).trim();
  const blue = (await good('sandbox', 'create', '--label', 'team=blue', '--label', 'job=7')).trim();
  const ids = async (...labels) => rows(await good('sandbox', 'ls', ...labels.flatMap((label) => ['--label', label]))).map((row) => row.split(' ')[0]).sort();
  assert.deepEqual(await ids('job=7'), [red, blue].sort());
  assert.deepEqual(await ids('job=7', 'team=red'), [red]);
  assert.deepEqual(await ids('job=8'), []);
  assert.match(await good('sandbox', 'ls', '--label', 'team=red'), /LABELS\n.* (team=red,job=7|job=7,team=red)\n$/);
  for (const wrong of ['team', '=red', 'a=b,c=d']) assert.match(await bad('sandbox', 'ls', '--label', wrong), /is not NAME=VALUE without a comma/);
  const block = await good('sandbox', 'get', red);
  for (const line of [/^id: +\w+$/m, /^name: +red one$/m, /^state: +running$/m, /^labels: +.*team=red/m, /^memory: +256 MiB$/m,
    /^idle limit: +90s$/m, /^time limit: +none$/m, /^created: +20/m]) assert.match(block, line);
  assert.doesNotMatch(block, /volume|null/);
  for (const id of [red, blue]) await good('sandbox', 'rm', id);
});

test('how long the volume of a session is kept is shown and set', T, async () => {
  const id = (await good('session', 'create', '--name', 'short', '--volume-ttl', '2h')).trim();
  assert.match(await good('session', 'get', id), /^volume TTL: +2h$/m);
  await good('sandbox', 'exec', 'short', '--', 'touch', 'file');
  assert.equal(JSON.parse(await good('session', 'get', '--json', id)).volumeExpiresAt, null, 'in use');
  await ask('POST', `/v1/sessions/${id}/rest`);
  const { volumeExpiresAt, volume, volumeTtlMs } = JSON.parse(await good('session', 'get', '--json', id));
  assert.equal(volumeTtlMs, 7200000);
  assert.equal((await ask('GET', `/v1/volumes/${volume}`)).expiresAt, volumeExpiresAt);
  assert.match(await good('session', 'ls'), new RegExp(`EXPIRES\\n[^]*${id} .* ${volumeExpiresAt}\\n`));
  const kept = (await good('session', 'create', '--volume-ttl', 'none')).trim();
  await good('sandbox', 'exec', kept, '--', 'touch', 'file');
  await ask('POST', `/v1/sessions/${kept}/rest`);
  assert.match(await good('session', 'get', kept), /^volume TTL: +none$/m);
  const usual = (await good('session', 'create')).trim();
  assert.match(await good('session', 'get', usual), /^volume TTL: +30m$/m);
});

test('verbs of sandboxes take sessions by id and name, and wake them', T, async () => {
  const id = (await good('session', 'create', '--name', 'study')).trim();
  await good('sandbox', 'exec', 'study', '--', 'sh', '-c', 'echo kept > note; mkdir d');
  const inside = (await ask('GET', `/v1/sessions/${id}`)).sandbox;
  assert.equal(await good('sandbox', 'exec', id, '--', 'cat', 'note'), 'kept\n');
  assert.equal(JSON.parse(await good('sandbox', 'get', '--json', 'study')).id, inside);
  assert.equal(await good('sandbox', 'commands', `session:${id}`), await good('sandbox', 'commands', inside));

  const sleep = async () => { await ask('POST', `/v1/sessions/${id}/rest`); };
  await sleep();
  assert.match(await bad('sandbox', 'commands', 'study'), /session 'study' is dormant: it has no sandbox now/);
  assert.equal(await good('fs', 'cat', 'study', '/workspace/note'), 'kept\n');
  await sleep();
  await good('cp', 'study:/workspace/note', join(dir, 'note'));
  assert.equal(readFileSync(join(dir, 'note'), 'utf8'), 'kept\n');
  await sleep();
  writeFileSync(join(dir, 'in'), 'given\n');
  await good('cp', join(dir, 'in'), 'session:study:/workspace/d/');
  assert.match(await good('fs', 'ls', 'session:study', '/workspace/d'), /\/workspace\/d\/in|in\n/);
  assert.equal(await good('fs', 'glob', 'study', 'd/*'), '/workspace/d/in\n');
  assert.match(await good('fs', 'grep', 'study', 'giv.n'), /d\/in/);
  await good('fs', 'rm', 'study', '/workspace/d/in');
  assert.equal((await cli('interrupt', 'study')).stderr, 'sandglass: no code is running in study\n');
  assert.match(await good('sandbox', 'ports', 'study'), /PORT/);
  assert.match(await good('sandbox', 'url', 'study', '8080'), /^http/);
  const listed = rows(await good('sandbox', 'ports', 'study')).find((row) => row.startsWith('8080 ')).split(/ +/)[2];
  const awake = (await ask('GET', `/v1/sessions/${id}`)).sandbox;
  assert.equal(listed, `${server.url}/v1/sandboxes/${awake}/ports/8080/`, 'the whole address');
  await sleep();
  const shell = spawn(BIN, ['shell', 'study'], { env, stdio: ['pipe', 'pipe', 'pipe'] });
  shell.stdin.end('cat note; exit 3\n');
  let text = '';
  shell.stdout.on('data', (data) => (text += data));
  assert.equal((await once(shell, 'close'))[0], 3);
  assert.match(text, /kept/);

  // A sandbox goes before a session of the same name, unless it is said which.
  const same = (await ask('POST', '/v1/sandboxes', { name: 'study' })).id;
  assert.equal(JSON.parse(await good('sandbox', 'get', '--json', 'study')).id, same);
  assert.equal(await good('fs', 'cat', 'session:study', '/workspace/note'), 'kept\n');
  assert.equal(await bad('fs', 'ls', 'nobody'), "sandglass: no sandbox or session 'nobody'\n");
  assert.match(await bad('fs', 'ls', 'session:nobody'), /no session 'nobody'/);
});

test('checkpoints, undo, diff, run, snapshot and rm take sessions where they take sandboxes', T, async () => {
  const id = (await good('session', 'create', '--name', 'draft', '--checkpoints', 'turn')).trim();
  await good('sandbox', 'exec', 'draft', '--', 'sh', '-c', 'echo one > text');
  await good('sandbox', 'exec', 'draft', '--', 'sh', '-c', 'echo two > text');
  const inside = (await ask('GET', `/v1/sessions/${id}`)).sandbox;
  assert.equal(await good('run', '--sandbox', 'draft', '--runtime', 'python3', '-e', 'print(open("text").read())'), 'two\n\n');
  assert.match(await good('sandbox', 'checkpoints', 'draft'), /true +exec/);
  const { checkpoints } = JSON.parse(await good('sandbox', 'checkpoints', '--json', id));
  assert.match(await good('sandbox', 'diff', '--from', checkpoints[1].id, 'session:draft'), /changed +\S*text[^]*-one\n\+two/);
  assert.match(await good('sandbox', 'undo', id), /restored to its state before/);
  assert.equal(await good('sandbox', 'exec', 'draft', '--', 'cat', 'text'), 'one\n');
  const snapshot = (await good('snapshot', 'create', '--slug', 'of-draft', '--sandbox', 'draft')).trim();
  assert.equal((await ask('GET', `/v1/snapshots/${snapshot}`)).slug, 'of-draft');

  // A dormant session has its checkpoints, and code wakes it; a snapshot needs the sandbox that it has now.
  await ask('POST', `/v1/sessions/${id}/rest`);
  assert.match(await good('sandbox', 'checkpoints', 'draft'), /true +exec/);
  assert.match(await bad('snapshot', 'create', '--sandbox', 'draft'), /session 'draft' is dormant: it has no sandbox now/);
  assert.match(await bad('sandbox', 'rm', 'draft'), /session 'draft' is dormant/);
  const ran = await cli('run', '--sandbox', 'session:draft', '--runtime', 'python3', '-e', 'print(open("text").read())');
  assert.deepEqual([ran.code, ran.stdout], [0, 'one\n\n'], ran.stderr);

  // rm takes the sandbox and leaves the session its files.
  const next = (await ask('GET', `/v1/sessions/${id}`)).sandbox;
  assert.notEqual(next, inside);
  assert.equal((await cli('sandbox', 'rm', '--dry-run', 'draft')).stdout, 'draft\n');
  assert.equal((await ask('GET', `/v1/sessions/${id}`)).sandbox, next);
  assert.equal(await good('sandbox', 'rm', 'draft'), 'draft\n');
  assert.equal((await ask('GET', `/v1/sessions/${id}`)).sandbox, null);
  assert.equal(await good('fs', 'cat', 'draft', '/workspace/text'), 'one\n');
  for (const words of [['sandbox', 'rm'], ['sandbox', 'undo'], ['sandbox', 'diff'], ['sandbox', 'checkpoints'], ['snapshot', 'create', '--sandbox'],
    ['run', '-e', '1', '--sandbox']])
    assert.equal(await bad(...words, 'nobody'), "sandglass: no sandbox or session 'nobody'\n", words.join(' '));
});

test('misspelled commands and words of other programs get a suggestion', T, async () => {
  for (const [typed, meant] of [['sandbx ls', 'sandbox ls'], ['sandboxes', 'sandbox'], ['sandbox list', 'sandbox ls'],
    ['sandbox delete x', 'sandbox rm'], ['sandbox show x', 'sandbox get'], ['sandbox craete', 'sandbox create'], ['ls', 'sandbox ls'],
    ['ps', 'sandbox commands'], ['sesion create', 'session create'], ['docter', 'doctor'], ['volume remove x', 'volume rm']])
    assert.match(await bad(...typed.split(' ')), new RegExp(`^sandglass: unknown command '[\\w ]+'; did you mean '${meant}'\\?\n$`), typed);
  assert.match(await bad('sandbox', 'xyzzy'), /unknown command 'sandbox xyzzy'; 'sandglass sandbox --help' lists/);
  const { error } = await ask('POST', '/v1/sandboxes', { labels: { a: 'b' } });
  assert.match(error.message, /unknown property "labels"; did you mean 'metadata'\?/);
  const command = await ask('POST', `/v1/sandboxes/${box}/commands`, { cmd: 'true' });
  assert.match(command.error.message, /unknown property "cmd"; did you mean 'command'\?/);
});

test('messages name the way out', T, async (t) => {
  const at = (url, ...args) => run(args, { env: { ...env, SANDGLASS_URL: url } });
  assert.equal((await at('127.0.0.1:7171', 'sandbox', 'ls')).stderr,
    "sandglass: SANDGLASS_URL '127.0.0.1:7171' is not a server's address; write http://127.0.0.1:7171, https://HOST or unix:/PATH\n");
  assert.equal(await bad('sandbox', 'ls', '--url', 'ftp://x'),
    "sandglass: --url 'ftp://x' is not a server's address; write http://HOST:PORT, https://HOST or unix:/PATH\n");
  for (const args of [['exec', '--allow-host', 'http://x.test/a', '--', 'true'], ['sandbox', 'create', '--allow-host', 'http://x.test/a']])
    assert.match(await bad(...args), /'http:\/\/x\.test\/a' is a URL; write only its host: x\.test\n/);
  assert.match(await bad('exec', '--secret', 'KEY=env:HOME@https://x.test', '--', 'true'), /secret KEY: a host is expected, not a URL/);
  assert.equal(await bad('sandbox', 'rm', 'nobody'), "sandglass: no sandbox or session 'nobody'\n");
  assert.equal(await bad('volume', 'rm', 'nobody'), "sandglass: no volume 'nobody'\n");
  for (const [code, words] of [['exit()', 'SystemExit: 0'], ['import sys; sys.exit(3)', 'SystemExit: 3'], ['exit("bye")', 'SystemExit: bye']]) {
    const left = await cli('run', '--sandbox', box, '--runtime', 'python3', '--eval', code);
    assert.equal(left.stderr.trim().split('\n').at(-1), words);
  }
  // A paused sandbox: one blank between words.
  const waits = spawn(BIN, ['sandbox', 'exec', box, '--', 'sh', '-c', 'echo on; sleep 600'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '', out = '';
  waits.stderr.on('data', (data) => (text += data));
  waits.stdout.on('data', (data) => (out += data));
  t.after(() => waits.kill('SIGKILL'));
  await until(() => out === 'on\n');
  await good('sandbox', 'pause', box);
  await until(() => /detaches/.test(text));
  assert.match(text, /The command waits; 'sandglass sandbox resume \w+' resumes it, Ctrl-C detaches\n/);
  await good('sandbox', 'resume', box);
});

test('help fits a terminal and breaks lines between words only', T, async () => {
  const overview = await good('--help');
  const verbs = [...overview.matchAll(/^  ([a-z]+(?: [a-z]+)?)  +\S/gm)].map(([, verb]) => verb);
  assert.ok(verbs.length > 60, `${verbs.length}`);
  const wide = (text) => text.split('\n').filter((line) => line.length > 80 && !line.startsWith('Usage:'));
  assert.deepEqual(wide(overview), []);
  for (const verb of verbs) {
    const help = await good(...verb.split(' '), '--help');
    assert.deepEqual(wide(help), [], verb);
    // Only the end of a paragraph may be short.
    const [, details] = help.split('Options:')[0].split('\n\n').slice(1);
    for (const line of (details ?? '').trim().split('\n').slice(0, -1)) assert.ok(line.length > 40 || /[.:]$/.test(line), `${verb}: ${line}`);
  }
  assert.doesNotMatch(await good('prune', '--help'), /stopped and failed sandboxes[^]*stopped and failed sandboxes/);
});
