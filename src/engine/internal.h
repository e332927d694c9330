#pragma once

/* The engine itself: its tables, and what engine.c and reconcile.c offer to the rest of engine/.
 * Each noun has a header of its own. */

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "engine/engine.h"
#include "engine/provider.h"

struct answer;
struct building;
struct command;
struct docs_service;
struct groups;
struct kept;
struct key_claim;
struct reservation;
struct sandbox;
struct secret;
struct volume;
struct zone_worker;

/* Commands that have ended and are not in use, in the order of their last use. */
struct recent_commands {
    struct command *newest, *oldest;
    size_t len;
};

/* A kind of approval and what its handlers are called with. */
struct approval_registered {
    const struct approval_kind *kind;
    void *ctx;
};

struct engine {
    struct loop *loop;
    const struct config *config;
    char *data_dir;
    struct store *store;
    struct pool *pool;
    struct provider_host host;
    const struct provider_table *tables[ENGINE_TIER_COUNT];
    struct provider *providers[ENGINE_TIER_COUNT];
    struct err provider_whys[ENGINE_TIER_COUNT];                /* why one could not be opened */
    struct map sandboxes, sessions, volumes, snapshots, tokens; /* by id */
    struct map commands; /* the same: commands that run, that are in use, and the last few */
    struct volume *volumes_coming; /* whose directories are being made */
    struct sandbox *leaving;       /* removed, and still referenced */
    struct map keys;
    struct key_claim *claims; /* of calls that are under way */
    struct reservation *reservations;
    int64_t last_order;
    uint64_t last_seq;
    struct timer *tick;
    int64_t next_sweep_ms;
    size_t answers;                /* not delivered yet */
    struct engine_figures figures; /* what is counted as it happens */
    bool is_stopping;
    int64_t next_alive_ms; /* when the store is marked again */
    struct feed_reader *readers;
    struct answer *stop_answer;
    struct recent_commands recent;
    struct map kept_commands; /* what the store has of them, by tenant */
    VEC(char *) unremoved;    /* sandboxes that are gone and whose rows are not */
    struct secret *seal_key;  /* NULL until needed */
    struct groups *groups;
    size_t reclaiming; /* providers that still clear up */
    char not_ready[ERR_MSG_MAX];
    struct building *buildings; /* snapshots from dependencies */
    size_t snapshot_uploads;    /* archives that come in */
    struct engine_dependencies dependencies;
    struct str set_aside;    /* id of an earlier snapshot of them that lacks some; the snapshot's */
    VEC(struct kept *) kept; /* variables that are kept, oldest first */
    struct map approvals;    /* by id */
    VEC(struct approval_registered) approval_kinds;
    int64_t approvals_due_ms;         /* the date of the next look for expired ones */
    bool approvals_resume;            /* handlers of kinds are to be called again */
    struct docs_service *docs;        /* engine/docs */
    struct zone_worker *zone_workers; /* one for each [zones.NAME]; NULL until one is asked */
};

int64_t engine_order(struct engine *engine);
const struct provider_table *engine_table(const struct engine *engine, enum engine_tier tier);
/* UNAVAILABLE with the reason when the tier could not be opened. */
int engine_provider(struct engine *engine, enum engine_tier tier, struct provider **ret_provider,
                    struct err *err) MUST_USE;
/* "the tier 'memory' cannot VERB". */
int engine_unsupported(enum engine_tier tier, const char *verb, struct err *err);
/* INVALID for an empty tenant, CANCELED while the engine stops. */
int engine_check_caller(const struct engine *engine, const struct engine_caller *caller,
                        struct err *err) MUST_USE;
int engine_check_name(struct str name, const char *what, struct err *err) MUST_USE;

void engine_reconcile(struct engine *engine);
void engine_sweep_blobs(struct engine *engine);
/* Every image that a sandbox, a checkpoint or a snapshot of the tier names. */
void engine_each_image(const struct engine *engine, enum engine_tier tier,
                       void (*call)(void *ctx, struct str image), void *ctx);

/* Calls back for every disk that a sandbox of the tier names, with the image below that disk. */
void engine_each_disk(const struct engine *engine, enum engine_tier tier,
                      void (*call)(void *ctx, struct str disk, struct str image), void *ctx);

/* token.c */
int token_load(struct engine *engine, struct err *err) MUST_USE;
void token_done_all(struct engine *engine);

/* docs/docs.c. `docs_close_service`: nothing of it calls back afterwards. */
void docs_open_service(struct engine *engine);
void docs_close_service(struct engine *engine);

/* zone.c */
void zone_done_all(struct engine *engine);
