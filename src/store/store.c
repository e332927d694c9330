/* The store's thread: what comes while it works waits on the loop and goes over as one group, in
 * one transaction. */

#include "store/store.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "store/internal.h"

enum { FILE_THREADS = 3, QUEUE_MAX = 1 << 20, LAZY_MAX = 64 };

/* --- On the store's thread --- */

/* The words around a group, prepared once. */
static int store_say(struct store *store, enum store_slot slot, struct err *err)
{
    static const char *const words[] = {
        [0] = "BEGIN IMMEDIATE",
        [STORE_SLOT_COMMIT - STORE_SLOT_BEGIN] = "COMMIT",
        [STORE_SLOT_ROLLBACK - STORE_SLOT_BEGIN] = "ROLLBACK",
        [STORE_SLOT_SAVE - STORE_SLOT_BEGIN] = "SAVEPOINT op",
        [STORE_SLOT_RELEASE - STORE_SLOT_BEGIN] = "RELEASE op",
        [STORE_SLOT_BACK - STORE_SLOT_BEGIN] = "ROLLBACK TO op",
    };
    struct stmt *stmt = NULL;
    return store_stmt(store, slot, words[slot - STORE_SLOT_BEGIN], &stmt, err) < 0
               ? -1
               : stmt_run(stmt, err);
}

static int set_strength(struct store *store, bool is_quick, struct err *err)
{
    if (store->is_quick == is_quick)
        return 0;
    if (db_exec(store->db, is_quick ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL",
                err) < 0)
        return -1;
    store->is_quick = is_quick;
    return 0;
}

/* Each operation runs in a savepoint, so that a failing one does not undo the others. A single
 * operation has the whole transaction. */
static void run_op(struct store *store, struct store_op *op, bool is_alone)
{
    struct err err = {0};
    if (!op->writes || is_alone) {
        op->failed = op->run(store, op, &op->err) < 0;
        return;
    }
    op->failed =
        store_say(store, STORE_SLOT_SAVE, &op->err) < 0 || op->run(store, op, &op->err) < 0;
    /* A full disk may have ended the whole transaction; run_group sees to that. */
    if (!db_in_transaction(store->db))
        return;
    if (op->failed && store_say(store, STORE_SLOT_BACK, &err) < 0)
        return;
    if (store_say(store, STORE_SLOT_RELEASE, &err) < 0 && !op->failed) {
        op->failed = true;
        op->err = err;
    }
}

static void fail_writes(struct store_op *group, const struct err *err)
{
    for (struct store_op *op = group; op != NULL; op = op->next)
        if (op->writes && !op->failed) {
            op->failed = true;
            op->err = *err;
        }
}

static int commit(struct store *store, struct err *err)
{
    CRASH_POINT("store.txn.before_commit");
    int64_t begun = clock_now_ns();
    if (store_say(store, STORE_SLOT_COMMIT, err) < 0)
        return -1;
    store->commit_ns = clock_now_ns() - begun;
    CRASH_POINT("store.txn.after_commit");
    return 0;
}

static int write_group(struct store *store, bool durable, struct err *err)
{
    if (set_strength(store, !durable, err) < 0 || store_say(store, STORE_SLOT_BEGIN, err) < 0)
        return -1;
    CRASH_POINT("store.txn.begun");
    bool is_alone = store->group->next == NULL;
    for (struct store_op *op = store->group; op != NULL; op = op->next) {
        run_op(store, op, is_alone);
        if (!db_in_transaction(store->db) || (is_alone && op->failed))
            return err_set(err, op->failed ? op->err.code : ERR_UNAVAILABLE, "%s",
                           op->failed ? op->err.msg : "store: the transaction was rolled back");
    }
    return commit(store, err);
}

static void run_group(struct job *job)
{
    struct store *store = CONTAINER_OF(job, struct store, job);
    struct err err = {0}, ignored = {0};
    bool writes = false, durable = false;
    for (struct store_op *op = store->group; op != NULL; op = op->next) {
        writes |= op->writes;
        durable |= op->durable;
    }
    if (!writes) {
        for (struct store_op *op = store->group; op != NULL; op = op->next)
            run_op(store, op, true);
        return;
    }
    if (write_group(store, durable, &err) < 0) {
        fail_writes(store->group, &err);
        if (db_in_transaction(store->db) && store_say(store, STORE_SLOT_ROLLBACK, &ignored) < 0)
            return;
    }
    store->is_synced = durable;
    store->log_frames = db_log_frames(store->db);
    if (store->log_frames > STORE_FRAMES_MAX)
        (void)!db_exec(store->db, "PRAGMA wal_checkpoint(RESTART)", &ignored);
}

/* --- On the loop --- */

static void start_group(struct store *store, bool is_due);

static void group_done(struct job *job, UNUSED bool canceled)
{
    struct store *store = CONTAINER_OF(job, struct store, job);
    struct store_op *op = store->group;
    store->group = NULL;
    store->is_busy = false;
    store->figures.transactions++;
    store->figures.last_commit_ns = store->commit_ns;
    store->figures.commit_ns += store->commit_ns;
    store->figures.slowest_commit_ns = MAX(store->figures.slowest_commit_ns, store->commit_ns);
    if (!store->is_closing)
        behind_commit(store);
    /* Starts the next group before the call-backs of this one. */
    start_group(store, false);
    CRASH_POINT("store.txn.before_ack");
    while (op != NULL) {
        struct store_op *next = op->next;
        store->figures.batches += op->writes ? 1 : 0;
        store->figures.failures += op->failed ? 1 : 0;
        op->done(op, op->failed ? &op->err : NULL);
        op = next;
    }
    CRASH_POINT("store.txn.after_ack");
}

static void start_group(struct store *store, bool is_due)
{
    struct err err = {0};
    if (store->is_busy || store->first == NULL)
        return;
    /* Only lazy operations wait: a later one that is not lazy can take them along. */
    if (store->lazy_count == store->figures.waiting && store->lazy_count < LAZY_MAX && !is_due &&
        !store->is_closing) {
        if (!timer_is_set(store->lazy_timer))
            timer_set(store->lazy_timer, STORE_LAZY_MS, 0);
        return;
    }
    store->group = store->first;
    store->first = store->last = NULL;
    store->figures.waiting = store->lazy_count = 0;
    timer_clear(store->lazy_timer);
    store->is_busy = true;
    store->job = (struct job){.run = run_group, .done = group_done};
    int taken = pool_submit(store->pool, &store->job, &err);
    assert(taken == 0); /* one job at a time */
}

void store_submit(struct store *store, struct store_op *op)
{
    loop_assert(store->loop);
    op->next = NULL;
    if (store->last == NULL)
        store->first = op;
    else
        store->last->next = op;
    store->last = op;
    store->figures.waiting++;
    store->lazy_count += op->lazy;
    start_group(store, false);
}

static void on_lazy_time(void *ctx)
{
    start_group(ctx, true);
}

struct store_figures store_figures(const struct store *store)
{
    loop_assert(store->loop);
    return store->figures;
}

/* --- Opening and closing --- */

static int open_all(struct store *store, struct err *err)
{
    if (store_hold(store, err) < 0 || store_open_db(store, err) < 0)
        return -1;
    behind_open(store);
    store->lazy_timer = timer_new(store->loop, on_lazy_time, store);
    return pool_open(store->loop, 1, QUEUE_MAX, &store->pool, err) < 0 ||
                   pool_open(store->loop, FILE_THREADS, QUEUE_MAX, &store->files_pool, err) < 0
               ? -1
               : 0;
}

int store_open(struct loop *loop, const char *dir, struct store **ret_store, struct err *err)
{
    loop_assert(loop);
    AUTO_STORE struct store *store = mem_alloc(sizeof *store);
    store->loop = loop;
    store->dir = mem_dup_cstr(dir);
    store->dir_fd = store->lock_fd = store->blobs_fd = -1;
    store->is_synced = true;
    if (open_all(store, err) < 0)
        return err_wrap(err, "open the store in '%s'", dir);
    *ret_store = store;
    store = NULL;
    return 0;
}

struct store *store_free(struct store *store)
{
    if (store == NULL)
        return NULL;
    struct err err = {0};
    store->is_closing = true;
    (void)pool_free(store->files_pool);
    if (store->pool != NULL)
        start_group(store, true);
    while (store->is_busy || store->first != NULL)
        loop_run_posted(store->loop);
    (void)pool_free(store->pool);
    (void)timer_free(store->lazy_timer);
    behind_close(store);
    for (size_t i = 0; i < STORE_STMT_MAX; i++)
        (void)stmt_free(store->stmts[i]);
    if (store->db != NULL && store_close_db(store, &err) < 0)
        log_error("store.close", LOG_STR("error", err.msg));
    fd_close(&store->blobs_fd);
    fd_close(&store->dir_fd);
    fd_close(&store->lock_fd); /* last: another may open now */
    free(store->dir);
    free(store);
    return NULL;
}
