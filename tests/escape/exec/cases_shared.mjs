// RES-12: what the whole machine shares and no control group counts. The rows are those of the table
// "Machine-wide resources" in docs/SECURITY.md.

import assert from 'node:assert/strict';
import { assertControls, assertFindings, assertRan } from './check.mjs';

const all = (value, ...names) => Object.fromEntries(names.map((name) => [name, value]));

const rows = {
  'programs in the kernel': {
    ...all('ENOPROTOOPT', 'bpf.attach', 'bpf.reuseport', 'bpf.attach_fd', 'bpf.reuseport_fd', 'bpf.lock'),
    ...all('EINVAL', 'bpf.seccomp', 'bpf.seccomp_strict_probe', 'bpf.prctl_seccomp') },
  'branches of the kernel that are switched for the whole machine': {
    ...all('ENOPROTOOPT', 'branch.timestamp', 'branch.timestamping', 'branch.udp_gro', 'branch.udp_encap', 'branch.min_ttl', 'branch.tx_delay'),
    'branch.siocgstamp': 'ENOTTY' },
  'modules that a tenant could have loaded': {
    ...all('ENOPROTOOPT', 'module.congestion', 'module.ulp', 'module.iptables'), ...all('ENOTTY', 'module.vlan', 'module.bridge') },
  'numbers of the machine': {
    'number.aio': 'ENOSYS', 'table.flow_labels': 'ENOPROTOOPT', 'number.pipe_pages': 'EPERM',
    ...all('EPERM', 'number.message_queue', 'number.posix_queue', 'number.key', 'number.fanotify', 'number.user_namespace') },
  'memory that is charged to nobody': {
    ...all('ENOPROTOOPT', 'memory.zerocopy', 'memory.reserve'), ...all('ENOMEM', 'memory.huge_map', 'memory.huge_shm'), 'memory.cachestat': 'ENOSYS',
    ...all('EINVAL', 'memory.huge_file', 'memory.merge', 'memory.merge_process', 'memory.vma_name') },
  'page cache of others': { 'cache.others': 'not told' },
  'processors of others': { 'scheduler.core': 'EINVAL', 'scheduler.clamp': 'EPERM', 'interrupts.membarrier': 'EINVAL', 'time.busy_poll': 'ENOPROTOOPT' },
  'locks that belong to no process': { 'lock.of_description': 'EINVAL', 'lock.shared_descriptors': 'EPERM' },
  'files that others open': { ...all('EINVAL', 'file.lease', 'file.notify'), ...all('ENOTTY', 'file.attributes', 'file.project'), 'file.sync': 'ok' },
  'programs of the host that take cores': { 'core.set': 'ok', 'core.set_and_ask': 'EPERM', 'core.limit': '1 1' },
};

export const cases = Object.entries(rows).map(([title, wanted]) => ({
  id: 'RES-12', title,
  run: async (jail) => {
    const found = assertRan(await jail.probe('shared'));
    assertControls(found);
    assertFindings(found, wanted);
    assert.ok(found.all.length > 40);
  },
}));

// The kernel charges them to nobody, so the warden counts them: 10,000 for a jail.
cases.push({ id: 'RES-12', title: 'record locks end at the limit', run: async (jail) => {
  const few = assertRan(await jail.probe('locks', [2000, 4, 'end']));
  assertFindings(few, { got: '2000', killed: '0' });
  for (const [count, processes] of [[12_000, 1], [3_000, 6]]) {
    const many = assertRan(await jail.probe('locks', [count, processes, 'hold']));
    assertFindings(many, { killed: '1' });
  }
} });
