/* Calls whose arguments a filter cannot see, and numbers that nobody knows yet. */

#include "probe.h"

#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>

int main(void)
{
    struct clone_args args = {.exit_signal = SIGCHLD};
    char params[120] = {0};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        _exit(0);
    must_fail("clone3", pid, ENOSYS);
    must_fail("io_uring_setup", syscall(425, 8, params), ENOSYS);
    must_fail("io_uring_enter", syscall(426, 0, 1, 0, 0, NULL, 0), ENOSYS);
    must_fail("io_uring_register", syscall(427, 0, 0, NULL, 0), ENOSYS);
    must_fail("1000", syscall(1000), ENOSYS);
    must_fail("9999", syscall(9999), ENOSYS);
    must_work("bash starts", system("bash -c 'true | true'") == 0);
    must_work(
        "python starts a thread",
        access("/usr/bin/python3", X_OK) != 0 ||
            system("python3 -c 'import threading,subprocess as s;"
                   "t=threading.Thread(target=lambda:s.run([\"true\"]));t.start();t.join()'") == 0);
    return probe_end();
}
