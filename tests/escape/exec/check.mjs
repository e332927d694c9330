// Verdicts shared by the cases.

import assert from 'node:assert/strict';

export class Skip extends Error {}

/** A case that this host cannot run says so; tests/skips.txt lists the reasons that the gate accepts. */
export function skip(reason) {
  throw new Skip(reason);
}

/** The probe ran to its end, so that its silence means something. */
export function assertRan(result) {
  const text = `status ${result.status} signal ${result.signal}\n` +
    `stdout: ${result.stdout.slice(-1500)}\nstderr: ${result.stderr.slice(-1500)}`;
  assert.equal(result.overdue, false, `did not end\n${text}`);
  assert.equal(result.findings.last.done, '1', `the probe did not finish: ${text}`);
  return result.findings;
}

/** Findings against a table name -> value, or list of values that will do. */
export function assertFindings(found, table) {
  const wrong = [];
  for (const [name, wanted] of Object.entries(table)) {
    const got = found.last[name];
    if (![wanted].flat().includes(got)) wrong.push(`${name}: ${got}, wanted ${[wanted].flat().join(' or ')}`);
  }
  assert.deepEqual(wrong, []);
}

/** Every control.* of a probe is an allowed thing and must have worked. */
export function assertControls(found, except = {}) {
  const wrong = found.all.filter(([name, value]) =>
    name.startsWith('control.') && value !== (except[name] ?? 'ok'));
  assert.deepEqual(wrong, []);
  assert.ok(found.all.some(([name]) => name.startsWith('control.')), 'the probe has a control');
}

/** The run was refused before any tenant code ran, and says why. */
export function assertRefused(result, reason) {
  assert.notEqual(result.status, 0, `was not refused: ${result.stdout}`);
  assert.equal(result.findings?.last.done ?? undefined, undefined, 'tenant code ran');
  assert.match(result.stderr, reason);
}

export function outcome(json) {
  return { exitCode: json.exitCode, signal: json.signal ?? null, reason: json.reason ?? null };
}

/** Signals come as a number or a name. */
export function signalNumber(signal) {
  const names = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGILL: 4, SIGABRT: 6, SIGFPE: 8, SIGKILL: 9,
    SIGUSR1: 10, SIGSEGV: 11, SIGPIPE: 13, SIGALRM: 14, SIGTERM: 15, SIGSYS: 31 };
  return typeof signal === 'number' ? signal : names[signal] ?? names[`SIG${signal}`] ?? null;
}

export async function eventually(condition, what, ms = 120_000) {
  const { setTimeout: sleep } = await import('node:timers/promises');
  for (const start = Date.now(); Date.now() - start < ms; await sleep(20)) {
    const value = await condition();
    if (value) return value;
  }
  throw new Error(`did not happen: ${what}`);
}
