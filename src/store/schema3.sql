-- Version 3.

-- Volumes of no session had the time to live of the configuration; now they stay unless one is given.
UPDATE session_volumes SET ttl_ms = 0 WHERE session IS NULL AND ttl_ms = 1800000;

-- When a session's volume expired; 0: it did not, or a run has reported it.
ALTER TABLE sessions ADD COLUMN volume_expired_ms INTEGER NOT NULL DEFAULT 0;

-- How much a log's row has before it in its stream (-1: not known), and how much a log misses.
ALTER TABLE command_logs ADD COLUMN at INTEGER NOT NULL DEFAULT -1;
ALTER TABLE command_logs ADD COLUMN lines INTEGER NOT NULL DEFAULT -1;
ALTER TABLE commands ADD COLUMN missing INTEGER NOT NULL DEFAULT 0;
UPDATE commands SET missing = max(log_end - 2097152, 0) WHERE truncated <> 0;
DROP INDEX commands_ended;
CREATE INDEX commands_ended ON commands (tenant, ended_ms, log_end, missing) WHERE state = 1;

-- Which interpreters hold variables and which losses no run has told yet (engine/sandbox/ledger.h); JSON.
ALTER TABLE sandboxes ADD COLUMN variables TEXT;
ALTER TABLE sessions ADD COLUMN variables TEXT;

-- A limit of 30 s for each command and of 5 min for each sandbox was the default; now both are set
-- only when asked for.
UPDATE sandboxes SET spec = json_remove(spec, '$.execMs')
    WHERE tier = 'jail' AND json_extract(spec, '$.execMs') = 30000;
UPDATE sandboxes SET timeout_ms = 0 WHERE timeout_ms = 300000;

-- Of snapshots of dependencies: what their build found, a JSON array (engine/snapshot/snapshot_packages.c).
ALTER TABLE snapshots ADD COLUMN packages TEXT;

-- Where the files of a sandbox lie: a directory below disks/, above what `image` names.
ALTER TABLE sandboxes ADD COLUMN disk TEXT;

-- Labels of volumes, as of sandboxes: JSON, an object of strings.
ALTER TABLE session_volumes ADD COLUMN metadata TEXT;

-- Automatic checkpoints of /workspace (engine/sandbox/turn.h); JSON.
ALTER TABLE sandboxes ADD COLUMN turns TEXT;
ALTER TABLE sessions ADD COLUMN turns TEXT;
