// The limits of [jail] in config.toml hold for `sandglass exec` where no option says otherwise.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { run, tempDir } from './lib.mjs';

const hog = ['--', 'sh', '-c', 'head -c 100000000 /dev/zero | tail -c 100000000 | wc -c'];

test('memory of the configuration ends a hog, an option lifts it', async (t) => {
  const file = join(tempDir(t), 'config.toml');
  writeFileSync(file, '[jail]\nmemory_mb = 32\n');
  const refused = await run(['exec', '--json', '--config', file, ...hog]);
  if (/control group|cgroup|controller/.test(refused.stderr)) return t.skip('this host has no memory limit to give');
  assert.notEqual(JSON.parse(refused.stdout).oomKills, 0);
  const lifted = await run(['exec', '--config', file, '--memory', '400m', ...hog]);
  assert.equal(lifted.stdout.trim(), '100000000', lifted.stderr);
});

test('a wrong key is named, and nothing runs', async (t) => {
  const file = join(tempDir(t), 'config.toml');
  writeFileSync(file, '[jail]\nmemry_mb = 32\n');
  const refused = await run(['exec', '--config', file, '--', 'echo', 'ran']);
  assert.equal(refused.code, 2);
  assert.equal(refused.stdout, '');
  assert.match(refused.stderr, /jail\.memry_mb: unknown key; did you mean memory_mb\?/);
});
