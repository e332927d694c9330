#pragma once

/* The only maker of jails: one small process with one thread, so that its clone is quick and safe.
 * What it says to the daemon, whose descriptor SETUP_CONTROL_FD it holds, and how plans travel.
 *
 * It lives in the template's mount namespace and keeps jails ready in a pool. When the daemon goes,
 * it ends every jail, removes their groups and leaves; when it goes, the kernel ends the jails. */

#include "jail/plan.h"
#include "jail/wire.h"

enum warden_message {
    /* to the warden */
    WARDEN_MAKE = 1, /* plan */
    WARDEN_END,      /* jail; its socket, when a kernel is being forked into it */
    WARDEN_STAT,     /* jail */
    WARDEN_FREEZE,   /* jail, 1 or 0 */
    WARDEN_POOL,     /* count, ms until it rests, plan: jails of this plan are kept ready */
    WARDEN_LISTEN,   /* jail, port: answered with a socket */
    WARDEN_RELAYER,  /* jail, plan: its root is exchanged for this plan's layers */
    WARDEN_KILL,     /* jail, command: ends it and all its descendants */
    WARDEN_GATEWAY,  /* jail, proxy port: answered with the sockets of JAIL_NET_GATEWAY */
    WARDEN_TEMPLATE, /* names to import; its program: kernels are forked from it */
    WARDEN_FORK,     /* jail, command, template or 0; birth, line, output, errors: never answered
                        (zygote.h) */
    WARDEN_LAYER,    /* jail: answered with its writable layer */
    WARDEN_SEAL,     /* jail, how many stay, bytes, plan: answered with the sealed layer */
    WARDEN_LIMITS,   /* jail, memory, cpu: of one that was made ahead */
    WARDEN_COUNT,    /* nothing; wakes no pool that rests */
    /* from the warden */
    WARDEN_READY = 128, /* can it limit memory, pids, cpu, freeze; privileged; landlock */
    WARDEN_MADE,        /* jail; pidfd, control socket, gateway sockets if asked for */
    WARDEN_STATS,       /* the members of struct jail_stats: answer to END, STAT */
    WARDEN_DONE,        /* answer to FREEZE, POOL, LISTEN, RELAYER, KILL, LAYER, SEAL,
                         * GATEWAY, LIMITS */
    WARDEN_FAILED,      /* err */
    WARDEN_PREPARED,    /* answer to TEMPLATE: names that could not be imported */
    WARDEN_KNOCKED,     /* jail; asked by nobody, once for each jail */
    WARDEN_COUNTS,      /* the members of struct warden_counts: answer to COUNT */
};

enum { WARDEN_POOL_MAX = 512, WARDEN_IDLE_MAX_MS = 24 * 3600 * 1000 };

void plan_put(struct buf *out, const struct jail_plan *plan);
/* The strings stay in the message. Fails on anything jail_plan_check would refuse. */
int plan_get(struct wire_in *in, struct jail_plan *ret_plan, struct err *err) MUST_USE;

/* All of the warden. */
int warden_main(void);
