/* A call of a tool: arguments checked, one answer, errors as data. */

#include "agent/internal.h"
#include "base/format/json_text.h"
#include "base/format/schema.h"
#include "io/loop.h"

bool tools_are_offered(const struct config *config)
{
    return !config->sandbox.is_off;
}

const struct tool *tool_find(const struct config *config, struct str name)
{
    if (tools_are_offered(config))
        for (const struct tool *tool = tools; tool->name != NULL; tool++)
            if (str_eq(str_of(tool->name), name))
                return tool->flags & TOOL_OF_TURNS && !config->sandbox.undo_tool ? NULL : tool;
    return NULL;
}

/* --- Arguments --- */

struct str tool_arg_str(const struct tool_run *run, const char *name)
{
    struct str text = {0};
    (void)!json_to_str(json_get(run->args, name), &text);
    return text;
}

struct str tool_arg_path(struct tool_run *run, const char *name)
{
    struct str path = tool_arg_str(run, name);
    if (path.len == 0 || str_eq(path, STR(".")))
        return STR("/workspace");
    if (path.ptr[0] == '/')
        return path;
    return arena_printf(&run->arena, "/workspace/%.*s", STR_ARG(path));
}

int64_t tool_arg_int(const struct tool_run *run, const char *name, int64_t fallback)
{
    int64_t n;
    return json_to_i64(json_get(run->args, name), &n) ? n : fallback;
}

int64_t tool_arg_limit(const struct tool_run *run, const char *name)
{
    return str_eq(tool_arg_str(run, name), STR("none")) ? 0 : tool_arg_int(run, name, -1);
}

bool tool_arg_bool(const struct tool_run *run, const char *name)
{
    bool flag;
    return json_to_bool(json_get(run->args, name), &flag) && flag;
}

int tool_place(const struct tool_run *run, struct tool_place *ret_place, struct err *err)
{
    if (run->sandbox.len > 0) {
        struct sandbox_info sandbox;
        if (engine_sandbox_get(run->engine, &run->caller, run->sandbox, &sandbox, err) < 0)
            return -1;
        *ret_place = (struct tool_place){.tier = sandbox.tier, .sandbox = sandbox.id};
        return 0;
    }
    struct session_info session;
    if (engine_session_get(run->engine, &run->caller, run->session, &session, err) < 0)
        return -1;
    *ret_place = (struct tool_place){.tier = session.tier, .sandbox = session.sandbox};
    return 0;
}

struct file_place tool_file_place(const struct tool_run *run)
{
    return (struct file_place){.session = run->session, .sandbox = run->sandbox};
}

/* The run keeps a copy: the answer comes after the call's arguments have gone. */
static int take_args(struct tool_run *run, const struct json_t *args, struct err *err)
{
    AUTO_BUF struct buf text = {0};
    AUTO_JSON struct json_t *schema = NULL;
    struct json_out out = {.buf = &text};
    if (args == NULL)
        buf_put_cstr(&text, "{}");
    else
        json_put_value(&out, args);
    if (json_parse(buf_str(&text), &run->args, err) < 0 ||
        json_parse(str_of(run->tool->input), &schema, err) < 0)
        return -1;
    return schema_check(schema, run->args, "", err);
}

/* --- The last word --- */

static void run_free(struct tool_run *run)
{
    run->args = json_free(run->args);
    vec_done(&run->images);
    arena_done(&run->arena);
    free(run);
}

bool tool_is_over(struct tool_run *run)
{
    if (!run->is_canceled)
        return false;
    run_free(run);
    return true;
}

/* The client parses the answer again: a NUL that a program printed must not hide the rest. */
static void tool_finish(struct tool_run *run, const struct buf *json, bool is_error)
{
    AUTO_BUF struct buf shown = {0};
    buf_put(&shown, buf_str(json));
    json_hide_nul(&shown);
    if (!run->is_canceled)
        run->calls->on_done(run->ctx,
                            &(struct tool_answer){.is_error = is_error,
                                                  .fits_schema = !is_error || run->fits_schema,
                                                  .json = buf_str(&shown),
                                                  .images = run->images.ptr,
                                                  .image_count = run->images.len});
    run_free(run);
}

void tool_end(struct tool_run *run, const struct buf *json)
{
    tool_finish(run, json, false);
}

void tool_end_failed(struct tool_run *run, const struct buf *json)
{
    run->fits_schema = true;
    tool_finish(run, json, true);
}

static const char *hint_of(enum err_code code)
{
    static const char *const hints[ERR_COUNT] = {
        [ERR_INVALID] = "Correct the arguments and call again.",
        [ERR_BAD_CWD] = "Start in a directory that exists, such as /workspace.",
        [ERR_EXEC_FORMAT] = "Run it with its interpreter, or build it for this machine.",
        [ERR_NOT_EXECUTABLE] = "Run it with its interpreter, or chmod +x it.",
        [ERR_PROGRAM_NOT_FOUND] = "Look for the program with command -v, or install it.",
        [ERR_NOT_FOUND] = "Look for the right path with list or glob.",
        [ERR_NOT_A_FILE] = "This is a directory: use list or glob.",
        [ERR_NOT_A_DIRECTORY] = "This is a file: use read, or name its directory.",
        [ERR_INVALID_PATTERN] = "Escape special characters that should match literally.",
        [ERR_PATTERN_TOO_COMPLEX] = "Use a simpler pattern.",
        [ERR_FORBIDDEN] = "Work below /workspace.",
        [ERR_PATH_ESCAPES] = "Use a path below /workspace.",
        [ERR_READ_ONLY] = "Write below /workspace.",
        [ERR_CONFLICT] = "Check the current state first, then call again.",
        [ERR_NO_MATCH] = "Read the file again and copy the text exactly, including spaces.",
        [ERR_AMBIGUOUS_MATCH] = "Add lines around the text to make it unique, or set replaceAll.",
        [ERR_TOO_LARGE] = "Request a part of it.",
        [ERR_TOO_MANY_RESULTS] = "Narrow the search.",
        [ERR_BUSY] = "Other code is running in this session: wait until it ends, then call again.",
        [ERR_LIMIT] = "Wait until a running call or command ends, then call again.",
        [ERR_TIMEOUT] = "Do less in one call, or request more time with timeoutMs.",
        [ERR_NO_SPACE] = "Delete files that are no longer needed.",
        [ERR_UNAVAILABLE] =
            "Follow the advice in the message, or call again later, or use another approach.",
        [ERR_UNSUPPORTED] = "Use another tool: this session does not support it.",
    };
    return hints[code] != NULL ? hints[code]
                               : "Tell the user: you cannot correct this error yourself.";
}

void tool_fail(struct tool_run *run, const struct err *why, const char *hint)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    json_begin_object(&out);
    json_key(&out, "success"), json_put_bool(&out, false);
    json_key(&out, "error");
    json_begin_object(&out);
    json_key(&out, "code"), json_put_cstr(&out, err_wire_name(why->code));
    json_key(&out, "message"), json_put_cstr(&out, why->msg);
    json_key(&out, "hint"), json_put_cstr(&out, hint == NULL ? hint_of(why->code) : hint);
    json_end_object(&out);
    json_end_object(&out);
    tool_finish(run, &text, true);
}

void tool_output(struct tool_run *run, bool is_stderr, struct str text)
{
    if (!run->is_canceled && run->calls->on_output != NULL)
        run->calls->on_output(run->ctx, is_stderr, text);
}

/* --- Start --- */

struct refusal {
    struct loop_task task;
    struct tool_run *run;
    struct err err;
    const char *hint;
};

static void tell_refusal(struct loop_task *task)
{
    struct refusal *refusal = (struct refusal *)task;
    tool_fail(refusal->run, &refusal->err, refusal->hint);
    free(refusal);
}

void tool_fail_later(struct tool_run *run, const struct err *why, const char *hint)
{
    struct refusal *refusal = mem_alloc(sizeof *refusal);
    refusal->task.run = tell_refusal;
    refusal->run = run;
    refusal->err = *why;
    refusal->hint = hint;
    loop_post(run->loop, &refusal->task);
}

static void copy_caller(struct tool_run *run, const struct engine_caller *caller)
{
    run->caller = *caller;
    run->caller.tenant = arena_dup(&run->arena, caller->tenant);
    run->caller.key = run->caller.request_hash = (struct str){0};
}

struct tool_run *tool_start(const struct tool_context *context, struct str name,
                            const struct json_t *args, const struct tool_calls *calls, void *ctx)
{
    struct err err = {0};
    struct tool_run *run = mem_alloc(sizeof *run);
    *run = (struct tool_run){.tool = tool_find(context->config, name),
                             .calls = calls,
                             .ctx = ctx,
                             .engine = context->engine,
                             .config = context->config,
                             .loop = context->loop};
    copy_caller(run, &context->caller);
    run->session = arena_dup(&run->arena, context->session);
    run->sandbox = arena_dup(&run->arena, context->sandbox);
    if (run->tool == NULL) {
        (void)err_set(&err, ERR_NOT_FOUND, "unknown tool '%.*s'", STR_ARG(name));
        tool_fail_later(run, &err, NULL);
    } else if (take_args(run, args, &err) < 0) {
        tool_fail_later(run, &err, NULL);
    } else {
        run->tool->start(run);
    }
    return run;
}

void tool_cancel(struct tool_run *run)
{
    run->is_canceled = true;
    if (run->cancel != NULL)
        run->cancel(run);
}

/* --- Text that is too long --- */

static void put_view(struct json_out *out, const struct excerpt_view *view, const char *what)
{
    AUTO_BUF struct buf text = {0};
    excerpt_view_put(view, what, &text);
    json_put_str(out, buf_str(&text));
}

void tool_put_cut(struct json_out *out, struct str text, size_t max)
{
    struct excerpt whole = {0};
    if (text.len <= max) {
        json_put_str(out, text);
        return;
    }
    excerpt_put(&whole, text, max);
    struct excerpt_view view = excerpt_view(&whole, 0);
    put_view(out, &view, "left out");
    excerpt_done(&whole);
}

void tool_put_excerpt(struct json_out *out, const struct excerpt *text)
{
    struct excerpt_view view = excerpt_view(text, TOOL_OUTPUT_MAX);
    put_view(out, &view, "omitted; write long output to a file and read parts of it");
}
