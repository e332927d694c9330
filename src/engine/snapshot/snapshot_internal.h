#pragma once

/* A snapshot as the engine keeps it, for snapshot.c and snapshot_make.c. */

#include "base/buf.h"
#include "base/err.h"
#include "engine/sandbox/sandbox.h"
#include "engine/snapshot/snapshot.h"

struct key_claim;
struct sandbox;
struct store_batch;
struct store_hashes;

/* The tenant of what the configuration asks for; no caller's name has a blank. */
#define CONFIGURED "the configuration"

/* While it is built, the image names the sandbox that it is built in. */
#define BUILT_IN "sandbox/"

struct snapshot {
    struct engine *engine;
    struct snapshot_info info;
    struct arena arena;
    struct buf image;
    char detail[ERR_MSG_MAX];
    int64_t ord;
    struct key_claim *claim; /* of the call that makes it, until it is recorded */
    bool is_deleting;
};

struct snapshot *snapshot_new(struct engine *engine, struct str id, struct str tenant,
                              struct str slug, struct str source);
struct snapshot *snapshot_free(struct snapshot *snapshot);
void snapshot_save(const struct snapshot *snapshot, struct store_batch *batch);
/* Finds by id or slug; those of the configuration are visible to every tenant. NULL with
 * NOT_FOUND. */
struct snapshot *snapshot_find(struct engine *engine, struct str tenant, struct str name,
                               struct err *err) MUST_USE;
bool snapshot_is_there(struct engine *engine, struct str id);
/* snapshot_packages.c: the column of the row. */
void snapshot_read_packages(struct snapshot *snapshot, struct str text);
void snapshot_put_packages(const struct snapshot *snapshot, struct buf *out);
/* What the outside sees of it. */
struct snapshot_info snapshot_view(const struct snapshot *snapshot);

/* snapshot.c */
int snapshot_check_slug(struct engine *engine, const struct engine_caller *caller, struct str slug,
                        struct err *err) MUST_USE;
int snapshot_load(struct engine *engine, struct err *err) MUST_USE;
void snapshot_reconcile(struct engine *engine, struct store_batch *batch);
void snapshot_done_all(struct engine *engine);
void snapshot_keep_images(const struct engine *engine, struct store_hashes *kept);
void snapshot_each_image(const struct engine *engine, enum engine_tier tier,
                         void (*call)(void *ctx, struct str image), void *ctx);
int snapshot_resolve(struct engine *engine, const struct engine_caller *caller,
                     const struct sandbox_spec *spec, struct sandbox *sandbox,
                     struct err *err) MUST_USE;
int snapshot_image(struct engine *engine, struct str id, struct str *ret_image,
                   struct err *err) MUST_USE;
/* snapshot_configured.c: of another snapshot than the configuration's they do nothing. */
void snapshot_note_configured(struct snapshot *snapshot, const char *state, const char *detail);
void snapshot_configured_is_ready(struct snapshot *snapshot);
