#include "jail/disk/volumes.h"

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
#include "jail/disk/layer_dir.h"
#include "jail/wire/plan.h"

#define DATA "data"

enum { NEW_NAME_SIZE = 80 }; /* of ".new-" and the longest id that is valid */

struct volumes {
    char *home;
    int volumes_fd;
    int trash_fd;
    int cache_fd; /* templates of quota images */
    uint32_t owner;
};

int volumes_open(const char *home, struct volumes **ret_volumes, struct err *err)
{
    if (jail_path_check(home, "data directory", err) < 0)
        return -1;
    AUTO_VOLUMES struct volumes *volumes = mem_alloc(sizeof *volumes);
    *volumes = (struct volumes){.home = mem_dup_cstr(home),
                                .volumes_fd = -1,
                                .trash_fd = -1,
                                .cache_fd = -1,
                                .owner = layer_owner()};
    volumes->volumes_fd = layer_open_part(home, "volumes", err);
    volumes->trash_fd = layer_open_part(home, "trash", err);
    volumes->cache_fd = layer_open_part(home, "cache", err);
    if (volumes->volumes_fd < 0 || volumes->trash_fd < 0 || volumes->cache_fd < 0)
        return err_wrap(err, "data directory");
    *ret_volumes = volumes;
    volumes = NULL;
    return 0;
}

struct volumes *volumes_free(struct volumes *volumes)
{
    if (volumes == NULL)
        return NULL;
    fd_close(&volumes->volumes_fd);
    fd_close(&volumes->trash_fd);
    fd_close(&volumes->cache_fd);
    free(volumes->home);
    free(volumes);
    return NULL;
}

static int open_box(struct volumes *volumes, const char *id, struct err *err)
{
    if (!id_is_valid(str_of(id)))
        return err_set(err, ERR_INVALID, "'%.70s' is not a volume id", id);
    int fd = layer_open_dir(volumes->volumes_fd, id, err);
    if (fd < 0 && err->sys == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no volume '%s'", id);
    return fd;
}

/* Undoes its limit and moves it to the trash. */
static int remove_box(struct volumes *volumes, const char *name, struct err *err)
{
    AUTO_CLOSE int fd = layer_open_dir(volumes->volumes_fd, name, err);
    if (fd < 0 || disk_quota_detach(fd, DATA, err) < 0)
        return -1;
    CRASH_POINT("volume.detached");
    return tree_discard(volumes->volumes_fd, name, volumes->trash_fd, err);
}

static int fill_box(struct volumes *volumes, int box_fd, const struct disk_quota_limit *limit,
                    struct err *err)
{
    enum disk_quota_method method;
    if (SYS(mkdirat(box_fd, DATA, 0755)) < 0)
        return err_sys(err, errno, "make '" DATA "'");
    if (limit != NULL &&
        disk_quota_attach(box_fd, DATA, volumes->cache_fd, limit, &method, err) < 0)
        return -1;
    /* On what is mounted by now: a filesystem of its own begins as root's. */
    if (SYS(fchmodat(box_fd, DATA, 0755, 0)) < 0)
        return err_sys(err, errno, "set the mode of '" DATA "'");
    return layer_give_away(volumes->owner, box_fd, DATA, err);
}

static int place_box(struct volumes *volumes, const char *temp, const char *id,
                     const struct disk_quota_limit *limit, struct err *err)
{
    if (SYS(mkdirat(volumes->volumes_fd, temp, 0700)) < 0)
        return err_sys(err, errno, "make '%s'", temp);
    AUTO_CLOSE int box_fd = layer_open_dir(volumes->volumes_fd, temp, err);
    if (box_fd < 0 || fill_box(volumes, box_fd, limit, err) < 0)
        return -1;
    CRASH_POINT("volume.made");
    if (SYS(renameat2(volumes->volumes_fd, temp, volumes->volumes_fd, id, RENAME_NOREPLACE)) < 0)
        return errno == EEXIST ? err_set(err, ERR_CONFLICT, "volume '%s' already exists", id)
                               : err_sys(err, errno, "put volume '%s' in its place", id);
    CRASH_POINT("volume.placed");
    return 0;
}

int volumes_make(struct volumes *volumes, const char *id, const struct disk_quota_limit *limit,
                 struct err *err)
{
    char temp[NEW_NAME_SIZE];
    struct stat st;
    if (!id_is_valid(str_of(id)))
        return err_set(err, ERR_INVALID, "'%.70s' is not a volume id", id);
    if (fstatat(volumes->volumes_fd, id, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, ERR_CONFLICT, "volume '%s' already exists", id);
    (void)snprintf(temp, sizeof temp, ".new-%s", id);
    if (fstatat(volumes->volumes_fd, temp, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        remove_box(volumes, temp, err) < 0)
        return -1;
    if (place_box(volumes, temp, id, limit, err) == 0)
        return 0;
    (void)remove_box(volumes, temp, &(struct err){0});
    return err_wrap(err, "make volume '%s'", id);
}

int volumes_attach(struct volumes *volumes, const char *id, char ret_path[], size_t size,
                   struct err *err)
{
    bool limited;
    AUTO_CLOSE int box_fd = open_box(volumes, id, err);
    if (box_fd < 0)
        return -1;
    if (disk_quota_resume(box_fd, DATA, &limited, err) < 0)
        return err_wrap(err, "volume '%s'", id);
    int len = snprintf(ret_path, size, "%s/volumes/%s/" DATA, volumes->home, id);
    if (len < 0 || (size_t)len >= size)
        return err_set(err, ERR_TOO_LARGE, "the path of volume '%s' is too long", id);
    return 0;
}

int volumes_detach(struct volumes *volumes, const char *id, struct err *err)
{
    AUTO_CLOSE int box_fd = open_box(volumes, id, err);
    if (box_fd < 0)
        return -1;
    if (disk_quota_rest(box_fd, DATA, err) < 0)
        return err_wrap(err, "volume '%s'", id);
    return 0;
}

int volumes_remove(struct volumes *volumes, const char *id, struct err *err)
{
    AUTO_CLOSE int box_fd = open_box(volumes, id, err);
    if (box_fd < 0)
        return -1;
    fd_close(&box_fd);
    if (remove_box(volumes, id, err) < 0)
        return err_wrap(err, "remove volume '%s'", id);
    CRASH_POINT("volume.discarded");
    return 0;
}

int volumes_sync(struct volumes *volumes, const char *id, struct err *err)
{
    AUTO_CLOSE int box_fd = open_box(volumes, id, err);
    AUTO_CLOSE int data_fd = box_fd < 0 ? -1 : layer_open_dir(box_fd, DATA, err);
    if (data_fd < 0)
        return -1;
    /* An image is a filesystem of its own in a file of the other one. */
    if (SYS(syncfs(data_fd)) < 0 || SYS(syncfs(box_fd)) < 0)
        return err_sys(err, errno, "sync volume '%s'", id);
    return 0;
}

int volumes_reclaim(struct volumes *volumes, struct err *err)
{
    return tree_reclaim(volumes->trash_fd, err);
}

/* One that cannot be removed must not keep the others. */
struct sweep {
    struct volumes *volumes;
    struct err first;
};

static int recover_entry(void *ctx, const char *name, struct err *err)
{
    struct sweep *sweep = ctx;
    struct err why = {0};
    (void)err;
    if (str_starts(str_of(name), STR(".new-")) && remove_box(sweep->volumes, name, &why) < 0 &&
        sweep->first.code == ERR_NONE)
        sweep->first = why;
    return 0;
}

static int rest_entry(void *ctx, const char *name, struct err *err)
{
    struct sweep *sweep = ctx;
    struct err why = {0};
    if (name[0] != '.' && volumes_detach(sweep->volumes, name, &why) < 0 &&
        sweep->first.code == ERR_NONE)
        sweep->first = why;
    (void)err;
    return 0;
}

/* Continues after failures; the first reason is returned. */
static int sweep_all(struct volumes *volumes, int (*entry)(void *, const char *, struct err *),
                     const char *what, struct err *err)
{
    struct sweep sweep = {.volumes = volumes};
    if (layer_each(volumes->volumes_fd, entry, &sweep, err) < 0)
        return err_wrap(err, "%s", what);
    if (sweep.first.code == ERR_NONE)
        return 0;
    *err = sweep.first;
    return err_wrap(err, "%s", what);
}

int volumes_rest(struct volumes *volumes, struct err *err)
{
    return sweep_all(volumes, rest_entry, "release volumes", err);
}

int volumes_recover(struct volumes *volumes, struct err *err)
{
    return sweep_all(volumes, recover_entry, "recover volumes", err);
}
