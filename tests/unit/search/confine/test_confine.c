#include "search/confine/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "search/embed/embedder_internal.h"
#include "search/reader_internal.h"
#include "test.h"

enum { WENT_THROUGH = 7, REFUSED = 8, NOT_CONFINED = 9 };

/* Of the process under test. */
static const struct confine_list *list;

/* How a confined process ends that tries this: a signal is negative. */
static int outcome(long (*attempt)(void))
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct err err = {0};
        confine_privileges(true);
        if (confine_calls(list, &err) < 0)
            _exit(NOT_CONFINED);
        _exit(attempt() < 0 ? REFUSED : WENT_THROUGH);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static long nothing(void)
{
    return 0;
}

static long open_file(void)
{
    return open("/etc/passwd", O_RDONLY | O_CLOEXEC);
}

static long open_old(void)
{
#ifdef SYS_open
    return syscall(SYS_open, "/etc/passwd", O_RDONLY);
#else
    return open_file();
#endif
}

static long connect_out(void)
{
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static long connect_local(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static long start_process(void)
{
    return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static long run_program(void)
{
    char *argv[] = {NULL};
    return execve("/bin/true", argv, argv);
}

static long make_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
               ? -1
               : 0;
}

static long kill_parent(void)
{
    return kill(getppid(), 0);
}

static long trace_parent(void)
{
    return syscall(SYS_ptrace, 16, 1, 0, 0);
}

static long rise(void)
{
    return setpriority(PRIO_PROCESS, 0, 0);
}

static long unmap_nothing(void)
{
    return mprotect((void *)16, 16, PROT_READ | PROT_EXEC) < 0 ? -1 : 0;
}

static void check_list(const struct confine_list *of)
{
    static long (*const attempts[])(void) = {connect_out, connect_local, start_process,
                                             run_program, make_code,     unmap_nothing,
                                             kill_parent, trace_parent,  rise};
    list = of;
    CHECK_INT(outcome(nothing), WENT_THROUGH);
    CHECK_INT(outcome(open_file), REFUSED);
    CHECK(outcome(open_old) != WENT_THROUGH);
    for (size_t i = 0; i < countof(attempts); i++)
        CHECK_INT(outcome(attempts[i]), -SIGSYS);
}

TEST(the_embedder_can_compute_and_nothing_else)
{
    check_list(&embedder_calls);
}

TEST(the_reader_can_compute_and_nothing_else)
{
    check_list(&reader_calls);
}

/* In a child that gave up its privileges: 0 when all is as it should be. */
static int in_child(int (*look)(void))
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        confine_privileges(true);
        _exit(look());
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int priority_is_low(void)
{
    return getpriority(PRIO_PROCESS, 0) >= 10 && sched_getscheduler(0) == SCHED_BATCH ? 0 : 1;
}

static int user_is_weak(void)
{
    return geteuid() != 0 && getegid() != 0 && setuid(0) < 0 ? 0 : 1;
}

static int has_no_capability(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct have[2] = {0};
    if (syscall(SYS_capget, &head, have) < 0 || have[0].permitted != 0 || have[1].permitted != 0)
        return 1;
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
        if (prctl(PR_CAPBSET_READ, cap) != 0)
            return 2;
    return 0;
}

static int gains_none(void)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 1;
}

static int cannot_be_read(void)
{
    return prctl(PR_GET_DUMPABLE) == 0 ? 0 : 1;
}

TEST(privileges_and_priority_are_given_up)
{
    CHECK_INT(in_child(priority_is_low), 0);
    CHECK_INT(in_child(gains_none), 0);
    CHECK_INT(in_child(cannot_be_read), 0);
}

TEST(root_becomes_nobody)
{
    if (geteuid() != 0)
        SKIP("needs root");
    CHECK_INT(in_child(user_is_weak), 0);
    CHECK_INT(in_child(has_no_capability), 0);
}

static bool has_limits(const struct confine_list *of)
{
    for (size_t i = 0; i < of->limit_count; i++) {
        struct rlimit now = {0};
        if (getrlimit((__rlimit_resource_t)of->limits[i].what, &now) < 0 ||
            now.rlim_max != of->limits[i].value)
            return false;
    }
    return of->limit_count >= 3;
}

/* The filter would not let it look, so it comes without rules. */
TEST(limits_are_set)
{
    static const struct confine_list *const lists[] = {&embedder_calls, &reader_calls};
    for (size_t i = 0; i < countof(lists); i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            struct err err = {0};
            static const struct confine_rule rules[] = {{SYS_exit_group, CONFINE_PLAIN},
                                                        {SYS_prlimit64, CONFINE_PLAIN},
                                                        /* a sanitizer's, before _exit */
                                                        {SYS_sigaltstack, CONFINE_PLAIN},
                                                        {SYS_getrlimit, CONFINE_PLAIN}};
            struct confine_list only = {rules, countof(rules), lists[i]->limits,
                                        lists[i]->limit_count};
            confine_privileges(false);
            _exit(confine_calls(&only, &err) == 0 && has_limits(lists[i]) ? 0 : 1);
        }
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}
