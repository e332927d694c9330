/* Code that a session keeps, and sessions as rows of the store. */

#include "base/clock.h"
#include "engine/session_internal.h"

struct module *module_free(struct module *module)
{
    if (module != NULL) {
        free(module->source);
        free(module);
    }
    return NULL;
}

static void put_module(struct session *session, struct str path, struct str source,
                       int64_t updated_ms)
{
    struct module *module = mem_alloc(sizeof *module);
    module->source = mem_alloc(source.len + 1);
    if (source.len > 0)
        memcpy(module->source, source.ptr, source.len);
    module->len = source.len;
    module->updated_ms = updated_ms;
    (void)module_free(map_put(&session->modules, path, module));
}

static void put_row_id(const struct session *session, struct str path, struct buf *out)
{
    buf_put(out, session->row_id);
    buf_put_char(out, '\n');
    buf_put(out, path);
}

void module_remove_row(const struct session *session, struct str path, struct store_batch *batch)
{
    AUTO_BUF struct buf id = {0};
    put_row_id(session, path, &id);
    store_remove(batch, &store_code_modules, buf_str(&id));
}

/* --- Verbs --- */

static void on_saved(void *ctx, const struct err *why)
{
    answer_give(ctx, why);
}

static size_t size_without(const struct session *session, struct str path)
{
    size_t size = 0;
    MAP_EACH (entry, &session->modules) {
        const struct module *module = entry->value;
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
                       "path: a relative path like 'lib/util.js', at most 255 bytes, is needed");
    if (source.len > MODULE_SOURCE_MAX)
        return err_set(err, ERR_TOO_LARGE, "source: more than %d bytes", MODULE_SOURCE_MAX);
    if (!str_is_utf8(source))
        return err_set(err, ERR_INVALID, "source: not UTF-8");
    if (session->modules.len >= MODULES_PER_SESSION && !map_has(&session->modules, path))
        return err_set(err, ERR_LIMIT, "a session keeps %d modules at most", MODULES_PER_SESSION);
    if (size_without(session, path) + source.len > MODULES_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "a session keeps %d MiB of modules at most: delete one",
                       MODULES_BYTES_MAX >> 20);
    return 0;
}

void engine_module_put(struct engine *engine, const struct engine_caller *caller,
                       struct str session_id, struct str path, struct str source, engine_done *done,
                       void *ctx)
{
    struct answer *answer = answer_plain(engine, done, ctx);
    struct err err = {0};
    AUTO_BUF struct buf id = {0};
    struct session *session = session_of_caller(engine, caller, session_id, &err);
    if (session == NULL || check(session, path, source, &err) < 0) {
        answer_give(answer, &err);
        return;
    }
    int64_t now = clock_date_ms();
    put_module(session, path, source, now);
    put_row_id(session, path, &id);
    struct store_batch *batch = store_begin(engine->store);
    store_put(batch, &store_code_modules,
              &(struct store_module){.id = buf_str(&id),
                                     .session = session->row_id,
                                     .path = path,
                                     .source = source,
                                     .updated_ms = now});
    store_commit(batch, STORE_DURABLE, on_saved, answer);
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
    struct module *module = map_remove(&session->modules, path);
    if (module == NULL) {
        answer_fail(answer, ERR_NOT_FOUND, "no module of that path");
        return;
    }
    (void)module_free(module);
    struct store_batch *batch = store_begin(engine->store);
    module_remove_row(session, path, batch);
    store_commit(batch, STORE_DURABLE, on_saved, answer);
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
        const struct module *module = entry->value;
        list[count++] = (struct module_info){entry->key, str_n(module->source, module->len),
                                             module->updated_ms};
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
    session->info.created_ms = row->created_ms;
    session->info.active_ms = row->active_ms;
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
        put_module(session, row->path, row->source, row->updated_ms);
}

int session_load(struct engine *engine, struct err *err)
{
    struct loading loading = {engine, 0, err};
    if (store_each(engine->store, &store_sessions, load_session, &loading, err) < 0 ||
        loading.result < 0)
        return -1;
    return store_each(engine->store, &store_code_modules, load_module, &loading, err);
}
