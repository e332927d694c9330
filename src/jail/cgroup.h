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

enum { CGROUP_NAME_SIZE = 32, CGROUP_DIR_SIZE = 512, CGROUP_FILES = 12, CGROUP_STOCK_MAX = 128 };

/* Where things are, read from /proc/self/cgroup and /proc/self/mountinfo. */
struct cgroup_layout {
    struct {
        int version; /* 0: not there */
        char dir[CGROUP_DIR_SIZE];
    } slots[CG_COUNT];
};

/* Pure: texts in, places out. */
void cgroup_find(struct str self_cgroup, struct str mountinfo, struct cgroup_layout *ret_layout);

/* The groups of one jail: one of the same name in each hierarchy. */
struct cgroup {
    char name[CGROUP_NAME_SIZE];           /* "" when the host gives none at all */
    int files[CGROUP_FILES];               /* those of its files that were needed; 0: not open */
    int64_t memory_bytes, pids, cpu_milli; /* its limits */
    int64_t old_oom_kills, old_refused;    /* what earlier jails in it had come to */
    bool is_spoilt; /* was frozen or killed as a whole: no other jail gets it */
};

/* Our own corner of each hierarchy, in which jails' groups are made. */
struct cgroup_host {
    struct cgroup_layout layout;
    char name[CGROUP_NAME_SIZE]; /* of the corner */
    int fds[CG_COUNT];           /* the corner; -1: not there, or served by the unified one */
    int parents[CG_COUNT];       /* what the corner lies in */
    bool v2[CG_COUNT];           /* served by the unified tree */
    char why[CG_COUNT][96];      /* why a slot is missing */
    uint32_t next_name;
    struct cgroup stock[CGROUP_STOCK_MAX]; /* empty groups that wait for a jail */
    size_t stock_count;
};

/* Never fails for a missing controller: `why` then says what is wrong, and cgroup_make refuses
 * plans that need it. */
int cgroup_host_open(struct cgroup_host *host, struct err *err) MUST_USE;
/* Removes the corners; groups in them must be gone. */
void cgroup_host_close(struct cgroup_host *host);
bool cgroup_has(const struct cgroup_host *host, enum cgroup_slot slot);

/* One from the stock, with these limits, or a new one. */
int cgroup_make(struct cgroup_host *host, const struct jail_limits *limits,
                struct cgroup *ret_cgroup, struct err *err) MUST_USE;
/* Sets the limits anew on a group that waits in the pool. */
int cgroup_limit(const struct cgroup_host *host, struct cgroup *cgroup,
                 const struct jail_limits *limits, struct err *err) MUST_USE;
/* Descriptor of the unified directory for CLONE_INTO_CGROUP, or -1 when there is none. It stays the
 * group's. */
int cgroup_open_unified(const struct cgroup_host *host, struct cgroup *cgroup);
/* Where a process writes itself in; the unified one only where it was not cloned into it. They stay
 * the group's. */
struct cgroup_doors {
    int fds[CG_COUNT];
    size_t count;
};
int cgroup_doors(const struct cgroup_host *host, struct cgroup *cgroup, bool unified_too,
                 struct cgroup_doors *ret_doors, struct err *err) MUST_USE;
/* Ends every process in it. False when the host has no cgroup.kill: end the pid namespace's init
 * through its pidfd then. */
bool cgroup_kill(const struct cgroup_host *host, struct cgroup *cgroup);
int cgroup_freeze(const struct cgroup_host *host, struct cgroup *cgroup, bool frozen,
                  struct err *err) MUST_USE;

struct cgroup_stats {
    int64_t oom_kills;
    int64_t memory_peak; /* bytes; -1 unknown */
    int64_t memory_now;
    int64_t pids_refused; /* forks that ran into the limit; -1 unknown */
};
void cgroup_read_stats(const struct cgroup_host *host, struct cgroup *cgroup,
                       struct cgroup_stats *ret_stats);
/* False while something still lives in it. */
bool cgroup_remove(struct cgroup_host *host, struct cgroup *cgroup);

/* The stock. Making and removing a group costs more than everything that is done with it, most of
 * it in the kernel's workers afterwards; so groups serve again, when their processes are gone and
 * the memory still charged to them is next to nothing. The counters that cannot be set back are
 * remembered. On hosts whose memory controller is in the unified tree the highest use cannot be set
 * back, and there is but one group to make: there every jail gets a new one. */

/* Takes a group whose processes are gone, whose last figures were `last`: into the stock, or away.
 * False while something still lives in it. */
bool cgroup_retire(struct cgroup_host *host, struct cgroup *cgroup, const struct cgroup_stats *last,
                   size_t keep);
/* One step towards `count` groups in stock, at most `keep`: one more with these limits, or one
 * less. Says whether there was something to do. */
bool cgroup_stock(struct cgroup_host *host, const struct jail_limits *limits, size_t count,
                  size_t keep);
