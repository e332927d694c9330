#pragma once

/* Words that jail/inside/mounts.c and jail/inside/mounts_overlay.c share. */

#include "jail/inside/mounts.h"

/* Places of the template's workshop: NEW_ROOT becomes "/", the rest is left behind with it. */
#define TREE "/tree"
#define NEW_ROOT "/root"
#define WRITABLE "/rw"
#define LAYERS "/extra"
#define BASE "/base"
/* An overlay root is mounted in its anchor. */
#define NEW_OVERLAY NEW_ROOT JAIL_ANCHOR_ROOT

/* Mounts at a place that must be a directory, or must be none; no link on the way is followed. */
int mounts_put(int mount_fd, const char *path, bool want_dir, struct err *err) MUST_USE;
int mounts_put_new(const char *type, const char *const *options, unsigned attrs, const char *path,
                   struct err *err) MUST_USE;
/* Detached; 0 bytes or inodes: as the kernel likes. */
int mounts_new_tmpfs(int64_t bytes, int64_t inodes, const char *mode, unsigned attrs,
                     struct err *err) MUST_USE;
/* A tmpfs of the size that the plan gives what is written. */
int mounts_new_memory(const struct jail_plan *plan, struct err *err) MUST_USE;

/* Puts an overlay of the set's layers together at NEW_OVERLAY. Sets `layer` of `kept`. */
int mounts_build_overlay(const struct mount_set *set, const struct jail_plan *plan,
                         struct mounts_kept *kept, struct err *err) MUST_USE;
/* With the anchor as "/": makes the overlay "/" and gives the anchor's descriptor. */
int mounts_enter_overlay(const struct jail_plan *plan, int *ret_anchor, struct err *err) MUST_USE;
/* A place in a tree, by its path without the leading slash; no link on the way is followed and the
 * tree is not left. The second makes what is missing of it. */
int mounts_open_in(int root_fd, const char *path);
int mounts_make_in(int root_fd, const char *path, bool is_dir);
