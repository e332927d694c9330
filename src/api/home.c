#include "api/home.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"
#include "io/http_words.h"

enum { TOKEN_MIN = 32, TOKEN_MAX = 256, PID_TEXT = 32 };

#define CHOOSE "choose another with --data-dir"

/* What goes wrong with the directory is the disk's fault, not the command line's. */
static int dir_failed(const char *path, const char *why, int sys, struct err *err)
{
    const char *remedy = sys == ENOSPC || sys == EDQUOT ? "make room there" : "make it writable";
    return err_set(err, ERR_CONFLICT, "data directory '%s': %s; %s or " CHOOSE, path, why, remedy);
}

/* The owner of a file, and everyone who may write to it, controls it: this must be us or root. */
static bool is_foreign(const struct stat *st, mode_t others)
{
    return (st->st_uid != geteuid() && st->st_uid != 0) || (st->st_mode & others) != 0;
}

static int home_open_dir(const char *path, struct err *err)
{
    if (fd_make_dirs(path, 0700, err) < 0) {
        struct err why = *err;
        return dir_failed(path, why.msg, why.sys, err);
    }
    AUTO_CLOSE int fd = SYS(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat st;
    if (fd < 0 || SYS(fstat(fd, &st)) < 0)
        return dir_failed(path, strerror(errno), errno, err);
    if (is_foreign(&st, 0022))
        return err_set(err, ERR_FORBIDDEN,
                       "data directory '%s' belongs to another user or is writable by others; "
                       "change its owner and run chmod 700, or " CHOOSE,
                       path);
    return fd_take(&fd);
}

static int held_by_other(const char *path, int lock_fd, struct err *err)
{
    char text[PID_TEXT] = "";
    ssize_t len = pread(lock_fd, text, sizeof text - 1, 0);
    struct str pid = str_trim(str_n(text, len < 0 ? 0 : (size_t)len));
    int64_t n;
    if (!str_to_i64(pid, 1, INT32_MAX, &n))
        return err_set(err, ERR_BUSY,
                       "data directory '%s' is in use by another sandglass; stop it "
                       "or " CHOOSE,
                       path);
    return err_set(err, ERR_BUSY,
                   "data directory '%s' is in use by process %d; stop it with "
                   "'kill %d' or " CHOOSE,
                   path, (int)n, (int)n);
}

static bool write_pid(int fd)
{
    char text[PID_TEXT];
    int len = snprintf(text, sizeof text, "%d\n", getpid());
    return SYS(ftruncate(fd, 0)) == 0 && SYS(pwrite(fd, text, (size_t)len, 0)) == len;
}

/* The kernel lets go of the lock when its holder dies, however it dies; the file may stay. */
static int take_lock(const char *path, int dir_fd, struct err *err)
{
    AUTO_CLOSE int fd =
        SYS(openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd < 0)
        return dir_failed(path, strerror(errno), errno, err);
    if (SYS(flock(fd, LOCK_EX | LOCK_NB)) < 0) {
        if (errno == EWOULDBLOCK)
            return held_by_other(path, fd, err);
        return err_sys(err, errno, "lock data directory '%s'", path);
    }
    if (!write_pid(fd))
        return dir_failed(path, strerror(errno), errno, err);
    return fd_take(&fd);
}

/* A token travels in a header: visible characters, no blank. */
static bool is_token(struct str s)
{
    return http_is_visible(s) && s.len >= TOKEN_MIN && s.len <= TOKEN_MAX;
}

/* A link may lead to it, as where secrets are mounted; what counts is the file behind it. */
static int open_token(const struct home *home, struct err *err)
{
    AUTO_CLOSE int fd = SYS(open(home->token_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat st;
    if (fd < 0 || SYS(fstat(fd, &st)) < 0)
        return err_sys(err, errno, "token file '%s'", home->token_file);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_CONFLICT,
                       "token file '%s' is not a regular file; remove it to get a new one",
                       home->token_file);
    if (is_foreign(&st, 0027))
        return err_set(err, ERR_FORBIDDEN,
                       "token file '%s' belongs to another user or is accessible to others; remove "
                       "it to get a new one, or change its owner and run chmod 600",
                       home->token_file);
    return fd_take(&fd);
}

static int read_token(struct home *home, struct err *err)
{
    AUTO_CLOSE int fd = open_token(home, err);
    if (fd < 0)
        return -1;
    char bytes[TOKEN_MAX + 16]; /* blanks around it are no part of it */
    ssize_t count = SYS(read(fd, bytes, sizeof bytes));
    if (count < 0)
        return err_sys(err, errno, "read '%s'", home->token_file);
    struct str token = str_trim(str_n(bytes, (size_t)count));
    bool good = (size_t)count < sizeof bytes && is_token(token);
    hash_sha256(token, home->token_hash);
    explicit_bzero(bytes, sizeof bytes);
    if (!good)
        return err_set(err, ERR_CONFLICT,
                       "token file '%s' must contain one word of %d to %d visible characters; "
                       "remove it to get a new one",
                       home->token_file, TOKEN_MIN, TOKEN_MAX);
    return 0;
}

static int write_token(struct home *home, struct str text, struct err *err)
{
    const char *slash = strrchr(home->token_file, '/');
    assert(slash != NULL);
    char dir[PATH_MAX];
    (void)snprintf(dir, sizeof dir, "%.*s/", (int)(slash - home->token_file), home->token_file);
    AUTO_CLOSE int dir_fd = SYS(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (dir_fd < 0)
        return err_sys(err, errno, "open '%s'", dir);
    return fd_replace_file(dir_fd, slash + 1, text, 0600, err);
}

static int make_token(struct home *home, struct err *err)
{
    char text[TOKEN_SIZE + 1];
    id_new_token(text);
    hash_sha256(str_n(text, TOKEN_LEN), home->token_hash);
    text[TOKEN_LEN] = '\n';
    int done = write_token(home, str_n(text, TOKEN_LEN + 1), err);
    explicit_bzero(text, sizeof text);
    return done < 0 ? err_wrap(err, "token file '%s'", home->token_file) : 0;
}

static int get_token(struct home *home, bool needs_token, struct err *err)
{
    if (read_token(home, err) == 0)
        return 0;
    if (err->sys != ENOENT)
        return -1;
    if (needs_token)
        return err_set(err, ERR_FORBIDDEN,
                       "other machines could reach this address and '%s' does not exist yet: start "
                       "once on 127.0.0.1 to create it, then start again on this address",
                       home->token_file);
    return make_token(home, err);
}

static int write_run(const struct home *home, const char *name, struct str text, struct err *err)
{
    if (SYS(mkdirat(home->dir_fd, "run", 0700)) < 0 && errno != EEXIST)
        return dir_failed(home->path, strerror(errno), errno, err);
    AUTO_CLOSE int run_fd =
        SYS(openat(home->dir_fd, "run", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (run_fd < 0)
        return dir_failed(home->path, strerror(errno), errno, err);
    struct err why = {0};
    if (fd_replace_file(run_fd, name, text, 0600, &why) < 0)
        return dir_failed(home->path, why.msg, why.sys, err);
    return 0;
}

static int tell_pid(const struct home *home, struct err *err)
{
    char text[PID_TEXT];
    int len = snprintf(text, sizeof text, "%d\n", getpid());
    return write_run(home, "pid", str_n(text, (size_t)len), err);
}

int home_tell_url(const struct home *home, struct str url, struct err *err)
{
    return write_run(home, "url", url, err);
}

static int place_token(struct home *home, const char *token_file, struct err *err)
{
    const char *file = token_file == NULL ? "token" : token_file;
    int len = snprintf(home->token_file, sizeof home->token_file, "%s%s%s",
                       token_file == NULL ? home->path : "", token_file == NULL ? "/" : "", file);
    if ((size_t)len >= sizeof home->token_file)
        return err_set(err, ERR_TOO_LARGE, "the token file's path is too long");
    if (strchr(home->token_file, '/') == NULL)
        return err_set(err, ERR_INVALID, "token file '%s': give a path with a directory", file);
    return 0;
}

int home_open(const char *path, const char *token_file, bool needs_token, struct home *ret_home,
              struct err *err)
{
    AUTO_CLOSE int dir_fd = home_open_dir(path, err);
    if (dir_fd < 0)
        return -1;
    AUTO_CLOSE int lock_fd = take_lock(path, dir_fd, err);
    if (lock_fd < 0)
        return -1;
    struct home home = {.path = path, .dir_fd = dir_fd, .lock_fd = lock_fd};
    if (place_token(&home, token_file, err) < 0 || get_token(&home, needs_token, err) < 0 ||
        tell_pid(&home, err) < 0)
        return -1;
    *ret_home = home;
    (void)fd_take(&dir_fd);
    (void)fd_take(&lock_fd);
    return 0;
}

void home_close(struct home *home)
{
    if (home->lock_fd < 0)
        return;
    (void)unlinkat(home->dir_fd, "run/url", 0);
    (void)unlinkat(home->dir_fd, "run/pid", 0);
    fd_close(&home->dir_fd);
    fd_close(&home->lock_fd);
}

bool home_check_token(const struct home *home, struct str token)
{
    unsigned char hash[HASH_SIZE];
    hash_sha256(token, hash);
    return hash_equal(hash, home->token_hash, sizeof hash);
}

int home_signing_key(const struct home *home, unsigned char ret_key[HASH_SIZE], struct err *err)
{
    unsigned char key[HASH_SIZE];
    AUTO_CLOSE int fd = SYS(openat(home->dir_fd, "signing_key", O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (fd >= 0 && SYS(read(fd, key, sizeof key)) == (ssize_t)sizeof key) {
        memcpy(ret_key, key, sizeof key);
        return 0;
    }
    id_random(key, sizeof key);
    if (fd_replace_file(home->dir_fd, "signing_key", str_n((const char *)key, sizeof key), 0600,
                        err) < 0)
        return err_wrap(err, "data directory '%s'", home->path);
    memcpy(ret_key, key, sizeof key);
    return 0;
}
