#pragma once

/* A layer's tree, laid onto another: the copy of what a sandbox has written, or several layers made
 * into one.
 *
 * Layers are in overlayfs's own format (docs/LAYERS.md): a deletion is a device 0:0, a directory
 * that hides what is below carries `user.overlay.opaque`. Both are kept, and are obeyed where the
 * target has something at that name. Contents, holes, modes, times, hard links and `user.`
 * attributes are kept; owners become `owner`; devices are left out. No link is followed.
 *
 * Blocks: for workers. The source must not change meanwhile. */

#include <stdatomic.h>
#include <sys/types.h>

#include "base/base.h"

struct err;

enum { LAYER_DEPTH_MAX = 200 }; /* directories in each other */

struct layer_laying {
    int target_fd; /* the root that is laid onto */
    int trash_fd;  /* where what is replaced goes; on the same filesystem */
    uid_t owner;
    const int *above_fds; /* layers that are laid later: what they hide is left out */
    size_t above_count;
    bool links; /* the source is frozen and beside the target: files are linked, not copied */
    const atomic_bool *cancel; /* NULL, or true when it shall stop: CANCELED */
    uint64_t bytes, entries;   /* of files so far */
};

/* TOO_LARGE when directories lie too deep in each other. In case of error part of it was done. */
int layer_lay(struct layer_laying *laying, int source_fd, struct err *err) MUST_USE;

/* Makes a layer safe against a power cut. A small one is synced file by file: to sync the whole
 * filesystem would mean to wait for what everybody else has written. */
enum { LAYER_SYNC_EACH = 500 };
int layer_sync(int layer_fd, uint64_t entries, struct err *err) MUST_USE;

/* Who owns a layer's files on disk: an id that nobody has. */
uid_t layer_tree_owner(void);
