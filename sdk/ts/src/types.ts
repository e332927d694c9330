/** What the server says of its objects; see docs/API.md. Times are ISO 8601 texts. */

/** `memory` has only files and executes nothing: for tests where jails cannot start. */
export type Tier = 'jail' | 'isolate' | 'memory';

export type SandboxState = 'creating' | 'running' | 'pausing' | 'paused' | 'resuming' | 'stopping' | 'stopped' |
  'failed' | 'interrupted';

/** Milliseconds; 0 and 'none' mean no limit. */
export type TimeLimit = number | 'none';

export interface Limits {
  memoryMb?: number;
  diskMb?: number;
  cpus?: number;
  pids?: number;
  execMs?: TimeLimit;
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
  /** "none", "public", or "allow HOST, ...". Default: "none". */
  network?: string;
  secrets?: Secret[];
  /** It is paused (or killed, see onTimeout) after this time, even if it is busy. Default: never. */
  timeoutMs?: TimeLimit;
  /** It is paused after this time without work. */
  idleMs?: TimeLimit;
  onTimeout?: 'pause' | 'kill';
  /** turn: /workspace is kept before each call that may change files, for undo() and diff(). */
  checkpoints?: 'manual' | 'turn';
}

/** What a sandbox uses; null is not known. */
export interface Usage {
  sandbox: string;
  /** `cpus`: cores in use since it was looked at last, or since its start. */
  cpu: { usedMs: number | null; cpus: number | null; limitCpus: number };
  memory: { bytes: number | null; peakBytes: number | null; limitBytes: number };
  disk: { bytes: number | null; limitBytes: number };
  /** Both ways, since the server started. */
  network: { bytes: number };
  /** Processes and their threads. */
  processes: { count: number | null; limit: number };
}

export interface CheckpointInfo {
  id: string;
  name: string | null;
  createdAt: string;
  /** Files that could not be copied and are left out; in the answer to its making. */
  skipped?: string | null;
  /** It was made by the server, of /workspace. */
  automatic?: boolean;
  /** The verb that an automatic one was made before. */
  before?: string;
  sizeBytes?: number;
}

export interface CheckpointList {
  mode: 'manual' | 'turn';
  checkpoints: CheckpointInfo[];
  /** Why the last automatic one was not made, and when. */
  note: string | null;
  noteAt: string | null;
}

/** What differs between two states of /workspace. */
export interface DiffResult {
  files: {
    path: string;
    change: 'added' | 'changed' | 'deleted';
    type: 'file' | 'symlink';
    sizeBefore: number | null;
    sizeAfter: number | null;
    /** Unified, of small text files. */
    text: string | null;
  }[];
  count: number;
  /** `files` is not all. */
  truncated: boolean;
}

/** An interpreter of a fork. */
export interface ForkedContext {
  id: string;
  /** It kept its variables; else it starts without them. */
  live: boolean;
  /** Why it started without its variables. */
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
  /** Files that the last checkpoint, fork, snapshot or pause could not copy. */
  skipped: string | null;
  /** Where its files lie: on disk they outlive the server. */
  storage: 'disk' | 'memory';
  /** Only in the response to a fork: its interpreters, and whether they kept their variables. */
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

/** An interpreter of a jail. */
export interface ContextInfo {
  id: string;
  runtime: string;
  language: string;
  cwd: string;
  /** cold: not started yet. */
  state: 'cold' | 'idle' | 'busy';
  /** Runs that wait for it. */
  waiting: number;
  executionCount: number;
  createdAt: string | null;
}

/** A port of a sandbox that others may reach. */
export interface PortInfo {
  port: number;
  public: boolean;
  /** By host name where the server has a domain, else by path. */
  url: string;
  path: string;
  createdAt: string | null;
}

export interface PortTokenInfo extends PortInfo {
  token: string;
  expiresAt: string;
  /** For a browser, token included. */
  openUrl: string;
}

export interface CommandInfo {
  id: string;
  sandbox: string;
  argv: string[];
  command: string | null;
  cwd: string;
  tty: boolean;
  state: 'running' | 'ended';
  /** In the sandbox, while it runs. */
  pid: number | null;
  startedAt: string;
  endedAt: string | null;
  exitCode: number | null;
  signal: number | null;
  /** Why it ended: "exited", "timeout", "killed", ... */
  end: string | null;
  durationMs: number;
  /** It has ended, but processes that it left running hold its output: the log may grow. */
  outputOpen: boolean;
  logEnd: number;
  /** The log has a gap: its middle was not kept. */
  truncated: boolean;
  /** How many bytes of the log were not kept. */
  missingBytes: number;
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
  /** How long its volume is kept after its last use; 0: without limit. */
  volumeTtlMs: number;
  /** null: never, or the volume is in use. */
  volumeExpiresAt: string | null;
  createdAt: string;
  activeAt: string | null;
  /** When its volume expired, until a run has reported it. */
  volumeExpiredAt: string | null;
}

export interface VolumeInfo {
  id: string;
  name: string | null;
  session: string | null;
  region: string;
  tier: Tier;
  capacityMb: number;
  ttlMs: number;
  metadata: Record<string, string>;
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

/** One page of a list: `next` is the `after` of the next page, null at the end. */
export interface Page {
  limit?: number;
  after?: string;
}
