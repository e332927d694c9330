// `sandglass exec` as its users expect it: the languages work, exits and signals and terminals are
// as with any other program, nothing of the caller leaks in. As root and as an unprivileged user.
//
//   SANDGLASS_BIN, SG_PROBES as for the escape tests.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { accounts, Jail } from '../escape/exec/jail.mjs';
import { eventually, signalNumber, Skip } from '../escape/exec/check.mjs';
import { underTerminal } from '../escape/exec/cases_ways.mjs';

const cases = [];
const it = (title, run) => cases.push({ title, run });

async function output(jail, command, options) {
  const result = await jail.run(command, options);
  assert.equal(result.status, 0, `${command.join(' ')}: ${result.stderr}`);
  return result.stdout;
}

it('python3 works, with its standard library', async (jail) => {
  const text = await output(jail, ['/usr/bin/python3', '-c',
    'import json,sqlite3,ssl,hashlib,tempfile,multiprocessing as m\n' +
    'with tempfile.TemporaryFile() as f: f.write(b"x")\n' +
    'p=m.Process(target=print,args=("child",));p.start();p.join()\n' +
    'print(json.dumps({"sum":sum(range(10)),"code":p.exitcode}))']);
  assert.equal(text, 'child\n{"sum": 45, "code": 0}\n');
});

it('--disk limits bytes and files', async (jail) => {
  const result = await jail.run(['sh', '-c',
    'cat /dev/zero >big; stat -c %s big; rm big; i=0; while (: >f$i) 2>/dev/null; do i=$((i+1)); done; echo $i'],
  { disk: '2m:200' });
  const [bytes, files] = result.stdout.trim().split('\n').map(Number);
  assert.match(result.stderr, /No space left/);
  assert.ok(bytes > 1.5 * 2 ** 20 && bytes <= 2 * 2 ** 20, `${bytes} bytes`);
  assert.ok(files > 150 && files <= 200, `${files} files`);
});

it('--disk with a directory of the host limits that too, or is refused by name', async (jail) => {
  const dir = jail.workspace();
  const result = await jail.run(['sh', '-c', 'head -c 8M /dev/zero >big'], { workspace: dir, disk: '2m' });
  assert.notEqual(result.status, 0);
  if (!/--disk cannot limit/.test(result.stderr)) return assert.match(result.stderr, /No space left|quota/);
  assert.match(result.stderr, /project quotas/);
  assert.match(result.stderr, /omit --disk/);
  assert.deepEqual(fs.readdirSync(dir), [], 'nothing ran');
  assert.equal((await jail.run(['true'], { workspace: dir })).status, 0, 'without it');
});

it('python3 threads, pools and locks work', async (jail) => {
  assert.equal(await output(jail, ['/usr/bin/python3', '-c',
    'from concurrent.futures import ThreadPoolExecutor as T, ProcessPoolExecutor as P\n' +
    'print(sum(T(4).map(abs,range(9))), sum(P(2).map(abs,range(9))))']), '36 36\n');
});

it('node works, with workers and files', async (jail) => {
  const script = 'const {Worker}=require("worker_threads");require("fs").writeFileSync("a","hi");' +
    'new Worker("require(\'worker_threads\').parentPort.postMessage(6*7)",{eval:true})' +
    '.on("message",m=>console.log(m,require("fs").readFileSync("a","utf8")))';
  assert.equal(await output(jail, ['/usr/bin/node', '-e', script]), '42 hi\n');
});

it('node serves itself on loopback', async (jail) => {
  const script = 'const h=require("http");const s=h.createServer((q,r)=>r.end("pong")).listen(0,"127.0.0.1",()=>' +
    'h.get({port:s.address().port,host:"127.0.0.1"},r=>r.on("data",d=>{console.log(String(d));s.close()})))';
  assert.equal(await output(jail, ['/usr/bin/node', '-e', script]), 'pong\n');
});

it('bash works, with pipes, jobs and here-documents', async (jail) => {
  assert.equal(await output(jail, ['bash', '-c',
    'set -o pipefail; seq 5 | tac | paste -sd,; (sleep 0.01; exit 3) & wait $!; echo $?; cat <<<here; diff <(echo a) <(echo a) && echo same']),
  '5,4,3,2,1\n3\nhere\nsame\n');
});

it('git makes and reads a repository', async (jail) => {
  const dir = jail.workspace();
  const text = await output(jail, ['sh', '-c', 'git init -q . && git config user.email a@b && git config user.name n && ' +
    'echo x >f && git add f && git commit -qm first && git log --format=%s && git status --short'], { workspace: dir });
  assert.equal(text, 'first\n');
  assert.ok(fs.existsSync(path.join(dir, '.git/HEAD')));
});

it('gcc compiles and what it makes runs', async (jail) => {
  const text = await output(jail, ['sh', '-c', 'cd /workspace; printf \'#include <stdio.h>\\nint main(void){puts("made");return 0;}\' >a.c && ' +
    'gcc -O2 -o a a.c && ./a && cp a /tmp/b && /tmp/b']);
  assert.equal(text, 'made\nmade\n');
});

it('tar packs and unpacks', async (jail) => {
  assert.equal(await output(jail, ['sh', '-c', 'mkdir d && echo x >d/f && ln -s f d/l && tar czf t.tgz d && rm -r d && ' +
    'tar xzf t.tgz && cat d/l && tar tzf t.tgz | sort']), 'x\nd/\nd/f\nd/l\n');
});

it('npm works offline', async (jail) => {
  const text = await output(jail, ['sh', '-c', 'npm init -y >/dev/null && mkdir -p dep && echo \'{"name":"dep","version":"1.0.0"}\' >dep/package.json && ' +
    'echo "module.exports=7" >dep/index.js && npm install --offline --no-audit --no-fund ./dep >/dev/null && node -p "require(\'dep\')"'],
  { timeout: '300s' });
  assert.equal(text, '7\n');
});

it('exit codes come through', async (jail) => {
  for (const code of [0, 1, 2, 42, 124, 126, 127, 255]) {
    assert.equal((await jail.run(['sh', '-c', `exit ${code}`])).status, code);
    const { json, status } = await jail.run(['sh', '-c', `exit ${code}`], { json: true });
    assert.deepEqual([json.exitCode, status], [code, code]);
  }
});

it('a signal is 128 + n and named, in --json too', async (jail) => {
  for (const [name, number] of [['KILL', 9], ['TERM', 15], ['SEGV', 11], ['ABRT', 6], ['USR1', 10]]) {
    const { status, stderr } = await jail.run(['sh', '-c', `kill -${name} $$`]);
    assert.equal(status, 128 + number, name);
    assert.match(stderr, new RegExp(`ended by SIG${name} \\(`));
    const { json } = await jail.run(['sh', '-c', `kill -${name} $$`], { json: true });
    assert.equal(signalNumber(json.signal), number, name);
    assert.equal(json.reason, 'signal');
  }
});

it('stdin is read to its end', async (jail) => {
  const text = 'line\n'.repeat(200_000);
  assert.equal((await jail.run(['cat'], { stdin: text })).stdout, text);
  assert.equal((await jail.run(['wc', '-c'], { stdin: '' })).stdout.trim(), '0');
  assert.equal((await jail.run(['head', '-n', '1'], { stdin: text })).stdout, 'line\n');
});

it('a command that leaves its input unread ends', async (jail) => {
  const result = await jail.run(['true'], { stdin: 'x'.repeat(1 << 20) });
  assert.equal(result.status, 0);
  const open = jail.start(['true'], { keepStdin: true, patience: 120_000 });
  assert.equal((await open.done).status, 0, 'an open input does not hold it');
});

it('stdout and stderr stay apart', async (jail) => {
  const result = await jail.run(['sh', '-c', 'echo out; echo err >&2']);
  assert.deepEqual([result.stdout, result.stderr], ['out\n', 'err\n']);
  const { json } = await jail.run(['sh', '-c', 'echo out; echo err >&2'], { json: true });
  assert.deepEqual([json.stdout, json.stderr], ['out\n', 'err\n']);
});

it('large output comes whole', async (jail) => {
  const result = await jail.run(['sh', '-c', 'head -c 20000000 /dev/zero']);
  assert.equal(result.stdoutBytes.length, 20_000_000);
});

it('a reader that goes away ends the command', async (jail) => {
  const child = jail.start(['yes'], { neverRead: true, patience: 120_000, timeout: '60s' });
  child.stdout.once('data', () => child.stdout.destroy());
  const result = await child.done;
  assert.equal(result.overdue, false);
  assert.notEqual(result.status, 124, 'ended by the pipe, not by the deadline');
});

it('output that is not UTF-8 is raw in a pipe and valid JSON with --json', async (jail) => {
  const command = ['/usr/bin/printf', 'a\\377\\376\\000b\\355\\240\\200'];
  const bytes = Buffer.from([0x61, 0xff, 0xfe, 0, 0x62, 0xed, 0xa0, 0x80]);
  assert.deepEqual((await jail.run(command)).stdoutBytes, bytes);
  const result = await jail.run(command, { json: true });
  assert.equal(result.json.unreadable, undefined);
  new TextDecoder('utf-8', { fatal: true }).decode(result.stdoutBytes);
  assert.match(result.json.stdout, /^a.*b/s);
});

it('a missing program is 127 and says so', async (jail) => {
  for (const name of ['no-such-program', '/no/such/program', './none']) {
    const result = await jail.run([name]);
    assert.equal(result.status, 127, name);
    assert.match(result.stderr, /no-such-program|no\/such\/program|none/);
  }
});

it('what cannot be run is 126 and says so', async (jail) => {
  const dir = jail.workspace();
  fs.writeFileSync(path.join(dir, 'text'), 'not a program', { mode: 0o755 });
  fs.writeFileSync(path.join(dir, 'plain'), '#!/bin/sh\n', { mode: 0o644 });
  fs.writeFileSync(path.join(dir, 'elf'), Buffer.from('\x7fELF\x01\x01broken'), { mode: 0o755 });
  for (const name of ['text', 'plain', 'elf']) {
    const result = await jail.run([`/workspace/${name}`], { workspace: dir });
    assert.equal(result.status, 126, `${name}: ${result.stderr}`);
    assert.match(result.stderr, new RegExp(name));
  }
  assert.equal((await jail.run(['/workspace'], {})).status, 126, 'a directory');
});

it('a directory to start in that is not there is 125 and says so', async (jail) => {
  for (const startIn of ['/no/such/dir', '/etc/passwd']) {
    const result = await jail.run(['echo', 'ran'], { startIn });
    assert.equal(result.status, 125, result.stderr);
    assert.match(result.stderr, /cannot start in/);
    assert.ok(result.stderr.includes(startIn), result.stderr);
    assert.equal(result.stdout, '');
  }
  const result = await jail.run(['true'], { startIn: '/no/such/dir', json: true });
  assert.equal(result.json.exitCode, 125);
  assert.equal(result.json.reason, 'not_started');
  assert.equal((await jail.run(['sh', '-c', 'test "$PWD" = /tmp'], { startIn: '/tmp' })).status, 0);
});

it('each way not to start has a code of its own', async (jail) => {
  const dir = jail.workspace();
  fs.writeFileSync(path.join(dir, 'text'), 'not a program', { mode: 0o755 });
  fs.writeFileSync(path.join(dir, 'plain'), '#!/bin/sh\n', { mode: 0o644 });
  fs.writeFileSync(path.join(dir, 'lost'), '#!/no/such/interpreter\n', { mode: 0o755 });
  const told = async (command, options) => {
    const { json, status } = await jail.run(command, { workspace: dir, json: true, ...options });
    assert.deepEqual([json.exitCode, json.reason], [status, 'not_started'], JSON.stringify(json));
    return [status, json.error.code];
  };
  assert.deepEqual(await told(['true'], { startIn: '/no/such/dir' }), [125, 'bad_cwd']);
  assert.deepEqual(await told(['true'], { startIn: '/etc/passwd' }), [125, 'bad_cwd']);
  assert.deepEqual(await told(['/workspace/text']), [126, 'exec_format_error']);
  assert.deepEqual(await told(['/workspace/plain']), [126, 'not_executable']);
  assert.deepEqual(await told(['/workspace']), [126, 'not_executable']);
  assert.deepEqual(await told(['no-such-program']), [127, 'program_not_found']);
  assert.deepEqual(await told(['/no/such/program']), [127, 'program_not_found']);
  assert.deepEqual(await told(['/workspace/lost']), [127, 'program_not_found']);
});

it('an interpreter that is missing is distinguished from a missing script', async (jail) => {
  const dir = jail.workspace();
  fs.writeFileSync(path.join(dir, 'script'), '#!/no/such/interpreter\n', { mode: 0o755 });
  const result = await jail.run(['/workspace/script'], { workspace: dir });
  assert.ok([126, 127].includes(result.status), String(result.status));
  assert.notEqual(result.stderr, '');
});

it('a deadline is 124, told apart from everything else', async (jail) => {
  assert.equal((await jail.run(['sleep', '60'], { timeout: '300ms' })).status, 124);
  const { json, status } = await jail.run(['sh', '-c', 'echo before; sleep 60'], { timeout: '3s', json: true });
  assert.deepEqual([status, json.reason, json.stdout], [124, 'timeout', 'before\n']);
  const soon = await jail.run(['true'], { timeout: '30s', json: true });
  assert.notEqual(soon.json.reason, 'timeout');
});

it('a deadline gives the command a moment to tidy up', async (jail) => {
  const dir = jail.workspace();
  const result = await jail.run(['sh', '-c', 'trap "echo bye >bye; exit 0" TERM; sleep 60 & wait'], { timeout: '3s', workspace: dir });
  assert.equal(result.status, 124);
  assert.equal(fs.readFileSync(path.join(dir, 'bye'), 'utf8'), 'bye\n');
});

it('a command that does not end is killed with its descendants, and its times are reported', async (jail) => {
  const stubborn = 'trap "" TERM INT; setsid sh -c \'trap "" TERM INT; (sleep 98765 &); sleep 98765\' &' +
    ' i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo ready; sleep 98765; sleep 98765';
  const { json, status } = await jail.run(['sh', '-c', stubborn], { timeout: '4s', json: true });
  assert.deepEqual([status, json.reason, json.signal], [124, 'timeout', 9]);
  assert.ok(json.timingMs.run >= 4000, JSON.stringify(json.timingMs));
  assert.ok(json.timingMs.cpuUser + json.timingMs.cpuSystem > 0, JSON.stringify(json.timingMs));
});

it('the third signal kills what ignores them', async (jail) => {
  const child = jail.start(['bash', '-c', 'trap "" INT TERM HUP; echo ready; sleep 98765'], { timeout: '300s' });
  await once(child.stdout, 'data');
  // Of different kinds: two of one kind that come together are one.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) child.kill(signal);
  assert.equal((await child.done).status, 137);
});

it('running out of memory is reported as such', async (jail) => {
  const hog = ['/usr/bin/python3', '-c', 'x=[]\nwhile True: x.append(b"x"*1000000)'];
  const { json, status } = await jail.run(hog, { memory: '64m', json: true });
  assert.equal(json.reason, 'oom');
  assert.equal(status, 137);
  assert.match((await jail.run(hog, { memory: '64m' })).stderr, /memory/i);
});

it('--json has timings and peak memory', async (jail) => {
  const { json } = await jail.run(['/usr/bin/python3', '-c', 'x=b"x"*50_000_000'], { json: true });
  const text = JSON.stringify(json);
  const peak = Number(/"\w*(?:peak\w*|memory\w*)":(\d+)/i.exec(text)?.[1]);
  assert.ok(peak > 40_000_000 && peak < 512_000_000, `peak memory ${peak} in ${text}`);
  assert.match(text, /"\w*(time|timing|duration|ms)\w*":/i);
});

it('--workspace keeps what was written, owned by the caller', async (jail) => {
  const dir = jail.workspace();
  assert.equal((await jail.run(['sh', '-c', 'pwd; mkdir d; echo kept >d/f; chmod 700 d'], { workspace: dir })).stdout, '/workspace\n');
  const st = fs.statSync(path.join(dir, 'd/f'));
  assert.equal(st.uid, jail.account.uid);
  assert.equal(await output(jail, ['sh', '-c', 'cat d/f; echo more >>d/f'], { workspace: dir }), 'kept\n');
  assert.equal(fs.readFileSync(path.join(dir, 'd/f'), 'utf8'), 'kept\nmore\n');
});

it('without --workspace nothing is kept', async (jail) => {
  await output(jail, ['sh', '-c', 'echo x >/workspace/f; echo x >/tmp/f']);
  const result = await jail.run(['ls', '/workspace', '/tmp']);
  assert.doesNotMatch(result.stdout, /^f$/m);
});

it('--ro shows and protects, --rw shows and keeps', async (jail) => {
  const [ro, rw] = [jail.workspace(), jail.workspace()];
  jail.write(path.join(ro, 'f'), 'given');
  jail.write(path.join(rw, 'f'), 'given');
  const result = await jail.run(['sh', '-c', 'cat /mnt/ro/f; (echo bad >/mnt/ro/f) 2>/dev/null || echo " refused"; rm -f /mnt/ro/f 2>/dev/null; echo good >/mnt/rw/f'],
    { ro: [`${ro}:/mnt/ro`], rw: [`${rw}:/mnt/rw`] });
  assert.equal(result.stdout, 'given refused\n', result.stderr);
  assert.equal(fs.readFileSync(path.join(ro, 'f'), 'utf8'), 'given');
  assert.equal(fs.readFileSync(path.join(rw, 'f'), 'utf8'), 'good\n');
});

it('--ro and --rw take single files', async (jail) => {
  const dir = jail.workspace();
  fs.writeFileSync(path.join(dir, 'one'), 'one');
  assert.equal(await output(jail, ['cat', '/mnt/one'], { ro: [`${dir}/one:/mnt/one`] }), 'one');
});

it('bad arguments are refused with the reason, before anything runs', async (jail) => {
  const bad = [{ ro: ['/no/such/dir:/mnt/x'] }, { ro: ['nocolon'] }, { rw: [':'] }, { memory: 'lots' }, { memory: '-1' },
    { pids: '0' }, { pids: 'x' }, { cpus: '0' }, { cpus: '-1' }, { timeout: 'soon' }, { timeout: '-1s' },
    { env: ['=x'] }, { workspace: '/no/such/dir' }, { workspace: '/etc/passwd' }, { memory: '99999999999999999999g' }];
  for (const options of bad) {
    const result = await jail.run(['echo', 'ran'], options);
    assert.notEqual(result.status, 0, JSON.stringify(options));
    assert.equal(result.stdout, '', JSON.stringify(options));
    assert.match(result.stderr, /\w/, JSON.stringify(options));
  }
});

it('a limit that cannot be is refused with its option and what that takes', async (jail) => {
  const takes = {
    memory: ['0m', '1m', '1k', '99999t', 'lots', /4m or more.*'none'/],
    pids: ['0', '1', '-3', '1025', '99999999999', '1.5', 'none', /2 to 1024/],
    cpus: ['0', '0.001', '-1', '1025', 'nan', 'inf', /0\.01 to 1024.*'none'/],
    disk: ['0m', '1k', '64m:0', '64m:1', '64m:', '99999t', /1m or more, and 64 files/],
    timeout: ['-1s', '0.1ms', 'soon', 'nan', /1ms or more.*'none' for no limit/],
  };
  for (const [option, values] of Object.entries(takes)) {
    const words = values.pop();
    for (const value of values) {
      const result = await jail.run(['echo', 'ran'], { [option]: value });
      const said = `--${option} '${value}': ${result.stderr}`;
      assert.deepEqual([result.status, result.stdout], [2, ''], said);
      assert.ok(result.stderr.includes(`--${option}`), said);
      assert.match(result.stderr, words, said);
    }
  }
  const least = { memory: '4m', pids: '2', disk: '1m:64', timeout: '1h' };
  assert.equal(await output(jail, ['/bin/echo', 'ran'], least), 'ran\n');
});

it('the environment of the caller stays outside', async (jail) => {
  const text = await output(jail, ['env'], { env: ['GIVEN=a=b c', 'EMPTY='], hostEnv: { LD_PRELOAD: '', NODE_OPTIONS: '', AWS_SECRET_ACCESS_KEY: 'x' } });
  assert.ok(!text.includes(jail.secret));
  assert.doesNotMatch(text, /AWS_|ESCAPE_|SANDGLASS_|NODE_OPTIONS|XDG_/);
  assert.match(text, /^GIVEN=a=b c$/m);
  assert.match(text, /^EMPTY=$/m);
  assert.match(text, /^HOME=/m);
  assert.match(text, /^PATH=/m);
});

it('/etc is small and tells nothing of the host', async (jail) => {
  const shadow = await jail.run(['cat', '/etc/shadow', '/etc/machine-id', '/etc/ssh/ssh_host_rsa_key', '/etc/sudoers']);
  assert.equal(shadow.stdout, '');
  const passwd = await output(jail, ['cat', '/etc/passwd']);
  assert.ok(passwd.trim().split('\n').length <= 4, passwd);
  assert.match(await output(jail, ['id', '-un']), /^[a-z]+\n$/);
  assert.doesNotMatch(await output(jail, ['cat', '/etc/hosts']), new RegExp(`\\b${os.hostname()}\\b`));
});

it('the host name is not the host\'s, and localhost resolves', async (jail) => {
  assert.notEqual((await output(jail, ['uname', '-n'])).trim(), os.hostname());
  assert.match(await output(jail, ['getent', 'hosts', 'localhost']), /127\.0\.0\.1|::1/);
});

it('there is no network but loopback', async (jail) => {
  const result = await jail.run(['/usr/bin/python3', '-c',
    'import socket\nfor a in (("192.0.2.1",80),("8.8.8.8",53)):\n' +
    ' try: socket.create_connection(a,2); print("reached",a)\n except OSError as e: print(e.errno)\n' +
    'try: print(socket.gethostbyname("example.com"))\nexcept OSError: print("no name")\n' +
    'print([n for _,n in socket.if_nameindex()])']);
  assert.equal(result.stdout, "101\n101\nno name\n['lo']\n", result.stderr);
});

it('other users\' files and homes are not there', async (jail) => {
  const text = (await jail.run(['sh', '-c', 'ls -A /root /home /var/lib /srv /boot /run/user 2>/dev/null'])).stdout;
  assert.doesNotMatch(text, /\.ssh|\.bash_history|dpkg|docker/);
});

it('Ctrl-C reaches the command in a terminal', async (jail) => {
  for (const tty of [true, false]) {
    const child = underTerminal(jail, ['sh', '-c', 'trap "echo caught; exit 7" INT; echo ready; while :; do sleep 0.05; done'], { tty });
    await eventually(() => child.shown().includes('ready'), `it starts: ${child.shown()}`);
    child.stdin.write('\x03');
    const { status, output: shown } = await child.done;
    assert.match(shown, /caught/, `tty ${tty}`);
    assert.equal(status, 7, `tty ${tty}: ${shown}`);
  }
});

it('SIGINT and SIGTERM to the caller end the command', async (jail) => {
  for (const [signal, number] of [['SIGINT', 2], ['SIGTERM', 15]]) {
    // Not sh: dash loses a SIGINT between fork and exec, in a jail or not.
    const child = jail.start(['bash', '-c', 'echo ready; sleep 60'], {});
    await once(child.stdout, 'data');
    child.kill(signal);
    const result = await child.done;
    assert.ok(result.status === 128 + number || result.signal === signal, `${signal}: ${result.status} ${result.signal}`);
  }
});

it('SIGTERM and SIGHUP end a command that is stopped', async (jail) => {
  for (const [signal, number] of [['SIGTERM', 15], ['SIGHUP', 1]]) {
    // It is seen to be stopped from another process group, which gets no signal.
    const watch = 'until grep -q "^State:.T" /proc/$1/status; do :; done; echo ready';
    const child = jail.start(['bash', '-c', 'setsid bash -c "$0" watch $$ & kill -STOP $$; sleep 60', watch], {});
    await once(child.stdout, 'data');
    child.kill(signal);
    const result = await child.done;
    assert.deepEqual([result.status, result.stdout], [128 + number, 'ready\n'], `${signal}: ${result.stderr}`);
  }
});

it('--tty gives a terminal of the right size, with job control', async (jail) => {
  const child = underTerminal(jail, ['bash', '-c', 'tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo terminal; set -m; sleep 0 & wait; echo $TERM'], { tty: true });
  const { status, output: shown } = await child.done;
  assert.equal(status, 0, shown);
  assert.match(shown, /\/dev\/pts\/\d+/);
  assert.match(shown, /terminal/);
  assert.doesNotMatch(shown, /cannot set terminal process group|no job control/);
});

it('--tty leaves the terminal of the caller as it was', async (jail) => {
  const child = underTerminal(jail, ['sh', '-c', 'stty raw -echo'], { tty: true, after: 'stty -a' });
  const { output: shown } = await child.done;
  assert.match(shown, /(^|\s)icanon/);
  assert.match(shown, /(^|\s)echo(\s|$)/);
});

it('an interactive shell reads lines and ends with exit', async (jail) => {
  const child = underTerminal(jail, ['bash', '--norc', '-i'], { tty: true });
  await eventually(() => /[$#] /.test(child.shown()), `a prompt: ${child.shown()}`);
  child.stdin.write('echo $((6*7))\nexit 5\n');
  const { status, output: shown } = await child.done;
  assert.match(shown, /42$/m);
  assert.equal(status, 5);
});

it('the caller\'s directory may be gone', async (jail) => {
  const dir = jail.workspace();
  const child = jail.start(['pwd'], { cwd: dir, wrap: ['sh', '-c', 'rmdir "$PWD"; exec "$@"', 'sh'] });
  const result = await child.done;
  assert.equal(result.stdout, '/workspace\n', result.stderr);
});

it('many at once do not disturb each other', async (jail) => {
  const runs = await Promise.all(Array.from({ length: 12 }, (_, i) => jail.run(['sh', '-c', `echo ${i} >/tmp/x; sleep 0.1; cat /tmp/x`])));
  assert.deepEqual(runs.map((run) => run.stdout), runs.map((_, i) => `${i}\n`));
});

const asked = accounts.filter(({ name }) => name === (process.env.SG_ACCOUNT ?? name));
for (const account of asked)
  for (const { title, run } of cases)
    test(`exec ${account.name}: ${title}`, { timeout: 600_000 }, async (t) => {
      if (account.missing !== null) return t.skip(account.missing);
      try {
        return await run(new Jail(account), t);
      } catch (error) {
        if (!(error instanceof Skip)) throw error;
        return t.skip(error.message);
      }
    });
