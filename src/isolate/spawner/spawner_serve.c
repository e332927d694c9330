/* Inside the spawner: gives up its privileges, makes the engine ready and forks it on demand.
 *
 * Workers that are made this way have the same addresses in memory, as any forked processes do. A
 * leak of one from inside an isolate would already be a breach of the inner boundary. */

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fd_pass.h"
#include "base/sys.h"
#include "isolate/client/worker_internal.h"
#include "isolate/spawner/spawner.h"
#include "isolate/spawner/spawner_internal.h"

enum { NOBODY = 65534, EXIT_SETUP = 4 };

struct serving {
    struct isolate_engine *engine;
    int signals; /* a child has ended */
    char hello[SPAWNER_HELLO_MAX];
    const char *bridges[BRIDGES_MAX + 1];
};

/* --- Before the first worker --- */

static void drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    (void)syscall(SYS_capset, &head, none);
}

/* Root becomes nobody. In a user namespace that knows no such user it stays, without a capability.
 */
static void drop_privileges(void)
{
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
        (void)prctl(PR_CAPBSET_DROP, cap); /* takes a capability itself, so it comes first */
    if (geteuid() == 0) {
        (void)!setgroups(0, NULL);
        if (setresgid(NOBODY, NOBODY, NOBODY) == 0)
            (void)!setresuid(NOBODY, NOBODY, NOBODY);
    }
    drop_capabilities();
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user would clear it */
}

static bool read_hello(struct serving *self)
{
    ssize_t size = SYS(recv(SPAWNER_FD, self->hello, sizeof self->hello, 0));
    if (size <= 0 || self->hello[size - 1] != '\0')
        return false;
    size_t count = 0;
    for (const char *at = self->hello; *at != '\0' && count < BRIDGES_MAX; at += strlen(at) + 1)
        self->bridges[count++] = at;
    return true;
}

static int get_ready(struct serving *self, struct err *err)
{
    sigset_t child;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &child, NULL);
    self->signals = SYS(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
    if (self->signals < 0)
        return err_sys(err, errno, "watch for ended workers");
    if (isolate_engine_new(self->bridges, &self->engine, err) < 0)
        return -1;
    return isolate_engine_warm(self->engine, err);
}

/* --- Workers --- */

static void spawner_serve_reap(struct serving *self)
{
    struct signalfd_siginfo info;
    while (read(self->signals, &info, sizeof info) > 0)
        ;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void spawner_serve_answer(const struct spawner_reply *reply, const int *fds, size_t count)
{
    struct iovec part = {(void *)(uintptr_t)reply, sizeof *reply};
    /* The client may have exited; then the next receive reports the end of the socket. */
    (void)!fd_send(SPAWNER_FD, &part, 1, fds, count, 0);
}

static int spawner_serve_make(struct serving *self, struct spawner_reply *reply, int ret_fds[2])
{
    int pair[2];
    if (SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(&reply->err, errno, "make a socket");
    AUTO_CLOSE int ours = pair[0], theirs = pair[1];
    pid_t pid = SYS(fork());
    if (pid < 0)
        return err_sys(&reply->err, errno, "fork");
    if (pid == 0)
        worker_become(theirs, NULL, self->engine);
    /* Not reaped yet, whatever it did: the number is its own. */
    ret_fds[1] = (int)SYS(syscall(SYS_pidfd_open, pid, 0));
    if (ret_fds[1] < 0) {
        (void)err_sys(&reply->err, errno, "open a process");
        (void)kill(pid, SIGKILL);
        return -1;
    }
    ret_fds[0] = fd_take(&ours);
    reply->pid = pid;
    return 0;
}

static void serve_one(struct serving *self)
{
    struct spawner_reply reply = {0};
    int fds[2] = {-1, -1};
    int made = spawner_serve_make(self, &reply, fds);
    spawner_serve_answer(&reply, fds, made < 0 ? 0 : countof(fds));
    fd_close(&fds[0]);
    fd_close(&fds[1]);
}

int spawner_main(void)
{
    static struct serving self;
    struct err err = {0};
    char one;
    (void)prctl(PR_SET_NAME, "spawner");
    (void)signal(SIGINT, SIG_IGN); /* a terminal's ^C is its parent's to handle */
    (void)signal(SIGPIPE, SIG_IGN);
    drop_privileges();
    if (!read_hello(&self))
        return 0;
    if (get_ready(&self, &err) < 0) {
        const struct spawner_reply reply = {.err = err};
        while (SYS(recv(SPAWNER_FD, &one, 1, 0)) == 1)
            spawner_serve_answer(&reply, NULL, 0);
        return EXIT_SETUP;
    }
    for (;;) {
        struct pollfd ready[] = {{.fd = SPAWNER_FD, .events = POLLIN},
                                 {.fd = self.signals, .events = POLLIN}};
        if (SYS(poll(ready, countof(ready), -1)) < 0 && errno != EINTR)
            return EXIT_SETUP;
        if (ready[1].revents != 0)
            spawner_serve_reap(&self);
        if (ready[0].revents == 0)
            continue;
        if (SYS(recv(SPAWNER_FD, &one, 1, 0)) != 1)
            return 0;
        serve_one(&self);
    }
}
