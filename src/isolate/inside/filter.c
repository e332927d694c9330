#include "isolate/inside/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "base/err.h"
#include "isolate/vm/rt.h"

#if defined(__x86_64__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#else
#error "add the audit name of this architecture"
#endif

/* Each with its reason. `no_exec` refuses PROT_EXEC in the third argument. */
static const struct rule {
    int call;
    bool no_exec;
} rules[] = {
    {SYS_read, false},  /* requests, from the one socket */
    {SYS_write, false}, /* answers, to it */
#ifdef SYS_poll
    {SYS_poll, false}, /* timers and answers of bridges */
#endif
    {SYS_ppoll, false},         {SYS_setitimer, false}, /* the hard deadline */
    {SYS_rt_sigreturn, false},                          /* end of its signal handlers */
    {SYS_clock_gettime, false},                         /* where the vDSO does not serve */
    {SYS_gettimeofday, false},  {SYS_getrandom, false}, /* seeds */
    {SYS_mprotect, true},                               /* linear memory grows and shrinks */
    {SYS_mmap, true}, /* new isolates; without files the descriptor is of no use */
    {SYS_munmap, false},        {SYS_mremap, false}, /* realloc of large buffers */
    {SYS_madvise, false},                            /* memory of ended isolates goes back */
    {SYS_brk, false},           {SYS_exit_group, false},
#if RT_ASAN
    {SYS_getpid, false}, /* the sanitizer's own */
    {SYS_gettid, false},        {SYS_sigaltstack, false},
    {SYS_sched_yield, false},   {SYS_futex, false},
#endif
};

enum { PER_RULE = 5, HEAD = 4, PROGRAM_MAX = 256 };
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(field))

static size_t filter_build(struct sock_filter *program)
{
    size_t n = 0;
    program[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, arch));
    program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCH, 1, 0);
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    program[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < countof(rules); i++) {
        unsigned call = (unsigned)rules[i].call;
        if (!rules[i].no_exec) {
            program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
            program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
            continue;
        }
        program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
        program[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, args[2]));
        program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0);
        program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    return n;
}

static int set_limits(struct err *err)
{
    static const struct {
        __rlimit_resource_t what;
        rlim_t value;
    } limits[] = {
        {RLIMIT_CORE, 0}, /* a core would hold the tenant's data */
        {RLIMIT_FSIZE, 0},
        {RLIMIT_NPROC, 0},
        {RLIMIT_NOFILE, 4}, /* its socket is the last one */
    };
    for (size_t i = 0; i < countof(limits); i++) {
        struct rlimit limit = {limits[i].value, limits[i].value};
        if (setrlimit(limits[i].what, &limit) < 0)
            return err_sys(err, errno, "limit a worker");
    }
    return 0;
}

int filter_lock(struct err *err)
{
    static struct sock_filter program[PROGRAM_MAX];
    static_assert(HEAD + countof(rules) * PER_RULE + 1 <= PROGRAM_MAX, "room for the program");
    struct sock_fprog filter = {.len = (unsigned short)filter_build(program), .filter = program};
    if (set_limits(err) < 0)
        return -1;
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, errno, "lock a worker");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
        return err_sys(err, errno, "load the filter of a worker");
    return 0;
}
