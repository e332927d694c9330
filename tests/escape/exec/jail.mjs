// Runs `sandglass exec` from outside, as root or as another user, and reports what it left behind.
//
// Only the command line is known here. Everything a run may touch on the host is either private to
// this process (home, temporary directory, workspace) or compared before and after.

import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { skip } from './check.mjs';

export const SOAK = Number(process.env.SG_SOAK ?? 0) > 0;
/** A size: the small one, or with SG_SOAK=N an N-th of the full one, if that is more. */
export const sized = (small, full) => SOAK ? Math.max(small, Math.floor(full / Number(process.env.SG_SOAK))) : small;
const NOBODY = 65534;
const KEEP = 64 << 20; /* a flood is read to its end, not kept */
const amRoot = process.getuid() === 0;

/** A place on the host that every user may enter: the build tree may be in a home directory with mode 0700. */
export const stage = fs.mkdtempSync(path.join(os.tmpdir(), 'escape-'));
fs.chmodSync(stage, 0o755);
process.on('exit', () => fs.rmSync(stage, { recursive: true, force: true }));

function staged(from, name) {
  const to = path.join(stage, name);
  fs.copyFileSync(from, to);
  fs.chmodSync(to, 0o755);
  return to;
}

if (!process.env.SANDGLASS_BIN) throw new Error('SANDGLASS_BIN names the program under test');
const realBin = path.resolve(process.env.SANDGLASS_BIN);
export const bin = staged(realBin, 'sandglass');

const probeSource = process.env.SG_PROBES ?? path.join(path.dirname(realBin), '../../tests/escape/exec');
export const probes = path.join(stage, 'probes');
fs.mkdirSync(probes, { mode: 0o755 });
for (const name of fs.existsSync(probeSource) ? fs.readdirSync(probeSource) : [])
  if (/^(probe_\w+|deny_call)$/.test(name)) staged(path.join(probeSource, name), `probes/${name}`);
fs.writeFileSync(path.join(probes, 'marker'), 'marker\n', { mode: 0o644 });
export const denyCall = path.join(probes, 'deny_call');

/** Who runs it. A user of a systemd host has a part of the cgroup tree; so has ours. */
export const accounts = [
  { name: 'root', uid: 0, gid: 0, missing: amRoot ? null : 'not running as root' },
  amRoot ? { name: 'user', uid: NOBODY, gid: NOBODY, missing: null }
         : { name: 'user', uid: process.getuid(), gid: process.getgid(), missing: null },
];
if (process.env.SG_ACCOUNT)
  for (const account of accounts)
    if (account.name !== process.env.SG_ACCOUNT) account.missing ??= `only ${process.env.SG_ACCOUNT} is asked for`;
for (const account of accounts) {
  account.dir = path.join(stage, account.name);
  for (const sub of ['', 'home', 'tmp', 'data', 'work']) {
    const dir = path.join(account.dir, sub);
    fs.mkdirSync(dir, { mode: 0o755, recursive: true });
    if (amRoot) fs.chownSync(dir, account.uid, account.gid);
  }
}

/** Mounted hierarchies of cgroups with this process' place in each. */
function cgroupPlaces() {
  const own = fs.readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n')
    .map((line) => line.split(':'));
  const places = [];
  for (const line of fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n')) {
    const [left, right] = line.split(' - ');
    if (!right || !/^cgroup2? /.test(right)) continue;
    const [, , , root, mount] = left.split(' ');
    const options = right.split(' ')[2].split(',');
    const mine = own.find(([, names]) => right.startsWith('cgroup2') ? names === ''
      : names.split(',').some((name) => options.includes(name)));
    if (!mine) continue;
    const below = mine[2].startsWith(root) ? mine[2].slice(root === '/' ? 0 : root.length) : '';
    places.push({ v2: right.startsWith('cgroup2'), dir: path.join(mount, below), options });
  }
  return places;
}

const delegated = [];

/** Gives the unprivileged account its own cgroups, as a service manager would. */
function delegate(account) {
  if (!amRoot || account.uid === 0) return;
  account.cgroups = [];
  for (const place of cgroupPlaces()) {
    const dir = path.join(place.dir, `escape-${process.pid}`);
    try {
      fs.mkdirSync(dir);
    } catch {
      continue;
    }
    delegated.push(dir);
    if (place.options.includes('cpuset'))
      for (const file of ['cpuset.cpus', 'cpuset.mems'])
        try {
          fs.writeFileSync(path.join(dir, file), fs.readFileSync(path.join(place.dir, file)));
        } catch { /* a unified tree inherits them */ }
    fs.chownSync(dir, account.uid, account.gid);
    for (const file of ['cgroup.procs', 'cgroup.threads', 'cgroup.subtree_control', 'tasks'])
      if (fs.existsSync(path.join(dir, file)))
        fs.chownSync(path.join(dir, file), account.uid, account.gid);
    account.cgroups.push(dir);
  }
}
accounts.forEach(delegate);

/** A user without a part of the cgroup tree has no limits on memory and cpu, and says so by name. */
function findLimits(account) {
  if (account.missing !== null) return;
  const [program, ...args] = asAccount(account, [bin, 'exec', '--', 'true']);
  const tried = spawnSync(program, args, { encoding: 'utf8', cwd: account.dir });
  account.unlimited = /--(memory|cpus) none/.test(tried.stderr);
}
accounts.forEach(findLimits);
process.on('exit', () => {
  for (const dir of delegated)
    for (const inner of [...cgroupsBelow(dir).reverse(), dir])
      try { fs.rmdirSync(inner); } catch { /* reported by the clean check */ }
});

function cgroupsBelow(dir) {
  const found = [];
  let entries = [];
  try { entries = fs.readdirSync(dir, { withFileTypes: true }); } catch { /* gone meanwhile */ }
  for (const entry of entries)
    if (entry.isDirectory()) {
      const full = path.join(dir, entry.name);
      found.push(full, ...cgroupsBelow(full));
    }
  return found;
}

/** The command line for an account: enters its cgroups, drops to its ids, then runs. */
export function asAccount(account, argv, { bare = false } = {}) {
  if (!amRoot || account.uid === 0) return argv;
  const enter = bare ? '' : account.cgroups.map((dir) => `echo $$ >'${dir}/cgroup.procs'; `).join('');
  const drop = ['setpriv', `--reuid=${account.uid}`, `--regid=${account.gid}`, '--clear-groups'];
  return ['sh', '-c', `{ ${enter}:; } 2>/dev/null; exec "$@"`, 'sh', ...drop, ...argv];
}

export function execArgs(options, command) {
  const args = ['exec'];
  for (const name of ['workspace', 'memory', 'pids', 'cpus', 'disk', 'timeout'])
    if (options[name] !== undefined) args.push(`--${name}`, String(options[name]));
  for (const name of ['ro', 'rw', 'env'])
    for (const value of options[name] ?? []) args.push(`--${name}`, value);
  if (options.startIn) args.push('--cwd', options.startIn);
  if (options.tty) args.push('--tty');
  if (options.json) args.push('--json');
  return [...args, '--', ...command];
}

export class Jail {
  constructor(account) {
    this.account = account;
    this.secret = `cnry_${randomBytes(16).toString('hex')}`;
  }

  /** The environment on the host: its own directories, and a secret that must stay outside. */
  environment() {
    const { dir } = this.account;
    return {
      PATH: process.env.PATH, LANG: 'C.UTF-8', HOME: path.join(dir, 'home'),
      TMPDIR: path.join(dir, 'tmp'), SANDGLASS_HOME: path.join(dir, 'data'),
      XDG_RUNTIME_DIR: path.join(dir, 'tmp'), ESCAPE_SECRET: this.secret,
    };
  }

  workspace() {
    const dir = fs.mkdtempSync(path.join(this.account.dir, 'work', 'w'));
    fs.chmodSync(dir, 0o755);
    if (amRoot) fs.chownSync(dir, this.account.uid, this.account.gid);
    return dir;
  }

  /** A file on the host that is the account's own. */
  write(file, text) {
    fs.writeFileSync(file, text);
    if (amRoot) fs.chownSync(file, this.account.uid, this.account.gid);
  }

  /** Starts it and returns the child process; `done` resolves with its end and output. */
  start(command, options = {}) {
    if (this.account.unlimited && !options.bare) {
      if (options.memory ?? options.cpus) skip('this user has no cgroups to hold limits');
      options = { ...options, memory: 'none', cpus: 'none' };
    }
    const withProbes = { timeout: '120s', ...options, ro: [`${probes}:/opt/probes`, ...(options.ro ?? [])] };
    const inner = [...(options.wrap ?? []), bin, ...execArgs(withProbes, command)];
    const argv = options.outer
      ? [...options.outer, ...asAccount(this.account, inner, options)]
      : asAccount(this.account, inner, options);
    const child = spawn(argv[0], argv.slice(1), {
      cwd: options.cwd ?? this.account.dir,
      env: { ...this.environment(), ...options.hostEnv },
      stdio: options.stdio ?? ['pipe', 'pipe', 'pipe'],
      detached: options.detached ?? false,
    });
    const chunks = { stdout: [], stderr: [] };
    const seen = { stdout: 0, stderr: 0 };
    for (const name of ['stdout', 'stderr'])
      if (child[name] && !options.neverRead)
        child[name].on('data', (data) => {
          seen[name] += data.length;
          if (seen[name] <= KEEP) chunks[name].push(data);
        });
    if (child.stdin) {
      child.stdin.on('error', () => {});
      if (!options.keepStdin) child.stdin.end(options.stdin ?? '');
    }
    // A jail that does not end is a finding, not a reason to wait forever.
    const limit = setTimeout(() => { child.overdue = true; child.kill('SIGKILL'); },
      options.patience ?? 240_000);
    const over = new Promise((resolve) => {
      child.on('error', (error) => resolve([null, String(error)]));
      child.on(options.neverRead ? 'exit' : 'close', (...end) => resolve(end));
    });
    child.done = over.then(([status, signal]) => {
      clearTimeout(limit);
      const result = { status, signal, overdue: child.overdue === true, argv, seen };
      for (const name of ['stdout', 'stderr']) {
        result[`${name}Bytes`] = Buffer.concat(chunks[name]);
        result[name] = result[`${name}Bytes`].toString();
      }
      if (options.json) result.json = parseJson(result);
      return result;
    });
    return child;
  }

  run(command, options = {}) {
    return this.start(command, options).done;
  }

  /** Runs a probe and gives its findings: the last value of each name, and all of them. */
  async probe(name, args = [], options = {}) {
    const result = await this.run([`/opt/probes/probe_${name}`, ...args.map(String)], options);
    result.findings = findings(result.json?.stdout ?? result.stdout);
    return result;
  }
}

function parseJson(result) {
  try {
    const json = JSON.parse(result.stdout);
    return json;
  } catch (error) {
    return { unreadable: String(error), stdout: '', stderr: '' };
  }
}

export function findings(text) {
  const last = {};
  const all = [];
  for (const line of text.split('\n')) {
    const at = line.indexOf('=');
    if (at <= 0) continue;
    const [name, value] = [line.slice(0, at), line.slice(at + 1).replace(/\r$/, '')];
    last[name] = value;
    all.push([name, value]);
  }
  return { last, all, of: (name) => all.filter(([n]) => n === name).map(([, value]) => value) };
}

/** Runs a program of the host, for verdicts and set-up. */
export function host(...argv) {
  const done = spawnSync(argv[0], argv.slice(1), { encoding: 'utf8' });
  return { status: done.status, stdout: done.stdout ?? '', stderr: done.stderr ?? '' };
}

export { cgroupPlaces, cgroupsBelow, amRoot };
