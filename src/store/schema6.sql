-- Version 6.

-- Requests for a person's decision, and the decisions. "state" is that of engine/approval; "told"
-- is 1 when the event of this state was published.
CREATE TABLE approvals (
    id              TEXT PRIMARY KEY NOT NULL,
    tenant          TEXT NOT NULL,
    ord             INTEGER NOT NULL UNIQUE,
    kind            TEXT NOT NULL,
    subject         TEXT NOT NULL,
    digest          TEXT NOT NULL,
    title           TEXT NOT NULL,
    detail          TEXT,             -- JSON
    sandbox         TEXT,
    state           TEXT NOT NULL,
    requested_by    TEXT,             -- the token's name, or its id
    requested_token TEXT,             -- the token's id
    requested_ms    INTEGER NOT NULL,
    expires_ms      INTEGER NOT NULL,
    decided_by      TEXT,
    decided_token   TEXT,
    decided_ms      INTEGER NOT NULL, -- 0: not decided
    note            TEXT,
    reason          TEXT,             -- why it is void
    ended_ms        INTEGER NOT NULL, -- when it became rejected, used, expired or void; 0: open
    told            INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
