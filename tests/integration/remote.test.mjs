// The command line over a running server: tables for people, JSON for programs, errors in one line.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { run, serve, tempDir } from './lib.mjs';

const T = { timeout: 600000 };
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
  assert.equal((await cli('sandbox', 'rm', made.id)).stdout, `${made.id}\n`);
  const gone = await cli('sandbox', 'get', made.id);
  assert.equal(gone.code, 1);
  assert.match(gone.stderr, /^sandglass: .*no sandbox.*\n$/);
});

test('a script gets only the id of what was created', T, async (t) => {
  const { cli, json } = await server(t);
  const id = (await cli('sandbox', 'create')).stdout;
  assert.match(id, /^[a-z0-9]{26}\n$/);
  assert.equal((await json('sandbox', 'get', id.trim())).id, id.trim());
  for (const noun of ['session', 'volume'])
    assert.match((await cli(noun, 'create')).stdout, /^[a-z0-9]{26}\n$/);
});

test('create has flags for limits and time, fork prints ids', T, async (t) => {
  const { cli, json } = await server(t);
  const made = await json('sandbox', 'create', '--memory', '256m', '--cpus', '0.5', '--disk', '1g', '--pids', '77',
    '--timeout', '2h', '--idle', 'none', '--net-connections', '3');
  const { memoryMb, cpus, diskMb, pids, netConnections } = made.limits;
  assert.deepEqual({ memoryMb, cpus, diskMb, pids, netConnections },
    { memoryMb: 256, cpus: 0.5, diskMb: 1024, pids: 77, netConnections: 3 });
  assert.equal(made.timeoutMs, 7_200_000);
  const forks = (await cli('sandbox', 'fork', made.id, '--count', '2')).stdout;
  assert.match(forks, /^[a-z0-9]{26}\n[a-z0-9]{26}\n$/);
  for (const id of forks.trim().split('\n')) assert.equal((await json('sandbox', 'get', id)).forkedFrom, made.id);
  const changed = await json('sandbox', 'update', made.id, '--timeout', '1h');
  assert.equal(changed.timeoutMs, 3_600_000);
  for (const [words, ...args] of [
    [/--memory 'lots' is not a size like 512m or 2g/, '--memory', 'lots'],
    [/--memory '5' has no unit: write 5m or 5g, for example/, '--memory', '5'],
    [/--memory '2m' is too small: the minimum is 4m/, '--memory', '2m'],
    [/--disk '7k' is too small: the minimum is 1m/, '--disk', '7k'],
    [/--idle '5' has no unit: write 5s or 5m, for example/, '--idle', '5'],
    [/--cpus 'two' is not a number of cores/, '--cpus', 'two'],
    [/--timeout 'soon' is not a time like 30s/, '--timeout', 'soon'],
  ]) assert.match((await cli('sandbox', 'create', ...args)).stderr, words);
});

test('session create has the flags of its sandboxes', T, async (t) => {
  const { json } = await server(t);
  const lazy = await json('session', 'create', '--tier', 'isolate', '--idle', '10m');
  assert.deepEqual([lazy.tier, lazy.sandbox, lazy.idleMs], ['isolate', null, 600_000]);
  const warm = await json('session', 'create', '--warm', '--memory', '64m', '--label', 'team=blue');
  const box = await json('sandbox', 'get', warm.sandbox);
  assert.deepEqual([box.limits.memoryMb, box.metadata.team, warm.warm], [64, 'blue', true]);
  const net = await json('session', 'create', '--tier', 'isolate', '--warm', '--allow-host', 'api.example.com', '--deny-host', 'admin.example.com');
  assert.match((await json('sandbox', 'get', net.sandbox)).network, /allow api\.example\.com; deny admin\.example\.com/);
  const named = await json('session', 'create', '--tier', 'isolate', '--warm', '--network', 'allow api.example.com:8443');
  assert.equal((await json('sandbox', 'get', named.sandbox)).network, 'allow api.example.com:8443');
});

test('cp takes directories, both ways', T, async (t) => {
  const config = join(tempDir(t), 'config.toml'), here = tempDir(t), tree = join(here, 'tree');
  writeFileSync(config, '');
  const started = await serve(t, { args: ['--config', config] });
  const env = { ...process.env, SANDGLASS_URL: started.url, SANDGLASS_TOKEN: started.token };
  const cli = async (...args) => run(args, { env });
  const made = await cli('sandbox', 'create', '--tier', 'jail');
  if (made.code !== 0) return t.skip(made.stderr);
  const id = made.stdout.trim();
  const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, i) => (i * 7) % 251));
  mkdirSync(join(tree, 'deep/er'), { recursive: true });
  writeFileSync(join(tree, 'a.txt'), 'a');
  writeFileSync(join(tree, 'deep/er/bytes'), bytes);
  symlinkSync('a.txt', join(tree, 'link'));
  const ok = async (...args) => { const ran = await cli(...args); assert.equal(ran.code, 0, ran.stderr); return ran.stdout; };
  await ok('cp', tree, `${id}:/workspace/`);       // under its own name
  await ok('cp', tree, `${id}:/workspace/other`);  // under another
  assert.equal(await ok('sandbox', 'exec', id, '--', 'cat', '/workspace/tree/a.txt', '/workspace/other/link'), 'aa');
  await ok('cp', `${id}:/workspace/other`, join(here, 'back'));
  assert.deepEqual(readFileSync(join(here, 'back/deep/er/bytes')), bytes);
  assert.equal(readlinkSync(join(here, 'back/link')), 'a.txt');
  await ok('cp', `${id}:/workspace/tree`, join(here, 'back')); // into a directory that is there
  assert.equal(readFileSync(join(here, 'back/tree/a.txt'), 'utf8'), 'a');
  assert.match((await cli('cp', `${id}:/workspace/none`, here)).stderr, /'\/workspace\/none': No such file/);
  assert.match((await cli('cp', `${id}:/workspace/tree`, join(here, 'no/such'))).stderr, /make '.*no\/such': No such file/);
  // What leads out of the target is refused by name, and nothing is written outside.
  await ok('sandbox', 'exec', id, '--', 'sh', '-c', 'mkdir bad && ln -s /etc/passwd bad/out');
  const refused = await cli('cp', `${id}:/workspace/bad`, join(here, 'bad'));
  assert.notEqual(refused.code, 0);
  assert.match(refused.stderr, /out/);
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
  const volume = await json('volume', 'create', '--name', 'data', '--capacity', '20m', '--ttl', 'none');
  assert.deepEqual([volume.capacityMb, volume.expiresAt], [20, null]);
  assert.match((await cli('volume', 'get', 'data')).stdout, new RegExp(`^id: +${volume.id}\nname: +data\n[^]*capacity: +20 MiB\n`));
  assert.match((await cli('volume', 'ls')).stdout, new RegExp(`${volume.id} +data`));
  assert.equal((await cli('volume', 'rm', volume.id)).code, 0);
  assert.match((await cli('snapshot', 'ls')).stdout, /^ID +SLUG/);

  const both = await json('token', 'create', '--scope', 'read', '--scope', 'run,files');
  assert.deepEqual(both.scopes, ['read', 'run', 'files']);
  assert.equal((await cli('token', 'rm', both.id)).code, 0);
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
  assert.match(wrong.stderr, /^sandglass: the server rejected the token; set SANDGLASS_TOKEN/);
  const odd = await cli('sandbox', 'create', '--tier', 'castle');
  assert.match(odd.stderr, /tier must be/);
  for (const [words, ...args] of [
    [/--label takes K=V, got 'red'/, 'sandbox', 'create', '--label', 'red'],
    [/--env takes K=V, got '=x'/, 'sandbox', 'create', '--env', '=x'],
    [/state: unknown state 'nope'; valid states: creating, running/, 'sandbox', 'ls', '--state', 'nope'],
    [/give either --sandbox SANDBOX or --directory DIR/, 'snapshot', 'create'],
    [/--capacity 'x' is not a size like 512m or 2g/, 'volume', 'create', '--capacity', 'x'],
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
  // The tier memory has no archives, and says so.
  assert.match((await cli('cp', dir, `${id}:/workspace/d`)).stderr, /^sandglass: .*memory/);
  const none = await cli('sandbox', 'fork', id, '--checkpoint', 'nope');
  assert.match(none.stderr, new RegExp(`sandbox '${id}' has no checkpoint 'nope'`));
});

test('the client needs nothing else', T, async (t) => {
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
