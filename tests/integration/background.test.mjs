// Processes that a command leaves in the background keep its output: they go on, and their output is in its log.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { run, serve, tempDir, until } from './lib.mjs';

const T = { timeout: 600000 };
const ends = [];
const dir = tempDir({ after: (call) => ends.push(call) });
let server, env, probe;

async function start() {
  server = await serve({ after: (call) => ends.push(call) }, { dir });
  env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token, HOME: dir, XDG_CONFIG_HOME: dir };
}

async function ask(method, path, body) {
  const answer = await server.get(path, { method, ...(body === undefined ? {} : { body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' } }) });
  const text = await answer.text();
  return { ...(text.startsWith('{') ? JSON.parse(text) : {}), status: answer.status, text };
}

const makeBox = (body = {}) => ask('POST', '/v1/sandboxes', { tier: 'jail', ...body });
const exec = (box, command, body = {}) => ask('POST', `/v1/sandboxes/${box}/commands`, { command, ...body });
const get = (id) => ask('GET', `/v1/commands/${id}`);
const logs = async (id) => (await ask('GET', `/v1/commands/${id}/output`)).text;
const commandsOf = async (box) => JSON.parse((await ask('GET', `/v1/sandboxes/${box}/commands`)).text).commands;

// Prints before its parent's exit and whenever the file changes; a failed print is seen in /tmp/failed.
const LEAVE = '(trap "" PIPE; echo early; n=0; while [ ! -e /tmp/end ]; do if [ -e /tmp/go ]; then rm /tmp/go; n=$((n+1)); '
  + 'echo late $n || touch /tmp/failed; echo loud $n >&2 || touch /tmp/failed; touch /tmp/said.$n; fi; sleep 0.05; done) & '
  + 'echo $! >/tmp/pid; echo parent; exit 3';

before(async () => {
  await start();
  probe = await makeBox();
});
after(async () => { for (const end of ends.reverse()) await end(); });
const needsJails = (t) => probe.status === 201 || (t.skip(`no jails here: ${probe.text}`), false);

test('a background child outlives its command: it can print, and its log has all of it', T, async (t) => {
  if (!needsJails(t)) return;
  const box = (await makeBox()).id;
  const client = await run(['sandbox', 'exec', box, '--', 'sh', '-c', LEAVE], { env });
  assert.equal(client.code, 3, client.stderr);
  const command = (await commandsOf(box)).at(-1);
  assert.deepEqual([command.state, command.exitCode, command.end, command.outputOpen], ['ended', 3, 'exited', true]);
  for (const n of [1, 2]) {
    const said = await exec(box, `touch /tmp/go; until [ -e /tmp/said.${n} ]; do sleep 0.05; done; kill -0 $(cat /tmp/pid) && ls /tmp`);
    assert.equal(said.exitCode, 0, said.text);
    assert.doesNotMatch(said.stdout, /failed/);
  }
  await until(async () => /late 2/.test(await logs(command.id)) && /loud 2/.test(await logs(command.id)));
  const shown = await run(['logs', command.id], { env });
  assert.equal(shown.code, 0, shown.stderr);
  for (const line of ['early', 'parent', 'late 1', 'late 2']) assert.ok(shown.stdout.split('\n').includes(line), `${line}: ${shown.stdout}`);
  assert.match(shown.stderr, /loud 1\nloud 2\n/);
  // One that follows a command that has ended gets what is there, and its end.
  const followed = await run(['logs', '--follow', command.id], { env });
  assert.match(followed.stdout, /late 2/);
  // Input is for commands that run.
  assert.equal((await ask('POST', `/v1/commands/${command.id}/stdin`, {})).status, 409);
  // The last writer ends it.
  await exec(box, 'touch /tmp/end');
  await until(async () => (await get(command.id)).outputOpen === false);
  assert.match(await logs(command.id), /late 2/);
});

test('what a command left is work as long as it holds the output, and ends with its sandbox', T, async (t) => {
  if (!needsJails(t)) return;
  const box = (await makeBox({ idleMs: 1000 })).id, idle = (await makeBox({ idleMs: 1000 })).id;
  const left = await exec(box, LEAVE);
  await exec(idle, 'true');
  const stateOf = async (id) => (await ask('GET', `/v1/sandboxes/${id}`)).state;
  await until(async () => await stateOf(idle) === 'paused');
  assert.equal(await stateOf(box), 'running');
  await ask('DELETE', `/v1/sandboxes/${box}`);
  await until(async () => (await get(left.id)).outputOpen === false);
  assert.equal((await get(left.id)).exitCode, 3);
});

test('KILL ends what a command left; other signals and input are refused', T, async (t) => {
  if (!needsJails(t)) return;
  const box = (await makeBox()).id;
  const left = await exec(box, LEAVE);
  const refused = await ask('POST', `/v1/commands/${left.id}/signal`, { signal: 'TERM' });
  assert.equal(refused.status, 409);
  assert.match(refused.text, /has ended; the processes that it left running can only be ended with KILL/);
  const killed = await ask('POST', `/v1/commands/${left.id}/signal`, { signal: 'KILL' });
  assert.ok(killed.status < 300, killed.text);
  await until(async () => (await get(left.id)).outputOpen === false);
  assert.notEqual((await exec(box, 'kill -0 $(cat /tmp/pid)')).exitCode, 0);
  assert.deepEqual([(await get(left.id)).end, (await get(left.id)).exitCode], ['exited', 3]);
});

test('64 commands of a sandbox may run or have left their output open; the next one is refused with the way out', T, async (t) => {
  if (!needsJails(t)) return;
  const box = (await makeBox()).id;
  const left = [];
  for (let i = 0; i < 64; i += 8)
    left.push(...await Promise.all(Array.from({ length: 8 }, () => exec(box, 'sleep 600 &'))));
  for (const each of left) assert.deepEqual([each.exitCode, each.status], [0, 201], each.text);
  const more = await exec(box, 'true');
  assert.match(more.text, /already has 64 commands, the most allowed: 64 have ended but left processes that hold their output; end those/);
  assert.ok((await ask('POST', `/v1/commands/${left[5].id}/signal`, { signal: 'KILL' })).status < 300);
  await until(async () => (await exec(box, 'true')).exitCode === 0);
  // Output in a file counts for nothing.
  assert.equal((await exec(box, 'sleep 600 >/dev/null 2>&1 &')).exitCode, 0);
});

test('what a cell left in the background prints between two runs is in the output of the next run', T, async (t) => {
  if (!needsJails(t)) return;
  const box = (await makeBox()).id;
  const cell = (code) => ask('POST', `/v1/sandboxes/${box}/run_code`, { language: 'python', code });
  const leave = (n, print) => `import subprocess\n_ = subprocess.Popen(["sh", "-c", "until [ -e /tmp/go.${n} ]; do sleep 0.05; done; `
    + `${print}; touch /tmp/said.${n}; sleep 600"])`;
  const wait = (n) => exec(box, `touch /tmp/go.${n}; until [ -e /tmp/said.${n} ]; do sleep 0.05; done`);
  assert.equal((await cell(leave(1, 'echo late; echo bad >&2'))).stdout, '');
  assert.equal((await wait(1)).exitCode, 0);
  const next = await cell('print("own")');
  assert.deepEqual([next.stdout.split('\n').sort(), next.stderr], [['', 'late', 'own'], 'bad\n']);
  assert.equal((await cell('print("own")')).stdout, 'own\n');
  // Within bounds, and a child never waits for a reader.
  await cell(leave(2, 'seq 1 200000'));
  assert.equal((await wait(2)).exitCode, 0);
  const much = (await cell('print("own")')).stdout;
  assert.match(much, /^1\n2\n[^]*\n\.\.\. [\d,]+ bytes \([\d,]+ lines\) of output between two runs not kept \.\.\.\n/);
  assert.match(much, /own\n/);
});

test('the log of a command with open output is whole after kill -9 of the server', T, async (t) => {
  if (!needsJails(t)) return;
  const box = (await makeBox()).id;
  const left = await exec(box, LEAVE);
  await exec(box, 'touch /tmp/go; until [ -e /tmp/said.1 ]; do sleep 0.05; done');
  await until(async () => /late 1[^]*loud 1|loud 1[^]*late 1/.test(await logs(left.id)));
  // The store has it when a later quick write is answered.
  await exec(box, 'true');
  server.child.kill('SIGKILL');
  await start();
  const found = await get(left.id);
  assert.deepEqual([found.state, found.end, found.exitCode, found.outputOpen], ['ended', 'exited', 3, false]);
  assert.match(await logs(left.id), /late 1/);
});
