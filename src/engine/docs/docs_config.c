/* The sources at start: those of the configuration, which are for every tenant, and the URLs and
 * directories that tenants have added. What the configuration has no more is removed. */

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/docs/docs_search.h"
#include "engine/session/session_internal.h"

/* A session and its modules, as they are when the library has been opened. */
struct owner {
    struct docs_source_spec source;
    struct docs_module_page *pages;
    size_t count;
    struct docs_known known;
    struct library_page *read;
};

struct starting {
    struct docs_job work; /* first */
    struct owner *owners;
    size_t owner_count, read; /* read: modules that have changed */
    const struct config *config;
    struct docs_source_spec *wanted; /* of the configuration */
    size_t wanted_count;
    struct library_source *sources;
    size_t count;
};

static struct str kind_of(struct str docs)
{
    if (str_eq(docs, STR("package")))
        return STR("package");
    return str_starts(docs, STR("http")) ? STR("url") : STR("directory");
}

static void collect(struct starting *starting)
{
    const struct config_sandbox *sandbox = &starting->config->sandbox;
    size_t most = 1;
    for (size_t i = 0; i < sandbox->dependencies.len; i++)
        most += sandbox->dependencies.items[i].docs.len;
    starting->wanted = arena_array(&starting->work.arena, struct docs_source_spec, most);
    for (size_t i = 0; i < sandbox->dependencies.len; i++) {
        const struct config_dependency *dependency = &sandbox->dependencies.items[i];
        for (size_t j = 0; j < dependency->docs.len; j++)
            starting->wanted[starting->wanted_count++] =
                (struct docs_source_spec){.kind = kind_of(dependency->docs.items[j]),
                                          .package = dependency->package,
                                          .location = dependency->docs.items[j]};
    }
}

static void collect_modules(struct starting *starting, const struct engine *engine,
                            const struct map *stored)
{
    struct arena *arena = &starting->work.arena;
    starting->owners = arena_array(arena, struct owner, engine->sessions.len + 1);
    MAP_EACH (entry, &engine->sessions) {
        const struct session *session = entry->value;
        if (session->modules.len == 0)
            continue;
        struct owner *owner = &starting->owners[starting->owner_count++];
        owner->source = docs_module_source(session, arena);
        const struct docs_known *known = map_get(stored, owner->source.location);
        if (known != NULL)
            owner->known = *known;
        owner->pages = arena_array(arena, struct docs_module_page, session->modules.len);
        MAP_EACH (saved, &session->modules) {
            const struct session_module *module = saved->value;
            owner->pages[owner->count++] = (struct docs_module_page){
                arena_dup(arena, saved->key), arena_dup(arena, module->scope),
                docs_module_text(saved->key, module, arena)};
        }
    }
}

static bool is_wanted(const struct starting *starting, const struct docs_source *row)
{
    for (size_t i = 0; i < starting->owner_count; i++)
        if (str_eq(row->kind, STR("module")) &&
            str_eq(starting->owners[i].source.location, row->location))
            return true;
    if (row->tenant.len > 0)
        return !str_eq(row->kind, STR("module"));
    for (size_t i = 0; i < starting->wanted_count; i++)
        if (str_eq(starting->wanted[i].package, row->package) &&
            str_eq(starting->wanted[i].location, row->location))
            return true;
    return false;
}

/* --- Reading --- */

static int by_owner(const void *a, const void *b)
{
    const struct owner *x = a, *y = b;
    return str_cmp(x->source.tenant, y->source.tenant);
}

/* Modules of owners from `first` on that are of the same tenant; gives the number behind them. */
static int read_owners(struct starting *starting, size_t first, size_t *ret_end, struct err *err)
{
    struct arena *arena = &starting->work.arena;
    size_t end = first, count = 0, at = 0;
    while (end < starting->owner_count &&
           by_owner(&starting->owners[first], &starting->owners[end]) == 0)
        count += starting->owners[end++].count;
    struct docs_module_page *modules = arena_array(arena, struct docs_module_page, count + 1);
    struct library_page *pages = arena_array(arena, struct library_page, count + 1);
    for (size_t i = first; i < end; i++) {
        struct owner *owner = &starting->owners[i];
        owner->read = pages + at;
        for (size_t j = 0; j < owner->count; j++) {
            modules[at] = owner->pages[j];
            modules[at].is_known =
                docs_is_known(&owner->known, modules[at].path, modules[at].scope, modules[at].text);
            starting->read += !modules[at++].is_known;
        }
    }
    *ret_end = end;
    return docs_read_modules(&starting->work, modules, count, pages, err);
}

static int prepare_start(struct docs_job *work, struct err *err)
{
    struct starting *starting = (struct starting *)work;
    if (starting->owner_count > 0)
        qsort(starting->owners, starting->owner_count, sizeof *starting->owners, by_owner);
    for (size_t i = 0; i < starting->owner_count;)
        if (read_owners(starting, i, &i, err) < 0)
            return -1;
    return 0;
}

/* --- Rows --- */

static int add_wanted(struct starting *starting, struct library *library, struct err *err)
{
    for (size_t i = 0; i < starting->wanted_count; i++) {
        struct docs_source row = docs_source_row(&starting->wanted[i], "waiting", (struct str){0},
                                                 clock_date_ms(), &starting->work.arena);
        row.checked_ms = 0;
        if (!library_has_source(library, row.id) && library_put_source(library, &row, err) < 0)
            return -1;
    }
    return 0;
}

static int put_owner(const struct owner *owner, struct library *library, struct arena *arena,
                     struct err *err)
{
    struct docs_source row =
        docs_source_row(&owner->source, "ready", (struct str){0}, clock_date_ms(), arena);
    return library_put_pages(library, &row, owner->read, owner->count, err);
}

static int run_start(struct docs_job *work, struct library *library, struct err *err)
{
    struct starting *starting = (struct starting *)work;
    bool was_there = false;
    if (library_sources(library, NULL, &work->arena, &starting->sources, &starting->count, err) < 0)
        return -1;
    for (size_t i = 0; i < starting->count; i++) {
        const struct docs_source *row = &starting->sources[i].row;
        if (!is_wanted(starting, row) &&
            library_remove_source(library, row->id, &was_there, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < starting->owner_count; i++)
        if (put_owner(&starting->owners[i], library, &work->arena, err) < 0)
            return -1;
    return add_wanted(starting, library, err);
}

/* Read again at each start. */
static bool is_watched(struct str kind)
{
    return str_eq(kind, STR("url")) || str_eq(kind, STR("directory"));
}

static void start_done(struct docs_job *work, const struct err *why)
{
    struct starting *starting = (struct starting *)work;
    struct docs_service *service = work->service;
    if (why != NULL && !service->is_closing) {
        service->why = *why;
        log_error("docs.start", LOG_STR("error", why->msg));
    }
    if (why == NULL)
        log_debug("docs.modules", LOG_INT("read", (int64_t)starting->read));
    if (why == NULL)
        docs_begin_packages(service, starting->wanted, starting->wanted_count);
    for (size_t i = 0; why == NULL && i < starting->wanted_count; i++)
        if (is_watched(starting->wanted[i].kind))
            docs_watch(service, &starting->wanted[i], true, clock_date_ms());
    for (size_t i = 0; why == NULL && i < starting->count; i++) {
        const struct docs_source *row = &starting->sources[i].row;
        struct docs_source_spec spec = {row->tenant, row->kind, row->package, row->location};
        if (row->tenant.len > 0 && is_watched(row->kind))
            docs_watch(service, &spec, false, row->created_ms);
    }
    service->has_begun = true;
    docs_job_free(work);
}

/* --- What is stored --- */

int docs_list_stored(struct library *library, struct docs_stored *ret_stored, struct err *err)
{
    struct arena *arena = &ret_stored->arena;
    struct library_source *sources = NULL;
    size_t count = 0;
    if (library_sources(library, NULL, arena, &sources, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        const struct docs_source *row = &sources[i].row;
        struct docs_known *known = arena_new(arena, struct docs_known);
        if (!str_eq(row->kind, STR("module")))
            continue;
        if (library_known(library, row->id, arena, &known->items, &known->count, err) < 0)
            return -1;
        (void)map_put(&ret_stored->modules, row->location, known);
    }
    return 0;
}

void docs_stored_done(struct docs_stored *stored)
{
    map_done(&stored->modules);
    arena_done(&stored->arena);
}

void docs_begin_configured(struct docs_service *service, struct docs_stored *stored)
{
    struct starting *starting = mem_alloc(sizeof *starting);
    starting->work.arena = stored->arena; /* what is known points there */
    stored->arena = (struct arena){0};
    starting->config = service->engine->config;
    starting->work.prepare = prepare_start;
    starting->work.is_ordered = true; /* before changes of modules */
    starting->work.run = run_start;
    starting->work.done = start_done;
    collect(starting);
    collect_modules(starting, service->engine, &stored->modules);
    docs_submit(service, &starting->work);
}
