// A server of documentation and a server of ours that searches it, for the tests of search.
import assert from 'node:assert/strict';
import http from 'node:http';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { serve, tempDir } from './lib.mjs';

export const T = { timeout: 600000 };

/** A server of documentation whose pages a test changes as it goes. `seen` is what was asked of it. */
export async function site(t) {
  const pages = {}, seen = [];
  const server = http.createServer((request, response) => {
    seen.push({ url: request.url, headers: request.headers });
    const page = pages[request.url] ?? { status: 404, body: 'gone' };
    if (page.etag && request.headers['if-none-match'] === page.etag) {
      response.writeHead(304, { etag: page.etag });
      response.end();
      return;
    }
    if (page.serve) { page.serve(request, response); return; }
    response.writeHead(page.status ?? 200, { 'content-type': page.type ?? 'text/markdown', ...(page.etag && { etag: page.etag }), ...page.headers });
    response.end(page.body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections(); server.close(); });
  return { pages, seen, port: server.address().port };
}

/** A server of ours that has the pages as documentation of @acme/sdk. `search` are more
 * lines of [search], `extra` further sections. `again` starts it again on the same directory, with what is `changed`. */
export async function start(t, docs, { dir = tempDir(t), port = 0, search = '', extra = '', env = {} } = {}) {
  const config = join(dir, 'config.toml'), data = join(dir, 'data');
  mkdirSync(data, { recursive: true });
  writeFileSync(config, `[search]\nretry_seconds = 1\n${search}${port ? `[egress]\nprivate = ["docs.test=127.0.0.1:${port}"]\n` : ""}${extra}`
    + (docs.length ? `[[sandbox.dependencies]]\npackage = "@acme/sdk"\ndocs = ${JSON.stringify(docs)}\n` : ''));
  const server = await serve(t, { dir: data, args: ['--config', config], env: { ...process.env, SANDGLASS_BUILD_DEPENDENCIES: '', ...env } });
  server.ask = async (method, path, body) => {
    const response = await server.get(path, { method, ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }) });
    const text = await response.text();
    let json = {};
    try { json = JSON.parse(text); } catch { /* none */ }
    return { status: response.status, text, json };
  };
  server.search = async (query, more = '') => {
    const answer = await server.ask('GET', `/v1/docs/search?query=${encodeURIComponent(query)}${more}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json;
  };
  server.sources = async () => (await server.ask('GET', '/v1/docs')).json.sources;
  server.again = async (newDocs = docs, changed = {}) => {
    server.child.kill('SIGTERM');
    await server.exit;
    return start(t, newDocs, { dir, port, search, extra, ...changed });
  };
  return server;
}

export const url = (it, path) => `http://docs.test:${it.port}${path}`;
export const stateOf = async (server, location) => (await server.sources()).find((each) => each.location === location);

export const models = join(process.env.SG_RUNTIMES ?? '/nowhere', 'models');
export const noModel = existsSync(join(models, 'files/minilm')) ? false : 'the model minilm was not added';
