/* Stopping the processes of a group, and ending them. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "base/vec.h"
#include "jail/cgroup/cgroup_internal.h"
#include "jail/wire/linux.h"

/* Most processes that one round of cgroup_kill_again looks at. */
enum { KILL_PIDS_MAX = 4096 };

/* --- Freezing --- */

static int set_frozen(const struct cgroup_host *host, const struct cgroup *cgroup, bool frozen,
                      struct err *err)
{
    if (host->fds[CG_UNIFIED] < 0)
        return cgroup_set(host, CG_FREEZER, cgroup, "freezer.state", frozen ? "FROZEN" : "THAWED",
                          err);
    return cgroup_set(host, CG_UNIFIED, cgroup, "cgroup.freeze", frozen ? "1" : "0", err);
}

static int is_frozen_now(const struct cgroup_host *host, const struct cgroup *cgroup, bool frozen,
                         bool *ret_is, struct err *err)
{
    char path[CGROUP_NAME_SIZE + 32];
    bool is_v1 = host->fds[CG_UNIFIED] < 0;
    AUTO_BUF struct buf text = buf_with_limit(CGROUP_TEXT_MAX);
    struct str want = frozen ? STR("frozen 1") : STR("frozen 0");
    if (is_v1)
        want = frozen ? STR("FROZEN") : STR("THAWED");
    (void)snprintf(path, sizeof path, "%s/%s", cgroup->name,
                   is_v1 ? "freezer.state" : "cgroup.events");
    if (cgroup_read_text(cgroup_slot_fd(host, is_v1 ? CG_FREEZER : CG_UNIFIED), path, &text, err) <
        0)
        return -1;
    *ret_is = str_find(buf_str(&text), want) < text.len;
    return 0;
}

/* A process reaches the place where it stops only by running. Where a storm of forks has used up
 * the group's cpu time, the limit is lifted until they have stopped. */
static int wait_frozen(const struct cgroup_host *host, const struct cgroup *cgroup, bool frozen,
                       struct err *err)
{
    enum { SPINS = 50, PAUSE_US = 250, LIFT_AFTER_MS = 10, WAIT_MS = 900 };
    int64_t since = clock_now_ns();
    bool is_lifted = false, is_there = false;
    int done = -1;
    for (int i = 0;; i++) {
        done = is_frozen_now(host, cgroup, frozen, &is_there, err);
        int64_t waited_ms = (clock_now_ns() - since) / 1000000;
        if (done < 0 || is_there || waited_ms > WAIT_MS)
            break;
        if (!is_lifted && frozen && waited_ms >= LIFT_AFTER_MS) {
            cgroup_lift_cpu(host, cgroup, true);
            is_lifted = true;
        }
        if (i < SPINS)
            (void)sched_yield(); /* processes that sleep are there in microseconds */
        else
            (void)usleep(PAUSE_US);
    }
    if (is_lifted)
        cgroup_lift_cpu(host, cgroup, false);
    if (done == 0 && !is_there)
        done = err_set(err, ERR_TIMEOUT, "the kernel did not freeze the group");
    return done;
}

int cgroup_freeze(const struct cgroup_host *host, struct cgroup *cgroup, bool frozen,
                  struct err *err)
{
    if (cgroup->name[0] == '\0' || !cgroup_has(host, CG_FREEZER))
        return err_set(err, ERR_UNSUPPORTED, "this host cannot freeze a sandbox (%s)",
                       host->why[CG_FREEZER]);
    cgroup->is_spoilt = true;
    if (set_frozen(host, cgroup, frozen, err) == 0 && wait_frozen(host, cgroup, frozen, err) == 0)
        return 0;
    /* A partly frozen group is of no use. */
    struct err unused;
    (void)!set_frozen(host, cgroup, false, &unused);
    return -1;
}

/* --- Killing --- */

bool cgroup_kill(const struct cgroup_host *host, struct cgroup *cgroup)
{
    if (cgroup->name[0] == '\0' || host->fds[CG_UNIFIED] < 0 || host->lacks_kill)
        return false;
    /* Some kernels kill whatever is later cloned into a group that was killed once. */
    cgroup->is_spoilt = true;
    int fd = cgroup_open_file(host, cgroup, CGROUP_KILL, CG_UNIFIED, "cgroup.kill", O_WRONLY);
    return fd >= 0 && SYS(write(fd, "1", 1)) == 1;
}

void cgroup_thaw(const struct cgroup_host *host, const struct cgroup *cgroup)
{
    struct err unused;
    if (cgroup->name[0] != '\0' && cgroup_has(host, CG_FREEZER))
        (void)!set_frozen(host, cgroup, false, &unused);
}

struct member {
    pid_t pid;
    int pidfd;
};

/* The hierarchy in which all processes of a jail are in its own group. */
static enum cgroup_slot slot_of_members(const struct cgroup_host *host)
{
    static const enum cgroup_slot order[] = {CG_UNIFIED, CG_PIDS, CG_CPU, CG_FREEZER, CG_MEMORY};
    for (size_t i = 0; i < countof(order); i++)
        if (cgroup_is_used(host, order[i]))
            return order[i];
    return CG_COUNT;
}

static bool read_members(const struct cgroup_host *host, const struct cgroup *cgroup,
                         struct buf *text)
{
    char path[CGROUP_NAME_SIZE + 32];
    struct err unused;
    enum cgroup_slot slot = slot_of_members(host);
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", cgroup->name);
    buf_clear(text);
    return slot != CG_COUNT && cgroup_read_text(host->fds[slot], path, text, &unused) == 0;
}

/* A number may have been given to another process since the list was read. So the descriptors are
 * opened first and the list is read once more: a process that is alive and whose number is in the
 * second list had that number all the time, and is a member. */
static void kill_members(const struct cgroup_host *host, const struct cgroup *cgroup)
{
    AUTO_BUF struct buf text = buf_with_limit(CGROUP_TEXT_MAX);
    VEC(struct member) members = {0};
    struct str rest, line;
    int64_t pid;
    if (!read_members(host, cgroup, &text))
        return;
    rest = buf_str(&text);
    while (str_split(&rest, '\n', &line) && members.len < KILL_PIDS_MAX)
        if (str_to_i64(line, 1, INT32_MAX, &pid)) {
            int fd = (int)SYS(syscall(SYS_pidfd_open, (pid_t)pid, 0));
            if (fd >= 0)
                *vec_push(&members) = (struct member){(pid_t)pid, fd};
        }
    bool is_read = read_members(host, cgroup, &text);
    rest = buf_str(&text);
    while (is_read && str_split(&rest, '\n', &line))
        VEC_EACH (member, &members)
            if (str_to_i64(line, 1, INT32_MAX, &pid) && member->pid == pid)
                (void)k_pidfd_send_signal(member->pidfd, SIGKILL);
    VEC_EACH (member, &members)
        fd_close(&member->pidfd);
    vec_done(&members);
}

void cgroup_kill_again(const struct cgroup_host *host, struct cgroup *cgroup)
{
    struct err unused;
    if (cgroup->name[0] == '\0')
        return;
    /* A killed process must be scheduled once more before it exits. */
    cgroup_lift_cpu(host, cgroup, true);
    if (!cgroup_kill(host, cgroup)) {
        cgroup->is_spoilt = true;
        if (cgroup_has(host, CG_FREEZER))
            (void)!set_frozen(host, cgroup, true, &unused);
        kill_members(host, cgroup);
    }
    cgroup_thaw(host, cgroup);
}
