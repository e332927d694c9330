#pragma once

/* Snapshots: immutable file trees that sandboxes boot from. Part of engine/engine.h. */

#include "engine/file/file.h"
#include "engine/sandbox/sandbox.h"

enum {
    SNAPSHOT_SLUG_MAX = 64,
    SNAPSHOT_STACK_MAX = 16,
    SNAPSHOT_UPLOADS_MAX = 8,    /* at a time, */
    SNAPSHOT_UPLOADS_TENANT = 4, /* and of one tenant */
};
#define SNAPSHOT_BUILD_BYTES (2LL << 30)    /* memory of the sandbox that makes one */
#define SNAPSHOT_ARCHIVE_BYTES (3ULL << 29) /* of an archive, packed and unpacked: 1.5 GiB */

enum snapshot_state { SNAPSHOT_BUILDING, SNAPSHOT_READY, SNAPSHOT_FAILED };
const char *snapshot_state_name(enum snapshot_state state);

/* One of a snapshot that was made of dependencies, as its build saw it. */
struct snapshot_package {
    struct str package, version; /* npm name or pypi:NAME */
    bool is_importable;          /* by Node or Python */
    bool is_missing;             /* it could not be installed */
    struct str reason;           /* why not */
    struct str module;           /* of Python: what is imported */
    struct str bundle;           /* the package as one module, for isolates; empty: none */
    struct str bundle_reason;    /* why it does not exist; empty: it was not requested */
};

struct snapshot_info {
    struct str id, tenant, slug;
    enum engine_tier tier;
    enum snapshot_state state;
    struct str source; /* dependencies, sandbox, directory, tar, import */
    struct str detail; /* how far it is, or why it failed */
    int64_t created_ms, size_bytes;
    size_t users; /* sandboxes that stand on it */
    const struct snapshot_package *packages;
    size_t package_count;
};

struct snapshot_dependency {
    struct str package, version; /* npm name or pypi:NAME; empty: the newest */
};

/* From exactly one of: dependencies, sandbox, directory; a tar comes through
 * engine_snapshot_upload. */
struct snapshot_spec {
    struct str slug; /* unique in the tenant; empty: none, or deps-HASH for dependencies */
    const struct snapshot_dependency *dependencies;
    size_t dependency_count;
    struct str sandbox;   /* whose written files it contains */
    struct str directory; /* of the host; only for the operator */
};

typedef void snapshot_done(void *ctx, const struct snapshot_info *snapshot, const struct err *why);

/* Calls `done` when it is made; progress is published as events. A failed build leaves nothing
 * behind. Dependencies are installed in a separate sandbox that can reach only their registries;
 * the same list is built once. UNSUPPORTED where the tier cannot make one from this. */
void engine_snapshot_create(struct engine *engine, const struct engine_caller *caller,
                            const struct snapshot_spec *spec, snapshot_done *done, void *ctx);
int engine_snapshot_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                        struct snapshot_info *ret_snapshot, struct err *err) MUST_USE;
struct snapshot_list {
    struct snapshot_info *items;
    size_t count;
    char next[ENGINE_CURSOR_SIZE];
};
int engine_snapshot_list(struct engine *engine, const struct engine_caller *caller,
                         const struct engine_page *page, struct arena *arena,
                         struct snapshot_list *ret_list, struct err *err) MUST_USE;
/* CONFLICT while a sandbox uses it or it is being built. */
void engine_snapshot_delete(struct engine *engine, const struct engine_caller *caller,
                            struct str id, engine_done *done, void *ctx);

/* The bytes of a tar (plain, gzip or zstd), or of what engine_snapshot_download gave: then its
 * manifest is verified whole before anything of it is used. It is unpacked in a sandbox of its own
 * that runs nothing else, and what that has written is the snapshot. */
enum snapshot_form { SNAPSHOT_TAR, SNAPSHOT_EXPORT };
struct snapshot_writer;
struct snapshot_writer_calls {
    void (*on_drain)(void *ctx);
    /* Called after snapshot_writer_finish, or earlier when writing fails. */
    void (*on_done)(void *ctx, const struct snapshot_info *snapshot, const struct err *why);
};
int engine_snapshot_upload(struct engine *engine, const struct engine_caller *caller,
                           struct str slug, enum snapshot_form form,
                           const struct snapshot_writer_calls *calls, void *ctx,
                           struct snapshot_writer **ret_writer, struct err *err) MUST_USE;
bool snapshot_writer_write(struct snapshot_writer *writer, struct str bytes);
void snapshot_writer_finish(struct snapshot_writer *writer);
/* Before on_done: nothing of it is kept. */
struct snapshot_writer *snapshot_writer_free(struct snapshot_writer *writer);
DEFINE_FREEP(snapshot_writer)

/* A tar.zst with a manifest (files/archive/snapshot.h), packed in a sandbox that sees only the
 * snapshot's layers. CONFLICT while it is being built. */
int engine_snapshot_download(struct engine *engine, const struct engine_caller *caller,
                             struct str id, const struct file_reader_calls *calls, void *ctx,
                             struct file_reader **ret_reader, struct err *err) MUST_USE;
