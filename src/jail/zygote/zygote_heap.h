#pragma once

/* A heap that forks need not copy; see zygote_heap.c. */

#include "base/base.h"

struct err;

#define ZYGOTE_HEAP_NAME "zygote"

/* Puts the memory of this process, which has one thread, behind a sealed file that all its forks
 * share. `proc_fd` is its /proc/self. After a failure all is as it was, or some of it moved: the
 * process works on either way. */
int zygote_share_heap(int proc_fd, struct err *err) MUST_USE;

/* True when the contents at `offset` of that file are still, or again, mapped where the zygote
 * had them. */
bool zygote_heap_is_home(uintptr_t start, uint64_t offset);
