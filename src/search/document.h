#pragma once

/* A document as search stores it: its text, its chunks and their terms.
 *
 * Documents are strangers' texts, so a confined process reads them (search/reader.h): it converts,
 * cuts and finds the terms (document_read), and writes one record. The daemon takes nothing of a
 * record on trust (document_take): every length, range and text of it is checked, so that a process
 * that a document has taken over can only say something wrong about documents that it was given,
 * which are of one tenant. Hashes and ids are not in the record; the daemon computes them. */

#include "base/arena.h"
#include "base/buf.h"
#include "search/chunk.h"
#include "search/words.h"

struct err;

enum {
    DOCUMENT_TITLE_MAX = 1024,
    DOCUMENT_HEADING_MAX = DOCUMENT_TITLE_MAX + 5 * (HEADING_MAX + 3), /* a path of headings */
    /* Of a text of `n` bytes: an identifier gives its parts and the whole, each behind a byte. */
    DOCUMENT_TERMS_FACTOR = 4,
};

/* A document that is to be read. */
struct document_ask {
    struct str title; /* used when the document has none; at most DOCUMENT_TITLE_MAX */
    struct str text;
    enum doc_format format;
    /* Only the terms of these chunks are wanted; NULL: it is cut now. */
    const struct chunk *chunks;
    size_t chunk_count;
};

struct document_chunk {
    struct str heading;
    size_t start, len;               /* in the text */
    struct str heading_terms, terms; /* search/terms.h */
};

struct document {
    struct str text;        /* that of the ask; of HTML the converted one */
    enum doc_format format; /* of the text */
    struct str title;
    struct document_chunk *chunks;
    size_t count;
};

/* Chunks of a document, with their terms, are as a record may have them. For those that were
 * stored.
 */
bool document_has_chunks(struct str text, const struct document_chunk *chunks, size_t count);

/* Appends the record. INVALID: it is no text; TOO_LARGE. Any bytes may come in. */
int document_read(const struct document_ask *ask, struct buf *record, struct err *err) MUST_USE;
/* A record that says why there is no document. */
void document_put_failure(struct buf *record, const struct err *why);

/* The largest record of a document. */
size_t document_record_max(const struct document_ask *ask);
/* Checks the record of `ask`. What is given points into the record, the ask and `arena`. INVALID:
 * the record is not one, or it gives the reason why there is no document (TOO_LARGE too). */
int document_take(struct str record, const struct document_ask *ask, struct arena *arena,
                  struct document *ret_document, struct err *err) MUST_USE;
