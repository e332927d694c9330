/* The methods of each protocol revision, and the message format around them. */

#include "agent/mcp_internal.h"

enum { PUBLIC_TTL_MS = 60000 };

static const char *const levels[LEVEL_COUNT] = {"debug", "info",     "notice", "warning",
                                                "error", "critical", "alert",  "emergency"};

bool mcp_is_object(const struct json_t *value)
{
    return value != NULL && json_kind(value) == JSON_KIND_OBJECT;
}

struct str mcp_text(const struct json_t *object, const char *name)
{
    struct str text = {0};
    if (object != NULL)
        (void)!json_to_str(json_get(object, name), &text);
    return text;
}

bool mcp_is_initialize(const struct json_t *message)
{
    return json_kind(message) == JSON_KIND_OBJECT &&
           str_eq(mcp_text(message, "method"), STR("initialize"));
}

/* --- Messages --- */

static void begin_message(struct json_out *out, struct buf *text)
{
    *out = (struct json_out){.buf = text};
    json_begin_object(out);
    json_key(out, "jsonrpc"), json_put_cstr(out, "2.0");
}

void mcp_put_json(struct json_out *out, struct str json)
{
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL;
    if (json.len > 0 && json_parse(json, &value, &err) == 0)
        json_put_value(out, value);
    else
        json_put_null(out);
}

/* {"name", "title", "version"} */
static void put_server(struct json_out *out)
{
    json_begin_object(out);
    json_key(out, "name"), json_put_cstr(out, "sandglass");
    json_key(out, "title"), json_put_cstr(out, "sandglass code sandbox");
    json_key(out, "version"), json_put_cstr(out, SG_VERSION);
    json_end_object(out);
}

struct json_out *mcp_begin(struct json_out *out, struct buf *text, const struct mcp_asked *asked)
{
    begin_message(out, text);
    json_key(out, "id"), mcp_put_json(out, asked->id);
    json_key(out, "result");
    json_begin_object(out);
    if (!asked->is_modern)
        return out;
    json_key(out, "resultType"), json_put_cstr(out, "complete");
    json_key(out, "_meta");
    json_begin_object(out);
    json_key(out, MCP_META "serverInfo"), put_server(out);
    if (asked->is_listen)
        json_key(out, MCP_META "subscriptionId"), mcp_put_json(out, asked->id);
    json_end_object(out);
    return out;
}

/* What applies to every client changes only with the configuration. */
void mcp_put_cache(struct json_out *out, const struct mcp_asked *asked, bool is_public)
{
    if (!asked->is_modern)
        return;
    json_key(out, "ttlMs"), json_put_i64(out, is_public ? PUBLIC_TTL_MS : 0);
    json_key(out, "cacheScope"), json_put_cstr(out, is_public ? "public" : "private");
}

void mcp_send(struct mcp *mcp, const struct mcp_asked *asked, struct json_out *out)
{
    json_end_object(out);
    json_end_object(out);
    mcp->calls->on_message(mcp->ctx, asked->id, true, buf_str(out->buf));
}

void mcp_put_error(struct buf *text, struct str id, const struct mcp_fault *fault)
{
    struct json_out out;
    begin_message(&out, text);
    json_key(&out, "id"), mcp_put_json(&out, id);
    json_key(&out, "error");
    json_begin_object(&out);
    json_key(&out, "code"), json_put_i64(&out, fault->code);
    json_key(&out, "message"), json_put_cstr(&out, fault->message);
    if (fault->data != NULL)
        json_key(&out, "data"), mcp_put_json(&out, str_of(fault->data));
    json_end_object(&out);
    json_end_object(&out);
}

void mcp_send_error(struct mcp *mcp, struct str id, int code, const char *message)
{
    AUTO_BUF struct buf text = {0};
    mcp_put_error(&text, id, &(struct mcp_fault){.code = code, .message = message});
    mcp->calls->on_message(mcp->ctx, id, true, buf_str(&text));
}

struct json_out *mcp_begin_note(struct json_out *out, struct buf *text, const char *method)
{
    begin_message(out, text);
    json_key(out, "method"), json_put_cstr(out, method);
    json_key(out, "params");
    return out;
}

void mcp_send_note(struct mcp *mcp, struct str about, struct json_out *out)
{
    json_end_object(out);
    mcp->calls->on_message(mcp->ctx, about, false, buf_str(out->buf));
}

void mcp_refuse(struct mcp *mcp, const char *why)
{
    mcp_send_error(mcp, (struct str){0}, RPC_PARSE, why);
}

/* --- Methods that are answered at once --- */

static void put_capabilities(struct json_out *out)
{
    json_key(out, "capabilities");
    json_begin_object(out);
    json_key(out, "tools"), json_begin_object(out), json_end_object(out);
    json_key(out, "resources");
    json_begin_object(out);
    json_key(out, "subscribe"), json_put_bool(out, true);
    json_key(out, "listChanged"), json_put_bool(out, true);
    json_end_object(out);
    json_key(out, "prompts"), json_begin_object(out), json_end_object(out);
    json_key(out, "completions"), json_begin_object(out), json_end_object(out);
    json_key(out, "logging"), json_begin_object(out), json_end_object(out);
    json_end_object(out);
}

void mcp_put_abilities(struct mcp *mcp, struct json_out *out)
{
    AUTO_BUF struct buf prompt = {0};
    put_capabilities(out);
    struct session_info session;
    struct err err = {0};
    const struct tool_context *context = &mcp->context;
    bool is_known = engine_session_get(context->engine, &context->caller, context->session,
                                       &session, &err) == 0;
    tools_put_prompt(context->engine, context->config, context->caller.tenant,
                     is_known ? &session : NULL, &prompt);
    json_key(out, "instructions"), json_put_str(out, buf_str(&prompt));
}

/* A client that asks for a revision that we do not know gets the newest of its kind. */
static void initialize(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    struct str version = mcp_text(params, "protocolVersion");
    bool is_known = mcp_speaks(version) && !mcp_is_modern_version(version);
    mcp->is_ready = true;
    (void)mcp_begin(&out, &text, asked);
    json_key(&out, "protocolVersion");
    json_put_str(&out, is_known ? version : str_of(mcp_old_versions[0]));
    json_key(&out, "serverInfo"), put_server(&out);
    mcp_put_abilities(mcp, &out);
    mcp_send(mcp, asked, &out);
}

void mcp_send_empty(struct mcp *mcp, const struct mcp_asked *asked)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    (void)mcp_begin(&out, &text, asked);
    mcp_send(mcp, asked, &out);
}

static void ping(struct mcp *mcp, const struct mcp_asked *asked, UNUSED const struct json_t *params)
{
    mcp_send_empty(mcp, asked);
}

static void list_tools(struct mcp *mcp, const struct mcp_asked *asked,
                       UNUSED const struct json_t *params)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    (void)mcp_begin(&out, &text, asked);
    const struct tool_context *context = &mcp->context;
    unsigned also =
        tools_also(context->engine, context->caller.tenant, tool_has_turns(&mcp->context));
    /* With undo they differ from session to session, with documents from tenant to tenant. */
    mcp_put_cache(&out, asked, !context->config->sandbox.undo_tool && !(also & TOOL_OF_DOCS));
    json_key(&out, "tools");
    tools_put(context->config, TOOLS_MCP, also, &out);
    mcp_send(mcp, asked, &out);
}

bool mcp_level_of(struct str name, int *ret_level)
{
    for (int i = 0; i < LEVEL_COUNT; i++)
        if (str_eq(name, str_of(levels[i]))) {
            *ret_level = i;
            return true;
        }
    return false;
}

static void set_level(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params)
{
    if (mcp_level_of(mcp_text(params, "level"), &mcp->level))
        mcp_send_empty(mcp, asked);
    else
        mcp_send_error(
            mcp, asked->id, RPC_PARAMS,
            "level: must be debug, info, notice, warning, error, critical, alert or emergency");
}

/* --- Dispatch --- */

enum { OLD = 1, MODERN = 2, BOTH = OLD | MODERN };

static const struct method {
    const char *name;
    void (*answer)(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params);
    int kinds; /* of requests that have it */
} methods[] = {
    {"initialize", initialize, OLD},
    {"ping", ping, OLD},
    {"server/discover", mcp_discover, MODERN},
    {"tools/list", list_tools, BOTH},
    {"tools/call", mcp_call_tool, BOTH},
    {"resources/list", mcp_list_files, BOTH},
    {"resources/templates/list", mcp_list_templates, BOTH},
    {"resources/read", mcp_read_file, BOTH},
    {"resources/subscribe", mcp_subscribe, OLD},
    {"resources/unsubscribe", mcp_unsubscribe, OLD},
    {"subscriptions/listen", mcp_listen, MODERN},
    {"prompts/list", mcp_list_prompts, BOTH},
    {"prompts/get", mcp_get_prompt, BOTH},
    {"completion/complete", mcp_complete, BOTH},
    {"logging/setLevel", set_level, OLD},
};

static const struct method *method_of(struct str name, bool is_modern)
{
    for (size_t i = 0; i < countof(methods); i++)
        if (str_eq(name, str_of(methods[i].name)))
            return (methods[i].kinds & (is_modern ? MODERN : OLD)) != 0 ? &methods[i] : NULL;
    return NULL;
}

bool mcp_has_method(struct str name, bool is_modern)
{
    return method_of(name, is_modern) != NULL;
}

static void answer(struct mcp *mcp, struct str id, const struct json_t *message)
{
    AUTO_BUF struct buf fault = {0};
    const struct json_t *params = json_get(message, "params");
    struct mcp_asked asked = mcp_asked_of(params, id);
    const struct method *method = method_of(mcp_text(message, "method"), asked.is_modern);
    if (mcp_find_fault(message, asked.is_modern, &fault) != 0)
        mcp->calls->on_message(mcp->ctx, id, true, buf_str(&fault));
    else if (!asked.is_modern && !mcp->is_ready && method->answer != initialize &&
             method->answer != ping)
        mcp_send_error(mcp, id, RPC_INVALID, "send initialize first");
    else
        method->answer(mcp, &asked, params);
}

bool mcp_is_message(const struct json_t *message)
{
    if (!mcp_is_object(message))
        return false;
    const struct json_t *id = json_get(message, "id"), *method = json_get(message, "method");
    bool has_id = id != NULL && (json_kind(id) == JSON_KIND_STR || json_kind(id) == JSON_KIND_INT);
    return method != NULL ? json_kind(method) == JSON_KIND_STR && (id == NULL || has_id) : has_id;
}

/* 1 when it is a request. */
static size_t take_one(struct mcp *mcp, const struct json_t *message)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    if (!mcp_is_message(message)) {
        mcp_send_error(mcp, (struct str){0}, RPC_INVALID, "not a JSON-RPC 2.0 message");
        return 1;
    }
    struct str name = mcp_text(message, "method");
    const struct json_t *id = json_get(message, "id");
    if (json_get(message, "method") != NULL && id != NULL) {
        json_put_value(&out, id);
        answer(mcp, buf_str(&text), message);
        return 1;
    }
    /* Answers to us there are none: we ask nothing. Unknown notifications are let pass. */
    if (str_eq(name, STR("notifications/cancelled")))
        mcp_cancel(mcp, json_get(message, "params"));
    return 0;
}

size_t mcp_take(struct mcp *mcp, const struct json_t *message)
{
    if (json_kind(message) != JSON_KIND_ARRAY)
        return take_one(mcp, message);
    size_t requests = 0;
    for (size_t i = 0; i < json_len(message); i++)
        requests += take_one(mcp, json_at(message, i));
    return requests;
}

/* --- Life --- */

struct mcp *mcp_new(const struct mcp_options *options, const struct mcp_calls *calls, void *ctx)
{
    struct mcp *mcp = mem_alloc(sizeof *mcp);
    *mcp = (struct mcp){
        .calls = calls, .ctx = ctx, .is_ready = options->is_known, .level = LEVEL_COUNT};
    mcp->context = (struct tool_context){.engine = options->engine,
                                         .config = options->config,
                                         .loop = options->loop,
                                         .caller = options->caller,
                                         .session = arena_dup(&mcp->arena, options->session)};
    struct engine_caller *caller = &mcp->context.caller;
    caller->tenant = arena_dup(&mcp->arena, caller->tenant);
    caller->key = caller->request_hash = (struct str){0};
    return mcp;
}

bool mcp_is_busy(const struct mcp *mcp)
{
    return mcp->running != NULL;
}

struct mcp *mcp_free(struct mcp *mcp)
{
    if (mcp == NULL)
        return NULL;
    mcp_watch_done(mcp);
    while (mcp->running != NULL) {
        struct mcp_call *call = mcp->running;
        mcp->running = call->next;
        call->mcp = NULL;
        if (call->run != NULL) {
            tool_cancel(call->run);
            mcp_call_free(call);
        }
    }
    arena_done(&mcp->arena);
    free(mcp);
    return NULL;
}
