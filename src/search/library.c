#include "search/library.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/crypto/hash.h"
#include "base/err.h"
#include "search/library_internal.h"
#include "search/reader.h"

enum { KEY_HEX = 16 };

/* --- Names --- */

uint32_t library_name(const struct library *library, struct str name)
{
    return name.len == 0 ? 0 : (uint32_t)(uintptr_t)map_get(&library->names, name);
}

static uint32_t add_name(struct library *library, struct str name)
{
    uint32_t number = library_name(library, name);
    if (number == 0 && name.len > 0) {
        number = (uint32_t)library->names.len + 1;
        (void)map_put(&library->names, name, (void *)(uintptr_t)number);
    }
    return number;
}

static void short_key(struct str text, char out[KEY_HEX + 1])
{
    char hex[HASH_HEX_SIZE];
    hash_sha256_hex(text, hex);
    memcpy(out, hex, KEY_HEX);
    out[KEY_HEX] = '\0';
}

void library_source_id(struct str tenant, struct str package, struct str location, char out[17])
{
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, "%.*s\n%.*s\n%.*s", STR_ARG(tenant), STR_ARG(package), STR_ARG(location));
    short_key(buf_str(&text), out);
}

void library_chunk_key(struct str source, struct str path, size_t position, char out[17])
{
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, "%.*s::%.*s::%zu", STR_ARG(source), STR_ARG(path), position);
    short_key(buf_str(&text), out);
}

uint64_t library_short_hash(struct str hex)
{
    uint64_t n = 0;
    (void)!str_to_hex(str_slice(hex, 0, 15), &n);
    return n;
}

/* Dependencies of the configuration are of npm or, with "pypi:", of PyPI. What others name when
 * they add documents may be anything, or nothing. */
static struct str language_of_package(const struct source *source)
{
    struct str package = str_of(source->package_name);
    if (str_starts(package, STR("pypi:")))
        return STR("python");
    bool is_npm = package.len > 0 && (source->tenant == 0 || package.ptr[0] == '@');
    return is_npm ? STR("javascript") : (struct str){0};
}

/* What code that uses the page is written in; empty: not known. */
static struct str language_of(const struct source *source, struct str path)
{
    if (!source->is_module)
        return language_of_package(source);
    if (str_ends(path, STR(".py")))
        return STR("python");
    if (str_ends(path, STR(".ts")) || str_ends(path, STR(".tsx")))
        return STR("typescript");
    return str_ends(path, STR(".sh")) ? STR("bash") : STR("javascript");
}

/* --- Sources --- */

struct source *library_new_source(struct library *library, const struct docs_source *row)
{
    struct source *source = mem_alloc(sizeof *source);
    source->is_module = str_eq(row->kind, STR("module"));
    source->tenant = add_name(library, row->tenant);
    source->package = add_name(library, row->package);
    source->session = source->is_module ? add_name(library, row->location) : 0;
    AUTO_BUF struct buf name = {0};
    buf_put(&name, row->package);
    source->package_name = mem_dup_cstr(buf_cstr(&name));
    return source;
}

void library_keep_source(struct library *library, struct str id, struct source *source)
{
    (void)map_put(&library->sources, id, source);
}

static void add_source(void *ctx, const struct docs_source *row)
{
    struct library *library = ctx;
    if (!map_has(&library->sources, row->id))
        library_keep_source(library, row->id, library_new_source(library, row));
}

int library_put_source(struct library *library, const struct docs_source *row, struct err *err)
{
    if (docs_put_source(library->docs, row, err) < 0)
        return -1;
    add_source(library, row);
    return 0;
}

bool library_has_source(const struct library *library, struct str id)
{
    return map_has(&library->sources, id);
}

struct source *library_free_source(struct source *source)
{
    if (source != NULL)
        free(source->package_name);
    free(source);
    return NULL;
}

/* --- Chunks --- */

static void count_chunk(struct library *library, uint32_t tenant, bool is_new)
{
    while (library->tenant_chunks.len <= tenant)
        *vec_push(&library->tenant_chunks) = 0;
    size_t *count = &library->tenant_chunks.ptr[tenant];
    *count += is_new ? 1 : (size_t)-1;
    library->version += *count == 0 || (is_new && *count == 1);
}

bool library_tenants(const struct library *library, uint64_t *version, struct arena *arena,
                     struct str **ret_names, size_t *ret_count)
{
    size_t count = 0;
    if (*version == library->version + 1)
        return false;
    struct str *names = arena_array(arena, struct str, library->tenant_chunks.len + 1);
    if (library->tenant_chunks.len > 0 && library->tenant_chunks.ptr[0] > 0)
        names[count++] = (struct str){0};
    MAP_EACH (entry, &library->names) {
        size_t number = (uintptr_t)entry->value;
        if (number < library->tenant_chunks.len && library->tenant_chunks.ptr[number] > 0)
            names[count++] = arena_dup(arena, entry->key);
    }
    *version = library->version + 1;
    *ret_names = names;
    *ret_count = count;
    return true;
}

uint32_t library_add_chunk(struct library *library, const struct library_chunk *chunk)
{
    const struct source *source = chunk->source;
    struct index_chunk row = {
        .row = chunk->row,
        .page = chunk->page->id,
        .hash = library_short_hash(chunk->hash),
        .tenant = source->tenant,
        .package = source->package,
        .session = source->session,
        .source = add_name(library, chunk->page->source),
        .language = add_name(library, language_of(source, chunk->page->path)),
        .kind = source->is_module ? DOC_MODULE : DOC_PAGE,
        .is_shared = str_eq(chunk->page->scope, STR("user")),
    };
    count_chunk(library, row.tenant, true);
    return index_add(&library->index, &row, chunk->heading_terms, chunk->terms);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

void library_drop_chunks(struct library *library, int64_t *pages, size_t count)
{
    if (count == 0)
        return;
    qsort(pages, count, sizeof *pages, by_number);
    for (size_t i = 0; i < library->index.chunks.len; i++) {
        const struct index_chunk *chunk = &library->index.chunks.ptr[i];
        if (chunk->row == 0 ||
            bsearch(&chunk->page, pages, count, sizeof *pages, by_number) == NULL)
            continue;
        library->vector_count -= chunk->has_vector;
        count_chunk(library, chunk->tenant, false);
        index_remove(&library->index, (uint32_t)i);
    }
}

/* --- Reading --- */

static int read_here(const struct document_ask *ask, struct arena *arena,
                     struct document *ret_document, struct err *err)
{
    AUTO_BUF struct buf record = buf_with_limit(document_record_max(ask));
    if (document_read(ask, &record, err) < 0)
        return -1;
    return document_take(arena_dup(arena, buf_str(&record)), ask, arena, ret_document, err);
}

int library_read(const struct library *library, const struct document_ask *asks, size_t count,
                 struct arena *arena, struct reader_answer *ret_answers, struct err *err)
{
    if (library->reader != NULL)
        return reader_read(library->reader, asks, count, arena, ret_answers, err);
    for (size_t i = 0; i < count; i++) {
        ret_answers[i] = (struct reader_answer){0};
        (void)!read_here(&asks[i], arena, &ret_answers[i].document, &ret_answers[i].why);
    }
    return 0;
}

/* --- Removing --- */

struct gone {
    VEC(int64_t) pages;
};

static void collect_page(void *ctx, const struct docs_page *page)
{
    struct gone *gone = ctx;
    *vec_push(&gone->pages) = page->id;
}

int library_remove_page(struct library *library, struct str source, struct str path,
                        struct err *err)
{
    struct gone gone = {0};
    int result = docs_find_page(library->docs, source, path, collect_page, &gone, err);
    if (result == 0 && gone.pages.len > 0)
        result = docs_remove_page(library->docs, gone.pages.ptr[0], err);
    if (result == 0)
        library_drop_chunks(library, gone.pages.ptr, gone.pages.len);
    vec_done(&gone.pages);
    return result;
}

int library_remove_source(struct library *library, struct str id, bool *ret_was_there,
                          struct err *err)
{
    struct gone gone = {0};
    struct source *source = map_get(&library->sources, id);
    *ret_was_there = source != NULL;
    if (source == NULL)
        return 0;
    int result = docs_list_pages(library->docs, id, collect_page, &gone, err);
    if (result == 0)
        result = docs_remove_source(library->docs, id, err);
    if (result == 0) {
        library_drop_chunks(library, gone.pages.ptr, gone.pages.len);
        (void)library_free_source(map_remove(&library->sources, id));
    }
    vec_done(&gone.pages);
    return result;
}

/* --- Opening --- */

int library_open(const char *dir, struct str model, const struct reader_options *reader,
                 struct library **ret_library, struct err *err)
{
    struct library *library = mem_alloc(sizeof *library);
    AUTO_BUF struct buf name = {0};
    buf_put(&name, model);
    library->model = mem_dup_cstr(buf_cstr(&name));
    library->reader = reader;
    if (docs_open(dir, &library->docs, err) < 0 ||
        docs_each_source(library->docs, add_source, library, err) < 0 ||
        library_load(library, err) < 0 || library_load_vectors(library, err) < 0) {
        (void)library_free(library);
        return -1;
    }
    *ret_library = library;
    return 0;
}

struct library *library_free(struct library *library)
{
    if (library == NULL)
        return NULL;
    (void)docs_close(library->docs);
    index_done(&library->index);
    MAP_EACH (entry, &library->sources)
        (void)library_free_source(entry->value);
    map_done(&library->sources);
    vec_done(&library->tenant_chunks);
    map_done(&library->names);
    free(library->model);
    free(library);
    return NULL;
}
