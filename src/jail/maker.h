#pragma once

/* Makes and ends single jails: the warden's hands. */

#include <sys/types.h>

#include "jail/cgroup.h"
#include "jail/ids.h"
#include "jail/mounts.h"

struct err;

enum { MAKER_NETS_MAX = 256 };

struct maker {
    struct ids ids;
    struct cgroup_host cgroups;
    struct template template;
    int home_net;
    int self_fd; /* pidfd of this process */
    int init_fd; /* sealed memfd */
    uint32_t next_name;
    int nets[MAKER_NETS_MAX]; /* made ahead */
    size_t net_count;
};

/* One jail as the maker sees it. */
struct made {
    pid_t pid;
    int pidfd;
    int control_fd; /* the daemon's end of init's socket */
    int net_fd;
    int listen_fd;
    uint32_t outer_id;
    struct cgroup cgroup;
};

/* Leaves the host's tree for good. */
int maker_init(struct maker *maker, struct str init_program, struct err *err) MUST_USE;
void maker_done(struct maker *maker);

/* One namespace more for later; call when there is nothing better to do. */
int maker_stock_net(struct maker *maker, struct err *err) MUST_USE;

/* Returns when the jail's process runs; its first message on control_fd says how it went. */
int maker_make(struct maker *maker, const struct jail_plan *plan, struct made *ret_made,
               struct err *err) MUST_USE;
/* Ends every process; the pidfd becomes readable when the last is gone. */
void maker_kill(struct maker *maker, const struct made *made);
/* Reaps and closes; gives the figures. False while its groups cannot be removed: try again. */
void maker_bury(struct maker *maker, struct made *made, struct cgroup_stats *ret_stats);
bool maker_clear(struct maker *maker, struct made *made);
