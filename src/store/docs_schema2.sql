-- Version 2 of docs.db: the terms of each chunk, so that a start need not read the documents again.
-- Rows of version 1 have none: they are found at the next start.

ALTER TABLE doc_chunks ADD COLUMN heading_terms BLOB;               -- search/terms.h
ALTER TABLE doc_chunks ADD COLUMN terms BLOB;
ALTER TABLE doc_chunks ADD COLUMN terms_version INTEGER NOT NULL DEFAULT 0; -- 0: no terms
