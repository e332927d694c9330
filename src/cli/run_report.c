/* What `sandglass run --json` prints. */

#include <math.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/run.h"

/* Code that asks for the weather or the like needs to know where; say what is missing. */
static void put_hints(struct run_request *request, struct json_out *out)
{
    bool latitude = false, longitude = false;
    json_key(out, "locationHints");
    json_begin_object(out);
    VEC_EACH (hint, &request->hints) {
        bool is_latitude = strcmp(hint->key, "latitude") == 0;
        bool is_longitude = strcmp(hint->key, "longitude") == 0;
        double number = 0;
        json_key(out, hint->key);
        if ((is_latitude || is_longitude) && str_to_f64(hint->value, &number))
            json_put_f64(out, number);
        else
            json_put_str(out, hint->value);
        latitude = latitude || is_latitude;
        longitude = longitude || is_longitude;
    }
    json_end_object(out);
    json_key(out, "warnings");
    json_begin_array(out);
    if (request->hints.len == 0)
        json_put_cstr(out, "no location hints were given");
    else if (latitude != longitude)
        json_put_cstr(out, latitude ? "longitude is missing from the location hints"
                                    : "latitude is missing from the location hints");
    json_end_array(out);
}

static void put_limits(const struct isolate_limits *limits, struct json_out *out)
{
    json_key(out, "limits");
    json_begin_object(out);
    json_key(out, "memoryMb"), json_put_i64(out, (int64_t)(limits->memory_bytes >> 20));
    json_key(out, "stackKb"), json_put_i64(out, limits->stack_bytes >> 10);
    json_key(out, "codeChars"), json_put_i64(out, limits->code_chars);
    json_key(out, "consoleLines"), json_put_i64(out, limits->console_lines);
    json_key(out, "resultDepth"), json_put_i64(out, limits->result_depth);
    json_key(out, "resultItems"), json_put_i64(out, limits->result_items);
    json_end_object(out);
}

static void put_environment(struct run_request *request, struct json_out *out)
{
    json_key(out, "environment");
    json_begin_object(out);
    json_key(out, "language"), json_put_cstr(out, request->lang);
    json_key(out, "runtime"), json_put_cstr(out, "isolate");
    json_key(out, "timeoutMs"), json_put_i64(out, request->limits.timeout_ms);
    put_limits(&request->limits, out);
    put_hints(request, out);
    json_end_object(out);
}

static void put_lines(struct run_request *request, enum isolate_stream stream, const char *key,
                      struct json_out *out)
{
    json_key(out, key);
    json_begin_array(out);
    VEC_EACH (line, &request->lines)
        if (line->stream == stream)
            json_put_str(out, line->text);
    json_end_array(out);
}

static void put_error(const struct isolate_result *result, struct json_out *out)
{
    json_key(out, "error");
    if (result->status == ISOLATE_OK) {
        json_put_null(out);
        return;
    }
    json_begin_object(out);
    json_key(out, "name"), json_put_str(out, buf_str(&result->error_name));
    json_key(out, "message"), json_put_str(out, buf_str(&result->error_message));
    json_key(out, "stack"), json_put_str(out, buf_str(&result->error_stack));
    json_end_object(out);
}

/* The value is JSON already; it is parsed once more so that nothing of it is taken on trust. */
static void put_value(const struct isolate_result *result, struct json_out *out)
{
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL;
    json_key(out, "result");
    if (result->status == ISOLATE_OK && json_parse(buf_str(&result->json), &value, &err) == 0)
        json_put_value(out, value);
    else
        json_put_null(out);
}

void run_put_json(struct run_request *request, const struct isolate_result *result,
                  struct json_out *out)
{
    json_begin_object(out);
    json_key(out, "status"), json_put_cstr(out, isolate_status_name(result->status));
    json_key(out, "success"), json_put_bool(out, result->status == ISOLATE_OK);
    put_value(result, out);
    put_error(result, out);
    put_lines(request, ISOLATE_STDOUT, "stdout", out);
    put_lines(request, ISOLATE_STDERR, "stderr", out);
    json_key(out, "truncatedStdout");
    json_put_i64(out, (int64_t)result->dropped[ISOLATE_STDOUT]);
    json_key(out, "truncatedStderr");
    json_put_i64(out, (int64_t)result->dropped[ISOLATE_STDERR]);
    json_key(out, "runtimeMs"), json_put_f64(out, round((double)result->runtime_ns / 1e3) / 1e3);
    json_key(out, "codeSize"), json_put_i64(out, (int64_t)request->call.code.len);
    put_environment(request, out);
    json_end_object(out);
}
