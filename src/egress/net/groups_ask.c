/* What an installer of this machine would use without any setting: its own default is
 * its own to know, so it is asked. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "egress/net/groups.h"

enum { ANSWER_MAX = 4096, ASK_MS = 20000 };

/* In the root directory: a project's own settings belong to the code that is to be confined. */
static int groups_ask_start(const char *const *argv, int out, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addchdir_np(&actions, "/");
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int code = posix_spawnp(ret_pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return code == 0 ? 0 : -1;
}

/* Until it has said all, too much, or nothing for too long. */
static void listen_to(int fd, struct buf *out)
{
    int64_t until = clock_now_ms() + ASK_MS;
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        char bytes[1024];
        int64_t left = until - clock_now_ms();
        if (left <= 0 || (poll(&wait, 1, (int)left) < 0 && errno != EINTR))
            return;
        ssize_t got = (wait.revents & (POLLIN | POLLHUP)) != 0 ? read(fd, bytes, sizeof bytes) : -1;
        if (got == 0 || out->len + sizeof bytes > ANSWER_MAX)
            return;
        if (got > 0)
            buf_put(out, str_n(bytes, (size_t)got));
    }
}

bool group_ask(const char *const *argv, struct buf *out)
{
    AUTO_BUF struct buf answer = {0};
    int pair[2], status = 0;
    pid_t pid;
    if (SYS(pipe2(pair, O_CLOEXEC)) < 0)
        return false;
    AUTO_CLOSE int ours = pair[0], theirs = pair[1];
    if (groups_ask_start(argv, theirs, &pid) < 0)
        return false;
    fd_close(&theirs);
    listen_to(ours, &answer);
    (void)kill(pid, SIGKILL); /* it has said what it had to say */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    struct str text = str_trim(buf_str(&answer));
    if (!str_starts(text, STR("http://")) && !str_starts(text, STR("https://")))
        return false;
    buf_put(out, text);
    return true;
}
