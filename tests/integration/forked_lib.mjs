// Sandboxes whose Python kernel is a fork of the server's zygote.
import assert from 'node:assert/strict';
import { sleep } from './lib.mjs';

export const EXE = 'import os; os.readlink("/proc/self/exe")';

export async function post(server, path, body) {
  const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body),
    headers: { 'content-type': 'application/json' } });
  const text = await answer.text();
  return { http: answer.status, raw: text, ...(text.startsWith('{') ? JSON.parse(text) : {}) };
}

export const box = (server, id) => ({ id, run: (code, more) => post(server, `/v1/sandboxes/${id}/run_code`, { code, ...more }),
  fork: (count) => post(server, `/v1/sandboxes/${id}/fork`, { count }) });

// null, with the test skipped, where it does not exist; the zygote takes a moment after the second interpreter.
export async function forked(t, server, spec) {
  for (let end = Date.now() + 180000; Date.now() < end;) {
    const made = await post(server, '/v1/sandboxes', { tier: 'jail', runtime: 'python3', ...spec });
    if (made.http !== 201) {
      t.skip(`no sandbox with python3 here: ${made.raw}`);
      return null;
    }
    const one = box(server, made.id);
    const { http, raw, result } = await one.run(EXE);
    assert.equal(http, 200, raw);
    if (String(result).startsWith('/memfd:')) return one;
    await server.get(`/v1/sandboxes/${made.id}`, { method: 'DELETE' });
    await sleep(100);
  }
  throw new Error('no kernel was ever forked');
}

// How long the kernel's process has been there, in seconds.
export const AGE = 'import time; s = open("/proc/self/stat").read().rsplit(")", 1)[1].split()\n'
  + 'float(open("/proc/uptime").read().split()[0]) - int(s[19]) / 100';

// A sandbox whose kernel was there before it; those take a moment to be made.
export async function pooled(server, spec) {
  for (let end = Date.now() + 180000; Date.now() < end;) {
    await sleep(400);
    const made = await post(server, '/v1/sandboxes', { tier: 'jail', runtime: 'python3', ...spec });
    assert.equal(made.http, 201, made.raw);
    const one = box(server, made.id);
    const { http, raw, result, executionCount } = await one.run(AGE);
    assert.equal(http, 200, raw);
    assert.equal(executionCount, 1, raw);
    if (result > 0.25) return one;
    await server.get(`/v1/sandboxes/${made.id}`, { method: 'DELETE' });
  }
  throw new Error('no kernel ever waited');
}
