#pragma once

/* Volumes from inside, for volume*.c. */

#include "base/id.h"
#include "engine/volume/volume.h"

struct answer;
struct key_claim;
struct store_batch;

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

/* volume*.c */
typedef void volume_made(void *ctx, struct str id, const struct err *why);
/* `done` comes when the store has it; not at all after an error here. `claim` may be NULL. */
int volume_make(struct engine *engine, const struct engine_caller *caller,
                const struct volume_spec *spec, struct str session, struct key_claim *claim,
                volume_made *done, void *ctx, struct err *err) MUST_USE;
/* `answer` may be NULL. */
void volume_drop(struct engine *engine, struct str id, struct answer *answer);
int64_t volume_bytes(const struct engine *engine, struct str tenant); /* of all, when full */
size_t volume_count(const struct engine *engine, struct str tenant);
bool volume_is_served(struct engine *engine, struct str id);
bool volume_is_left(struct engine *engine, struct str id);
/* The id behind an id or a name; empty if not found. */
struct str volume_id(struct engine *engine, struct str tenant, struct str name);
int volume_load(struct engine *engine, struct err *err) MUST_USE;
void volume_sweep(struct engine *engine, int64_t now);
void volume_reconcile(struct engine *engine, struct store_batch *batch);
void volume_done_all(struct engine *engine);
int volume_check(struct engine *engine, const struct engine_caller *caller, struct str id,
                 enum engine_tier tier, struct err *err) MUST_USE;
int volume_take(struct engine *engine, struct str id, struct str sandbox, struct store_batch *batch,
                int64_t *ret_bytes, uint64_t *ret_fence, struct err *err) MUST_USE;
/* Does nothing when the sandbox no longer has it. */
void volume_release(struct engine *engine, struct str id, struct str sandbox,
                    struct store_batch *batch);
