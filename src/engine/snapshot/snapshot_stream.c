/* Snapshots as streams of bytes. Archives come from anywhere, so they are unpacked and packed
 * inside sandboxes that are made for it and go with it; the engine passes bytes on and looks at
 * none. */

#include "base/clock.h"
#include "base/crypto/hash.h"
#include "base/crypto/sha256.h"
#include "base/hold.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/quota.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/snapshot/snapshot_build.h"
#include "engine/snapshot/snapshot_internal.h"

#define SHOWN_AT "/mnt"

/* --- The sandbox --- */

static void snapshot_stream_ignore(UNUSED void *ctx, UNUSED const struct err *why)
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
    struct engine_caller creator = {.tenant = caller->tenant};
    struct sandbox *sandbox = NULL;
    if (shown.len == 0)
        spec.limits = (struct sandbox_limits){.memory_bytes = SNAPSHOT_BUILD_BYTES,
                                              .disk_bytes = SNAPSHOT_BUILD_BYTES};
    if (sandbox_from_spec(engine, caller, &spec, &sandbox, err) < 0)
        return -1;
    sandbox->is_helper = true;
    sandbox->exported = arena_dup(&sandbox->arena, shown);
    sandbox_make(sandbox, &creator, (struct str){0}, ignore_made, NULL);
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
    struct engine_caller caller; /* only its key is set */
    struct key_claim *claim;
    struct key_wait wait;
    struct sha256 sha; /* of all that came with a key */
    bool is_again;     /* an earlier call has the key: it is compared with that one */
    bool is_finished;  /* its caller has sent all */
    bool is_unpacked;  /* as far as the archive goes; what comes behind it is ignored */
    bool is_pictured;  /* a picture is being taken of it, and then recorded */
    bool is_over;      /* its caller got the answer */
    struct hold hold;  /* until the answer, by an upload or by the wait for an earlier call */
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
    engine_sandbox_delete(engine, &caller, sandbox->info.id, snapshot_stream_ignore, NULL);
}

/* The answer, unless its caller has gone. The writer may be gone afterwards. */
static void snapshot_stream_tell(struct snapshot_writer *writer, const struct err *why)
{
    struct engine_caller caller = {.tenant = writer->tenant};
    struct snapshot_info info = {0};
    struct err err = {0};
    if (!writer->hold.is_freed) {
        if (why == NULL &&
            engine_snapshot_get(writer->engine, &caller, str_of(writer->snapshot), &info, &err) < 0)
            why = &err; /* another request has already deleted it */
        writer->calls.on_done(writer->ctx, why == NULL ? &info : NULL, why);
    }
    if (hold_release(&writer->hold))
        writer_done(writer);
}

/* The end of it, good or bad; `why` NULL when the snapshot is there. */
static void snapshot_stream_finish(struct snapshot_writer *writer, const struct err *why)
{
    struct err copy = why == NULL ? (struct err){0} : *why;
    writer->is_over = true;
    writer->engine->snapshot_uploads--;
    writer->inner = file_writer_free(writer->inner);
    if (why != NULL)
        snapshot_build_failed(writer->engine, str_of(writer->snapshot), &copy);
    key_end(writer->claim, why == NULL ? NULL : &copy);
    drop_sandbox(writer);
    snapshot_stream_tell(writer, why == NULL ? NULL : &copy);
}

/* --- Sent again with its key --- */

static void on_first(struct key_wait *wait, struct str id, const struct err *why)
{
    struct snapshot_writer *writer = CONTAINER_OF(wait, struct snapshot_writer, wait);
    struct err err = {0};
    writer->is_over = true;
    if (why != NULL && why->code == ERR_CANCELED) {
        (void)err_set(&err, ERR_BUSY,
                      "the first upload with this Idempotency-Key was cut off; send it again");
        why = &err;
    }
    (void)snprintf(writer->snapshot, sizeof writer->snapshot, "%.*s", STR_ARG(id));
    snapshot_stream_tell(writer, why);
}

/* All of it is here: is it what the first call sent? */
static void snapshot_stream_compare(struct snapshot_writer *writer)
{
    char hash[HASH_HEX_SIZE];
    struct str id = {0};
    struct err err = {0};
    sha256_hex(&writer->sha, hash);
    writer->caller.request_hash = str_of(hash);
    writer->wait.call = on_first;
    hold_take(&writer->hold); /* until on_first */
    switch (key_claim(writer->engine, &writer->caller, snapshot_is_there, &writer->wait, &id,
                      &writer->claim, &err)) {
    case KEY_WAITS:
        return;
    case KEY_KNOWN:
        on_first(&writer->wait, id, NULL);
        return;
    case KEY_FREE: /* that call has failed since */
        (void)err_set(&err, ERR_CANCELED, "the snapshot was not stored");
        key_end(writer->claim, &err);
        break;
    case KEY_REFUSED:
        break;
    }
    on_first(&writer->wait, id, &err);
}

static void snapshot_stream_on_recorded(void *ctx, const struct err *why)
{
    snapshot_stream_finish(ctx, why);
}

static void snapshot_stream_on_picture(void *ctx, struct str image, int64_t size,
                                       const struct err *why)
{
    struct snapshot_writer *writer = ctx;
    struct err err = {0};
    if (why == NULL && writer->hold.is_freed) {
        (void)err_set(&err, ERR_CANCELED, "the caller disconnected");
        why = &err;
    }
    if (why != NULL)
        snapshot_stream_finish(writer, why);
    else
        snapshot_build_ready(writer->engine, str_of(writer->snapshot), image, size,
                             snapshot_stream_on_recorded, writer);
}

static void snapshot_stream_on_drain(void *ctx)
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
        (void)err_set(&err, ERR_GONE, "the sandbox that unpacked the snapshot no longer exists");
        snapshot_stream_finish(writer, &err);
        return;
    }
    writer->is_pictured = true;
    engine_table(writer->engine, sandbox->info.tier)
        ->snapshot_create(sandbox->place, str_of(writer->snapshot), snapshot_stream_on_picture,
                          writer);
}

static void on_unpacked(void *ctx, const struct file_answer *answer, const struct err *why)
{
    struct snapshot_writer *writer = ctx;
    char text[64];
    if (why != NULL) {
        snapshot_stream_finish(writer, why);
        return;
    }
    (void)snprintf(text, sizeof text, "%llu entries, being frozen",
                   (unsigned long long)answer->count);
    snapshot_build_progress(writer->engine, str_of(writer->snapshot), text);
    writer->is_unpacked = true;
    if (writer->is_finished)
        take_picture(writer);
    else
        snapshot_stream_on_drain(writer); /* the rest of what was announced must still come */
}

/* A slow sender delays only itself. */
static int check_uploads(const struct engine *engine, struct str tenant, struct err *err)
{
    size_t own = 0;
    MAP_EACH (entry, &engine->snapshots) {
        const struct snapshot_info *info = &((const struct snapshot *)entry->value)->info;
        own += info->state == SNAPSHOT_BUILDING && str_eq(info->tenant, tenant) &&
               (str_eq(info->source, STR("tar")) || str_eq(info->source, STR("import")));
    }
    if (own >= SNAPSHOT_UPLOADS_TENANT || engine->snapshot_uploads >= SNAPSHOT_UPLOADS_MAX)
        return err_set(err, ERR_BUSY, "%zu snapshots are already being uploaded; try again soon",
                       own >= SNAPSHOT_UPLOADS_TENANT ? own : engine->snapshot_uploads);
    return 0;
}

static struct snapshot_writer *writer_new(struct engine *engine, const struct engine_caller *caller,
                                          const struct snapshot_writer_calls *calls, void *ctx)
{
    struct snapshot_writer *writer = mem_alloc(sizeof *writer);
    *writer = (struct snapshot_writer){.engine = engine, .calls = *calls, .ctx = ctx};
    writer->tenant = arena_dup(&writer->arena, caller->tenant);
    writer->caller.tenant = writer->tenant;
    writer->caller.key = arena_dup(&writer->arena, caller->key);
    writer->caller.key_scope = arena_dup(&writer->arena, caller->key_scope);
    sha256_init(&writer->sha);
    sha256_add(&writer->sha, caller->request_hash);
    return writer;
}

static int snapshot_stream_begin(struct snapshot_writer *writer, const struct engine_caller *caller,
                                 enum snapshot_form form, struct err *err)
{
    static const struct file_writer_calls inner_calls = {snapshot_stream_on_drain, on_unpacked};
    struct file_put put = {.path = STR("/"),
                           .as_tar = true,
                           .tar = form == SNAPSHOT_TAR ? FILE_TAR_LAYER : FILE_TAR_SNAPSHOT};
    struct sandbox *sandbox = NULL;
    if (quota_check_count(writer->engine, caller->tenant, QUOTA_SNAPSHOTS, err) < 0 ||
        make_sandbox(writer->engine, caller, (struct str){0}, &sandbox, err) < 0)
        return -1;
    (void)snprintf(writer->sandbox, sizeof writer->sandbox, "%.*s", STR_ARG(sandbox->info.id));
    sandbox_begin_work(sandbox); /* it stays until the picture is taken */
    struct file_place place = {.sandbox = sandbox->info.id};
    if (engine_file_put(writer->engine, caller, &place, &put, &inner_calls, writer, &writer->inner,
                        err) == 0)
        return 0;
    drop_sandbox(writer);
    return -1;
}

/* What the whole of it hashes to is known at its end. */
static int claim(struct snapshot_writer *writer, struct err *err)
{
    struct str none = {0};
    return key_claim(writer->engine, &writer->caller, snapshot_is_there, &writer->wait, &none,
                     &writer->claim, err) == KEY_FREE
               ? 0
               : -1;
}

int engine_snapshot_upload(struct engine *engine, const struct engine_caller *caller,
                           struct str slug, enum snapshot_form form,
                           const struct snapshot_writer_calls *calls, void *ctx,
                           struct snapshot_writer **ret_writer, struct err *err)
{
    if (engine_check_caller(engine, caller, err) < 0)
        return -1;
    bool is_again = key_is_taken(engine, caller, snapshot_is_there);
    if (!is_again && (check_uploads(engine, caller->tenant, err) < 0 ||
                      snapshot_check_slug(engine, caller, slug, err) < 0))
        return -1;
    struct snapshot_writer *writer = writer_new(engine, caller, calls, ctx);
    writer->is_again = is_again;
    if (!is_again &&
        (claim(writer, err) < 0 || snapshot_stream_begin(writer, caller, form, err) < 0)) {
        key_end(writer->claim, err);
        writer_done(writer);
        return -1;
    }
    *ret_writer = writer;
    if (is_again)
        return 0;
    hold_take(&writer->hold); /* until snapshot_stream_finish */
    struct snapshot *snapshot =
        snapshot_build_begin(engine, caller->tenant, slug,
                             form == SNAPSHOT_TAR ? STR("tar") : STR("import"), writer->snapshot);
    snapshot->claim = writer->claim;
    engine->snapshot_uploads++;
    return 0;
}

bool snapshot_writer_write(struct snapshot_writer *writer, struct str bytes)
{
    if (writer->caller.key.len > 0)
        sha256_add(&writer->sha, bytes);
    return writer->is_again || writer->is_over || writer->is_unpacked ||
           file_writer_write(writer->inner, bytes);
}

void snapshot_writer_finish(struct snapshot_writer *writer)
{
    writer->is_finished = true;
    if (writer->is_over)
        return;
    if (writer->is_again) {
        snapshot_stream_compare(writer);
        return;
    }
    if (writer->claim != NULL) {
        char hash[HASH_HEX_SIZE];
        sha256_hex(&writer->sha, hash);
        key_claim_hash(writer->claim, str_of(hash));
    }
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
    (void)err_set(&err, ERR_CANCELED, "the caller disconnected");
    if (hold_end(&writer->hold))
        writer_done(writer);
    else if (!writer->is_over && !writer->is_pictured && !writer->is_again)
        snapshot_stream_finish(writer, &err);
    return NULL; /* else when the picture is there, or the first call's */
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
    engine_sandbox_delete(engine, caller, place.sandbox, snapshot_stream_ignore, NULL);
    return -1;
}
