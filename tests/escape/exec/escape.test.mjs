// The hostile tests of the jail: each attack of the catalogue against `sandglass exec`, as root and
// as an unprivileged user. Passing means that the attempt failed, that its control worked, and that
// the host is as before.
//
//   SANDGLASS_BIN  the program; SG_PROBES the directory of the probes made by the build
//   SG_ACCOUNT     root or user: only that one
//   SG_SOAK=N      an N-th of the full sizes
//   SG_RECORD=1    writes *.recorded: what the implementation chose, held from then on

import { before, test } from 'node:test';
import { accounts, Jail, SOAK } from './jail.mjs';
import { Skip } from './check.mjs';
import { watchHost } from './clean.mjs';
import { cases as calls } from './cases_calls.mjs';
import { cases as ways } from './cases_ways.mjs';
import { cases as outside } from './cases_outside.mjs';
import { cases as closed } from './cases_closed.mjs';
import { cases as exhaust } from './cases_exhaust.mjs';
import { cases as neighbour } from './cases_neighbour.mjs';
import { cases as shared } from './cases_shared.mjs';

const skipped = [];

async function runCase(attack, account, t) {
  const assertClean = watchHost();
  try {
    await attack.run(new Jail(account), t);
  } catch (error) {
    if (!(error instanceof Skip)) throw error;
    skipped.push(`${attack.id} ${account.name}: ${attack.title} (${error.message})`);
    t.skip(error.message);
  }
  await assertClean();
}

before(async () => {
  // The first run may make what is kept for good, such as the data directory.
  for (const account of accounts.filter(({ missing }) => missing === null))
    await new Jail(account).run(['true']);
});

for (const account of accounts)
  for (const attack of [...calls, ...ways, ...outside, ...closed, ...exhaust, ...shared, ...neighbour])
    test(`${attack.id} ${account.name}: ${attack.title}`, { timeout: SOAK ? 1_200_000 : 600_000 }, async (t) => {
      if (account.missing !== null) {
        skipped.push(`${attack.id} ${account.name}: ${attack.title} (${account.missing})`);
        return t.skip(account.missing);
      }
      return runCase(attack, account, t);
    });

process.on('exit', () => {
  console.log(`# ${skipped.length} could not run here`);
  for (const line of skipped) console.log(`#   ${line}`);
});
