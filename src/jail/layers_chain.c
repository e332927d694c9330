/* Names of layers, and the stacks that they make. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/sys.h"
#include "jail/ids.h"
#include "jail/layers_internal.h"

void layer_format(const struct layer *layer, char out[LAYER_NAME_SIZE])
{
    const char *dot = layer->parent_id[0] == '\0' ? "" : ".";
    (void)snprintf(out, LAYER_NAME_SIZE, "%u-%s%s%u", layer->number, layer->parent_id, dot,
                   layer->parent);
}

/* Digits without a leading zero, so that one layer has one name. */
static bool parse_number(struct str s, int64_t min, uint32_t *ret_number)
{
    int64_t number;
    if (s.len == 0 || (s.len > 1 && s.ptr[0] == '0') ||
        !str_to_i64(s, min, UINT32_MAX - 1, &number))
        return false;
    *ret_number = (uint32_t)number;
    return true;
}

bool layer_parse(struct str name, struct layer *ret_layer)
{
    struct layer layer = {0};
    size_t dash = str_find_char(name, '-');
    struct str parent = str_slice(name, dash + 1, name.len);
    size_t dot = str_find_char(parent, '.');
    bool foreign = dot < parent.len;
    struct str id = foreign ? str_slice(parent, 0, dot) : STR("");
    struct str number = foreign ? str_slice(parent, dot + 1, parent.len) : parent;
    if (dash >= name.len || !parse_number(str_slice(name, 0, dash), 1, &layer.number) ||
        !parse_number(number, foreign ? 1 : 0, &layer.parent))
        return false;
    if (foreign && (!id_is_valid(id) || id.len >= sizeof layer.parent_id))
        return false;
    if (!foreign && layer.parent >= layer.number)
        return false;
    (void)snprintf(layer.parent_id, sizeof layer.parent_id, "%.*s", STR_ARG(id));
    *ret_layer = layer;
    return true;
}

int layer_open_dir(int dir_fd, const char *name, struct err *err)
{
    int fd = SYS(openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open '%s'", name);
    return fd;
}

int layer_open_part(const char *home, const char *name, struct err *err)
{
    char path[JAIL_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", home, name);
    if (fd_make_dirs(path, 0700, err) < 0)
        return -1;
    return layer_open_dir(AT_FDCWD, path, err);
}

uint32_t layer_owner(void)
{
    return geteuid() == 0 ? IDS_FIRST - 1 : geteuid();
}

/* In a container that owns few ids the owner does not exist: then nobody maps ids either. */
int layer_give_away(uint32_t owner, int dir_fd, const char *name, struct err *err)
{
    if (owner == geteuid())
        return 0;
    if (SYS(fchownat(dir_fd, name, owner, owner, AT_SYMLINK_NOFOLLOW)) < 0 && errno != EINVAL &&
        errno != EPERM)
        return err_sys(err, errno, "own '%s'", name);
    return 0;
}

int layer_each(int dir_fd, int (*each)(void *ctx, const char *name, struct err *err), void *ctx,
               struct err *err)
{
    AUTO_CLOSE int copy = SYS(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL)
        return err_sys(err, errno, "read a directory");
    (void)fd_take(&copy); /* the stream's now */
    int done = 0;
    for (struct dirent *entry; done == 0 && (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            done = each(ctx, entry->d_name, err);
    (void)closedir(dir);
    return done;
}

void layer_set_done(struct layer_set *set)
{
    vec_done(&set->all);
}

static int add_layer(void *ctx, const char *name, struct err *err)
{
    struct layer_set *set = ctx;
    struct layer layer;
    (void)err;
    if (layer_parse(str_of(name), &layer))
        *vec_push(&set->all) = layer;
    return 0;
}

int layer_set_read(int layers_fd, struct layer_set *set, struct err *err)
{
    return layer_each(layers_fd, add_layer, set, err);
}

const struct layer *layer_set_find(const struct layer_set *set, uint32_t number)
{
    for (size_t i = 0; i < set->all.len; i++)
        if (set->all.ptr[i].number == number)
            return &set->all.ptr[i];
    return NULL;
}

const struct layer *layer_set_top(const struct layer_set *set)
{
    const struct layer *top = NULL;
    for (size_t i = 0; i < set->all.len; i++)
        if (top == NULL || set->all.ptr[i].number > top->number)
            top = &set->all.ptr[i];
    return top;
}

/* Parents have smaller numbers (layer_parse sees to that), so this ends. */
bool layer_set_reaches(const struct layer_set *set, uint32_t from, uint32_t number)
{
    const struct layer *layer = layer_set_find(set, from);
    while (layer != NULL && layer->number > number && layer->parent_id[0] == '\0')
        layer = layer_set_find(set, layer->parent);
    return layer != NULL && layer->number == number;
}

void layer_box_close(struct layer_box *box)
{
    fd_close(&box->fd);
    fd_close(&box->layers_fd);
}

int layer_box_open(struct layers *layers, const char *id, bool even_gone, struct layer_box *box,
                   struct err *err)
{
    *box = (struct layer_box){.fd = -1, .layers_fd = -1};
    if (!id_is_valid(str_of(id)))
        return err_set(err, ERR_INVALID, "'%.70s' is no sandbox id", id);
    AUTO_CLOSE int fd = layer_open_dir(layers->sandboxes_fd, id, err);
    if (fd < 0 && err->sys == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no sandbox '%s'", id);
    if (fd < 0)
        return -1;
    if (!even_gone && faccessat(fd, "gone", F_OK, 0) == 0)
        return err_set(err, ERR_NOT_FOUND, "no sandbox '%s'", id);
    box->layers_fd = layer_open_dir(fd, "layers", err);
    if (box->layers_fd < 0)
        return err_wrap(err, "sandbox '%s'", id);
    box->fd = fd_take(&fd);
    return 0;
}

/* The part of a stack that lies in one sandbox. Gives the layer that comes below, if any. */
static int add_part(struct layers *layers, const char *id, uint32_t number,
                    struct layer_chain *chain, struct layer *ret_last, struct err *err)
{
    AUTO_BOX struct layer_box box = LAYER_BOX_NONE;
    AUTO_LAYER_SET struct layer_set set = {0};
    if (layer_box_open(layers, id, chain->count > 0, &box, err) < 0 ||
        layer_set_read(box.layers_fd, &set, err) < 0)
        return -1;
    const struct layer *layer = number == 0 ? layer_set_top(&set) : layer_set_find(&set, number);
    for (;;) {
        if (layer == NULL)
            return err_set(err, ERR_INTERNAL, "sandbox '%s' lacks a layer; its data is damaged",
                           id);
        if (chain->count == LAYERS_DEPTH_MAX)
            return err_set(err, ERR_LIMIT, "more than %d layers", LAYERS_DEPTH_MAX);
        char name[LAYER_NAME_SIZE];
        layer_format(layer, name);
        (void)snprintf(chain->paths[chain->count++], LAYER_PATH_SIZE, "%s/layers/%s", id, name);
        *ret_last = *layer;
        if (layer->parent_id[0] != '\0' || layer->parent == 0)
            return 0;
        layer = layer_set_find(&set, layer->parent);
    }
}

int layer_chain_read(struct layers *layers, const char *id, struct layer_chain *chain,
                     struct err *err)
{
    struct layer last = {0};
    char at[LAYERS_ID_SIZE];
    chain->count = 0;
    (void)snprintf(at, sizeof at, "%s", id);
    if (add_part(layers, id, 0, chain, &last, err) < 0)
        return -1;
    while (last.parent_id[0] != '\0') {
        (void)snprintf(at, sizeof at, "%s", last.parent_id);
        if (add_part(layers, at, last.parent, chain, &last, err) < 0)
            return err_wrap(err, "sandbox '%s'", id);
    }
    return 0;
}
