#pragma once

/* Sandboxes: their records, states and operations. Part of engine/engine.h, which says how calls
 * behave. */

#include "base/id.h"
#include "engine/caller.h"
#include "runtime/memory_end.h"

/* DEFAULT is what the configuration names. */
enum engine_tier {
    ENGINE_TIER_DEFAULT,
    ENGINE_TIER_JAIL,
    ENGINE_TIER_ISOLATE,
    ENGINE_TIER_MEMORY, /* files only; nothing runs */
    ENGINE_TIER_COUNT
};
const char *engine_tier_name(enum engine_tier tier);
bool engine_tier_of_name(struct str name, enum engine_tier *ret_tier) MUST_USE;

/* A sandbox's life. Moves are the rows of `moves` in sandbox_state.c, and no others happen:
 *
 *     creating     its place is being made; verbs on it wait
 *     running      takes work
 *     pausing      its state is being saved
 *     paused       holds its state and no processes; a verb that needs it running resumes it
 *     resuming     its place is being brought back
 *     stopping     its place is being taken down
 *     stopped      its files are gone; the record and the logs stay until it is deleted
 *     failed       could not be made, or broke; the reason says why
 *     interrupted  the daemon or the process of its tier died; its volume and its last saved state
 * are there: resume brings it back, with the files that were saved */
enum sandbox_state {
    SANDBOX_CREATING,
    SANDBOX_RUNNING,
    SANDBOX_PAUSING,
    SANDBOX_PAUSED,
    SANDBOX_RESUMING,
    SANDBOX_STOPPING,
    SANDBOX_STOPPED,
    SANDBOX_FAILED,
    SANDBOX_INTERRUPTED,
    SANDBOX_STATE_COUNT
};
const char *sandbox_state_name(enum sandbox_state state);
bool sandbox_state_of_name(struct str name, enum sandbox_state *ret_state) MUST_USE;

enum sandbox_on_timeout { SANDBOX_PAUSE_AT_TIMEOUT, SANDBOX_KILL_AT_TIMEOUT };

/* TURN: automatic ones, before each call that may change files; engine/sandbox/turn.h. */
enum sandbox_checkpoints {
    SANDBOX_CHECKPOINTS_DEFAULT, /* the configuration's */
    SANDBOX_CHECKPOINTS_MANUAL,
    SANDBOX_CHECKPOINTS_TURN,
};

/* 0 means the configuration's. */
struct sandbox_limits {
    int64_t memory_bytes, disk_bytes, cpu_milli, pids;
    /* Of one evaluation, and of one foreground command, whose call gives none; -1: none. */
    int64_t exec_ms;
    /* Of its network; egress/gateway/egress_proxy.h says what each means. */
    int64_t net_connections, net_bytes_per_second, net_bytes_total;
    int64_t net_idle_ms, net_total_ms, net_head_bytes, net_answer_bytes;
};

enum { SANDBOX_SECRETS_MAX = 32 };

/* A key that code in the sandbox uses and never sees (egress/keys/secrets.h). Its value is in the
 * request that sets it and in no answer: the store keeps it sealed. */
struct sandbox_secret {
    struct str name;   /* the variable that holds the placeholder inside */
    struct str config; /* or the NAME of a [secrets.NAME] in the configuration, and nothing else */
    struct str value;  /* only in a request */
    struct str sealed; /* the engine's; not for answers */
    const struct str *hosts, *headers;
    size_t host_count, header_count;
};
struct sandbox_secrets {
    const struct sandbox_secret *items;
    size_t len;
};

/* A port that others than its tenant may reach; engine/port.h. */
struct sandbox_port {
    uint16_t port;
    bool is_public;
    char key[ID_SIZE]; /* what tokens for it are good for; another one each time it is exposed */
    int64_t created_ms;
};

struct sandbox_base {
    char id[ID_SIZE]; /* of a disk, or of the fork or checkpoint that was copied */
    int64_t bytes;
};

struct sandbox_spec {
    enum engine_tier tier;
    struct str
        runtime; /* "js" in an isolate, "node24" in a jail; empty: the tier's, python3 in a jail */
    struct str name;             /* for people; need not be unique */
    const struct str *snapshots; /* ids or slugs, lowest first */
    size_t snapshot_count;
    const struct str *requirements; /* packages, before the first run of its runtime */
    size_t requirement_count;
    struct str volume; /* id; at /workspace. BUSY while another sandbox writes it */
    struct engine_pairs env;
    struct engine_pairs metadata;
    struct sandbox_limits limits;
    struct str
        network; /* a policy (egress/policy/policy.h) with groups for hosts; empty for none */
    struct sandbox_secrets secrets;
    int64_t timeout_ms; /* from its start; 0 and -1: none */
    int64_t idle_ms;    /* without work; 0: the configuration's; -1: none */
    enum sandbox_on_timeout on_timeout;
    enum sandbox_checkpoints checkpoints;
    const struct sandbox_port *ports; /* for the store: a new sandbox exposes none */
    size_t port_count;
    const struct sandbox_base *bases; /* for the store as well: see engine/sandbox/bases.h */
    size_t base_count;
};

struct sandbox_checkpoint {
    struct str id, name;
    int64_t created_ms;
    struct str skipped; /* what could not be copied; in the answer to its making only */
};

/* An interpreter that a fork brought along. */
struct sandbox_context {
    struct str id, reason; /* why it started fresh; empty: it has its variables */
    bool is_live;
};

/* What is known of a sandbox. Dates are milliseconds since 1970, 0 for not yet. */
struct sandbox_info {
    struct str id, tenant, name, runtime;
    bool is_runtime_given; /* the request named it; false after a restart */
    enum engine_tier tier;
    enum sandbox_state state;
    struct str reason; /* of failed, stopped and interrupted: one line */
    struct str session, volume, forked_from;
    struct str skipped; /* what the last checkpoint, fork, snapshot or pause could not copy */
    bool is_on_disk;    /* its files are on disk and outlive the server; else they are in memory */
    struct str region;  /* sandbox.region */
    const struct str *snapshots; /* ids */
    size_t snapshot_count;
    const struct str *requirements;
    size_t requirement_count;
    struct engine_pairs env, metadata;
    struct sandbox_limits limits;   /* in effect */
    struct str network;             /* in the policy's own words */
    struct sandbox_secrets secrets; /* without their values */
    int64_t timeout_ms, idle_ms;    /* in effect; 0 for none */
    int64_t cell_ms, command_ms;    /* of one evaluation, of one foreground command: the same */
    enum sandbox_on_timeout on_timeout;
    int64_t created_ms, started_ms, active_ms, ended_ms;
    int64_t expires_ms; /* when its timeout comes; 0 for never or not running */
    const struct sandbox_checkpoint *checkpoints;
    size_t checkpoint_count;
    const struct sandbox_port *ports;
    size_t port_count;
    bool has_turns;                         /* automatic checkpoints are made */
    const struct sandbox_context *contexts; /* only reported by engine_sandbox_fork */
    size_t context_count;
    uint64_t version; /* grows with each change */
};

typedef void sandbox_done(void *ctx, const struct sandbox_info *sandbox, const struct err *why);

/* INVALID names the field; NOT_FOUND a snapshot or volume; LIMIT the quota; UNSUPPORTED what the
 * tier or the host cannot give. */
void engine_sandbox_create(struct engine *engine, const struct engine_caller *caller,
                           const struct sandbox_spec *spec, sandbox_done *done, void *ctx);

/* By id or name, here and in the other calls: a name that several have is CONFLICT. */
int engine_sandbox_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                       struct sandbox_info *ret_sandbox, struct err *err) MUST_USE;

struct sandbox_filter {
    unsigned states;              /* bit 1 << SANDBOX_RUNNING and so on; 0 for all */
    struct str name;              /* empty for all */
    struct engine_pairs metadata; /* all of these */
    struct engine_page page;
};
struct sandbox_list {
    struct sandbox_info *items;
    size_t count;
    char next[ENGINE_CURSOR_SIZE]; /* "" at the end */
};
/* INVALID for a cursor that none of these calls gave. */
int engine_sandbox_list(struct engine *engine, const struct engine_caller *caller,
                        const struct sandbox_filter *filter, struct arena *arena,
                        struct sandbox_list *ret_list, struct err *err) MUST_USE;

/* Brings it to `running` when it is paused or interrupted, and counts as work. GONE when it has
 * stopped. A `timeout_ms` other than 0 replaces the time limit, counted from now (-1: none). */
void engine_sandbox_connect(struct engine *engine, const struct engine_caller *caller,
                            struct str id, int64_t timeout_ms, sandbox_done *done, void *ctx);

/* What can be changed while it lives; NULL leaves as it is. */
struct sandbox_change {
    const int64_t *timeout_ms; /* from now; -1: none */
    const int64_t *idle_ms;
    const enum sandbox_on_timeout *on_timeout;
    const struct str *name;
    const struct engine_pairs *metadata; /* replaces all of it */
    const struct str *network;           /* holds at once, for open connections too */
    /* Replaces all of them; one that keeps its name keeps its placeholder, and its value when none
     * is given. */
    const struct sandbox_secrets *secrets;
    const struct sandbox_limits *network_limits; /* only the net_* limits; 0: the configuration's */
    const struct sandbox_limits *limits;         /* memory_bytes, cpu_milli, disk_bytes; 0: stays */
};
void engine_sandbox_update(struct engine *engine, const struct engine_caller *caller, struct str id,
                           const struct sandbox_change *change, sandbox_done *done, void *ctx);

/* CONFLICT when its state does not allow the move. A sandbox that already has the wanted state
 * (paused for pause, running for resume, stopped for stop) is a success. */
void engine_sandbox_pause(struct engine *engine, const struct engine_caller *caller, struct str id,
                          sandbox_done *done, void *ctx);
void engine_sandbox_resume(struct engine *engine, const struct engine_caller *caller, struct str id,
                           sandbox_done *done, void *ctx);
void engine_sandbox_stop(struct engine *engine, const struct engine_caller *caller, struct str id,
                         sandbox_done *done, void *ctx);
/* Stops it first. Its record goes; its volume stays, and its commands with their logs for a day. */
void engine_sandbox_delete(struct engine *engine, const struct engine_caller *caller, struct str id,
                           engine_done *done, void *ctx);

/* `count` sandboxes (1 to ENGINE_FORKS_MAX) with the state this one has now, or at `checkpoint`
 * (empty: now). All of them or none. Volumes are not shared with forks. */
typedef void sandbox_many_done(void *ctx, const struct sandbox_info *sandboxes, size_t count,
                               const struct err *why);
void engine_sandbox_fork(struct engine *engine, const struct engine_caller *caller, struct str id,
                         struct str checkpoint, size_t count, sandbox_many_done *done, void *ctx);

typedef void checkpoint_done(void *ctx, const struct sandbox_checkpoint *checkpoint,
                             const struct err *why);
void engine_sandbox_checkpoint(struct engine *engine, const struct engine_caller *caller,
                               struct str id, struct str name, checkpoint_done *done, void *ctx);
/* By id or name. Commands that run in it end. Later checkpoints are dropped. */
void engine_sandbox_rollback(struct engine *engine, const struct engine_caller *caller,
                             struct str id, struct str checkpoint, sandbox_done *done, void *ctx);
