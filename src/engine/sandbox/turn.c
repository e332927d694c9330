/* Automatic checkpoints: looked for, packed, kept.
 *
 * They count towards the quotas of their tenant: disk is reserved before the files are packed, and
 * one for which there is no room is left out. One is made at a time in a sandbox; calls that come
 * meanwhile wait for it. What goes wrong never stops a call: the reason is noted where the
 * checkpoints are listed, and in the log. */

#include "base/clock.h"
#include "base/crypto/hash.h"
#include "base/format/json.h"
#include "base/id.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/quota.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/turn_internal.h"
#include "store/blobs.h"
#include "store/store.h"

struct turning {
    struct sandbox *sandbox;
    const struct provider_table *table;
    struct want *wants, **last_want;
    char before[32];
    struct files_mark mark;
    void *reader;
    struct buf bytes;
    size_t limit, size, most_turns;
    bool is_too_large;
    struct engine_quota quota;
    struct reservation reservation;
};

/* --- History --- */

void history_done(struct history *history)
{
    vec_done(&history->turns);
    *history = (struct history){0};
}

void history_copy(struct history *to, const struct history *from)
{
    struct history copy = *from;
    copy.turns.ptr = NULL;
    copy.turns.len = copy.turns.cap = 0;
    copy.coming = 0;
    VEC_EACH (turn, &from->turns)
        *vec_push(&copy.turns) = *turn;
    vec_done(&to->turns);
    *to = copy;
}

bool history_mark_is_same(const struct files_mark *a, const struct files_mark *b)
{
    return a->entries == b->entries && a->sum[0] == b->sum[0] && a->sum[1] == b->sum[1];
}

int64_t history_bytes(const struct history *history)
{
    int64_t sum = 0;
    VEC_EACH (turn, &history->turns)
        sum += turn->size_bytes;
    return sum;
}

size_t history_count(const struct history *history)
{
    return history->turns.len + history->coming;
}

size_t history_find(const struct history *history, struct str id)
{
    size_t at = 0;
    while (at < history->turns.len && !str_eq(str_of(history->turns.ptr[at].id), id))
        at++;
    return at;
}

void history_keep_blobs(const struct history *history, struct store_hashes *kept)
{
    VEC_EACH (turn, &history->turns)
        *vec_push(&kept->list) = mem_dup_cstr(turn->blob);
}

/* Sums as text: a number of JSON has no room for them. */
static void put_mark(const struct files_mark *mark, struct json_out *out)
{
    char text[80];
    (void)snprintf(text, sizeof text, "%llu/%llu/%llu", (unsigned long long)mark->entries,
                   (unsigned long long)mark->sum[0], (unsigned long long)mark->sum[1]);
    json_key(out, "mark"), json_put_cstr(out, text);
}

static bool read_mark(const struct json_t *object, struct files_mark *ret_mark)
{
    struct str text = {0};
    unsigned long long n[3];
    char copy[80];
    if (!json_to_str(json_get(object, "mark"), &text) || text.len >= sizeof copy)
        return false;
    (void)snprintf(copy, sizeof copy, "%.*s", STR_ARG(text));
    if (sscanf(copy, "%llu/%llu/%llu", &n[0], &n[1], &n[2]) != 3)
        return false;
    *ret_mark = (struct files_mark){n[0], {n[1], n[2]}};
    return true;
}

void history_put_json(const struct history *history, struct json_out *out)
{
    json_begin_object(out);
    if (history->has_mark)
        put_mark(&history->mark, out);
    if (history->note[0] != '\0') {
        json_key(out, "note"), json_put_cstr(out, history->note);
        json_key(out, "noteMs"), json_put_i64(out, history->note_ms);
    }
    json_key(out, "turns"), json_begin_array(out);
    VEC_EACH (turn, &history->turns) {
        json_begin_object(out);
        json_key(out, "id"), json_put_cstr(out, turn->id);
        json_key(out, "blob"), json_put_cstr(out, turn->blob);
        json_key(out, "before"), json_put_cstr(out, turn->before);
        json_key(out, "createdMs"), json_put_i64(out, turn->created_ms);
        json_key(out, "sizeBytes"), json_put_i64(out, turn->size_bytes);
        put_mark(&turn->mark, out);
        json_end_object(out);
    }
    json_end_array(out);
    json_end_object(out);
}

static void read_turn(struct history *history, const struct json_t *item)
{
    struct turn turn = {0};
    struct str id = {0}, blob = {0}, before = {0};
    if (!json_to_str(json_get(item, "id"), &id) || !json_to_str(json_get(item, "blob"), &blob) ||
        !json_to_str(json_get(item, "before"), &before) ||
        !json_to_i64(json_get(item, "createdMs"), &turn.created_ms) ||
        !json_to_i64(json_get(item, "sizeBytes"), &turn.size_bytes) || !read_mark(item, &turn.mark))
        return;
    (void)snprintf(turn.id, sizeof turn.id, "%.*s", STR_ARG(id));
    (void)snprintf(turn.blob, sizeof turn.blob, "%.*s", STR_ARG(blob));
    (void)snprintf(turn.before, sizeof turn.before, "%.*s", STR_ARG(before));
    *vec_push(&history->turns) = turn;
}

void history_read_json(struct history *history, struct str text)
{
    struct err err = {0};
    struct str note = {0};
    AUTO_JSON struct json_t *object = NULL;
    if (text.len == 0 || json_parse(text, &object, &err) < 0)
        return;
    history->has_mark = read_mark(object, &history->mark);
    if (json_to_str(json_get(object, "note"), &note))
        (void)snprintf(history->note, sizeof history->note, "%.*s", STR_ARG(note));
    (void)!json_to_i64(json_get(object, "noteMs"), &history->note_ms);
    const struct json_t *turns = json_get(object, "turns");
    for (size_t i = 0; i < json_len(turns); i++)
        read_turn(history, json_at(turns, i));
}

/* --- Making one --- */

/* Waiting calls continue, whatever the result. */
static void turn_finish(struct turning *turning)
{
    struct sandbox *sandbox = turning->sandbox;
    struct want *first = turning->wants;
    sandbox->turning = NULL;
    sandbox->history.coming = 0;
    quota_release(&turning->reservation);
    buf_done(&turning->bytes);
    free(turning);
    while (first != NULL) {
        struct want *want = first;
        first = want->next;
        want->changes = NULL;
        sandbox_wait(sandbox, want);
    }
    sandbox_end_work(sandbox);
}

static void note(struct turning *turning, const char *text)
{
    struct history *history = &turning->sandbox->history;
    log_warn("turn.skipped", LOG_VIEW("sandbox", turning->sandbox->info.id),
             LOG_STR("before", turning->before), LOG_STR("error", text));
    (void)snprintf(history->note, sizeof history->note, "no checkpoint before %s: %s",
                   turning->before, text);
    history->note_ms = clock_date_ms();
}

static void turn_save(struct sandbox *sandbox, const struct turn *made)
{
    struct engine *engine = sandbox->engine;
    struct store_batch *batch = store_begin(engine->store);
    sandbox_save(sandbox, batch);
    if (made != NULL)
        feed_publish(engine, batch, EVENT_SANDBOX_CHECKPOINT, sandbox->info.tenant,
                     str_of(made->id), sandbox->info.id, "", made->before);
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

static void turn_fail(struct turning *turning, const struct err *why)
{
    char text[200];
    if (why->code == ERR_TOO_LARGE || turning->is_too_large)
        (void)snprintf(text, sizeof text,
                       TURN_ROOT " holds more than %zu MiB; [sandbox] checkpoint_mb is the limit",
                       turning->limit >> 20);
    else
        (void)snprintf(text, sizeof text, "%.190s", why->msg);
    note(turning, text);
    turn_save(turning->sandbox, NULL);
    turn_finish(turning);
}

/* Takes the place of the oldest when there are as many as are kept. False: it is too much for its
 * tenant, and all is as it was. */
static bool turn_add(struct turning *turning, const struct turn *turn, struct err *err)
{
    struct history *history = &turning->sandbox->history;
    struct history before = {0};
    history_copy(&before, history);
    *vec_push(&history->turns) = *turn;
    while (history->turns.len > turning->most_turns)
        vec_remove(&history->turns, 0);
    history->coming = 0;
    bool fits = quota_settle(&turning->reservation, err) == 0;
    if (!fits)
        history_copy(history, &before);
    history_done(&before);
    return fits;
}

static void on_stored(void *ctx, const char hash[HASH_HEX_SIZE], const struct err *why)
{
    struct turning *turning = ctx;
    struct sandbox *sandbox = turning->sandbox;
    struct history *history = &sandbox->history;
    struct err err = {0};
    if (why != NULL) {
        turn_fail(turning, why);
        return;
    }
    struct turn turn = {
        .created_ms = clock_date_ms(), .size_bytes = (int64_t)turning->size, .mark = turning->mark};
    id_new(turn.id);
    memcpy(turn.blob, hash, sizeof turn.blob);
    memcpy(turn.before, turning->before, sizeof turn.before);
    if (!turn_add(turning, &turn, &err)) {
        turn_fail(turning, &err);
        return;
    }
    history->mark = turning->mark;
    history->has_mark = true;
    history->note[0] = '\0';
    history->note_ms = 0;
    turn_save(sandbox, &turn);
    turn_finish(turning);
}

static void turn_on_head(UNUSED void *ctx, UNUSED const struct file_info *info)
{
}

static void turn_on_data(void *ctx, struct str bytes)
{
    struct turning *turning = ctx;
    struct err err = {0};
    if (!turning->is_too_large && buf_append(&turning->bytes, bytes, &err) < 0)
        turning->is_too_large = true;
}

static void turn_on_end(void *ctx, const struct err *why)
{
    struct turning *turning = ctx;
    struct err err = {0};
    turning->table->reader_free(turning->reader);
    turning->reader = NULL;
    if (why == NULL && turning->is_too_large) {
        (void)err_set(&err, ERR_TOO_LARGE, "too large");
        why = &err;
    }
    if (why != NULL) {
        turn_fail(turning, why);
        return;
    }
    turning->size = turning->bytes.len;
    store_put_blob(turning->sandbox->engine->store, &turning->bytes, on_stored, turning);
}

/* There is room for it, or none. */
static void turn_on_room(void *ctx, const struct err *why)
{
    static const struct file_reader_calls calls = {turn_on_head, turn_on_data, turn_on_end};
    struct turning *turning = ctx;
    struct sandbox *sandbox = turning->sandbox;
    struct err err = {0};
    if (why != NULL) {
        turn_fail(turning, why);
        return;
    }
    struct file_get get = {
        .path = STR(TURN_ROOT), .as_tar = true, .as_kept = true, .limit = turning->limit};
    if (sandbox->place == NULL)
        (void)err_set(&err, ERR_GONE, "the sandbox ended");
    if (sandbox->place == NULL ||
        turning->table->file_get(sandbox->place, &get, &calls, turning, &turning->reader, &err) < 0)
        turn_fail(turning, &err);
}

static void turn_pack(struct turning *turning)
{
    struct sandbox *sandbox = turning->sandbox;
    struct engine *engine = sandbox->engine;
    struct history *history = &sandbox->history;
    struct engine_caller caller = {.tenant = sandbox->info.tenant, .quota = turning->quota};
    struct err err = {0};
    turning->most_turns = (size_t)engine->config->sandbox.checkpoint_count;
    turning->limit = (size_t)engine->config->sandbox.checkpoint_mb << 20;
    size_t most_bytes = turning->limit + turning->limit / 4 + (4 << 20);
    turning->bytes = buf_with_limit(most_bytes);
    if (history->turns.len < turning->most_turns) {
        if (quota_check_count(engine, caller.tenant, QUOTA_CHECKPOINTS, &err) < 0) {
            turn_fail(turning, &err);
            return;
        }
        history->coming = 1;
    }
    quota_reserve(engine, &caller, (int64_t)most_bytes, &turning->reservation, turn_on_room,
                  turning);
}

static void on_marked(void *ctx, const struct files_mark *mark, const struct err *why)
{
    struct turning *turning = ctx;
    struct history *history = &turning->sandbox->history;
    if (why != NULL) {
        turn_fail(turning, why);
        return;
    }
    turning->mark = *mark;
    if (!history->has_mark || history->turns.len == 0 ||
        !history_mark_is_same(mark, &history->mark)) {
        turn_pack(turning);
        return;
    }
    /* The calls since then changed nothing: it is this one's. */
    struct turn *last = vec_last(&history->turns);
    if (strcmp(last->before, turning->before) != 0) {
        memcpy(last->before, turning->before, sizeof last->before);
        turn_save(turning->sandbox, NULL);
    }
    turn_finish(turning);
}

bool turn_before(struct sandbox *sandbox, struct want *want)
{
    const struct provider_table *table = engine_table(sandbox->engine, sandbox->info.tier);
    struct turning *turning = sandbox->turning;
    if (want->changes == NULL || !sandbox->info.has_turns || sandbox->is_helper ||
        table->mark == NULL || sandbox->place == NULL)
        return false;
    bool is_first = turning == NULL;
    if (is_first) {
        turning = sandbox->turning = mem_alloc(sizeof *turning);
        turning->sandbox = sandbox;
        turning->table = table;
        turning->last_want = &turning->wants;
        turning->quota = want->quota;
        (void)snprintf(turning->before, sizeof turning->before, "%s", want->changes);
    }
    want->next = NULL;
    *turning->last_want = want;
    turning->last_want = &want->next;
    if (is_first) {
        sandbox_begin_work(sandbox);
        table->mark(sandbox->place, on_marked, turning);
    }
    return true;
}
