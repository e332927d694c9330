#pragma once

/* A warden as its daemon sees it: the process that makes jails, and the line to it.
 *
 * There are two ways to use it. An event loop asks (warden_ask_*, jail_ask_*), which never waits
 * and gives the number of the request, watches warden_fd() for reading (and for writing while
 * warden_wants_write()), and then calls warden_next() until it says that there is nothing more.
 * Each request is answered by one event with its number, in any order. The other calls wait for
 * their own answer, which takes microseconds from the pool and about a millisecond without it;
 * events of other requests are kept meanwhile, so both ways may be mixed.
 *
 * One thread at a time per warden and its jails. */

#include <sys/types.h>

#include "base/err.h"
#include "jail/wire/plan.h"

struct jail;
struct warden_link;

/* What the host can give. */
struct jail_host {
    bool privileged;
    int landlock;                                               /* ABI; 0: none */
    char no_memory[96], no_pids[96], no_cpu[96], no_freeze[96]; /* "" or the reason */
};

struct jail_stats {
    int64_t oom_kills, memory_peak, memory_now, pids_refused; /* -1: unknown */
    uint32_t zygote; /* that its interpreters are forked from (jail_fork.h); 0: none */
    /* Cpu time so far; threads without init's, and processes with init, now. -1: unknown, and after
     * its end. */
    int64_t cpu_us, tasks, processes;
};

/* Of its pool now, and of the jails it has handed out since its start. */
struct warden_counts {
    size_t ready, building, wanted;
    uint64_t served, built;       /* out of the pool; made for who asked */
    int64_t cpu_us, memory_bytes; /* of all its jails; -1: unknown */
};

/* Starts a warden process; it leaves, and every jail with it, when it is freed or we die. Its jails
 * are freed first. */
int warden_start(struct warden_link **ret_warden, struct err *err) MUST_USE;
struct warden_link *warden_free(struct warden_link *warden);
static inline void warden_freep(struct warden_link **p)
{
    *p = warden_free(*p);
}
#define AUTO_WARDEN AUTO(warden_freep)
const struct jail_host *warden_host(const struct warden_link *warden);
pid_t warden_pid(const struct warden_link *warden);

/* What to say of WARDEN_EVENT_KILLED_LOCKER; the number is JAIL_LOCKS_MAX. */
#define JAIL_LOCKS_TEXT                                                                            \
    "a process was killed: the sandbox had more than 10000 record locks (fcntl), and this "        \
    "process "                                                                                     \
    "most of them"

enum warden_event_type {
    WARDEN_EVENT_MADE,          /* `jail`: the caller's from here on */
    WARDEN_EVENT_STATS,         /* `stats`: answer to jail_ask_stat and jail_ask_end */
    WARDEN_EVENT_DONE,          /* to all others; to jail_ask_listen, _layer with `fd`, to
                                   jail_ask_gateway with `sockets`; they are the caller's */
    WARDEN_EVENT_PREPARED,      /* `missing`: answer to warden_ask_zygote */
    WARDEN_EVENT_COUNTS,        /* `counts`: answer to warden_ask_count */
    WARDEN_EVENT_WANTS_GATEWAY, /* `number`: in this jail, which has no gateway, a program waits on
                             JAIL_PROXY_PORT. Sent without a request, once for each jail.
                             jail_ask_gateway takes the socket over */
    WARDEN_EVENT_KILLED_LOCKER, /* `number`: of this jail, the process with most record locks was
                             killed, because the jail had too many. Sent without a request */
    WARDEN_EVENT_FAILED,        /* `err`: the request failed */
    WARDEN_EVENT_GONE, /* `err`: the warden has exited; reported once. No request is answered from
                          now on */
};

struct warden_event {
    enum warden_event_type type;
    uint32_t request;
    struct jail *jail;
    uint32_t number; /* see jail_number */
    int fd;          /* -1: none */
    uint32_t layer;  /* of jail_ask_seal: the number of the sealed layer */
    bool has_sockets;
    int sockets[JAIL_SOCKETS]; /* of jail_ask_gateway */
    struct jail_stats stats;
    struct warden_counts counts;
    char missing[96]; /* names that could not be imported, by commas; "": none */
    struct err err;
};

/* Readable when warden_next has something to say. */
int warden_fd(const struct warden_link *warden);
/* Requests wait for room in the socket: when it is writable, warden_next sends them. */
bool warden_wants_write(const struct warden_link *warden);
/* Takes one event; false if no event is available. Never waits. */
bool warden_next(struct warden_link *warden, struct warden_event *ret_event);

/* Each fails at once for a plan that is wrong (INVALID), a warden that is gone (UNAVAILABLE) or too
 * many requests under way (BUSY); else there will be one event. */
int warden_ask_make(struct warden_link *warden, const struct jail_plan *plan, uint32_t *ret_request,
                    struct err *err) MUST_USE;
/* Keeps `count` jails of this plan ready, and networks and groups for others. The warden fills the
 * pool in the background. After `idle_ms` without a request (0: never), the pool shrinks to one
 * jail until the next request. */
int warden_ask_pool(struct warden_link *warden, const struct jail_plan *plan, size_t count,
                    int64_t idle_ms, uint32_t *ret_request, struct err *err) MUST_USE;
/* Makes and ends nothing, and does not wake an idle pool. */
int warden_ask_count(struct warden_link *warden, uint32_t *ret_request, struct err *err) MUST_USE;
int jail_ask_stat(struct jail *jail, uint32_t *ret_request, struct err *err) MUST_USE;
int jail_ask_freeze(struct jail *jail, bool frozen, uint32_t *ret_request,
                    struct err *err) MUST_USE;
/* Ends a command and all its descendants, also those that left its session and its parent. */
int jail_ask_kill(struct jail *jail, uint32_t command, uint32_t *ret_request,
                  struct err *err) MUST_USE;
/* Gives a jail that was made without a network what JAIL_NET_GATEWAY would have given it. DONE has
 * `sockets`, the caller's. BUSY while one of the ports is in use: by a program of the jail, or an
 * earlier gateway. */
int jail_ask_gateway(struct jail *jail, uint16_t proxy_port, uint32_t *ret_request,
                     struct err *err) MUST_USE;
/* With JAIL_NET_GATEWAY: a listening socket on one more port of every address inside. BUSY when a
 * program in there has taken the port. */
int jail_ask_listen(struct jail *jail, uint16_t port, uint32_t *ret_request,
                    struct err *err) MUST_USE;
/* The directory that takes the writes of a jail whose layer is in memory: there is no other way to
 * reach it. It is the tenant's, and it changes while anything in the jail runs. UNSUPPORTED for any
 * other jail. */
int jail_ask_layer(struct jail *jail, uint32_t *ret_request, struct err *err) MUST_USE;
/* Seals that layer: it takes no more writes, and the answer is its descriptor with its number (N of
 * N/upper on the jail's disk), through which the
 * caller may read it and, once no root needs it, empty it. The root is exchanged for one whose
 * writes go to a new layer in the same memory, above the sealed one, the newest seal->kept of those
 * sealed before, and the layers of `plan`, which is otherwise the one it was made with. Init must
 * be asked nothing meanwhile (jail_hold). BUSY when more than seal->processes run besides init, or
 * one of them has a working directory, a file or a watch on the root, or a bound socket: they are
 * frozen, checked and moved. LIMIT when more than seal->most_bytes lie in memory, or too many
 * layers. Nothing has changed then. With JAIL_SEAL_NONE for seal->kept the root has only the layers
 * of `plan` and the new one: what was sealed is no longer part of it. */
int jail_ask_seal(struct jail *jail, const struct jail_plan *plan, const struct jail_seal *seal,
                  uint32_t *ret_request, struct err *err) MUST_USE;
/* Ends every process in it and gives the last figures. The jail may be freed at once, or used to
 * take the events that are still there. GONE when it was requested before. */
int jail_ask_end(struct jail *jail, uint32_t *ret_request, struct err *err) MUST_USE;

/* The same, waiting. UNSUPPORTED names what the host cannot give; nothing is weakened silently. */
int jail_make(struct warden_link *warden, const struct jail_plan *plan, struct jail **ret_jail,
              struct err *err) MUST_USE;
int jail_kill(struct jail *jail, uint32_t command, struct err *err) MUST_USE;
int jail_gateway(struct jail *jail, uint16_t proxy_port, int ret_sockets[JAIL_SOCKETS],
                 struct err *err) MUST_USE;
int jail_listen(struct jail *jail, uint16_t port, struct err *err) MUST_USE; /* a descriptor */
int jail_end(struct jail *jail, struct jail_stats *ret_stats, struct err *err) MUST_USE;
