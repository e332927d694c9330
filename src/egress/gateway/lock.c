#include "egress/gateway/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "base/err.h"
#include "base/fd.h"

#if defined(__x86_64__)
#define LOCK_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define LOCK_ARCH AUDIT_ARCH_AARCH64
#else
#error "add the audit name of this architecture"
#endif

#if defined(__SANITIZE_ADDRESS__)
#define LOCK_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LOCK_SANITIZED 1
#endif
#endif
#ifndef LOCK_SANITIZED
#define LOCK_SANITIZED 0
#endif

enum { NOBODY = 65534 };

/* PLAIN: allowed. NO_EXEC: not with PROT_EXEC in the third argument. NETWORK: only these families
 * in the first. READ_ONLY: only with such flags in the third, else ENOENT. MISSING: ENOENT, since
 * libraries look for files that they can do without. */
enum how { PLAIN, NO_EXEC, NETWORK, READ_ONLY, MISSING };

static const struct rule {
    int call;
    enum how how;
} rules[] = {
    /* Sockets, and pipes between two of them. */
    {SYS_read, PLAIN},
    {SYS_write, PLAIN},
    {SYS_readv, PLAIN},
    {SYS_writev, PLAIN},
    {SYS_recvfrom, PLAIN},
    {SYS_sendto, PLAIN},
    {SYS_recvmsg, PLAIN},
    {SYS_sendmsg, PLAIN},
    {SYS_sendmmsg, PLAIN},
    {SYS_splice, PLAIN},
    {SYS_pipe2, PLAIN},
    {SYS_accept4, PLAIN},
    {SYS_socket, NETWORK},
    {SYS_connect, PLAIN},
    {SYS_bind, PLAIN},
    {SYS_getsockname, PLAIN},
    {SYS_getpeername, PLAIN},
    {SYS_getsockopt, PLAIN},
    {SYS_setsockopt, PLAIN},
    {SYS_shutdown, PLAIN},
    {SYS_close, PLAIN},
    {SYS_fcntl, PLAIN},
    {SYS_ioctl, PLAIN},
    {SYS_fstat, PLAIN},
    /* The loop. */
    {SYS_epoll_create1, PLAIN},
    {SYS_epoll_ctl, PLAIN},
    {SYS_epoll_pwait, PLAIN},
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, PLAIN},
    {SYS_poll, PLAIN},
#endif
    {SYS_ppoll, PLAIN},
    {SYS_eventfd2, PLAIN},
    /* Time, randomness, memory. */
    {SYS_clock_gettime, PLAIN},
    {SYS_clock_getres, PLAIN},
    {SYS_clock_nanosleep, PLAIN},
    {SYS_gettimeofday, PLAIN},
#ifdef SYS_time
    {SYS_time, PLAIN},
#endif
    {SYS_getrandom, PLAIN},
    {SYS_brk, PLAIN},
    {SYS_mmap, NO_EXEC},
    {SYS_mprotect, NO_EXEC},
    {SYS_munmap, PLAIN},
    {SYS_mremap, PLAIN},
    {SYS_madvise, PLAIN},
    {SYS_mlock, PLAIN},
    {SYS_mlock2, PLAIN},
    {SYS_munlock, PLAIN},
    {SYS_futex, PLAIN},
    /* Itself. */
    {SYS_getpid, PLAIN},
    {SYS_gettid, PLAIN},
    {SYS_getuid, PLAIN},
    {SYS_geteuid, PLAIN},
    {SYS_uname, PLAIN},
    {SYS_sysinfo, PLAIN},
    {SYS_sched_yield, PLAIN},
    {SYS_sched_getaffinity, PLAIN},
    {SYS_rt_sigaction, PLAIN},
    {SYS_rt_sigprocmask, PLAIN},
    {SYS_rt_sigreturn, PLAIN},
    {SYS_restart_syscall, PLAIN},
    {SYS_exit, PLAIN},
    {SYS_exit_group, PLAIN},
    {SYS_tgkill, PLAIN}, /* abort; it has nobody else to reach */
    /* Files. */
    {SYS_openat, READ_ONLY},
    {SYS_newfstatat, MISSING},
    {SYS_statx, MISSING},
    {SYS_faccessat, MISSING},
    {SYS_readlinkat, MISSING},
#ifdef SYS_open
    {SYS_open, MISSING},
    {SYS_stat, MISSING},
    {SYS_lstat, MISSING},
    {SYS_access, MISSING},
    {SYS_readlink, MISSING},
#endif
#if LOCK_SANITIZED
    {SYS_sigaltstack, PLAIN},
#endif
};

/* Landlock: nothing but this. */

static int forbid_files(bool *ret_has_landlock, struct err *err)
{
    uint64_t handled = (1ull << 13) - 1; /* everything of the first version */
    struct landlock_ruleset_attr attr = {.handled_access_fs = handled};
    AUTO_CLOSE int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0);
    *ret_has_landlock = ruleset >= 0;
    if (ruleset < 0)
        return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : err_sys(err, errno, "Landlock");
    AUTO_CLOSE int random = open("/dev/urandom", O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr rule = {.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE,
                                              .parent_fd = random};
    if (random >= 0 &&
        syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return err_sys(err, errno, "Landlock rule");
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return err_sys(err, errno, "enter Landlock");
    return 0;
}

/* The filter. */

enum { PROGRAM_MAX = 640 };
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(field))
#define GIVE(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), (yes), (no))
#define HAS(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (unsigned)(bits), (yes), (no))
#define ARG(n) offsetof(struct seccomp_data, args[n])
#define NO_FILE (SECCOMP_RET_ERRNO | ENOENT)

struct program {
    struct sock_filter at[PROGRAM_MAX];
    size_t len;
};

static void lock_put(struct program *program, const struct sock_filter *lines, size_t count)
{
    assert(program->len + count <= PROGRAM_MAX);
    memcpy(program->at + program->len, lines, count * sizeof *lines);
    program->len += count;
}

#define PUT(program, ...)                                                                          \
    lock_put((program), (const struct sock_filter[]){__VA_ARGS__},                                 \
             sizeof((const struct sock_filter[]){__VA_ARGS__}) / sizeof(struct sock_filter))

static void put_rule(struct program *program, const struct rule *rule, bool has_landlock)
{
    enum how how = rule->how == READ_ONLY && !has_landlock ? MISSING : rule->how;
    switch (how) {
    case PLAIN:
        PUT(program, IS(rule->call, 0, 1), GIVE(SECCOMP_RET_ALLOW));
        break;
    case MISSING:
        PUT(program, IS(rule->call, 0, 1), GIVE(NO_FILE));
        break;
    case NO_EXEC:
        PUT(program, IS(rule->call, 0, 4), LOAD(ARG(2)), HAS(PROT_EXEC, 1, 0),
            GIVE(SECCOMP_RET_ALLOW), GIVE(SECCOMP_RET_KILL_PROCESS));
        break;
    case NETWORK:
        PUT(program, IS(rule->call, 0, 6), LOAD(ARG(0)), IS(AF_INET, 2, 0), IS(AF_INET6, 1, 0),
            IS(AF_NETLINK, 0, 1), GIVE(SECCOMP_RET_ALLOW), GIVE(SECCOMP_RET_ERRNO | EACCES));
        break;
    case READ_ONLY:
        PUT(program, IS(rule->call, 0, 4), LOAD(ARG(2)),
            HAS(O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND, 1, 0), GIVE(SECCOMP_RET_ALLOW),
            GIVE(NO_FILE));
        break;
    }
}

static int load_filter(bool has_landlock, struct err *err)
{
    static struct program program;
    program.len = 0;
    PUT(&program, LOAD(offsetof(struct seccomp_data, arch)), IS(LOCK_ARCH, 1, 0),
        GIVE(SECCOMP_RET_KILL_PROCESS), LOAD(offsetof(struct seccomp_data, nr)));
    for (size_t i = 0; i < countof(rules); i++)
        put_rule(&program, &rules[i], has_landlock);
    PUT(&program, GIVE(SECCOMP_RET_KILL_PROCESS));
    struct sock_fprog filter = {.len = (unsigned short)program.len, .filter = program.at};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
        return err_sys(err, errno, "load the filter of an egress proxy");
    return 0;
}

/* Privilege and limits. */

static int drop_root(struct err *err)
{
    if (geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return err_sys(err, errno, "become nobody");
    return 0;
}

static int set_limits(int sockets, struct err *err)
{
    const struct {
        __rlimit_resource_t what;
        rlim_t value;
    } limits[] = {
        {RLIMIT_CORE, 1}, /* with 0 a core_pattern with a pipe would still start its program */
        {RLIMIT_FSIZE, 0},
        {RLIMIT_NOFILE, (rlim_t)sockets},
    };
    for (size_t i = 0; i < countof(limits); i++) {
        struct rlimit now;
        if (getrlimit(limits[i].what, &now) < 0)
            return err_sys(err, errno, "read a limit");
        rlim_t value = MIN(limits[i].value, now.rlim_max);
        struct rlimit limit = {value, value};
        if (setrlimit(limits[i].what, &limit) < 0)
            return err_sys(err, errno, "limit an egress proxy");
    }
    return 0;
}

int lock_enter(int sockets, struct err *err)
{
    bool has_landlock = false;
    if (set_limits(sockets, err) < 0 || drop_root(err) < 0)
        return -1;
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, errno, "lock an egress proxy");
    if (forbid_files(&has_landlock, err) < 0)
        return -1;
    return load_filter(has_landlock, err);
}
