/* Forks: a snapshot of one sandbox, and a number of new sandboxes that continue from it. All of
 * them are made, or none. */

#include "base/id.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/provider.h"
#include "engine/quota.h"
#include "engine/sandbox/bases.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/variables.h"
#include "store/store.h"

struct forking {
    struct want want;
    struct engine *engine;
    struct answer *answer;
    struct engine_caller caller;
    struct arena arena;
    struct sandbox *parent;         /* while its picture is taken */
    struct live_interpreters *live; /* what its interpreters held then */
    struct str checkpoint, image;
    int64_t bytes; /* of the image */
    char call[ID_SIZE];
    struct ledger ledger; /* of the variables in that picture */
    size_t count, pending;
    char (*ids)[ID_SIZE];
    struct err err;
};

struct context_sink {
    struct arena *arena;
    struct sandbox_info *info;
};

static void on_contexts(void *ctx, const struct context_info *contexts, size_t count,
                        UNUSED const struct err *why)
{
    struct context_sink *sink = ctx;
    struct sandbox_context *items = arena_array(sink->arena, struct sandbox_context, count + 1);
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        if (contexts[i].is_copy)
            items[len++] = (struct sandbox_context){arena_dup(sink->arena, contexts[i].id),
                                                    arena_dup(sink->arena, contexts[i].reason),
                                                    contexts[i].is_live};
    sink->info->contexts = items;
    sink->info->context_count = len;
}

/* Lists which interpreters were copied, and which start again empty. */
static void add_contexts(struct forking *forking, const struct sandbox *sandbox,
                         struct sandbox_info *info)
{
    const struct provider_table *table = engine_table(forking->engine, sandbox->info.tier);
    struct context_sink sink = {&forking->arena, info};
    if (table->live_take != NULL && table->context != NULL && sandbox->place != NULL)
        table->context(sandbox->place, &(struct context_request){.op = CONTEXT_LIST}, on_contexts,
                       &sink);
}

static void forget_live(struct forking *forking)
{
    const struct provider_table *table = engine_table(forking->engine, forking->answer->tier);
    for (size_t i = 0; i < forking->count; i++) {
        struct sandbox *sandbox = map_get(&forking->engine->sandboxes, str_of(forking->ids[i]));
        if (sandbox != NULL)
            sandbox->live = NULL;
    }
    if (forking->live != NULL)
        table->live_free(forking->live);
    forking->live = NULL;
}

static void sandbox_fork_deliver(struct answer *answer, const struct err *why)
{
    struct forking *forking = answer->data;
    struct sandbox_info *infos =
        arena_array(&forking->arena, struct sandbox_info, forking->count + 1);
    size_t count = 0;
    for (size_t i = 0; why == NULL && i < forking->count; i++) {
        const struct sandbox *sandbox =
            map_get(&answer->engine->sandboxes, str_of(forking->ids[i]));
        if (sandbox == NULL)
            continue;
        infos[count] = sandbox->info;
        add_contexts(forking, sandbox, &infos[count++]);
    }
    answer->done.many(answer->ctx, why == NULL ? infos : NULL, count, why);
    arena_done(&forking->arena);
    ledger_done(&forking->ledger);
    free(forking->ids);
    free(forking);
}

/* --- Asked again --- */

static bool sandbox_fork_is_there(struct engine *engine, struct str ids)
{
    struct str id;
    while (str_split(&ids, ' ', &id))
        if (map_has(&engine->sandboxes, id))
            return true;
    return false;
}

static void tell_known(struct answer *answer, struct str ids)
{
    struct forking *forking = answer->data;
    struct str id;
    for (forking->count = 0; forking->count < ENGINE_FORKS_MAX && str_split(&ids, ' ', &id);)
        (void)snprintf(forking->ids[forking->count++], ID_SIZE, "%.*s", STR_ARG(id));
}

/* --- Making them --- */

/* Answers when the last of them is gone, so that a refused fork leaves nothing to be seen. */
static void sandbox_fork_on_deleted(void *ctx, UNUSED const struct err *why)
{
    struct forking *forking = ctx;
    if (--forking->pending > 0)
        return;
    sandbox_release_image(forking->engine, forking->answer->tier, forking->image);
    answer_give(forking->answer, &forking->err);
}

static void sandbox_fork_undo(struct forking *forking)
{
    forking->pending = 1;
    for (size_t i = 0; i < forking->count; i++) {
        if (forking->ids[i][0] == '\0' ||
            !map_has(&forking->engine->sandboxes, str_of(forking->ids[i])))
            continue;
        forking->pending++;
        engine_sandbox_delete(forking->engine, &forking->caller, str_of(forking->ids[i]),
                              sandbox_fork_on_deleted, forking);
    }
    sandbox_fork_on_deleted(forking, NULL);
}

static void on_kept(void *ctx, const struct err *why)
{
    struct forking *forking = ctx;
    if (why == NULL) {
        answer_give(forking->answer, NULL);
        return;
    }
    forking->err = *why;
    sandbox_fork_undo(forking);
}

/* The key goes with the last of them: one that a crash cut off is not taken for done. */
static void sandbox_fork_finish(struct forking *forking)
{
    AUTO_BUF struct buf ids = {0};
    if (forking->answer->claim == NULL) {
        answer_give(forking->answer, NULL);
        return;
    }
    for (size_t i = 0; i < forking->count; i++)
        buf_printf(&ids, "%s%s", i > 0 ? " " : "", forking->ids[i]);
    struct store_batch *batch = store_begin(forking->engine->store);
    key_keep(forking->answer->claim, buf_str(&ids), batch);
    store_commit(batch, STORE_QUICK, on_kept, forking);
}

static void one_made(void *ctx, UNUSED struct sandbox *sandbox, const struct err *why)
{
    struct forking *forking = ctx;
    if (why != NULL && forking->err.code == ERR_NONE)
        forking->err = *why;
    if (--forking->pending > 0)
        return;
    forget_live(forking);
    if (forking->err.code == ERR_NONE)
        sandbox_fork_finish(forking);
    else
        sandbox_fork_undo(forking);
}

/* What the parent is, without its volume, its session and its name, which stay with it. */
static struct sandbox_spec spec_of(const struct sandbox *parent)
{
    const struct sandbox_info *info = &parent->info;
    return (struct sandbox_spec){
        .tier = info->tier,
        .runtime = info->runtime,
        .snapshots = info->snapshots,
        .snapshot_count = info->snapshot_count,
        .requirements = info->requirements,
        .requirement_count = info->requirement_count,
        .env = info->env,
        .metadata = info->metadata,
        .limits = info->limits,
        .network = info->network,
        .secrets = info->secrets,
        .timeout_ms = info->timeout_ms == 0 ? -1 : info->timeout_ms,
        .idle_ms = info->idle_ms == 0 ? -1 : info->idle_ms,
        .on_timeout = info->on_timeout,
        .checkpoints = info->has_turns ? SANDBOX_CHECKPOINTS_TURN : SANDBOX_CHECKPOINTS_MANUAL,
    };
}

static void make_all(struct forking *forking, const struct sandbox *parent)
{
    struct sandbox_spec spec = spec_of(parent);
    struct engine_caller caller = forking->caller;
    struct sandbox *made[ENGINE_FORKS_MAX] = {0};
    caller.is_operator = true; /* the parent's policy was allowed when it was set */
    sandbox_bases bases = {0};
    bases_of_fork(parent, forking->image, str_of(forking->call), forking->bytes, &bases);
    forking->answer->tier = parent->info.tier;
    forking->pending = 1;
    /* An isolate's image has its variables; interpreters of a jail that come along say so. */
    struct loss loss = ledger_loss_now(LOSS_FORK);
    if (parent->info.tier != ENGINE_TIER_ISOLATE)
        (void)ledger_lose_all(&forking->ledger, &loss);
    for (size_t i = 0; i < forking->count && forking->err.code == ERR_NONE; i++) {
        if (sandbox_from_spec(forking->engine, &caller, &spec, &made[i], &forking->err) < 0)
            break;
        struct sandbox *sandbox = made[i];
        (void)snprintf(forking->ids[i], ID_SIZE, "%.*s", STR_ARG(sandbox->info.id));
        sandbox->info.forked_from = arena_dup(&sandbox->arena, parent->info.id);
        sandbox_set_image(sandbox, forking->image);
        bases_copy(&sandbox->bases, bases.ptr, bases.len);
        sandbox->live = forking->live;
        ledger_copy(&sandbox->ledger, &forking->ledger);
        forking->pending++;
        sandbox_make(sandbox, &caller, forking->image, one_made, forking);
    }
    vec_done(&bases);
    /* With what they share counted. */
    if (forking->err.code == ERR_NONE)
        (void)!quota_check(forking->engine, &caller, &(struct engine_quota){0}, &forking->err);
    one_made(forking, NULL, NULL);
}

static void sandbox_fork_on_picture(void *ctx, struct str image, int64_t size,
                                    const struct err *why)
{
    struct forking *forking = ctx;
    struct sandbox *parent = forking->parent;
    const struct provider_table *table = engine_table(forking->engine, parent->info.tier);
    if (table->live_release != NULL && parent->place != NULL)
        table->live_release(parent->place);
    sandbox_end_work(parent);
    if (why != NULL) {
        forking->answer->tier = parent->info.tier;
        forget_live(forking);
        answer_give(forking->answer, why);
        return;
    }
    forking->image = arena_dup(&forking->arena, image);
    forking->bytes = size;
    id_new(forking->call);
    ledger_copy(&forking->ledger, &parent->ledger);
    make_all(forking, parent);
}

static void on_live(void *ctx, struct live_interpreters *live, const struct err *why)
{
    struct forking *forking = ctx;
    struct sandbox *parent = forking->parent;
    if (why != NULL) {
        sandbox_end_work(parent);
        answer_give(forking->answer, why);
        return;
    }
    forking->live = live;
    engine_table(forking->engine, parent->info.tier)
        ->checkpoint(parent->place, sandbox_fork_on_picture, forking);
}

static void ready(struct want *want, struct sandbox *sandbox, const struct err *why)
{
    struct forking *forking = (struct forking *)want;
    if (why != NULL) {
        answer_give(forking->answer, why);
        return;
    }
    const struct provider_table *table = engine_table(forking->engine, sandbox->info.tier);
    if (table->checkpoint == NULL) {
        struct err err = {0};
        (void)engine_unsupported(sandbox->info.tier, "fork", &err);
        answer_give(forking->answer, &err);
        return;
    }
    if (forking->checkpoint.len > 0) {
        size_t at = sandbox_find_checkpoint(sandbox, forking->checkpoint);
        if (at == sandbox->checkpoints.len) {
            answer_fail(forking->answer, ERR_NOT_FOUND, "sandbox '%.*s' has no checkpoint '%.*s'",
                        STR_ARG(sandbox->info.id), (int)MIN(forking->checkpoint.len, (size_t)64),
                        forking->checkpoint.ptr);
            return;
        }
        const struct checkpoint *from = &sandbox->checkpoints.ptr[at];
        forking->image = arena_dup(&forking->arena, str_of(from->image));
        forking->bytes = from->size_bytes;
        memcpy(forking->call, from->id, sizeof forking->call);
        if (from->variables != NULL)
            ledger_read_json(&forking->ledger, str_of(from->variables));
        forking->live = variables_use(from->kept);
        make_all(forking, sandbox);
        return;
    }
    forking->parent = sandbox;
    sandbox_begin_work(sandbox);
    if (table->live_take != NULL)
        table->live_take(sandbox->place, &(struct live_request){.most_bytes = INT64_MAX}, on_live,
                         forking);
    else
        table->checkpoint(sandbox->place, sandbox_fork_on_picture, forking);
}

void engine_sandbox_fork(struct engine *engine, const struct engine_caller *caller, struct str id,
                         struct str checkpoint, size_t count, sandbox_many_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, sandbox_fork_deliver, ctx);
    struct forking *forking = mem_alloc(sizeof *forking);
    struct err err = {0};
    struct sandbox *parent = NULL;
    int known = -1;
    answer->done.many = done;
    answer->data = forking;
    *forking = (struct forking){.want = {.needs_running = true, .call = ready},
                                .engine = engine,
                                .answer = answer,
                                .caller = *caller,
                                .count = MIN(count, (size_t)ENGINE_FORKS_MAX)};
    forking->caller.tenant = arena_dup(&forking->arena, caller->tenant);
    forking->caller.key = forking->caller.request_hash = (struct str){0};
    forking->checkpoint = arena_dup(&forking->arena, checkpoint);
    forking->ids = mem_alloc((size_t)ENGINE_FORKS_MAX * sizeof *forking->ids);
    if (count == 0 || count > ENGINE_FORKS_MAX)
        (void)err_set(&err, ERR_INVALID, "count: must be between 1 and %d", ENGINE_FORKS_MAX);
    else if (engine_check_caller(engine, caller, &err) == 0)
        known = answer_claim(answer, caller, sandbox_fork_is_there, tell_known, &err);
    if (known == 0)
        parent = sandbox_find(engine, caller, id, &err);
    if (known <= 0 && parent == NULL)
        answer_give(answer, &err);
    else if (known == 0)
        sandbox_wait(parent, &forking->want);
}
