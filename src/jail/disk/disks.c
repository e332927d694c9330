#include "jail/disk/disks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/map.h"
#include "base/sys.h"
#include "base/tree.h"
#include "jail/disk/layer_dir.h"

#define DATA "data"

enum {
    INODES_LEAST = 200000,
    BYTES_PER_INODE = 16384,
    PROBE_BYTES = 16 << 20,
};

#ifndef EXT4_IOC_SHUTDOWN
#define EXT4_IOC_SHUTDOWN _IOR('X', 125, uint32_t)
#endif
enum { EXT4_GOING_FLAGS_NOLOGFLUSH = 2 };

struct disks {
    char *home;
    int disks_fd;
    int trash_fd;
    int cache_fd; /* templates of quota images */
    uint32_t owner;
};

int disks_open(const char *home, struct disks **ret_disks, struct err *err)
{
    if (jail_path_check(home, "data directory", err) < 0)
        return -1;
    AUTO_DISKS struct disks *disks = mem_alloc(sizeof *disks);
    *disks = (struct disks){.home = mem_dup_cstr(home),
                            .disks_fd = -1,
                            .trash_fd = -1,
                            .cache_fd = -1,
                            .owner = layer_owner()};
    disks->disks_fd = layer_open_part(home, "disks", err);
    disks->trash_fd = disks->disks_fd < 0 ? -1 : layer_open_trash(disks->disks_fd, err);
    disks->cache_fd = disks->trash_fd < 0 ? -1 : layer_open_part(home, "cache", err);
    if (disks->cache_fd < 0)
        return err_wrap(err, "data directory");
    *ret_disks = disks;
    disks = NULL;
    return 0;
}

struct disks *disks_free(struct disks *disks)
{
    if (disks == NULL)
        return NULL;
    fd_close(&disks->disks_fd);
    fd_close(&disks->trash_fd);
    fd_close(&disks->cache_fd);
    free(disks->home);
    free(disks);
    return NULL;
}

/* With how many files fit on a disk of this size. */
static struct disk_quota_limit disks_limit(int64_t bytes)
{
    return (struct disk_quota_limit){.bytes = bytes,
                                     .inodes = MAX(bytes / BYTES_PER_INODE, (int64_t)INODES_LEAST)};
}

static int open_box(struct disks *disks, const char *id, struct err *err)
{
    int fd = layer_open_dir(disks->disks_fd, id, err);
    if (fd < 0 && err->sys == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no disk '%s'", id);
    return fd;
}

static int check_id(const char *id, struct err *err)
{
    return id_is_valid(str_of(id)) ? 0 : err_set(err, ERR_INVALID, "'%.70s' is not a disk id", id);
}

/* Undoes its limit and moves it to the trash. */
static int remove_box(struct disks *disks, const char *name, struct err *err)
{
    AUTO_CLOSE int fd = layer_open_dir(disks->disks_fd, name, err);
    if (fd < 0)
        return err->sys == ENOENT ? 0 : -1;
    if (disk_quota_detach(fd, DATA, err) < 0)
        return -1;
    CRASH_POINT("disk.detached");
    return tree_discard(disks->disks_fd, name, disks->trash_fd, err);
}

static int fill_box(struct disks *disks, int box_fd, const struct disk_quota_limit *limit,
                    enum disk_quota_method *ret_method, struct err *err)
{
    if (SYS(mkdirat(box_fd, DATA, 0755)) < 0)
        return err_sys(err, errno, "make '" DATA "'");
    if (disk_quota_attach(box_fd, DATA, disks->cache_fd, limit, ret_method, err) < 0)
        return -1;
    /* On what is mounted by now: a filesystem of its own begins as root's. */
    if (SYS(fchmodat(box_fd, DATA, 0755, 0)) < 0)
        return err_sys(err, errno, "set the mode of '" DATA "'");
    return layer_give_away(disks->owner, box_fd, DATA, err);
}

static int make_box(struct disks *disks, const char *temp, const struct disk_quota_limit *limit,
                    enum disk_quota_method *ret_method, struct err *err)
{
    int made = SYS(mkdirat(disks->disks_fd, temp, 0700));
    if (made < 0 && errno == EEXIST) { /* of a run that was killed */
        if (remove_box(disks, temp, err) < 0)
            return -1;
        made = SYS(mkdirat(disks->disks_fd, temp, 0700));
    }
    if (made < 0)
        return err_sys(err, errno, "make '%s'", temp);
    AUTO_CLOSE int box_fd = layer_open_dir(disks->disks_fd, temp, err);
    return box_fd < 0 ? -1 : fill_box(disks, box_fd, limit, ret_method, err);
}

int disks_make(struct disks *disks, const char *id, int64_t bytes, struct err *err)
{
    char temp[ID_SIZE + 8];
    enum disk_quota_method method;
    struct disk_quota_limit limit = disks_limit(bytes);
    if (check_id(id, err) < 0)
        return -1;
    (void)snprintf(temp, sizeof temp, ".new-%s", id);
    int done = make_box(disks, temp, &limit, &method, err);
    CRASH_POINT("disk.made");
    if (done == 0 &&
        SYS(renameat2(disks->disks_fd, temp, disks->disks_fd, id, RENAME_NOREPLACE)) < 0)
        done = errno == EEXIST ? err_set(err, ERR_CONFLICT, "disk '%s' already exists", id)
                               : err_sys(err, errno, "put disk '%s' in its place", id);
    if (done == 0)
        return 0;
    (void)remove_box(disks, temp, &(struct err){0});
    return err_wrap(err, "make disk '%s'", id);
}

int disks_probe(struct disks *disks, enum disk_quota_method *ret_method, struct err *err)
{
    static const char name[] = ".new-probe";
    struct disk_quota_limit limit = {.bytes = PROBE_BYTES, .inodes = DISK_QUOTA_INODES_MIN};
    struct err ignored = {0};
    int done = make_box(disks, name, &limit, ret_method, err);
    (void)remove_box(disks, name, &ignored);
    return done;
}

int disks_rename(struct disks *disks, const char *id, const char *to, struct err *err)
{
    if (check_id(id, err) < 0 || check_id(to, err) < 0)
        return -1;
    if (SYS(renameat2(disks->disks_fd, id, disks->disks_fd, to, RENAME_NOREPLACE)) < 0)
        return err_sys(err, errno, "give disk '%s' the id '%s'", id, to);
    return 0;
}

int disks_path(const struct disks *disks, const char *id, char ret_path[], size_t size,
               struct err *err)
{
    int len = snprintf(ret_path, size, "%s/disks/%s/" DATA, disks->home, id);
    if (len < 0 || (size_t)len >= size)
        return err_set(err, ERR_TOO_LARGE, "the path of disk '%s' is too long", id);
    return 0;
}

/* --- Used again --- */

/* Numbers of layers, in no order. */
struct found {
    int64_t above;
    uint32_t numbers[JAIL_DISK_LAYERS_MAX];
    size_t count;
};

static int find_layer(void *ctx, const char *name, struct err *err)
{
    struct found *found = ctx;
    int64_t number;
    if (!str_to_i64(str_of(name), 0, UINT32_MAX, &number) || number <= found->above)
        return 0;
    if (found->count == JAIL_DISK_LAYERS_MAX)
        return err_set(err, ERR_LIMIT, "a disk has more than %d layers", JAIL_DISK_LAYERS_MAX);
    found->numbers[found->count++] = (uint32_t)number;
    return 0;
}

static int highest_first(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? 1 : left > right ? -1 : 0;
}

/* What overlayfs had under way when the jail ended is of no use, and it would refuse to begin where
 * something is left. */
static int clear_work(int data_fd, uint32_t number, struct err *err)
{
    char path[32];
    (void)snprintf(path, sizeof path, "%u/work", number);
    AUTO_CLOSE int fd = SYS(openat(data_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "open '%s'", path);
    return tree_reclaim(fd, err);
}

/* A power cut may have taken the layer that was made above one that is named. */
static int add_writable(struct found *found, int64_t named, struct err *err)
{
    if (named < 0 || (found->count > 0 && found->numbers[0] > named))
        return 0;
    if (found->count == JAIL_DISK_LAYERS_MAX)
        return err_set(err, ERR_LIMIT, "a disk has more than %d layers", JAIL_DISK_LAYERS_MAX);
    memmove(&found->numbers[1], found->numbers, found->count * sizeof found->numbers[0]);
    found->numbers[0] = (uint32_t)named + 1;
    found->count++;
    return 0;
}

/* Opens its `data`, ready to be used. */
static int open_ready(struct disks *disks, const char *id, struct err *err)
{
    bool limited;
    if (check_id(id, err) < 0)
        return -1;
    AUTO_CLOSE int box_fd = open_box(disks, id, err);
    if (box_fd < 0)
        return -1;
    if (disk_quota_resume(box_fd, DATA, &limited, err) < 0)
        return err_wrap(err, "disk '%s'", id);
    int data_fd = layer_open_dir(box_fd, DATA, err);
    return data_fd < 0 ? err_wrap(err, "disk '%s'", id) : data_fd;
}

int disks_attach(struct disks *disks, const char *id, int64_t above, int64_t named,
                 struct jail_plan *plan, struct err *err)
{
    struct found found = {.above = above};
    AUTO_CLOSE int data_fd = open_ready(disks, id, err);
    if (data_fd < 0)
        return -1;
    if (layer_each(data_fd, find_layer, &found, err) < 0)
        return err_wrap(err, "disk '%s'", id);
    qsort(found.numbers, found.count, sizeof found.numbers[0], highest_first);
    if (add_writable(&found, MAX(above, named), err) < 0 ||
        (found.count > 0 && clear_work(data_fd, found.numbers[0], err) < 0))
        return err_wrap(err, "disk '%s'", id);
    memcpy(plan->disk_layers, found.numbers, sizeof found.numbers);
    plan->disk_layer_count = found.count;
    return 0;
}

int disks_ready(struct disks *disks, const char *id, struct err *err)
{
    AUTO_CLOSE int data_fd = open_ready(disks, id, err);
    return data_fd < 0 ? -1 : 0;
}

int disks_rest(struct disks *disks, const char *id, struct err *err)
{
    AUTO_CLOSE int box_fd = open_box(disks, id, err);
    if (box_fd < 0)
        return err->code == ERR_NOT_FOUND ? 0 : -1;
    return disk_quota_rest(box_fd, DATA, err) < 0 ? err_wrap(err, "disk '%s'", id) : 0;
}

int disks_resize(struct disks *disks, const char *id, int64_t bytes, struct err *err)
{
    bool limited;
    struct disk_quota_limit limit = disks_limit(bytes);
    AUTO_CLOSE int box_fd = open_box(disks, id, err);
    if (box_fd < 0)
        return -1;
    if (disk_quota_resume(box_fd, DATA, &limited, err) < 0 ||
        disk_quota_resize(box_fd, DATA, &limit, err) < 0)
        return err_wrap(err, "disk '%s'", id);
    return 0;
}

int disks_stat(struct disks *disks, const char *id, struct disk_quota_use *ret_use, struct err *err)
{
    AUTO_CLOSE int box_fd = open_box(disks, id, err);
    if (box_fd < 0)
        return -1;
    return disk_quota_stat(box_fd, DATA, ret_use, err) < 0 ? err_wrap(err, "disk '%s'", id) : 0;
}

/* An image is a filesystem of its own in a file of the other one: the first call writes to the
 * file, the second has the file written. */
int disks_sync(struct disks *disks, const char *id, struct err *err)
{
    AUTO_CLOSE int box_fd = open_box(disks, id, err);
    AUTO_CLOSE int data_fd = box_fd < 0 ? -1 : layer_open_dir(box_fd, DATA, err);
    if (data_fd < 0)
        return -1;
    if (SYS(syncfs(data_fd)) < 0)
        return err_sys(err, errno, "sync disk '%s'", id);
    AUTO_CLOSE int image = SYS(openat(box_fd, "disk.img", O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (image >= 0 && SYS(fsync(image)) < 0)
        return err_sys(err, errno, "sync disk '%s'", id);
    if (SYS(fsync(box_fd)) < 0 || SYS(fsync(disks->disks_fd)) < 0)
        return err_sys(err, errno, "sync disk '%s'", id);
    return 0;
}

/* --- Going --- */

struct trimming {
    int data_fd, trash_fd;
    int64_t up_to;
    const struct map *kept;
};

static int trim_one(void *ctx, const char *name, struct err *err)
{
    const struct trimming *trimming = ctx;
    int64_t number;
    bool goes = str_to_i64(str_of(name), 0, UINT32_MAX, &number)
                    ? number <= trimming->up_to && !map_has(trimming->kept, str_of(name))
                    : trimming->up_to == DISKS_TRIM_ALL && strcmp(name, "tmp") == 0;
    if (!goes)
        return 0;
    int done = tree_discard(trimming->data_fd, name, trimming->trash_fd, err);
    CRASH_POINT("disk.layer");
    return done;
}

int disks_trim(struct disks *disks, const char *id, int64_t up_to, const struct map *kept,
               struct err *err)
{
    AUTO_CLOSE int box_fd = open_box(disks, id, err);
    if (box_fd < 0)
        return err->code == ERR_NOT_FOUND ? 0 : -1;
    AUTO_CLOSE int data_fd = layer_open_dir(box_fd, DATA, err);
    AUTO_CLOSE int trash_fd = data_fd < 0 ? -1 : layer_open_trash(data_fd, err);
    if (trash_fd < 0)
        return err_wrap(err, "disk '%s'", id);
    struct trimming trimming = {data_fd, trash_fd, up_to, kept};
    if (layer_each(data_fd, trim_one, &trimming, err) < 0 || tree_reclaim(trash_fd, err) < 0)
        return err_wrap(err, "disk '%s'", id);
    return 0;
}

/* One rename for each entry; what they hold goes with the next trim. */
static int discard_one(void *ctx, const char *name, struct err *err)
{
    const struct trimming *trimming = ctx;
    return tree_discard(trimming->data_fd, name, trimming->trash_fd, err);
}

int disks_clear_tmp(struct disks *disks, const char *id, struct err *err)
{
    AUTO_CLOSE int box_fd = open_box(disks, id, err);
    AUTO_CLOSE int data_fd = box_fd < 0 ? -1 : layer_open_dir(box_fd, DATA, err);
    AUTO_CLOSE int tmp_fd = data_fd < 0 ? -1 : layer_open_dir(data_fd, "tmp", err);
    AUTO_CLOSE int trash_fd = tmp_fd < 0 ? -1 : layer_open_trash(data_fd, err);
    if (trash_fd < 0)
        return err_wrap(err, "disk '%s'", id);
    struct trimming trimming = {.data_fd = tmp_fd, .trash_fd = trash_fd};
    return layer_each(tmp_fd, discard_one, &trimming, err) < 0 ? err_wrap(err, "disk '%s'", id) : 0;
}

/* Only where it is a filesystem of its own: of another, others have files too. */
void disks_abandon(struct disks *disks, const char *id)
{
    struct stat box, data;
    uint32_t how = EXT4_GOING_FLAGS_NOLOGFLUSH;
    struct err ignored = {0};
    AUTO_CLOSE int box_fd = open_box(disks, id, &ignored);
    AUTO_CLOSE int data_fd = box_fd < 0 ? -1 : layer_open_dir(box_fd, DATA, &ignored);
    if (data_fd >= 0 && fstat(box_fd, &box) == 0 && fstat(data_fd, &data) == 0 &&
        box.st_dev != data.st_dev)
        (void)ioctl(data_fd, EXT4_IOC_SHUTDOWN, &how);
}

int disks_remove(struct disks *disks, const char *id, struct err *err)
{
    if (remove_box(disks, id, err) < 0)
        return err_wrap(err, "remove disk '%s'", id);
    CRASH_POINT("disk.discarded");
    return 0;
}

int disks_reclaim(struct disks *disks, struct err *err)
{
    return tree_reclaim(disks->trash_fd, err);
}

/* Lists all disks, without the trash. */
struct listing {
    int (*each)(void *ctx, const char *name, struct err *err);
    void *ctx;
};

static int list_one(void *ctx, const char *name, struct err *err)
{
    const struct listing *listing = ctx;
    return strcmp(name, ".trash") == 0 ? 0 : listing->each(listing->ctx, name, err);
}

int disks_each(struct disks *disks, int (*each)(void *ctx, const char *name, struct err *err),
               void *ctx, struct err *err)
{
    struct listing listing = {each, ctx};
    return layer_each(disks->disks_fd, list_one, &listing, err);
}

/* One that cannot be unmounted must not keep the others. */
struct resting {
    struct disks *disks;
    struct err first;
};

static int rest_one(void *ctx, const char *name, UNUSED struct err *err)
{
    struct resting *resting = ctx;
    struct err why = {0};
    /* One that is half made may be mounted without a record of it. */
    int done = name[0] == '.' ? remove_box(resting->disks, name, &why)
                              : disks_rest(resting->disks, name, &why);
    if (done < 0 && resting->first.code == ERR_NONE)
        resting->first = why;
    return 0;
}

int disks_rest_all(struct disks *disks, struct err *err)
{
    struct resting resting = {.disks = disks};
    if (disks_each(disks, rest_one, &resting, err) < 0)
        return -1;
    if (resting.first.code == ERR_NONE)
        return 0;
    *err = resting.first;
    return -1;
}
