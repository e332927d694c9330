#pragma once

/* Between the files that deal with control groups. */

#include "base/buf.h"
#include "jail/cgroup/cgroup.h"

enum { CGROUP_TEXT_MAX = 1 << 20 };

extern const char *const cgroup_slot_names[CG_COUNT];

int cgroup_read_text(int dir_fd, const char *path, struct buf *out, struct err *err) MUST_USE;
int cgroup_write_text(int dir_fd, const char *path, const char *text, struct err *err) MUST_USE;

/* cgroup_parent.c: on hosts where the unified tree has the controllers, changes the directory of
 * CG_UNIFIED to a group that can pass them on to the groups of jails, if there is one. Processes of
 * a group that is delegated to us may be moved into the group `name`-server below it. */
void cgroup_choose_parent(struct cgroup_layout *layout, const char *name);

/* Our corner of the hierarchy that serves `slot`. */
static inline int cgroup_slot_fd(const struct cgroup_host *host, enum cgroup_slot slot)
{
    return host->v2[slot] ? host->fds[CG_UNIFIED] : host->fds[slot];
}

/* Writes one file of one jail's group. */
int cgroup_set(const struct cgroup_host *host, enum cgroup_slot slot, const struct cgroup *cgroup,
               const char *file, const char *text, struct err *err) MUST_USE;

/* The v1 freezer is only needed where the unified tree cannot freeze. */
static inline bool cgroup_is_used(const struct cgroup_host *host, int slot)
{
    return host->fds[slot] >= 0 && (slot != CG_FREEZER || host->fds[CG_UNIFIED] < 0);
}

/* Opens a file of the group, which keeps the descriptor. Gives -1 and errno when it is missing. */
int cgroup_open_file(const struct cgroup_host *host, struct cgroup *cgroup, enum cgroup_file which,
                     enum cgroup_slot slot, const char *name, int flags);
/* The groups below one jail's memory group; optional. */
void cgroup_make_parts(const struct cgroup_host *host, struct cgroup *cgroup);
void cgroup_limit_parts(const struct cgroup_host *host, const struct cgroup *cgroup);
void cgroup_remove_parts(const struct cgroup_host *host, struct cgroup *cgroup);
int64_t cgroup_count_part_kills(const struct cgroup_host *host, const struct cgroup *cgroup);
/* The number behind `key` in a file of lines, or the file as a number when `key` is NULL. -1: none.
 */
int64_t cgroup_read_number(int fd, const char *key);
/* Switches the cpu limit off, so that killed or freezing processes are not kept from running, or on
 * again. */
void cgroup_lift_cpu(const struct cgroup_host *host, const struct cgroup *cgroup, bool lifted);
