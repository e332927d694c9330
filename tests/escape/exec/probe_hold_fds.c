/* RES-09, RES-10: open as many of one kind of descriptor as one gets:
 * probe_hold_fds
 * files|sockets|epolls|inotify|timers|eventfds|ptys|passed|instances|posix_timers|signals MOST
 * [hold]. With `hold` it keeps them until its input ends. */

#include "finding.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>

static int open_file(void)
{
    return open("/dev/null", O_RDONLY);
}

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM, 0);
}

static int open_epoll(void)
{
    return epoll_create1(0);
}

static int open_timer(void)
{
    return timerfd_create(CLOCK_MONOTONIC, 0);
}

static int open_event(void)
{
    return eventfd(0, 0);
}

static int open_pty(void)
{
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    return fd;
}

/* Watches are counted per user: one instance, a watch on each directory that it makes. */
static int add_watch(void)
{
    static int fd = -1, n;
    char path[64];
    if (fd < 0)
        fd = inotify_init1(0);
    (void)snprintf(path, sizeof path, "/tmp/w%d", n++);
    int made = open(path, O_CREAT | O_WRONLY, 0644);
    if (fd < 0 || made < 0)
        return -1;
    (void)close(made);
    return inotify_add_watch(fd, path, IN_ALL_EVENTS);
}

/* Descriptors in flight belong to no process: each socket carries the one before it, closed here.
 */
static int pass_one(void)
{
    static int last = -1;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) < 0)
        return -1;
    if (last >= 0) {
        char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
        struct iovec io = {&byte, 1};
        struct msghdr msg = {.msg_iov = &io,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &last, sizeof(int));
        if (sendmsg(ends[0], &msg, MSG_DONTWAIT) < 0)
            return -1;
        (void)close(last);
    }
    (void)close(ends[0]);
    last = ends[1];
    return last;
}

static int open_instance(void)
{
    return inotify_init1(0);
}

static int make_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
    timer_t timer;
    return timer_create(CLOCK_MONOTONIC, &event, &timer);
}

static int queue_signal(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGRTMIN + 1);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return sigqueue(getpid(), SIGRTMIN + 1, (union sigval){0});
}

static const struct {
    const char *name;
    int (*get)(void);
} kinds[] = {
    {"files", open_file},         {"sockets", open_socket},  {"epolls", open_epoll},
    {"timers", open_timer},       {"eventfds", open_event},  {"ptys", open_pty},
    {"inotify", add_watch},       {"passed", pass_one},      {"instances", open_instance},
    {"posix_timers", make_timer}, {"signals", queue_signal},
};

int main(int argc, char **argv)
{
    long most = number(argc > 2 ? argv[2] : NULL, 2000), got = 0;
    for (size_t k = 0; argc > 1 && k < sizeof kinds / sizeof *kinds; k++)
        if (strcmp(kinds[k].name, argv[1]) == 0)
            for (errno = 0; got < most && kinds[k].get() >= 0;)
                got++;
    int e = errno;
    say("got", "%ld", got);
    say("stopped_by", "%s", got == most ? "most" : errno_name(e));
    say("done", "1");
    char byte;
    if (argc > 3 && strcmp(argv[3], "hold") == 0)
        while (read(STDIN_FILENO, &byte, 1) > 0)
            ;
    return 0;
}
