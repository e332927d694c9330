// Code without a language: the same on every surface, as the table of docs/RUNTIMES.md says. Output and
// time have one form.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { run as cli, serve } from './lib.mjs';

const T = { timeout: 600000 };
const added = join(process.env.SG_RUNTIMES ?? '/nowhere', 'runtimes');
const PYTHON = 'import sys\nprint("one"); print("two")\nsys.version_info[0]';
const TYPESCRIPT = 'const n: number = 3; console.log("one"); console.log("two"); n';
const NODE = 'console.log("one"); console.log("two"); process.version.length > 3 ? 3 : 0';

async function setup(t) {
  const dir = mkdtempSync(join(tmpdir(), 'sandglass-it-')); // the server's: it goes with it
  if (existsSync(added)) symlinkSync(added, join(dir, 'runtimes'));
  const server = await serve(t, { dir });
  server.post = async (path, body, headers = {}) => {
    const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } });
    const text = await answer.text();
    return { http: answer.status, text, ...(headers.accept ? {} : JSON.parse(text)) };
  };
  server.env = { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token };
  return server;
}

// What each surface gives for the code: its value and its text.
const surfaces = {
  'run_code of the place': async (server, place, code) => server.post(`${place}/run_code`, { code }),
  'run_code with its id': async (server, place, code) => {
    const [, , kind, id] = place.split('/');
    return server.post('/v1/run_code', { code, [kind === 'sessions' ? 'session' : 'sandbox']: id });
  },
  'as events': async (server, place, code) => {
    const { text } = await server.post(`${place}/run_code`, { code }, { accept: 'application/x-ndjson' });
    const events = text.trim().split('\n').map((line) => JSON.parse(line));
    const result = events.find(({ event }) => event === 'result').data;
    return { result: result.value ?? JSON.parse(result.data['application/json']), durationMs: events.at(-1).data.durationMs,
      stdout: events.filter(({ event }) => event === 'stdout').map(({ data }) => data.text).join('') };
  },
  'the tool': async (server, place, code) => {
    const { answer } = await server.post(`${place}/tools/run_code`, { code, description: 'x' });
    return { ...answer, durationMs: 0 };
  },
  'the command line': async (server, place, code) => {
    const [, , kind, id] = place.split('/');
    const done = await cli(['run', kind === 'sessions' ? '--session' : '--sandbox', id, '-e', code], { env: server.env });
    return { result: Number(done.stdout.split('\n')[2]), stdout: done.stdout.replace(/3\n$/, ''), durationMs: 0 };
  },
  'the command line as JSON': async (server, place, code) => {
    const [, , kind, id] = place.split('/');
    return JSON.parse((await cli(['run', kind === 'sessions' ? '--session' : '--sandbox', id, '--json', '-e', code], { env: server.env })).stdout);
  },
};

const places = [
  ['a jail', { tier: 'jail' }, PYTHON],
  ['a jail of python3', { tier: 'jail', runtime: 'python3' }, PYTHON],
  ['a jail of node24', { tier: 'jail', runtime: 'node24' }, NODE],
  ['an isolate', { tier: 'isolate' }, TYPESCRIPT],
];

test('code without a language is that of the sandbox, on every surface', T, async (t) => {
  const server = await setup(t);
  for (const [name, spec, code] of places) {
    if (spec.runtime === 'node24' && !existsSync(join(added, 'trees/node24'))) continue;
    const box = await server.post('/v1/sandboxes', spec);
    if (box.http !== 201) { t.diagnostic(`${name}: ${box.text}`); continue; }
    const session = await server.post('/v1/sessions', { sandbox: spec });
    for (const place of [`/v1/sandboxes/${box.id}`, ...(session.http === 201 ? [`/v1/sessions/${session.id}`] : [])])
      for (const [surface, ask] of Object.entries(surfaces)) {
        const { result, stdout, durationMs, ...rest } = await ask(server, place, code);
        assert.deepEqual([result, stdout, typeof durationMs], [3, 'one\ntwo\n', 'number'], `${name}, ${place}, ${surface}: ${JSON.stringify(rest)}`);
      }
  }
});

test('code without a language and a sandbox is TypeScript', T, async (t) => {
  const server = await setup(t);
  const { result, stdout, durationMs, text } = await server.post('/v1/run_code', { code: TYPESCRIPT });
  assert.deepEqual([result, stdout, typeof durationMs], [3, 'one\ntwo\n', 'number'], text);
  assert.equal((await cli(['run', '-e', TYPESCRIPT])).stdout, 'one\ntwo\n3\n');
  const own = JSON.parse((await cli(['run', '--json', '-e', TYPESCRIPT])).stdout);
  assert.deepEqual([own.result, own.stdout, typeof own.durationMs, own.environment.warnings], [3, 'one\ntwo\n', 'number', []]);
  const command = await server.post(`/v1/sandboxes/${(await server.post('/v1/sandboxes', { tier: 'jail' })).id}/commands`, { command: 'true' });
  if (command.http < 300) assert.equal(typeof command.durationMs, 'number', command.text);
});
