#include "jail/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/vec.h"
#include "jail/init.h"
#include "jail/init_program.h"
#include "jail/lockdown.h"
#include "jail/maker.h"
#include "jail/netns.h"
#include "jail/relayer.h"
#include "jail/setup.h"

/* A jail's way. BUILDING: its process sets itself up; control_fd is watched. POOLED: finished,
 * waits for an owner; pidfd is watched. OWNED: handed over by hand_over(). ENDING: killed by
 * end_jail(), pidfd is watched. BURIED: reaped by on_dead(); what it held is being put away.
 * FREE: the slot can be used again. */
enum state { FREE, BUILDING, POOLED, OWNED, ENDING, BURIED };

struct slot {
    enum state state;
    struct made made;
    uint32_t request; /* whom to answer; 0: nobody asked, it is for the pool */
    bool answer_end;
    bool frozen;      /* by its owner */
    bool is_dead;     /* while its owner does not know yet */
    uint32_t profile; /* of the pool, when it was made for it */
    uint32_t birth;   /* tells events of this jail from those of the slot's last */
};

struct warden {
    struct maker maker;
    int daemon_fd;
    int epoll_fd;
    VEC(struct slot) slots;
    struct buf out;
    char in[WIRE_MAX];
    /* The pool: plans like this one are served from it. */
    struct buf profile; /* the plan as a message, without what can be set on a finished jail */
    char profile_packet[WIRE_MAX];
    struct jail_plan profile_plan;
    uint32_t profile_number;
    size_t pool_target, pool_ready, pool_building;
    int64_t pool_idle_ns; /* without a question for so long, it rests; 0: never */
    size_t owed;          /* being built for somebody who waits */
    size_t buried;
    uint32_t births;
    int64_t asked_ns;        /* when the last question came */
    int64_t refill_after_ns; /* breathing space after a failure */
    bool is_stocked;         /* nothing is left to do until somebody asks */
    bool leaving;
};

static struct warden self;

/* A pool is refilled while questions come only when less than one in REFILL_LOW is left. What is
 * kept to serve again follows its size; at rest next to nothing is kept. */
enum {
    REFILL_LOW = 8,
    REFILL_AT_ONCE = 2,
    REFILL_PAUSE_MS = 100,
    QUIET_MS = 3,
    STOCK_READY = 8,
    STOCK_LEAST = 16,
    STOCK_PER_JAIL = 4,
    REST_READY = 1,
};

/* epoll words: the slot's index, whether it is its pidfd, and the birth of its jail. */
enum { WORD_DAEMON = UINT32_MAX };

static uint64_t word_of(size_t index, bool is_pidfd)
{
    return (uint64_t)self.slots.ptr[index].birth << 33 | (uint64_t)is_pidfd << 32 | (uint32_t)index;
}

/* A death is told once: whose jail is with its owner then, is asked for later. */
static void watch(int fd, size_t index, bool is_pidfd)
{
    struct epoll_event event = {.events = is_pidfd ? EPOLLIN | EPOLLET : EPOLLIN,
                                .data.u64 = word_of(index, is_pidfd)};
    int done = epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, fd, &event);
    assert(done == 0);
}

static void unwatch(int fd)
{
    (void)epoll_ctl(self.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void say(const int *fds, size_t fd_count)
{
    struct err err;
    /* A daemon that cannot be told anything is gone; the end of its socket tells us soon. */
    if (wire_send(self.daemon_fd, buf_str(&self.out), fds, fd_count, &err) < 0)
        self.leaving = true;
}

static void say_failed(uint32_t request, const struct err *reason)
{
    wire_begin(&self.out, WARDEN_FAILED, request);
    wire_put_err(&self.out, reason);
    say(NULL, 0);
}

static void say_stats(uint32_t request, const struct cgroup_stats *stats)
{
    wire_begin(&self.out, WARDEN_STATS, request);
    wire_put_i64(&self.out, stats->oom_kills);
    wire_put_i64(&self.out, stats->memory_peak);
    wire_put_i64(&self.out, stats->memory_now);
    wire_put_i64(&self.out, stats->pids_refused);
    say(NULL, 0);
}

static size_t new_slot(void)
{
    for (size_t i = 0; i < self.slots.len; i++)
        if (self.slots.ptr[i].state == FREE)
            return i;
    (void)vec_push(&self.slots);
    return self.slots.len - 1;
}

static int build(const struct jail_plan *plan, uint32_t request, struct err *err)
{
    struct made made;
    if (maker_make(&self.maker, plan, &made, err) < 0)
        return -1;
    size_t index = new_slot();
    self.slots.ptr[index] = (struct slot){.state = BUILDING,
                                          .made = made,
                                          .request = request,
                                          .profile = request == 0 ? self.profile_number : 0,
                                          .birth = ++self.births & (UINT32_MAX >> 1)};
    watch(made.control_fd, index, false);
    watch(made.pidfd, index, true);
    self.pool_building += request == 0;
    self.owed += request != 0;
    return 0;
}

/* Jail numbers count from 1. The control socket leaves this process: only its owner reads it. */
static void hand_over(size_t index, uint32_t request)
{
    struct slot *slot = &self.slots.ptr[index];
    int fds[2 + JAIL_SOCKETS] = {slot->made.pidfd, slot->made.control_fd};
    memcpy(fds + 2, slot->made.sockets, sizeof slot->made.sockets);
    slot->state = OWNED;
    wire_begin(&self.out, WARDEN_MADE, request);
    wire_put_u32(&self.out, (uint32_t)index + 1);
    say(fds, slot->made.has_gateway ? countof(fds) : 2);
    fd_close(&slot->made.control_fd);
    netns_close_sockets(slot->made.sockets);
}

static void on_dead(size_t index);

static void end_jail(size_t index)
{
    struct slot *slot = &self.slots.ptr[index];
    if (slot->state == POOLED)
        self.pool_ready--;
    if (slot->state == BUILDING) {
        unwatch(slot->made.control_fd);
        self.pool_building -= slot->request == 0;
        self.owed -= slot->request != 0;
    }
    slot->state = ENDING;
    if (slot->is_dead)
        on_dead(index);
    else
        maker_kill(&self.maker, &slot->made);
}

/* Its groups are removed; the kernel may need a moment after the last process is reaped. */
static void clear(struct slot *slot)
{
    if (!maker_clear(&self.maker, &slot->made))
        return;
    slot->state = FREE;
    self.buried--;
}

static void on_dead(size_t index)
{
    struct slot *slot = &self.slots.ptr[index];
    if (slot->state == POOLED)
        self.pool_ready--;
    maker_reap(&self.maker, &slot->made);
    if (slot->answer_end)
        say_stats(slot->request, &slot->made.last);
    unwatch(slot->made.pidfd);
    slot->state = BURIED;
    self.buried++;
}

/* First word of a new jail: ready, or why not. */
static void on_built(size_t index)
{
    struct slot *slot = &self.slots.ptr[index];
    int fds[WIRE_FDS_MAX];
    struct err err = {0};
    struct wire_head head = {0};
    ssize_t len = wire_recv(slot->made.control_fd, self.in, fds, false, &err);
    struct wire_in in = wire_open(str_n(self.in, len > 0 ? (size_t)len : 0), &head);
    wire_close_fds(fds);
    if (len < 0 && err.sys == EAGAIN && !slot->is_dead)
        return;
    uint32_t request = slot->request;
    bool for_pool = request == 0;
    if (for_pool && (slot->profile != self.profile_number || self.pool_ready >= self.pool_target)) {
        end_jail(index); /* the pool was changed while it was built */
        return;
    }
    if (head.type == INIT_READY && wire_ended(&in)) {
        unwatch(slot->made.control_fd);
        maker_undock(&self.maker, &slot->made);
        self.pool_building -= request == 0;
        self.owed -= request != 0;
        if (request != 0) {
            hand_over(index, request);
            maker_hold_tree(&self.maker, &slot->made);
            return;
        }
        slot->state = POOLED;
        self.pool_ready++;
        if (slot->is_dead) {
            on_dead(index);
            return;
        }
        maker_hold_tree(&self.maker, &slot->made);
        return;
    }
    if (head.type == INIT_BROKEN)
        wire_get_err(&in, &err);
    else
        (void)err_set(&err, ERR_INTERNAL, "the jail's first process died");
    end_jail(index);
    if (request != 0)
        say_failed(request, &err);
    else
        self.refill_after_ns = clock_now_ns() + REFILL_PAUSE_MS * 1000000LL;
}

/* What a finished jail can still be given: memory and cpu. The rest must be as the pool's. */
static void profile_of(const struct jail_plan *plan, struct buf *out)
{
    struct jail_plan key = *plan;
    key.limits.memory_bytes = key.limits.cpu_milli = 1;
    buf_clear(out);
    plan_put(out, &key);
}

static bool serve_from_pool(const struct jail_plan *plan, uint32_t request)
{
    AUTO_BUF struct buf key = buf_with_limit(WIRE_MAX);
    if (self.pool_ready == 0)
        return false;
    profile_of(plan, &key);
    if (!str_eq(buf_str(&key), buf_str(&self.profile)))
        return false;
    const struct jail_limits *ready = &self.profile_plan.limits, *wanted = &plan->limits;
    bool same =
        ready->memory_bytes == wanted->memory_bytes && ready->cpu_milli == wanted->cpu_milli;
    for (size_t i = 0; i < self.slots.len; i++) {
        struct slot *slot = &self.slots.ptr[i];
        struct err err;
        if (slot->state != POOLED || slot->profile != self.profile_number)
            continue;
        if (!same && cgroup_limit(&self.maker.cgroups, &slot->made.cgroup, wanted, &err) < 0)
            return false;
        self.pool_ready--;
        hand_over(i, request);
        return true;
    }
    return false;
}

static void on_make(uint32_t request, struct wire_in *in)
{
    struct jail_plan plan;
    struct err err = {0};
    if (plan_get(in, &plan, &err) < 0 ||
        (!serve_from_pool(&plan, request) && build(&plan, request, &err) < 0))
        say_failed(request, &err);
}

static struct slot *owned(uint32_t number)
{
    if (number == 0 || number > self.slots.len)
        return NULL;
    struct slot *slot = &self.slots.ptr[number - 1];
    return slot->state == OWNED ? slot : NULL;
}

static struct slot *find_owned(uint32_t request, struct wire_in *in)
{
    uint32_t number = wire_get_u32(in);
    struct slot *slot = owned(number);
    struct err err = {0};
    if (slot == NULL) {
        (void)err_set(&err, ERR_NOT_FOUND, "no jail %u", number);
        say_failed(request, &err);
    }
    return slot;
}

static void on_end(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    if (slot == NULL)
        return;
    slot->request = request;
    slot->answer_end = true;
    end_jail((size_t)(slot - self.slots.ptr));
}

static void on_stat(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct cgroup_stats stats;
    if (slot == NULL)
        return;
    cgroup_read_stats(&self.maker.cgroups, &slot->made.cgroup, &stats);
    say_stats(request, &stats);
}

static void say_done(uint32_t request)
{
    wire_begin(&self.out, WARDEN_DONE, request);
    say(NULL, 0);
}

static void on_freeze(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct err err = {0};
    bool frozen = wire_get_u32(in) != 0;
    if (slot == NULL)
        return;
    if (cgroup_freeze(&self.maker.cgroups, &slot->made.cgroup, frozen, &err) < 0)
        return say_failed(request, &err);
    slot->frozen = frozen;
    say_done(request);
}

static void on_relayer(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct jail_plan plan;
    struct err err = {0};
    bool broken = false;
    if (slot == NULL)
        return;
    if (plan_get(in, &plan, &err) == 0 &&
        relayer_run(&self.maker, &slot->made, &plan, slot->frozen, &broken, &err) == 0)
        return say_done(request);
    /* Without its mounts it is of no use to anybody. */
    if (broken)
        maker_kill(&self.maker, &slot->made);
    say_failed(request, &err);
}

static void on_listen(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct err err = {0};
    uint32_t port = wire_get_u32(in);
    if (slot == NULL)
        return;
    AUTO_CLOSE int fd = maker_listen(&self.maker, &slot->made, port, &err);
    if (fd < 0)
        return say_failed(request, &err);
    wire_begin(&self.out, WARDEN_DONE, request);
    say(&fd, 1);
}

static void on_gateway(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct err err = {0};
    int sockets[JAIL_SOCKETS];
    uint32_t port = wire_get_u32(in);
    if (slot == NULL)
        return;
    if (maker_open_gateway(&self.maker, &slot->made, port, sockets, &err) < 0)
        return say_failed(request, &err);
    wire_begin(&self.out, WARDEN_DONE, request);
    say(sockets, countof(sockets));
    netns_close_sockets(sockets);
}

static void on_kill(uint32_t request, struct wire_in *in)
{
    struct slot *slot = find_owned(request, in);
    struct err err = {0};
    uint32_t command = wire_get_u32(in);
    if (slot == NULL)
        return;
    if (maker_kill_command(&self.maker, &slot->made, command, slot->frozen, &err) < 0)
        say_failed(request, &err);
    else
        say_done(request);
}

static void note_size(uint32_t count, int64_t idle_ms)
{
    self.pool_target = count;
    self.pool_idle_ns = idle_ms * 1000000;
    self.maker.keep = MAX((size_t)count * STOCK_PER_JAIL, (size_t)STOCK_LEAST);
}

/* Jails of an older profile leave; the new ones come when there is time. */
static void on_pool(uint32_t request, struct wire_in *in)
{
    struct err err = {0};
    uint32_t count = wire_get_u32(in);
    int64_t idle_ms = wire_get_i64(in);
    size_t len = in->rest.len;
    if (len > sizeof self.profile_packet || count > WARDEN_POOL_MAX) {
        (void)err_set(&err, ERR_INVALID, "a pool may hold 0 to %d jails", WARDEN_POOL_MAX);
        return say_failed(request, &err);
    }
    if (idle_ms < 0 || idle_ms > WARDEN_IDLE_MAX_MS) {
        (void)err_set(&err, ERR_INVALID, "a pool rests after 0 to %d ms", WARDEN_IDLE_MAX_MS);
        return say_failed(request, &err);
    }
    /* The plan borrows its strings from the packet: keep a copy. */
    memmove(self.profile_packet, in->rest.ptr, len);
    struct wire_in copy = {.rest = str_n(self.profile_packet, len)};
    self.pool_target = 0;
    if (plan_get(&copy, &self.profile_plan, &err) < 0)
        return say_failed(request, &err);
    profile_of(&self.profile_plan, &self.profile);
    self.profile_number++;
    for (size_t i = 0; i < self.slots.len; i++)
        if (self.slots.ptr[i].state == POOLED)
            end_jail(i);
    note_size(count, idle_ms);
    say_done(request);
}

static const struct {
    uint32_t type;
    void (*handle)(uint32_t request, struct wire_in *in);
} handlers[] = {
    {WARDEN_MAKE, on_make},       {WARDEN_END, on_end},   {WARDEN_STAT, on_stat},
    {WARDEN_FREEZE, on_freeze},   {WARDEN_POOL, on_pool}, {WARDEN_LISTEN, on_listen},
    {WARDEN_RELAYER, on_relayer}, {WARDEN_KILL, on_kill}, {WARDEN_GATEWAY, on_gateway},
};

static void on_daemon(void)
{
    int fds[WIRE_FDS_MAX];
    struct err err = {0};
    ssize_t len = wire_recv(self.daemon_fd, self.in, fds, false, &err);
    if (len < 0 && err.sys == EAGAIN)
        return;
    wire_close_fds(fds);
    if (len <= 0) {
        self.leaving = true;
        return;
    }
    struct wire_head head;
    self.asked_ns = clock_now_ns();
    struct wire_in in = wire_open(str_n(self.in, (size_t)len), &head);
    for (size_t i = 0; i < countof(handlers); i++)
        if (handlers[i].type == head.type)
            return handlers[i].handle(head.id, &in);
    (void)err_set(&err, ERR_INVALID, "no message %u", head.type);
    say_failed(head.id, &err);
}

static bool is_resting(void)
{
    return self.pool_idle_ns > 0 && clock_now_ns() - self.asked_ns > self.pool_idle_ns;
}

static size_t pool_size(void)
{
    return is_resting() ? MIN(self.pool_target, (size_t)REST_READY) : self.pool_target;
}

/* Whether the pool may be worked on: at once when it runs low, else when nobody has asked for a
 * while, so that building does not compete with the command that was just handed its jail. */
static bool may_refill(void)
{
    int64_t now = clock_now_ns();
    if (now < self.refill_after_ns)
        return false;
    return self.pool_ready * REFILL_LOW < self.pool_target ||
           now - self.asked_ns > QUIET_MS * 1000000LL;
}

static bool pool_wants(void)
{
    return self.pool_ready + self.pool_building < pool_size() &&
           self.pool_building < REFILL_AT_ONCE;
}

static bool refill(void)
{
    struct err err = {0};
    if (!pool_wants())
        return false;
    if (build(&self.profile_plan, 0, &err) < 0)
        self.refill_after_ns = clock_now_ns() + REFILL_PAUSE_MS * 1000000LL;
    return true;
}

static bool shrink(void)
{
    if (self.pool_ready <= pool_size())
        return false;
    for (size_t i = 0; i < self.slots.len; i++)
        if (self.slots.ptr[i].state == POOLED) {
            end_jail(i);
            return true;
        }
    return false;
}

/* Networks and groups, ahead of the jails that will need them. */
static bool stock(void)
{
    bool resting = is_resting();
    size_t ready = resting ? REST_READY : STOCK_READY;
    size_t keep = resting ? REST_READY : self.maker.keep;
    if (self.pool_target == 0)
        ready = 0;
    return net_stock_step(&self.maker.nets, ready, keep) ||
           cgroup_stock(&self.maker.cgroups, &self.profile_plan.limits, ready, keep);
}

/* Work nobody waits for: one piece at a time, so that a question never waits for more than that.
 * Says whether there is more. */
static bool idle_work(void)
{
    for (size_t i = 0; i < self.slots.len && self.buried > 0; i++)
        if (self.slots.ptr[i].state == BURIED)
            clear(&self.slots.ptr[i]);
    if (!may_refill() || self.owed > 0)
        return false;
    return refill() || undertaker_flush(&self.maker.undertaker) || shrink() || stock();
}

/* Until somebody asks; or until the pool may be worked on; or until it is time to rest. */
static int wait_ms(bool more)
{
    if (more)
        return 0;
    if (self.owed > 0)
        return -1;
    if (self.buried > 0 || self.maker.undertaker.count > 0 || pool_wants() || !self.is_stocked)
        return QUIET_MS;
    if (self.pool_idle_ns == 0 || is_resting())
        return -1;
    return (int)((self.asked_ns + self.pool_idle_ns - clock_now_ns()) / 1000000) + 1;
}

/* Its last words are heard first. */
static void on_pidfd(size_t index)
{
    struct slot *slot = &self.slots.ptr[index];
    slot->is_dead = true;
    if (slot->state == BUILDING)
        on_built(index);
    else if (slot->state == POOLED || slot->state == ENDING)
        on_dead(index);
}

static void on_event(const struct epoll_event *event)
{
    uint32_t index = (uint32_t)event->data.u64;
    bool is_pidfd = (event->data.u64 >> 32 & 1) != 0;
    if (event->data.u64 == WORD_DAEMON)
        on_daemon();
    else if (event->data.u64 != word_of(index, is_pidfd))
        return; /* of a jail that is gone */
    else if (is_pidfd)
        on_pidfd(index);
    else if (self.slots.ptr[index].state == BUILDING)
        on_built(index);
}

static void run(void)
{
    bool more = false;
    while (!self.leaving) {
        struct epoll_event events[16];
        int count = epoll_wait(self.epoll_fd, events, countof(events), wait_ms(more));
        for (int i = 0; i < count; i++)
            on_event(&events[i]);
        if (count > 0)
            self.is_stocked = false; /* perhaps */
        else
            self.is_stocked = !idle_work() && may_refill();
        more = count > 0 || (!self.is_stocked && may_refill());
    }
}

/* Nothing of ours stays behind: no process, no group. */
static void leave(void)
{
    for (size_t i = 0; i < self.slots.len; i++) {
        enum state state = self.slots.ptr[i].state;
        if (state == BUILDING || state == POOLED || state == OWNED)
            maker_kill(&self.maker, &self.slots.ptr[i].made);
    }
    for (size_t i = 0; i < self.slots.len; i++) {
        struct slot *slot = &self.slots.ptr[i];
        if (slot->state == FREE)
            continue;
        if (slot->state != BURIED)
            maker_reap(&self.maker, &slot->made);
        for (int tries = 0; tries < 500 && !maker_clear(&self.maker, &slot->made); tries++)
            (void)usleep(1000);
    }
    maker_done(&self.maker);
}

static void say_ready(void)
{
    const struct cgroup_host *groups = &self.maker.cgroups;
    wire_begin(&self.out, WARDEN_READY, 0);
    wire_put_u32(&self.out, self.maker.ids.privileged);
    wire_put_u32(&self.out, (uint32_t)landlock_abi());
    for (int slot = 0; slot < CG_UNIFIED; slot++)
        wire_put_cstr(&self.out,
                      cgroup_has(groups, (enum cgroup_slot)slot) ? NULL : groups->why[slot]);
    say(NULL, 0);
}

static int start(struct err *err)
{
    self.daemon_fd = SETUP_CONTROL_FD;
    self.out = buf_with_limit(WIRE_MAX);
    self.profile = buf_with_limit(WIRE_MAX);
    if (fcntl(self.daemon_fd, F_SETFD, FD_CLOEXEC) < 0)
        return err_sys(err, errno, "no socket to the daemon");
    self.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (self.epoll_fd < 0)
        return err_sys(err, errno, "epoll");
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WORD_DAEMON};
    if (epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, self.daemon_fd, &event) < 0)
        return err_sys(err, errno, "epoll");
    return maker_init(&self.maker, init_program[0].bytes, err);
}

int warden_main(void)
{
    struct err err = {0};
    (void)signal(SIGPIPE, SIG_IGN);
    /* Ctrl-C goes to the whole terminal group; the daemon decides when we leave. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    (void)signal(SIGTSTP, SIG_IGN);
    (void)umask(022);
    if (start(&err) < 0) {
        say_failed(0, &err);
        maker_done(&self.maker);
        return 1;
    }
    /* Without privilege the maps of a jail are written through /proc files of its process, which
     * would belong to the host's root if we, and so it, were not dumpable. */
    if (self.maker.ids.privileged)
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    say_ready();
    run();
    leave();
    return 0;
}
