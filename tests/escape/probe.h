#pragma once

/* For programs that try to get out of a jail, one idea each. What must fail goes through
 * must_fail, what must work through must_work: a broken set-up cannot pass. Exit code 0 means the
 * fence held. */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int probe_failures;

static inline void probe_say(const char *what, const char *how)
{
    probe_failures++;
    printf("ESCAPE? %s: %s\n", what, how);
}

/* The call gave -1 with this errno (0: any). */
static inline void must_fail(const char *what, long result, int code)
{
    int got = errno;
    char how[128];
    if (result == -1 && (code == 0 || got == code))
        return;
    (void)snprintf(how, sizeof how, "result %ld errno %d (%s), expected errno %d", result, got,
                   strerror(got), code);
    probe_say(what, how);
}

static inline void must_work(const char *what, bool worked)
{
    if (!worked)
        probe_say(what, strerror(errno));
}

static inline int probe_end(void)
{
    if (probe_failures == 0)
        printf("held\n");
    return probe_failures == 0 ? 0 : 1;
}
