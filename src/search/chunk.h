#pragma once

/* A document in the parts that search finds: sections, and pieces of long ones.
 *
 * Markdown and MDX are cut at `## ` headings that are not inside a code fence. A section longer
 * than CHUNK_BYTES is cut between paragraphs, code blocks and deeper headings; a piece then begins
 * with the last short paragraph of the piece before it. A short rest stays with its neighbour.
 * Every chunk is a range of the document, and has the path of the headings above it. A section
 * without content is no chunk.
 *
 * Plain text is cut between paragraphs, TypeScript declarations between declarations. Time and
 * memory are proportional to the document's size, which has a limit. */

#include "base/arena.h"

struct err;

enum {
    DOCUMENT_MAX = 4 << 20,
    CHUNK_BYTES = 1600,     /* about 400 tokens */
    CHUNK_BYTES_MAX = 2400, /* a paragraph or a code block longer than that is cut at a line */
    CHUNK_OVERLAP = 300,    /* of the paragraph that two pieces share, at most */
    CHUNK_REST = 320,       /* a last piece below that stays with the one before it */
    CHUNKS_PER_DOCUMENT = 20000,
    HEADING_MAX = 200, /* bytes of one heading */
};

/* HTML is converted to Markdown before it is cut; rows never have it. */
enum doc_format { DOC_MARKDOWN, DOC_TEXT, DOC_TYPES, DOC_HTML };
/* By the end of a path or URL; text when it says nothing. */
enum doc_format doc_format_of(struct str path);

struct chunk {
    struct str heading; /* "Title > Section > Part" */
    size_t start, len;  /* in the document, without blanks around */
};

struct chunked {
    struct str title; /* of the front matter, of `# `, or the one that was given */
    struct chunk *chunks;
    size_t count;
};

/* `text` must be UTF-8 without NUL: INVALID. TOO_LARGE: beyond the limits above. `title` is used
 * when the document has none. */
int chunk_document(struct str text, enum doc_format format, struct str title, struct arena *arena,
                   struct chunked *ret_chunked, struct err *err) MUST_USE;
