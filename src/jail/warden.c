#include "jail/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/init_program.h"
#include "jail/lockdown.h"
#include "jail/setup.h"
#include "jail/warden_internal.h"

struct warden warden;

static void on_event(const struct epoll_event *event)
{
    if (event->data.u64 == WORD_DAEMON)
        warden_on_daemon();
    else if (event->data.u64 >> 32 == WORD_ZYGOTES >> 32)
        warden_on_zygote((uint32_t)event->data.u64);
    else if (event->data.u64 == WORD_SEED)
        warden_on_seed();
    else
        warden_on_jail(event->data.u64);
}

static void run(void)
{
    bool more = false;
    while (!warden.leaving) {
        struct epoll_event events[16];
        int wait_ms = warden_zygotes_wait_ms(warden_wait_ms(more));
        int count = epoll_wait(warden.epoll_fd, events, countof(events), wait_ms);
        for (int i = 0; i < count; i++)
            on_event(&events[i]);
        warden_tend_zygotes();
        if (count > 0)
            warden.is_stocked = false; /* perhaps */
        else
            warden.is_stocked = !warden_idle_work() && warden_may_refill();
        more = count > 0 || (!warden.is_stocked && warden_may_refill());
    }
}

/* Nothing of ours stays behind: no process, no group. */
static void leave(void)
{
    warden_end_zygotes();
    seed_stop(&warden.maker.seed);
    warden_hear_births();
    warden_end_strays();
    for (size_t i = 0; i < warden.slots.len; i++) {
        enum state state = warden.slots.ptr[i].state;
        if (state == BUILDING || state == POOLED || state == OWNED)
            maker_kill(&warden.maker, &warden.slots.ptr[i].made);
    }
    for (size_t i = 0; i < warden.slots.len; i++) {
        struct slot *slot = &warden.slots.ptr[i];
        if (slot->state == FREE)
            continue;
        if (slot->state != BURIED)
            maker_reap(&warden.maker, &slot->made);
        for (int tries = 0; tries < 500 && !maker_clear(&warden.maker, &slot->made); tries++)
            (void)usleep(1000);
    }
    maker_done(&warden.maker);
}

static void say_ready(void)
{
    const struct cgroup_host *groups = &warden.maker.cgroups;
    wire_begin(&warden.out, WARDEN_READY, 0);
    wire_put_u32(&warden.out, warden.maker.ids.privileged);
    wire_put_u32(&warden.out, (uint32_t)landlock_abi());
    for (int slot = 0; slot < CG_UNIFIED; slot++)
        wire_put_cstr(&warden.out,
                      cgroup_has(groups, (enum cgroup_slot)slot) ? NULL : groups->why[slot]);
    warden_say(NULL, 0);
}

static int start(struct err *err)
{
    warden.daemon_fd = SETUP_CONTROL_FD;
    warden.out = buf_with_limit(WIRE_MAX);
    warden.profile = buf_with_limit(WIRE_MAX);
    if (fcntl(warden.daemon_fd, F_SETFD, FD_CLOEXEC) < 0)
        return err_sys(err, errno, "no socket to the daemon");
    warden.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (warden.epoll_fd < 0)
        return err_sys(err, errno, "epoll");
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WORD_DAEMON};
    if (epoll_ctl(warden.epoll_fd, EPOLL_CTL_ADD, warden.daemon_fd, &event) < 0)
        return err_sys(err, errno, "epoll");
    return maker_init(&warden.maker, init_program[0].bytes, err);
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
        warden_say_failed(0, &err);
        maker_done(&warden.maker);
        return 1;
    }
    /* Without privilege the maps of a jail are written through /proc files of its process, which
     * would belong to the host's root if we, and so it, were not dumpable. */
    if (warden.maker.ids.privileged)
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    warden_watch_seed();
    say_ready();
    run();
    leave();
    return 0;
}
