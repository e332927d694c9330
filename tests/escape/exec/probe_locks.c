/* RES-12: record locks, which are memory of the kernel that no control group counts:
 * probe_locks COUNT PROCESSES hold|end. Each process locks COUNT bytes, every other one of a
 * file. */

#include "finding.h"

#include <sys/wait.h>
#include <time.h>

static void take(long count)
{
    int fd = open("/tmp/locked", O_RDWR | O_CREAT, 0600);
    struct timespec began, ended;
    long got = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    for (; got < count; got++) {
        /* From the end: the kernel looks for the place of a lock from the first one on. */
        struct flock lock = {
            .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 2 * (count - got), .l_len = 1};
        if (fcntl(fd, F_SETLK, &lock) < 0)
            break;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    say("microseconds", "%ld",
        (ended.tv_sec - began.tv_sec) * 1000000 + (ended.tv_nsec - began.tv_nsec) / 1000);
    say("got", "%ld", got);
}

int main(int argc, char **argv)
{
    long count = number(argc > 1 ? argv[1] : NULL, 100),
         processes = number(argc > 2 ? argv[2] : NULL, 1);
    bool holds = argc > 3 && strcmp(argv[3], "hold") == 0;
    int killed = 0, status = 0;
    for (long i = 0; i < processes; i++)
        if (fork() == 0) {
            take(count);
            while (holds)
                (void)pause();
            _exit(0);
        }
    /* With `hold` the first that ends was killed; the others end with it. */
    for (long i = 0; i < (holds ? 1 : processes); i++)
        if (wait(&status) > 0)
            killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    say("killed", "%d", killed);
    say("done", "1");
    return 0;
}
