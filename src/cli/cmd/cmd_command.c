/* What commands in sandboxes of a running server put out, and sandglass logs. */

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/format/base64.h"
#include "cli/cmd/commands.h"
#include "cli/watching.h"

static int exit_code_of(const struct json_t *command)
{
    int64_t n;
    struct str end = remote_text(command, "end");
    if (str_eq(end, STR("timeout")))
        return EXIT_TIMEOUT;
    if (json_to_i64(json_get(command, "exitCode"), &n))
        return (int)n;
    return json_to_i64(json_get(command, "signal"), &n) ? EXIT_SIGNALED + (int)n : EXIT_FAILED;
}

/* "end" is the command's, or the server's own when it stops: that one has no state. */
static int take_end(struct watching *watching, const struct json_t *data)
{
    watching->is_dropped = remote_text(data, "state").len == 0;
    if (watching->is_dropped)
        return err_set(&watching->failure, ERR_UNAVAILABLE,
                       "the server is stopping; running commands end with it");
    watching->has_ended = true;
    watching->code = exit_code_of(data);
    struct str reason = remote_text(data, "reason"); /* what its exit code does not tell */
    (void)snprintf(watching->why, sizeof watching->why, "%.*s", STR_ARG(reason));
    return 0;
}

/* Also to a pipe that another process made non-blocking. A pipe without a reader is no failure:
 * who watches decides what becomes of the command. */
static int write_out(struct watching *watching, int fd, struct str bytes)
{
    while (bytes.len > 0 && !watching->is_unread) {
        ssize_t wrote = write(fd, bytes.ptr, bytes.len);
        if (wrote < 0 && errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (wrote < 0 && errno == EPIPE)
            watching->is_unread = true;
        else if (wrote < 0 && errno != EINTR)
            return err_sys(&watching->failure, errno, "write the command's output");
        bytes = str_slice(bytes, wrote < 0 ? 0 : (size_t)wrote, bytes.len);
    }
    return 0;
}

/* With --json: the event as it came. */
static int put_event(struct watching *watching, struct str line)
{
    AUTO_BUF struct buf text = {0};
    buf_put(&text, line);
    buf_put_char(&text, '\n');
    return write_out(watching, STDOUT_FILENO, buf_str(&text));
}

static int put_output(struct watching *watching, const struct json_t *data, int fd)
{
    struct str text = remote_text(data, "text");
    AUTO_BUF struct buf bytes = {0};
    if (text.len == 0 && base64_read(remote_text(data, "base64"), &bytes))
        text = buf_str(&bytes);
    return write_out(watching, fd, text);
}

static int take_gap(struct watching *watching, const struct json_t *data)
{
    int64_t bytes = 0;
    if (json_to_i64(json_get(data, "bytes"), &bytes) && bytes > 0)
        watching->missing_bytes += (uint64_t)bytes;
    if (!watching->prints_gaps || watching->prints_json)
        return 0;
    bool is_error = str_eq(remote_text(data, "stream"), STR("stderr"));
    return put_output(watching, data, is_error ? STDERR_FILENO : STDOUT_FILENO);
}

/* Its sandbox was paused, or runs again. */
static void take_state(struct watching *watching, const struct json_t *data)
{
    struct str id = remote_text(data, "sandbox"), reason = remote_text(data, "reason");
    const char *end = watching->is_raw ? "\r\n" : "\n";
    watching->is_paused = str_eq(remote_text(data, "state"), STR("paused"));
    if (watching->prints_json)
        return;
    if (watching->is_paused)
        (void)fprintf(stderr,
                      "%ssandglass: sandbox %.*s was paused%s%.*s. The command waits; %s"
                      "'sandglass sandbox resume %.*s' resumes it, %s detaches%s",
                      watching->is_raw ? "\r\n" : "", STR_ARG(id), reason.len > 0 ? ": " : "",
                      STR_ARG(reason), watching->is_raw ? "a key or " : "", STR_ARG(id),
                      watching->is_raw ? "Ctrl-]" : "Ctrl-C", end);
    else
        (void)fprintf(stderr, "sandglass: sandbox %.*s was resumed%s", STR_ARG(id), end);
}

int watch_line(void *ctx, const char *line, size_t len)
{
    struct watching *watching = ctx;
    AUTO_JSON struct json_t *event = NULL;
    if (json_parse(str_n(line, len), &event, &watching->failure) < 0)
        return -1;
    struct str type = remote_text(event, "event");
    const struct json_t *data = json_get(event, "data");
    if (watching->prints_json && put_event(watching, str_n(line, len)) < 0)
        return -1;
    if (str_eq(type, STR("end"))) {
        return take_end(watching, data);
    } else if (str_eq(type, STR("error"))) {
        (void)err_set(&watching->failure, ERR_UNAVAILABLE, "%.*s",
                      STR_ARG(remote_text(data, "message")));
        return -1;
    } else if (!watching->prints_json &&
               (str_eq(type, STR("stdout")) || str_eq(type, STR("tty")))) {
        return put_output(watching, data, STDOUT_FILENO);
    } else if (!watching->prints_json && str_eq(type, STR("stderr"))) {
        return put_output(watching, data, STDERR_FILENO);
    } else if (str_eq(type, STR("gap"))) {
        return take_gap(watching, data);
    } else if (str_eq(type, STR("state"))) {
        take_state(watching, data);
    }
    return 0;
}

int watch_conclude(const struct watching *watching, int result, struct err *err)
{
    if (watching->failure.code != ERR_NONE) {
        *err = watching->failure;
        return -1;
    }
    if (!watching->has_ended && result < 0)
        return remote_failed(watching->client, err);
    if (!watching->has_ended)
        return err_set(err, ERR_UNAVAILABLE, "the stream ended before the command did");
    if (watching->why[0] != '\0' && !watching->prints_json)
        (void)fprintf(stderr, "sandglass: the command was ended: %s\n", watching->why);
    if (watching->missing_bytes == 0)
        return watching->code;
    (void)fprintf(stderr,
                  "sandglass: %llu bytes of the output are missing: the server did not keep them "
                  "(logs.stream_mb)\n",
                  (unsigned long long)watching->missing_bytes);
    return watching->code == EXIT_OK ? EXIT_FAILED : watching->code;
}

struct source {
    const char *bytes;
    size_t left;
};

static long give_input(void *ctx, char *out, size_t room)
{
    struct source *source = ctx;
    size_t count = MIN(source->left, room);
    memcpy(out, source->bytes, count);
    source->bytes += count;
    source->left -= count;
    return (long)count;
}

void watch_send(struct watching *watching, struct str input, bool is_last)
{
    struct source source = {input.ptr, input.len};
    AUTO_BUF struct buf path = {0};
    if (input.len == 0 && !is_last)
        return;
    remote_path(&path, "/v1/commands/%s/stdin", watching->id);
    if (is_last)
        buf_put_cstr(&path, "?close=true");
    (void)sg_upload(watching->client, "POST", buf_cstr(&path), give_input, &source,
                    (int64_t)source.left, NULL);
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
    struct watching watching = {
        .client = client, .prints_json = cli_has(call, "json"), .prints_gaps = true};
    int result = sg_stream(client, "GET", buf_cstr(&path), NULL, watch_line, -1, NULL, &watching);
    int code = watch_conclude(&watching, result, err);
    if (code < 0)
        return code;
    return watching.missing_bytes > 0 && cli_has(call, "follow") ? EXIT_FAILED : EXIT_OK;
}

static const struct cli_option logs_options[] = {
    REMOTE_OPTIONS, {'f', "follow", NULL, "Keep printing until the command ends"}, {0}};

const struct cli_verb cmd_logs = {
    .name = "logs",
    .args = "COMMAND",
    .summary = "Print the output of a command, running or ended",
    .details = "The server keeps the beginning and the end of long output (logs.stream_mb); a line "
               "in between says how much was not kept. With --follow all output from now on is "
               "printed: a command that is faster than this program waits for it.",
    .options = logs_options,
    .args_min = 1,
    .args_max = 1,
    .run = logs,
};
