#pragma once

/* Only for bridge.c and bridge_doc.c. */

#include "isolate/bridge/bridge.h"

struct bridge_row {
    const struct bridge *bridge;
    struct json_t *schemas[BRIDGE_PARAMS_MAX];
    size_t param_count, required_count;
};

struct bridge_set {
    struct bridge_row rows[BRIDGES_MAX];
    const char *names[BRIDGES_MAX + 1];
    size_t count;
};
