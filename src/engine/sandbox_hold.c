/* Who still points at a sandbox: works and moves that are under way below. A record that was
 * removed is out of everybody's sight at once; its memory goes when the last of them has come back.
 */

#include "engine/internal.h"

static void free_now(struct loop_task *task)
{
    struct sandbox *sandbox = (struct sandbox *)((char *)task - offsetof(struct sandbox, task));
    struct engine *engine = sandbox->engine;
    struct sandbox **at = &engine->leaving;
    while (*at != sandbox)
        at = &(*at)->next_leaving;
    *at = sandbox->next_leaving;
    engine->answers--;
    loop_release(engine->loop);
    (void)sandbox_free(sandbox);
}

/* On a later turn: whoever let go last may still look at it. */
static void free_unheld(struct sandbox *sandbox)
{
    if (!sandbox->is_removed || sandbox->holds > 0 || sandbox->is_calling || sandbox->is_freed)
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

void sandbox_called(struct sandbox *sandbox)
{
    sandbox->is_calling = false;
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
