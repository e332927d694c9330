/* Signals reach nobody outside, and not init. Argument: a process id of the host. */

#include "probe.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
    long host = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    if (host > 300)
        must_fail("pidfd of the host", syscall(SYS_pidfd_open, host, 0), 0);
    for (int pid = 300; pid < 40000; pid++)
        if (kill(pid, SIGKILL) == 0)
            probe_say("kill", "reached somebody");
    (void)kill(1, SIGKILL);
    (void)kill(1, SIGSTOP);
    (void)kill(1, SIGTERM);
    (void)syscall(SYS_tgkill, 1, 1, SIGKILL);
    int status = 0;
    must_work("own child", kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    (void)kill(-1, SIGKILL); /* everybody but us and init */
    must_work("init still reaps", fork() != 0 || (_exit(0), true));
    (void)wait(NULL);
    return probe_end();
}
