/* Layers and sandboxes that come to be: each is filled under a name that means nothing, and takes
 * its place with one rename. */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"
#include "base/tree.h"
#include "jail/layers_internal.h"
#include "jail/overlay.h"

static int make_dir(int dir_fd, const char *name, mode_t mode, struct err *err)
{
    if (SYS(mkdirat(dir_fd, name, mode)) < 0)
        return err_sys(err, errno, "make '%s'", name);
    return 0;
}

int layer_make_tenant_dir(const struct layers *layers, int dir_fd, const char *name,
                          struct err *err)
{
    if (make_dir(dir_fd, name, 0755, err) < 0)
        return -1;
    return layer_give_away(layers->owner, dir_fd, name, err);
}

int layer_open_trash(int layers_fd, struct err *err)
{
    if (SYS(mkdirat(layers_fd, ".trash", 0700)) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make the trash");
    return layer_open_dir(layers_fd, ".trash", err);
}

int layer_discard(int layers_fd, const char *name, struct err *err)
{
    AUTO_CLOSE int trash = layer_open_trash(layers_fd, err);
    if (trash < 0)
        return -1;
    return tree_discard(layers_fd, name, trash, err);
}

/* What stands beside `layers` tells, also across a mount. */
bool layer_is_limited(int layers_fd)
{
    return faccessat(layers_fd, "../quota", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int add_ballast(const struct layers *layers, int layer_fd, struct err *err)
{
    if (overlay_add_ballast(layer_fd, err) < 0)
        return -1;
    for (int i = 0; i < OVERLAY_BALLAST; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "ballast%d", i);
        if (layer_give_away(layers->owner, layer_fd, name, err) < 0)
            return -1;
    }
    return 0;
}

int layers_make_spare(const struct layers *layers, int layers_fd, struct err *err)
{
    if (faccessat(layers_fd, ".spare", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (SYS(mkdirat(layers_fd, ".new", 0755)) < 0) {
        if (errno != EEXIST)
            return err_sys(err, errno, "make a layer");
        if (layer_discard(layers_fd, ".new", err) < 0 || make_dir(layers_fd, ".new", 0755, err) < 0)
            return -1;
    }
    AUTO_CLOSE int fd = layer_open_dir(layers_fd, ".new", err);
    if (fd < 0 || layer_give_away(layers->owner, layers_fd, ".new", err) < 0 ||
        layer_make_tenant_dir(layers, fd, "upper", err) < 0 ||
        layer_make_tenant_dir(layers, fd, "work", err) < 0 ||
        (layer_is_limited(layers_fd) && add_ballast(layers, fd, err) < 0))
        return -1;
    CRASH_POINT("layer.made");
    if (SYS(renameat2(layers_fd, ".new", layers_fd, ".spare", RENAME_NOREPLACE)) < 0)
        return err_sys(err, errno, "keep a spare layer");
    return 0;
}

/* A full sandbox may own space in its trash. */
static int make_spare_or_room(const struct layers *layers, int layers_fd, struct err *err)
{
    if (layers_make_spare(layers, layers_fd, err) == 0)
        return 0;
    if (err->sys != ENOSPC && err->sys != EDQUOT)
        return -1;
    AUTO_CLOSE int trash = layer_open_trash(layers_fd, err);
    if (trash < 0 || tree_reclaim(trash, err) < 0)
        return -1;
    return layers_make_spare(layers, layers_fd, err);
}

/* An empty layer, made ahead: a directory costs a read of the disk, and a sandbox that has used all
 * its space must still be able to roll back. In its place with one rename. */
int layer_add(const struct layers *layers, int layers_fd, const struct layer *layer,
              struct err *err)
{
    char name[LAYER_NAME_SIZE];
    layer_format(layer, name);
    for (int tries = 0; tries < 2; tries++) {
        if (SYS(renameat2(layers_fd, ".spare", layers_fd, name, RENAME_NOREPLACE)) == 0) {
            CRASH_POINT("layer.placed");
            return 0;
        }
        if (errno != ENOENT || tries > 0)
            break;
        if (make_spare_or_room(layers, layers_fd, err) < 0)
            return -1;
    }
    return err_sys(err, errno, "put the layer '%s' in its place", name);
}

static int add_snapshots(const struct layers *layers, int box_fd, const char *const *snapshots,
                         struct err *err)
{
    AUTO_CLOSE int lower = layer_open_dir(box_fd, "lower", err);
    if (lower < 0)
        return -1;
    for (size_t i = 0; snapshots != NULL && snapshots[i] != NULL; i++) {
        char target[128], name[16];
        if (i == LAYERS_SNAPSHOTS_MAX)
            return err_set(err, ERR_LIMIT, "more than %d snapshots", LAYERS_SNAPSHOTS_MAX);
        if (!id_is_valid(str_of(snapshots[i])))
            return err_set(err, ERR_INVALID, "'%.70s' is no snapshot id", snapshots[i]);
        AUTO_CLOSE int there = layer_open_dir(layers->snapshots_fd, snapshots[i], err);
        if (there < 0)
            return err->sys == ENOENT
                       ? err_set(err, ERR_NOT_FOUND, "no snapshot '%s'", snapshots[i])
                       : -1;
        (void)snprintf(target, sizeof target, "../../../snapshots/%s", snapshots[i]);
        (void)snprintf(name, sizeof name, "%03zu", i);
        if (SYS(symlinkat(target, lower, name)) < 0)
            return err_sys(err, errno, "name the snapshot '%s'", snapshots[i]);
    }
    return 0;
}

/* Everything of a sandbox but its first layer and its name. */
static int fill_box(struct layers *layers, int box_fd, const struct quota_limit *limit,
                    struct err *err)
{
    enum quota_method method;
    if (make_dir(box_fd, "lower", 0700, err) < 0 || make_dir(box_fd, "users", 0700, err) < 0 ||
        make_dir(box_fd, "layers", 0700, err) < 0)
        return -1;
    if (limit != NULL && quota_attach(box_fd, "layers", layers->cache_fd, limit, &method, err) < 0)
        return -1;
    AUTO_CLOSE int layers_fd = layer_open_dir(box_fd, "layers", err);
    if (layers_fd < 0 || make_dir(layers_fd, ".trash", 0700, err) < 0)
        return -1;
    return layers_make_spare(layers, layers_fd, err);
}

static int place_box(struct layers *layers, int box_fd, const char *temp, const char *id,
                     const char *const *snapshots, const struct layer *first, struct err *err)
{
    AUTO_CLOSE int layers_fd = layer_open_dir(box_fd, "layers", err);
    if (layers_fd < 0 || add_snapshots(layers, box_fd, snapshots, err) < 0 ||
        layer_add(layers, layers_fd, first, err) < 0)
        return -1;
    CRASH_POINT("sandbox.made");
    if (SYS(renameat2(layers->sandboxes_fd, temp, layers->sandboxes_fd, id, RENAME_NOREPLACE)) <
        0) {
        if (errno == EEXIST)
            return err_set(err, ERR_CONFLICT, "there is a sandbox '%s' already", id);
        return err_sys(err, errno, "put sandbox '%s' in its place", id);
    }
    CRASH_POINT("sandbox.placed");
    return 0;
}

/* A directory under a name that means nothing, filled; from the stock when nothing is to be
 * mounted in it. Gives its descriptor. */
static int new_box(struct layers *layers, const char *temp, const struct quota_limit *limit,
                   struct err *err)
{
    if (faccessat(layers->sandboxes_fd, temp, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
        layers_remove_box(layers, temp, err) < 0)
        return -1;
    while (limit == NULL && layers->stock.len > 0) {
        struct stock_name name = vec_pop(&layers->stock);
        if (SYS(renameat(layers->stock_fd, name.text, layers->sandboxes_fd, temp)) == 0)
            return layer_open_dir(layers->sandboxes_fd, temp, err);
    }
    if (make_dir(layers->sandboxes_fd, temp, 0700, err) < 0)
        return -1;
    AUTO_CLOSE int box_fd = layer_open_dir(layers->sandboxes_fd, temp, err);
    if (box_fd < 0 || fill_box(layers, box_fd, limit, err) < 0)
        return -1;
    return fd_take(&box_fd);
}

int layer_make_box(struct layers *layers, const char *id, const char *const *snapshots,
                   const struct layer *first, const struct quota_limit *limit, struct err *err)
{
    char temp[LAYERS_ID_SIZE + 8];
    if (!id_is_valid(str_of(id)))
        return err_set(err, ERR_INVALID, "'%.70s' is no sandbox id", id);
    (void)snprintf(temp, sizeof temp, ".new-%s", id);
    AUTO_CLOSE int box_fd = new_box(layers, temp, limit, err);
    if (box_fd >= 0 && place_box(layers, box_fd, temp, id, snapshots, first, err) == 0)
        return 0;
    fd_close(&box_fd);
    (void)layers_remove_box(layers, temp, &(struct err){0});
    return err_wrap(err, "make sandbox '%s'", id);
}

int layer_note_stock(void *ctx, const char *name, struct err *err)
{
    struct layers *layers = ctx;
    (void)err;
    if (strlen(name) < sizeof(struct stock_name) && name[0] != '.')
        (void)snprintf(vec_push(&layers->stock)->text, sizeof(struct stock_name), "%s", name);
    return 0;
}

int layers_stock(struct layers *layers, size_t count, struct err *err)
{
    AUTO_CLOSE int mark =
        SYS(openat(layers->stock_fd, ".mark", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (mark < 0)
        return err_sys(err, errno, "make a mark");
    while (layers->stock.len < count) {
        char name[ID_SIZE], temp[ID_SIZE + 8];
        id_new(name);
        (void)snprintf(temp, sizeof temp, ".new-%s", name);
        if (make_dir(layers->stock_fd, temp, 0700, err) < 0)
            return -1;
        AUTO_CLOSE int box_fd = layer_open_dir(layers->stock_fd, temp, err);
        if (box_fd < 0 || fill_box(layers, box_fd, NULL, err) < 0)
            return -1;
        if (SYS(renameat(layers->stock_fd, temp, layers->stock_fd, name)) < 0)
            return err_sys(err, errno, "stock a sandbox");
        (void)layer_note_stock(layers, name, err);
    }
    return 0;
}

int layers_create(struct layers *layers, const char *id, const char *const *snapshots,
                  const struct quota_limit *limit, struct err *err)
{
    return layer_make_box(layers, id, snapshots, &(struct layer){.number = 1}, limit, err);
}
