#pragma once

/* What a fence costs by itself: the same one, made by the same code around one program, by a
 * process that does nothing else. There is no pool, no warden, no init, no control group, no
 * network of its own, and the memory of who clones is shared until exec. */

#include <stdint.h>

/* Runs /bin/true for so long, one after the other; gives how many. This process is of no other use
 * afterwards. */
int64_t jail_floor_run(int64_t ms);
