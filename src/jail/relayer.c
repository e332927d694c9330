#include "jail/relayer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#ifndef STATX_MNT_ID
#include <linux/stat.h> /* musl has none of it */
#endif
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/kernel.h"
#include "jail/mounts_internal.h"
#include "jail/overlay.h"
#include "jail/wire.h"

/* <sys/mount.h> and <linux/mount.h> cannot be read together with glibc 2.36. */
extern int umount2(const char *target, int flags);
static int k_statx(int dir_fd, const char *path, int flags, unsigned mask, struct statx *st)
{
    return (int)syscall(SYS_statx, dir_fd, path, flags, mask, st);
}

enum { DETACH = 2, PLACES_MAX = JAIL_MOUNTS_MAX + 16 };

/* A mount on the old root and where it goes. */
struct place {
    int from_fd, to_fd;
};

struct job {
    const struct made *made;
    const struct mount_set *set;
    const struct jail_plan *plan;
    int base_fd;                     /* lowest layer; -1: the plan's own */
    const struct relayer_seal *seal; /* NULL: the layers are on disk */
    uint32_t next;                   /* number of the layer in memory that takes the writes then */
    int memory_fd, line_fd;          /* of the layers in memory; where their descriptors go */
    bool frozen;
    bool others;       /* commands are running */
    const bool *parts; /* of mounts_template_parts: which are mounts at all */
    int anchor_fd, old_fd, new_fd;
    uint64_t old_mount;
    struct place places[PLACES_MAX];
    size_t place_count;
    bool broken;
    bool read_only; /* the old root is */
    bool has_spare, has_new;
    struct err err;
};

/* From here on we are what the jail's first process was when it built its tree. */
static int enter_jail(struct job *job, struct err *err)
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

/* Anywhere on the old root but at its top, which moves by itself. */
static bool stands_inside(const struct job *job, int proc_fd, const char *pid)
{
    char path[300];
    struct statx st, top;
    (void)snprintf(path, sizeof path, "%.200s/cwd", pid);
    if (k_statx(proc_fd, path, 0, STATX_MNT_ID | STATX_INO, &st) < 0 ||
        k_statx(job->old_fd, "", AT_EMPTY_PATH, STATX_INO, &top) < 0)
        return false; /* it has ended */
    return st.stx_mnt_id == job->old_mount && st.stx_ino != top.stx_ino;
}

/* What a tenant calls itself, fit for a message. */
static void read_name(int proc_fd, const char *pid, char out[32])
{
    char path[300];
    (void)snprintf(path, sizeof path, "%.200s/comm", pid);
    AUTO_CLOSE int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, out, 31);
    out[len > 0 ? len - 1 : 0] = '\0'; /* without the end of its line */
    for (char *c = out; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

static int check_process(struct job *job, int proc_fd, const char *pid, struct err *err)
{
    char name[32];
    job->others |= strcmp(pid, "1") != 0;
    if (job->others && job->seal != NULL)
        return err_set(err, ERR_BUSY, "commands are running");
    if (job->others && !job->frozen)
        return err_set(err, ERR_UNSUPPORTED,
                       "commands are running and this host cannot freeze them for the moment");
    if (!stands_inside(job, proc_fd, pid))
        return 0;
    read_name(proc_fd, pid, name);
    return err_set(err, ERR_BUSY,
                   "'%s' (process %.10s) works in a directory of the layer; end it, or start it "
                   "with a volume or '/' as its working directory",
                   name, pid);
}

typedef int process_check(struct job *job, int proc_fd, const char *pid, struct err *err);

static int each_process(struct job *job, process_check *check, struct err *err)
{
    AUTO_CLOSE int proc = SYS(openat(job->old_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    AUTO_CLOSE int copy = proc < 0 ? -1 : fcntl(proc, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL)
        return err_sys(err, errno, "read the jail's /proc");
    (void)fd_take(&copy); /* the stream's now */
    int done = 0;
    for (struct dirent *entry; done == 0 && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            done = check(job, proc, entry->d_name, err);
    (void)closedir(dir);
    return done;
}

/* Whether this entry of fdinfo is open for writing on the old root. */
static bool is_written(const struct job *job, int dir_fd, const char *name)
{
    char text[256];
    AUTO_CLOSE int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[len > 0 ? len : 0] = '\0';
    const char *flags = strstr(text, "flags:"), *mount = strstr(text, "mnt_id:");
    return flags != NULL && mount != NULL &&
           (strtoul(flags + 6, NULL, 8) & O_ACCMODE) != O_RDONLY &&
           strtoull(mount + 7, NULL, 10) == job->old_mount;
}

/* Fails with its name if it is a process that keeps the layer from being frozen. */
static int name_writer(struct job *job, int proc_fd, const char *pid, struct err *err)
{
    char path[300], name[32];
    (void)snprintf(path, sizeof path, "%.200s/fdinfo", pid);
    int fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool found = false;
    if (dir == NULL) {
        fd_close(&fd);
        return 0;
    }
    for (struct dirent *entry; !found && (entry = readdir(dir)) != NULL;)
        found = entry->d_name[0] != '.' && is_written(job, dirfd(dir), entry->d_name);
    (void)closedir(dir);
    if (!found)
        return 0;
    read_name(proc_fd, pid, name);
    return err_set(err, ERR_BUSY,
                   "'%s' (process %.10s) has a file of the layer open for writing; let it finish, "
                   "end it, or let it write to a volume or below /tmp",
                   name, pid);
}

/* On this mount, the only one there is: the kernel refuses while a file is open for writing. */
static int stop_writes(struct job *job, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (k_mount_setattr(job->old_fd, AT_EMPTY_PATH, &attr) == 0) {
        job->read_only = true;
        return 0;
    }
    if (errno != EBUSY)
        return err_sys(err, errno, "stop writes to the layer");
    if (each_process(job, name_writer, err) < 0)
        return -1;
    return err_set(err, ERR_BUSY,
                   "a command has a file of the layer open for writing; let it finish, end it, or "
                   "let it write to a volume or below /tmp");
}

static int put_layer(int fd, const char *path, struct err *err)
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

/* What is sealed stays where it is, and so does what takes the writes next. */
static int put_memory(struct job *job, char paths[][32], struct overlay *overlay, char upper[32],
                      const char **lower, struct err *err)
{
    const struct relayer_memory *memory = &job->made->memory;
    int fds[2];
    if (relayer_memory_add(job->memory_fd, memory->numbers[0], job->next, err) < 0 ||
        relayer_memory_open(job->memory_fd, memory->numbers[0], job->next, fds, err) < 0)
        return -1;
    const struct wire_head head = {0};
    if (wire_send(job->line_fd, str_n((const char *)&head, sizeof head), fds, 2, err) < 0)
        return -1;
    for (size_t i = 0; i <= job->seal->kept; i++) {
        (void)snprintf(paths[i], 32, JAIL_ANCHOR_MEMORY "/%u/upper", memory->numbers[i]);
        lower[overlay->lower_count++] = paths[i];
    }
    (void)snprintf(upper, 32, JAIL_ANCHOR_MEMORY "/%u", job->next);
    overlay->upper = upper;
    return 0;
}

static int put_disk(struct job *job, struct err *err)
{
    if (put_layer(job->set->upper_fd, JAIL_ANCHOR_SPARE "/rw", err) < 0)
        return -1;
    AUTO_CLOSE int upper = mounts_open_target(JAIL_ANCHOR_SPARE "/rw/upper", err);
    if (upper < 0 || (job->base_fd >= 0 && mounts_own_places(job->set, job->plan, upper, err) < 0))
        return -1;
    return 0;
}

static int put_layers(struct job *job, struct err *err)
{
    char paths[JAIL_LAYERS_MAX + 2][32], sealed[RELAYER_LAYERS_MAX][32], upper[32];
    const char *lower[JAIL_LAYERS_MAX + RELAYER_LAYERS_MAX + 2];
    struct overlay overlay = {.lower = lower, .upper = JAIL_ANCHOR_SPARE "/rw"};
    if (job->seal != NULL && put_memory(job, sealed, &overlay, upper, lower, err) < 0)
        return -1;
    for (size_t i = job->set->layer_count; i-- > 0;) {
        (void)snprintf(paths[i], sizeof paths[i], JAIL_ANCHOR_SPARE "/%zu", i);
        if (put_layer(job->set->layer_fds[i], paths[i], err) < 0)
            return -1;
        lower[overlay.lower_count++] = paths[i];
    }
    if (job->base_fd >= 0) {
        if (put_layer(job->base_fd, JAIL_ANCHOR_SPARE "/base", err) < 0)
            return -1;
        lower[overlay.lower_count++] = JAIL_ANCHOR_SPARE "/base";
    }
    if (job->seal == NULL && put_disk(job, err) < 0)
        return -1;
    if (SYS(mkdir(JAIL_ANCHOR_SPARE "/new", 0755)) < 0)
        return err_sys(err, errno, "make a place");
    return overlay_mount(&overlay, JAIL_ANCHOR_SPARE "/new", err);
}

/* The new root, put together where no process of the jail can look, then laid over the old one.
 * Paths, because the kernel takes no descriptors of mounts that belong to our own user namespace.
 */
static int build_new(struct job *job, struct err *err)
{
    static const char *const options[] = {"mode=0755", "size=64k", NULL};
    AUTO_CLOSE int spare =
        mounts_new_fs("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    AUTO_CLOSE int target = spare < 0 ? -1 : mounts_open_target(JAIL_ANCHOR_SPARE, err);
    if (target < 0)
        return -1;
    if (k_move_mount(spare, target) < 0)
        return err_sys(err, errno, "mount a spare place");
    job->has_spare = true;
    if (put_layers(job, err) < 0)
        return -1;
    job->new_fd = mounts_open_target(JAIL_ANCHOR_SPARE "/new", err);
    if (job->new_fd < 0)
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
static int add_place(struct job *job, const char *path, struct err *err)
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
    assert(job->place_count < PLACES_MAX);
    job->places[job->place_count++] =
        (struct place){.from_fd = fd_take(&from_fd), .to_fd = fd_take(&to_fd)};
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

static int add_places(struct job *job, struct err *err)
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
static int switch_over(struct job *job, struct err *err)
{
    if (SYS(fchdir(job->old_fd)) < 0 || SYS(chroot(".")) < 0)
        return err_sys(err, errno, "stand at the old root");
    job->broken = true;
    for (size_t i = 0; i < job->place_count; i++)
        if (k_move_mount(job->places[i].from_fd, job->places[i].to_fd) < 0)
            return err_sys(err, errno, "move a mount over");
    if (SYS(fchdir(job->new_fd)) < 0 || SYS(syscall(SYS_pivot_root, ".", ".")) < 0)
        return err_sys(err, errno, "pivot_root");
    job->broken = false;
    job->read_only = job->has_new = false; /* it stays so; and the new one stays */
    if (SYS(umount2(".", DETACH)) < 0)
        return err_sys(err, errno, "leave the old root");
    return 0;
}

/* What an attempt that failed left, in reverse; the spare place goes either way. */
static void tidy(struct job *job)
{
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
    if (job->anchor_fd >= 0 && fchdir(job->anchor_fd) == 0) {
        if (job->has_new && !job->broken)
            (void)umount2(&JAIL_ANCHOR_ROOT[1], DETACH);
        if (job->has_spare)
            (void)umount2(&JAIL_ANCHOR_SPARE[1], DETACH);
    }
    if (job->read_only && !job->broken)
        (void)k_mount_setattr(job->old_fd, AT_EMPTY_PATH, &attr);
    if (job->memory_fd >= 0)
        relayer_memory_close(job->memory_fd);
}

static int check_memory(struct job *job, struct err *err)
{
    if (job->seal == NULL)
        return 0;
    job->memory_fd = relayer_memory_enter(err);
    if (job->memory_fd < 0)
        return -1;
    return relayer_memory_check(job->memory_fd, job->seal->most_bytes, err);
}

/* In a process of its own, which shares our memory: what it says is in `job` afterwards. */
static void NORETURN run_child(struct job *job)
{
    struct err *err = &job->err;
    int done = enter_jail(job, err);
    if (done == 0)
        done = each_process(job, check_process, err);
    if (done == 0)
        done = check_memory(job, err);
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

static int run_job(struct job *job, struct err *err)
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
        return err_set(err, ERR_INTERNAL, "the exchange of a root died (status %d)", status);
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

/* Taking the old overlay apart costs as much as half of the exchange: held here, that is done when
 * nobody waits. */
static int hold_root(const struct maker *maker, const struct made *made)
{
    char path[32];
    (void)snprintf(path, sizeof path, "%d/root", (int)made->pid);
    return openat(maker->template.proc_fd, path, O_PATH | O_CLOEXEC);
}

/* The layers of a plan, and the job that exchanges the root for one made of them. */
static int begin(const struct maker *maker, struct made *made, const struct jail_plan *plan,
                 struct mount_set *set, struct job *ret_job, struct err *err)
{
    struct jail_plan layers = *plan;
    layers.workspace = NULL;
    layers.mount_count = 0;
    AUTO_CLOSE int base =
        plan->base != NULL ? -1 : k_open_tree(AT_FDCWD, BASE, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (plan->base == NULL && base < 0)
        return err_sys(err, errno, "open the base");
    if (mount_set_open(set, &maker->template, &layers, made->outer_id, &made->map, err) < 0)
        return -1;
    *ret_job = (struct job){.made = made,
                            .set = set,
                            .plan = plan,
                            .base_fd = fd_take(&base),
                            .parts = real_parts(),
                            .memory_fd = -1,
                            .line_fd = -1,
                            .anchor_fd = -1,
                            .old_fd = -1,
                            .new_fd = -1};
    return 0;
}

/* From the process that made them: the sealed layer and the next. */
static int take_layers(int line, int ret_fds[2], struct err *err)
{
    static char space[WIRE_MAX];
    int fds[WIRE_FDS_MAX];
    if (wire_recv(line, space, fds, false, err) <= 0)
        return -1;
    if (fds[0] < 0 || fds[1] < 0)
        return err_set(err, ERR_INTERNAL, "the exchange of a root sent no layers");
    ret_fds[0] = fds[0];
    ret_fds[1] = fds[1];
    return 0;
}

static void note_sealed(struct relayer_memory *memory, size_t kept, uint32_t next)
{
    memmove(&memory->numbers[1], memory->numbers, (kept + 1) * sizeof memory->numbers[0]);
    memory->numbers[0] = next;
    memory->count = kept + 2;
}

int relayer_seal(struct maker *maker, struct made *made, const struct jail_plan *plan,
                 const struct relayer_seal *seal, bool *ret_broken, struct err *err)
{
    struct relayer_memory *memory = &made->memory;
    struct mount_set set;
    struct job job;
    int pair[2], fds[2] = {-1, -1};
    memory->count = MAX(memory->count, (size_t)1);
    *ret_broken = false;
    if (made->layer_fd < 0 || plan->upper != NULL)
        return err_set(err, ERR_UNSUPPORTED, "the jail writes to no layer in memory");
    if (seal->kept >= memory->count || seal->kept + 2 > RELAYER_LAYERS_MAX)
        return err_set(err, ERR_LIMIT, "no room for another layer in memory");
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "socketpair");
    AUTO_CLOSE int ours = pair[0], theirs = pair[1];
    if (begin(maker, made, plan, &set, &job, err) < 0)
        return -1;
    AUTO_CLOSE int base = job.base_fd;
    AUTO_CLOSE int old_root = hold_root(maker, made);
    job.seal = seal;
    job.next = ++memory->last; /* one that failed is not used again */
    job.line_fd = theirs;
    job.frozen = true;
    int done = run_job(&job, err);
    *ret_broken = job.broken;
    mount_set_done(&set);
    if (done == 0 && (done = take_layers(ours, fds, err)) < 0)
        *ret_broken = true;
    undertaker_take(&maker->undertaker, &old_root);
    if (done < 0)
        return -1;
    note_sealed(memory, seal->kept, job.next);
    undertaker_take(&maker->undertaker, &made->layer_fd);
    made->layer_fd = fds[1];
    return fds[0];
}

int relayer_run(struct maker *maker, struct made *made, const struct jail_plan *plan,
                bool was_frozen, bool *ret_broken, struct err *err)
{
    struct mount_set set;
    struct job start;
    struct err why = {0};
    *ret_broken = false;
    if (plan->upper == NULL)
        return err_set(err, ERR_UNSUPPORTED, "a layer in memory is sealed, not exchanged");
    if (begin(maker, made, plan, &set, &start, err) < 0)
        return -1;
    AUTO_CLOSE int base = start.base_fd;
    AUTO_CLOSE int old_root = hold_root(maker, made);
    start.frozen = was_frozen;
    struct job job = start;
    int done = run_job(&job, err);
    /* Init alone does nothing that it was not asked for, and its owner waits for us. */
    if (done < 0 && job.others && !was_frozen &&
        cgroup_freeze(&maker->cgroups, &made->cgroup, true, &why) == 0) {
        job = start;
        job.frozen = true;
        done = run_job(&job, err);
    }
    *ret_broken = job.broken;
    if (job.frozen && !was_frozen &&
        cgroup_freeze(&maker->cgroups, &made->cgroup, false, &why) < 0) {
        *ret_broken = true;
        *err = why;
        done = -1;
    }
    mount_set_done(&set);
    undertaker_take(&maker->undertaker, &old_root);
    return done;
}
