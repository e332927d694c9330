/* Namespaces: entered for real, then used, because some hosts let a process in and take its
 * rights away afterwards (AppArmor's restriction does). */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "jail/probe/probe_internal.h"

enum { NOBODY = 65534 };

static const struct {
    unsigned flag;
    const char *file; /* below /proc/self/ns */
} kinds[] = {
    {CLONE_NEWNS, "mnt"},  {CLONE_NEWPID, "pid_for_children"},
    {CLONE_NEWNET, "net"}, {CLONE_NEWIPC, "ipc"},
    {CLONE_NEWUTS, "uts"}, {CLONE_NEWCGROUP, "cgroup"},
};

/* The user id before a user namespace maps it to root. */
static uid_t asked_by;

static bool is_filtered(void)
{
    char text[4096];
    if (probe_read("/proc/self/status", text, sizeof text) < 0)
        return false;
    return strstr(text, "\nSeccomp:\t2") != NULL;
}

/* The kernel says EPERM for many reasons; the settings tell which. */
static void explain_refusal(int sys, struct probe_result *result)
{
    if (sys == ENOSPC || probe_read_number("/proc/sys/user/max_user_namespaces", 1) == 0)
        probe_fix(result, "sysctl -w user.max_user_namespaces=15000");
    else if (probe_read_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
        probe_fix(result, "sysctl -w kernel.unprivileged_userns_clone=1");
    else if (asked_by != 0 &&
             probe_read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
        probe_fix(result, "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (or give "
                          "sandglass an AppArmor profile that allows userns)");
    else if ((sys == EPERM || sys == ENOSYS) && is_filtered())
        probe_fix(result, "a seccomp filter applies to this process; in a container start it with "
                          "--security-opt seccomp=unconfined");
}

static int map_ids(uid_t uid, gid_t gid, struct probe_result *result)
{
    char line[64];
    if (probe_write("/proc/self/setgroups", "deny") < 0 && errno != ENOENT)
        return probe_fail(result, errno, "write /proc/self/setgroups");
    (void)snprintf(line, sizeof line, "0 %u 1", uid);
    if (probe_write("/proc/self/uid_map", line) < 0)
        return probe_fail(result, errno, "write /proc/self/uid_map");
    (void)snprintf(line, sizeof line, "0 %u 1", gid);
    if (probe_write("/proc/self/gid_map", line) < 0)
        return probe_fail(result, errno, "write /proc/self/gid_map");
    if (geteuid() != 0)
        return probe_fail(result, 0, "uid map written, yet the uid is %u", geteuid());
    return 0;
}

int probe_enter_user(unsigned flags, struct probe_result *result)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    asked_by = uid;
    if (SYS(unshare((int)(CLONE_NEWUSER | flags))) < 0) {
        int sys = errno;
        (void)probe_fail(result, sys, "enter a user namespace");
        explain_refusal(sys, result);
        return -1;
    }
    if (map_ids(uid, gid, result) < 0) {
        explain_refusal(result->sys, result);
        return -1;
    }
    return 0;
}

int probe_enter(unsigned flags, bool *ret_in_user, struct probe_result *result)
{
    *ret_in_user = false;
    if (SYS(unshare((int)flags)) == 0)
        return 0;
    int sys = errno;
    if (sys != EPERM) {
        (void)probe_fail(result, sys, "unshare");
        explain_refusal(sys, result);
        return -1;
    }
    *ret_in_user = true;
    return probe_enter_user(flags, result);
}

static int use_mounts(struct probe_result *result)
{
    if (SYS(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) < 0)
        return probe_fail(result, errno, "make mounts private");
    if (SYS(mount("sandglass", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=64k")) < 0)
        return probe_fail(result, errno, "mount a tmpfs");
    return 0;
}

static int use_pids(struct probe_result *result)
{
    pid_t pid = SYS(fork());
    if (pid < 0)
        return probe_fail(result, errno, "fork into the namespace");
    if (pid == 0)
        _exit(getpid() == 1 ? 0 : 1);
    if (probe_wait(pid) != 0)
        return probe_fail(result, 0, "the first process is not pid 1");
    return 0;
}

/* A jail's network has only loopback, which is down at first. */
static int use_net(struct probe_result *result)
{
    AUTO_CLOSE int fd = SYS(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return probe_fail(result, errno, "open a socket");
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (SYS(ioctl(fd, SIOCSIFFLAGS, &lo)) < 0)
        return probe_fail(result, errno, "bring loopback up");
    return 0;
}

static int use_uts(struct probe_result *result)
{
    struct utsname name;
    if (SYS(sethostname("sandglass-probe", 15)) < 0)
        return probe_fail(result, errno, "set the host name");
    if (uname(&name) < 0 || strcmp(name.nodename, "sandglass-probe") != 0)
        return probe_fail(result, 0, "the host name did not change");
    return 0;
}

static int use_kind(unsigned flag, struct probe_result *result)
{
    switch (flag) {
    case CLONE_NEWNS:
        return use_mounts(result);
    case CLONE_NEWPID:
        return use_pids(result);
    case CLONE_NEWNET:
        return use_net(result);
    case CLONE_NEWUTS:
        return use_uts(result);
    default:
        return 0; /* a new name of the namespace is all there is to see */
    }
}

static void link_of(unsigned flag, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < countof(kinds); i++) {
        char path[64];
        if (kinds[i].flag != flag)
            continue;
        (void)snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i].file);
        ssize_t len = readlink(path, out, size - 1);
        out[len < 0 ? 0 : len] = '\0';
    }
}

PROBE_RUN(probe_ns_user)
{
    (void)probe, (void)env;
    if (probe_enter_user(0, result) == 0)
        probe_say(result, PROBE_OK, "entered, uid and gid mapped");
}

PROBE_RUN(probe_ns_kind)
{
    (void)env;
    char before[64], after[64];
    bool in_user;
    link_of(probe->flag, before, sizeof before);
    if (probe_enter(probe->flag, &in_user, result) < 0)
        return;
    if (use_kind(probe->flag, result) < 0) {
        explain_refusal(result->sys, result);
        return;
    }
    link_of(probe->flag, after, sizeof after);
    /* pid_for_children names nothing until its first process lives; that one was seen above. */
    if (probe->flag != CLONE_NEWPID && strcmp(before, after) == 0) {
        (void)probe_fail(result, 0, "unshare succeeded, yet the namespace is the old one");
        return;
    }
    probe_say(result, PROBE_OK, in_user ? "inside a user namespace" : "directly");
}

static bool become_nobody(void)
{
    if (geteuid() != 0)
        return true;
    if (SYS(setgroups(0, NULL)) < 0 || SYS(setresgid(NOBODY, NOBODY, NOBODY)) < 0 ||
        SYS(setresuid(NOBODY, NOBODY, NOBODY)) < 0)
        return false;
    /* A change of uid makes /proc/self root's property; its maps must be ours to write. It also
     * forgets whom we die with. */
    (void)prctl(PR_SET_DUMPABLE, 1);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    return true;
}

PROBE_RUN(probe_ns_unprivileged)
{
    (void)probe, (void)env;
    if (!become_nobody()) {
        /* Root of a user namespace that holds no other user. */
        probe_say(result, PROBE_INFO, "not tried: become uid %d: %s", NOBODY, strerror(errno));
        return;
    }
    uid_t uid = geteuid();
    unsigned all = 0;
    for (size_t i = 0; i < countof(kinds); i++)
        all |= kinds[i].flag;
    if (probe_enter_user(all, result) < 0 || use_mounts(result) < 0 || use_pids(result) < 0 ||
        use_net(result) < 0 || use_uts(result) < 0) {
        explain_refusal(result->sys, result);
        return;
    }
    probe_say(result, PROBE_OK, "all seven as uid %u", uid);
}

static void add_setting(struct probe_result *result, const char *name, const char *path)
{
    size_t len = strlen(result->detail);
    int64_t value = probe_read_number(path, -1);
    if (value >= 0)
        (void)snprintf(result->detail + len, sizeof result->detail - len, "%s%s %lld",
                       len > 0 ? ", " : "", name, (long long)value);
}

PROBE_RUN(probe_ns_settings)
{
    (void)probe, (void)env;
    add_setting(result, "user.max_user_namespaces", "/proc/sys/user/max_user_namespaces");
    add_setting(result, "kernel.unprivileged_userns_clone",
                "/proc/sys/kernel/unprivileged_userns_clone");
    add_setting(result, "kernel.apparmor_restrict_unprivileged_userns",
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    if (result->detail[0] == '\0')
        probe_say(result, PROBE_INFO, "no such setting is visible");
    result->status = PROBE_INFO;
}

/* Containers cover parts of /proc, and the kernel then refuses a fresh one in a user namespace. */
PROBE_RUN(probe_mount_proc)
{
    (void)probe, (void)env;
    if (probe_enter_user(CLONE_NEWNS | CLONE_NEWPID, result) < 0)
        return;
    pid_t pid = SYS(fork());
    if (pid < 0) {
        (void)probe_fail(result, errno, "fork");
        return;
    }
    if (pid == 0) {
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
            _exit(MIN(errno, 127));
        char self[16] = "";
        ssize_t len = readlink("/proc/self", self, sizeof self - 1);
        _exit(len == 1 && self[0] == '1' ? 0 : 127);
    }
    int code = probe_wait(pid);
    if (code == 0)
        probe_say(result, PROBE_OK, "shows the namespace's own processes");
    else
        (void)probe_fail(result, code > 0 && code < 127 ? code : 0, "mount /proc");
}
