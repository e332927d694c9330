#pragma once

/* A directory that cannot grow beyond a size: the kernel enforces it with ENOSPC or EDQUOT, without
 * polling.
 *
 * Three ways, tried in this order:
 *
 *     project  the filesystem counts for us (ext4, xfs mounted with prjquota): no cost, no mount
 *     image    a separate filesystem in a sparse file: needs root and loop devices; has a
 *              journal unless its contents are ephemeral
 *     memory   a sized tmpfs: only for what may vanish; its pages count as the writer's memory
 *
 * The chosen way is recorded next to the directory, so that another process can undo it, or redo it
 * after a reboot. A host that supports none of them is refused by name. Calls may block on the
 * disk; a first image of a size takes tens of milliseconds. */

#include "base/str.h"

struct err;

enum disk_quota_method { DISK_QUOTA_AUTO, DISK_QUOTA_PROJECT, DISK_QUOTA_IMAGE, DISK_QUOTA_MEMORY };

struct disk_quota_limit {
    int64_t bytes;
    int64_t inodes;
    bool ephemeral;                /* need not survive a reboot */
    enum disk_quota_method method; /* DISK_QUOTA_AUTO: the first that works */
};

enum { DISK_QUOTA_BYTES_MIN = 1 << 20, DISK_QUOTA_INODES_MIN = 64 };

/* Limits the empty directory `name` in `box_fd`; writes `quota`, and `disk.img` for an image, into
 * `box_fd`. Images are copied from templates kept in `cache_fd`. Gives the method used. */
int disk_quota_attach(int box_fd, const char *name, int cache_fd,
                      const struct disk_quota_limit *limit, enum disk_quota_method *ret_method,
                      struct err *err) MUST_USE;
/* Brings an attached limit back when its mount is missing. True when there is a limit at all. */
int disk_quota_resume(int box_fd, const char *name, bool *ret_limited, struct err *err) MUST_USE;
/* Releases the loop device and the mount while the directory is not in use; disk_quota_resume
 * restores them. Does nothing for the other methods. BUSY while something uses it. */
int disk_quota_rest(int box_fd, const char *name, struct err *err) MUST_USE;
/* Ends the limit and the mount; for an image or memory the directory is empty afterwards. Succeeds
 * if no limit is set. BUSY while something uses it. */
int disk_quota_detach(int box_fd, const char *name, struct err *err) MUST_USE;

/* Another size for an attached limit. An image grows only, and its files in proportion: UNSUPPORTED
 * for a smaller one, CONFLICT when the existing files do not fit, NOT_FOUND without a limit. */
int disk_quota_resize(int box_fd, const char *name, const struct disk_quota_limit *limit,
                      struct err *err) MUST_USE;

struct disk_quota_use {
    enum disk_quota_method method; /* DISK_QUOTA_AUTO: neither limited nor counted: all are -1 */
    int64_t bytes, used_bytes, inodes, used_inodes;
};
/* The limit must be there: after a reboot disk_quota_resume comes first. */
int disk_quota_stat(int box_fd, const char *name, struct disk_quota_use *ret_use,
                    struct err *err) MUST_USE;

/* A limit for a directory of another owner, which stays where it is: by project quota or not at
 * all. UNSUPPORTED says why not; CONFLICT: it holds files that were never counted; BUSY: it is
 * held. After a crash the limit stays until the next hold ends. */
struct disk_quota_hold {
    int fd;
    uint32_t project;
};
int disk_quota_hold(const char *path, const struct disk_quota_limit *limit,
                    struct disk_quota_hold *ret_hold, struct err *err) MUST_USE;
void disk_quota_let_go(struct disk_quota_hold *hold);

const char *disk_quota_method_name(enum disk_quota_method method);
