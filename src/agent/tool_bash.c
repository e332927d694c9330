/* The tools that run commands: bash, and for those in the background bash_output and bash_stop. */

#include <signal.h>

#include "agent/internal.h"
#include "io/loop.h"

enum { TIMEOUT_DEFAULT_MS = 120000 };

/* A command, or a look at the log of one. */
struct bash {
    char id[65];
    uint64_t offset;
    bool is_background;
    struct excerpt text[2]; /* stdout, stderr */
    uint64_t missing;       /* bytes that the log does not keep */
    struct command_log_reader *reader;
    struct timer *timer; /* of a look that does not wait for the end */
};

static void bash_done(struct bash *bash)
{
    bash->reader = command_log_reader_free(bash->reader);
    bash->timer = timer_free(bash->timer);
    excerpt_done(&bash->text[0]);
    excerpt_done(&bash->text[1]);
}

static void tool_bash_fail(struct tool_run *run, const struct err *why, const char *hint)
{
    bash_done(run->state);
    tool_fail_later(run, why, hint);
}

static void put_end(struct json_out *out, const struct command_info *command)
{
    json_key(out, "running"), json_put_bool(out, command->state == COMMAND_RUNNING);
    if (command->state == COMMAND_RUNNING)
        return;
    json_key(out, "exitCode");
    if (command->code >= 0)
        json_put_i64(out, command->code);
    else
        json_put_null(out);
    if (command->signal > 0)
        json_key(out, "signal"), json_put_i64(out, command->signal);
    if (command->end != COMMAND_EXITED)
        json_key(out, "ended"), json_put_cstr(out, command_end_name(command->end));
    AUTO_BUF struct buf reason = {0};
    command_put_reason(command, &reason);
    if (reason.len > 0)
        json_key(out, "reason"), json_put_str(out, buf_str(&reason));
}

static void tool_bash_end(struct tool_run *run, const struct command_info *command)
{
    struct bash *bash = run->state;
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    bool is_running = command->state == COMMAND_RUNNING;
    json_begin_object(&out);
    json_key(&out, "success");
    json_put_bool(&out, is_running || (command->end == COMMAND_EXITED && command->code == 0));
    json_key(&out, "stdout"), tool_put_excerpt(&out, &bash->text[0]);
    json_key(&out, "stderr"), tool_put_excerpt(&out, &bash->text[1]);
    put_end(&out, command);
    uint64_t left_out = bash->missing + excerpt_view(&bash->text[0], TOOL_OUTPUT_MAX).cut +
                        excerpt_view(&bash->text[1], TOOL_OUTPUT_MAX).cut;
    if (left_out > 0)
        json_key(&out, "leftOutBytes"), json_put_i64(&out, (int64_t)left_out);
    if (bash->is_background || is_running) {
        json_key(&out, "id"), json_put_cstr(&out, bash->id);
        json_key(&out, "nextOffset"), json_put_i64(&out, (int64_t)bash->offset);
    }
    json_end_object(&out);
    bash_done(bash);
    tool_end(run, &text);
}

static void on_chunk(void *ctx, const struct log_chunk *chunk)
{
    struct tool_run *run = ctx;
    struct bash *bash = run->state;
    int stream = chunk->stream == COMMAND_STDERR;
    excerpt_put(&bash->text[stream], chunk->bytes, TOOL_OUTPUT_MAX);
    bash->offset = chunk->offset + chunk->bytes.len;
    tool_output(run, stream, chunk->bytes);
}

static void tool_bash_on_end(void *ctx, const struct command_info *command, const struct err *why)
{
    struct tool_run *run = ctx;
    if (why != NULL)
        tool_bash_fail(run, why, NULL);
    else
        tool_bash_end(run, command);
}

static void on_gap(void *ctx, const struct log_gap *gap)
{
    struct tool_run *run = ctx;
    struct bash *bash = run->state;
    AUTO_BUF struct buf text = {0};
    excerpt_mark(gap->bytes, gap->lines, "not kept", &text);
    excerpt_put(&bash->text[gap->stream == COMMAND_STDERR], buf_str(&text), TOOL_OUTPUT_MAX);
    bash->missing += gap->bytes;
}

static const struct log_calls log_calls = {on_chunk, tool_bash_on_end, on_gap};

/* The log's call-backs do not come once the reader is freed: then this is the end. */
static void cancel_reading(struct tool_run *run)
{
    struct bash *bash = run->state;
    bool is_foreground = !bash->is_background;
    if (bash->reader == NULL)
        return;
    if (is_foreground)
        engine_command_signal(run->engine, &run->caller, str_of(bash->id), SIGKILL, NULL, NULL);
    bash_done(bash);
    (void)tool_is_over(run);
}

static void read_log(struct tool_run *run, enum log_mode mode)
{
    struct bash *bash = run->state;
    struct err err = {0};
    run->cancel = cancel_reading;
    if (engine_log_open(run->engine, &run->caller, str_of(bash->id), bash->offset, mode, &log_calls,
                        run, &bash->reader, &err) < 0)
        tool_bash_fail(run, &err, NULL);
}

/* --- bash --- */

static void tool_bash_on_started(void *ctx, const struct command_info *command,
                                 const struct err *why)
{
    struct tool_run *run = ctx;
    struct bash *bash = run->state;
    if (why == NULL)
        (void)snprintf(bash->id, sizeof bash->id, "%.*s", STR_ARG(command->id));
    if (run->is_canceled && why == NULL)
        engine_command_signal(run->engine, &run->caller, command->id, SIGKILL, NULL, NULL);
    if (tool_is_over(run))
        return;
    if (why != NULL)
        tool_bash_fail(run, why, NULL);
    else if (bash->is_background)
        tool_bash_end(run, command);
    else
        read_log(run, LOG_ATTACH);
}

void tool_bash(struct tool_run *run)
{
    struct bash *bash = arena_new(&run->arena, struct bash);
    bash->is_background = tool_arg_bool(run, "background");
    run->state = bash;
    int64_t asked_ms = tool_arg_limit(run, "timeoutMs");
    bool is_default = asked_ms < 0 && !bash->is_background;
    struct command_spec spec = {.session = run->session,
                                .sandbox = run->sandbox,
                                .shell = tool_arg_str(run, "command"),
                                .timeout_ms = is_default      ? TIMEOUT_DEFAULT_MS
                                              : asked_ms <= 0 ? -1
                                                              : asked_ms,
                                .is_tools = is_default,
                                .is_detached = bash->is_background};
    engine_command_start(run->engine, &run->caller, &spec, tool_bash_on_started, run);
}

/* --- bash_output, bash_stop --- */

/* A command of another session is not visible here. */
static bool tool_bash_is_ours(struct tool_run *run, const struct command_info *command,
                              struct err *err)
{
    struct tool_place place;
    if (tool_place(run, &place, err) < 0)
        return false;
    if (command != NULL && str_eq(command->sandbox, place.sandbox))
        return true;
    (void)err_set(err, ERR_NOT_FOUND, "this session has no command '%.*s'",
                  STR_ARG(tool_arg_str(run, "id")));
    return false;
}

static const char no_command[] =
    "Use the id that bash returned when the command was started in the background.";

/* False when the run is over. */
static bool take_command(struct tool_run *run, const struct command_info *command,
                         const struct err *why)
{
    struct bash *bash = run->state;
    struct err err = {0};
    if (tool_is_over(run))
        return false;
    if (why != NULL && why->code != ERR_NOT_FOUND) {
        tool_bash_fail(run, why, NULL);
        return false;
    }
    if (!tool_bash_is_ours(run, command, &err)) {
        tool_bash_fail(run, &err, no_command);
        return false;
    }
    (void)snprintf(bash->id, sizeof bash->id, "%.*s", STR_ARG(command->id));
    bash->offset = (uint64_t)MIN(tool_arg_int(run, "offset", 0), (int64_t)command->log_end);
    return true;
}

static void tool_bash_look_at(struct tool_run *run, command_done *done)
{
    struct bash *bash = arena_new(&run->arena, struct bash);
    bash->is_background = true;
    run->state = bash;
    engine_command_get(run->engine, &run->caller, tool_arg_str(run, "id"), done, run);
}

static void tool_bash_on_time(void *ctx)
{
    struct tool_run *run = ctx;
    const struct bash *bash = run->state;
    struct command_info command;
    /* It is being read: it is there. */
    if (engine_command_peek(run->engine, &run->caller, str_of(bash->id), &command))
        tool_bash_end(run, &command);
}

/* What comes until it ends, or for so long. */
static void tool_bash_wait_for(struct tool_run *run, int64_t wait_ms)
{
    struct bash *bash = run->state;
    if (wait_ms > 0) {
        bash->timer = timer_new(run->loop, tool_bash_on_time, run);
        timer_set(bash->timer, wait_ms, 0);
    }
    read_log(run, wait_ms > 0 ? LOG_FOLLOW : LOG_KEPT);
}

static void tool_bash_on_output(void *ctx, const struct command_info *command,
                                const struct err *why)
{
    struct tool_run *run = ctx;
    if (take_command(run, command, why))
        tool_bash_wait_for(run, tool_arg_int(run, "waitMs", 0));
}

void tool_bash_output(struct tool_run *run)
{
    tool_bash_look_at(run, tool_bash_on_output);
}

/* The log of one that has ended is read like any other. */
static void on_there(void *ctx, const struct command_info *command, const struct err *why)
{
    struct tool_run *run = ctx;
    if (take_command(run, command, why))
        read_log(run, LOG_FOLLOW);
}

static void on_stopped(void *ctx, const struct err *why)
{
    struct tool_run *run = ctx;
    const struct bash *bash = run->state;
    if (why != NULL && why->code != ERR_CONFLICT) { /* it has ended already */
        if (!tool_is_over(run))
            tool_bash_fail(run, why, NULL);
        return;
    }
    engine_command_get(run->engine, &run->caller, str_of(bash->id), on_there, run);
}

static void tool_bash_on_stop(void *ctx, const struct command_info *command, const struct err *why)
{
    struct tool_run *run = ctx;
    const struct bash *bash = run->state;
    if (take_command(run, command, why))
        engine_command_signal(run->engine, &run->caller, str_of(bash->id), SIGKILL, on_stopped,
                              run);
}

void tool_bash_stop(struct tool_run *run)
{
    tool_bash_look_at(run, tool_bash_on_stop);
}
