#pragma once

/* The memory of this process, as the Linux kernel lists it. */

#include "base/base.h"

enum { MAPS_PAGE = 4096, MAPS_MAX = 8192, MAPS_TEXT_MAX = 2 << 20 };

struct map_area {
    uintptr_t start, end;
    int prot; /* PROT_* */
    bool is_shared;
    uint64_t offset, inode, device;
    const char *path; /* "" without one; points into the text of the list */
};

#define MAPS_BYTES (MAPS_MAX * sizeof(struct map_area) + MAPS_TEXT_MAX)

struct map_list {
    struct map_area *areas;
    size_t count;
    size_t bytes; /* of the list itself, which is in its own pages */
};

/* Reads `maps` below the directory `proc_fd` (/proc/self). The list and its text are in their own
 * mapping, which the list contains as well; nothing is allocated. -1 with errno. */
int maps_read(int proc_fd, struct map_list *ret_list);
void maps_done(struct map_list *list);
/* The same into memory of the caller's, MAPS_BYTES of it; there is nothing to be done with then. */
int maps_read_into(int proc_fd, void *space, struct map_list *ret_list);

/* Which of the pages from `start` on are the process' own, not a file's or none. -1 with errno. */
int maps_own_pages(int pagemap_fd, uintptr_t start, size_t count, bool *ret_own);
