#pragma once

/* Control groups, whichever kind the host has: v2, v1, or v1 together with an empty v2 tree.
 *
 * Each controller is looked up by itself: which hierarchy owns it, and where in it this process is.
 * Limits are set before any process is put in. A controller that a plan needs and the host lacks is
 * refused by name; what the caller switched off is not required. */

#include <sys/types.h>

#include "base/str.h"

struct err;
struct jail_limits;

enum cgroup_slot { CG_MEMORY, CG_PIDS, CG_CPU, CG_FREEZER, CG_UNIFIED, CG_COUNT };

enum { CGROUP_NAME_SIZE = 32, CGROUP_DIR_SIZE = 512, CGROUP_STOCK_MAX = 128 };

/* Where things are, read from /proc/self/cgroup and /proc/self/mountinfo. */
struct cgroup_layout {
    struct {
        int version; /* 0: not available */
        char dir[CGROUP_DIR_SIZE];
    } slots[CG_COUNT];
    char unified_top[CGROUP_DIR_SIZE]; /* the uppermost group of the unified tree that is visible */
};

/* Pure: texts in, places out. */
void cgroup_find(struct str self_cgroup, struct str mountinfo, struct cgroup_layout *ret_layout);

/* Files of a group that stay open for as long as it lives, once they were needed. The first are the
 * lists of its processes, one for each hierarchy. */
enum cgroup_file {
    CGROUP_PROCS,
    CGROUP_UNIFIED_DIR = CG_COUNT,
    CGROUP_KILL,
    CGROUP_OOM_KILLS,
    CGROUP_PEAK,
    CGROUP_NOW,
    CGROUP_REFUSED,
    CGROUP_EVENTS,
    CGROUP_KERNELS, /* to enter the part of interpreters */
    CGROUP_FILES,
};

/* Groups below a jail's memory group, where that is of cgroup v1: one for each of a few commands
 * that run at the same time, and the last for interpreters that are forked in. A process that moves
 * only itself does so in 10 us, without the locks that moving another one takes.
 *
 * Their limit is a little below that of the jail: a command that needs too much meets its own limit
 * first, and then the kernel ends processes of this command and no others. What is between the two
 * limits is for init and for operations on files. */
enum { CGROUP_COMMAND_PARTS = 4, CGROUP_PART_OF_KERNELS = CGROUP_COMMAND_PARTS, CGROUP_PARTS };

/* Of one part: to enter it (the thread that writes "0"), how many of its processes were killed for
 * memory, and its highest use, which is set back by writing. */
enum cgroup_part_file { PART_ENTER, PART_KILLS, PART_PEAK, PART_FILES };

/* The groups of one jail: one of the same name in each hierarchy. */
struct cgroup {
    char name[CGROUP_NAME_SIZE];           /* "" when the host gives none at all */
    int files[CGROUP_FILES];               /* those of its files that were needed; 0: not open */
    int64_t memory_bytes, pids, cpu_milli; /* its limits */
    int64_t old_oom_kills, old_refused;    /* the figures of earlier jails in it */
    bool has_parts;
    bool is_spoilt; /* was frozen or killed as a whole: no other jail gets it */
};

/* Our own corner of each hierarchy, in which jails' groups are made. */
struct cgroup_host {
    struct cgroup_layout layout;
    char name[CGROUP_NAME_SIZE]; /* of the corner */
    int fds[CG_COUNT];           /* the corner; -1: not available, or served by the unified one */
    int parents[CG_COUNT];       /* the parent of the corner */
    bool v2[CG_COUNT];           /* served by the unified tree */
    char why[CG_COUNT][96];      /* why a slot is missing */
    bool lacks_kill;             /* for tests: cgroup.kill is not used */
    uint32_t next_name;
    struct cgroup stock[CGROUP_STOCK_MAX]; /* empty groups that wait for a jail */
    size_t stock_count;
};

/* Never fails for a missing controller: `why` then says what is wrong, and cgroup_make refuses
 * plans that need it. `without` is for tests, a list of words of what to do without although the
 * host has it: "kill" (cgroup.kill), "unified" (the unified tree), "groups" (everything); NULL:
 * nothing. */
int cgroup_host_open(struct cgroup_host *host, const char *without, struct err *err) MUST_USE;
/* Removes the corners; groups in them must be gone. */
void cgroup_host_close(struct cgroup_host *host);
bool cgroup_has(const struct cgroup_host *host, enum cgroup_slot slot);

/* One from the stock, with these limits, or a new one. */
int cgroup_make(struct cgroup_host *host, const struct jail_limits *limits,
                struct cgroup *ret_cgroup, struct err *err) MUST_USE;
/* Changes the limits. CONFLICT when more memory is in use than the new limit. */
int cgroup_limit(const struct cgroup_host *host, struct cgroup *cgroup,
                 const struct jail_limits *limits, struct err *err) MUST_USE;
/* Descriptor of the unified directory for CLONE_INTO_CGROUP, or -1 without one. The group keeps
 * it. */
int cgroup_open_unified(const struct cgroup_host *host, struct cgroup *cgroup);
/* Where a process of one thread writes itself in; the unified one only where it was not cloned into
 * it. They stay the group's. In hierarchies of v1 they are lists of threads: a thread that moves
 * itself there needs no lock of the whole machine, for which it would wait many milliseconds. */
struct cgroup_entries {
    int fds[CG_COUNT];
    size_t count;
};
int cgroup_entries(const struct cgroup_host *host, struct cgroup *cgroup, bool unified_too,
                   struct cgroup_entries *ret_entries, struct err *err) MUST_USE;
/* The entry of the memory hierarchy leads to the part of interpreters. */
int cgroup_kernel_entries(const struct cgroup_host *host, struct cgroup *cgroup,
                          struct cgroup_entries *ret_entries, struct err *err) MUST_USE;
/* Opens the files of one part; the caller closes them. False when there are no parts. */
bool cgroup_open_part(const struct cgroup_host *host, const struct cgroup *cgroup, int part,
                      int ret_fds[PART_FILES]);
/* Ends every process in it with cgroup.kill. False when the host does not have that: end the pid
 * namespace's init through its pidfd then. */
bool cgroup_kill(const struct cgroup_host *host, struct cgroup *cgroup);
/* Thaws frozen processes, without waiting for it. The v1 freezer holds even processes that were
 * killed. */
void cgroup_thaw(const struct cgroup_host *host, const struct cgroup *cgroup);
/* For a group whose processes should be gone and are not: freezes, kills each and thaws, with all
 * the cpu time of the host. To be repeated until they are gone. */
void cgroup_kill_again(const struct cgroup_host *host, struct cgroup *cgroup);
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
/* What a group has used and holds; -1: unknown. */
struct cgroup_use {
    int64_t cpu_us;
    int64_t memory_now;
    int64_t tasks;     /* threads of all processes, without init's own */
    int64_t processes; /* with init */
};
void cgroup_read_use(const struct cgroup_host *host, const struct cgroup *cgroup,
                     struct cgroup_use *ret_use);
/* The same of all jails together. */
void cgroup_read_host_use(const struct cgroup_host *host, struct cgroup_use *ret_use);
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
