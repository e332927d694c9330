#include "jail_floor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/filter.h"
#include "jail/inside/lockdown.h"
#include "jail/inside/mounts.h"
#include "jail/inside/setup.h"
#include "jail/wire/ids.h"
#include "jail/wire/init.h"
#include "jail/wire/linux.h"

enum {
    STACK_SIZE = 256 << 10,
    HIGH = 10,
    FLAGS = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_VM |
            CLONE_VFORK | SIGCHLD,
};

static struct ids ids;
static uint32_t outer_id;
static struct jail_plan plan;
static const struct mount_set no_mounts = {.disk_fd = -1};

static void NORETURN stop(const struct err *err)
{
    (void)fprintf(stderr, "bench: floor: %s\n", err->msg);
    _exit(1);
}

/* As the init spawner does it, but for the groups. */
static int run_true(UNUSED void *unused)
{
    static const char *const argv[] = {"/bin/true", NULL}, *const env[] = {NULL};
    struct err err = {0};
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (ids_map_self(JAIL_UID, outer_id, &err) < 0)
        stop(&err);
    int oom = openat(AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    struct setup setup = {.plan = &plan, .mounts = &no_mounts, .oom_fd = oom};
    if (setup_run(&setup, &err) < 0)
        stop(&err);
    (void)execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
    _exit(1);
}

static void become(uint32_t id)
{
    if (ids.privileged &&
        (syscall(SYS_setresgid, -1, id, -1) < 0 || syscall(SYS_setresuid, -1, id, -1) < 0))
        _exit(1);
}

static void run_one(void)
{
    static char stack[STACK_SIZE] __attribute__((aligned(64)));
    struct err err = {0};
    int status = -1;
    if (ids_take(&ids, &outer_id, &err) < 0)
        stop(&err);
    become(outer_id);
    pid_t pid = clone(run_true, stack + sizeof stack, FLAGS, NULL);
    int code = errno;
    become(0);
    if (pid < 0) {
        (void)err_sys(&err, code, "clone");
        stop(&err);
    }
    if (waitpid(pid, &status, 0) < 0 || status != 0) {
        (void)err_set(&err, ERR_INTERNAL, "the program ended with %#x", (unsigned)status);
        stop(&err);
    }
    ids_give_back(&ids, outer_id);
}

static void prepare(void)
{
    static struct template template;
    struct err err = {0};
    bool is_root = geteuid() == 0;
    jail_plan_fill(&plan);
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0), null = open("/dev/null", O_RDWR);
    int alive = fcntl(self, F_DUPFD, HIGH), high = fcntl(null, F_DUPFD, HIGH);
    if (alive < 0 || high < 0 || dup2(high, SETUP_CONTROL_FD) < 0 || dup2(high, SETUP_OOM_FD) < 0 ||
        dup2(alive, SETUP_ALIVE_FD) < 0)
        _exit(1);
    if (ids_init(&ids, &err) < 0 || (!ids.privileged && ids_enter_own_namespace(&err) < 0) ||
        template_enter(&template, ids.privileged, &err) < 0)
        stop(&err);
    mounts_prepare(is_root && !ids.privileged);
    if (unshare(CLONE_NEWNET) < 0)
        _exit(1);
    (void)prctl(PR_SET_SECUREBITS, 1 << 2 /* no fixup */, 0, 0, 0);
    filter_prepare(FILTER_LATE);
    if (lockdown_common_rlimits(&err) < 0)
        stop(&err);
}

int64_t jail_floor_run(int64_t ms)
{
    int64_t count = 0;
    prepare();
    run_one();
    for (int64_t until = clock_now_ms() + ms; clock_now_ms() < until; count++)
        run_one();
    return count;
}
