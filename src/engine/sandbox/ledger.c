#include "engine/sandbox/ledger.h"

#include "base/clock.h"
#include "base/format/json.h"
#include "base/map.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "store/store.h"

/* Reported by the next run, in any context. */
#define ANY STR("*")

void ledger_done(struct ledger *ledger)
{
    vec_done(&ledger->entries);
}

void ledger_copy(struct ledger *to, const struct ledger *from)
{
    to->entries.len = 0;
    VEC_EACH (entry, &from->entries)
        *vec_push(&to->entries) = *entry;
}

bool ledger_is_empty(const struct ledger *ledger)
{
    return ledger->entries.len == 0;
}

static struct ledger_entry *ledger_find(const struct ledger *ledger, struct str context)
{
    VEC_EACH (entry, &ledger->entries)
        if (str_eq(str_of(entry->context), context))
            return entry;
    return NULL;
}

static struct ledger_entry *find_or_add(struct ledger *ledger, struct str context)
{
    struct ledger_entry *entry = ledger_find(ledger, context);
    if (entry != NULL)
        return entry;
    if (ledger->entries.len == LEDGER_MAX)
        vec_remove(&ledger->entries, 0);
    entry = vec_push(&ledger->entries);
    *entry = (struct ledger_entry){0};
    (void)snprintf(entry->context, sizeof entry->context, "%.*s", STR_ARG(context));
    return entry;
}

bool ledger_has_state(const struct ledger *ledger, struct str context)
{
    const struct ledger_entry *entry = ledger_find(ledger, context);
    return entry != NULL && entry->has_state;
}

bool ledger_has_any_state(const struct ledger *ledger)
{
    VEC_EACH (entry, &ledger->entries)
        if (entry->has_state)
            return true;
    return false;
}

bool ledger_begin(struct ledger *ledger, struct str context)
{
    struct ledger_entry *entry = find_or_add(ledger, context);
    bool is_new = !entry->has_state;
    entry->has_state = true;
    return is_new;
}

/* Between two runs an interpreter's end is known before its cause is. */
static bool refine(struct ledger_entry *entry, const struct loss *loss)
{
    struct loss *newest = entry->then.reason != LOSS_NONE ? &entry->then : &entry->lost;
    if (loss->reason != LOSS_OUT_OF_MEMORY || newest->reason != LOSS_EXITED)
        return false;
    *newest = *loss;
    return true;
}

static bool lose(struct ledger_entry *entry, const struct loss *loss)
{
    if (!entry->has_state)
        return refine(entry, loss);
    entry->has_state = false;
    if (entry->lost.reason == LOSS_NONE)
        entry->lost = *loss;
    else
        entry->then = *loss;
    return true;
}

bool ledger_lose(struct ledger *ledger, struct str context, const struct loss *loss)
{
    struct ledger_entry *entry = ledger_find(ledger, context);
    return entry != NULL && lose(entry, loss);
}

bool ledger_lose_all(struct ledger *ledger, const struct loss *loss)
{
    bool has_changed = false;
    VEC_EACH (entry, &ledger->entries)
        has_changed |= entry->has_state && lose(entry, loss);
    return has_changed;
}

bool ledger_lose_files(struct ledger *ledger, const struct loss *loss)
{
    VEC_EACH (entry, &ledger->entries) {
        entry->has_state = false;
        entry->lost = *loss;
        entry->then = (struct loss){0};
    }
    if (ledger->entries.len == 0)
        find_or_add(ledger, ANY)->lost = *loss;
    return true;
}

bool ledger_restore(struct ledger *ledger, struct str context)
{
    struct ledger_entry *entry = find_or_add(ledger, context);
    if (entry->has_state)
        return false;
    entry->has_state = true;
    if (entry->then.reason != LOSS_NONE)
        entry->then = (struct loss){0};
    else
        entry->lost = (struct loss){0};
    return true;
}

bool ledger_forget(struct ledger *ledger, struct str context)
{
    struct ledger_entry *entry = ledger_find(ledger, context);
    if (entry == NULL)
        return false;
    vec_remove(&ledger->entries, (size_t)(entry - ledger->entries.ptr));
    return true;
}

bool ledger_tell(struct ledger *ledger, struct str context, bool is_dying, struct loss *ret_loss)
{
    struct ledger_entry *entry = ledger_find(ledger, context), *any = ledger_find(ledger, ANY);
    *ret_loss = (struct loss){0};
    if (any != NULL) {
        *ret_loss = any->lost;
        vec_remove(&ledger->entries, (size_t)(any - ledger->entries.ptr));
        return true;
    }
    if (entry == NULL || entry->lost.reason == LOSS_NONE)
        return false;
    *ret_loss = entry->lost;
    if (is_dying && entry->then.reason == LOSS_NONE)
        return false; /* its own loss: the next run reports it again */
    entry->lost = entry->then;
    entry->then = (struct loss){0};
    return true;
}

/* --- As text --- */

static void put_loss(const char *key, const struct loss *loss, struct json_out *out)
{
    if (loss->reason == LOSS_NONE)
        return;
    json_key(out, key), json_begin_object(out);
    json_key(out, "reason"), json_put_cstr(out, loss_name(loss->reason));
    json_key(out, "atMs"), json_put_i64(out, loss->at_ms);
    json_end_object(out);
}

void ledger_put_json(const struct ledger *ledger, struct json_out *out)
{
    json_begin_array(out);
    VEC_EACH (entry, &ledger->entries) {
        json_begin_object(out);
        json_key(out, "context"), json_put_cstr(out, entry->context);
        json_key(out, "state"), json_put_bool(out, entry->has_state);
        put_loss("lost", &entry->lost, out);
        put_loss("then", &entry->then, out);
        json_end_object(out);
    }
    json_end_array(out);
}

char *ledger_text(const struct ledger *ledger)
{
    AUTO_BUF struct buf text = {0};
    if (ledger_is_empty(ledger))
        return NULL;
    ledger_put_json(ledger, &(struct json_out){.buf = &text});
    return mem_dup_cstr(buf_cstr(&text));
}

static struct loss read_loss(const struct json_t *object)
{
    struct loss loss = {0};
    struct str name = {0};
    if (!json_to_str(json_get(object, "reason"), &name) || !loss_of_name(name, &loss.reason) ||
        !json_to_i64(json_get(object, "atMs"), &loss.at_ms))
        return (struct loss){0};
    return loss;
}

void ledger_read_json(struct ledger *ledger, struct str text)
{
    struct err err = {0};
    AUTO_JSON struct json_t *list = NULL;
    if (text.len == 0 || json_parse(text, &list, &err) < 0)
        return;
    for (size_t i = 0; i < json_len(list); i++) {
        const struct json_t *item = json_at(list, i);
        struct str context = {0};
        if (!json_to_str(json_get(item, "context"), &context) || context.len > LEDGER_CONTEXT_MAX)
            continue;
        struct ledger_entry *entry = find_or_add(ledger, context);
        (void)!json_to_bool(json_get(item, "state"), &entry->has_state);
        entry->lost = read_loss(json_get(item, "lost"));
        entry->then = read_loss(json_get(item, "then"));
    }
}

/* --- Of a sandbox --- */

struct loss ledger_loss_now(enum loss_reason reason)
{
    return (struct loss){reason, clock_date_ms()};
}

/* A sandbox that is moving is saved at the end of its move. */
static void ledger_save(struct sandbox *sandbox, enum store_strength strength)
{
    if (sandbox->is_helper || sandbox_is_moving(sandbox->info.state))
        return;
    struct store_batch *batch = store_begin(sandbox->engine->store);
    sandbox_save(sandbox, batch);
    store_commit(batch, strength, NULL, NULL);
}

void sandbox_ledger_begin(struct sandbox *sandbox, struct str context)
{
    if (ledger_begin(&sandbox->ledger, context))
        ledger_save(sandbox, STORE_QUICK);
}

void sandbox_ledger_lost(struct sandbox *sandbox, struct str context, enum loss_reason reason)
{
    struct loss loss = ledger_loss_now(reason);
    if (reason == LOSS_SANDBOX_ENDED && sandbox->engine->is_stopping)
        loss.reason = LOSS_RESTART;
    if (reason == LOSS_NONE ? ledger_forget(&sandbox->ledger, context)
                            : ledger_lose(&sandbox->ledger, context, &loss))
        ledger_save(sandbox, STORE_LAZY);
}

struct loss sandbox_ledger_tell(struct sandbox *sandbox, struct str context, bool is_dying)
{
    struct loss loss = {0};
    if (ledger_tell(&sandbox->ledger, context, is_dying, &loss))
        ledger_save(sandbox, STORE_LAZY);
    return loss;
}

void ledger_on_begun(struct engine *engine, struct str sandbox_id, struct str context)
{
    struct sandbox *sandbox = map_get(&engine->sandboxes, sandbox_id);
    if (sandbox != NULL)
        sandbox_ledger_begin(sandbox, context);
}

void ledger_on_restored(struct engine *engine, struct str sandbox_id, struct str context)
{
    struct sandbox *sandbox = map_get(&engine->sandboxes, sandbox_id);
    if (sandbox != NULL && ledger_restore(&sandbox->ledger, context))
        ledger_save(sandbox, STORE_QUICK);
}

void ledger_on_lost(struct engine *engine, struct str sandbox_id, struct str context,
                    enum loss_reason reason)
{
    struct sandbox *sandbox = map_get(&engine->sandboxes, sandbox_id);
    if (sandbox != NULL)
        sandbox_ledger_lost(sandbox, context, reason);
}
