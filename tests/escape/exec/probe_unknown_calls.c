/* ISO-04: calls whose arguments a filter cannot read, and numbers that nobody knows yet. All must
 * look as on an older kernel, so that libraries fall back. */

#include "finding.h"

static void try_clone3(void)
{
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } args = {.exit_signal = SIGCHLD};
    long rc = syscall(SYS_clone3, &args, sizeof args);
    if (rc == 0)
        _exit(0);
    say_result("clone3", rc);
    args.flags = 0x10000000; /* CLONE_NEWUSER */
    rc = syscall(SYS_clone3, &args, sizeof args);
    if (rc == 0)
        _exit(0);
    say_result("clone3.newuser", rc);
}

static void try_io_uring(void)
{
    static char params[256]; /* struct io_uring_params is 120 bytes, all zero is valid */
    ATTEMPT("io_uring_setup", 425, 8, P(params));
    ATTEMPT("io_uring_enter", 426, 0, 1, 1, 0, 0, 0);
    ATTEMPT("io_uring_register", 427, 0, 0, 0, 0);
}

int main(void)
{
    try_clone3();
    try_io_uring();
    ATTEMPT("nr.600", 600);
    ATTEMPT("nr.1000", 1000);
    ATTEMPT("nr.9999", 9999);
    ATTEMPT("nr.high", 0x3fffffff);
    ATTEMPT("nr.negative", -1);
    ATTEMPT("control.getpid", SYS_getpid);
    say("done", "1");
    return 0;
}
