/* The warden's zygote: started when the daemon asks for it, started again when it dies, and from
 * time to time replaced by a fresh one, so that addresses, the seed of hashes and whatever else all
 * copies share is not shared by too many. */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/init.h"
#include "jail/kernel.h"
#include "jail/marked.h"
#include "jail/warden_internal.h"
#include "jail/zygote.h"
#include "jail/zygote_start.h"

enum { RETRY_MS = 100, RETRY_MAX = 8, FORKS_MAX = 1000, AGE_MS = 10 * 60 * 1000 };

struct zygote {
    pid_t pid; /* 0: none */
    int fd;
    uint32_t forks;
    int64_t since_ms;
};

static struct {
    int program_fd; /* 0: nobody asked for a zygote */
    char *names;
    struct zygote now;  /* serves */
    struct zygote next; /* imports */
    uint32_t request;   /* whom to tell when it is ready */
    int failures;
    int64_t retry_ms; /* when to try again; 0: no need */
} seed;

static void drop(struct zygote *zygote)
{
    if (zygote->pid == 0)
        return;
    /* One that is killed in the middle of a fork leaves a process that ends by itself. */
    (void)kill(zygote->pid, SIGKILL);
    while (waitpid(zygote->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    (void)epoll_ctl(warden.epoll_fd, EPOLL_CTL_DEL, zygote->fd, NULL);
    fd_close(&zygote->fd);
    *zygote = (struct zygote){0};
}

static void retry_later(void)
{
    seed.retry_ms = clock_now_ms() + ((int64_t)RETRY_MS << seed.failures);
    seed.failures = MIN(seed.failures + 1, (int)RETRY_MAX);
}

static void start_next(struct err *err)
{
    struct zygote_start start = {.program_fd = seed.program_fd,
                                 .names = seed.names,
                                 .proc_fd = warden.maker.template.proc_fd};
    seed.retry_ms = 0;
    if (zygote_start(&start, &seed.next.pid, &seed.next.fd, err) < 0) {
        retry_later();
        return;
    }
    seed.next.since_ms = clock_now_ms();
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WORD_ZYGOTE_NEXT};
    int done = epoll_ctl(warden.epoll_fd, EPOLL_CTL_ADD, seed.next.fd, &event);
    assert(done == 0);
}

void warden_on_template(uint32_t request, struct wire_in *in)
{
    const char *names = wire_get_cstr(in);
    struct err err = {0};
    if (names == NULL || !wire_ended(in) || warden.fds[0] < 0 || seed.request != 0) {
        (void)err_set(&err, seed.request != 0 ? ERR_BUSY : ERR_INVALID,
                      seed.request != 0 ? "another template is being made"
                                        : "a template needs its program");
        return warden_say_failed(request, &err);
    }
    drop(&seed.next);
    drop(&seed.now);
    if (seed.program_fd > 0)
        fd_close(&seed.program_fd);
    free(seed.names);
    seed.program_fd = fd_take(&warden.fds[0]);
    seed.names = mem_dup_cstr(names);
    seed.failures = 0;
    seed.request = request;
    start_next(&err);
    if (seed.next.pid == 0) {
        seed.request = 0;
        warden_say_failed(request, &err);
    }
}

static void on_ready(struct wire_in *in)
{
    const char *missing = wire_get_cstr(in);
    drop(&seed.now);
    seed.now = seed.next;
    seed.next = (struct zygote){0};
    seed.failures = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WORD_ZYGOTE};
    (void)epoll_ctl(warden.epoll_fd, EPOLL_CTL_MOD, seed.now.fd, &event);
    if (seed.request == 0)
        return;
    wire_begin(&warden.out, WARDEN_PREPARED, seed.request);
    wire_put_cstr(&warden.out, missing == NULL ? "" : missing);
    warden_say(NULL, 0);
    seed.request = 0;
}

static void on_lost(struct zygote *zygote, const struct err *why)
{
    struct err err = *why;
    if (err.code == 0)
        (void)err_set(&err, ERR_UNAVAILABLE, "the template's process died");
    bool served = zygote == &seed.now;
    drop(zygote);
    /* Whoever waits for a fork of it sees that the birth's other end is gone. */
    for (size_t i = 0; served && i < warden.slots.len; i++)
        warden.slots.ptr[i].forking = 0;
    retry_later();
    if (seed.request != 0 && !served) {
        warden_say_failed(seed.request, &err);
        seed.request = 0;
    }
}

static void on_forked(uint32_t number)
{
    struct slot *slot =
        number > 0 && number <= warden.slots.len ? &warden.slots.ptr[number - 1] : NULL;
    if (slot != NULL && slot->forking > 0)
        slot->forking--;
}

void warden_on_zygote(bool is_next)
{
    struct zygote *zygote = is_next ? &seed.next : &seed.now;
    int fds[WIRE_FDS_MAX];
    struct err err = {0}, why = {0};
    struct wire_head head = {0};
    if (zygote->pid == 0)
        return;
    ssize_t len = wire_recv(zygote->fd, warden.in, fds, false, &err);
    if (len < 0 && err.sys == EAGAIN)
        return;
    struct wire_in in = wire_open(str_n(warden.in, len > 0 ? (size_t)len : 0), &head);
    if (len > 0)
        wire_close_fds(fds);
    if (head.type == ZYGOTE_READY && is_next)
        return on_ready(&in);
    if (head.type == ZYGOTE_FORKED && !is_next)
        return on_forked(head.id);
    if (head.type == ZYGOTE_BROKEN)
        wire_get_err(&in, &why);
    on_lost(zygote, &why);
}

/* --- forks --- */

char *warden_fence_of(const struct jail_plan *plan, size_t *ret_len)
{
    AUTO_BUF struct buf out = buf_with_limit(WIRE_MAX);
    const char *const *places = mounts_writable(plan);
    uint32_t count = plan->workspace != NULL;
    /* What the zygote has mapped of the host's /usr is not what such a root shows. */
    if (plan->base != NULL)
        return NULL;
    for (size_t i = 0; places[i] != NULL; i++)
        count++;
    for (size_t i = 0; i < plan->mount_count; i++)
        count += plan->mounts[i].writable;
    wire_put_u32(&out, plan->overlay || plan->layer_count > 0 || plan->upper != NULL);
    wire_put_i64(&out, plan->limits.pids);
    wire_put_i64(&out, plan->limits.nofile);
    wire_put_u32(&out, count);
    for (size_t i = 0; places[i] != NULL; i++)
        wire_put_cstr(&out, places[i]);
    if (plan->workspace != NULL)
        wire_put_cstr(&out, "/workspace");
    for (size_t i = 0; i < plan->mount_count; i++)
        if (plan->mounts[i].writable)
            wire_put_cstr(&out, plan->mounts[i].dst);
    *ret_len = out.len;
    return mem_dup(out.ptr, out.len);
}

static int check_fork(const struct slot *slot, struct err *err)
{
    if (seed.now.pid == 0)
        return err_set(err, ERR_UNAVAILABLE, "no template is ready");
    if (slot == NULL)
        return err_set(err, ERR_NOT_FOUND, "no such jail");
    if (slot->fence == NULL)
        return err_set(err, ERR_UNSUPPORTED, "the jail has a root of its own");
    if (slot->frozen)
        return err_set(err, ERR_BUSY, "the jail is frozen");
    return 0;
}

/* The birth, init, three streams, then the doors of the groups. */
static int ask_zygote(struct slot *slot, uint32_t command, const int birth[4], struct err *err)
{
    int fds[WIRE_FDS_MAX] = {birth[0], slot->made.pidfd, birth[1], birth[2], birth[3]};
    struct cgroup_doors doors;
    if (cgroup_doors(&warden.maker.cgroups, &slot->made.cgroup, true, &doors, err) < 0)
        return -1;
    assert(ZYGOTE_DOORS + doors.count <= countof(fds));
    memcpy(fds + ZYGOTE_DOORS, doors.fds, doors.count * sizeof(int));
    wire_begin(&warden.out, ZYGOTE_FORK, (uint32_t)(slot - warden.slots.ptr) + 1);
    wire_put_u32(&warden.out, (uint32_t)mark_of(command));
    buf_put(&warden.out, str_n(slot->fence, slot->fence_len));
    int sent =
        wire_try_send(seed.now.fd, buf_str(&warden.out), fds, ZYGOTE_DOORS + doors.count, err);
    if (sent <= 0)
        return sent < 0 ? -1 : err_set(err, ERR_BUSY, "too many kernels are being started");
    slot->forking++;
    seed.now.forks++;
    return 0;
}

/* Nobody waits for an answer from us: how it went is told through the birth. */
void warden_on_fork(struct slot *slot, struct wire_in *in)
{
    struct err err = {0}, ignored;
    uint32_t command = wire_get_u32(in);
    if (!wire_ended(in) || warden.fds[3] < 0)
        return;
    if (check_fork(slot, &err) == 0 && ask_zygote(slot, command, warden.fds, &err) == 0)
        return;
    wire_begin(&warden.out, INIT_FAILED, 0);
    wire_put_err(&warden.out, &err);
    (void)!wire_try_send(warden.fds[0], buf_str(&warden.out), NULL, 0, &ignored);
}

/* --- time --- */

static bool is_due(void)
{
    int64_t now = clock_now_ms();
    if (seed.program_fd <= 0 || seed.next.pid != 0)
        return false;
    if (seed.now.pid == 0 || seed.retry_ms != 0)
        return now >= seed.retry_ms;
    return seed.now.forks >= FORKS_MAX || (seed.now.forks > 0 && now - seed.now.since_ms >= AGE_MS);
}

void warden_tend_zygote(void)
{
    struct err err = {0};
    if (is_due())
        start_next(&err);
}

int warden_zygote_wait_ms(int wait_ms)
{
    int64_t left;
    if (seed.program_fd <= 0 || seed.next.pid != 0)
        return wait_ms;
    if (seed.retry_ms != 0)
        left = seed.retry_ms - clock_now_ms();
    else if (seed.now.forks > 0)
        left = seed.now.forks >= FORKS_MAX ? 0 : seed.now.since_ms + AGE_MS - clock_now_ms();
    else
        return wait_ms;
    left = MAX(left, (int64_t)0);
    return wait_ms < 0 || left < wait_ms ? (int)left : wait_ms;
}

bool warden_is_zygote(pid_t pid)
{
    return pid == seed.now.pid || pid == seed.next.pid;
}

void warden_end_zygote(void)
{
    drop(&seed.next);
    drop(&seed.now);
}
