/* Namespaces and mounts: how the fence was made. */

#include "probe.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

static void *nothing(void *arg)
{
    return arg;
}

int main(void)
{
    static const int bits[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                               CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    static const char *const spaces[] = {"mnt", "cgroup", "uts", "ipc", "user", "pid", "net"};
    for (int i = 0; i < 7; i++) {
        char path[64];
        must_fail("unshare", syscall(SYS_unshare, bits[i]), EPERM);
        long pid = syscall(SYS_clone, bits[i] | SIGCHLD, NULL, NULL, NULL, 0);
        if (pid == 0)
            _exit(0);
        must_fail("clone", pid, EPERM);
        snprintf(path, sizeof path, "/proc/self/ns/%s", spaces[i]);
        int fd = open(path, O_RDONLY);
        must_work("open own namespace", fd >= 0);
        must_fail("setns", syscall(SYS_setns, fd, 0), EPERM);
        snprintf(path, sizeof path, "/proc/1/ns/%s", spaces[i]);
        must_fail("init's namespace", open(path, O_RDONLY), 0);
    }
    must_fail("mount tmpfs", syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL), EPERM);
    must_fail("bind", syscall(SYS_mount, "/usr", "/tmp", NULL, 4096, NULL), EPERM);
    must_fail("umount2", syscall(SYS_umount2, "/proc", 2), EPERM);
    must_fail("pivot_root", syscall(SYS_pivot_root, "/", "/tmp"), EPERM);
    must_fail("chroot", syscall(SYS_chroot, "/tmp"), EPERM);
    must_fail("fsopen", syscall(SYS_fsopen, "ext4", 0), EPERM);
    must_fail("fsconfig", syscall(SYS_fsconfig, -1, 1, "source", "x", 0), EPERM);
    must_fail("fsmount", syscall(SYS_fsmount, -1, 0, 0), EPERM);
    must_fail("open_tree", syscall(SYS_open_tree, -100, "/", 1), EPERM);
    must_fail("move_mount", syscall(SYS_move_mount, -100, "/tmp", -100, "/mnt", 0), EPERM);
    must_fail("mount_setattr", syscall(SYS_mount_setattr, -100, "/", 0, NULL, 0), EPERM);
    int status = 1;
    pthread_t thread;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    must_work("fork", waitpid(child, &status, 0) == child && status == 0);
    must_work("pthread_create",
              pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    return probe_end();
}
