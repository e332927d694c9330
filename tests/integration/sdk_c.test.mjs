// The example of the C library, as a C program would use it.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';
import { BIN, run, serve } from './lib.mjs';

const T = { timeout: 120000 };
const EXAMPLE = process.env.SG_C_EXAMPLE;
const SAID = 'the sum is 6\n6\n';

test('over a daemon', T, async (t) => {
  const server = await serve(t);
  const env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  const child = await run([], { bin: EXAMPLE, env });
  assert.deepEqual([child.stderr, child.stdout, child.code], ['', SAID, 0]);
  const wrong = await run([], { bin: EXAMPLE, env: { ...env, SANDGLASS_TOKEN: 'wrong' } });
  assert.deepEqual([wrong.code, /\(unauthorized\)/.test(wrong.stderr)], [1, true], wrong.stderr);
});

test('with a server of its own, of which nothing stays', T, async () => {
  const child = await run([BIN], { bin: EXAMPLE });
  assert.deepEqual([child.stderr, child.stdout, child.code], ['', SAID, 0]);
  const servers = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid)).filter((pid) => {
    try { return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`${BIN}\0serve\0--listen\0unix:/var/tmp/sandglass-local-`); } catch { return false; }
  });
  assert.deepEqual(servers, []);
  const none = await run(['/no/such/program'], { bin: EXAMPLE });
  assert.deepEqual([none.code, none.stderr], [1, 'no server, or no token\n']);
});
