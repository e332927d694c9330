/* Contexts of a jail: found, made, listed, ended. */

#include "tiers/jail/code/context.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/map.h"
#include "base/vec.h"
#include "engine/code/context.h"
#include "runtime/runtimes.h"
#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/place.h"

static struct context *find_id(const struct place *place, struct str id)
{
    struct context *context = place->contexts;
    while (context != NULL && !str_eq(context->id, id))
        context = context->next;
    return context;
}

static size_t count_of(const struct place *place)
{
    size_t count = 0;
    for (const struct context *context = place->contexts; context != NULL; context = context->next)
        count++;
    return count;
}

static struct context *context_new(struct place *place, struct str id,
                                   const struct runtime *runtime, struct err *err)
{
    if (count_of(place) >= CONTEXTS_MAX) {
        (void)err_set(err, ERR_LIMIT, "the sandbox already has %d contexts; delete one",
                      CONTEXTS_MAX);
        return NULL;
    }
    struct context *context = mem_alloc(sizeof *context);
    struct context **at = &place->contexts;
    context->place = place;
    context->memory_fd = context->inner[0] = context->inner[1] = context->inner[2] = -1;
    context->runtime = runtime;
    context->id = arena_dup(&context->arena, id);
    context->created_ms = clock_date_ms();
    while (*at != NULL)
        at = &(*at)->next;
    *at = context;
    return context;
}

struct context *context_make(struct place *place, struct str id, const struct runtime *runtime,
                             struct err *err)
{
    struct context *context = find_id(place, id);
    if (context == NULL)
        return context_new(place, id, runtime, err);
    context_drop_interpreter(context);
    return context;
}

struct context *context_find(struct place *place, struct str id, struct str runtime,
                             struct str language, struct err *err)
{
    const struct runtime *row = NULL;
    struct context *context = id.len > 0 ? find_id(place, id) : NULL;
    if (context != NULL && (runtime.len > 0 || language.len > 0) &&
        !runtime_speaks(context->runtime, runtime, language)) {
        (void)err_set(err, ERR_INVALID, "context '%.*s' is a context of %s", STR_ARG(id),
                      context->runtime->name);
        return NULL;
    }
    if (context != NULL)
        return context;
    /* The name of a runtime is that of its own context, whether it is there yet or not. */
    bool is_runtime = id.len > 0 && runtime_is_name(id);
    if (id.len > 0 && !is_runtime) {
        (void)err_set(err, ERR_NOT_FOUND, "no context '%.*s'", (int)MIN(id.len, (size_t)64),
                      id.ptr);
        return NULL;
    }
    if (runtime_choose(is_runtime ? id : runtime, language, place->runtime, &row, err) < 0 ||
        runtime_fits(row, place->runtime, err) < 0)
        return NULL;
    context = find_id(place, str_of(row->name));
    return context != NULL ? context : context_new(place, str_of(row->name), row, err);
}

static void unlink_context(struct context *context)
{
    struct context **at = &context->place->contexts;
    while (*at != context)
        at = &(*at)->next;
    *at = context->next;
}

static void delete_context(struct context *context)
{
    struct err gone = {0};
    (void)err_set(&gone, ERR_GONE, "context '%.*s' was deleted", STR_ARG(context->id));
    unlink_context(context);
    context_lose(context, LOSS_NONE);
    context_drop_interpreter(context);
    runs_fail(context, &gone);
    context_free(context);
}

void tier_contexts_end(struct place *place, const struct err *why)
{
    while (place->contexts != NULL) {
        struct context *context = place->contexts;
        place->contexts = context->next;
        if (context->process == PROCESS_ASKED || context->process == PROCESS_STARTED) {
            place_remove(place, &context->op); /* it ends with the jail */
            context_set_process(context, PROCESS_ENDED);
        }
        context_lose(context, place->rolling != NULL ? LOSS_ROLLBACK : LOSS_SANDBOX_ENDED);
        context_drop_interpreter(context);
        runs_fail(context, why);
        context_free(context);
    }
    place->listing = listing_free(place->listing);
    map_done(&place->installed);
    place->is_noted = false;
    place->oom_kills = 0; /* the count of a new jail starts at 0 */
}

static struct engine_pairs dup_env(const struct engine_pairs *env, struct arena *arena)
{
    struct engine_pair *items = arena_array(arena, struct engine_pair, env->len + 1);
    for (size_t i = 0; i < env->len; i++)
        items[i] = (struct engine_pair){arena_dup(arena, env->items[i].name),
                                        arena_dup(arena, env->items[i].value)};
    return (struct engine_pairs){items, env->len};
}

void tier_contexts_begin(struct place *place, const struct sandbox_info *info)
{
    place->env = dup_env(&info->env, &place->arena);
    place->runtime = arena_dup(&place->arena, info->runtime);
    struct str *requirements = arena_array(&place->arena, struct str, info->requirement_count + 1);
    for (size_t i = 0; i < info->requirement_count; i++)
        requirements[i] = arena_dup(&place->arena, info->requirements[i]);
    place->requirements = requirements;
    place->requirement_count = info->requirement_count;
}

void tier_contexts_dress(struct place *place)
{
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf env = {0};
    struct err err = {0};
    struct context *context = place->contexts;
    if (context == NULL)
        return;
    context->created_ms = clock_date_ms();
    for (const char **at = context_env(context, &arena); *at != NULL; at++)
        buf_put(&env, str_n(*at, strlen(*at) + 1));
    if (context->interpreter != NULL &&
        interpreter_set_env(context->interpreter, buf_str(&env), &err) == 0)
        context_pump(context);
}

/* --- Verbs --- */

static struct context_info info_of(const struct context *context)
{
    size_t runs = runs_count(context);
    return (struct context_info){
        .id = context->id,
        .runtime = str_of(context->runtime->name),
        .language = str_of(context->runtime->language),
        .cwd = context->cwd.len > 0 ? context->cwd : STR("/workspace"),
        .state = runs > 0                       ? CONTEXT_BUSY
                 : context->interpreter != NULL ? CONTEXT_IDLE
                                                : CONTEXT_COLD,
        .waiting = runs > 0 ? runs - 1 : 0,
        .run_count = context->run_count,
        .created_ms = context->created_ms,
        .is_copy = context->memory != MEMORY_OWN,
        .is_live = context->memory == MEMORY_RESTORED,
        .reason = str_of(context->reason),
    };
}

static struct context *context_create(struct place *place, const struct context_request *request,
                                      struct err *err)
{
    const struct runtime *runtime = NULL;
    char id[ID_SIZE];
    if (runtime_choose(request->runtime, request->language, place->runtime, &runtime, err) < 0 ||
        runtime_fits(runtime, place->runtime, err) < 0)
        return NULL;
    id_new(id);
    struct context *context = context_new(place, str_of(id), runtime, err);
    if (context == NULL)
        return NULL;
    context->env = dup_env(&request->env, &context->arena);
    context->cwd = arena_dup(&context->arena, request->cwd);
    return context;
}

static void context_list(struct place *place, context_done *done, void *ctx)
{
    struct context_info infos[CONTEXTS_MAX];
    size_t count = 0;
    for (const struct context *context = place->contexts; context != NULL && count < CONTEXTS_MAX;
         context = context->next)
        infos[count++] = info_of(context);
    done(ctx, infos, count, NULL);
}

static void act(struct context *context, enum context_op op)
{
    if (op == CONTEXT_DELETE)
        delete_context(context);
    else if (op == CONTEXT_RESTART)
        runs_restart(context, "the context was restarted during the run; its variables are gone");
    else if (op == CONTEXT_INTERRUPT)
        runs_interrupt(context);
}

void tier_context(struct place *place, const struct context_request *request, context_done *done,
                  void *ctx)
{
    struct err err = {0};
    struct context *context = NULL;
    if (request->op == CONTEXT_LIST) {
        context_list(place, done, ctx);
        return;
    }
    if (request->op == CONTEXT_CREATE)
        context = context_create(place, request, &err);
    else if ((context = find_id(place, request->id)) == NULL)
        (void)err_set(&err, ERR_NOT_FOUND, "no context '%.*s'",
                      (int)MIN(request->id.len, (size_t)64), request->id.ptr);
    if (context == NULL) {
        done(ctx, NULL, 0, &err);
        return;
    }
    act(context, request->op);
    if (request->op == CONTEXT_DELETE) {
        done(ctx, NULL, 0, NULL);
        return;
    }
    struct context_info info = info_of(context);
    done(ctx, &info, 1, NULL);
}
