-- Version 1. Dates are milliseconds since 1970; texts that are not known are NULL; "ord" is the
-- order of making, by which lists are paged.

CREATE TABLE meta (
    id    TEXT PRIMARY KEY NOT NULL,
    value TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE sandboxes (
    id          TEXT PRIMARY KEY NOT NULL,
    tenant      TEXT NOT NULL,
    ord         INTEGER NOT NULL UNIQUE,
    tier        TEXT NOT NULL,
    runtime     TEXT NOT NULL,
    state       TEXT NOT NULL,
    name        TEXT,
    reason      TEXT,
    session     TEXT,
    volume      TEXT,
    forked_from TEXT,
    spec        TEXT NOT NULL,        -- JSON: env, snapshots, limits
    metadata    TEXT,                 -- JSON: an object of strings
    network     TEXT,
    checkpoints TEXT,                 -- JSON: an array, oldest first
    image       TEXT,                 -- what was put aside, in the provider's words
    timeout_ms  INTEGER NOT NULL,
    idle_ms     INTEGER NOT NULL,
    kills       INTEGER NOT NULL,     -- at its timeout: 1 killed, 0 paused
    expires_ms  INTEGER NOT NULL,
    created_ms  INTEGER NOT NULL,
    started_ms  INTEGER NOT NULL,
    active_ms   INTEGER NOT NULL,
    ended_ms    INTEGER NOT NULL,
    version     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id         TEXT PRIMARY KEY NOT NULL,  -- tenant, NUL, the session's id
    tenant     TEXT NOT NULL,
    session    TEXT NOT NULL,
    ord        INTEGER NOT NULL UNIQUE,
    name       TEXT,
    sandbox    TEXT,
    volume     TEXT,
    spec       TEXT NOT NULL,              -- JSON: what its sandboxes shall be
    warm       INTEGER NOT NULL,
    idle_ms    INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    active_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE code_modules (
    id         TEXT PRIMARY KEY NOT NULL,  -- the session's row, NUL, path
    session    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    path       TEXT NOT NULL,
    source     TEXT,
    updated_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX code_modules_of_session ON code_modules (session);

CREATE TABLE session_volumes (
    id             TEXT PRIMARY KEY NOT NULL,
    tenant         TEXT NOT NULL,
    ord            INTEGER NOT NULL UNIQUE,
    name           TEXT,
    session        TEXT,
    slug           TEXT NOT NULL,
    region         TEXT NOT NULL,
    tier           TEXT NOT NULL,
    sandbox        TEXT,                   -- that writes it
    fence          INTEGER NOT NULL,
    capacity_bytes INTEGER NOT NULL,
    ttl_ms         INTEGER NOT NULL,
    created_ms     INTEGER NOT NULL,
    used_ms        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshots (
    id         TEXT PRIMARY KEY NOT NULL,
    tenant     TEXT NOT NULL,
    ord        INTEGER NOT NULL UNIQUE,
    slug       TEXT,
    tier       TEXT NOT NULL,
    state      TEXT NOT NULL,
    source     TEXT NOT NULL,
    detail     TEXT,
    image      TEXT,
    size_bytes INTEGER NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE commands (
    id         TEXT PRIMARY KEY NOT NULL,
    tenant     TEXT NOT NULL,
    ord        INTEGER NOT NULL UNIQUE,
    sandbox    TEXT NOT NULL,
    spec       TEXT NOT NULL,              -- JSON: argv or shell, cwd, user, tty
    state      INTEGER NOT NULL,
    end_reason INTEGER NOT NULL,
    code       INTEGER NOT NULL,
    signal     INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms   INTEGER NOT NULL,
    wall_us    INTEGER NOT NULL,
    user_us    INTEGER NOT NULL,
    system_us  INTEGER NOT NULL,
    peak_bytes INTEGER NOT NULL,
    log_end    INTEGER NOT NULL,
    bytes_out  INTEGER NOT NULL,
    bytes_err  INTEGER NOT NULL,
    bytes_tty  INTEGER NOT NULL,
    truncated  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Offsets count the bytes of all streams of one command in the order of their coming.
CREATE TABLE command_logs (
    command TEXT NOT NULL REFERENCES commands (id) ON DELETE CASCADE,
    start   INTEGER NOT NULL,
    stream  INTEGER NOT NULL,
    bytes   BLOB NOT NULL,
    PRIMARY KEY (command, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    id              TEXT PRIMARY KEY NOT NULL,
    tenant          TEXT NOT NULL,
    ord             INTEGER NOT NULL UNIQUE,
    name            TEXT,
    hash            TEXT NOT NULL UNIQUE,
    scopes          INTEGER NOT NULL,
    created_ms      INTEGER NOT NULL,
    expires_ms      INTEGER NOT NULL,
    sandboxes       INTEGER NOT NULL,
    memory_bytes    INTEGER NOT NULL,
    disk_bytes      INTEGER NOT NULL,
    rate_per_minute INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_keys (
    id           TEXT PRIMARY KEY NOT NULL,  -- tenant, NUL, the caller's key
    request_hash TEXT,
    object       TEXT NOT NULL,
    created_ms   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    seq     INTEGER PRIMARY KEY NOT NULL,
    date_ms INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    tenant  TEXT NOT NULL,
    id      TEXT NOT NULL,
    sandbox TEXT,
    state   TEXT,
    detail  TEXT
) STRICT;
CREATE INDEX events_of_tenant ON events (tenant, seq);
