#pragma once

/* Other ways to run /bin/true fenced off, as far as this host has them. */

#include <stddef.h>

#include "bench.h"

enum { JAIL_PEERS_MAX = 6 };

/* Fills in a case for each that works here and says on standard error which do not. */
size_t jail_peers(struct bench_case cases[JAIL_PEERS_MAX]);
void jail_peers_done(void);
