/* tools/call: a tool's answer as content, its output as progress and log messages. */

#include "agent/mcp_internal.h"

enum { PROGRESS_TEXT_MAX = 2000 };

static char *json_text(const struct json_t *value)
{
    struct buf text = {0};
    struct json_out out = {.buf = &text};
    json_put_value(&out, value);
    return buf_take(&text);
}

struct mcp_call *mcp_call_new(struct mcp *mcp, const struct mcp_asked *asked,
                              const struct json_t *params)
{
    struct mcp_call *call = mem_alloc(sizeof *call);
    const struct json_t *meta = json_get(params, "_meta");
    const struct json_t *token = meta == NULL ? NULL : json_get(meta, "progressToken");
    *call = (struct mcp_call){.next = mcp->running, .mcp = mcp, .asked = *asked};
    call->id = mem_dup(asked->id.ptr, asked->id.len);
    call->asked.id = str_n(call->id, asked->id.len);
    if (token != NULL)
        call->progress_token = json_text(token);
    mcp->running = call;
    return call;
}

void mcp_call_free(struct mcp_call *call)
{
    if (call->mcp != NULL)
        for (struct mcp_call **at = &call->mcp->running; *at != NULL; at = &(*at)->next)
            if (*at == call) {
                *at = call->next;
                break;
            }
    buf_done(&call->uri);
    free(call->id);
    free(call->progress_token);
    free(call);
}

/* --- Output, as it comes --- */

static void send_progress(struct mcp_call *call, struct str line)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    json_begin_object(mcp_begin_note(&out, &text, "notifications/progress"));
    json_key(&out, "progressToken"), mcp_put_json(&out, str_of(call->progress_token));
    json_key(&out, "progress"), json_put_i64(&out, ++call->progress);
    json_key(&out, "message"), tool_put_cut(&out, line, PROGRESS_TEXT_MAX);
    json_end_object(&out);
    mcp_send_note(call->mcp, call->asked.id, &out);
}

static void send_log(struct mcp_call *call, bool is_stderr, struct str line)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    json_begin_object(mcp_begin_note(&out, &text, "notifications/message"));
    json_key(&out, "level"), json_put_cstr(&out, is_stderr ? "warning" : "info");
    json_key(&out, "logger"), json_put_cstr(&out, is_stderr ? "stderr" : "stdout");
    json_key(&out, "data"), tool_put_cut(&out, line, PROGRESS_TEXT_MAX);
    json_end_object(&out);
    mcp_send_note(call->mcp, call->asked.id, &out);
}

static void mcp_call_on_output(void *ctx, bool is_stderr, struct str text)
{
    struct mcp_call *call = ctx;
    struct str line = str_trim(text);
    if (call->progress_token != NULL)
        send_progress(call, line);
    int level = call->asked.is_modern ? call->asked.level : call->mcp->level;
    if (level <= (int)(is_stderr ? LEVEL_WARNING : LEVEL_INFO))
        send_log(call, is_stderr, line);
}

/* --- The answer --- */

static void put_images(struct json_out *out, const struct tool_answer *answer)
{
    for (size_t i = 0; i < answer->image_count; i++) {
        json_begin_object(out);
        json_key(out, "type"), json_put_cstr(out, "image");
        json_key(out, "data"), json_put_str(out, answer->images[i].base64);
        json_key(out, "mimeType"), json_put_str(out, answer->images[i].mime);
        json_end_object(out);
    }
}

/* Clients check what is structured against the tool's schema; most errors do not fit it. */
static void put_answer(struct json_out *out, const struct tool_answer *answer)
{
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL;
    json_key(out, "content");
    json_begin_array(out);
    json_begin_object(out);
    json_key(out, "type"), json_put_cstr(out, "text");
    json_key(out, "text"), json_put_str(out, answer->json);
    json_end_object(out);
    put_images(out, answer);
    json_end_array(out);
    if (answer->fits_schema && json_parse(answer->json, &value, &err) == 0)
        json_key(out, "structuredContent"), json_put_value(out, value);
    json_key(out, "isError"), json_put_bool(out, answer->is_error);
}

static void mcp_call_on_done(void *ctx, const struct tool_answer *answer)
{
    struct mcp_call *call = ctx;
    struct mcp *mcp = call->mcp;
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    call->run = NULL;
    put_answer(mcp_begin(&out, &text, &call->asked), answer);
    mcp_send(mcp, &call->asked, &out);
    mcp_call_free(call);
}

static const struct tool_calls calls = {mcp_call_on_output, mcp_call_on_done};

void mcp_call_tool(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params)
{
    struct str name = {0};
    const struct json_t *args = json_get(params, "arguments");
    AUTO_BUF struct buf why = {0};
    if (!json_to_str(json_get(params, "name"), &name) ||
        tool_find(mcp->context.config, name) == NULL) {
        buf_printf(&why, "unknown tool '%.*s'; tools/list lists the tools", STR_ARG(name));
        mcp_send_error(mcp, asked->id, RPC_PARAMS, buf_cstr(&why));
        return;
    }
    mcp_rewatch(mcp);
    struct mcp_call *call = mcp_call_new(mcp, asked, params);
    call->run = tool_start(&mcp->context, name, args, &calls, call);
}

/* The request gets no answer then; one that is unknown has had its answer already. */
void mcp_cancel(struct mcp *mcp, const struct json_t *params)
{
    AUTO_BUF struct buf id = {0};
    struct json_out out = {.buf = &id};
    const struct json_t *named = params == NULL ? NULL : json_get(params, "requestId");
    if (named == NULL)
        return;
    json_put_value(&out, named);
    for (struct mcp_call *call = mcp->running; call != NULL; call = call->next)
        if (call->run != NULL && str_eq(call->asked.id, buf_str(&id))) {
            struct tool_run *run = call->run;
            call->run = NULL;
            mcp->calls->on_message(mcp->ctx, buf_str(&id), true, (struct str){0});
            mcp_call_free(call);
            tool_cancel(run);
            return;
        }
    (void)mcp_unlisten(mcp, buf_str(&id));
}
