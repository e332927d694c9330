/* The verbs on an existing sandbox. */

#include "engine/sandbox/sandbox.h"

#include "base/id.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/internal.h"
#include "engine/page.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/sandbox_verb.h"
#include "engine/sandbox/spec.h"
#include "store/store.h"

/* --- Looking --- */

/* The only one of that name; NULL with how many there are, and their ids. */
static struct sandbox *find_name(struct engine *engine, struct str tenant, struct str name,
                                 size_t *ret_count, struct buf *ids)
{
    struct sandbox *found = NULL;
    *ret_count = 0;
    if (name.len == 0)
        return NULL;
    MAP_EACH (entry, &engine->sandboxes) {
        struct sandbox *sandbox = entry->value;
        if (!str_eq(sandbox->info.name, name) || !str_eq(sandbox->info.tenant, tenant) ||
            sandbox->is_helper || sandbox->is_deleting)
            continue;
        found = sandbox;
        buf_printf(ids, "%s%.*s", ++*ret_count > 1 ? ", " : "", STR_ARG(sandbox->info.id));
    }
    return *ret_count == 1 ? found : NULL;
}

struct sandbox *sandbox_find(struct engine *engine, const struct engine_caller *caller,
                             struct str id, struct err *err)
{
    loop_assert(engine->loop);
    AUTO_BUF struct buf ids = {0};
    size_t count = 0;
    struct sandbox *sandbox = id_is_valid(id) ? map_get(&engine->sandboxes, id) : NULL;
    if (sandbox != NULL && str_eq(sandbox->info.tenant, caller->tenant))
        return sandbox;
    if ((sandbox = find_name(engine, caller->tenant, id, &count, &ids)) != NULL)
        return sandbox;
    if (count > 1) {
        (void)err_set(err, ERR_CONFLICT, "%zu sandboxes are named '%.*s'; use an id: %.*s", count,
                      (int)MIN(id.len, (size_t)64), id.ptr, (int)MIN(ids.len, (size_t)140),
                      ids.ptr);
        return NULL;
    }
    (void)err_set(err, ERR_NOT_FOUND, "no sandbox '%.*s'", (int)MIN(id.len, (size_t)64),
                  id.ptr == NULL ? "" : id.ptr);
    return NULL;
}

int engine_sandbox_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                       struct sandbox_info *ret_sandbox, struct err *err)
{
    const struct sandbox *sandbox = sandbox_find(engine, caller, id, err);
    if (sandbox == NULL)
        return -1;
    *ret_sandbox = sandbox->info;
    return 0;
}

static bool has_pairs(const struct engine_pairs *has, const struct engine_pairs *wanted)
{
    for (size_t i = 0; i < wanted->len; i++) {
        size_t at = 0;
        while (at < has->len && !(str_eq(has->items[at].name, wanted->items[i].name) &&
                                  str_eq(has->items[at].value, wanted->items[i].value)))
            at++;
        if (at == has->len)
            return false;
    }
    return true;
}

static bool matches(const struct sandbox_info *info, const struct engine_caller *caller,
                    const struct sandbox_filter *filter)
{
    return str_eq(info->tenant, caller->tenant) &&
           (filter->states == 0 || (filter->states & (1U << info->state)) != 0) &&
           (filter->name.len == 0 || str_eq(filter->name, info->name)) &&
           has_pairs(&info->metadata, &filter->metadata);
}

static size_t pairs_size(const struct engine_pairs *pairs)
{
    size_t size = 0;
    for (size_t i = 0; i < pairs->len; i++)
        size += pairs->items[i].name.len + pairs->items[i].value.len;
    return size;
}

/* Of what a caller may make long. */
static size_t info_size(const struct sandbox_info *info)
{
    size_t size = sizeof *info + info->network.len + info->reason.len + pairs_size(&info->env) +
                  pairs_size(&info->metadata);
    for (size_t i = 0; i < info->requirement_count; i++)
        size += info->requirements[i].len;
    for (size_t i = 0; i < info->secrets.len; i++) {
        const struct sandbox_secret *secret = &info->secrets.items[i];
        for (size_t at = 0; at < secret->host_count; at++)
            size += secret->hosts[at].len;
        for (size_t at = 0; at < secret->header_count; at++)
            size += secret->headers[at].len;
    }
    return size;
}

int engine_sandbox_list(struct engine *engine, const struct engine_caller *caller,
                        const struct sandbox_filter *filter, struct arena *arena,
                        struct sandbox_list *ret_list, struct err *err)
{
    loop_assert(engine->loop);
    int64_t after = 0;
    if (page_cursor_read(filter->page.after, &after, err) < 0)
        return -1;
    struct sandbox_list list = {0};
    size_t limit = page_limit(&filter->page), used = 0;
    int64_t last = 0;
    list.items = arena_array(arena, struct sandbox_info, MIN(limit, engine->sandboxes.len + 1));
    /* The table is in the order of making. */
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        if (sandbox->ord <= after || sandbox->is_helper || !matches(&sandbox->info, caller, filter))
            continue;
        if (list.count == limit || !page_has_room(&used, info_size(&sandbox->info))) {
            page_cursor_write(last, list.next);
            break;
        }
        list.items[list.count++] = sandbox->info;
        last = sandbox->ord;
    }
    *ret_list = list;
    return 0;
}

/* --- Moving --- */

static void run_connect(struct sandbox_verb *verb, struct sandbox *sandbox)
{
    sandbox_touch(sandbox);
    if (verb->timeout_ms != 0)
        sandbox_set_timeout(sandbox, MAX(verb->timeout_ms, (int64_t)0));
    struct store_batch *batch = store_begin(sandbox->engine->store);
    sandbox_save(sandbox, batch);
    sandbox_commit(sandbox, batch, STORE_QUICK, verb->answer);
}

void engine_sandbox_connect(struct engine *engine, const struct engine_caller *caller,
                            struct str id, int64_t timeout_ms, sandbox_done *done, void *ctx)
{
    struct answer *answer = answer_sandbox(engine, done, ctx);
    struct err err = {0};
    if (spec_check_time(timeout_ms, "timeoutMs", &err) < 0)
        answer_give(answer, &err);
    else
        sandbox_verb_start(answer, caller, id, true, run_connect, timeout_ms, STR(""));
}

static void run_pause(struct sandbox_verb *verb, struct sandbox *sandbox)
{
    if (sandbox->info.state == SANDBOX_PAUSED)
        answer_give(verb->answer, NULL);
    else if (sandbox->info.state != SANDBOX_RUNNING)
        sandbox_verb_refuse_state(verb->answer, sandbox, "paused");
    else if (engine_table(sandbox->engine, sandbox->info.tier)->pause == NULL)
        sandbox_verb_refuse(verb->answer, sandbox, "pause");
    else
        sandbox_begin_pause(sandbox, verb->answer);
}

void engine_sandbox_pause(struct engine *engine, const struct engine_caller *caller, struct str id,
                          sandbox_done *done, void *ctx)
{
    sandbox_verb_start(answer_sandbox(engine, done, ctx), caller, id, false, run_pause, 0, STR(""));
}

static void run_resume(struct sandbox_verb *verb, UNUSED struct sandbox *sandbox)
{
    answer_give(verb->answer, NULL);
}

void engine_sandbox_resume(struct engine *engine, const struct engine_caller *caller, struct str id,
                           sandbox_done *done, void *ctx)
{
    sandbox_verb_start(answer_sandbox(engine, done, ctx), caller, id, true, run_resume, 0, STR(""));
}

static void run_stop(struct sandbox_verb *verb, struct sandbox *sandbox)
{
    if (sandbox->info.state == SANDBOX_STOPPED)
        answer_give(verb->answer, NULL);
    else
        sandbox_begin_stop(sandbox, "", verb->answer);
}

void engine_sandbox_stop(struct engine *engine, const struct engine_caller *caller, struct str id,
                         sandbox_done *done, void *ctx)
{
    sandbox_verb_start(answer_sandbox(engine, done, ctx), caller, id, false, run_stop, 0, STR(""));
}

static void run_delete(struct sandbox_verb *verb, struct sandbox *sandbox)
{
    if (sandbox->info.state == SANDBOX_STOPPED) {
        sandbox_remove(sandbox, store_begin(sandbox->engine->store), verb->answer);
        return;
    }
    sandbox->is_deleting = true;
    sandbox_begin_stop(sandbox, "", verb->answer);
}

void engine_sandbox_delete(struct engine *engine, const struct engine_caller *caller, struct str id,
                           engine_done *done, void *ctx)
{
    sandbox_verb_start(answer_plain(engine, done, ctx), caller, id, false, run_delete, 0, STR(""));
}
