#pragma once

/* The system calls of a worker: a handful, all of them about its own memory and its one socket. */

struct err;

/* No files, no network, no processes, no executable memory, from here on; what else is tried ends
 * the process. Cannot be undone. */
int filter_lock(struct err *err);
