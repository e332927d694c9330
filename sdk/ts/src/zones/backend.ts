import type { MatchList, PathList } from '../types.js';
import type { ZonePath } from './path.js';

/** Bytes of one file, read or written. */
export const FILE_MAX = 32 << 20;
/** Names of one directory. */
export const LIST_MAX = 10000;

export interface GlobAsked {
  /** `**`, `*`, `?`, `[a-z]`, `{a,b}`. */
  pattern: string;
  /** Also in .git, node_modules and .sandglass. */
  searchAll?: boolean;
  limit?: number;
}

export interface GrepAsked {
  /** A regular expression. */
  pattern: string;
  /** Only in files like "*.ts". */
  include?: string;
  ignoreCase?: boolean;
  /** Also in .git, node_modules and .sandglass. */
  searchAll?: boolean;
  limit?: number;
}

export interface EditAsked {
  old: string;
  new: string;
  all?: boolean;
}

/** Where the zones lie. Paths are checked and without "."; errors are ZoneErrors. */
export interface ZoneBackend {
  read(at: ZonePath): Promise<Uint8Array>;
  write(at: ZonePath, content: Uint8Array): Promise<void>;
  delete(at: ZonePath, recursive: boolean): Promise<void>;
  exists(at: ZonePath): Promise<boolean>;
  list(at: ZonePath): Promise<string[]>;
  resolve(at: ZonePath): Promise<string>;
  /** Paths begin with the zone, as the other verbs take them. */
  glob(at: ZonePath, asked: GlobAsked): Promise<PathList>;
  grep(at: ZonePath, asked: GrepAsked): Promise<MatchList>;
  /** How often it was replaced. */
  edit(at: ZonePath, asked: EditAsked): Promise<number>;
  close(): Promise<void>;
}
