/* On which CPU a worker runs: its caller's while a hand-off is what takes the time, then any. */

#include <poll.h>
#include <sched.h>

#include "base/clock.h"
#include "isolate/worker_internal.h"

enum { STAY_MS = 3 }; /* on the caller's CPU; the clock may be a millisecond ahead of itself */

void worker_follow(struct worker *worker)
{
    worker->follows = true;
}

/* A process of somebody else's is known by its number here, so it must be alive: until it is
 * reaped nobody gets its number, and a dead one shows by its pidfd. */
static bool is_running(const struct worker *worker)
{
    struct pollfd poller = {.fd = worker->pidfd, .events = POLLIN};
    return worker->pidfd < 0 || poll(&poller, 1, 0) == 0;
}

/* -1: anywhere. */
static void put_on(struct worker *worker, int cpu)
{
    cpu_set_t set;
    if (worker->cpu == cpu || worker->number <= 0 || !is_running(worker))
        return;
    CPU_ZERO(&set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (cpu < 0 || i == cpu)
            CPU_SET(i, &set);
    if (sched_setaffinity(worker->number, sizeof set, &set) == 0)
        worker->cpu = cpu;
}

void worker_stay_near(struct worker *worker)
{
    int here = sched_getcpu();
    if (!worker->follows || here < 0)
        return;
    put_on(worker, here);
    worker->release_ms = clock_now_ms() + STAY_MS;
}

void worker_release_long(struct worker *worker)
{
    if (worker->state == STATE_RUN && worker->cpu >= 0 && clock_now_ms() >= worker->release_ms)
        put_on(worker, -1);
    else
        return;
    worker->cpu = -1; /* also when it did not work: it is tried once */
}
