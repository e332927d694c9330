#pragma once

/* The confinement of a process that reads untrusted input: no privilege, no files
 * (the kernel's randomness is the one exception), no programs, and only the system calls that
 * sockets need. A call outside of the list ends the process. */

struct err;

/* For good. `sockets` is how many descriptors it may have. */
int lock_enter(int sockets, struct err *err) __attribute__((warn_unused_result));
