// Fault plan 9.4: the power goes at any moment, and what the disk had not been told to keep goes with
// it. What was acknowledged as lasting is there afterwards, whole; also when the power goes a second
// time while the server recovers.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { isSanitized, removeTree, serve, tempDir, until } from './lib.mjs';
import { cut, dice, Disk } from './power.mjs';

const T = { timeout: process.env.SG_SOAK ? 6000000 : 600000 };
const SOAK = Number(process.env.SG_SOAK ?? 0);
const CUTS = SOAK > 0 ? Math.ceil(500 / SOAK) : 8;
const ROUNDS = SOAK > 0 ? 12 : 3;
const RECORD = process.env.SG_RECORD;

const nothing = () => 0;    // only what was synced
const everything = () => 0.7; // as after a kill

async function start(t, dir, log = null) {
  const config = `${dir}.toml`;
  writeFileSync(config, '[sandbox]\nprovider = "memory"\n');
  const env = log ? { ...process.env, LD_PRELOAD: RECORD, RECORD_ROOT: dir, RECORD_LOG: log } : process.env;
  const server = await serve(t, { dir, args: ['--config', config], env });
  server.ask = async (method, path, body, raw = false) => {
    const answer = await server.get(path, { method, body: raw ? body : body && JSON.stringify(body),
      headers: { 'content-type': raw ? 'application/octet-stream' : 'application/json' } });
    const text = await answer.text();
    return { status: answer.status, text, json: text.startsWith('{') ? JSON.parse(text) : {} };
  };
  server.kill = async () => { server.child.kill('SIGKILL'); await server.exit; };
  return server;
}

// What a client was told, and how much of the log there was when it was told, and when it asked.
class Journal {
  constructor(log) {
    this.log = log;
    this.lines = [];
  }

  now() {
    return statSync(this.log).size;
  }

  async tell(kind, ask, more = {}) {
    const asked = this.now(), answer = await ask();
    assert.ok(answer.status < 300, `${kind}: ${answer.text}`);
    const line = { kind, asked, told: this.now(), id: answer.json.id, ...more };
    this.lines.push(line);
    return answer.json;
  }
}

async function client(server, journal, number, rounds) {
  const made = (kind, path, body, more) => journal.tell(kind, () => server.ask('POST', path, body), { path, ...more });
  const gone = (kind, path, id) => journal.tell(kind, () => server.ask('DELETE', `${path}/${id}`), { path, id, gone: true });
  for (let n = 0; n < rounds; n++) {
    const words = `client ${number} round ${n} ${'x'.repeat(4000 * number)}`;
    const volume = await made('volume', '/v1/volumes', { name: `v-${number}-${n}` });
    const token = await made('token', '/v1/tokens', { name: `t${number}${n}`, scopes: ['read'] });
    const box = await server.ask('POST', '/v1/sandboxes', { tier: 'memory', name: `b${number}${n}` });
    assert.equal(box.status, 201, box.text);
    const at = `/v1/sandboxes/${box.json.id}`;
    const put = await server.ask('PUT', `${at}/files?path=/workspace/words`, words, true);
    assert.ok(put.status < 300, put.text);
    await made('snapshot', '/v1/snapshots', { sandbox: box.json.id }, { words });
    await journal.tell('pause', () => server.ask('POST', `${at}/pause`), { path: '/v1/sandboxes', id: box.json.id, words });
    await made('session', '/v1/sessions', { name: `s${number}${n}` });
    if (n % 2 === 0) await gone('volume', '/v1/volumes', volume.id);
    else await gone('token', '/v1/tokens', token.id);
  }
}

// All that the journal had been told when `end` bytes of the log were written holds.
async function check(server, journal, end, what) {
  await until(async () => (await server.get('/readyz')).status === 200);
  const made = journal.lines.filter((line) => !line.gone && line.told <= end);
  for (const line of made) {
    const removal = journal.lines.find((each) => each.gone && each.id === line.id);
    const answer = await server.ask('GET', line.path === '/v1/tokens' ? '/v1/tokens' : `${line.path}/${line.id}`);
    const isThere = line.path === '/v1/tokens' ? answer.json.tokens.some((each) => each.id === line.id) : answer.status === 200;
    if (!removal || removal.asked > end) assert.ok(isThere, `${what}: ${line.kind} ${line.id} was acknowledged: ${answer.text}`);
    else if (removal.told <= end) assert.ok(!isThere, `${what}: ${line.kind} ${line.id} had been removed`);
    if (!line.words) continue;
    // A snapshot is made a sandbox of; a paused one is brought back.
    let id = line.id;
    if (line.kind === 'snapshot') {
      const box = await server.ask('POST', '/v1/sandboxes', { tier: 'memory', snapshots: [line.id] });
      assert.equal(box.status, 201, `${what}: ${box.text}`);
      id = box.json.id;
    }
    const words = await server.ask('GET', `/v1/sandboxes/${id}/files?path=/workspace/words`);
    assert.equal(words.text.slice(0, 40), line.words.slice(0, 40), `${what}: ${line.kind}`);
    assert.equal(words.text.length, line.words.length, `${what}: ${line.kind}`);
  }
  return made.length;
}

// Lets the server work on a disk that is written down, then cuts its power at many moments. `looks`
// at what is left is given the server that has recovered, its directory, and how much had happened.
async function cuts(t, work, look) {
  const outer = tempDir(t), dir = join(outer, 'data'), log = join(outer, 'log');
  mkdirSync(dir, { mode: 0o700 });
  const server = await start(t, dir, log), journal = new Journal(log);
  const skipped = await work(server, journal);
  await server.kill();
  if (typeof skipped === 'string') return t.skip(skipped);
  assert.notEqual(journal.lines.length, 0, 'nothing was done before the cut');
  const all = readFileSync(log), first = journal.lines[0].told, random = dice(Number(process.env.SG_SEED ?? 7));
  let checked = 0;
  for (let n = 0; n < CUTS; n++) {
    const end = n === 0 ? all.length : Math.floor(first + random() * (all.length - first));
    const keep = n % 3 === 0 ? nothing : n === 1 ? everything : dice(n + 1);
    const what = `cut ${n} at ${end} of ${all.length}`, place = join(outer, `cut${n}`);
    cut(all, end, place, keep);
    const disk = n % 4 === 2 ? Disk.load(place) : null, again = join(outer, `again${n}`);
    const next = await start(t, place, disk ? again : null);
    if (!disk) {
      checked += await look(next, journal, place, end, what);
      await next.kill();
    } else { // a second cut, while it recovers
      await next.kill();
      const more = readFileSync(again), twice = join(outer, `twice${n}`);
      cut(more, Math.floor(random() * more.length), twice, nothing, disk);
      const last = await start(t, twice);
      checked += await look(last, journal, twice, end, `${what}, and again`);
      await last.kill();
      removeTree(twice);
    }
    removeTree(place);
  }
  assert.ok(checked > CUTS, 'there was something to lose');
  t.diagnostic(`${CUTS} cuts, ${checked} acknowledged things looked for`);
}

test('9.4: what was acknowledged outlives a power cut', T, async (t) => {
  if (isSanitized) { t.skip('not under a sanitizer'); return; }
  if (!RECORD || !existsSync(RECORD)) { t.skip('nothing to write calls down with'); return; }
  await cuts(t, (server, journal) => Promise.all([1, 2, 3, 4].map((number) => client(server, journal, number, ROUNDS))),
    (server, journal, place, end, what) => check(server, journal, end, what));
});

// Every file below, as one text each.
function* contents(dir) {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    if (entry.isDirectory()) yield* contents(join(dir, entry.name));
    else if (entry.isFile()) yield readFileSync(join(dir, entry.name), 'latin1');
  }
}

// Whose they are and who may read them the log does not tell, so no jail is made of these layers:
// they are looked for where they lie.
async function checkLayers(server, journal, place, end, what) {
  await until(async () => (await server.get('/readyz')).status === 200);
  const made = journal.lines.filter((line) => line.told <= end);
  const there = new Set(contents(join(place, 'layers')));
  for (const line of made) {
    const answer = await server.ask('GET', `${line.path}/${line.id}`);
    assert.equal(answer.status, 200, `${what}: ${line.kind} ${line.id}: ${answer.text}`);
    assert.ok(there.has(line.words), `${what}: the files of ${line.kind} ${line.words.slice(0, 20)}`);
  }
  return made.length;
}

test('9.4: layers of jails outlive a power cut', T, async (t) => {
  if (isSanitized) { t.skip('not under a sanitizer'); return; }
  if (!RECORD || !existsSync(RECORD)) { t.skip('nothing to write calls down with'); return; }
  await cuts(t, async (server, journal) => {
    const box = await server.ask('POST', '/v1/sandboxes', { tier: 'jail' });
    if (box.status !== 201) return box.text;
    const at = `/v1/sandboxes/${box.json.id}`;
    // What a checkpoint holds stays on the sandbox's disk, which the log does not tell of.
    const isCopied = (await server.ask('GET', at)).json.storage !== 'disk';
    for (let n = 0; n < 2 * ROUNDS; n++) {
      const words = `round ${n} ${'y'.repeat(30000 * n)}`;
      const put = await server.ask('PUT', `${at}/files?path=/home/sandbox/words${n}`, words, true);
      assert.ok(put.status < 300, put.text);
      if (isCopied && n % 2 === 0) await journal.tell('checkpoint', () => server.ask('POST', `${at}/checkpoints`, {}), { path: '/v1/sandboxes', id: box.json.id, words });
      else await journal.tell('snapshot', () => server.ask('POST', '/v1/snapshots', { sandbox: box.json.id }), { path: '/v1/snapshots', words });
    }
  }, checkLayers);
});

// Where a volume is a filesystem in a file, that file shows what the volume's own disk was told to
// keep: bytes that wait in memory are not in it.
test('9.4: a file that was written into a volume is on its disk', T, async (t) => {
  if (isSanitized) { t.skip('not under a sanitizer'); return; }
  if (process.getuid() !== 0) { t.skip('volumes with a limit need root'); return; }
  const dir = join(tempDir(t), 'data');
  mkdirSync(dir, { mode: 0o700 });
  const server = await start(t, dir);
  const volume = await server.ask('POST', '/v1/volumes', { tier: 'jail', capacityMb: 32 });
  if (volume.status !== 201) { t.skip(volume.text); return; }
  const image = join(dir, 'volumes', volume.json.id, 'disk.img');
  if (!existsSync(image)) { t.skip('volumes are directories here'); return; }
  const box = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', volume: volume.json.id });
  assert.equal(box.status, 201, box.text);
  const write = async (place, name, words) => {
    const put = await server.ask('PUT', `${place}/files?path=/workspace/${name}`, words, true);
    assert.ok(put.status < 300, put.text);
    assert.ok(readFileSync(image).includes(words.slice(0, 2000)), `${name} was acknowledged`);
  };
  await write(`/v1/sandboxes/${box.json.id}`, 'short', 'a few words '.repeat(300));
  await write(`/v1/sandboxes/${box.json.id}`, 'long', 'more words '.repeat(200000));
  const gone = await server.ask('DELETE', `/v1/sandboxes/${box.json.id}`);
  assert.equal(gone.status, 204, gone.text);
  await write(`/v1/volumes/${volume.json.id}`, 'single', 'without a sandbox '.repeat(300));
});

// The same for the files of a sandbox: a pause is acknowledged when its disk has them, and a
// checkpoint before.
for (const [verb, path] of [['paused', 'pause'], ['kept in a checkpoint', 'checkpoints']])
test(`9.4: what a sandbox wrote before it was ${verb} is on its disk`, T, async (t) => {
  if (isSanitized) { t.skip('not under a sanitizer'); return; }
  if (process.getuid() !== 0) { t.skip('disks need root'); return; }
  const dir = join(tempDir(t), 'data');
  mkdirSync(dir, { mode: 0o700 });
  const server = await start(t, dir);
  const before = new Set(existsSync(join(dir, 'disks')) ? readdirSync(join(dir, 'disks')) : []);
  const box = await server.ask('POST', '/v1/sandboxes', { tier: 'jail', limits: { diskMb: 32 } });
  if (box.status !== 201) { t.skip(box.text); return; }
  const disks = existsSync(join(dir, 'disks')) ? readdirSync(join(dir, 'disks')).filter((name) => !before.has(name)) : [];
  const images = disks.map((name) => join(dir, 'disks', name, 'disk.img')).filter((path) => existsSync(path) && statSync(path).size < 256 << 20);
  if (images.length === 0) { t.skip('the files of sandboxes are in no image here'); return; }
  const words = 'a few words '.repeat(300), at = `/v1/sandboxes/${box.json.id}`;
  const put = await server.ask('PUT', `${at}/files?path=/workspace/words`, words, true);
  assert.ok(put.status < 300, put.text);
  const kept = await server.ask('POST', `${at}/${path}`, {});
  assert.ok(kept.status < 300, kept.text);
  const isThere = () => images.some((image) => readFileSync(image).includes(words.slice(0, 2000)));
  if (path === 'pause') assert.ok(isThere(), 'the pause was acknowledged');
  else await until(isThere); // synced behind the answer
});
