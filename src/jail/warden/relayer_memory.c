/* Sealing a writable layer, in memory or on the jail's disk: it takes no more writes, and the next
 * one, in the same filesystem, takes them.
 *
 * The layers are JAIL_ANCHOR_MEMORY/N. The layers on disk below them stay mounted in the spare
 * place from one seal to the next, since most of them are the same each time. */

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/statfs.h>

#include "base/fd.h"
#include "jail/inside/mounts_internal.h"
#include "jail/inside/overlay.h"
#include "jail/warden/relayer_internal.h"
#include "jail/wire/linux.h"
#include "jail/wire/wire.h"

/* <sys/mount.h> and <linux/mount.h> cannot be read together with glibc 2.36. */
extern int umount2(const char *target, int flags);

enum { PATH_SIZE = 32 };

/* --- In the jail --- */

int relayer_memory_check(struct relayer_job *job, struct err *err)
{
    struct statfs fs;
    job->memory_fd = SYS(open(JAIL_ANCHOR_MEMORY, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (job->memory_fd < 0 || SYS(fstatfs(job->memory_fd, &fs)) < 0)
        return err_sys(err, errno, "open the layers in memory");
    int64_t used = (int64_t)(fs.f_blocks - fs.f_bfree) * (int64_t)fs.f_bsize;
    if (fs.f_blocks == 0 || used > job->seal->most_bytes)
        return err_set(err, ERR_LIMIT, "the written files exceed the limit for layers in memory");
    return 0;
}

static int set_read_only(int memory_fd, bool read_only)
{
    struct mount_attr attr = {.attr_set = read_only ? MOUNT_ATTR_RDONLY : 0,
                              .attr_clr = read_only ? 0 : MOUNT_ATTR_RDONLY};
    return k_mount_setattr(memory_fd, AT_EMPTY_PATH, &attr);
}

void relayer_memory_close(const struct relayer_job *job)
{
    if (job->memory_fd >= 0)
        (void)!set_read_only(job->memory_fd, true);
}

static bool drops(const struct relayer_job *job)
{
    return job->seal->kept == JAIL_SEAL_NONE;
}

/* The layer that takes the writes next. Its mode is what the jail sees at "/". */
static int add_next(const struct relayer_job *job, struct err *err)
{
    char path[PATH_SIZE];
    struct stat st;
    if (set_read_only(job->memory_fd, false) < 0)
        return err_sys(err, errno, "open the layers in memory");
    (void)snprintf(path, sizeof path, "%u/upper", job->made->memory.numbers[0]);
    if (SYS(fstatat(job->memory_fd, path, &st, AT_SYMLINK_NOFOLLOW)) < 0)
        return err_sys(err, errno, "inspect the writable layer");
    (void)snprintf(path, sizeof path, "%u", job->next);
    if (SYS(mkdirat(job->memory_fd, path, 0755)) < 0)
        return err_sys(err, errno, "make the next layer");
    (void)snprintf(path, sizeof path, "%u/work", job->next);
    if (SYS(mkdirat(job->memory_fd, path, 0755)) < 0)
        return err_sys(err, errno, "make the next layer");
    (void)snprintf(path, sizeof path, "%u/upper", job->next);
    if (SYS(mkdirat(job->memory_fd, path, 0755)) < 0 ||
        ((st.st_mode & 01777) != 0755 && !drops(job) &&
         SYS(fchmodat(job->memory_fd, path, st.st_mode & 01777, 0)) < 0))
        return err_sys(err, errno, "make the next layer");
    return 0;
}

/* Both of them and a mount of their own, which can be written to: what was sealed is emptied by
 * its owner when no root needs it any more. */
static int send_layers(const struct relayer_job *job, struct err *err)
{
    const uint32_t numbers[2] = {job->made->memory.numbers[0], job->next};
    const struct wire_head head = {0};
    int fds[3] = {
        -1, -1,
        k_open_tree(job->memory_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH)};
    if (fds[2] < 0)
        return err_sys(err, errno, "open the layers in memory");
    for (int i = 0; i < 2; i++) {
        char path[PATH_SIZE];
        (void)snprintf(path, sizeof path, "%u/upper", numbers[i]);
        fds[i] = SYS(openat(fds[2], path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (fds[i] < 0)
            return err_sys(err, errno, "open a layer in memory");
    }
    /* Ours end with this process. */
    return wire_send(job->line_fd, str_n((const char *)&head, sizeof head), fds, 3, err);
}

static int put_missing(struct relayer_job *job, struct err *err)
{
    if (job->made->memory.has_spare && !job->has_spare &&
        SYS(umount2(JAIL_ANCHOR_SPARE, RELAYER_DETACH)) < 0)
        return err_sys(err, errno, "clear the temporary mount point");
    if (!job->has_spare && (relayer_put_spare(job, err) < 0 ||
                            relayer_put_layer(job->base_fd, JAIL_ANCHOR_SPARE "/base", err) < 0 ||
                            SYS(mkdir(JAIL_ANCHOR_SPARE "/new", 0755)) < 0))
        return -1;
    for (size_t i = 0; i < job->set->layer_count; i++) {
        char path[PATH_SIZE];
        (void)snprintf(path, sizeof path, JAIL_ANCHOR_SPARE "/%zu", job->placed + i);
        if (relayer_put_layer(job->set->layer_fds[i], path, err) < 0)
            return -1;
    }
    return 0;
}

static int make_overlay(const struct relayer_job *job, struct err *err)
{
    const struct relayer_memory *memory = &job->made->memory;
    char paths[JAIL_LAYERS_MAX + RELAYER_LAYERS_MAX + 2][PATH_SIZE], upper[PATH_SIZE];
    const char *lower[countof(paths)];
    struct overlay overlay = {.lower = lower, .upper = upper, .syncs = job->plan->disk != NULL};
    for (size_t i = 0; !drops(job) && i <= job->seal->kept; i++)
        (void)snprintf(paths[overlay.lower_count++], PATH_SIZE, JAIL_ANCHOR_MEMORY "/%u/upper",
                       memory->numbers[i]);
    for (size_t i = job->plan->layer_count; i-- > 0;)
        (void)snprintf(paths[overlay.lower_count++], PATH_SIZE, JAIL_ANCHOR_SPARE "/%zu", i);
    (void)snprintf(paths[overlay.lower_count++], PATH_SIZE, JAIL_ANCHOR_SPARE "/base");
    for (size_t i = 0; i < overlay.lower_count; i++)
        lower[i] = paths[i];
    (void)snprintf(upper, sizeof upper, JAIL_ANCHOR_MEMORY "/%u", job->next);
    return overlay_make(&overlay, JAIL_ANCHOR_SPARE "/new", err);
}

/* Without the layers before it there may be no working directory yet. */
static int own_places(const struct relayer_job *job, struct err *err)
{
    char path[PATH_SIZE];
    struct jail_plan plan = *job->plan;
    plan.disk_layer_count = 0;
    (void)snprintf(path, sizeof path, "%u/upper", job->next);
    AUTO_CLOSE int upper =
        SYS(openat(job->memory_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (upper < 0)
        return err_sys(err, errno, "open the next layer");
    return mounts_own_places(job->set, &plan, upper, err);
}

int relayer_memory_build(struct relayer_job *job, struct err *err)
{
    if (put_missing(job, err) < 0 || add_next(job, err) < 0 ||
        (drops(job) && own_places(job, err) < 0) || send_layers(job, err) < 0)
        return -1;
    job->new_fd = make_overlay(job, err);
    return job->new_fd < 0 ? -1 : 0;
}

/* --- In the warden --- */

/* The sealed layer, the next, and their mount. */
static int take_layers(int line, int ret_fds[3], struct err *err)
{
    static char space[WIRE_MAX];
    int fds[WIRE_FDS_MAX];
    if (wire_recv(line, space, fds, false, err) <= 0)
        return -1;
    memcpy(ret_fds, fds, 3 * sizeof fds[0]);
    for (int i = 0; i < 3; i++)
        if (fds[i] < 0)
            return err_set(err, ERR_INTERNAL, "the process that replaces the root sent no layers");
    return 0;
}

/* What lies in the spare place is used again if the plan begins with it. */
static void find_placed(const struct relayer_memory *memory, struct relayer_job *job)
{
    struct str rest = buf_str(&memory->placed), line;
    size_t count = 0;
    while (rest.len > 0 && str_split(&rest, '\n', &line)) {
        if (count == job->plan->layer_count || !str_eq(line, str_of(job->plan->layers[count])))
            return;
        count++;
    }
    job->has_spare = memory->has_spare;
    job->placed = count;
}

static void note_sealed(struct relayer_memory *memory, const struct relayer_job *job)
{
    size_t kept = drops(job) ? 0 : job->seal->kept;
    memmove(&memory->numbers[1], memory->numbers, (kept + 1) * sizeof memory->numbers[0]);
    memory->numbers[0] = job->next;
    memory->count = drops(job) ? 1 : kept + 2;
    memory->has_spare = true;
    memory->moves = job->moved > 0 ? memory->moves + 1 : 0;
    for (size_t i = 0; i < job->plan->layer_count; i++)
        buf_printf(&memory->placed, "%s\n", job->plan->layers[i]);
}

static int check_seal(const struct made *made, const struct jail_plan *plan, size_t kept,
                      struct err *err)
{
    if (made->layer_fd < 0 || plan->base != NULL)
        return err_set(err, ERR_UNSUPPORTED, "the jail has no layer that can be sealed");
    if (kept == JAIL_SEAL_NONE)
        return 0;
    if (kept >= made->memory.count || kept + 2 > RELAYER_LAYERS_MAX)
        return err_set(err, ERR_LIMIT, "too many layers in memory");
    return 0;
}

static int relayer_memory_run(struct builder *builder, struct relayer_job *job, struct err *err)
{
    struct mount_set set;
    if (relayer_begin(builder, job, &set, err) < 0)
        return -1;
    AUTO_CLOSE int old_root = relayer_hold_root(builder, job->made);
    int done = relayer_check_processes(job, old_root, err);
    if (done == 0)
        done = relayer_run_job(job, err);
    mount_set_done(&set);
    fd_close(&job->base_fd);
    fd_closer_take(&builder->fd_closer, &old_root);
    return done;
}

int relayer_seal(struct builder *builder, struct made *made, const struct jail_plan *plan,
                 const struct jail_seal *seal, bool *ret_broken, struct err *err)
{
    struct relayer_memory *memory = &made->memory;
    int pair[2], fds[3] = {-1, -1, -1};
    *ret_broken = false;
    memory->count = MAX(memory->count, (size_t)1);
    if (check_seal(made, plan, seal->kept, err) < 0)
        return -1;
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "socketpair");
    AUTO_CLOSE int ours = pair[0], theirs = pair[1];
    struct relayer_job job = {.made = made, .plan = plan, .seal = seal, .line_fd = theirs};
    if (!drops(&job)) /* that looks at all of them */
        find_placed(memory, &job);
    job.next = ++memory->last; /* one that failed is not used again */
    int done = relayer_memory_run(builder, &job, err);
    *ret_broken = job.broken;
    buf_clear(&memory->placed);
    memory->has_spare = false;
    if (done == 0 && (done = take_layers(ours, fds, err)) < 0)
        *ret_broken = true;
    fd_closer_take(&builder->fd_closer, &fds[2]);
    if (done < 0)
        return -1;
    note_sealed(memory, &job);
    fd_closer_take(&builder->fd_closer, &made->layer_fd);
    made->layer_fd = fds[1];
    return fds[0];
}
