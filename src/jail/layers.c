#include "jail/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"
#include "base/tree.h"
#include "jail/layers_internal.h"

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
    if (layer_add(layers, box.layers_fd, &next, err) < 0)
        return err_wrap(err, "checkpoint '%s'", id);
    /* Before the tenant can use up what it needs. Without it the next one has to find room. */
    struct err later;
    if (layer_is_limited(box.layers_fd) && layers_make_spare(layers, box.layers_fd, &later) < 0)
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
    return layer_discard(box.layers_fd, name, err);
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
    if (layer_add(layers, box.layers_fd, &next, err) < 0)
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
    return layer_discard(box.layers_fd, name, err);
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
    if (layer_make_box(layers, new_id, names.list, &first, limit, err) == 0)
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
    AUTO_CLOSE int trash = layers_fd < 0 ? -1 : layer_open_trash(layers_fd, err);
    if (trash < 0 || tree_discard(fd, "work", trash, err) < 0)
        return -1;
    /* A full one needs back what the old one had. */
    if (layer_is_limited(layers_fd) && tree_reclaim(trash, err) < 0)
        return -1;
    return layer_make_tenant_dir(layers, fd, "work", err);
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
        layer_each(layers->stock_fd, layer_note_stock, layers, err) < 0)
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
