// What only the host can see of a jail: the file that its init runs from and the root of its mount
// namespace. Both matter once another fence has a hole, so no attempt from inside shows them.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { amRoot, host } from './jail.mjs';
import { eventually, skip } from './check.mjs';
import { processes } from './clean.mjs';

/** Runs `look` with the host's number of pid 1 of a jail that stays while it looks. */
async function withInit(jail, look) {
  if (!amRoot) skip('looking into another user\'s processes needs root');
  const command = jail.start(['sh', '-c', 'read line; echo "got $line"'], { keepStdin: true });
  let init;
  await eventually(() => (init = initBelow(command.pid)) !== undefined, 'the jail has a pid 1');
  await look(init);
  command.stdin.end('hello\n');
  assert.equal((await command.done).stdout, 'got hello\n');
}

/** A descendant that is pid 1 in its own namespace and has a child: it is ready. */
function initBelow(root) {
  const all = [...processes().values()];
  const family = new Set([root]);
  for (let size = 0; size !== family.size;) {
    size = family.size;
    for (const p of all) if (family.has(p.parent)) family.add(p.pid);
  }
  return [...family].find((pid) => isFirst(pid) && all.some((p) => p.parent === pid));
}

function isFirst(pid) {
  try {
    const [, numbers] = /^NSpid:\s+(.*)$/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
    return numbers.split(/\s+/).length > 1 && numbers.endsWith('\t1');
  } catch {
    return false;
  }
}

const SEALS = { SEAL: 1, SHRINK: 2, GROW: 4, WRITE: 8 };

export const cases = [
  { id: 'ISO-08', title: 'init runs from a sealed file without a name', run: (jail) =>
    withInit(jail, (init) => {
      assert.match(fs.readlinkSync(`/proc/${init}/exe`), /^\/memfd:/);
      const seals = host('/usr/bin/python3', '-c',
        'import fcntl, sys; print(fcntl.fcntl(open(sys.argv[1], "rb"), 1034))', `/proc/${init}/exe`);
      assert.equal(seals.status, 0, seals.stderr);
      const missing = Object.keys(SEALS).filter((name) => !(Number(seals.stdout) & SEALS[name]));
      assert.deepEqual(missing, []);
    }) },
  { id: 'ISO-09', title: 'the namespace has no root but the jail\'s', run: (jail) =>
    withInit(jail, (init) => {
      const identity = ['-c', '%d:%i:%T', '/'];
      const entered = host('nsenter', '--target', String(init), '--mount', '/usr/bin/stat', ...identity);
      const inside = host('nsenter', '--target', String(init), '--mount', '--root', '/usr/bin/stat', ...identity);
      assert.equal(inside.status, 0, inside.stderr);
      assert.equal(entered.stdout, inside.stdout, `${entered.stderr}: below the jail lies another root`);
    }) },
];
