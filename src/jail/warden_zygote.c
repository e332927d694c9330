/* The warden's zygotes: one that kernels are forked from, started when the daemon asks for it and
 * again when it dies, and from time to time replaced by a fresh one, so that addresses, the seed of
 * hashes and whatever else all copies share is not shared by too many.
 *
 * One that is replaced stays as long as there are jails with kernels of it: what goes on from such
 * a kernel's memory has to be a fork of the same zygote (zygote_image.h). Its heap is in memory for
 * those kernels anyhow. So that old ones do not pile up, each of them doubles the time after which
 * the present one is replaced. */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/warden_internal.h"
#include "jail/zygote.h"
#include "jail/zygote_start.h"

enum {
    RETRY_MS = 100,
    RETRY_MAX = 8,
    FORKS_MAX = 1000,
    AGE_MS = 10 * 60 * 1000,
    OLD_MAX = 8,
    PATIENCE_MS = 5000
};

static struct {
    int program_fd; /* 0: nobody asked for a zygote */
    char *names;
    struct zygote all[OLD_MAX + 2]; /* those that neither serve nor import are old */
    struct zygote *now;             /* serves; NULL: none */
    struct zygote *next;            /* imports */
    uint32_t last;                  /* number */
    uint32_t request;               /* whom to tell when the next one is ready */
    int failures;
    int64_t retry_ms; /* when to try again; 0: no need */
} zygotes;

/* Whoever waits for a fork of it sees that the birth's other end is gone. */
static void drop(struct zygote *zygote)
{
    if (zygote == NULL)
        return;
    /* One that is killed in the middle of a fork leaves a process that ends by itself. */
    (void)kill(zygote->pid, SIGKILL);
    while (waitpid(zygote->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    (void)epoll_ctl(warden.epoll_fd, EPOLL_CTL_DEL, zygote->fd, NULL);
    fd_close(&zygote->fd);
    for (size_t i = 0; i < warden.slots.len; i++)
        if (warden.slots.ptr[i].zygote == zygote->number)
            warden.slots.ptr[i].forking = 0;
    *zygote = (struct zygote){0};
    if (zygote == zygotes.now)
        zygotes.now = NULL;
    if (zygote == zygotes.next)
        zygotes.next = NULL;
}

static struct zygote *find(uint32_t number)
{
    for (size_t i = 0; number != 0 && i < countof(zygotes.all); i++)
        if (zygotes.all[i].number == number)
            return &zygotes.all[i];
    return NULL;
}

/* --- Old ones --- */

static bool is_old(const struct zygote *zygote)
{
    return zygote->number != 0 && zygote != zygotes.now && zygote != zygotes.next;
}

/* How many there are, and the oldest of them. */
static size_t count_old(struct zygote **ret_first)
{
    size_t count = 0;
    for (size_t i = 0; i < countof(zygotes.all); i++) {
        struct zygote *zygote = &zygotes.all[i];
        if (!is_old(zygote))
            continue;
        if (count++ == 0 || zygote->number < (*ret_first)->number)
            *ret_first = zygote;
    }
    return count;
}

static void retire(struct zygote *zygote)
{
    struct zygote *first;
    if (zygote == NULL)
        return;
    zygotes.now = NULL;
    if (zygote->jails == 0)
        drop(zygote);
    else if (count_old(&first) > OLD_MAX)
        drop(first);
}

void warden_leave_zygote(struct slot *slot)
{
    struct zygote *zygote = find(slot->zygote);
    slot->zygote = 0;
    if (zygote != NULL && --zygote->jails == 0 && is_old(zygote))
        drop(zygote);
}

struct zygote *warden_zygote_for(const struct slot *slot, uint32_t number)
{
    struct zygote *asked = find(number), *its = find(slot->zygote);
    return asked != NULL ? asked : its != NULL ? its : zygotes.now;
}

void warden_enter_zygote(struct slot *slot, struct zygote *zygote)
{
    zygote->forks++;
    if (zygote->owed++ == 0)
        zygote->heard_ms = clock_now_ms();
    if (slot->zygote == zygote->number)
        return;
    warden_leave_zygote(slot);
    slot->zygote = zygote->number;
    zygote->jails++;
}

/* --- From its start to its end --- */

static void retry_later(void)
{
    zygotes.retry_ms = clock_now_ms() + ((int64_t)RETRY_MS << zygotes.failures);
    zygotes.failures = MIN(zygotes.failures + 1, (int)RETRY_MAX);
}

static void start_next(struct err *err)
{
    struct zygote_start start = {.program_fd = zygotes.program_fd,
                                 .names = zygotes.names,
                                 .proc_fd = warden.maker.template.proc_fd};
    struct zygote *next = zygotes.all;
    while (next->number != 0)
        next++;
    zygotes.retry_ms = 0;
    if (zygote_start(&start, &next->pid, &next->fd, err) < 0) {
        retry_later();
        return;
    }
    next->number = ++zygotes.last;
    next->since_ms = clock_now_ms();
    zygotes.next = next;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WORD_ZYGOTES | next->number};
    int done = epoll_ctl(warden.epoll_fd, EPOLL_CTL_ADD, next->fd, &event);
    assert(done == 0);
}

void warden_on_template(uint32_t request, struct wire_in *in)
{
    const char *names = wire_get_cstr(in);
    struct err err = {0};
    if (names == NULL || !wire_ended(in) || warden.fds[0] < 0 || zygotes.request != 0) {
        (void)err_set(&err, zygotes.request != 0 ? ERR_BUSY : ERR_INVALID,
                      zygotes.request != 0 ? "another template is being made"
                                           : "a template needs its program");
        return warden_say_failed(request, &err);
    }
    drop(zygotes.next);
    retire(zygotes.now);
    if (zygotes.program_fd > 0)
        fd_close(&zygotes.program_fd);
    free(zygotes.names);
    zygotes.program_fd = fd_take(&warden.fds[0]);
    zygotes.names = mem_dup_cstr(names);
    zygotes.failures = 0;
    zygotes.request = request;
    start_next(&err);
    if (zygotes.next == NULL) {
        zygotes.request = 0;
        warden_say_failed(request, &err);
    }
}

static void on_ready(struct wire_in *in)
{
    const char *missing = wire_get_cstr(in);
    retire(zygotes.now);
    zygotes.now = zygotes.next;
    zygotes.next = NULL;
    zygotes.failures = 0;
    if (zygotes.request == 0)
        return;
    wire_begin(&warden.out, WARDEN_PREPARED, zygotes.request);
    wire_put_cstr(&warden.out, missing == NULL ? "" : missing);
    warden_say(NULL, 0);
    zygotes.request = 0;
}

static void on_lost(struct zygote *zygote, const struct err *why)
{
    struct err err = *why;
    if (err.code == 0)
        (void)err_set(&err, ERR_UNAVAILABLE, "the template's process died");
    bool imported = zygote == zygotes.next, was_old = is_old(zygote);
    drop(zygote);
    if (!was_old)
        retry_later();
    if (zygotes.request != 0 && imported) {
        warden_say_failed(zygotes.request, &err);
        zygotes.request = 0;
    }
}

/* Where the jail was may be another one by now. */
static void on_forked(struct zygote *zygote, uint32_t birth)
{
    zygote->owed -= zygote->owed > 0;
    zygote->heard_ms = clock_now_ms();
    for (size_t i = 0; i < warden.slots.len; i++)
        if (warden.slots.ptr[i].birth == birth && warden.slots.ptr[i].forking > 0)
            warden.slots.ptr[i].forking--;
}

void warden_on_zygote(uint32_t number)
{
    struct zygote *zygote = find(number);
    int fds[WIRE_FDS_MAX];
    struct err err = {0}, why = {0};
    struct wire_head head = {0};
    if (zygote == NULL)
        return;
    ssize_t len = wire_recv(zygote->fd, warden.in, fds, false, &err);
    if (len < 0 && err.sys == EAGAIN)
        return;
    struct wire_in in = wire_open(str_n(warden.in, len > 0 ? (size_t)len : 0), &head);
    if (len > 0)
        wire_close_fds(fds);
    if (head.type == ZYGOTE_READY && zygote == zygotes.next)
        return on_ready(&in);
    if (head.type == ZYGOTE_FORKED && zygote != zygotes.next)
        return on_forked(zygote, head.id);
    if (head.type == ZYGOTE_BROKEN)
        wire_get_err(&in, &why);
    on_lost(zygote, &why);
}

/* --- Time --- */

/* All who ask wait for their kernel. Until that is too long: -1 for ever. */
static int64_t patience_ms(const struct zygote *zygote)
{
    return zygote->owed == 0 ? -1
                             : MAX(zygote->heard_ms + PATIENCE_MS - clock_now_ms(), (int64_t)0);
}

static void end_stuck(void)
{
    struct err err = {0};
    for (size_t i = 0; i < countof(zygotes.all); i++)
        if (patience_ms(&zygotes.all[i]) == 0) {
            (void)err_set(&err, ERR_UNAVAILABLE, "the template does not answer");
            on_lost(&zygotes.all[i], &err);
        }
}

/* Until another one is to be started: 0 for now, -1 while nothing is known to call for it. */
static int64_t due_in_ms(void)
{
    const struct zygote *now = zygotes.now;
    struct zygote *first;
    if (zygotes.program_fd <= 0 || zygotes.next != NULL)
        return -1;
    int64_t at = zygotes.retry_ms;
    if (now != NULL && at == 0) {
        size_t old = count_old(&first);
        if (now->forks == 0)
            return -1;
        at =
            now->forks >= (uint32_t)FORKS_MAX << old ? 0 : now->since_ms + ((int64_t)AGE_MS << old);
    }
    return MAX(at - clock_now_ms(), (int64_t)0);
}

void warden_tend_zygotes(void)
{
    struct err err = {0};
    end_stuck();
    if (due_in_ms() == 0)
        start_next(&err);
}

static int64_t sooner(int64_t a_ms, int64_t b_ms)
{
    return a_ms < 0 ? b_ms : b_ms < 0 ? a_ms : MIN(a_ms, b_ms);
}

int warden_zygotes_wait_ms(int wait_ms)
{
    int64_t due_ms = sooner(wait_ms, due_in_ms());
    for (size_t i = 0; i < countof(zygotes.all); i++)
        due_ms = sooner(due_ms, patience_ms(&zygotes.all[i]));
    return (int)MIN(due_ms, (int64_t)INT32_MAX);
}

bool warden_is_zygote(pid_t pid)
{
    for (size_t i = 0; i < countof(zygotes.all); i++)
        if (zygotes.all[i].number != 0 && zygotes.all[i].pid == pid)
            return true;
    return false;
}

void warden_end_zygotes(void)
{
    for (size_t i = 0; i < countof(zygotes.all); i++)
        if (zygotes.all[i].number != 0)
            drop(&zygotes.all[i]);
}
