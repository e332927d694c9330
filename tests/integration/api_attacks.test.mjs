// API-01 and API-04 for every row of the route table, as /openapi.json tells it: without a token that
// holds nothing is said, and what belongs to another tenant is as unknown as what never was.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, serve, tempDir } from './lib.mjs';

const T = { timeout: process.env.SG_SOAK ? 1200000 : 600000 };
const UNKNOWN = 'a'.repeat(26);

async function setup(t) {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, '[sandbox]\nprovider = "memory"\n');
  const server = await serve(t, { args: ['--config', config] });
  server.ask = async (method, path, body, token = server.token) => {
    const answer = await fetch(server.url + path, { method, body: body && JSON.stringify(body),
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' } });
    const text = await answer.text();
    return { ...(text.startsWith('{') ? JSON.parse(text) : {}), status: answer.status, text };
  };
  const document = await (await server.get('/openapi.json')).json();
  server.routes = Object.entries(document.paths).flatMap(([path, methods]) => Object.entries(methods)
    .filter(([method]) => ['get', 'put', 'post', 'patch', 'delete'].includes(method))
    .map(([method, row]) => ({ method: method.toUpperCase(), path, row })));
  return server;
}

// From an address of its own: wrong tokens are counted by address.
let from = 0;
const plain = (server, method, path, headers) => new Promise((done, fail) => {
  from = (from + 1) % 60000;
  const request = http.request({ host: '127.0.0.1', port: server.port, method, path, agent: false, headers,
    localAddress: `127.1.${from >> 8}.${(from & 255) || 1}` }, (answer) => {
    let text = '';
    answer.on('data', (data) => (text += data));
    answer.on('end', () => done({ status: answer.statusCode, text: text.replace(/"requestId":"[^"]*"/, '') }));
    answer.on('error', fail);
  });
  request.on('error', fail);
  request.end();
});

// The time of a refusal against the number of characters that were right, in a random order: whatever
// else the machine does, the two have nothing to do with each other.
test('API-01: how much of a token was right cannot be told from the time of the refusal', T, async (t) => {
  const server = await setup(t), count = process.env.SG_SOAK ? 50000 : 3000;
  const one = (right) => new Promise((done, fail) => {
    from = (from + 1) % 60000;
    const token = server.token.slice(0, right) + 'x'.repeat(server.token.length - right - 1) + '!';
    const socket = net.connect({ port: server.port, host: '127.0.0.1', localAddress: `127.2.${from >> 8}.${(from & 255) || 1}` });
    let begin = 0n;
    socket.on('error', fail).on('connect', () => {
      begin = process.hrtime.bigint();
      socket.write(`GET /version HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    }).on('data', (data) => {
      const took = Number(process.hrtime.bigint() - begin);
      socket.destroy();
      if (data.toString('latin1').startsWith('HTTP/1.1 401')) done(took);
      else fail(new Error(data.toString('latin1')));
    });
  });
  const samples = [];
  for (let n = 0; n < count; n++) {
    const right = Math.floor(Math.random() * 32);
    samples.push({ right, took: await one(right) });
  }
  // By rank: a pause of the machine is one sample, not the sum.
  samples.sort((a, b) => a.took - b.took).forEach((sample, rank) => (sample.rank = rank));
  const mean = (of) => samples.reduce((sum, sample) => sum + of(sample), 0) / count;
  const right = mean((sample) => sample.right), rank = mean((sample) => sample.rank);
  const both = mean((sample) => (sample.right - right) * (sample.rank - rank));
  const spread = Math.sqrt(mean((sample) => (sample.right - right) ** 2) * mean((sample) => (sample.rank - rank) ** 2));
  // Six times what chance gives: once in a thousand million runs.
  assert.ok(Math.abs(both / spread) < 6 / Math.sqrt(count), `correlation ${both / spread} of ${count}`);
});

test('API-01: tokens are compared as digests, in constant time, by the program that was linked', T, async (t) => {
  const shown = (name) => spawnSync('objdump', ['-d', '--no-show-raw-insn', `--disassemble=${name}`, BIN],
    { encoding: 'utf8', maxBuffer: 1 << 28 });
  const found = shown('engine_token_find');
  if (found.status !== 0 || !found.stdout.includes('<engine_token_find>:')) { t.skip('no objdump, or no symbols'); return; }
  assert.match(found.stdout, /call.*<hash_sha256_hex>/);
  assert.match(found.stdout, /call.*<hash_equal>/);
  assert.doesNotMatch(found.stdout, /call.*<(mem|str|strn|b)cmp(@plt)?>/);
  assert.match(shown('hash_equal').stdout, /(call|jmp).*<CRYPTO_memcmp(@plt)?>/);
});

test('API-01: every door but liveness gives one and the same answer without a token that holds', T, async (t) => {
  const server = await setup(t);
  assert.ok(server.routes.length > 60, `${server.routes.length} routes`);
  const almost = server.token.slice(0, -1) + (server.token.endsWith('a') ? 'b' : 'a');
  const wrong = [{}, { authorization: 'Bearer ' }, { authorization: `Bearer ${almost}` }, { authorization: 'Basic YTpi' },
    { authorization: `Bearer ${server.token} ` + 'x' }];
  const answers = new Set();
  let open = 0;
  for (const { method, path, row } of server.routes) {
    const where = path.replace('{port}', '8080').replace(/\{[^}]*\}/g, UNKNOWN);
    const told = await plain(server, method, where, {});
    if (told.status !== 401) {
      // Open by the table's own word, and only to look.
      assert.ok(JSON.stringify(row.security ?? null) === '[]' && method === 'GET', `${method} ${path}: ${told.status}`);
      open++;
      continue;
    }
    for (const headers of wrong) {
      const answer = await plain(server, method, where, headers);
      assert.equal(answer.status, 401, `${method} ${path} ${JSON.stringify(headers)}: ${answer.text}`);
      answers.add(answer.text);
    }
    assert.equal((await plain(server, method, `${where}?token=${server.token}&access_token=${server.token}`, {})).status, 401);
  }
  assert.ok(open <= 5, `${open} open doors`);
  assert.equal(answers.size, 1, [...answers].join('\n'));
});

test('API-04: what is another tenant\'s is as unknown as what never was', T, async (t) => {
  const server = await setup(t);
  const made = {};
  made.sandboxes = (await server.ask('POST', '/v1/sandboxes', {})).id;
  made.sessions = (await server.ask('POST', '/v1/sessions', {})).id;
  made.volumes = (await server.ask('POST', '/v1/volumes', {})).id;
  made.snapshots = (await server.ask('POST', '/v1/snapshots', { sandbox: made.sandboxes })).id;
  for (const [noun, id] of Object.entries(made)) assert.ok(id, noun);
  const other = (await server.ask('POST', '/v1/tokens', { tenant: 'other', scopes: ['read', 'run', 'files'] })).token;
  assert.ok(other);
  let tried = 0;
  for (const { method, path } of server.routes) {
    const noun = /^\/v1\/(\w+)\/\{id\}/.exec(path)?.[1];
    if (!made[noun]) continue;
    const at = (id) => path.replace('{id}', id).replace(/\{[^}]*\}/g, 'x1234567') +
      (/files|tar|watch|signed/.test(path) ? '?path=/workspace/x' : '');
    const hide = (answer, id) => answer.text.replace(/"requestId":"[^"]*"/, '').replaceAll(id, 'ID');
    const body = method === 'GET' || method === 'DELETE' ? undefined : {};
    const foreign = await server.ask(method, at(made[noun]), body, other);
    const unknown = await server.ask(method, at(UNKNOWN), body, other);
    assert.ok(foreign.status >= 400 && foreign.status < 500, `${method} ${path}: ${foreign.text}`);
    assert.deepEqual([foreign.status, hide(foreign, made[noun])], [unknown.status, hide(unknown, UNKNOWN)], `${method} ${path}`);
    tried++;
  }
  assert.ok(tried > 30, `${tried} doors`);
  for (const noun of Object.keys(made)) {
    assert.deepEqual((await server.ask('GET', `/v1/${noun}`, undefined, other))[noun], [], noun);
    assert.equal((await server.ask('GET', `/v1/${noun}/${made[noun]}`)).status, 200, noun);
  }
});
