#pragma once

/* Calls and constants that the C libraries or the oldest supported headers lack. */

#include <linux/mount.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/base.h"
#include "base/sys.h"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* What to say when the kernel refuses a namespace. */
#define KERNEL_NO_NAMESPACES                                                                       \
    "make the namespaces; the kernel must allow user namespaces (user.max_user_namespaces, "       \
    "clone3 not denied by an outer sandbox)"

static inline int k_open_tree(int dir_fd, const char *path, unsigned flags)
{
    return (int)SYS(syscall(SYS_open_tree, dir_fd, path, flags));
}
static inline int k_move_mount(int from_fd, int to_fd)
{
    return (int)SYS(syscall(SYS_move_mount, from_fd, "", to_fd, "",
                            MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
}
static inline int k_mount_setattr(int fd, unsigned flags, struct mount_attr *attr)
{
    return (int)SYS(syscall(SYS_mount_setattr, fd, "", flags, attr, sizeof *attr));
}
static inline int k_fsopen(const char *type)
{
    return (int)SYS(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC));
}
static inline int k_fsconfig(int fd, unsigned cmd, const char *key, const char *value)
{
    return (int)SYS(syscall(SYS_fsconfig, fd, cmd, key, value, 0));
}
static inline int k_fsmount(int fd, unsigned attrs)
{
    return (int)SYS(syscall(SYS_fsmount, fd, FSMOUNT_CLOEXEC, attrs));
}
static inline int k_fspick(int dir_fd)
{
    return (int)SYS(syscall(SYS_fspick, dir_fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH));
}
static inline int k_pidfd_send_signal(int pidfd, int sig)
{
    return (int)SYS(syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0));
}
/* Linux 6.11; elsewhere -1. */
static inline int k_pidfd_mount_ns(int pidfd)
{
    enum { GET_MNT_NAMESPACE = 0xff03 };
    return ioctl(pidfd, GET_MNT_NAMESPACE, 0);
}
static inline int k_close_range(unsigned first, unsigned last, unsigned flags)
{
    return (int)SYS(syscall(SYS_close_range, first, last, flags));
}
static inline pid_t k_clone3(struct clone_args *args)
{
    return (pid_t)SYS(syscall(SYS_clone3, args, sizeof *args));
}
