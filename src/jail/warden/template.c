/* The tree that every jail starts from: built once by the warden, which then runs in it. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/mounts.h"
#include "jail/wire/linux.h"

/* Mounted over while the tree is built: the warden needs nothing below it. */
#define BUILD_AT "/sys"

enum { COPY_MAX = 1 << 20 };

static int make_dir(const char *path, mode_t mode, struct err *err)
{
    if (SYS(mkdir(path, mode)) < 0)
        return err_sys(err, errno, "make '%s'", path);
    return 0;
}

static int make_file(const char *path, struct str text, struct err *err)
{
    AUTO_CLOSE int fd = SYS(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
    if (fd < 0)
        return err_sys(err, errno, "make '%s'", path);
    return fd_write_all(fd, text, err);
}

static int make_link(const char *target, const char *path, struct err *err)
{
    if (SYS(symlink(target, path)) < 0)
        return err_sys(err, errno, "make '%s'", path);
    return 0;
}

/* A read-only view of something of the host's. */
static int bind_read_only(const char *src, const char *dst, struct err *err)
{
    AUTO_CLOSE int tree = k_open_tree(
        AT_FDCWD, src, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW);
    if (tree < 0)
        return err_sys(err, errno, "open '%s'", src);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    if (k_mount_setattr(tree, AT_EMPTY_PATH | AT_RECURSIVE, &attr) < 0)
        return err_sys(err, errno, "make '%s' read-only", src);
    AUTO_CLOSE int target = SYS(open(dst, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (target < 0 || k_move_mount(tree, target) < 0)
        return err_sys(err, errno, "mount '%s'", dst);
    return 0;
}

/* The host's programs: /usr, and what stands beside it on hosts that have not merged the two. */
static int add_programs(bool mounts, struct err *err)
{
    static const char *const names[] = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    for (size_t i = 0; i < countof(names); i++) {
        char src[32], target[64];
        struct stat st;
        (void)snprintf(src, sizeof src, "/%s", names[i]);
        if (lstat(src, &st) < 0)
            continue;
        if (S_ISLNK(st.st_mode)) {
            ssize_t len = readlink(src, target, sizeof target - 1);
            if (len < 0)
                return err_sys(err, errno, "read link '%s'", src);
            target[len] = '\0';
            if (make_link(target, names[i], err) < 0)
                return -1;
            continue;
        }
        if (make_dir(names[i], 0755, err) < 0)
            return -1;
        if (mounts && bind_read_only(src, names[i], err) < 0)
            return -1;
    }
    return 0;
}

/* Text that every jail has; it is the same on every host. */
static const struct {
    const char *path, *text;
} etc_files[] = {
    {"etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"
                   "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
    {"etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"},
    {"etc/hostname", "sandbox\n"},
    /* The gateway answers at this address; without one the kernel refuses at once. */
    {"etc/resolv.conf", "nameserver 127.0.0.1\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"
                          "services: files\nprotocols: files\n"},
    {"etc/profile", "PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}\nexport PATH\n"},
};

/* Of the host's /etc: what programs of its /usr need and what tells nothing private. */
static const char *const etc_copies[] = {"ld.so.cache", "ld.so.conf",   "services",
                                         "protocols",   "mime.types",   "debian_version",
                                         "os-release",  "matplotlibrc", "fonts/fonts.conf"};
static const char *const etc_binds[] = {"alternatives", "ssl/certs"};

static int copy_from_etc(const char *name, struct err *err)
{
    char path[64], link[128];
    (void)snprintf(path, sizeof path, "/etc/%s", name);
    ssize_t len = readlink(path, link, sizeof link - 1);
    if (len > 0) {
        link[len] = '\0';
        return make_link(link, path + 1, err);
    }
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return 0; /* not every host has every file */
    AUTO_BUF struct buf text = buf_with_limit(COPY_MAX);
    if (buf_read_all(&text, fd, err) < 0)
        return err_wrap(err, "copy '%s'", path);
    return make_file(path + 1, buf_str(&text), err);
}

static int bind_from_etc(const char *name, bool mounts, struct err *err)
{
    char src[64];
    struct stat st;
    (void)snprintf(src, sizeof src, "/etc/%s", name);
    if (lstat(src, &st) < 0 || !S_ISDIR(st.st_mode))
        return 0;
    if (make_dir(src + 1, 0755, err) < 0)
        return -1;
    return mounts ? bind_read_only(src, src + 1, err) : 0;
}

static int add_etc(bool mounts, struct err *err)
{
    if (make_dir("etc", 0755, err) < 0 || make_dir("etc/ssl", 0755, err) < 0 ||
        make_dir("etc/fonts", 0755, err) < 0)
        return -1;
    for (size_t i = 0; i < countof(etc_files); i++)
        if (make_file(etc_files[i].path, str_of(etc_files[i].text), err) < 0)
            return -1;
    for (size_t i = 0; i < countof(etc_copies); i++)
        if (copy_from_etc(etc_copies[i], err) < 0)
            return -1;
    for (size_t i = 0; i < countof(etc_binds); i++)
        if (bind_from_etc(etc_binds[i], mounts, err) < 0)
            return -1;
    if (access("/etc/localtime", F_OK) == 0)
        return make_link("/usr/share/zoneinfo/Etc/UTC", "etc/localtime", err);
    return 0;
}

static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
               {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

/* With privilege real nodes in one filesystem; without, the host's nodes one by one. */
static int add_device(size_t i, bool privileged, struct err *err)
{
    char src[32], dst[32];
    (void)snprintf(src, sizeof src, "/dev/%s", devices[i].name);
    (void)snprintf(dst, sizeof dst, "dev/%s", devices[i].name);
    if (privileged) {
        dev_t rdev = makedev(devices[i].major, devices[i].minor);
        if (SYS(mknod(dst, S_IFCHR | 0666, rdev)) < 0 || SYS(chmod(dst, 0666)) < 0)
            return err_sys(err, errno, "make '%s'", src);
        return 0;
    }
    if (make_file(dst, STR(""), err) < 0)
        return -1;
    AUTO_CLOSE int tree = k_open_tree(AT_FDCWD, src, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    AUTO_CLOSE int target = SYS(open(dst, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
    if (tree < 0 || target < 0 || k_mount_setattr(tree, AT_EMPTY_PATH, &attr) < 0 ||
        k_move_mount(tree, target) < 0)
        return err_sys(err, errno, "mount '%s'", src);
    return 0;
}

static int add_dev(bool privileged, struct err *err)
{
    static const char *const options[] = {"mode=0755", "size=64k", NULL};
    static const char *const links[][2] = {
        {"/proc/self/fd", "dev/fd"},       {"/proc/self/fd/0", "dev/stdin"},
        {"/proc/self/fd/1", "dev/stdout"}, {"/proc/self/fd/2", "dev/stderr"},
        {"pts/ptmx", "dev/ptmx"},
    };
    if (make_dir("dev", 0755, err) < 0)
        return -1;
    AUTO_CLOSE int fs = mounts_new_fs("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
    AUTO_CLOSE int target = SYS(open("dev", O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (fs < 0 || target < 0 || k_move_mount(fs, target) < 0)
        return fs < 0 ? -1 : err_sys(err, errno, "mount '/dev'");
    for (size_t i = 0; i < countof(devices); i++)
        if (add_device(i, privileged, err) < 0)
            return -1;
    for (size_t i = 0; i < countof(links); i++)
        if (make_link(links[i][0], links[i][1], err) < 0)
            return -1;
    if (make_dir("dev/pts", 0755, err) < 0 || make_dir("dev/shm", 0755, err) < 0)
        return -1;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (k_mount_setattr(fs, AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, errno, "make '/dev' read-only");
    return 0;
}

static int add_places(struct err *err)
{
    static const char *const dirs[] = {"proc",      "tmp",  "home",    "home/sandbox",
                                       "workspace", "var",  "mnt",     "opt",
                                       "cache",     "root", "var/lib", "var/cache"};
    for (size_t i = 0; i < countof(dirs); i++)
        if (make_dir(dirs[i], 0755, err) < 0)
            return -1;
    if (make_link("/tmp", "run", err) < 0 || make_link("/tmp", "var/tmp", err) < 0)
        return -1;
    return make_link("/tmp", "var/run", err);
}

static int add_layer_places(struct err *err)
{
    static const char *const dirs[] = {"proc", "rw", "root", "extra", "nothing"};
    for (size_t i = 0; i < countof(dirs); i++)
        if (make_dir(dirs[i], 0755, err) < 0)
            return -1;
    if (make_file("empty", STR(""), err) < 0)
        return -1;
    for (int i = 0; i <= JAIL_LAYERS_MAX; i++) {
        char path[16];
        (void)snprintf(path, sizeof path, "extra/%d", i);
        if (make_dir(path, 0755, err) < 0)
            return -1;
    }
    return 0;
}

/* The same tree without its mounts: the lowest layer of an overlay root, since one may not look
 * below mounts that one did not make. */
static int add_base(struct err *err)
{
    if (make_dir("base", 0755, err) < 0)
        return -1;
    if (SYS(chdir("base")) < 0)
        return err_sys(err, errno, "enter 'base'");
    if (add_programs(false, err) < 0 || add_etc(false, err) < 0 || add_places(err) < 0 ||
        make_dir("dev", 0755, err) < 0)
        return -1;
    if (SYS(chdir("..")) < 0)
        return err_sys(err, errno, "leave 'base'");
    return 0;
}

/* A jail may mount a proc of its own only where one is visible already. */
static int add_proc(struct err *err)
{
    AUTO_CLOSE int tree = k_open_tree(AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    /* systemd mounts binfmt_misc below /proc. Without privilege a mount is copied only with what is
     * mounted below it. */
    if (tree < 0 && errno == EINVAL)
        tree = k_open_tree(AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    AUTO_CLOSE int target = SYS(open("proc", O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
    if (tree >= 0 && k_mount_setattr(tree, AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, errno, "set flags of '/proc'");
    if (tree < 0 || target < 0 || k_move_mount(tree, target) < 0)
        return err_sys(err, errno, "mount '/proc'");
    return 0;
}

/* An empty tree in memory, entered; comes back as its descriptor. */
static int begin_tree(const char *at, struct err *err)
{
    static const char *const options[] = {"mode=0755", "size=4m", NULL};
    AUTO_CLOSE int fs = mounts_new_fs("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    if (fs < 0)
        return -1;
    AUTO_CLOSE int target = SYS(open(at, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (target < 0 || k_move_mount(fs, target) < 0)
        return err_sys(err, errno, "mount at '%s'", at);
    if (SYS(fchdir(fs)) < 0)
        return err_sys(err, errno, "enter the new tree");
    return fd_take(&fs);
}

static int end_tree(int fs, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (k_mount_setattr(fs, AT_EMPTY_PATH, &attr) < 0)
        return err_sys(err, errno, "make the tree read-only");
    return 0;
}

/* What jails see is in 'tree'; around it is what only their setup needs. */
static int template_build(bool privileged, struct err *err)
{
    AUTO_CLOSE int workshop = begin_tree(BUILD_AT, err);
    if (workshop < 0 || add_layer_places(err) < 0 || add_base(err) < 0 || add_proc(err) < 0 ||
        make_dir("tree", 0755, err) < 0)
        return -1;
    AUTO_CLOSE int tree = begin_tree("tree", err);
    if (tree < 0 || add_programs(true, err) < 0 || add_etc(true, err) < 0 ||
        add_dev(privileged, err) < 0 || add_places(err) < 0 || end_tree(tree, err) < 0)
        return -1;
    if (SYS(fchdir(workshop)) < 0)
        return err_sys(err, errno, "return to the outer mount tree");
    return end_tree(workshop, err);
}

static int pivot_here(struct err *err)
{
    if (SYS(syscall(SYS_pivot_root, ".", ".")) < 0)
        return err_sys(err, errno, "pivot_root");
    if (SYS(umount2(".", MNT_DETACH)) < 0)
        return err_sys(err, errno, "leave the old root");
    if (SYS(chdir("/")) < 0)
        return err_sys(err, errno, "chdir '/'");
    return 0;
}

static int open_ns(struct err *err)
{
    int fd = SYS(open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return err_sys(err, errno, "open the mount namespace");
    return fd;
}

int template_enter(struct template *template, bool privileged, struct err *err)
{
    *template =
        (struct template){.host_ns = -1, .own_ns = -1, .proc_fd = -1, .privileged = privileged};
    /* Without privilege the host's own namespace is not ours to come back to: a copy is. */
    if (!privileged && SYS(unshare(CLONE_NEWNS)) < 0)
        return err_sys(err, errno, "make a mount namespace");
    template->host_ns = open_ns(err);
    template->proc_fd = SYS(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (template->host_ns < 0 || template->proc_fd < 0)
        return -1;
    if (SYS(unshare(CLONE_NEWNS)) < 0)
        return err_sys(err, errno, "make a mount namespace");
    if (SYS(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) < 0)
        return err_sys(err, errno, "make mounts private");
    if (template_build(privileged, err) < 0 || pivot_here(err) < 0)
        return err_wrap(err, "build the template");
    template->own_ns = open_ns(err);
    return template->own_ns < 0 ? -1 : 0;
}

void template_done(struct template *template)
{
    fd_close(&template->host_ns);
    fd_close(&template->own_ns);
    fd_close(&template->proc_fd);
}
