/* What the disk does behind the answers, on other threads: the log of quick commits is synced, and
 * a long one is folded into the database. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sys.h"
#include "store/fault.h"
#include "store/internal.h"

/* --- Syncing --- */

/* Frames of the log carry checksums, so all that reached the disk counts at the next start. */
static void run_sync(struct job *job)
{
    struct store *store = CONTAINER_OF(job, struct store, sync_job);
    store_fault_slow_sync();
    AUTO_CLOSE int fd = openat(store->dir_fd, STORE_WAL_NAME, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && STORE_IO(fdatasync(fd)) < 0)
        log_error("store.sync", LOG_INT("errno", errno));
}

static void sync_done(struct job *job, UNUSED bool canceled)
{
    struct store *store = CONTAINER_OF(job, struct store, sync_job);
    store->sync_runs = false;
}

static void on_sync_time(void *ctx)
{
    struct store *store = ctx;
    struct err err = {0};
    if (store->sync_runs) {
        timer_set(store->sync_timer, STORE_SYNC_MS, 0);
        return;
    }
    store->sync_job = (struct job){.run = run_sync, .done = sync_done};
    store->sync_runs = pool_submit(store->files_pool, &store->sync_job, &err) == 0;
}

/* --- Folding --- */

/* On its own connection, while the store's goes on writing. What is not checkpointed this time is
 * done the next time; the log starts again once all of it is. */
static void run_fold(struct job *job)
{
    struct store *store = CONTAINER_OF(job, struct store, fold_job);
    struct err err = {0};
    struct db *db = NULL;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/" STORE_DB_NAME, store->dir);
    if (db_open(path, false, &db, &err) < 0 ||
        db_exec(db, "PRAGMA wal_checkpoint(PASSIVE)", &err) < 0)
        log_warn("store.fold", LOG_STR("error", err.msg));
    (void)db_close(db);
}

static void fold_done(struct job *job, UNUSED bool canceled)
{
    struct store *store = CONTAINER_OF(job, struct store, fold_job);
    store->fold_runs = false;
}

/* --- On the loop --- */

void behind_open(struct store *store)
{
    store->sync_timer = timer_new(store->loop, on_sync_time, store);
}

void behind_commit(struct store *store)
{
    struct err err = {0};
    if (!store->is_synced && !timer_is_set(store->sync_timer))
        timer_set(store->sync_timer, STORE_SYNC_MS, 0);
    if (store->log_frames < STORE_FRAMES_FOLD || store->fold_runs)
        return;
    store->fold_job = (struct job){.run = run_fold, .done = fold_done};
    store->fold_runs = pool_submit(store->files_pool, &store->fold_job, &err) == 0;
}

void behind_close(struct store *store)
{
    store->sync_timer = timer_free(store->sync_timer);
}
