// Brings the findings of probe_posture into a form that is the same on every host.

import fs from 'node:fs';

const inside = (value) => {
  const ids = value.split(/\s+/);
  return ids[0] !== '0' && new Set(ids).size === 1 ? '<inside>' : value;
};

/* Which id that is outside, a test looks up from outside. */
function idMap(value) {
  const [first, , count] = value.trim().split(/\s+/);
  return `${first === '0' ? first : '<inside>'} <outside> ${count}`;
}

const rules = {
  Uid: inside,
  Gid: inside,
  Groups: (value) => value.trim(),
  // NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE and their locks are asked for; more is no harm.
  Securebits: (value) => `0x${(Number(value) & 0xcf).toString(16)}`,
  uid_map: idMap,
  gid_map: idMap,
  cgroup: (value) => value.split(':').slice(2).join(':'),
  fd: (value) => (/^[012] /.test(value) ? value[0] : value),
};

/** The part that the requirements fix to the byte. */
export function exactPart(found, golden) {
  const names = [...new Set(golden.split('\n').filter(Boolean).map((line) => line.split('=')[0]))];
  const lines = [];
  for (const name of names) {
    let values = found.of(name).map((value) => rules[name]?.(value) ?? value);
    if (name.startsWith('ns.'))
      values = values.map((value) =>
        value === fs.readlinkSync(`/proc/self/ns/${name.slice(3)}`) ? 'same' : 'differs');
    if (name === 'cgroup') values = [...new Set(values)];
    if (name === 'fd') values.sort((a, b) => parseInt(a, 10) - parseInt(b, 10));
    lines.push(...(values.length ? values : ['<absent>']).map((value) => `${name}=${value}`));
  }
  return `${lines.join('\n')}\n`;
}

const ownTypes = /^(proc|tmpfs|devpts|mqueue|overlay|ramfs)$/;
const telling = /^(ro|rw|size=|nr_inodes=|max=|hidepid=|subset=|ptmxmode=)/;

export function parseMount(line) {
  const [left, right] = line.split(' - ');
  const [, , , , target, options, ...optional] = left.split(' ');
  const [type, , superOptions] = right.split(' ');
  return {
    target, type, options: options.split(','), propagation: optional.filter(Boolean),
    superOptions: superOptions.split(','),
  };
}

/** What the test gave to the jail, and what depends on the files of the host, is no choice. */
const given = /^\/(workspace|opt\/probes)$/;
const optional = /^\/(proc|etc)\/./;

function mountLine(line) {
  const mount = parseMount(line);
  const own = ownTypes.test(mount.type) && !given.test(mount.target);
  const flags = mount.options.filter((flag) => !/atime$|^idmapped$/.test(flag)).sort().join(',');
  const settings = own ? mount.superOptions.filter((o) => telling.test(o)).sort().join(',') : '-';
  return [mount.target, own ? mount.type : '<host>', flags, settings, ...mount.propagation].join(' ');
}

/** The part that the implementation chose: recorded once, then held. */
export function recordedPart(found) {
  return `${[
    ...found.of('cwd').map((value) => `cwd=${value}`),
    ...found.of('env').sort().map((value) => `env=${value}`),
    ...found.of('mount').filter((line) => !optional.test(parseMount(line).target)).map(mountLine).sort().map((value) => `mount=${value}`),
  ].join('\n')}\n`;
}

export function recordedAccess(found) {
  return `${found.all.filter(([name]) => name !== 'done').map(([n, v]) => `${n}=${v}`).join('\n')}\n`;
}

/** A difference that reads: lines with - are wanted, lines with + are what came. */
export function difference(wanted, got) {
  const [a, b] = [wanted.split('\n'), got.split('\n')];
  const minus = a.filter((line) => !b.includes(line)).map((line) => `- ${line}`);
  const plus = b.filter((line) => !a.includes(line)).map((line) => `+ ${line}`);
  return [...minus, ...plus].join('\n') || '(the same lines in another order)';
}
