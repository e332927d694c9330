#include "jail/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
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

static int make_tenant_dir(const struct layers *layers, int dir_fd, const char *name,
                           struct err *err)
{
    if (make_dir(dir_fd, name, 0755, err) < 0)
        return -1;
    return layer_give_away(layers->owner, dir_fd, name, err);
}

static int open_trash(int layers_fd, struct err *err)
{
    if (SYS(mkdirat(layers_fd, ".trash", 0700)) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make the trash");
    return layer_open_dir(layers_fd, ".trash", err);
}

static int discard_layer(int layers_fd, const char *name, struct err *err)
{
    AUTO_CLOSE int trash = open_trash(layers_fd, err);
    if (trash < 0)
        return -1;
    return tree_discard(layers_fd, name, trash, err);
}

/* What stands beside `layers` tells, also across a mount. */
static bool is_limited(int layers_fd)
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
        if (discard_layer(layers_fd, ".new", err) < 0 || make_dir(layers_fd, ".new", 0755, err) < 0)
            return -1;
    }
    AUTO_CLOSE int fd = layer_open_dir(layers_fd, ".new", err);
    if (fd < 0 || layer_give_away(layers->owner, layers_fd, ".new", err) < 0 ||
        make_tenant_dir(layers, fd, "upper", err) < 0 ||
        make_tenant_dir(layers, fd, "work", err) < 0 ||
        (is_limited(layers_fd) && add_ballast(layers, fd, err) < 0))
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
    AUTO_CLOSE int trash = open_trash(layers_fd, err);
    if (trash < 0 || tree_reclaim(trash, err) < 0)
        return -1;
    return layers_make_spare(layers, layers_fd, err);
}

/* An empty layer, made ahead: a directory costs a read of the disk, and a sandbox that has used all
 * its space must still be able to roll back. In its place with one rename. */
static int add_layer(const struct layers *layers, int layers_fd, const struct layer *layer,
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
        add_layer(layers, layers_fd, first, err) < 0)
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

static int make_box(struct layers *layers, const char *id, const char *const *snapshots,
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

static int note_stock(void *ctx, const char *name, struct err *err)
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
        (void)note_stock(layers, name, err);
    }
    return 0;
}

int layers_create(struct layers *layers, const char *id, const char *const *snapshots,
                  const struct quota_limit *limit, struct err *err)
{
    return make_box(layers, id, snapshots, &(struct layer){.number = 1}, limit, err);
}

/* The stack's own part and its top; every verb begins with this. */
static int open_stack(struct layers *layers, const char *id, struct layer_box *box,
                      struct layer_set *set, const struct layer **ret_top, struct err *err)
{
    if (layer_box_open(layers, id, false, box, err) < 0 ||
        layer_set_read(box->layers_fd, set, err) < 0)
        return -1;
    *ret_top = layer_set_top(set);
    if (*ret_top == NULL)
        return err_set(err, ERR_INTERNAL, "sandbox '%s' has no layer; its data is damaged", id);
    return 0;
}

int layers_checkpoint(struct layers *layers, const char *id, uint32_t *ret_number, struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    AUTO_LAYER_SET struct layer_set set = {0};
    const struct layer *top;
    AUTO_MEM struct layer_chain *chain = mem_alloc(sizeof *chain);
    if (open_stack(layers, id, &box, &set, &top, err) < 0 ||
        layer_chain_read(layers, id, chain, err) < 0)
        return -1;
    if (chain->count == LAYERS_DEPTH_MAX)
        return err_set(
            err, ERR_LIMIT,
            "sandbox '%s' has %d layers, which is the most; roll back or start a new one", id,
            LAYERS_DEPTH_MAX);
    struct layer next = {.number = top->number + 1, .parent = top->number};
    if (add_layer(layers, box.layers_fd, &next, err) < 0)
        return err_wrap(err, "checkpoint '%s'", id);
    /* Before the tenant can use up what it needs. Without it the next one has to find room. */
    struct err later;
    if (is_limited(box.layers_fd) && layers_make_spare(layers, box.layers_fd, &later) < 0)
        (void)unlinkat(box.layers_fd, ".new", AT_REMOVEDIR);
    *ret_number = top->number;
    return 0;
}

int layers_withdraw(struct layers *layers, const char *id, struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    AUTO_LAYER_SET struct layer_set set = {0};
    const struct layer *top;
    if (open_stack(layers, id, &box, &set, &top, err) < 0)
        return -1;
    /* The layer below becomes the highest only if nothing else stands between. */
    if (top->parent_id[0] != '\0' || top->parent == 0)
        return err_set(err, ERR_CONFLICT, "sandbox '%s' has no checkpoint to take back", id);
    for (size_t i = 0; i < set.all.len; i++)
        if (set.all.ptr[i].number > top->parent && set.all.ptr[i].number != top->number)
            return err_set(err, ERR_CONFLICT, "the last act on sandbox '%s' was no checkpoint", id);
    char name[LAYER_NAME_SIZE];
    layer_format(top, name);
    return discard_layer(box.layers_fd, name, err);
}

/* What a rollback to `number` stands on; 0 stands on what the sandbox's first layer stood on. */
static bool find_base(const struct layer_set *set, const struct layer *top, uint32_t number,
                      struct layer *ret_next)
{
    struct layer next = {.number = top->number + 1, .parent = number};
    if (number == 0) {
        const struct layer *first = top;
        while (first != NULL && first->parent_id[0] == '\0' && first->parent != 0)
            first = layer_set_find(set, first->parent);
        if (first == NULL)
            return false;
        next.parent = first->parent;
        memcpy(next.parent_id, first->parent_id, sizeof next.parent_id);
    } else if (number == top->number || !layer_set_reaches(set, top->number, number)) {
        return false;
    }
    *ret_next = next;
    return true;
}

int layers_rollback_keep(struct layers *layers, const char *id, uint32_t number, struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    AUTO_LAYER_SET struct layer_set set = {0};
    const struct layer *top;
    struct layer next;
    if (open_stack(layers, id, &box, &set, &top, err) < 0)
        return -1;
    if (!find_base(&set, top, number, &next))
        return err_set(err, ERR_NOT_FOUND, "sandbox '%s' has no checkpoint %u", id, number);
    if (add_layer(layers, box.layers_fd, &next, err) < 0)
        return err_wrap(err, "roll back '%s'", id);
    return 0;
}

int layers_rollback(struct layers *layers, const char *id, uint32_t number, struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    if (layers_rollback_keep(layers, id, number, err) < 0)
        return -1;
    if (layer_box_open(layers, id, false, &box, err) == 0)
        layers_prune(&box);
    return 0;
}

int layers_drop_top(struct layers *layers, const char *id, struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    AUTO_LAYER_SET struct layer_set set = {0};
    const struct layer *top;
    char name[LAYER_NAME_SIZE];
    if (open_stack(layers, id, &box, &set, &top, err) < 0)
        return -1;
    layer_format(top, name);
    return discard_layer(box.layers_fd, name, err);
}

/* The mark stands before the fork does: a crash in between leaves a mark too many, never one too
 * few. */
static int mark_user(const struct layers *layers, struct layer_box *box, uint32_t number,
                     const char *new_id, struct err *err)
{
    char name[LAYER_NAME_SIZE];
    (void)snprintf(name, sizeof name, "users/%u.%s", number, new_id);
    /* One empty file with many names: a new one would cost a read of the disk. */
    if (SYS(linkat(layers->stock_fd, ".mark", box->fd, name, 0)) < 0 && errno != EEXIST) {
        AUTO_CLOSE int fd =
            SYS(openat(box->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (fd < 0)
            return err_sys(err, errno, "mark a layer as used");
    }
    CRASH_POINT("fork.marked");
    return 0;
}

struct names {
    size_t count;
    char ids[LAYERS_SNAPSHOTS_MAX][LAYERS_ID_SIZE];
    const char *list[LAYERS_SNAPSHOTS_MAX + 1];
};

/* Only the last part of a link counts: it is a name, never a way to go. */
static int read_snapshots(int box_fd, struct names *names, struct err *err)
{
    for (names->count = 0; names->count < LAYERS_SNAPSHOTS_MAX; names->count++) {
        char path[24], target[128];
        (void)snprintf(path, sizeof path, "lower/%03zu", names->count);
        ssize_t len = SYS(readlinkat(box_fd, path, target, sizeof target - 1));
        if (len < 0 && errno == ENOENT)
            break;
        if (len < 0)
            return err_sys(err, errno, "read '%s'", path);
        target[len] = '\0';
        const char *slash = strrchr(target, '/');
        const char *id = slash == NULL ? target : slash + 1;
        if (!id_is_valid(str_of(id)))
            return err_set(err, ERR_INTERNAL, "'%s' names no snapshot", path);
        (void)snprintf(names->ids[names->count], LAYERS_ID_SIZE, "%.64s", id);
        names->list[names->count] = names->ids[names->count];
    }
    names->list[names->count] = NULL;
    return 0;
}

int layers_fork(struct layers *layers, const char *id, uint32_t number, const char *new_id,
                const struct quota_limit *limit, struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    AUTO_LAYER_SET struct layer_set set = {0};
    const struct layer *top;
    struct names names;
    if (!id_is_valid(str_of(new_id)))
        return err_set(err, ERR_INVALID, "'%.70s' is no sandbox id", new_id);
    if (open_stack(layers, id, &box, &set, &top, err) < 0 ||
        read_snapshots(box.fd, &names, err) < 0)
        return -1;
    if (number == 0 || number == top->number || !layer_set_reaches(&set, top->number, number))
        return err_set(err, ERR_NOT_FOUND, "sandbox '%s' has no checkpoint %u", id, number);
    if (faccessat(layers->sandboxes_fd, new_id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, ERR_CONFLICT, "there is a sandbox '%s' already", new_id);
    struct layer first = {.number = 1, .parent = number};
    (void)snprintf(first.parent_id, sizeof first.parent_id, "%s", id);
    if (mark_user(layers, &box, number, new_id, err) < 0)
        return -1;
    if (make_box(layers, new_id, names.list, &first, limit, err) == 0)
        return 0;
    char name[LAYER_NAME_SIZE];
    (void)snprintf(name, sizeof name, "users/%u.%s", number, new_id);
    (void)unlinkat(box.fd, name, 0);
    return err_wrap(err, "fork '%s'", id);
}

/* Overlayfs keeps its own things in `work`, without permissions for anybody and with a note that
 * forbids a second mount without syncing: a fresh one costs less than making sense of it. */
static int renew_work(struct layers *layers, const char *top_path, struct err *err)
{
    char path[LAYER_PATH_SIZE + 16];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/work/work", top_path);
    if (fstatat(layers->sandboxes_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    AUTO_CLOSE int fd = layer_open_dir(layers->sandboxes_fd, top_path, err);
    if (fd < 0)
        return -1;
    AUTO_CLOSE int layers_fd = layer_open_dir(fd, "..", err);
    AUTO_CLOSE int trash = layers_fd < 0 ? -1 : open_trash(layers_fd, err);
    if (trash < 0 || tree_discard(fd, "work", trash, err) < 0)
        return -1;
    /* A full one needs back what the old one had. */
    if (is_limited(layers_fd) && tree_reclaim(trash, err) < 0)
        return -1;
    return make_tenant_dir(layers, fd, "work", err);
}

int layers_plan(struct layers *layers, const char *id, struct arena *arena, struct jail_plan *plan,
                struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    AUTO_MEM struct layer_chain *chain = mem_alloc(sizeof *chain);
    struct names names;
    if (layer_box_open(layers, id, false, &box, err) < 0 ||
        read_snapshots(box.fd, &names, err) < 0 || layer_chain_read(layers, id, chain, err) < 0 ||
        renew_work(layers, chain->paths[0], err) < 0)
        return -1;
    plan->layer_count = 0;
    for (size_t i = 0; i < names.count; i++)
        plan->layers[plan->layer_count++] =
            arena_printf(arena, "%s/snapshots/%s", layers->home, names.list[i]).ptr;
    for (size_t i = chain->count; i-- > 1;)
        plan->layers[plan->layer_count++] =
            arena_printf(arena, "%s/sandboxes/%s/upper", layers->home, chain->paths[i]).ptr;
    plan->upper = arena_printf(arena, "%s/sandboxes/%s", layers->home, chain->paths[0]).ptr;
    return 0;
}

int layers_list(struct layers *layers, const char *id, uint32_t numbers[LAYERS_DEPTH_MAX],
                struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    AUTO_LAYER_SET struct layer_set set = {0};
    const struct layer *layer;
    uint32_t found[LAYERS_DEPTH_MAX];
    size_t count = 0;
    if (open_stack(layers, id, &box, &set, &layer, err) < 0)
        return -1;
    while (layer != NULL && layer->parent_id[0] == '\0' && count < LAYERS_DEPTH_MAX) {
        layer = layer_set_find(&set, layer->parent);
        if (layer != NULL)
            found[count++] = layer->number;
    }
    for (size_t i = 0; i < count; i++)
        numbers[i] = found[count - 1 - i];
    return (int)count;
}

int layers_open(const char *home, struct layers **ret_layers, struct err *err)
{
    if (jail_path_check(home, "data directory", err) < 0)
        return -1;
    AUTO_LAYERS struct layers *layers = mem_alloc(sizeof *layers);
    *layers = (struct layers){.home = mem_dup_cstr(home),
                              .sandboxes_fd = -1,
                              .snapshots_fd = -1,
                              .trash_fd = -1,
                              .cache_fd = -1,
                              .stock_fd = -1};
    layers->owner = layer_owner();
    layers->sandboxes_fd = layer_open_part(home, "sandboxes", err);
    layers->snapshots_fd = layer_open_part(home, "snapshots", err);
    layers->trash_fd = layer_open_part(home, "trash", err);
    layers->cache_fd = layer_open_part(home, "cache", err);
    layers->stock_fd = layer_open_part(home, "stock", err);
    if (layers->sandboxes_fd < 0 || layers->snapshots_fd < 0 || layers->trash_fd < 0 ||
        layers->cache_fd < 0 || layers->stock_fd < 0 ||
        layer_each(layers->stock_fd, note_stock, layers, err) < 0)
        return err_wrap(err, "data directory");
    *ret_layers = layers;
    layers = NULL;
    return 0;
}

struct layers *layers_free(struct layers *layers)
{
    if (layers == NULL)
        return NULL;
    fd_close(&layers->sandboxes_fd);
    fd_close(&layers->snapshots_fd);
    fd_close(&layers->trash_fd);
    fd_close(&layers->cache_fd);
    fd_close(&layers->stock_fd);
    vec_done(&layers->stock);
    free(layers->home);
    free(layers);
    return NULL;
}
