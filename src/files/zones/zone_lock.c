/* Locks down a process that works on zones: a bug in its parser of requests can reach nothing
 * outside the zones. */

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "base/err.h"
#include "base/fd.h"
#include "files/zones/zones_internal.h"

#if defined(__x86_64__)
#define ZONE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ZONE_ARCH AUDIT_ARCH_AARCH64
#else
#error "add the audit name of this architecture"
#endif

/* The sanitizers' look for leaks at the end needs /proc and a thread. */
#if defined(__SANITIZE_ADDRESS__)
#define ZONE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZONE_SANITIZED 1
#endif
#endif
#ifndef ZONE_SANITIZED
#define ZONE_SANITIZED 0
#endif

/* Landlock's first version, and a later word: moves from one directory to another. */
#define LANDLOCK_FIRST ((1ull << 13) - 1)
#define LANDLOCK_REFER (1ull << 13)
#define LANDLOCK_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define LANDLOCK_WRITE                                                                             \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                               \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG)

static int allow_zone(int ruleset, int fd, uint64_t allowed, struct err *err)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = allowed, .parent_fd = fd};
    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return err_sys(err, errno, "Landlock rule for a zone");
    return 0;
}

/* On a kernel without Landlock the other protections hold, openat2 first of all. */
static int forbid_other_files(const struct zones *zones, struct err *err)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    uint64_t refer = abi >= 2 ? LANDLOCK_REFER : 0;
    uint64_t allowed = LANDLOCK_READ | (zones->is_read_only ? 0 : LANDLOCK_WRITE | refer);
    struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_FIRST | refer};
    AUTO_CLOSE int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0);
    if (ruleset < 0)
        return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : err_sys(err, errno, "Landlock");
    for (size_t i = 0; i < ZONE_COUNT; i++)
        if (zones->fds[i] >= 0 && allow_zone(ruleset, zones->fds[i], allowed, err) < 0)
            return -1;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return err_sys(err, errno, "enter Landlock");
    return 0;
}

/* What files need; memory is never executable; all else is EPERM. */
static const int calls[] = {
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_lseek,
    SYS_close,
    SYS_fcntl,
    SYS_openat2,
    SYS_openat,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_getdents64,
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_renameat,
    SYS_readlinkat,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fsync,
    SYS_fdatasync,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_copy_file_range,
    SYS_utimensat,
    SYS_dup,
    SYS_dup3,
    SYS_ppoll,
#ifdef SYS_poll
    SYS_poll,
#endif
#ifdef SYS_rename
    SYS_rename,
#endif
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_getrandom,
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_futex,
    SYS_getpid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_sched_yield,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
    SYS_tgkill,
};

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(field))
#define GIVE(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), (yes), (no))
#define HAS(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (unsigned)(bits), (yes), (no))
#define REFUSED (SECCOMP_RET_ERRNO | EPERM)

static int load_filter(struct err *err)
{
    struct sock_filter program[2 * countof(calls) + 16];
    size_t len = 0;
    const struct sock_filter head[] = {
        LOAD(offsetof(struct seccomp_data, arch)),
        IS(ZONE_ARCH, 1, 0),
        GIVE(SECCOMP_RET_KILL_PROCESS),
        LOAD(offsetof(struct seccomp_data, nr)),
    };
    const struct sock_filter tail[] = {
        IS(SYS_mmap, 2, 0),   IS(SYS_mprotect, 1, 0),
        GIVE(REFUSED),        LOAD(offsetof(struct seccomp_data, args[2])),
        HAS(PROT_EXEC, 1, 0), GIVE(SECCOMP_RET_ALLOW),
        GIVE(REFUSED),
    };
    memcpy(program, head, sizeof head);
    len += countof(head);
    for (size_t i = 0; i < countof(calls); i++) {
        program[len++] = (struct sock_filter)IS(calls[i], 0, 1);
        program[len++] = (struct sock_filter)GIVE(SECCOMP_RET_ALLOW);
    }
    memcpy(program + len, tail, sizeof tail);
    len += countof(tail);
    struct sock_fprog filter = {.len = (unsigned short)len, .filter = program};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
        return err_sys(err, errno, "load the filter of a zone's worker");
    return 0;
}

int zones_lock(const struct zones *zones, struct err *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, errno, "lock a zone's worker");
    if (ZONE_SANITIZED)
        return 0;
    if (forbid_other_files(zones, err) < 0)
        return -1;
    return load_filter(err);
}
