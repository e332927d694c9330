/* Checkpoints of a sandbox, and the way back to one. */

#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/quota.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/sandbox_verb.h"
#include "engine/sandbox/variables.h"
#include "store/store.h"

struct shooting {
    struct shooting *next; /* of those of its sandbox */
    struct sandbox *sandbox;
    struct answer *answer;
    char *name;
    bool is_held;                   /* its interpreters take no code */
    struct live_interpreters *live; /* what they held; NULL: not wanted, or nothing */
};

static struct shooting *shooting_new(struct sandbox *sandbox, struct answer *answer,
                                     const char *name)
{
    struct shooting *shooting = mem_alloc(sizeof *shooting);
    *shooting = (struct shooting){.next = sandbox->shootings,
                                  .sandbox = sandbox,
                                  .answer = answer,
                                  .name = mem_dup_cstr(name)};
    sandbox->shootings = shooting;
    sandbox->checkpoints_coming++;
    return shooting;
}

static void shooting_free(struct shooting *shooting)
{
    struct shooting **at = &shooting->sandbox->shootings;
    while (*at != shooting)
        at = &(*at)->next;
    *at = shooting->next;
    shooting->sandbox->checkpoints_coming--;
    if (shooting->live != NULL)
        engine_table(shooting->sandbox->engine, shooting->sandbox->info.tier)
            ->live_free(shooting->live);
    free(shooting->name);
    free(shooting);
}

static const struct checkpoint *checkpoint_of(const struct engine *engine, struct str id,
                                              struct str *ret_skipped)
{
    MAP_EACH (entry, &engine->sandboxes) {
        const struct sandbox *sandbox = entry->value;
        VEC_EACH (checkpoint, &sandbox->checkpoints)
            if (str_eq(str_of(checkpoint->id), id)) {
                *ret_skipped = sandbox->info.skipped;
                return checkpoint;
            }
    }
    return NULL;
}

static void deliver_checkpoint(struct answer *answer, const struct err *why)
{
    struct sandbox_checkpoint shown = {.id = str_of(answer->id)};
    const struct checkpoint *made =
        why == NULL ? checkpoint_of(answer->engine, str_of(answer->id), &shown.skipped) : NULL;
    if (made != NULL)
        shown = (struct sandbox_checkpoint){str_of(made->id), str_of(made->name), made->created_ms,
                                            shown.skipped};
    answer->done.checkpoint(answer->ctx, why == NULL ? &shown : NULL, why);
}

static bool has_checkpoint(struct engine *engine, struct str id)
{
    struct str ignored;
    return checkpoint_of(engine, id, &ignored) != NULL;
}

static void tell_checkpoint(struct answer *answer, struct str id)
{
    (void)snprintf(answer->id, sizeof answer->id, "%.*s", STR_ARG(id));
}

static struct live_interpreters *take_live(struct shooting *shooting)
{
    struct live_interpreters *live = shooting->live;
    shooting->live = NULL;
    return live;
}

static void on_shot(void *ctx, struct str image, int64_t size, const struct err *why)
{
    struct shooting *shooting = ctx;
    struct sandbox *sandbox = shooting->sandbox;
    struct answer *answer = shooting->answer;
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    struct err err = {0};
    char id[ID_SIZE];
    id_new(id);
    if (shooting->is_held && sandbox->place != NULL)
        table->live_release(sandbox->place);
    if (why == NULL) {
        sandbox_add_checkpoint(sandbox, str_of(id),
                               shooting->name[0] == '\0' ? str_of(id) : str_of(shooting->name),
                               image, size, clock_date_ms());
        if (quota_settle(&answer->reservation, &err) < 0) {
            sandbox_cut_checkpoints(sandbox, sandbox->checkpoints.len - 1);
            why = &err;
        }
    }
    if (why != NULL) {
        answer_give(answer, why);
    } else {
        struct checkpoint *made = vec_last(&sandbox->checkpoints);
        made->variables = ledger_text(&sandbox->ledger);
        made->kept =
            variables_keep(sandbox->engine, sandbox, sandbox->info.id, take_live(shooting));
        sandbox_forget_image(sandbox);
        sandbox->info.version++;
        struct store_batch *batch = store_begin(sandbox->engine->store);
        sandbox_save(sandbox, batch);
        feed_publish(sandbox->engine, batch, EVENT_SANDBOX_CHECKPOINT, sandbox->info.tenant,
                     str_of(id), sandbox->info.id, "", shooting->name);
        key_keep(answer->claim, str_of(id), batch);
        /* Files that lie on its disk are synced behind the answer: so is the row. */
        sandbox_commit(sandbox, batch, sandbox->disk[0] != '\0' ? STORE_QUICK : STORE_DURABLE,
                       answer);
        memcpy(answer->id, id, sizeof id);
    }
    shooting_free(shooting);
    sandbox_end_work(sandbox);
}

/* Without the interpreters' memory it is still a checkpoint, unless the place is gone. */
static void on_live(void *ctx, struct live_interpreters *live, const struct err *why)
{
    struct shooting *shooting = ctx;
    struct sandbox *sandbox = shooting->sandbox;
    if (why != NULL && (why->code != ERR_BUSY || sandbox->place == NULL)) {
        on_shot(shooting, (struct str){0}, 0, why);
        return;
    }
    shooting->live = live;
    shooting->is_held = why == NULL;
    engine_table(sandbox->engine, sandbox->info.tier)
        ->checkpoint(sandbox->place, on_shot, shooting);
}

static int check_checkpoint(const struct sandbox *sandbox, struct str name, struct err *err)
{
    if (sandbox->checkpoints.len + sandbox->checkpoints_coming >= CHECKPOINTS_MAX)
        return err_set(err, ERR_LIMIT,
                       "sandbox '%.*s' already has %d checkpoints, the most allowed",
                       STR_ARG(sandbox->info.id), CHECKPOINTS_MAX);
    VEC_EACH (checkpoint, &sandbox->checkpoints)
        if (str_eq(str_of(checkpoint->name), name))
            return err_set(err, ERR_CONFLICT, "checkpoint '%s' already exists", checkpoint->name);
    for (const struct shooting *other = sandbox->shootings; other != NULL; other = other->next)
        if (name.len > 0 && str_eq(str_of(other->name), name))
            return err_set(err, ERR_CONFLICT, "checkpoint '%s' is already being made", other->name);
    return quota_check_count(sandbox->engine, sandbox->info.tenant, QUOTA_CHECKPOINTS, err);
}

static void run_checkpoint(struct sandbox_verb *verb, struct sandbox *sandbox)
{
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    struct err err = {0};
    if (table->checkpoint == NULL) {
        sandbox_verb_refuse(verb->answer, sandbox, "checkpoint");
    } else if (check_checkpoint(sandbox, str_of(verb->text), &err) < 0) {
        answer_give(verb->answer, &err);
    } else {
        struct shooting *shooting = shooting_new(sandbox, verb->answer, verb->text);
        sandbox_begin_work(sandbox);
        if (variables_are_wanted(sandbox))
            variables_take(sandbox, on_live, shooting);
        else
            table->checkpoint(sandbox->place, on_shot, shooting);
    }
}

/* A checkpoint that waits for room on the disk. */
struct asking {
    struct answer *answer;
    struct arena arena;
    struct engine_caller caller;
    struct str id, name;
};

static void sandbox_checkpoint_on_room(void *ctx, const struct err *why)
{
    struct asking *asking = ctx;
    if (why != NULL)
        answer_give(asking->answer, why);
    else
        sandbox_verb_start(asking->answer, &asking->caller, asking->id, true, run_checkpoint, 0,
                           asking->name);
    arena_done(&asking->arena);
    free(asking);
}

static void ask_room(struct answer *answer, const struct engine_caller *caller,
                     const struct sandbox *sandbox, struct str name)
{
    struct asking *asking = mem_alloc(sizeof *asking);
    asking->answer = answer;
    asking->caller.tenant = arena_dup(&asking->arena, caller->tenant);
    asking->id = arena_dup(&asking->arena, sandbox->info.id);
    asking->name = arena_dup(&asking->arena, name);
    quota_reserve(answer->engine, caller, sandbox->info.limits.disk_bytes, &answer->reservation,
                  sandbox_checkpoint_on_room, asking);
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
    const struct sandbox *sandbox = known == 0 ? sandbox_find(engine, caller, id, &err) : NULL;
    if (sandbox != NULL)
        ask_room(answer, caller, sandbox, name);
    else if (known <= 0)
        answer_give(answer, &err);
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
    char disk[ID_SIZE];
    struct place *place;            /* that was rolled back */
    struct live_interpreters *live; /* what its interpreters held then; NULL: not kept */
};

/* The image of an isolate has the variables of its time; interpreters of a jail that come back say
 * so afterwards. */
static void roll_variables(struct sandbox *sandbox, const struct checkpoint *to)
{
    struct loss loss = ledger_loss_now(LOSS_ROLLBACK);
    AUTO_LEDGER struct ledger then = {0};
    if (to->variables != NULL)
        ledger_read_json(&then, str_of(to->variables));
    if (sandbox->info.tier != ENGINE_TIER_ISOLATE || !ledger_has_state(&then, STR("")))
        (void)ledger_lose_all(&sandbox->ledger, &loss);
}

static void rolling_free(struct rolling *rolling)
{
    struct sandbox *sandbox = rolling->sandbox;
    if (rolling->live != NULL)
        engine_table(sandbox->engine, sandbox->info.tier)->live_free(rolling->live);
    sandbox->is_rolling = false;
    sandbox_end_work(sandbox);
    free(rolling);
}

/* The interpreters were restored, or start again empty: the ledger knows which. */
static void on_restored(void *ctx, UNUSED const struct err *why)
{
    struct rolling *rolling = ctx;
    struct sandbox *sandbox = rolling->sandbox;
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    if (table->live_release != NULL && sandbox->place == rolling->place)
        table->live_release(rolling->place);
    if (sandbox->hold.is_freed) {
        answer_fail(rolling->answer, ERR_GONE, "the sandbox was deleted");
    } else {
        struct store_batch *batch = store_begin(sandbox->engine->store);
        sandbox_save(sandbox, batch);
        sandbox_commit(sandbox, batch, STORE_DURABLE, rolling->answer);
    }
    rolling_free(rolling);
}

static void on_renewed(void *ctx, UNUSED const struct err *why)
{
    struct rolling *rolling = ctx;
    struct sandbox *sandbox = rolling->sandbox;
    if (rolling->live != NULL && sandbox->place != NULL && sandbox->place == rolling->place)
        engine_table(sandbox->engine, sandbox->info.tier)
            ->live_restore(rolling->place, rolling->live, on_restored, rolling);
    else
        on_restored(rolling, NULL);
}

static void on_rolled(void *ctx, const struct err *why)
{
    struct rolling *rolling = ctx;
    struct sandbox *sandbox = rolling->sandbox;
    if (why != NULL) {
        answer_give(rolling->answer, why);
        rolling_free(rolling);
        return;
    }
    roll_variables(sandbox, &sandbox->checkpoints.ptr[rolling->kept - 1]);
    sandbox_cut_checkpoints(sandbox, rolling->kept);
    sandbox_forget_image(sandbox);
    sandbox->info.version++;
    struct store_batch *batch = store_begin(sandbox->engine->store);
    sandbox_save(sandbox, batch);
    feed_publish(sandbox->engine, batch, EVENT_SANDBOX_ROLLBACK, sandbox->info.tenant,
                 sandbox->info.id, sandbox->info.id, "",
                 sandbox->checkpoints.ptr[rolling->kept - 1].name);
    sandbox_commit(sandbox, batch, sandbox->disk[0] != '\0' ? STORE_QUICK : STORE_DURABLE, NULL);
    sandbox_renew_network(sandbox, on_renewed, rolling);
}

static void run_rollback(struct sandbox_verb *verb, struct sandbox *sandbox)
{
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    size_t at = sandbox_find_checkpoint(sandbox, str_of(verb->text));
    if (table->rollback == NULL) {
        sandbox_verb_refuse(verb->answer, sandbox, "roll back");
    } else if (at == sandbox->checkpoints.len) {
        answer_fail(verb->answer, ERR_NOT_FOUND, "sandbox '%.*s' has no checkpoint '%s'",
                    STR_ARG(sandbox->info.id), verb->text);
    } else if (sandbox->is_rolling) {
        answer_fail(verb->answer, ERR_BUSY, "the sandbox is already being rolled back");
    } else {
        struct rolling *rolling = mem_alloc(sizeof *rolling);
        *rolling = (struct rolling){.sandbox = sandbox,
                                    .answer = verb->answer,
                                    .kept = at + 1,
                                    .place = sandbox->place,
                                    .live = variables_use(sandbox->checkpoints.ptr[at].kept)};
        if (sandbox->disk[0] != '\0')
            id_new(rolling->disk);
        sandbox->is_rolling = true;
        sandbox_begin_work(sandbox);
        table->rollback(sandbox->place, str_of(sandbox->checkpoints.ptr[at].image),
                        str_of(rolling->disk), on_rolled, rolling);
    }
}

void engine_sandbox_rollback(struct engine *engine, const struct engine_caller *caller,
                             struct str id, struct str checkpoint, sandbox_done *done, void *ctx)
{
    sandbox_verb_start(answer_sandbox(engine, done, ctx), caller, id, true, run_rollback, 0,
                       checkpoint);
}
