#pragma once

/* Makes and ends single jails: the warden's hands. */

#include <sys/types.h>

#include "jail/cgroup.h"
#include "jail/ids.h"
#include "jail/mounts.h"
#include "jail/net_stock.h"
#include "jail/relayer_memory.h"
#include "jail/seed_link.h"
#include "jail/undertaker.h"

struct err;

enum { MAKER_KEEP = 32 };

struct maker {
    struct ids ids;
    struct cgroup_host cgroups;
    struct template template;
    int home_net;
    int self_fd; /* pidfd of this process */
    int init_fd; /* sealed memfd */
    size_t keep; /* groups and networks that are kept to serve again */
    struct net_stock nets;
    struct undertaker undertaker;
    struct seed_link seed;
    bool is_seed_lost; /* a jail could not be made because the seed could not be asked */
    bool masks_all;    /* of /proc: jails are made as the host's root */
};

/* One jail as the maker sees it. */
struct made {
    pid_t pid;
    int pidfd;
    int control_fd; /* the daemon's end of init's socket */
    struct net net;
    int tree_fd;                  /* its mount namespace; -1: not held */
    int layer_fd;                 /* its writable layer, when that lies in memory; -1: none */
    struct relayer_memory memory; /* of which layers its root is, then */
    int sockets[JAIL_SOCKETS];    /* of JAIL_NET_GATEWAY; -1: none */
    bool has_sources;             /* directories of the host are mounted in it */
    bool has_gateway, has_routes; /* routes without a gateway: opening one has failed */
    uint32_t outer_id;
    struct cgroup cgroup;
    struct cgroup_stats last; /* figures of its groups; after maker_reap */
    struct owner_map map;
};

/* Leaves the host's tree for good. */
int maker_init(struct maker *maker, struct str init_program, struct err *err) MUST_USE;
void maker_done(struct maker *maker);
/* Takes the place of one that is gone; the caller has stopped it. */
int maker_start_seed(struct maker *maker, struct err *err) MUST_USE;

/* Returns when its making has begun. Messages on control_fd (jail/init.h) say how it goes on:
 * INIT_BORN, which brings the pid and the pidfd, and INIT_READY. */
int maker_make(struct maker *maker, const struct jail_plan *plan, struct made *ret_made,
               struct err *err) MUST_USE;
/* Holds the jail's file tree, so that taking it apart does not delay the news of its end. One with
 * anything of the host's in it is not held: whoever hears of its end may want that back. */
void maker_hold_tree(struct maker *maker, struct made *made);

/* What JAIL_NET_GATEWAY would have given, for a jail that was made without it or whose gateway has
 * died. The sockets are the caller's. BUSY while somebody has one of the ports: then it may be
 * tried again. */
int maker_open_gateway(struct maker *maker, struct made *made, uint32_t port,
                       int ret_sockets[JAIL_SOCKETS], struct err *err) MUST_USE;
/* One more listening socket in a jail with JAIL_NET_GATEWAY. */
int maker_listen(struct maker *maker, const struct made *made, uint32_t port,
                 struct err *err) MUST_USE;

/* Ends one command and all its descendants, also those that left its session and its parent;
 * `is_frozen` when the jail is already. Gives how many there were. BUSY when new ones kept coming.
 */
int maker_kill_command(struct maker *maker, struct made *made, uint32_t command, bool is_frozen,
                       struct err *err) MUST_USE;
/* Ends every process; the pidfd becomes readable when the last is gone. */
void maker_kill(struct maker *maker, struct made *made);
/* Reaps and leaves the figures in `last`: all that its owner waits for. */
void maker_reap(struct maker *maker, struct made *made);
/* What is left of it, behind the answer. False while its groups cannot be removed: try again. */
bool maker_clear(struct maker *maker, struct made *made);
