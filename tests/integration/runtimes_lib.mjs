// Sandboxes of each runtime in shared servers: a server takes seconds to start, a sandbox milliseconds.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { serve, tempDir, until } from './lib.mjs';

export const T = { timeout: 600000 };

// One server for each runtime and way to start its kernels: each test has a sandbox of its own there.
const servers = new Map(), atEnd = [];
after(async () => { for (const end of atEnd.reverse()) await end(); });

// Python kernels are started by their program, or forked from a zygote.
async function serverOf(runtime, isForked) {
  const key = `${runtime} ${isForked}`, scope = { after: (end) => atEnd.push(end) };
  if (servers.has(key)) return servers.get(key);
  const config = join(tempDir(scope), 'config.toml');
  writeFileSync(config, `[jail]\nzygote = ${isForked}\nzygote_imports = ["json"]\n`);
  const dir = mkdtempSync(join(tmpdir(), 'sandglass-it-')); // the server's: it goes with it
  const added = join(process.env.SG_RUNTIMES ?? '/nowhere', 'runtimes'); // what the set-up has added
  if (existsSync(added)) symlinkSync(added, join(dir, 'runtimes'));
  const server = await serve(scope, { dir, args: ['--config', config] });
  server.post = async (path, body, headers = {}) => {
    const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body ?? {}),
      headers: { 'content-type': 'application/json', ...headers } });
    const text = await answer.text();
    const isOne = text.startsWith('{') && text.indexOf('\n') === text.length - 1;
    return { ...(isOne ? JSON.parse(text) : {}), http: answer.status, raw: text };
  };
  servers.set(key, server);
  return server;
}

// A zygote is made once it is worth it.
async function waitForZygote(server, runtime) {
  if (server.hasZygote) return;
  await until(async () => {
    const first = await server.post('/v1/run_code', { code: '1', runtime });
    assert.equal(first.result, 1, first.raw);
    return server.stderr.includes('event=jail.zygote');
  });
  assert.doesNotMatch(server.stderr, /event=jail.zygote.*error/);
  server.hasZygote = true;
}

// A sandbox of that runtime, which goes with the test, and what is asked of it and of its server.
export async function setup(t, runtime, more = {}, isForked = false) {
  const server = await serverOf(runtime, isForked);
  const box = await server.post('/v1/sandboxes', { tier: 'jail', runtime, ...more });
  if (box.http !== 201) {
    t.skip(`no sandbox with ${runtime} here: ${box.raw}`);
    return null;
  }
  const path = `/v1/sandboxes/${box.id}`;
  t.after(() => server.get(path, { method: 'DELETE' }));
  if (isForked) await waitForZygote(server, runtime);
  return { ...server, box: path, run: (code, options = {}) => server.post(`${path}/run_code`, { code, ...options }) };
}

