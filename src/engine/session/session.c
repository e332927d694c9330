/* Sessions: their table, making and looking. What becomes of their sandboxes: session_life.c. */

#include "engine/session/session.h"

#include "base/clock.h"
#include "base/format/json.h"
#include "base/id.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/answer.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/key.h"
#include "engine/keyring.h"
#include "engine/page.h"
#include "engine/quota.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/spec.h"
#include "engine/sandbox/turn_internal.h"
#include "engine/sandbox/variables.h"
#include "engine/session/session_internal.h"
#include "engine/volume/volume_internal.h"
#include "store/store.h"

const char *session_state_name(enum session_state state)
{
    return state == SESSION_ACTIVE ? "active" : "dormant";
}

/* --- The table --- */

/* Ids are the tenants' own choice: the table knows them with the tenant before. */
static void put_row_id(struct str tenant, struct str id, struct buf *out)
{
    buf_put(out, tenant);
    buf_put_char(out, '\n');
    buf_put(out, id);
}

struct session *session_find(struct engine *engine, struct str tenant, struct str id,
                             struct err *err)
{
    loop_assert(engine->loop);
    AUTO_BUF struct buf key = {0};
    put_row_id(tenant, id, &key);
    struct session *session = id_is_valid(id) ? map_get(&engine->sessions, buf_str(&key)) : NULL;
    if (session == NULL || session->is_deleting) {
        (void)err_set(err, ERR_NOT_FOUND, "no session '%.*s'", (int)MIN(id.len, (size_t)64),
                      id.ptr == NULL ? "" : id.ptr);
        return NULL;
    }
    return session;
}

/* Or by its name, if only one has that. */
static struct session *find_named(struct engine *engine, struct str tenant, struct str id,
                                  struct err *err)
{
    AUTO_BUF struct buf ids = {0};
    size_t count = 0;
    struct session *found = session_find(engine, tenant, id, err), *session = NULL;
    if (found != NULL || id.len == 0)
        return found;
    MAP_EACH (entry, &engine->sessions) {
        session = entry->value;
        if (!str_eq(session->info.name, id) || !str_eq(session->info.tenant, tenant) ||
            session->is_deleting)
            continue;
        found = session;
        buf_printf(&ids, "%s%.*s", ++count > 1 ? ", " : "", STR_ARG(session->info.id));
    }
    if (count <= 1)
        return found;
    (void)err_set(err, ERR_CONFLICT, "%zu sessions are named '%.*s'; use an id: %.*s", count,
                  (int)MIN(id.len, (size_t)64), id.ptr, (int)MIN(ids.len, (size_t)140), ids.ptr);
    return NULL;
}

struct session *session_of_caller(struct engine *engine, const struct engine_caller *caller,
                                  struct str id, struct err *err)
{
    if (engine_check_caller(engine, caller, err) < 0)
        return NULL;
    struct session *session = find_named(engine, caller->tenant, id, err);
    if (session != NULL)
        session->quota = caller->quota;
    return session;
}

struct session *session_new(struct engine *engine, struct str tenant, struct str id,
                            struct str name)
{
    struct session *session = mem_alloc(sizeof *session);
    AUTO_BUF struct buf key = {0};
    put_row_id(tenant, id, &key);
    session->engine = engine;
    session->row_id = arena_dup(&session->arena, buf_str(&key));
    session->info.id = arena_dup(&session->arena, id);
    session->info.tenant = arena_dup(&session->arena, tenant);
    session->info.name = arena_dup(&session->arena, name);
    (void)map_put(&engine->sessions, session->row_id, session);
    return session;
}

struct session *session_free(struct session *session)
{
    if (session == NULL)
        return NULL;
    MAP_EACH (entry, &session->modules)
        (void)session_module_free(entry->value);
    map_done(&session->modules);
    (void)timer_free(session->packages_timer);
    (void)variables_free(session->kept);
    ledger_done(&session->ledger);
    history_done(&session->history);
    arena_done(&session->arena);
    free(session);
    return NULL;
}

void session_done_all(struct engine *engine)
{
    MAP_EACH (entry, &engine->sessions)
        (void)session_free(entry->value);
    map_done(&engine->sessions);
}

void session_save(const struct session *session, struct store_batch *batch)
{
    AUTO_BUF struct buf spec = {0}, variables = {0}, turns = {0};
    const struct session_info *info = &session->info;
    if (!ledger_is_empty(&session->ledger))
        ledger_put_json(&session->ledger, &(struct json_out){.buf = &variables});
    if (session->history.turns.len > 0)
        history_put_json(&session->history, &(struct json_out){.buf = &turns});
    spec_put_json(&session->spec, &(struct json_out){.buf = &spec});
    store_put(batch, &store_sessions,
              &(struct store_session){
                  .id = session->row_id,
                  .tenant = info->tenant,
                  .session = info->id,
                  .ord = session->ord,
                  .name = info->name,
                  .sandbox = str_of(session->sandbox),
                  .volume = str_of(session->volume),
                  .spec = buf_str(&spec),
                  .warm = info->warm,
                  .idle_ms = info->idle_ms,
                  .created_ms = info->created_ms,
                  .active_ms = info->active_ms,
                  .volume_expired_ms = info->volume_expired_ms,
                  .variables = buf_str(&variables),
                  .turns = buf_str(&turns),
                  .volume_ttl_ms = session->volume_ttl_ms,
              });
}

/* Of its volume, or of the one that it will have. */
static void view_volume(const struct session *session, struct session_info *info)
{
    struct err none;
    const struct volume *volume =
        session->volume[0] == '\0'
            ? NULL
            : volume_find(session->engine, info->tenant, str_of(session->volume), &none);
    if (volume != NULL) {
        struct volume_info kept = volume_view(volume);
        info->volume_ttl_ms = kept.ttl_ms;
        info->volume_expires_ms = kept.expires_ms;
    } else {
        info->volume_ttl_ms = session_volume_ttl(session);
    }
}

int64_t session_volume_ttl(const struct session *session)
{
    return session->volume_ttl_ms == -1 ? 0
           : session->volume_ttl_ms != 0
               ? session->volume_ttl_ms
               : session->engine->config->sandbox.volume_ttl_minutes * 60000;
}

static struct session_info view(const struct session *session)
{
    struct session_info info = session->info;
    view_volume(session, &info);
    info.sandbox = str_of(session->sandbox);
    info.volume = str_of(session->volume);
    info.runtime = session->spec.runtime;
    info.region = session->engine->config->sandbox.region;
    return info;
}

/* --- Looking --- */

int engine_session_get(struct engine *engine, const struct engine_caller *caller, struct str id,
                       struct session_info *ret_session, struct err *err)
{
    const struct session *session = find_named(engine, caller->tenant, id, err);
    if (session == NULL)
        return -1;
    *ret_session = view(session);
    return 0;
}

int engine_session_list(struct engine *engine, const struct engine_caller *caller,
                        const struct engine_page *page, struct arena *arena,
                        struct session_list *ret_list, struct err *err)
{
    loop_assert(engine->loop);
    struct session_list list = {0};
    int64_t after = 0, last = 0;
    size_t limit = page_limit(page);
    if (page_cursor_read(page->after, &after, err) < 0)
        return -1;
    list.items = arena_array(arena, struct session_info, MIN(limit, engine->sessions.len + 1));
    MAP_EACH (entry, &engine->sessions) {
        const struct session *session = entry->value;
        if (session->ord <= after || !str_eq(session->info.tenant, caller->tenant))
            continue;
        if (list.count == limit) {
            page_cursor_write(last, list.next);
            break;
        }
        list.items[list.count++] = view(session);
        last = session->ord;
    }
    *ret_list = list;
    return 0;
}

static void deliver(struct answer *answer, const struct err *why)
{
    struct err gone = {0};
    const struct session *session = NULL;
    MAP_EACH (entry, &answer->engine->sessions) {
        const struct session *each = entry->value;
        if ((uint64_t)each->ord == answer->number)
            session = each;
    }
    if (why == NULL && session == NULL) {
        (void)err_set(&gone, ERR_NOT_FOUND, "the session no longer exists");
        why = &gone;
    }
    struct session_info info = {0};
    if (session != NULL)
        info = view(session);
    answer->done.session(answer->ctx, why == NULL ? &info : NULL, why);
}

struct answer *session_answer(struct engine *engine, session_done *done, void *ctx)
{
    struct answer *answer = answer_new(engine, deliver, ctx);
    answer->done.session = done;
    return answer;
}

/* --- Making --- */

struct warming {
    struct session_want want;
    struct answer *answer;
};

static void answer_warm(struct session_want *want, UNUSED struct sandbox *sandbox,
                        const struct err *why)
{
    struct warming *warming = (struct warming *)want;
    answer_give(warming->answer, why);
    free(warming);
}

/* Nothing was made: the key may be used again. */
static void forget_key(const struct session *session)
{
    struct store_batch *batch = store_begin(session->engine->store);
    key_forget(session->engine, session->info.tenant, session->info.id, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

static void created(void *ctx, const struct err *why)
{
    struct answer *answer = ctx;
    struct session *session = NULL;
    MAP_EACH (entry, &answer->engine->sessions)
        if ((uint64_t)((struct session *)entry->value)->ord == answer->number)
            session = entry->value;
    if (why != NULL || session == NULL || !session->info.warm) {
        if (why != NULL && session != NULL) {
            forget_key(session);
            (void)map_remove(&answer->engine->sessions, session->row_id);
            (void)session_free(session);
        }
        answer_give(answer, why);
        return;
    }
    struct warming *warming = mem_alloc(sizeof *warming);
    *warming = (struct warming){.want = {.call = answer_warm}, .answer = answer};
    session_use(session, &warming->want);
}

static int check_spec(struct engine *engine, const struct engine_caller *caller,
                      const struct session_spec *spec, struct err *err)
{
    AUTO_BUF struct buf key = {0};
    struct sandbox_spec sandbox = spec->sandbox;
    sandbox.runtime = session_runtime(engine, &sandbox);
    put_row_id(caller->tenant, spec->id, &key);
    if (engine_check_caller(engine, caller, err) < 0 ||
        engine_check_name(spec->name, "name", err) < 0 ||
        spec_check(engine, caller, &sandbox, err) < 0 ||
        spec_check_time(spec->idle_ms, "idleMs", err) < 0 ||
        spec_check_time(MIN(spec->volume_ttl_ms, (int64_t)86400000), "volumeTtlMs", err) < 0)
        return -1;
    if (spec->id.len > 0 && !id_is_valid(spec->id))
        return err_set(err, ERR_INVALID,
                       "id: must have 8 to 64 lower-case letters, digits, '-' and '_'");
    if (map_has(&engine->sessions, buf_str(&key)))
        return err_set(err, ERR_CONFLICT, "session '%.*s' already exists", STR_ARG(spec->id));
    return quota_check_count(engine, caller->tenant, QUOTA_SESSIONS, err);
}

static int dup_spec(struct session *session, const struct sandbox_spec *spec, struct err *err)
{
    struct arena *arena = &session->arena;
    session->spec = *spec;
    session->spec.runtime = arena_dup(arena, spec->runtime);
    session->spec.name = arena_dup(arena, spec->name);
    session->spec.network = arena_dup(arena, spec->network);
    session->spec.volume = (struct str){0};
    session->spec.env = pairs_dup(&spec->env, arena);
    session->spec.metadata = pairs_dup(&spec->metadata, arena);
    session->spec.snapshots = spec_dup_texts(spec->snapshots, spec->snapshot_count, arena);
    session->spec.requirements = spec_dup_texts(spec->requirements, spec->requirement_count, arena);
    return keyring_keep(session->engine, session->info.tenant, &spec->secrets, NULL, arena,
                        &session->spec.secrets, err);
}

/* 1 when the answer will be sent: after the commit of the session that the first call has created,
 * which may still be in progress. */
static int give_known(struct engine *engine, const struct engine_caller *caller,
                      struct answer *answer, struct err *err)
{
    struct str first = {0};
    struct err gone = {0};
    if (engine_check_caller(engine, caller, err) < 0)
        return -1;
    int known = key_find(engine, caller, &first, err);
    const struct session *session =
        known > 0 ? session_find(engine, caller->tenant, first, &gone) : NULL;
    if (session == NULL)
        return MIN(known, 0);
    answer->number = (uint64_t)session->ord;
    store_commit(store_begin(engine->store), STORE_DURABLE, created, answer);
    return 1;
}

void engine_session_create(struct engine *engine, const struct engine_caller *caller,
                           const struct session_spec *spec, session_done *done, void *ctx)
{
    const struct config_sandbox *config = &engine->config->sandbox;
    struct answer *answer = session_answer(engine, done, ctx);
    struct err err = {0};
    char id[ID_SIZE];
    int known = give_known(engine, caller, answer, &err);
    if (known > 0)
        return;
    if (known < 0 || check_spec(engine, caller, spec, &err) < 0) {
        answer_give(answer, &err);
        return;
    }
    id_new(id);
    struct session *session =
        session_new(engine, caller->tenant, spec->id.len > 0 ? spec->id : str_of(id), spec->name);
    if (dup_spec(session, &spec->sandbox, &err) < 0) {
        (void)map_remove(&engine->sessions, session->row_id);
        (void)session_free(session);
        answer_give(answer, &err);
        return;
    }
    session->quota = caller->quota;
    session->spec.tier = spec_tier(engine, spec->sandbox.tier);
    session->spec.runtime = arena_dup(&session->arena, session_runtime(engine, &spec->sandbox));
    session->info.tier = session->spec.tier;
    session->info.warm = spec->warm || config->mode == CONFIG_MODE_WARM;
    session->info.idle_ms = spec->idle_ms == -1  ? 0
                            : spec->idle_ms != 0 ? spec->idle_ms
                                                 : config->idle_seconds * 1000;
    session->volume_ttl_ms = spec->volume_ttl_ms;
    session->info.created_ms = session->info.active_ms = clock_date_ms();
    session->ord = engine_order(engine);
    answer->number = (uint64_t)session->ord;
    struct store_batch *batch = store_begin(engine->store);
    session_save(session, batch);
    key_remember(engine, caller, session->info.id, batch);
    feed_publish(engine, batch, EVENT_SESSION_CREATED, session->info.tenant, session->info.id,
                 (struct str){0}, "", "");
    store_commit(batch, STORE_DURABLE, created, answer);
}

/* --- News --- */

static struct session *owner_of(struct engine *engine, struct str tenant, struct str id)
{
    struct err err = {0};
    return id.len == 0 ? NULL : session_find(engine, tenant, id, &err);
}

void session_keep_ledger(struct session *session, struct sandbox *sandbox, enum loss_reason reason)
{
    struct loss loss = ledger_loss_now(reason);
    (void)ledger_lose_all(&sandbox->ledger, &loss);
    ledger_copy(&session->ledger, &sandbox->ledger);
    history_copy(&session->history, &sandbox->history);
}

/* One that was interrupted comes back by itself at the next use. */
void session_sandbox_ended(struct engine *engine, struct sandbox *sandbox,
                           struct store_batch *batch)
{
    struct session *session = owner_of(engine, sandbox->info.tenant, sandbox->info.session);
    if (session == NULL || !str_eq(str_of(session->sandbox), sandbox->info.id) ||
        session->is_resting) /* the operation that closes it handles this */
        return;
    if (sandbox->info.state != SANDBOX_INTERRUPTED) {
        session->sandbox[0] = '\0';
        session_keep_ledger(session, sandbox, LOSS_SANDBOX_ENDED);
    }
    session->info.state = SESSION_DORMANT;
    session_save(session, batch);
}

/* Its code modules go with it. A volume that expired is remembered until a run reports it. */
void session_volume_gone(struct engine *engine, const struct volume_info *volume, bool has_expired,
                         struct store_batch *batch)
{
    struct session *session = owner_of(engine, volume->tenant, volume->session);
    if (session == NULL || !str_eq(str_of(session->volume), volume->id))
        return;
    session->volume[0] = '\0';
    session->kept = variables_free(session->kept);
    struct loss loss = ledger_loss_now(has_expired ? LOSS_VOLUME_EXPIRED : LOSS_VOLUME_DELETED);
    if (has_expired)
        session->info.volume_expired_ms = loss.at_ms;
    struct sandbox *sandbox = map_get(&engine->sandboxes, str_of(session->sandbox));
    history_done(sandbox != NULL ? &sandbox->history : &session->history);
    (void)ledger_lose_files(sandbox != NULL ? &sandbox->ledger : &session->ledger, &loss);
    if (sandbox != NULL)
        sandbox_save(sandbox, batch);
    docs_remove_modules(session);
    MAP_EACH (entry, &session->modules) {
        session_module_remove_row(session, entry->key, batch);
        (void)session_module_free(map_remove(&session->modules, entry->key));
    }
    session_save(session, batch);
}

void session_told_expired(const struct sandbox *sandbox)
{
    struct session *session =
        owner_of(sandbox->engine, sandbox->info.tenant, sandbox->info.session);
    if (session != NULL)
        (void)session_take_expired(session);
}

int64_t session_take_expired(struct session *session)
{
    int64_t when_ms = session->info.volume_expired_ms;
    if (when_ms == 0)
        return 0;
    session->info.volume_expired_ms = 0;
    struct store_batch *batch = store_begin(session->engine->store);
    session_save(session, batch);
    store_commit(batch, STORE_QUICK, NULL, NULL);
    return when_ms;
}
