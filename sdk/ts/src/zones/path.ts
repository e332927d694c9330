import { ZoneError } from './errors.js';

/** /workspace: working files. /cache: downloads. */
export type Zone = 'workspace' | 'cache';
export const zoneNames: readonly Zone[] = ['workspace', 'cache'];

/** A path by its words: which zone, and the names below it. */
export interface ZonePath {
  zone: Zone;
  /** "" for the zone itself. */
  below: string;
  /** The whole of it without "." and "..". */
  path: string;
}

const PATH_MAX = 4096;
const NAME_MAX = 255;
const bytesOf = (text: string): number => new TextEncoder().encode(text).length;

/** The same words get the same answer from every backend, before any of them is asked. */
export function parseZonePath(path: string): ZonePath {
  if (typeof path !== 'string') throw new ZoneError('INVALID', 'a path must be a string');
  if (path.includes('\0')) throw new ZoneError('INVALID', 'the path contains a NUL byte', path);
  if (!path.startsWith('/')) throw new ZoneError('INVALID', `'${path}' is not absolute: paths begin with /workspace or /cache`, path);
  if (bytesOf(path) >= PATH_MAX) throw new ZoneError('INVALID', `the path has ${bytesOf(path)} bytes; the limit is ${PATH_MAX - 1}`, path);
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  const zone = names.shift();
  if (zone === undefined) throw new ZoneError('INVALID', `'${path}' is not below /workspace or /cache`, path);
  if (zone === '..') throw escapes(path);
  if (zone !== 'workspace' && zone !== 'cache')
    throw new ZoneError('ZONE_NOT_CONFIGURED', `no zone '/${zone}': paths begin with /workspace or /cache`, path);
  const kept: string[] = [];
  for (const name of names) {
    if (name !== '..') {
      if (bytesOf(name) > NAME_MAX) throw new ZoneError('INVALID', `a name in the path has ${bytesOf(name)} bytes; the limit is ${NAME_MAX}`, path);
      kept.push(name);
    } else if (kept.pop() === undefined) {
      throw escapes(path);
    }
  }
  const below = kept.join('/');
  return { zone, below, path: below === '' ? `/${zone}` : `/${zone}/${below}` };
}

function escapes(path: string): ZoneError {
  return new ZoneError('PATH_ESCAPES', `'${path}' is outside its zone`, path);
}
