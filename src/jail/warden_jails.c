/* A jail's way through the warden: built, handed over or pooled, ended, put away. */

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/init.h"
#include "jail/netns.h"
#include "jail/warden_internal.h"

/* epoll words: the slot's index, whether it is its pidfd, and the birth of its jail. */
static uint64_t word_of(size_t index, bool is_pidfd)
{
    return (uint64_t)warden.slots.ptr[index].birth << 33 | (uint64_t)is_pidfd << 32 |
           (uint32_t)index;
}

/* A death is told once: whose jail is with its owner then, is asked for later. */
static void watch(int fd, size_t index, bool is_pidfd)
{
    struct epoll_event event = {.events = is_pidfd ? EPOLLIN | EPOLLET : EPOLLIN,
                                .data.u64 = word_of(index, is_pidfd)};
    int done = epoll_ctl(warden.epoll_fd, EPOLL_CTL_ADD, fd, &event);
    assert(done == 0);
}

static void unwatch(int fd)
{
    (void)epoll_ctl(warden.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static size_t new_slot(void)
{
    for (size_t i = 0; i < warden.slots.len; i++)
        if (warden.slots.ptr[i].state == FREE)
            return i;
    (void)vec_push(&warden.slots);
    return warden.slots.len - 1;
}

int warden_build(const struct jail_plan *plan, uint32_t request, struct err *err)
{
    struct made made;
    if (maker_make(&warden.maker, plan, &made, err) < 0)
        return -1;
    size_t index = new_slot();
    warden.slots.ptr[index] = (struct slot){.state = BUILDING,
                                            .made = made,
                                            .request = request,
                                            .profile = request == 0 ? warden.profile_number : 0,
                                            .birth = ++warden.births & (UINT32_MAX >> 1)};
    struct slot *slot = &warden.slots.ptr[index];
    slot->fence = warden_fence_of(plan, &slot->fence_len);
    watch(made.control_fd, index, false);
    watch(made.pidfd, index, true);
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
    maker_reap(&warden.maker, &slot->made);
    if (slot->answer_end)
        warden_say_stats(slot->request, &slot->made.last);
    unwatch(slot->made.pidfd);
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
    if (slot->is_dead)
        on_dead(index);
    else
        maker_kill(&warden.maker, &slot->made);
}

void warden_clear_jail(struct slot *slot)
{
    if (!maker_clear(&warden.maker, &slot->made))
        return;
    slot->state = FREE;
    free(slot->fence);
    slot->fence = NULL;
    warden.buried--;
}

/* What a new jail says first; its writable layer comes before that. */
static ssize_t hear_built(struct made *made, struct wire_head *ret_head, struct wire_in *ret_in,
                          struct err *err)
{
    for (;;) {
        int fds[WIRE_FDS_MAX];
        *ret_head = (struct wire_head){0};
        ssize_t len = wire_recv(made->control_fd, warden.in, fds, false, err);
        *ret_in = wire_open(str_n(warden.in, len > 0 ? (size_t)len : 0), ret_head);
        bool is_layer = len > 0 && ret_head->type == INIT_LAYER && made->layer_fd < 0;
        if (is_layer)
            made->layer_fd = fd_take(&fds[0]);
        wire_close_fds(fds);
        if (!is_layer)
            return len;
    }
}

/* First word of a new jail: ready, or why not. */
static void on_built(size_t index)
{
    struct slot *slot = &warden.slots.ptr[index];
    struct err err = {0};
    struct wire_head head = {0};
    struct wire_in in = {0};
    ssize_t len = hear_built(&slot->made, &head, &in, &err);
    if (len < 0 && err.sys == EAGAIN && !slot->is_dead)
        return;
    uint32_t request = slot->request;
    bool for_pool = request == 0;
    if (for_pool &&
        (slot->profile != warden.profile_number || warden.pool_ready >= warden.pool_target)) {
        warden_end_jail(index); /* the pool was changed while it was built */
        return;
    }
    if (head.type == INIT_READY && wire_ended(&in)) {
        unwatch(slot->made.control_fd);
        maker_undock(&warden.maker, &slot->made);
        warden.pool_building -= request == 0;
        warden.owed -= request != 0;
        if (request != 0) {
            warden_hand_over(index, request);
            maker_hold_tree(&warden.maker, &slot->made);
            return;
        }
        slot->state = POOLED;
        warden.pool_ready++;
        if (slot->is_dead) {
            on_dead(index);
            return;
        }
        maker_hold_tree(&warden.maker, &slot->made);
        warden_rehearse(slot);
        return;
    }
    if (head.type == INIT_BROKEN)
        wire_get_err(&in, &err);
    else
        (void)err_set(&err, ERR_INTERNAL, "the jail's first process died");
    warden_end_jail(index);
    if (request != 0)
        warden_say_failed(request, &err);
    else
        warden_pause_refill();
}

/* Its last words are heard first. */
static void on_pidfd(size_t index)
{
    struct slot *slot = &warden.slots.ptr[index];
    slot->is_dead = true;
    if (slot->state == BUILDING)
        on_built(index);
    else if (slot->state == POOLED || slot->state == ENDING)
        on_dead(index);
}

void warden_on_jail(uint64_t word)
{
    uint32_t index = (uint32_t)word;
    bool is_pidfd = (word >> 32 & 1) != 0;
    if (word != word_of(index, is_pidfd))
        return; /* of a jail that is gone */
    if (is_pidfd)
        on_pidfd(index);
    else if (warden.slots.ptr[index].state == BUILDING)
        on_built(index);
}
