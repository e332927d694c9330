/* Snapshots as streams of bytes. Archives come from anywhere, so they are unpacked and packed
 * inside sandboxes that are made for it and go with it; the engine passes bytes on and looks at
 * none. */

#include "base/clock.h"
#include "base/log.h"
#include "engine/snapshot_build.h"
#include "engine/snapshot_internal.h"

#define SHOWN_AT "/mnt"

/* --- The sandbox --- */

static void ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

static void ignore_made(UNUSED void *ctx, UNUSED struct sandbox *sandbox,
                        UNUSED const struct err *why)
{
}

/* It is being made: what is asked of it waits for that. */
static int make_sandbox(struct engine *engine, const struct engine_caller *caller, struct str shown,
                        struct sandbox **ret_sandbox, struct err *err)
{
    struct sandbox_spec spec = {.tier = ENGINE_TIER_JAIL,
                                .name = STR("archive of a snapshot"),
                                .timeout_ms = -1,
                                .idle_ms = -1,
                                .on_timeout = SANDBOX_KILL_AT_TIMEOUT};
    struct engine_caller maker = {.tenant = caller->tenant};
    struct sandbox *sandbox = NULL;
    if (shown.len == 0)
        spec.limits = (struct sandbox_limits){.memory_bytes = SNAPSHOT_BUILD_BYTES,
                                              .disk_bytes = SNAPSHOT_BUILD_BYTES};
    if (sandbox_from_spec(engine, caller, &spec, &sandbox, err) < 0)
        return -1;
    sandbox->is_helper = true;
    sandbox->exported = arena_dup(&sandbox->arena, shown);
    sandbox_make(sandbox, &maker, (struct str){0}, ignore_made, NULL);
    *ret_sandbox = sandbox;
    return 0;
}

/* --- In --- */

struct snapshot_writer {
    struct engine *engine;
    struct snapshot_writer_calls calls;
    void *ctx;
    struct arena arena;
    struct str tenant;
    char snapshot[ID_SIZE], sandbox[ID_SIZE];
    struct file_writer *inner;
    bool is_finished; /* its caller has sent all */
    bool is_unpacked; /* as far as the archive goes; what comes behind it is ignored */
    bool is_pictured; /* a picture is being taken of it, and then recorded */
    bool is_over;     /* its caller was told */
    bool is_freed;    /* and has gone */
};

static void writer_done(struct snapshot_writer *writer)
{
    arena_done(&writer->arena);
    free(writer);
}

static void drop_sandbox(struct snapshot_writer *writer)
{
    struct engine *engine = writer->engine;
    struct sandbox *sandbox = sandbox_find_worked(engine, str_of(writer->sandbox));
    struct engine_caller caller = {.tenant = writer->tenant};
    if (sandbox == NULL)
        return;
    sandbox_end_work(sandbox);
    engine_sandbox_delete(engine, &caller, sandbox->info.id, ignore, NULL);
}

/* The end of it, good or bad; `why` NULL when the snapshot is there. */
static void finish(struct snapshot_writer *writer, const struct err *why)
{
    struct err copy = why == NULL ? (struct err){0} : *why;
    struct snapshot_info info = {0};
    struct engine_caller caller = {.tenant = writer->tenant};
    struct err err = {0};
    writer->is_over = true;
    writer->engine->snapshot_uploads--;
    writer->inner = file_writer_free(writer->inner);
    if (why != NULL)
        snapshot_build_failed(writer->engine, str_of(writer->snapshot), &copy);
    drop_sandbox(writer);
    if (writer->is_freed) {
        writer_done(writer);
        return;
    }
    if (why == NULL &&
        engine_snapshot_get(writer->engine, &caller, str_of(writer->snapshot), &info, &err) < 0)
        copy = err; /* somebody was quick to delete it */
    bool has_failed = copy.code != ERR_NONE;
    writer->calls.on_done(writer->ctx, has_failed ? NULL : &info, has_failed ? &copy : NULL);
}

static void on_recorded(void *ctx, const struct err *why)
{
    finish(ctx, why);
}

static void on_picture(void *ctx, struct str image, int64_t size, const struct err *why)
{
    struct snapshot_writer *writer = ctx;
    struct err err = {0};
    if (why == NULL && writer->is_freed) {
        (void)err_set(&err, ERR_CANCELED, "its caller has gone");
        why = &err;
    }
    if (why != NULL)
        finish(writer, why);
    else
        snapshot_build_ready(writer->engine, str_of(writer->snapshot), image, size, on_recorded,
                             writer);
}

static void on_drain(void *ctx)
{
    struct snapshot_writer *writer = ctx;
    if (writer->calls.on_drain != NULL)
        writer->calls.on_drain(writer->ctx);
}

static void take_picture(struct snapshot_writer *writer)
{
    struct sandbox *sandbox = map_get(&writer->engine->sandboxes, str_of(writer->sandbox));
    struct err err = {0};
    if (sandbox == NULL || sandbox->place == NULL) {
        (void)err_set(&err, ERR_GONE, "the sandbox that unpacked it is gone");
        finish(writer, &err);
        return;
    }
    writer->is_pictured = true;
    engine_table(writer->engine, sandbox->info.tier)
        ->snapshot_create(sandbox->place, str_of(writer->snapshot), on_picture, writer);
}

static void on_unpacked(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct snapshot_writer *writer = ctx;
    char text[64];
    if (why != NULL) {
        finish(writer, why);
        return;
    }
    (void)snprintf(text, sizeof text, "%llu entries, being frozen",
                   (unsigned long long)answer->count);
    snapshot_build_progress(writer->engine, str_of(writer->snapshot), text);
    writer->is_unpacked = true;
    if (writer->is_finished)
        take_picture(writer);
    else
        on_drain(writer); /* the rest of what was announced must still come */
}

/* Who sends slowly holds up nobody but himself. */
static int check_uploads(const struct engine *engine, struct str tenant, struct err *err)
{
    size_t own = 0;
    MAP_EACH (entry, &engine->snapshots) {
        const struct snapshot_info *info = &((const struct snapshot *)entry->value)->info;
        own += info->state == SNAPSHOT_BUILDING && str_eq(info->tenant, tenant) &&
               (str_eq(info->source, STR("tar")) || str_eq(info->source, STR("import")));
    }
    if (own >= SNAPSHOT_UPLOADS_TENANT || engine->snapshot_uploads >= SNAPSHOT_UPLOADS_MAX)
        return err_set(err, ERR_BUSY, "%zu snapshots come in already; try again soon",
                       own >= SNAPSHOT_UPLOADS_TENANT ? own : engine->snapshot_uploads);
    return 0;
}

int engine_snapshot_upload(struct engine *engine, const struct engine_caller *caller,
                           struct str slug, enum snapshot_form form,
                           const struct snapshot_writer_calls *calls, void *ctx,
                           struct snapshot_writer **ret_writer, struct err *err)
{
    static const struct file_writer_calls inner_calls = {on_drain, on_unpacked};
    struct file_put put = {.path = STR("/"),
                           .as_tar = true,
                           .tar = form == SNAPSHOT_TAR ? FILE_TAR_LAYER : FILE_TAR_SNAPSHOT};
    struct sandbox *sandbox = NULL;
    if (engine_check_caller(engine, caller, err) < 0 ||
        check_uploads(engine, caller->tenant, err) < 0 ||
        snapshot_check_slug(engine, caller, slug, err) < 0 ||
        quota_check_count(engine, caller->tenant, QUOTA_SNAPSHOTS, err) < 0 ||
        make_sandbox(engine, caller, (struct str){0}, &sandbox, err) < 0)
        return -1;
    struct snapshot_writer *writer = mem_alloc(sizeof *writer);
    *writer = (struct snapshot_writer){.engine = engine, .calls = *calls, .ctx = ctx};
    writer->tenant = arena_dup(&writer->arena, caller->tenant);
    (void)snprintf(writer->sandbox, sizeof writer->sandbox, "%.*s", STR_ARG(sandbox->info.id));
    sandbox_begin_work(sandbox); /* it stays until the picture is taken */
    struct file_place place = {.sandbox = sandbox->info.id};
    if (engine_file_put(engine, caller, &place, &put, &inner_calls, writer, &writer->inner, err) <
        0) {
        drop_sandbox(writer);
        writer_done(writer);
        return -1;
    }
    (void)snapshot_build_begin(engine, caller->tenant, slug,
                               form == SNAPSHOT_TAR ? STR("tar") : STR("import"), writer->snapshot);
    engine->snapshot_uploads++;
    *ret_writer = writer;
    return 0;
}

bool snapshot_writer_write(struct snapshot_writer *writer, struct str bytes)
{
    return writer->is_over || writer->is_unpacked || file_writer_write(writer->inner, bytes);
}

void snapshot_writer_finish(struct snapshot_writer *writer)
{
    writer->is_finished = true;
    if (writer->is_over)
        return;
    if (writer->is_unpacked)
        take_picture(writer);
    else
        file_writer_finish(writer->inner);
}

struct snapshot_writer *snapshot_writer_free(struct snapshot_writer *writer)
{
    struct err err = {0};
    if (writer == NULL)
        return NULL;
    writer->is_freed = true;
    (void)err_set(&err, ERR_CANCELED, "its caller has gone");
    if (writer->is_over)
        writer_done(writer);
    else if (!writer->is_pictured)
        finish(writer, &err);
    return NULL; /* else when the picture is there */
}

/* --- Out --- */

int engine_snapshot_download(struct engine *engine, const struct engine_caller *caller,
                             struct str id, const struct file_reader_calls *calls, void *ctx,
                             struct file_reader **ret_reader, struct err *err)
{
    struct snapshot_info snapshot;
    struct sandbox *sandbox = NULL;
    struct str image;
    if (engine_check_caller(engine, caller, err) < 0 ||
        engine_snapshot_get(engine, caller, id, &snapshot, err) < 0)
        return -1;
    if (snapshot.tier != ENGINE_TIER_JAIL)
        return err_set(err, ERR_UNSUPPORTED, "a snapshot of the tier '%s' cannot be exported",
                       engine_tier_name(snapshot.tier));
    if (snapshot.state != SNAPSHOT_READY)
        return err_set(err, ERR_CONFLICT, "snapshot '%.*s' is %s", STR_ARG(snapshot.id),
                       snapshot_state_name(snapshot.state));
    if (snapshot_image(engine, snapshot.id, &image, err) < 0 ||
        make_sandbox(engine, caller, image, &sandbox, err) < 0)
        return -1;
    struct file_place place = {.sandbox = sandbox->info.id};
    struct file_get get = {.path = STR(SHOWN_AT),
                           .as_snapshot = true,
                           .name = snapshot.slug.len > 0 ? snapshot.slug : snapshot.id};
    /* The sandbox is a helper: it goes with the last work on it, which is this. */
    if (engine_file_get(engine, caller, &place, &get, calls, ctx, ret_reader, err) == 0)
        return 0;
    engine_sandbox_delete(engine, caller, place.sandbox, ignore, NULL);
    return -1;
}
