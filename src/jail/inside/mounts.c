#include "jail/inside/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/mounts_internal.h"
#include "jail/wire/linux.h"

int mounts_new_fs(const char *type, const char *const *options, unsigned attrs, struct err *err)
{
    AUTO_CLOSE int fs = k_fsopen(type);
    if (fs < 0)
        return err_sys(err, errno, "open a %s filesystem", type);
    for (size_t i = 0; options[i] != NULL; i++) {
        char key[64];
        struct str value = str_of(options[i]), name;
        bool has_value = str_find_char(value, '=') < value.len;
        (void)str_split(&value, '=', &name);
        (void)snprintf(key, sizeof key, "%.*s", STR_ARG(name));
        unsigned how = has_value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
        if (k_fsconfig(fs, how, key, has_value ? value.ptr : NULL) < 0)
            return err_sys(err, errno, "%s option '%s'", type, options[i]);
    }
    if (k_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return err_sys(err, errno, "make a %s filesystem", type);
    int mount_fd = k_fsmount(fs, attrs);
    if (mount_fd < 0)
        return err_sys(err, errno, "mount a %s filesystem", type);
    return mount_fd;
}

int mounts_open_target(const char *path, struct err *err)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)SYS(syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
    if (fd < 0 && errno == ELOOP)
        return err_set(err, ERR_INVALID, "bad_rootfs: '%s' contains a symbolic link", path);
    if (fd < 0)
        return err_sys(err, errno, "open mount target '%s'", path);
    return fd;
}

int mounts_put(int mount_fd, const char *path, bool want_dir, struct err *err)
{
    AUTO_CLOSE int target = mounts_open_target(path, err);
    struct stat st;
    if (target < 0)
        return -1;
    if (SYS(fstat(target, &st)) < 0 || (S_ISDIR(st.st_mode) != want_dir))
        return err_set(err, ERR_INVALID, "bad_rootfs: '%s' is %sa directory", path,
                       want_dir ? "not " : "");
    if (k_move_mount(mount_fd, target) < 0)
        return err_sys(err, errno, "mount '%s'", path);
    return 0;
}

int mounts_put_new(const char *type, const char *const *options, unsigned attrs, const char *path,
                   struct err *err)
{
    AUTO_CLOSE int fs = mounts_new_fs(type, options, attrs, err);
    if (fs < 0 || mounts_put(fs, path, true, err) < 0)
        return err_wrap(err, "mount '%s'", path);
    return 0;
}

int mounts_new_tmpfs(int64_t bytes, int64_t inodes, const char *mode, unsigned attrs,
                     struct err *err)
{
    char size[48], count[48], perm[16];
    const char *options[] = {size, count, perm, NULL};
    (void)snprintf(size, sizeof size, "size=%lld", (long long)bytes);
    (void)snprintf(count, sizeof count, "nr_inodes=%lld", (long long)inodes);
    (void)snprintf(perm, sizeof perm, "mode=%s", mode);
    return mounts_new_fs("tmpfs", options, attrs | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
}

int mounts_new_memory(const struct jail_plan *plan, struct err *err)
{
    bool limited = DEFENDED(LIMIT_DISK);
    return mounts_new_tmpfs(limited ? plan->limits.disk_bytes : 0,
                            limited ? plan->limits.disk_inodes : 0, "0755", 0, err);
}

/* What of /proc tells about the host or its other tenants. Entries the kernel lacks are passed
 * over; the whole of /proc is read-only besides. */
static const struct {
    const char *path;
    bool is_dir;
} masks[] = {
    {"/proc/acpi", true},         {"/proc/asound", true},         {"/proc/scsi", true},
    {"/proc/kcore", false},       {"/proc/keys", false},          {"/proc/key-users", false},
    {"/proc/kmsg", false},        {"/proc/latency_stats", false}, {"/proc/timer_list", false},
    {"/proc/timer_stats", false}, {"/proc/sched_debug", false},   {"/proc/interrupts", false},
    {"/proc/kallsyms", false},    {"/proc/modules", false},       {"/proc/config.gz", false},
    {"/proc/iomem", false},       {"/proc/ioports", false},       {"/proc/slabinfo", false},
    {"/proc/vmallocinfo", false}, {"/proc/pagetypeinfo", false},  {"/proc/swaps", false},
    {"/proc/partitions", false},  {"/proc/diskstats", false},     {"/proc/sysrq-trigger", false},
    {"/proc/kpagecgroup", false}, {"/proc/kpagecount", false},    {"/proc/kpageflags", false},
    {"/proc/locks", false}, /* and who reads it makes every lock of the machine wait */
};

static bool masks_wanted[countof(masks)];

/* No process in a jail is the host's root, so files that only root may read need no mask. The
 * exception: a warden that is root and may not change to another user. */
void mounts_prepare(bool as_root)
{
    for (size_t i = 0; i < countof(masks); i++) {
        struct stat st;
        bool there = lstat(masks[i].path, &st) == 0;
        masks_wanted[i] = there && (as_root || (st.st_mode & S_IROTH) != 0);
    }
}

/* The sources are our own, empty and read-only. */
static int mask_proc(const char *root, struct err *err)
{
    for (size_t i = 0; i < countof(masks); i++) {
        if (!masks_wanted[i] || !DEFENDED(PROC_MASKS))
            continue;
        char dst[64];
        const char *src = masks[i].is_dir ? "/nothing" : "/empty";
        (void)snprintf(dst, sizeof dst, "%s%s", root, masks[i].path);
        if (SYS(mount(src, dst, NULL, MS_BIND, NULL)) < 0 && errno != ENOENT)
            return err_sys(err, errno, "mask '%s'", masks[i].path);
    }
    return 0;
}

static int new_proc(struct err *err)
{
    static const char *const options[] = {"hidepid=invisible", NULL};
    static const char *const plain[] = {NULL};
    unsigned attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    struct err first = {0};
    int fs = DEFENDED(HIDEPID) ? mounts_new_fs("proc", options, attrs, &first) : -1;
    return fs >= 0 ? fs : mounts_new_fs("proc", plain, attrs, err);
}

/* The kernel gives a new proc only to who sees one: the template's, which stays behind. */
static int add_proc(const char *root, struct err *err)
{
    AUTO_CLOSE int fs = new_proc(err);
    char place[32], inside[48];
    struct stat old;
    struct statfs st;
    if (fs < 0)
        return -1;
    (void)snprintf(place, sizeof place, "%s/proc", root);
    (void)snprintf(inside, sizeof inside, "%s/self/", place);
    if (lstat(place, &old) < 0 && mkdir(place, 0755) < 0)
        return err_sys(err, errno, "make '/proc'");
    if (mounts_put(fs, place, true, err) < 0)
        return -1;
    if (SYS(statfs(inside, &st)) < 0 || st.f_type != PROC_SUPER_MAGIC)
        return err_set(err, ERR_INTERNAL, "another file system is mounted at '/proc'");
    return mask_proc(root, err);
}

/* One call instead of nine, for paths that only we can change: no part of a path in the template's
 * own tree can be a link. */
static int put_plain(const char *type, const char *options, unsigned long flags, const char *path,
                     struct err *err)
{
    if (SYS(mount("none", path, type, MS_NOSUID | flags, options)) < 0)
        return err_sys(err, errno, "mount '%s'", path);
    return 0;
}

static int put_plain_tmpfs(int64_t bytes, int64_t inodes, const char *mode, unsigned long flags,
                           const char *path, struct err *err)
{
    char options[96];
    (void)snprintf(options, sizeof options, "size=%lld,nr_inodes=%lld,mode=%s", (long long)bytes,
                   (long long)inodes, mode);
    return put_plain("tmpfs", options, MS_NODEV | flags, path, err);
}

static int add_plain_places(const struct jail_plan *plan, struct err *err)
{
    bool limited = DEFENDED(LIMIT_TMP);
    int64_t bytes = limited ? plan->limits.tmp_bytes : 0;
    int64_t inodes = limited ? plan->limits.tmp_inodes : 0;
    if (put_plain_tmpfs(bytes, inodes, "1777", 0, "/tmp", err) < 0 ||
        put_plain_tmpfs(bytes, inodes, "1777", MS_NOEXEC, "/dev/shm", err) < 0)
        return -1;
    return put_plain("devpts",
                     DEFENDED(LIMIT_PTYS) ? "newinstance,ptmxmode=0666,mode=0620,max=16"
                                          : "newinstance,ptmxmode=0666,mode=0620",
                     MS_NOEXEC, "/dev/pts", err);
}

static int add_fresh_places(const struct jail_plan *plan, int disk_tmp, struct err *err)
{
    static const char *const pts[] = {"newinstance", "ptmxmode=0666", "mode=0620",
                                      DEFENDED(LIMIT_PTYS) ? "max=16" : NULL, NULL};
    struct jail_limits sizes = plan->limits;
    const struct jail_limits *limits = &sizes;
    if (!DEFENDED(LIMIT_TMP))
        sizes.tmp_bytes = sizes.tmp_inodes = 0;
    AUTO_CLOSE int tmp =
        disk_tmp >= 0 ? -1
                      : mounts_new_tmpfs(limits->tmp_bytes, limits->tmp_inodes, "1777", 0, err);
    if (disk_tmp < 0 && tmp < 0)
        return -1;
    if (mounts_put(disk_tmp >= 0 ? disk_tmp : tmp, "/tmp", true, err) < 0)
        return -1;
    AUTO_CLOSE int shm =
        mounts_new_tmpfs(limits->tmp_bytes, limits->tmp_inodes, "1777", MOUNT_ATTR_NOEXEC, err);
    if (shm < 0 || mounts_put(shm, "/dev/shm", true, err) < 0)
        return -1;
    return mounts_put_new("devpts", pts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, "/dev/pts", err);
}

/* Shows a directory of the writable layer in the tree. */
static int show(const char *name, const char *path, struct err *err)
{
    if (SYS(mkdir(name, 0755)) < 0)
        return err_sys(err, errno, "make '%s'", path);
    if (SYS(mount(name, path, NULL, MS_BIND, NULL)) < 0)
        return err_sys(err, errno, "mount '%s'", path);
    return 0;
}

/* A root that stays read-only: one filesystem in memory holds home and workspace, so that one
 * limit counts both. It is attached first: only then can parts of it be shown elsewhere. */
static int build_plain(const struct jail_plan *plan, struct err *err)
{
    /* A copy, because the template's own mounts are locked in their places. */
    AUTO_CLOSE int tree =
        k_open_tree(AT_FDCWD, TREE, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (tree < 0)
        return err_sys(err, errno, "copy the template");
    if (mounts_put(tree, NEW_ROOT, true, err) < 0)
        return -1;
    bool limited = DEFENDED(LIMIT_DISK);
    if (put_plain_tmpfs(limited ? plan->limits.disk_bytes : 0,
                        limited ? plan->limits.disk_inodes : 0, "0755", 0, WRITABLE, err) < 0)
        return -1;
    if (show(WRITABLE "/home", NEW_ROOT "/home/sandbox", err) < 0)
        return -1;
    return plan->workspace == NULL ? show(WRITABLE "/workspace", NEW_ROOT "/workspace", err) : 0;
}

/* Makes the place for a volume, where the tree lets us: a read-only root has /mnt and friends, so
 * anything else gets a small filesystem of its own in between. */
static int make_place(const char *path, bool is_dir, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) == 0)
        return 0; /* mount_at judges it */
    char partial[JAIL_PATH_MAX];
    (void)snprintf(partial, sizeof partial, "%s", path);
    for (char *slash = strchr(partial + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL)
            *slash = '\0';
        bool last = slash == NULL;
        if (lstat(partial, &st) < 0) {
            int made =
                last && !is_dir
                    ? open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644)
                    : mkdir(partial, 0755);
            if (made < 0 && errno == EROFS)
                return err_set(err, ERR_INVALID,
                               "mount target '%s' does not exist and the root is read-only; use a "
                               "directory below /workspace, /home/sandbox, /mnt, /opt or /cache",
                               path);
            if (made < 0)
                return err_sys(err, errno, "make mount target '%s'", path);
            if (last && !is_dir)
                fd_close(&made);
        } else if (!last && !S_ISDIR(st.st_mode)) {
            return err_set(err, ERR_INVALID, "bad_rootfs: '%s' is not a directory", partial);
        }
        if (last)
            return 0;
        *slash = '/';
    }
}

/* Volumes below these get a writable parent in memory, so that a place can be made in it. */
static int open_parents(const struct mount_set *set, struct err *err)
{
    static const char *const parents[] = {"/mnt", "/opt", "/cache"};
    for (size_t p = 0; p < countof(parents); p++) {
        size_t len = strlen(parents[p]);
        bool wanted = false;
        for (size_t i = 0; i < set->count; i++)
            wanted |=
                strncmp(set->items[i].dst, parents[p], len) == 0 && set->items[i].dst[len] == '/';
        if (!wanted)
            continue;
        AUTO_CLOSE int fs = mounts_new_tmpfs(1 << 16, 1024, "0755", 0, err);
        if (fs < 0 || mounts_put(fs, parents[p], true, err) < 0)
            return -1;
    }
    return 0;
}

static bool has_overlay(const struct mount_set *set, const struct jail_plan *plan)
{
    return plan->overlay || set->layer_count > 0 || set->disk_fd >= 0;
}

static int add_volumes(const struct mount_set *set, bool overlay, struct err *err)
{
    if (!overlay && open_parents(set, err) < 0)
        return -1;
    for (size_t i = 0; i < set->count; i++) {
        if (make_place(set->items[i].dst, set->items[i].is_dir, err) < 0 ||
            mounts_put(set->items[i].fd, set->items[i].dst, set->items[i].is_dir, err) < 0)
            return -1;
    }
    return 0;
}

static int enter_new_root(struct err *err)
{
    if (SYS(chdir(NEW_ROOT)) < 0)
        return err_sys(err, errno, "enter the new root");
    if (!DEFENDED(PIVOT))
        return SYS(chroot(".")) < 0 ? err_sys(err, errno, "chroot") : 0;
    if (SYS(syscall(SYS_pivot_root, ".", ".")) < 0)
        return err_sys(err, errno, "pivot_root");
    if (SYS(umount2(".", MNT_DETACH)) < 0)
        return err_sys(err, errno, "leave the template");
    return 0;
}

int mounts_enter(const struct mount_set *set, const struct jail_plan *plan,
                 struct mounts_kept *ret_kept, struct err *err)
{
    bool overlay = has_overlay(set, plan);
    *ret_kept = (struct mounts_kept){.anchor = -1, .layer = -1, .tmp = -1};
    if ((overlay ? mounts_build_overlay(set, plan, ret_kept, err) : build_plain(plan, err)) < 0)
        return -1;
    if (add_proc(overlay ? NEW_OVERLAY : NEW_ROOT, err) < 0 || enter_new_root(err) < 0)
        return -1;
    if (overlay && mounts_enter_overlay(plan, &ret_kept->anchor, err) < 0)
        return -1;
    int placed = overlay ? add_fresh_places(plan, ret_kept->tmp, err) : add_plain_places(plan, err);
    fd_close(&ret_kept->tmp);
    if (placed < 0 || add_volumes(set, overlay, err) < 0)
        return -1;
    if (SYS(chdir("/")) < 0)
        return err_sys(err, errno, "chdir '/'");
    return 0;
}

const char *const *mounts_writable(const struct jail_plan *plan)
{
    static const char *const some[] = {"/tmp", "/dev", "/home/sandbox", "/workspace", NULL};
    static const char *const all[] = {"/", NULL};
    return plan->overlay || plan->layer_count > 0 || plan->disk != NULL || plan->base != NULL
               ? all
               : some;
}
