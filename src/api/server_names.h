#pragma once

/* The host names under which the server answers, and the origins of its own pages. */

#include "base/vec.h"

struct addr;

struct server_names {
    VEC(char *) hosts;   /* ends with NULL */
    VEC(char *) origins; /* ends with NULL */
};

/* Those of the addresses (empty ones are left out), and `more`, which ends with NULL or is NULL. A
 * name of `more` without a port is also good without one, for a proxy in front. */
void server_names_collect(struct server_names *names, const struct addr *const addrs[],
                          size_t count, bool has_socket, const char *const *more);
void server_names_done(struct server_names *names);
