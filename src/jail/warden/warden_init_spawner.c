/* An init spawner that is killed, by the out-of-memory killer or by hand.
 *
 * It may have made a copy of itself and not lived to report it. Then the copy becomes init and
 * waits for messages on a socket that nobody uses, and the request for the jail waits too. So the
 * end of the init spawner's socket is watched. Once the init spawner is reaped no further copy can
 * appear: an unknown child of ours is such a copy. It is killed and reaped, and the request fails.
 */

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
#include "jail/warden/warden_internal.h"

void warden_watch_init_spawner(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WORD_INIT_SPAWNER};
    int done =
        epoll_ctl(warden.epoll_fd, EPOLL_CTL_ADD, warden.builder.init_spawner.socket, &event);
    assert(done == 0);
}

static bool is_known(pid_t pid)
{
    if (pid == warden.builder.fd_closer.pid || warden_is_zygote(pid))
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
    AUTO_CLOSE int fd = openat(warden.builder.template.proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[MAX(got, (ssize_t)0)] = '\0';
    const char *after = strrchr(text, ')');
    return after != NULL && sscanf(after, ") %*c %d", &parent) == 1 && parent == getpid();
}

/* The pid of a child is not reused until the child is reaped. */
static void end_stray(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
}

void warden_end_strays(void)
{
    int at = openat(warden.builder.template.proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

int warden_replace_init_spawner(struct err *err)
{
    init_spawner_stop(&warden.builder.init_spawner);
    /* What it did report is finished as ever. */
    warden_read_starts();
    warden_end_strays();
    warden_fail_uncloned();
    if (builder_start_init_spawner(&warden.builder, err) < 0)
        return -1;
    warden_watch_init_spawner();
    return 0;
}

void warden_on_init_spawner(void)
{
    struct pollfd poll_fd = {.fd = warden.builder.init_spawner.socket, .events = POLLIN};
    struct err err = {0};
    /* Perhaps it was replaced since. */
    if (warden.builder.init_spawner.pid <= 0 || poll(&poll_fd, 1, 0) <= 0)
        return;
    /* If there cannot be another now, the next question tries again and says why. */
    (void)!warden_replace_init_spawner(&err);
}
