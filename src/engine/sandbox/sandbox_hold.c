/* References to a sandbox from operations and state changes in progress. A removed record is no
 * longer found by any request; its memory is freed when the last of these operations has ended, on
 * a later turn of the loop: the caller that released it may still read it. */

#include "base/map.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"

/* An operation may hold it again until then (sandbox_find_worked): its release posts a new task. */
static void sandbox_on_turn(struct loop_task *task)
{
    struct sandbox *sandbox = CONTAINER_OF(task, struct sandbox, task);
    struct engine *engine = sandbox->engine;
    engine->answers--;
    loop_release(engine->loop);
    if (!hold_release(&sandbox->hold))
        return;
    struct sandbox **at = &engine->leaving;
    while (*at != sandbox)
        at = &(*at)->next_leaving;
    *at = sandbox->next_leaving;
    (void)sandbox_free(sandbox);
}

static void free_later(struct sandbox *sandbox)
{
    struct engine *engine = sandbox->engine;
    hold_take(&sandbox->hold); /* until that turn: the task is posted once at a time */
    sandbox->task.run = sandbox_on_turn;
    engine->answers++;
    loop_hold(engine->loop);
    loop_post(engine->loop, &sandbox->task);
}

void sandbox_leave(struct sandbox *sandbox)
{
    struct engine *engine = sandbox->engine;
    (void)map_remove(&engine->sandboxes, sandbox->info.id);
    sandbox->next_leaving = engine->leaving;
    engine->leaving = sandbox;
    if (hold_end(&sandbox->hold))
        free_later(sandbox);
}

void sandbox_hold(struct sandbox *sandbox)
{
    hold_take(&sandbox->hold);
}

void sandbox_unhold(struct sandbox *sandbox)
{
    if (hold_release(&sandbox->hold))
        free_later(sandbox);
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
