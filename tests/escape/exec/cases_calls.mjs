// ISO-01..07: posture and system calls.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { amRoot, Jail } from './jail.mjs';
import { assertControls, assertFindings, assertRan, eventually, signalNumber, skip } from './check.mjs';
import { withWord } from './clean.mjs';
import { difference, exactPart, parseMount, recordedAccess, recordedPart } from './posture.mjs';

const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);

function compareRecorded(file, got) {
  const name = path.join(here, file);
  if (process.env.SG_RECORD === '1') fs.writeFileSync(name, got);
  if (!fs.existsSync(name)) skip(`${file} is not recorded yet: run once with SG_RECORD=1`);
  const wanted = fs.readFileSync(name, 'utf8');
  assert.ok(got === wanted, `differs from ${file}:\n${difference(wanted, got)}`);
}

async function posture(jail) {
  return assertRan(await jail.probe('posture', [], { workspace: jail.workspace() }));
}

/** An outside view of the clock: how far wall time and monotonic time have drifted apart. */
const clockOffset = () => Date.now() - performance.now();

const refused = (names, value) => Object.fromEntries(names.map((name) => [name, value]));

const namespaceBits = ['newns', 'newcgroup', 'newuts', 'newipc', 'newuser', 'newpid', 'newnet'];
const kinds = ['user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup'];
const deniedMounts = ['mount.tmpfs', 'mount.bind', 'mount.proc', 'mount.remount', 'mount.shared',
  'umount2', 'pivot_root', 'chroot', 'fsopen', 'fsopen.tmpfs', 'fsconfig', 'fsmount', 'fspick',
  'open_tree', 'open_tree.clone', 'move_mount', 'mount_setattr'];

const deniedCalls = ['bpf', 'perf_event_open', 'userfaultfd', 'userfaultfd.user', 'kexec_load',
  'kexec_file_load', 'init_module', 'finit_module', 'delete_module', 'syslog', 'reboot', 'acct',
  'swapon', 'swapoff', 'quotactl', 'quotactl_fd', 'vhangup', 'sethostname', 'setdomainname',
  'settimeofday', 'clock_settime', 'clock_adjtime', 'adjtimex', 'keyctl', 'add_key',
  'request_key', 'ptrace.attach_init', 'ptrace.seize_init', 'ptrace.traceme',
  'process_vm_readv.init', 'process_vm_writev.init', 'process_vm_readv.self', 'pidfd_getfd.self',
  'kcmp', 'process_madvise', 'prctl.set_ptracer', 'prctl.set_ptracer_high', 'prctl.set_mm',
  'name_to_handle_at', 'open_by_handle_at', 'fanotify_init', 'fanotify_init.user',
  'fanotify_mark', 'mknodat.block', 'mknodat.char', 'mknodat.fuse', 'mknodat.high',
  'personality.no_random', 'personality.read_implies_exec', 'mbind', 'set_mempolicy',
  'migrate_pages', 'move_pages', 'msgget', 'mq_open', 'ioctl.tiocsti', 'ioctl.tiocsti_high',
  'ioctl.tioclinux', 'ioctl.tiocsetd', 'ioctl.tioccons',
  ...Array.from({ length: 64 }, (_, fd) => `pidfd_getfd.${fd}`),
  ...(process.arch === 'x64'
    ? ['iopl', 'ioperm', 'modify_ldt', 'lookup_dcookie', 'nfsservctl', 'mknod.char'] : [])];

/** Families that were ways out; the filter itself must answer, not a module that is not loaded. */
const namedFamilies = { alg: 38, vsock: 40, packet: 17, key: 15, rxrpc: 33, xdp: 44, tipc: 30,
  smc: 43, can: 29, bluetooth: 31 };

async function countingServer() {
  const server = net.createServer((socket) => { server.count += 1; socket.destroy(); });
  server.count = 0;
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

export const cases = [
  { id: 'ISO-01', title: 'the posture equals the golden file', run: async (jail) => {
    const golden = fs.readFileSync(path.join(here, 'posture.golden'), 'utf8');
    // A command may be in a memory group of its own below that of the jail.
    const got = exactPart(await posture(jail), golden).replace(/^cgroup=\/\d\n/m, '');
    assert.ok(got === golden, `differs from posture.golden:\n${difference(golden, got)}`);
  } },
  { id: 'ISO-01', title: 'mounts and environment are as recorded', run: async (jail) => {
    compareRecorded(`posture.${jail.account.name}.recorded`, recordedPart(await posture(jail)));
  } },
  { id: 'ISO-01', title: 'who may do what where is as recorded', run: async (jail) => {
    const result = await jail.probe('access', [], { workspace: jail.workspace() });
    const found = assertRan(result);
    assertFindings(found, { 'create./workspace': 'ok', 'create./tmp': 'ok', 'read./etc/passwd': 'ok' });
    for (const place of ['/', '/bin', '/etc', '/lib', '/proc', '/usr', '/opt/probes', '/dev'])
      assert.notEqual(found.last[`create.${place}`], 'ok', `made a file in ${place}`);
    if (!amRoot) skip('recorded where the probes are root\'s, not the user\'s own');
    compareRecorded(`access.${jail.account.name}.recorded`, recordedAccess(found));
  } },
  { id: 'ISO-01', title: 'mounts obey the rules of the fence', run: async (jail) => {
    const mounts = (await posture(jail)).of('mount').map(parseMount);
    const wrong = [];
    const must = (mount, ...flags) => flags.filter((flag) => !mount.options.includes(flag))
      .forEach((flag) => wrong.push(`${mount.target}: not ${flag}`));
    for (const mount of mounts) {
      if (/^(sysfs|cgroup2?|debugfs|tracefs|securityfs|bpf|devtmpfs|configfs)$/.test(mount.type) &&
          !/^\/dev\/(null|zero|full|random|urandom|tty)$/.test(mount.target))
        wrong.push(`${mount.target}: is ${mount.type}`);
      if (mount.propagation.some((word) => word.startsWith('shared')))
        wrong.push(`${mount.target}: shared with others`);
      must(mount, 'nosuid');
      /* Nodes live in /dev; a mask may be the null device. */
      if (!/^\/dev($|\/)|^\/proc\/./.test(mount.target)) must(mount, 'nodev');
      if (mount.type === 'proc') must(mount, 'noexec');
      if (/^\/(usr|bin|lib|lib64|sbin|opt\/probes)$/.test(mount.target)) must(mount, 'ro');
    }
    const find = (target) => mounts.filter((mount) => mount.target === target).at(-1);
    for (const target of ['/tmp', '/dev/shm'])
      for (const word of ['size=65536k', 'nr_inodes=16384'])
        if (!find(target)?.superOptions.includes(word)) wrong.push(`${target}: not ${word}`);
    if (!find('/dev/pts')?.superOptions.includes('max=16')) wrong.push('/dev/pts: not max=16');
    assert.ok(find('/proc'), '/proc is there');
    assert.deepEqual(wrong, []);
  } },
  // Looked at from outside while both live: the number of a namespace that ended may be given again.
  { id: 'ISO-01', title: 'two jails do not share ids, names or namespaces', run: async (jail) => {
    const words = ['first', 'second'].map((word) => `sleep-${word}-${process.pid}`);
    const runs = words.map((word) => jail.start(['sh', '-c', 'read line', word], { keepStdin: true }));
    const pids = await Promise.all(words.map((word) => eventually(() => withWord(word).find((p) =>
      p.name === 'sh' && p.namespace !== fs.readlinkSync('/proc/self/ns/pid'))?.pid, 'the command runs')));
    const ids = pids.map((pid) => /Uid:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
    const spaces = kinds.map((kind) => pids.map((pid) => fs.readlinkSync(`/proc/${pid}/ns/${kind}`)));
    runs.forEach((run) => run.stdin.end('\n'));
    await Promise.all(runs.map((run) => run.done));
    for (const [first, second] of spaces) assert.notEqual(first, second);
    if (jail.account.uid !== 0) return assert.deepEqual(ids, [jail.account.uid, jail.account.uid].map(String));
    assert.ok(ids.every((id) => Number(id) >= 65536), `ids ${ids}`);
    assert.notEqual(ids[0], ids[1]);
  } },

  { id: 'ISO-01', title: 'a Landlock domain is around the command', run: async (jail) => {
    const found = assertRan(await jail.probe('landlock'));
    if (found.last.ruleset !== 'ok') skip(`Landlock cannot be asked from inside: ${found.last.ruleset}`);
    assert.equal(found.last.ended_by, 'E2BIG');
    assert.ok(Number(found.last.around) >= 1, 'no domain around the command');
  } },

  { id: 'ISO-02', title: 'set-id files and file capabilities have no effect', run: async (jail) => {
    const found = assertRan(await jail.probe('setid', ['/workspace'], { workspace: jail.workspace() }));
    assert.deepEqual(found.of('setid.file').filter((line) => line.endsWith('changed')), []);
    assert.notEqual(found.last['own.capability'], 'ok');
    assertFindings(found, { 'own.exit': '0', 'whoami.same_uid': '1', 'whoami.root': '0',
      'whoami.capeff': '0000000000000000' });
    assert.equal(found.of('whoami.same_uid').length, 2, 'the copy ran');
    assert.ok(found.of('whoami.same_uid').every((value) => value === '1'));
  } },
  { id: 'ISO-02', title: 'a set-id file brought by the workspace has no effect', run: async (jail) => {
    const dir = jail.workspace();
    fs.copyFileSync('/usr/bin/id', path.join(dir, 'id'));
    fs.chmodSync(path.join(dir, 'id'), 0o6755);
    const result = await jail.run(['sh', '-c', './id -u; id -u'], { workspace: dir });
    const [copied, plain] = result.stdout.trim().split('\n');
    assert.ok(plain > 0, `the control ran: ${result.stdout}${result.stderr}`);
    assert.equal(copied, plain);
  } },

  { id: 'ISO-03', title: 'namespace and mount calls are refused', run: async (jail) => {
    const found = assertRan(await jail.probe('namespaces'));
    assertFindings(found, refused([
      ...namespaceBits.flatMap((bit) => [`unshare.${bit}`, `clone.${bit}`, `clone_high.${bit}`]),
      'unshare.newtime', 'unshare_high.newuser', 'setns.pidfd',
      ...kinds.map((kind) => `setns.self.${kind}`), ...deniedMounts], 'EPERM'));
    assertFindings(found, refused(kinds.map((kind) => `setns.init.${kind}`),
      ['EPERM', 'open EACCES', 'open EPERM', 'open ENOENT']));
    assertControls(found);
  } },

  { id: 'ISO-04', title: 'unreadable and unknown calls look absent', run: async (jail) => {
    const found = assertRan(await jail.probe('unknown_calls'));
    assertFindings(found, refused(['clone3', 'clone3.newuser', 'io_uring_setup', 'io_uring_enter',
      'io_uring_register', 'nr.600', 'nr.1000', 'nr.9999'], 'ENOSYS'));
    assertFindings(found, refused(['nr.high', 'nr.negative'], ['ENOSYS', 'signal 31']));
    assertControls(found);
  } },
  { id: 'ISO-04', title: 'interpreters still start threads and children', run: async (jail) => {
    const scripts = {
      python3: ['-c', 'import threading,subprocess as s;t=threading.Thread(target=print,args=("t",));' +
        't.start();t.join();print(s.check_output(["echo","c"]).decode(),end="")'],
      bash: ['-c', 'echo t; (echo c) | cat'],
      node: ['-e', 'console.log("t");process.stdout.write(require("child_process").execSync("echo c"))'],
    };
    for (const [name, args] of Object.entries(scripts)) {
      const result = await jail.run([`/usr/bin/${name}`, ...args]);
      assert.equal(result.stdout, 't\nc\n', `${name}: ${result.stderr}`);
    }
  } },

  ...['int80', 'x32'].flatMap((door) => ['getpid', 'mount', 'socket'].map((call) => ({
    id: 'ISO-05', title: `${call} through ${door} is fatal`, run: async (jail) => {
      if (process.arch !== 'x64') skip('one ABI only');
      const control = await jail.probe('foreign_abi', ['native', 'getpid']);
      assert.ok(Number(control.findings.last.after) > 0, control.stderr);
      const result = await jail.probe('foreign_abi', [door, call], { json: true });
      assert.equal(result.findings.last.before, '1');
      assert.equal(result.findings.last.after, undefined, 'the call returned');
      assert.equal(signalNumber(result.json.signal), 31);
      assert.equal(result.status, 128 + 31);
    } }))),

  { id: 'ISO-06', title: 'every call of the list is refused', run: async (jail) => {
    const before = clockOffset();
    const [modules, keys] = ['/proc/modules', '/proc/keys'].map((file) =>
      fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '');
    const found = assertRan(await jail.probe('denied_calls'));
    assertFindings(found, refused(deniedCalls, 'EPERM'));
    assertControls(found);
    assert.ok(Math.abs(clockOffset() - before) < 2000, 'the clock of the host was set');
    if (modules) assert.equal(fs.readFileSync('/proc/modules', 'utf8').split('\n').length, modules.split('\n').length);
    if (keys) assert.ok(!fs.readFileSync('/proc/keys', 'utf8').includes('sandglass'));
  } },

  { id: 'ISO-07', title: 'only the allowed socket families open', run: async (jail) => {
    const found = assertRan(await jail.probe('sockets'));
    const allowed = new Set(['socket.1.stream', 'socket.1.dgram', 'socket.1.seqpacket',
      'socket.2.stream', 'socket.2.dgram', 'socket.10.stream', 'socket.10.dgram',
      'socket.16.raw', 'socket.16.dgram', 'netlink.0', 'pair.1', 'flags.ping', 'flags.mptcp',
      'flags.udplite']);
    const opened = found.all.filter(([name, value]) => value === 'ok' &&
      /^(socket|pair|netlink|high|flags)\./.test(name) && !allowed.has(name)).map(([name]) => name);
    assert.deepEqual(opened, []);
    assertFindings(found, refused(['socket.1.stream', 'socket.1.dgram', 'socket.2.stream',
      'socket.2.dgram', 'socket.10.stream', 'netlink.0', 'pair.1'], 'ok'));
    for (const [name, family] of Object.entries(namedFamilies))
      assert.equal(found.last[`socket.${family}.dgram`], 'EAFNOSUPPORT', name);
    assertFindings(found, refused(['high.alg', 'high.packet', 'high.vsock'], 'EAFNOSUPPORT'));
    assert.equal(found.last.interfaces, 'lo');
    assertControls(found);
  } },
  { id: 'ISO-07', title: 'nothing of the host is reached by address', run: async (jail, t) => {
    const server = await countingServer();
    t.after(() => server.close());
    const { port } = server.address();
    const addresses = [`127.0.0.1:${port}`, '192.0.2.1:80', '169.254.169.254:80', '8.8.8.8:53'];
    const found = assertRan(await jail.probe('sockets', addresses));
    for (const address of addresses)
      assert.notEqual(found.last[`connect.${address}`], 'ok', address);
    assert.equal(server.count, 0, 'the server on the host was reached');
    assertControls(found);
    const control = net.connect(port, '127.0.0.1');
    await new Promise((resolve) => control.on('close', resolve));
    assert.equal(server.count, 1, 'the server counts');
  } },
];

