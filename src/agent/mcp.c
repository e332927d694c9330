/* Who speaks which method, and the words around them. */

#include "agent/mcp_internal.h"

/* The newest first: what a client gets that asks for one that we do not know. */
static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

static const char *const levels[LEVEL_COUNT] = {"debug", "info",     "notice", "warning",
                                                "error", "critical", "alert",  "emergency"};

bool mcp_speaks(struct str version)
{
    for (size_t i = 0; i < countof(versions); i++)
        if (str_eq(version, str_of(versions[i])))
            return true;
    return false;
}

static struct str text_of(const struct json_t *object, const char *name)
{
    struct str text = {0};
    (void)!json_to_str(json_get(object, name), &text);
    return text;
}

bool mcp_is_initialize(const struct json_t *message)
{
    return json_kind(message) == JSON_KIND_OBJECT &&
           str_eq(text_of(message, "method"), STR("initialize"));
}

/* --- Messages --- */

static void begin_message(struct json_out *out, struct buf *text)
{
    *out = (struct json_out){.buf = text};
    json_begin_object(out);
    json_key(out, "jsonrpc"), json_put_cstr(out, "2.0");
}

/* `id` is JSON that we have parsed before. */
static void put_id(struct json_out *out, struct str id)
{
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL;
    json_key(out, "id");
    if (id.len > 0 && json_parse(id, &value, &err) == 0)
        json_put_value(out, value);
    else
        json_put_null(out);
}

struct json_out *mcp_begin(struct json_out *out, struct buf *text, struct str id)
{
    begin_message(out, text);
    put_id(out, id);
    json_key(out, "result");
    return out;
}

void mcp_send(struct mcp *mcp, struct str id, struct json_out *out)
{
    json_end_object(out);
    mcp->calls->on_message(mcp->ctx, id, true, buf_str(out->buf));
}

void mcp_send_error(struct mcp *mcp, struct str id, int code, const char *message)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    begin_message(&out, &text);
    put_id(&out, id);
    json_key(&out, "error");
    json_begin_object(&out);
    json_key(&out, "code"), json_put_i64(&out, code);
    json_key(&out, "message"), json_put_cstr(&out, message);
    json_end_object(&out);
    mcp_send(mcp, id, &out);
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

static void initialize(struct mcp *mcp, struct str id, const struct json_t *params)
{
    AUTO_BUF struct buf text = {0};
    AUTO_BUF struct buf prompt = {0};
    struct json_out out;
    struct str asked = text_of(params, "protocolVersion");
    mcp->is_ready = true;
    (void)mcp_begin(&out, &text, id);
    json_begin_object(&out);
    json_key(&out, "protocolVersion");
    json_put_str(&out, mcp_speaks(asked) ? asked : str_of(versions[0]));
    put_capabilities(&out);
    json_key(&out, "serverInfo");
    json_begin_object(&out);
    json_key(&out, "name"), json_put_cstr(&out, "sandglass");
    json_key(&out, "title"), json_put_cstr(&out, "sandglass code sandbox");
    json_key(&out, "version"), json_put_cstr(&out, SG_VERSION);
    json_end_object(&out);
    tools_put_prompt(mcp->context.config, &prompt);
    json_key(&out, "instructions"), json_put_str(&out, buf_str(&prompt));
    json_end_object(&out);
    mcp_send(mcp, id, &out);
}

void mcp_send_empty(struct mcp *mcp, struct str id)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    json_begin_object(mcp_begin(&out, &text, id));
    json_end_object(&out);
    mcp_send(mcp, id, &out);
}

static void ping(struct mcp *mcp, struct str id, UNUSED const struct json_t *params)
{
    mcp_send_empty(mcp, id);
}

static void list_tools(struct mcp *mcp, struct str id, UNUSED const struct json_t *params)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    json_begin_object(mcp_begin(&out, &text, id));
    json_key(&out, "tools"), tools_put(mcp->context.config, TOOLS_MCP, &out);
    json_end_object(&out);
    mcp_send(mcp, id, &out);
}

static void list_templates(struct mcp *mcp, struct str id, UNUSED const struct json_t *params)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    json_begin_object(mcp_begin(&out, &text, id));
    json_key(&out, "resourceTemplates");
    json_begin_array(&out);
    json_begin_object(&out);
    json_key(&out, "uriTemplate"), json_put_cstr(&out, MCP_FILE_TEMPLATE);
    json_key(&out, "name"), json_put_cstr(&out, "workspace");
    json_key(&out, "title"), json_put_cstr(&out, "Files of the sandbox");
    json_end_object(&out);
    json_end_array(&out);
    json_end_object(&out);
    mcp_send(mcp, id, &out);
}

static void set_level(struct mcp *mcp, struct str id, const struct json_t *params)
{
    struct str name = text_of(params, "level");
    for (int i = 0; i < LEVEL_COUNT; i++)
        if (str_eq(name, str_of(levels[i]))) {
            mcp->logs = true;
            mcp->level = i;
            mcp_send_empty(mcp, id);
            return;
        }
    mcp_send_error(mcp, id, RPC_PARAMS,
                   "level: debug, info, notice, warning, error, critical, alert or emergency");
}

/* --- Prompts --- */

static const struct prompt {
    const char *name, *title, *help, *argument, *argument_help, *text;
} prompts[] = {
    {"analyze_file", "Analyze a file", "Look into a file of the sandbox and tell what is in it",
     "path", "The file, below /workspace",
     "Look into the file %.*s in the sandbox: read it (or load it with run_code when it is data), "
     "say what it holds, and show the most telling figures or a chart."},
    {"explore", "Explore the workspace", "Answer a question from the files of the sandbox",
     "question", "What you want to know",
     "Answer this from the files in /workspace, with list, glob, grep and read; name the files and "
     "lines that you rely on: %.*s"},
};

const char *mcp_prompt_argument(struct str name)
{
    for (size_t i = 0; i < countof(prompts); i++)
        if (str_eq(name, str_of(prompts[i].name)))
            return prompts[i].argument;
    return NULL;
}

static void list_prompts(struct mcp *mcp, struct str id, UNUSED const struct json_t *params)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    json_begin_object(mcp_begin(&out, &text, id));
    json_key(&out, "prompts");
    json_begin_array(&out);
    for (size_t i = 0; i < countof(prompts); i++) {
        json_begin_object(&out);
        json_key(&out, "name"), json_put_cstr(&out, prompts[i].name);
        json_key(&out, "title"), json_put_cstr(&out, prompts[i].title);
        json_key(&out, "description"), json_put_cstr(&out, prompts[i].help);
        json_key(&out, "arguments");
        json_begin_array(&out);
        json_begin_object(&out);
        json_key(&out, "name"), json_put_cstr(&out, prompts[i].argument);
        json_key(&out, "description"), json_put_cstr(&out, prompts[i].argument_help);
        json_key(&out, "required"), json_put_bool(&out, true);
        json_end_object(&out);
        json_end_array(&out);
        json_end_object(&out);
    }
    json_end_array(&out);
    json_end_object(&out);
    mcp_send(mcp, id, &out);
}

static void put_prompt(struct json_out *out, const struct prompt *prompt, struct str argument)
{
    AUTO_BUF struct buf words = {0};
    struct str rest = str_of(prompt->text);
    size_t at = str_find(rest, STR("%.*s"));
    buf_put(&words, str_slice(rest, 0, at));
    buf_put(&words, argument);
    buf_put(&words, str_slice(rest, at + strlen("%.*s"), rest.len));
    json_begin_object(out);
    json_key(out, "description"), json_put_cstr(out, prompt->help);
    json_key(out, "messages");
    json_begin_array(out);
    json_begin_object(out);
    json_key(out, "role"), json_put_cstr(out, "user");
    json_key(out, "content");
    json_begin_object(out);
    json_key(out, "type"), json_put_cstr(out, "text");
    json_key(out, "text"), json_put_str(out, buf_str(&words));
    json_end_object(out);
    json_end_object(out);
    json_end_array(out);
    json_end_object(out);
}

static void get_prompt(struct mcp *mcp, struct str id, const struct json_t *params)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    struct str name = text_of(params, "name");
    for (size_t i = 0; i < countof(prompts); i++) {
        if (!str_eq(name, str_of(prompts[i].name)))
            continue;
        const struct json_t *arguments = json_get(params, "arguments");
        struct str argument = text_of(arguments, prompts[i].argument);
        if (argument.len == 0) {
            AUTO_BUF struct buf why = {0};
            buf_printf(&why, "arguments.%s is missing", prompts[i].argument);
            mcp_send_error(mcp, id, RPC_PARAMS, buf_cstr(&why));
            return;
        }
        put_prompt(mcp_begin(&out, &text, id), &prompts[i], argument);
        mcp_send(mcp, id, &out);
        return;
    }
    mcp_send_error(mcp, id, RPC_PARAMS, "there is no such prompt; prompts/list names them");
}

/* --- Dispatch --- */

static const struct method {
    const char *name;
    void (*answer)(struct mcp *mcp, struct str id, const struct json_t *params);
} methods[] = {
    {"initialize", initialize},
    {"ping", ping},
    {"tools/list", list_tools},
    {"tools/call", mcp_call_tool},
    {"resources/list", mcp_list_files},
    {"resources/templates/list", list_templates},
    {"resources/read", mcp_read_file},
    {"resources/subscribe", mcp_subscribe},
    {"resources/unsubscribe", mcp_unsubscribe},
    {"prompts/list", list_prompts},
    {"prompts/get", get_prompt},
    {"completion/complete", mcp_complete},
    {"logging/setLevel", set_level},
};

static const struct method *method_of(struct str name)
{
    for (size_t i = 0; i < countof(methods); i++)
        if (str_eq(name, str_of(methods[i].name)))
            return &methods[i];
    return NULL;
}

static void answer(struct mcp *mcp, struct str id, struct str name, const struct json_t *params)
{
    AUTO_BUF struct buf why = {0};
    const struct method *method = method_of(name);
    if (method == NULL) {
        buf_printf(&why, "there is no method '%.*s'", STR_ARG(name));
        mcp_send_error(mcp, id, RPC_NO_METHOD, buf_cstr(&why));
    } else if (!mcp->is_ready && method->answer != initialize && method->answer != ping) {
        mcp_send_error(mcp, id, RPC_INVALID, "initialize comes first");
    } else if (params != NULL && json_kind(params) != JSON_KIND_OBJECT) {
        mcp_send_error(mcp, id, RPC_PARAMS, "params must be an object");
    } else {
        method->answer(mcp, id, params);
    }
}

static bool is_id(const struct json_t *id)
{
    return id != NULL && (json_kind(id) == JSON_KIND_STR || json_kind(id) == JSON_KIND_INT);
}

/* 1 when it is a request. */
static size_t take_one(struct mcp *mcp, const struct json_t *message)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    struct str name = {0};
    const struct json_t *id = json_get(message, "id"), *params = json_get(message, "params");
    bool has_method = json_to_str(json_get(message, "method"), &name);
    if (json_kind(message) != JSON_KIND_OBJECT || (!has_method && !is_id(id)) ||
        (has_method && id != NULL && !is_id(id))) {
        mcp_send_error(mcp, (struct str){0}, RPC_INVALID, "not a JSON-RPC 2.0 message");
        return 1;
    }
    if (has_method && id != NULL) {
        json_put_value(&out, id);
        answer(mcp, buf_str(&text), name, params);
        return 1;
    }
    /* Answers to us there are none: we ask nothing. Unknown notifications are let pass. */
    if (has_method && str_eq(name, STR("notifications/cancelled")))
        mcp_cancel(mcp, params);
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
    *mcp = (struct mcp){.calls = calls, .ctx = ctx, .is_ready = options->is_known};
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

struct str mcp_session(const struct mcp *mcp)
{
    return mcp->context.session;
}

struct mcp *mcp_free(struct mcp *mcp)
{
    if (mcp == NULL)
        return NULL;
    mcp_files_done(mcp);
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
