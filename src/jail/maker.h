#pragma once

/* Makes and ends single jails: the warden's hands. */

#include <sys/types.h>

#include "jail/cgroup.h"
#include "jail/ids.h"
#include "jail/mounts.h"
#include "jail/net_stock.h"

struct err;

enum { MAKER_TREES_MAX = 64, MAKER_KEEP = 32 };

struct maker {
    struct ids ids;
    struct cgroup_host cgroups;
    struct template template;
    int home_net;
    int self_fd; /* pidfd of this process */
    int init_fd; /* sealed memfd */
    size_t keep; /* groups and networks that are kept to serve again */
    struct net_stock nets;
    int old_trees[MAKER_TREES_MAX]; /* mount namespaces of jails that are gone */
    size_t tree_count;
};

/* One jail as the maker sees it. */
struct made {
    pid_t pid;
    int pidfd;
    int control_fd; /* the daemon's end of init's socket */
    struct net net;
    int tree_fd;               /* its mount namespace; -1: not held */
    int sockets[JAIL_SOCKETS]; /* of JAIL_NET_GATEWAY; -1: none */
    bool has_gateway;
    uint32_t outer_id;
    struct cgroup cgroup;
    struct cgroup_stats last; /* figures of its groups; after maker_bury */
    struct owner_map map;
};

/* Leaves the host's tree for good. */
int maker_init(struct maker *maker, struct str init_program, struct err *err) MUST_USE;
void maker_done(struct maker *maker);

/* Returns when the jail's process runs; its first message on control_fd says how it went. */
int maker_make(struct maker *maker, const struct jail_plan *plan, struct made *ret_made,
               struct err *err) MUST_USE;
/* Holds the jail's file tree, so that taking it apart does not delay the news of its end. */
void maker_hold_tree(struct maker *maker, struct made *made);
/* Takes one apart that is no longer used; says whether there was one. */
bool maker_drop_tree(struct maker *maker);

/* One more listening socket in a jail with JAIL_NET_GATEWAY. */
int maker_listen(struct maker *maker, const struct made *made, uint32_t port,
                 struct err *err) MUST_USE;

/* Ends every process; the pidfd becomes readable when the last is gone. */
void maker_kill(struct maker *maker, struct made *made);
/* Reaps and closes; gives the figures. False while its groups cannot be removed: try again. */
void maker_bury(struct maker *maker, struct made *made, struct cgroup_stats *ret_stats);
bool maker_clear(struct maker *maker, struct made *made);
