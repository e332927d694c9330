#pragma once

/* What a tier can do: a table of functions that the engine alone calls.
 *
 * A provider makes places; a place is its side of one sandbox. A function that is NULL is a verb
 * that the tier does not have: the engine answers UNSUPPORTED for it. All of them belong to the
 * loop's thread, never block, and call `done` exactly once, which may happen before they return.
 * What they are handed is borrowed for the call alone, unless it says otherwise. */

#include "engine/command.h"
#include "engine/context.h"
#include "engine/eval.h"
#include "engine/figures.h"
#include "engine/file.h"
#include "engine/port.h"
#include "engine/sandbox.h"
#include "engine/snapshot.h"

struct config;
struct engine;
struct exec;
struct live_kernels;
struct loop;
struct map;
struct network;
struct place;
struct pool;
struct provider;
struct store;

/* What the engine lends to a provider. */
struct provider_host {
    struct loop *loop;
    struct pool *pool; /* for what blocks */
    struct store *store;
    const struct config *config;
    const char *data_dir;
    const char *program; /* that the makers of workers are started from */
    struct engine *engine;
    /* News from below. A place that died by itself: its handle is still to be given to
     * sandbox_end. */
    void (*on_gone)(struct engine *engine, struct str sandbox, const struct err *why);
    /* The maker died and every place with it; the provider has made itself a new one, or says
     * so in `why`. */
    void (*on_maker_gone)(struct engine *engine, enum engine_tier tier, const struct err *why);
    /* A sandbox was refused the way to a host; engine/network.h. */
    void (*on_blocked)(struct engine *engine, struct str sandbox, const char *channel,
                       const char *host, uint16_t port, const char *reason, const char *text);
    /* So many more bytes went in or out through its gate. */
    void (*on_moved)(struct engine *engine, struct str sandbox, int64_t bytes);
    /* A run is tried once more: it lacked a package, or its kernel could not be forked. */
    void (*on_retry)(struct engine *engine);
};

/* What a new place shall be. */
struct place_spec {
    const struct sandbox_info *sandbox;
    struct str image; /* what it goes on from: a pause, a checkpoint; empty for a fresh one */
    struct str volume;
    int64_t volume_bytes;
    uint64_t fence;
    const struct str *snapshot_images; /* lowest first */
    size_t snapshot_count;
    struct network *network;   /* never NULL; a reference is to be taken */
    struct str shown;          /* an image whose layers can be read at /mnt; empty: none */
    int64_t net_moved;         /* bytes that its earlier places have moved */
    struct live_kernels *live; /* its interpreters go on from this; NULL: they begin anew */
};

typedef void place_done(void *ctx, struct place *place, const struct err *why);
/* `image` in the provider's own words; the store keeps it. */
typedef void image_done(void *ctx, struct str image, int64_t size_bytes, const struct err *why);

/* What the interpreters of a place hold: to be freed by live_free. NULL: there are none. */
typedef void live_done(void *ctx, struct live_kernels *live, const struct err *why);

struct exec_plan {
    const char *const *argv; /* ends with NULL */
    const char *const *env;  /* "K=V", ends with NULL */
    const char *cwd;         /* NULL: /workspace */
    bool has_stdin, tty;
    struct str input; /* what it reads first; then the end, unless `keeps_stdin` */
    bool keeps_stdin;
    uint16_t rows, cols;
};

struct exec_end {
    int code, signal;
    bool oom;
    int64_t wall_us, user_us, system_us, peak_bytes; /* -1: unknown */
};

struct exec_calls {
    void (*on_started)(void *ctx, struct exec *exec, const struct err *why);
    void (*on_output)(void *ctx, enum command_stream stream, struct str bytes);
    /* Its last word, after all output. `why` when the place died under it. The handle is then to
     * be freed. */
    void (*on_end)(void *ctx, const struct exec_end *end, const struct err *why);
    void (*on_drain)(void *ctx); /* what was written has been taken */
};

struct provider_table {
    const char *name;
    enum engine_tier tier;
    const char *runtime; /* when none is asked for */
    bool keeps_images;   /* what pause gives lets a place go on after a restart of the daemon */

    int (*open)(const struct provider_host *host, struct provider **ret_provider, struct err *err);
    /* After every place was ended. Every `done` that is owed comes before this returns. */
    void (*close)(struct provider *provider);
    int (*maker_pid)(const struct provider *provider); /* 0: none */

    /* What was last heard of it, and asks again: what waits made for whoever comes next. */
    void (*pool)(struct provider *provider, struct pool_figures *ret_figures);

    void (*sandbox_create)(struct provider *provider, const struct place_spec *spec,
                           place_done *done, void *ctx);
    /* Takes the place: nothing of it is left but, with `keep_image`, what a later place can go on
     * from. Every `done` that is owed for it comes before this returns. */
    void (*sandbox_end)(struct place *place, bool keep_image, engine_done *done, void *ctx);

    void (*eval)(struct provider *provider, struct place *place, struct str tenant,
                 const struct eval_spec *spec, const struct eval_calls *calls, void *ctx);
    /* What the evaluation that was begun with `ctx` puts out waits while stopped. */
    void (*eval_flow)(struct place *place, const void *ctx, bool stop);
    void (*context)(struct place *place, const struct context_request *request, context_done *done,
                    void *ctx);
    void (*exec)(struct place *place, const struct exec_plan *plan, const struct exec_calls *calls,
                 void *ctx);
    int (*exec_write)(struct exec *exec, struct str bytes, struct err *err);
    size_t (*exec_unsent)(const struct exec *exec);
    void (*exec_close_stdin)(struct exec *exec);
    int (*exec_signal)(struct exec *exec, int signo, struct err *err);
    int (*exec_resize)(struct exec *exec, uint16_t rows, uint16_t cols, struct err *err);
    void (*exec_flow)(struct exec *exec, bool stop); /* output waits while stopped */
    void (*exec_free)(struct exec *exec);            /* kills it when it runs; no call-back after */

    void (*files)(struct place *place, const struct file_request *request, file_done *done,
                  void *ctx);
    int (*file_get)(struct place *place, const struct file_get *get,
                    const struct file_reader_calls *calls, void *ctx, void **ret_reader,
                    struct err *err);
    void (*reader_flow)(void *reader, bool stop);
    void (*reader_free)(void *reader);
    int (*file_put)(struct place *place, const struct file_put *put,
                    const struct file_writer_calls *calls, void *ctx, void **ret_writer,
                    struct err *err);
    bool (*writer_write)(void *writer, struct str bytes);
    void (*writer_finish)(void *writer);
    void (*writer_free)(void *writer);
    int (*watch)(struct place *place, struct str path, bool recursive,
                 const struct file_watch_calls *calls, void *ctx, void **ret_watcher,
                 struct err *err);
    void (*watcher_free)(void *watcher);

    void (*port)(struct place *place, uint16_t port, port_done *done, void *ctx);

    /* The image lets a place go on after a restart of the daemon; empty when it would begin anew.
     */
    void (*pause)(struct place *place, image_done *done, void *ctx);
    void (*resume)(struct place *place, engine_done *done, void *ctx);
    /* Gives the image that rollback, or a fork's sandbox_create, goes back to. */
    void (*checkpoint)(struct place *place, image_done *done, void *ctx);
    /* Has the interpreters write down what they hold, those that can; the others will begin anew
     * and say why. They take no code until live_release, which is owed unless this fails. */
    void (*live_take)(struct place *place, live_done *done, void *ctx);
    void (*live_release)(struct place *place);
    void (*live_free)(struct live_kernels *live);
    void (*rollback)(struct place *place, struct str image, engine_done *done, void *ctx);
    void (*image_delete)(struct provider *provider, struct str image);
    /* Holds once `done` says so. On failure what held before holds on. CONFLICT or BUSY when a
     * program inside has taken a port that the policy names. */
    void (*network)(struct place *place, struct network *network, engine_done *done, void *ctx);

    void (*volume_create)(struct provider *provider, struct str id, int64_t capacity_bytes,
                          engine_done *done, void *ctx);
    bool (*volume_exists)(struct provider *provider, struct str id);
    void (*volume_delete)(struct provider *provider, struct str id, engine_done *done, void *ctx);

    /* Of what the place has written. */
    void (*snapshot_create)(struct place *place, struct str id, image_done *done, void *ctx);
    /* Of a directory of the host; takes the descriptor. */
    void (*snapshot_directory)(struct provider *provider, int dir_fd, image_done *done, void *ctx);
    bool (*snapshot_exists)(struct provider *provider, struct str image);
    void (*snapshot_delete)(struct provider *provider, struct str image, engine_done *done,
                            void *ctx);

    /* At start: everything of an earlier run that these do not name goes. */
    void (*reclaim)(struct provider *provider, const struct map *sandboxes,
                    const struct map *volumes, const struct map *snapshots, engine_done *done,
                    void *ctx);
};

extern const struct provider_table provider_isolate, provider_jail, provider_memory;
