// sandglass shell in a real terminal: `script` gives it one, with its own window and its own keys.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 120000 };

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
async function open(t, server, args = '') {
  const tty = join(tempDir(t), 'tty');
  const child = spawn('/usr/bin/script', ['-qec', `stty rows 33 cols 101; tty >${tty}; exec ${BIN} shell ${server.box} ${args}`,
    '/dev/null'], { env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token, TERM: 'dumb' } });
  const shell = { child, text: '', end: once(child, 'exit') };
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
  await shell.asks('echo g$((1))o; sleep 1000', /g1o/);
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
