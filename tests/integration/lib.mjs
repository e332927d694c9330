// Starts the real program on a directory and a port of its own, as a user would, and speaks to it.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const BIN = process.env.SANDGLASS_BIN;
if (!BIN) throw new Error('set SANDGLASS_BIN to the sandglass program');

// It takes a processor a second in each server, and few tests need it.
process.env.SANDGLASS_ZYGOTE_AT_START ??= 'false';

// It holds back what is freed and copies what it sees: memory is not counted then.
export const isSanitized = readFileSync(BIN).includes('__asan_init');

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// A directory that goes away with the test.
export function tempDir(t) {
  const dir = mkdtempSync(join(tmpdir(), 'sandglass-it-'));
  // What a server still uses is removed when it has ended; see serve.
  t.after(() => { if (!isServed(dir)) removeTree(dir); });
  return dir;
}

const served = new Map(); // data directories, and how many servers of this process have them
const isServed = (dir) => [...served.keys()].some((each) => each === dir || each.startsWith(`${dir}/`));

// With the file systems that a server of that directory has left mounted: they are found again when
// it starts, and a test's directory has no next start.
// Processes of a server that was killed may still be on their way out: more than one try.
export function removeTree(dir) {
  for (let tries = 0; tries < 100; tries++) {
    const mounted = readFileSync('/proc/self/mounts', 'utf8').split('\n').map((line) => line.split(' ')[1])
      .filter((place) => place?.startsWith(`${dir}/`)).reverse();
    for (const place of mounted) spawnSync('umount', ['-l', place]);
    try { return rmSync(dir, { recursive: true, force: true }); } catch { spawnSync('sleep', ['0.1']); }
  }
}

// Runs to the end; gives { code, signal, stdout, stderr }.
export async function run(args, { bin = BIN, ...options } = {}) {
  const child = spawn(bin, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  let stdout = '', stderr = '';
  child.stdout.on('data', (data) => (stdout += data));
  child.stderr.on('data', (data) => (stderr += data));
  const [code, signal] = await once(child, 'close');
  return { code, signal, stdout, stderr };
}

// Starts `sandglass serve` and waits for its ready lines. `files` limits the descriptors it may open.
// A directory of its own goes when it has ended, and not before: its last act is to write there.
export async function serve(t, { dir = mkdtempSync(join(tmpdir(), 'sandglass-it-')), listen = '127.0.0.1:0', args = [],
  files = 0, env = process.env } = {}) {
  const child = spawn('/bin/sh', ['-c', `${files ? `ulimit -n ${files};` : ''} exec "$0" "$@"`, BIN, 'serve',
    '--listen', listen, '--data-dir', dir, ...args], { stdio: ['ignore', 'pipe', 'pipe'], env });
  const server = { child, dir, stdout: '', stderr: '' };
  served.set(dir, (served.get(dir) ?? 0) + 1);
  child.stderr.on('data', (data) => (server.stderr += data));
  server.exit = once(child, 'exit').then(([code, signal]) => ({ code, signal }));
  t.after(async () => {
    child.kill('SIGTERM');
    await Promise.race([server.exit, new Promise((done) => setTimeout(done, 60000).unref())]);
    child.kill('SIGKILL');
    await server.exit;
    const others = served.get(dir) - 1;
    if (others > 0) served.set(dir, others);
    else served.delete(dir);
    if (!isServed(dir)) removeTree(dir);
  });
  while (!server.stdout.includes('Try: ')) {
    const more = await Promise.race([once(child.stdout, 'data'), server.exit]);
    if (!Array.isArray(more)) throw new Error(`serve ended: ${server.stderr}`);
    server.stdout += more[0];
  }
  server.address = /is ready at (\S+)/.exec(server.stdout)[1];
  server.port = Number(/:(\d+)$/.exec(server.address)?.[1] ?? 0);
  server.url = `http://127.0.0.1:${server.port}`;
  server.token = readFileSync(join(dir, 'token'), 'utf8').trim();
  server.get = (path, options = {}) => fetch(server.url + path, {
    ...options, headers: { authorization: `Bearer ${server.token}`, ...options.headers } });
  server.figure = async (line) => {
    const text = await (await server.get('/metrics')).text();
    const found = text.split('\n').find((each) => each.startsWith(line + ' '));
    return found === undefined ? 0 : Number(found.slice(line.length + 1));
  };
  // It listens before its store is open: descriptors are counted once their number no longer changes.
  server.descriptors = async () => {
    for (let last = -1; ;) {
      const now = await server.figure('process_open_fds');
      if (now === last) return now;
      last = now;
      await sleep(500);
    }
  };
  return server;
}

// A raw connection that collects what it is sent.
export async function connect(server, options = {}) {
  const socket = net.connect({ port: server.port, host: '127.0.0.1', ...options });
  const raw = { socket, text: '', closed: false };
  socket.on('data', (data) => (raw.text += data.toString('latin1')));
  socket.on('error', () => {});
  raw.end = new Promise((done) => socket.on('close', () => { raw.closed = true; done(); }));
  await Promise.race([once(socket, 'connect'), raw.end]);
  return raw;
}

// Polls until it holds. The bound is far above what a loaded machine needs: a failure that says what
// was waited for, not a limit of speed.
export async function until(check, seconds = 180) {
  const end = Date.now() + seconds * 1000;
  while (!(await check())) {
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${check}`);
    await sleep(20);
  }
}
