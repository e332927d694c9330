/* RES-01: as many processes or threads as one gets: probe_fork_bomb fork|thread|vfork|chain MOST.
 * MOST keeps a jail whose limit is broken from taking the host along. */

#include "finding.h"

#include <pthread.h>
#include <spawn.h>

static void *wait_for_end(void *arg)
{
    for (;;)
        (void)pause();
    return arg;
}

static long by_fork(long most)
{
    for (long made = 0; made < most; made++) {
        pid_t child = fork();
        if (child < 0)
            return made;
        if (child == 0)
            (void)wait_for_end(NULL);
    }
    errno = 0;
    return most;
}

static long by_thread(long most)
{
    pthread_attr_t attr;
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, 16384);
    for (long made = 0; made < most; made++) {
        pthread_t thread;
        errno = pthread_create(&thread, &attr, wait_for_end, NULL);
        if (errno != 0)
            return made;
    }
    return most;
}

/* Each vfork child execs a program that stays, so that the parent goes on. */
static long by_vfork(long most, char *self)
{
    char *const argv[] = {self, (char *)"stay", NULL};
    for (long made = 0; made < most; made++) {
        pid_t child;
        errno = posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, NULL);
        if (errno != 0)
            return made;
    }
    return most;
}

/* A chain: every child makes the next and goes, so that there is never a parent to find. */
static long by_chain(long most)
{
    int count[2];
    if (pipe(count) < 0 || fork() == 0) {
        for (long made = 0; made < most; made++) {
            pid_t child = -1;
            /* The dead count until init has reaped them: that it does is what is asked here. */
            for (int tries = 0; child < 0 && tries < 2000; tries++)
                if ((child = fork()) < 0)
                    (void)usleep(1000);
            if (child != 0)
                _exit(0);
            (void)!write(count[1], "x", 1);
        }
        _exit(0);
    }
    (void)close(count[1]);
    long made = 0;
    for (char byte; read(count[0], &byte, 1) == 1;)
        made++;
    errno = 0;
    return made;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "fork";
    long most = number(argc > 2 ? argv[2] : NULL, 400);
    if (strcmp(way, "stay") == 0)
        (void)wait_for_end(NULL);
    long made = strcmp(way, "thread") == 0  ? by_thread(most)
                : strcmp(way, "vfork") == 0 ? by_vfork(most, argv[0])
                : strcmp(way, "chain") == 0 ? by_chain(most)
                                            : by_fork(most);
    int e = errno;
    say("made", "%ld", made);
    say("stopped_by", "%s", e != 0 ? errno_name(e) : "most");
    if (argc > 3)
        (void)sleep((unsigned)number(argv[3], 0));
    say("done", "1");
    return 0;
}
