/* Commands in a jail: their pipes or their terminal on the loop. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "engine/jail_place.h"
#include "io/stream.h"

enum { LINGER_MS = 250 }; /* for output of children that outlive the command */

struct exec {
    struct asked_op op; /* first: its events are the command's */
    struct exec *next;
    struct place *place; /* NULL once that has gone */
    struct exec_calls calls;
    void *ctx;
    bool is_tty, is_started, has_exited, is_told, closes_stdin;
    struct stream *in, *out, *err; /* of a terminal only `out` */
    int tty_fd;                    /* the stream's own */
    bool in_closed, out_ended, err_ended;
    struct timer *linger;
    struct exec_end end;
    struct buf input; /* until it has started */
};

/* --- The end --- */

static void unlink_exec(struct exec *exec)
{
    if (exec->place == NULL)
        return;
    for (struct exec **at = &exec->place->execs; *at != NULL; at = &(*at)->next)
        if (*at == exec) {
            *at = exec->next;
            break;
        }
    place_remove(exec->place, &exec->op);
    exec->place = NULL;
}

void jail_exec_free(struct exec *exec)
{
    struct err err = {0};
    uint32_t ignored = 0;
    if (exec == NULL)
        return;
    if (exec->place != NULL && exec->is_started && !exec->has_exited)
        (void)!jail_ask_signal(exec->place->jail, exec->op.id, SIGKILL, &ignored, &err);
    unlink_exec(exec);
    (void)stream_free(exec->in);
    (void)stream_free(exec->out);
    (void)stream_free(exec->err);
    (void)timer_free(exec->linger);
    buf_done(&exec->input);
    free(exec);
}

/* After all output; `on_end` frees it. */
static void tell_end(struct exec *exec, const struct err *why)
{
    if (exec->is_told)
        return;
    exec->is_told = true;
    exec->calls.on_end(exec->ctx, why == NULL ? &exec->end : NULL, why);
}

static void maybe_end(struct exec *exec)
{
    bool is_dry = exec->out_ended && (exec->is_tty || exec->err_ended);
    if (exec->has_exited && is_dry)
        tell_end(exec, NULL);
}

static void on_linger(void *ctx)
{
    struct exec *exec = ctx;
    tell_end(exec, NULL);
}

void jail_execs_end(struct place *place, const struct err *why)
{
    for (struct exec *exec; (exec = place->execs) != NULL;) {
        place->execs = exec->next;
        place_remove(place, &exec->op);
        exec->place = NULL;
        if (!exec->is_started) {
            exec->calls.on_started(exec->ctx, NULL, why);
            jail_exec_free(exec);
        } else {
            tell_end(exec, exec->has_exited ? NULL : why);
        }
    }
}

/* --- Streams --- */

static void take(struct exec *exec, struct buf *in, enum command_stream stream)
{
    struct str bytes = buf_str(in);
    /* Handed on before it is dropped: who hears it copies it. */
    exec->calls.on_output(exec->ctx, stream, bytes);
    buf_consume(in, bytes.len);
}

static void on_out(void *ctx, struct buf *in)
{
    struct exec *exec = ctx;
    take(exec, in, exec->is_tty ? COMMAND_TTY : COMMAND_STDOUT);
}

static void on_err(void *ctx, struct buf *in)
{
    take(ctx, in, COMMAND_STDERR);
}

static void on_out_end(void *ctx, UNUSED const struct err *why)
{
    struct exec *exec = ctx;
    exec->out_ended = true;
    maybe_end(exec);
}

static void on_err_end(void *ctx, UNUSED const struct err *why)
{
    struct exec *exec = ctx;
    exec->err_ended = true;
    maybe_end(exec);
}

static void on_in_data(UNUSED void *ctx, struct buf *in)
{
    buf_consume(in, in->len);
}

static void on_in_end(UNUSED void *ctx, UNUSED const struct err *why)
{
}

static void on_drain(void *ctx)
{
    struct exec *exec = ctx;
    if (exec->is_started)
        exec->calls.on_drain(exec->ctx);
}

/* All was sent, or the command reads no more: its end of file is our closing. */
static void on_in_closed(void *ctx, UNUSED const struct err *why)
{
    struct exec *exec = ctx;
    exec->in = stream_free(exec->in);
    exec->in_closed = true;
    if (exec->is_started)
        exec->calls.on_drain(exec->ctx);
}

static const struct stream_calls out_calls = {on_out, on_out_end, on_drain, NULL};
static const struct stream_calls err_calls = {on_err, on_err_end, NULL, NULL};
static const struct stream_calls in_calls = {on_in_data, on_in_end, on_drain, on_in_closed};

/* --- The start --- */

static int open_pipe(struct exec *exec, bool is_input, const struct stream_calls *calls,
                     struct stream **ret_stream, int *ret_childs, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    AUTO_CLOSE int ours = is_input ? ends[1] : ends[0], childs = is_input ? ends[0] : ends[1];
    if (stream_open(exec->place->provider_loop, ours, calls, exec, ret_stream, err) < 0)
        return -1;
    (void)fd_take(&ours);
    if (is_input)
        stream_pause(*ret_stream); /* there is nothing to read at this end */
    *ret_childs = fd_take(&childs);
    return 0;
}

static void feed(struct exec *exec, const struct str input)
{
    struct err err = {0};
    struct stream *in = exec->is_tty ? exec->out : exec->in;
    if (input.len > 0 && in != NULL)
        (void)!stream_write(in, input, &err);
    if (exec->closes_stdin && exec->in != NULL)
        stream_finish(exec->in);
}

static void on_event(struct asked_op *op, const struct jail_event *event, const struct err *why)
{
    struct exec *exec = (struct exec *)op;
    struct err err = {0};
    if (event == NULL) /* jail_execs_end has told */
        return;
    if (event->type == JAIL_EVENT_STARTED) {
        if (exec->is_tty && stream_open(exec->place->provider_loop, event->fd, &out_calls, exec,
                                        &exec->out, &err) < 0) {
            int fd = event->fd;
            fd_close(&fd);
            exec->out_ended = true;
        }
        exec->tty_fd = event->fd;
        exec->is_started = true;
        feed(exec, buf_str(&exec->input));
        exec->calls.on_started(exec->ctx, exec, NULL);
    } else if (event->type == JAIL_EVENT_REFUSED || event->type == JAIL_EVENT_FAILED) {
        why = &event->err;
        exec->calls.on_started(exec->ctx, NULL, why);
        jail_exec_free(exec);
    } else if (event->type == JAIL_EVENT_EXITED) {
        exec->has_exited = true;
        exec->end = (struct exec_end){.code = event->exit.code,
                                      .signal = event->exit.signal,
                                      .wall_us = event->exit.wall_ns / 1000,
                                      .user_us = event->exit.user_us,
                                      .system_us = event->exit.system_us,
                                      .peak_bytes = event->exit.peak_kib * 1024};
        place_remove(exec->place, &exec->op);
        timer_set(exec->linger, LINGER_MS, 0);
        maybe_end(exec);
    }
}

static int ask(struct exec *exec, const struct exec_plan *plan, struct err *err)
{
    struct place *place = exec->place;
    AUTO_CLOSE int in = -1, out = -1, error = -1;
    struct jail_command command = {.argv = plan->argv,
                                   .env = plan->env,
                                   .cwd = plan->cwd,
                                   .tty = plan->tty,
                                   .rows = plan->rows,
                                   .cols = plan->cols};
    uint32_t id = 0;
    if (!plan->tty) {
        if (plan->has_stdin && open_pipe(exec, true, &in_calls, &exec->in, &in, err) < 0)
            return -1;
        if (!plan->has_stdin && (in = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
            return err_sys(err, errno, "open '/dev/null'");
        if (open_pipe(exec, false, &out_calls, &exec->out, &out, err) < 0 ||
            open_pipe(exec, false, &err_calls, &exec->err, &error, err) < 0)
            return -1;
    }
    int fds[3] = {in, out, error};
    if (jail_ask_start(place->jail, &command, fds, &id, err) < 0)
        return -1;
    place_add(place, &exec->op, id);
    place_watch(place);
    return 0;
}

void jail_exec(struct place *place, const struct exec_plan *plan, const struct exec_calls *calls,
               void *ctx)
{
    struct exec *exec = mem_alloc(sizeof *exec);
    struct err err = {0};
    exec->op.on_event = on_event;
    exec->place = place;
    exec->calls = *calls;
    exec->ctx = ctx;
    exec->is_tty = plan->tty;
    exec->closes_stdin = !plan->keeps_stdin;
    exec->linger = timer_new(place->provider_loop, on_linger, exec);
    buf_put(&exec->input, plan->input);
    exec->next = place->execs;
    place->execs = exec;
    jail_files_touched(place);
    if (ask(exec, plan, &err) < 0) {
        calls->on_started(ctx, NULL, &err);
        jail_exec_free(exec);
    }
}

/* --- While it runs --- */

int jail_exec_write(struct exec *exec, struct str bytes, struct err *err)
{
    struct stream *in = exec->is_tty ? exec->out : exec->in;
    if (in == NULL)
        return err_set(err, ERR_CONFLICT, "its standard input is closed");
    return stream_write(in, bytes, err);
}

/* Only what makes a writer wait counts. */
size_t jail_exec_unsent(const struct exec *exec)
{
    const struct stream *in = exec->is_tty ? exec->out : exec->in;
    return in != NULL && stream_is_full(in) ? stream_unsent(in) : 0;
}

void jail_exec_close_stdin(struct exec *exec)
{
    struct err err = {0};
    if (exec->is_tty && exec->out != NULL)
        (void)!stream_write(exec->out, STR("\x04"), &err); /* what ^D sends */
    else if (exec->in != NULL)
        stream_finish(exec->in);
}

int jail_exec_signal(struct exec *exec, int signo, struct err *err)
{
    uint32_t ignored = 0;
    if (exec->place == NULL || exec->has_exited)
        return err_set(err, ERR_CONFLICT, "the command has ended");
    if (jail_ask_signal(exec->place->jail, exec->op.id, signo, &ignored, err) < 0)
        return -1;
    place_watch(exec->place);
    return 0;
}

int jail_exec_resize(struct exec *exec, uint16_t rows, uint16_t cols, struct err *err)
{
    if (!exec->is_tty || exec->out == NULL)
        return err_set(err, ERR_CONFLICT, "the command has no terminal");
    return jail_resize(exec->tty_fd, rows, cols, err);
}

void jail_exec_flow(struct exec *exec, bool stop)
{
    struct stream *streams[] = {exec->out, exec->err};
    for (size_t i = 0; i < countof(streams); i++)
        if (streams[i] != NULL) {
            if (stop)
                stream_pause(streams[i]);
            else
                stream_resume(streams[i]);
        }
}
