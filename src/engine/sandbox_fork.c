/* Forks: a picture of one sandbox, and so many that go on from it. All of them or none. */

#include "engine/internal.h"

struct forking {
    struct want want;
    struct engine *engine;
    struct answer *answer;
    struct engine_caller caller;
    struct arena arena;
    struct sandbox *parent;    /* while its picture is taken */
    struct live_kernels *live; /* what its interpreters held then */
    struct str checkpoint, image;
    size_t count, pending;
    char (*ids)[ID_SIZE];
    struct err err;
};

struct told {
    struct arena *arena;
    struct sandbox_info *info;
};

static void on_contexts(void *ctx, const struct context_info *contexts, size_t count,
                        UNUSED const struct err *why)
{
    struct told *told = ctx;
    struct sandbox_context *items = arena_array(told->arena, struct sandbox_context, count + 1);
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        if (contexts[i].is_copy)
            items[len++] = (struct sandbox_context){arena_dup(told->arena, contexts[i].id),
                                                    arena_dup(told->arena, contexts[i].reason),
                                                    contexts[i].is_live};
    told->info->contexts = items;
    told->info->context_count = len;
}

/* Which interpreters came along, and which begin anew. */
static void add_contexts(struct forking *forking, const struct sandbox *sandbox,
                         struct sandbox_info *info)
{
    const struct provider_table *table = engine_table(forking->engine, sandbox->info.tier);
    struct told told = {&forking->arena, info};
    if (table->live_take != NULL && table->context != NULL && sandbox->place != NULL)
        table->context(sandbox->place, &(struct context_request){.op = CONTEXT_LIST}, on_contexts,
                       &told);
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

static void deliver(struct answer *answer, const struct err *why)
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
    free(forking->ids);
    free(forking);
}

/* --- Asked again --- */

static bool is_there(struct engine *engine, struct str ids)
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

static void ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

static void undo(struct forking *forking)
{
    for (size_t i = 0; i < forking->count; i++)
        if (forking->ids[i][0] != '\0' &&
            map_has(&forking->engine->sandboxes, str_of(forking->ids[i])))
            engine_sandbox_delete(forking->engine, &forking->caller, str_of(forking->ids[i]),
                                  ignore, NULL);
    sandbox_release_image(forking->engine, forking->answer->tier, forking->image);
    answer_give(forking->answer, &forking->err);
}

static void on_kept(void *ctx, const struct err *why)
{
    struct forking *forking = ctx;
    if (why == NULL) {
        answer_give(forking->answer, NULL);
        return;
    }
    forking->err = *why;
    undo(forking);
}

/* The key goes with the last of them: one that a crash cut off is not taken for done. */
static void finish(struct forking *forking)
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
        finish(forking);
    else
        undo(forking);
}

/* What the parent is, but for its volume and its session: those stay with it. */
static struct sandbox_spec spec_of(const struct sandbox *parent)
{
    const struct sandbox_info *info = &parent->info;
    return (struct sandbox_spec){
        .tier = info->tier,
        .runtime = info->runtime,
        .name = info->name,
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
    };
}

static void make_all(struct forking *forking, const struct sandbox *parent)
{
    struct sandbox_spec spec = spec_of(parent);
    struct engine_caller caller = forking->caller;
    struct sandbox *made[ENGINE_FORKS_MAX] = {0};
    caller.is_operator = true; /* the policy is the parent's, which somebody was allowed to set */
    forking->answer->tier = parent->info.tier;
    forking->pending = 1;
    for (size_t i = 0; i < forking->count && forking->err.code == ERR_NONE; i++) {
        if (sandbox_from_spec(forking->engine, &caller, &spec, &made[i], &forking->err) < 0)
            break;
        struct sandbox *sandbox = made[i];
        (void)snprintf(forking->ids[i], ID_SIZE, "%.*s", STR_ARG(sandbox->info.id));
        sandbox->info.forked_from = arena_dup(&sandbox->arena, parent->info.id);
        sandbox_set_image(sandbox, forking->image);
        sandbox->live = forking->live;
        forking->pending++;
        sandbox_make(sandbox, &caller, forking->image, one_made, forking);
    }
    one_made(forking, NULL, NULL);
}

static void on_picture(void *ctx, struct str image, UNUSED int64_t size, const struct err *why)
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
    make_all(forking, parent);
}

static void on_live(void *ctx, struct live_kernels *live, const struct err *why)
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
        ->checkpoint(parent->place, on_picture, forking);
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
        forking->image = arena_dup(&forking->arena, str_of(sandbox->checkpoints.ptr[at].image));
        make_all(forking, sandbox);
        return;
    }
    forking->parent = sandbox;
    sandbox_begin_work(sandbox);
    if (table->live_take != NULL)
        table->live_take(sandbox->place, on_live, forking);
    else
        table->checkpoint(sandbox->place, on_picture, forking);
}

void engine_sandbox_fork(struct engine *engine, const struct engine_caller *caller, struct str id,
                         struct str checkpoint, size_t count, sandbox_many_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, deliver, ctx);
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
        (void)err_set(&err, ERR_INVALID, "count: not between 1 and %d", ENGINE_FORKS_MAX);
    else if (engine_check_caller(engine, caller, &err) == 0)
        known = answer_claim(answer, caller, is_there, tell_known, &err);
    if (known == 0)
        parent = sandbox_find(engine, caller, id, &err);
    if (known <= 0 && parent == NULL)
        answer_give(answer, &err);
    else if (known == 0)
        sandbox_wait(parent, &forking->want);
}
