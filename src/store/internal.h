#pragma once

/* Internals of the store, only for store/. */

#include "base/id.h"
#include "io/pool.h"
#include "store/db.h"
#include "store/store.h"

enum {
    STORE_FRAMES_FOLD = 1000, /* pages in the log from which it is folded into the database */
    STORE_FRAMES_MAX = 16000, /* and from which writing waits for that */
};
#define STORE_DB_NAME "sandglass.db"
#define STORE_WAL_NAME STORE_DB_NAME "-wal"

enum { STORE_STMT_MAX = 2 * STORE_TABLE_COUNT + 16 };

/* One thing to do on the store's thread; part of what asked for it. */
struct store_op {
    struct store_op *next;
    int (*run)(struct store *store, struct store_op *op, struct err *err);
    void (*done)(struct store_op *op, const struct err *why); /* on the loop; frees the op */
    bool writes, durable, lazy, failed;
    struct err err;
};

struct store {
    struct loop *loop;
    struct pool *pool;       /* of one thread: the one that has the database */
    struct pool *files_pool; /* blobs and syncs */
    char *dir;
    int dir_fd, lock_fd, blobs_fd;
    int64_t last_alive_ms;
    bool is_ours; /* marked as open */

    /* The loop's. */
    struct store_op *first, *last; /* not handed over yet */
    size_t lazy_count;             /* of batches that no caller waits for */
    bool is_busy, is_closing;
    struct timer *lazy_timer;
    struct timer *sync_timer;
    struct job sync_job, fold_job;
    bool sync_runs, fold_runs;
    struct store_figures figures;

    /* The job's while it runs. */
    struct job job;
    struct store_op *group;
    int64_t commit_ns;
    int log_frames;
    bool is_quick;  /* the connection's strength now */
    bool is_synced; /* nothing committed waits for a sync */
    struct db *db;
    struct stmt *stmts[STORE_STMT_MAX];
};

/* On the loop. Takes the op. */
void store_submit(struct store *store, struct store_op *op);
/* On whichever thread has the database. Prepares at first use. */
int store_stmt(struct store *store, size_t slot, const char *sql, struct stmt **ret_stmt,
               struct err *err) MUST_USE;

enum store_slot { /* behind the two of each table */
                  STORE_SLOT_EVENT = 2 * STORE_TABLE_COUNT,
                  STORE_SLOT_EVENT_CUT,
                  STORE_SLOT_LOG,
                  STORE_SLOT_LOG_CUT,
                  STORE_SLOT_LOG_READ,
                  STORE_SLOT_EVENT_READ,
                  STORE_SLOT_COMMAND,
                  STORE_SLOT_COMMANDS,
                  STORE_SLOT_COMMANDS_OF,
                  STORE_SLOT_COMMANDS_OLDEST,
                  STORE_SLOT_BEGIN,
                  STORE_SLOT_COMMIT,
                  STORE_SLOT_ROLLBACK,
                  STORE_SLOT_SAVE,
                  STORE_SLOT_RELEASE,
                  STORE_SLOT_BACK,
};

int store_row_put(struct store *store, const struct store_table *table, const void *row,
                  struct err *err) MUST_USE;
/* Reads the current row of a SELECT *; its texts are valid until the next step. */
void store_row_read(const struct store_table *table, struct stmt *stmt, void *row);
int store_row_remove(struct store *store, const struct store_table *table, struct str id,
                     struct err *err) MUST_USE;

/* behind.c: after each group, on the loop, while the store is not closing. */
void behind_open(struct store *store);
void behind_commit(struct store *store);
void behind_close(struct store *store);

/* file.c: lock, marks and migrations. */
int store_hold(struct store *store, struct err *err) MUST_USE;
int store_open_db(struct store *store, struct err *err) MUST_USE;
int store_close_db(struct store *store, struct err *err) MUST_USE;
