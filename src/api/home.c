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

enum { TOKEN_MIN = 32, TOKEN_MAX = 256, PID_TEXT = 32 };

#define CHOOSE "choose another with --data-dir"

static int open_dir(const char *path, struct err *err)
{
    if (fd_make_dirs(path, 0700, err) < 0) {
        (void)err_wrap(err, "data directory '%s'", path);
        err->code = ERR_CONFLICT; /* the command line is sound, the disk is not */
        size_t len = strlen(err->msg);
        (void)snprintf(err->msg + len, sizeof err->msg - len, "; make it writable or " CHOOSE);
        return -1;
    }
    int fd = SYS(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "data directory '%s'", path);
    return fd;
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

static int write_pid(int fd, struct err *err)
{
    char text[PID_TEXT];
    int len = snprintf(text, sizeof text, "%d\n", getpid());
    if (SYS(ftruncate(fd, 0)) < 0 || SYS(pwrite(fd, text, (size_t)len, 0)) != len)
        return err_sys(err, errno, "write the lock file");
    return 0;
}

/* The kernel lets go of the lock when its holder dies, however it dies; the file may stay. */
static int take_lock(const char *path, int dir_fd, struct err *err)
{
    AUTO_CLOSE int fd =
        SYS(openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd < 0)
        return err_set(err, err_code_of_errno(errno),
                       "data directory '%s': %s; make it writable or " CHOOSE, path,
                       strerror(errno));
    if (SYS(flock(fd, LOCK_EX | LOCK_NB)) < 0) {
        if (errno == EWOULDBLOCK)
            return held_by_other(path, fd, err);
        return err_sys(err, errno, "lock data directory '%s'", path);
    }
    if (write_pid(fd, err) < 0)
        return -1;
    return fd_take(&fd);
}

static int read_token(struct home *home, struct err *err)
{
    AUTO_CLOSE int fd =
        SYS(open(home->token_file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", home->token_file);
    AUTO_BUF struct buf bytes = buf_with_limit(TOKEN_MAX);
    if (buf_read_all(&bytes, fd, err) < 0)
        return err_wrap(err, "read '%s'", home->token_file);
    struct str token = str_trim(buf_str(&bytes));
    bool good = token.len >= TOKEN_MIN;
    hash_sha256(token, home->token_hash);
    if (bytes.len > 0)
        explicit_bzero(bytes.ptr, bytes.len);
    if (!good)
        return err_set(err, ERR_CONFLICT,
                       "'%s' holds less than %d characters; remove it to get a new one",
                       home->token_file, TOKEN_MIN);
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
                       "other machines could reach this address and '%s' does not exist yet: "
                       "start once on 127.0.0.1 to make it, then again here",
                       home->token_file);
    return make_token(home, err);
}

static int write_run(struct home *home, struct err *err)
{
    char text[PID_TEXT];
    int len = snprintf(text, sizeof text, "%d\n", getpid());
    if (SYS(mkdirat(home->dir_fd, "run", 0700)) < 0 && errno != EEXIST)
        return err_sys(err, errno, "create '%s/run'", home->path);
    AUTO_CLOSE int run_fd =
        SYS(openat(home->dir_fd, "run", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (run_fd < 0)
        return err_sys(err, errno, "open '%s/run'", home->path);
    if (fd_replace_file(run_fd, "pid", str_n(text, (size_t)len), 0600, err) < 0)
        return err_wrap(err, "'%s/run'", home->path);
    return 0;
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
    AUTO_CLOSE int dir_fd = open_dir(path, err);
    if (dir_fd < 0)
        return -1;
    AUTO_CLOSE int lock_fd = take_lock(path, dir_fd, err);
    if (lock_fd < 0)
        return -1;
    struct home home = {.path = path, .dir_fd = dir_fd, .lock_fd = lock_fd};
    if (place_token(&home, token_file, err) < 0 || get_token(&home, needs_token, err) < 0 ||
        write_run(&home, err) < 0)
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
