// What a language model is offered: one suite over all tiers, the same answers everywhere.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { run, serve, tempDir } from './lib.mjs';

const T = { timeout: 600000 };
const SOURCE = fileURLToPath(new URL('../..', import.meta.url));

async function session(t, provider, where = 'sessions') {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, `[sandbox]\nprovider = "${provider}"\n`);
  const server = await serve(t, { args: ['--config', config] });
  const post = async (path, body) => {
    const answer = await server.get(path, { method: 'POST', body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' } });
    return { status: answer.status, body: await answer.json() };
  };
  const { id } = (await post(`/v1/${where}`, {})).body;
  const call = async (name, args) => (await post(`/v1/${where}/${id}/tools/${name}`, args)).body;
  const good = async (name, args) => {
    const { isError, answer } = await call(name, args);
    assert.equal(isError, false, JSON.stringify(answer));
    assert.equal(answer.success, true, JSON.stringify(answer));
    return answer;
  };
  const bad = async (name, args, code, words = /./) => {
    const { isError, answer } = await call(name, args);
    assert.equal(isError, true, JSON.stringify(answer));
    assert.equal(answer.error.code, code, JSON.stringify(answer));
    assert.match(answer.error.message, words);
    assert.ok(answer.error.hint.length > 10);
    return answer.error;
  };
  return { server, post, id, call, good, bad };
}

for (const [tier, where] of [['memory', 'sessions'], ['jail', 'sessions'], ['jail', 'sandboxes']]) {
  test(`files, tier ${tier}, in ${where}`, T, async (t) => {
    const { good, bad } = await session(t, tier, where);
    assert.equal((await good('write', { path: 'src/a.ts', content: 'const a = 1;\nconst b = 2;\n' })).created, true);
    assert.equal((await good('write', { path: '/workspace/src/a.ts', content: 'const a = 1;\nconst b = 1;\n' })).created, false);
    assert.deepEqual((await good('read', { path: 'src/a.ts' })).content, 'const a = 1;\nconst b = 1;\n');
    assert.equal((await good('exists', { path: 'src' })).type, 'directory');
    assert.equal((await good('exists', { path: 'none' })).exists, false);
    await bad('edit', { path: 'src/a.ts', oldString: 'zzz', newString: 'y' }, 'no_match');
    const error = await bad('edit', { path: 'src/a.ts', oldString: '= 1', newString: '= 3' }, 'ambiguous_match', /2/);
    assert.match(error.hint, /replaceAll/);
    assert.equal((await good('edit', { path: 'src/a.ts', oldString: '= 1', newString: '= 3', replaceAll: true })).replaced, 2);
    assert.equal((await good('edit', { path: 'src/a.ts', oldString: 'b = 3', newString: 'b = 4' })).replaced, 1);
    await good('write', { path: 'src/deep/b.js', content: 'let c;\n' });
    const found = ['/workspace/src/a.ts', '/workspace/src/deep/b.js'];
    for (const dirPath of ['/workspace', 'src', '.', '/workspace/src/'])
      assert.deepEqual((await good('glob', { dirPath, pattern: '**/*.{ts,js}' })).paths.sort(), found, dirPath);
    // What is found can be read under the reported path.
    assert.equal((await good('read', { path: found[1] })).content, 'let c;\n');
    await good('write', { path: 'src/node_modules/m/m.js', content: 'let c;\n' });
    assert.deepEqual((await good('glob', { pattern: '**/*.js' })).paths, [found[1]]);
    assert.deepEqual((await good('glob', { pattern: '**/*.js', searchAll: true })).paths.sort(), [found[1], '/workspace/src/node_modules/m/m.js']);
    if (tier === 'jail') {
      const grep = async (more) => (await good('grep', { pattern: '^let', ...more })).matches.map(({ path }) => path);
      assert.deepEqual(await grep({ dirPath: 'src' }), [found[1]]);
      assert.deepEqual(await grep({ dirPath: 'src/deep/b.js' }), [found[1]]);
      assert.deepEqual(await grep({ searchAll: true }), [found[1], '/workspace/src/node_modules/m/m.js']);
    }
    await good('delete', { path: 'src/node_modules', recursive: true });
    const entries = (await good('list', { path: 'src' })).entries;
    assert.deepEqual(entries.map(({ name, type }) => [name, type]).sort(), [['a.ts', 'file'], ['deep', 'directory']]);
    await good('move', { from: 'src/a.ts', to: 'src/z.ts' });
    await bad('move', { from: 'src/a.ts', to: 'src/y.ts' }, 'not_found');
    await bad('delete', { path: 'src' }, 'conflict');
    assert.ok((await good('delete', { path: 'src', recursive: true })).deleted >= 1);
    assert.equal((await good('exists', { path: 'src' })).exists, false);
  });

  test(`bad and hostile arguments, tier ${tier}, in ${where}`, T, async (t) => {
    const { good, bad, post, id } = await session(t, tier, where);
    await good('write', { path: 'f', content: 'x' });
    await bad('read', {}, 'invalid', /path/);
    await bad('read', { path: 'f', what: 1 }, 'invalid', /what/);
    await bad('read', { path: 7 }, 'invalid', /path/);
    await bad('read', { path: 'none' }, 'not_found');
    await bad('read', { path: '/workspace' }, 'not_a_file');
    await bad('list', { path: 'f' }, 'not_a_directory');
    await bad('glob', { pattern: '[' }, 'invalid_pattern');
    // A sandbox has an /etc of its own; what lies on the host is not there.
    const canary = join(tempDir(t), 'canary');
    writeFileSync(canary, 'of the host');
    for (const path of [canary, `..${canary}`, `../..${canary}`, `/workspace/../../..${canary}`, `/proc/1/root${canary}`])
      for (const [tool, args] of [['read', { path }], ['edit', { path, oldString: 'of', newString: 'b' }],
        ['delete', { path }], ['move', { from: path, to: 'mine' }], ['grep', { dirPath: path, pattern: 'host' }]]) {
        const { body } = await post(`/v1/${where}/${id}/tools/${tool}`, args);
        assert.equal(body.isError, true, `${tool} ${path}: ${JSON.stringify(body)}`);
      }
    assert.equal(readFileSync(canary, 'utf8'), 'of the host');
    assert.equal((await post(`/v1/${where}/${id}/tools/read`, { path: 'a\0b' })).status, 400);
    assert.equal((await post(`/v1/${where}/${id}/tools/none`, {})).status, 404);
    assert.equal((await post(`/v1/${where}/no-such-place/tools/read`, { path: 'f' })).status, 404);
  });

  test(`long files are read in parts, tier ${tier}, in ${where}`, T, async (t) => {
    const { good, bad, call } = await session(t, tier, where);
    const lines = Array.from({ length: 20000 }, (_, i) => `line ${i + 1} ü`);
    await good('write', { path: 'long', content: lines.join('\n') + '\n' });
    const refused = await bad('read', { path: 'long' }, 'too_large', /\d+ bytes/);
    assert.match(refused.hint, /offset/);
    const part = await good('read', { path: 'long', offset: 15000, limit: 3 });
    assert.equal(part.content, 'line 15000 ü\nline 15001 ü\nline 15002 ü\n');
    assert.deepEqual([part.startLine, part.lines, part.truncated, part.nextOffset], [15000, 3, true, 15003]);
    const last = await good('read', { path: 'long', offset: 19999, limit: 2 });
    assert.deepEqual([last.lines, last.truncated, last.nextOffset], [2, false, undefined]);
    const capped = await good('read', { path: 'long', offset: 1, limit: 100000 });
    assert.ok(capped.truncated && capped.content.length <= 100 << 10);
    assert.equal(capped.nextOffset, capped.lines + 1);
    await good('write', { path: 'one', content: 'x'.repeat(300000) });
    assert.equal((await good('read', { path: 'one', offset: 1 })).content.length, 100 << 10);
    await good('write', { path: 'open', content: 'a\nb' });
    assert.equal((await good('read', { path: 'open' })).lines, 2);
    const { images, answer } = await call('read', { path: 'one', limit: 1 });
    assert.deepEqual(images, []);
    assert.equal(answer.truncated, true);
  });
}

test('commands, in front and behind', T, async (t) => {
  const { server, id, good, bad, call } = await session(t, 'jail');
  assert.equal((await good('bash', { command: 'echo out; echo err >&2' })).stdout, 'out\n');
  const failed = (await call('bash', { command: 'echo no >&2; exit 3' })).answer;
  assert.deepEqual([failed.success, failed.exitCode, failed.stderr], [false, 3, 'no\n']);
  const late = (await call('bash', { command: 'sleep 60', timeoutMs: 300 })).answer;
  assert.deepEqual([late.success, late.ended], [false, 'timeout']);
  const much = await good('bash', { command: 'seq 1 200000' });
  assert.ok(much.stdout.length < 40 << 10 && much.leftOutBytes > 0);
  assert.match(much.stdout, /^1\n2\n/);
  assert.match(much.stdout, /200000\n$/);

  const begun = await good('bash', { command: 'echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; sleep 100', background: true });
  assert.equal(begun.running, true);
  let seen = await good('bash_output', { id: begun.id });
  while (!seen.stdout.includes('one')) seen = await good('bash_output', { id: begun.id });
  await good('write', { path: 'go', content: '' });
  let rest = await good('bash_output', { id: begun.id, offset: seen.nextOffset, waitMs: 100 });
  while (!rest.stdout.includes('two')) rest = await good('bash_output', { id: begun.id, offset: seen.nextOffset, waitMs: 100 });
  assert.equal(rest.stdout, 'two\n');
  const ended = (await call('bash_stop', { id: begun.id })).answer;
  assert.deepEqual([ended.running, ended.ended], [false, 'killed']);
  await bad('bash_output', { id: 'nosuchcommand' }, 'not_found');
  // Another session's command does not belong to this one.
  const other = await (await server.get('/v1/sessions', { method: 'POST', body: '{}',
    headers: { 'content-type': 'application/json' } })).json();
  assert.notEqual(other.id, id);
  const foreign = await (await server.get(`/v1/sessions/${other.id}/tools/bash_output`, { method: 'POST',
    body: JSON.stringify({ id: begun.id }), headers: { 'content-type': 'application/json' } })).json();
  assert.equal(foreign.answer.error.code, 'not_found');
});

test('pictures are shown, other bytes are not', T, async (t) => {
  const { call, bad } = await session(t, 'jail');
  await call('bash', { command: "printf 'a\\0b' >binary; printf '\\377' >latin" });
  await bad('read', { path: 'binary' }, 'unsupported', /not text/);
  await bad('read', { path: 'latin' }, 'unsupported', /not text/);
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  await call('bash', { command: `echo ${png} | base64 -d >p.png` });
  const { answer, images } = await call('read', { path: 'p.png' });
  assert.equal(answer.mime, 'image/png');
  assert.deepEqual(images, [{ mimeType: 'image/png', data: png }]);
});

test('code keeps its state', T, async (t) => {
  const { good, call } = await session(t, 'isolate');
  await good('run_code', { code: 'let n: number = 20', description: 'start' });
  const answer = await good('run_code', { code: 'console.log("hi"); n + 22', description: 'add' });
  assert.deepEqual([answer.result, answer.stdout], [42, 'hi\n']);
  const failed = (await call('run_code', { code: 'null.x', description: 'fail' })).answer;
  assert.equal(failed.success, false);
  assert.equal(failed.error.name, 'TypeError');
});

test('code in a jail is Python unless it says otherwise, and its figures are pictures', T, async (t) => {
  const { good, call } = await session(t, 'jail');
  await good('run_code', { code: 'n = 40', description: 'start' });
  assert.equal((await good('run_code', { code: 'print("hi"); n + 2', description: 'add' })).result, 42);
  const pair = await good('run_code', { code: '{"a": [1, None], "b": "c"}', description: 'a value of parts' });
  assert.deepEqual([pair.result, pair.text], [{ a: [1, null], b: 'c' }, "{'a': [1, None], 'b': 'c'}"]);
  const two = await good('run_code', { code: 'display("first"); 2', description: 'shown and given' });
  assert.deepEqual([two.result, two.text], [2, "'first'\n2"]);
  const table = 'class Table:\n    def __repr__(self): return "   a\\n0  1"\nTable()';
  assert.equal((await good('run_code', { code: table, description: 'a table keeps its columns' })).result, '   a\n0  1');
  assert.equal((await good('run_code', { code: 'echo $((1 + 1))', language: 'bash', description: 'shell' })).stdout, '2\n');
  const made = await good('run_code', { code: 'open("made", "w").write("12345");', description: 'a file' });
  assert.deepEqual(made.files, [{ path: '/workspace/made', change: 'created', size: 5 }]);
  const left = (await call('run_code', { code: 'exit 3', language: 'bash', description: 'leave' })).answer;
  assert.deepEqual([left.error.message, left.stateLost], ['3', true]);
  const failed = (await call('run_code', { code: 'open("none")', description: 'fail' })).answer;
  assert.deepEqual([failed.success, failed.error.name], [false, 'FileNotFoundError']);
  const drawn = await call('run_code', { code: 'open("f.txt", "w").write("x")\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()',
    description: 'draw', timeoutMs: 300000 });
  assert.equal(drawn.answer.success, true, JSON.stringify(drawn.answer));
  assert.equal(drawn.images[0].mimeType, 'image/png');
  assert.ok(drawn.answer.files.some(({ path, change }) => path === '/workspace/f.txt' && change === 'created'));
});

test('the table in the shapes of others', T, async (t) => {
  const { server } = await session(t, 'memory');
  const shape = async (format) => (await (await server.get(`/v1/tools?format=${format}`)).json()).tools;
  const own = await shape('json');
  assert.ok(own.length >= 13);
  for (const tool of own) {
    assert.equal(tool.inputSchema.type, 'object');
    assert.equal(tool.outputSchema.type, 'object');
    assert.equal(typeof tool.annotations.readOnlyHint, 'boolean');
  }
  assert.deepEqual((await shape('openai')).map((tool) => tool.function.name), own.map(({ name }) => name));
  assert.deepEqual((await shape('anthropic')).map((tool) => tool.input_schema), own.map((tool) => tool.inputSchema));
  assert.equal((await server.get('/v1/tools?format=odd')).status, 400);
  const { systemPrompt } = await (await server.get('/v1/tools')).json();
  assert.ok(systemPrompt.split('\n').length <= 8);
});

test('what is switched off is not offered', T, async (t) => {
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, '[sandbox]\nenabled = false\n');
  const server = await serve(t, { args: ['--config', config] });
  assert.deepEqual(await (await server.get('/v1/tools')).json(), { tools: [], systemPrompt: '' });
});

test('docs/TOOLS.md is what the program prints', T, async () => {
  const { stdout } = await run(['tools', 'docs']);
  assert.equal(readFileSync(join(SOURCE, 'docs/TOOLS.md'), 'utf8'), stdout, 'sandglass tools docs >docs/TOOLS.md');
});
