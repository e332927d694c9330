#pragma once

/* The zones from inside, for zones.c, zone_find.c and zone_lock.c: which trees there are. */

#include "files/zones/zones.h"

struct zones {
    struct files *trees[ZONE_COUNT]; /* NULL: not configured */
    char *roots[ZONE_COUNT];         /* absolute, for other programs */
    int fds[ZONE_COUNT];             /* of the same directories, for rules; -1: none */
    bool is_read_only;
};

/* The tree of the path's zone, and the path below it. */
int zones_find(struct zones *zones, struct str path, struct zone_path *ret_path,
               struct files **ret_tree, struct err *err) MUST_USE;
