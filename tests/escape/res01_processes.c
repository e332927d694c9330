/* Processes and threads end at their limit, and work again below it. */

#include "probe.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static void *stay(void *arg)
{
    pause();
    return arg;
}

int main(int argc, char **argv)
{
    int limit = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 256;
    int made = 0, threads = 0;
    static pid_t pids[4096];
    for (; made < 4096; made++) {
        pids[made] = fork();
        if (pids[made] == 0) {
            pause();
            _exit(0);
        }
        if (pids[made] < 0)
            break;
    }
    must_fail("fork at the limit", pids[made] < 0 ? -1 : 0, EAGAIN);
    must_work("about as many as allowed", made >= limit - 4 && made < limit);
    for (int i = 0; i < made; i++)
        kill(pids[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
    pthread_t thread;
    while (threads < 4096 && pthread_create(&thread, NULL, stay, NULL) == 0)
        threads++;
    must_work("threads count too", threads >= limit - 4 && threads < limit);
    printf("%d processes, %d threads\n", made, threads);
    return probe_end();
}
