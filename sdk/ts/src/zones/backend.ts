import type { ZonePath } from './path.js';

/** Bytes of one file, read or written. */
export const FILE_MAX = 32 << 20;
/** Names of one directory. */
export const LIST_MAX = 10000;

/** Where the zones lie. Paths are checked and without "."; errors are ZoneErrors. */
export interface ZoneBackend {
  read(at: ZonePath): Promise<Uint8Array>;
  write(at: ZonePath, content: Uint8Array): Promise<void>;
  delete(at: ZonePath, recursive: boolean): Promise<void>;
  exists(at: ZonePath): Promise<boolean>;
  list(at: ZonePath): Promise<string[]>;
  resolve(at: ZonePath): Promise<string>;
  close(): Promise<void>;
}
