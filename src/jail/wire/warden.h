#pragma once

/* The only process that creates jails: one small process with one thread, so that its clone is
 * quick and safe. What it says to the daemon, whose descriptor SETUP_CONTROL_FD it holds, and how
 * plans travel.
 *
 * It lives in the template's mount namespace and keeps jails ready in a pool. When the daemon goes,
 * it ends every jail, removes their groups and leaves; when it goes, the kernel ends the jails. */

#include "jail/wire/plan.h"
#include "jail/wire/wire.h"

enum warden_message {
    /* to the warden */
    WARDEN_MAKE = 1, /* plan */
    WARDEN_END,      /* jail */
    WARDEN_STAT,     /* jail */
    WARDEN_FREEZE,   /* jail, 1 or 0 */
    WARDEN_POOL,     /* count, ms until it rests, plan: jails of this plan are kept ready */
    WARDEN_LISTEN,   /* jail, port: answered with a socket */
    WARDEN_KILL,     /* jail, command: ends it and all its descendants */
    WARDEN_GATEWAY,  /* jail, proxy port: answered with the sockets of JAIL_NET_GATEWAY */
    WARDEN_ZYGOTE,   /* names to import, is it the plain one; its program: interpreters are forked
                        from it */
    WARDEN_FORK,  /* jail, command, zygote of the command; start socket, line, output, errors: never
                     answered (zygote.h) */
    WARDEN_LAYER, /* jail: answered with its writable layer */
    WARDEN_SEAL,  /* jail, struct jail_seal, plan: answered with the sealed layer */
    WARDEN_LIMITS, /* jail, memory, cpu: of one that was made ahead */
    WARDEN_COUNT,  /* nothing; wakes no pool that rests */
    WARDEN_LEASE,  /* zygote, 1 or 0: one more or one less needs it; never answered */
    /* from the warden */
    WARDEN_READY = 128,   /* can it limit memory, pids, cpu, freeze; privileged; landlock */
    WARDEN_MADE,          /* jail; pidfd, control socket, gateway sockets if asked for */
    WARDEN_STATS,         /* the members of struct jail_stats: answer to END, STAT */
    WARDEN_DONE,          /* answer to FREEZE, POOL, LISTEN, KILL, LAYER, GATEWAY, LIMITS */
    WARDEN_FAILED,        /* err */
    WARDEN_PREPARED,      /* answer to ZYGOTE: names that could not be imported */
    WARDEN_WANTS_GATEWAY, /* jail; without a request, once for each jail */
    WARDEN_KILLED_LOCKER, /* jail; without a request: it had too many record locks */
    WARDEN_COUNTS,        /* the members of struct warden_counts: answer to COUNT */
    WARDEN_SEALED,        /* number of the layer; the layer: answer to SEAL */
};

enum { WARDEN_POOL_MAX = 512, WARDEN_IDLE_MAX_MS = 24 * 3600 * 1000 };

void plan_put(struct buf *out, const struct jail_plan *plan);
/* The strings stay in the message. Fails on anything jail_plan_check would refuse. */
int plan_get(struct wire_in *in, struct jail_plan *ret_plan, struct err *err) MUST_USE;

/* All of the warden. `without` is for tests (cgroup_host_open). */
int warden_main(const char *without);
