#include "jail/zygote.h"

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
#include "jail/filter.h"
#include "jail/zygote_heap.h"
#include "jail/zygote_image.h"
#include "jail/zygote_internal.h"
#include "jail/zygote_thread.h"

/* So many wait, and another one is made when nobody has asked for QUIET_MS; without a question for
 * REST_MS one is enough. */
enum { EMBRYOS = 8, QUIET_MS = 6, REST_MS = 30000 };

struct embryo {
    pid_t pid;
    int line;
};

static struct {
    const struct zygote_hooks *hooks;
    struct embryo ready[EMBRYOS]; /* the oldest first */
    size_t count;
    struct buf out;
    char in[WIRE_MAX];
    int fds[WIRE_FDS_MAX];
} self;

/* --- Embryos --- */

static int make_embryo(struct err *err)
{
    int pair[2];
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "socketpair");
    AUTO_CLOSE int ours = pair[0], its = pair[1];
    zygote_thread_before();
    self.hooks->before();
    pid_t pid = SYS(fork());
    if (pid == 0)
        zygote_live_as_embryo(its, self.hooks);
    int code = errno;
    self.hooks->after();
    if (pid < 0)
        return err_sys(err, code, "fork");
    self.ready[self.count++] = (struct embryo){.pid = pid, .line = fd_take(&ours)};
    return 0;
}

static struct embryo take_embryo(void)
{
    struct embryo first = self.ready[0];
    self.count--;
    memmove(self.ready, self.ready + 1, self.count * sizeof self.ready[0]);
    return first;
}

static void let_go(struct embryo embryo)
{
    fd_close(&embryo.line);
    while (waitpid(embryo.pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* It says itself what becomes of it, to init; where it cannot, init sees that nobody holds the
 * birth's other end. */
static int ask_embryo(struct str packet, struct err *err)
{
    size_t count = 0;
    while (count < WIRE_FDS_MAX && self.fds[count] >= 0)
        count++;
    struct embryo embryo = take_embryo();
    int sent = wire_send(embryo.line, packet, self.fds, count, err);
    let_go(embryo);
    return sent;
}

/* Those that have died while they waited, for want of memory perhaps, are passed over. */
static void fork_kernel(struct str packet)
{
    struct err err = {0};
    bool is_asked = false;
    while (!is_asked && self.count > 0)
        is_asked = ask_embryo(packet, &err) == 0;
    if (!is_asked && (make_embryo(&err) < 0 || ask_embryo(packet, &err) < 0))
        zygote_tell_failure(self.fds[ZYGOTE_BIRTH], &err);
}

/* --- The zygote --- */

static int say(uint32_t type, uint32_t id, const struct err *why, struct err *err)
{
    wire_begin(&self.out, type, id);
    if (why != NULL)
        wire_put_err(&self.out, why);
    return wire_send(ZYGOTE_CONTROL_FD, buf_str(&self.out), NULL, 0, err);
}

/* Returns when somebody asks. */
static void tend_embryos(void)
{
    struct err ignored;
    struct pollfd line = {.fd = ZYGOTE_CONTROL_FD, .events = POLLIN};
    size_t wanted = EMBRYOS;
    for (;;) {
        bool are_more = self.count < wanted;
        if (poll(&line, 1, are_more ? QUIET_MS : self.count > 1 ? REST_MS : -1) != 0)
            return;
        if (are_more && make_embryo(&ignored) < 0)
            wanted = self.count;
        else if (!are_more)
            for (wanted = 1; self.count > wanted;)
                let_go(take_embryo());
    }
}

static int serve_one(ssize_t len, struct err *err)
{
    struct wire_head head;
    (void)wire_open(str_n(self.in, (size_t)len), &head);
    if (head.type != ZYGOTE_FORK || self.fds[ZYGOTE_BIRTH] < 0)
        return err_set(err, ERR_INVALID, "the zygote did not understand message %u", head.type);
    fork_kernel(str_n(self.in, (size_t)len));
    wire_close_fds(self.fds);
    /* The next kernel's memory shall not show which places this one had. */
    if (DEFENDED(WIPED))
        explicit_bzero(self.in, (size_t)len);
    return say(ZYGOTE_FORKED, head.id, NULL, err);
}

int zygote_serve(const char *missing, const struct zygote_hooks *hooks, struct err *err)
{
    struct err ignored;
    self.hooks = hooks;
    self.out = buf_with_limit(WIRE_MAX);
    (void)prctl(PR_SET_NAME, "zygote", 0, 0, 0);
    filter_prepare(FILTER_WHOLE);
    zygote_image_prepare();
    /* Forks are slower without it, and that is all. */
    (void)!zygote_share_heap(ZYGOTE_PROC_FD, &ignored);
    /* Memory that is shared with a process of the jail's pid namespace is nobody's to read. */
    if (SYS(prctl(PR_SET_DUMPABLE, !DEFENDED(TEMPLATE_UNDUMPABLE), 0, 0, 0)) < 0)
        return err_sys(err, errno, "hide the zygote");
    wire_begin(&self.out, ZYGOTE_READY, 0);
    wire_put_cstr(&self.out, missing);
    if (wire_send(ZYGOTE_CONTROL_FD, buf_str(&self.out), NULL, 0, err) < 0)
        return -1;
    for (;;) {
        tend_embryos();
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
    (void)!say(ZYGOTE_BROKEN, 0, why, &ignored);
}
