/* sandglass run --sandbox or --session: code in a place of a running server. */

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/format/json_text.h"
#include "cli/net_arg.h"
#include "cli/remote.h"
#include "cli/run/ending.h"
#include "cli/run/interrupt.h"
#include "cli/run/run.h"

struct watching {
    sg_client *client;
    const struct interrupt_target *target;
    bool is_interrupted, is_ended_by_us, is_left, is_paused;
    bool has_ended;
    bool is_unread; /* who read our output has gone; what comes is thrown away */
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
    if (timeout_ms >= 0)
        json_key(&out, "timeoutMs"), json_put_i64(&out, timeout_ms);
    json_end_object(&out);
}

static int exit_code_of(const struct json_t *end)
{
    bool ok = false;
    if (str_eq(remote_text(end, "status"), STR("timeout")))
        return EXIT_TIMEOUT;
    if (str_eq(remote_text(end, "status"), STR("interrupted")))
        return EXIT_INTERRUPTED;
    return json_to_bool(json_get(end, "success"), &ok) && ok ? EXIT_OK : EXIT_FAILED;
}

/* Without a reader the code is interrupted, as Ctrl-C does; its variables stay. */
static void write_text(struct watching *watching, int fd, struct str text)
{
    struct err err;
    if (watching->is_unread || fd_write_all(fd, text, &err) == 0 || err.sys != EPIPE)
        return;
    watching->is_unread = true;
    ending_expect(SIGPIPE);
    (void)!interrupt_code(watching->client, watching->target, &err);
}

/* What an interpreter shows; an isolate's value is JSON. */
static void print_value(const struct json_t *data)
{
    AUTO_BUF struct buf line = {0};
    const struct json_t *bundle = json_get(data, "data"), *value = json_get(data, "value");
    bool has_value = false;
    if (json_get(data, "omitted") != NULL)
        buf_put_cstr(&line, "[a value too large for a stream: --json has it]\n");
    else if (bundle != NULL && json_get(bundle, "image/png") != NULL)
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
    AUTO_BUF struct buf line = {0};
    struct str name = remote_text(data, "name");
    if (str_eq(name, STR("ExitStatus"))) /* a shell's: its own words are enough */
        return 0;
    buf_printf(&line, "%.*s: %.*s", STR_ARG(name), STR_ARG(remote_text(data, "message")));
    (void)run_print(ISOLATE_STDERR, trace.len > 0   ? str_trim(trace)
                                    : stack.len > 0 ? str_trim(stack)
                                                    : buf_str(&line));
    return 0;
}

/* Variables that the code may have missed, and output that was not kept: said behind its output. */
static void tell_missing(const struct json_t *answer)
{
    static const char *const keys[] = {"stateLostMessage", "truncatedMessage"};
    for (size_t i = 0; i < countof(keys); i++) {
        struct str message = remote_text(answer, keys[i]);
        if (message.len > 0)
            (void)fprintf(stderr, "sandglass: %.*s\n", STR_ARG(message));
    }
}

static void take_state(struct watching *watching, const struct json_t *data)
{
    struct str id = remote_text(data, "sandbox"), reason = remote_text(data, "reason");
    watching->is_paused = str_eq(remote_text(data, "state"), STR("paused"));
    if (watching->is_paused)
        (void)fprintf(stderr,
                      "sandglass: sandbox %.*s was paused%s%.*s. The code waits; 'sandglass "
                      "sandbox resume %.*s' resumes it, Ctrl-C detaches\n",
                      STR_ARG(id), reason.len > 0 ? ": " : "", STR_ARG(reason), STR_ARG(id));
    else
        (void)fprintf(stderr, "sandglass: sandbox %.*s was resumed\n", STR_ARG(id));
}

static int run_remote_on_line(void *ctx, const char *line, size_t len)
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
        write_text(watching, STDOUT_FILENO, remote_text(data, "text"));
    else if (str_eq(type, STR("stderr")))
        write_text(watching, STDERR_FILENO, remote_text(data, "text"));
    else if (str_eq(type, STR("result")))
        print_value(data);
    else if (str_eq(type, STR("error")))
        return take_error(watching, data);
    else if (str_eq(type, STR("state")))
        take_state(watching, data);
    else if (str_eq(type, STR("end")) && json_get(data, "success") == NULL)
        /* The server's own, when it is stopped: the run has none. */
        return err_set(&watching->failure, ERR_UNAVAILABLE,
                       "the server is stopping: the code did not finish");
    else if (str_eq(type, STR("end"))) {
        tell_missing(data);
        watching->has_ended = true;
        watching->code = watching->is_ended_by_us ? EXIT_INTERRUPTED : exit_code_of(data);
    }
    return 0;
}

/* The first Ctrl-C interrupts the code, whose variables stay; the second ends it with its
 * interpreter. */
static void stop_code(struct watching *watching)
{
    struct err err;
    if (!watching->is_interrupted) {
        watching->is_interrupted = true;
        if (interrupt_code(watching->client, watching->target, &err) < 0)
            (void)fprintf(stderr, "sandglass: the code could not be interrupted: %s\n", err.msg);
        else
            (void)fputs("sandglass: interrupted the code; a second Ctrl-C ends it with its "
                        "interpreter\n",
                        stderr);
        return;
    }
    watching->is_ended_by_us = true;
    int count = interrupt_end_code(watching->client, watching->target, &err);
    if (count < 0)
        (void)fprintf(stderr, "sandglass: the code could not be ended: %s\n", err.msg);
    else if (count > 0)
        (void)fputs("sandglass: ended the code and its interpreter; variables are lost\n", stderr);
}

/* Called while the answer is waited for. A third Ctrl-C, and any other signal, ends this program.
 */
static int on_signal(void *ctx)
{
    struct watching *watching = ctx;
    int signal = ending_take();
    if (signal == 0)
        return 0;
    watching->code = EXIT_SIGNALED + signal;
    watching->is_left = signal != SIGINT || watching->is_ended_by_us || watching->is_paused;
    if (watching->is_left)
        return -1;
    stop_code(watching);
    ending_done();
    return 0;
}

static int left(const struct watching *watching)
{
    (void)fputs("sandglass: detached; the code may still be running in the sandbox, 'sandglass "
                "interrupt' stops it\n",
                stderr);
    return watching->code;
}

static int show_stream(sg_client *client, const struct interrupt_target *target, const char *path,
                       const char *body, struct err *err)
{
    struct watching watching = {.client = client, .target = target};
    (void)signal(SIGPIPE, SIG_IGN);
    int result = sg_stream(client, "POST", path, body, run_remote_on_line, ending_watch(),
                           on_signal, &watching);
    if (watching.is_unread)
        return EXIT_SIGNALED + SIGPIPE;
    if (watching.is_left)
        return left(&watching);
    if (watching.failure.code != ERR_NONE) {
        *err = watching.failure;
        return -1;
    }
    return result < 0 && !watching.has_ended ? remote_failed(client, err) : watching.code;
}

static int show_json(sg_client *client, const struct interrupt_target *target, const char *path,
                     const char *body, struct err *err)
{
    struct watching watching = {.client = client, .target = target};
    AUTO_JSON struct json_t *answer = NULL;
    AUTO_BUF struct buf text = {0};
    char *json = NULL;
    int result =
        sg_call_beside(client, "POST", path, body, &json, ending_watch(), on_signal, &watching);
    if (watching.is_left)
        return left(&watching);
    if (result < 0)
        return remote_failed(client, err);
    result = json_parse(str_trim(str_of(json)), &answer, err);
    sg_free(json);
    if (result < 0)
        return -1;
    struct json_out out = {.buf = &text, .pretty = isatty(STDOUT_FILENO) == 1};
    json_put_value(&out, answer);
    buf_put_char(&text, '\n');
    cli_print(buf_str(&text));
    tell_missing(answer);
    return watching.is_ended_by_us ? EXIT_INTERRUPTED : exit_code_of(answer);
}

int run_in_server(const struct cli_call *call, struct str code, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_BUF struct buf body = buf_with_limit(64 << 20), path = {0}, name = {0};
    const char *sandbox = cli_value(call, "sandbox"), *session = cli_value(call, "session");
    const char *timeout = cli_value(call, "timeout");
    int64_t timeout_ms = -1; /* not given */
    if (sandbox != NULL && session != NULL)
        return err_set(err, ERR_INVALID, "give --sandbox or --session, not both");
    if (timeout != NULL && cli_read_limit_ms("timeout", timeout, &timeout_ms, err) < 0)
        return -1;
    bool is_session = sandbox == NULL;
    if (sandbox != NULL) {
        if (remote_find_kind(call, sandbox, &is_session, &name, err) < 0)
            return -1;
        sandbox = is_session ? NULL : buf_cstr(&name);
        session = is_session ? buf_cstr(&name) : NULL;
    }
    remote_path(&path, is_session ? "/v1/sessions/%s/run_code" : "/v1/sandboxes/%s/run_code",
                is_session ? session : sandbox);
    put_body(call, code, timeout_ms, &body);
    struct interrupt_target target = {.sandbox = sandbox,
                                      .session = session,
                                      .context = cli_value(call, "context"),
                                      .runtime = cli_value(call, "runtime")};
    if (remote_open(call, &client, err) < 0)
        return -1;
    return cli_has(call, "json")
               ? show_json(client, &target, buf_cstr(&path), buf_cstr(&body), err)
               : show_stream(client, &target, buf_cstr(&path), buf_cstr(&body), err);
}
