/* ISO-13: signals to every process and group; probe_signals HOST-PID PIDS-TO-TRY. */

#include "finding.h"

int main(int argc, char **argv)
{
    pid_t host = (pid_t)number(argc > 1 ? argv[1] : NULL, 0);
    pid_t most = (pid_t)number(argc > 2 ? argv[2] : NULL, 65536);
    pid_t child = fork();
    if (child == 0) {
        for (;;)
            (void)pause();
    }
    say_result("control.kill_child", kill(child, SIGKILL));
    (void)waitpid(child, NULL, 0);

    say_result("host.kill", kill(host, SIGKILL));
    say_result("host.tgkill", syscall(SYS_tgkill, host, host, SIGKILL));
    say_result("host.tkill", syscall(SYS_tkill, host, SIGKILL));
    say_result("host.pidfd_open", syscall(SYS_pidfd_open, host, 0));
    say_result("host.group", kill(-host, SIGKILL));
    for (int sig = 1; sig <= 64; sig++)
        (void)kill(1, sig);
    (void)syscall(SYS_tgkill, 1, 1, SIGSTOP);
    (void)syscall(SYS_tgkill, 1, 1, SIGSEGV);
    long pidfd = syscall(SYS_pidfd_open, 1, 0);
    if (pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    int hits = 0;
    for (pid_t pid = 2; pid < most; pid++) {
        /* Another thread of init is as deaf as its first. */
        bool is_init = syscall(SYS_tgkill, 1, pid, 0) == 0;
        for (int sig = 1; is_init && sig <= 64; sig++)
            (void)syscall(SYS_tgkill, 1, pid, sig);
        if (pid != getpid() && kill(pid, SIGKILL) == 0 && !is_init)
            hits++;
    }
    say("hits", "%d", hits);
    say_result("kill_all", kill(-1, SIGKILL));
    say("alive", "1");
    char text[4096];
    say("init.status", "%s", slurp("/proc/1/stat", text, sizeof text) > 0 ? "readable" : "hidden");
    say("done", "1");
    return 0;
}
