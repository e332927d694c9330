// ISO-08..16: ways out through files, descriptors, devices, signals, terminals and links.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { amRoot, asAccount, bin, cgroupPlaces, execArgs, host, probes, SOAK, sized, stage } from './jail.mjs';
import { assertControls, assertFindings, assertRan, eventually, skip } from './check.mjs';

const hash = (file) => createHash('sha256').update(fs.readFileSync(file)).digest('hex');

/** A file of the host, readable by all, that no jail was given. */
export function hostFile(jail) {
  const dir = fs.mkdtempSync(path.join(stage, 'host-'));
  fs.chmodSync(dir, 0o777);
  fs.writeFileSync(path.join(dir, 'hostfile'), jail.secret, { mode: 0o666 });
  return { dir, file: path.join(dir, 'hostfile') };
}

/** Everything below a directory with what would show a change. */
function picture(dir) {
  return fs.readdirSync(dir, { withFileTypes: true }).map((entry) => {
    const st = fs.lstatSync(path.join(dir, entry.name));
    return [entry.name, st.mode, st.size, st.mtimeMs, st.uid].join(' ');
  }).sort().join('\n');
}

function hostSockets() {
  return fs.readFileSync('/proc/net/unix', 'utf8').split('\n').slice(1)
    .map((line) => line.trim().split(/\s+/)[7]).filter(Boolean);
}

async function listening(name) {
  const server = net.createServer((socket) => { server.count += 1; socket.destroy(); });
  server.count = 0;
  await new Promise((resolve, reject) => server.on('error', reject).listen(name, resolve));
  return server;
}

/** Runs a command line under a terminal of its own and gives what the terminal showed. */
export function underTerminal(jail, command, options = {}) {
  const limits = jail.account.unlimited ? { memory: 'none', cpus: 'none' } : {};
  const inner = [bin, ...execArgs({ timeout: '120s', ro: [`${probes}:/opt/probes`], ...limits, ...options }, command)];
  const quoted = inner.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
  const line = options.after ? `${quoted}; ${options.after}` : `exec ${quoted}`;
  const [program, ...args] = asAccount(jail.account, ['script', '-qefc', line, '/dev/null']);
  const child = spawn(program, args, {
    cwd: jail.account.dir, env: { ...jail.environment(), SHELL: '/bin/sh', TERM: 'xterm' },
  });
  let output = '';
  child.stdout.on('data', (data) => { output += data; child.emit('shown', output); });
  child.stderr.on('data', (data) => { output += data; });
  child.stdin.on('error', () => {});
  const limit = setTimeout(() => child.kill('SIGKILL'), 240_000);
  child.done = new Promise((resolve) => child.on('close', (status) => {
    clearTimeout(limit);
    resolve({ status, output: output.replaceAll('\r', '') });
  }));
  child.shown = () => output;
  return child;
}

/** Host values that nobody inside may change. */
function hostValues() {
  const files = ['kernel/core_pattern', 'kernel/modprobe', 'kernel/hostname', 'kernel/domainname',
    'kernel/shmmax', 'vm/overcommit_memory', 'net/ipv4/ip_forward', 'kernel/sysrq'];
  return Object.fromEntries(files.map((name) => `/proc/sys/${name}`).filter((name) => fs.existsSync(name))
    .map((name) => [name, fs.readFileSync(name, 'utf8')]));
}

function cgroupValues() {
  const names = ['release_agent', 'notify_on_release', 'memory.limit_in_bytes', 'memory.max', 'pids.max'];
  return cgroupPlaces().flatMap(({ dir }) => names.map((name) => path.join(dir, name)))
    .filter((name) => fs.existsSync(name)).map((name) => [name, fs.readFileSync(name, 'utf8')]);
}

const allowedNodes = /^\/dev\/(null|zero|full|random|urandom|tty|ptmx|console|pts\/(ptmx|\d+)) c /;
const allowedDev = ['fd', 'full', 'null', 'ptmx', 'pts', 'random', 'shm', 'stderr', 'stdin', 'stdout',
  'tty', 'urandom', 'zero'];

export const cases = [
  { id: 'ISO-08', title: 'no program is writable through /proc', run: async (jail) => {
    const before = [bin, path.join(probes, 'probe_exe')].map(hash);
    const rounds = sized(10, 100);
    const hammer = jail.probe('exe', [sized(2000, 100_000)]);
    const others = await Promise.all(Array.from({ length: rounds }, () => jail.run(['true'])));
    const found = assertRan(await hammer);
    assert.equal(found.last.opened, '0', JSON.stringify(found.last));
    assertControls(found);
    assert.deepEqual(others.map((other) => other.status), Array(rounds).fill(0));
    assert.deepEqual([bin, path.join(probes, 'probe_exe')].map(hash), before);
    assert.doesNotMatch(found.last['init.link'], /sandglass$|^\/tmp|^\/usr/, 'init is a file of the host');
  } },
  { id: 'ISO-08', title: 'a command that is /proc/self/exe gets hold of nothing', run: async (jail) => {
    const before = hash(bin);
    const dir = jail.workspace();
    fs.writeFileSync(path.join(dir, 'loader'), '#!/proc/self/exe\n', { mode: 0o755 });
    for (const command of ['/proc/self/exe', '/proc/1/exe', '/workspace/loader']) {
      const result = await jail.run([command, 'exec', '--', 'true'], { workspace: dir, timeout: '3s' });
      assert.equal(result.overdue, false, command);
    }
    assert.equal(hash(bin), before);
    assert.equal((await jail.run(['true'])).status, 0);
  } },

  { id: 'ISO-09', title: 'descriptors of the caller stay outside', run: async (jail, t) => {
    const { dir, file } = hostFile(jail);
    const fds = Array.from({ length: 50 }, (_, i) => fs.openSync(['/', dir, file][i % 3], 'r'));
    t.after(() => fds.forEach((fd) => fs.closeSync(fd)));
    const found = assertRan(await jail.probe('leaked_fds', [jail.secret, file],
      { stdio: ['pipe', 'pipe', 'pipe', ...fds], cwd: dir }));
    assert.deepEqual(found.of('leaked'), []);
    assert.deepEqual(found.of('seen'), []);
    assertFindings(found, { up_is_root: '1', 'control.first_free_fd': '3' });
    assert.notEqual(found.last.cwd, dir);
  } },
  { id: 'ISO-09', title: 'the working directory of the caller does not matter', run: async (jail) => {
    const { dir } = hostFile(jail);
    const control = await jail.run(['pwd'], { cwd: '/' });
    const result = await jail.run(['sh', '-c', 'pwd; cat hostfile ../hostfile; ls'], { cwd: dir });
    assert.equal(result.stdout.split('\n')[0], control.stdout.trim());
    assert.ok(!result.stdout.includes(jail.secret));
  } },

  { id: 'ISO-10', title: 'no cgroup file is found or written', run: async (jail) => {
    const before = cgroupValues();
    const found = assertRan(await jail.probe('cgroup_files', [], { workspace: jail.workspace() }));
    assert.deepEqual(found.of('switch'), []);
    assertFindings(found, { written: '0', 'mount.cgroup': 'EPERM', 'mount.cgroup_rdma': 'EPERM',
      'mount.cgroup2': 'EPERM' });
    assertControls(found);
    assert.deepEqual(cgroupValues(), before);
  } },

  { id: 'ISO-11', title: 'masked files of /proc tell nothing', run: async (jail) => {
    const found = assertRan(await jail.probe('proc'));
    const masks = found.all.filter(([name]) => name.startsWith('mask.'));
    assert.ok(masks.length >= 20);
    assert.deepEqual(masks.filter(([, value]) => !['empty', 'ENOENT', 'EACCES'].includes(value)), []);
    assert.equal(found.last.sys, 'absent');
    assertControls(found);
  } },
  { id: 'ISO-11', title: 'nothing of /proc or /sys is writable', run: async (jail) => {
    const before = hostValues();
    const found = assertRan(await jail.probe('proc'));
    assert.deepEqual(found.of('writable'), []);
    const wrote = found.all.filter(([name, value]) => name.startsWith('write.') && value === 'ok');
    assert.deepEqual(wrote, []);
    assertControls(found);
    assert.deepEqual(hostValues(), before);
  } },

  { id: 'ISO-12', title: 'only the listed devices are there', run: async (jail) => {
    const found = assertRan(await jail.probe('devices', [], { workspace: jail.workspace() }));
    const made = found.all.filter(([name, value]) => name.startsWith('mknod.') && value !== 'EPERM');
    assert.deepEqual(made, []);
    assert.deepEqual(found.of('present'), []);
    assert.deepEqual(found.of('node').filter((line) => !allowedNodes.test(line)), []);
    assert.deepEqual(found.of('file'), []);
    assertControls(found, { 'control.full': 'ENOSPC' });
    const listed = (await jail.run(['ls', '/dev'])).stdout.trim().split('\n');
    assert.deepEqual(listed.filter((name) => !allowedDev.includes(name)), []);
  } },
  { id: 'ISO-12', title: 'a device node brought along cannot be opened', run: async (jail) => {
    if (!amRoot) skip('making a device node needs root');
    const [work, extra] = [jail.workspace(), jail.workspace()];
    for (const dir of [work, extra]) {
      assert.equal(host('mknod', '-m', '666', path.join(dir, 'node'), 'c', '1', '3').status, 0);
      fs.writeFileSync(path.join(dir, 'plain'), 'x', { mode: 0o666 });
    }
    const found = assertRan(await jail.probe('devices', ['/workspace/node', '/mnt/extra/node', '/mnt/more/node'],
      { workspace: work, rw: [`${extra}:/mnt/extra`], ro: [`${extra}:/mnt/more`] }));
    assert.deepEqual(found.of('brought').filter((line) => !/ (EACCES|EPERM|ENXIO|EROFS)$/.test(line)), []);
    assert.equal(found.of('brought').length, 3);
    const control = await jail.run(['cat', '/workspace/plain', '/mnt/extra/plain'],
      { workspace: work, rw: [`${extra}:/mnt/extra`] });
    assert.equal(control.stdout, 'xx', control.stderr);
  } },

  { id: 'ISO-13', title: 'signals reach nobody outside and do not end init', run: async (jail, t) => {
    const victim = spawn('sleep', ['300'], amRoot ? { uid: jail.account.uid, gid: jail.account.gid } : {});
    t.after(() => victim.kill('SIGKILL'));
    const neighbour = jail.start(['sh', '-c', 'read line; echo "got $line"'], { keepStdin: true });
    const most = SOAK ? Number(fs.readFileSync('/proc/sys/kernel/pid_max', 'utf8')) : 70000;
    const result = await jail.probe('signals', [victim.pid, most]);
    const found = assertRan(result);
    assert.equal(result.status, 0);
    for (const way of ['kill', 'tgkill', 'tkill', 'pidfd_open', 'group'])
      assert.ok(['ESRCH', 'EINVAL', 'EPERM'].includes(found.last[`host.${way}`]), `host.${way}`);
    assertFindings(found, { hits: '0', alive: '1' });
    assertControls(found);
    assert.equal(victim.exitCode ?? victim.signalCode, null, 'a process of the host died');
    neighbour.stdin.end('hello\n');
    assert.equal((await neighbour.done).stdout, 'got hello\n', 'the neighbour lives');
  } },

  { id: 'ISO-14', title: 'no byte is typed into the terminal of the caller', run: async (jail) => {
    for (const tty of [true, false]) {
      const marker = path.join(jail.account.dir, 'tmp', 'injected');
      // The shell behind the jail would run what was pushed into its input.
      const child = underTerminal(jail, ['/opt/probes/probe_tty_inject', marker],
        { tty, after: 'echo next; line=$(head -n 1); echo "line:$line:"' });
      await eventually(() => child.shown().includes('next'), `the shell goes on (${child.shown()})`);
      child.stdin.write('typed by hand\n');
      const { output } = await child.done;
      assert.match(output, /done=1/);
      const pushed = output.split('\n').filter((line) => /^tioc\w+\.\d=/.test(line));
      assert.equal(pushed.length, 12, output);
      const wanted = tty ? /=(EPERM|EBADF)$/ : /=(EPERM|EBADF|ENOTTY)$/;
      assert.deepEqual(pushed.filter((line) => !wanted.test(line)), [], `tty ${tty}`);
      assert.match(output, /line:typed by hand:/, 'input was put in front of the caller\'s');
      assert.ok(!fs.existsSync(marker));
    }
  } },

  { id: 'ISO-15', title: 'links in the workspace lead no mount out', run: async (jail) => {
    const { dir } = hostFile(jail);
    const work = jail.workspace();
    const give = jail.workspace();
    fs.writeFileSync(path.join(give, 'given'), 'given');
    for (const name of ['proc', 'dev', 'tmp', 'etc', 'link', '.sandglass', 'workspace'])
      fs.symlinkSync(dir, path.join(work, name));
    fs.symlinkSync('/proc/self/root', path.join(work, 'root'));
    fs.symlinkSync('/proc/1/root/tmp', path.join(work, 'initroot'));
    fs.writeFileSync(path.join(work, 'file'), '');
    const before = picture(dir);
    const control = await jail.run(['cat', '/workspace/sub/given'], { workspace: work, rw: [`${give}:/workspace/sub`] });
    const safe = control.status === 0;
    for (const target of ['/workspace/link', '/workspace/link/sub', '/workspace/proc', '/workspace/root/tmp/x',
      '/workspace/initroot/x', '/workspace/file/x', '/workspace/../../x', `/workspace/root${dir}`])
      for (const kind of ['ro', 'rw']) {
        const result = await jail.run(['sh', '-c', `echo owned >${target}/made`],
          { workspace: work, [kind]: [`${give}:${target}`] });
        assert.equal(result.overdue, false);
        assert.equal(picture(dir), before, `${kind} ${target} changed the host`);
      }
    assert.ok(!fs.existsSync(path.join(dir, 'sub')));
    assert.ok(safe || /workspace/.test(control.stderr), `the control is mounted or refused by name: ${control.stderr}`);
    const plain = await jail.run(['sh', '-c', 'echo x >/workspace/new; cat /proc/self/stat >/dev/null'], { workspace: work });
    assert.equal(plain.status, 0, `such a workspace is still usable: ${plain.stderr}`);
    assert.equal(fs.readFileSync(path.join(work, 'new'), 'utf8'), 'x\n');
    assert.equal(picture(dir), before);
  } },
  { id: 'ISO-15', title: 'mounts over the jail\'s own places are refused', run: async (jail) => {
    const give = jail.workspace();
    fs.mkdirSync(path.join(give, '1'));
    for (const target of ['/', '/proc', '/proc/1', '/proc/sys', '/dev', '/dev/null', 'relative', '', '/x/../proc',
      '/proc/self/root/x', '//proc', '/./dev'])
      for (const kind of ['ro', 'rw']) {
        const result = await jail.run(['echo', 'ran'], { [kind]: [`${give}:${target}`] });
        assert.notEqual(result.status, 0, `${kind} at '${target}' was accepted`);
        assert.equal(result.stdout, '', `tenant code ran with ${kind} at '${target}'`);
        assert.notEqual(result.stderr, '', 'the refusal says why');
      }
    const control = await jail.run(['ls', '/mnt/given'], { ro: [`${give}:/mnt/given`] });
    assert.equal(control.stdout, '1\n', control.stderr);
  } },
  { id: 'ISO-15', title: 'links inside lead to the jail\'s own files', run: async (jail) => {
    const { file } = hostFile(jail);
    const work = jail.workspace();
    fs.symlinkSync(file, path.join(work, 'a'));
    fs.symlinkSync(`../../../../../../..${file}`, path.join(work, 'b'));
    fs.symlinkSync(`/proc/1/root${file}`, path.join(work, 'c'));
    fs.writeFileSync(path.join(work, 'd'), 'own');
    const result = await jail.run(['sh', '-c', 'cat a b c d'], { workspace: work });
    assert.equal(result.stdout, 'own', result.stderr);
    await jail.run(['sh', '-c', 'echo owned >a; echo owned >b; echo owned >c'], { workspace: work });
    assert.equal(fs.readFileSync(file, 'utf8'), jail.secret);
  } },

  { id: 'ISO-16', title: 'pid 1 tells nothing', run: async (jail) => {
    const found = assertRan(await jail.probe('init', [jail.secret]));
    for (const name of ['environ', 'maps', 'mem', 'auxv', 'fd', 'root', 'cwd', 'exe', 'pagemap'])
      assert.ok(['EACCES', 'EPERM', 'ENOENT'].includes(found.last[`init.${name}`]),
        `/proc/1/${name}: ${found.last[`init.${name}`]}`);
    assert.deepEqual(found.of('seen'), []);
    assert.ok(Number(found.last.processes) <= 2, `sees ${found.last.processes} processes`);
    assertControls(found);
    const sweep = await jail.run(['sh', '-c', 'env; cat /proc/*/environ /proc/*/cmdline'], {});
    assert.ok(!sweep.stdout.includes(jail.secret), 'the environment of the caller is seen');
  } },
  { id: 'ISO-16', title: 'no Unix socket of the host answers', run: async (jail, t) => {
    const { dir } = hostFile(jail);
    const names = [path.join(dir, 'socket'), `\0escape-${process.pid}`];
    const servers = await Promise.all(names.map(listening));
    t.after(() => servers.forEach((server) => server.close()));
    fs.chmodSync(names[0], 0o777);
    const list = [names[0], `@escape-${process.pid}`, ...hostSockets()].slice(0, 200);
    const found = assertRan(await jail.probe('unix_sockets', list));
    assert.deepEqual(found.of('reached'), []);
    assert.deepEqual(servers.map((server) => server.count), [0, 0]);
    assertControls(found);
  } },
];
