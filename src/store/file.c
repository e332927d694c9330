/* The store's files: the lock, the marks that distinguish a damaged store from a new one,
 * migrations. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/embed.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "store/fault.h"
#include "store/internal.h"

#define DB_NAME STORE_DB_NAME
#define WAL_NAME STORE_WAL_NAME
#define MADE_MARK "store.made" /* there is a store here: an empty one must not take its place */
#define OPEN_MARK "store.open" /* not closed in good order yet: its log must be there */
#define LOCK_NAME "store.lock"

enum { LOCK_WAIT_MS = 300, LOCK_STEP_MS = 10 };

extern const struct embed_file store_schema[];

int store_hold(struct store *store, struct err *err)
{
    store->dir_fd = open(store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->dir_fd < 0)
        return err_sys(err, errno, "open the directory");
    store->lock_fd =
        openat(store->dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (store->lock_fd < 0)
        return err_sys(err, errno, "open '" LOCK_NAME "'");
    struct stat st;
    if (fstat(store->lock_fd, &st) == 0)
        store->last_alive_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    /* A child that a killed daemon had just forked holds the lock until it executes its program. */
    const struct timespec moment = {0, LOCK_STEP_MS * 1000000};
    for (int waited = 0; waited < LOCK_WAIT_MS; waited += LOCK_STEP_MS) {
        if (flock(store->lock_fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            break;
        (void)nanosleep(&moment, NULL);
    }
    if (errno == EWOULDBLOCK)
        return err_set(err, ERR_BUSY, "another process is using it; stop that process first");
    return err_sys(err, errno, "lock '" LOCK_NAME "'");
}

void store_mark_alive(const struct store *store)
{
    (void)futimens(store->lock_fd, NULL);
}

int64_t store_last_alive_ms(const struct store *store)
{
    return store->last_alive_ms;
}

static bool is_there(const struct store *store, const char *name)
{
    struct stat st;
    return fstatat(store->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Synced with its directory: a mark that a power cut takes away marks nothing. */
static int put_mark(struct store *store, const char *name, struct err *err)
{
    if (fd_replace_file(store->dir_fd, name, STR(""), 0600, err) < 0)
        return -1;
    return STORE_IO(fsync(store->dir_fd)) < 0 ? err_sys(err, errno, "sync the directory") : 0;
}

static int remove_mark(struct store *store, const char *name, struct err *err)
{
    if (unlinkat(store->dir_fd, name, 0) < 0 && errno != ENOENT)
        return err_sys(err, errno, "remove '%s'", name);
    return STORE_IO(fsync(store->dir_fd)) < 0 ? err_sys(err, errno, "sync the directory") : 0;
}

/* Where a store was, an empty one would look like the loss of everything. */
static int check_files(struct store *store, bool *ret_is_new, struct err *err)
{
    struct stat st = {0};
    bool has_db = fstatat(store->dir_fd, DB_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (has_db && !S_ISREG(st.st_mode))
        return err_set(err, ERR_INTERNAL, "'" DB_NAME "' is not a regular file");
    bool was_made = is_there(store, MADE_MARK);
    bool was_closed = !is_there(store, OPEN_MARK);
    if (was_made && (!has_db || st.st_size == 0))
        return err_set(err, ERR_INTERNAL,
                       "'" DB_NAME "' is %s: put it back, or remove '" MADE_MARK
                       "' to start with an empty store",
                       has_db ? "empty" : "missing");
    if (was_made && !was_closed && !is_there(store, WAL_NAME))
        return err_set(err, ERR_INTERNAL,
                       "'" WAL_NAME "' is missing, and with it the last changes: put it back, or "
                       "remove '" OPEN_MARK "' to continue without them");
    *ret_is_new = !was_made;
    return 0;
}

/* One row for each version; those behind the store's own are run, each in one transaction with the
 * number that it leads to. */
static int migrate(struct store *store, int64_t from, struct err *err)
{
    const struct embed_file *row = store_schema + from;
    for (int64_t version = from + 1; version <= STORE_VERSION; version++, row++) {
        char sql[64];
        if (db_exec(store->db, "BEGIN IMMEDIATE", err) < 0 ||
            db_exec(store->db, row->bytes.ptr, err) < 0)
            return err_wrap(err, "migrate it to version %lld", (long long)version);
        (void)snprintf(sql, sizeof sql, "PRAGMA user_version=%lld; COMMIT", (long long)version);
        CRASH_POINT("store.migrate.before_commit");
        if (db_exec(store->db, sql, err) < 0)
            return err_wrap(err, "migrate it to version %lld", (long long)version);
        CRASH_POINT("store.migrate.after_commit");
    }
    return 0;
}

static int check_version(struct store *store, struct err *err)
{
    char text[96];
    int64_t version = 0;
    if (db_text(store->db, "PRAGMA quick_check(1)", text, sizeof text, err) < 0)
        return -1;
    if (strcmp(text, "ok") != 0)
        return err_set(err, ERR_INTERNAL, "it is damaged: %s; restore a backup", text);
    if (db_text(store->db, "PRAGMA user_version", text, sizeof text, err) < 0)
        return -1;
    if (!str_to_i64(str_of(text), 0, INT32_MAX, &version))
        return err_set(err, ERR_INTERNAL, "it is damaged: its version is '%s'", text);
    if (version > STORE_VERSION)
        return err_set(err, ERR_UNSUPPORTED,
                       "it was written by a newer sandglass (version %lld; this one supports up to "
                       "%d): use the newer one",
                       (long long)version, STORE_VERSION);
    return migrate(store, version, err);
}

/* The instance is written at each start, so that the log exists from here on. */
static int begin_instance(struct store *store, struct err *err)
{
    char text[ID_SIZE] = "";
    if (db_text(store->db, "SELECT value FROM meta WHERE id='instance'", text, sizeof text, err) <
        0)
        return -1;
    if (text[0] == '\0')
        id_new(text);
    struct store_meta row = {.id = STR("instance"), .value = str_of(text)};
    return store_row_put(store, &store_meta, &row, err);
}

int store_open_db(struct store *store, struct err *err)
{
    char path[PATH_MAX];
    bool is_new = false;
    if (check_files(store, &is_new, err) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "%s/" DB_NAME, store->dir);
    if (db_open(path, is_new, &store->db, err) < 0 || check_version(store, err) < 0 ||
        begin_instance(store, err) < 0)
        return -1;
    if (is_new && put_mark(store, MADE_MARK, err) < 0)
        return -1;
    CRASH_POINT("store.open.made");
    if (put_mark(store, OPEN_MARK, err) < 0)
        return -1;
    store->is_ours = true;
    return 0;
}

/* The log goes into the database, then the mark goes, then SQLite removes the log: at no moment is
 * there a mark without a log. What was not opened in good order is left as it was. */
int store_close_db(struct store *store, struct err *err)
{
    int done = 0;
    if (store->is_ours) {
        done = db_exec(store->db, "PRAGMA synchronous=FULL; PRAGMA wal_checkpoint(TRUNCATE)", err);
        CRASH_POINT("store.close.checkpointed");
        if (done == 0)
            done = remove_mark(store, OPEN_MARK, err);
        CRASH_POINT("store.close.unmarked");
    }
    if (done < 0 || !store->is_ours)
        db_keep_log(store->db);
    store->db = db_close(store->db);
    return done;
}
