/* Commands in a jail: their pipes or their terminal on the loop. */

#include "tiers/jail/exec/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/map.h"
#include "engine/provider.h"
#include "io/loop.h"
#include "io/stream.h"
#include "jail/client/jail.h"
#include "jail/wire/oom_tag.h"
#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/files/files.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/warden.h"

enum {
    LINGER_MS =
        250, /* from the exit to its report, while children that outlive it hold its output */
    DRAIN_MAX = 1 << 20,
};

/* The question why it was killed, which may outlive the handle. */
struct judging {
    struct exec *exec; /* NULL: it was freed */
};

struct exec {
    struct asked_op op; /* first: its events are the command's */
    struct exec *next;
    struct place *place; /* NULL once that has gone */
    struct exec_calls calls;
    void *ctx;
    bool is_tty, is_started, has_exited, is_told, is_closed_told, closes_stdin;
    bool is_read;                  /* all that was put out until its exit */
    struct stream *in, *out, *err; /* of a terminal only `out` */
    int32_t pid;                   /* in the sandbox */
    int tty_fd;                    /* the stream's own, as the next two */
    int out_fd, err_fd;
    bool is_stopped; /* its output waits */
    size_t owed;     /* bytes that were in its pipes when it exited, less those that were read */
    bool in_closed, out_ended, err_ended;
    struct timer *linger;
    bool was_killed; /* by us */
    struct jail_exit exit;
    struct judging *judging;
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

static void on_killed(UNUSED struct warden_request *request,
                      UNUSED const struct warden_event *event, UNUSED const struct err *why)
{
}

/* With all its descendants, also those that left its group and its parent. */
static int kill_tree(struct exec *exec, struct err *err)
{
    struct provider *provider = exec->place->provider;
    uint32_t number = 0;
    if (provider->warden == NULL)
        return err_set(err, ERR_UNAVAILABLE, "the warden process is not running");
    if (jail_ask_kill(exec->place->jail, exec->op.id, &number, err) < 0)
        return -1;
    (void)tier_warden_asked(provider, number, on_killed, NULL);
    exec->was_killed = true;
    return 0;
}

void tier_exec_free(struct exec *exec)
{
    struct err err = {0};
    if (exec == NULL)
        return;
    if (exec->place != NULL && exec->is_started && !exec->has_exited)
        (void)!kill_tree(exec, &err);
    if (exec->judging != NULL)
        exec->judging->exec = NULL;
    unlink_exec(exec);
    (void)stream_free(exec->in);
    (void)stream_free(exec->out);
    (void)stream_free(exec->err);
    (void)timer_free(exec->linger);
    buf_done(&exec->input);
    free(exec);
}

static bool is_dry(const struct exec *exec)
{
    return exec->out_ended && (exec->is_tty || exec->err_ended);
}

/* After all output of the command itself; `on_end` frees it, unless others still write. */
static void tell_end(struct exec *exec, const struct err *why)
{
    exec->is_told = true;
    exec->end.is_open =
        why == NULL && exec->place != NULL && exec->calls.on_closed != NULL && !is_dry(exec);
    if (exec->end.is_open) {
        exec->in = stream_free(exec->in);
        exec->in_closed = true;
    }
    exec->calls.on_end(exec->ctx, why == NULL ? &exec->end : NULL, why);
}

/* `on_closed` frees it. */
static void tell_closed(struct exec *exec)
{
    if (exec->is_closed_told)
        return;
    exec->is_closed_told = true;
    exec->calls.on_closed(exec->ctx);
}

static void maybe_end(struct exec *exec)
{
    if (exec->is_told && exec->end.is_open && is_dry(exec))
        tell_closed(exec);
    else if (!exec->is_told && exec->has_exited && (is_dry(exec) || exec->is_read) &&
             exec->judging == NULL)
        tell_end(exec, NULL);
}

/* What is in its pipes or its terminal. */
static size_t count_unread(const struct exec *exec)
{
    int fds[] = {exec->out_ended ? -1 : exec->out_fd, exec->err_ended ? -1 : exec->err_fd};
    size_t unread = 0;
    for (size_t i = 0; i < countof(fds); i++) {
        int count = 0;
        if (fds[i] >= 0 && ioctl(fds[i], FIONREAD, &count) == 0 && count > 0)
            unread += (size_t)count;
    }
    return unread;
}

/* What the command itself has put out is read, however long a slow reader takes for it. */
static void on_linger(void *ctx)
{
    struct exec *exec = ctx;
    if (exec->is_stopped || exec->owed > 0) {
        timer_set(exec->linger, LINGER_MS, 0);
        return;
    }
    exec->is_read = true;
    maybe_end(exec);
}

static void on_judged(struct warden_request *request, const struct warden_event *event,
                      const struct err *why)
{
    struct judging *judging = request->ctx;
    struct exec *exec = judging->exec;
    free(judging);
    if (exec == NULL)
        return;
    exec->judging = NULL;
    if (why == NULL && exec->place != NULL)
        exec->end.oom |=
            jail_exit_is_oom(&exec->exit, place_has_oom_kills(exec->place, event->stats.oom_kills));
    maybe_end(exec);
}

/* Killed, or what a shell says of that, and not by us: the host knows whether memory ran out. Its
 * own control group, where it had one, has said so; then the kills of the whole sandbox are only
 * counted. */
static void judge(struct exec *exec)
{
    struct place *place = exec->place;
    struct err err = {0};
    uint32_t number = 0;
    exec->end.oom = !exec->was_killed && jail_exit_is_oom(&exec->exit, 0);
    if ((!jail_exit_is_kill(&exec->exit) && exec->exit.oom_kills <= 0) || exec->was_killed ||
        place->provider->warden == NULL || jail_ask_stat(place->jail, &number, &err) < 0)
        return;
    exec->judging = mem_alloc(sizeof *exec->judging);
    exec->judging->exec = exec;
    (void)tier_warden_asked(place->provider, number, on_judged, exec->judging);
}

/* What is left in its pipes when its place has gone. */
static void drain(struct exec *exec)
{
    struct {
        int fd;
        enum command_stream stream;
    } ends[] = {{exec->out_ended ? -1 : exec->out_fd, exec->is_tty ? COMMAND_TTY : COMMAND_STDOUT},
                {exec->err_ended ? -1 : exec->err_fd, COMMAND_STDERR}};
    char bytes[16 << 10];
    for (size_t i = 0; i < countof(ends); i++) {
        ssize_t got = 0;
        size_t all = 0;
        while (ends[i].fd >= 0 && all < DRAIN_MAX &&
               (got = read(ends[i].fd, bytes, sizeof bytes)) > 0) {
            exec->calls.on_output(exec->ctx, ends[i].stream, str_n(bytes, (size_t)got));
            all += (size_t)got;
        }
    }
}

void tier_execs_end(struct place *place, const struct err *why)
{
    for (struct exec *exec; (exec = place->execs) != NULL;) {
        place->execs = exec->next;
        place_remove(place, &exec->op);
        exec->place = NULL;
        if (!exec->is_started) {
            exec->calls.on_started(exec->ctx, NULL, why);
            tier_exec_free(exec);
        } else {
            drain(exec);
            if (!exec->is_told)
                tell_end(exec, exec->has_exited ? NULL : why);
            else
                tell_closed(exec);
        }
    }
}

/* --- Streams --- */

static void take(struct exec *exec, struct buf *in, enum command_stream stream)
{
    struct str bytes = buf_str(in);
    /* Passed on before it is dropped: the call-back copies it. */
    exec->calls.on_output(exec->ctx, stream, bytes);
    exec->owed -= MIN(exec->owed, bytes.len);
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

static void exec_on_drain(void *ctx)
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

static const struct stream_calls out_calls = {on_out, on_out_end, exec_on_drain, NULL};
static const struct stream_calls err_calls = {on_err, on_err_end, NULL, NULL};
static const struct stream_calls in_calls = {on_in_data, on_in_end, exec_on_drain, on_in_closed};

/* --- The start --- */

static int open_pipe(struct exec *exec, bool is_input, const struct stream_calls *calls,
                     struct stream **ret_stream, int *ret_ours, int *ret_childs, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, errno, "make a pipe");
    AUTO_CLOSE int ours = is_input ? ends[1] : ends[0], childs = is_input ? ends[0] : ends[1];
    if (stream_open(exec->place->provider_loop, ours, calls, exec, ret_stream, err) < 0)
        return -1;
    *ret_ours = fd_take(&ours);
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

static void exec_on_event(struct asked_op *op, const struct jail_event *event,
                          const struct err *why)
{
    struct exec *exec = (struct exec *)op;
    struct err err = {0};
    if (event == NULL) /* tier_execs_end has told */
        return;
    if (event->type == JAIL_EVENT_STARTED) {
        if (exec->is_tty && stream_open(exec->place->provider_loop, event->fd, &out_calls, exec,
                                        &exec->out, &err) < 0) {
            int fd = event->fd;
            fd_close(&fd);
            exec->out_ended = true;
        }
        exec->tty_fd = event->fd;
        if (exec->is_tty && !exec->out_ended)
            exec->out_fd = event->fd;
        exec->is_started = true;
        exec->pid = event->pid;
        feed(exec, buf_str(&exec->input));
        exec->calls.on_started(exec->ctx, exec, NULL);
    } else if (event->type == JAIL_EVENT_REFUSED || event->type == JAIL_EVENT_FAILED) {
        why = &event->err;
        exec->calls.on_started(exec->ctx, NULL, why);
        tier_exec_free(exec);
    } else if (event->type == JAIL_EVENT_EXITED) {
        exec->has_exited = true;
        exec->end = (struct exec_end){.code = event->exit.code,
                                      .signal = event->exit.signal,
                                      .wall_us = event->exit.wall_ns / 1000,
                                      .user_us = event->exit.user_us,
                                      .system_us = event->exit.system_us,
                                      .peak_bytes =
                                          MAX(event->exit.peak_kib * 1024, event->exit.group_peak),
                                      .memory_bytes = exec->place->plan.limits.memory_bytes};
        exec->exit = event->exit;
        place_remove(exec->place, &exec->op);
        exec->owed = count_unread(exec);
        timer_set(exec->linger, LINGER_MS, 0);
        judge(exec);
        maybe_end(exec);
    }
}

static int exec_ask(struct exec *exec, const struct exec_plan *plan, struct err *err)
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
    int ours = -1;
    if (!plan->tty) {
        if (plan->has_stdin && open_pipe(exec, true, &in_calls, &exec->in, &ours, &in, err) < 0)
            return -1;
        if (!plan->has_stdin && (in = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
            return err_sys(err, errno, "open '/dev/null'");
        if (open_pipe(exec, false, &out_calls, &exec->out, &exec->out_fd, &out, err) < 0 ||
            open_pipe(exec, false, &err_calls, &exec->err, &exec->err_fd, &error, err) < 0)
            return -1;
    }
    int fds[3] = {in, out, error};
    if (jail_ask_start(place->jail, &command, fds, &id, err) < 0)
        return -1;
    place_add(place, &exec->op, id);
    place_watch(place);
    return 0;
}

void tier_exec(struct place *place, const struct exec_plan *plan, const struct exec_calls *calls,
               void *ctx)
{
    struct exec *exec = mem_alloc(sizeof *exec);
    struct err err = {0};
    exec->op.on_event = exec_on_event;
    exec->place = place;
    exec->calls = *calls;
    exec->ctx = ctx;
    exec->is_tty = plan->tty;
    exec->closes_stdin = !plan->keeps_stdin;
    exec->out_fd = exec->err_fd = -1;
    exec->linger = timer_new(place->provider_loop, on_linger, exec);
    buf_put(&exec->input, plan->input);
    exec->next = place->execs;
    place->execs = exec;
    tier_files_touched(place);
    if (exec_ask(exec, plan, &err) < 0) {
        calls->on_started(ctx, NULL, &err);
        tier_exec_free(exec);
    }
}

/* --- While it runs --- */

int tier_exec_write(struct exec *exec, struct str bytes, struct err *err)
{
    struct stream *in = exec->is_tty ? exec->out : exec->in;
    if (in == NULL)
        return err_set(err, ERR_CONFLICT, "the command's standard input is closed");
    return stream_write(in, bytes, err);
}

/* Only what makes a writer wait counts. */
size_t tier_exec_unsent(const struct exec *exec)
{
    const struct stream *in = exec->is_tty ? exec->out : exec->in;
    return in != NULL && stream_is_full(in) ? stream_unsent(in) : 0;
}

void tier_exec_close_stdin(struct exec *exec)
{
    struct err err = {0};
    if (exec->is_tty && exec->out != NULL)
        (void)!stream_write(exec->out, STR("\x04"), &err); /* what ^D sends */
    else if (exec->in != NULL)
        stream_finish(exec->in);
}

int32_t tier_exec_pid(const struct exec *exec)
{
    return exec->pid;
}

/* Processes are found by a number that comes round: another command or interpreter has it now. */
static bool shares_tag(const struct exec *exec)
{
    int tag = oom_tag_of(exec->op.id);
    for (const struct exec *one = exec->place->execs; one != NULL; one = one->next)
        if (one != exec && one->is_started && oom_tag_of(one->op.id) == tag)
            return true;
    for (const struct context *one = exec->place->contexts; one != NULL; one = one->next)
        if (oom_tag_of(one->op.id) == tag)
            return true;
    return false;
}

int tier_exec_signal(struct exec *exec, int signo, struct err *err)
{
    uint32_t ignored = 0;
    if (exec->place == NULL || (exec->has_exited && !exec->is_told))
        return err_set(err, ERR_CONFLICT, "the command has ended");
    if (exec->has_exited && (signo != SIGKILL || shares_tag(exec)))
        return err_set(err, ERR_CONFLICT,
                       "the command has ended; the processes that it left running %s",
                       signo != SIGKILL ? "can only be ended with KILL (9)"
                                        : "must be ended by a command in the sandbox");
    if (signo == SIGKILL)
        return kill_tree(exec, err);
    if (jail_ask_signal(exec->place->jail, exec->op.id, signo, &ignored, err) < 0)
        return -1;
    place_watch(exec->place);
    return 0;
}

int tier_exec_resize(struct exec *exec, uint16_t rows, uint16_t cols, struct err *err)
{
    if (!exec->is_tty || exec->out == NULL)
        return err_set(err, ERR_CONFLICT, "the command has no terminal");
    return jail_resize(exec->tty_fd, rows, cols, err);
}

void tier_exec_flow(struct exec *exec, bool stop)
{
    struct stream *streams[] = {exec->out, exec->err};
    exec->is_stopped = stop;
    for (size_t i = 0; i < countof(streams); i++)
        if (streams[i] != NULL) {
            if (stop)
                stream_pause(streams[i]);
            else
                stream_resume(streams[i]);
        }
}
