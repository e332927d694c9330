/* A root that can be written to: an overlay of layers.
 *
 * It does not become the root of the namespace itself but is mounted in an empty tree, the anchor,
 * that stays when the overlay is replaced (relayer.c). Landlock rules are tied to the anchor,
 * because those tied to an overlay would not hold for its successor. */

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/mounts_internal.h"
#include "jail/inside/overlay.h"
#include "jail/wire/linux.h"

const char *const mounts_template_parts[] = {"usr",           "bin",   "sbin",   "lib",
                                             "lib32",         "lib64", "libx32", "etc/alternatives",
                                             "etc/ssl/certs", "dev",   NULL};

int mounts_open_in(int root_fd, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)SYS(syscall(SYS_openat2, root_fd, path, &how, sizeof how));
}

int mounts_make_in(int root_fd, const char *path, bool is_dir)
{
    AUTO_CLOSE int at = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
    struct str rest = str_of(path), part;
    while (at >= 0 && str_split(&rest, '/', &part)) {
        char name[256];
        (void)snprintf(name, sizeof name, "%.*s", STR_ARG(part));
        bool last = rest.len == 0;
        if (last && !is_dir) {
            AUTO_CLOSE int made =
                SYS(openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
            if (made < 0 && errno != EEXIST)
                return -1;
        } else if (SYS(mkdirat(at, name, 0755)) < 0 && errno != EEXIST) {
            return -1;
        }
        int next = mounts_open_in(at, name);
        fd_close(&at);
        at = next;
    }
    return fd_take(&at);
}

/* Layers may hide or lack a place: it is made. What lies about it is refused. */
static int carry_part(int root_fd, const char *part, struct err *err)
{
    char src[64], dst[64];
    struct stat st;
    (void)snprintf(src, sizeof src, TREE "/%s", part);
    (void)snprintf(dst, sizeof dst, NEW_OVERLAY "/%s", part);
    if (lstat(src, &st) < 0 || !S_ISDIR(st.st_mode))
        return 0;
    AUTO_CLOSE int tree =
        k_open_tree(AT_FDCWD, src, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (tree < 0)
        return err_sys(err, errno, "open '%s'", src);
    AUTO_CLOSE int place = mounts_open_in(root_fd, part);
    if (place < 0 && errno == ENOENT)
        place = mounts_make_in(root_fd, part, true);
    if (place < 0)
        return err_set(err, ERR_INVALID, "bad_rootfs: '/%s' cannot be a mount point: %s", part,
                       strerror(errno));
    return mounts_put(tree, dst, true, err);
}

static int carry_over(bool has_base, struct err *err)
{
    AUTO_CLOSE int root = SYS(open(NEW_OVERLAY, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (root < 0)
        return err_sys(err, errno, "open the overlay");
    for (size_t i = 0; mounts_template_parts[i] != NULL; i++) {
        const char *part = mounts_template_parts[i];
        /* A root tree of one's own brings its programs; devices are ours. */
        if ((!has_base || strcmp(part, "dev") == 0) && carry_part(root, part, err) < 0)
            return -1;
    }
    return 0;
}

/* In the anchor, where the next layer can be made beside it (relayer_memory.c). */
#define MEMORY NEW_ROOT JAIL_ANCHOR_MEMORY

enum { UPPER_SIZE = 32 };

static void upper_of(const struct jail_plan *plan, char out[UPPER_SIZE])
{
    (void)snprintf(out, UPPER_SIZE, MEMORY "/%u", plan->disk_layers[0]);
}

static int make_dir(const char *path, mode_t mode, struct err *err)
{
    if (SYS(mkdir(path, mode)) == 0)
        return mode == 0755 || SYS(chmod(path, mode)) == 0 ? 0
                                                           : err_sys(err, errno, "chmod a layer");
    return errno == EEXIST ? 0 : err_sys(err, errno, "make the writable layer");
}

static int make_layer(const struct jail_plan *plan, struct mounts_kept *kept, struct err *err)
{
    char layer[UPPER_SIZE], part[UPPER_SIZE + 8];
    upper_of(plan, layer);
    if (make_dir(layer, 0755, err) < 0)
        return -1;
    (void)snprintf(part, sizeof part, "%s/work", layer);
    if (make_dir(part, 0755, err) < 0)
        return -1;
    (void)snprintf(part, sizeof part, "%s/upper", layer);
    if (make_dir(part, 0755, err) < 0)
        return -1;
    kept->layer = SYS(open(part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return kept->layer < 0 ? err_sys(err, errno, "open the writable layer") : 0;
}

static int attach_memory(const struct jail_plan *plan, struct mounts_kept *kept, struct err *err)
{
    AUTO_CLOSE int memory = mounts_new_memory(plan, err);
    if (memory < 0 || mounts_put(memory, MEMORY, true, err) < 0)
        return -1;
    return make_layer(plan, kept, err);
}

/* /tmp is a directory of the disk beside the layers: one limit counts both. */
static int attach_disk(const struct mount_set *set, const struct jail_plan *plan,
                       struct mounts_kept *kept, struct err *err)
{
    if (mounts_put(set->disk_fd, MEMORY, true, err) < 0 || make_layer(plan, kept, err) < 0 ||
        make_dir(MEMORY "/tmp", 01777, err) < 0)
        return -1;
    kept->tmp = k_open_tree(AT_FDCWD, MEMORY "/tmp",
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    return kept->tmp < 0 ? err_sys(err, errno, "open the disk's tmp") : 0;
}

static int attach_upper(const struct mount_set *set, const struct jail_plan *plan,
                        struct mounts_kept *kept, struct err *err)
{
    return set->disk_fd >= 0 ? attach_disk(set, plan, kept, err) : attach_memory(plan, kept, err);
}

/* The overlay has its own way in by now. */
static int close_memory(struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    AUTO_CLOSE int fd = SYS(open(MEMORY, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0 || k_mount_setattr(fd, AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, errno, "close the writable layers");
    return 0;
}

static void sealed_path(const struct jail_plan *plan, size_t which, char out[UPPER_SIZE + 8])
{
    (void)snprintf(out, UPPER_SIZE + 8, MEMORY "/%u/upper", plan->disk_layers[which]);
}

/* Highest first, as overlayfs wants them. Without a base the template's is the lowest. */
static int mount_layers(const struct mount_set *set, const struct jail_plan *plan, struct err *err)
{
    char paths[JAIL_LAYERS_MAX + 1][32], own[JAIL_DISK_LAYERS_MAX][UPPER_SIZE + 8];
    const char *lower[JAIL_LAYERS_MAX + JAIL_DISK_LAYERS_MAX + 2];
    char upper[UPPER_SIZE];
    struct overlay overlay = {.lower = lower, .upper = upper, .syncs = plan->disk != NULL};
    upper_of(plan, upper);
    for (size_t i = 1; i < plan->disk_layer_count; i++) {
        sealed_path(plan, i, own[i]);
        lower[overlay.lower_count++] = own[i];
    }
    for (size_t i = set->layer_count; i-- > 0;) {
        (void)snprintf(paths[i], sizeof paths[i], LAYERS "/%zu", i);
        if (mounts_put(set->layer_fds[i], paths[i], true, err) < 0)
            return -1;
        lower[overlay.lower_count++] = paths[i];
    }
    if (plan->base == NULL)
        lower[overlay.lower_count++] = BASE;
    return overlay_mount(&overlay, NEW_OVERLAY, err);
}

static int add_anchor(struct err *err)
{
    static const char *const options[] = {"mode=0755", "size=4k", "nr_inodes=8", NULL};
    if (mounts_put_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, NEW_ROOT, err) < 0)
        return -1;
    if (SYS(mkdir(NEW_ROOT JAIL_ANCHOR_ROOT, 0755)) < 0 ||
        SYS(mkdir(NEW_ROOT JAIL_ANCHOR_SPARE, 0755)) < 0 || SYS(mkdir(MEMORY, 0755)) < 0)
        return err_sys(err, errno, "make the anchor");
    AUTO_CLOSE int fd = SYS(open(NEW_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC};
    if (fd < 0 || k_mount_setattr(fd, AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, errno, "make the anchor read-only");
    return 0;
}

/* Whether a lower layer shows a directory there. */
static bool is_below(const struct mount_set *set, const struct jail_plan *plan, const char *name)
{
    struct stat st;
    for (size_t i = 1; i < plan->disk_layer_count; i++) {
        char path[UPPER_SIZE + 8];
        sealed_path(plan, i, path);
        AUTO_CLOSE int fd = SYS(open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return S_ISDIR(st.st_mode);
    }
    for (size_t i = set->layer_count; i-- > 0;)
        if (fstatat(set->layer_fds[i], name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return S_ISDIR(st.st_mode);
    return false;
}

/* A directory that was deleted comes back empty: its former contents stay deleted. */
static int undelete(int upper_fd, const char *name, struct err *err)
{
    if (SYS(unlinkat(upper_fd, name, 0)) < 0 || SYS(mkdirat(upper_fd, name, 0755)) < 0)
        return err_sys(err, errno, "make '/%s'", name);
    AUTO_CLOSE int fd =
        SYS(openat(upper_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0 || SYS(fsetxattr(fd, "user.overlay.opaque", "y", 1, 0)) < 0)
        return err_sys(err, errno, "make '/%s'", name);
    return 0;
}

static int own_place(const struct mount_set *set, const struct jail_plan *plan, int upper_fd,
                     const char *name, struct err *err)
{
    struct stat st;
    bool there = fstatat(upper_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && S_ISCHR(st.st_mode) && st.st_rdev == 0)
        return undelete(upper_fd, name, err);
    if (there && !S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID, "bad_rootfs: '/%s' is not a directory", name);
    if (there || is_below(set, plan, name))
        return 0;
    AUTO_CLOSE int made = mounts_make_in(upper_fd, name, true);
    if (made < 0)
        return err_sys(err, errno, "make '/%s'", name);
    return 0;
}

static bool has_volume_in(const struct jail_plan *plan, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < plan->mount_count; i++) {
        const char *dst = plan->mounts[i].dst;
        if (strncmp(dst + 1, name, len) == 0 && dst[len + 1] == '/')
            return true;
    }
    return false;
}

int mounts_own_places(const struct mount_set *set, const struct jail_plan *plan, int upper_fd,
                      struct err *err)
{
    static const char *const dirs[] = {"workspace", "home", "home/sandbox", "cache"};
    static const char *const parents[] = {"mnt", "opt"};
    for (size_t i = 0; i < countof(dirs); i++)
        if (own_place(set, plan, upper_fd, dirs[i], err) < 0)
            return -1;
    for (size_t i = 0; i < countof(parents); i++)
        if (has_volume_in(plan, parents[i]) && own_place(set, plan, upper_fd, parents[i], err) < 0)
            return -1;
    return 0;
}

static int own_places(const struct mount_set *set, const struct jail_plan *plan, struct err *err)
{
    char path[UPPER_SIZE + 8], layer[UPPER_SIZE];
    if (plan->base != NULL)
        return 0;
    upper_of(plan, layer);
    (void)snprintf(path, sizeof path, "%s/upper", layer);
    AUTO_CLOSE int upper = SYS(open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (upper < 0)
        return err_sys(err, errno, "open the writable layer");
    return mounts_own_places(set, plan, upper, err);
}

int mounts_build_overlay(const struct mount_set *set, const struct jail_plan *plan,
                         struct mounts_kept *kept, struct err *err)
{
    if (add_anchor(err) < 0 || attach_upper(set, plan, kept, err) < 0 ||
        own_places(set, plan, err) < 0 || mount_layers(set, plan, err) < 0 || close_memory(err) < 0)
        return -1;
    return carry_over(plan->base != NULL, err);
}

/* In an overlay root home and workspace are plain directories of the writable layer. */
static int make_places(const struct jail_plan *plan, struct err *err)
{
    static const char *const dirs[] = {"/proc", "/dev",          "/tmp",
                                       "/home", "/home/sandbox", "/workspace"};
    for (size_t i = 0; i < countof(dirs); i++) {
        struct stat st;
        if (lstat(dirs[i], &st) < 0 && mkdir(dirs[i], 0755) < 0)
            return err_sys(err, errno, "make '%s'", dirs[i]);
        if (lstat(dirs[i], &st) < 0 || !S_ISDIR(st.st_mode))
            return err_set(err, ERR_INVALID, "bad_rootfs: '%s' is not a directory", dirs[i]);
    }
    for (size_t i = 4; i < countof(dirs); i++) {
        if (i == 5 && plan->workspace != NULL)
            continue;
        if (chown(dirs[i], JAIL_UID, JAIL_GID) < 0 && errno != EPERM && errno != EINVAL)
            return err_sys(err, errno, "own '%s'", dirs[i]);
    }
    return 0;
}

int mounts_enter_overlay(const struct jail_plan *plan, int *ret_anchor, struct err *err)
{
    AUTO_CLOSE int anchor = SYS(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (anchor < 0 || SYS(chroot(JAIL_ANCHOR_ROOT)) < 0 || SYS(chdir("/")) < 0)
        return err_sys(err, errno, "enter the overlay");
    if (make_places(plan, err) < 0)
        return -1;
    *ret_anchor = fd_take(&anchor);
    return 0;
}
