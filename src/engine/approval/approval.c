/* Approvals: the kinds, finding, listing, and how many are kept. */

#include "engine/approval/approval.h"

#include "base/clock.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/approval/approval_internal.h"
#include "engine/internal.h"
#include "engine/page.h"
#include "store/store.h"

/* --- Kinds --- */

/* Those of the engine. `custom`: a program requests it, follows it and uses it over HTTP. */
static const struct approval_kind kinds[] = {
    {.name = "custom", .is_open = true},
};

static const struct approval_registered *find_kind(const struct engine *engine, struct str name)
{
    for (size_t i = 0; i < engine->approval_kinds.len; i++)
        if (str_eq(name, str_of(engine->approval_kinds.ptr[i].kind->name)))
            return &engine->approval_kinds.ptr[i];
    return NULL;
}

void engine_approval_register(struct engine *engine, const struct approval_kind *kind, void *ctx)
{
    loop_assert(engine->loop);
    assert(find_kind(engine, str_of(kind->name)) == NULL);
    *vec_push(&engine->approval_kinds) = (struct approval_registered){kind, ctx};
    engine->approvals_resume = true;
}

static void register_own(struct engine *engine)
{
    for (size_t i = 0; i < countof(kinds); i++)
        if (find_kind(engine, str_of(kinds[i].name)) == NULL)
            engine_approval_register(engine, &kinds[i], NULL);
}

const struct approval_registered *approval_kind(const struct engine *engine, struct str name)
{
    return find_kind(engine, name);
}

bool engine_approval_is_open_kind(const struct engine *engine, struct str kind)
{
    const struct approval_registered *of = find_kind(engine, kind);
    return of != NULL && of->kind->is_open;
}

/* --- One approval --- */

struct approval *approval_new(struct engine *engine, struct str tenant)
{
    struct approval *approval = mem_alloc(sizeof *approval);
    approval->engine = engine;
    approval->info.tenant = arena_dup(&approval->arena, tenant);
    return approval;
}

static void approval_free(struct approval *approval)
{
    arena_done(&approval->arena);
    free(approval);
}

void approval_remove(struct approval *approval, struct store_batch *batch)
{
    if (batch != NULL)
        store_remove(batch, &store_approvals, approval->info.id);
    (void)map_remove(&approval->engine->approvals, approval->info.id);
    approval_free(approval);
}

void approval_open(struct engine *engine)
{
    register_own(engine);
}

void approval_done_all(struct engine *engine)
{
    MAP_EACH (entry, &engine->approvals)
        approval_free(entry->value);
    map_done(&engine->approvals);
    vec_done(&engine->approval_kinds);
}

/* It may have gone between the answer and its delivery: then that is the answer. */
static void approval_deliver(struct answer *answer, const struct err *why)
{
    const struct approval *approval =
        why == NULL ? map_get(&answer->engine->approvals, str_of(answer->id)) : NULL;
    struct err gone = {0};
    if (why == NULL && approval == NULL) {
        (void)err_set(&gone, ERR_NOT_FOUND, "no approval '%s'", answer->id);
        why = &gone;
    }
    answer->done.approval(answer->ctx, why == NULL ? &approval->info : NULL, why);
}

struct answer *approval_answer(struct engine *engine, approval_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, approval_deliver, ctx);
    answer->done.approval = done;
    return answer;
}

/* --- Finding --- */

static int not_found(struct str id, struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "no approval '%.*s'", (int)MIN(id.len, (size_t)64),
                   id.ptr == NULL ? "" : id.ptr);
}

struct approval *approval_find(struct engine *engine, struct str tenant, struct str id,
                               struct err *err)
{
    struct approval *approval = map_get(&engine->approvals, id);
    if (approval != NULL && str_eq(approval->info.tenant, tenant) && !approval->is_new)
        return approval;
    (void)not_found(id, err);
    return NULL;
}

struct approval *approval_find_open(struct engine *engine, struct str tenant, struct str kind,
                                    struct str subject)
{
    MAP_EACH (entry, &engine->approvals) {
        struct approval *approval = entry->value;
        const struct approval_info *info = &approval->info;
        if (approval_is_open(info->state) && str_eq(info->subject, subject) &&
            str_eq(info->kind, kind) && str_eq(info->tenant, tenant))
            return approval;
    }
    return NULL;
}

/* An open one, else the newest. Entries are in the order of making. */
static int find_subject(struct engine *engine, struct str tenant, struct str subject,
                        const struct approval **ret_approval, struct err *err)
{
    const struct approval *newest = NULL, *open = NULL;
    MAP_EACH (entry, &engine->approvals) {
        const struct approval *approval = entry->value;
        if (subject.len == 0 || !str_eq(approval->info.subject, subject) ||
            !str_eq(approval->info.tenant, tenant) || approval->is_new)
            continue;
        newest = approval;
        if (!approval_is_open(approval->info.state))
            continue;
        if (open != NULL)
            return err_set(err, ERR_CONFLICT, "several open approvals are about '%.*s'; use an id",
                           STR_ARG(subject));
        open = approval;
    }
    if (newest == NULL)
        return not_found(subject, err);
    *ret_approval = open != NULL ? open : newest;
    return 0;
}

int engine_approval_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                        struct approval_info *ret_approval, struct err *err)
{
    loop_assert(engine->loop);
    const struct approval *approval = approval_find(engine, caller->tenant, id, err);
    if (approval == NULL && find_subject(engine, caller->tenant, id, &approval, err) < 0)
        return -1;
    *ret_approval = approval->info;
    return 0;
}

/* --- Listing --- */

static bool is_listed(const struct approval *approval, const struct engine_caller *caller,
                      const struct approval_filter *filter)
{
    const struct approval_info *info = &approval->info;
    return !approval->is_new && str_eq(info->tenant, caller->tenant) &&
           (filter->states == 0 || (filter->states & (1U << info->state)) != 0) &&
           (filter->kind.len == 0 || str_eq(info->kind, filter->kind)) &&
           (filter->subject.len == 0 || str_eq(info->subject, filter->subject));
}

int engine_approval_list(struct engine *engine, const struct engine_caller *caller,
                         const struct approval_filter *filter, struct arena *arena,
                         struct approval_list *ret_list, struct err *err)
{
    loop_assert(engine->loop);
    struct approval_list list = {0};
    int64_t after = 0, last = 0;
    size_t limit = page_limit(&filter->page), used = 0;
    if (page_cursor_read(filter->page.after, &after, err) < 0)
        return -1;
    list.items = arena_array(arena, struct approval_info, MIN(limit, engine->approvals.len + 1));
    MAP_EACH (entry, &engine->approvals) {
        const struct approval *approval = entry->value;
        if (approval->ord <= after || !is_listed(approval, caller, filter))
            continue;
        size_t bytes = approval->info.detail.len + approval->info.note.len;
        if (list.count == limit || !page_has_room(&used, bytes)) {
            page_cursor_write(last, list.next);
            break;
        }
        list.items[list.count++] = approval->info;
        last = approval->ord;
    }
    *ret_list = list;
    return 0;
}

/* --- How many --- */

size_t approval_count_pending(const struct engine *engine, struct str tenant)
{
    size_t count = 0;
    MAP_EACH (entry, &engine->approvals) {
        const struct approval *approval = entry->value;
        count += approval->info.state == APPROVAL_PENDING && str_eq(approval->info.tenant, tenant);
    }
    return count;
}

/* Of the tenant, ended, and with a decision or without one. */
static bool is_kept_as(const struct approval *approval, struct str tenant, bool is_decided)
{
    return !approval_is_open(approval->info.state) && !approval->is_new &&
           (approval->info.decided_ms != 0) == is_decided && str_eq(approval->info.tenant, tenant);
}

static void trim(struct engine *engine, struct str tenant, bool is_decided, size_t most,
                 struct store_batch *batch)
{
    size_t count = 0;
    MAP_EACH (entry, &engine->approvals)
        count += is_kept_as(entry->value, tenant, is_decided);
    if (count <= most)
        return;
    MAP_EACH (entry, &engine->approvals) {
        struct approval *approval = entry->value;
        if (count <= most)
            return;
        if (!is_kept_as(approval, tenant, is_decided))
            continue;
        approval_remove(approval, batch);
        count--;
    }
}

void approval_trim(struct engine *engine, struct str tenant, struct store_batch *batch)
{
    trim(engine, tenant, true, APPROVALS_DECIDED_KEPT, batch);
    trim(engine, tenant, false, APPROVALS_UNDECIDED_KEPT, batch);
}
