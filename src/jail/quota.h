#pragma once

/* A directory that cannot grow beyond a size: the kernel says ENOSPC or EDQUOT, nobody polls.
 *
 * Three ways, tried in this order:
 *   project  the filesystem counts for us (ext4, xfs mounted with prjquota): no cost, no mount
 *   image    a filesystem of its own in a sparse file: needs root and loop devices; it has a
 * journal unless what it holds is ephemeral memory   a sized tmpfs: only for what may vanish; its
 * pages count against the writer's memory What was done is written beside the directory, so that it
 * can be undone, or redone after a reboot, by another process. A host that can do none of it is
 * refused by name. Calls may block on the disk; a first image of a size takes tens of milliseconds.
 */

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
/* Gives a loop device and a mount back while nobody uses the directory; quota_resume brings them.
 * Nothing to do for the other ways. BUSY while something uses it. */
int quota_rest(int box_fd, const char *name, struct err *err) MUST_USE;
/* Ends the limit and the mount; for an image or memory the directory is empty afterwards. Fine when
 * there is none. BUSY while something uses it. */
int quota_detach(int box_fd, const char *name, struct err *err) MUST_USE;

/* Another size for an attached limit. An image grows only, and its files in proportion: UNSUPPORTED
 * for a smaller one, CONFLICT when what is there does not fit, NOT_FOUND without a limit. */
int quota_resize(int box_fd, const char *name, const struct quota_limit *limit,
                 struct err *err) MUST_USE;

struct quota_use {
    enum quota_method method; /* QUOTA_AUTO: not limited, and then nobody counts: all are -1 */
    int64_t bytes, used_bytes, inodes, used_inodes;
};
/* The limit must be there: after a reboot quota_resume comes first. */
int quota_stat(int box_fd, const char *name, struct quota_use *ret_use, struct err *err) MUST_USE;

/* A limit for somebody's own directory, which stays where it is: by project quota or not at all.
 * UNSUPPORTED says why not; CONFLICT: it holds files that were never counted; BUSY: it is held.
 * After a crash the limit stands until the next hold ends. */
struct quota_hold {
    int fd;
    uint32_t project;
};
int quota_hold(const char *path, const struct quota_limit *limit, struct quota_hold *ret_hold,
               struct err *err) MUST_USE;
void quota_let_go(struct quota_hold *hold);

const char *quota_method_name(enum quota_method method);
