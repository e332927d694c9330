#pragma once

/* Control groups, whichever kind the host has: v2, v1, or v1 with an empty v2 tree beside it.
 *
 * Each controller is looked up by itself: which hierarchy owns it, and where in it this process
 * sits. Limits stand before any process is put in. A controller that a plan needs and the host
 * cannot give is refused by name; what the caller switched off is not asked for. */

#include <sys/types.h>

#include "base/str.h"

struct err;
struct jail_limits;

enum cgroup_slot { CG_MEMORY, CG_PIDS, CG_CPU, CG_FREEZER, CG_UNIFIED, CG_COUNT };

enum { CGROUP_NAME_SIZE = 32, CGROUP_DIR_SIZE = 512 };

/* Where things are, read from /proc/self/cgroup and /proc/self/mountinfo. */
struct cgroup_layout {
    struct {
        int version; /* 0: not there */
        char dir[CGROUP_DIR_SIZE];
    } slots[CG_COUNT];
};

/* Pure: texts in, places out. */
void cgroup_find(struct str self_cgroup, struct str mountinfo, struct cgroup_layout *ret_layout);

/* Our own corner of each hierarchy, in which jails' groups are made. */
struct cgroup_host {
    struct cgroup_layout layout;
    char name[CGROUP_NAME_SIZE]; /* of the corner */
    int fds[CG_COUNT];           /* the corner; -1: not there, or served by the unified one */
    int parents[CG_COUNT];       /* what the corner lies in */
    bool v2[CG_COUNT];           /* served by the unified tree */
    char why[CG_COUNT][96];      /* why a slot is missing */
};

/* Never fails for a missing controller: `why` then says what is wrong, and cgroup_make refuses
 * plans that need it. */
int cgroup_host_open(struct cgroup_host *host, struct err *err) MUST_USE;
/* Removes the corners; groups in them must be gone. */
void cgroup_host_close(struct cgroup_host *host);
bool cgroup_has(const struct cgroup_host *host, enum cgroup_slot slot);

struct cgroup {
    char name[CGROUP_NAME_SIZE]; /* "" when the host gives none at all */
};

int cgroup_make(struct cgroup_host *host, const struct jail_limits *limits, const char *name,
                struct cgroup *ret_cgroup, struct err *err) MUST_USE;
/* Sets the limits anew on a group that waits in the pool. */
int cgroup_limit(struct cgroup_host *host, const struct cgroup *cgroup,
                 const struct jail_limits *limits, struct err *err) MUST_USE;
/* Descriptor of the unified directory for CLONE_INTO_CGROUP, or -1 when there is none. */
int cgroup_open_unified(struct cgroup_host *host, const struct cgroup *cgroup);
/* Puts `pid` in; `unified_too` when it was not cloned into that tree. */
int cgroup_attach(struct cgroup_host *host, const struct cgroup *cgroup, pid_t pid,
                  bool unified_too, struct err *err) MUST_USE;
/* Ends every process in it. False when the host has no cgroup.kill: end the pid namespace's init
 * through its pidfd then. */
bool cgroup_kill(struct cgroup_host *host, const struct cgroup *cgroup);
int cgroup_freeze(struct cgroup_host *host, const struct cgroup *cgroup, bool frozen,
                  struct err *err) MUST_USE;

struct cgroup_stats {
    int64_t oom_kills;
    int64_t memory_peak; /* bytes; -1 unknown */
    int64_t memory_now;
    int64_t pids_refused; /* forks that ran into the limit; -1 unknown */
};
void cgroup_read_stats(struct cgroup_host *host, const struct cgroup *cgroup,
                       struct cgroup_stats *ret_stats);
/* False while something still lives in it. */
bool cgroup_remove(struct cgroup_host *host, struct cgroup *cgroup);
