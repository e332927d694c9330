#pragma once

/* The engine from inside, for engine/ alone: its tables, and what the nouns do for each other. */

#include "base/err.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/json.h"
#include "base/map.h"
#include "base/vec.h"
#include "engine/engine.h"
#include "engine/provider.h"
#include "engine/sandbox_state.h"
#include "io/pool.h"
#include "store/store.h"

enum {
    TICK_MS = 200,
    SWEEP_MS = 60000,      /* TTLs of volumes, commands, keys; blobs */
    KEY_TTL_MS = 86400000, /* of idempotency keys */
    KEYS_MAX = 20000,
    CHECKPOINTS_MAX = 32,
    SANDBOXES_MAX = 1000,      /* that hold a place */
    COMMANDS_MAX = 100000,     /* kept when they are over, of all tenants */
    COMMANDS_RECENT = 128,     /* that are over and stay in memory though nobody looks at them */
    COMMANDS_RUNNING_MAX = 64, /* in one sandbox */
};

/* --- Answers: who waits for a verb --- */

/* Somebody who waits for another call's answer; see key_claim.c. */
struct key_wait {
    struct key_wait *next;
    char hash[HASH_HEX_SIZE];
    void (*call)(struct key_wait *wait, struct str object, const struct err *why);
};

/* An object that has been deleted since leaves its key free. */
typedef bool key_is_there(struct engine *engine, struct str object);

/* Makes the answer tell of what an earlier call with its key has made. */
struct answer;
typedef void answer_known(struct answer *answer, struct str object);

/* Made when the verb is called, given exactly once, delivered on a later turn of the loop. */
struct answer {
    struct loop_task task;
    struct engine *engine;
    void (*deliver)(struct answer *answer, const struct err *why);
    union {
        engine_done *plain;
        sandbox_done *sandbox;
        sandbox_many_done *many;
        checkpoint_done *checkpoint;
        port_exposed *port;
        command_done *command;
        session_done *session;
        volume_done *volume;
        snapshot_done *snapshot;
        token_done *token;
    } done;
    void *ctx;
    char id[ID_SIZE]; /* of what it is about */
    uint64_t number;  /* or its order, for sessions */
    void *data;       /* the verb's own */
    enum engine_tier tier;
    char *secret;            /* of a token; wiped */
    struct key_claim *claim; /* of its caller's key; ended when it is delivered */
    struct key_wait wait;
    answer_known *known;
    struct err err;
    bool failed;
};

struct answer *answer_new(struct engine *engine,
                          void (*deliver)(struct answer *answer, const struct err *why),
                          void *ctx) MUST_USE;
struct answer *answer_plain(struct engine *engine, engine_done *done, void *ctx);
struct answer *answer_sandbox(struct engine *engine, sandbox_done *done, void *ctx);
/* NULL `why` for success. */
void answer_give(struct answer *answer, const struct err *why);
/* Before a create begins. 0: it shall; -1: `err` is the answer; 1: an earlier call with the same
 * key has the answer, and it is on its way. */
int answer_claim(struct answer *answer, const struct engine_caller *caller, key_is_there *is_there,
                 answer_known *known, struct err *err) MUST_USE;
void answer_fail(struct answer *answer, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* --- Objects --- */

struct checkpoint {
    char id[ID_SIZE];
    char *name, *image;
    int64_t created_ms, size_bytes;
};

struct groups;
struct network;
struct sandbox;
struct secret;
struct zone_worker;

/* Somebody who waits until a sandbox stands still. */
struct want {
    struct want *next;
    bool needs_running; /* it is brought to `running`; else any state that lasts will do */
    /* `why` when it cannot be, with the sandbox as it is. */
    void (*call)(struct want *want, struct sandbox *sandbox, const struct err *why);
};

struct sandbox {
    struct engine *engine;
    struct sandbox_info info; /* what the outside sees; its texts are below */
    struct arena arena;       /* what never changes */
    struct arena labels;      /* name and metadata */
    struct arena keys;        /* its secrets, sealed */
    struct network *net;      /* of its place; NULL: has none */
    struct map blocked;       /* hosts that it was refused since its policy changed */
    int64_t net_moved;        /* bytes, since the server started */
    struct buf network, image;
    struct str exported; /* of a helper: the snapshot that it shows for an export */
    char reason[ERR_MSG_MAX];
    VEC(struct checkpoint) checkpoints;
    VEC(struct sandbox_checkpoint) shown;
    VEC(struct sandbox_port) ports;
    int64_t ord;
    int64_t expires_at, idle_at; /* on the boot clock; 0: never */
    bool is_late;                /* it is paused because its time was up */
    int late_pauses;             /* that failed, one after the other */
    int64_t active_at;
    size_t busy;     /* works under way: it is not idle */
    size_t holds;    /* works and moves that point at it; see sandbox_hold */
    size_t commands; /* of them */
    struct place *place;
    struct live_kernels *live; /* of a fork that is being made; not its own */
    struct want *wants, **last_want;
    bool is_deleting, is_unsaved;
    bool is_calling;   /* sandbox_settle is at work */
    bool is_removed;   /* its record is gone: it goes when nobody points at it */
    bool is_freed;     /* on the next turn */
    bool is_lost;      /* its place died while it was being made */
    bool is_put_aside; /* once asked to pause because the server stops */
    bool is_helper;    /* made for a volume's files; not for the outside */
    struct sandbox *next_leaving;
    struct loop_task task;
};

/* Commands that are over and that nobody looks at, in the order of their last use. */
struct recent_commands {
    struct command *newest, *oldest;
    size_t len;
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
    struct map commands; /* the same: those that run, that somebody looks at, and the last few */
    struct volume *volumes_coming; /* whose directories are being made */
    struct sandbox *leaving;       /* removed, and somebody still points at them */
    struct map keys;
    struct key_claim *claims; /* of calls that are under way */
    int64_t last_order;
    uint64_t last_seq;
    struct timer *tick;
    int64_t next_sweep_ms;
    size_t answers;                /* not delivered yet */
    struct engine_figures figures; /* what is counted as it happens */
    bool is_stopping, is_freed;
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
    struct zone_worker *zone_workers; /* one for each [zones.NAME]; NULL until one is asked */
};

/* --- What the nouns do for each other --- */

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

/* An event, into the batch and to those who listen. */
void feed_publish(struct engine *engine, struct store_batch *batch, enum event_kind kind,
                  struct str tenant, struct str id, struct str sandbox, const char *state,
                  const char *detail);

void feed_close(struct engine *engine);
void engine_reconcile(struct engine *engine);
void engine_sweep_blobs(struct engine *engine);
/* Every image that a sandbox, a checkpoint or a snapshot of the tier names. */
void engine_each_image(const struct engine *engine, enum engine_tier tier,
                       void (*call)(void *ctx, struct str image), void *ctx);

/* sandbox.c. NULL with NOT_FOUND, also for another tenant's. */
struct sandbox *sandbox_find(struct engine *engine, const struct engine_caller *caller,
                             struct str id, struct err *err) MUST_USE;
/* Its place among the checkpoints, by id or name; their number when there is none. */
size_t sandbox_find_checkpoint(const struct sandbox *sandbox, struct str name);
/* A page begins behind the order that the cursor names. */
int cursor_read(struct str cursor, int64_t *ret_order, struct err *err) MUST_USE;
void cursor_write(int64_t order, char out[ENGINE_CURSOR_SIZE]);
size_t page_limit(const struct engine_page *page);
/* Counts the bytes of a row; false when a page that has rows already must end before it. A page of
 * a thousand long rows would be too long for an answer. */
bool page_has_room(size_t *used, size_t bytes) MUST_USE;

/* sandbox_make.c */
struct sandbox *sandbox_new(struct engine *engine, struct str id, struct str tenant);
struct sandbox *sandbox_free(struct sandbox *sandbox);
void sandbox_set_network(struct sandbox *sandbox, struct str network);
/* What its place is made with from now on; takes `network`, which may be NULL. */
void sandbox_set_net(struct sandbox *sandbox, struct network *network);
void sandbox_set_image(struct sandbox *sandbox, struct str image);
void sandbox_add_checkpoint(struct sandbox *sandbox, struct str id, struct str name,
                            struct str image, int64_t size_bytes, int64_t created_ms);
void sandbox_cut_checkpoints(struct sandbox *sandbox, size_t count);
void sandbox_release_image(struct engine *engine, enum engine_tier tier, struct str image);
void sandbox_drop_images(struct sandbox *sandbox);
/* A checkpoint or a rollback is newer than what was put aside. */
void sandbox_forget_image(struct sandbox *sandbox);
/* The newest of what was put aside and the checkpoints; empty when there is none. */
struct str sandbox_last_image(const struct sandbox *sandbox);
void sandbox_make_place(struct sandbox *sandbox, struct str image, place_done *done, void *ctx);
/* A sandbox that is checked and filled in, in the table, and not made yet. */
int sandbox_from_spec(struct engine *engine, const struct engine_caller *caller,
                      const struct sandbox_spec *spec, struct sandbox **ret_sandbox,
                      struct err *err) MUST_USE;
/* quota.c. LIMIT when the caller's tenant would hold too much with so much `more`. */
int quota_check(const struct engine *engine, const struct engine_caller *caller,
                const struct engine_quota *more, struct err *err) MUST_USE;
/* LIMIT when the tenant would have more of them than the configuration's [limits] allow. */
enum quota_kind {
    QUOTA_SANDBOXES,
    QUOTA_SESSIONS,
    QUOTA_VOLUMES,
    QUOTA_SNAPSHOTS,
    QUOTA_CHECKPOINTS
};
int quota_check_count(const struct engine *engine, struct str tenant, enum quota_kind kind,
                      struct err *err) MUST_USE;
/* Running, or NULL with the reason: then it is gone. */
typedef void making_done(void *ctx, struct sandbox *sandbox, const struct err *why);
void sandbox_make(struct sandbox *sandbox, const struct engine_caller *caller, struct str image,
                  making_done *done, void *ctx);

/* sandbox_life.c */
void sandbox_move(struct sandbox *sandbox, enum sandbox_state state, const char *reason,
                  struct store_batch *batch);
/* Moves, saves and tells those who wait; `answer` (or NULL) comes when the store has it. */
void sandbox_go(struct sandbox *sandbox, enum sandbox_state state, const char *reason,
                struct answer *answer);
void sandbox_settle(struct sandbox *sandbox);
void sandbox_wait(struct sandbox *sandbox, struct want *want);
void sandbox_refuse(struct sandbox *sandbox, const struct err *why, bool all);
void sandbox_set_reason(struct sandbox *sandbox, struct str reason);
void sandbox_set_timeout(struct sandbox *sandbox, int64_t timeout_ms);
void sandbox_touch(struct sandbox *sandbox);
/* sandbox_hold.c. Between the two nobody frees it, though its record be removed meanwhile; it stays
 * until a later turn than the last unhold. A work holds it, and keeps it from being idle. */
void sandbox_hold(struct sandbox *sandbox);
void sandbox_unhold(struct sandbox *sandbox);
void sandbox_begin_work(struct sandbox *sandbox);
void sandbox_end_work(struct sandbox *sandbox);
/* Out of sight; freed when it is held no more. */
void sandbox_leave(struct sandbox *sandbox);
/* The end of sandbox_settle's calls. */
void sandbox_called(struct sandbox *sandbox);
/* For a work that knows it by its id: also one that has been removed meanwhile. NULL: there is
 * none. */
struct sandbox *sandbox_find_worked(const struct engine *engine, struct str id);
void sandbox_tick(struct sandbox *sandbox, int64_t now);
void sandbox_begin_pause(struct sandbox *sandbox, struct answer *answer);
void sandbox_begin_resume(struct sandbox *sandbox);
void sandbox_begin_stop(struct sandbox *sandbox, const char *reason, struct answer *answer);
void sandbox_remove(struct sandbox *sandbox, struct store_batch *batch, struct answer *answer);
void sandbox_lost(struct sandbox *sandbox, enum sandbox_state to, const struct err *why);

/* sandbox_change.c. A place that went back to an earlier state gets placeholders of its own: those
 * that the state may hold mean nothing. */
void sandbox_renew_network(struct sandbox *sandbox);

/* port.c */
void sandbox_add_port(struct sandbox *sandbox, const struct sandbox_port *port);

/* sandbox_row.c */
void sandbox_save(struct sandbox *sandbox, struct store_batch *batch);
void sandbox_commit(struct sandbox *sandbox, struct store_batch *batch,
                    enum store_strength strength, struct answer *answer);
/* What memory knows and the store could not be told. */
void sandbox_save_again(struct sandbox *sandbox);
/* Rows that could not be removed: else the next start would find them. */
void sandbox_remove_again(struct engine *engine);
int sandbox_load(struct engine *engine, struct err *err) MUST_USE;

/* session.c */
void session_tick(struct engine *engine, int64_t now);
int session_load(struct engine *engine, struct err *err) MUST_USE;
void session_done_all(struct engine *engine);
/* Its sandbox has stopped, failed or was interrupted. */
void session_sandbox_ended(struct engine *engine, struct sandbox *sandbox,
                           struct store_batch *batch);

void session_volume_gone(struct engine *engine, const struct volume_info *volume,
                         struct store_batch *batch);

/* volume*.c */
typedef void volume_made(void *ctx, struct str id, const struct err *why);
/* `done` comes when the store has it; not at all after an error here. `claim` may be NULL. */
struct key_claim;
int volume_make(struct engine *engine, const struct engine_caller *caller,
                const struct volume_spec *spec, struct str session, struct key_claim *claim,
                volume_made *done, void *ctx, struct err *err) MUST_USE;
/* `answer` may be NULL. */
void volume_drop(struct engine *engine, struct str id, struct answer *answer);
int64_t volume_bytes(const struct engine *engine, struct str tenant); /* of all, when full */
size_t volume_count(const struct engine *engine, struct str tenant);
bool volume_is_served(struct engine *engine, struct str id);
bool volume_is_left(struct engine *engine, struct str id);
/* The id behind an id or a name; empty when there is none. */
struct str volume_id(struct engine *engine, struct str tenant, struct str name);
int volume_load(struct engine *engine, struct err *err) MUST_USE;
void volume_sweep(struct engine *engine, int64_t now);
void volume_reconcile(struct engine *engine, struct store_batch *batch);
void volume_done_all(struct engine *engine);
int volume_check(struct engine *engine, const struct engine_caller *caller, struct str id,
                 enum engine_tier tier, struct err *err) MUST_USE;
int volume_take(struct engine *engine, struct str id, struct str sandbox, struct store_batch *batch,
                int64_t *ret_bytes, uint64_t *ret_fence, struct err *err) MUST_USE;
/* Nothing happens when the sandbox has it no more. */
void volume_release(struct engine *engine, struct str id, struct str sandbox,
                    struct store_batch *batch);

/* command_start.c. One of the two ids; session.h's struct for the second. */
struct session;
int place_find(struct engine *engine, const struct engine_caller *caller, struct str sandbox_id,
               struct str session_id, struct sandbox **ret_sandbox, struct session **ret_session,
               struct err *err) MUST_USE;
/* command_kept.c. Each tick: what nobody looks at leaves memory. */
void command_tick(struct engine *engine);
void command_save_again(struct engine *engine);
void command_sweep(struct engine *engine);
void command_done_all(struct engine *engine);
/* command_row.c */
int command_load(struct engine *engine, struct err *err) MUST_USE;
/* Those that ran when the last run ended are lost. */
void command_reconcile(struct engine *engine, struct store_batch *batch);

/* snapshot.c */
int snapshot_check_slug(struct engine *engine, const struct engine_caller *caller, struct str slug,
                        struct err *err) MUST_USE;
int snapshot_load(struct engine *engine, struct err *err) MUST_USE;
void snapshot_reconcile(struct engine *engine, struct store_batch *batch);
void snapshot_done_all(struct engine *engine);
struct store_hashes;
void snapshot_keep_images(const struct engine *engine, struct store_hashes *kept);
void snapshot_each_image(const struct engine *engine, enum engine_tier tier,
                         void (*call)(void *ctx, struct str image), void *ctx);
int snapshot_resolve(struct engine *engine, const struct engine_caller *caller,
                     const struct sandbox_spec *spec, struct sandbox *sandbox,
                     struct err *err) MUST_USE;
int snapshot_image(struct engine *engine, struct str id, struct str *ret_image,
                   struct err *err) MUST_USE;

/* key.c. key_find: 1 with the object that was made, which is borrowed until the next call of these;
 * 0 when there is none. */
int key_find(struct engine *engine, const struct engine_caller *caller, struct str *ret_object,
             struct err *err) MUST_USE;
void key_remember(struct engine *engine, const struct engine_caller *caller, struct str object,
                  struct store_batch *batch);
void key_put_id(const struct engine_caller *caller, struct buf *out);
void key_put(struct engine *engine, struct str id, struct str hash, struct str object,
             struct store_batch *batch);
void key_drop(struct engine *engine, struct str id);
struct str key_object(const struct engine *engine, struct str id); /* empty: there is none */
int key_refuse(struct str key, struct err *err); /* it came with another request */
void key_forget(struct engine *engine, struct str tenant, struct str object,
                struct store_batch *batch);
void key_sweep(struct engine *engine);
int key_load(struct engine *engine, struct err *err) MUST_USE;
void key_done(struct engine *engine);

/* key_claim.c. The first call with a key has the claim; who comes before its end waits and is told
 * the object that it made, or why there is none. */
enum key_found {
    KEY_REFUSED,
    KEY_FREE,  /* go on; the claim (NULL without a key) is to be ended */
    KEY_KNOWN, /* `ret_object` was made before; borrowed until the next call of these */
    KEY_WAITS, /* `wait` is called */
};
struct key_claim;
enum key_found key_claim(struct engine *engine, const struct engine_caller *caller,
                         key_is_there *is_there, struct key_wait *wait, struct str *ret_object,
                         struct key_claim **ret_claim, struct err *err) MUST_USE;
/* Has a call had it before, with whatever request? */
bool key_is_taken(struct engine *engine, const struct engine_caller *caller,
                  key_is_there *is_there);
/* Of a request that was not known whole when the key was claimed; before key_keep. */
void key_claim_hash(struct key_claim *claim, struct str hash);
/* In the batch that records the object. These two do nothing for NULL. */
void key_keep(struct key_claim *claim, struct str object, struct store_batch *batch);
/* Frees the claim; `why` when there is no object after all. */
void key_end(struct key_claim *claim, const struct err *why);

/* token.c */
int token_load(struct engine *engine, struct err *err) MUST_USE;
void token_done_all(struct engine *engine);

/* zone.c */
void zone_done_all(struct engine *engine);

/* spec.c */
int spec_check(struct engine *engine, const struct engine_caller *caller,
               const struct sandbox_spec *spec, struct err *err) MUST_USE;
int spec_check_env(const struct engine_pairs *env, struct err *err) MUST_USE;
int spec_check_metadata(const struct engine_pairs *metadata, struct err *err) MUST_USE;
int spec_check_time(int64_t ms, const char *what, struct err *err) MUST_USE;
int spec_check_limits(const struct sandbox_limits *limits, struct err *err) MUST_USE;
/* The policy in its own words. */
int spec_policy(const struct engine_caller *caller, struct str text, struct buf *out,
                struct err *err) MUST_USE;
/* Can they be, with this policy? */
int spec_check_secrets(const struct engine *engine, const struct engine_caller *caller,
                       const struct sandbox_secrets *secrets, struct str policy,
                       struct err *err) MUST_USE;
/* The configuration's for DEFAULT. */
const struct str *spec_dup_texts(const struct str *texts, size_t count, struct arena *arena);
enum engine_tier spec_tier(const struct engine *engine, enum engine_tier tier);
void spec_put_json(const struct sandbox_spec *spec, struct json_out *out);
int spec_read_json(struct str text, struct arena *arena, struct sandbox_spec *ret_spec,
                   struct err *err) MUST_USE;
void pairs_put_json(const struct engine_pairs *pairs, struct json_out *out);
int pairs_read_json(struct json_t *object, struct arena *arena, struct engine_pairs *ret_pairs,
                    struct err *err) MUST_USE;
struct engine_pairs pairs_dup(const struct engine_pairs *pairs, struct arena *arena);
