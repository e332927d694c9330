/* /v1/docs: documents for search, and the search itself. */

#include "api/v1/v1.h"

static void put_source(struct json_out *out, const void *thing)
{
    const struct docs_info *info = thing;
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, info->id);
    json_key(out, "kind"), json_put_str(out, info->kind);
    v1_put_str(out, "package", info->package);
    json_key(out, "location"), json_put_str(out, info->location);
    json_key(out, "state"), json_put_str(out, info->state);
    v1_put_str(out, "error", info->error);
    json_key(out, "configured"), json_put_bool(out, info->is_config);
    json_key(out, "pages"), json_put_i64(out, (int64_t)info->pages);
    json_key(out, "chunks"), json_put_i64(out, (int64_t)info->chunks);
    json_key(out, "vectors"), json_put_i64(out, (int64_t)info->vectors);
    v1_put_date(out, "createdAt", info->created_ms);
    v1_put_date(out, "checkedAt", info->checked_ms);
    json_end_object(out);
}

static void on_added(void *ctx, const struct docs_info *info, const struct err *why)
{
    v1_reply_one(ctx, put_source, info, why);
}

static size_t read_pages(struct request *request, struct docs_upload **ret_pages)
{
    const struct json_t *list = request->json == NULL ? NULL : json_get(request->json, "pages");
    struct str text = request_str(request, "text"), name = request_str(request, "name");
    size_t count = list == NULL ? 0 : json_len(list);
    struct docs_upload *pages = arena_array(&request->arena, struct docs_upload, count + 2);
    for (size_t i = 0; i < count; i++)
        pages[i] = (struct docs_upload){v1_str(json_at(list, i), "path"),
                                        v1_str(json_at(list, i), "text")};
    if (text.len > 0)
        pages[count++] = (struct docs_upload){name, text};
    *ret_pages = pages;
    return count;
}

static void v1_docs_add(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    struct docs_upload *pages = NULL;
    size_t count = read_pages(request, &pages);
    struct docs_spec spec = {.package = request_str(request, "package"),
                             .url = request_str(request, "url"),
                             .directory = request_str(request, "directory"),
                             .name = request_str(request, "name"),
                             .pages = pages,
                             .page_count = count};
    request_hold(request);
    engine_docs_add(api->engine, &caller, &spec, on_added, request);
}

static void on_list(void *ctx, const struct docs_info *items, size_t count, const struct err *why)
{
    if (why != NULL)
        reply_error(ctx, why);
    else
        v1_reply_rows(ctx, "sources",
                      &(struct v1_rows){put_source, items, count, sizeof *items, NULL});
}

static void list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_docs_list(api->engine, &caller, on_list, request);
}

static void v1_docs_remove(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_docs_remove(api->engine, &caller, request_param(request, "id"), v1_done, request);
}

/* ---- search -------------------------------------------------------------------------------- */

static void v1_docs_put_result(struct json_out *out, const struct library_result *result)
{
    json_begin_object(out);
    json_key(out, "type"), json_put_cstr(out, result->is_module ? "module" : "doc");
    json_key(out, "id"), json_put_cstr(out, result->key);
    json_key(out, "heading"), json_put_str(out, result->heading);
    json_key(out, "content"), json_put_str(out, result->content);
    json_key(out, "excerpt"), json_put_str(out, result->excerpt);
    json_key(out, "package"),
        json_put_str(out, result->is_module ? STR("session") : result->package);
    json_key(out, "url"), json_put_str(out, result->url);
    json_key(out, "page"), json_put_i64(out, result->page);
    json_key(out, "score"), json_put_f64(out, (double)result->score);
    if (result->is_module) {
        v1_put_str(out, "description", result->description);
        json_key(out, "exports"), v1_put_json(out, result->exports, "[]");
    }
    if (result->before.len > 0)
        json_key(out, "before"), json_put_str(out, result->before);
    if (result->after.len > 0)
        json_key(out, "after"), json_put_str(out, result->after);
    json_end_object(out);
}

static void v1_docs_on_found(void *ctx, const struct docs_found *found, const struct err *why)
{
    struct request *request = ctx;
    if (why != NULL) {
        reply_error(request, why);
        return;
    }
    struct v1_answer answer;
    struct json_out *out = v1_begin(&answer);
    const struct library_results *results = found->results;
    json_begin_object(out);
    json_key(out, "results");
    json_begin_array(out);
    for (size_t i = 0; i < results->count; i++)
        v1_docs_put_result(out, &results->items[i]);
    json_end_array(out);
    json_key(out, "total"), json_put_i64(out, (int64_t)results->total);
    json_key(out, "mode"), json_put_cstr(out, found->is_hybrid ? "hybrid" : "keyword");
    v1_put_str(out, "corrected", results->corrected);
    json_end_object(out);
    v1_reply(request, 200, &answer);
}

static void v1_docs_search(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    struct docs_query query = {0};
    struct err err;
    if (!request_query(request, "query", &query.text)) {
        (void)err_set(&err, ERR_INVALID, "query: is missing");
        reply_error(request, &err);
        return;
    }
    (void)request_query(request, "package", &query.package);
    (void)request_query(request, "kind", &query.kind);
    (void)request_query(request, "language", &query.language);
    (void)request_query(request, "session", &query.session);
    (void)request_query(request, "volume", &query.volume);
    query.limit = (size_t)request_query_int(request, "limit", 0);
    query.offset = (size_t)request_query_int(request, "offset", 0);
    query.neighbours = (size_t)request_query_int(request, "neighbours", 0);
    request_hold(request);
    engine_docs_search(api->engine, &caller, &query, v1_docs_on_found, request);
}

/* ---- a whole page -------------------------------------------------------------------------- */

static void put_page(struct json_out *out, const void *thing)
{
    const struct docs_page *page = thing;
    json_begin_object(out);
    json_key(out, "page"), json_put_i64(out, page->id);
    json_key(out, "url"), json_put_str(out, page->path);
    json_key(out, "title"), json_put_str(out, page->title);
    json_key(out, "text"), json_put_str(out, page->text);
    v1_put_date(out, "updatedAt", page->updated_ms);
    json_end_object(out);
}

static void v1_docs_on_page(void *ctx, const struct docs_page *page, const struct err *why)
{
    v1_reply_one(ctx, put_page, page, why);
}

static void get_page(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    int64_t id = 0;
    struct err err;
    if (!str_to_i64(request_param(request, "page"), 1, INT64_MAX, &id)) {
        (void)err_set(&err, ERR_NOT_FOUND, "no such page");
        reply_error(request, &err);
        return;
    }
    request_hold(request);
    engine_docs_page(api->engine, &caller, id, v1_docs_on_page, request);
}

/* clang-format off */
static const struct route_query search_query[] = {
    {"query", JSON({"type": "string", "minLength": 1, "maxLength": 4096}), "Words, a question, or the name of a function"},
    {"package", JSON({"type": "string", "maxLength": 214}), "Only documents of this package"},
    {"kind", JSON({"type": "string", "enum": ["doc", "module"]}), "Only documents, or only saved modules"},
    {"language", JSON({"type": "string", "maxLength": 32}), "Only for this language: javascript, typescript, python, bash; documents whose language is not known are found too"},
    {"session", JSON({"type": "string", "maxLength": 64}), "Also its saved modules"},
    {"volume", JSON({"type": "string", "maxLength": 64}), "The same, by the session's volume"},
    {"limit", JSON({"type": "integer", "minimum": 1, "maximum": 50}), "Default 5"},
    {"offset", JSON({"type": "integer", "minimum": 0, "maximum": 10000}), "Results to leave out at the beginning"},
    {"neighbours", JSON({"type": "integer", "minimum": 0, "maximum": 5}), "Chunks of text before and after each result to return too"},
    {0},
};

#define NOUN "docs"
#define FAILS (E(UNAVAILABLE) | E(LIMIT))
#define PAGE "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"path\",\"text\"],\"properties\":{" \
    JSON("path": {"type": "string", "minLength": 1, "maxLength": 512}, "text": {"type": "string", "maxLength": 4194304}) "}}"

const struct route v1_docs_routes[] = {
    {"POST", "/v1/docs", v1_docs_add, "Add documents to the search", SCOPE_RUN, NOUN,
     .details = "One of: url, which the server fetches in the background and again from time to time; text or pages with a name, an upload, which replaces an earlier one of the same name; directory, a directory or file of the server (operators only), which is read again at each start. Markdown, MDX, HTML, plain text and TypeScript declarations are supported. The event docs.ready or docs.failed reports what became of it.",
     .request = V1_BODY(JSON("package": {"type": "string", "maxLength": 214,
            "description": "What it documents, such as @acme/sdk or pypi:requests"}) ","
        JSON("url": {"type": "string", "maxLength": 8192}) ","
        JSON("directory": {"type": "string", "maxLength": 4096}) ","
        JSON("name": {"type": "string", "maxLength": 512, "description": "Name of an upload; its extension, such as .md, sets the format"}) ","
        JSON("text": {"type": "string", "maxLength": 4194304}) ","
        "\"pages\":{\"type\":\"array\",\"maxItems\":2000,\"items\":" PAGE "}"),
     .response = "DocsSource", .status = 201, .errors = FAILS | E(FORBIDDEN) | E(TOO_LARGE) | E(NOT_FOUND) | E(UNSUPPORTED),
     .example = "-d '{\"name\": \"guide.md\", \"package\": \"@acme/sdk\", \"text\": \"# Guide\\n## Login\\nCall createClient.\"}'"},
    {"GET", "/v1/docs", list, "List documents", SCOPE_READ, NOUN,
     .details = "Sources of the server's configuration and of the tenant.", .response = "DocsSourceList",
     .errors = FAILS, .example = ""},
    {"GET", "/v1/docs/search", v1_docs_search, "Search documents and saved modules", SCOPE_READ, NOUN,
     .details = "One list, best first. mode is hybrid (words and meaning) or keyword (words only).",
     .query = search_query, .response = "DocsResults", .errors = FAILS | E(NOT_FOUND), .example = "?query=createClient"},
    {"GET", "/v1/docs/pages/{page}", get_page, "Read a whole page of documentation", SCOPE_READ, NOUN,
     .details = "page is the number that search results have.", .response = "DocsPage",
     .errors = FAILS | E(NOT_FOUND), .example = NULL},
    {"DELETE", "/v1/docs/{id}", v1_docs_remove, "Remove documents", SCOPE_RUN, NOUN, .gives = FORM_NONE,
     .status = 204, .errors = FAILS | E(NOT_FOUND) | E(FORBIDDEN), .example = NULL},
    {0},
};
/* clang-format on */
