/* A volume's end, asked for or by its time: first its row goes, then its directory. */

#include "base/log.h"
#include "base/map.h"
#include "base/sys.h"
#include "engine/answer.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/session/session_internal.h"
#include "engine/volume/volume.h"
#include "engine/volume/volume_internal.h"
#include "store/store.h"

struct going {
    struct volume *volume;
    struct answer *answer;
};

static void on_deleted(void *ctx, const struct err *why)
{
    struct going *going = ctx;
    CRASH_POINT("engine.volume.tree_gone");
    /* The row is gone: what is left of the directory goes at the next start. */
    if (why != NULL)
        log_warn("volume.delete", LOG_VIEW("volume", going->volume->info.id),
                 LOG_STR("error", why->msg));
    (void)volume_free(going->volume);
    answer_give(going->answer, NULL);
    free(going);
}

static void on_forgotten(void *ctx, const struct err *why)
{
    struct going *going = ctx;
    struct volume *volume = going->volume;
    struct engine *engine = volume->engine;
    CRASH_POINT("engine.volume.row_gone");
    if (why != NULL) {
        volume->is_deleting = false;
        answer_give(going->answer, why);
        free(going);
        return;
    }
    (void)map_remove(&engine->volumes, volume->info.id);
    const struct provider_table *table = engine_table(engine, volume->info.tier);
    if (engine->providers[volume->info.tier] == NULL)
        on_deleted(going, NULL);
    else
        table->volume_delete(engine->providers[volume->info.tier], volume->info.id, on_deleted,
                             going);
}

static void volume_delete_drop(struct volume *volume, enum event_kind kind, struct answer *answer)
{
    struct engine *engine = volume->engine;
    struct going *going = mem_alloc(sizeof *going);
    *going = (struct going){volume, answer};
    volume->is_deleting = true;
    struct store_batch *batch = store_begin(engine->store);
    store_remove(batch, &store_session_volumes, volume->info.id);
    key_forget(engine, volume->info.tenant, volume->info.id, batch);
    session_volume_gone(engine, &volume->info, kind == EVENT_VOLUME_EXPIRED, batch);
    feed_publish(engine, batch, kind, volume->info.tenant, volume->info.id, (struct str){0}, "",
                 "");
    store_commit(batch, STORE_DURABLE, on_forgotten, going);
}

void volume_drop(struct engine *engine, struct str id, struct answer *answer)
{
    struct volume *volume = map_get(&engine->volumes, id);
    if (volume == NULL || volume->is_deleting)
        answer_give(answer, NULL);
    else
        volume_delete_drop(volume, EVENT_VOLUME_DELETED, answer);
}

/* A request that waits until the place that served the volume's files has ended. */
struct deleting {
    struct want want;
    struct engine *engine;
    struct answer *answer;
    struct arena arena;
    struct str tenant, id;
};

static void begin_delete(struct engine *engine, struct str tenant, struct str id,
                         struct answer *answer);

static void on_left(struct want *want, UNUSED struct sandbox *sandbox, UNUSED const struct err *why)
{
    struct deleting *deleting = (struct deleting *)want;
    begin_delete(deleting->engine, deleting->tenant, deleting->id, deleting->answer);
    arena_done(&deleting->arena);
    free(deleting);
}

static void delete_later(struct volume *volume, struct sandbox *holder, struct answer *answer)
{
    struct deleting *deleting = mem_alloc(sizeof *deleting);
    deleting->want.call = on_left;
    deleting->engine = volume->engine;
    deleting->answer = answer;
    deleting->tenant = arena_dup(&deleting->arena, volume->info.tenant);
    deleting->id = arena_dup(&deleting->arena, volume->info.id);
    sandbox_wait(holder, &deleting->want);
}

static void begin_delete(struct engine *engine, struct str tenant, struct str id,
                         struct answer *answer)
{
    struct err err = {0};
    struct engine_caller caller = {.tenant = tenant};
    struct volume *volume = NULL;
    if (engine_check_caller(engine, &caller, &err) == 0)
        volume = volume_find(engine, tenant, id, &err);
    struct sandbox *holder =
        volume == NULL ? NULL : map_get(&engine->sandboxes, str_of(volume->sandbox));
    if (volume == NULL)
        answer_give(answer, &err);
    else if (volume->sandbox[0] == '\0')
        volume_delete_drop(volume, EVENT_VOLUME_DELETED, answer);
    else if (volume_is_left(engine, volume->info.id) && sandbox_is_moving(holder->info.state))
        delete_later(volume, holder, answer);
    else
        answer_fail(answer, ERR_BUSY, "volume '%.*s' is in use by %s%s", STR_ARG(volume->info.id),
                    volume_is_served(engine, volume->info.id) ? "a transfer of its files"
                                                              : "sandbox ",
                    volume_is_served(engine, volume->info.id) ? "" : volume->sandbox);
}

void engine_volume_delete(struct engine *engine, const struct engine_caller *caller, struct str id,
                          engine_done *done, void *ctx)
{
    begin_delete(engine, caller->tenant, id, answer_plain(engine, done, ctx));
}

void volume_sweep(struct engine *engine, int64_t now)
{
    MAP_EACH (entry, &engine->volumes) {
        struct volume *volume = entry->value;
        if (volume->is_deleting || volume->sandbox[0] != '\0' || volume->info.ttl_ms == 0 ||
            now - volume->used_at < volume->info.ttl_ms)
            continue;
        log_info("volume.expired", LOG_VIEW("volume", volume->info.id));
        volume_delete_drop(volume, EVENT_VOLUME_EXPIRED, NULL);
    }
}
