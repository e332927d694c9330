/* For isolate.test.mjs: reads a JSON array of snippets on standard input and prints, for each, one
 * line of JSON with what it did in a fresh isolate. */

#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/format/json.h"
#include "isolate/inside/isolate.h"

struct lines {
    struct buf text;
    struct json_out json;
};

static void on_console(void *user, enum isolate_stream stream, struct str text)
{
    struct lines *lines = user;
    json_begin_array(&lines->json);
    json_put_i64(&lines->json, stream);
    json_put_str(&lines->json, text);
    json_end_array(&lines->json);
}

static void run(struct isolate_engine *engine, struct str code)
{
    struct err err = {0};
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    AUTO_ISOLATE struct isolate *isolate = NULL;
    struct lines lines = {0};
    lines.json.buf = &lines.text;
    struct isolate_host host = {.user = &lines, .console = on_console};
    struct isolate_call call = {.code = code};
    AUTO_RESULT struct isolate_result result = {0};
    json_begin_array(&lines.json);
    if (isolate_new(engine, &limits, &isolate, &err) < 0 ||
        isolate_run(isolate, &call, &host, &result, &err) < 0)
        result.status = ISOLATE_CRASH;
    json_end_array(&lines.json);
    printf("{\"status\":\"%s\",\"value\":%s,\"console\":%s,", isolate_status_name(result.status),
           result.json.len > 0 ? buf_cstr(&result.json) : "null", buf_cstr(&lines.text));
    AUTO_BUF struct buf error = {0};
    struct json_out out = {.buf = &error};
    json_begin_array(&out);
    json_put_str(&out, buf_str(&result.error_name));
    json_put_str(&out, buf_str(&result.error_message));
    json_end_array(&out);
    printf("\"error\":%s}\n", buf_cstr(&error));
    buf_done(&lines.text);
}

int main(void)
{
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    AUTO_JSON struct json_t *list = NULL;
    AUTO_ENGINE struct isolate_engine *engine = NULL;
    if (buf_read_all(&text, STDIN_FILENO, &err) < 0 ||
        json_parse(buf_str(&text), &list, &err) < 0 ||
        isolate_engine_new(NULL, &engine, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    for (size_t i = 0; i < json_len(list); i++) {
        struct str code;
        if (json_to_str(json_at(list, i), &code))
            run(engine, code);
    }
    return 0;
}
