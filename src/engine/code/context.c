/* Contexts: led to the place that has them. */

#include "engine/code/context.h"

#include "engine/file/file_work.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/spec.h"

const char *context_state_name(enum context_state state)
{
    static const char *const names[] = {"cold", "idle", "busy"};
    return names[state];
}

struct asking {
    struct file_work work;
    struct loop_task task;
    struct arena arena;
    struct context_request request;
    context_done *done;
    void *ctx;
    struct err err;
    bool has_failed;
};

static void context_on_done(void *ctx, const struct context_info *contexts, size_t count,
                            const struct err *why)
{
    struct asking *asking = ctx;
    struct engine *engine = asking->work.engine;
    file_work_end(&asking->work);
    asking->done(asking->ctx, contexts, count, why);
    engine->answers--;
    loop_release(engine->loop);
    arena_done(&asking->arena);
    free(asking);
}

static void context_run_later(struct loop_task *task)
{
    struct asking *asking = CONTAINER_OF(task, struct asking, task);
    struct sandbox *sandbox = asking->work.sandbox;
    if (!asking->has_failed && sandbox->info.state != SANDBOX_RUNNING)
        asking->has_failed =
            err_set(&asking->err, ERR_GONE, "sandbox '%.*s' is %s", STR_ARG(sandbox->info.id),
                    sandbox_state_name(sandbox->info.state)) < 0;
    if (!asking->has_failed) {
        const struct provider_table *table = engine_table(asking->work.engine, sandbox->info.tier);
        if (table->context != NULL) {
            table->context(sandbox->place, &asking->request, context_on_done, asking);
            return;
        }
        (void)engine_unsupported(sandbox->info.tier, "have contexts", &asking->err);
    }
    context_on_done(asking, NULL, 0, &asking->err);
}

static void context_on_place(struct file_work *work, const struct err *why)
{
    struct asking *asking = (struct asking *)work;
    if (why != NULL) {
        asking->has_failed = true;
        asking->err = *why;
    }
    asking->task.run = context_run_later;
    loop_post(work->engine->loop, &asking->task);
}

static int context_check(const struct context_request *request, struct err *err)
{
    if (request->cwd.len > 0 && file_check_path(request->cwd, err) < 0)
        return err_wrap(err, "cwd");
    return spec_check_env(&request->env, err);
}

void engine_context(struct engine *engine, const struct engine_caller *caller, struct str sandbox,
                    struct str session, const struct context_request *request, context_done *done,
                    void *ctx)
{
    loop_assert(engine->loop);
    struct asking *asking = mem_alloc(sizeof *asking);
    struct arena *arena = &asking->arena;
    struct file_place place = {.sandbox = sandbox, .session = session};
    asking->work.call = context_on_place;
    asking->work.engine = engine;
    asking->done = done;
    asking->ctx = ctx;
    asking->request = *request;
    asking->request.id = arena_dup(arena, request->id);
    asking->request.runtime = arena_dup(arena, request->runtime);
    asking->request.language = arena_dup(arena, request->language);
    asking->request.cwd = arena_dup(arena, request->cwd);
    asking->request.env = pairs_dup(&request->env, arena);
    engine->answers++;
    loop_hold(engine->loop);
    if (context_check(request, &asking->err) < 0 ||
        file_work_start(engine, caller, &place, &asking->work, &asking->err) < 0)
        context_on_place(&asking->work, &asking->err);
}
