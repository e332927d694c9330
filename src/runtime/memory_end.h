#pragma once

/* The message for a process that the Linux kernel killed because memory ran out, with the remedy.
 */

#include "base/str.h"
#include "jail/wire/plan.h"

struct buf;

/* The least that any sandbox may have, also one in an isolate. */
#define MEMORY_MIN_MB JAIL_MEMORY_MIN_MB

struct memory_end {
    struct str what;                 /* "'bash'", "the python3 interpreter" */
    const char *rest;                /* what became of the rest: "the sandbox continues"; or NULL */
    struct str sandbox;              /* its id; empty: a program that the command line runs */
    bool is_of_session;              /* so is the sandbox */
    int64_t limit_bytes, peak_bytes; /* 0 or less: not known */
};

/* "out of memory: 'bash' was killed at the sandbox's limit of 192 MiB (peak 180 MiB); the
 * sandbox continues. To raise the limit: ..." */
void memory_end_put(const struct memory_end *end, struct buf *out);
