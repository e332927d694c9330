// sandglass shell in a real terminal: `script` gives it one, with its own window and its own keys.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };

async function setup(t) {
  if (!existsSync('/usr/bin/script')) {
    t.skip('no script(1) on this machine');
    return null;
  }
  const server = await serve(t);
  const made = await server.get('/v1/sandboxes', { method: 'POST', body: '{"tier":"jail"}',
    headers: { 'content-type': 'application/json' } });
  if (made.status !== 201) {
    t.skip(`no jails here: ${await made.text()}`);
    return null;
  }
  server.box = (await made.json()).id;
  return server;
}

// A shell in a terminal of 33 x 101.
async function open(t, server, args = '', term = 'dumb') {
  const tty = join(tempDir(t), 'tty');
  const child = spawn('/usr/bin/script', ['-qec', `stty rows 33 cols 101; tty >${tty}; ${args.startsWith(';') ? '' : 'exec '}${BIN} shell ${server.box} ${args}`,
    '/dev/null'], { env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token, TERM: term } });
  const shell = { child, text: '', end: once(child, 'close') };
  child.stdout.on('data', (data) => (shell.text += data));
  child.stderr.on('data', (data) => (shell.text += data));
  t.after(() => child.kill('SIGKILL'));
  shell.type = (keys) => child.stdin.write(keys);
  shell.sees = async (what) => {
    await until(() => what.test(shell.text)).catch((error) => { throw new Error(`${error.message}: ${shell.text}`); });
  };
  // What it typed itself it sees as well, so answers are put together.
  shell.asks = async (command, what) => { shell.text = ''; shell.type(`${command}\n`); await shell.sees(what); };
  shell.tty = () => readFileSync(tty, 'utf8').trim();
  return shell;
}

test('keys, Ctrl-C, the window and the exit code', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const shell = await open(t, server);
  await shell.asks('echo a$((20+2))b', /a22b/);
  await shell.asks('stty size', /33 101/);
  // Told at once, without a key.
  await shell.asks('echo w$((1))t; until stty size | grep 44; do sleep 0.1; done', /w1t/);
  execFileSync('/bin/stty', ['-F', shell.tty(), 'rows', '44', 'cols', '122']);
  await shell.sees(/44 122/);
  // Said by the process that Ctrl-C is for: bash itself may not have put it in the foreground before.
  await shell.asks(`sh -c 'echo g$((1))o; exec sleep 1000'`, /g1o/);
  shell.type('\x03');
  await shell.asks('echo b$((30+3))c', /b33c/);
  shell.type('exit 7\n');
  const [code] = await shell.end;
  assert.equal(code, 7, shell.text);
});

test('a shell that was left goes on, and is come back to', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const shell = await open(t, server);
  await shell.asks('here=before-$((40+4)); echo set-$((1))', /set-1/);
  shell.text = '';
  shell.type('\x1d');
  const [left] = await shell.end;
  assert.equal(left, 0, shell.text);
  const command = /--attach (\S+)/.exec(shell.text)[1];
  const again = await open(t, server, `--attach ${command}`);
  await again.sees(/set-1/); // what was seen before comes first
  await again.asks('echo "<$here>"', /<before-44>/);
  await again.asks('stty size', /33 101/);
  // A client that dies leaves it as well.
  again.child.kill('SIGKILL');
  await again.end;
  const third = await open(t, server, `--attach ${command}`);
  await third.asks('echo "[$here]"', /\[before-44\]/);
  third.type('exit 3\n');
  const [code] = await third.end;
  assert.equal(code, 3, third.text);
});

test('programs that draw, in the colours of this terminal', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const shell = await open(t, server, '', 'xterm-256color');
  await shell.sees(/\/workspace\$ /); // where one is
  await shell.asks('echo "<$TERM>"; touch file; mkdir dir; ls --color=auto', /<xterm-256color>[^]*\x1b\[[0-9;]*mdir/);
  const quits = async (keys) => { shell.text = ''; shell.type(keys); await shell.sees(/\/workspace\$ $/); };
  if (existsSync('/usr/bin/top')) {
    await shell.asks('top', /load average[^]*PID/);
    await quits('q');
  }
  if (existsSync('/usr/bin/vi')) {
    await shell.asks('vi file', /"file"/); // not what was typed
    await quits('ihello\x1b:wq\n');
    await shell.asks('echo "$(cat file)-$((6))"', /hello-6/);
  }
  shell.type('\x04'); // the end of input
  const [code] = await shell.end;
  assert.equal(code, 0, shell.text);
});

test('two terminals on one shell', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const first = await open(t, server);
  await first.asks('echo a$((20+2))b', /a22b/);
  const { commands } = await (await server.get(`/v1/sandboxes/${server.box}/commands?running=true`)).json();
  const second = await open(t, server, `--attach ${commands[0].id}`);
  await second.sees(/a22b/);
  await second.asks('echo c$((30+3))d', /c33d/);
  await first.sees(/c33d/);
  first.type('exit 4\n');
  assert.deepEqual([(await first.end)[0], (await second.end)[0]], [4, 4]);
});

test('a paused sandbox goes on with the next key; one that is stopped says so', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const shell = await open(t, server);
  await shell.asks('echo a$((20+2))b', /a22b/);
  const move = async (verb) => assert.equal((await server.get(`/v1/sandboxes/${server.box}/${verb}`, { method: 'POST' })).status, 200);
  await move('pause');
  await shell.asks('echo b$((30+3))c', /b33c/);
  shell.text = '';
  await move('stop');
  assert.equal((await shell.end)[0], 1);
  assert.match(shell.text, /the command was ended: the sandbox was stopped/);
});

test('a server that goes away is distinguished from a shell that ends', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const shells = [await open(t, server), await open(t, server)];
  for (const shell of shells) await shell.asks('echo a$((20+2))b', /a22b/);
  server.child.kill('SIGKILL');
  for (const shell of shells) {
    assert.equal((await shell.end)[0], 1);
    assert.match(shell.text, new RegExp(`connection lost; the shell continues if the server is running: ` +
      `attach again with: sandglass shell ${server.box} --attach \\S+\\s+sandglass: lost the connection to the server`));
  }
  const next = await serve(t, { dir: server.dir });
  const shell = await open(t, { ...next, box: server.box });
  await shell.asks('echo a$((20+2))b', /a22b/);
  next.child.kill('SIGTERM');
  assert.equal((await shell.end)[0], 1);
  assert.match(shell.text, /the server is stopping; running commands end with it/);
  assert.doesNotMatch(shell.text, /--attach/);
});

test('--attach names what is wrong', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const post = async (path, body) => (await server.get(path, { method: 'POST', body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' } })).json();
  const plain = await post(`/v1/sandboxes/${server.box}/commands`, { command: 'sleep 1000', detached: true });
  const other = await post('/v1/sandboxes', { tier: 'jail' });
  for (const [box, command, words] of [
    [server.box, 'nonsense', "no command 'nonsense'"],
    [server.box, plain.id, `has no terminal; see it with 'sandglass logs -f ${plain.id}'`],
    [other.id, plain.id, `belongs to sandbox '${server.box}'`],
  ]) {
    const shell = await open(t, { ...server, box }, `--attach ${command}`);
    assert.equal((await shell.end)[0], 1);
    await shell.sees(new RegExp(words));
    assert.doesNotMatch(shell.text, /connection lost/);
  }
});

test('a pause is reported in one line, a key resumes, and SIGTERM leaves the terminal as it was', T, async (t) => {
  const server = await setup(t);
  if (!server) return;
  const shell = await open(t, server, '; echo "code $?"; stty -a | grep -o "[-]*icanon"');
  await shell.asks('echo a$((20+2))b', /a22b/);
  const pause = () => server.get(`/v1/sandboxes/${server.box}/pause`, { method: 'POST' });
  shell.text = '';
  await pause();
  await shell.sees(/was paused\. The command waits; a key or 'sandglass sandbox resume \S+' resumes it, Ctrl-\] detaches/);
  shell.type('\n');
  await shell.sees(/was resumed/);
  await shell.asks('echo c$((30+3))d', /c33d/);
  await pause();
  const childOf = (pid) => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0];
  const inner = childOf(childOf(shell.child.pid)); // of script, of its shell
  shell.text = '';
  process.kill(Number(inner), 'SIGTERM');
  await shell.sees(/attach again with: sandglass shell/);
  await shell.sees(/code 143/);
  await shell.sees(/(^|[^-])icanon/m);
  await shell.end;
});
