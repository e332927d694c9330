/* Programs of the host that help to add a runtime. */

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "runtime/obtain_internal.h"

enum { READ_MAX = 4096, LINE_LIMIT = 64 << 10 };

/* `err_fd` -1: its errors are discarded. */
static int spawn(const char *const *argv, int out, int err_fd, pid_t *ret_pid, struct err *err)
{
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (err_fd >= 0)
        (void)posix_spawn_file_actions_adddup2(&actions, err_fd, STDERR_FILENO);
    else
        (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int code = posix_spawnp(ret_pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return code == 0 ? 0 : err_sys(err, code, "start '%s'", argv[0]);
}

static int obtain_run_wait_for(pid_t pid, const char *name, struct err *err)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, errno, "wait for '%s'", name);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(err, ERR_UNAVAILABLE, "'%s' failed with %s %d", name,
                   WIFEXITED(status) ? "status" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int obtain_run(const char *const *argv, struct buf *out, struct err *err)
{
    int pair[2] = {-1, -1};
    pid_t pid;
    if (out != NULL && SYS(pipe2(pair, O_CLOEXEC)) < 0)
        return err_sys(err, errno, "make a pipe");
    AUTO_CLOSE int ours = pair[0], theirs = pair[1];
    /* A caller that reads the output does not need the warnings. */
    if ((out == NULL ? spawn(argv, STDERR_FILENO, STDERR_FILENO, &pid, err)
                     : spawn(argv, theirs, -1, &pid, err)) < 0)
        return -1;
    fd_close(&theirs);
    struct err why = {0};
    int got = out == NULL ? 0 : buf_read_all(out, ours, &why);
    fd_close(&ours);
    if (obtain_run_wait_for(pid, argv[0], err) < 0)
        return -1;
    if (got < 0)
        *err = why;
    return got;
}

/* Each line that is complete; one that never ends is cut. */
static void tell_lines(struct buf *text, void (*line)(void *ctx, struct str line), void *ctx)
{
    struct str all = buf_str(text);
    size_t at = 0;
    for (;;) {
        struct str rest = str_slice(all, at, all.len);
        size_t end = str_find_char(rest, '\n');
        if (end == rest.len)
            break;
        line(ctx, str_slice(rest, 0, end));
        at += end + 1;
    }
    buf_consume(text, at == 0 && text->len > LINE_LIMIT ? text->len : at);
}

static int read_lines(int fd, void (*line)(void *ctx, struct str line), void *ctx, struct err *err)
{
    AUTO_BUF struct buf text = {0};
    char some[READ_MAX];
    for (;;) {
        ssize_t got = SYS(read(fd, some, sizeof some));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(err, errno, "read its output");
        if (got == 0)
            return 0;
        buf_put(&text, str_n(some, (size_t)got));
        tell_lines(&text, line, ctx);
    }
}

int obtain_run_telling(const char *const *argv, int out_fd,
                       void (*line)(void *ctx, struct str line), void *ctx, struct err *err)
{
    int pair[2];
    pid_t pid;
    if (SYS(pipe2(pair, O_CLOEXEC)) < 0)
        return err_sys(err, errno, "make a pipe");
    AUTO_CLOSE int ours = pair[0], theirs = pair[1];
    if (spawn(argv, out_fd, theirs, &pid, err) < 0)
        return -1;
    fd_close(&theirs);
    struct err why = {0};
    int got = read_lines(ours, line, ctx, &why);
    fd_close(&ours);
    if (obtain_run_wait_for(pid, argv[0], err) < 0)
        return -1;
    if (got < 0)
        *err = why;
    return got;
}
