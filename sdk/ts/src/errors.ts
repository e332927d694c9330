/**
 * What can go wrong, one class a family. `code` is the server's error code ("not_found",
 * "ambiguous_match", ...); see docs/API.md for the table.
 */
export class SandglassError extends Error {
  override name = 'SandglassError';
  /** The code of the API's table. */
  readonly code: string;
  /** HTTP status; 0 when no answer came. */
  readonly status: number;
  /** The file or member it is about. */
  readonly path: string | undefined;
  /** For the operator of the server: it is in the server's log. */
  readonly requestId: string | undefined;
  /** Milliseconds after which the server wants to be asked again. */
  readonly retryAfterMs: number | undefined;

  constructor(code: string, message: string, more: ErrorDetails = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.code = code;
    this.status = more.status ?? 0;
    this.path = more.path;
    this.requestId = more.requestId;
    this.retryAfterMs = more.retryAfterMs;
  }
}

export interface ErrorDetails {
  status?: number;
  path?: string;
  requestId?: string;
  retryAfterMs?: number;
  cause?: unknown;
}

/** The request itself is wrong. */
export class InvalidError extends SandglassError {
  override name = 'InvalidError';
}
/** The token is missing, wrong, or lacks the scope. */
export class AuthError extends SandglassError {
  override name = 'AuthError';
}
/** There is no such thing; a thing of another tenant is not there either. */
export class NotFoundError extends SandglassError {
  override name = 'NotFoundError';
}
/** It is in a state in which this cannot be done. */
export class ConflictError extends SandglassError {
  override name = 'ConflictError';
}
/** What a file or a path does not allow: its kind, its size, its place. */
export class FileError extends SandglassError {
  override name = 'FileError';
}
/** A quota, a rate or a size is used up. */
export class LimitError extends SandglassError {
  override name = 'LimitError';
}
/** It took longer than it may. */
export class TimeoutError extends SandglassError {
  override name = 'TimeoutError';
}
/** No answer came, or the server cannot answer now. */
export class UnavailableError extends SandglassError {
  override name = 'UnavailableError';
}
/** The server, or this tier of sandbox, cannot do it. */
export class UnsupportedError extends SandglassError {
  override name = 'UnsupportedError';
}

type ErrorClass = new (code: string, message: string, more?: ErrorDetails) => SandglassError;

/** One row a code; what is not here is a SandglassError. */
const families: Record<string, ErrorClass> = {
  invalid: InvalidError,
  bad_cwd: InvalidError,
  exec_format_error: InvalidError,
  not_executable: InvalidError,
  invalid_pattern: InvalidError,
  pattern_too_complex: InvalidError,
  method_not_allowed: InvalidError,
  unsupported_media_type: InvalidError,
  misdirected: InvalidError,
  unauthorized: AuthError,
  forbidden: AuthError,
  not_found: NotFoundError,
  program_not_found: NotFoundError,
  gone: NotFoundError,
  conflict: ConflictError,
  busy: ConflictError,
  canceled: ConflictError,
  not_a_file: FileError,
  not_a_directory: FileError,
  path_escapes: FileError,
  read_only: FileError,
  no_match: FileError,
  ambiguous_match: FileError,
  zone_not_configured: FileError,
  too_large: LimitError,
  too_many_results: LimitError,
  limit_reached: LimitError,
  no_space: LimitError,
  timeout: TimeoutError,
  unavailable: UnavailableError,
  unsupported: UnsupportedError,
};

/** The error of its family. */
export function errorOf(code: string, message: string, more: ErrorDetails = {}): SandglassError {
  // Only own properties: the code is what a server said, and may be "constructor".
  const Family = Object.hasOwn(families, code) ? families[code] ?? SandglassError : SandglassError;
  return new Family(code, message, more);
}
