#include "jail/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/kernel.h"
#include "jail/overlay.h"

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
        return err_set(err, ERR_INVALID, "bad_rootfs: '%s' leads over a link", path);
    if (fd < 0)
        return err_sys(err, errno, "open mount target '%s'", path);
    return fd;
}

static int mount_at(int mount_fd, const char *path, bool want_dir, struct err *err)
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

static int new_fs_at(const char *type, const char *const *options, unsigned attrs, const char *path,
                     struct err *err)
{
    AUTO_CLOSE int fs = mounts_new_fs(type, options, attrs, err);
    if (fs < 0 || mount_at(fs, path, true, err) < 0)
        return err_wrap(err, "mount '%s'", path);
    return 0;
}

static int new_tmpfs(int64_t bytes, int64_t inodes, const char *mode, unsigned attrs,
                     struct err *err)
{
    char size[48], count[48], perm[16];
    const char *options[] = {size, count, perm, NULL};
    (void)snprintf(size, sizeof size, "size=%lld", (long long)bytes);
    (void)snprintf(count, sizeof count, "nr_inodes=%lld", (long long)inodes);
    (void)snprintf(perm, sizeof perm, "mode=%s", mode);
    return mounts_new_fs("tmpfs", options, attrs | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
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
};

static bool masks_wanted[countof(masks)];

/* What the host's root alone may read, nobody in a jail can, whatever is mounted over it: nobody
 * in there is the host's root. Unless its maker is, without the privilege to be anybody else. */
void mounts_prepare(bool as_root)
{
    for (size_t i = 0; i < countof(masks); i++) {
        struct stat st;
        bool there = lstat(masks[i].path, &st) == 0;
        masks_wanted[i] = there && (as_root || (st.st_mode & S_IROTH) != 0);
    }
}

/* The sources are our own: the null device of our /dev, and a place in it that is still empty. */
static int mask_proc(struct err *err)
{
    for (size_t i = 0; i < countof(masks); i++) {
        if (!masks_wanted[i])
            continue;
        const char *src = masks[i].is_dir ? "/dev/shm" : "/dev/null";
        if (SYS(mount(src, masks[i].path, NULL, MS_BIND, NULL)) < 0 && errno != ENOENT)
            return err_sys(err, errno, "mask '%s'", masks[i].path);
    }
    return 0;
}

static int add_proc(struct err *err)
{
    static const char *const options[] = {"hidepid=invisible", NULL};
    static const char *const plain[] = {NULL};
    unsigned attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    struct err first = {0};
    AUTO_CLOSE int fs = mounts_new_fs("proc", options, attrs, &first);
    if (fs < 0)
        fs = mounts_new_fs("proc", plain, attrs, err);
    if (fs < 0 || mount_at(fs, "/proc", true, err) < 0)
        return -1;
    struct statfs st;
    if (SYS(statfs("/proc/self/", &st)) < 0 || st.f_type != PROC_SUPER_MAGIC)
        return err_set(err, ERR_INTERNAL, "'/proc' is not what was mounted there");
    return mask_proc(err);
}

static int add_memory_places(const struct jail_plan *plan, struct err *err)
{
    static const char *const pts[] = {"newinstance", "ptmxmode=0666", "mode=0620", "max=16", NULL};
    const struct jail_limits *limits = &plan->limits;
    AUTO_CLOSE int tmp = new_tmpfs(limits->tmp_bytes, limits->tmp_inodes, "1777", 0, err);
    if (tmp < 0 || mount_at(tmp, "/tmp", true, err) < 0)
        return -1;
    AUTO_CLOSE int shm =
        new_tmpfs(limits->tmp_bytes, limits->tmp_inodes, "1777", MOUNT_ATTR_NOEXEC, err);
    if (shm < 0 || mount_at(shm, "/dev/shm", true, err) < 0)
        return -1;
    return new_fs_at("devpts", pts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, "/dev/pts", err);
}

/* Shows a directory of the writable layer in the tree. */
static int show(int layer_fd, const char *name, const char *path, struct err *err)
{
    if (SYS(mkdirat(layer_fd, name, 0755)) < 0)
        return err_sys(err, errno, "make '%s'", path);
    AUTO_CLOSE int tree = k_open_tree(layer_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return err_sys(err, errno, "open '%s'", path);
    return mount_at(tree, path, true, err);
}

/* A root that stays read-only: one filesystem in memory holds home and workspace, so that one
 * limit counts both. It is attached first: only then can parts of it be shown elsewhere. */
static int add_writable_places(const struct jail_plan *plan, struct err *err)
{
    AUTO_CLOSE int layer =
        new_tmpfs(plan->limits.disk_bytes, plan->limits.disk_inodes, "0755", 0, err);
    if (layer < 0 || mount_at(layer, "/.rw", true, err) < 0)
        return -1;
    if (show(layer, "home", "/home/sandbox", err) < 0)
        return -1;
    if (plan->workspace == NULL && show(layer, "workspace", "/workspace", err) < 0)
        return -1;
    if (SYS(umount2("/.rw", MNT_DETACH)) < 0)
        return err_sys(err, errno, "detach the layer");
    return 0;
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
                               "place below /workspace, /home/sandbox, /mnt, /opt or /cache",
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
        AUTO_CLOSE int fs = new_tmpfs(1 << 16, 1024, "0755", 0, err);
        if (fs < 0 || mount_at(fs, parents[p], true, err) < 0)
            return -1;
    }
    return 0;
}

static int add_volumes(const struct mount_set *set, const struct jail_plan *plan, struct err *err)
{
    bool overlay = plan->overlay || set->layer_count > 0 || set->upper_fd >= 0;
    if (!overlay && open_parents(set, err) < 0)
        return -1;
    for (size_t i = 0; i < set->count; i++) {
        if (make_place(set->items[i].dst, set->items[i].is_dir, err) < 0 ||
            mount_at(set->items[i].fd, set->items[i].dst, set->items[i].is_dir, err) < 0)
            return -1;
    }
    return 0;
}

/* Parts of the template that are mounts of their own and must be shown in an overlay root too. */
const char *const mounts_template_parts[] = {"usr",           "bin",   "sbin",   "lib",
                                             "lib32",         "lib64", "libx32", "etc/alternatives",
                                             "etc/ssl/certs", "dev",   "proc",   NULL};

static int carry_over(bool has_base, struct err *err)
{
    for (size_t i = 0; mounts_template_parts[i] != NULL; i++) {
        const char *part = mounts_template_parts[i];
        char src[64], dst[64];
        struct stat st;
        bool own = strcmp(part, "dev") == 0 || strcmp(part, "proc") == 0;
        (void)snprintf(src, sizeof src, "/%s", part);
        (void)snprintf(dst, sizeof dst, "/.root" JAIL_ANCHOR_ROOT "/%s", part);
        if ((has_base && !own) || lstat(src, &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        AUTO_CLOSE int tree =
            k_open_tree(AT_FDCWD, src, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
        if (tree < 0)
            return err_sys(err, errno, "open '%s'", src);
        if (lstat(dst, &st) < 0 && mkdir(dst, 0755) < 0)
            return err_set(err, ERR_INVALID, "bad_rootfs: '/%s' cannot be made: %s", part,
                           strerror(errno));
        if (mount_at(tree, dst, true, err) < 0)
            return -1;
    }
    return 0;
}

static int attach_upper(const struct mount_set *set, const struct jail_plan *plan, struct err *err)
{
    AUTO_CLOSE int memory = -1; /* owned here; a given upper is not */
    if (set->upper_fd < 0)
        memory = new_tmpfs(plan->limits.disk_bytes, plan->limits.disk_inodes, "0755", 0, err);
    int fd = set->upper_fd < 0 ? memory : set->upper_fd;
    if (fd < 0 || mount_at(fd, "/.rw", true, err) < 0)
        return -1;
    if ((mkdir("/.rw/upper", 0755) < 0 && errno != EEXIST) ||
        (mkdir("/.rw/work", 0755) < 0 && errno != EEXIST))
        return err_sys(err, errno, "make the writable layer");
    return 0;
}

/* Highest first, as overlayfs wants them. Without a base the template's is the lowest. */
static int mount_layers(const struct mount_set *set, const struct jail_plan *plan, struct err *err)
{
    char paths[JAIL_LAYERS_MAX + 1][32];
    const char *lower[JAIL_LAYERS_MAX + 2];
    struct overlay overlay = {.lower = lower, .upper = "/.rw"};
    for (size_t i = set->layer_count; i-- > 0;) {
        (void)snprintf(paths[i], sizeof paths[i], "/.extra/%zu", i);
        if (mount_at(set->layer_fds[i], paths[i], true, err) < 0)
            return -1;
        lower[overlay.lower_count++] = paths[i];
    }
    if (plan->base == NULL)
        lower[overlay.lower_count++] = "/.base";
    return overlay_mount(&overlay, "/.root" JAIL_ANCHOR_ROOT, err);
}

/* The overlay does not become the root of the namespace itself: it stands in an empty tree that
 * stays when the overlay is exchanged (relayer.c). Rules of the second fence are tied to that tree,
 * because those tied to an overlay would not hold for its successor. */
static int add_anchor(struct err *err)
{
    static const char *const options[] = {"mode=0755", "size=4k", "nr_inodes=8", NULL};
    if (new_fs_at("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "/.root", err) < 0)
        return -1;
    if (SYS(mkdir("/.root" JAIL_ANCHOR_ROOT, 0755)) < 0 ||
        SYS(mkdir("/.root" JAIL_ANCHOR_SPARE, 0755)) < 0)
        return err_sys(err, errno, "make the anchor");
    AUTO_CLOSE int fd = SYS(open("/.root", O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC};
    if (fd < 0 || k_mount_setattr(fd, AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, errno, "make the anchor read-only");
    return 0;
}

/* Whether a lower layer shows a directory there. */
static bool is_below(const struct mount_set *set, const char *name)
{
    struct stat st;
    for (size_t i = set->layer_count; i-- > 0;)
        if (fstatat(set->layer_fds[i], name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return S_ISDIR(st.st_mode);
    return false;
}

/* A directory that was deleted comes back empty: what lies below it stays deleted. */
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

int mounts_own_places(const struct mount_set *set, int upper_fd, struct err *err)
{
    static const char *const dirs[] = {"workspace", "home", "home/sandbox"};
    for (size_t i = 0; i < countof(dirs); i++) {
        struct stat st;
        bool there = fstatat(upper_fd, dirs[i], &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (there && S_ISCHR(st.st_mode) && st.st_rdev == 0) {
            if (undelete(upper_fd, dirs[i], err) < 0)
                return -1;
        } else if (there && !S_ISDIR(st.st_mode)) {
            return err_set(err, ERR_INVALID, "bad_rootfs: '/%s' is not a directory", dirs[i]);
        } else if (!there && !is_below(set, dirs[i]) && SYS(mkdirat(upper_fd, dirs[i], 0755)) < 0) {
            return err_sys(err, errno, "make '/%s'", dirs[i]);
        }
    }
    return 0;
}

static int own_places(const struct mount_set *set, const struct jail_plan *plan, struct err *err)
{
    if (plan->base != NULL)
        return 0;
    AUTO_CLOSE int upper = SYS(open("/.rw/upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (upper < 0)
        return err_sys(err, errno, "open the writable layer");
    return mounts_own_places(set, upper, err);
}

static int enter_overlay(const struct mount_set *set, const struct jail_plan *plan, int *ret_anchor,
                         struct err *err)
{
    if (attach_upper(set, plan, err) < 0 || own_places(set, plan, err) < 0 || add_anchor(err) < 0 ||
        mount_layers(set, plan, err) < 0 || carry_over(plan->base != NULL, err) < 0)
        return -1;
    if (SYS(chdir("/.root")) < 0)
        return err_sys(err, errno, "enter the overlay");
    if (SYS(syscall(SYS_pivot_root, ".", ".")) < 0)
        return err_sys(err, errno, "pivot_root");
    if (SYS(umount2(".", MNT_DETACH)) < 0)
        return err_sys(err, errno, "leave the template");
    AUTO_CLOSE int anchor = SYS(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (anchor < 0 || SYS(chroot(JAIL_ANCHOR_ROOT)) < 0 || SYS(chdir("/")) < 0)
        return err_sys(err, errno, "enter the overlay");
    *ret_anchor = fd_take(&anchor);
    return 0;
}

/* In an overlay root home and workspace are plain directories of the writable layer. */
static int make_overlay_places(const struct jail_plan *plan, struct err *err)
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

int mounts_enter(const struct mount_set *set, const struct jail_plan *plan, int *ret_anchor,
                 struct err *err)
{
    bool overlay = plan->overlay || set->layer_count > 0 || set->upper_fd >= 0;
    if (overlay) {
        if (enter_overlay(set, plan, ret_anchor, err) < 0 || make_overlay_places(plan, err) < 0)
            return -1;
    } else if (add_writable_places(plan, err) < 0) {
        return -1;
    }
    if (add_proc(err) < 0 || add_memory_places(plan, err) < 0 || add_volumes(set, plan, err) < 0)
        return -1;
    if (SYS(chdir("/")) < 0)
        return err_sys(err, errno, "chdir '/'");
    return 0;
}

const char *const *mounts_writable(const struct jail_plan *plan)
{
    static const char *const some[] = {"/tmp", "/dev", "/home/sandbox", "/workspace", NULL};
    static const char *const all[] = {"/", NULL};
    return plan->overlay || plan->layer_count > 0 || plan->upper != NULL || plan->base != NULL
               ? all
               : some;
}
