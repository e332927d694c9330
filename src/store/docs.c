/* docs.db: opening, versions, transactions. */

#include "store/docs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/embed.h"
#include "base/err.h"
#include "base/sys.h"
#include "store/docs_internal.h"

enum { FRAMES_FOLD = 1000 };

extern const struct embed_file docs_schema[];

int docs_stmt(struct docs *docs, enum docs_slot slot, const char *sql, struct stmt **ret_stmt,
              struct err *err)
{
    if (docs->stmts[slot] == NULL && db_prepare(docs->db, sql, &docs->stmts[slot], err) < 0)
        return -1;
    *ret_stmt = docs->stmts[slot];
    return 0;
}

int docs_rows(struct stmt *stmt, void (*row)(void *ctx, struct stmt *stmt), void *ctx,
              struct err *err)
{
    int got = 0;
    while ((got = stmt_step(stmt, err)) > 0)
        row(ctx, stmt);
    stmt_reset(stmt);
    return got;
}

static int migrate(struct docs *docs, struct err *err)
{
    char text[96];
    int64_t version = 0;
    if (db_text(docs->db, "PRAGMA user_version", text, sizeof text, err) < 0)
        return -1;
    if (!str_to_i64(str_of(text), 0, INT32_MAX, &version) || version > DOCS_VERSION)
        return err_set(
            err, ERR_UNSUPPORTED,
            "it was written by a newer sandglass (version %s; this one supports up to %d)", text,
            DOCS_VERSION);
    const struct embed_file *step = docs_schema + version;
    for (int64_t next = version + 1; next <= DOCS_VERSION; next++, step++) {
        (void)snprintf(text, sizeof text, "PRAGMA user_version=%lld; COMMIT", (long long)next);
        if (db_exec(docs->db, "BEGIN IMMEDIATE", err) < 0 ||
            db_exec(docs->db, step->bytes.ptr, err) < 0 || db_exec(docs->db, text, err) < 0)
            return -1;
    }
    return 0;
}

int docs_open(const char *dir, struct docs **ret_docs, struct err *err)
{
    char path[PATH_MAX];
    struct docs *docs = mem_alloc(sizeof *docs);
    (void)snprintf(path, sizeof path, "%s/docs.db", dir);
    if (db_open(path, true, &docs->db, err) < 0 ||
        db_exec(docs->db, "PRAGMA synchronous=NORMAL", err) < 0 || migrate(docs, err) < 0) {
        (void)docs_close(docs);
        return err_wrap(err, "open '%s'", path);
    }
    *ret_docs = docs;
    return 0;
}

struct docs *docs_close(struct docs *docs)
{
    if (docs == NULL)
        return NULL;
    for (size_t i = 0; i < DOCS_SLOTS; i++)
        (void)stmt_free(docs->stmts[i]);
    (void)db_close(docs->db);
    free(docs);
    return NULL;
}

int docs_begin(struct docs *docs, struct err *err)
{
    return db_exec(docs->db, "BEGIN IMMEDIATE", err);
}

void docs_rollback(struct docs *docs)
{
    struct err ignored = {0};
    if (db_in_transaction(docs->db))
        (void)!db_exec(docs->db, "ROLLBACK", &ignored);
}

int docs_commit(struct docs *docs, struct err *err)
{
    struct err ignored = {0};
    CRASH_POINT("docs.before_commit");
    if (db_exec(docs->db, "COMMIT", err) < 0) {
        docs_rollback(docs);
        return -1;
    }
    CRASH_POINT("docs.after_commit");
    if (db_log_frames(docs->db) > FRAMES_FOLD)
        (void)!db_exec(docs->db, "PRAGMA wal_checkpoint(PASSIVE)", &ignored);
    return 0;
}
