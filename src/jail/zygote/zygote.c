#include "jail/zygote/zygote.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/inside/filter.h"
#include "jail/inside/lockdown.h"
#include "jail/zygote/zygote_heap.h"
#include "jail/zygote/zygote_image.h"
#include "jail/zygote/zygote_internal.h"
#include "jail/zygote/zygote_thread.h"

/* PREFORKED processes wait. A new one is forked after QUIET_MS without a request; after REST_MS
 * without a request one is enough. */
enum { PREFORKED = 8, QUIET_MS = 6, REST_MS = 30000 };

struct prefork {
    pid_t pid;
    int line;
};

static struct {
    const struct zygote_hooks *hooks;
    struct prefork ready[PREFORKED]; /* the oldest first */
    size_t count;
    struct buf out;
    char in[WIRE_MAX];
    int fds[WIRE_FDS_MAX];
} self;

/* --- Preforks --- */

static int make_prefork(struct err *err)
{
    int pair[2];
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "socketpair");
    AUTO_CLOSE int ours = pair[0], its = pair[1];
    zygote_thread_before();
    self.hooks->before();
    pid_t pid = SYS(fork());
    if (pid == 0)
        zygote_live_as_prefork(its, self.hooks);
    int code = errno;
    self.hooks->after();
    if (pid < 0)
        return err_sys(err, code, "fork");
    self.ready[self.count++] = (struct prefork){.pid = pid, .line = fd_take(&ours)};
    return 0;
}

static struct prefork take_prefork(void)
{
    struct prefork first = self.ready[0];
    self.count--;
    memmove(self.ready, self.ready + 1, self.count * sizeof self.ready[0]);
    return first;
}

static void zygote_let_go(struct prefork prefork)
{
    fd_close(&prefork.line);
    while (waitpid(prefork.pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* The prefork reports its start or failure to init itself; if it cannot, init sees that the other
 * end of the start socket is closed. */
static int ask_prefork(struct str packet, struct err *err)
{
    size_t count = 0;
    while (count < WIRE_FDS_MAX && self.fds[count] >= 0)
        count++;
    struct prefork prefork = take_prefork();
    int sent = wire_send(prefork.line, packet, self.fds, count, err);
    zygote_let_go(prefork);
    return sent;
}

/* Preforks that died while they waited, for example because memory ran out, are skipped. */
static void fork_interpreter(struct str packet)
{
    struct err err = {0};
    bool is_asked = false;
    while (!is_asked && self.count > 0)
        is_asked = ask_prefork(packet, &err) == 0;
    if (!is_asked && (make_prefork(&err) < 0 || ask_prefork(packet, &err) < 0))
        zygote_tell_failure(self.fds[ZYGOTE_START_SOCKET], &err);
}

/* --- The zygote --- */

static int zygote_say(uint32_t type, uint32_t id, const struct err *why, struct err *err)
{
    wire_begin(&self.out, type, id);
    if (why != NULL)
        wire_put_err(&self.out, why);
    return wire_send(ZYGOTE_CONTROL_FD, buf_str(&self.out), NULL, 0, err);
}

/* Returns when a request comes. */
static void tend_preforks(void)
{
    struct err ignored;
    struct pollfd line = {.fd = ZYGOTE_CONTROL_FD, .events = POLLIN};
    size_t wanted = PREFORKED;
    for (;;) {
        bool are_more = self.count < wanted;
        if (poll(&line, 1, are_more ? QUIET_MS : self.count > 1 ? REST_MS : -1) != 0)
            return;
        if (are_more && make_prefork(&ignored) < 0)
            wanted = self.count;
        else if (!are_more)
            for (wanted = 1; self.count > wanted;)
                zygote_let_go(take_prefork());
    }
}

static int serve_one(ssize_t len, struct err *err)
{
    struct wire_head head;
    (void)wire_open(str_n(self.in, (size_t)len), &head);
    if (head.type != ZYGOTE_FORK || self.fds[ZYGOTE_START_SOCKET] < 0)
        return err_set(err, ERR_INVALID, "zygote: malformed or unknown message %u", head.type);
    fork_interpreter(str_n(self.in, (size_t)len));
    wire_close_fds(self.fds);
    /* The next interpreter's memory shall not show which places this one had. */
    if (DEFENDED(WIPED))
        explicit_bzero(self.in, (size_t)len);
    return zygote_say(ZYGOTE_FORKED, head.id, NULL, err);
}

int zygote_serve(const char *missing, const struct zygote_hooks *hooks, struct err *err)
{
    struct err ignored;
    self.hooks = hooks;
    self.out = buf_with_limit(WIRE_MAX);
    (void)prctl(PR_SET_NAME, "zygote", 0, 0, 0);
    zygote_image_prepare();
    /* Forks are slower without it, and that is all. */
    (void)!zygote_share_heap(ZYGOTE_PROC_FD, &ignored);
    /* No process may read memory that is shared with a process of the jail's pid namespace. */
    if (SYS(prctl(PR_SET_DUMPABLE, !DEFENDED(ZYGOTE_UNDUMPABLE), 0, 0, 0)) < 0)
        return err_sys(err, errno, "hide the zygote");
    /* As in the init spawner: what is the same in every interpreter is set here, once. */
    filter_prepare(FILTER_LATE);
    if (lockdown_common_rlimits(err) < 0 || filter_install(FILTER_EARLY, err) < 0)
        return -1;
    wire_begin(&self.out, ZYGOTE_READY, 0);
    wire_put_cstr(&self.out, missing);
    if (wire_send(ZYGOTE_CONTROL_FD, buf_str(&self.out), NULL, 0, err) < 0)
        return -1;
    for (;;) {
        tend_preforks();
        ssize_t len = wire_recv(ZYGOTE_CONTROL_FD, self.in, self.fds, true, err);
        if (len <= 0)
            return (int)len;
        if (serve_one(len, err) < 0)
            return -1;
    }
}

void zygote_say_broken(const struct err *why)
{
    struct err ignored;
    self.out = buf_with_limit(WIRE_MAX);
    (void)!zygote_say(ZYGOTE_BROKEN, 0, why, &ignored);
}
