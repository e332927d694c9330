#include "api/v1_logs.h"

#include "api/events.h"
#include "api/flow.h"
#include "api/metrics.h"
#include "api/v1.h"

/* ---- one answer ---------------------------------------------------------------------------- */

enum { KEPT_HALF = 512 << 10 }; /* of each stream: its beginning and its end */

struct kept {
    struct buf head, tail; /* the tail is cut back to KEPT_HALF when it is twice that */
    uint64_t total;
};

struct collect {
    struct request *request;
    struct log_reader *reader;
    struct kept kept[3];
    int status;
};

static void keep(struct kept *kept, struct str bytes)
{
    size_t room = MIN(KEPT_HALF - kept->head.len, bytes.len);
    kept->total += bytes.len;
    buf_put(&kept->head, str_slice(bytes, 0, room));
    buf_put(&kept->tail, str_slice(bytes, room, bytes.len));
    if (kept->tail.len > 2 * KEPT_HALF)
        buf_consume(&kept->tail, kept->tail.len - KEPT_HALF);
}

static void put_kept(struct json_out *out, const char *key, struct kept *kept)
{
    AUTO_BUF struct buf text = {0};
    if (kept->tail.len > KEPT_HALF)
        buf_consume(&kept->tail, kept->tail.len - KEPT_HALF);
    buf_put(&text, buf_str(&kept->head));
    uint64_t lost = kept->total - kept->head.len - kept->tail.len;
    if (lost > 0)
        buf_printf(&text, "\n[... %llu bytes left out ...]\n", (unsigned long long)lost);
    buf_put(&text, buf_str(&kept->tail));
    json_key(out, key), json_put_str(out, buf_str(&text));
}

static void collect_free(struct collect *collect)
{
    for (size_t i = 0; i < countof(collect->kept); i++) {
        buf_done(&collect->kept[i].head);
        buf_done(&collect->kept[i].tail);
    }
    collect->reader = log_reader_free(collect->reader);
    free(collect);
}

static void collect_chunk(void *ctx, const struct log_chunk *chunk)
{
    struct collect *collect = ctx;
    keep(&collect->kept[chunk->stream], chunk->bytes);
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
    json_end_object(out);
    v1_reply(collect->request, collect->status, &answer);
    collect_free(collect);
}

/* The command goes on; only its answer is not wanted any more. */
static void collect_gone(void *ctx)
{
    struct collect *collect = ctx;
    struct err err;
    (void)err_set(&err, ERR_CANCELED, "the client has gone");
    reply_error(collect->request, &err);
    collect_free(collect);
}

static const struct log_calls collect_calls = {collect_chunk, collect_end};

void v1_collect(struct request *request, struct api *api, struct str id, int status)
{
    struct err err;
    struct engine_caller caller = v1_caller(request);
    struct collect *collect = mem_alloc(sizeof *collect);
    collect->request = request;
    collect->status = status;
    if (engine_log_open(api->engine, &caller, id, 0, true, &collect_calls, collect,
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
    struct log_reader *reader;
    uint64_t offset; /* behind what was sent */
};

static void follow_drain(void *ctx)
{
    struct follow *follow = ctx;
    if (follow->reader != NULL)
        log_reader_resume(follow->reader);
}

static void follow_closed(void *ctx)
{
    struct follow *follow = ctx;
    follow->reader = log_reader_free(follow->reader);
    free(follow);
}

static const struct events_calls follow_events = {follow_drain, follow_closed};

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
    if (chunk->offset > follow->offset)
        json_key(&out, "missing"), json_put_i64(&out, (int64_t)(chunk->offset - follow->offset));
    v1_put_bytes(&out, chunk->bytes);
    json_end_object(&out);
    follow->offset = chunk->offset + chunk->bytes.len;
    events_put(follow->events, command_stream_name(chunk->stream), id_of(follow->offset, id),
               buf_str(&data));
    if (events_is_full(follow->events))
        log_reader_pause(follow->reader);
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

static const struct log_calls follow_calls = {follow_chunk, follow_end};

static void follow_from(struct request *request, const struct command_info *command,
                        uint64_t offset, bool to_the_end)
{
    struct api *api = request->rules->ctx;
    struct err err;
    struct engine_caller caller = v1_caller(request);
    struct follow *follow = mem_alloc(sizeof *follow);
    follow->offset = offset;
    request_concerns(request, command->sandbox);
    if (engine_log_open(api->engine, &caller, command->id, offset, to_the_end, &follow_calls,
                        follow, &follow->reader, &err) < 0) {
        free(follow);
        reply_error(request, &err);
        return;
    }
    follow->events = events_new(request, &follow_events, follow);
    if (offset == 0)
        put_command_event(follow->events, "started", (struct str){0}, command);
}

void v1_follow(struct request *request, const struct command_info *command)
{
    follow_from(request, command, 0, true);
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
        follow_from(request, command, (uint64_t)offset, request_query_bool(request, "follow"));
}

static void logs(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    int64_t offset = 0;
    struct engine_caller caller = v1_caller(request);
    if (!find_offset(request, &offset)) {
        (void)err_set(&err, ERR_INVALID, "Last-Event-ID must be one that this stream gave");
        reply_error(request, &err);
        return;
    }
    request_hold(request);
    engine_command_get(api->engine, &caller, request_param(request, "id"), on_logs, request);
}

/* ---- plain bytes --------------------------------------------------------------------------- */

struct plain {
    struct flow *flow;
    struct log_reader *reader;
    int stream; /* -1 for all */
};

static void plain_drain(void *ctx)
{
    struct plain *plain = ctx;
    if (plain->reader != NULL)
        log_reader_resume(plain->reader);
}

static void plain_closed(void *ctx)
{
    struct plain *plain = ctx;
    plain->reader = log_reader_free(plain->reader);
    free(plain);
}

static void plain_stop(void *ctx)
{
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
    if (flow_write(plain->flow, chunk->bytes, &err) < 0)
        flow_break(plain->flow);
    else if (flow_is_full(plain->flow))
        log_reader_pause(plain->reader);
}

static void plain_end(void *ctx, UNUSED const struct command_info *command, const struct err *why)
{
    struct plain *plain = ctx;
    if (why != NULL)
        flow_break(plain->flow);
    else
        flow_finish(plain->flow);
}

static const struct log_calls plain_calls = {plain_chunk, plain_end};

static int stream_of(struct request *request)
{
    struct str name;
    if (!request_query(request, "stream", &name) || str_eq(name, STR("all")))
        return -1;
    return str_eq(name, STR("stderr")) ? COMMAND_STDERR : COMMAND_STDOUT;
}

static void on_output(void *ctx, const struct command_info *command, const struct err *why)
{
    struct request *request = ctx;
    struct api *api = request->rules->ctx;
    struct err err;
    if (why != NULL) {
        reply_error(request, why);
        return;
    }
    struct engine_caller caller = v1_caller(request);
    struct plain *plain = mem_alloc(sizeof *plain);
    plain->stream = stream_of(request);
    request_concerns(request, command->sandbox);
    if (engine_log_open(
            api->engine, &caller, command->id, (uint64_t)request_query_int(request, "offset", 0),
            request_query_bool(request, "follow"), &plain_calls, plain, &plain->reader, &err) < 0) {
        free(plain);
        reply_error(request, &err);
        return;
    }
    plain->flow = reply_flow(request, 200, "application/octet-stream", -1, &plain_flow, plain);
}

static void output(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = v1_caller(request);
    request_hold(request);
    engine_command_get(api->engine, &caller, request_param(request, "id"), on_output, request);
}

/* clang-format off */
static const struct route_query logs_query[] = {
    {"offset", JSON({"type": "integer", "minimum": 0}), "Where to begin (0)"},
    {"after", JSON({"type": "string"}), "As Last-Event-ID"},
    {"follow", JSON({"type": "boolean"}), "Go on while the command does"},
    {0},
};
static const struct route_query output_query[] = {
    {"stream", JSON({"type": "string", "enum": ["stdout", "stderr", "all"]}), "Which (all)"},
    {"offset", JSON({"type": "integer", "minimum": 0}), "Where to begin (0)"},
    {"follow", JSON({"type": "boolean"}), "Go on while the command does"},
    {0},
};

const struct route v1_log_routes[] = {
    {"GET", "/v1/commands/{id}/logs", logs, "Read a command's log as events", SCOPE_READ, "commands",
     .details = "started, then stdout, stderr or tty with text (or base64, where the bytes are not "
                "UTF-8) and their offset, then end. The id of an event is the offset behind it: "
                "sent back as Last-Event-ID it goes on there. `missing` counts bytes that were not "
                "kept before this piece.",
     .query = logs_query, .gives = FORM_EVENTS, .errors = E(NOT_FOUND), .example = ""},
    {"GET", "/v1/commands/{id}/output", output, "Read what a command put out, as it is",
     SCOPE_READ, "commands", .query = output_query, .gives = FORM_BYTES, .errors = E(NOT_FOUND),
     .example = "?stream=stdout"},
    {0},
};
/* clang-format on */
