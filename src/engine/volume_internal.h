#pragma once

/* Volumes from inside, for volume*.c. */

#include "engine/internal.h"

struct volume {
    struct volume *next_coming; /* of engine->volumes_coming */
    struct engine *engine;
    struct volume_info info;
    struct arena arena;
    char sandbox[ID_SIZE];
    int64_t ord;
    int64_t used_at; /* on the boot clock */
    bool is_deleting;
};

/* volume.c: not in any table yet; all copied. */
struct volume *volume_new(struct engine *engine, struct str id, struct str tenant, struct str name,
                          struct str session);
struct volume *volume_free(struct volume *volume);
/* By id or name; NOT_FOUND also for one that is being deleted. */
struct volume *volume_find(struct engine *engine, struct str tenant, struct str id,
                           struct err *err) MUST_USE;
/* As the outside sees it; lives as long as the volume. */
struct volume_info volume_view(const struct volume *volume);
void volume_save(const struct volume *volume, struct store_batch *batch);
