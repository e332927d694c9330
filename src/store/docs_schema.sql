-- Version 1 of docs.db: documents for search. Tables of store/docs.h.

-- Where documents come from: pages of a URL, a directory, an upload, a package; modules of a session.
CREATE TABLE doc_sources (
    id TEXT PRIMARY KEY NOT NULL,  -- by tenant, package and location
    tenant TEXT,                   -- NULL: of the configuration, for every tenant
    kind TEXT NOT NULL,            -- url, upload, package, directory, module
    package TEXT,
    location TEXT,        -- the URL, the path, the session of modules
    state TEXT NOT NULL,           -- waiting, ready, failed
    error TEXT,
    created_ms INTEGER NOT NULL,
    checked_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE doc_pages (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL REFERENCES doc_sources (id) ON DELETE CASCADE,
    path TEXT NOT NULL,            -- its URL, or its path in the source
    title TEXT,
    format INTEGER NOT NULL,       -- enum doc_format
    scope TEXT,           -- of modules: session or user
    etag TEXT,
    modified TEXT,        -- Last-Modified
    hash TEXT NOT NULL,            -- SHA-256 of the text
    updated_ms INTEGER NOT NULL,
    text BLOB NOT NULL,
    UNIQUE (source, path)
) STRICT;

-- Ranges of the text of a page.
CREATE TABLE doc_chunks (
    id INTEGER PRIMARY KEY,
    page INTEGER NOT NULL REFERENCES doc_pages (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,             -- by package, path and position
    hash TEXT NOT NULL,            -- of heading and text: names the vector
    heading TEXT,
    start INTEGER NOT NULL,
    length INTEGER NOT NULL,
    UNIQUE (page, position)
) STRICT;
CREATE INDEX doc_chunks_hash ON doc_chunks (hash);
CREATE INDEX doc_chunks_key ON doc_chunks (key);

-- Embeddings by content, so that content that moves is not embedded again.
CREATE TABLE doc_vectors (
    hash TEXT NOT NULL,
    model TEXT NOT NULL,
    vector BLOB NOT NULL,          -- a float, the scale; then one signed byte for each dimension
    PRIMARY KEY (hash, model)
) STRICT, WITHOUT ROWID;
