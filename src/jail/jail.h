#pragma once

/* Jails for whoever needs one: the daemon, the CLI, a test.
 *
 * A warden is a process of ours that makes them; a jail is a running place; commands are started
 * in it. Calls wait for their answer, which takes microseconds from the pool and about a
 * millisecond without it. One thread at a time per warden and its jails. */

#include <sys/types.h>

#include "jail/plan.h"

struct err;
struct jail;
struct warden_link;

/* What the host can give; why[] is NULL for what it can. */
struct jail_host {
    bool privileged;
    int landlock;                                               /* ABI; 0: none */
    char no_memory[96], no_pids[96], no_cpu[96], no_freeze[96]; /* "" or the reason */
};

/* Starts a warden process; it leaves, and every jail with it, when it is freed or we die. */
int warden_start(struct warden_link **ret_warden, struct err *err) MUST_USE;
struct warden_link *warden_free(struct warden_link *warden);
static inline void warden_freep(struct warden_link **p)
{
    *p = warden_free(*p);
}
#define AUTO_WARDEN AUTO(warden_freep)
const struct jail_host *warden_host(const struct warden_link *warden);
pid_t warden_pid(const struct warden_link *warden);
/* Keeps `count` jails of this plan ready. The pool fills behind our back. */
int warden_pool(struct warden_link *warden, const struct jail_plan *plan, size_t count,
                struct err *err) MUST_USE;

/* UNSUPPORTED names what the host cannot give; nothing is weakened silently. */
int jail_make(struct warden_link *warden, const struct jail_plan *plan, struct jail **ret_jail,
              struct err *err) MUST_USE;
struct jail *jail_free(struct jail *jail); /* ends it first when that has not happened */
DEFINE_FREEP(jail)
#define AUTO_JAIL AUTO(jail_freep)

/* Starts a command with these three as its standard streams; they stay the caller's. With a
 * terminal `fds` is not used and its controlling descriptor comes back. INVALID: bad working
 * directory or format; NOT_FOUND: no such program or interpreter; FORBIDDEN: may not be run. */
int jail_start(struct jail *jail, const struct jail_command *command, const int fds[3],
               uint32_t *ret_id, int *ret_tty_fd, struct err *err) MUST_USE;

struct jail_exit {
    uint32_t id;
    int code;   /* when signal is 0 */
    int signal; /* that ended it */
    int64_t user_us, system_us, peak_kib, wall_ns;
};
/* The next command that ended. TIMEOUT after `timeout_ms` (-1: none), GONE when the whole jail is
 * no more. */
int jail_wait(struct jail *jail, int timeout_ms, struct jail_exit *ret_exit,
              struct err *err) MUST_USE;
/* Readable when jail_wait has something to say; for an event loop. */
int jail_fd(const struct jail *jail);
int jail_pidfd(const struct jail *jail);
/* One of the sockets of JAIL_NET_GATEWAY, once; then it is the caller's. -1 when there is none. */
int jail_take_socket(struct jail *jail, enum jail_socket which);
/* With JAIL_NET_GATEWAY: a listening socket on one more port of every address inside. BUSY when a
 * program in there has taken the port. */
int jail_listen(struct jail *jail, uint16_t port, struct err *err) MUST_USE;

int jail_signal(struct jail *jail, uint32_t id, int sig, struct err *err) MUST_USE;

struct jail_stats {
    int64_t oom_kills, memory_peak, memory_now, pids_refused; /* -1: unknown */
};
int jail_stat(struct jail *jail, struct jail_stats *ret_stats, struct err *err) MUST_USE;
/* Exchanges the root of a running jail for the layers of `plan`, which is otherwise the one it was
 * made with; used by jail/layers_live.h. BUSY: see there; nothing has changed then. */
int jail_relayer(struct jail *jail, const struct jail_plan *plan, struct err *err) MUST_USE;
int jail_freeze(struct jail *jail, bool frozen, struct err *err) MUST_USE;
/* Ends every process in it and gives the last figures. */
int jail_end(struct jail *jail, struct jail_stats *ret_stats, struct err *err) MUST_USE;
