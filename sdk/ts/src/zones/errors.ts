import { SandglassError } from '../errors.js';

/** What a zone's verb can answer instead of what was asked for. */
export type ZoneCode = 'NOT_FOUND' | 'NOT_A_FILE' | 'NOT_A_DIRECTORY' | 'TOO_LARGE' | 'TOO_MANY_RESULTS' |
  'INVALID_PATTERN' | 'PATTERN_TOO_COMPLEX' | 'NO_MATCH' | 'AMBIGUOUS_MATCH' | 'PATH_ESCAPES' | 'READ_ONLY' | 'ZONE_NOT_CONFIGURED' |
  'INVALID' | 'CONFLICT' | 'NO_SPACE' | 'FORBIDDEN' | 'UNAVAILABLE';

/** An error of the zone façade; the same code from every backend for the same cause. */
export class ZoneError extends SandglassError {
  override name = 'ZoneError';
  declare readonly code: ZoneCode;

  constructor(code: ZoneCode, message: string, path?: string, cause?: unknown) {
    super(code, message, { ...(path === undefined ? {} : { path }), ...(cause === undefined ? {} : { cause }) });
  }
}

const known = new Set<string>(['NOT_FOUND', 'NOT_A_FILE', 'NOT_A_DIRECTORY', 'TOO_LARGE', 'TOO_MANY_RESULTS',
  'INVALID_PATTERN', 'PATTERN_TOO_COMPLEX', 'NO_MATCH', 'AMBIGUOUS_MATCH', 'PATH_ESCAPES', 'READ_ONLY', 'ZONE_NOT_CONFIGURED', 'INVALID',
  'CONFLICT', 'NO_SPACE', 'FORBIDDEN']);

/** The server's error code, in capitals. */
export function zoneErrorOf(error: unknown, path: string): unknown {
  if (!(error instanceof SandglassError) || error instanceof ZoneError) return error;
  const code = error.code.toUpperCase();
  if (known.has(code)) return new ZoneError(code as ZoneCode, error.message, path, error);
  return error.code === 'unavailable' ? new ZoneError('UNAVAILABLE', error.message, path, error) : error;
}
