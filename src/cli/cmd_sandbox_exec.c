/* sandglass sandbox exec: a command in a sandbox of a running server, as if it ran here.
 *
 * With --stdin what this program reads goes up as it comes. Signals that would end this program go
 * to the command instead, which ends in its own way; the second of them ends it for certain. */

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/commands.h"
#include "cli/exec.h"
#include "cli/net_arg.h"
#include "cli/watching.h"

enum { CHUNK_MAX = 64 << 10, SIGNALED_BASE = 128 };

struct running {
    struct watching watching; /* first */
    struct buf id;            /* once it has started */
    bool takes_input;
    bool was_told; /* a signal that would have ended us */
    int waits_fd;  /* readable when input or a signal is there */
    int signal_fd, ready_fd;
};

/* ---- what goes up -------------------------------------------------------------------------- */

static int tell(struct running *running, int signal)
{
    const char *name = running->was_told   ? "KILL"
                       : signal == SIGTERM ? "TERM"
                       : signal == SIGHUP  ? "HUP"
                                           : "INT";
    AUTO_BUF struct buf path = {0};
    AUTO_BUF struct buf body = {0};
    running->watching.code = SIGNALED_BASE + signal;
    if (running->id.len == 0)
        return -1;
    running->was_told = true;
    remote_path(&path, "/v1/commands/%s/signal", buf_cstr(&running->id));
    buf_printf(&body, "{\"signal\":\"%s\"}", name);
    (void)sg_call(running->watching.client, "POST", buf_cstr(&path), buf_cstr(&body), NULL);
    return 0;
}

/* Waits while the command is slow to read. What a command that has ended did not read is lost, as
 * in a pipe. */
static bool pass_input(struct running *running)
{
    char bytes[CHUNK_MAX];
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    watch_send(&running->watching, str_n(bytes, got > 0 ? (size_t)got : 0), got <= 0);
    return got > 0;
}

/* For sg_stream: 0 to go on, 1 to be asked no more, -1 to end it. */
static int on_ready(void *ctx)
{
    struct running *running = ctx;
    struct epoll_event ready[2];
    struct signalfd_siginfo news;
    int count = epoll_wait(running->waits_fd, ready, 2, 0);
    for (int i = 0; i < count; i++) {
        int fd = ready[i].data.fd;
        if (fd == running->signal_fd) {
            if (read(fd, &news, sizeof news) == sizeof news &&
                tell(running, (int)news.ssi_signo) < 0)
                return -1;
        } else if (!pass_input(running)) {
            (void)epoll_ctl(running->waits_fd, EPOLL_CTL_DEL, fd, NULL);
        }
    }
    return 0;
}

/* A regular file cannot be waited for: something that is always ready stands for it. */
static void take_input(struct running *running)
{
    struct epoll_event input = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    if (epoll_ctl(running->waits_fd, EPOLL_CTL_ADD, STDIN_FILENO, &input) == 0)
        return;
    running->ready_fd = eventfd(1, EFD_CLOEXEC);
    input.data.fd = running->ready_fd;
    (void)epoll_ctl(running->waits_fd, EPOLL_CTL_ADD, running->ready_fd, &input);
}

static int on_line(void *ctx, const char *line, size_t len)
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
    return watch_line(&running->watching, line, len);
}

static int wait_for_both(struct running *running, struct err *err)
{
    sigset_t ends;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL);
    running->signal_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    running->waits_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event signals = {.events = EPOLLIN, .data.fd = running->signal_fd};
    if (running->signal_fd < 0 || running->waits_fd < 0 ||
        epoll_ctl(running->waits_fd, EPOLL_CTL_ADD, running->signal_fd, &signals) < 0)
        return err_set(err, ERR_INTERNAL, "cannot wait for signals");
    return 0;
}

/* ---- the verb ------------------------------------------------------------------------------ */

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
        if (cli_read_time("timeout", timeout, &timeout_ms, err) < 0)
            return -1;
        json_key(&out, "timeoutMs"), json_put_i64(&out, timeout_ms);
    }
    if (remote_put_pairs(call, "env", "env", &out, err) < 0)
        return -1;
    if (cli_has(call, "detach"))
        json_key(&out, "detached"), json_put_bool(&out, true);
    if (cli_has(call, "stdin"))
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
                              .takes_input = cli_has(call, "stdin"),
                              .waits_fd = -1,
                              .signal_fd = -1,
                              .ready_fd = -1};
    int code = wait_for_both(&running, err);
    if (code == 0) {
        int result =
            sg_stream(client, "POST", path, body, on_line, running.waits_fd, on_ready, &running);
        code = running.id.len == 0 && running.watching.code != 0
                   ? running.watching.code
                   : watch_conclude(&running.watching, result, err);
    }
    fd_close(&running.ready_fd);
    fd_close(&running.waits_fd);
    fd_close(&running.signal_fd);
    buf_done(&running.id);
    return code;
}

static int exec(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_BUF struct buf body = {0};
    AUTO_BUF struct buf path = {0};
    if (cli_has(call, "detach") && cli_has(call, "stdin"))
        return err_set(err, ERR_INVALID,
                       "--detach and --stdin exclude each other: nobody would send the input");
    if (put_body(call, &body, err) < 0 || remote_open(call, &client, err) < 0)
        return -1;
    remote_path(&path, "/v1/sandboxes/%s/commands", call->args[0]);
    int code = cli_has(call, "detach")
                   ? detach(client, buf_cstr(&path), buf_cstr(&body), err)
                   : attend(call, client, buf_cstr(&path), buf_cstr(&body), err);
    if (code >= 0 || err->code == ERR_INVALID)
        return code;
    (void)cli_report(err);
    return exec_refused_code(err);
}

static const struct cli_option exec_options[] = {
    REMOTE_OPTIONS,
    {'d', "detach", NULL, "Print the command's id and leave it running"},
    {'i', "stdin", NULL, "Pass standard input on (the command reads nothing otherwise)"},
    {0, "cwd", "DIR", "Where it runs (/workspace)"},
    {'t', "timeout", "TIME", "End it after 30s, 500ms, 2m, ... (the server's limit)"},
    {.letter = 'e', .name = "env", .value = "K=V", .help = "Set a variable", .repeated = true},
    {0}};

const struct cli_verb cmd_sandbox_exec = {
    .name = "sandbox exec",
    .args = "ID -- CMD [ARG...]",
    .summary = "Run a command in a sandbox",
    .details =
        "Its output comes as it is made. The exit code is the command's own code, 128+N when "
        "signal N ended it, 124 after a timeout, 127 when there is no such program, 126 when "
        "it cannot be run and 125 when there is no such sandbox or no server. Ctrl-C goes to "
        "the command; a second one kills it. With --json, the events as they come, one a "
        "line.",
    .options = exec_options,
    .args_min = 2,
    .args_max = CLI_ARGS_MAX - 1,
    .run = exec,
};
