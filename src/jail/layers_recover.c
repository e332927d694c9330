/* The end of layers and of sandboxes, also of those that a crash left half-done. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"
#include "base/tree.h"
#include "jail/layers_internal.h"

/* "NUMBER.ID" in users/. */
static bool parse_user(struct str name, uint32_t *ret_number, char id[LAYERS_ID_SIZE])
{
    int64_t number;
    size_t dot = str_find_char(name, '.');
    struct str who = str_slice(name, dot + 1, name.len);
    if (dot >= name.len || !id_is_valid(who) ||
        !str_to_i64(str_slice(name, 0, dot), 1, UINT32_MAX - 1, &number))
        return false;
    *ret_number = (uint32_t)number;
    (void)snprintf(id, LAYERS_ID_SIZE, "%.*s", STR_ARG(who));
    return true;
}

struct need {
    const struct layer_set *set;
    uint32_t number;
    bool found;
};

static int note_need(void *ctx, const char *name, struct err *err)
{
    struct need *need = ctx;
    uint32_t number;
    char id[LAYERS_ID_SIZE];
    (void)err;
    if (parse_user(str_of(name), &number, id) &&
        (need->set == NULL || layer_set_reaches(need->set, number, need->number)))
        need->found = true;
    return 0;
}

/* Whether a fork stands on this layer. When in doubt it does. */
static bool is_needed(const struct layer_box *box, const struct layer_set *set, uint32_t number)
{
    struct err err = {0};
    struct need need = {.set = set, .number = number};
    AUTO_CLOSE int users = layer_open_dir(box->fd, "users", &err);
    if (users < 0 || layer_each(users, note_need, &need, &err) < 0)
        return true;
    return need.found;
}

/* True when some sandbox was forked from it. */
static bool has_users(const struct layer_box *box)
{
    return is_needed(box, NULL, 0);
}

void layers_prune(struct layer_box *box)
{
    struct err err = {0};
    AUTO_LAYER_SET struct layer_set set = {0};
    if (layer_set_read(box->layers_fd, &set, &err) < 0)
        return;
    const struct layer *top = layer_set_top(&set);
    bool gone = faccessat(box->fd, "gone", F_OK, 0) == 0;
    AUTO_CLOSE int trash = -1;
    for (size_t i = 0; top != NULL && i < set.all.len; i++) {
        uint32_t number = set.all.ptr[i].number;
        if ((!gone && layer_set_reaches(&set, top->number, number)) || is_needed(box, &set, number))
            continue;
        char name[LAYER_NAME_SIZE];
        layer_format(&set.all.ptr[i], name);
        if (trash < 0) {
            (void)mkdirat(box->layers_fd, ".trash", 0700);
            trash = layer_open_dir(box->layers_fd, ".trash", &err);
        }
        /* What stays now is found by the next prune: it is in nobody's stack. */
        if (trash < 0 || tree_discard(box->layers_fd, name, trash, &err) < 0)
            return;
        CRASH_POINT("prune.one");
    }
}

int layers_remove_box(struct layers *layers, const char *name, struct err *err)
{
    AUTO_CLOSE int fd = layer_open_dir(layers->sandboxes_fd, name, err);
    if (fd < 0 || quota_detach(fd, "layers", err) < 0)
        return -1;
    CRASH_POINT("destroy.detached");
    return tree_discard(layers->sandboxes_fd, name, layers->trash_fd, err);
}

/* A parent that was kept only for us. */
static int release_parent(struct layers *layers, const char *id, const struct layer *layer,
                          struct err *err)
{
    char name[LAYER_NAME_SIZE];
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    if (layer_box_open(layers, layer->parent_id, true, &box, err) < 0)
        return err->code == ERR_NOT_FOUND ? 0 : -1;
    (void)snprintf(name, sizeof name, "users/%u.%s", layer->parent, id);
    if (SYS(unlinkat(box.fd, name, 0)) < 0 && errno != ENOENT)
        return err_sys(err, errno, "release '%s'", layer->parent_id);
    CRASH_POINT("destroy.released");
    if (faccessat(box.fd, "gone", F_OK, 0) < 0 || has_users(&box)) {
        layers_prune(&box);
        return 0;
    }
    /* Not pruned before it goes: its layers name the parents that go with it. */
    layer_box_close(&box);
    return layers_destroy(layers, layer->parent_id, err);
}

/* Parents were there before their forks, so the way up through them ends. */
/* Takes the parents' marks of a destroyed sandbox away, and parents that waited for that. */
static int release_parents(struct layers *layers, const char *id, const struct layer_set *set,
                           struct err *err)
{
    int done = 0;
    for (size_t i = 0; i < set->all.len; i++)
        if (set->all.ptr[i].parent_id[0] != '\0' &&
            release_parent(layers, id, &set->all.ptr[i], err) < 0)
            done = -1;
    return done;
}

static int mark_gone(struct layer_box *box, struct err *err)
{
    AUTO_CLOSE int fd =
        SYS(openat(box->fd, "gone", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd < 0)
        return err_sys(err, errno, "mark as gone");
    CRASH_POINT("destroy.marked");
    layers_prune(box);
    return 0;
}

int layers_destroy(struct layers *layers, const char *id, struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    AUTO_LAYER_SET struct layer_set set = {0};
    if (layer_box_open(layers, id, true, &box, err) < 0 ||
        layer_set_read(box.layers_fd, &set, err) < 0)
        return -1;
    bool was_gone = faccessat(box.fd, "gone", F_OK, 0) == 0;
    if (has_users(&box))
        return was_gone ? err_set(err, ERR_NOT_FOUND, "no sandbox '%s'", id) : mark_gone(&box, err);
    layer_box_close(&box);
    if (layers_remove_box(layers, id, err) < 0)
        return err_wrap(err, "destroy '%s'", id);
    CRASH_POINT("destroy.discarded");
    return release_parents(layers, id, &set, err);
}

int layers_sync(struct layers *layers, const char *id, struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    if (layer_box_open(layers, id, false, &box, err) < 0)
        return -1;
    /* An image is a filesystem of its own in a file of the other one. */
    if (SYS(syncfs(box.layers_fd)) < 0 || SYS(syncfs(box.fd)) < 0)
        return err_sys(err, errno, "sync sandbox '%s'", id);
    return 0;
}

static int reclaim_one(struct layers *layers, const char *id, struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    if (layer_box_open(layers, id, true, &box, err) < 0)
        return -1;
    AUTO_CLOSE int trash = layer_open_dir(box.layers_fd, ".trash", err);
    if (trash < 0 && err->sys != ENOENT)
        return -1;
    if (trash >= 0 && tree_reclaim(trash, err) < 0)
        return -1;
    return faccessat(box.fd, "gone", F_OK, 0) == 0 ? 0
                                                   : layers_make_spare(layers, box.layers_fd, err);
}

/* One that is damaged must not keep the others from being looked after. */
struct sweep {
    struct layers *layers;
    struct err first;
};

static void note_failure(struct sweep *sweep, const struct err *why)
{
    if (sweep->first.code == ERR_NONE)
        sweep->first = *why;
}

static int end_sweep(const struct sweep *sweep, struct err *err)
{
    if (sweep->first.code == ERR_NONE)
        return 0;
    *err = sweep->first;
    return -1;
}

static int reclaim_if_box(void *ctx, const char *name, struct err *err)
{
    struct sweep *sweep = ctx;
    struct err why = {0};
    (void)err;
    if (id_is_valid(str_of(name)) && reclaim_one(sweep->layers, name, &why) < 0)
        note_failure(sweep, &why);
    return 0;
}

int layers_reclaim(struct layers *layers, const char *id, struct err *err)
{
    if (id != NULL)
        return reclaim_one(layers, id, err);
    struct sweep sweep = {.layers = layers};
    if (layer_each(layers->sandboxes_fd, reclaim_if_box, &sweep, err) < 0 ||
        tree_reclaim(layers->trash_fd, err) < 0)
        return -1;
    return end_sweep(&sweep, err);
}

struct stale {
    struct layers *layers;
    const struct layer_box *box;
};

/* A mark of a fork that never came to be, or is no more. */
static int drop_stale_user(void *ctx, const char *name, struct err *err)
{
    struct stale *stale = ctx;
    char id[LAYERS_ID_SIZE], path[LAYER_NAME_SIZE + 8];
    uint32_t number;
    if (parse_user(str_of(name), &number, id) &&
        faccessat(stale->layers->sandboxes_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    (void)snprintf(path, sizeof path, "users/%.90s", name);
    if (SYS(unlinkat(stale->box->fd, path, 0)) < 0)
        return err_sys(err, errno, "remove '%s'", path);
    return 0;
}

static int recover_box(struct layers *layers, const char *id, struct err *err)
{
    AUTO_CLOSE int box_fd = layer_open_dir(layers->sandboxes_fd, id, err);
    bool limited;
    /* One that went with another while we were reading the list. */
    if (box_fd < 0 && err->sys == ENOENT)
        return 0;
    if (box_fd < 0 || quota_resume(box_fd, "layers", &limited, err) < 0)
        return err_wrap(err, "sandbox '%s'", id);
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    if (layer_box_open(layers, id, true, &box, err) < 0)
        return -1;
    AUTO_CLOSE int users = layer_open_dir(box.fd, "users", err);
    struct stale stale = {.layers = layers, .box = &box};
    if (users < 0 || layer_each(users, drop_stale_user, &stale, err) < 0)
        return -1;
    if (faccessat(box.layers_fd, ".new", F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        (void)mkdirat(box.layers_fd, ".trash", 0700);
        AUTO_CLOSE int trash = layer_open_dir(box.layers_fd, ".trash", err);
        if (trash < 0 || tree_discard(box.layers_fd, ".new", trash, err) < 0)
            return -1;
    }
    if (faccessat(box.fd, "gone", F_OK, 0) < 0 || has_users(&box)) {
        layers_prune(&box);
        return 0;
    }
    layer_box_close(&box);
    return layers_destroy(layers, id, err);
}

static int recover_entry(void *ctx, const char *name, struct err *err)
{
    struct sweep *sweep = ctx;
    struct err why = {0};
    int done = 0;
    (void)err;
    if (id_is_valid(str_of(name)))
        done = recover_box(sweep->layers, name, &why);
    else if (str_starts(str_of(name), STR(".new-")))
        done = layers_remove_box(sweep->layers, name, &why);
    if (done < 0)
        note_failure(sweep, &why);
    return 0;
}

/* Half-made stock. */
static int recover_stock(void *ctx, const char *name, struct err *err)
{
    struct layers *layers = ctx;
    return str_starts(str_of(name), STR(".new-"))
               ? tree_discard(layers->stock_fd, name, layers->trash_fd, err)
               : 0;
}

int layers_recover(struct layers *layers, struct err *err)
{
    struct sweep sweep = {.layers = layers};
    if (layer_each(layers->stock_fd, recover_stock, layers, err) < 0 ||
        layer_each(layers->sandboxes_fd, recover_entry, &sweep, err) < 0 ||
        end_sweep(&sweep, err) < 0)
        return err_wrap(err, "recover");
    return 0;
}
