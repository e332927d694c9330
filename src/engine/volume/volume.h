#pragma once

/* Volumes: directories that outlive sandboxes. Part of engine/engine.h.
 *
 * One sandbox at a time writes a volume; each time it is handed to one its fencing number grows. A
 * volume with a time to live is deleted, with its rows, that long after its last use: a session's
 * has the configuration's, others have one only when it is given. */

#include "engine/sandbox/sandbox.h"

struct volume_spec {
    struct str name;              /* unique in the tenant; empty: none */
    enum engine_tier tier;        /* DEFAULT: the configuration's */
    int64_t capacity_bytes;       /* 0: the configuration's */
    int64_t ttl_ms;               /* after its last use; 0 and -1: it stays */
    struct engine_pairs metadata; /* labels */
};

struct volume_info {
    struct str id, tenant, name, session, region;
    enum engine_tier tier;
    int64_t capacity_bytes, ttl_ms;
    int64_t created_ms, used_ms;
    int64_t expires_ms; /* 0: never, or it is in use */
    struct str sandbox; /* that writes it; empty for none */
    uint64_t fence;
    struct engine_pairs metadata;
};

typedef void volume_done(void *ctx, const struct volume_info *volume, const struct err *why);
void engine_volume_create(struct engine *engine, const struct engine_caller *caller,
                          const struct volume_spec *spec, volume_done *done, void *ctx);
/* By id or name. */
int engine_volume_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                      struct volume_info *ret_volume, struct err *err) MUST_USE;
struct volume_list {
    struct volume_info *items;
    size_t count;
    char next[ENGINE_CURSOR_SIZE];
};
int engine_volume_list(struct engine *engine, const struct engine_caller *caller,
                       const struct engine_page *page, struct arena *arena,
                       struct volume_list *ret_list, struct err *err) MUST_USE;
/* BUSY while a sandbox has it. */
void engine_volume_delete(struct engine *engine, const struct engine_caller *caller, struct str id,
                          engine_done *done, void *ctx);
