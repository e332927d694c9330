// The command line in pipes: readers that go away, and what standard input gives.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
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
  env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  box = await ask('POST', '/v1/sandboxes', {}).then(({ id }) => id);
});
after(async () => { for (const end of ends.reverse()) await end(); });

async function ask(method, path, body) {
  const answer = await server.get(path, { method, ...(body ? { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) } : {}) });
  return answer.status === 204 ? {} : answer.json();
}
const running = async (sandbox = box) => (await ask('GET', `/v1/sandboxes/${sandbox}/commands?running=true`)).commands;
// A line for a shell on this side, where $S is the program and $B the sandbox.
const sh = (line, more = {}) => run(['-c', `set -o pipefail; ${line}`], { bin: '/bin/bash', env: { ...env, S: BIN, B: box, ...more } });

test('exec whose reader has gone ends its command', T, async () => {
  const ended = await sh('"$S" sandbox exec "$B" -- yes | head -1');
  assert.deepEqual([ended.stdout, ended.code], ['y\n', 141], ended.stderr);
  await until(async () => (await running()).length === 0);
  const asJson = await sh('"$S" sandbox exec --json "$B" -- yes | head -1');
  assert.equal(JSON.parse(asJson.stdout).event, 'started');
  assert.equal(asJson.code, 141);
  await until(async () => (await running()).length === 0);
  const toStderr = await sh('"$S" sandbox exec "$B" -- sh -c "yes >&2" 2>&1 >/dev/null | head -1');
  assert.deepEqual([toStderr.stdout, toStderr.code], ['y\n', 141]);
  await until(async () => (await running()).length === 0);
});

test('a command that handles the hang-up can clean up, and a detached one is not affected', T, async () => {
  const detached = (await sh('"$S" sandbox exec -d "$B" -- sh -c "while :; do echo on; sleep 0.1; done" | head -1')).stdout.trim();
  const followed = await sh(`"$S" logs -f ${detached} | head -1`);
  assert.equal(followed.stdout, 'on\n');
  const script = 'trap "echo cleaned > /tmp/trapped; exit 3" HUP; while :; do echo x; sleep 0.1; done';
  assert.equal((await sh('"$S" sandbox exec "$B" -- sh -c "$LINE" | head -1', { LINE: script })).code, 141);
  assert.equal((await run(['sandbox', 'exec', box, '--', 'cat', '/tmp/trapped'], { env })).stdout, 'cleaned\n');
  assert.deepEqual((await running()).map(({ id }) => id), [detached]);
  // What ignores it, as with nohup, goes on without its client.
  const stays = await sh('"$S" sandbox exec "$B" -- nohup sh -c "while :; do echo x; sleep 0.1; done" | head -1');
  assert.deepEqual([stays.stdout, stays.code], ['x\n', 141]);
  assert.match(stays.stderr, /code in the sandbox may still be running/);
  const left = (await running()).filter(({ id }) => id !== detached);
  assert.equal(left.length, 1);
  await ask('POST', `/v1/commands/${left[0].id}/kill`);
  await ask('POST', `/v1/commands/${detached}/kill`);
  await until(async () => (await running()).length === 0);
});

test('run --sandbox interrupts code whose reader has gone, and its variables stay', T, async () => {
  const code = 'kept = 6\nwhile True: print("on", flush=True)';
  const ended = await sh('"$S" run --sandbox "$B" --runtime python3 --eval "$CODE" | head -1', { CODE: code });
  assert.deepEqual([ended.stdout, ended.code], ['on\n', 141], ended.stderr);
  const next = await run(['run', '--sandbox', box, '--runtime', 'python3', '--eval', 'kept * 7'], { env });
  assert.deepEqual([next.stdout, next.code], ['42\n', 0], next.stderr);
});

test('exec and run without a server end with their reader', T, async () => {
  const one = await sh('"$S" exec -- yes | head -1');
  assert.deepEqual([one.stdout, one.code], ['y\n', 141], one.stderr);
  // An isolate's lines are limited in number: slowly, so that some come behind the reader's end.
  const slow = 'for (;;) { console.log("y"); for (const end = Date.now() + 50; Date.now() < end;); }';
  for (const line of [`"$S" run --timeout none --eval '${slow}'`, `"$S" run --runtime python3 --eval 'while True: print("y")'`]) {
    const ended = await sh(`${line} | head -1`);
    assert.deepEqual([ended.stdout, ended.code], ['y\n', 141], ended.stderr);
  }
});

test('exec passes a file or a pipe to its command, and nothing with --no-stdin', T, async () => {
  const file = join(dir, 'list'), large = join(dir, 'large');
  writeFileSync(file, 'one\ntwo\nthree\n');
  writeFileSync(large, 'x'.repeat(3 << 20));
  const more = { FILE: file, LARGE: large };
  assert.equal((await sh('"$S" sandbox exec "$B" -- cat <"$FILE"', more)).stdout, 'one\ntwo\nthree\n');
  assert.equal((await sh('cat "$FILE" | "$S" sandbox exec "$B" -- wc -l', more)).stdout, '3\n');
  assert.equal((await sh('"$S" sandbox exec "$B" -- wc -c <"$LARGE"', more)).stdout, `${3 << 20}\n`);
  assert.equal((await sh('"$S" sandbox exec -n "$B" -- wc -c <"$FILE"', more)).stdout, '0\n');
  const loop = (option) => sh(`while read word; do "$S" sandbox exec ${option} "$B" -- sh -c 'cat >/dev/null; echo "$0"' "$word" || exit 9; done <"$FILE"`, more);
  assert.equal((await loop('-n')).stdout, 'one\ntwo\nthree\n');
  assert.equal((await loop('')).stdout, 'one\n', 'the first command reads the rest of the list');
  const both = await sh('"$S" sandbox exec -n -i "$B" -- true');
  assert.deepEqual([both.code, both.stderr], [2, 'sandglass: give --stdin or --no-stdin, not both\n']);
});

test('a command that does not read its input can write all of its output', T, async () => {
  const large = join(dir, 'unread');
  writeFileSync(large, 'x'.repeat(8 << 20));
  const got = await sh('"$S" sandbox exec "$B" -- seq 1 3000000 <"$LARGE" | md5sum', { LARGE: large });
  assert.deepEqual([got.stdout.slice(0, 32), got.code], ['603ea3c5a8c80940ca761f015046e950', 0], got.stderr);
  // A pipe that stays open keeps nobody.
  const child = spawn(BIN, ['sandbox', 'exec', box, '--', 'echo', 'done'], { stdio: ['pipe', 'pipe', 'inherit'], env });
  let text = '';
  child.stdout.on('data', (data) => (text += data));
  const [code] = await once(child, 'close');
  assert.deepEqual([code, text], [0, 'done\n']);
});
