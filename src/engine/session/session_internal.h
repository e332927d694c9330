#pragma once

/* Internals of sessions, for session*.c and the code that uses a session's sandbox. */

#include "base/id.h"
#include "base/map.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/turn_internal.h"
#include "engine/session/session.h"
#include "engine/volume/volume.h"

struct answer;
struct kept;
struct live_interpreters;
struct sandbox;
struct store_batch;

struct session_module {
    char *source;
    size_t len;
    struct arena arena;                            /* of the texts below */
    struct str description, exports, usage, scope; /* exports: a JSON array */
    bool in_volume;                                /* a file of the volume: it has no source */
    int64_t updated_ms;
};

/* A request that waits for a session's sandbox, which may then be in any state. */
struct session_want {
    struct session_want *next;
    void (*call)(struct session_want *want, struct sandbox *sandbox, const struct err *why);
};

struct session {
    struct engine *engine;
    struct session_info info;
    struct arena arena;
    struct str row_id;
    struct sandbox_spec spec;
    char sandbox[ID_SIZE], volume[ID_SIZE];
    int64_t ord;
    int64_t volume_ttl_ms;     /* as it was asked for: 0: the configuration's, -1: it stays */
    struct engine_quota quota; /* of who asked last: what is made for it is made for them */
    struct map modules;        /* by path */
    struct session_want *wants;
    struct timer *packages_timer; /* while it waits for the configuration's packages */
    int64_t packages_since_ms;
    bool is_making, is_resting, is_deleting;
    struct history history; /* the automatic checkpoints of its last sandbox, while it has none */
    struct ledger ledger;   /* of the variables of its last sandbox, while it has none */
    struct kept *kept;      /* what the interpreters of that one held; NULL: nothing is kept */
    struct live_interpreters *waking; /* the same, for a sandbox that is being made */
};

struct session *session_find(struct engine *engine, struct str tenant, struct str id,
                             struct err *err) MUST_USE;
/* For a verb: also NULL when the caller may not ask, or not now. */
struct session *session_of_caller(struct engine *engine, const struct engine_caller *caller,
                                  struct str id, struct err *err) MUST_USE;
struct session *session_new(struct engine *engine, struct str tenant, struct str id,
                            struct str name);
struct session *session_free(struct session *session);
struct answer *session_answer(struct engine *engine, session_done *done, void *ctx);
/* Of a volume that is made for it; 0: it stays. */
int64_t session_volume_ttl(const struct session *session);
void session_save(const struct session *session, struct store_batch *batch);
/* The date at which the session's volume expired, for the first answer after that: 0 when it did
 * not, or when an earlier answer has taken the date. */
int64_t session_take_expired(struct session *session);
/* A run in the session's sandbox has reported that the volume expired. */
void session_told_expired(const struct sandbox *sandbox);

/* Its sandbox ends: a run in the next one reports what was lost. */
void session_keep_ledger(struct session *session, struct sandbox *sandbox, enum loss_reason reason);

/* session_life.c */
void session_use(struct session *session, struct session_want *want);

/* session_config.c: what the configuration says, where the session asks for nothing else. */
int session_fill_spec(const struct session *session, struct arena *arena, struct sandbox_spec *spec,
                      struct err *err) MUST_USE;
/* Memory of such a session that asks for none itself. */
int64_t session_memory(const struct engine *engine, enum engine_tier tier);
/* The runtime of its sandboxes; empty: the tier's own. */
struct str session_runtime(const struct engine *engine, const struct sandbox_spec *spec);

/* session_packages.c: of a session in an isolate, the packages that its code imports by name. */
struct eval_spec;
void session_add_modules(const struct engine *engine, struct arena *arena, struct eval_spec *spec);
/* Why a session's code cannot import the module, when the configuration lists it and it could not
 * be installed; false: that is not so. */
bool session_explain_import(const struct sandbox *sandbox, struct str module, struct buf *out);
/* A sentence for each package of the configuration that is not there or cannot be imported. */
void session_each_missing(const struct engine *engine, void (*call)(void *ctx, struct str text),
                          void *ctx);

/* session_module.c */
struct session_module *session_module_free(struct session_module *module);
void session_module_remove_row(const struct session *session, struct str path,
                               struct store_batch *batch);
/* Its file is gone. */
void session_module_drop(struct session *session, struct str path);

/* docs/docs_modules.c: search follows. */
void docs_put_module(const struct session *session, struct str path,
                     const struct session_module *module);
void docs_remove_module(const struct session *session, struct str path);
void docs_remove_modules(const struct session *session);

/* session.c */
void session_tick(struct engine *engine, int64_t now);
int session_load(struct engine *engine, struct err *err) MUST_USE;
void session_done_all(struct engine *engine);
/* Its sandbox has stopped, failed or was interrupted. */
void session_sandbox_ended(struct engine *engine, struct sandbox *sandbox,
                           struct store_batch *batch);
/* Its volume was deleted, or has expired. */
void session_volume_gone(struct engine *engine, const struct volume_info *volume, bool has_expired,
                         struct store_batch *batch);
