#pragma once

/* Between the files that deal with control groups. */

#include "base/buf.h"
#include "jail/cgroup.h"

enum { CGROUP_TEXT_MAX = 1 << 20 };

extern const char *const cgroup_slot_names[CG_COUNT];

int cgroup_read_text(int dir_fd, const char *path, struct buf *out, struct err *err) MUST_USE;
int cgroup_write_text(int dir_fd, const char *path, const char *text, struct err *err) MUST_USE;

int cgroup_read_layout(struct cgroup_layout *layout, struct err *err) MUST_USE;

/* Our corner of the hierarchy that serves `slot`. */
static inline int cgroup_slot_fd(const struct cgroup_host *host, enum cgroup_slot slot)
{
    return host->v2[slot] ? host->fds[CG_UNIFIED] : host->fds[slot];
}

/* Writes one file of one jail's group. */
int cgroup_set(const struct cgroup_host *host, enum cgroup_slot slot, const struct cgroup *cgroup,
               const char *file, const char *text, struct err *err) MUST_USE;
