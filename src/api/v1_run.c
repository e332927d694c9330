/* run_code: code in, value and console out, as one JSON object or as events. */

#include "api/events.h"
#include "api/metrics.h"
#include "api/v1.h"
#include "base/vec.h"

/* One evaluation under way. It lives until the engine is done with it, also without its client. */
struct run {
    struct api *api;
    struct request *request; /* NULL once answered with events */
    struct events *events;   /* NULL: one JSON answer, or the client has gone */
    bool is_stream;
    VEC(struct eval_line) lines; /* texts belong to `arena` */
    struct arena arena;
    size_t kept;
};

enum { KEPT_MAX = 4 << 20 }; /* bytes of output in one answer; the isolate's own limit is below */

static void on_closed(void *ctx)
{
    struct run *run = ctx;
    run->events = NULL;
}

static const struct events_calls events_calls = {.on_closed = on_closed};

static void run_free(struct run *run)
{
    vec_done(&run->lines);
    arena_done(&run->arena);
    free(run);
}

static void on_output(void *ctx, enum isolate_stream stream, struct str line)
{
    struct run *run = ctx;
    if (run->kept + line.len > KEPT_MAX)
        return;
    run->kept += line.len;
    *vec_push(&run->lines) = (struct eval_line){stream, arena_dup(&run->arena, line)};
    if (run->events == NULL)
        return;
    AUTO_BUF struct buf data = {0};
    struct json_out out = {.buf = &data};
    json_begin_object(&out);
    json_key(&out, "text"), json_put_str(&out, line);
    json_end_object(&out);
    events_put(run->events, stream == ISOLATE_STDOUT ? "stdout" : "stderr", (struct str){0},
               buf_str(&data));
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

/* result or error, then end with the object that a JSON answer would have been. */
static void finish_events(struct run *run, const struct eval_result *result, const struct err *why)
{
    AUTO_BUF struct buf data = {0};
    AUTO_BUF struct buf end = {0};
    struct json_out out = {.buf = &data}, whole = {.buf = &end};
    if (why != NULL) {
        put_failure(&out, why);
        events_put(run->events, "error", (struct str){0}, buf_str(&data));
        events_put(run->events, "end", (struct str){0}, STR("{\"ok\":false}"));
    } else {
        bool ok = result->run->status == ISOLATE_OK;
        put_outcome(&out, result->run);
        events_put(run->events, ok ? "result" : "error", (struct str){0}, buf_str(&data));
        eval_put_json(result, run->lines.ptr, run->lines.len, &whole);
        events_put(run->events, "end", (struct str){0}, buf_str(&end));
    }
    events_end(run->events);
}

static void on_done(void *ctx, const struct eval_result *result, const struct err *why)
{
    struct run *run = ctx;
    struct v1_answer answer;
    if (why == NULL)
        metrics_observe(run->api->meta.metrics, METRICS_EXEC, "eval",
                        isolate_status_name(result->run->status),
                        (double)result->run->runtime_ns / 1e9);
    if (run->events != NULL) {
        finish_events(run, result, why);
        /* on_closed comes later and must find nobody. */
        events_forget(run->events);
    } else if (!run->is_stream && why != NULL) {
        reply_error(run->request, why);
    } else if (!run->is_stream) {
        eval_put_json(result, run->lines.ptr, run->lines.len, v1_begin(&answer));
        v1_reply(run->request, 200, &answer);
    }
    run_free(run);
}

static const struct eval_calls eval_calls = {on_output, on_done};

static enum isolate_lang lang_of(struct str name)
{
    if (str_eq(name, STR("js")) || str_eq(name, STR("javascript")))
        return ISOLATE_JS;
    return str_eq(name, STR("tsx")) ? ISOLATE_TSX : ISOLATE_TS;
}

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
    spec->lang = lang_of(request_str(request, "language"));
    spec->file = request_str(request, "file");
    spec->modules = read_modules(request, &spec->module_count);
    spec->env = v1_pairs(request, request->json, "env");
    spec->network = request_str(request, "network");
    spec->secrets = v1_secrets(request, request->json);
    spec->timeout_ms = request_int(request, "timeoutMs", 0);
    spec->memory_bytes = request_int(request, "memoryMb", 0) << 20;
    spec->wants_text = request_bool(request, "text", false);
    struct engine_caller caller = v1_caller(request);
    struct run *run = mem_alloc(sizeof *run);
    run->api = api;
    run->is_stream = events_are_asked_for(request);
    if (run->is_stream) {
        run->events = events_new(request, &events_calls, run);
    } else {
        run->request = request;
        request_hold(request);
    }
    engine_eval(api->engine, &caller, spec, &eval_calls, run);
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
    JSON("language": {"type": "string", "enum": ["js", "javascript", "ts", "typescript", "tsx"], \
        "description": "ts when left out: JavaScript is TypeScript too"}) "," \
    JSON("file": {"type": "string", "maxLength": 256, "description": "Its name in stacks"}) "," \
    JSON("modules": {"type": "object", "additionalProperties": {"type": "string"}, \
        "description": "Sources that it may import, by path"}) "," \
    V1_M_ENV "," \
    JSON("hints": {"type": "object", "additionalProperties": true, \
        "description": "Where the user is: latitude, longitude, city, country"}) "," \
    JSON("timeoutMs": {"type": "integer", "minimum": 0, "maximum": 600000}) "," \
    JSON("text": {"type": "boolean", "description": "The value as a console would show it, too"})
#define M_ONCE JSON("memoryMb": {"type": "integer", "minimum": 1, "maximum": 2048}) "," V1_M_NETWORK \
    "," V1_M_SECRETS
#define HOW "What the code does wrong is part of a 200 answer. With Accept: text/event-stream (or " \
    "application/x-ndjson) it is a stream: stdout, stderr, result or error, end."

const struct route v1_run_routes[] = {
    {"POST", "/v1/run_code", run_once, "Run code, once or in a sandbox or session", SCOPE_RUN, NOUN,
     .details = HOW,
     .request = V1_NEEDS(JSON(["code"]), M_CODE "," M_ONCE ","
        JSON("sandbox": {"type": "string"}) "," JSON("session": {"type": "string"})),
     .response = "RunResult", .gives = FORM_EITHER, .errors = FAILS,
     .example = "-d '{\"code\": \"[1, 2, 3].map((n) => n * n)\"}'"},
    {"POST", "/v1/sandboxes/{id}/run_code", run_in_sandbox, "Run code in a sandbox", SCOPE_RUN,
     NOUN, .details = "Variables live from one run to the next. " HOW,
     .request = V1_NEEDS(JSON(["code"]), M_CODE), .response = "RunResult", .gives = FORM_EITHER,
     .errors = FAILS, .example = "-d '{\"code\": \"globalThis.n = 1\"}'"},
    {"POST", "/v1/sessions/{id}/run_code", run_in_session, "Run code in a session", SCOPE_RUN,
     NOUN, .details = "Its sandbox is made or brought back when needed. " HOW,
     .request = V1_NEEDS(JSON(["code"]), M_CODE), .response = "RunResult", .gives = FORM_EITHER,
     .errors = FAILS, .example = "-d '{\"code\": \"1 + 1\"}'"},
    {0},
};
/* clang-format on */
