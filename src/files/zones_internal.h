#pragma once

#include "files/zones.h"

struct zones {
    struct files *trees[ZONE_COUNT]; /* NULL: not configured */
    char *roots[ZONE_COUNT];         /* absolute, for other programs */
    int fds[ZONE_COUNT];             /* of the same directories, for rules; -1: none */
    bool is_read_only;
};
