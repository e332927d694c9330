/* A seed that is killed, by the out-of-memory killer or by hand.
 *
 * It may have made a copy of itself and not lived to report it. Then the copy becomes init and
 * waits for words on a socket that nobody hands to anybody, and whoever asked for the jail waits
 * too. So the end of the seed's socket is watched. Once the seed is reaped no further copy can
 * come: a child of ours that nobody knows is such a one. It is killed and reaped, and who asked for
 * it is told. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/warden_internal.h"

void warden_watch_seed(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WORD_SEED};
    int done = epoll_ctl(warden.epoll_fd, EPOLL_CTL_ADD, warden.maker.seed.socket, &event);
    assert(done == 0);
}

static bool is_known(pid_t pid)
{
    if (pid == warden.maker.undertaker.pid || warden_is_zygote(pid))
        return true;
    for (size_t i = 0; i < warden.slots.len; i++)
        if (warden.slots.ptr[i].state != FREE && warden.slots.ptr[i].made.pid == pid)
            return true;
    return false;
}

/* The name stands in brackets and may hold anything: what follows the last one is the state and
 * the parent. */
static bool is_child(const char *entry)
{
    char path[300], text[512];
    int parent = 0;
    (void)snprintf(path, sizeof path, "%s/stat", entry);
    AUTO_CLOSE int fd = openat(warden.maker.template.proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[MAX(got, (ssize_t)0)] = '\0';
    const char *after = strrchr(text, ')');
    return after != NULL && sscanf(after, ") %*c %d", &parent) == 1 && parent == getpid();
}

/* A child's number is nobody else's until it is reaped. */
static void end_stray(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
}

void warden_end_strays(void)
{
    int at = openat(warden.maker.template.proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = at < 0 ? NULL : fdopendir(at);
    struct dirent *entry;
    if (dir == NULL) {
        fd_close(&at);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        int64_t pid;
        if (str_to_i64(str_of(entry->d_name), 1, INT32_MAX, &pid) && is_child(entry->d_name) &&
            !is_known((pid_t)pid))
            end_stray((pid_t)pid);
    }
    (void)closedir(dir);
}

int warden_replace_seed(struct err *err)
{
    seed_stop(&warden.maker.seed);
    /* What it did report is finished as ever. */
    warden_hear_births();
    warden_end_strays();
    warden_fail_unborn();
    if (maker_start_seed(&warden.maker, err) < 0)
        return -1;
    warden_watch_seed();
    return 0;
}

void warden_on_seed(void)
{
    struct pollfd poll_fd = {.fd = warden.maker.seed.socket, .events = POLLIN};
    struct err err = {0};
    /* Perhaps it was replaced since. */
    if (warden.maker.seed.pid <= 0 || poll(&poll_fd, 1, 0) <= 0)
        return;
    /* If there cannot be another now, the next question tries again and says why. */
    (void)!warden_replace_seed(&err);
}
