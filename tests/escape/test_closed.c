/* Fail closed, for what tests/escape/exec/cases_closed.mjs cannot remove: each case does so in a
 * child of its own, and there is no jail. */

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "jail/client/jail.h"

/* Runs a command that leaves a mark in a directory of the host, if it runs at all. */
static int try_jail(const char *dir, struct err *err)
{
    AUTO_WARDEN struct warden_link *warden = NULL;
    AUTO_JAIL struct jail *jail = NULL;
    AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *argv[] = {"touch", "/workspace/mark", NULL};
    struct jail_plan plan = {.workspace = dir};
    struct jail_exit exit;
    uint32_t id;
    if (warden_start(&warden, err) < 0)
        return -1;
    if (geteuid() != 0 && warden_host(warden)->no_memory[0] != '\0')
        plan.limits.memory_bytes = plan.limits.cpu_milli = JAIL_UNLIMITED;
    if (jail_make(warden, &plan, &jail, err) < 0 ||
        jail_start(jail, &(struct jail_command){.argv = argv}, (int[]){null, null, null}, &id, NULL,
                   err) < 0)
        return -1;
    return jail_wait(jail, 10000, &exit, err);
}

/* In a child: takes something away, tries, and gives the reason back. */
static bool refused_without(bool (*take_away)(void), char reason[ERR_MSG_MAX])
{
    static int number;
    char dir[256], mark[300];
    int out[2];
    (void)snprintf(dir, sizeof dir, "%s/closed%d", test_tmpdir(), number++);
    CHECK_INT(mkdir(dir, 0777), 0);
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct err err = {0};
        if (!take_away())
            _exit(3);
        int done = try_jail(dir, &err);
        (void)!write(out[1], err.msg, sizeof err.msg);
        _exit(done < 0 ? 0 : 1);
    }
    int status;
    CHECK_INT(close(out[1]), 0);
    reason[0] = '\0';
    (void)!read(out[0], reason, ERR_MSG_MAX);
    CHECK_INT(close(out[0]), 0);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
        SKIP("this cannot be taken away here");
    (void)snprintf(mark, sizeof mark, "%s/mark", dir);
    bool ran = access(mark, F_OK) == 0;
    bool refused = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    CHECK_INT(ran, !refused); /* nothing of the tenant ran, or all of it */
    return refused;
}

/* A filter of our own that answers ENOSYS to one call, as a kernel without it. */
static bool without_call(uint32_t nr)
{
    struct sock_filter insns[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = countof(insns), .filter = insns};
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

static bool nothing(void)
{
    return true;
}
static bool close_range_(void)
{
    return without_call(SYS_close_range);
}
static bool capset_(void)
{
    return without_call(SYS_capset);
}

static bool private_mounts(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* Where no proc is visible the kernel lets nobody mount a new one. */
static bool visible_proc(void)
{
    return private_mounts() && mount("none", "/proc", "tmpfs", MS_RDONLY, NULL) == 0;
}

static char reason[ERR_MSG_MAX];

#define REFUSED(take_away, text)                                                                   \
    do {                                                                                           \
        CHECK(refused_without((take_away), reason));                                               \
        if (strstr(reason, (text)) == NULL)                                                        \
            print_error("reason: %s\n", reason);                                                   \
        CHECK(strstr(reason, (text)) != NULL);                                                     \
    } while (0)

TEST(iso17_with_everything_it_runs)
{
    CHECK(!refused_without(nothing, reason));
}

TEST(iso17_proc)
{
    if (geteuid() != 0)
        SKIP("needs privilege to cover /proc");
    REFUSED(visible_proc, "proc");
}

TEST(iso17_close_range)
{
    REFUSED(close_range_, "");
}

TEST(iso17_capset)
{
    REFUSED(capset_, "capabilities");
}
