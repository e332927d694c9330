/* What commands in sandboxes of a running server put out, and sandglass logs. */

#include <unistd.h>

#include "base/base64.h"
#include "base/fd.h"
#include "cli/commands.h"
#include "cli/watching.h"

enum { SIGNALED_BASE = 128 };

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

/* What its exit code does not tell. */
static const char *why_of(const struct json_t *command)
{
    static const struct {
        const char *end, *words;
    } known[] = {
        {"timeout", "it took longer than it may"},
        {"out_of_memory", "its sandbox ran out of memory"},
        {"stopped", "its sandbox was stopped"},
        {"lost", "its sandbox ended without a word, or the server did"},
    };
    struct str end = remote_text(command, "end");
    for (size_t i = 0; i < countof(known); i++)
        if (str_eq(end, str_of(known[i].end)))
            return known[i].words;
    return NULL;
}

/* "end" is the command's, or the server's own when it stops: that one has no state. */
static int take_end(struct watching *watching, const struct json_t *data)
{
    watching->is_dropped = remote_text(data, "state").len == 0;
    if (watching->is_dropped)
        return err_set(&watching->failure, ERR_UNAVAILABLE,
                       "the server stops; a command that runs ends with it");
    watching->has_ended = true;
    watching->code = exit_code_of(data);
    watching->why = why_of(data);
    return 0;
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

int watch_line(void *ctx, const char *line, size_t len)
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
        return take_end(watching, data);
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

int watch_conclude(const struct watching *watching, int result, struct err *err)
{
    if (watching->failure.code != ERR_NONE) {
        *err = watching->failure;
        return -1;
    }
    if (!watching->has_ended && result < 0)
        return remote_failed(watching->client, err);
    if (watching->why != NULL && !watching->prints_json)
        (void)fprintf(stderr, "sandglass: the command was ended: %s\n", watching->why);
    return watching->code;
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
    struct watching watching = {.client = client, .prints_json = cli_has(call, "json")};
    int result = sg_stream(client, "GET", buf_cstr(&path), NULL, watch_line, -1, NULL, &watching);
    int code = watch_conclude(&watching, result, err);
    return code < 0 ? code : EXIT_OK;
}

static const struct cli_option logs_options[] = {
    REMOTE_OPTIONS, {'f', "follow", NULL, "Go on while the command does"}, {0}};

const struct cli_verb cmd_logs = {
    .name = "logs",
    .args = "COMMAND",
    .summary = "Print what a command put out, also one that has ended",
    .options = logs_options,
    .args_min = 1,
    .args_max = 1,
    .run = logs,
};
