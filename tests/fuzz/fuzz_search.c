/* A question, any bytes, to a small library of documents and modules with vectors: it is answered,
 * with results that may be seen, best first. The first byte says which filters there are. */

#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "search/library.h"

enum { DIM = 4, LIMIT = 4 };

static const char guide[] =
    "# Guide\n## Login\nCall createClient with a token, or create_client in Python.\n"
    "## Upload\nFiles are sent in parts; each part has at most five megabytes.\n"
    "## Stra\xc3\x9f"
    "e\nStreets of K\xc3\xb6ln, \xe6\x9d\xb1\xe4\xba\xac and \xd0\x9c\xd0\xbe\xd1\x81\xd0\xba"
    "\xd0\xb2\xd0\xb0.\n```js\nconst client = createClient({ token })\n```\n";
static const char types[] = "export declare function uploadFile(path: string): Promise<void>;\n";

static void put_source(struct library *library, const char *kind, const char *name, char id[17])
{
    struct err err = {0};
    library_source_id(STR("tenant"), str_of(name), str_of(name), id);
    struct docs_source row = {.id = str_n(id, 16),
                              .tenant = STR("tenant"),
                              .kind = str_of(kind),
                              .package = str_of(name),
                              .location = str_of(name),
                              .state = STR("ready")};
    int done = library_put_source(library, &row, &err);
    assert(done == 0);
}

static void put_page(struct library *library, const char *id, const char *path, const char *text,
                     enum doc_format format)
{
    struct err err = {0};
    bool is_changed = false;
    struct library_page page = {.path = str_of(path),
                                .title = str_of(path),
                                .scope = STR("user"),
                                .text = str_of(text),
                                .format = format};
    int done = library_put_page(library, str_of(id), &page, &is_changed, &err);
    assert(done == 0);
}

/* The last chunk has none: it is ranked by its words. */
static void put_vectors(struct library *library)
{
    struct arena arena = {0};
    struct err err = {0};
    struct library_text *texts = NULL;
    size_t count = 0;
    float vectors[8 * DIM] = {0};
    int done = library_unembedded(library, 8, &arena, &texts, &count, &err);
    assert(done == 0 && count > 1);
    for (size_t i = 0; i < count; i++)
        vectors[i * DIM + i % DIM] = 1;
    done = library_put_vectors(library, texts, count - 1, vectors, DIM, &err);
    assert(done == 0);
    arena_done(&arena);
}

static struct library *open_library(void)
{
    static const char *const files[] = {"docs.db", "docs.db-wal", "docs.db-shm"};
    char dir[] = "/tmp/sandglass-fuzz-XXXXXX", id[17];
    struct library *library = NULL;
    struct err err = {0};
    if (mkdtemp(dir) == NULL || library_open(dir, STR("fuzz"), NULL, &library, &err) < 0)
        abort();
    for (size_t i = 0; i < countof(files); i++) { /* it stays open */
        char path[64];
        (void)snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
    put_source(library, "upload", "guide", id);
    put_page(library, id, "guide.md", guide, DOC_MARKDOWN);
    put_page(library, id, "types.d.ts", types, DOC_TYPES);
    put_source(library, "module", "session", id);
    put_page(library, id, "lib/upload.js", "Uploads a file in parts", DOC_TEXT);
    put_vectors(library);
    return library;
}

static void check(const struct library_query *query, const struct library_results *results)
{
    assert(results->count <= LIMIT && results->count <= results->total && results->total <= 8);
    assert(str_is_utf8(results->corrected));
    for (size_t i = 0; i < results->count; i++) {
        const struct library_result *item = &results->items[i];
        assert(item->score > 0 && item->score <= 1.0001F);
        assert(i == 0 || item->score <= results->items[i - 1].score);
        assert(item->content.len > 0 && str_is_utf8(item->content) && str_is_utf8(item->excerpt));
        assert(item->excerpt.len <= MAX(item->content.len, (size_t)EXCERPT_MAX));
        assert(query->package.len == 0 || str_eq(item->package, query->package));
        assert(query->kind.len == 0 || item->is_module == str_eq(query->kind, STR("module")));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct library *library;
    const struct str kinds[] = {STR(""), STR("doc"), STR("module"), STR("")};
    AUTO_ARENA struct arena arena = {0};
    struct library_results results = {0};
    struct err err = {0};
    const float vector[DIM] = {0.5F, -0.5F, 0.5F, 0.5F};
    if (library == NULL)
        library = open_library();
    if (size == 0)
        return 0;
    struct library_query query = {.text = str_n((const char *)data + 1, size - 1),
                                  .tenant = STR("tenant"),
                                  .package = data[0] & 1 ? STR("guide") : STR(""),
                                  .kind = kinds[data[0] >> 1 & 3],
                                  .vector = data[0] & 8 ? vector : NULL,
                                  .neighbours = data[0] >> 4 & 1,
                                  .offset = data[0] >> 5 & 1,
                                  .limit = LIMIT};
    int done = library_search(library, &query, &arena, &results, &err);
    assert(done == 0);
    check(&query, &results);
    return 0;
}
