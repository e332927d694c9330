/* The one file that includes sqlite3.h. */

#include "store/db.h"

#include <errno.h>
#include <sqlite3.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sys.h"
#include "store/fault.h"

enum { BUSY_MS = 2000 };

struct db {
    sqlite3 *handle;
    int frames; /* of the log, at the last commit */
};
struct stmt {
    sqlite3_stmt *handle;
};

/* --- Errors --- */

static enum err_code db_code_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return ERR_NO_SPACE;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_NOMEM:
        return ERR_UNAVAILABLE;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_BUSY;
    default:
        return ERR_INTERNAL;
    }
}

static int db_fail(sqlite3 *handle, int rc, struct err *err)
{
    const char *text = handle == NULL ? sqlite3_errstr(rc) : sqlite3_errmsg(handle);
    int sys = handle == NULL ? 0 : sqlite3_system_errno(handle);
    (void)err_set(err, db_code_of(rc), "store: %s", text);
    if (db_code_of(rc) == ERR_UNAVAILABLE)
        err->sys = sys;
    /* A full disk shows as an I/O error in some places. */
    if (err->code == ERR_UNAVAILABLE && (sys == ENOSPC || sys == EDQUOT))
        err->code = ERR_NO_SPACE;
    return -1;
}

/* --- Calls that tests can fail --- */

#ifdef SG_FAULTS
/* The system's own file methods with four of them led past store/fault. SQLite has a few sets of
 * them, by the kind of locking. */
enum { METHOD_SETS = 4 };
static struct {
    const sqlite3_io_methods *real;
    sqlite3_io_methods ours;
} method_sets[METHOD_SETS];
static int (*real_open)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);

static const sqlite3_io_methods *real_of(const sqlite3_file *file)
{
    for (size_t i = 0; i < METHOD_SETS; i++)
        if (file->pMethods == &method_sets[i].ours)
            return method_sets[i].real;
    abort();
}

static int fault_read(sqlite3_file *file, void *out, int size, sqlite3_int64 at)
{
    return store_fault_now() ? SQLITE_IOERR_READ : real_of(file)->xRead(file, out, size, at);
}

/* Writes half of the bytes: a failing write may leave anything on the disk. */
static int fault_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 at)
{
    if (!store_fault_now())
        return real_of(file)->xWrite(file, bytes, size, at);
    int code = errno == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    (void)real_of(file)->xWrite(file, bytes, size / 2, at);
    return code;
}

static int fault_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return store_fault_now() ? SQLITE_IOERR_TRUNCATE : real_of(file)->xTruncate(file, size);
}

static int fault_sync(sqlite3_file *file, int flags)
{
    store_fault_slow_sync();
    return store_fault_now() ? SQLITE_IOERR_FSYNC : real_of(file)->xSync(file, flags);
}

static int fault_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *got)
{
    file->pMethods = NULL;
    int rc = store_fault_now() ? SQLITE_CANTOPEN : real_open(vfs, name, file, flags, got);
    for (size_t i = 0; rc == SQLITE_OK && i < METHOD_SETS; i++) {
        if (method_sets[i].real == NULL) {
            method_sets[i].real = file->pMethods;
            method_sets[i].ours = *file->pMethods;
            method_sets[i].ours.xRead = fault_read;
            method_sets[i].ours.xWrite = fault_write;
            method_sets[i].ours.xTruncate = fault_truncate;
            method_sets[i].ours.xSync = fault_sync;
        }
        if (method_sets[i].real == file->pMethods) {
            file->pMethods = &method_sets[i].ours;
            break;
        }
    }
    return rc;
}

/* The library's own writes: those that this one calls `write` or `pwrite`. */
static void replace_writes(sqlite3_vfs *vfs)
{
    if (vfs->iVersion < 3 || vfs->xSetSystemCall == NULL)
        return;
    (void)vfs->xSetSystemCall(vfs, "write", (sqlite3_syscall_ptr)sys_write);
    (void)vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)sys_pwrite);
    (void)vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)sys_pwrite);
}

static void install_faults(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    if (vfs->xOpen == fault_open)
        return;
    replace_writes(vfs);
    real_open = vfs->xOpen;
    vfs->xOpen = fault_open;
}
#else
static void install_faults(void)
{
}
#endif

/* --- A connection --- */

/* Nothing that the file says is trusted to run; a bad cell is found where it is read. */
static const char *const setup[] = {
    "PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON", "PRAGMA foreign_keys=ON",
    "PRAGMA journal_mode=WAL",   "PRAGMA synchronous=FULL",   "PRAGMA journal_size_limit=67108864",
    "PRAGMA temp_store=MEMORY",  "PRAGMA cache_size=-2048",
};

/* Takes the place of SQLite's own checkpoints, which would let a commit wait for the disk. */
static int on_commit(void *ctx, UNUSED sqlite3 *handle, UNUSED const char *name, int frames)
{
    struct db *db = ctx;
    db->frames = frames;
    return SQLITE_OK;
}

int db_open(const char *path, bool create, struct db **ret_db, struct err *err)
{
    install_faults();
    sqlite3 *handle = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(path, &handle, flags, NULL);
    if (rc != SQLITE_OK) {
        (void)db_fail(handle, rc, err);
        (void)sqlite3_close(handle);
        return -1;
    }
    (void)sqlite3_extended_result_codes(handle, 1);
    (void)sqlite3_busy_timeout(handle, BUSY_MS);
    struct db *db = mem_alloc(sizeof *db);
    db->handle = handle;
    (void)sqlite3_wal_hook(handle, on_commit, db);
    for (size_t i = 0; i < countof(setup); i++)
        if (db_exec(db, setup[i], err) < 0) {
            (void)db_close(db);
            return -1;
        }
    *ret_db = db;
    return 0;
}

struct db *db_close(struct db *db)
{
    if (db == NULL)
        return NULL;
    int rc = sqlite3_close(db->handle);
    assert(rc == SQLITE_OK); /* no statement is left */
    free(db);
    return NULL;
}

void db_keep_log(struct db *db)
{
    int rc = sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert(rc == SQLITE_OK);
}

int db_exec(struct db *db, const char *sql, struct err *err)
{
    int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : db_fail(db->handle, rc, err);
}

int db_text(struct db *db, const char *sql, char *out, size_t out_size, struct err *err)
{
    struct stmt *stmt = NULL;
    if (db_prepare(db, sql, &stmt, err) < 0)
        return -1;
    int got = stmt_step(stmt, err);
    if (got > 0) {
        struct str text = stmt_bytes(stmt, 0);
        (void)snprintf(out, out_size, "%.*s", STR_ARG(text));
    } else if (got == 0) {
        out[0] = '\0';
    }
    (void)stmt_free(stmt);
    return got < 0 ? -1 : 0;
}

int db_log_frames(const struct db *db)
{
    return db->frames;
}

bool db_in_transaction(const struct db *db)
{
    return sqlite3_get_autocommit(db->handle) == 0;
}

/* --- Statements --- */

int db_prepare(struct db *db, const char *sql, struct stmt **ret_stmt, struct err *err)
{
    sqlite3_stmt *handle = NULL;
    int rc = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &handle, NULL);
    if (rc != SQLITE_OK)
        return db_fail(db->handle, rc, err);
    struct stmt *stmt = mem_alloc(sizeof *stmt);
    stmt->handle = handle;
    *ret_stmt = stmt;
    return 0;
}

struct stmt *stmt_free(struct stmt *stmt)
{
    if (stmt == NULL)
        return NULL;
    (void)sqlite3_finalize(stmt->handle);
    free(stmt);
    return NULL;
}

/* Binding fails only for a wrong index, which would be our bug, or for a text longer than SQLite's
 * limit, which is far above ours. */
void stmt_bind_i64(struct stmt *stmt, int at, int64_t n)
{
    int rc = sqlite3_bind_int64(stmt->handle, at, n);
    assert(rc == SQLITE_OK);
}

void stmt_bind_text(struct stmt *stmt, int at, struct str text)
{
    int rc = text.len == 0 ? sqlite3_bind_null(stmt->handle, at)
                           : sqlite3_bind_text64(stmt->handle, at, text.ptr, text.len,
                                                 SQLITE_STATIC, SQLITE_UTF8);
    assert(rc == SQLITE_OK);
}

void stmt_bind_blob(struct stmt *stmt, int at, struct str bytes)
{
    int rc = bytes.len == 0
                 ? sqlite3_bind_zeroblob(stmt->handle, at, 0)
                 : sqlite3_bind_blob64(stmt->handle, at, bytes.ptr, bytes.len, SQLITE_STATIC);
    assert(rc == SQLITE_OK);
}

int stmt_step(struct stmt *stmt, struct err *err)
{
    int rc = sqlite3_step(stmt->handle);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE)
        return 0;
    return db_fail(sqlite3_db_handle(stmt->handle), rc, err);
}

int stmt_run(struct stmt *stmt, struct err *err)
{
    int got = 0;
    do
        got = stmt_step(stmt, err);
    while (got > 0);
    stmt_reset(stmt);
    return got;
}

void stmt_reset(struct stmt *stmt)
{
    (void)sqlite3_reset(stmt->handle); /* says again what the last step said */
    (void)sqlite3_clear_bindings(stmt->handle);
}

int64_t stmt_i64(struct stmt *stmt, int at)
{
    return sqlite3_column_int64(stmt->handle, at);
}

struct str stmt_bytes(struct stmt *stmt, int at)
{
    const char *ptr = sqlite3_column_blob(stmt->handle, at);
    int len = sqlite3_column_bytes(stmt->handle, at);
    return str_n(ptr, ptr == NULL ? 0 : (size_t)len);
}
