/* Saved modules in the search: one page each, below a source for each session.
 *
 * The rows of the store decide. Search follows each change in the background, and at start it is
 * held against the rows, so a crash between the two leaves nothing behind. A result is given only
 * while its module is there; of a file in a volume, only while the file is. */

#include <stdlib.h>

#include "base/clock.h"
#include "engine/docs/docs_internal.h"
#include "engine/docs/docs_search.h"
#include "engine/file/file.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/session/session_internal.h"

enum { ABOUT_MAX = 1500 }; /* one chunk */

/* --- What is indexed --- */

static struct str docs_modules_cut(struct str text, size_t max)
{
    text.len = MIN(text.len, max);
    while (text.len > 0 && !str_is_utf8(text))
        text.len--;
    return text;
}

/* What people would search it by; of a long source the beginning. */
struct str docs_module_text(struct str path, const struct session_module *module,
                            struct arena *arena)
{
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, "%.*s: %.*s\n", STR_ARG(path),
               STR_ARG(docs_modules_cut(module->description, 500)));
    if (module->exports.len > 0)
        buf_printf(&text, "exports %.*s\n", STR_ARG(docs_modules_cut(module->exports, 300)));
    buf_printf(&text, "%.*s\n", STR_ARG(docs_modules_cut(module->usage, 500)));
    struct str source = str_n(module->source, module->len);
    if (text.len < ABOUT_MAX)
        buf_printf(&text, "%.*s\n", STR_ARG(docs_modules_cut(source, ABOUT_MAX - text.len)));
    /* NUL may be in a source, and in no document. */
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '\0')
            text.ptr[i] = ' ';
    return arena_dup(arena, docs_modules_cut(buf_str(&text), ABOUT_MAX));
}

struct docs_source_spec docs_module_source(const struct session *session, struct arena *arena)
{
    return (struct docs_source_spec){.tenant = arena_dup(arena, session->info.tenant),
                                     .kind = STR("module"),
                                     .location = arena_dup(arena, session->row_id)};
}

int docs_read_modules(struct docs_job *work, const struct docs_module_page *modules, size_t count,
                      struct library_page *ret_pages, struct err *err)
{
    struct arena *arena = &work->arena;
    size_t asked = 0;
    struct document_ask *asks = arena_array(arena, struct document_ask, count + 1);
    struct reader_answer *answers = arena_array(arena, struct reader_answer, count + 1);
    for (size_t i = 0; i < count; i++)
        if (!modules[i].is_known)
            asks[asked++] = (struct document_ask){
                .title = modules[i].path, .text = modules[i].text, .format = DOC_TEXT};
    if (reader_read(&work->service->reader, asks, asked, arena, answers, err) < 0)
        return -1;
    for (size_t i = 0, at = 0; i < count; i++) {
        ret_pages[i] = (struct library_page){
            .path = modules[i].path, .scope = modules[i].scope, .is_unread = modules[i].is_known};
        if (modules[i].is_known)
            continue;
        ret_pages[i].document = &answers[at].document;
        ret_pages[i].is_unread = answers[at++].why.code != ERR_NONE;
    }
    return 0;
}

/* --- Changes --- */

enum change { PUT_ONE, REMOVE_ONE, REMOVE_ALL };

struct changing {
    struct docs_job work; /* first */
    enum change change;
    struct docs_source_spec source;
    struct docs_module_page page;
    struct library_page read;
};

/* Removals too: they must not overtake what they remove. */
static int prepare_change(struct docs_job *work, struct err *err)
{
    struct changing *changing = (struct changing *)work;
    return changing->change == PUT_ONE
               ? docs_read_modules(work, &changing->page, 1, &changing->read, err)
               : 0;
}

static int run_change(struct docs_job *work, struct library *library, struct err *err)
{
    struct changing *changing = (struct changing *)work;
    bool was_there = false, is_changed = false;
    struct docs_source row =
        docs_source_row(&changing->source, "ready", (struct str){0}, clock_date_ms(), &work->arena);
    if (changing->change == REMOVE_ALL)
        return library_remove_source(library, row.id, &was_there, err);
    if (changing->change == REMOVE_ONE)
        return library_remove_page(library, row.id, changing->page.path, err);
    return library_put_source(library, &row, err) < 0
               ? -1
               : library_put_page(library, row.id, &changing->read, &is_changed, err);
}

static void change_done(struct docs_job *work, UNUSED const struct err *why)
{
    docs_job_free(work); /* the next start makes good what failed */
}

static void change(const struct session *session, enum change what, struct str path,
                   const struct session_module *module)
{
    struct docs_service *service = session->engine->docs;
    if (service == NULL) /* the engine closes, or has not opened it yet */
        return;
    struct changing *changing = mem_alloc(sizeof *changing);
    struct arena *arena = &changing->work.arena;
    changing->work.prepare = prepare_change;
    changing->work.is_ordered = true;
    changing->work.run = run_change;
    changing->work.done = change_done;
    changing->change = what;
    changing->source = docs_module_source(session, arena);
    changing->page.path = arena_dup(arena, path);
    if (module != NULL) {
        changing->page.text = docs_module_text(path, module, arena);
        changing->page.scope = arena_dup(arena, module->scope);
    }
    docs_submit(service, &changing->work);
}

void docs_put_module(const struct session *session, struct str path,
                     const struct session_module *module)
{
    change(session, PUT_ONE, path, module);
}

void docs_remove_module(const struct session *session, struct str path)
{
    change(session, REMOVE_ONE, path, NULL);
}

void docs_remove_modules(const struct session *session)
{
    change(session, REMOVE_ALL, (struct str){0}, NULL);
}

/* --- Results --- */

static void take_out(struct library_results *results, size_t at)
{
    for (size_t i = at; i + 1 < results->count; i++)
        results->items[i] = results->items[i + 1];
    results->count--;
    results->total -= results->total > 0;
}

static struct session_module *module_of(const struct engine *engine,
                                        const struct library_result *result,
                                        struct session **ret_session)
{
    struct session *session = map_get(&engine->sessions, result->session);
    *ret_session = session;
    return session == NULL ? NULL : map_get(&session->modules, result->url);
}

/* The texts that the row has; what has no row any more is no result. */
void docs_fill_modules(struct engine *engine, struct library_results *results, struct arena *arena)
{
    for (size_t i = results->count; i-- > 0;) {
        struct library_result *result = &results->items[i];
        struct session *session = NULL;
        if (!result->is_module)
            continue;
        const struct session_module *module = module_of(engine, result, &session);
        if (module == NULL) {
            take_out(results, i);
            continue;
        }
        result->heading = result->url;
        result->description = arena_dup(arena, module->description);
        result->exports = arena_dup(arena, module->exports);
        result->content =
            arena_dup(arena, module->usage.len > 0 ? module->usage
                             : module->len > 0
                                 ? docs_modules_cut(str_n(module->source, module->len), ABOUT_MAX)
                                 : module->description);
        result->excerpt = docs_modules_cut(result->content, EXCERPT_MAX);
    }
}

/* --- Files of volumes --- */

struct looking {
    struct engine *engine;
    struct engine_caller caller;
    struct arena arena;
    struct library_results *results;
    size_t next; /* result that is looked at, from the end */
    void (*done)(void *ctx);
    void *ctx;
};

static void look_next(struct looking *looking);

static void docs_modules_on_stat(void *ctx, UNUSED const struct file_answer *found,
                                 const struct err *why)
{
    struct looking *looking = ctx;
    const struct library_result *result = &looking->results->items[looking->next];
    struct session *session = NULL;
    bool is_gone = why != NULL && (why->code == ERR_NOT_FOUND || why->code == ERR_NOT_A_DIRECTORY);
    if (is_gone && module_of(looking->engine, result, &session) != NULL)
        session_module_drop(session, result->url);
    if (is_gone)
        take_out(looking->results, looking->next);
    look_next(looking);
}

/* Only a running sandbox can have changed the files since the module was saved; a dormant session
 * is not woken for that. */
static bool docs_modules_look_at(struct looking *looking)
{
    const struct library_result *result = &looking->results->items[looking->next];
    struct session *session = NULL;
    const struct session_module *module =
        result->is_module ? module_of(looking->engine, result, &session) : NULL;
    if (module == NULL || !module->in_volume || session->sandbox[0] == '\0')
        return false;
    const struct sandbox *sandbox = map_get(&looking->engine->sandboxes, str_of(session->sandbox));
    if (sandbox == NULL || sandbox->info.state != SANDBOX_RUNNING)
        return false;
    struct file_place place = {.sandbox = str_of(session->sandbox)};
    struct file_request request = {
        .op = FILE_STAT,
        .path = arena_printf(&looking->arena, "/workspace/%.*s", STR_ARG(result->url)),
        .follow = true};
    engine_file(looking->engine, &looking->caller, &place, &request, docs_modules_on_stat, looking);
    return true;
}

static void look_next(struct looking *looking)
{
    while (looking->next-- > 0)
        if (looking->next < looking->results->count && docs_modules_look_at(looking))
            return;
    void (*done)(void *ctx) = looking->done;
    void *ctx = looking->ctx;
    arena_done(&looking->arena);
    free(looking);
    done(ctx);
}

void docs_check_files(struct engine *engine, struct str tenant, struct library_results *results,
                      void (*done)(void *ctx), void *ctx)
{
    struct looking *looking = mem_alloc(sizeof *looking);
    looking->engine = engine;
    looking->caller.tenant = arena_dup(&looking->arena, tenant);
    looking->results = results;
    looking->next = results->count;
    looking->done = done;
    looking->ctx = ctx;
    look_next(looking);
}
