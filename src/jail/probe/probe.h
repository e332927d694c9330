#pragma once

/* What this host allows, found out by doing it.
 *
 * A probe is a row of `probes`: it runs in a short-lived child of its own, so that whatever it
 * enters, restricts or breaks ends with the child. The parent waits at most PROBE_TIME_MS, ends the
 * child's whole process group, and then tidies what a child cannot take with it (control groups). A
 * version number proves nothing: distributions, containers and security modules disable features,
 * so every answer comes from an attempt.
 *
 * Call from a single-threaded process, as root or as any user. */

#include "base/str.h"

struct err;

enum {
    PROBE_TIME_MS = 10000, /* a busy host answers late */
    PROBE_DETAIL_MAX = 200,
    PROBE_FIX_MAX = 240,
    PROBE_PATH_MAX = 512,
    PROBE_COUNT_MAX = 64,
    PROBE_NAME_MAX = 200
};

enum probe_status {
    PROBE_OK,
    PROBE_PARTIAL, /* works, with less than it could give */
    PROBE_MISSING,
    PROBE_INFO /* neither good nor bad, or not a question for this user */
};

/* What depends on a probe. Each level includes the ones before it. */
enum probe_need {
    PROBE_NEED_NONE,
    PROBE_NEED_FULL,   /* without it the jail works and lacks what `without` names */
    PROBE_NEED_JAIL,   /* without it there is no jail */
    PROBE_NEED_ISOLATE /* without it there is nothing */
};

struct probe_result {
    enum probe_status status;
    int sys;                       /* errno of the step that failed, else 0 */
    char detail[PROBE_DETAIL_MAX]; /* "ABI 7", "mount overlay: Operation not permitted" */
    char fix[PROBE_FIX_MAX];       /* what helps in this very case; "" for the row's own */
};

/* Where one cgroup controller lives. `own` is the directory of this process's group, `top` the
 * mount point; a probe group is tried below `own` first. */
struct probe_hierarchy {
    int version; /* 1 or 2; 0 without control groups */
    char own[PROBE_PATH_MAX];
    char top[PROBE_PATH_MAX];
};

enum { PROBE_CTRL_MEMORY, PROBE_CTRL_PIDS, PROBE_CTRL_CPU, PROBE_CTRL_FREEZER, PROBE_CTRL_COUNT };

struct probe_cgroups {
    struct probe_hierarchy unified; /* the v2 tree */
    struct probe_hierarchy controllers[PROBE_CTRL_COUNT];
    bool has_v1;
    char available[PROBE_NAME_MAX]; /* controllers the v2 tree offers */
    /* cgroup.subtree_control as it was in `unified.own` and `unified.top`, to put it back. */
    char enabled_own[PROBE_NAME_MAX];
    char enabled_top[PROBE_NAME_MAX];
};

/* What the probes share; plain data, made by probe_env_init. */
struct probe_env {
    char data_dir[PROBE_PATH_MAX]; /* or its nearest existing ancestor */
    char group[64];                /* name of the control group a probe may make */
    struct probe_cgroups cgroups;
};

struct probe {
    const char *id;      /* stable, for programs: "ns.user" */
    const char *heading; /* rows with the same heading stand together */
    const char *title;
    void (*run)(const struct probe *probe, const struct probe_env *env,
                struct probe_result *result); /* in the child */
    /* In the parent, after the child's group is gone; false when something could not be removed. */
    bool (*tidy)(const struct probe_env *env);
    unsigned flag;    /* what `run` makes of it: a namespace, a controller */
    const char *word; /* likewise: a program's name */
    enum probe_need need;
    const char *either;  /* rows with the same word stand in for each other; NULL for none */
    const char *without; /* for PROBE_NEED_FULL: "disk quota" */
    const char *cost;    /* what its absence costs */
    const char *fix;     /* the command that helps */
};

/* The table; `probe_count` rows, at most PROBE_COUNT_MAX. */
extern const struct probe probes[];
extern const size_t probe_count;

/* `data_dir` need not exist yet. */
void probe_env_init(struct probe_env *env, const char *data_dir);

/* Never fails: what cannot be tried is MISSING with the reason. */
void probe_run(const struct probe *probe, const struct probe_env *env, struct probe_result *result);
/* All of the table, `results[i]` for `probes[i]`. */
void probe_run_all(const struct probe_env *env, struct probe_result *results);

const char *probe_status_name(enum probe_status status); /* "ok", "partial", "missing", "info" */

/* Reads /proc/self/cgroup and /proc/self/mountinfo as texts; v1 controllers and the v2 tree. */
void probe_cgroups_parse(struct str self_cgroup, struct str mountinfo, struct probe_cgroups *ret);
/* "none", "v1", "v2" or "hybrid". */
const char *probe_cgroups_mode(const struct probe_cgroups *cgroups);

enum probe_tier_kind { PROBE_TIER_NONE, PROBE_TIER_ISOLATE, PROBE_TIER_JAIL };

struct probe_tier {
    enum probe_tier_kind kind;
    char name[PROBE_NAME_MAX];     /* "jail: full", "jail: without disk quota", "isolate only" */
    char reason[PROBE_DETAIL_MAX]; /* why not more; "" when there is no more */
};

/* The strongest tier these results allow. Pure: nothing is tried. */
void probe_tier_of(const struct probe *table, size_t count, const struct probe_result *results,
                   struct probe_tier *ret_tier);
