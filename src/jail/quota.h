#pragma once

/* A directory that cannot grow beyond a size: the kernel says ENOSPC or EDQUOT, nobody polls.
 *
 * Three ways, tried in this order:
 *   project  the filesystem counts for us (ext4, xfs mounted with prjquota): no cost, no extra
 * layer image    a filesystem of its own in a sparse file: needs root and loop devices; a journal
 * unless what it holds is ephemeral memory   a sized tmpfs: only for what may vanish; its pages
 * count against the writer's memory What was done is written beside the directory, so that it can
 * be undone, or redone after a reboot, by another process. A host that can do none of it is refused
 * by name. */

#include "base/str.h"

struct err;

enum quota_method { QUOTA_AUTO, QUOTA_PROJECT, QUOTA_IMAGE, QUOTA_MEMORY };

struct quota_limit {
    int64_t bytes;
    int64_t inodes;
    bool ephemeral;           /* need not survive a reboot */
    enum quota_method method; /* QUOTA_AUTO: the first that works */
};

enum { QUOTA_BYTES_MIN = 1 << 20, QUOTA_INODES_MIN = 64 };

/* Limits the empty directory `name` in `box_fd`; writes `quota`, and `disk.img` for an image, into
 * `box_fd`. Images are copied from templates kept in `cache_fd`. Gives the method used. */
int quota_attach(int box_fd, const char *name, int cache_fd, const struct quota_limit *limit,
                 enum quota_method *ret_method, struct err *err) MUST_USE;
/* Brings an attached limit back when its mount is missing. True when there is a limit at all. */
int quota_resume(int box_fd, const char *name, bool *ret_limited, struct err *err) MUST_USE;
/* Ends the limit and the mount; for an image or memory the directory is empty afterwards. Fine when
 * there is none. BUSY while something uses it. */
int quota_detach(int box_fd, const char *name, struct err *err) MUST_USE;

const char *quota_method_name(enum quota_method method);
