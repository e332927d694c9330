#include "jail/warden/relayer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "jail/inside/mounts_internal.h"
#include "jail/warden/relayer_internal.h"
#include "jail/wire/linux.h"

/* <sys/mount.h> and <linux/mount.h> cannot be read together with glibc 2.36. */
extern int umount2(const char *target, int flags);

/* From here on we are what the jail's first process was when it built its tree. */
static int enter_jail(struct relayer_job *job, struct err *err)
{
    if (SYS(setns(job->made->pidfd, CLONE_NEWUSER | CLONE_NEWNS)) < 0)
        return err_sys(err, errno, "enter the jail");
    if (SYS(setresgid(JAIL_GID, JAIL_GID, JAIL_GID)) < 0 ||
        SYS(setresuid(JAIL_UID, JAIL_UID, JAIL_UID)) < 0)
        return err_sys(err, errno, "become the sandbox user");
    struct statx st;
    job->anchor_fd = SYS(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    job->old_fd = SYS(open(JAIL_ANCHOR_ROOT, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (job->anchor_fd < 0 || job->old_fd < 0 ||
        k_statx(job->old_fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) < 0 ||
        (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0)
        return err_set(err, ERR_UNSUPPORTED, "this jail has no layers");
    job->old_mount = st.stx_mnt_id;
    return 0;
}

/* A process other than init would keep what it has open, and its working directory, on the old
 * root. Those that may be moved were checked before. */
static int check_alone(const struct relayer_job *job, struct err *err)
{
    if (job->seal->processes > 0)
        return 0;
    AUTO_CLOSE int proc = SYS(openat(job->old_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *dir = proc < 0 ? NULL : fdopendir(proc);
    if (dir == NULL)
        return err_sys(err, errno, "read the jail's /proc");
    (void)fd_take(&proc); /* the stream's now */
    bool others = false;
    for (struct dirent *entry; !others && (entry = readdir(dir)) != NULL;)
        others =
            entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && strcmp(entry->d_name, "1") != 0;
    (void)closedir(dir);
    return others ? err_set(err, ERR_BUSY, "commands are running") : 0;
}

/* On this mount, the only one there is: the kernel refuses while a file is open for writing. */
static int stop_writes(struct relayer_job *job, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (k_mount_setattr(job->old_fd, AT_EMPTY_PATH, &attr) < 0)
        return errno == EBUSY ? err_set(err, ERR_BUSY, "a file of the layer is open for writing")
                              : err_sys(err, errno, "stop writes to the layer");
    job->read_only = true;
    return 0;
}

int relayer_put_layer(int fd, const char *path, struct err *err)
{
    if (SYS(mkdir(path, 0755)) < 0)
        return err_sys(err, errno, "make '%s'", path);
    AUTO_CLOSE int target = mounts_open_target(path, err);
    if (target < 0)
        return -1;
    if (k_move_mount(fd, target) < 0)
        return err_sys(err, errno, "mount '%s'", path);
    return 0;
}

int relayer_put_spare(struct relayer_job *job, struct err *err)
{
    static const char *const options[] = {"mode=0755", "size=64k", NULL};
    AUTO_CLOSE int spare =
        mounts_new_fs("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    AUTO_CLOSE int target = spare < 0 ? -1 : mounts_open_target(JAIL_ANCHOR_SPARE, err);
    if (target < 0)
        return -1;
    if (k_move_mount(spare, target) < 0)
        return err_sys(err, errno, "mount a temporary mount point");
    job->has_spare = true;
    return 0;
}

/* The new root, put together where no process of the jail can look, then laid over the old one.
 * Paths, because the kernel takes no descriptors of mounts that belong to our own user namespace.
 */
static int build_new(struct relayer_job *job, struct err *err)
{
    if (relayer_memory_build(job, err) < 0)
        return -1;
    if (k_move_mount(job->new_fd, job->old_fd) < 0)
        return err_sys(err, errno, "mount the new root");
    job->has_new = true;
    return 0;
}

static bool is_mount_of(int fd, struct stat *ret_st)
{
    struct statx st;
    return k_statx(fd, "", AT_EMPTY_PATH, 0, &st) == 0 &&
           (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 && fstat(fd, ret_st) == 0;
}

/* `path` without the leading slash. Not a mount of its own: nothing to do. */
static int add_place(struct relayer_job *job, const char *path, struct err *err)
{
    struct stat from, to;
    AUTO_CLOSE int from_fd = mounts_open_in(job->old_fd, path);
    if (from_fd < 0 || !is_mount_of(from_fd, &from))
        return 0;
    AUTO_CLOSE int to_fd = mounts_open_in(job->new_fd, path);
    if (to_fd < 0 && errno == ENOENT)
        to_fd = mounts_make_in(job->new_fd, path, S_ISDIR(from.st_mode));
    if (to_fd < 0)
        return err_set(err, ERR_INVALID, "bad_rootfs: '/%s' cannot be a mount point: %s", path,
                       strerror(errno));
    if (SYS(fstat(to_fd, &to)) < 0 || S_ISDIR(from.st_mode) != S_ISDIR(to.st_mode))
        return err_set(err, ERR_INVALID, "bad_rootfs: '/%s' is %sa directory", path,
                       S_ISDIR(from.st_mode) ? "not " : "");
    assert(job->place_count < RELAYER_PLACES_MAX);
    job->places[job->place_count++] =
        (struct relayer_place){.from_fd = fd_take(&from_fd), .to_fd = fd_take(&to_fd)};
    return 0;
}

/* A volume inside another moves with it. */
static bool is_inside_another(const struct jail_plan *plan, size_t which)
{
    const char *dst = plan->mounts[which].dst;
    if (plan->workspace != NULL && strncmp(dst, "/workspace/", 11) == 0)
        return true;
    for (size_t i = 0; i < plan->mount_count; i++) {
        size_t len = strlen(plan->mounts[i].dst);
        if (i != which && strncmp(dst, plan->mounts[i].dst, len) == 0 && dst[len] == '/')
            return true;
    }
    return false;
}

static int add_places(struct relayer_job *job, struct err *err)
{
    const struct jail_plan *plan = job->plan;
    for (size_t i = 0; mounts_template_parts[i] != NULL; i++)
        if (job->parts[i] && add_place(job, mounts_template_parts[i], err) < 0)
            return -1;
    if (add_place(job, "proc", err) < 0 || add_place(job, "tmp", err) < 0 ||
        add_place(job, "workspace", err) < 0)
        return -1;
    for (size_t i = 0; i < plan->mount_count; i++)
        if (!is_inside_another(plan, i) && strcmp(plan->mounts[i].dst, "/workspace") != 0 &&
            add_place(job, plan->mounts[i].dst + 1, err) < 0)
            return -1;
    return 0;
}

/* pivot_root moves every process that stands at the old root, in the whole namespace. */
static int switch_over(struct relayer_job *job, struct err *err)
{
    if (SYS(fchdir(job->old_fd)) < 0 || SYS(chroot(".")) < 0)
        return err_sys(err, errno, "enter the old root");
    job->broken = true;
    for (size_t i = 0; i < job->place_count; i++)
        if (k_move_mount(job->places[i].from_fd, job->places[i].to_fd) < 0)
            return err_sys(err, errno, "move a mount");
    if (SYS(fchdir(job->new_fd)) < 0 || SYS(syscall(SYS_pivot_root, ".", ".")) < 0)
        return err_sys(err, errno, "pivot_root");
    job->broken = false;
    job->read_only = job->has_new = false; /* it stays so; and the new one stays */
    if (SYS(umount2(".", RELAYER_DETACH)) < 0)
        return err_sys(err, errno, "leave the old root");
    job->keeps_spare = true;
    return 0;
}

/* What an attempt that failed left, in reverse; the spare place goes either way. */
static void tidy(struct relayer_job *job)
{
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
    if (job->anchor_fd >= 0 && fchdir(job->anchor_fd) == 0) {
        if (job->has_new && !job->broken)
            (void)umount2(&JAIL_ANCHOR_ROOT[1], RELAYER_DETACH);
        if (job->has_spare && !job->keeps_spare)
            (void)umount2(&JAIL_ANCHOR_SPARE[1], RELAYER_DETACH);
    }
    if (job->read_only && !job->broken)
        (void)k_mount_setattr(job->old_fd, AT_EMPTY_PATH, &attr);
    relayer_memory_close(job);
}

/* In a process of its own, which shares our memory: what it says is in `job` afterwards. */
static void NORETURN run_child(struct relayer_job *job)
{
    struct err *err = &job->err;
    int done = enter_jail(job, err);
    if (done == 0)
        done = check_alone(job, err);
    if (done == 0)
        done = relayer_memory_check(job, err);
    if (done == 0)
        done = stop_writes(job, err);
    if (done == 0)
        done = build_new(job, err);
    if (done == 0)
        done = add_places(job, err);
    if (done == 0)
        done = switch_over(job, err);
    tidy(job);
    _exit(done == 0 ? 0 : 1);
}

int relayer_run_job(struct relayer_job *job, struct err *err)
{
    int status = 0;
    pid_t pid = SYS(vfork());
    if (pid == 0)
        run_child(job);
    if (pid < 0)
        return err_sys(err, errno, "fork");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    /* The child wrote to it: on a way that, for the compiler, never came back here. */
    __asm__ volatile("" : "+m"(*job));
    if (status == 0)
        return 0;
    if (job->err.code == ERR_NONE) {
        job->broken = true;
        return err_set(err, ERR_INTERNAL, "the process that replaces the root died (status %d)",
                       status);
    }
    *err = job->err;
    return -1;
}

/* On most hosts half of them are links. Looked up once: the template never changes. */
static const bool *real_parts(void)
{
    static bool parts[MOUNTS_PARTS_MAX], known;
    for (size_t i = 0; !known && mounts_template_parts[i] != NULL; i++) {
        char path[64];
        struct stat st;
        assert(i < MOUNTS_PARTS_MAX);
        (void)snprintf(path, sizeof path, TREE "/%s", mounts_template_parts[i]);
        parts[i] = lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
    }
    known = true;
    return parts;
}

int relayer_hold_root(const struct builder *builder, const struct made *made)
{
    char path[32];
    (void)snprintf(path, sizeof path, "%d/root", (int)made->pid);
    return openat(builder->template.proc_fd, path, O_PATH | O_CLOEXEC);
}

int relayer_begin(const struct builder *builder, struct relayer_job *job, struct mount_set *set,
                  struct err *err)
{
    struct jail_plan layers = *job->plan;
    struct made *made = job->made;
    layers.workspace = layers.disk = NULL;
    layers.disk_layer_count = 0;
    layers.mount_count = 0;
    layers.layer_count -= job->placed;
    memmove(layers.layers, &job->plan->layers[job->placed],
            layers.layer_count * sizeof layers.layers[0]);
    AUTO_CLOSE int base =
        layers.base != NULL ? -1 : k_open_tree(AT_FDCWD, BASE, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (layers.base == NULL && base < 0)
        return err_sys(err, errno, "open the base");
    if (mount_set_open(set, &builder->template, &layers, made->outer_id, &made->map, err) < 0)
        return -1;
    job->set = set;
    job->base_fd = fd_take(&base);
    job->parts = real_parts();
    job->memory_fd = job->anchor_fd = job->old_fd = job->new_fd = -1;
    return 0;
}
