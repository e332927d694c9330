/* The verbs of the zones, each on the tree of its zone. */

#include "files/zones/zones.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "files/zones/zones_internal.h"

static int open_root(struct zones *zones, enum zone zone, const char *root, struct err *err)
{
    struct files_options options = {.read_only = zones->is_read_only};
    zones->roots[zone] = realpath(root, NULL);
    if (zones->roots[zone] == NULL)
        return err_sys(err, errno, "the directory '%s' of a zone", root);
    zones->fds[zone] = open(zones->roots[zone], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (zones->fds[zone] < 0)
        return err_sys(err, errno, "the directory '%s' of a zone", root);
    return files_open(zones->roots[zone], &options, &zones->trees[zone], err);
}

int zones_open(const struct zones_options *options, struct zones **ret_zones, struct err *err)
{
    AUTO_ZONES struct zones *zones = mem_alloc(sizeof *zones);
    *zones = (struct zones){.is_read_only = options->read_only, .fds = {-1, -1}};
    for (size_t i = 0; i < ZONE_COUNT; i++)
        if (options->roots[i] != NULL && open_root(zones, (enum zone)i, options->roots[i], err) < 0)
            return -1;
    *ret_zones = zones;
    zones = NULL;
    return 0;
}

static int make_dir(const char *path, struct err *err)
{
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make '%s'", path);
    return 0;
}

int zones_open_below(const char *root, bool read_only, struct zones **ret_zones, struct err *err)
{
    AUTO_BUF struct buf workspace = {0};
    AUTO_BUF struct buf cache = {0};
    buf_printf(&workspace, "%s/workspace", root);
    buf_printf(&cache, "%s/cache", root);
    if (make_dir(root, err) < 0 || make_dir(buf_cstr(&workspace), err) < 0 ||
        make_dir(buf_cstr(&cache), err) < 0)
        return -1;
    struct zones_options options = {.roots = {buf_cstr(&workspace), buf_cstr(&cache)},
                                    .read_only = read_only};
    return zones_open(&options, ret_zones, err);
}

struct zones *zones_free(struct zones *zones)
{
    if (zones == NULL)
        return NULL;
    for (size_t i = 0; i < ZONE_COUNT; i++) {
        (void)files_free(zones->trees[i]);
        fd_close(&zones->fds[i]);
        free(zones->roots[i]);
    }
    free(zones);
    return NULL;
}

int zones_find(struct zones *zones, struct str path, struct zone_path *ret_path,
               struct files **ret_tree, struct err *err)
{
    if (zone_path_parse(path, ret_path, err) < 0)
        return -1;
    *ret_tree = zones->trees[ret_path->zone];
    if (*ret_tree == NULL)
        return err_set(err, ERR_ZONE_NOT_CONFIGURED,
                       "the zone of '%.*s' has no directory; each configured zone needs one",
                       STR_ARG(path));
    return 0;
}

int zones_read(struct zones *zones, struct str path, struct buf *out, struct err *err)
{
    struct zone_path at;
    struct files *tree;
    struct files_content content;
    struct files_range range = {.limit = ZONES_FILE_MAX};
    if (zones_find(zones, path, &at, &tree, err) < 0 ||
        files_read(tree, str_of(at.below), &range, out, &content, err) < 0)
        return -1;
    if (content.truncated)
        return err_set(err, ERR_TOO_LARGE, "'%.*s' has %llu bytes; the limit is %d", STR_ARG(path),
                       (unsigned long long)content.size, ZONES_FILE_MAX);
    return 0;
}

int zones_write(struct zones *zones, struct str path, struct str bytes, bool *ret_created,
                struct err *err)
{
    struct zone_path at;
    struct files *tree;
    struct files_write_options options = {.make_parents = true, .limit = ZONES_FILE_MAX};
    if (zones_find(zones, path, &at, &tree, err) < 0 ||
        zone_path_refuse_zone(&at, path, "written", err) < 0)
        return -1;
    return files_write(tree, str_of(at.below), bytes, &options, ret_created, err);
}

int zones_delete(struct zones *zones, struct str path, bool recursive, struct err *err)
{
    struct zone_path at;
    struct files *tree;
    struct files_delete_result result;
    if (zones_find(zones, path, &at, &tree, err) < 0 ||
        zone_path_refuse_zone(&at, path, "deleted", err) < 0)
        return -1;
    return files_delete(tree, str_of(at.below), recursive, &result, err);
}

int zones_exists(struct zones *zones, struct str path, bool *ret_exists, struct err *err)
{
    struct zone_path at;
    struct files *tree;
    if (zones_find(zones, path, &at, &tree, err) < 0)
        return -1;
    return files_exists(tree, str_of(at.below), ret_exists, err);
}

int zones_list(struct zones *zones, struct str path, struct buf *out, struct err *err)
{
    struct zone_path at;
    struct files *tree;
    AUTO_ARENA struct arena arena = {0};
    struct files_list list;
    if (zones_find(zones, path, &at, &tree, err) < 0 ||
        files_list(tree, str_of(at.below), NULL, &arena, &list, err) < 0)
        return -1;
    if (list.truncated)
        return err_set(err, ERR_TOO_MANY_RESULTS, "'%.*s' has more than %d entries", STR_ARG(path),
                       FILES_LIST_MAX);
    for (size_t i = 0; i < list.count; i++) {
        buf_put(out, list.entries[i].path);
        buf_put_char(out, '\0');
    }
    return 0;
}

int zones_resolve(struct zones *zones, struct str path, struct buf *out, struct err *err)
{
    struct zone_path at;
    struct files *tree;
    bool exists;
    /* A link that leads out of the zone is found here; what is not there leads nowhere. */
    if (zones_find(zones, path, &at, &tree, err) < 0 ||
        files_exists(tree, str_of(at.below), &exists, err) < 0)
        return -1;
    buf_put_cstr(out, zones->roots[at.zone]);
    if (!str_eq(str_of(at.below), STR(".")))
        buf_printf(out, "/%s", at.below);
    return 0;
}
