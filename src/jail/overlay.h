#pragma once

/* An overlay made of directories: read-only layers and one that takes the writes. */

#include "base/base.h"

struct err;

struct overlay {
    const char *const *lower; /* paths, highest first */
    size_t lower_count;
    const char *upper; /* holds `upper` and `work`, on one mount */
    bool one_string;   /* as kernels before 6.8 need it; tried by itself when they refuse */
};

/* Files beside `upper` in a layer of limited size, which are removed for the mount and made again
 * after it: overlayfs needs a few inodes and blocks to begin, and a sandbox that has used up its
 * space must still be able to start, if only to delete something. */
enum { OVERLAY_BALLAST = 6 };
int overlay_add_ballast(int layer_fd, struct err *err) MUST_USE;

/* Mounts it at `path`, nosuid and nodev.
 *
 * Attributes are kept in user.* so that it works without privilege, which also switches links
 * between layers off (redirect_dir, metacopy): a hostile layer cannot point into another. Volatile:
 * unmounting must not sync the host's whole disk, and a sync inside is not one; layers_sync is. */
int overlay_mount(const struct overlay *overlay, const char *path, struct err *err) MUST_USE;
/* The same, for whoever moves it to its place: a descriptor. Kernels that want all in one string
 * have it mounted at `path` until then. */
int overlay_make(const struct overlay *overlay, const char *path, struct err *err) MUST_USE;
