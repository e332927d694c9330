/* The system calls of the embedder. */

#include <sys/syscall.h>

#include "search/embed/embedder_internal.h"

enum { DESCRIPTORS = 8 };

static const struct confine_rule rules[] = {
    {SYS_recvfrom, CONFINE_PLAIN}, /* texts, from the one socket */
    {SYS_sendto, CONFINE_PLAIN},   /* vectors, to it */
#ifdef SYS_poll
    {SYS_poll, CONFINE_PLAIN},
#endif
    {SYS_ppoll, CONFINE_PLAIN},
    {SYS_read, CONFINE_PLAIN}, /* the tokenizer; its descriptor is closed afterwards */
    {SYS_lseek, CONFINE_PLAIN},
    {SYS_close, CONFINE_PLAIN},
    {SYS_write, CONFINE_PLAIN}, /* the last words of an abort, to /dev/null */
    {SYS_futex, CONFINE_PLAIN}, /* threads wait for work */
    {SYS_sched_yield, CONFINE_PLAIN},
    {SYS_clock_gettime, CONFINE_PLAIN}, /* where the vDSO does not serve */
    {SYS_gettimeofday, CONFINE_PLAIN},
    {SYS_getrandom, CONFINE_PLAIN},
    {SYS_brk, CONFINE_PLAIN},
    {SYS_mmap, CONFINE_NO_EXEC},
    {SYS_mprotect, CONFINE_NO_EXEC},
    {SYS_munmap, CONFINE_PLAIN},
    {SYS_mremap, CONFINE_PLAIN},
    {SYS_madvise, CONFINE_PLAIN},
    {SYS_getpid, CONFINE_PLAIN},
    {SYS_gettid, CONFINE_PLAIN},
    {SYS_rt_sigaction, CONFINE_PLAIN},
    {SYS_rt_sigprocmask, CONFINE_PLAIN},
    {SYS_rt_sigreturn, CONFINE_PLAIN},
    {SYS_restart_syscall, CONFINE_PLAIN},
    {SYS_sched_getaffinity, CONFINE_PLAIN},
    {SYS_exit, CONFINE_PLAIN},
    {SYS_exit_group, CONFINE_PLAIN},
    {SYS_openat, CONFINE_REFUSED}, /* the JSON library looks for randomness there */
    {SYS_prctl, CONFINE_REFUSED},  /* the allocator names its memory */
#if defined(__SANITIZE_ADDRESS__)
    {SYS_sigaltstack, CONFINE_PLAIN},
#endif
};

static const struct confine_limit limits[] = {
    {RLIMIT_CORE, 0}, /* a core would hold tenants' texts */
    {RLIMIT_FSIZE, 0},
    {RLIMIT_NOFILE, DESCRIPTORS},
};

const struct confine_list embedder_calls = {rules, countof(rules), limits, countof(limits)};
