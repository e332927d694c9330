// A small world for sessions: an npm registry and an API with a key on loopback, and a configuration that leads there.
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serve, tempDir, until } from './lib.mjs';
import { startIndex, startRegistry } from './packages_lib.mjs';
import { makeCerts, nameServer, server as netServer, spellings } from './net.mjs';

const added = join(process.env.SG_RUNTIMES ?? '/nowhere', 'runtimes');
export const hasRuntime = (name) => existsSync(join(added, 'trees', name));
export const hasNpm = existsSync('/usr/bin/npm') || existsSync('/usr/local/bin/npm');

// Answers who has the key, and writes down what came on the wire.
const issues = (key) => (got, response) => {
  const isKnown = [`Bearer ${key}`, `token ${key}`].includes(got.headers.authorization);
  response.writeHead(isKnown ? 200 : 401, { 'content-type': 'application/json' });
  response.end(JSON.stringify(isKnown ? { issues: [{ id: 'ENG-1', title: 'first' }], echo: got.headers.authorization }
    : { error: 'no such key' }));
};

// The client library of that API: one file in the style of each module system, with a dependency of its own.
const SDK = {
  'index.js': `const { bearer } = require('@acme/auth');
class AcmeClient {
  constructor({ apiKey, url }) { this.apiKey = apiKey; this.url = url; }
  async issues() {
    const answer = await fetch(this.url + '/issues', { headers: bearer(this.apiKey) });
    const body = await answer.json();
    if (!answer.ok) throw new Error('acme answered ' + answer.status + ': ' + JSON.stringify(body.error));
    return body.issues;
  }
}
exports.AcmeClient = AcmeClient;
exports.version = '2.1.0';
`,
  'index.d.ts': 'export declare const version: string;\n',
};

// What makes one module of a package for isolates.
const bundler = ['esbuild', '@esbuild/linux-x64'].map((name) => join(process.env.SG_BUILD ?? '', '../npm/test/node_modules', name));
export const hasBundler = bundler.every((from) => existsSync(from));
export const addBundler = (registry) => bundler.forEach(registry.addInstalled);

/** A real package with all that it needs, as tools/deps has installed them; false when it has not. */
export function addReal(registry, name, from = join(process.env.SG_BUILD ?? '', '../npm/test/node_modules'), done = new Set()) {
  const find = (dir) => {
    const at = join(dir, 'node_modules', name);
    return existsSync(join(at, 'package.json')) ? at : dir.includes('node_modules') ? find(join(dir, '..')) : undefined;
  };
  const at = existsSync(join(from, name, 'package.json')) ? join(from, name) : find(from);
  if (at === undefined) return false;
  if (done.has(at)) return true;
  done.add(at);
  registry.addInstalled(at);
  const { dependencies = {} } = JSON.parse(readFileSync(join(at, 'package.json'), 'utf8'));
  return Object.keys(dependencies).every((each) => addReal(registry, each, at, done));
}

/** The registry with the packages, the API, the name server, and config.toml as `write` makes it. */
export async function world(t) {
  const dir = tempDir(t), names = ['api.acme.test', 'registry.test', 'index.test'], certs = makeCerts(dir, names);
  const key = `acme_${randomBytes(16).toString('hex')}`;
  const registry = await startRegistry(t), index = await startIndex(t), api = await netServer(t, issues(key), certs);
  const dns = await nameServer(t, Object.fromEntries(names.map((name) => [name, '127.0.0.1'])));
  registry.add('@acme/auth', '1.0.3', { 'index.js': 'exports.bearer = (key) => ({ authorization: `Bearer ${key}` });' });
  registry.add('@acme/sdk', '2.1.0', SDK, { '@acme/auth': '^1.0.0' }, { types: 'index.d.ts' });
  registry.add('esm-only', '0.4.0', { 'lib/main.mjs': 'export default function greet(name) { return `hello ${name}`; }\nexport const kind = "esm";\n' }, {},
    { main: undefined, type: 'module', exports: { '.': './lib/main.mjs' } });
  registry.add('needs-files', '3.0.0', { 'index.js': 'const fs = require("fs"); exports.read = (path) => fs.readFileSync(path, "utf8");' });
  registry.add('broken', '1.1.0', { 'index.js': 'throw new Error("it does not even load");' });
  index.add('acme-tools', '0.9', 'acmetools', 'def twice(text): return text * 2');
  const it = { dir, certs, key, hidden: spellings(key), registry, index, api, at: `api.acme.test:${api.port}`,
    url: `https://api.acme.test:${api.port}`, config: join(dir, 'config.toml') };
  it.outside = `[egress]\ndns_servers = ["${dns.address}"]\nca_file = "${certs.ca}"\n`
    + `private = ["api.acme.test=127.0.0.1:${api.port}"]\n[packages]\nnpm_registry = "http://registry.test:${registry.port}/"\n`
    + `pypi_index = "http://index.test:${index.port}/simple/"\n`;
  it.write = (text) => { writeFileSync(it.config, it.outside + text); return it.config; };
  it.acme = `[[sandbox.dependencies]]\npackage = "@acme/sdk"\nsecret_env = "ACME_API_KEY"\nhosts = ["${it.at}"]\n`;
  return it;
}

/** `sandglass serve` with that configuration; null, and the test skipped, where there are no jails. */
export async function start(t, it, sections, { env = {}, jails = true, data } = {}) {
  const dir = data ?? mkdtempSync(join(tmpdir(), 'sandglass-it-'));
  if (existsSync(added) && !existsSync(join(dir, 'runtimes'))) symlinkSync(added, join(dir, 'runtimes'));
  const server = await serve(t, { dir, args: ['--config', it.write(sections)], env: { ...process.env, ACME_API_KEY: it.key, ...env } });
  server.ask = async (method, path, body) => {
    const answer = await server.get(path, { method, body: body && JSON.stringify(body), headers: { 'content-type': 'application/json' } });
    const text = await answer.text();
    return { ...(text.startsWith('{') ? JSON.parse(text) : {}), status: answer.status, text };
  };
  server.session = async (body = {}) => {
    const made = await server.ask('POST', '/v1/sessions', body);
    // A call waits a minute for the packages to be installed; a busy machine takes longer.
    const patient = async (path, body) => {
      let answer;
      await until(async () => {
        answer = await server.ask('POST', `/v1/sessions/${made.id}/${path}`, body);
        return !/packages of the configuration are still being installed/.test(answer.text);
      }, 500);
      return answer;
    };
    made.run = (code, more = {}) => patient('run_code', { code, ...more });
    made.sh = (command) => patient('commands', { command });
    made.box = async () => server.ask('GET', `/v1/sandboxes/${(await server.ask('GET', `/v1/sessions/${made.id}`)).sandbox}`);
    return made;
  };
  if (jails) {
    const probe = await server.ask('POST', '/v1/sandboxes', { tier: 'jail' });
    if (probe.status !== 201) {
      t.skip(`no jails here: ${probe.text}`);
      return null;
    }
    await server.ask('DELETE', `/v1/sandboxes/${probe.id}`);
  }
  return server;
}

export const packagesReady = (server) => until(async () => {
  const { snapshotState, snapshotDetail } = await server.ask('GET', '/readyz');
  if (snapshotState === 'failed') throw new Error(`packages: ${snapshotDetail}`);
  return snapshotState === 'ready';
});
