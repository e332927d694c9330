/* A jail's way through the warden: built, handed over or pooled, ended, put away. */

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/init.h"
#include "jail/netns.h"
#include "jail/warden_internal.h"

/* What of a jail is watched. */
enum watched { CONTROL, PIDFD, PROXY };

/* epoll words: the slot's index, what of it, and the birth of its jail. */
static uint64_t word_of(size_t index, enum watched what)
{
    return (uint64_t)warden.slots.ptr[index].birth << 34 | (uint64_t)what << 32 | (uint32_t)index;
}

/* A death is told once: whose jail is with its owner then, is asked for later. */
static void watch(int fd, size_t index, enum watched what)
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

/* Without a seed the first question finds another one. */
static int make(const struct jail_plan *plan, struct made *ret_made, struct err *err)
{
    warden.maker.is_seed_lost = false;
    if (maker_make(&warden.maker, plan, ret_made, err) == 0)
        return 0;
    if (!warden.maker.is_seed_lost || warden_replace_seed(err) < 0)
        return -1;
    return maker_make(&warden.maker, plan, ret_made, err);
}

int warden_build(const struct jail_plan *plan, uint32_t request, struct err *err)
{
    struct made made;
    if (make(plan, &made, err) < 0)
        return -1;
    size_t index = new_slot();
    warden.slots.ptr[index] = (struct slot){.state = BUILDING,
                                            .made = made,
                                            .request = request,
                                            .profile = request == 0 ? warden.profile_number : 0,
                                            .birth = ++warden.births & (UINT32_MAX >> 2)};
    struct slot *slot = &warden.slots.ptr[index];
    slot->fence = warden_fence_of(plan, &slot->fence_len);
    watch(made.control_fd, index, CONTROL);
    if (made.net.proxy_fd > 0)
        watch(made.net.proxy_fd, index, PROXY);
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
        warden_say_stats(slot->request, slot, &slot->made.last);
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
    if (slot->is_dead || slot->made.pidfd < 0)
        on_dead(index); /* or it was never born */
    else if (slot->forking == 0)
        maker_kill(&warden.maker, &slot->made);
}

void warden_jail_entered(struct slot *slot, uint32_t count)
{
    slot->forking -= MIN(count, slot->forking);
    if (slot->forking == 0 && slot->state == ENDING)
        maker_kill(&warden.maker, &slot->made);
}

void warden_clear_jail(struct slot *slot)
{
    if (!maker_clear(&warden.maker, &slot->made))
        return;
    slot->state = FREE;
    free(slot->fence);
    free(slot->broken);
    slot->fence = NULL;
    slot->broken = NULL;
    warden.buried--;
}

static void take_word(size_t index, struct str packet, int fds[WIRE_FDS_MAX])
{
    struct slot *slot = &warden.slots.ptr[index];
    struct wire_head head;
    struct wire_in in = wire_open(packet, &head);
    if (head.type == INIT_BORN && slot->made.pidfd < 0 && fds[0] >= 0) {
        slot->made.pid = (pid_t)wire_get_u32(&in);
        slot->made.pidfd = fd_take(&fds[0]);
        watch(slot->made.pidfd, index, PIDFD);
    } else if (head.type == INIT_LAYER && slot->made.layer_fd < 0) {
        slot->made.layer_fd = fd_take(&fds[0]);
    } else if (head.type == INIT_READY && wire_ended(&in)) {
        slot->is_ready = true;
    } else if ((head.type == INIT_BROKEN || head.type == INIT_UNBORN) && slot->broken == NULL) {
        slot->broken = mem_alloc(sizeof *slot->broken);
        wire_get_err(&in, slot->broken);
    }
}

/* What the seed and the jail's process say while it is built comes in either order. Says whether it
 * is over: the jail is ready and we know its pidfd, or all who could still speak are gone, which is
 * when a failure is known to be whole. */
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
        take_word(index, str_n(words, (size_t)len), fds);
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
        (void)err_set(&err, ERR_UNAVAILABLE,
                      "the process that jails are copied from was killed; ask again");
    else
        (void)err_set(&err, ERR_INTERNAL, "the jail's first process died");
    warden_end_jail(index);
    if (request != 0)
        warden_say_failed(request, &err);
    else
        warden_pause_refill();
}

static void finish_build(size_t index)
{
    struct slot *slot = &warden.slots.ptr[index];
    uint32_t request = slot->request;
    unwatch(slot->made.control_fd);
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

/* A program in there would go out. Who owns the jail says what becomes of it, and until then it
 * waits: nothing that it sends is read here. */
static void on_knock(size_t index)
{
    const struct slot *slot = &warden.slots.ptr[index];
    warden_unwatch_proxy(slot);
    if (slot->state != OWNED)
        return;
    wire_begin(&warden.out, WARDEN_KNOCKED, 0);
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
        on_knock(index);
    else if (warden.slots.ptr[index].state == BUILDING)
        on_built(index);
}

void warden_hear_births(void)
{
    for (size_t i = 0; i < warden.slots.len; i++)
        if (warden.slots.ptr[i].state == BUILDING)
            on_built(i);
}

void warden_fail_unborn(void)
{
    for (size_t i = 0; i < warden.slots.len; i++)
        if (warden.slots.ptr[i].state == BUILDING && warden.slots.ptr[i].made.pidfd < 0)
            fail_build(i);
}
