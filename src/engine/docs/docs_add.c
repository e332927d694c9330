/* Adding documents: an upload, a directory of the server, or a URL. */

#include <stdlib.h>

#include "base/clock.h"
#include "egress/policy/url.h"
#include "engine/docs/docs_internal.h"

enum { NAME_MAX_BYTES = 512, PACKAGE_MAX = 214 };

struct adding {
    struct docs_job work; /* first */
    struct docs_source_spec source;
    struct docs_upload *pages;
    size_t page_count;
    struct docs_pages read;
    bool is_directory;
    int64_t created_ms;
    struct docs_source row;
    struct err refusal;
    docs_done *done;
    void *ctx;
};

/* --- Checks --- */

static int check_name(struct str text, size_t max, const char *what, struct err *err)
{
    bool is_bad = text.len > max || !str_is_utf8(text);
    for (size_t i = 0; !is_bad && i < text.len; i++)
        is_bad = (unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7f;
    return is_bad
               ? err_set(err, ERR_INVALID, "%s: must be one line of at most %zu bytes", what, max)
               : 0;
}

static int check_pages(const struct docs_spec *spec, struct err *err)
{
    if (spec->name.len == 0)
        return err_set(err, ERR_INVALID, "name: is missing; it names the upload");
    if (spec->page_count > DOCS_PAGES_MAX)
        return err_set(err, ERR_TOO_LARGE, "pages: more than %d", DOCS_PAGES_MAX);
    for (size_t i = 0; i < spec->page_count; i++) {
        if (spec->pages[i].path.len == 0)
            return err_set(err, ERR_INVALID, "pages: a path is missing");
        if (check_name(spec->pages[i].path, NAME_MAX_BYTES, "path", err) < 0)
            return -1;
        if (spec->pages[i].text.len > DOCUMENT_MAX) /* before it is copied */
            return err_set(err, ERR_TOO_LARGE, "'%.*s': more than %d MiB",
                           STR_ARG(spec->pages[i].path), DOCUMENT_MAX >> 20);
    }
    return 0;
}

static int check(const struct engine *engine, const struct engine_caller *caller,
                 const struct docs_spec *spec, struct err *err)
{
    struct url url;
    int kinds = (spec->url.len > 0) + (spec->directory.len > 0) + (spec->page_count > 0);
    if (engine_check_caller(engine, caller, err) < 0 ||
        check_name(spec->package, PACKAGE_MAX, "package", err) < 0 ||
        check_name(spec->name, NAME_MAX_BYTES, "name", err) < 0)
        return -1;
    if (kinds != 1)
        return err_set(err, ERR_INVALID, "give one of url, directory, text or pages");
    /* Who may read every file of the server can read its first token. */
    if (spec->directory.len > 0 && !(caller->is_operator && caller->may_approve))
        return err_set(err, ERR_FORBIDDEN, "directory: needs the scopes 'admin' and 'approve'");
    if (spec->url.len > 0)
        return url_parse(spec->url, &url, err) < 0 ? err_wrap(err, "url") : 0;
    return spec->page_count > 0 ? check_pages(spec, err) : 0;
}

/* --- On a reader's thread --- */

static int prepare_add(struct docs_job *work, struct err *err)
{
    struct adding *adding = (struct adding *)work;
    if (adding->is_directory && directory_read(adding->source.location, &work->arena,
                                               &adding->pages, &adding->page_count, err) < 0)
        return -1;
    return docs_read_pages(work, adding->pages, adding->page_count, NULL, &adding->read, err);
}

/* --- On the library's thread --- */

static int count_sources(struct adding *adding, struct library *library, struct err *err)
{
    struct library_source *sources = NULL;
    size_t count = 0, own = 0;
    if (library_sources(library, &adding->source.tenant, &adding->work.arena, &sources, &count,
                        err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (str_eq(sources[i].row.id, adding->row.id)) {
            adding->created_ms = sources[i].row.created_ms;
            return 0;
        }
        own += sources[i].row.tenant.len > 0;
    }
    return own < DOCS_SOURCES_MAX
               ? 0
               : err_set(err, ERR_LIMIT, "a tenant has at most %d sources: remove one",
                         DOCS_SOURCES_MAX);
}

static int run_add(struct docs_job *work, struct library *library, struct err *err)
{
    struct adding *adding = (struct adding *)work;
    bool is_url = str_eq(adding->source.kind, STR("url"));
    adding->row = docs_source_row(&adding->source, is_url ? "waiting" : "ready", (struct str){0},
                                  adding->created_ms, &work->arena);
    if (count_sources(adding, library, err) < 0)
        return -1;
    adding->row.created_ms = adding->created_ms;
    if (is_url) {
        adding->row.checked_ms = 0;
        return library_put_source(library, &adding->row, err);
    }
    adding->row.error = adding->read.left_out;
    return library_put_pages(library, &adding->row, adding->read.items, adding->read.count, err);
}

/* --- Answer --- */

static void add_done(struct docs_job *work, const struct err *why)
{
    struct adding *adding = (struct adding *)work;
    if (why == NULL && str_eq(adding->source.kind, STR("url")))
        docs_watch(work->service, &adding->source, false, adding->created_ms);
    else if (why == NULL)
        docs_publish_source(work->service, &adding->source, NULL);
    struct docs_info info = {.id = adding->row.id,
                             .kind = adding->row.kind,
                             .package = adding->row.package,
                             .location = adding->row.location,
                             .state = adding->row.state,
                             .pages = adding->page_count,
                             .created_ms = adding->row.created_ms,
                             .checked_ms = adding->row.checked_ms};
    adding->done(adding->ctx, why == NULL ? &info : NULL, why);
    docs_job_free(work);
}

static void docs_add_refuse(struct docs_job *work, UNUSED const struct err *why)
{
    struct adding *adding = (struct adding *)work;
    adding->done(adding->ctx, NULL, &adding->refusal);
    docs_job_free(work);
}

static int run_nothing(UNUSED struct docs_job *work, UNUSED struct library *library,
                       UNUSED struct err *err)
{
    return 0;
}

static void copy_spec(struct adding *adding, const struct engine_caller *caller,
                      const struct docs_spec *spec)
{
    struct arena *arena = &adding->work.arena;
    bool is_url = spec->url.len > 0;
    adding->is_directory = spec->directory.len > 0;
    struct str location = is_url ? spec->url : adding->is_directory ? spec->directory : spec->name;
    adding->source = (struct docs_source_spec){
        .tenant = arena_dup(arena, caller->tenant),
        .kind = is_url                 ? STR("url")
                : adding->is_directory ? STR("directory")
                                       : STR("upload"),
        .package = arena_dup(arena, spec->package),
        .location = arena_dup(arena, location),
    };
    adding->page_count = spec->page_count;
    adding->pages = arena_array(arena, struct docs_upload, spec->page_count + 1);
    for (size_t i = 0; i < spec->page_count; i++)
        adding->pages[i] = (struct docs_upload){arena_dup(arena, spec->pages[i].path),
                                                arena_dup(arena, spec->pages[i].text)};
}

void engine_docs_add(struct engine *engine, const struct engine_caller *caller,
                     const struct docs_spec *spec, docs_done *done, void *ctx)
{
    struct adding *adding = mem_alloc(sizeof *adding);
    adding->done = done;
    adding->ctx = ctx;
    adding->created_ms = clock_date_ms();
    adding->work.run = run_add;
    adding->work.done = add_done;
    if (check(engine, caller, spec, &adding->refusal) < 0) {
        adding->work.run = run_nothing;
        adding->work.done = docs_add_refuse;
    } else {
        copy_spec(adding, caller, spec);
        if (spec->url.len == 0)
            adding->work.prepare = prepare_add;
    }
    docs_submit(engine->docs, &adding->work);
}
