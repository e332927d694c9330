/* sandglass sandbox exec, logs, shell: commands in sandboxes of a running server. */

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/fd.h"
#include "cli/commands.h"
#include "cli/remote.h"

enum { SIGNALED_BASE = 128, KEYS_MAX = 4096, END_OF_INPUT = 4 };

/* What is seen of a command while its log comes in. */
struct watching {
    sg_client *client;
    const char *id; /* of the command, for keys */
    int code;       /* once it has ended */
    bool has_ended, prints_json;
    struct winsize size;
    struct err failure;
};

static int exit_code_of(const struct json_t *command)
{
    int64_t n;
    struct str end = remote_text(command, "end");
    if (str_eq(end, STR("timeout")))
        return EXIT_TIMEOUT;
    if (json_to_i64(json_get(command, "exitCode"), &n))
        return (int)n;
    return json_to_i64(json_get(command, "signal"), &n) ? SIGNALED_BASE + (int)n : EXIT_FAILED;
}

static void put_output(const struct json_t *data, int fd)
{
    struct err err;
    struct str text = remote_text(data, "text");
    AUTO_BUF struct buf bytes = {0};
    if (text.len == 0 && base64_read(remote_text(data, "base64"), &bytes))
        text = buf_str(&bytes);
    (void)!fd_write_all(fd, text, &err);
}

static int on_line(void *ctx, const char *line, size_t len)
{
    struct watching *watching = ctx;
    AUTO_JSON struct json_t *event = NULL;
    if (json_parse(str_n(line, len), &event, &watching->failure) < 0)
        return -1;
    struct str type = remote_text(event, "event");
    const struct json_t *data = json_get(event, "data");
    if (watching->prints_json) {
        cli_print(str_n(line, len));
        cli_print(STR("\n"));
    }
    if (str_eq(type, STR("end"))) {
        watching->has_ended = true;
        watching->code = exit_code_of(data);
    } else if (str_eq(type, STR("error"))) {
        (void)err_set(&watching->failure, ERR_UNAVAILABLE, "%.*s",
                      STR_ARG(remote_text(data, "message")));
        return -1;
    } else if (!watching->prints_json &&
               (str_eq(type, STR("stdout")) || str_eq(type, STR("tty")))) {
        put_output(data, STDOUT_FILENO);
    } else if (!watching->prints_json && str_eq(type, STR("stderr"))) {
        put_output(data, STDERR_FILENO);
    }
    return 0;
}

static int conclude(const struct watching *watching, int result, struct err *err)
{
    if (watching->failure.code != ERR_NONE) {
        *err = watching->failure;
        return -1;
    }
    return result < 0 && !watching->has_ended ? remote_failed(watching->client, err)
                                              : watching->code;
}

/* ---- exec ---------------------------------------------------------------------------------- */

static void put_argv(const struct cli_call *call, struct buf *body)
{
    struct json_out out = {.buf = body};
    const char *cwd = cli_value(call, "cwd");
    json_begin_object(&out);
    json_key(&out, "argv");
    json_begin_array(&out);
    for (size_t i = 1; i < call->arg_count; i++)
        json_put_cstr(&out, call->args[i]);
    json_end_array(&out);
    if (cwd != NULL)
        json_key(&out, "cwd"), json_put_cstr(&out, cwd);
    if (cli_has(call, "detach"))
        json_key(&out, "detached"), json_put_bool(&out, true);
    json_end_object(&out);
}

static int exec(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_BUF struct buf body = {0};
    AUTO_BUF struct buf path = {0};
    AUTO_JSON struct json_t *answer = NULL;
    put_argv(call, &body);
    remote_path(&path, "/v1/sandboxes/%s/commands", call->args[0]);
    if (remote_open(call, &client, err) < 0)
        return -1;
    if (cli_has(call, "detach")) {
        if (remote_call(client, "POST", buf_cstr(&path), buf_cstr(&body), &answer, err) < 0)
            return -1;
        cli_print(remote_text(answer, "id"));
        cli_print(STR("\n"));
        return EXIT_OK;
    }
    struct watching watching = {.client = client, .prints_json = cli_has(call, "json")};
    int result =
        sg_stream(client, "POST", buf_cstr(&path), buf_cstr(&body), on_line, -1, NULL, &watching);
    return conclude(&watching, result, err);
}

static int logs(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_BUF struct buf path = {0};
    remote_path(&path, "/v1/commands/%s/logs", call->args[0]);
    if (cli_has(call, "follow"))
        buf_put_cstr(&path, "?follow=true");
    if (remote_open(call, &client, err) < 0)
        return -1;
    struct watching watching = {.client = client, .prints_json = cli_has(call, "json")};
    int result = sg_stream(client, "GET", buf_cstr(&path), NULL, on_line, -1, NULL, &watching);
    int code = conclude(&watching, result, err);
    return code < 0 ? code : EXIT_OK;
}

/* ---- shell --------------------------------------------------------------------------------- */

struct source {
    const char *bytes;
    size_t left;
};

static long give_keys(void *ctx, char *out, size_t room)
{
    struct source *source = ctx;
    size_t count = MIN(source->left, room);
    memcpy(out, source->bytes, count);
    source->bytes += count;
    source->left -= count;
    return (long)count;
}

static void send_size(struct watching *watching)
{
    struct winsize size;
    AUTO_BUF struct buf path = {0};
    AUTO_BUF struct buf body = {0};
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0 ||
        (size.ws_row == watching->size.ws_row && size.ws_col == watching->size.ws_col))
        return;
    watching->size = size;
    remote_path(&path, "/v1/commands/%s/resize", watching->id);
    buf_printf(&body, "{\"rows\":%d,\"cols\":%d}", size.ws_row, size.ws_col);
    (void)sg_call(watching->client, "POST", buf_cstr(&path), buf_cstr(&body), NULL);
}

static int on_keys(void *ctx)
{
    struct watching *watching = ctx;
    char keys[KEYS_MAX];
    AUTO_BUF struct buf path = {0};
    ssize_t count = read(STDIN_FILENO, keys, sizeof keys);
    send_size(watching);
    /* A terminal's way to say that nothing more is typed. */
    if (count <= 0)
        keys[0] = END_OF_INPUT;
    struct source source = {keys, count <= 0 ? 1 : (size_t)count};
    remote_path(&path, "/v1/commands/%s/stdin", watching->id);
    (void)sg_upload(watching->client, "POST", buf_cstr(&path), give_keys, &source,
                    (int64_t)source.left, NULL);
    return count <= 0 ? 1 : 0;
}

/* Keys go to the sandbox as they are typed: this side's terminal does nothing with them. */
static bool make_raw(struct termios *before)
{
    if (tcgetattr(STDIN_FILENO, before) < 0)
        return false;
    struct termios raw = *before;
    cfmakeraw(&raw);
    return tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static int shell(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_JSON struct json_t *command = NULL;
    AUTO_BUF struct buf path = {0};
    AUTO_BUF struct buf body = {0};
    AUTO_BUF struct buf id = {0};
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    struct termios before;
    (void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
    buf_printf(&body,
               "{\"argv\":[\"/bin/sh\",\"-i\"],\"tty\":true,\"stdin\":true,\"timeoutMs\":-1,"
               "\"rows\":%d,\"cols\":%d}",
               MAX(size.ws_row, 1), MAX(size.ws_col, 1));
    remote_path(&path, "/v1/sandboxes/%s/commands", call->args[0]);
    if (remote_open(call, &client, err) < 0 ||
        remote_call(client, "POST", buf_cstr(&path), buf_cstr(&body), &command, err) < 0)
        return -1;
    buf_put(&id, remote_text(command, "id"));
    buf_clear(&path);
    remote_path(&path, "/v1/commands/%s/logs?follow=true", buf_cstr(&id));
    struct watching watching = {.client = client, .id = buf_cstr(&id), .size = size};
    bool is_raw = make_raw(&before);
    int result =
        sg_stream(client, "GET", buf_cstr(&path), NULL, on_line, STDIN_FILENO, on_keys, &watching);
    if (is_raw)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return conclude(&watching, result, err);
}

static const struct cli_option exec_options[] = {
    REMOTE_OPTIONS,
    {'d', "detach", NULL, "Print the command's id and leave it running"},
    {0, "cwd", "DIR", "Where it runs (/workspace)"},
    {0}};
static const struct cli_option logs_options[] = {
    REMOTE_OPTIONS, {'f', "follow", NULL, "Go on while the command does"}, {0}};

const struct cli_verb cmd_sandbox_exec = {
    .name = "sandbox exec",
    .args = "ID -- CMD [ARG...]",
    .summary = "Run a command in a sandbox",
    .details = "Its output comes as it is made; its exit code is this program's. With --json, the "
               "events as they come, one a line.",
    .options = exec_options,
    .args_min = 2,
    .args_max = CLI_ARGS_MAX - 1,
    .run = exec,
};
const struct cli_verb cmd_logs = {
    .name = "logs",
    .args = "COMMAND",
    .summary = "Print what a command put out, also one that has ended",
    .options = logs_options,
    .args_min = 1,
    .args_max = 1,
    .run = logs,
};
const struct cli_verb cmd_shell = {
    .name = "shell",
    .args = "ID",
    .summary = "A shell in a sandbox, in this terminal",
    .options = remote_only,
    .args_min = 1,
    .args_max = 1,
    .run = shell,
};
