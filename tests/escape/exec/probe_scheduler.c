/* RES-11: spin with THREADS threads for a second and say how much was had, then ask for more of the
 * processor than the neighbours get: probe_scheduler THREADS. */

#include "finding.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

static double now(clockid_t clock)
{
    struct timespec t = {0};
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double until;

static void *spin(void *arg)
{
    while (now(CLOCK_MONOTONIC) < until)
        (void)sched_yield();
    return arg;
}

static void classes(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = 48, .policy = 1, .priority = 10};
    int priority = 10;
    /* Raw, since musl's own function refuses without asking. */
    ATTEMPT("sched.fifo", SYS_sched_setscheduler, 0, 1, P(&priority));
    ATTEMPT("sched.rr", SYS_sched_setscheduler, 0, 2, P(&priority));
    ATTEMPT("sched.fifo_reset", SYS_sched_setscheduler, 0, 1 | 0x40000000, P(&priority));
    ATTEMPT("sched.fifo_high", SYS_sched_setscheduler, 0, 1 | 1L << 40, P(&priority));
    ATTEMPT("sched.attr_fifo", SYS_sched_setattr, 0, P(&attr), 0);
    attr.policy = 6, attr.priority = 0, attr.runtime = 1000000;
    attr.deadline = attr.period = 10000000;
    ATTEMPT("sched.attr_deadline", SYS_sched_setattr, 0, P(&attr), 0);
    ATTEMPT("nice.minus20", SYS_setpriority, PRIO_PROCESS, 0, -20);
    ATTEMPT("ioprio.realtime", SYS_ioprio_set, 1, 0, 1 << 13);
    priority = 0;
    ATTEMPT("control.batch", SYS_sched_setscheduler, 0, 3, P(&priority));
    ATTEMPT("control.nice19", SYS_setpriority, PRIO_PROCESS, 0, 19);
}

int main(int argc, char **argv)
{
    long threads = number(argc > 1 ? argv[1] : NULL, 8), started = 0;
    double began = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    until = began + 1.0;
    pthread_t thread;
    for (long i = 0; i < threads; i++)
        started += pthread_create(&thread, NULL, spin, NULL) == 0;
    (void)spin(NULL);
    double used = now(CLOCK_PROCESS_CPUTIME_ID) - cpu, wall = now(CLOCK_MONOTONIC) - began;
    say("threads", "%ld", started);
    say("cpu_percent", "%d", (int)(100.0 * used / wall));
    classes(); /* behind it: they lower our own priority */
    say("done", "1");
    return 0;
}
