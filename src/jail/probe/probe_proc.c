/* Processes, descriptors and devices: calls that the warden and init are built on, and a few that
 * are denied inside and only noted here. */

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/kvm.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/probe/probe_internal.h"

enum { NOFILE_WANTED = 4096, KVM_API = 12, IO_URING_PARAMS_SIZE = 120 };

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U /* since Linux 6.3 */
#endif

NORETURN static void sleep_forever(void)
{
    for (;;)
        (void)pause();
}

/* Ends the process behind the pidfd and sees it end through the same descriptor. */
static int end_by_pidfd(int pidfd, struct probe_result *result)
{
    if (SYS(syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0)) < 0)
        return probe_fail(result, errno, "pidfd_send_signal");
    struct pollfd wait = {.fd = pidfd, .events = POLLIN};
    if (poll(&wait, 1, 1000) != 1)
        return probe_fail(result, 0, "poll did not see the process end");
    siginfo_t info;
    if (SYS(waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED)) < 0)
        return probe_fail(result, errno, "waitid by pidfd");
    return 0;
}

PROBE_RUN(probe_pidfd)
{
    (void)probe, (void)env;
    pid_t pid = SYS(fork());
    if (pid < 0) {
        (void)probe_fail(result, errno, "fork");
        return;
    }
    if (pid == 0)
        sleep_forever();
    AUTO_CLOSE int pidfd = (int)SYS(syscall(SYS_pidfd_open, pid, 0));
    if (pidfd < 0)
        (void)probe_fail(result, errno, "pidfd_open");
    else if (end_by_pidfd(pidfd, result) == 0)
        probe_say(result, PROBE_OK, "opened, signalled, polled and waited for");
}

PROBE_RUN(probe_clone3)
{
    (void)probe, (void)env;
    int fd = -1;
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&fd, .exit_signal = SIGCHLD};
    long pid = SYS(syscall(SYS_clone3, &args, sizeof args));
    if (pid < 0) {
        (void)probe_fail(result, errno, "clone3");
        return;
    }
    if (pid == 0)
        sleep_forever();
    AUTO_CLOSE int pidfd = fd;
    if (end_by_pidfd(pidfd, result) == 0)
        probe_say(result, PROBE_OK, "returns a pidfd");
}

PROBE_RUN(probe_close_range)
{
    (void)probe, (void)env;
    AUTO_CLOSE int first = SYS(open("/dev/null", O_RDONLY)); /* inheritable on purpose */
    int second = first < 0 ? -1 : fcntl(first, F_DUPFD, first + 1);
    if (second < 0) {
        (void)probe_fail(result, errno, "open /dev/null");
        return;
    }
    unsigned low = (unsigned)second;
    bool marks = SYS(syscall(SYS_close_range, low, low, CLOSE_RANGE_CLOEXEC)) == 0 &&
                 fcntl(second, F_GETFD) == FD_CLOEXEC;
    if (SYS(syscall(SYS_close_range, low, low, 0)) < 0)
        (void)probe_fail(result, errno, "close_range");
    else if (fcntl(second, F_GETFD) >= 0)
        (void)probe_fail(result, 0, "close_range left the descriptor open");
    else if (!marks)
        probe_say(result, PROBE_PARTIAL, "closes, but does not mark close-on-exec");
    else
        probe_say(result, PROBE_OK, "closes and marks close-on-exec");
}

PROBE_RUN(probe_openat2)
{
    (void)probe, (void)env;
    AUTO_CLOSE int dir = SYS(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    AUTO_CLOSE int inside = (int)SYS(syscall(SYS_openat2, dir, "version", &how, sizeof how));
    if (dir < 0 || inside < 0) {
        (void)probe_fail(result, errno, "openat2 /proc/version");
        return;
    }
    AUTO_CLOSE int outside = (int)syscall(SYS_openat2, dir, "../etc", &how, sizeof how);
    if (outside >= 0 || errno != EXDEV)
        (void)probe_fail(result, 0, "RESOLVE_BENEATH let a path out");
    else
        probe_say(result, PROBE_OK, "RESOLVE_BENEATH holds");
}

static int copy_into(int to, struct probe_result *result)
{
    AUTO_CLOSE int from = open("/usr/bin/true", O_RDONLY | O_CLOEXEC);
    if (from < 0)
        from = open("/bin/true", O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return probe_fail(result, errno, "open /bin/true");
    static char block[64 * 1024];
    ssize_t got;
    while ((got = SYS(read(from, block, sizeof block))) > 0)
        if (SYS(write(to, block, (size_t)got)) != got)
            return probe_fail(result, errno, "fill a memfd");
    return got < 0 ? probe_fail(result, errno, "read /bin/true") : 0;
}

static int make_sealed(struct probe_result *result)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    AUTO_CLOSE int fd = SYS(memfd_create("sandglass-probe", flags | MFD_EXEC));
    if (fd < 0 && errno == EINVAL)
        fd = SYS(memfd_create("sandglass-probe", flags));
    if (fd < 0)
        return probe_fail(result, errno, "memfd_create");
    if (copy_into(fd, result) < 0)
        return -1;
    if (SYS(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)) < 0)
        return probe_fail(result, errno, "seal a memfd");
    if (write(fd, "x", 1) != -1 || errno != EPERM)
        return probe_fail(result, 0, "a sealed memfd took a write");
    return fd_take(&fd);
}

PROBE_RUN(probe_memfd_exec)
{
    (void)probe, (void)env;
    AUTO_CLOSE int fd = make_sealed(result);
    if (fd < 0) {
        if (probe_read_number("/proc/sys/vm/memfd_noexec", 0) == 2)
            probe_fix(result, "sysctl -w vm.memfd_noexec=1");
        return;
    }
    pid_t pid = SYS(fork());
    if (pid < 0) {
        (void)probe_fail(result, errno, "fork");
        return;
    }
    if (pid == 0) {
        char name[] = "true";
        char *const argv[] = {name, NULL};
        char *const envp[] = {NULL};
        (void)syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
        _exit(MIN(errno, 127));
    }
    int code = probe_wait(pid);
    if (code == 0)
        probe_say(result, PROBE_OK, "a program ran from a sealed memfd");
    else
        (void)probe_fail(result, code > 0 && code < 127 ? code : 0, "run a program from a memfd");
}

PROBE_RUN(probe_userfaultfd)
{
    (void)probe, (void)env;
    AUTO_CLOSE int fd = (int)SYS(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
    probe_say(result, PROBE_INFO, fd >= 0 ? "here; denied inside a sandbox" : "not for this user");
}

PROBE_RUN(probe_io_uring)
{
    (void)probe, (void)env;
    union {
        char bytes[IO_URING_PARAMS_SIZE];
        uint64_t align;
    } params = {0};
    AUTO_CLOSE int fd = (int)SYS(syscall(SYS_io_uring_setup, 1, &params));
    probe_say(result, PROBE_INFO, fd >= 0 ? "here; denied inside a sandbox" : "not for this user");
}

PROBE_RUN(probe_kvm)
{
    (void)probe, (void)env;
    AUTO_CLOSE int fd = SYS(open("/dev/kvm", O_RDWR | O_CLOEXEC));
    if (fd < 0) {
        int sys = errno;
        (void)probe_fail(result, sys, "open /dev/kvm");
        if (sys == EACCES || sys == EPERM)
            probe_fix(result, "usermod -aG kvm $USER, then log in again");
        return;
    }
    int api = SYS(ioctl(fd, KVM_GET_API_VERSION, 0));
    if (api < 0)
        (void)probe_fail(result, errno, "ask /dev/kvm for its version");
    else if (api != KVM_API)
        (void)probe_fail(result, 0, "API %d, expected %d", api, KVM_API);
    else
        probe_say(result, PROBE_OK, "API %d", api);
}

static void put_limit(rlim_t limit, const char *unit, char *out, size_t size)
{
    if (limit == RLIM_INFINITY)
        (void)snprintf(out, size, "unlimited");
    else
        (void)snprintf(out, size, "%llu%s", (unsigned long long)limit, unit);
}

PROBE_RUN(probe_limit_files)
{
    (void)probe, (void)env;
    struct rlimit limit;
    char text[40];
    if (SYS(getrlimit(RLIMIT_NOFILE, &limit)) < 0) {
        (void)probe_fail(result, errno, "getrlimit");
        return;
    }
    put_limit(limit.rlim_max, "", text, sizeof text);
    probe_say(result, limit.rlim_max < NOFILE_WANTED ? PROBE_PARTIAL : PROBE_INFO, "hard limit %s",
              text);
}

PROBE_RUN(probe_limit_memlock)
{
    (void)probe, (void)env;
    struct rlimit limit;
    char text[40];
    if (SYS(getrlimit(RLIMIT_MEMLOCK, &limit)) < 0) {
        (void)probe_fail(result, errno, "getrlimit");
        return;
    }
    put_limit(limit.rlim_max, " bytes", text, sizeof text);
    probe_say(result, PROBE_INFO, "hard limit %s", text);
}
