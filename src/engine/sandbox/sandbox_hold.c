/* References to a sandbox from operations and state changes in progress. A removed record is no
 * longer found by any request; its memory is freed when the last of these operations has ended. */

#include "base/map.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"

static void free_now(struct loop_task *task)
{
    struct sandbox *sandbox = CONTAINER_OF(task, struct sandbox, task);
    struct engine *engine = sandbox->engine;
    struct sandbox **at = &engine->leaving;
    while (*at != sandbox)
        at = &(*at)->next_leaving;
    *at = sandbox->next_leaving;
    engine->answers--;
    loop_release(engine->loop);
    (void)sandbox_free(sandbox);
}

/* Frees on a later turn of the loop: the caller that released it may still read it. */
static void free_unheld(struct sandbox *sandbox)
{
    if (!sandbox->is_removed || sandbox->holds > 0 || sandbox->is_freed)
        return;
    struct engine *engine = sandbox->engine;
    sandbox->is_freed = true;
    sandbox->task.run = free_now;
    engine->answers++;
    loop_hold(engine->loop);
    loop_post(engine->loop, &sandbox->task);
}

void sandbox_leave(struct sandbox *sandbox)
{
    struct engine *engine = sandbox->engine;
    assert(!sandbox->is_removed);
    (void)map_remove(&engine->sandboxes, sandbox->info.id);
    sandbox->is_removed = true;
    sandbox->next_leaving = engine->leaving;
    engine->leaving = sandbox;
    free_unheld(sandbox);
}

void sandbox_hold(struct sandbox *sandbox)
{
    sandbox->holds++;
}

void sandbox_unhold(struct sandbox *sandbox)
{
    assert(sandbox->holds > 0);
    sandbox->holds--;
    free_unheld(sandbox);
}

void sandbox_begin_work(struct sandbox *sandbox)
{
    sandbox->busy++;
    sandbox_hold(sandbox);
    sandbox_touch(sandbox);
}

void sandbox_end_work(struct sandbox *sandbox)
{
    assert(sandbox->busy > 0);
    sandbox->busy--;
    sandbox_touch(sandbox);
    sandbox_unhold(sandbox);
}

struct sandbox *sandbox_find_worked(const struct engine *engine, struct str id)
{
    struct sandbox *sandbox = map_get(&engine->sandboxes, id);
    for (struct sandbox *each = engine->leaving; sandbox == NULL && each != NULL;
         each = each->next_leaving)
        if (str_eq(each->info.id, id))
            sandbox = each;
    return sandbox;
}
