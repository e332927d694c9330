#pragma once

/* An overlay made of directories: read-only layers and one that takes the writes. */

#include "base/base.h"

struct err;

struct overlay {
    const char *const *lower; /* paths, highest first */
    size_t lower_count;
    const char *upper; /* holds `upper` and `work`, on one mount */
    bool one_string;   /* as kernels before 6.8 need it; tried automatically when they refuse */
    bool syncs;        /* fsync inside reaches the disk; else it is volatile */
};

/* Mounts it at `path`, nosuid and nodev.
 *
 * Attributes are kept in user.* so that it works without privilege, which also switches links
 * between layers off (redirect_dir, metacopy): a hostile layer cannot point into another. One that
 * does not sync is volatile: unmounting must not sync the host's whole disk, and a sync inside does
 * nothing. */
int overlay_mount(const struct overlay *overlay, const char *path, struct err *err) MUST_USE;
/* The same as a descriptor, for callers that move it to its place. Kernels that want all in one
 * string have it mounted at `path` until then. */
int overlay_make(const struct overlay *overlay, const char *path, struct err *err) MUST_USE;
