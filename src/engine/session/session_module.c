/* Code that a session keeps, and sessions as rows of the store. */

#include "base/clock.h"
#include "base/format/json.h"
#include "base/map.h"
#include "engine/answer.h"
#include "engine/file/file.h"
#include "engine/internal.h"
#include "engine/sandbox/ledger.h"
#include "engine/sandbox/spec.h"
#include "engine/sandbox/turn_internal.h"
#include "engine/session/session_internal.h"
#include "store/store.h"

struct session_module *session_module_free(struct session_module *module)
{
    if (module != NULL) {
        free(module->source);
        arena_done(&module->arena);
        free(module);
    }
    return NULL;
}

static struct session_module *put_module(struct session *session, struct str path,
                                         const struct store_module *row)
{
    struct session_module *module = mem_alloc(sizeof *module);
    module->source = mem_alloc(row->source.len + 1);
    if (row->source.len > 0)
        memcpy(module->source, row->source.ptr, row->source.len);
    module->len = row->source.len;
    module->description = arena_dup(&module->arena, row->description);
    module->exports = arena_dup(&module->arena, row->exports);
    module->usage = arena_dup(&module->arena, row->usage);
    module->scope = arena_dup(&module->arena, row->scope.len > 0 ? row->scope : STR("session"));
    module->in_volume = row->in_volume != 0;
    module->updated_ms = row->updated_ms;
    (void)session_module_free(map_put(&session->modules, path, module));
    return module;
}

static void put_row_id(const struct session *session, struct str path, struct buf *out)
{
    buf_put(out, session->row_id);
    buf_put_char(out, '\n');
    buf_put(out, path);
}

void session_module_remove_row(const struct session *session, struct str path,
                               struct store_batch *batch)
{
    AUTO_BUF struct buf id = {0};
    put_row_id(session, path, &id);
    store_remove(batch, &store_code_modules, buf_str(&id));
}

/* --- Verbs --- */

static void session_module_on_saved(void *ctx, const struct err *why)
{
    answer_give(ctx, why);
}

static size_t size_without(const struct session *session, struct str path)
{
    size_t size = 0;
    MAP_EACH (entry, &session->modules) {
        const struct session_module *module = entry->value;
        size += str_eq(entry->key, path) ? 0 : module->len;
    }
    return size;
}

static int check(const struct session *session, struct str path, struct str source, struct err *err)
{
    if (path.len == 0 || path.len > 255 || !str_is_utf8(path) ||
        str_find_char(path, '\0') != path.len || str_find_char(path, '\n') != path.len ||
        path.ptr[0] == '/' || str_find(path, STR("..")) != path.len)
        return err_set(err, ERR_INVALID,
                       "path: must be a relative path such as 'lib/util.js' of at most 255 bytes");
    if (source.len > MODULE_SOURCE_MAX)
        return err_set(err, ERR_TOO_LARGE, "source: more than %d bytes", MODULE_SOURCE_MAX);
    if (!str_is_utf8(source))
        return err_set(err, ERR_INVALID, "source: not UTF-8");
    if (session->modules.len >= MODULES_PER_SESSION && !map_has(&session->modules, path))
        return err_set(err, ERR_LIMIT, "a session keeps at most %d modules: delete one",
                       MODULES_PER_SESSION);
    if (size_without(session, path) + source.len > MODULES_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "a session keeps at most %d MiB of modules: delete one",
                       MODULES_BYTES_MAX >> 20);
    return 0;
}

static int check_about(const struct module_spec *spec, struct err *err)
{
    if (spec->description.len > MODULE_TEXT_MAX || spec->usage.len > MODULE_TEXT_MAX)
        return err_set(err, ERR_TOO_LARGE, "description, usage: more than %d bytes",
                       MODULE_TEXT_MAX);
    if (!str_is_utf8(spec->description) || !str_is_utf8(spec->usage))
        return err_set(err, ERR_INVALID, "description, usage: not UTF-8");
    if (spec->export_count > MODULE_EXPORTS_MAX)
        return err_set(err, ERR_TOO_LARGE, "exports: more than %d", MODULE_EXPORTS_MAX);
    for (size_t i = 0; i < spec->export_count; i++)
        if (spec->exports[i].len > MODULE_EXPORT_NAME_MAX || !str_is_utf8(spec->exports[i]))
            return err_set(err, ERR_INVALID, "exports: a name has at most %d bytes of UTF-8",
                           MODULE_EXPORT_NAME_MAX);
    if (spec->scope.len > 0 && !str_eq(spec->scope, STR("session")) &&
        !str_eq(spec->scope, STR("user")))
        return err_set(err, ERR_INVALID, "scope: must be session or user");
    return 0;
}

/* A module that is being saved; of a file, once it is known that the file exists. */
struct saving {
    struct answer *answer;
    struct engine *engine;
    struct arena arena;
    struct str tenant, session;
    struct store_module row; /* without id and session */
};

static void saving_free(struct saving *saving)
{
    arena_done(&saving->arena);
    free(saving);
}

static void save(struct saving *saving, struct session *session)
{
    AUTO_BUF struct buf id = {0};
    struct store_module *row = &saving->row;
    row->updated_ms = clock_date_ms();
    struct session_module *module = put_module(session, row->path, row);
    put_row_id(session, row->path, &id);
    row->id = buf_str(&id);
    row->session = session->row_id;
    struct store_batch *batch = store_begin(saving->engine->store);
    store_put(batch, &store_code_modules, row);
    store_commit(batch, STORE_DURABLE, session_module_on_saved, saving->answer);
    docs_put_module(session, row->path, module);
    saving_free(saving);
}

static void session_module_on_stat(void *ctx, const struct file_answer *found,
                                   const struct err *why)
{
    struct saving *saving = ctx;
    struct err err = {0};
    struct session *session = NULL;
    if (why != NULL && why->code == ERR_NOT_FOUND)
        (void)err_set(&err, ERR_NOT_FOUND,
                      "the session has no file '/workspace/%.*s': write it first, or give source",
                      STR_ARG(saving->row.path));
    else if (why != NULL)
        err = *why;
    else if (found->info.type != FILE_REGULAR)
        (void)err_set(&err, ERR_NOT_A_FILE, "'/workspace/%.*s' is not a file",
                      STR_ARG(saving->row.path));
    else
        session = session_find(saving->engine, saving->tenant, saving->session, &err);
    if (session != NULL) {
        save(saving, session);
        return;
    }
    answer_give(saving->answer, &err);
    saving_free(saving);
}

static struct saving *saving_of(struct engine *engine, const struct engine_caller *caller,
                                struct str session_id, const struct module_spec *spec,
                                struct answer *answer)
{
    struct saving *saving = mem_alloc(sizeof *saving);
    struct arena *arena = &saving->arena;
    AUTO_BUF struct buf exports = {0};
    struct json_out out = {.buf = &exports};
    json_put_texts(&out, spec->exports, spec->export_count);
    saving->answer = answer;
    saving->engine = engine;
    saving->tenant = arena_dup(arena, caller->tenant);
    saving->session = arena_dup(arena, session_id);
    saving->row = (struct store_module){
        .path = arena_dup(arena, spec->path),
        .source = arena_dup(arena, spec->source),
        .description = arena_dup(arena, spec->description),
        .exports = spec->export_count == 0 ? (struct str){0} : arena_dup(arena, buf_str(&exports)),
        .usage = arena_dup(arena, spec->usage),
        .scope = arena_dup(arena, spec->scope),
        .in_volume = spec->in_volume,
    };
    return saving;
}

void engine_module_put(struct engine *engine, const struct engine_caller *caller,
                       struct str session_id, const struct module_spec *spec, engine_done *done,
                       void *ctx)
{
    struct answer *answer = answer_plain(engine, done, ctx);
    struct err err = {0};
    struct session *session = session_of_caller(engine, caller, session_id, &err);
    if (session == NULL || check(session, spec->path, spec->source, &err) < 0 ||
        check_about(spec, &err) < 0) {
        answer_give(answer, &err);
        return;
    }
    struct saving *saving = saving_of(engine, caller, session_id, spec, answer);
    if (!spec->in_volume) {
        save(saving, session);
        return;
    }
    struct file_place place = {.session = saving->session};
    struct file_request request = {
        .op = FILE_STAT,
        .path = arena_printf(&saving->arena, "/workspace/%.*s", STR_ARG(saving->row.path)),
        .follow = true};
    engine_file(engine, caller, &place, &request, session_module_on_stat, saving);
}

void session_module_drop(struct session *session, struct str path)
{
    struct session_module *module = map_remove(&session->modules, path);
    if (module == NULL)
        return;
    struct store_batch *batch = store_begin(session->engine->store);
    session_module_remove_row(session, path, batch);
    store_commit(batch, STORE_LAZY, NULL, NULL);
    docs_remove_module(session, path);
    (void)session_module_free(module);
}

void engine_module_delete(struct engine *engine, const struct engine_caller *caller,
                          struct str session_id, struct str path, engine_done *done, void *ctx)
{
    struct answer *answer = answer_plain(engine, done, ctx);
    struct err err = {0};
    struct session *session = session_of_caller(engine, caller, session_id, &err);
    if (session == NULL) {
        answer_give(answer, &err);
        return;
    }
    struct session_module *module = map_remove(&session->modules, path);
    if (module == NULL) {
        answer_fail(answer, ERR_NOT_FOUND, "no module has this path");
        return;
    }
    (void)session_module_free(module);
    struct store_batch *batch = store_begin(engine->store);
    session_module_remove_row(session, path, batch);
    store_commit(batch, STORE_DURABLE, session_module_on_saved, answer);
    docs_remove_module(session, path);
}

int engine_module_list(struct engine *engine, const struct engine_caller *caller,
                       struct str session_id, struct arena *arena, struct module_info **ret_modules,
                       size_t *ret_count, struct err *err)
{
    const struct session *session = session_find(engine, caller->tenant, session_id, err);
    if (session == NULL)
        return -1;
    size_t count = 0;
    struct module_info *list = arena_array(arena, struct module_info, session->modules.len + 1);
    MAP_EACH (entry, &session->modules) {
        const struct session_module *module = entry->value;
        list[count++] = (struct module_info){.path = entry->key,
                                             .source = str_n(module->source, module->len),
                                             .description = module->description,
                                             .exports = module->exports,
                                             .usage = module->usage,
                                             .scope = module->scope,
                                             .in_volume = module->in_volume,
                                             .updated_ms = module->updated_ms};
    }
    *ret_modules = list;
    *ret_count = count;
    return 0;
}

/* --- From the store --- */

struct loading {
    struct engine *engine;
    int result;
    struct err *err;
};

static void load_session(void *ctx, const void *data)
{
    struct loading *loading = ctx;
    const struct store_session *row = data;
    if (loading->result < 0)
        return;
    struct session *session = session_new(loading->engine, row->tenant, row->session, row->name);
    session->ord = row->ord;
    session->info.warm = row->warm != 0;
    session->info.idle_ms = row->idle_ms;
    session->volume_ttl_ms = row->volume_ttl_ms;
    session->info.created_ms = row->created_ms;
    session->info.active_ms = row->active_ms;
    session->info.volume_expired_ms = row->volume_expired_ms;
    ledger_read_json(&session->ledger, row->variables);
    history_read_json(&session->history, row->turns);
    (void)snprintf(session->sandbox, sizeof session->sandbox, "%.*s", STR_ARG(row->sandbox));
    (void)snprintf(session->volume, sizeof session->volume, "%.*s", STR_ARG(row->volume));
    loading->result = spec_read_json(row->spec, &session->arena, &session->spec, loading->err);
    session->info.tier = session->spec.tier;
    loading->engine->last_order = MAX(loading->engine->last_order, row->ord);
}

static void load_module(void *ctx, const void *data)
{
    struct loading *loading = ctx;
    const struct store_module *row = data;
    struct session *session = map_get(&loading->engine->sessions, row->session);
    if (session != NULL)
        (void)put_module(session, row->path, row);
}

int session_load(struct engine *engine, struct err *err)
{
    struct loading loading = {engine, 0, err};
    if (store_each(engine->store, &store_sessions, load_session, &loading, err) < 0 ||
        loading.result < 0)
        return -1;
    return store_each(engine->store, &store_code_modules, load_module, &loading, err);
}
