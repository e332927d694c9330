// The limits of [jail] in config.toml hold for `sandglass exec` where no option says otherwise.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { BIN, run, tempDir } from './lib.mjs';

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

test('the same limits hold for run --runtime', async (t) => {
  const file = join(tempDir(t), 'config.toml');
  writeFileSync(file, '[jail]\nmemory_mb = 96\n');
  const python = (...more) => run(['run', '--config', file, '--runtime', 'python3', ...more, '-e', 'len(bytes(range(256)) * 1000000)']);
  const ended = await python();
  if (/control group|cgroup|controller/.test(ended.stderr)) return t.skip('this host has no memory limit to give');
  if (/no runtime|not found/.test(ended.stderr)) return t.skip(ended.stderr);
  assert.notEqual(ended.code, 0, ended.stdout);
  const lifted = await python('--memory', '600m');
  assert.equal(lifted.stdout.trim(), '256000000', lifted.stderr);
});

test('jail.command_seconds ends a command; --timeout and a terminal have the last word', async (t) => {
  const file = join(tempDir(t), 'config.toml');
  writeFileSync(file, '[jail]\ncommand_seconds = 1\n');
  const ended = await run(['exec', '--config', file, '--', 'sleep', '600']);
  if (ended.code === 125) return t.skip(`no jails here: ${ended.stderr}`);
  assert.equal(ended.code, 124, ended.stderr);
  assert.match(ended.stderr, /ended after 1000 ms, the limit of jail\.command_seconds of the configuration; give a larger --timeout, or 'none'/);
  for (const none of ['0', '0s', 'none']) {
    const whole = await run(['exec', '--config', file, '--timeout', none, '--', 'sleep', '1.5']);
    assert.equal(whole.code, 0, whole.stderr);
  }
  const shell = await run(['exec', '--config', file, '--tty', '--', 'sleep', '1.5']);
  assert.equal(shell.code, 0, shell.stderr);
});

test('a wrong key is named, and nothing runs', async (t) => {
  const file = join(tempDir(t), 'config.toml');
  writeFileSync(file, '[jail]\nmemry_mb = 32\n');
  const refused = await run(['exec', '--config', file, '--', 'echo', 'ran']);
  assert.equal(refused.code, 2);
  assert.equal(refused.stdout, '');
  assert.match(refused.stderr, /jail\.memry_mb: unknown key; did you mean memory_mb\?/);
});

// systemd mounts binfmt_misc there. Without privilege a mount is copied only with what is mounted below it.
test('an ordinary user has jails where something is mounted below /proc', (t) => {
  if (process.getuid() !== 0) return t.skip('only root can mount it and become another user');
  const dir = tempDir(t), program = join(dir, 'sandglass');
  copyFileSync(BIN, program);
  chmodSync(dir, 0o777);
  chmodSync(program, 0o755);
  const script = 'mount -t tmpfs none /proc/sys/fs/binfmt_misc && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$0" exec --memory none --cpus none -- echo ran';
  const ended = spawnSync('unshare', ['-m', 'sh', '-c', script, program], { encoding: 'utf8', cwd: dir, env: { ...process.env, HOME: dir } });
  assert.equal(ended.stdout, 'ran\n', ended.stderr);
});
