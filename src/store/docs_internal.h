#pragma once

/* Internals of docs*.c. */

#include "store/db.h"
#include "store/docs.h"

enum docs_slot {
    DOCS_SOURCE_PUT,
    DOCS_SOURCE_REMOVE,
    DOCS_SOURCE_EACH,
    DOCS_PAGE_PUT,
    DOCS_PAGE_CUT,
    DOCS_PAGE_TOUCH,
    DOCS_PAGE_REMOVE,
    DOCS_PAGE_LIST,
    DOCS_PAGE_FIND,
    DOCS_PAGE_GET,
    DOCS_CHUNK_PUT,
    DOCS_CHUNK_TERMS,
    DOCS_CHUNK_EACH,
    DOCS_CHUNK_GET,
    DOCS_VECTOR_PUT,
    DOCS_VECTOR_GET,
    DOCS_VECTOR_EACH,
    DOCS_VECTOR_SWEEP,
    DOCS_SLOTS,
};

struct docs {
    struct db *db;
    struct stmt *stmts[DOCS_SLOTS];
};

/* Prepared at first use. */
int docs_stmt(struct docs *docs, enum docs_slot slot, const char *sql, struct stmt **ret_stmt,
              struct err *err) MUST_USE;
/* Steps through the rows; the statement is reset afterwards. */
int docs_rows(struct stmt *stmt, void (*row)(void *ctx, struct stmt *stmt), void *ctx,
              struct err *err) MUST_USE;
