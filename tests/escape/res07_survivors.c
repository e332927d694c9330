/* Leaves children behind in every way there is: own session, closed descriptors, ignored signals,
 * stopped, re-spawning. The caller ends the jail and looks. */

#include "probe.h"

#include <signal.h>

static void stay(void)
{
    for (int sig = 1; sig < 32; sig++)
        (void)signal(sig, SIG_IGN);
    for (int fd = 0; fd < 64; fd++)
        close(fd);
    (void)setsid();
    for (;;)
        pause();
}

int main(void)
{
    int code = probe_end(); /* those who stay must not hold the caller's pipe */
    fflush(stdout);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    for (int i = 0; i < 8; i++)
        if (fork() == 0) {
            if (fork() == 0)
                stay();
            _exit(0);
        }
    if (fork() == 0) {
        (void)setsid();
        for (;;) { /* each lives a moment and makes the next */
            if (fork() != 0)
                _exit(0);
            usleep(1000);
        }
    }
    if (fork() == 0) {
        (void)setsid();
        raise(SIGSTOP);
        _exit(0);
    }
    if (vfork() == 0) {
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
        _exit(1);
    }
    _exit(code);
}
