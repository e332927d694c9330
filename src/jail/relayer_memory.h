#pragma once

/* Layers of a running jail that lie in memory: those that are sealed, and the one that takes the
 * writes, all in the one filesystem whose size the jail's plan limits. For relayer.c, in the
 * process that has entered the jail; `memory_fd` is that filesystem's root in there. */

#include "base/base.h"

struct err;

enum { RELAYER_LAYERS_MAX = 16 };

/* Which of them make up the root, highest first; the first takes the writes. All zeros is a jail
 * whose root was never exchanged. */
struct relayer_memory {
    uint32_t numbers[RELAYER_LAYERS_MAX];
    size_t count;
    uint32_t last; /* number that was used */
};

int relayer_memory_enter(struct err *err) MUST_USE; /* a descriptor */
/* LIMIT when more than `most_bytes` lie there. */
int relayer_memory_check(int memory_fd, int64_t most_bytes, struct err *err) MUST_USE;
/* Makes the layer `to`, to stand on `from`. */
int relayer_memory_add(int memory_fd, uint32_t from, uint32_t to, struct err *err) MUST_USE;
/* Descriptors of the two, through a mount of their own that can be written to: what was sealed is
 * emptied by its owner when no root needs it any more. */
int relayer_memory_open(int memory_fd, uint32_t from, uint32_t to, int ret_fds[2],
                        struct err *err) MUST_USE;
/* Read-only from here on, but for overlays. */
void relayer_memory_close(int memory_fd);
