/* sandglass run --sandbox or --session: code in a place of a running server. */

#include <unistd.h>

#include "base/fd.h"
#include "base/json_text.h"
#include "cli/remote.h"
#include "cli/run.h"

struct watching {
    const sg_client *client;
    bool has_ended;
    int code;
    struct err failure;
};

static void put_env(const struct cli_call *call, struct json_out *out)
{
    struct str name, value;
    json_key(out, "env"), json_begin_object(out);
    for (size_t i = 0; i < call->given_count; i++)
        if (strcmp(call->given[i].option->name, "env") == 0 &&
            run_env(call->given[i].value, &name, &value))
            json_key_str(out, name), json_put_str(out, value);
    json_end_object(out);
}

static void put_body(const struct cli_call *call, struct str code, int64_t timeout_ms,
                     struct buf *body)
{
    static const char *const words[] = {"runtime", "context"};
    struct json_out out = {.buf = body};
    const char *lang = cli_value(call, "lang");
    json_begin_object(&out);
    json_key(&out, "code"), json_put_str(&out, code);
    for (size_t i = 0; i < countof(words); i++)
        if (cli_value(call, words[i]) != NULL)
            json_key(&out, words[i]), json_put_cstr(&out, cli_value(call, words[i]));
    if (lang != NULL)
        json_key(&out, "language"), json_put_cstr(&out, lang);
    if (cli_has(call, "env"))
        put_env(call, &out);
    if (timeout_ms > 0)
        json_key(&out, "timeoutMs"), json_put_i64(&out, timeout_ms);
    json_end_object(&out);
}

static int exit_code_of(const struct json_t *end)
{
    bool ok = false;
    if (str_eq(remote_text(end, "status"), STR("timeout")))
        return EXIT_TIMEOUT;
    return json_to_bool(json_get(end, "success"), &ok) && ok ? EXIT_OK : EXIT_FAILED;
}

static void write_text(int fd, struct str text)
{
    struct err err;
    (void)!fd_write_all(fd, text, &err);
}

/* What a kernel shows; an isolate's value is JSON. */
static void print_value(const struct json_t *data)
{
    AUTO_BUF struct buf line = {0};
    const struct json_t *bundle = json_get(data, "data"), *value = json_get(data, "value");
    bool has_value = false;
    if (bundle != NULL && json_get(bundle, "image/png") != NULL)
        buf_put_cstr(&line, "[image/png: --json has it]\n");
    else if (bundle != NULL && json_get(bundle, "text/plain") != NULL)
        buf_printf(&line, "%.*s\n", STR_ARG(remote_text(bundle, "text/plain")));
    else if (json_to_bool(json_get(data, "hasValue"), &has_value) && has_value) {
        json_put_value(&(struct json_out){.buf = &line}, value);
        buf_put_char(&line, '\n');
    }
    cli_print(buf_str(&line));
}

/* A failure of the run has a code of the one table; one of the code itself has a traceback. */
static int take_error(struct watching *watching, const struct json_t *data)
{
    struct str trace = remote_text(data, "traceback"), stack = remote_text(data, "stack");
    if (json_get(data, "code") != NULL)
        return err_set(&watching->failure, ERR_UNAVAILABLE, "%.*s",
                       STR_ARG(remote_text(data, "message")));
    if (trace.len > 0 || stack.len > 0)
        run_print(ISOLATE_STDERR, str_trim(trace.len > 0 ? trace : stack));
    return 0;
}

static int on_line(void *ctx, const char *line, size_t len)
{
    struct watching *watching = ctx;
    AUTO_JSON struct json_t *event = NULL;
    AUTO_BUF struct buf text = {0};
    buf_put(&text, str_n(line, len));
    json_hide_nul(&text);
    if (json_parse(buf_str(&text), &event, &watching->failure) < 0)
        return -1;
    struct str type = remote_text(event, "event");
    const struct json_t *data = json_get(event, "data");
    if (str_eq(type, STR("stdout")))
        write_text(STDOUT_FILENO, remote_text(data, "text"));
    else if (str_eq(type, STR("stderr")))
        write_text(STDERR_FILENO, remote_text(data, "text"));
    else if (str_eq(type, STR("result")))
        print_value(data);
    else if (str_eq(type, STR("error")))
        return take_error(watching, data);
    else if (str_eq(type, STR("end"))) {
        watching->has_ended = true;
        watching->code = exit_code_of(data);
    }
    return 0;
}

static int show_stream(sg_client *client, const char *path, const char *body, struct err *err)
{
    struct watching watching = {.client = client};
    int result = sg_stream(client, "POST", path, body, on_line, -1, NULL, &watching);
    if (watching.failure.code != ERR_NONE) {
        *err = watching.failure;
        return -1;
    }
    return result < 0 && !watching.has_ended ? remote_failed(client, err) : watching.code;
}

static int show_json(sg_client *client, const char *path, const char *body, struct err *err)
{
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf text = {0};
    if (remote_call(client, "POST", path, body, &answer, err) < 0)
        return -1;
    struct json_out out = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    json_put_value(&out, answer);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
    return exit_code_of(answer);
}

int run_in_server(const struct cli_call *call, struct str code, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_BUF struct buf body = buf_with_limit(64 << 20), path = {0};
    const char *sandbox = cli_value(call, "sandbox"), *session = cli_value(call, "session");
    const char *timeout = cli_value(call, "timeout");
    int64_t timeout_ms = 0;
    if (sandbox != NULL && session != NULL)
        return err_set(err, ERR_INVALID, "give --sandbox or --session, not both");
    if (timeout != NULL && !str_to_i64(str_of(timeout), 1, 600000, &timeout_ms))
        return err_set(err, ERR_INVALID, "--timeout: '%s' is not 1 to 600000 milliseconds",
                       timeout);
    remote_path(&path, sandbox != NULL ? "/v1/sandboxes/%s/run_code" : "/v1/sessions/%s/run_code",
                sandbox != NULL ? sandbox : session);
    put_body(call, code, timeout_ms, &body);
    if (remote_open(call, &client, err) < 0)
        return -1;
    return cli_has(call, "json") ? show_json(client, buf_cstr(&path), buf_cstr(&body), err)
                                 : show_stream(client, buf_cstr(&path), buf_cstr(&body), err);
}
