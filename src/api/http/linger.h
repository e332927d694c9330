#pragma once

/* Connections that we have finished with while their clients still send. Closing at once would
 * answer those bytes with a reset, which can overtake our last answer and destroy it. So the
 * socket stays open without its sending half and what comes is thrown away, until the client
 * closes or LINGER_MS have passed. */

#include "io/loop.h"

enum { LINGER_MS = 1000, LINGER_MAX = 256 };

struct lingerer;
struct lingers {
    struct loop *loop;
    struct lingerer *first;
    size_t count;
};

/* Keeps the socket behind `fd` through a descriptor of its own; the caller closes `fd`. Past
 * LINGER_MAX nothing is kept. */
void linger_add(struct lingers *lingers, int fd);
/* Closes them all. */
void linger_done(struct lingers *lingers);
