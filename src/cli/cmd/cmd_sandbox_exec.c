/* sandglass sandbox exec: a command in a sandbox of a running server, as if it ran here.
 *
 * What this program reads goes up as it comes and as the command takes it, while output comes down:
 * a command that does not read must not be kept from writing. Signals that would end this program
 * go to the command instead, which ends in its own way; the second of them kills it, and the third
 * ends only this program. When the reader of the output exits ("| head"), the command gets SIGHUP:
 * it cannot notice that itself, because the server keeps reading. */

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cmd/commands.h"
#include "cli/net_arg.h"
#include "cli/run/ending.h"
#include "cli/run/exec.h"
#include "cli/watching.h"

enum { CHUNK_MAX = 64 << 10 };

struct running {
    struct watching watching; /* first */
    struct buf id;            /* once it has started */
    bool takes_input;
    bool is_hung_up;
    int told;     /* signals that would have ended us */
    int waits_fd; /* readable when input or a signal is there */
    int signal_fd, ready_fd, input_fd;
    bool has_read_all;
};

/* ---- what goes up -------------------------------------------------------------------------- */

/* The first signal is sent to the command, the second kills it, the third ends this program without
 * waiting for its end. A command in a paused sandbox receives none. */
static int tell(struct running *running, int signal)
{
    struct watching *watching = &running->watching;
    const char *name = running->told > 0   ? "KILL"
                       : signal == SIGTERM ? "TERM"
                       : signal == SIGHUP  ? "HUP"
                                           : "INT";
    AUTO_BUF struct buf path = {0};
    AUTO_BUF struct buf body = {0};
    watching->code = EXIT_SIGNALED + signal;
    if (running->id.len == 0)
        return -1;
    watching->is_left = watching->is_paused || running->told > 1;
    if (watching->is_left)
        return -1;
    remote_path(&path, "/v1/commands/%s/signal", buf_cstr(&running->id));
    buf_printf(&body, "{\"signal\":\"%s\"}", name);
    (void)sg_call(watching->client, "POST", buf_cstr(&path), buf_cstr(&body), NULL);
    ending_done();
    if (running->told++ > 0)
        ending_expect(signal);
    return 0;
}

/* As when a terminal closes. What ignores the signal, as with nohup, goes on without us. */
static void hang_up(struct running *running)
{
    AUTO_BUF struct buf path = {0};
    running->is_hung_up = true;
    remote_path(&path, "/v1/commands/%s/signal", buf_cstr(&running->id));
    ending_expect(SIGPIPE);
    (void)sg_call(running->watching.client, "POST", buf_cstr(&path), "{\"signal\":\"HUP\"}", NULL);
}

/* Input is waited for except while a piece of it is being sent. */
static void await_input(struct running *running, bool is_awaited)
{
    struct epoll_event input = {.events = EPOLLIN, .data.fd = running->input_fd};
    (void)epoll_ctl(running->waits_fd, is_awaited ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
                    running->input_fd, &input);
}

static void on_sent(void *ctx)
{
    struct running *running = ctx;
    if (!running->has_read_all)
        await_input(running, true);
}

/* What a command that has ended did not read is lost, as in a pipe. */
static void pass_input(struct running *running)
{
    char bytes[CHUNK_MAX];
    AUTO_BUF struct buf path = {0};
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    running->has_read_all = got <= 0;
    await_input(running, false);
    remote_path(&path, "/v1/commands/%s/stdin", buf_cstr(&running->id));
    if (got <= 0)
        buf_put_cstr(&path, "?close=true");
    (void)sg_stream_send(running->watching.client, buf_cstr(&path), bytes,
                         got > 0 ? (size_t)got : 0, on_sent);
}

/* For sg_stream: 0 to go on, 1 to be asked no more, -1 to end it. */
static int on_ready(void *ctx)
{
    struct running *running = ctx;
    struct epoll_event ready[2];
    int count = epoll_wait(running->waits_fd, ready, 2, 0);
    for (int i = 0; i < count; i++) {
        int fd = ready[i].data.fd;
        if (fd == running->signal_fd) {
            int signal = ending_take();
            if (signal != 0 && tell(running, signal) < 0)
                return -1;
        } else {
            pass_input(running);
        }
    }
    return 0;
}

/* A regular file cannot be waited for: a descriptor that is always ready is used instead. */
static void take_input(struct running *running)
{
    struct epoll_event input = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    running->input_fd = STDIN_FILENO;
    if (epoll_ctl(running->waits_fd, EPOLL_CTL_ADD, STDIN_FILENO, &input) == 0)
        return;
    running->input_fd = running->ready_fd = eventfd(1, EFD_CLOEXEC);
    await_input(running, true);
}

static int cmd_sandbox_exec_on_line(void *ctx, const char *line, size_t len)
{
    struct running *running = ctx;
    AUTO_JSON struct json_t *event = NULL;
    if (running->id.len == 0 &&
        json_parse(str_n(line, len), &event, &running->watching.failure) == 0 &&
        str_eq(remote_text(event, "event"), STR("started"))) {
        buf_put(&running->id, remote_text(json_get(event, "data"), "id"));
        running->watching.id = buf_cstr(&running->id);
        if (running->takes_input)
            take_input(running);
    }
    int done = watch_line(&running->watching, line, len);
    if (running->watching.is_unread && !running->watching.has_ended && !running->is_hung_up)
        hang_up(running);
    return done;
}

static int wait_for_both(struct running *running, struct err *err)
{
    running->signal_fd = ending_watch();
    running->waits_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event signals = {.events = EPOLLIN, .data.fd = running->signal_fd};
    if (running->signal_fd < 0 || running->waits_fd < 0 ||
        epoll_ctl(running->waits_fd, EPOLL_CTL_ADD, running->signal_fd, &signals) < 0)
        return err_set(err, ERR_INTERNAL, "cannot wait for signals");
    return 0;
}

/* ---- the verb ------------------------------------------------------------------------------ */

/* A terminal is left to who sits at it, unless asked for; anything else was put there for the
 * command, as for ssh. */
static bool takes_input(const struct cli_call *call)
{
    struct stat info;
    if (cli_has(call, "detach") || cli_has(call, "no-stdin"))
        return false;
    return cli_has(call, "stdin") ||
           (fstat(STDIN_FILENO, &info) == 0 &&
            (S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)));
}

static int put_body(const struct cli_call *call, struct buf *body, struct err *err)
{
    struct json_out out = {.buf = body};
    const char *cwd = cli_value(call, "cwd");
    const char *timeout = cli_value(call, "timeout");
    int64_t timeout_ms;
    json_begin_object(&out);
    json_key(&out, "argv");
    json_begin_array(&out);
    for (size_t i = 1; i < call->arg_count; i++)
        json_put_cstr(&out, call->args[i]);
    json_end_array(&out);
    if (cwd != NULL)
        json_key(&out, "cwd"), json_put_cstr(&out, cwd);
    if (timeout != NULL) {
        if (cli_read_limit("timeout", timeout, &timeout_ms, err) < 0)
            return -1;
        json_key(&out, "timeoutMs"), json_put_i64(&out, timeout_ms);
    }
    if (remote_put_pairs(call, "env", "env", &out, err) < 0)
        return -1;
    if (cli_has(call, "detach"))
        json_key(&out, "detached"), json_put_bool(&out, true);
    if (takes_input(call))
        json_key(&out, "stdin"), json_put_bool(&out, true);
    json_end_object(&out);
    return 0;
}

static int detach(sg_client *client, const char *path, const char *body, struct err *err)
{
    AUTO_JSON struct json_t *answer = NULL;
    if (remote_call(client, "POST", path, body, &answer, err) < 0)
        return -1;
    cli_print(remote_text(answer, "id"));
    cli_print(STR("\n"));
    return EXIT_OK;
}

static int attend(const struct cli_call *call, sg_client *client, const char *path,
                  const char *body, struct err *err)
{
    struct running running = {.watching = {.client = client, .prints_json = cli_has(call, "json")},
                              .takes_input = takes_input(call),
                              .waits_fd = -1,
                              .signal_fd = -1,
                              .ready_fd = -1,
                              .input_fd = -1};
    int code = wait_for_both(&running, err);
    (void)signal(SIGPIPE, SIG_IGN);
    if (code == 0) {
        int result = sg_stream(client, "POST", path, body, cmd_sandbox_exec_on_line,
                               running.waits_fd, on_ready, &running);
        bool is_left = running.watching.is_left;
        code = running.watching.is_unread ? EXIT_SIGNALED + SIGPIPE
               : is_left || (running.id.len == 0 && running.watching.code != 0)
                   ? running.watching.code
                   : watch_conclude(&running.watching, result, err);
        if (is_left)
            (void)fprintf(
                stderr,
                "sandglass: detached; the command continues%s, see 'sandglass logs -f %s'\n",
                running.watching.is_paused ? " when the sandbox is resumed" : "",
                buf_cstr(&running.id));
    }
    fd_close(&running.ready_fd);
    fd_close(&running.waits_fd);
    buf_done(&running.id);
    return code;
}

static int run_at(const struct cli_call *call, sg_client *client, const char *sandbox,
                  const char *body, struct err *err)
{
    AUTO_BUF struct buf path = {0};
    remote_path(&path, "/v1/sandboxes/%s/commands", sandbox);
    return cli_has(call, "detach") ? detach(client, buf_cstr(&path), body, err)
                                   : attend(call, client, buf_cstr(&path), body, err);
}

/* Most names are those of sandboxes: only one that is not is looked up before. */
static int exec(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_BUF struct buf body = {0}, id = {0};
    const char *given = call->args[0];
    if (cli_has(call, "detach") && cli_has(call, "stdin"))
        return err_set(err, ERR_INVALID,
                       "--detach and --stdin cannot be combined: a detached command gets no input "
                       "from this terminal");
    if (cli_has(call, "no-stdin") && cli_has(call, "stdin"))
        return err_set(err, ERR_INVALID, "give --stdin or --no-stdin, not both");
    if (put_body(call, &body, err) < 0 || remote_open(call, &client, err) < 0)
        return -1;
    bool is_session = str_starts(str_of(given), STR("session:"));
    int code = is_session ? err_set(err, ERR_NOT_FOUND, "no sandbox")
                          : run_at(call, client, given, buf_cstr(&body), err);
    if (code < 0 && err->code == ERR_NOT_FOUND &&
        remote_find_sandbox(call, given, true, &id, err) == 0)
        code = run_at(call, client, buf_cstr(&id), buf_cstr(&body), err);
    if (code >= 0 || err->code == ERR_INVALID)
        return code;
    (void)cli_report(err);
    return exec_refused_code(err);
}

static const struct cli_option exec_options[] = {
    REMOTE_OPTIONS,
    {'d', "detach", NULL, "Print the command's id and leave it running"},
    {'i', "stdin", NULL, "Pass standard input to the command also from a terminal"},
    {'n', "no-stdin", NULL, "Do not read standard input; the command reads end of file"},
    {0, "cwd", "DIR", "Working directory (default /workspace)"},
    {'t', "timeout", "TIME",
     "Kill it after 30s, 500ms, 2m, ...; none: never (default: as the server is configured, else "
     "never)"},
    {.letter = 'e', .name = "env", .value = "K=V", .help = "Set a variable", .repeated = true},
    {0}};

const struct cli_verb cmd_sandbox_exec = {
    .name = "sandbox exec",
    .args = "SANDBOX -- CMD [ARG...]",
    .summary = "Run a command in a sandbox",
    .details =
        "Prints the output while the command runs. Exits with the command's exit code, "
        "128+N when signal N ended it, 124 after a timeout, 127 when the program is not "
        "found, 126 when it cannot be executed and 125 when the sandbox or the server is "
        "not found.\n"
        "Standard input that is a file or a pipe is passed to the command. In a loop such as "
        "'while read NAME; do ...; done <list' use --no-stdin, or the first command reads "
        "the rest of the list; from a terminal nothing is passed without --stdin. A "
        "detached command reads end of file.\n"
        "The first Ctrl-C interrupts the command, a second one kills it, a third "
        "one detaches from it. When the sandbox is paused, a message says so and the "
        "command waits. When the reader of the output exits, as in '| head', the "
        "command gets SIGHUP. With --json prints the events, one per line.",
    .options = exec_options,
    .args_min = 2,
    .args_max = CLI_ARGS_MAX - 1,
    .run = exec,
};
