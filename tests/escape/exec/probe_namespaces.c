/* ISO-03: every way to a new namespace, another namespace or another mount, as raw calls, so that
 * no library stands between. Fork and threads, which use the same calls, must go on working. */

#include "finding.h"

#include <pthread.h>

static const struct {
    const char *name;
    unsigned long flag;
} bits[] = {
    {"newns", 0x00020000},  {"newcgroup", 0x02000000}, {"newuts", 0x04000000},
    {"newipc", 0x08000000}, {"newuser", 0x10000000},   {"newpid", 0x20000000},
    {"newnet", 0x40000000}, {"newtime", 0x00000080},
};

static void try_clone(const char *name, unsigned long flags)
{
    pid_t child = fork();
    if (child == 0) {
        long rc = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
        if (rc == 0)
            _exit(0);
        _exit(rc < 0 ? errno : 0);
    }
    int status = 0;
    (void)waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        say(name, "signal %d", WTERMSIG(status));
    else
        say(name, "%s", WEXITSTATUS(status) == 0 ? "ok" : errno_name(WEXITSTATUS(status)));
}

static void try_new(void)
{
    char name[64];
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        (void)snprintf(name, sizeof name, "unshare.%s", bits[i].name);
        ATTEMPT(name, SYS_unshare, bits[i].flag);
        /* In clone the low byte is the signal: CLONE_NEWTIME means nothing there. */
        if (bits[i].flag == 0x80)
            continue;
        (void)snprintf(name, sizeof name, "clone.%s", bits[i].name);
        try_clone(name, bits[i].flag);
        /* The kernel reads the low half only; a filter that compares 64 bits would be fooled. */
        (void)snprintf(name, sizeof name, "clone_high.%s", bits[i].name);
        try_clone(name, bits[i].flag | 1UL << 40);
    }
    ATTEMPT("unshare_high.newuser", SYS_unshare, 0x10000000UL | 1UL << 40);
}

static void try_setns(void)
{
    static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    char path[64], name[64];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int who = 0; who < 2; who++) {
            (void)snprintf(path, sizeof path, "/proc/%s/ns/%s", who ? "1" : "self", kinds[i]);
            (void)snprintf(name, sizeof name, "setns.%s.%s", who ? "init" : "self", kinds[i]);
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            if (fd < 0) {
                say(name, "open %s", errno_name(errno));
                continue;
            }
            ATTEMPT(name, SYS_setns, fd, 0);
            (void)close(fd);
        }
    long pidfd = syscall(SYS_pidfd_open, 1, 0);
    ATTEMPT("setns.pidfd", SYS_setns, pidfd, 0x10000000);
}

static void try_mounts(void)
{
    struct {
        uint64_t set, clear, propagation, userns;
    } attr = {.clear = 1 /* MOUNT_ATTR_RDONLY */};
    static char parameter[4096];
    memset(parameter, 'A', sizeof parameter - 1);
    ATTEMPT("mount.tmpfs", SYS_mount, P("none"), P("/tmp"), P("tmpfs"), 0, 0);
    ATTEMPT("mount.bind", SYS_mount, P("/"), P("/tmp"), 0, 4096, 0);
    ATTEMPT("mount.proc", SYS_mount, P("proc"), P("/tmp"), P("proc"), 0, 0);
    ATTEMPT("mount.remount", SYS_mount, 0, P("/"), 0, 32 | 4096, 0);
    ATTEMPT("mount.shared", SYS_mount, 0, P("/"), 0, 1 << 20, 0);
    ATTEMPT("umount2", SYS_umount2, P("/proc"), 2);
    ATTEMPT("pivot_root", SYS_pivot_root, P("/tmp"), P("/tmp"));
    ATTEMPT("chroot", SYS_chroot, P("/tmp"));
    ATTEMPT("fsopen", SYS_fsopen, P("ext4"), 0);
    ATTEMPT("fsopen.tmpfs", SYS_fsopen, P("tmpfs"), 0);
    ATTEMPT("fsconfig", SYS_fsconfig, 0, 1, P("x"), P(parameter), 0);
    ATTEMPT("fsmount", SYS_fsmount, 0, 0, 0);
    ATTEMPT("fspick", SYS_fspick, -100, P("/"), 0);
    ATTEMPT("open_tree", SYS_open_tree, -100, P("/"), 0);
    ATTEMPT("open_tree.clone", SYS_open_tree, -100, P("/"), 1);
    ATTEMPT("move_mount", SYS_move_mount, -100, P("/tmp"), -100, P("/"), 0);
    ATTEMPT("mount_setattr", SYS_mount_setattr, -100, P("/"), 0, P(&attr), sizeof attr);
}

static void *nothing(void *arg)
{
    return arg;
}

static void controls(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    int status = 1;
    say("control.fork", "%s", waitpid(child, &status, 0) == child && status == 0 ? "ok" : "failed");
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, nothing, NULL);
    say("control.pthread", "%s", rc == 0 && pthread_join(thread, NULL) == 0 ? "ok" : "failed");
}

int main(void)
{
    try_new();
    try_setns();
    try_mounts();
    controls();
    say("done", "1");
    return 0;
}
