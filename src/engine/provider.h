#pragma once

/* What a tier can do: a table of functions that only the engine calls.
 *
 * A provider makes places; a place is its side of one sandbox. A function that is NULL is a verb
 * that the tier does not have: the engine answers UNSUPPORTED for it. All of them belong to the
 * loop's thread, never block, and call `done` exactly once, which may happen before they return.
 * Arguments are borrowed only for the call, unless a comment says otherwise. */

#include "engine/code/context.h"
#include "engine/code/eval.h"
#include "engine/command/command.h"
#include "engine/figures.h"
#include "engine/file/file.h"
#include "engine/port.h"
#include "engine/sandbox/sandbox.h"
#include "engine/snapshot/snapshot.h"
#include "runtime/loss.h"

struct config;
struct engine;
struct exec;
struct live_interpreters;
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
    const char *program; /* that spawners are started from */
    struct engine *engine;
    /* Reports of a provider to the engine. A place that died unexpectedly: its handle must still be
     * passed to sandbox_end. */
    void (*on_gone)(struct engine *engine, struct str sandbox, const struct err *why);
    /* The process that creates places (the warden, the isolate spawner) died, and every place with
     * it. The provider has started a new one, or `why` says that it could not. */
    void (*on_process_gone)(struct engine *engine, enum engine_tier tier, const struct err *why);
    /* A connection of a sandbox to a host was refused; engine/network.h. */
    void (*on_blocked)(struct engine *engine, struct str sandbox, const char *channel,
                       const char *host, uint16_t port, const char *reason, const char *text);
    /* Reports the bytes that were received and sent through the gate since the last call. */
    void (*on_moved)(struct engine *engine, struct str sandbox, int64_t bytes);
    /* The variables of an interpreter: begun: it can have some from now on. restored: it has those
     * of another sandbox's interpreter, or its own from before it was closed. lost: they are lost
     * for this reason (LOSS_NONE: its caller closed it). */
    void (*on_state_begun)(struct engine *engine, struct str sandbox, struct str context);
    void (*on_state_restored)(struct engine *engine, struct str sandbox, struct str context);
    void (*on_state_lost)(struct engine *engine, struct str sandbox, struct str context,
                          enum loss_reason reason);
    /* The place now uses this image as its base and this disk for later writes. After a restart of
     * the server a new place is created from both. */
    void (*on_stand)(struct engine *engine, struct str sandbox, struct str image, struct str disk);
    /* A copy of the sandbox was made. `text` is a sentence that says what it lacks; empty: nothing.
     */
    void (*on_skipped)(struct engine *engine, struct str sandbox, struct str text);
    /* A run is tried once more: it lacked a package, or its interpreter could not be forked. */
    void (*on_retry)(struct engine *engine);
    /* Calls back for every image that a sandbox, a checkpoint or a snapshot of the tier uses, and
     * for every disk that a sandbox of the tier uses, with the image below it. Others may be
     * removed. */
    void (*each_image)(const struct engine *engine, enum engine_tier tier,
                       void (*call)(void *ctx, struct str image), void *ctx);
    void (*each_disk)(const struct engine *engine, enum engine_tier tier,
                      void (*call)(void *ctx, struct str disk, struct str image), void *ctx);
};

/* The specification of a new place. */
struct place_spec {
    const struct sandbox_info *sandbox;
    struct str image; /* the saved state that it continues from (a pause, a checkpoint); empty for a
                         fresh one */
    struct str disk;  /* the disk with its files, above the image; empty: in memory */
    bool is_disk_new; /* and the disk does not exist yet */
    struct str volume;
    int64_t volume_bytes;
    uint64_t fence;
    const struct str *snapshot_images; /* lowest first */
    size_t snapshot_count;
    struct network *network;        /* never NULL; the provider takes a reference */
    struct str shown;               /* an image whose layers can be read at /mnt; empty: none */
    int64_t net_moved;              /* bytes that its earlier places have moved */
    struct live_interpreters *live; /* saved state of its interpreters; NULL: they start fresh */
};

struct files_mark;
typedef void mark_done(void *ctx, const struct files_mark *mark, const struct err *why);
typedef void place_done(void *ctx, struct place *place, const struct err *why);
/* `image` is a text in the provider's own format; the store keeps it. */
typedef void image_done(void *ctx, struct str image, int64_t size_bytes, const struct err *why);

/* Which state of interpreters to save. */
struct live_request {
    int64_t most_bytes; /* of all together */
    bool only_used;     /* interpreters that have run no code are left out */
};

struct live_size {
    int64_t bytes;
    size_t files; /* descriptors of the server */
};

/* The saved state of a place's interpreters; free it with live_free. NULL: none. */
typedef void live_done(void *ctx, struct live_interpreters *live, const struct err *why);

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
    int64_t memory_bytes; /* limit of its sandbox; 0: unknown, -1: none */
    bool is_open;         /* processes that it left still hold its output: on_closed follows */
};

struct exec_calls {
    void (*on_started)(void *ctx, struct exec *exec, const struct err *why);
    void (*on_output)(void *ctx, enum command_stream stream, struct str bytes);
    /* It has ended, after all its output; `why` if the place died. The caller then frees the
     * handle, unless `is_open`. */
    void (*on_end)(void *ctx, const struct exec_end *end, const struct err *why);
    void (*on_drain)(void *ctx); /* all written input was taken */
    /* After an end with `is_open`, which only a caller that has this call gets: the last process
     * that held the output is gone, or the place is. The caller then frees the handle. */
    void (*on_closed)(void *ctx);
};

typedef void count_done(void *ctx, int64_t count);

struct provider_table {
    const char *name;
    enum engine_tier tier;
    const char *runtime; /* when none is asked for */
    bool keeps_images;   /* after a restart of the daemon a place continues from its pause image */

    int (*open)(const struct provider_host *host, struct provider **ret_provider, struct err *err);
    /* After every place was ended. Calls every outstanding `done` before it returns. */
    void (*close)(struct provider *provider);
    int (*process_pid)(const struct provider *provider); /* of what creates places; 0: none */

    /* Gives the last known number of spare jails or workers, and requests a new one. */
    void (*pool)(struct provider *provider, struct pool_figures *ret_figures);

    void (*sandbox_create)(struct provider *provider, const struct place_spec *spec,
                           place_done *done, void *ctx);
    /* Ends and frees the place. With `keep_image` its saved state stays, so that a later place can
     * continue from it. Every outstanding `done` of the place is called before this returns. */
    void (*sandbox_end)(struct place *place, bool keep_image, engine_done *done, void *ctx);

    void (*eval)(struct provider *provider, struct place *place, struct str tenant,
                 const struct eval_spec *spec, const struct eval_calls *calls, void *ctx);
    /* While stopped, the output of the evaluation that was begun with `ctx` waits. */
    void (*eval_flow)(struct place *place, const void *ctx, bool stop);
    void (*context)(struct place *place, const struct context_request *request, context_done *done,
                    void *ctx);
    void (*exec)(struct place *place, const struct exec_plan *plan, const struct exec_calls *calls,
                 void *ctx);
    int32_t (*exec_pid)(const struct exec *exec); /* in the sandbox; 0: unknown */
    int (*exec_write)(struct exec *exec, struct str bytes, struct err *err);
    size_t (*exec_unsent)(const struct exec *exec);
    void (*exec_close_stdin)(struct exec *exec);
    int (*exec_signal)(struct exec *exec, int signo, struct err *err);
    int (*exec_resize)(struct exec *exec, uint16_t rows, uint16_t cols, struct err *err);
    void (*exec_flow)(struct exec *exec, bool stop); /* output waits while stopped */
    /* Kills it when it runs; no call-back after. Its output is closed: what still writes to it
     * fails. */
    void (*exec_free)(struct exec *exec);

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

    /* Of /workspace, as files/archive/keep.h says it. NULL: the tier has no automatic checkpoints.
     * The file has one or two archives; what differs is appended to it. */
    void (*mark)(struct place *place, mark_done *done, void *ctx);
    void (*diff)(struct place *place, int fd, uint64_t first, bool has_second, engine_done *done,
                 void *ctx);

    void (*port)(struct place *place, uint16_t port, port_done *done, void *ctx);

    /* The image lets a place continue after a restart of the daemon; empty when it would start
     * fresh. */
    void (*pause)(struct place *place, image_done *done, void *ctx);
    void (*resume)(struct place *place, engine_done *done, void *ctx);
    /* Gives the image that rollback, or a fork's sandbox_create, goes back to. */
    void (*checkpoint)(struct place *place, image_done *done, void *ctx);
    /* Makes the interpreters save their state, those that can and that `request` names; the others
     * will start fresh and report why. They run no code until live_release, which the caller must
     * call unless this fails. */
    void (*live_take)(struct place *place, const struct live_request *request, live_done *done,
                      void *ctx);
    void (*live_release)(struct place *place);
    /* Interpreters of a place that was rolled back continue from it; live_release follows. */
    void (*live_restore)(struct place *place, struct live_interpreters *live, engine_done *done,
                         void *ctx);
    /* A copy in the server's own memory of the interpreters whose memory was saved, at most
     * `most_bytes`; it can be restored more than once. NULL: nothing to keep. The caller still
     * frees `live`. */
    struct live_interpreters *(*live_keep)(struct provider *provider,
                                           const struct live_interpreters *live,
                                           int64_t most_bytes);
    /* The size of what live_keep returned. */
    struct live_size (*live_size)(const struct live_interpreters *live);
    struct live_interpreters *(*live_ref)(struct live_interpreters *live);
    void (*live_free)(struct live_interpreters *live);
    /* Later writes go to the new disk, if the tier has disks. If the tier has live_release, the
     * caller must call it unless this fails; no code runs before. */
    void (*rollback)(struct place *place, struct str image, struct str disk, engine_done *done,
                     void *ctx);
    void (*image_delete)(struct provider *provider, struct str image);
    /* Whether the files of sandboxes are on disks, which survive the end of this process; NULL:
     * no. */
    bool (*has_disks)(const struct provider *provider);
    void (*disk_delete)(struct provider *provider, struct str disk);
    /* Every disk that has a layer of the image; NULL: the tier has no disks. */
    void (*image_disks)(struct str image, void (*call)(void *ctx, struct str disk), void *ctx);
    /* In effect once `done` reports success; on failure the previous policy stays in effect.
     * CONFLICT or BUSY when a program inside uses a port that the policy names. */
    void (*network)(struct place *place, struct network *network, engine_done *done, void *ctx);
    /* Other limits of memory, cpu and disk, while it lives. On failure those before hold on;
     * CONFLICT when more is in use, UNSUPPORTED when its disk cannot get that size. */
    void (*limit)(struct place *place, const struct sandbox_limits *limits, engine_done *done,
                  void *ctx);
    /* How many processes run that no command and no interpreter is waited for. NULL: none can. */
    void (*left_running)(struct place *place, count_done *done, void *ctx);
    /* Fills in what the place knows; `usage` lives until `done`. */
    void (*usage)(struct place *place, struct sandbox_usage *usage, engine_done *done, void *ctx);

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
