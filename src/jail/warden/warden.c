#include "jail/wire/warden.h"
#include "jail/wire/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/lockdown.h"
#include "jail/inside/setup.h"
#include "jail/warden/warden_internal.h"
#include "jail/wire/init_program.h"

struct warden warden;

static void warden_on_event(const struct epoll_event *event)
{
    if (event->data.u64 == WORD_DAEMON)
        warden_on_daemon();
    else if (event->data.u64 >> 32 == WORD_ZYGOTES >> 32)
        warden_on_zygote((uint32_t)event->data.u64);
    else if (event->data.u64 == WORD_INIT_SPAWNER)
        warden_on_init_spawner();
    else
        warden_on_jail(event->data.u64);
}

static void warden_run(void)
{
    bool more = false;
    while (!warden.leaving) {
        struct epoll_event events[16];
        int wait_ms = warden_locks_wait_ms(warden_zygotes_wait_ms(warden_wait_ms(more)));
        if (warden.ending > 0 && (wait_ms < 0 || wait_ms > BUILDER_KILL_AGAIN_MS))
            wait_ms = BUILDER_KILL_AGAIN_MS;
        int count = epoll_wait(warden.epoll_fd, events, countof(events), wait_ms);
        for (int i = 0; i < count; i++)
            warden_on_event(&events[i]);
        warden_tend_zygotes();
        warden_tend_ending();
        warden_tend_locks();
        if (count > 0)
            warden.is_stocked = false; /* perhaps */
        else
            warden.is_stocked = !warden_idle_work() && warden_may_refill();
        more = count > 0 || (!warden.is_stocked && warden_may_refill());
    }
}

/* No process and no group is left behind. */
static void warden_leave(void)
{
    warden_end_zygotes();
    init_spawner_stop(&warden.builder.init_spawner);
    warden_read_starts();
    warden_end_strays();
    for (size_t i = 0; i < warden.slots.len; i++) {
        enum state state = warden.slots.ptr[i].state;
        if (state == BUILDING || state == POOLED || state == OWNED)
            builder_kill(&warden.builder, &warden.slots.ptr[i].made);
    }
    for (size_t i = 0; i < warden.slots.len; i++) {
        struct slot *slot = &warden.slots.ptr[i];
        if (slot->state == FREE)
            continue;
        if (slot->state != BURIED)
            builder_reap(&warden.builder, &slot->made);
        for (int tries = 0; tries < 500 && !builder_clear(&warden.builder, &slot->made); tries++)
            (void)usleep(1000);
    }
    builder_done(&warden.builder);
}

static void say_ready(void)
{
    const struct cgroup_host *groups = &warden.builder.cgroups;
    wire_begin(&warden.out, WARDEN_READY, 0);
    wire_put_u32(&warden.out, warden.builder.ids.privileged);
    wire_put_u32(&warden.out, (uint32_t)landlock_abi());
    for (int slot = 0; slot < CG_UNIFIED; slot++)
        wire_put_cstr(&warden.out,
                      cgroup_has(groups, (enum cgroup_slot)slot) ? NULL : groups->why[slot]);
    warden_say(NULL, 0);
}

static int start(const char *without, struct err *err)
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
    if (without != NULL && strcmp(without, "many_forks") == 0)
        warden_replace_zygotes_soon();
    return builder_init(&warden.builder, init_program[0].bytes, without, err);
}

int warden_main(const char *without)
{
    struct err err = {0};
    (void)signal(SIGPIPE, SIG_IGN);
    /* Ctrl-C goes to the whole terminal group; the daemon decides when we leave. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    (void)signal(SIGTSTP, SIG_IGN);
    (void)umask(022);
    if (start(without, &err) < 0) {
        warden_say_failed(0, &err);
        builder_done(&warden.builder);
        return 1;
    }
    /* Without privilege the maps of a jail are written through /proc files of its process, which
     * would belong to the host's root if we, and so it, were not dumpable. */
    if (warden.builder.ids.privileged)
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    warden_watch_init_spawner();
    say_ready();
    warden_run();
    warden_leave();
    return 0;
}
