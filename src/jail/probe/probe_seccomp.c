/* Restrictions that a process can put on itself: seccomp filters, their notifications, Landlock. */

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/probe/probe_internal.h"

enum { ASK_PERSONALITY = 0xffffffff, LANDLOCK_TRUNCATE_ABI = 3 };

/* personality(ASK) changes nothing and no library calls it: a safe call to filter. */
static int install_filter(unsigned flags, uint32_t action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_personality, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = countof(code), .filter = code};
    if (SYS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) < 0)
        return -1;
    return (int)SYS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program));
}

PROBE_RUN(probe_seccomp_filter)
{
    (void)probe, (void)env;
    if (install_filter(0, SECCOMP_RET_ERRNO | ENOSYS) < 0) {
        (void)probe_fail(result, errno, "install a filter");
        return;
    }
    errno = 0;
    if (syscall(SYS_personality, ASK_PERSONALITY) != -1 || errno != ENOSYS)
        (void)probe_fail(result, 0, "a filter was installed and the call was not stopped");
    else
        probe_say(result, PROBE_OK, "a filtered call got ENOSYS");
}

/* The far side: its call comes back with a descriptor that it never opened. */
NORETURN static void be_notified(void)
{
    char byte = 0;
    long fd = syscall(SYS_personality, ASK_PERSONALITY);
    if (fd < 0)
        _exit(1);
    _exit(read((int)fd, &byte, 1) == 1 && byte == 's' ? 0 : 2);
}

static int probe_seccomp_answer(int listener, int gift, struct probe_result *result)
{
    struct seccomp_notif request = {0};
    if (SYS(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request)) < 0)
        return probe_fail(result, errno, "receive a notification");
    struct seccomp_notif_addfd add = {.id = request.id, .srcfd = (uint32_t)gift};
    int remote = SYS(ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add));
    int sys = errno;
    struct seccomp_notif_resp reply = {.id = request.id, .val = remote};
    if (remote < 0)
        reply = (struct seccomp_notif_resp){.id = request.id, .error = -ENOSYS};
    if (SYS(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply)) < 0)
        return probe_fail(result, errno, "answer a notification");
    if (remote < 0) {
        probe_say(result, PROBE_PARTIAL, "notifications work, ADDFD does not: %s", strerror(sys));
        return -1;
    }
    return 0;
}

PROBE_RUN(probe_seccomp_notify)
{
    (void)probe, (void)env;
    int ends[2];
    if (SYS(pipe2(ends, O_CLOEXEC)) < 0) {
        (void)probe_fail(result, errno, "open a pipe");
        return;
    }
    AUTO_CLOSE int gift = ends[0];
    AUTO_CLOSE int in = ends[1];
    (void)!write(in, "s", 1);
    AUTO_CLOSE int listener =
        install_filter(SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_RET_USER_NOTIF);
    if (listener < 0) {
        (void)probe_fail(result, errno, "install a filter with a listener");
        return;
    }
    pid_t pid = SYS(fork());
    if (pid < 0) {
        (void)probe_fail(result, errno, "fork");
        return;
    }
    if (pid == 0)
        be_notified();
    if (probe_seccomp_answer(listener, gift, result) < 0)
        return;
    if (probe_wait(pid) != 0)
        (void)probe_fail(result, 0, "the answer did not arrive");
    else
        probe_say(result, PROBE_OK, "a call was answered and a descriptor handed in");
}

PROBE_RUN(probe_landlock)
{
    (void)probe, (void)env;
    long abi = SYS(syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION));
    if (abi < 0) {
        (void)probe_fail(result, errno, "Landlock is not in this kernel or not switched on");
        return;
    }
    struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE |
                                                              LANDLOCK_ACCESS_FS_READ_DIR};
    AUTO_CLOSE int rules =
        (int)SYS(syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0));
    if (rules < 0 || SYS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) < 0 ||
        SYS(syscall(SYS_landlock_restrict_self, rules, 0)) < 0) {
        (void)probe_fail(result, errno, "restrict a process");
        return;
    }
    AUTO_CLOSE int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 || errno != EACCES)
        (void)probe_fail(result, 0, "ABI %ld, yet a denied directory opened", abi);
    else if (abi < LANDLOCK_TRUNCATE_ABI)
        probe_say(result, PROBE_PARTIAL, "ABI %ld: truncation is not covered before ABI %d", abi,
                  LANDLOCK_TRUNCATE_ABI);
    else
        probe_say(result, PROBE_OK, "ABI %ld", abi);
}
