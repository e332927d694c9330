#include "api/v1/v1_logs.h"

#include "api/http/events.h"
#include "api/http/flow.h"
#include "api/http/metrics.h"
#include "api/v1/v1.h"
#include "base/excerpt.h"

/* ---- one answer ---------------------------------------------------------------------------- */

struct collect {
    struct request *request;
    struct command_log_reader *reader;
    struct excerpt kept[3];
    uint64_t missing[3]; /* that the log did not keep */
    int status;
};

static void put_kept(struct json_out *out, const char *key, const struct excerpt *kept)
{
    AUTO_BUF struct buf text = {0};
    struct excerpt_view view = excerpt_view(kept, 0);
    excerpt_view_put(&view, "omitted from this response", &text);
    json_key(out, key), json_put_str(out, buf_str(&text));
}

static void put_left_out_of(struct json_out *out, const struct collect *collect, int stream)
{
    struct excerpt_view view = excerpt_view(&collect->kept[stream], 0);
    uint64_t missing = collect->missing[stream];
    if (view.cut + missing == 0)
        return;
    json_key(out, command_stream_name((enum command_stream)stream));
    json_begin_object(out);
    json_key(out, "bytes"), json_put_i64(out, (int64_t)(view.cut + missing));
    if (missing == 0)
        json_key(out, "lines"), json_put_i64(out, (int64_t)view.lines);
    json_end_object(out);
}

/* By stream, and how to get all of it. */
static void put_left_out(struct json_out *out, const struct collect *collect)
{
    bool is_whole = true;
    for (int i = 0; i < 3; i++)
        is_whole &= excerpt_view(&collect->kept[i], 0).cut + collect->missing[i] == 0;
    json_key(out, "leftOut");
    if (is_whole) {
        json_put_null(out);
        return;
    }
    json_begin_object(out);
    for (int i = 0; i < 3; i++)
        put_left_out_of(out, collect, i);
    json_key(out, "hint");
    json_put_cstr(out,
                  "This response contains 1 MiB of each stream. Request text/event-stream or "
                  "application/x-ndjson to get all output as it is written, or let the command "
                  "write to a file; GET /v1/commands/{id}/output returns what the log keeps.");
    json_end_object(out);
}

static void collect_free(struct collect *collect)
{
    for (size_t i = 0; i < countof(collect->kept); i++)
        excerpt_done(&collect->kept[i]);
    collect->reader = command_log_reader_free(collect->reader);
    free(collect);
}

static void collect_chunk(void *ctx, const struct log_chunk *chunk)
{
    struct collect *collect = ctx;
    excerpt_put(&collect->kept[chunk->stream], chunk->bytes, EXCERPT_STREAM_MAX);
}

static void collect_gap(void *ctx, const struct log_gap *gap)
{
    struct collect *collect = ctx;
    AUTO_BUF struct buf text = {0};
    excerpt_mark(gap->bytes, gap->lines, "not kept", &text);
    excerpt_put(&collect->kept[gap->stream], buf_str(&text), EXCERPT_STREAM_MAX);
    collect->missing[gap->stream] += gap->bytes;
}

static void collect_end(void *ctx, const struct command_info *command, const struct err *why)
{
    struct collect *collect = ctx;
    struct v1_answer answer;
    if (why != NULL) {
        reply_error(collect->request, why);
        collect_free(collect);
        return;
    }
    struct api *api = collect->request->rules->ctx;
    if (command->wall_us >= 0)
        metrics_observe(api->meta.metrics, METRICS_EXEC, "jail", "command",
                        command_end_name(command->end), (double)command->wall_us / 1e6);
    struct json_out *out = v1_begin(&answer);
    v1_put_command(out, command);
    answer.buf.ptr[--answer.buf.len] = '\0'; /* its object goes on */
    out->filled = true;
    out->depth++;
    if (command->tty)
        put_kept(out, "output", &collect->kept[COMMAND_TTY]);
    put_kept(out, "stdout", &collect->kept[COMMAND_STDOUT]);
    put_kept(out, "stderr", &collect->kept[COMMAND_STDERR]);
    put_left_out(out, collect);
    json_end_object(out);
    v1_reply(collect->request, collect->status, &answer);
    collect_free(collect);
}

/* The command continues; only its answer is not needed any more. */
static void collect_gone(void *ctx)
{
    struct collect *collect = ctx;
    struct err err;
    (void)err_set(&err, ERR_CANCELED, "the client disconnected");
    reply_error(collect->request, &err);
    collect_free(collect);
}

static const struct log_calls collect_calls = {collect_chunk, collect_end, collect_gap};

void v1_collect(struct request *request, struct api *api, struct str id, int status)
{
    struct err err;
    struct engine_caller caller = request_caller(request);
    struct collect *collect = mem_alloc(sizeof *collect);
    collect->request = request;
    collect->status = status;
    if (engine_log_open(api->engine, &caller, id, 0, LOG_ATTACH, &collect_calls, collect,
                        &collect->reader, &err) < 0) {
        free(collect);
        reply_error(request, &err);
        return;
    }
    request_on_gone(request, collect_gone, collect);
}

/* ---- events -------------------------------------------------------------------------------- */

struct follow {
    struct events *events;
    struct command_log_reader *reader;
    uint64_t offset; /* behind what was sent */
};

static void follow_drain(void *ctx)
{
    struct follow *follow = ctx;
    if (follow->reader != NULL)
        command_log_reader_resume(follow->reader);
}

static void follow_closed(void *ctx)
{
    struct follow *follow = ctx;
    follow->reader = command_log_reader_free(follow->reader);
    free(follow);
}

static const struct events_calls follow_events = {follow_drain, follow_closed, .ends_itself = true};

static struct str id_of(uint64_t offset, char out[24])
{
    int len = snprintf(out, 24, "%llu", (unsigned long long)offset);
    return str_n(out, (size_t)len);
}

static void follow_chunk(void *ctx, const struct log_chunk *chunk)
{
    struct follow *follow = ctx;
    char id[24];
    AUTO_BUF struct buf data = {0};
    struct json_out out = {.buf = &data};
    json_begin_object(&out);
    json_key(&out, "offset"), json_put_i64(&out, (int64_t)chunk->offset);
    v1_put_bytes(&out, chunk->bytes);
    json_end_object(&out);
    follow->offset = chunk->offset + chunk->bytes.len;
    events_put(follow->events, command_stream_name(chunk->stream), id_of(follow->offset, id),
               buf_str(&data));
    if (events_is_full(follow->events))
        command_log_reader_pause(follow->reader);
}

static void follow_gap(void *ctx, const struct log_gap *gap)
{
    struct follow *follow = ctx;
    AUTO_BUF struct buf data = {0};
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &data};
    excerpt_mark(gap->bytes, gap->lines, "not kept", &text);
    json_begin_object(&out);
    json_key(&out, "stream"), json_put_cstr(&out, command_stream_name(gap->stream));
    json_key(&out, "offset"), json_put_i64(&out, (int64_t)gap->offset);
    json_key(&out, "bytes"), json_put_i64(&out, (int64_t)gap->bytes);
    json_key(&out, "lines");
    if (gap->lines >= 0)
        json_put_i64(&out, gap->lines);
    else
        json_put_null(&out);
    json_key(&out, "text"), json_put_str(&out, buf_str(&text));
    json_end_object(&out);
    events_put(follow->events, "gap", (struct str){0}, buf_str(&data));
}

static void put_command_event(struct events *events, const char *type, struct str id,
                              const struct command_info *command)
{
    AUTO_BUF struct buf data = {0};
    struct json_out out = {.buf = &data};
    v1_put_command(&out, command);
    events_put(events, type, id, buf_str(&data));
}

static void follow_end(void *ctx, const struct command_info *command, const struct err *why)
{
    struct follow *follow = ctx;
    char id[24];
    if (why != NULL) {
        AUTO_BUF struct buf data = {0};
        struct json_out out = {.buf = &data};
        json_begin_object(&out);
        json_key(&out, "code"), json_put_cstr(&out, err_wire_name(why->code));
        json_key(&out, "message"), json_put_cstr(&out, why->msg);
        json_end_object(&out);
        events_put(follow->events, "error", (struct str){0}, buf_str(&data));
    } else {
        put_command_event(follow->events, "end", id_of(follow->offset, id), command);
    }
    events_end(follow->events);
}

static void follow_state(void *ctx, const struct sandbox_info *sandbox)
{
    struct follow *follow = ctx;
    v1_put_state_event(follow->events, sandbox);
}

static const struct log_calls follow_calls = {follow_chunk, follow_end, follow_gap, follow_state};

static void follow_from(struct request *request, const struct command_info *command,
                        uint64_t offset, enum log_mode mode)
{
    struct api *api = request->rules->ctx;
    struct err err;
    struct engine_caller caller = request_caller(request);
    struct follow *follow = mem_alloc(sizeof *follow);
    follow->offset = offset;
    request_concerns(request, command->sandbox);
    if (engine_log_open(api->engine, &caller, command->id, offset, mode, &follow_calls, follow,
                        &follow->reader, &err) < 0) {
        free(follow);
        reply_error(request, &err);
        return;
    }
    follow->events = events_new(request, &follow_events, follow);
    if (offset == 0)
        put_command_event(follow->events, "started", (struct str){0}, command);
    struct sandbox_info sandbox;
    if (mode != LOG_KEPT && command->state == COMMAND_RUNNING &&
        engine_sandbox_get(api->engine, &caller, command->sandbox, &sandbox, &err) == 0 &&
        sandbox.state == SANDBOX_PAUSED)
        v1_put_state_event(follow->events, &sandbox);
}

void v1_follow(struct request *request, const struct command_info *command)
{
    follow_from(request, command, 0, LOG_ATTACH);
}

static enum log_mode mode_of(struct request *request)
{
    struct str pace;
    if (!request_query_bool(request, "follow"))
        return LOG_KEPT;
    return request_query(request, "pace", &pace) && str_eq(pace, STR("command")) ? LOG_FOLLOW
                                                                                 : LOG_ATTACH;
}

static bool find_offset(struct request *request, int64_t *ret_offset)
{
    struct str last;
    *ret_offset = request_query_int(request, "offset", 0);
    return !events_last_id(request, &last) || str_to_i64(last, 0, INT64_MAX, ret_offset);
}

static void on_logs(void *ctx, const struct command_info *command, const struct err *why)
{
    struct request *request = ctx;
    int64_t offset = 0;
    if (why != NULL)
        reply_error(request, why);
    else if (find_offset(request, &offset))
        follow_from(request, command, (uint64_t)offset, mode_of(request));
}

static void logs(struct request *request, void *ctx)
{
    struct err err;
    int64_t offset = 0;
    if (!find_offset(request, &offset)) {
        (void)err_set(&err, ERR_INVALID, "Last-Event-ID must be an event id of this stream");
        reply_error(request, &err);
        return;
    }
    v1_get_command(request, ctx, on_logs);
}

/* ---- plain bytes --------------------------------------------------------------------------- */

struct plain {
    struct flow *flow;
    struct command_log_reader *reader;
    int stream; /* -1 for all */
    bool is_line_start;
};

static void plain_drain(void *ctx)
{
    struct plain *plain = ctx;
    if (plain->reader != NULL)
        command_log_reader_resume(plain->reader);
}

static void plain_closed(void *ctx)
{
    struct plain *plain = ctx;
    plain->reader = command_log_reader_free(plain->reader);
    free(plain);
}

static void plain_stop(void *ctx, bool is_last)
{
    if (!is_last)
        return;
    struct plain *plain = ctx;
    flow_break(plain->flow);
}

static const struct flow_calls plain_flow = {plain_drain, plain_closed, plain_stop};

static void plain_chunk(void *ctx, const struct log_chunk *chunk)
{
    struct plain *plain = ctx;
    struct err err;
    if (plain->stream >= 0 && (int)chunk->stream != plain->stream)
        return;
    plain->is_line_start = chunk->bytes.ptr[chunk->bytes.len - 1] == '\n';
    if (flow_write(plain->flow, chunk->bytes, &err) < 0)
        flow_break(plain->flow);
    else if (flow_is_full(plain->flow))
        command_log_reader_pause(plain->reader);
}

/* A line of its own in the text. */
static void plain_gap(void *ctx, const struct log_gap *gap)
{
    struct plain *plain = ctx;
    struct err err;
    AUTO_BUF struct buf text = {0};
    if (plain->stream >= 0 && (int)gap->stream != plain->stream)
        return;
    if (!plain->is_line_start)
        buf_put_char(&text, '\n');
    excerpt_mark(gap->bytes, gap->lines, "not kept", &text);
    if (flow_write(plain->flow, buf_str(&text), &err) < 0)
        flow_break(plain->flow);
}

static void plain_end(void *ctx, UNUSED const struct command_info *command, const struct err *why)
{
    struct plain *plain = ctx;
    if (why != NULL)
        flow_break(plain->flow);
    else
        flow_finish(plain->flow);
}

/* A stream of bytes cannot report it: the stream continues when the sandbox is resumed. */
static void plain_state(UNUSED void *ctx, UNUSED const struct sandbox_info *sandbox)
{
}

static const struct log_calls plain_calls = {plain_chunk, plain_end, plain_gap, plain_state};

static int stream_of(struct request *request)
{
    struct str name;
    if (!request_query(request, "stream", &name) || str_eq(name, STR("all")))
        return -1;
    return str_eq(name, STR("stderr")) ? COMMAND_STDERR : COMMAND_STDOUT;
}

static void v1_logs_on_output(void *ctx, const struct command_info *command, const struct err *why)
{
    struct request *request = ctx;
    struct api *api = request->rules->ctx;
    struct err err;
    if (!v1_has_command(request, command, why))
        return;
    struct engine_caller caller = request_caller(request);
    struct plain *plain = mem_alloc(sizeof *plain);
    plain->stream = stream_of(request);
    plain->is_line_start = true;
    if (engine_log_open(api->engine, &caller, command->id,
                        (uint64_t)request_query_int(request, "offset", 0), mode_of(request),
                        &plain_calls, plain, &plain->reader, &err) < 0) {
        free(plain);
        reply_error(request, &err);
        return;
    }
    plain->flow = reply_flow(request, 200, "application/octet-stream", -1, &plain_flow, plain);
}

static void output(struct request *request, void *ctx)
{
    v1_get_command(request, ctx, v1_logs_on_output);
}

/* clang-format off */
static const struct route_query logs_query[] = {
    {"offset", JSON({"type": "integer", "minimum": 0}), "Offset to start at (default 0)"},
    {"after", JSON({"type": "string"}), "As Last-Event-ID"},
    {"follow", JSON({"type": "boolean"}), "Continue until the command ends"},
    {"pace", JSON({"type": "string", "enum": ["reader", "command"]}),
     "With follow: with `reader` (the default) the command waits for a slow reader, with `command` a slow reader misses output"},
    {0},
};
static const struct route_query output_query[] = {
    {"stream", JSON({"type": "string", "enum": ["stdout", "stderr", "all"]}), "Which (all)"},
    {"offset", JSON({"type": "integer", "minimum": 0}), "Offset to start at (default 0)"},
    {"follow", JSON({"type": "boolean"}), "Continue until the command ends"},
    {"pace", JSON({"type": "string", "enum": ["reader", "command"]}),
     "With follow: with `reader` (the default) the command waits for a slow reader, with `command` a slow reader misses output"},
    {0},
};

const struct route v1_log_routes[] = {
    {"GET", "/v1/commands/{id}/logs", logs, "Read a command's log as events", SCOPE_READ, "commands",
     .details = "Events: started, then stdout, stderr or tty with text (or base64, if the bytes are not UTF-8 or contain a NUL) and their offset, then end; with follow also state, when the sandbox is paused or resumed. The id of an event is the offset after it: send it as Last-Event-ID to continue there. A log keeps the beginning and the end of each stream (`logs.stream_mb`): the event gap describes the missing part with stream, bytes, lines and a readable text. With follow no output is missed: the command waits for a slow reader. A reader that reads nothing for `logs.stalled_seconds` while the command waits gets an error event and the end of the stream.",
     .query = logs_query, .gives = FORM_EVENTS, .errors = E(NOT_FOUND), .example = ""},
    {"GET", "/v1/commands/{id}/output", output, "Read the raw output of a command",
     SCOPE_READ, "commands", .query = output_query, .gives = FORM_BYTES,
     .details = "Where the log has a gap, a separate line says how many bytes and lines were not kept.", .errors = E(NOT_FOUND),
     .example = "?stream=stdout"},
    {0},
};
/* clang-format on */
