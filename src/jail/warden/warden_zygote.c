/* The warden's zygotes: one of each kind that interpreters are forked from, started when the daemon
 * asks for it and again when it dies, and from time to time replaced by a fresh one, so that
 * addresses, the seed of hashes and whatever else all copies share is not shared by too many.
 *
 * A replaced zygote stays as long as there are jails with interpreters forked from it, or the
 * daemon keeps the memory of such interpreters (a lease): an interpreter that continues from that
 * memory must be a fork of the same zygote (zygote_image.h). Its heap is in memory for the
 * interpreters anyway. So that old zygotes do not accumulate, each of them doubles the time after
 * which the current one is replaced, and of more than OLD_MAX the oldest ends. */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/warden/warden_internal.h"
#include "jail/warden/zygote_start.h"
#include "jail/zygote/zygote.h"

enum {
    RETRY_MS = 100,
    RETRY_MAX = 8,
    FORKS_MAX = 1000,
    FORKS_FEW = 40, /* for tests: see warden_replace_zygotes_soon */
    AGE_MS = 10 * 60 * 1000,
    OLD_MAX = 8,
    PATIENCE_MS = 5000
};

/* One of enum zygote_kind. */
struct kind {
    int program_fd; /* 0: no zygote was requested */
    char *names;
    struct zygote *now;  /* serves; NULL: none */
    struct zygote *next; /* imports */
    uint32_t request;    /* whom to tell when the next one is ready */
    int failures;
    int64_t retry_ms; /* when to try again; 0: no need */
};

static struct {
    struct kind kinds[ZYGOTE_KINDS];
    struct zygote all[OLD_MAX + 2 * ZYGOTE_KINDS]; /* those that neither serve nor import are old */
    uint32_t last;                                 /* number */
    uint32_t forks_max; /* a zygote is replaced after this many forks; 0: FORKS_MAX */
} zygotes;

static struct kind *kind_of(const struct zygote *zygote)
{
    return &zygotes.kinds[zygote->kind];
}

/* A client that waits for a fork sees that the other end of its socket is closed. */
static void warden_zygote_drop(struct zygote *zygote)
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
    struct kind *kind = kind_of(zygote);
    *zygote = (struct zygote){0};
    if (zygote == kind->now)
        kind->now = NULL;
    if (zygote == kind->next)
        kind->next = NULL;
}

static struct zygote *warden_zygote_find(uint32_t number)
{
    for (size_t i = 0; number != 0 && i < countof(zygotes.all); i++)
        if (zygotes.all[i].number == number)
            return &zygotes.all[i];
    return NULL;
}

/* --- Old ones --- */

static bool is_old(const struct zygote *zygote)
{
    const struct kind *kind = kind_of(zygote);
    return zygote->number != 0 && zygote != kind->now && zygote != kind->next;
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

static bool is_needed(const struct zygote *zygote)
{
    return zygote->jails > 0 || zygote->leases > 0;
}

static void retire(struct zygote *zygote)
{
    struct zygote *first;
    if (zygote == NULL)
        return;
    kind_of(zygote)->now = NULL;
    if (!is_needed(zygote))
        warden_zygote_drop(zygote);
    else if (count_old(&first) > OLD_MAX)
        warden_zygote_drop(first);
}

void warden_leave_zygote(struct slot *slot)
{
    struct zygote *zygote = warden_zygote_find(slot->zygote);
    slot->zygote = 0;
    if (zygote == NULL)
        return;
    zygote->jails--;
    if (!is_needed(zygote) && is_old(zygote))
        warden_zygote_drop(zygote);
}

void warden_on_lease(UNUSED uint32_t request, struct wire_in *in)
{
    struct zygote *zygote = warden_zygote_find(wire_get_u32(in));
    bool is_begin = wire_get_u32(in) != 0;
    if (!wire_ended(in) || zygote == NULL)
        return;
    if (is_begin)
        zygote->leases++;
    else if (zygote->leases > 0)
        zygote->leases--;
    if (!is_needed(zygote) && is_old(zygote))
        warden_zygote_drop(zygote);
}

struct zygote *warden_zygote_for(const struct slot *slot, uint32_t number)
{
    enum zygote_kind kind = number == JAIL_ZYGOTE_PLAIN ? ZYGOTE_PLAIN : ZYGOTE_WHOLE;
    struct zygote *asked = warden_zygote_find(number), *its = warden_zygote_find(slot->zygote);
    if (asked != NULL)
        return asked;
    return its != NULL && its->kind == kind ? its : zygotes.kinds[kind].now;
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

static void retry_later(struct kind *kind)
{
    kind->retry_ms = clock_now_ms() + ((int64_t)RETRY_MS << kind->failures);
    kind->failures = MIN(kind->failures + 1, (int)RETRY_MAX);
}

static void start_next(struct kind *kind, struct err *err)
{
    struct zygote_start start = {.program_fd = kind->program_fd,
                                 .names = kind->names,
                                 .proc_fd = warden.builder.template.proc_fd};
    struct zygote *next = zygotes.all;
    while (next->number != 0)
        next++;
    kind->retry_ms = 0;
    if (zygote_start(&start, &next->pid, &next->fd, err) < 0) {
        retry_later(kind);
        return;
    }
    next->number = ++zygotes.last;
    next->kind = (enum zygote_kind)(kind - zygotes.kinds);
    next->since_ms = clock_now_ms();
    kind->next = next;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WORD_ZYGOTES | next->number};
    int done = epoll_ctl(warden.epoll_fd, EPOLL_CTL_ADD, next->fd, &event);
    assert(done == 0);
}

void warden_on_make_zygote(uint32_t request, struct wire_in *in)
{
    const char *names = wire_get_cstr(in);
    struct kind *kind = &zygotes.kinds[wire_get_u32(in) != 0 ? ZYGOTE_PLAIN : ZYGOTE_WHOLE];
    struct err err = {0};
    if (names == NULL || !wire_ended(in) || warden.fds[0] < 0 || kind->request != 0) {
        (void)err_set(&err, kind->request != 0 ? ERR_BUSY : ERR_INVALID,
                      kind->request != 0 ? "another zygote is being made"
                                         : "the program of the zygote is missing");
        return warden_say_failed(request, &err);
    }
    warden_zygote_drop(kind->next);
    retire(kind->now);
    if (kind->program_fd > 0)
        fd_close(&kind->program_fd);
    free(kind->names);
    kind->program_fd = fd_take(&warden.fds[0]);
    kind->names = mem_dup_cstr(names);
    kind->failures = 0;
    kind->request = request;
    start_next(kind, &err);
    if (kind->next == NULL) {
        kind->request = 0;
        warden_say_failed(request, &err);
    }
}

static void on_ready(struct kind *kind, struct wire_in *in)
{
    const char *missing = wire_get_cstr(in);
    retire(kind->now);
    kind->now = kind->next;
    kind->next = NULL;
    kind->failures = 0;
    if (kind->request == 0)
        return;
    wire_begin(&warden.out, WARDEN_PREPARED, kind->request);
    wire_put_cstr(&warden.out, missing == NULL ? "" : missing);
    warden_say(NULL, 0);
    kind->request = 0;
}

static void on_lost(struct zygote *zygote, const struct err *why)
{
    struct kind *kind = kind_of(zygote);
    struct err err = *why;
    if (err.code == 0)
        (void)err_set(&err, ERR_UNAVAILABLE, "the zygote's process died");
    bool imported = zygote == kind->next, was_old = is_old(zygote);
    warden_zygote_drop(zygote);
    if (!was_old)
        retry_later(kind);
    if (kind->request != 0 && imported) {
        warden_say_failed(kind->request, &err);
        kind->request = 0;
    }
}

/* Where the jail was may be another one by now. */
static void on_forked(struct zygote *zygote, uint32_t generation)
{
    zygote->owed -= zygote->owed > 0;
    zygote->heard_ms = clock_now_ms();
    for (size_t i = 0; i < warden.slots.len; i++)
        if (warden.slots.ptr[i].generation == generation && warden.slots.ptr[i].forking > 0)
            warden.slots.ptr[i].forking--;
}

void warden_on_zygote(uint32_t number)
{
    struct zygote *zygote = warden_zygote_find(number);
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
    struct kind *kind = kind_of(zygote);
    if (head.type == ZYGOTE_READY && zygote == kind->next)
        return on_ready(kind, &in);
    if (head.type == ZYGOTE_FORKED && zygote != kind->next)
        return on_forked(zygote, head.id);
    if (head.type == ZYGOTE_BROKEN)
        wire_get_err(&in, &why);
    on_lost(zygote, &why);
}

/* --- Time --- */

/* Time that clients may still wait for their interpreter; -1: no client waits. */
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
            (void)err_set(&err, ERR_UNAVAILABLE, "the zygote did not answer in time");
            on_lost(&zygotes.all[i], &err);
        }
}

/* Until another one is to be started: 0 for now, -1 while nothing is known to call for it. */
static int64_t due_in_ms(const struct kind *kind)
{
    const struct zygote *now = kind->now;
    struct zygote *first;
    if (kind->program_fd <= 0 || kind->next != NULL)
        return -1;
    int64_t at = kind->retry_ms;
    if (now != NULL && at == 0) {
        size_t old = count_old(&first);
        if (now->forks == 0)
            return -1;
        uint32_t max = zygotes.forks_max == 0 ? FORKS_MAX : zygotes.forks_max;
        at = now->forks >= max << old ? 0 : now->since_ms + ((int64_t)AGE_MS << old);
    }
    return MAX(at - clock_now_ms(), (int64_t)0);
}

void warden_replace_zygotes_soon(void)
{
    zygotes.forks_max = FORKS_FEW;
}

void warden_tend_zygotes(void)
{
    struct err err = {0};
    end_stuck();
    for (size_t i = 0; i < countof(zygotes.kinds); i++)
        if (due_in_ms(&zygotes.kinds[i]) == 0)
            start_next(&zygotes.kinds[i], &err);
}

static int64_t sooner(int64_t a_ms, int64_t b_ms)
{
    return a_ms < 0 ? b_ms : b_ms < 0 ? a_ms : MIN(a_ms, b_ms);
}

int warden_zygotes_wait_ms(int wait_ms)
{
    int64_t due_ms = wait_ms;
    for (size_t i = 0; i < countof(zygotes.kinds); i++)
        due_ms = sooner(due_ms, due_in_ms(&zygotes.kinds[i]));
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
            warden_zygote_drop(&zygotes.all[i]);
}
