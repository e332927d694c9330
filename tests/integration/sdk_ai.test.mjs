// The tools of the TypeScript package in the AI SDK: a scripted model reads, edits and runs code.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { BIN, run, serve, tempDir } from './lib.mjs';

const T = { timeout: 600000 };
const SOURCE = fileURLToPath(new URL('../..', import.meta.url));
const PACKAGE = process.env.SG_SDK;
const MODULES = join(process.env.SG_BUILD, '../npm/test/node_modules');

// A project as a user has it: our package, and one major of the AI SDK under its own name.
function project(ai) {
  const dir = mkdtempSync(join(tmpdir(), 'sandglass-it-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  const modules = join(dir, 'node_modules');
  mkdirSync(modules);
  // Not a link: `ai` is looked for beside the file that names it.
  cpSync(PACKAGE, join(modules, 'sandglass'), { recursive: true });
  symlinkSync(join(MODULES, ai), join(modules, 'ai'));
  for (const name of ['@ai-sdk', '@types', 'zod']) symlinkSync(join(MODULES, name), join(modules, name));
  writeFileSync(join(dir, 'package.json'), '{"type":"module"}');
  return { dir, load: (path) => import(pathToFileURL(join(modules, path))) };
}

// Calls one tool after the other with fixed arguments and ends with a word of its own.
function scripted(Model, calls) {
  let step = 0;
  const seen = [];
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 }, totalTokens: 2 };
  const model = new Model({
    doGenerate: async ({ prompt, tools }) => {
      seen.push({ prompt, tools });
      const next = calls[step++];
      return next === undefined
        ? { content: [{ type: 'text', text: 'done' }], finishReason: { unified: 'stop', raw: 'stop' }, usage, warnings: [] }
        : { content: [{ type: 'tool-call', toolCallId: `call-${step}`, toolName: next[0], input: JSON.stringify(next[1]) }],
          finishReason: { unified: 'tool-calls', raw: 'tool-calls' }, usage, warnings: [] };
    },
  });
  return { model, seen };
}

const WORK = [
  ['write', { path: 'sum.py', content: 'print(1 + 1)\n' }],
  ['read', { path: 'sum.py' }],
  ['edit', { path: 'sum.py', oldString: '1 + 1', newString: '20 + 22' }],
  ['run_code', { code: 'exec(open("/workspace/sum.py").read())', description: 'runs it' }],
  ['read', { path: 'none.py' }],
];

function checkWork(answers) {
  assert.equal(answers.length, WORK.length);
  const [written, read, edited, ran, missing] = answers;
  assert.equal(written.created, true);
  assert.equal(read.content, 'print(1 + 1)\n');
  assert.equal(edited.replaced, 1);
  assert.equal(ran.stdout, '42\n');
  assert.deepEqual([missing.success, missing.error.code], [false, 'not_found']);
  assert.ok(missing.error.hint.length > 10);
}

const answersOf = ({ steps }) => steps.flatMap(({ toolResults }) => toolResults).map(({ output }) => output);

for (const [major, name, mock, contextOf] of [
  [7, 'ai', 'MockLanguageModelV4', (sandbox, context) => ({ toolsContext: context(sandbox) })],
  [6, 'ai6', 'MockLanguageModelV3', (sandbox) => ({ experimental_context: { sandbox } })],
]) {
  const { load } = project(name);
  test(`generateText of ai ${major}: bound tools and static ones`, T, async (t) => {
    const { generateText, stepCountIs, isStepCount } = await load('ai/dist/index.js');
    const ai = await load('ai/dist/test/index.js').catch(() => load('ai/dist/test/index.mjs'));
    const { Session, Sandbox, Client } = await load('sandglass/dist/index.js');
    const { createSandboxTools, ErrSandboxContext, sandboxContext, sandboxTools } = await load('sandglass/dist/ai.js');
    const server = await serve(t);
    const client = new Client({ url: server.url, token: server.token });
    const stopWhen = (isStepCount ?? stepCountIs)(20);
    const work = async (more, calls = WORK) => {
      const { model, seen } = scripted(ai[mock], calls);
      const result = await generateText({ model, prompt: 'work', stopWhen, ...more });
      assert.equal(result.text, 'done');
      return { result, seen };
    };
    const session = await Session.create({ client, sandbox: { tier: 'jail' } });
    const { result, seen } = await work({ tools: createSandboxTools(session), system: undefined });
    checkWork(answersOf(result));
    // No argument of any tool names a sandbox or a session.
    for (const { inputSchema } of seen[0].tools) assert.ok(!Object.keys(inputSchema.properties).some((key) => /sandbox|session/i.test(key)));

    const sandbox = await Sandbox.create({ client, tier: 'jail' });
    checkWork(answersOf((await work({ tools: sandboxTools, ...contextOf(sandbox, sandboxContext) })).result));

    // Without a sandbox each call ends in ErrSandboxContext, which the model gets.
    const without = await work({ tools: sandboxTools, ...(major === 7 ? { toolsContext: {} } : {}) }, [['read', { path: 'x' }]]);
    const [failed] = without.result.steps[0].content.filter(({ type }) => type === 'tool-error');
    assert.ok(failed.error instanceof ErrSandboxContext, String(failed.error));
    for (const context of [undefined, null, 1, {}, { sandbox: 'id' }, { sandbox: {} }])
      await assert.rejects(async () => sandboxTools.read.execute({ path: 'x' }, { toolCallId: '1', messages: [], experimental_context: context }),
        { name: 'ErrSandboxContext', message: /sandbox missing/ });

    // Pictures reach the model as pictures.
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
    await sandbox.files.write('/workspace/dot.png', Buffer.from(png, 'base64'));
    const shown = await work({ tools: createSandboxTools(sandbox, { only: ['read'] }) }, [['read', { path: 'dot.png' }]]);
    assert.deepEqual(shown.seen[0].tools.map((each) => each.name), ['read']);
    assert.ok(JSON.stringify(shown.seen[1].prompt).includes(png.slice(0, 40)));
  });
}

test('generateText over @ai-sdk/mcp', T, async (t) => {
  const { load } = project('ai');
  const { generateText, isStepCount, stepCountIs } = await load('ai/dist/index.js');
  const { MockLanguageModelV4 } = await load('ai/dist/test/index.js');
  const { createMCPClient, experimental_createMCPClient } = await load('@ai-sdk/mcp/dist/index.js');
  const server = await serve(t);
  const client = await (createMCPClient ?? experimental_createMCPClient)({ transport: { type: 'http', url: `${server.url}/mcp`,
    headers: { authorization: `Bearer ${server.token}` } } });
  t.after(() => client.close());
  const tools = await client.tools();
  const { model } = scripted(MockLanguageModelV4, WORK);
  const result = await generateText({ model, tools, prompt: 'work', stopWhen: (isStepCount ?? stepCountIs)(20) });
  assert.equal(result.text, 'done');
  checkWork(answersOf(result).map(({ content }) => JSON.parse(content[0].text)));
});

test('the example of the README runs', T, async (t) => {
  const { dir } = project('ai');
  const server = await serve(t);
  const readme = readFileSync(join(SOURCE, 'sdk/ts/README.md'), 'utf8');
  const [example] = [...readme.matchAll(/```js\n([^]*?)```/g)].map(([, code]) => code).filter((code) => code.includes('sandglass/ai'));
  writeFileSync(join(dir, 'example.mjs'), example);
  const child = await run(['example.mjs'], { bin: process.execPath, cwd: dir,
    env: { ...process.env, SANDGLASS_URL: server.url, SANDGLASS_TOKEN: server.token } });
  assert.deepEqual([child.stderr, child.stdout], ['', 'true true true\n']);
});

test('types: a consumer of either major is checked', T, async () => {
  for (const [name, context] of [['ai', 'toolsContext: sandboxContext(sandbox)'], ['ai6', 'experimental_context: { sandbox }']]) {
    const { dir } = project(name);
    writeFileSync(join(dir, 'consumer.ts'), `
      import { generateText, type LanguageModel } from 'ai';
      import { Sandbox, Session, NotFoundError, CodeBox, type RunResult } from 'sandglass';
      import { createSandboxTools, sandboxContext, sandboxTools, type ToolInput } from 'sandglass/ai';
      export async function work(model: LanguageModel): Promise<string> {
        const sandbox = await Sandbox.create({ tier: 'jail', metadata: { team: 'red' } });
        const result: RunResult = await sandbox.runCode('1', { onStdout: (text) => text.trim() });
        const args: ToolInput<'edit'> = { path: 'a', oldString: 'b', newString: 'c' };
        // @ts-expect-error: a path is needed
        const none: ToolInput<'read'> = { limit: 1 };
        // @ts-expect-error: there is no such tier
        await Sandbox.create({ tier: 'cloud' }).catch((error: unknown) => error instanceof NotFoundError);
        const bound = await generateText({ model, prompt: 'x', tools: createSandboxTools(sandbox) });
        const free = await generateText({ model, prompt: 'x', tools: sandboxTools, ${context} });
        await using session = await Session.create();
        return [result.text, args.path, none, bound.text, free.text, session.id, await new CodeBox().status(), sandboxContext(sandbox)].join();
      }`);
    writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify({ compilerOptions: { strict: true, noEmit: true, module: 'NodeNext',
      target: 'ES2022', lib: ['ES2023', 'ESNext.Disposable', 'DOM', 'DOM.AsyncIterable'], types: [], skipLibCheck: true }, files: ['consumer.ts'] }));
    const checked = await run([join(MODULES, 'typescript/bin/tsc'), '-p', dir], { bin: process.execPath });
    assert.deepEqual([checked.code, checked.stdout], [0, ''], `${name}: ${checked.stdout}`);
  }
});

test('the package holds what it should', T, async (t) => {
  const cache = tempDir(t);
  const packed = await run(['pack', '--dry-run', '--json', '--offline', '--no-update-notifier', '--cache', cache], { bin: 'npm', cwd: PACKAGE });
  assert.equal(packed.code, 0, packed.stderr);
  const parsed = JSON.parse(packed.stdout);
  const [{ files, name }] = Array.isArray(parsed) ? parsed : Object.values(parsed);
  const paths = files.map(({ path }) => path);
  assert.equal(name, 'sandglass');
  for (const path of ['package.json', 'README.md', 'LICENSE', 'dist/index.js', 'dist/index.d.ts', 'dist/ai.js', 'dist/ai.d.ts'])
    assert.ok(paths.includes(path), path);
  assert.deepEqual(paths.filter((path) => !/^(package\.json|README\.md|LICENSE|dist\/[\w/]+\.(js|d\.ts))$/.test(path)), []);
  const { dependencies } = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8'));
  assert.equal(dependencies, undefined);
  // The core imports no module of Node: browsers load it.
  for (const path of paths.filter((each) => each.endsWith('.js')))
    assert.doesNotMatch(readFileSync(join(PACKAGE, path), 'utf8'), /^import .* from 'node:/m, path);
});

test('tool_table.ts is what the program prints', T, async () => {
  const { stdout } = await run(['tools', 'ts'], { bin: BIN });
  assert.equal(readFileSync(join(SOURCE, 'sdk/ts/src/tool_table.ts'), 'utf8'), stdout, 'sandglass tools ts >sdk/ts/src/tool_table.ts');
});
