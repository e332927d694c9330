#pragma once

/* Copies a layer's tree onto another: to save what a sandbox has written, or to merge several
 * layers into one.
 *
 * Layers are in overlayfs's own format (docs/LAYERS.md): a deletion is a device 0:0, a directory
 * that hides what is below carries `user.overlay.opaque`. Both are kept, and are applied where the
 * target has an entry of that name. Contents, holes, modes, times, hard links and `user.`
 * attributes are kept; owners become `owner`; devices are left out. No link is followed. What
 * cannot be read, or cannot be written to the target, is left out and listed; the rest is copied.
 *
 * Blocks: for workers. The source must not change during the copy. */

#include <stdatomic.h>
#include <sys/types.h>

#include "base/buf.h"

struct err;

enum { LAYER_DEPTH_MAX = 200, LAYER_SKIPPED_MAX = 20 }; /* nesting of directories; names */

struct layer_laying {
    int target_fd; /* the root that is laid onto */
    int trash_fd;  /* where what is replaced goes; on the same filesystem */
    uid_t owner;
    const int *above_fds; /* layers that are laid later: what they hide is left out */
    size_t above_count;
    bool links; /* the source is frozen and on the target's filesystem: files are linked, not copied
                 */
    const atomic_bool *cancel; /* NULL, or true to stop the copy: CANCELED */
    uint64_t bytes, entries;   /* of files so far */
    uint64_t skipped;          /* entries that were left out */
    struct buf skipped_names;  /* the first of them, as paths below the root, a line each */
};

/* In case of error part of it was done. */
int layer_lay(struct layer_laying *laying, int source_fd, struct err *err) MUST_USE;

/* Makes a layer safe against a power cut. A small one is synced file by file: syncing the whole
 * filesystem would also wait for the writes of all other sandboxes. */
enum { LAYER_SYNC_EACH = 500 };
int layer_sync(int layer_fd, uint64_t entries, struct err *err) MUST_USE;

/* The owner of a layer's files on disk: an id that no user has. */
uid_t layer_tree_owner(void);
