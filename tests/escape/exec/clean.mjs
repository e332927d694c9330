// CLEAN: what a finished run may leave on the host is nothing.
//
// Other programs start processes and make mounts meanwhile, so a difference counts only when it
// stays, and a process only when it is of ours: one of the jail's programs, or one in a pid
// namespace that is not the test's.

import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { accounts, amRoot, bin, cgroupPlaces, cgroupsBelow } from './jail.mjs';

const GRACE_MS = 60_000;

function read(file) {
  try { return fs.readFileSync(file, 'utf8'); } catch { return ''; }
}

function link(file) {
  try { return fs.readlinkSync(file); } catch { return ''; }
}

const ownPidNamespace = link('/proc/self/ns/pid');

/** Every process with what tells it from a later one of the same number. */
export function processes() {
  const found = new Map();
  for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const stat = read(`/proc/${pid}/stat`);
    if (stat === '') continue;
    const rest = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    found.set(`${pid}@${rest[19]}`, {
      pid: Number(pid), state: rest[0], parent: Number(rest[1]),
      name: stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')')),
      command: read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim(),
      namespace: link(`/proc/${pid}/ns/pid`), exe: link(`/proc/${pid}/exe`),
    });
  }
  return found;
}

/** Ours: started from the staged program, a probe, or living in another pid namespace. */
function isOurs(process_) {
  return process_.command.includes(bin) || process_.command.includes('/opt/probes/probe_') ||
    process_.exe.startsWith(path.dirname(bin)) || /^probe_/.test(process_.name) ||
    (process_.namespace !== '' && process_.namespace !== ownPidNamespace);
}

/** Without a host of our own (tests/escape/exec/apart) other people's files are not our business. */
function isOwn(name) {
  if (amRoot) return true;
  try { return fs.lstatSync(name).uid === process.getuid(); } catch { return false; }
}

function cgroups() {
  const roots = new Set(cgroupPlaces().map((place) => place.dir));
  for (const line of read('/proc/self/mountinfo').split('\n'))
    if (/ - cgroup2? /.test(line)) roots.add(line.split(' ')[4]);
  return [...new Set([...roots].flatMap((dir) => cgroupsBelow(dir)))]
    .filter((dir) => /sandglass|escape-/.test(dir) && isOwn(dir));
}

function mounts() {
  return read('/proc/self/mountinfo').split('\n').filter(Boolean)
    .map((line) => line.split(' ').slice(2).join(' '));
}

function tree(dir) {
  const found = [];
  for (const entry of fs.existsSync(dir) ? fs.readdirSync(dir, { withFileTypes: true }) : []) {
    const full = path.join(dir, entry.name);
    found.push(full);
    if (entry.isDirectory()) found.push(...tree(full));
  }
  return found;
}

function temporaries() {
  const shared = ['/tmp', '/run', '/dev/shm', '/var/tmp'].flatMap((dir) =>
    fs.existsSync(dir) ? fs.readdirSync(dir).map((name) => path.join(dir, name)) : [])
    .filter((name) => /sandglass|\bsg[-_.]/.test(name) && isOwn(name));
  const own = accounts.flatMap(({ dir }) =>
    ['home', 'tmp', 'data'].flatMap((sub) => tree(path.join(dir, sub))));
  return [...shared, ...own];
}

function snapshot() {
  return {
    process: new Map([...processes()].filter(([, p]) => isOurs(p))
      .map(([key, p]) => [key, `${p.pid} ${p.state} ${p.name} ${p.command}`.slice(0, 200)])),
    cgroup: new Map(cgroups().map((dir) => [dir, dir])),
    mount: new Map(mounts().map((line) => [line, line])),
    file: new Map(temporaries().map((name) => [name, name])),
  };
}

/** What is there now and was not before. */
function added(before, after) {
  return Object.keys(before).flatMap((kind) =>
    [...after[kind]].filter(([key]) => !before[kind].has(key)).map(([, text]) => `${kind}: ${text}`));
}

/** Takes a look now; the function it returns throws if anything is left after the grace time. */
export function watchHost() {
  const before = snapshot();
  return async function assertClean() {
    let left = [];
    for (const start = Date.now(); Date.now() - start < GRACE_MS; await sleep(50)) {
      left = added(before, snapshot());
      if (left.length === 0) return;
    }
    throw new Error(`left behind:\n  ${left.join('\n  ')}`);
  };
}

/** Live processes whose command line holds a word, such as a token given to a probe. */
export function withWord(word) {
  return [...processes().values()].filter((p) => p.command.includes(word));
}

export function zombies() {
  return [...processes().values()].filter((p) => p.state === 'Z');
}
