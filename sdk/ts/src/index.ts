/** Client of sandglass, a self-hosted code sandbox for AI agents. */
export { Client, type CallOptions, type ClientOptions } from './client.js';
export { CodeBox, type CodeBoxOutput, type CodeBoxStatus } from './codebox.js';
export { Command, Commands, type CommandLine, type CommandOptions, type CommandOutput, type CommandResult } from './commands.js';
export * from './errors.js';
export { Files, type FileContent, type GrepOptions, type ListOptions, type SignOptions, type WriteOptions } from './files.js';
export { Pty, Ptys, type AttachOptions, type PtyOptions } from './pty.js';
export { runOnce } from './once.js';
export type { ChangedFile, RunError, RunOptions, RunResult, RunValue } from './run.js';
export type { Connection } from './objects.js';
export { Sandbox, type SandboxChange, type SandboxFilter } from './sandbox.js';
export { Session, type SessionSpec } from './session.js';
export { Snapshot, type SnapshotSpec } from './snapshot.js';
export { systemPrompt, type ToolAnswer, type ToolImage, type ToolName, type ToolTarget } from './tools.js';
export { toolTable } from './tool_table.js';
export type * from './types.js';
export { Volume, type VolumeSpec } from './volume.js';
export { ZoneError, type ZoneCode } from './zones/errors.js';
export { connectSandbox, createSandbox, type ZoneGlobOptions, type ZoneGrepOptions, type ZoneSandbox, type ZonesOptions } from './zones/zones.js';
