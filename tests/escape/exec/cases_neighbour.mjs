// RES-05 and promise P9: what one jail does costs its neighbour, the log and the kernel's memory of
// messages next to nothing.

import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { host, SOAK, sized } from './jail.mjs';
import { assertControls, assertFindings, assertRan } from './check.mjs';

/** Lines about refusals; disks that are mounted meanwhile and processes out of memory have theirs. */
const kernelLines = () => host('dmesg').stdout.split('\n')
  .filter((line) => /audit|seccomp|landlock|apparmor|denied|callbacks suppressed|IN=\S* OUT=/i.test(line)).length;

/** Wall times in ms of one short command each 200 ms, sorted. */
async function shortRuns(jail, count) {
  const times = [];
  for (let i = 0; i < count; i++, await sleep(200)) {
    const began = performance.now();
    assert.equal((await jail.run(['true'])).status, 0);
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b);
}

const p99 = (times) => times[Math.min(times.length - 1, Math.floor(times.length * 0.99))];

// Each keeps going until its deadline takes it away.
const noise = {
  spin: ['sh', '-c', 'for i in $(seq 64); do (while :; do :; done) & done; wait'],
  fork: ['sh', '-c', 'while :; do (:) & done'],
  memory: ['sh', '-c', 'while :; do head -c 600m /dev/zero | tail; done'],
  flood: ['/opt/probes/probe_flood', 'both', '0'],
  write: ['sh', '-c', 'while :; do dd if=/dev/zero of=/tmp/f bs=1M count=60 conv=fsync; rm /tmp/f; done'],
};

// A figure, so only at full size and on a machine that does nothing else.
const neighbours = Object.entries(noise).map(([name, command]) => ({
  id: 'P9', title: `a ${name} storm does not take the neighbour's time`, run: async (jail) => {
    const quiet = p99(await shortRuns(jail, 50));
    const noisy = jail.start(command, { timeout: '20s', patience: 60_000 });
    await sleep(500);
    const loud = p99(await shortRuns(jail, 50));
    noisy.kill('SIGTERM');
    await noisy.done;
    console.log(`# P9 ${jail.account.name} ${name}: p99 ${quiet.toFixed(1)} ms quiet, ${loud.toFixed(1)} ms beside it`);
    assert.ok(loud <= Math.max(2 * quiet, quiet + 100), `p99 ${loud} ms, quiet ${quiet} ms`);
  } }));

export const cases = [
  { id: 'RES-05', title: 'a storm of refusals is noted nowhere', run: async (jail) => {
    const count = sized(20_000, 1_000_000);
    const before = kernelLines();
    const result = await jail.probe('denied_storm', [count], { json: true, timeout: '120s', patience: 300_000 });
    const found = assertRan(result);
    assertFindings(found, { calls: String(count), connections: String(count) });
    assertControls(found);
    assert.equal(result.stderr, '');
    assert.ok(kernelLines() <= before + 10, 'the kernel notes each refusal');
  } },
  ...(SOAK ? neighbours : []),
];
