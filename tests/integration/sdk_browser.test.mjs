// The TypeScript package in a real browser: a page of another origin, which the server's configuration lets in.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createReadStream, existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join, normalize } from 'node:path';
import test from 'node:test';
import { removeTree, serve, tempDir } from './lib.mjs';

const T = { timeout: 600000 };
const names = ['chromium', 'chromium-browser', 'google-chrome'];
const browser = process.env.SG_BROWSER ?? names.find((name) => spawnSync(name, ['--version']).status === 0);
const skip = browser === undefined && `none of ${names.join(', ')} is on this machine`;

// What the page does; each step's answer is sent back.
const page = `<!doctype html><script type="module">
import { NotFoundError, Sandbox, Session, createSandbox } from '/sdk/index.js';
const { url, token } = await (await fetch('/settings')).json();
const client = { url, token };
const report = {};
try {
  const sandbox = await Sandbox.create({ client, tier: 'jail' });
  const pieces = [];
  const run = await sandbox.runCode('print("one", flush=True); print("two", flush=True); 6 * 7',
    { language: 'python', onStdout: (text) => pieces.push(text) });
  report.run = [run.result, pieces.join('')];
  report.error = (await sandbox.runCode('1 / 0', { language: 'python' })).error?.name;

  const bytes = Uint8Array.from({ length: 100000 }, (_, i) => i % 251);
  await sandbox.files.write('/workspace/all.bin', bytes);
  const back = await sandbox.files.readBinary('/workspace/all.bin');
  report.bytes = back.length === bytes.length && back.every((byte, i) => byte === bytes[i]);
  await sandbox.files.upload('/workspace/blob.txt', new Blob(['of a ', 'blob']));
  const stream = new Blob(['of a ', 'stream']).stream();
  await sandbox.files.upload('/workspace/stream.txt', stream);
  const down = await new Response(await sandbox.files.download('/workspace/stream.txt')).text();
  report.files = [await sandbox.files.read('/workspace/blob.txt'), down];
  const { url: signed } = await sandbox.files.signedUrl('/workspace/blob.txt');
  const plain = await fetch(signed);
  report.signed = [await plain.text(), plain.headers.get('etag') !== null, plain.headers.get('x-request-id') !== null];
  report.code = await sandbox.files.read('/workspace/none').catch((error) => [error instanceof NotFoundError, error.code, error.requestId !== undefined]);

  const { exitCode, stdout } = await sandbox.commands.run('echo done');
  report.command = [exitCode, stdout];
  let seen = '';
  const decoder = new TextDecoder();
  const terminal = await sandbox.pty.create(['/bin/sh'], { rows: 24, cols: 80, onData: (bytes) => { seen += decoder.decode(bytes, { stream: true }); } });
  await terminal.resize(30, 100);
  await terminal.write('stty size; exit 3\\n');
  report.pty = [(await terminal.exited).exitCode, seen.includes('30 100')];

  const zones = createSandbox({ mode: 'sandbox', sandbox });
  await zones.write('/workspace/zone.txt', 'by the façade');
  report.zones = [await zones.read('/workspace/zone.txt'), await zones.read('/workspace/../x').catch(({ code }) => code)];
  report.memory = await createSandbox({ mode: 'memory' }).list('/workspace');
  report.host = await createSandbox({ mode: 'single', directory: '/tmp' }).list('/workspace').catch(({ name, code }) => [name, code]);

  const session = await Session.create({ client, sandbox: { tier: 'jail' } });
  report.tool = (await session.callTool('write', { path: 'a.txt', content: 'x' })).answer.created;
  await session.delete();
  await sandbox.checkpoint({ name: 'c' });
  report.listed = (await Sandbox.list({ client })).sandboxes.some(({ id }) => id === sandbox.id);
  await sandbox.delete();
} catch (error) {
  report.failed = String(error?.stack ?? error);
}
await fetch('/report', { method: 'POST', body: JSON.stringify(report) });
</script>`;

// The page's own server: the package's files, and where the report goes.
async function servePage(t) {
  const types = { js: 'text/javascript', html: 'text/html; charset=utf-8' };
  const site = { settings: undefined };
  site.report = new Promise((resolve) => {
    site.server = createServer(async (request, response) => {
      const path = new URL(request.url, 'http://x').pathname;
      const file = join(process.env.SG_SDK, 'dist', normalize(path.slice('/sdk'.length)));
      if (path === '/report') {
        let body = '';
        for await (const piece of request) body += piece;
        response.end();
        resolve(JSON.parse(body));
      } else if (path === '/settings') {
        response.end(JSON.stringify(site.settings));
      } else if (path === '/') {
        response.writeHead(200, { 'content-type': types.html }).end(page);
      } else if (path.startsWith('/sdk/') && existsSync(file)) {
        createReadStream(file).pipe(response.writeHead(200, { 'content-type': types.js }));
      } else {
        response.writeHead(404).end();
      }
    });
  });
  await new Promise((ready) => site.server.listen(0, '127.0.0.1', ready));
  t.after(() => { site.server.closeAllConnections(); site.server.close(); });
  site.origin = `http://127.0.0.1:${site.server.address().port}`;
  return site;
}

async function openPage(t, url) {
  const dir = tempDir(t);
  // The last ones keep the browser's own services from connecting to other machines.
  const child = spawn(browser, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
    `--user-data-dir=${dir}`, '--no-proxy-server', '--disable-quic', '--disable-background-networking', '--disable-component-update',
    '--disable-sync', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1', url],
  { stdio: ['ignore', 'ignore', 'pipe'], detached: true, env: { ...process.env, HOME: dir, TMPDIR: dir } });
  let stderr = '';
  child.stderr.on('data', (data) => { stderr += data; });
  const ended = new Promise((resolve) => child.on('close', resolve));
  t.after(async () => {
    try { process.kill(-child.pid, 'SIGKILL'); } catch { /* it has ended */ }
    await ended;
    removeTree(dir); // again: it wrote there until now
  });
  return ended.then(() => { throw new Error(`the browser ended: ${stderr.slice(-2000)}`); });
}

test('the package works in a browser, from a page of another origin', { ...T, skip }, async (t) => {
  const site = await servePage(t);
  const config = join(tempDir(t), 'config.toml');
  writeFileSync(config, `[server]\ncors_origins = ["${site.origin}"]\n`);
  const server = await serve(t, { args: ['--config', config] });
  site.settings = { url: server.url, token: server.token };
  const ended = openPage(t, `${site.origin}/`);
  ended.catch(() => {});
  const report = await Promise.race([site.report, ended]);
  assert.deepEqual(report, {
    run: [42, 'one\ntwo\n'],
    error: 'ZeroDivisionError',
    bytes: true,
    files: ['of a blob', 'of a stream'],
    signed: ['of a blob', true, true],
    code: [true, 'not_found', true],
    command: [0, 'done\n'],
    pty: [3, true],
    zones: ['by the façade', 'PATH_ESCAPES'],
    memory: [],
    host: ['ZoneError', 'UNAVAILABLE'],
    tool: true,
    listed: true,
  });
});
