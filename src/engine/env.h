#pragma once

/* The environment variables of what runs in a jail. */

#include "engine/caller.h"

struct arena;
struct network;

/* For a sandbox of that runtime (runtime_env), then its network's (may be NULL), then `lists`,
 * where the last value of a variable counts. NULL behind the last; the texts belong to `arena` or
 * are constant. */
const char **env_inside(struct str runtime, const struct network *network,
                        const struct engine_pairs *const *lists, size_t list_count,
                        struct arena *arena);
