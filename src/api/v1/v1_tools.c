/* /v1/tools: what a language model is offered, and a route to call it by. */

#include "agent/tool.h"
#include "api/v1/v1.h"

static void v1_tools_list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct str name = STR("json");
    enum tool_format format = TOOLS_JSON;
    struct v1_answer answer;
    (void)request_query(request, "format", &name);
    (void)!tool_format_of_name(name, &format); /* the route has checked it */
    struct json_out *out = v1_begin(&answer);
    AUTO_BUF struct buf prompt = {0};
    struct str tenant = request_caller(request).tenant;
    tools_put_prompt(api->engine, api->config, tenant, NULL, &prompt);
    json_begin_object(out);
    json_key(out, "tools"),
        tools_put(api->config, format, tools_also(api->engine, tenant, true), out);
    json_key(out, "systemPrompt"), json_put_str(out, buf_str(&prompt));
    json_end_object(out);
    v1_reply(request, 200, &answer);
}

static void on_done(void *ctx, const struct tool_answer *answer)
{
    struct request *request = ctx;
    struct v1_answer text;
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL;
    struct json_out *out = v1_begin(&text);
    json_begin_object(out);
    json_key(out, "isError"), json_put_bool(out, answer->is_error);
    json_key(out, "answer");
    if (json_parse(answer->json, &value, &err) == 0)
        json_put_value(out, value);
    else
        json_put_null(out);
    json_key(out, "images");
    json_begin_array(out);
    for (size_t i = 0; i < answer->image_count; i++) {
        json_begin_object(out);
        json_key(out, "mimeType"), json_put_str(out, answer->images[i].mime);
        json_key(out, "data"), json_put_str(out, answer->images[i].base64);
        json_end_object(out);
    }
    json_end_array(out);
    json_end_object(out);
    v1_reply(request, 200, &text);
}

static const struct tool_calls calls = {.on_done = on_done};

static void call(struct request *request, struct tool_context *context)
{
    struct err err = {0};
    struct str name = request_param(request, "name");
    if (tool_find(context->config, name) == NULL) {
        (void)err_set(&err, ERR_NOT_FOUND, "unknown tool '%.*s'; GET /v1/tools lists the tools",
                      STR_ARG(name));
        reply_error(request, &err);
        return;
    }
    request_hold(request);
    (void)tool_start(context, name, request->json, &calls, request);
}

static struct tool_context context_of(struct request *request, const struct api *api)
{
    return (struct tool_context){.engine = api->engine,
                                 .config = api->config,
                                 .loop = api->loop,
                                 .caller = request_caller(request)};
}

static void call_in_session(struct request *request, void *ctx)
{
    struct err err = {0};
    struct session_info session;
    struct tool_context context = context_of(request, ctx);
    context.session = request_param(request, "id");
    if (engine_session_get(context.engine, &context.caller, context.session, &session, &err) < 0)
        reply_error(request, &err);
    else
        call(request, &context);
}

static void call_in_sandbox(struct request *request, void *ctx)
{
    struct err err = {0};
    struct sandbox_info sandbox;
    struct tool_context context = context_of(request, ctx);
    context.sandbox = request_param(request, "id");
    if (engine_sandbox_get(context.engine, &context.caller, context.sandbox, &sandbox, &err) < 0)
        reply_error(request, &err);
    else
        call(request, &context);
}

/* clang-format off */
static const struct route_query format_query[] = {
    {"format", JSON({"type": "string", "enum": ["json", "openai", "anthropic", "mcp"]}),
     "Format of the list (default json)"}, {0},
};

#define NOUN "tools"

const struct route v1_tool_routes[] = {
    {"GET", "/v1/tools", v1_tools_list, "List the tools for a language model", SCOPE_READ, NOUN,
     .details = "Also returns text for the system prompt. The list is empty if the configuration has [sandbox] enabled = false; undo is listed if it has undo_tool = true.",
     .query = format_query, .response = "ToolList", .example = "?format=openai"},
    {"POST", "/v1/sessions/{id}/tools/{name}", call_in_session, "Call a tool in a session", SCOPE_RUN, NOUN,
     .details = "The body is the tool's arguments. An error is part of a 200 response, with isError true and a text for the model.",
     .request = JSON({"type": "object", "additionalProperties": true}), .response = "ToolAnswer",
     .errors = E(NOT_FOUND), .example = NULL},
    {"POST", "/v1/sandboxes/{id}/tools/{name}", call_in_sandbox, "Call a tool in a sandbox", SCOPE_RUN,
     NOUN, .details = "As in a session.",
     .request = JSON({"type": "object", "additionalProperties": true}), .response = "ToolAnswer",
     .errors = E(NOT_FOUND), .example = NULL},
    {0},
};
/* clang-format on */
