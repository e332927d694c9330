/* Commands: programs that run in a sandbox. Their logs are in v1_logs.c. */

#include <signal.h>

#include "api/http/events.h"
#include "api/v1/v1.h"
#include "api/v1/v1_logs.h"

/* Its time limit, and why it was ended. */
static void put_limit(struct json_out *out, const struct command_info *command)
{
    AUTO_BUF struct buf reason = {0};
    command_put_reason(command, &reason);
    v1_put_str(out, "reason", buf_str(&reason));
    json_key(out, "timeoutMs"), json_put_i64(out, command->limit.ms);
    json_key(out, "timeoutBy"), json_put_cstr(out, time_limit_name(command->limit.by));
}

void v1_put_command(struct json_out *out, const void *thing)
{
    const struct command_info *command = thing;
    bool ended = command->state == COMMAND_ENDED;
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, command->id);
    json_key(out, "sandbox"), json_put_str(out, command->sandbox);
    json_key(out, "argv"), json_put_texts(out, command->argv, command->arg_count);
    v1_put_str(out, "command", command->shell);
    json_key(out, "cwd"), json_put_str(out, command->cwd);
    json_key(out, "tty"), json_put_bool(out, command->tty);
    json_key(out, "state"), json_put_cstr(out, ended ? "ended" : "running");
    json_key(out, "pid");
    if (!ended && command->pid > 0)
        json_put_i64(out, command->pid);
    else
        json_put_null(out);
    v1_put_date(out, "startedAt", command->started_ms);
    v1_put_date(out, "endedAt", command->ended_ms);
    json_key(out, "exitCode");
    if (ended && command->code >= 0)
        json_put_i64(out, command->code);
    else
        json_put_null(out);
    json_key(out, "signal");
    if (ended && command->signal > 0)
        json_put_i64(out, command->signal);
    else
        json_put_null(out);
    json_key(out, "end"), json_put_cstr(out, ended ? command_end_name(command->end) : NULL);
    put_limit(out, command);
    json_key(out, "durationMs");
    json_put_f64(out, ended && command->wall_us >= 0 ? (double)command->wall_us / 1000 : 0);
    json_key(out, "outputOpen"), json_put_bool(out, command->is_open);
    json_key(out, "logEnd"), json_put_i64(out, (int64_t)command->log_end);
    json_key(out, "truncated"), json_put_bool(out, command->truncated);
    json_key(out, "missingBytes"), json_put_i64(out, (int64_t)command->missing);
    json_end_object(out);
}

static void reply_command(struct request *request, int status, const struct command_info *command)
{
    struct v1_answer answer;
    request_concerns(request, command->sandbox);
    v1_put_command(v1_begin(&answer), command);
    v1_reply(request, status, &answer);
}

/* ---- start --------------------------------------------------------------------------------- */

static void on_detached(void *ctx, const struct command_info *command, const struct err *why)
{
    if (why != NULL)
        reply_error(ctx, why);
    else
        reply_command(ctx, 201, command);
}

static void v1_commands_on_started(void *ctx, const struct command_info *command,
                                   const struct err *why)
{
    struct v1_start *start = ctx;
    struct request *request = start->request;
    if (why != NULL)
        reply_error(request, why);
    else if (start->is_stream)
        v1_follow(request, command);
    else
        v1_collect(request, start->api, command->id, 201);
    free(start);
}

static void start_in(struct request *request, struct api *api, struct command_spec *spec)
{
    struct err err;
    spec->argv = v1_list(request, request->json, "argv", &spec->arg_count);
    spec->shell = request_str(request, "command");
    spec->cwd = request_str(request, "cwd");
    spec->env = v1_pairs(request, request->json, "env");
    spec->user = request_str(request, "user");
    spec->has_stdin = request_bool(request, "stdin", false);
    spec->input = request_str(request, "input");
    spec->timeout_ms = v1_time(request->json, "timeoutMs");
    spec->tty = request_bool(request, "tty", false);
    spec->rows = (uint16_t)request_int(request, "rows", 24);
    spec->cols = (uint16_t)request_int(request, "cols", 80);
    if ((spec->arg_count > 0) == (spec->shell.len > 0)) {
        (void)err_set(&err, ERR_INVALID, "give either argv or command");
        reply_error(request, &err);
        return;
    }
    struct engine_caller caller = request_caller(request);
    bool detached = request_bool(request, "detached", spec->tty);
    spec->is_detached = detached;
    request_hold(request);
    if (detached) {
        engine_command_start(api->engine, &caller, spec, on_detached, request);
        return;
    }
    struct v1_start *start = mem_alloc(sizeof *start);
    *start = (struct v1_start){request, api, events_are_asked_for(request)};
    spec->waits = !start->is_stream;
    engine_command_start(api->engine, &caller, spec, v1_commands_on_started, start);
}

static void start_in_sandbox(struct request *request, void *ctx)
{
    struct command_spec spec = {.sandbox = request_param(request, "id")};
    start_in(request, ctx, &spec);
}

static void start_in_session(struct request *request, void *ctx)
{
    struct command_spec spec = {.session = request_param(request, "id")};
    start_in(request, ctx, &spec);
}

/* ---- look ---------------------------------------------------------------------------------- */

static void on_got(void *ctx, const struct command_info *command, const struct err *why)
{
    if (why != NULL)
        reply_error(ctx, why);
    else
        reply_command(ctx, 200, command);
}

void v1_get_command(struct request *request, struct api *api, command_done *done)
{
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_command_get(api->engine, &caller, request_param(request, "id"), done, request);
}

bool v1_has_command(struct request *request, const struct command_info *command,
                    const struct err *why)
{
    if (why != NULL)
        reply_error(request, why);
    else
        request_concerns(request, command->sandbox);
    return why == NULL;
}

static void v1_commands_get(struct request *request, void *ctx)
{
    v1_get_command(request, ctx, on_got);
}

static void on_listed(void *ctx, const struct command_list *found, const struct err *why)
{
    if (why != NULL)
        reply_error(ctx, why);
    else
        v1_reply_rows(ctx, "commands", V1_ROWS(v1_put_command, *found));
}

static void v1_commands_list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct sandbox_info sandbox;
    struct engine_caller caller = request_caller(request);
    struct command_filter filter = {.sandbox = request_param(request, "id"),
                                    .running_only = request_query_bool(request, "running"),
                                    .page = v1_page(request)};
    if (engine_sandbox_get(api->engine, &caller, filter.sandbox, &sandbox, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    request_hold(request);
    engine_command_list(api->engine, &caller, &filter, on_listed, request);
}

/* ---- act ----------------------------------------------------------------------------------- */

struct wait {
    struct request *request;
    struct command_waiter *waiter;
};

static void on_waited(void *ctx, const struct command_info *command, const struct err *why)
{
    struct wait *wait = ctx;
    if (why != NULL)
        reply_error(wait->request, why);
    else
        reply_command(wait->request, 200, command);
    wait->waiter = command_waiter_free(wait->waiter);
    free(wait);
}

/* The client disconnected: remove the waiter; the reply that is due goes nowhere. */
static void on_waiter_gone(void *ctx)
{
    struct wait *wait = ctx;
    struct err err;
    (void)err_set(&err, ERR_CANCELED, "the client disconnected");
    wait->waiter = command_waiter_free(wait->waiter);
    reply_error(wait->request, &err);
    free(wait);
}

static void on_there(void *ctx, const struct command_info *command, const struct err *why)
{
    struct request *request = ctx;
    struct api *api = request->rules->ctx;
    struct err err;
    if (!v1_has_command(request, command, why))
        return;
    struct engine_caller caller = request_caller(request);
    struct wait *wait = mem_alloc(sizeof *wait);
    wait->request = request;
    int64_t timeout_ms = v1_time(request->json, "timeoutMs");
    if (engine_command_wait(api->engine, &caller, command->id, timeout_ms == 0 ? -1 : timeout_ms,
                            on_waited, wait, &wait->waiter, &err) < 0) {
        free(wait);
        reply_error(request, &err);
        return;
    }
    request_on_gone(request, on_waiter_gone, wait);
}

static void wait_for(struct request *request, void *ctx)
{
    v1_get_command(request, ctx, on_there);
}

static int read_signal(const struct request *request, int *ret_signo, struct err *err)
{
    static const struct {
        const char *name;
        int signo;
    } known[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT},  {"KILL", SIGKILL},
                 {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TERM", SIGTERM},  {"CONT", SIGCONT},
                 {"STOP", SIGSTOP}, {"TSTP", SIGTSTP}, {"WINCH", SIGWINCH}};
    struct str given = request_str(request, "signal");
    struct str name = str_starts(given, STR("SIG")) ? str_slice(given, 3, given.len) : given;
    for (size_t i = 0; i < countof(known); i++) {
        if (str_eq_nocase(name, str_of(known[i].name))) {
            *ret_signo = known[i].signo;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "unknown signal '%.*s'; use a name such as TERM, INT or KILL",
                   STR_ARG(str_slice(given, 0, 40)));
}

static void send_signal(struct request *request, struct api *api, int signo)
{
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_command_signal(api->engine, &caller, request_param(request, "id"), signo, v1_done,
                          request);
}

static void signal_it(struct request *request, void *ctx)
{
    struct err err;
    int signo = 0;
    if (read_signal(request, &signo, &err) < 0)
        reply_error_at(request, &err, STR("signal"));
    else
        send_signal(request, ctx, signo);
}

static void kill_it(struct request *request, void *ctx)
{
    send_signal(request, ctx, SIGKILL);
}

static void resize(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_command_resize(api->engine, &caller, request_param(request, "id"),
                          (uint16_t)request_int(request, "rows", 24),
                          (uint16_t)request_int(request, "cols", 80), v1_done, request);
}

static void v1_commands_ignore(UNUSED void *ctx, UNUSED const struct sandbox_info *sandbox,
                               UNUSED const struct err *why)
{
}

void v1_wake(struct api *api, const struct engine_caller *caller, struct str sandbox)
{
    struct err err;
    struct sandbox_info info;
    if (engine_sandbox_get(api->engine, caller, sandbox, &info, &err) == 0 &&
        info.state == SANDBOX_PAUSED)
        engine_sandbox_resume(api->engine, caller, info.id, v1_commands_ignore, NULL);
}

/* Standard input is taken as it comes: each piece waits until the command has room for it. */
struct input {
    struct request *request;
    struct api *api;
    bool is_busy, is_whole, is_gone;
    struct err failure;
};

static void input_end(struct input *input)
{
    struct engine_caller caller = request_caller(input->request);
    if (input->failure.code != ERR_NONE)
        reply_error(input->request, &input->failure);
    else if (request_query_bool(input->request, "close"))
        engine_command_close_stdin(input->api->engine, &caller, request_param(input->request, "id"),
                                   v1_done, input->request);
    else
        reply_empty(input->request, 204);
    free(input);
}

static void on_written(void *ctx, const struct err *why)
{
    struct input *input = ctx;
    input->is_busy = false;
    if (input->is_gone) {
        free(input);
        return;
    }
    if (why != NULL)
        input->failure = *why;
    if (input->is_whole)
        input_end(input);
    else if (why != NULL)
        reply_error(input->request, why); /* in the middle of the body: on_abort follows */
    else
        request_resume_body(input->request);
}

static int input_bytes(void *ctx, struct str bytes, UNUSED struct err *err)
{
    struct input *input = ctx;
    struct engine_caller caller = request_caller(input->request);
    input->is_busy = true;
    request_pause_body(input->request);
    engine_command_write(input->api->engine, &caller, request_param(input->request, "id"), bytes,
                         on_written, input);
    return 0;
}

static void input_whole(void *ctx)
{
    struct input *input = ctx;
    request_hold(input->request);
    input->is_whole = true;
    if (!input->is_busy)
        input_end(input);
}

static void input_abort(void *ctx)
{
    struct input *input = ctx;
    input->is_gone = true;
    if (!input->is_busy)
        free(input);
}

static const struct body_sink input_sink = {input_bytes, input_whole, input_abort};

static void on_reader_there(void *ctx, const struct command_info *command, const struct err *why)
{
    struct request *request = ctx;
    if (!v1_has_command(request, command, why))
        return;
    struct api *api = request->rules->ctx;
    struct engine_caller caller = request_caller(request);
    v1_wake(api, &caller, command->sandbox);
    struct input *input = mem_alloc(sizeof *input);
    input->request = request;
    input->api = api;
    request_take_body(request, &input_sink, input);
}

static void write_stdin(struct request *request, void *ctx)
{
    v1_get_command(request, ctx, on_reader_there);
}

/* clang-format off */
static const struct route_query list_query[] = {
    {"running", JSON({"type": "boolean"}), "Only running commands"},
    {"limit", JSON({"type": "integer", "minimum": 1, "maximum": 1000}), "Maximum number of items (default 100)"},
    {"after", JSON({"type": "string", "maxLength": 64}), "`next` of the previous page"},
    {0},
};
static const struct route_query stdin_query[] = {
    {"close", JSON({"type": "boolean"}), "Close stdin after this body"}, {0},
};

#define NOUN "commands"
#define STARTS (E(BAD_CWD) | E(EXEC_FORMAT) | E(NOT_EXECUTABLE) | E(NOT_FOUND) | \
    E(PROGRAM_NOT_FOUND) | E(CONFLICT) | E(GONE) | E(UNSUPPORTED) | E(BUSY) | E(TOO_LARGE) | E(NO_SPACE))
#define ACTS (E(NOT_FOUND) | E(CONFLICT) | E(GONE) | E(UNSUPPORTED))
#define M_COMMAND \
    JSON("argv": {"type": "array", "minItems": 1, "maxItems": 4096, "items": {"type": "string"}, \
        "description": "Program and arguments; give either argv or command"}) "," \
    JSON("command": {"type": "string", "minLength": 1, "description": "Command line for sh -c; give either argv or command"}) "," \
    JSON("cwd": {"type": "string", "maxLength": 4096, "description": "Working directory; default /workspace"}) "," \
    V1_M_ENV "," \
    JSON("user": {"type": "string", "maxLength": 64}) "," \
    JSON("stdin": {"type": "boolean", "description": "Keep stdin open for input on /stdin"}) "," \
    JSON("input": {"type": "string", "description": "Initial input"}) "," \
    "\"timeoutMs\":" V1_TIME("Kill it after this many milliseconds; 0 or none: never; default: limits.execMs " \
        "of the sandbox, else jail.command_seconds of the configuration; a detached command has no default limit") "," \
    JSON("detached": {"type": "boolean", "description": "Respond when it has started, not when it has ended"}) "," \
    JSON("tty": {"type": "boolean", "description": "Run in a new terminal; implies detached"}) "," \
    JSON("rows": {"type": "integer", "minimum": 1, "maximum": 1000}) "," \
    JSON("cols": {"type": "integer", "minimum": 1, "maximum": 1000})
#define HOW "Waits until it ends and returns stdout and stderr, up to 1 MiB of each; with " \
    "detached it responds at once. With Accept: text/event-stream the response is a stream: started, stdout, " \
    "stderr, end; it contains all output, and the command waits for a slow client. A client that " \
    "disconnects does not end the command. If the sandbox is paused during the run, the stream has the event " \
    "state and waits, and a request without a stream fails with `conflict`."

const struct route v1_command_routes[] = {
    {"POST", "/v1/sandboxes/{id}/commands", start_in_sandbox, "Run a command in a sandbox",
     SCOPE_RUN, NOUN, .details = HOW, .request = V1_BODY(M_COMMAND), .response = "CommandResult",
     .gives = FORM_EITHER, .status = 201, .errors = STARTS, .is_create = true,
     .example = "-d '{\"command\": \"echo hello; uname\"}'"},
    {"POST", "/v1/sessions/{id}/commands", start_in_session, "Run a command in a session",
     SCOPE_RUN, NOUN, .details = "Its sandbox is created or resumed when needed. " HOW,
     .request = V1_BODY(M_COMMAND), .response = "CommandResult", .gives = FORM_EITHER,
     .status = 201, .errors = STARTS, .is_create = true, .example = "-d '{\"argv\": [\"ls\", \"/\"]}'"},
    {"GET", "/v1/sandboxes/{id}/commands", v1_commands_list, "List a sandbox's commands", SCOPE_READ, NOUN,
     .query = list_query, .response = "CommandList", .errors = E(NOT_FOUND), .example = "?running=true"},
    {"GET", "/v1/commands/{id}", v1_commands_get, "Show a command", SCOPE_READ, NOUN,
     .response = "Command", .errors = E(NOT_FOUND), .example = ""},
    {"POST", "/v1/commands/{id}/wait", wait_for, "Wait until a command ends", SCOPE_READ, NOUN,
     .details = "504 when it still runs after timeoutMs; the command keeps running.",
     .request = V1_BODY("\"timeoutMs\":" V1_TIME("Wait this many milliseconds; default, 0 or none: until it ends")),
     .response = "Command", .errors = ACTS | E(TIMEOUT) | E(CANCELED),
     .example = "-d '{\"timeoutMs\": 10000}'"},
    {"POST", "/v1/commands/{id}/stdin", write_stdin, "Write to a command's standard input",
     SCOPE_RUN, NOUN, .query = stdin_query, .takes = FORM_BYTES, .gives = FORM_NONE, .status = 204,
     .details = "Resumes a paused sandbox.", .errors = ACTS, .example = "?close=true --data-binary 'some input'"},
    {"POST", "/v1/commands/{id}/signal", signal_it, "Send a signal to a command", SCOPE_RUN, NOUN,
     .request = V1_NEEDS(JSON(["signal"]),
        JSON("signal": {"type": "string", "maxLength": 16, "description": "TERM, INT, HUP, KILL, ..."})),
     .gives = FORM_NONE, .status = 204, .errors = ACTS, .example = "-d '{\"signal\": \"TERM\"}'"},
    {"POST", "/v1/commands/{id}/kill", kill_it, "Kill a command", SCOPE_RUN, NOUN,
     .gives = FORM_NONE, .status = 204, .errors = ACTS, .example = ""},
    {"POST", "/v1/commands/{id}/resize", resize, "Set the size of a command's terminal", SCOPE_RUN,
     NOUN, .request = V1_NEEDS(JSON(["rows", "cols"]),
        JSON("rows": {"type": "integer", "minimum": 1, "maximum": 1000}) ","
        JSON("cols": {"type": "integer", "minimum": 1, "maximum": 1000})),
     .gives = FORM_NONE, .status = 204, .errors = ACTS, .example = "-d '{\"rows\": 40, \"cols\": 120}'"},
    {0},
};
/* clang-format on */
