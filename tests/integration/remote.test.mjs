// The command line over a running server: tables for people, JSON for programs, errors in one line.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { run, serve, tempDir } from './lib.mjs';

const T = { timeout: 60000 };
const SOURCE = fileURLToPath(new URL('../..', import.meta.url));

async function server(t) {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, '[sandbox]\nprovider = "memory"\n');
  const started = await serve(t, { args: ['--config', config] });
  const env = { ...process.env, SANDGLASS_URL: started.url, SANDGLASS_TOKEN: started.token };
  started.cli = async (...args) => run(args, { env });
  started.json = async (...args) => {
    const result = await started.cli(...args, '--json');
    assert.equal(result.code, 0, result.stderr);
    return JSON.parse(result.stdout);
  };
  return started;
}

test('a sandbox from make to delete', T, async (t) => {
  const { cli, json } = await server(t);
  const made = await json('sandbox', 'create', '--name', 'mine', '--label', 'team=red');
  assert.equal(made.state, 'running');
  assert.deepEqual(made.metadata, { team: 'red' });
  const table = await cli('sandbox', 'ls');
  assert.match(table.stdout, /^ID +NAME +TIER +STATE/);
  assert.match(table.stdout, new RegExp(`${made.id} +mine +memory +running`));
  assert.equal((await json('sandbox', 'get', made.id)).id, made.id);
  assert.match((await cli('sandbox', 'pause', made.id)).stdout, /paused/);
  assert.equal((await json('sandbox', 'ls', '--state', 'running')).sandboxes.length, 0);
  assert.match((await cli('sandbox', 'resume', made.id)).stdout, /running/);
  assert.equal((await json('sandbox', 'fork', made.id, '--count', '2')).sandboxes.length, 2);
  assert.match((await cli('top')).stdout, /^3 sandboxes, 3 running\n/);
  assert.equal((await cli('sandbox', 'rm', made.id)).stdout, '');
  const gone = await cli('sandbox', 'get', made.id);
  assert.equal(gone.code, 1);
  assert.match(gone.stderr, /^sandglass: .*no sandbox.*\n$/);
});

test('what was made is told to a script by its id alone', T, async (t) => {
  const { cli, json } = await server(t);
  const id = (await cli('sandbox', 'create')).stdout;
  assert.match(id, /^[a-z0-9]{26}\n$/);
  assert.equal((await json('sandbox', 'get', id.trim())).id, id.trim());
  for (const noun of ['session', 'volume'])
    assert.match((await cli(noun, 'create')).stdout, /^[a-z0-9]{26}\n$/);
});

test('files of a sandbox', T, async (t) => {
  const { cli, json, get } = await server(t);
  const { id } = await json('sandbox', 'create');
  await get(`/v1/sandboxes/${id}/files/mkdir`, { method: 'POST', body: '{"path":"/workspace/dir"}',
    headers: { 'content-type': 'application/json' } });
  assert.match((await cli('fs', 'ls', id)).stdout, /directory +0 +\S+ +dir\n$/);
  assert.equal((await json('fs', 'ls', id, '/workspace')).entries[0].path, 'dir');
  assert.equal((await cli('fs', 'rm', id, '/workspace/dir', '-r')).code, 0);
  assert.equal((await json('fs', 'ls', id)).entries.length, 0);
});

test('sessions, volumes, snapshots and tokens', T, async (t) => {
  const { cli, json, url } = await server(t);
  const session = await json('session', 'create', '--id', 'my-session-1');
  assert.equal(session.id, 'my-session-1');
  assert.match((await cli('session', 'ls')).stdout, /my-session-1/);
  assert.equal((await json('session', 'get', 'my-session-1')).state, 'dormant');
  assert.equal((await cli('session', 'rm', 'my-session-1')).code, 0);
  const volume = await json('volume', 'create', '--name', 'data', '--capacity-mb', '20', '--ttl-ms', '-1');
  assert.deepEqual([volume.capacityMb, volume.expiresAt], [20, null]);
  assert.match((await cli('volume', 'get', 'data')).stdout, new RegExp(`${volume.id} +data +20`));
  assert.match((await cli('volume', 'ls')).stdout, new RegExp(`${volume.id} +data`));
  assert.equal((await cli('volume', 'rm', volume.id)).code, 0);
  assert.match((await cli('snapshot', 'ls')).stdout, /^ID +SLUG/);

  const token = (await cli('token', 'create', '--scope', 'read', '--name', 'eyes')).stdout.trim();
  assert.match(token, /^[a-z0-9]{52}$/);
  const ask = (path, init) => fetch(url + path, { ...init, headers: { authorization: `Bearer ${token}`,
    'content-type': 'application/json' } });
  assert.equal((await ask('/v1/sandboxes')).status, 200);
  assert.equal((await ask('/v1/sandboxes', { method: 'POST', body: '{}' })).status, 403);
  assert.equal((await ask('/v1/tokens')).status, 403);
  const { tokens } = await json('token', 'ls');
  assert.match((await cli('token', 'ls')).stdout, /^ID +NAME +TENANT +SCOPES.*\n\S+ +eyes +\S+ +read +-\n/);
  assert.equal(tokens[0].name, 'eyes');
  assert.equal((await cli('token', 'rm', tokens[0].id)).code, 0);
  assert.equal((await ask('/v1/sandboxes')).status, 401);
});

test('tenants do not see each other', T, async (t) => {
  const { cli, json, url } = await server(t);
  const { id } = await json('sandbox', 'create');
  const token = (await cli('token', 'create', '--scope', 'read,run,files', '--tenant', 'other')).stdout.trim();
  const ask = async (path, init = {}) => {
    const answer = await fetch(url + path, { ...init, headers: { authorization: `Bearer ${token}` } });
    return [answer.status, (await answer.text()).replace(/"requestId":"[^"]*"/, '').replaceAll(id, 'ID')];
  };
  assert.equal((await ask('/v1/sandboxes'))[1], '{"sandboxes":[],"next":null}\n');
  for (const [path, method] of [['', 'GET'], ['/pause', 'POST'], ['', 'DELETE'], ['/commands', 'GET'],
    ['/files?path=/workspace/x', 'DELETE']]) {
    const foreign = await ask(`/v1/sandboxes/${id}${path}`, { method });
    const unknown = await ask(`/v1/sandboxes/${'a'.repeat(26)}${path}`, { method });
    assert.equal(foreign[0], 404, path);
    assert.deepEqual(foreign, [unknown[0], unknown[1].replaceAll('a'.repeat(26), 'ID')], path);
  }
  assert.equal((await json('sandbox', 'get', id)).state, 'running');
});

test('a token asks as often as it may', T, async (t) => {
  const { cli, url } = await server(t);
  const token = (await cli('token', 'create', '--scope', 'read', '--rate', '5')).stdout.trim();
  const statuses = [];
  for (let i = 0; i < 8; i++) {
    const answer = await fetch(`${url}/version`, { headers: { authorization: `Bearer ${token}` } });
    statuses.push(answer.status);
    if (answer.status === 429) assert.match(answer.headers.get('retry-after'), /^\d+$/);
  }
  assert.deepEqual(statuses.slice(0, 5), [200, 200, 200, 200, 200]);
  assert.equal(statuses.at(-1), 429);
});

test('what goes wrong is one line', T, async (t) => {
  const { cli } = await server(t);
  const nobody = await run(['sandbox', 'ls', '--url', 'http://127.0.0.1:1'],
    { env: { ...process.env, SANDGLASS_TOKEN: 'x' } });
  assert.equal(nobody.code, 1);
  assert.match(nobody.stderr, /^sandglass: no server answers at http:\S+: .*'sandglass serve', or name another with --url\n$/);
  const wrong = await run(['sandbox', 'ls'], { env: { ...process.env, SANDGLASS_TOKEN: 'wrong',
    SANDGLASS_URL: (await server(t)).url } });
  assert.match(wrong.stderr, /^sandglass: the server does not know this token; set SANDGLASS_TOKEN/);
  const odd = await cli('sandbox', 'create', '--tier', 'castle');
  assert.match(odd.stderr, /tier must be/);
  for (const [words, ...args] of [
    [/--label takes K=V, got 'red'/, 'sandbox', 'create', '--label', 'red'],
    [/--env takes K=V, got '=x'/, 'sandbox', 'create', '--env', '=x'],
    [/state: there is no 'nope'; there are creating, running/, 'sandbox', 'ls', '--state', 'nope'],
    [/--sandbox ID or --directory DIR is needed/, 'snapshot', 'create'],
    [/--capacity-mb must be a number, got 'x'/, 'volume', 'create', '--capacity-mb', 'x'],
    [/no volume 'nope'/, 'volume', 'get', 'nope'],
    [/no session 'nope'/, 'session', 'get', 'nope'],
  ]) {
    const told = await cli(...args);
    assert.notEqual(told.code, 0, args.join(' '));
    assert.match(told.stderr, words);
    assert.equal(told.stderr.split('\n').length, 2, told.stderr);
  }
});

test('cp keeps a name where it goes into a directory', T, async (t) => {
  const { cli, json } = await server(t);
  const { id } = await json('sandbox', 'create');
  const dir = tempDir(t);
  writeFileSync(join(dir, 'a.txt'), 'hello');
  assert.equal((await cli('cp', join(dir, 'a.txt'), `${id}:/workspace/`)).stderr, '');
  mkdirSync(join(dir, 'out'));
  assert.equal((await cli('cp', `${id}:/workspace/a.txt`, join(dir, 'out'))).stderr, '');
  assert.equal(readFileSync(join(dir, 'out/a.txt'), 'utf8'), 'hello');
  const tree = await cli('cp', dir, `${id}:/workspace/d`);
  assert.match(tree.stderr, new RegExp(`is a directory and cp takes one file; .*PUT /v1/sandboxes/${id}/tar`));
  const none = await cli('sandbox', 'fork', id, '--checkpoint', 'nope');
  assert.match(none.stderr, new RegExp(`sandbox '${id}' has no checkpoint 'nope'`));
});

test('the client stands alone', T, async (t) => {
  const dir = tempDir(t);
  writeFileSync(join(dir, 'main.c'), `#include "sandglass.h"
#include <stdio.h>
int main(void)
{
    sg_client *client = sg_open(NULL, NULL);
    char *json = NULL;
    if (client == NULL || sg_call(client, "GET", "/version", NULL, &json) < 0)
        return 1;
    printf("%s", json);
    sg_free(json);
    sg_close(client);
    return 0;
}
`);
  execFileSync('cc', ['-std=c99', '-Wall', '-Wextra', '-Werror', '-pedantic', '-fsyntax-only', `-I${SOURCE}sdk/c`, 'main.c'], { cwd: dir });
  execFileSync('cc', ['-D_GNU_SOURCE', '-o', 'main', `-I${SOURCE}sdk/c`, 'main.c', `${SOURCE}sdk/c/sandglass.c`, '-lcurl'], { cwd: dir });
  const started = await server(t);
  const out = execFileSync(join(dir, 'main'), { encoding: 'utf8', env: { ...process.env,
    SANDGLASS_URL: started.url, SANDGLASS_TOKEN: started.token } });
  assert.match(out, /"name":"sandglass"/);
});
