/* RES-07, RES-08: stay alive past the end of the command: probe_survivor WAY, where WAY is
 * deaf (ignores signals, spins), daemon (double fork, setsid, closes all; the leader goes),
 * daemons (the same, the leader stays), respawn (each child makes the next every millisecond),
 * stopped (stops itself and a child), vfork (sleeps in a vfork child), zombies N (never reaps). */

#include "finding.h"

#include <sys/prctl.h>

static void ignore_all(void)
{
    for (int sig = 1; sig < 65; sig++)
        (void)signal(sig, SIG_IGN);
}

static void stay(void)
{
    for (;;)
        (void)usleep(100000);
}

static void spin(void)
{
    for (volatile unsigned long n = 0;; n++)
        ;
}

static void become_daemon(void)
{
    if (fork() != 0)
        return;
    (void)setsid();
    if (fork() != 0)
        _exit(0);
    (void)setsid();
    ignore_all();
    (void)chdir("/");
    for (int fd = 0; fd < 1024; fd++)
        (void)close(fd);
    stay();
}

static void respawn(void)
{
    if (fork() != 0)
        return;
    ignore_all();
    for (;;) {
        (void)usleep(1000);
        pid_t next = fork();
        if (next > 0)
            _exit(0);
        (void)setsid();
    }
}

static void hold_zombies(long most)
{
    long made = 0;
    for (; made < most; made++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0)
            break;
    }
    say("zombies", "%ld", made);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "deaf";
    say("started", "%s", way);
    if (strcmp(way, "deaf") == 0) {
        ignore_all();
        (void)!fork();
        spin();
    } else if (strcmp(way, "daemon") == 0) {
        become_daemon();
        (void)usleep(50000);
    } else if (strcmp(way, "daemons") == 0) {
        for (int i = 0; i < 4; i++)
            become_daemon();
        stay();
    } else if (strcmp(way, "respawn") == 0) {
        respawn();
        (void)usleep(50000);
    } else if (strcmp(way, "stopped") == 0) {
        (void)!fork();
        (void)raise(SIGSTOP);
        stay();
    } else if (strcmp(way, "vfork") == 0) {
        if (vfork() == 0)
            for (;;)
                (void)pause();
    } else if (strcmp(way, "zombies") == 0) {
        hold_zombies(number(argc > 2 ? argv[2] : NULL, 200));
        if (argc > 3)
            stay();
    }
    say("done", "1");
    return 0;
}
