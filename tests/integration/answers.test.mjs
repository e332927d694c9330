// Answers and requests that grow on their way through the server: what a tenant says is escaped, told twice,
// read into a tree. None of it may end the server or fill its memory.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { isSanitized, serve, tempDir } from './lib.mjs';

const T = { timeout: 600000 };
const SKIP = process.getuid() !== 0 && 'jails with every limit need root here';

async function start(t, provider) {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, `[sandbox]\nprovider = "${provider}"\n`);
  const server = await serve(t, { args: ['--config', config] });
  const post = async (path, body) => {
    const answer = await server.get(path, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body),
      headers: { 'content-type': 'application/json' } });
    return { status: answer.status, body: await answer.json() };
  };
  const rss = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))[1]) >> 10;
  const { id } = (await post('/v1/sandboxes', {})).body;
  return { server, post, rss, at: `/v1/sandboxes/${id}` };
}

test('a body of millions of empty values is refused before it is a tree', T, async (t) => {
  const { post, rss, at } = await start(t, 'memory');
  const before = rss();
  const { status, body } = await post(`${at}/files/list`, `[${'{},'.repeat(5 << 20)}{}]`);
  assert.equal(status, 413, JSON.stringify(body));
  assert.equal(body.error.code, 'too_large');
  if (!isSanitized) assert.ok(rss() - before < 128, `${rss() - before} MiB`);
});

test('a text that is escaped when it comes back does not end the server', T, async (t) => {
  const { post, at } = await start(t, 'memory');
  const { status, body } = await post(`${at}/tools/write`, { path: 'a', content: '\x7f'.repeat(15 << 20) });
  assert.equal(status, 200);
  assert.equal(body.isError, false, JSON.stringify(body));
});

test('names have a bound, and the rest of them is on the next page', { ...T, skip: SKIP }, async (t) => {
  const { post, at } = await start(t, 'jail');
  // Fourteen levels of names that are six bytes of JSON for each of their own.
  const made = await post(`${at}/commands`, { command: `d=$(head -c 250 /dev/zero | tr '\\0' '\\001')
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do mkdir "$d" && cd "$d" || exit 1; done; seq 3300 | xargs touch` });
  assert.equal(made.body.exitCode, 0, JSON.stringify(made.body).slice(0, 300));
  const names = new Set();
  for (let after, pages = 0; ; pages++) {
    const { entries, truncated } = (await post(`${at}/files/list`, { recursive: true, limit: 10000, after })).body;
    for (const { path } of entries) names.add(path);
    if (!truncated) {
      assert.ok(pages >= 1, 'it was one page');
      break;
    }
    after = entries.at(-1).path;
  }
  assert.equal(names.size, 3314);
});

test('what code shows has a bound in every form', { ...T, skip: SKIP }, async (t) => {
  const { server, post, at } = await start(t, 'jail');
  const run = async (code, more) => (await post(`${at}/run_code`, { language: 'python', code, ...more })).body;
  if ((await run('1')).status !== 'ok') return t.skip('no Python here');
  const html = await run(`class A:\n  def _repr_html_(self): return '\\x7f' * (12 << 20)\nA()`);
  assert.equal(html.results[0].data['text/html'].length, 12 << 20);
  const json = await run(`display({'application/json': '[' + '{},' * (4 << 20) + '{}]'}, raw=True)`);
  assert.equal(json.status, 'ok');
  const large = await run(`display({'text/plain': 'x' * (40 << 20)}, raw=True)\n'still here'`);
  assert.equal(large.truncatedResults, 1);
  assert.equal(large.text, "'still here'");
  assert.equal((await run(`raise ValueError('x' * (30 << 20))`)).error.name, 'Error');
  assert.equal((await run('6 * 7')).result, 42, 'the interpreter is the same');
  assert.equal((await server.get('/healthz')).status, 200);
});

test('a fetch that the code gives up is given up, and the run goes on', T, async (t) => {
  const { server, post, at } = await start(t, 'isolate');
  const code = `const words = [];
    for (let i = 0; i < 100; i++) {
      const giveUp = new AbortController();
      const answer = fetch('http://127.0.0.1:9/', { signal: giveUp.signal });
      giveUp.abort(new Error('enough'));
      try { await answer; } catch (error) { words.push(error.message); }
    }
    new Set(words).size + words[99];`;
  for (const path of ['/v1/run_code', `${at}/run_code`, `${at}/run_code`]) {
    const { status, body } = await post(path, { code, network: path === '/v1/run_code' ? 'public' : undefined });
    assert.equal(status, 200);
    assert.equal(body.result, '1enough', JSON.stringify(body));
  }
  assert.equal((await server.get('/healthz')).status, 200);
});

test('a NUL in what a command prints hides nothing from the caller of a tool', { ...T, skip: SKIP }, async (t) => {
  const { post, at } = await start(t, 'jail');
  const { body } = await post(`${at}/tools/bash`, { command: "printf 'a\\0b'" });
  assert.equal(body.answer?.stdout, 'a\ufffdb', JSON.stringify(body));
});
