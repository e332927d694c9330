// Kernels that the server forks from a template: the same behaviour, another way to start.
import assert from 'node:assert/strict';
import test from 'node:test';
import { serve } from './lib.mjs';

const T = { timeout: 120000 };
const EXE = 'import os; os.readlink("/proc/self/exe")';

async function post(server, path, body) {
  const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' } });
  const text = await answer.text();
  return { http: answer.status, raw: text, ...(text.startsWith('{') ? JSON.parse(text) : {}) };
}

// A sandbox whose kernel is a fork; the template takes a moment after the second kernel.
async function forked(t, server) {
  for (let end = Date.now() + 60000; Date.now() < end;) {
    const box = await post(server, '/v1/sandboxes', { tier: 'jail', runtime: 'python3' });
    if (box.http !== 201) {
      t.skip(`no sandbox with python3 here: ${box.raw}`);
      return null;
    }
    const run = (body) => post(server, `/v1/sandboxes/${box.id}/run_code`, body);
    const { http, raw, result } = await run({ code: EXE });
    assert.equal(http, 200, raw);
    if (String(result).startsWith('/memfd:')) return { id: box.id, run };
    await server.get(`/v1/sandboxes/${box.id}`, { method: 'DELETE' });
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error('no kernel was ever forked');
}

test('variables, output, environment, timeouts and restarts are those of any kernel', T, async (t) => {
  const server = await serve(t);
  const box = await forked(t, server);
  if (box === null) return;
  assert.equal((await box.run({ code: 'kept = 41' })).success, true);
  const next = await box.run({ code: 'import os\nprint(os.getcwd(), os.environ.get("GIVEN"), os.environ["HOME"])\nkept + 1',
    env: { GIVEN: 'given' } });
  assert.deepEqual([next.result, next.stdout], [42, '/workspace given /home/sandbox\n'], next.raw);
  const late = await box.run({ code: 'while True: pass', timeoutMs: 500 });
  assert.deepEqual([late.status, late.stateLost], ['timeout', false], late.raw);
  assert.equal((await box.run({ code: 'kept' })).result, 41);
  const died = await box.run({ code: 'import os; os._exit(3)' });
  assert.equal(died.success, false);
  const again = await box.run({ code: EXE });
  assert.match(String(again.result), /^.memfd:/, again.raw);
});
