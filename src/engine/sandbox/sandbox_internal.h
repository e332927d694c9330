#pragma once

/* A sandbox as the engine keeps it, and what its files offer to the rest of engine/. */

#include "base/err.h"
#include "base/hold.h"
#include "base/id.h"
#include "base/map.h"
#include "base/vec.h"
#include "engine/provider.h"
#include "engine/sandbox/bases.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox.h"
#include "engine/sandbox/sandbox_state.h"
#include "engine/sandbox/turn_internal.h"
#include "io/loop.h"
#include "store/store.h"

struct answer;
struct kept;
struct network;
struct sandbox;
struct turning;

enum {
    CHECKPOINTS_MAX = 32,
    SANDBOXES_MAX = 1000, /* that hold a place */
};

struct checkpoint {
    char id[ID_SIZE];
    char *name, *image;
    char *variables;   /* the ledger of that time as JSON; NULL: empty */
    struct kept *kept; /* what its interpreters held; NULL: not kept */
    int64_t created_ms, size_bytes;
};

/* A request waiting for a state change of its sandbox to finish. */
struct want {
    struct want *next;
    bool needs_running; /* it is brought to `running`; else any state that lasts will do */
    /* The verb's name when it may change files: an automatic checkpoint comes first (turn.c). */
    const char *changes;
    struct engine_quota quota; /* of its caller, for that checkpoint */
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
    char disk[ID_SIZE];  /* the disk with its files, above `image`; "": only in memory, or none */
    struct buf skipped;  /* what the last copy of its files left out */
    bool is_disk_new;    /* nothing is on it yet */
    sandbox_bases bases; /* what it shares with the sandboxes that it was forked from */
    struct str exported; /* of a helper: the snapshot that it shows for an export */
    char reason[ERR_MSG_MAX];
    VEC(struct checkpoint) checkpoints;
    size_t checkpoints_coming; /* that are being made, and their names */
    struct shooting *shootings;
    VEC(struct sandbox_checkpoint) shown;
    VEC(struct sandbox_port) ports;
    int64_t ord;
    int64_t expires_at, idle_at; /* on the boot clock; 0: never */
    bool is_late;                /* it is paused because its time was up */
    bool is_late_by_idle;        /* then by its idle limit, not the absolute one */
    bool is_warned;              /* that its absolute limit comes */
    struct evaluating *evals;    /* that run in it */
    int late_pauses;             /* that failed, one after the other */
    int64_t active_at;
    size_t busy;          /* works under way: it is not idle */
    bool is_looked_at;    /* for processes that were left running */
    int64_t cleared_at;   /* when there were none; 0: not known */
    struct hold hold;     /* by works and moves; is_freed: its record is gone (sandbox_leave) */
    size_t commands;      /* of them; also those that have ended and left their output open */
    size_t open_commands; /* of those, the latter */
    struct place *place;
    struct live_interpreters *live; /* saved state for the interpreters of a new place; not owned */
    struct ledger ledger;           /* of the variables of its interpreters */
    /* Memory and disk that it is about to get: held by its tenant already. */
    int64_t raising_bytes, raising_disk;
    struct history history;         /* its automatic checkpoints */
    struct turning *turning;        /* one that is being made */
    double usage_cpus;              /* in use when it was looked at last */
    int64_t usage_ns, usage_cpu_us; /* when its use was looked at last, and what it was then */
    struct want *wants, **last_want;
    bool is_deleting, is_unsaved;
    bool is_rolling;   /* back to a checkpoint */
    bool is_settling;  /* sandbox_life_settle runs, which does nothing when it is entered again */
    bool is_lost;      /* its place died while it was being made */
    bool is_put_aside; /* once asked to pause because the server stops */
    bool is_helper;    /* made for a volume's files; not for the outside */
    struct sandbox *next_leaving;
    struct loop_task task;
};

/* sandbox.c. NULL with NOT_FOUND, also for another tenant's. */
struct sandbox *sandbox_find(struct engine *engine, const struct engine_caller *caller,
                             struct str id, struct err *err) MUST_USE;
/* sandbox_checkpoint.c. The checkpoint's index, by id or name; the number of checkpoints if not
 * found. */
size_t sandbox_find_checkpoint(const struct sandbox *sandbox, struct str name);
/* sandbox_make.c */
struct sandbox *sandbox_new(struct engine *engine, struct str id, struct str tenant);
struct sandbox *sandbox_free(struct sandbox *sandbox);
void sandbox_set_network(struct sandbox *sandbox, struct str network);
/* What its place is made with from now on; takes `network`, which may be NULL. */
void sandbox_set_net(struct sandbox *sandbox, struct network *network);
void sandbox_make_place(struct sandbox *sandbox, struct str image, place_done *done, void *ctx);
/* A sandbox that is checked and filled in, in the table, and not made yet. */
int sandbox_from_spec(struct engine *engine, const struct engine_caller *caller,
                      const struct sandbox_spec *spec, struct sandbox **ret_sandbox,
                      struct err *err) MUST_USE;
/* Running, or NULL with the reason: then it is gone. */
typedef void making_done(void *ctx, struct sandbox *sandbox, const struct err *why);
void sandbox_make(struct sandbox *sandbox, const struct engine_caller *caller, struct str image,
                  making_done *done, void *ctx);

/* sandbox_image.c */
void sandbox_set_image(struct sandbox *sandbox, struct str image);
void sandbox_add_checkpoint(struct sandbox *sandbox, struct str id, struct str name,
                            struct str image, int64_t size_bytes, int64_t created_ms);
void sandbox_cut_checkpoints(struct sandbox *sandbox, size_t count);
void sandbox_release_image(struct engine *engine, enum engine_tier tier, struct str image);
void sandbox_drop_images(struct sandbox *sandbox);
/* A checkpoint or a rollback is newer than the saved state. */
void sandbox_forget_image(struct sandbox *sandbox);
/* The newest of the saved state and the checkpoints; empty without any. */
struct str sandbox_last_image(const struct sandbox *sandbox);
/* Gives it a new disk, where its tier has such; its place is made on it. */
void sandbox_want_disk(struct sandbox *sandbox);
/* See provider_host.on_skipped. */
void sandbox_skipped(struct engine *engine, struct str id, struct str text);
/* See provider_host.on_stand. */
void sandbox_stand(struct engine *engine, struct str id, struct str image, struct str disk);

/* sandbox_life.c */
void sandbox_move(struct sandbox *sandbox, enum sandbox_state state, const char *reason,
                  struct store_batch *batch);
/* Changes the state, saves it and resumes waiting requests; `answer` (or NULL) is given once the
 * store has it. */
void sandbox_go(struct sandbox *sandbox, enum sandbox_state state, const char *reason,
                struct answer *answer);
void sandbox_wait(struct sandbox *sandbox, struct want *want);
void sandbox_refuse(struct sandbox *sandbox, const struct err *why, bool all);
void sandbox_set_reason(struct sandbox *sandbox, struct str reason);
void sandbox_set_timeout(struct sandbox *sandbox, int64_t timeout_ms);
void sandbox_touch(struct sandbox *sandbox);
/* sandbox_told.c. Why a limit of time paused or stops it; nothing when it was something else. */
void sandbox_put_limit_reason(const struct sandbox *sandbox, struct buf *out);
/* One minute before its absolute limit: an event. */
void sandbox_warn(struct sandbox *sandbox, int64_t now);
/* Tells the clients that follow its commands that it was paused, or that it runs again. */
void sandbox_tell_attached(struct sandbox *sandbox);
bool sandbox_is_news(const struct sandbox_info *info, bool *was_paused);
/* Also for a sandbox that is paused because the server stops. */
void sandbox_paused_err(const struct sandbox *sandbox, struct err *err);
#define SERVER_STOPPED "the server was stopped"
void eval_tell_state(struct sandbox *sandbox); /* eval.c */
/* No work runs in it and no client is attached. */
/* No operation is in progress, no client is attached and no process was left running. Processes are
 * asked of its place, so it may be false now and true on a later tick. */
bool sandbox_is_idle(struct sandbox *sandbox);
/* sandbox_hold.c. Between the two it is not freed, even if its record is removed; it is freed on a
 * later turn than the last unhold. Operations hold it, and keep it from being idle. */
void sandbox_hold(struct sandbox *sandbox);
void sandbox_unhold(struct sandbox *sandbox);
void sandbox_begin_work(struct sandbox *sandbox);
void sandbox_end_work(struct sandbox *sandbox);
/* Removes it from the tables; it is freed when nothing holds it. */
void sandbox_leave(struct sandbox *sandbox);
/* Finds a sandbox for an operation that has its id, even if it was removed meanwhile. NULL: not
 * found. */
struct sandbox *sandbox_find_worked(const struct engine *engine, struct str id);
void sandbox_tick(struct sandbox *sandbox, int64_t now);
void sandbox_begin_pause(struct sandbox *sandbox, struct answer *answer);
void sandbox_begin_stop(struct sandbox *sandbox, const char *reason, struct answer *answer);
void sandbox_remove(struct sandbox *sandbox, struct store_batch *batch, struct answer *answer);
void sandbox_lost(struct sandbox *sandbox, enum sandbox_state to, const struct err *why);

/* sandbox_change.c. A place that went back to an earlier state gets placeholders of its own: those
 * that the state may hold mean nothing. `done` (or NULL) comes when they hold, or cannot. */
void sandbox_renew_network(struct sandbox *sandbox, engine_done *done, void *ctx);

/* port.c */
void sandbox_add_port(struct sandbox *sandbox, const struct sandbox_port *port);

/* sandbox_row.c */
void sandbox_save(struct sandbox *sandbox, struct store_batch *batch);
void sandbox_commit(struct sandbox *sandbox, struct store_batch *batch,
                    enum store_strength strength, struct answer *answer);
/* Stores again what the store could not write before. */
void sandbox_save_again(struct sandbox *sandbox);
/* Rows that could not be removed: else the next start would find them. */
void sandbox_remove_again(struct engine *engine);
/* sandbox_retain.c: deletes sandboxes that were kept for as long as [retention] says. */
void sandbox_retain(struct engine *engine);
int sandbox_load(struct engine *engine, struct err *err) MUST_USE;
