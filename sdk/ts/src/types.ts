/** What the server says of its objects; see docs/API.md. Times are ISO 8601 texts. */

export type Tier = 'jail' | 'isolate' | 'memory';

export type SandboxState = 'creating' | 'running' | 'pausing' | 'paused' | 'resuming' | 'stopping' | 'stopped' |
  'failed' | 'interrupted';

export interface Limits {
  memoryMb?: number;
  diskMb?: number;
  cpus?: number;
  pids?: number;
  execMs?: number;
  netConnections?: number;
  netBytesPerSecond?: number;
  netBytesTotal?: number;
  netIdleMs?: number;
  netTotalMs?: number;
}

/** A key that code uses and never sees. */
export interface Secret {
  name?: string;
  value?: string;
  hosts?: string[];
  headers?: string[];
  /** Instead of all others: a [secrets.NAME] of the server. */
  config?: string;
}

/** What a sandbox shall be; everything may be left out. */
export interface SandboxSpec {
  tier?: Tier;
  runtime?: string;
  name?: string;
  /** Ids or slugs, lowest first. */
  snapshots?: string[];
  /** Id of the volume at /workspace. */
  volume?: string;
  env?: Record<string, string>;
  metadata?: Record<string, string>;
  limits?: Limits;
  /** "none", "public", or "allow HOST, ..."; nowhere when left out. */
  network?: string;
  secrets?: Secret[];
  /** -1 for no limit. */
  timeoutMs?: number;
  idleMs?: number;
  onTimeout?: 'pause' | 'kill';
}

export interface CheckpointInfo {
  id: string;
  name: string | null;
  createdAt: string;
}

/** An interpreter of a fork. */
export interface ForkedContext {
  id: string;
  /** It goes on with its variables; else it begins anew. */
  live: boolean;
  /** Why it begins anew. */
  reason?: string | null;
}

export interface SandboxInfo {
  id: string;
  name: string | null;
  tier: Tier;
  runtime: string;
  state: SandboxState;
  reason: string | null;
  session: string | null;
  volume: string | null;
  forkedFrom: string | null;
  /** In the answer to a fork alone: its interpreters, and whether their variables came along. */
  contexts?: ForkedContext[];
  snapshots: string[];
  metadata: Record<string, string>;
  limits: Limits;
  network: string;
  timeoutMs: number;
  idleMs: number;
  onTimeout: 'pause' | 'kill';
  createdAt: string;
  startedAt: string | null;
  activeAt: string | null;
  endedAt: string | null;
  expiresAt: string | null;
  checkpoints: CheckpointInfo[];
  version: number;
}

export interface CommandInfo {
  id: string;
  sandbox: string;
  argv: string[];
  command: string | null;
  cwd: string;
  tty: boolean;
  state: 'running' | 'ended';
  startedAt: string;
  endedAt: string | null;
  exitCode: number | null;
  signal: number | null;
  /** Why it ended: "exited", "timeout", "killed", ... */
  end: string | null;
  wallMs: number;
  logEnd: number;
  truncated: boolean;
}

export interface FileInfo {
  /** In lists: below the listed directory. */
  path: string;
  type: 'file' | 'directory' | 'symlink' | 'other';
  size: number;
  mode: number;
  modifiedAt: string;
  target?: string;
  etag?: string;
}

export interface Match {
  path: string;
  line: number;
  /** Of the match, in bytes from 1; 0 or absent when it is not known. */
  column?: number;
  text: string;
  /** A line around a match. */
  context?: boolean;
}

/** What glob found; `truncated`: there may be more. */
export interface PathList {
  paths: string[];
  truncated: boolean;
}

/** What grep found. */
export interface MatchList {
  matches: Match[];
  truncated: boolean;
}

export interface FileChange {
  type: 'created' | 'modified' | 'deleted' | 'moved' | 'overflow';
  path: string;
  from?: string;
  kind?: 'file' | 'directory';
}

export interface SessionInfo {
  id: string;
  name: string | null;
  state: 'dormant' | 'active';
  tier: Tier;
  sandbox: string | null;
  volume: string | null;
  warm: boolean;
  idleMs: number;
  createdAt: string;
  activeAt: string | null;
}

export interface VolumeInfo {
  id: string;
  name: string | null;
  session: string | null;
  region: string;
  tier: Tier;
  capacityMb: number;
  ttlMs: number;
  createdAt: string;
  usedAt: string | null;
  expiresAt: string | null;
  sandbox: string | null;
}

export interface SnapshotInfo {
  id: string;
  slug: string | null;
  tier: Tier;
  state: 'building' | 'ready' | 'failed';
  source: string;
  detail: string | null;
  createdAt: string;
  sizeBytes: number;
  users: number;
}

/** One page of a list: `next` is the `after` of the page behind it, null at the end. */
export interface Page {
  limit?: number;
  after?: string;
}
