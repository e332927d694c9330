#pragma once

/* Pages that a kernel needs first; see zygote_pages.c. */

#include "base/base.h"

struct zygote_hooks;

/* In the template, when its heap is shared: runs `rehearse` in a fork and remembers which pages
 * that one wrote to, and has at hand those that it read: every kernel will need the same ones.
 * `proc_fd` is its /proc/self. What cannot be learned makes kernels slower, and that is all. */
void zygote_learn_pages(int proc_fd, const struct zygote_hooks *hooks);
/* In a new kernel: has the pages that it will write to copied all at once, which takes half of what
 * it takes to be stopped at each. */
void zygote_copy_pages(void);
