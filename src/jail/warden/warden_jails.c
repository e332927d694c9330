/* A jail's way through the warden: built, handed over or pooled, ended, put away. */

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/netns.h"
#include "jail/warden/warden_internal.h"
#include "jail/wire/init.h"

/* What of a jail is watched. */
enum watched { CONTROL, PIDFD, PROXY };

/* epoll words: the slot's index, what of it, and the generation of its jail. */
static uint64_t word_of(size_t index, enum watched what)
{
    return (uint64_t)warden.slots.ptr[index].generation << 34 | (uint64_t)what << 32 |
           (uint32_t)index;
}

/* EPOLLET: a pidfd stays readable after the death, while the jail is still with its owner, and must
 * be reported only once. */
static void warden_jails_watch(int fd, size_t index, enum watched what)
{
    struct epoll_event event = {.events = what == PIDFD ? EPOLLIN | EPOLLET : EPOLLIN,
                                .data.u64 = word_of(index, what)};
    int done = epoll_ctl(warden.epoll_fd, EPOLL_CTL_ADD, fd, &event);
    assert(done == 0);
}

static void unwatch(int fd)
{
    (void)epoll_ctl(warden.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* The socket may be given away, and its namespace to another jail: neither takes it from here. */
void warden_unwatch_proxy(const struct slot *slot)
{
    if (slot->made.net.proxy_fd > 0)
        unwatch(slot->made.net.proxy_fd);
}

static size_t new_slot(void)
{
    for (size_t i = 0; i < warden.slots.len; i++)
        if (warden.slots.ptr[i].state == FREE)
            return i;
    (void)vec_push(&warden.slots);
    return warden.slots.len - 1;
}

/* Without an init spawner the first question finds another one. */
static int warden_jails_make(const struct jail_plan *plan, struct made *ret_made, struct err *err)
{
    warden.builder.is_init_spawner_lost = false;
    if (builder_make(&warden.builder, plan, ret_made, err) == 0)
        return 0;
    if (!warden.builder.is_init_spawner_lost || warden_replace_init_spawner(err) < 0)
        return -1;
    return builder_make(&warden.builder, plan, ret_made, err);
}

int warden_build(const struct jail_plan *plan, uint32_t request, struct err *err)
{
    struct made made;
    if (warden_jails_make(plan, &made, err) < 0)
        return -1;
    size_t index = new_slot();
    warden.slots.ptr[index] = (struct slot){.state = BUILDING,
                                            .made = made,
                                            .request = request,
                                            .profile = request == 0 ? warden.profile_number : 0,
                                            .generation = ++warden.generations & (UINT32_MAX >> 2)};
    struct slot *slot = &warden.slots.ptr[index];
    slot->confinement = warden_confinement_of(plan, &slot->confinement_len);
    warden_jails_watch(made.control_fd, index, CONTROL);
    if (made.net.proxy_fd > 0)
        warden_jails_watch(made.net.proxy_fd, index, PROXY);
    warden.pool_building += request == 0;
    warden.owed += request != 0;
    return 0;
}

/* Jail numbers count from 1. The control socket leaves this process: only its owner reads it. */
void warden_hand_over(size_t index, uint32_t request)
{
    struct slot *slot = &warden.slots.ptr[index];
    int fds[2 + JAIL_SOCKETS] = {slot->made.pidfd, slot->made.control_fd};
    memcpy(fds + 2, slot->made.sockets, sizeof slot->made.sockets);
    slot->state = OWNED;
    wire_begin(&warden.out, WARDEN_MADE, request);
    wire_put_u32(&warden.out, (uint32_t)index + 1);
    warden_say(fds, slot->made.has_gateway ? countof(fds) : 2);
    fd_close(&slot->made.control_fd);
    netns_close_sockets(slot->made.sockets);
}

static void on_dead(size_t index)
{
    struct slot *slot = &warden.slots.ptr[index];
    if (slot->state == POOLED)
        warden.pool_ready--;
    warden.ending -= slot->state == ENDING;
    builder_reap(&warden.builder, &slot->made);
    if (slot->answer_end)
        warden_say_stats(slot->request, slot, &slot->made.last, NULL);
    if (slot->made.pidfd >= 0)
        unwatch(slot->made.pidfd);
    warden_unwatch_proxy(slot);
    warden_leave_zygote(slot);
    slot->state = BURIED;
    warden.buried++;
}

void warden_end_jail(size_t index)
{
    struct slot *slot = &warden.slots.ptr[index];
    if (slot->state == POOLED)
        warden.pool_ready--;
    if (slot->state == BUILDING) {
        unwatch(slot->made.control_fd);
        warden.pool_building -= slot->request == 0;
        warden.owed -= slot->request != 0;
    }
    slot->state = ENDING;
    slot->killed_ns = clock_now_ns();
    warden.ending++;
    if (slot->is_dead || slot->made.pidfd < 0)
        on_dead(index); /* or it was never started */
    else
        builder_kill(&warden.builder, &slot->made);
}

void warden_tend_ending(void)
{
    int64_t now = warden.ending > 0 ? clock_now_ns() : 0;
    for (size_t i = 0; i < warden.slots.len && warden.ending > 0; i++) {
        struct slot *slot = &warden.slots.ptr[i];
        if (slot->state != ENDING || now - slot->killed_ns < BUILDER_KILL_AGAIN_MS * 1000000LL)
            continue;
        builder_kill_again(&warden.builder, &slot->made);
        slot->killed_ns = clock_now_ns();
    }
}

void warden_clear_jail(struct slot *slot)
{
    if (!builder_clear(&warden.builder, &slot->made))
        return;
    slot->state = FREE;
    free(slot->confinement);
    free(slot->broken);
    slot->confinement = NULL;
    slot->broken = NULL;
    warden.buried--;
}

static void warden_jails_take_word(size_t index, struct str packet, int fds[WIRE_FDS_MAX])
{
    struct slot *slot = &warden.slots.ptr[index];
    struct wire_head head;
    struct wire_in in = wire_open(packet, &head);
    if (head.type == INIT_CLONED && slot->made.pidfd < 0 && fds[0] >= 0) {
        slot->made.pid = (pid_t)wire_get_u32(&in);
        slot->made.pidfd = fd_take(&fds[0]);
        warden_jails_watch(slot->made.pidfd, index, PIDFD);
    } else if (head.type == INIT_LAYER && slot->made.layer_fd < 0) {
        slot->made.layer_fd = fd_take(&fds[0]);
    } else if (head.type == INIT_READY && wire_ended(&in)) {
        slot->is_ready = true;
    } else if ((head.type == INIT_BROKEN || head.type == INIT_NOT_CLONED) && slot->broken == NULL) {
        slot->broken = mem_alloc(sizeof *slot->broken);
        wire_get_err(&in, slot->broken);
    }
}

/* What the init spawner and the jail's process say while it is built comes in either order. Says
 * whether it is over: the jail is ready and we know its pidfd, or all who could still speak are
 * gone, which is when a failure is known to be whole. */
static bool hear_built(size_t index)
{
    /* Not warden.in: a question whose plan lies there may be what made us look. */
    static char words[WIRE_MAX];
    struct slot *slot = &warden.slots.ptr[index];
    while (!slot->is_ready || slot->made.pidfd < 0) {
        struct err err = {0};
        int fds[WIRE_FDS_MAX];
        ssize_t len = wire_recv(slot->made.control_fd, words, fds, false, &err);
        if (len < 0 && err.sys == EAGAIN)
            return false;
        if (len <= 0) {
            slot->is_ready = false;
            return true;
        }
        warden_jails_take_word(index, str_n(words, (size_t)len), fds);
        wire_close_fds(fds);
    }
    return true;
}

static void fail_build(size_t index)
{
    struct slot *slot = &warden.slots.ptr[index];
    struct err err = {0};
    uint32_t request = slot->request;
    if (slot->broken != NULL)
        err = *slot->broken;
    else if (slot->made.pidfd < 0)
        (void)err_set(&err, ERR_UNAVAILABLE, "the init spawner was killed; try again");
    else
        (void)err_set(&err, ERR_INTERNAL, "the jail's first process died");
    warden_end_jail(index);
    if (request != 0)
        warden_say_failed(request, &err);
    else
        warden_pause_refill();
}

/* Sends the groups that init puts commands into. If the send fails, init is dead, which is noticed
 * later. */
static void send_groups(const struct slot *slot)
{
    struct err unused;
    int fds[PART_FILES];
    for (int part = 0; part < CGROUP_COMMAND_PARTS; part++) {
        if (!cgroup_open_part(&warden.builder.cgroups, &slot->made.cgroup, part, fds))
            return;
        wire_begin(&warden.out, INIT_GROUP, 0);
        (void)!wire_send(slot->made.control_fd, buf_str(&warden.out), fds, PART_FILES, &unused);
        for (int i = 0; i < PART_FILES; i++)
            fd_close(&fds[i]);
    }
}

static void finish_build(size_t index)
{
    struct slot *slot = &warden.slots.ptr[index];
    uint32_t request = slot->request;
    unwatch(slot->made.control_fd);
    warden.pool_building -= request == 0;
    warden.owed -= request != 0;
    send_groups(slot);
    if (request != 0) {
        warden_hand_over(index, request);
        builder_hold_tree(&warden.builder, &slot->made);
        return;
    }
    slot->state = POOLED;
    warden.pool_ready++;
    if (slot->is_dead) {
        on_dead(index);
        return;
    }
    builder_hold_tree(&warden.builder, &slot->made);
    warden_rehearse(slot);
}

static void on_built(size_t index)
{
    struct slot *slot = &warden.slots.ptr[index];
    if (!hear_built(index))
        return;
    bool is_late =
        slot->profile != warden.profile_number || warden.pool_ready >= warden.pool_target;
    if (!slot->is_ready)
        fail_build(index);
    else if (slot->request == 0 && is_late)
        warden_end_jail(index); /* the pool was changed while it was built */
    else
        finish_build(index);
}

/* Reads its last messages first. */
static void on_pidfd(size_t index)
{
    struct slot *slot = &warden.slots.ptr[index];
    slot->is_dead = true;
    if (slot->state == BUILDING)
        on_built(index);
    else if (slot->state == POOLED || slot->state == ENDING)
        on_dead(index);
}

/* A program in the jail tried to connect. The owner of the jail decides; until then the connection
 * waits unread. */
static void on_gateway_wanted(size_t index)
{
    const struct slot *slot = &warden.slots.ptr[index];
    warden_unwatch_proxy(slot);
    if (slot->state != OWNED)
        return;
    wire_begin(&warden.out, WARDEN_WANTS_GATEWAY, 0);
    wire_put_u32(&warden.out, (uint32_t)index + 1);
    warden_say(NULL, 0);
}

void warden_on_jail(uint64_t word)
{
    uint32_t index = (uint32_t)word;
    enum watched what = (enum watched)(word >> 32 & 3);
    if (word != word_of(index, what))
        return; /* of a jail that is gone */
    if (what == PIDFD)
        on_pidfd(index);
    else if (what == PROXY)
        on_gateway_wanted(index);
    else if (warden.slots.ptr[index].state == BUILDING)
        on_built(index);
}

void warden_read_starts(void)
{
    for (size_t i = 0; i < warden.slots.len; i++)
        if (warden.slots.ptr[i].state == BUILDING)
            on_built(i);
}

void warden_fail_uncloned(void)
{
    for (size_t i = 0; i < warden.slots.len; i++)
        if (warden.slots.ptr[i].state == BUILDING && warden.slots.ptr[i].made.pidfd < 0)
            fail_build(i);
}
