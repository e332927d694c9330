#include "store/blobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/map.h"
#include "base/sys.h"
#include "store/fault.h"
#include "store/internal.h"

#define TEMP_PREFIX "tmp-"

enum { NAME_SIZE = HASH_HEX_SIZE + 8 };

struct blob_job {
    struct job job;
    struct store *store;
    char hash[HASH_HEX_SIZE];
    struct buf bytes;
    struct store_hashes kept;
    int64_t grace_ms;
    int result;
    struct err err;
    store_blob_put_done *put_done;
    store_blob_get_done *get_done;
    store_done *sweep_done;
    void *ctx;
};

/* --- On a worker --- */

static int open_blobs(struct store *store, struct err *err)
{
    /* Synced where it is new: else a power cut takes it away with all that is safe inside. */
    int made = mkdirat(store->dir_fd, "blobs", 0700);
    if ((made < 0 && errno != EEXIST) || (made == 0 && STORE_IO(fsync(store->dir_fd)) < 0))
        return err_sys(err, errno, "make 'blobs'");
    int fd = openat(store->dir_fd, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_sys(err, errno, "open 'blobs'") : fd;
}

static int write_temp(int dir_fd, const char *name, struct str bytes, struct err *err)
{
    AUTO_CLOSE int fd =
        STORE_IO(openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd < 0)
        return err_sys(err, errno, "make a file in 'blobs'");
    CRASH_POINT("store.blob.temp_open");
    size_t half = bytes.len / 2;
    for (size_t at = 0; at < bytes.len;) {
        size_t end = at < half ? half : bytes.len;
        ssize_t wrote = STORE_IO(sys_write(fd, bytes.ptr + at, end - at));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return err_sys(err, errno, "write a blob");
        at += (size_t)wrote;
        CRASH_POINT("store.blob.half_written");
    }
    CRASH_POINT("store.blob.written");
    store_fault_slow_sync();
    /* A sync that failed is not tried again: the kernel may have dropped the pages. */
    return STORE_IO(fsync(fd)) < 0 ? err_sys(err, errno, "sync a blob") : 0;
}

static int put_blob(struct blob_job *job, int dir_fd, struct err *err)
{
    char temp[NAME_SIZE], id[ID_SIZE];
    struct stat st;
    hash_sha256_hex(buf_str(&job->bytes), job->hash);
    if (fstatat(dir_fd, job->hash, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (size_t)st.st_size == job->bytes.len) {
        /* It may be about to be swept: it is young again. */
        (void)utimensat(dir_fd, job->hash, NULL, AT_SYMLINK_NOFOLLOW);
        /* The process that wrote it may have ended before this sync. */
        return STORE_IO(fsync(dir_fd)) < 0 ? err_sys(err, errno, "sync 'blobs'") : 0;
    }
    id_new(id);
    (void)snprintf(temp, sizeof temp, TEMP_PREFIX "%s", id);
    if (write_temp(dir_fd, temp, buf_str(&job->bytes), err) < 0) {
        (void)unlinkat(dir_fd, temp, 0);
        return -1;
    }
    CRASH_POINT("store.blob.synced");
    if (STORE_IO(renameat(dir_fd, temp, dir_fd, job->hash)) < 0) {
        (void)err_sys(err, errno, "rename a blob");
        (void)unlinkat(dir_fd, temp, 0);
        return -1;
    }
    CRASH_POINT("store.blob.renamed");
    if (STORE_IO(fsync(dir_fd)) < 0)
        return err_sys(err, errno, "sync 'blobs'");
    CRASH_POINT("store.blob.dir_synced");
    return 0;
}

static int get_blob(struct blob_job *job, int dir_fd, struct err *err)
{
    char hash[HASH_HEX_SIZE];
    AUTO_CLOSE int fd = STORE_IO(openat(dir_fd, job->hash, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (fd < 0)
        return err_sys(err, errno, "open blob '%.12s'", job->hash);
    job->bytes.limit = STORE_BLOB_MAX;
    if (buf_read_all(&job->bytes, fd, err) < 0)
        return err_wrap(err, "read blob '%.12s'", job->hash);
    hash_sha256_hex(buf_str(&job->bytes), hash);
    if (strcmp(hash, job->hash) != 0)
        return err_set(err, ERR_INTERNAL,
                       "blob '%.12s' is damaged: its contents do not match its hash", job->hash);
    return 0;
}

/* Times of files are the wall clock's; one that lies in the future is not old. */
static bool is_old(int dir_fd, const char *name, int64_t grace_ms)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return false;
    int64_t mtime_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    return clock_date_ms() - mtime_ms >= grace_ms;
}

static int sweep(struct blob_job *job, int dir_fd, struct err *err)
{
    AUTO_MAP struct map kept = {0};
    VEC_EACH (hash, &job->kept.list)
        (void)map_put(&kept, str_of(*hash), job);
    int copy = dup(dir_fd);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        fd_close(&copy);
        return err_sys(err, errno, "read 'blobs'");
    }
    rewinddir(dir);
    for (const struct dirent *entry;
         (entry = readdir(dir)) != NULL;) { /* NOLINT(concurrency-mt-unsafe) */
        if (entry->d_name[0] == '.' || map_has(&kept, str_of(entry->d_name)))
            continue;
        if (is_old(dir_fd, entry->d_name, job->grace_ms))
            (void)unlinkat(dir_fd, entry->d_name, 0);
        CRASH_POINT("store.sweep.blob_gone");
    }
    (void)closedir(dir);
    return 0;
}

static void run_job(struct job *base)
{
    struct blob_job *job = (struct blob_job *)base;
    AUTO_CLOSE int dir_fd = open_blobs(job->store, &job->err);
    job->result = -1;
    if (dir_fd < 0)
        return;
    job->result = job->put_done != NULL   ? put_blob(job, dir_fd, &job->err)
                  : job->get_done != NULL ? get_blob(job, dir_fd, &job->err)
                                          : sweep(job, dir_fd, &job->err);
}

/* --- On the loop --- */

static void job_done(struct job *base, bool canceled)
{
    struct blob_job *job = (struct blob_job *)base;
    if (canceled)
        job->result = err_set(&job->err, ERR_CANCELED, "the store is closing");
    const struct err *why = job->result < 0 ? &job->err : NULL;
    if (job->put_done != NULL)
        job->put_done(job->ctx, job->hash, why);
    else if (job->get_done != NULL)
        job->get_done(job->ctx, buf_str(&job->bytes), why);
    else if (job->sweep_done != NULL)
        job->sweep_done(job->ctx, why);
    VEC_EACH (hash, &job->kept.list)
        free(*hash);
    vec_done(&job->kept.list);
    buf_done(&job->bytes);
    free(job);
}

static void submit(struct store *store, struct blob_job *job)
{
    struct err err = {0};
    job->store = store;
    job->job.run = run_job;
    job->job.done = job_done;
    if (store->is_closing || pool_submit(store->files_pool, &job->job, &err) < 0)
        job_done(&job->job, true);
}

void store_put_blob(struct store *store, struct buf *bytes, store_blob_put_done *done, void *ctx)
{
    struct blob_job *job = mem_alloc(sizeof *job);
    job->bytes = *bytes;
    *bytes = (struct buf){.limit = bytes->limit};
    job->put_done = done;
    job->ctx = ctx;
    submit(store, job);
}

void store_get_blob(struct store *store, struct str hash, store_blob_get_done *done, void *ctx)
{
    struct blob_job *job = mem_alloc(sizeof *job);
    if (hash.len == HASH_HEX_SIZE - 1)
        memcpy(job->hash, hash.ptr, hash.len); /* other names do not exist: NOT_FOUND */
    else
        (void)snprintf(job->hash, sizeof job->hash, "none");
    job->get_done = done;
    job->ctx = ctx;
    submit(store, job);
}

void store_sweep_blobs(struct store *store, struct store_hashes *kept, int64_t grace_ms,
                       store_done *done, void *ctx)
{
    struct blob_job *job = mem_alloc(sizeof *job);
    job->kept = *kept;
    *kept = (struct store_hashes){0};
    job->grace_ms = grace_ms;
    job->sweep_done = done;
    job->ctx = ctx;
    submit(store, job);
}
