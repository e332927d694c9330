// A model that reads documentation before it writes code: Anthropic's own client in a loop of tools, against a server on loopback
// that speaks the Messages API and answers as a model would, by what the last tool gave it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import test from 'node:test';
import { serve, tempDir, until } from './lib.mjs';

const modules = join(process.env.SG_BUILD, '../npm/test/node_modules');
const skip = existsSync(join(modules, '@anthropic-ai/sdk')) ? false : '@anthropic-ai/sdk is missing; run tools/deps test';
const T = { timeout: 600000, skip };

// A page of the kind that packages have: the answer is one section of many, and its words are not those of the question.
const PAGE = ['# Acme text tools', 'Small functions for titles and lists.', '## Slugs',
  'An address of a page is made from its title: lower case, with dashes between the words.', '',
  '```js', "const slug = (title) => title.toLowerCase().split(' ').join('-');", '```',
  ...Array.from({ length: 30 }, (_, i) => `## Chapter ${i}\nNotes on shipping, invoices and storage number ${i}.`)].join('\n');

// The scripted model. Each conversation is a list of steps: given the results so far, a step calls a tool, or speaks and is done.
async function scriptedModel(t) {
  const seen = [];
  const model = { steps: [], seen, url: '' };
  const server = http.createServer(async (request, response) => {
    let text = '';
    for await (const part of request) text += part;
    const body = JSON.parse(text);
    seen.push({ url: request.url, headers: request.headers, body });
    const results = body.messages.flatMap(({ role, content }) => (role === 'user' && Array.isArray(content) ? content : []))
      .filter(({ type }) => type === 'tool_result');
    const answers = results.map(({ content }) => JSON.parse(content));
    const next = model.steps[answers.length](answers);
    const content = typeof next === 'string' ? [{ type: 'text', text: next }]
      : [{ type: 'text', text: 'One moment.' }, { type: 'tool_use', id: `toolu_${seen.length}`, name: next[0], input: next[1] }];
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ id: `msg_${seen.length}`, type: 'message', role: 'assistant', model: body.model, content,
      stop_reason: typeof next === 'string' ? 'end_turn' : 'tool_use', stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections(); server.close(); });
  model.url = `http://127.0.0.1:${server.address().port}`;
  return model;
}

// The application: what every program around a model does.
async function converse(client, ask, session, question) {
  const { tools, systemPrompt } = (await ask('GET', '/v1/tools?format=anthropic')).json;
  const messages = [{ role: 'user', content: question }];
  for (let turn = 0; turn < 10; turn++) {
    const message = await client.messages.create({ model: 'scripted', max_tokens: 1000, system: systemPrompt, tools, messages });
    messages.push({ role: 'assistant', content: message.content });
    if (message.stop_reason !== 'tool_use') return { text: message.content[0].text, messages };
    const content = [];
    for (const { id, name, input } of message.content.filter(({ type }) => type === 'tool_use')) {
      const { status, json, text } = await ask('POST', `/v1/sessions/${session}/tools/${name}`, input);
      assert.equal(status, 200, text);
      content.push({ type: 'tool_result', tool_use_id: id, content: JSON.stringify(json.answer) });
    }
    messages.push({ role: 'user', content });
  }
  throw new Error('the model does not end');
}

test('search_docs, run_code with what it found, and the saved module again in a new sandbox', T, async (t) => {
  const Anthropic = createRequire(join(modules, 'x.js'))('@anthropic-ai/sdk').default;
  const server = await serve(t, { dir: tempDir(t) });
  const ask = async (method, path, body) => {
    const response = await server.get(path, { method, ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }) });
    const text = await response.text();
    return { status: response.status, text, json: text.startsWith('{') ? JSON.parse(text) : {} };
  };
  const model = await scriptedModel(t);
  const client = new Anthropic({ apiKey: 'none', baseURL: model.url, maxRetries: 0 });
  assert.equal((await ask('POST', '/v1/sessions', { id: 'session-model', sandbox: { tier: 'isolate' } })).status, 201);

  // Nothing to search: the model is not offered the tool.
  model.steps = [() => 'nothing to do'];
  await converse(client, ask, 'session-model', 'hello');
  assert.ok(!model.seen[0].body.tools.some(({ name }) => name === 'search_docs') && !JSON.stringify(model.seen[0].body.system).includes('search_docs'));
  assert.match(`${model.seen[0].url} ${model.seen[0].headers['anthropic-version']}`, /^\/v1\/messages \d{4}-/);

  // It searches, takes the code out of the section that it found, and runs it.
  assert.equal((await ask('POST', '/v1/docs', { name: 'acme.md', package: '@acme/text', text: PAGE })).status, 201);
  const codeOf = ({ results }) => /```js\n([^`]+)```/.exec(results[0].content)[1];
  model.steps = [
    () => ['search_docs', { query: 'make the address of a page from its title', package: '@acme/text', limit: 3 }],
    ([found]) => ['run_code', { code: `${codeOf(found)}\nslug('Hello Big World')`, description: 'Makes a slug', language: 'javascript' }],
    ([, ran]) => `The address is ${ran.result}`,
  ];
  const first = await converse(client, ask, 'session-model', 'What is the address of the page "Hello Big World"?');
  assert.equal(first.text, 'The address is hello-big-world');
  const tools = model.seen.at(-1).body.tools;
  assert.ok(tools.some(({ name, input_schema }) => name === 'search_docs' && input_schema.required.includes('query')));
  const [found] = first.messages.flatMap(({ role, content }) => (role === 'user' && Array.isArray(content) ? content : []));
  assert.equal(JSON.parse(found.content).results[0].heading, 'Acme text tools > Slugs');
  assert.ok(found.content.length < 8000, 'about 1,500 tokens');

  // The application keeps what worked. In a new sandbox another conversation finds it and uses it.
  const source = `export ${codeOf(JSON.parse(found.content))}`;
  const saved = await ask('PUT', '/v1/sessions/session-model/modules', { path: 'lib/address.js', source, description: 'Makes the address of a page from its title',
    exports: ['slug'], usage: "import { slug } from './lib/address.js'" });
  assert.equal(saved.status, 204, saved.text);
  const before = (await ask('GET', '/v1/sessions/session-model')).json.sandbox;
  assert.ok(before);
  assert.equal((await ask('DELETE', `/v1/sandboxes/${before}`)).status, 204);
  await until(async () => (await ask('GET', '/v1/docs/search?query=address&kind=module&session=session-model')).json.total === 1);
  model.steps = [
    () => ['search_docs', { query: 'saved module that makes an address of a title' }],
    ([again]) => {
      const module = again.results.find(({ type }) => type === 'module');
      return ['run_code', { code: `${module.content}; slug('A Second Title')`, description: `Uses ${module.heading}`, language: 'javascript' }];
    },
    ([, ran]) => `It is ${ran.result}`,
  ];
  const second = await converse(client, ask, 'session-model', 'And of "A Second Title"?');
  assert.equal(second.text, 'It is a-second-title');
  assert.notEqual((await ask('GET', '/v1/sessions/session-model')).json.sandbox, before);
});
