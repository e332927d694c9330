// ISO-17: a host that cannot give a fence gets a refusal, never a weaker run.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { amRoot, cgroupPlaces, denyCall } from './jail.mjs';
import { skip } from './check.mjs';

/** Runs a command that would leave a marker; gives the result and whether tenant code ran. */
async function withMarker(jail, options) {
  const work = jail.workspace();
  const result = await jail.run(['sh', '-c', 'echo ran >/workspace/marker; echo ran'],
    { ...options, workspace: work });
  return { result, ran: fs.existsSync(path.join(work, 'marker')) || result.stdout.includes('ran') };
}

async function assertClosed(jail, options, reason) {
  const control = await withMarker(jail, {});
  assert.equal(control.ran, true, `the control ran: ${control.result.stderr}`);
  const { result, ran } = await withMarker(jail, options);
  assert.equal(ran, false, 'tenant code ran without the fence');
  assert.equal(result.overdue, false);
  assert.notEqual(result.status, 0);
  assert.match(result.stderr, reason);
}

/** A private mount namespace in which a line of shell has changed the host for the worse. */
const onHostWhere = (line) => ['unshare', '--mount', '--propagation', 'private', 'sh', '-c',
  `${line}; exec "$@"`, 'sh'];

const placesWith = (controller) => cgroupPlaces().filter(({ v2, options, dir }) => v2
  ? fs.readFileSync(path.join(dir, 'cgroup.controllers'), 'utf8').includes(controller)
  : options.includes(controller));

const mountOf = (dir) => fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
  .filter((line) => / - cgroup2? /.test(line)).map((line) => line.split(' ')[4])
  .filter((mount) => dir.startsWith(mount)).sort((a, b) => b.length - a.length)[0];

/** Ids that only this jail has let the kernel count processes without a cgroup as well. */
async function forksHold(jail, options) {
  const { findings } = await jail.probe('fork_bomb', ['fork', 200], { ...options, pids: 24 });
  return findings.last.stopped_by === 'EAGAIN' && Number(findings.last.made) < 24;
}

function withoutController(name, holdsOtherwise) {
  return { id: 'ISO-17', title: `without the ${name} controller nothing runs`, run: async (jail) => {
    if (!amRoot) skip('changing the mounts of the host needs root');
    const places = placesWith(name);
    if (places.length === 0) skip(`this host has no ${name} controller at all`);
    if (places.some((place) => place.v2)) skip('one unified tree: a controller cannot be hidden separately');
    const hide = places.map(({ dir }) => `mount -t tmpfs -o ro none '${mountOf(dir)}'`).join(' && ');
    const options = { outer: onHostWhere(hide) };
    if (await holdsOtherwise?.(jail, options)) return;
    await assertClosed(jail, options, new RegExp(`${name}|cgroup`, 'i'));
  } };
}

export const cases = [
  { id: 'ISO-17', title: 'without seccomp nothing runs', run: (jail) =>
    assertClosed(jail, { wrap: [denyCall, 'seccomp'] }, /seccomp|system call filter/i) },
  { id: 'ISO-17', title: 'without user namespaces nothing runs', run: (jail) =>
    assertClosed(jail, { wrap: [denyCall, 'userns'] }, /namespace|userns|id map|clone|unshare/i) },
  { id: 'ISO-17', title: 'without mounts nothing runs', run: (jail) =>
    assertClosed(jail, { wrap: [denyCall, 'mount'] }, /mount/i) },
  { id: 'ISO-17', title: 'without pivot_root nothing runs', run: (jail) =>
    assertClosed(jail, { wrap: [denyCall, 'pivot'] }, /pivot|root/i) },
  withoutController('pids', forksHold),
  withoutController('memory'),
  { id: 'ISO-17', title: 'with a read-only cgroup tree nothing runs', run: async (jail) => {
    if (!amRoot) skip('changing the mounts of the host needs root');
    const mounts = [...new Set(cgroupPlaces().map(({ dir }) => mountOf(dir)))];
    const line = mounts.map((mount) => `mount -o remount,bind,ro '${mount}'`).join(' && ');
    await assertClosed(jail, { outer: onHostWhere(line), bare: true }, /cgroup/i);
  } },
  { id: 'ISO-17', title: 'without a cgroup to use the limits hold or nothing runs', run: async (jail) => {
    if (jail.account.uid === 0) skip('root may use every cgroup');
    const attacks = [['fork_bomb', ['fork', 200], { pids: 24 }], ['memory', ['touch', 192], { memory: '64m' }],
      ['memory', ['touch', 700], {}]];
    for (const [name, args, options] of attacks) {
      const result = await jail.probe(name, args, { ...options, bare: true });
      const { last } = result.findings;
      if (last.done === undefined) {
        assert.notEqual(result.status, 0);
        assert.match(result.stderr, /cgroup|limit|pids|memory/i);
      } else {
        assert.equal(last.had_all_mib, undefined, `had ${last.had_all_mib} MiB past the limit`);
        assert.notEqual(last.stopped_by, 'most', `made ${last.made} with a limit of 24`);
      }
    }
  } },
  { id: 'ISO-17', title: 'without Landlock it runs with a warning', run: async (jail) => {
    const { result, ran } = await withMarker(jail, { wrap: [denyCall, 'landlock'] });
    assert.equal(ran, true, result.stderr);
    assert.match(result.stderr, /landlock/i);
  } },
  { id: 'ISO-17', title: 'the same wrapper that refuses nothing changes nothing', run: async (jail) => {
    const { result, ran } = await withMarker(jail, { wrap: [denyCall, 'none'] });
    assert.equal(ran, true, result.stderr);
    assert.doesNotMatch(result.stderr, /landlock/i);
  } },
];
