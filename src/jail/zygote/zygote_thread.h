#pragma once

/* The only thread of a zygote's fork, when its memory continues as another process: the C library
 * keeps the thread's id in that memory, and the Linux kernel had registered addresses in it that
 * the new process must register again. */

#include "base/base.h"

/* Around the fork that makes a prefork, in the zygote and in the prefork: where the C library keeps
 * the number is found by its value. */
void zygote_thread_before(void);
void zygote_thread_after(void);
/* In a process that has the memory, the thread's own data included, and another number. */
void zygote_thread_renumber(void);

/* Called first in a prefork: sets a new stack guard, and replaces the random bytes that the dynamic
 * loader has set. Frames below keep the guard that they were entered with, so the caller must never
 * return. The pointer guard stays: the C library has pointers that are mangled with it (exit
 * handlers, modules of name services), and they cannot all be listed. */
void zygote_thread_renew(void);

/* Before a process is made that takes this one's memory over, and in that one. */
void zygote_thread_leave(void);
void zygote_thread_take_over(void);
