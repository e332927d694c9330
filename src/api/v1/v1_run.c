/* run_code: code in, values and output out, as one JSON object or as events. */

#include "api/http/events.h"
#include "api/http/metrics.h"
#include "api/v1/v1.h"
#include "base/vec.h"

/* One evaluation under way. It lives until the engine is done with it, also without its client. */
struct v1_run {
    struct api *api;
    struct request *request; /* NULL once answered with events */
    struct events *events;   /* NULL: one JSON answer, or the client has gone */
    bool is_stream, is_short, is_stopped;
    struct evaluating *evaluating;
    VEC(struct eval_line) lines; /* of an isolate; texts belong to `arena` */
    struct arena arena;
    size_t kept;
    uint64_t unkept[2];  /* lines that one answer does not hold */
    struct buf tails[2]; /* of a stream: the beginning of a letter whose end is to come */
};

enum {
    KEPT_MAX = 4 << 20,        /* bytes of output in one answer; the isolate's own limit is below */
    VALUE_EVENT_MAX = 3 << 20, /* of JSON: what a stream can carry in one piece */
};

/* The client has gone; the code runs to its end. */
static void on_closed(void *ctx)
{
    struct v1_run *run = ctx;
    run->events = NULL;
    if (run->is_stopped)
        engine_eval_flow(run->evaluating, false);
    run->is_stopped = false;
}

static void v1_run_on_drain(void *ctx)
{
    struct v1_run *run = ctx;
    if (!run->is_stopped)
        return;
    run->is_stopped = false;
    engine_eval_flow(run->evaluating, false);
}

static const struct events_calls events_calls = {
    .on_drain = v1_run_on_drain, .on_closed = on_closed, .ends_itself = true};

static void run_free(struct v1_run *run)
{
    vec_done(&run->lines);
    buf_done(&run->tails[0]);
    buf_done(&run->tails[1]);
    arena_done(&run->arena);
    free(run);
}

static void put_text(struct v1_run *run, enum isolate_stream stream, struct str text)
{
    AUTO_BUF struct buf data = {0};
    struct json_out out = {.buf = &data};
    if (run->events == NULL)
        return;
    json_begin_object(&out);
    json_key(&out, "text"), json_put_str(&out, text);
    json_end_object(&out);
    events_put(run->events, stream == ISOLATE_STDOUT ? "stdout" : "stderr", (struct str){0},
               buf_str(&data));
}

static void stop_when_full(struct v1_run *run)
{
    if (run->events == NULL || run->is_stopped || !events_is_full(run->events))
        return;
    run->is_stopped = true;
    engine_eval_flow(run->evaluating, true);
}

/* Bytes at the end that may be the beginning of a letter. */
static size_t open_tail(struct str text)
{
    for (size_t back = 1; back <= 3 && back <= text.len; back++) {
        unsigned char c = (unsigned char)text.ptr[text.len - back];
        size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 0;
        if (whole > 0)
            return whole > back ? back : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

/* Pieces may end inside a character; its bytes are sent with the next piece. */
static void put_bytes(struct v1_run *run, enum isolate_stream stream, struct str bytes)
{
    struct buf *tail = &run->tails[stream];
    AUTO_BUF struct buf whole = {0};
    buf_put(&whole, buf_str(tail));
    buf_put(&whole, bytes);
    buf_clear(tail);
    size_t cut = open_tail(buf_str(&whole));
    buf_put(tail, str_slice(buf_str(&whole), whole.len - cut, whole.len));
    if (whole.len > cut)
        put_text(run, stream, str_slice(buf_str(&whole), 0, whole.len - cut));
}

/* An isolate keeps none of its output; an interpreter keeps it in its result. */
static void v1_run_on_output(void *ctx, enum isolate_stream stream, struct str text)
{
    struct v1_run *run = ctx;
    if (run->is_stream) {
        put_bytes(run, stream, text);
        stop_when_full(run);
    }
    /* Empty lines cost something, too. */
    if (run->kept + text.len + sizeof(struct eval_line) > KEPT_MAX) {
        run->unkept[stream] += excerpt_count_lines(text);
        return;
    }
    run->kept += text.len + sizeof(struct eval_line);
    *vec_push(&run->lines) = (struct eval_line){stream, arena_dup(&run->arena, text)};
}

static void on_value(void *ctx, const struct interpreter_part *parts, size_t count, bool main)
{
    struct v1_run *run = ctx;
    AUTO_BUF struct buf data = {0};
    size_t size = 0;
    if (run->events == NULL)
        return;
    for (size_t i = 0; i < count && size <= VALUE_EVENT_MAX; i++)
        size += run_part_size(&parts[i]);
    if (size > VALUE_EVENT_MAX || count == 0)
        buf_printf(&data, "{\"main\":%s,\"omitted\":\"too large for a stream: request JSON\"}",
                   main ? "true" : "false");
    else
        run_value_put_json(parts, count, main, &(struct json_out){.buf = &data});
    events_put(run->events, "result", (struct str){0}, buf_str(&data));
    stop_when_full(run);
}

static void put_failure(struct json_out *out, const struct err *why)
{
    json_begin_object(out);
    json_key(out, "code"), json_put_cstr(out, err_wire_name(why->code));
    json_key(out, "message"), json_put_cstr(out, why->msg);
    json_end_object(out);
}

static void put_outcome(struct json_out *out, const struct isolate_result *result)
{
    struct err err;
    AUTO_JSON struct json_t *value = NULL;
    json_begin_object(out);
    if (result->status == ISOLATE_OK) {
        json_key(out, "hasValue"), json_put_bool(out, result->has_value);
        json_key(out, "value");
        if (json_parse(buf_str(&result->json), &value, &err) == 0)
            json_put_value(out, value);
        else
            json_put_null(out);
    } else {
        json_key(out, "status"), json_put_cstr(out, isolate_status_name(result->status));
        json_key(out, "name"), json_put_str(out, buf_str(&result->error_name));
        json_key(out, "message"), json_put_str(out, buf_str(&result->error_message));
        json_key(out, "stack"), json_put_str(out, buf_str(&result->error_stack));
    }
    json_end_object(out);
}

static const char *outcome_name(const struct eval_result *result)
{
    return result->interpreter != NULL ? run_status_name(result->interpreter->status)
                                       : isolate_status_name(result->run->status);
}

/* Values of interpreters were already sent as events. */
static void put_kernel_error(struct v1_run *run, const struct run_output *output)
{
    AUTO_BUF struct buf data = {0};
    for (int stream = 0; stream < 2; stream++)
        if (run->tails[stream].len > 0)
            put_text(run, (enum isolate_stream)stream, buf_str(&run->tails[stream]));
    if (output->status == RUN_OK || run->events == NULL)
        return;
    run_output_put_error(output, &(struct json_out){.buf = &data});
    events_put(run->events, "error", (struct str){0}, buf_str(&data));
}

/* result or error, then end with the object that a JSON answer would have been. */
static void finish_events(struct v1_run *run, const struct eval_result *result,
                          const struct err *why)
{
    AUTO_BUF struct buf data = {0};
    AUTO_BUF struct buf end = {0};
    struct json_out out = {.buf = &data}, whole = {.buf = &end};
    if (why != NULL) {
        put_failure(&out, why);
        events_put(run->events, "error", (struct str){0}, buf_str(&data));
        events_put(run->events, "end", (struct str){0}, STR("{\"ok\":false}"));
    } else {
        if (result->interpreter != NULL) {
            put_kernel_error(run, result->interpreter);
        } else {
            bool ok = result->run->status == ISOLATE_OK;
            put_outcome(&out, result->run);
            events_put(run->events, ok ? "result" : "error", (struct str){0}, buf_str(&data));
        }
        if (run->is_short)
            eval_put_short(result, run->lines.ptr, run->lines.len, &whole);
        else
            eval_put_end(result, run->lines.ptr, run->lines.len, &whole);
        events_put(run->events, "end", (struct str){0}, buf_str(&end));
    }
    events_end(run->events);
}

static void on_done(void *ctx, const struct eval_result *told, const struct err *why)
{
    struct v1_run *run = ctx;
    struct eval_result copy = told != NULL ? *told : (struct eval_result){0};
    const struct eval_result *result = &copy; /* without `why` */
    struct v1_answer answer;
    assert(told != NULL || why != NULL);
    for (int i = 0; i < 2 && !run->is_stream; i++) /* a stream has sent them */
        copy.unkept[i] = run->unkept[i];
    if (why == NULL)
        metrics_observe(run->api->meta.metrics, METRICS_EXEC,
                        result->interpreter != NULL ? "jail" : "isolate", "eval",
                        outcome_name(result),
                        result->interpreter != NULL ? (double)result->interpreter->duration_us / 1e6
                                                    : (double)result->run->runtime_ns / 1e9);
    if (run->events != NULL) {
        finish_events(run, result, why);
        /* on_closed is called later and must not find this run. */
        events_forget(run->events);
    } else if (!run->is_stream && why != NULL) {
        reply_error(run->request, why);
    } else if (!run->is_stream) {
        struct json_out *out = v1_begin(&answer);
        if (run->is_short)
            eval_put_short(result, run->lines.ptr, run->lines.len, out);
        else
            eval_put_json(result, run->lines.ptr, run->lines.len, out);
        v1_reply(run->request, 200, &answer);
    }
    run_free(run);
}

static const struct eval_calls eval_calls = {v1_run_on_output, on_done, on_value};

/* A stream waits for the sandbox to be resumed, and says so; one answer cannot. */
static void on_state(void *ctx, const struct sandbox_info *sandbox)
{
    struct v1_run *run = ctx;
    if (run->events != NULL)
        v1_put_state_event(run->events, sandbox);
}

static const struct eval_calls stream_calls = {v1_run_on_output, on_done, on_value, on_state};

static const struct isolate_module *read_modules(struct request *request, size_t *ret_count)
{
    struct engine_pairs pairs = v1_pairs(request, request->json, "modules");
    struct isolate_module *modules = arena_array(&request->arena, struct isolate_module, pairs.len);
    for (size_t i = 0; i < pairs.len; i++)
        modules[i] = (struct isolate_module){pairs.items[i].name, pairs.items[i].value};
    *ret_count = pairs.len;
    return modules;
}

static void evaluate(struct request *request, struct api *api, struct eval_spec *spec)
{
    struct err err;
    const struct json_t *hints = json_get(request->json, "hints");
    if (hints != NULL && hints_read(hints, &spec->hints, &err) < 0) {
        reply_error_at(request, &err, STR("hints"));
        return;
    }
    spec->code = request_str(request, "code");
    spec->language = request_str(request, "language");
    spec->runtime = request_str(request, "runtime");
    spec->context = request_str(request, "context");
    spec->wants_files = request_bool(request, "files", true);
    spec->may_install = request_bool(request, "install", true);
    spec->requirements = v1_list(request, request->json, "requirements", &spec->requirement_count);
    spec->file = request_str(request, "file");
    spec->modules = read_modules(request, &spec->module_count);
    spec->env = v1_pairs(request, request->json, "env");
    spec->network = request_str(request, "network");
    spec->secrets = v1_secrets(request, request->json);
    spec->timeout_ms = v1_time(request->json, "timeoutMs");
    spec->memory_bytes = request_int(request, "memoryMb", 0) << 20;
    spec->wants_text = request_bool(request, "text", false);
    struct engine_caller caller = request_caller(request);
    struct v1_run *run = mem_alloc(sizeof *run);
    run->api = api;
    run->is_short = request_bool(request, "short", false);
    spec->wants_text |= run->is_short;
    run->is_stream = events_are_asked_for(request);
    if (run->is_stream) {
        run->events = events_new(request, &events_calls, run);
    } else {
        run->request = request;
        request_hold(request);
    }
    run->evaluating =
        engine_eval(api->engine, &caller, spec, run->is_stream ? &stream_calls : &eval_calls, run);
    v1_forget_secrets(&spec->secrets);
}

static void run_once(struct request *request, void *ctx)
{
    struct eval_spec spec = {.sandbox = request_str(request, "sandbox"),
                             .session = request_str(request, "session")};
    evaluate(request, ctx, &spec);
}

static void run_in_sandbox(struct request *request, void *ctx)
{
    struct eval_spec spec = {.sandbox = request_param(request, "id")};
    evaluate(request, ctx, &spec);
}

static void run_in_session(struct request *request, void *ctx)
{
    struct eval_spec spec = {.session = request_param(request, "id")};
    evaluate(request, ctx, &spec);
}

/* clang-format off */
#define NOUN "run_code"
#define FAILS (E(NOT_FOUND) | E(GONE) | E(BUSY) | E(CONFLICT) | E(UNSUPPORTED) | E(TIMEOUT))
#define M_CODE \
    JSON("code": {"type": "string", "maxLength": 8388608}) "," \
    JSON("language": {"type": "string", "maxLength": 32, \
        "description": "js, ts or tsx in an isolate; python, javascript, bash, ... in a jail. Default: the language of the sandbox's runtime, python in a jail created without a runtime; ts in an isolate and without a sandbox"}) "," \
    JSON("runtime": {"type": "string", "maxLength": 64, \
        "description": "Instead of a language: python3, bash, ..."}) "," \
    JSON("context": {"type": "string", "maxLength": 64, \
        "description": "Context (interpreter) of a jail; default: the runtime's own"}) "," \
    JSON("files": {"type": "boolean", \
        "description": "In a jail: list the files that the run changes (default true)"}) "," \
    JSON("requirements": {"type": "array", "maxItems": 64, \
        "items": {"type": "string", "maxLength": 200}, \
        "description": "In a jail: packages to install before the code runs, if not installed yet"}) "," \
    JSON("install": {"type": "boolean", \
        "description": "In a jail whose network allows the package index: install missing packages (default true)"}) "," \
    JSON("short": {"type": "boolean", \
        "description": "Return only {type: text, image/png or error, content}, for models"}) "," \
    JSON("file": {"type": "string", "maxLength": 256, "description": "File name of the code in stack traces"}) "," \
    JSON("modules": {"type": "object", "additionalProperties": {"type": "string"}, \
        "description": "Modules that it may import: path to source"}) "," \
    V1_M_ENV "," \
    JSON("hints": {"type": "object", "additionalProperties": true, \
        "description": "Where the user is: latitude, longitude, city, country"}) "," \
    "\"timeoutMs\":" V1_TIME("Interrupt the code after this many milliseconds; 0 or none: never; default: " \
        "limits.execMs of the sandbox, else the configuration's limit") "," \
    JSON("text": {"type": "boolean", "description": "Also return the value as a console would show it"})
#define M_ONCE V1_MEMORY_MB(1024) "," V1_M_NETWORK \
    "," V1_M_SECRETS
#define HOW "An error of the code is part of a 200 response. With Accept: text/event-stream (or " \
    "application/x-ndjson) the response is a stream: stdout, stderr, result, error, end, and state when " \
    "the sandbox is paused or resumed during the run; without a stream the request fails with `conflict` if it is paused."

const struct route v1_run_routes[] = {
    {"POST", "/v1/run_code", run_once, "Run code, once or in a sandbox or session", SCOPE_RUN, NOUN,
     .details = HOW,
     .request = V1_NEEDS(JSON(["code"]), M_CODE "," M_ONCE ","
        JSON("sandbox": {"type": "string"}) "," JSON("session": {"type": "string"})),
     .response = "RunAnswer", .gives = FORM_EITHER, .errors = FAILS,
     .example = "-d '{\"code\": \"[1, 2, 3].map((n) => n * n)\"}'"},
    {"POST", "/v1/sandboxes/{id}/run_code", run_in_sandbox, "Run code in a sandbox", SCOPE_RUN,
     NOUN, .details = "Variables are kept between runs. " HOW,
     .request = V1_NEEDS(JSON(["code"]), M_CODE), .response = "RunAnswer", .gives = FORM_EITHER,
     .errors = FAILS, .example = "-d '{\"code\": \"globalThis.n = 1\"}'"},
    {"POST", "/v1/sessions/{id}/run_code", run_in_session, "Run code in a session", SCOPE_RUN,
     NOUN, .details = "Its sandbox is created or resumed when needed. " HOW,
     .request = V1_NEEDS(JSON(["code"]), M_CODE), .response = "RunAnswer", .gives = FORM_EITHER,
     .errors = FAILS, .example = "-d '{\"code\": \"1 + 1\"}'"},
    {0},
};
/* clang-format on */
