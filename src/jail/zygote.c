#include "jail/zygote.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"
#include "jail/filter.h"
#include "jail/init.h"
#include "jail/kernel.h"
#include "jail/zygote_heap.h"
#include "jail/zygote_image.h"
#include "jail/zygote_internal.h"
#include "jail/zygote_pages.h"

/* Everything is static: the processes between us and a kernel write here what we read when they
 * are gone. */
static struct {
    const struct zygote_hooks *hooks;
    struct zygote_work work;
    struct err err; /* why the fork under way failed */
    struct buf out;
    char in[WIRE_MAX];
} self;

#define NAMESPACES                                                                                 \
    ((DEFENDED(USER_NS) ? CLONE_NEWUSER : 0) | (DEFENDED(MOUNT_NS) ? CLONE_NEWNS : 0) |            \
     (DEFENDED(PID_NS) ? CLONE_NEWPID : 0) | (DEFENDED(NET_NS) ? CLONE_NEWNET : 0) |               \
     (DEFENDED(IPC_NS) ? CLONE_NEWIPC : 0) | (DEFENDED(UTS_NS) ? CLONE_NEWUTS : 0) |               \
     (DEFENDED(CGROUP_NS) ? CLONE_NEWCGROUP : 0))

static bool read_work(struct wire_in *in, struct zygote_work *work)
{
    work->score = (int)wire_get_u32(in);
    work->is_anchored = wire_get_u32(in) != 0;
    work->limits.pids = wire_get_i64(in);
    work->limits.nofile = wire_get_i64(in);
    uint32_t count = wire_get_u32(in);
    if (count >= countof(work->writable))
        return false;
    for (uint32_t i = 0; i < count; i++)
        work->writable[i] = wire_get_cstr(in);
    work->writable[count] = NULL;
    return wire_ended(in) && work->fds[ZYGOTE_ERR] >= 0;
}

/* --- the processes between --- */

/* In the pid namespace. Its child loses it at once and is init's from then on. */
static void NORETURN bear(void)
{
    self.work.bearer = getpid();
    pid_t pid = fork();
    if (pid == 0)
        zygote_become_kernel(&self.work, self.hooks);
    CRASH_POINT("zygote.bear");
    if (pid < 0)
        (void)err_sys(&self.err, errno, "fork the kernel");
    _exit(pid < 0);
}

static void NORETURN enter_jail(void)
{
    int status = 0;
    if (SYS(setns(self.work.fds[ZYGOTE_INIT], NAMESPACES)) < 0) {
        (void)err_sys(&self.err, errno, "enter the jail");
        _exit(1);
    }
    pid_t pid = vfork();
    if (pid == 0)
        bear();
    if (pid < 0)
        (void)err_sys(&self.err, errno, "enter the jail's processes");
    else
        (void)waitpid(pid, &status, 0);
    _exit(pid < 0 || status != 0);
}

/* --- the zygote --- */

/* What is forked now gets this place in line for the out-of-memory killer. */
static void set_score(int score)
{
    char text[16];
    size_t len = (size_t)snprintf(text, sizeof text, "%d", score);
    (void)!pwrite(ZYGOTE_OOM_FD, text, len, 0);
}

static void fork_kernel(void)
{
    int status = 0;
    self.err = (struct err){0};
    self.hooks->before();
    set_score(self.work.score);
    pid_t pid = vfork();
    if (pid == 0)
        enter_jail();
    int code = errno;
    set_score(0);
    if (pid > 0)
        (void)waitpid(pid, &status, 0);
    /* A process between was killed with its jail. It shared our memory: what libc's fork had locked
     * there stays so, and whoever asks for it next would wait for ever. The warden makes another
     * template, and init sees that the birth's other end is gone. */
    if (pid > 0 && status != 0 && self.err.code == 0)
        _exit(1);
    self.hooks->after();
    if (pid < 0)
        (void)err_sys(&self.err, code, "fork");
}

static int say(int fd, uint32_t type, uint32_t id, const struct err *why, struct err *err)
{
    wire_begin(&self.out, type, id);
    wire_put_err(&self.out, why);
    return wire_send(fd, buf_str(&self.out), NULL, 0, err);
}

static int serve_one(struct wire_in *in, struct wire_head head, struct err *err)
{
    struct err ignored;
    self.work.id = head.id;
    if (head.type != ZYGOTE_FORK || !read_work(in, &self.work))
        return err_set(err, ERR_INVALID, "the zygote did not understand message %u", head.type);
    fork_kernel();
    /* Init hears it there; when the kernel was born, it has heard so already. */
    if (self.err.code != 0)
        (void)say(self.work.fds[ZYGOTE_BIRTH], INIT_FAILED, 0, &self.err, &ignored);
    return say(ZYGOTE_CONTROL_FD, ZYGOTE_FORKED, head.id, &self.err, err);
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
    if (zygote_share_heap(ZYGOTE_PROC_FD, &ignored) == 0)
        zygote_learn_pages(ZYGOTE_PROC_FD, hooks);
    (void)close(ZYGOTE_PROC_FD);
    /* Memory that is shared with a process of the jail's pid namespace is nobody's to read. */
    if (SYS(prctl(PR_SET_DUMPABLE, !DEFENDED(TEMPLATE_UNDUMPABLE), 0, 0, 0)) < 0)
        return err_sys(err, errno, "hide the zygote");
    wire_begin(&self.out, ZYGOTE_READY, 0);
    wire_put_cstr(&self.out, missing);
    if (wire_send(ZYGOTE_CONTROL_FD, buf_str(&self.out), NULL, 0, err) < 0)
        return -1;
    for (;;) {
        struct wire_head head;
        ssize_t len = wire_recv(ZYGOTE_CONTROL_FD, self.in, self.work.fds, true, err);
        if (len <= 0)
            return (int)len;
        struct wire_in in = wire_open(str_n(self.in, (size_t)len), &head);
        int done = serve_one(&in, head, err);
        wire_close_fds(self.work.fds);
        /* The next kernel's memory shall not show which places this one had. */
        if (DEFENDED(WIPED))
            explicit_bzero(self.in, (size_t)len);
        if (done < 0)
            return -1;
    }
}

void zygote_say_broken(const struct err *why)
{
    struct err ignored;
    self.out = buf_with_limit(WIRE_MAX);
    (void)say(ZYGOTE_CONTROL_FD, ZYGOTE_BROKEN, 0, why, &ignored);
}
