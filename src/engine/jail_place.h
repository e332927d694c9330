#pragma once

/* The tier jail from inside, for provider_jail.c and the jail_*.c beside it. */

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "engine/provider.h"
#include "io/loop.h"
#include "jail/files.h"
#include "jail/jail.h"
#include "runtime/runtimes.h"

struct context;
struct gateway;
struct gateway_session;
struct jail_layers;
struct live_reviving;
struct live_taking;
struct pool;
struct request;
struct rolling;
struct runtime;
struct spares;
struct volumes;

struct provider {
    const struct provider_host *host;
    struct warden_link *warden;
    struct watch *watch;
    struct warden_counts counts; /* what it last said */
    bool is_counting;
    size_t pool_size, made; /* of its pool; jails asked for since that was set */
    struct request *requests;
    struct pool *disk; /* of one thread: layers and volumes want one at a time */
    struct volumes *volumes;
    struct jail_layers *layers;
    struct gateway *gateway; /* from the first sandbox with a network on */
    struct watch *gateway_watch;
    bool has_roots;     /* the gateway knows what to trust */
    bool has_roots_dir; /* and what an earlier server left of its jails' roots is gone */
    struct buf dns_servers;
    struct place *places;
    struct runtime_places runtimes; /* directories of their programs; every jail sees them */
    int kernels_started;            /* that a template could have served */
    bool is_template_asked, has_template;
    struct spares *spares; /* places with a kernel in each */
};

/* `event` is NULL when there is `why`: it failed, or the warden has gone. */
typedef void request_event(struct request *request, const struct warden_event *event,
                           const struct err *why);

/* Something asked of the warden. */
struct request {
    struct request *next;
    uint32_t number; /* of a warden_ask_* or jail_ask_* */
    request_event *on_event;
    image_done *image_done;
    engine_done *plain_done;
    void *ctx;
};

/* Something asked of a jail, by the number of its events. */
struct asked_op {
    struct asked_op *next;
    uint32_t id;
    /* `event` is borrowed; NULL when the place has gone, with `why`: the last word then. */
    void (*on_event)(struct asked_op *op, const struct jail_event *event, const struct err *why);
};

typedef VEC(int) place_fds;

/* Layers of a place that were sealed in its jail (jail_seal.c), oldest first. */
struct place_sealed {
    place_fds fresh; /* in no image yet */
    place_fds stale; /* in own_image, and still part of the jail's root */
    int64_t stale_bytes;
    int64_t bytes;      /* of own_image, as far as it was written in this life */
    struct buf mounted; /* the image that the jail's root was made of last, "": own_image */
    struct buf asked;   /* the image that it is being made of */
    uint32_t version;   /* changes with any of these */
};

struct place {
    struct place *next; /* of the provider's */
    struct provider *provider;
    struct loop *provider_loop;
    struct arena arena;
    char *id, *volume;
    struct jail_plan plan;
    struct jail *jail;
    struct watch *watch;
    struct asked_op *ops;
    struct exec *execs;
    struct context *contexts;
    struct engine_pairs env;        /* of every kernel */
    struct str runtime;             /* when a run names none */
    const struct str *requirements; /* of that runtime's first run */
    size_t requirement_count;
    int64_t exec_ms;
    int64_t oom_kills;       /* that are known of */
    struct map installed;    /* requirements that were met: jail_packages.c */
    bool is_noted;           /* so are those that its working tree notes as met */
    struct listing *listing; /* the files after the last run; NULL: not known */
    uint64_t version, listing_version;
    struct buf base_image, own_image; /* what it stands on: its snapshots; what it goes on from */
    struct place_sealed sealed;
    struct rolling *rolling;         /* a rollback under way */
    struct network *net;             /* what holds */
    struct gateway_session *network; /* NULL: no socket of it leads out */
    bool lost_network;               /* had one when the gateway died */
    VEC(uint16_t) ports;             /* that lead to it besides those of every gateway */
    struct net_change *net_change;   /* under way */
    int64_t net_moved;               /* bytes, by whatever gateway */
    int roots_fd; /* what it trusts in place of the system's file; -1: that one */
    const char *roots_path;
    struct live_taking *taking;     /* its interpreters write down what they hold */
    struct live_reviving *reviving; /* its interpreters go on from what others held */
    struct live_kernels *live;      /* which is this */
    size_t holds;                   /* no code is run while there are any */
    bool is_gone, is_pumping, is_ended;
    bool is_paused;           /* all in it stands still */
    bool is_spare;            /* nobody's yet; it has no id */
    struct timer *gone_timer; /* NULL, or the end of the jail is told when it rings */
    struct err gone_err;
};

/* For what may be told of when the place is no more; NULL for a spare. Free it. */
static inline char *place_copy_id(const struct place *place)
{
    return place->id == NULL ? NULL : mem_dup_cstr(place->id);
}

/* jail_place.c */
/* Remembers `op` until its last event; the id is that of a jail_ask_*. */
void place_add(struct place *place, struct asked_op *op, uint32_t id);
void place_remove(struct place *place, struct asked_op *op);
/* Questions may wait for room: call it after each jail_ask_*. */
void place_watch(struct place *place);

/* A place without a jail; then it has one, and its events are heard. */
struct place *place_new(struct provider *provider);
int place_take_jail(struct place *place, struct jail *jail, struct err *err) MUST_USE;
/* Another jail takes the place of its own, which is handed back; what was asked of that one hears
 * `why`. */
int place_exchange(struct place *place, struct jail *jail, const struct err *why,
                   struct jail **ret_old, struct err *err) MUST_USE;
/* See provider.h: whoever waits for something of it hears that it ended. */
void jail_place_end(struct place *place, bool keep_image, engine_done *done, void *ctx);
/* The end of a place that was never anybody's. */
void place_discard(struct place *place);
/* Frees it, once its events are not being told any more. */
void place_release(struct place *place);

/* jail_create.c: see provider.h */
void jail_place_create(struct provider *provider, const struct place_spec *spec, place_done *done,
                       void *ctx);

/* jail_spare.c: places that wait with a kernel in them. */
/* Makes what is missing when there is time; called whenever that may have changed. */
void jail_spares_tend(struct provider *provider);
/* A kernel is started that somebody waits for: the next of its runtime may be made ahead. */
void jail_spares_started(struct provider *provider, const struct runtime *runtime);
/* One that fits, now the caller's, with a kernel that runs; NULL when there is none. Memory and
 * processor time are still those of the pool's plan. */
struct place *jail_spare_take(struct provider *provider, const struct place_spec *spec);
/* Its limits are those of `place->plan`, once `done` says so. */
void jail_spare_limit(struct place *place, engine_done *done, void *ctx);
/* All of them go: the warden does, or the provider. */
void jail_spares_end(struct provider *provider);

/* jail_live.c: see provider.h */
void jail_live_take(struct place *place, live_done *done, void *ctx);
void jail_live_release(struct place *place);
void jail_live_free(struct live_kernels *live);
/* A new place: what its interpreters shall go on from, then that they do. */
void jail_live_begin(struct place *place, struct live_kernels *live);
void jail_live_revive(struct place *place, engine_done *done, void *ctx);
/* The place goes, or its jail: whoever waits hears it. */
void jail_live_end(struct place *place, const struct err *why);

/* jail_rollback.c */
void jail_rollback(struct place *place, struct str image, engine_done *done, void *ctx);
/* The place goes: whoever waits hears it. */
void jail_rollback_leave(struct place *place, const struct err *why);

/* jail_warden.c */
/* A jail was asked for. */
void jail_warden_used(struct provider *provider);
void jail_warden_counts(struct provider *provider, struct pool_figures *ret_figures);
int jail_warden_start(struct provider *provider, struct err *err);
void jail_warden_stop(struct provider *provider);
/* Kernels are forked from a template from the time on when it is ready; has_template. */
void jail_template_want(struct provider *provider, const struct runtime *runtime);
/* Remembers what was asked until it is answered. */
struct request *jail_warden_asked(struct provider *provider, uint32_t number,
                                  request_event *on_event, void *ctx);
/* What a jail is that asks for nothing else: the pool's. */
void jail_pool_plan(const struct provider *provider, struct jail_plan *plan);
void jail_fill_plan(const struct provider *provider, const struct sandbox_limits *limits,
                    struct jail_plan *plan);

/* jail_network.c */
void jail_network_set(struct place *place, struct network *network, engine_done *done, void *ctx);
/* A program in this jail of the warden's wants to go out, and nobody listens yet. */
void jail_network_knocked(struct provider *provider, uint32_t number);
/* The place goes: whoever waits for a change hears so. */
void jail_network_end(struct place *place, const struct err *why);
void jail_network_stop(struct provider *provider);

/* jail_roots.c */
struct authority;
/* A mount of its own roots, for a place whose connections are opened from the start. */
void jail_roots_plan(struct place *place);
/* The host's roots and this one. */
int jail_roots_bundle(struct authority *authority, struct buf *out, struct err *err) MUST_USE;
int jail_roots_write(struct place *place, struct str bundle, struct err *err) MUST_USE;
void jail_roots_end(struct place *place);

/* jail_volumes.c: on the disk's thread, told on the loop. */
typedef void attached_done(void *ctx, struct str path, const struct err *why);
void jail_volume_create(struct provider *provider, struct str id, int64_t capacity_bytes,
                        engine_done *done, void *ctx);
bool jail_volume_exists(struct provider *provider, struct str id);
void jail_volume_delete(struct provider *provider, struct str id, engine_done *done, void *ctx);
void jail_volume_attach(struct provider *provider, struct str id, attached_done *done, void *ctx);
void jail_volume_detach(struct provider *provider, struct str id, engine_done *done, void *ctx);
/* Deletes every volume that `volumes` does not name. */
void jail_volumes_reclaim(struct provider *provider, const struct map *volumes, engine_done *done,
                          void *ctx);

/* jail_exec.c */
void jail_exec(struct place *place, const struct exec_plan *plan, const struct exec_calls *calls,
               void *ctx);
int jail_exec_write(struct exec *exec, struct str bytes, struct err *err);
size_t jail_exec_unsent(const struct exec *exec);
void jail_exec_close_stdin(struct exec *exec);
int jail_exec_signal(struct exec *exec, int signo, struct err *err);
int jail_exec_resize(struct exec *exec, uint16_t rows, uint16_t cols, struct err *err);
void jail_exec_flow(struct exec *exec, bool stop);
void jail_exec_free(struct exec *exec);
/* The place goes: every command hears so. */
void jail_execs_end(struct place *place, const struct err *why);

/* jail_run.c */
void jail_eval(struct provider *provider, struct place *place, struct str tenant,
               const struct eval_spec *spec, const struct eval_calls *calls, void *ctx);
void jail_eval_flow(struct place *place, const void *ctx, bool stop);

/* jail_files.c: whether a file of this path is the volume's. */
bool jail_files_last(const struct place *place, struct str path);

/* jail_changes.c: something else than a run is about to change files. */
void jail_files_touched(struct place *place);

/* jail_context.c */
void jail_context(struct place *place, const struct context_request *request, context_done *done,
                  void *ctx);
/* jail_run.c: it goes on after a pause, and with it what ran out of time meanwhile. */
void jail_runs_resume(struct place *place);
/* What its kernels shall have of the sandbox. */
void jail_contexts_begin(struct place *place, const struct sandbox_info *info);
/* A kernel that waited there hears what those of the sandbox find in their environment. */
void jail_contexts_dress(struct place *place);
/* The place goes: whoever waits for a run hears so. */
void jail_contexts_end(struct place *place, const struct err *why);

/* jail_files.c */
void jail_files(struct place *place, const struct file_request *request, file_done *done,
                void *ctx);
struct file_info jail_file_info(struct str path, const struct files_stat *stat);

/* jail_reader.c */
int jail_file_get(struct place *place, const struct file_get *get,
                  const struct file_reader_calls *calls, void *ctx, void **ret_reader,
                  struct err *err);
void jail_reader_flow(void *reader, bool stop);
void jail_reader_free(void *reader);

/* jail_writer.c */
int jail_file_put(struct place *place, const struct file_put *put,
                  const struct file_writer_calls *calls, void *ctx, void **ret_writer,
                  struct err *err);
bool jail_writer_write(void *writer, struct str bytes);
void jail_writer_finish(void *writer);
void jail_writer_free(void *writer);

/* jail_watcher.c */
int jail_file_watch(struct place *place, struct str path, bool recursive,
                    const struct file_watch_calls *calls, void *ctx, void **ret_watcher,
                    struct err *err);
void jail_watcher_free(void *watcher);

/* jail_port.c */
void jail_port(struct place *place, uint16_t port, port_done *done, void *ctx);
