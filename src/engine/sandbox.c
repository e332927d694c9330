/* The verbs on a sandbox that is there. */

#include "engine/sandbox.h"

#include "base/clock.h"
#include "engine/internal.h"

/* --- Looking --- */

struct sandbox *sandbox_find(struct engine *engine, const struct engine_caller *caller,
                             struct str id, struct err *err)
{
    loop_assert(engine->loop);
    struct sandbox *sandbox = id_is_valid(id) ? map_get(&engine->sandboxes, id) : NULL;
    if (sandbox != NULL && str_eq(sandbox->info.tenant, caller->tenant))
        return sandbox;
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

int cursor_read(struct str cursor, int64_t *ret_order, struct err *err)
{
    *ret_order = 0;
    if (cursor.len > 0 && !str_to_i64(cursor, 1, INT64_MAX, ret_order))
        return err_set(err, ERR_INVALID, "cursor: not one that a page ended with");
    return 0;
}

void cursor_write(int64_t order, char out[ENGINE_CURSOR_SIZE])
{
    (void)snprintf(out, ENGINE_CURSOR_SIZE, "%lld", (long long)order);
}

size_t page_limit(const struct engine_page *page)
{
    return page->limit == 0 ? ENGINE_PAGE_DEFAULT : MIN(page->limit, (size_t)ENGINE_PAGE_MAX);
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

bool page_has_room(size_t *used, size_t bytes)
{
    enum { PAGE_BYTES_MAX = 4 << 20 }; /* each of which may be six in an answer */
    bool has_room = *used == 0 || *used + bytes <= PAGE_BYTES_MAX;
    *used += bytes;
    return has_room;
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
    if (cursor_read(filter->page.after, &after, err) < 0)
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
            cursor_write(last, list.next);
            break;
        }
        list.items[list.count++] = sandbox->info;
        last = sandbox->ord;
    }
    *ret_list = list;
    return 0;
}

/* --- Waiting for the right moment --- */

/* A verb that waits until the sandbox stands still, or runs. */
struct verb {
    struct want want;
    struct answer *answer;
    void (*run)(struct verb *verb, struct sandbox *sandbox);
    struct engine_quota quota; /* the caller's */
    int64_t timeout_ms;
    char *text;
};

static void verb_ready(struct want *want, struct sandbox *sandbox, const struct err *why)
{
    struct verb *verb = (struct verb *)want;
    if (why != NULL)
        answer_give(verb->answer, why);
    else
        verb->run(verb, sandbox);
    free(verb->text);
    free(verb);
}

static void start(struct answer *answer, const struct engine_caller *caller, struct str id,
                  bool needs_running, void (*run)(struct verb *verb, struct sandbox *sandbox),
                  int64_t timeout_ms, struct str text)
{
    struct err err = {0};
    struct sandbox *sandbox = NULL;
    if (engine_check_caller(answer->engine, caller, &err) == 0)
        sandbox = sandbox_find(answer->engine, caller, id, &err);
    if (sandbox == NULL) {
        answer_give(answer, &err);
        return;
    }
    (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(sandbox->info.id));
    struct verb *verb = mem_alloc(sizeof *verb);
    *verb = (struct verb){.want = {.needs_running = needs_running, .call = verb_ready},
                          .answer = answer,
                          .run = run,
                          .quota = caller->quota,
                          .timeout_ms = timeout_ms};
    verb->text = mem_alloc(text.len + 1);
    if (text.len > 0)
        memcpy(verb->text, text.ptr, text.len);
    sandbox_wait(sandbox, &verb->want);
}

static void refuse_state(struct answer *answer, const struct sandbox *sandbox, const char *verb)
{
    answer_fail(answer, ERR_CONFLICT, "sandbox '%.*s' is %s and cannot be %s",
                STR_ARG(sandbox->info.id), sandbox_state_name(sandbox->info.state), verb);
}

static void refuse_verb(struct answer *answer, const struct sandbox *sandbox, const char *verb)
{
    struct err err = {0};
    (void)engine_unsupported(sandbox->info.tier, verb, &err);
    answer_give(answer, &err);
}

/* --- Moving --- */

static void run_connect(struct verb *verb, struct sandbox *sandbox)
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
        start(answer, caller, id, true, run_connect, timeout_ms, STR(""));
}

static void run_pause(struct verb *verb, struct sandbox *sandbox)
{
    if (sandbox->info.state == SANDBOX_PAUSED)
        answer_give(verb->answer, NULL);
    else if (sandbox->info.state != SANDBOX_RUNNING)
        refuse_state(verb->answer, sandbox, "paused");
    else if (engine_table(sandbox->engine, sandbox->info.tier)->pause == NULL)
        refuse_verb(verb->answer, sandbox, "pause");
    else
        sandbox_begin_pause(sandbox, verb->answer);
}

void engine_sandbox_pause(struct engine *engine, const struct engine_caller *caller, struct str id,
                          sandbox_done *done, void *ctx)
{
    start(answer_sandbox(engine, done, ctx), caller, id, false, run_pause, 0, STR(""));
}

static void run_resume(struct verb *verb, UNUSED struct sandbox *sandbox)
{
    answer_give(verb->answer, NULL);
}

void engine_sandbox_resume(struct engine *engine, const struct engine_caller *caller, struct str id,
                           sandbox_done *done, void *ctx)
{
    start(answer_sandbox(engine, done, ctx), caller, id, true, run_resume, 0, STR(""));
}

static void run_stop(struct verb *verb, struct sandbox *sandbox)
{
    if (sandbox->info.state == SANDBOX_STOPPED)
        answer_give(verb->answer, NULL);
    else
        sandbox_begin_stop(sandbox, "", verb->answer);
}

void engine_sandbox_stop(struct engine *engine, const struct engine_caller *caller, struct str id,
                         sandbox_done *done, void *ctx)
{
    start(answer_sandbox(engine, done, ctx), caller, id, false, run_stop, 0, STR(""));
}

static void run_delete(struct verb *verb, struct sandbox *sandbox)
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
    start(answer_plain(engine, done, ctx), caller, id, false, run_delete, 0, STR(""));
}

/* --- Checkpoints --- */

struct shooting {
    struct sandbox *sandbox;
    struct answer *answer;
    char *name;
};

static const struct checkpoint *checkpoint_of(const struct engine *engine, struct str id)
{
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        VEC_EACH (checkpoint, &sandbox->checkpoints)
            if (str_eq(str_of(checkpoint->id), id))
                return checkpoint;
    }
    return NULL;
}

static void deliver_checkpoint(struct answer *answer, const struct err *why)
{
    struct sandbox_checkpoint shown = {.id = str_of(answer->id)};
    const struct checkpoint *made =
        why == NULL ? checkpoint_of(answer->engine, str_of(answer->id)) : NULL;
    if (made != NULL)
        shown = (struct sandbox_checkpoint){str_of(made->id), str_of(made->name), made->created_ms};
    answer->done.checkpoint(answer->ctx, why == NULL ? &shown : NULL, why);
}

static bool has_checkpoint(struct engine *engine, struct str id)
{
    return checkpoint_of(engine, id) != NULL;
}

static void tell_checkpoint(struct answer *answer, struct str id)
{
    (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(id));
}

static void on_shot(void *ctx, struct str image, int64_t size, const struct err *why)
{
    struct shooting *shooting = ctx;
    struct sandbox *sandbox = shooting->sandbox;
    struct answer *answer = shooting->answer;
    sandbox_end_work(sandbox);
    if (why != NULL) {
        answer_give(answer, why);
    } else {
        char id[ID_SIZE];
        id_new(id);
        sandbox_add_checkpoint(sandbox, str_of(id),
                               shooting->name[0] == '\0' ? str_of(id) : str_of(shooting->name),
                               image, size, clock_date_ms());
        sandbox_forget_image(sandbox);
        sandbox->info.version++;
        struct store_batch *batch = store_begin(sandbox->engine->store);
        sandbox_save(sandbox, batch);
        feed_publish(sandbox->engine, batch, EVENT_SANDBOX_CHECKPOINT, sandbox->info.tenant,
                     str_of(id), sandbox->info.id, "", shooting->name);
        key_keep(answer->claim, str_of(id), batch);
        sandbox_commit(sandbox, batch, STORE_DURABLE, answer);
        memcpy(answer->id, id, sizeof id);
    }
    free(shooting->name);
    free(shooting);
}

static int check_checkpoint(const struct sandbox *sandbox, const struct engine_quota *quota,
                            struct str name, struct err *err)
{
    struct engine_caller caller = {.tenant = sandbox->info.tenant, .quota = *quota};
    if (sandbox->checkpoints.len >= CHECKPOINTS_MAX)
        return err_set(err, ERR_LIMIT, "sandbox '%.*s' has %d checkpoints already",
                       STR_ARG(sandbox->info.id), CHECKPOINTS_MAX);
    VEC_EACH (checkpoint, &sandbox->checkpoints)
        if (str_eq(str_of(checkpoint->name), name))
            return err_set(err, ERR_CONFLICT, "there is a checkpoint '%s' already",
                           checkpoint->name);
    /* How large it becomes is known when it is there. */
    return quota_check_count(sandbox->engine, caller.tenant, QUOTA_CHECKPOINTS, err) < 0
               ? -1
               : quota_check(sandbox->engine, &caller, &(struct engine_quota){.disk_bytes = 1},
                             err);
}

static void run_checkpoint(struct verb *verb, struct sandbox *sandbox)
{
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    struct err err = {0};
    if (table->checkpoint == NULL) {
        refuse_verb(verb->answer, sandbox, "checkpoint");
    } else if (check_checkpoint(sandbox, &verb->quota, str_of(verb->text), &err) < 0) {
        answer_give(verb->answer, &err);
    } else {
        struct shooting *shooting = mem_alloc(sizeof *shooting);
        *shooting = (struct shooting){sandbox, verb->answer, mem_dup_cstr(verb->text)};
        sandbox_begin_work(sandbox);
        table->checkpoint(sandbox->place, on_shot, shooting);
    }
}

void engine_sandbox_checkpoint(struct engine *engine, const struct engine_caller *caller,
                               struct str id, struct str name, checkpoint_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, deliver_checkpoint, ctx);
    struct err err = {0};
    int known = -1;
    answer->done.checkpoint = done;
    if (engine_check_caller(engine, caller, &err) == 0 &&
        engine_check_name(name, "name", &err) == 0)
        known = answer_claim(answer, caller, has_checkpoint, tell_checkpoint, &err);
    if (known < 0)
        answer_give(answer, &err);
    else if (known == 0)
        start(answer, caller, id, true, run_checkpoint, 0, name);
}

/* Its place among the checkpoints, or their number. */
size_t sandbox_find_checkpoint(const struct sandbox *sandbox, struct str name)
{
    for (size_t i = 0; i < sandbox->checkpoints.len; i++)
        if (str_eq(str_of(sandbox->checkpoints.ptr[i].id), name) ||
            str_eq(str_of(sandbox->checkpoints.ptr[i].name), name))
            return i;
    return sandbox->checkpoints.len;
}

struct rolling {
    struct sandbox *sandbox;
    struct answer *answer;
    size_t kept; /* checkpoints */
};

static void on_rolled(void *ctx, const struct err *why)
{
    struct rolling *rolling = ctx;
    struct sandbox *sandbox = rolling->sandbox;
    sandbox_end_work(sandbox);
    if (why != NULL) {
        answer_give(rolling->answer, why);
    } else {
        sandbox_renew_network(sandbox);
        sandbox_cut_checkpoints(sandbox, rolling->kept);
        sandbox_forget_image(sandbox);
        sandbox->info.version++;
        struct store_batch *batch = store_begin(sandbox->engine->store);
        sandbox_save(sandbox, batch);
        feed_publish(sandbox->engine, batch, EVENT_SANDBOX_ROLLBACK, sandbox->info.tenant,
                     sandbox->info.id, sandbox->info.id, "",
                     sandbox->checkpoints.ptr[rolling->kept - 1].name);
        sandbox_commit(sandbox, batch, STORE_DURABLE, rolling->answer);
    }
    free(rolling);
}

static void run_rollback(struct verb *verb, struct sandbox *sandbox)
{
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    size_t at = sandbox_find_checkpoint(sandbox, str_of(verb->text));
    if (table->rollback == NULL) {
        refuse_verb(verb->answer, sandbox, "roll back");
    } else if (at == sandbox->checkpoints.len) {
        answer_fail(verb->answer, ERR_NOT_FOUND, "sandbox '%.*s' has no checkpoint '%s'",
                    STR_ARG(sandbox->info.id), verb->text);
    } else {
        struct rolling *rolling = mem_alloc(sizeof *rolling);
        *rolling = (struct rolling){sandbox, verb->answer, at + 1};
        sandbox_begin_work(sandbox);
        table->rollback(sandbox->place, str_of(sandbox->checkpoints.ptr[at].image), on_rolled,
                        rolling);
    }
}

void engine_sandbox_rollback(struct engine *engine, const struct engine_caller *caller,
                             struct str id, struct str checkpoint, sandbox_done *done, void *ctx)
{
    start(answer_sandbox(engine, done, ctx), caller, id, true, run_rollback, 0, checkpoint);
}
