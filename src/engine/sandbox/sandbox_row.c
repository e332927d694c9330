/* A sandbox as a row of the store, and back; rows that could not be written are written again. */

#include "base/clock.h"
#include "base/format/json.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/internal.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/spec.h"
#include "engine/sandbox/turn_internal.h"
#include "store/store.h"

static void put_checkpoints(const struct sandbox *sandbox, struct buf *out)
{
    struct json_out json = {.buf = out};
    json_begin_array(&json);
    VEC_EACH (checkpoint, &sandbox->checkpoints) {
        json_begin_object(&json);
        json_key(&json, "id"), json_put_cstr(&json, checkpoint->id);
        json_key(&json, "name"), json_put_cstr(&json, checkpoint->name);
        json_key(&json, "image"), json_put_cstr(&json, checkpoint->image);
        json_key(&json, "createdMs"), json_put_i64(&json, checkpoint->created_ms);
        json_key(&json, "sizeBytes"), json_put_i64(&json, checkpoint->size_bytes);
        if (checkpoint->variables != NULL)
            json_key(&json, "variables"), json_put_cstr(&json, checkpoint->variables);
        json_end_object(&json);
    }
    json_end_array(&json);
}

/* What it shall be, as it was asked for and filled in. */
static struct sandbox_spec spec_of(const struct sandbox *sandbox)
{
    const struct sandbox_info *info = &sandbox->info;
    return (struct sandbox_spec){
        .tier = info->tier,
        .runtime = info->runtime,
        .snapshots = info->snapshots,
        .snapshot_count = info->snapshot_count,
        .requirements = info->requirements,
        .requirement_count = info->requirement_count,
        .env = info->env,
        .limits = info->limits,
        .secrets = info->secrets,
        .checkpoints = info->has_turns ? SANDBOX_CHECKPOINTS_TURN : SANDBOX_CHECKPOINTS_MANUAL,
        .ports = info->ports,
        .port_count = info->port_count,
        .bases = sandbox->bases.ptr,
        .base_count = sandbox->bases.len,
    };
}

void sandbox_save(struct sandbox *sandbox, struct store_batch *batch)
{
    if (sandbox->is_helper)
        return; /* it ends with this run of the server */
    AUTO_BUF struct buf spec = {0}, metadata = {0}, checkpoints = {0}, variables = {0}, turns = {0};
    const struct sandbox_info *info = &sandbox->info;
    struct sandbox_spec shall = spec_of(sandbox);
    spec_put_json(&shall, &(struct json_out){.buf = &spec});
    if (info->metadata.len > 0)
        pairs_put_json(&info->metadata, &(struct json_out){.buf = &metadata});
    if (sandbox->checkpoints.len > 0)
        put_checkpoints(sandbox, &checkpoints);
    if (!ledger_is_empty(&sandbox->ledger))
        ledger_put_json(&sandbox->ledger, &(struct json_out){.buf = &variables});
    if (info->has_turns)
        history_put_json(&sandbox->history, &(struct json_out){.buf = &turns});
    store_put(batch, &store_sandboxes,
              &(struct store_sandbox){
                  .id = info->id,
                  .tenant = info->tenant,
                  .ord = sandbox->ord,
                  .tier = str_of(engine_tier_name(info->tier)),
                  .runtime = info->runtime,
                  .state = str_of(sandbox_state_name(info->state)),
                  .name = info->name,
                  .reason = info->reason,
                  .session = info->session,
                  .volume = info->volume,
                  .forked_from = info->forked_from,
                  .spec = buf_str(&spec),
                  .metadata = buf_str(&metadata),
                  .network = info->network,
                  .checkpoints = buf_str(&checkpoints),
                  .image = buf_str(&sandbox->image),
                  .timeout_ms = info->timeout_ms,
                  .idle_ms = info->idle_ms,
                  .kills = info->on_timeout == SANDBOX_KILL_AT_TIMEOUT,
                  .expires_ms = info->expires_ms,
                  .created_ms = info->created_ms,
                  .started_ms = info->started_ms,
                  .active_ms = info->active_ms,
                  .ended_ms = info->ended_ms,
                  .version = (int64_t)info->version,
                  .variables = buf_str(&variables),
                  .disk = str_of(sandbox->disk),
                  .turns = buf_str(&turns),
              });
}

/* --- Back --- */

struct loading {
    struct engine *engine;
    int result;
    struct err *err;
};

static void read_checkpoints(struct sandbox *sandbox, struct str text)
{
    struct err err = {0};
    AUTO_JSON struct json_t *list = NULL;
    if (text.len == 0 || json_parse(text, &list, &err) < 0)
        return;
    for (size_t i = 0; i < json_len(list); i++) {
        const struct json_t *item = json_at(list, i);
        struct str id = {0}, name = {0}, image = {0}, variables = {0};
        int64_t created_ms = 0, size_bytes = 0; /* older rows know no size */
        (void)!json_to_i64(json_get(item, "sizeBytes"), &size_bytes);
        if (json_to_str(json_get(item, "id"), &id) && json_to_str(json_get(item, "name"), &name) &&
            json_to_str(json_get(item, "image"), &image) &&
            json_to_i64(json_get(item, "createdMs"), &created_ms)) {
            sandbox_add_checkpoint(sandbox, id, name, image, size_bytes, created_ms);
            if (json_to_str(json_get(item, "variables"), &variables))
                vec_last(&sandbox->checkpoints)->variables =
                    mem_dup_cstr(arena_dup(&sandbox->arena, variables).ptr);
        }
    }
}

static int read_metadata(struct sandbox *sandbox, struct str text, struct err *err)
{
    AUTO_JSON struct json_t *object = NULL;
    if (text.len == 0)
        return 0;
    if (json_parse(text, &object, err) < 0)
        return -1;
    return pairs_read_json(object, &sandbox->labels, &sandbox->info.metadata, err);
}

static int read_row(struct engine *engine, const struct store_sandbox *row, struct err *err)
{
    struct sandbox *sandbox = sandbox_new(engine, row->id, row->tenant);
    struct sandbox_info *info = &sandbox->info;
    struct sandbox_spec spec = {0};
    if (!sandbox_state_of_name(row->state, &info->state) ||
        spec_read_json(row->spec, &sandbox->arena, &spec, err) < 0 ||
        read_metadata(sandbox, row->metadata, err) < 0)
        return err_wrap(err, "sandbox '%.*s'", STR_ARG(row->id));
    if (!engine_tier_of_name(row->tier, &info->tier))
        return err_set(err, ERR_INTERNAL, "sandbox '%.*s' uses the unknown tier '%.*s'",
                       STR_ARG(row->id), STR_ARG(row->tier));
    sandbox->ord = row->ord;
    info->runtime = arena_dup(&sandbox->arena, row->runtime);
    info->name = arena_dup(&sandbox->labels, row->name);
    info->session = arena_dup(&sandbox->arena, row->session);
    info->volume = arena_dup(&sandbox->arena, row->volume);
    info->forked_from = arena_dup(&sandbox->arena, row->forked_from);
    info->snapshots = spec.snapshots;
    info->snapshot_count = spec.snapshot_count;
    info->requirements = spec.requirements;
    info->requirement_count = spec.requirement_count;
    info->env = spec.env;
    info->limits = spec.limits;
    info->secrets = spec.secrets;
    for (size_t i = 0; i < spec.port_count; i++)
        sandbox_add_port(sandbox, &spec.ports[i]);
    bases_copy(&sandbox->bases, spec.bases, spec.base_count);
    sandbox_set_network(sandbox, row->network);
    sandbox_set_image(sandbox, row->image);
    sandbox_set_reason(sandbox, row->reason);
    read_checkpoints(sandbox, row->checkpoints);
    ledger_read_json(&sandbox->ledger, row->variables);
    history_read_json(&sandbox->history, row->turns);
    info->has_turns = spec.checkpoints == SANDBOX_CHECKPOINTS_TURN;
    info->timeout_ms = row->timeout_ms;
    info->idle_ms = row->idle_ms;
    info->on_timeout = row->kills != 0 ? SANDBOX_KILL_AT_TIMEOUT : SANDBOX_PAUSE_AT_TIMEOUT;
    info->created_ms = row->created_ms;
    info->started_ms = row->started_ms;
    info->active_ms = row->active_ms;
    info->ended_ms = row->ended_ms;
    info->version = (uint64_t)row->version;
    time_limit_show(sandbox);
    (void)snprintf(sandbox->disk, sizeof sandbox->disk, "%.*s", STR_ARG(row->disk));
    info->is_on_disk = row->disk.len > 0;
    engine->last_order = MAX(engine->last_order, row->ord);
    return 0;
}

static void sandbox_row_load(void *ctx, const void *row)
{
    struct loading *loading = ctx;
    if (loading->result == 0)
        loading->result = read_row(loading->engine, row, loading->err);
}

int sandbox_load(struct engine *engine, struct err *err)
{
    struct loading loading = {engine, 0, err};
    if (store_each(engine->store, &store_sandboxes, sandbox_row_load, &loading, err) < 0)
        return -1;
    return loading.result;
}

/* --- Saving --- */

struct saving {
    struct engine *engine;
    char id[ID_SIZE];
    struct answer *answer;
};

struct removing {
    struct engine *engine;
    VEC(char *) ids;
};

static void remember_unremoved(struct engine *engine, struct str id)
{
    AUTO_ARENA struct arena arena = {0};
    *vec_push(&engine->unremoved) = mem_dup_cstr(arena_dup(&arena, id).ptr);
}

static void on_removed(void *ctx, const struct err *why)
{
    struct removing *removing = ctx;
    VEC_EACH (id, &removing->ids) {
        if (why != NULL)
            *vec_push(&removing->engine->unremoved) = *id;
        else
            free(*id);
    }
    vec_done(&removing->ids);
    free(removing);
}

void sandbox_remove_again(struct engine *engine)
{
    if (engine->unremoved.len == 0)
        return;
    struct removing *removing = mem_alloc(sizeof *removing);
    struct store_batch *batch = store_begin(engine->store);
    removing->engine = engine;
    engine->figures.retries_store += engine->unremoved.len;
    VEC_EACH (id, &engine->unremoved) {
        *vec_push(&removing->ids) = *id;
        store_remove(batch, &store_sandboxes, str_of(*id));
    }
    engine->unremoved.len = 0;
    store_commit(batch, STORE_QUICK, on_removed, removing);
}

/* A move that was not written is written again later: memory is ahead of the store until then. */
static void sandbox_row_on_saved(void *ctx, const struct err *why)
{
    struct saving *saving = ctx;
    struct sandbox *sandbox = map_get(&saving->engine->sandboxes, str_of(saving->id));
    if (why != NULL) {
        log_error("sandbox.unsaved", LOG_STR("sandbox", saving->id), LOG_STR("error", why->msg));
        if (sandbox != NULL)
            sandbox->is_unsaved = true;
        else
            remember_unremoved(saving->engine, str_of(saving->id));
    }
    answer_give(saving->answer, why);
    free(saving);
}

void sandbox_commit(struct sandbox *sandbox, struct store_batch *batch,
                    enum store_strength strength, struct answer *answer)
{
    struct saving *saving = mem_alloc(sizeof *saving);
    saving->engine = sandbox->engine;
    saving->answer = answer;
    (void)snprintf(saving->id, sizeof saving->id, "%.*s", STR_ARG(sandbox->info.id));
    if (answer != NULL)
        memcpy(answer->id, saving->id, ID_SIZE);
    if (answer == NULL && strength == STORE_QUICK)
        strength = STORE_LAZY;
    store_commit(batch, strength, sandbox_row_on_saved, saving);
}

void sandbox_save_again(struct sandbox *sandbox)
{
    if (!sandbox->is_unsaved || sandbox_is_moving(sandbox->info.state))
        return;
    struct store_batch *batch = store_begin(sandbox->engine->store);
    sandbox->engine->figures.retries_store++;
    sandbox->is_unsaved = false;
    sandbox_save(sandbox, batch);
    sandbox_commit(sandbox, batch, STORE_QUICK, NULL);
}
