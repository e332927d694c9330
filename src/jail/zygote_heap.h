#pragma once

/* A heap that forks need not copy; see zygote_heap.c. */

#include "base/base.h"

struct err;
struct zygote_hooks;

#define ZYGOTE_HEAP_NAME "template"

/* Puts the memory of this process, which has one thread, behind a sealed file that all its forks
 * share. `proc_fd` is its /proc/self. After a failure all is as it was, or some of it moved: the
 * process works on either way. */
int zygote_share_heap(int proc_fd, struct err *err) MUST_USE;

/* True when what lies at `offset` of that file is still, or again, where the template had it. */
bool zygote_heap_is_home(uintptr_t start, uint64_t offset);

/* Runs `rehearse` in a fork and remembers which pages of this memory it wrote to: every kernel will
 * write to the same ones first. */
void zygote_learn_pages(int proc_fd, const struct zygote_hooks *hooks);
/* In a new kernel: has those pages copied all at once, which takes half of what it takes to be
 * stopped at each. */
void zygote_copy_pages(void);
