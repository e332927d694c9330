/* A jail with an interpreter in it, and waiting for its events. Every wait has a time limit: for an
 * interpreter that sends nothing, the error names the request and says whether its start was
 * refused; for any other step, it names the step. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "jail/client/jail.h"
#include "runtime/interpreter.h"
#include "runtimes_rows.h"

enum { SILENCE_MS = 30000, STEP_S = 120 };

static const char *volatile step;

static const char *const event_names[] = {[INTERPRETER_READY] = "that it is ready",
                                          [INTERPRETER_STDOUT] = "output",
                                          [INTERPRETER_DONE] = "its end"};

static void on_alarm(UNUSED int signo)
{
    static const char head[] = "bench: this did not end within 120 s: ";
    const char *text = step;
    (void)!write(STDERR_FILENO, head, sizeof head - 1);
    (void)!write(STDERR_FILENO, text, strlen(text));
    (void)!write(STDERR_FILENO, "\n", 1);
    _exit(1);
}

void runtimes_step(const char *doing)
{
    step = doing;
    (void)signal(SIGALRM, on_alarm);
    (void)alarm(STEP_S);
}

void runtimes_check(int done, const struct err *err)
{
    if (done >= 0)
        return;
    (void)fprintf(stderr, "bench: %s\n", err->msg);
    exit(1);
}

double runtimes_since_us(int64_t begin_ns)
{
    return (double)(clock_now_ns() - begin_ns) / 1000;
}

/* What the jail has to say of the start: nobody looked at it while the time was taken. */
static void tell_jail(const struct place *place)
{
    struct jail_event event;
    bool has_said = false;
    while (jail_next(place->jail, &event)) {
        has_said = true;
        fd_close(&event.fd);
        if (event.type == JAIL_EVENT_STARTED)
            (void)fprintf(stderr, "bench: the kernel was started\n");
        else if (event.type == JAIL_EVENT_EXITED)
            (void)fprintf(stderr, "bench: the kernel ended: status %d, signal %d\n",
                          event.exit.code, event.exit.signal);
        else
            (void)fprintf(stderr, "bench: %s: %s\n",
                          event.type == JAIL_EVENT_REFUSED ? "the start of the kernel was refused"
                                                           : "the jail",
                          event.err.msg);
        if (event.type == JAIL_EVENT_GONE)
            return;
    }
    if (!has_said)
        (void)fprintf(stderr, "bench: the jail has not answered that its kernel started\n");
}

static NORETURN void give_up(const struct place *place, enum interpreter_event_type type,
                             const char *why, struct str text)
{
    (void)fprintf(stderr, "bench: %s while %s of `%s` was waited for%s%.*s\n", why,
                  event_names[type], place->asked == NULL ? "the start" : place->asked,
                  text.len > 0 ? ": " : "", STR_ARG(text));
    tell_jail(place);
    exit(1);
}

size_t runtimes_wait(struct place *place, enum interpreter_event_type type)
{
    struct interpreter *interpreter = place->interpreter;
    size_t bytes = 0;
    for (;;) {
        struct interpreter_event event;
        while (interpreter_next(interpreter, &event)) {
            bytes += event.type == INTERPRETER_STDOUT ? event.text.len : 0;
            if (event.type == type)
                return bytes;
            if (event.type == INTERPRETER_GONE)
                give_up(place, type, "the kernel is gone", str_of(event.err.msg));
            if (event.type == INTERPRETER_ERROR)
                give_up(place, type, "the code failed", event.text);
        }
        int fds[3];
        struct pollfd polled[3];
        interpreter_fds(interpreter, fds);
        for (int i = 0; i < 3; i++)
            polled[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        if (interpreter_wants_write(interpreter))
            polled[0].events |= POLLOUT;
        if (poll(polled, 3, SILENCE_MS) == 0)
            give_up(place, type, "30 s of silence", (struct str){0});
    }
}

size_t runtimes_run(struct place *place, const char *code, struct str language,
                    enum interpreter_event_type until)
{
    struct err err = {0};
    place->asked = code;
    runtimes_check(
        interpreter_run(place->interpreter, str_of(code), language, (struct str){0}, &err), &err);
    return runtimes_wait(place, until);
}

void runtimes_place_done(struct place *place)
{
    place->interpreter = interpreter_free(place->interpreter);
    place->jail = jail_free(place->jail);
}
