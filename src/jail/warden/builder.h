#pragma once

/* Creates and ends single jails for the warden. */

#include <sys/types.h>

#include "jail/cgroup/cgroup.h"
#include "jail/inside/mounts.h"
#include "jail/warden/fd_closer.h"
#include "jail/warden/init_spawner_link.h"
#include "jail/warden/net_stock.h"
#include "jail/warden/relayer_memory.h"
#include "jail/wire/ids.h"

struct err;

enum { BUILDER_KEEP = 32, BUILDER_KILL_AGAIN_MS = 10 };

struct builder {
    struct ids ids;
    struct cgroup_host cgroups;
    struct template template;
    int home_net;
    int self_fd; /* pidfd of this process */
    int init_fd; /* sealed memfd */
    size_t keep; /* groups and networks that are kept to serve again */
    struct net_stock nets;
    struct fd_closer fd_closer;
    struct init_spawner_link init_spawner;
    bool is_init_spawner_lost; /* a jail could not be made because the init spawner could not be
                                  asked */
    bool masks_all;            /* of /proc: jails are made as the host's root */
};

/* One jail as the builder sees it. */
struct made {
    pid_t pid;
    int pidfd;
    int control_fd; /* the daemon's end of init's socket */
    struct net net;
    int tree_fd;                  /* its mount namespace; -1: not held */
    int layer_fd;                 /* its writable layer, when that is in memory; -1: none */
    struct relayer_memory memory; /* of which layers its root is, then */
    int sockets[JAIL_SOCKETS];    /* of JAIL_NET_GATEWAY; -1: none */
    bool has_sources;             /* directories of the host are mounted in it */
    bool has_gateway, has_routes; /* routes without a gateway: opening one has failed */
    uint32_t outer_id;
    struct cgroup cgroup;
    struct cgroup_stats last; /* figures of its groups; after builder_reap */
    struct owner_map map;
};

/* Leaves the host's tree for good. `without` as for cgroup_host_open. */
int builder_init(struct builder *builder, struct str init_program, const char *without,
                 struct err *err) MUST_USE;
void builder_done(struct builder *builder);
/* Replaces one that has exited; the caller has stopped it. */
int builder_start_init_spawner(struct builder *builder, struct err *err) MUST_USE;

/* Returns when its creation has started. Messages on control_fd (jail/wire/init.h) report the
 * progress: INIT_CLONED, which brings the pid and the pidfd, and INIT_READY. */
int builder_make(struct builder *builder, const struct jail_plan *plan, struct made *ret_made,
                 struct err *err) MUST_USE;
/* Holds the jail's file tree, so that taking it apart does not delay the report of its end. A tree
 * with anything of the host in it is not held: the receiver of the report may need that back. */
void builder_hold_tree(struct builder *builder, struct made *made);

/* What JAIL_NET_GATEWAY would have given, for a jail that was made without it or whose gateway has
 * died. The sockets are the caller's. BUSY while one of the ports is in use: then it may be tried
 * again. */
int builder_open_gateway(struct builder *builder, struct made *made, uint32_t port,
                         int ret_sockets[JAIL_SOCKETS], struct err *err) MUST_USE;
/* One more listening socket in a jail with JAIL_NET_GATEWAY. */
int builder_listen(struct builder *builder, const struct made *made, uint32_t port,
                   struct err *err) MUST_USE;

/* Ends one command and all its descendants, also those that left its session and its parent;
 * `is_frozen` when the jail is already. Gives how many there were. BUSY when new ones kept
 * appearing. */
int builder_kill_command(struct builder *builder, struct made *made, uint32_t command,
                         bool is_frozen, struct err *err) MUST_USE;
/* Ends every process; the pidfd becomes readable when the last is gone. */
void builder_kill(struct builder *builder, struct made *made);
/* For one that is not gone BUILDER_KILL_AGAIN_MS after that: processes that fork without end can
 * keep its init from running, and so from dying. To be repeated until it is gone. */
void builder_kill_again(struct builder *builder, struct made *made);
/* Reaps and leaves the figures in `last`: all that its owner waits for. */
void builder_reap(struct builder *builder, struct made *made);
/* What is left of it, behind the answer. False while its groups cannot be removed: try again. */
bool builder_clear(struct builder *builder, struct made *made);
