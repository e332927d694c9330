/* Hosts that refuse: each made for real around a child that runs the probes and reports back. */

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "jail/probe/probe.h"

enum { NOBODY = 65534, NAMESPACE_FLAGS = 0x7e020000 /* user mnt pid net ipc uts cgroup */ };

static struct probe_result *results; /* shared with the child */

static const struct probe_result *result_of(const char *id)
{
    for (size_t i = 0; i < probe_count; i++)
        if (strcmp(probes[i].id, id) == 0)
            return &results[i];
    fail_msg("no probe '%s'", id);
    return NULL;
}

static void check_status(const char *id, enum probe_status status)
{
    const struct probe_result *result = result_of(id);
    if (result->status != status)
        print_error("%s is %s (%s), expected %s\n", id, probe_status_name(result->status),
                    result->detail, probe_status_name(status));
    CHECK(result->status == status);
}

/* Runs all probes in a child that first makes its world worse; false when it could not. */
static bool probe_in(bool (*worsen)(void))
{
    if (results == NULL) {
        results = mmap(NULL, sizeof *results * PROBE_COUNT_MAX, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(results != MAP_FAILED);
    }
    memset(results, 0x55, sizeof *results * PROBE_COUNT_MAX);
    const char *data_dir = test_tmpdir();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct probe_env env;
        if (!worsen())
            _exit(77);
        probe_env_init(&env, data_dir);
        probe_run_all(&env, results);
        _exit(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : 1);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        return false;
    CHECK_INT(WEXITSTATUS(status), 0);
    for (size_t i = 0; i < probe_count; i++) {
        CHECK(results[i].status <= PROBE_INFO);
        CHECK(results[i].detail[0] != '\0');
        CHECK(results[i].sys != ETIMEDOUT); /* refused, not hung */
    }
    return true;
}

static struct probe_tier tier_here(void)
{
    struct probe_tier tier;
    probe_tier_of(probes, probe_count, results, &tier);
    return tier;
}

static bool install(struct sock_filter *code, size_t count)
{
    struct sock_fprog program = {.len = (unsigned short)count, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(nr, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, (count))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define DENY(nr, error) SKIP_UNLESS((nr), 1), RETURN(SECCOMP_RET_ERRNO | (error))

/* What a container's default profile does to namespaces. */
static bool deny_namespaces(void)
{
    struct sock_filter code[] = {
        LOAD(nr),
        DENY(SYS_unshare, EPERM),
        DENY(SYS_setns, EPERM),
        DENY(SYS_clone3, ENOSYS),
        SKIP_UNLESS(SYS_clone, 3),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACE_FLAGS, 0, 1),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
        RETURN(SECCOMP_RET_ALLOW),
    };
    return install(code, countof(code));
}

TEST(denied_namespaces_leave_the_isolate)
{
    if (!probe_in(deny_namespaces))
        SKIP("no seccomp filter here");
    static const char *const gone[] = {"ns.user",     "ns.unprivileged", "ns.mount",   "ns.pid",
                                       "ns.net",      "ns.ipc",          "ns.uts",     "ns.cgroup",
                                       "mount.proc",  "overlay.user",    "disk.tmpfs", "clone3",
                                       "cgroup.clone"};
    for (size_t i = 0; i < countof(gone); i++)
        check_status(gone[i], PROBE_MISSING);
    check_status("seccomp.filter", PROBE_OK);
    check_status("pidfd", PROBE_OK);
    CHECK(strstr(result_of("ns.mount")->fix, "seccomp") != NULL);
    CHECK_CSTR(tier_here().name, "isolate only");
}

static bool deny_mounts(void)
{
    struct sock_filter code[] = {
        LOAD(nr),
        DENY(SYS_mount, EPERM),
        DENY(SYS_open_tree, EPERM),
        DENY(SYS_mount_setattr, EPERM),
        RETURN(SECCOMP_RET_ALLOW),
    };
    return install(code, countof(code));
}

TEST(denied_mounts_are_noticed_after_the_namespace_was_entered)
{
    if (!probe_in(deny_mounts))
        SKIP("no seccomp filter here");
    check_status("ns.mount", PROBE_MISSING);
    check_status("mount.proc", PROBE_MISSING);
    check_status("overlay.user", PROBE_MISSING);
    check_status("disk.tmpfs", PROBE_MISSING);
    CHECK(result_of("overlay.user")->status == PROBE_MISSING);
    CHECK_CSTR(tier_here().name, "isolate only");
}

/* An old kernel: the newer calls do not exist. */
static bool be_old(void)
{
    struct sock_filter code[] = {
        LOAD(nr),
        DENY(SYS_clone3, ENOSYS),
        DENY(SYS_pidfd_open, ENOSYS),
        DENY(SYS_pidfd_send_signal, ENOSYS),
        DENY(SYS_close_range, ENOSYS),
        DENY(SYS_openat2, ENOSYS),
        DENY(SYS_landlock_create_ruleset, ENOSYS),
        DENY(SYS_memfd_create, ENOSYS),
        DENY(SYS_io_uring_setup, ENOSYS),
        DENY(SYS_userfaultfd, ENOSYS),
        DENY(SYS_quotactl_fd, ENOSYS),
        DENY(SYS_seccomp, ENOSYS),
        RETURN(SECCOMP_RET_ALLOW),
    };
    return install(code, countof(code));
}

TEST(an_old_kernel_lacks_what_it_lacks)
{
    if (!probe_in(be_old))
        SKIP("no seccomp filter here");
    static const char *const gone[] = {"clone3",         "pidfd",          "close_range",
                                       "openat2",        "landlock",       "memfd",
                                       "seccomp.filter", "seccomp.notify", "disk.loop"};
    for (size_t i = 0; i < countof(gone); i++)
        check_status(gone[i], PROBE_MISSING);
    check_status("io_uring", PROBE_INFO);
    CHECK_INT(result_of("pidfd")->sys, ENOSYS);
    CHECK_CSTR(tier_here().name, "none");
}

/* A filter that kills instead of answering. */
static bool kill_on_unshare(void)
{
    struct sock_filter code[] = {
        LOAD(nr),
        SKIP_UNLESS(SYS_unshare, 1),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        RETURN(SECCOMP_RET_ALLOW),
    };
    return install(code, countof(code));
}

TEST(a_killed_probe_says_so)
{
    if (!probe_in(kill_on_unshare))
        SKIP("no seccomp filter here");
    check_status("ns.user", PROBE_MISSING);
    CHECK(strstr(result_of("ns.user")->detail, "signal 31") != NULL);
    CHECK_CSTR(tier_here().name, "isolate only");
}

static bool put_file(const char *path, const char *text)
{
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* The limit counts per user namespace, so a namespace of our own can have none left. */
static bool exhaust_user_namespaces(void)
{
    char map[64];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (unshare(CLONE_NEWUSER) < 0 || !put_file("/proc/self/setgroups", "deny"))
        return false;
    (void)snprintf(map, sizeof map, "0 %u 1", uid);
    if (!put_file("/proc/self/uid_map", map))
        return false;
    (void)snprintf(map, sizeof map, "0 %u 1", gid);
    return put_file("/proc/self/gid_map", map) &&
           put_file("/proc/sys/user/max_user_namespaces", "0");
}

TEST(exhausted_user_namespaces_are_explained)
{
    if (!probe_in(exhaust_user_namespaces))
        SKIP("cannot set user.max_user_namespaces in a namespace of our own");
    check_status("ns.user", PROBE_MISSING);
    CHECK_INT(result_of("ns.user")->sys, ENOSPC);
    CHECK_CSTR(result_of("ns.user")->fix, "sysctl -w user.max_user_namespaces=15000");
    check_status("overlay.user", PROBE_MISSING);
    check_status("mount.proc", PROBE_MISSING);
    CHECK_CSTR(tier_here().name, "isolate only");
}

static bool become_nobody(void)
{
    if (geteuid() != 0)
        return false;
    return setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
           setresuid(NOBODY, NOBODY, NOBODY) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0;
}

TEST(an_ordinary_user_gets_an_ordinary_users_answers)
{
    if (!probe_in(become_nobody))
        SKIP("needs root, to become another user");
    check_status("overlay.root", PROBE_INFO);
    check_status("mount.idmap", PROBE_INFO);
    check_status("disk.loop", PROBE_MISSING);
    check_status("disk.project", PROBE_MISSING);
    check_status("cgroup.memory", PROBE_MISSING);
    check_status("seccomp.filter", PROBE_OK);
    CHECK(tier_here().kind >= PROBE_TIER_ISOLATE);
}

static bool allow_no_processes(void)
{
    struct rlimit none = {.rlim_cur = 1, .rlim_max = 1};
    return become_nobody() && setrlimit(RLIMIT_NPROC, &none) == 0;
}

TEST(no_processes_left_means_missing_not_hanging)
{
    if (!probe_in(allow_no_processes))
        SKIP("needs root, to become another user");
    for (size_t i = 0; i < probe_count; i++) {
        CHECK_INT(results[i].status, PROBE_MISSING);
        CHECK_INT(results[i].sys, EAGAIN);
    }
    CHECK_CSTR(tier_here().name, "none");
}

static bool allow_few_files(void)
{
    struct rlimit few = {.rlim_cur = 16, .rlim_max = 16};
    return setrlimit(RLIMIT_NOFILE, &few) == 0;
}

TEST(few_descriptors_are_survived_and_named)
{
    CHECK(probe_in(allow_few_files));
    check_status("limit.files", PROBE_PARTIAL);
    CHECK_CSTR(result_of("limit.files")->detail, "hard limit 16");
}
