/* cells RUNTIME: one kernel in one jail, for the tests. Reads cells as lines of JSON
 * {code, language?, interruptMs?} and answers each with one line: what it wrote, showed and
 * how it ended. An interrupt comes interruptMs after the first output: before it, nobody knows
 * that the code runs. SANDGLASS_HOME says where runtimes are; CELLS_WORKSPACE is shown at
 * /workspace. */

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/format/base64.h"
#include "base/format/json.h"
#include "jail/client/jail.h"
#include "runtime/interpreter.h"
#include "runtime/runtimes.h"

enum { PATIENCE_MS = 30000, KEPT_MAX = 4 << 20 };

struct stage {
    struct warden_link *warden;
    struct jail *jail;
    struct interpreter *interpreter;
    const struct runtime *runtime;
    uint32_t id;
    struct buf out, err, shown;
    struct json_out shown_json;
    uint64_t out_bytes;
    bool ended, gone, ok;
    uint32_t count;
    struct buf error;
};

static void put_text(struct json_out *json, struct str mime, struct str bytes)
{
    AUTO_BUF struct buf text = {0};
    bool is_text = str_starts(mime, STR("text/")) || str_ends(mime, STR("json")) ||
                   str_eq(mime, STR("image/svg+xml"));
    if (is_text)
        buf_put(&text, bytes);
    else
        base64_put(bytes, &text);
    json_key_str(json, mime);
    json_put_str(json, buf_str(&text));
}

static void keep(struct buf *out, struct str text)
{
    buf_put(out, str_slice(text, 0, KEPT_MAX - MIN(out->len, (size_t)KEPT_MAX)));
}

static void on_event(struct stage *stage, const struct interpreter_event *event)
{
    if (event->type == INTERPRETER_STDOUT) {
        keep(&stage->out, event->text);
        stage->out_bytes += event->text.len;
    }
    if (event->type == INTERPRETER_STDERR)
        keep(&stage->err, event->text);
    if (event->type == INTERPRETER_DISPLAY) {
        json_begin_object(&stage->shown_json);
        json_key(&stage->shown_json, "main"), json_put_bool(&stage->shown_json, event->main);
        json_key(&stage->shown_json, "data"), json_begin_object(&stage->shown_json);
        for (size_t i = 0; i < event->part_count; i++)
            put_text(&stage->shown_json, event->parts[i].mime, event->parts[i].bytes);
        json_end_object(&stage->shown_json);
        json_end_object(&stage->shown_json);
    }
    if (event->type == INTERPRETER_ERROR) {
        struct json_out json = {.buf = &stage->error};
        buf_clear(&stage->error);
        json_begin_object(&json);
        json_key(&json, "name"), json_put_str(&json, event->name);
        json_key(&json, "message"), json_put_str(&json, event->message);
        json_key(&json, "traceback"), json_put_str(&json, event->text);
        json_key(&json, "module"), json_put_str(&json, event->module);
        json_end_object(&json);
    }
    stage->gone |= event->type == INTERPRETER_GONE;
    stage->ended |= stage->gone || event->type == INTERPRETER_DONE;
    if (event->type == INTERPRETER_DONE) {
        stage->ok = event->ok;
        stage->count = event->count;
    }
}

static void wait_for_end(struct stage *stage, int64_t interrupt_ms)
{
    struct interpreter_event event;
    int64_t now_ms = clock_now_ms(), deadline_ms = now_ms + PATIENCE_MS;
    int64_t interrupt_at = INT64_MAX;
    while (!stage->ended) {
        while (!stage->ended && interpreter_next(stage->interpreter, &event))
            on_event(stage, &event);
        if (interrupt_ms > 0 && stage->out_bytes > 0) {
            interrupt_at = clock_now_ms() + interrupt_ms;
            interrupt_ms = 0;
        }
        int fds[3];
        struct err err;
        interpreter_fds(stage->interpreter, fds);
        struct pollfd waits[3] = {{.fd = fds[0], .events = POLLIN},
                                  {.fd = fds[1], .events = POLLIN},
                                  {.fd = fds[2], .events = POLLIN}};
        if (interpreter_wants_write(stage->interpreter))
            waits[0].events |= POLLOUT;
        if (!stage->ended)
            (void)poll(waits, 3, 20);
        if (clock_now_ms() >= interrupt_at) {
            interrupt_at = INT64_MAX;
            (void)!jail_signal(stage->jail, stage->id, SIGINT, &err);
        }
        if (clock_now_ms() >= deadline_ms)
            stage->ended = stage->gone = true;
    }
}

static void answer(struct stage *stage)
{
    AUTO_BUF struct buf line = {0};
    struct json_out json = {.buf = &line};
    AUTO_JSON struct json_t *shown = NULL, *error = NULL;
    struct err err;
    json_end_array(&stage->shown_json);
    json_begin_object(&json);
    json_key(&json, "ok"), json_put_bool(&json, stage->ok && !stage->gone);
    json_key(&json, "gone"), json_put_bool(&json, stage->gone);
    json_key(&json, "count"), json_put_i64(&json, stage->count);
    json_key(&json, "stdout"), json_put_str(&json, buf_str(&stage->out));
    json_key(&json, "stdoutBytes"), json_put_i64(&json, (int64_t)stage->out_bytes);
    json_key(&json, "stderr"), json_put_str(&json, buf_str(&stage->err));
    if (json_parse(buf_str(&stage->shown), &shown, &err) == 0)
        json_key(&json, "shown"), json_put_value(&json, shown);
    if (stage->error.len > 0 && json_parse(buf_str(&stage->error), &error, &err) == 0)
        json_key(&json, "error"), json_put_value(&json, error);
    json_end_object(&json);
    buf_put_char(&line, '\n');
    if (fd_write_all(STDOUT_FILENO, buf_str(&line), &err) < 0)
        exit(1);
}

static int run_cell(struct stage *stage, struct str line, struct err *err)
{
    AUTO_JSON struct json_t *cell = NULL;
    struct str code, language = str_of(stage->runtime->language);
    int64_t interrupt_ms = 0;
    if (json_parse(line, &cell, err) < 0 || !json_to_str(json_get(cell, "code"), &code))
        return err_set(err, ERR_INVALID, "not a cell");
    (void)!json_to_str(json_get(cell, "language"), &language);
    (void)!json_to_i64(json_get(cell, "interruptMs"), &interrupt_ms);
    buf_clear(&stage->out);
    buf_clear(&stage->err);
    buf_clear(&stage->shown);
    buf_clear(&stage->error);
    stage->shown_json = (struct json_out){.buf = &stage->shown};
    json_begin_array(&stage->shown_json);
    stage->out_bytes = 0;
    stage->ended = stage->ok = false;
    if (interpreter_run(stage->interpreter, code, language, (struct str){0}, err) < 0)
        return -1;
    wait_for_end(stage, interrupt_ms);
    answer(stage);
    return stage->gone ? 1 : 0;
}

static int start(struct stage *stage, const char *name, struct err *err)
{
    static struct runtime_places places;
    const char *home = getenv("SANDGLASS_HOME");
    struct jail_plan plan = {.limits.memory_bytes = (int64_t)1 << 30,
                             .workspace = getenv("CELLS_WORKSPACE")};
    int inner[3];
    if (home == NULL)
        return err_set(err, ERR_INVALID, "set SANDGLASS_HOME");
    runtimes_use(home);
    if (runtime_find(str_of(name), &stage->runtime, err) < 0 ||
        runtime_places_make(stage->runtime, home, &places, err) < 0 ||
        warden_start(&stage->warden, err) < 0)
        return -1;
    if (warden_host(stage->warden)->no_memory[0] != '\0')
        plan.limits.memory_bytes = JAIL_UNLIMITED;
    if (warden_host(stage->warden)->no_pids[0] != '\0')
        plan.limits.pids = JAIL_UNLIMITED;
    if (warden_host(stage->warden)->no_cpu[0] != '\0')
        plan.limits.cpu_milli = JAIL_UNLIMITED;
    runtime_places_plan(stage->runtime, &places, &plan);
    if (jail_make(stage->warden, &plan, &stage->jail, err) < 0 ||
        interpreter_open(&stage->interpreter, inner, err) < 0)
        return -1;
    struct jail_command command = {.argv = stage->runtime->argv, .env = stage->runtime->env};
    int done = jail_start(stage->jail, &command, inner, &stage->id, NULL, err);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    return done;
}

int main(int argc, char **argv)
{
    static struct stage stage;
    struct err err = {0};
    char *line = NULL;
    size_t size = 0;
    ssize_t len;
    int done = argc == 2 ? start(&stage, argv[1], &err) : err_set(&err, ERR_INVALID, "one name");
    while (done == 0 && (len = getline(&line, &size, stdin)) > 0)
        done = run_cell(&stage, str_trim(str_n(line, (size_t)len)), &err);
    if (done < 0)
        (void)fprintf(stderr, "cells: %s\n", err.msg);
    free(line);
    stage.interpreter = interpreter_free(stage.interpreter);
    stage.jail = jail_free(stage.jail);
    stage.warden = warden_free(stage.warden);
    buf_done(&stage.out), buf_done(&stage.err), buf_done(&stage.shown), buf_done(&stage.error);
    return done < 0;
}
