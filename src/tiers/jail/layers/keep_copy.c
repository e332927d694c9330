/* Copying what a place has written into a layer, on a worker. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"
#include "base/vec.h"
#include "tiers/jail/layers/keep.h"
#include "tiers/jail/layers/layer_tree.h"
#include "tiers/jail/layers/layers.h"

static int open_layer(int dir_fd, const char *name, struct err *err)
{
    int fd = SYS(openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return fd < 0 ? err_sys(err, errno, "open the layer '%s'", name) : fd;
}

static int lay_all(struct keeping *keeping, struct err *err)
{
    struct layer_laying laying = {.target_fd = keeping->new_fd,
                                  .trash_fd = keeping->trash_fd,
                                  .owner = layer_tree_owner(),
                                  .links = true,
                                  .cancel = &keeping->job.cancel};
    layer_ids ids = {0};
    int done = tier_layers_add(&ids, buf_str(&keeping->merged), err);
    for (size_t i = 0; done == 0 && i < ids.len; i++) {
        AUTO_ARENA struct arena arena = {0};
        uint64_t before = laying.bytes;
        AUTO_CLOSE int fd =
            open_layer(AT_FDCWD, tier_layers_path(keeping->provider, ids.ptr[i], &arena), err);
        laying.links =
            !tier_layers_is_on_disk(ids.ptr[i]); /* of another filesystem, and its tenant's */
        done = fd < 0 ? -1 : layer_lay(&laying, fd, err);
        if (tier_layers_is_on_disk(ids.ptr[i]))
            keeping->moved_bytes += laying.bytes - before;
    }
    vec_done(&ids);
    laying.links = false;
    keeping->merged_bytes = laying.bytes;
    for (size_t i = 0; done == 0 && i < keeping->sources.len; i++) {
        laying.above_fds = keeping->sources.ptr + i + 1;
        laying.above_count = keeping->sources.len - i - 1;
        done = layer_lay(&laying, keeping->sources.ptr[i], err);
    }
    keeping->skipped = laying.skipped;
    keeping->skipped_names = laying.skipped_names;
    if (done < 0)
        return -1;
    keeping->bytes = laying.bytes;
    keeping->entries = laying.entries;
    return 0;
}

static int copy(struct keeping *keeping, struct err *err)
{
    char name[ID_SIZE + 8];
    (void)snprintf(name, sizeof name, ".new-%s", keeping->fresh.id);
    if (SYS(mkdirat(keeping->dir_fd, name, (mode_t)0700)) < 0)
        return err_sys(err, errno, "make a layer");
    keeping->new_fd = open_layer(keeping->dir_fd, name, err);
    return keeping->new_fd < 0 ? -1 : lay_all(keeping, err);
}

/* What is acknowledged survives a power cut, so the disk has it first. */
static int place_layer(struct keeping *keeping, struct err *err)
{
    char name[ID_SIZE + 8];
    (void)snprintf(name, sizeof name, ".new-%s", keeping->fresh.id);
    CRASH_POINT("keep.copied");
    if (layer_sync(keeping->new_fd, keeping->entries, err) < 0)
        return -1;
    if (SYS(renameat(keeping->dir_fd, name, keeping->dir_fd, keeping->fresh.id)) < 0)
        return err_sys(err, errno, "place a layer");
    if (keeping->how == JAIL_KEEP_SQUASH)
        CRASH_POINT("squash.placed");
    CRASH_POINT("keep.placed");
    return SYS(fsync(keeping->dir_fd)) < 0 ? err_sys(err, errno, "sync the layers") : 0;
}

void keeping_run(struct job *base)
{
    struct keeping *keeping = (struct keeping *)base;
    keeping->result =
        keeping->is_copied ? place_layer(keeping, &keeping->err) : copy(keeping, &keeping->err);
}
