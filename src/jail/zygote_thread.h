#pragma once

/* The one thread of a template's fork, when its memory goes on as another process: the C library
 * keeps the number of its thread in that memory, and the machine's kernel knows places in it by
 * heart that it has forgotten of the new process. */

#include "base/base.h"

/* Around the fork that makes an embryo, in the zygote and in the embryo: where the C library keeps
 * the number is found by its value. */
void zygote_thread_before(void);
void zygote_thread_after(void);
/* In a process that has the memory, the thread's own data included, and another number. */
void zygote_thread_renumber(void);

/* Before a process is made that takes this one's memory over, and in that one. */
void zygote_thread_leave(void);
void zygote_thread_take_over(void);
