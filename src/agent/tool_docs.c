/* The tool search_docs: sections of documentation and modules saved earlier, sized for a model. */

#include "agent/internal.h"

enum {
    ANSWER_BYTES = 6000, /* of all contents: about 1,500 tokens */
    CONTENT_MIN = 400,
};

static void tool_docs_put_result(struct json_out *out, const struct library_result *result,
                                 size_t room)
{
    /* The whole section where it fits, else the part around the best sentences. */
    struct str content = result->content.len <= room ? result->content : result->excerpt;
    json_begin_object(out);
    json_key(out, "type"), json_put_cstr(out, result->is_module ? "module" : "doc");
    json_key(out, "heading"), json_put_str(out, result->heading);
    json_key(out, "package"),
        json_put_str(out, result->is_module ? STR("session") : result->package);
    json_key(out, "url"), json_put_str(out, result->url);
    if (!result->is_module)
        json_key(out, "page"), json_put_i64(out, result->page);
    if (result->description.len > 0)
        json_key(out, "description"), json_put_str(out, result->description);
    json_key(out, "content"), tool_put_cut(out, content, room);
    json_key(out, "score"), json_put_f64(out, (double)result->score);
    json_end_object(out);
}

static void put_results(struct json_out *out, const struct library_results *results)
{
    size_t left = ANSWER_BYTES;
    json_begin_array(out);
    for (size_t i = 0; i < results->count; i++) {
        size_t room = MAX(left / (results->count - i), (size_t)CONTENT_MIN);
        const struct library_result *result = &results->items[i];
        tool_docs_put_result(out, result, room);
        size_t used =
            MIN(result->content.len <= room ? result->content.len : result->excerpt.len, room);
        left -= MIN(used, left);
    }
    json_end_array(out);
}

static void tool_docs_on_found(void *ctx, const struct docs_found *found, const struct err *why)
{
    struct tool_run *run = ctx;
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    if (tool_is_over(run))
        return;
    if (why != NULL) {
        tool_fail(run, why, NULL);
        return;
    }
    const struct library_results *results = found->results;
    json_begin_object(&out);
    json_key(&out, "success"), json_put_bool(&out, true);
    json_key(&out, "results"), put_results(&out, results);
    json_key(&out, "more"), json_put_i64(&out, (int64_t)(results->total - results->count));
    if (results->corrected.len > 0)
        json_key(&out, "corrected"), json_put_str(&out, results->corrected);
    if (!found->is_hybrid)
        json_key(&out, "mode"), json_put_cstr(&out, "keyword");
    json_end_object(&out);
    tool_end(run, &text);
}

void tool_search_docs(struct tool_run *run)
{
    struct docs_query query = {.text = tool_arg_str(run, "query"),
                               .package = tool_arg_str(run, "package"),
                               .session = run->session,
                               .limit = (size_t)tool_arg_int(run, "limit", 0)};
    engine_docs_search(run->engine, &run->caller, &query, tool_docs_on_found, run);
}
