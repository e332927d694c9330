-- Version 4.

-- How long a session's volume is kept after its last use; 0: as configured, -1: without limit.
ALTER TABLE sessions ADD COLUMN volume_ttl_ms INTEGER NOT NULL DEFAULT 0;
