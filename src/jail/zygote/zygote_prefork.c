/* An interpreter before it has a jail: forked from the zygote ahead of time, with the work of a
 * first cell already done, so that a jail does not wait for that when it needs an interpreter.
 *
 * A process can enter a pid namespace only by being created in it. So the prefork enters the rest
 * of the jail and has a child there that has the interpreter as its child; all three run in one
 * memory, which is never copied, and the two in between leave it without touching it: the
 * interpreter continues on the same stack. They have more privileges than a tenant may have, so the
 * interpreter waits until they are gone before it reads a tenant's first byte; and they do not
 * enter the jail's groups, so no limit of the jail holds up the zygote, which waits for them. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/lockdown.h"
#include "jail/wire/linux.h"
#include "jail/zygote/zygote_internal.h"
#include "jail/zygote/zygote_thread.h"

enum { LINE_FD = ZYGOTE_CONTROL_FD, SCORE_FD = ZYGOTE_PROC_FD + 1, PAUSE_US = 50 };

#define NAMESPACES                                                                                 \
    ((DEFENDED(USER_NS) ? CLONE_NEWUSER : 0) | (DEFENDED(MOUNT_NS) ? CLONE_NEWNS : 0) |            \
     (DEFENDED(PID_NS) ? CLONE_NEWPID : 0) | (DEFENDED(NET_NS) ? CLONE_NEWNET : 0) |               \
     (DEFENDED(IPC_NS) ? CLONE_NEWIPC : 0) | (DEFENDED(UTS_NS) ? CLONE_NEWUTS : 0) |               \
     (DEFENDED(CGROUP_NS) ? CLONE_NEWCGROUP : 0))

/* --- Out of the way --- */

/* Of the prefork and of its child; the Linux kernel clears each when that process is gone. */
static volatile int alive[2];

/* Two processes share one memory and one stack: after a process has forked, it touches neither. The
 * first waits for the second, so that no other process has to. Returns in the interpreter with 0,
 * or in one of the two with an error. */
#if defined(__x86_64__)
static long __attribute__((noinline)) clone_twice(void)
{
    long result = SYS_clone;
    register long child_word __asm__("r10") = (long)(alive + 1);
    register long none __asm__("r8") = 0;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "js 3f\n\t"
                     "jz 1f\n\t"
                     "mov %%rax, %%rdi\n\t"
                     "xor %%esi, %%esi\n\t"
                     "xor %%edx, %%edx\n\t"
                     "xor %%r10d, %%r10d\n\t"
                     "mov %[wait], %%eax\n\t"
                     "syscall\n\t"
                     "jmp 2f\n"
                     "1:\n\t"
                     "mov %[plain], %%edi\n\t"
                     "xor %%esi, %%esi\n\t"
                     "xor %%edx, %%edx\n\t"
                     "xor %%r10d, %%r10d\n\t"
                     "mov %[clone], %%eax\n\t"
                     "syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jle 3f\n"
                     "2:\n\t"
                     "mov %[exit], %%eax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "hlt\n"
                     "3:"
                     : "+a"(result), "+r"(child_word)
                     : "D"((long)(CLONE_VM | CLONE_VFORK | CLONE_CHILD_CLEARTID | SIGCHLD)),
                       "S"(0L), "d"(0L), "r"(none), [plain] "i"(CLONE_VM | SIGCHLD),
                       [clone] "i"(SYS_clone), [wait] "i"(SYS_wait4), [exit] "i"(SYS_exit_group)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static long __attribute__((noinline)) clone_twice(void)
{
    register long x0 __asm__("x0") = CLONE_VM | CLONE_VFORK | CLONE_CHILD_CLEARTID | SIGCHLD;
    register long x1 __asm__("x1") = 0;
    register long x2 __asm__("x2") = 0;
    register long x3 __asm__("x3") = 0;
    register long x4 __asm__("x4") = (long)(alive + 1);
    register long x8 __asm__("x8") = SYS_clone;
    __asm__ volatile("svc 0\n\t"
                     "tbnz x0, #63, 3f\n\t"
                     "cbz x0, 1f\n\t"
                     "mov x1, #0\n\t"
                     "mov x2, #0\n\t"
                     "mov x3, #0\n\t"
                     "mov x8, %[wait]\n\t"
                     "svc 0\n\t"
                     "b 2f\n"
                     "1:\n\t"
                     "mov x0, %[plain]\n\t"
                     "mov x1, #0\n\t"
                     "mov x2, #0\n\t"
                     "mov x3, #0\n\t"
                     "mov x4, #0\n\t"
                     "mov x8, %[clone]\n\t"
                     "svc 0\n\t"
                     "tbnz x0, #63, 3f\n\t"
                     "cbz x0, 3f\n"
                     "2:\n\t"
                     "mov x0, #0\n\t"
                     "mov x8, %[exit]\n\t"
                     "svc 0\n\t"
                     "brk #0\n"
                     "3:"
                     : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3), "+r"(x4), "+r"(x8)
                     : [plain] "i"(CLONE_VM | SIGCHLD), [clone] "i"(SYS_clone),
                       [wait] "i"(SYS_wait4), [exit] "i"(SYS_exit_group)
                     : "memory");
    return x0;
}
#else
#error "handing memory to another process needs raw system calls for this architecture"
#endif

void zygote_await_parents(void)
{
    while (DEFENDED(ALONE) && (alive[0] != 0 || alive[1] != 0))
        (void)usleep(PAUSE_US);
}

/* --- Into the jail --- */

static bool read_work(struct wire_in *in, struct zygote_work *work)
{
    work->score = (int)wire_get_u32(in);
    work->is_anchored = wire_get_u32(in) != 0;
    work->limits.pids = wire_get_i64(in);
    work->limits.nofile = wire_get_i64(in);
    uint32_t count = wire_get_u32(in);
    if (count >= countof(work->writable))
        return false;
    for (uint32_t i = 0; i < count; i++)
        work->writable[i] = wire_get_cstr(in);
    work->writable[count] = NULL;
    return wire_ended(in) && work->fds[ZYGOTE_ERR] >= 0;
}

/* What is forked now gets this place in line for the out-of-memory killer. */
static void set_score(int score)
{
    char text[16];
    size_t len = (size_t)snprintf(text, sizeof text, "%d", score);
    (void)!write(SCORE_FD, text, len);
}

/* Returns in the interpreter. */
static int enter_jail(const struct zygote_work *work, struct err *err)
{
    sigset_t all;
    (void)sigfillset(&all);
    set_score(work->score);
    if (SYS(setns(work->fds[ZYGOTE_INIT], NAMESPACES)) < 0)
        return err_sys(err, errno, "enter the jail");
    /* A handler would run on the interpreter's stack. */
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return err_sys(err, errno, "block signals");
    alive[0] = alive[1] = 1;
    (void)syscall(SYS_set_tid_address, &alive[0]);
    zygote_thread_leave();
    long result = clone_twice();
    if (result < 0)
        return err_sys(err, (int)-result, "fork the interpreter");
    zygote_thread_take_over();
    return 0;
}

static void NORETURN zygote_prefork_fail(const struct zygote_work *work, const struct err *why)
{
    zygote_tell_failure(work->fds[ZYGOTE_START_SOCKET], why);
    _exit(1);
}

/* --- Waiting --- */

/* The zygote's line is not ours: who waits for its end would wait for ours. */
static int zygote_prefork_arrange_descriptors(int line, struct err *err)
{
    /* Files in /proc of a process that cannot be dumped belong to the real root only. */
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    int score = openat(ZYGOTE_PROC_FD, "../self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (SYS(prctl(PR_SET_DUMPABLE, !DEFENDED(ZYGOTE_UNDUMPABLE), 0, 0, 0)) < 0)
        return err_sys(err, errno, "hide the prefork parent");
    if (dup3(line, LINE_FD, O_CLOEXEC) < 0 || (score >= 0 && dup3(score, SCORE_FD, O_CLOEXEC) < 0))
        return err_sys(err, errno, "arrange descriptors");
    return lockdown_descriptors(SCORE_FD, err);
}

static bool is_asked(void)
{
    struct pollfd line = {.fd = LINE_FD, .events = POLLIN};
    return poll(&line, 1, 0) > 0;
}

void zygote_live_as_prefork(int line, const struct zygote_hooks *hooks)
{
    static char in[WIRE_MAX];
    static struct zygote_work work;
    struct err err = {0};
    struct wire_head head;
    zygote_thread_renew();
    zygote_thread_after();
    (void)prctl(PR_SET_NAME, "prefork", 0, 0, 0);
    if (zygote_prefork_arrange_descriptors(line, &err) < 0)
        _exit(1);
    hooks->in_child();
    if (!is_asked())
        hooks->rehearse();
    ssize_t len = wire_recv(LINE_FD, in, work.fds, true, &err);
    if (len <= 0)
        _exit(0); /* the zygote is no more */
    struct wire_in message = wire_open(str_n(in, (size_t)len), &head);
    if (!read_work(&message, &work))
        (void)err_set(&err, ERR_INVALID, "prefork parent: malformed or unknown message %u",
                      head.type);
    if (err.code != 0 || enter_jail(&work, &err) < 0)
        zygote_prefork_fail(&work, &err);
    zygote_become_interpreter(&work, hooks);
}
