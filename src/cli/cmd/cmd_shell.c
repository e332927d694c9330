/* sandglass shell: a terminal in a sandbox, in this terminal.
 *
 * The shell is a command of the server: it outlives this program, and --attach reconnects to it.
 * Keys are sent as they are typed; a change of the window size is sent at once. */

#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cmd/commands.h"
#include "cli/run/ending.h"
#include "cli/watching.h"

enum {
    KEYS_MAX = 4096,
    KEYS_MS = 5000, /* for the server to take a key: one that hangs must not take Ctrl-] as well */
    END_OF_INPUT = 4,
    LEAVE = 0x1d, /* Ctrl-] */
    SHOWN_AGAIN = 64 << 10,
};

struct shell {
    struct watching watching; /* first */
    int waits_fd;             /* readable when a key or a signal is there */
    int signal_fd;            /* changes of the window */
    int ending_fd;            /* signals that end this program */
};

static void send_size(struct watching *watching)
{
    struct winsize size;
    AUTO_BUF struct buf path = {0};
    AUTO_BUF struct buf body = {0};
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0 ||
        (size.ws_row == watching->size.ws_row && size.ws_col == watching->size.ws_col))
        return;
    watching->size = size;
    remote_path(&path, "/v1/commands/%s/resize", watching->id);
    buf_printf(&body, "{\"rows\":%d,\"cols\":%d}", size.ws_row, size.ws_col);
    (void)sg_call(watching->client, "POST", buf_cstr(&path), buf_cstr(&body), NULL);
}

static int leave_with(struct watching *watching, int code)
{
    watching->is_left = true;
    watching->code = code;
    return -1;
}

/* For sg_stream: 0 to go on, 1 to be asked no more, -1 to end it. */
static int on_ready(void *ctx)
{
    struct shell *shell = ctx;
    struct watching *watching = &shell->watching;
    struct epoll_event ready[3];
    struct signalfd_siginfo news;
    static const char end = END_OF_INPUT;
    char keys[KEYS_MAX];
    int count = epoll_wait(shell->waits_fd, ready, 3, 0);
    int signal = ending_take();
    if (signal != 0)
        return leave_with(watching, EXIT_SIGNALED + signal);
    for (int i = 0; i < count; i++) {
        if (ready[i].data.fd == shell->signal_fd) {
            (void)!read(shell->signal_fd, &news, sizeof news);
            send_size(watching);
            continue;
        }
        ssize_t got = read(STDIN_FILENO, keys, sizeof keys);
        if (got <= 0 && watching->is_raw) /* the terminal has gone */
            return leave_with(watching, EXIT_SIGNALED + SIGHUP);
        if (got <= 0) { /* a terminal's way to say that nothing more is typed */
            watch_send(watching, str_n(&end, 1), false);
            return 1;
        }
        struct str typed = str_n(keys, (size_t)got);
        size_t leave = str_find_char(typed, LEAVE);
        watch_send(watching, str_slice(typed, 0, leave), false);
        if (leave > 0 && strcmp(sg_error_code(watching->client), "unavailable") == 0)
            (void)fputs("\r\n"
                        "sandglass: the server did not accept the last input within 5 s; Ctrl-] "
                        "detaches\r\n",
                        stderr);
        watching->is_left = leave < typed.len;
        if (watching->is_left)
            return -1;
    }
    return 0;
}

/* For sg_stream. Without a reader of the output the user has gone, and the shell goes on. */
static int cmd_shell_on_line(void *ctx, const char *line, size_t len)
{
    struct watching *watching = ctx;
    int done = watch_line(watching, line, len);
    return watching->is_unread && !watching->has_ended
               ? leave_with(watching, EXIT_SIGNALED + SIGPIPE)
               : done;
}

/* Keys go to the sandbox as they are typed: this side's terminal does nothing with them. */
static bool make_raw(struct termios *before)
{
    if (tcgetattr(STDIN_FILENO, before) < 0)
        return false;
    struct termios raw = *before;
    cfmakeraw(&raw);
    return tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

/* Keys and changes of the window, as one descriptor. A regular file as input has no news to wait
 * for; then only the end of it is sent. */
static int wait_for_both(struct shell *shell, struct err *err)
{
    sigset_t changes;
    struct epoll_event input = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    (void)sigemptyset(&changes);
    (void)sigaddset(&changes, SIGWINCH);
    (void)signal(SIGPIPE, SIG_IGN); /* the terminal must be restored first */
    (void)sigprocmask(SIG_BLOCK, &changes, NULL);
    shell->signal_fd = signalfd(-1, &changes, SFD_CLOEXEC | SFD_NONBLOCK);
    shell->ending_fd = ending_watch();
    shell->waits_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event signals = {.events = EPOLLIN, .data.fd = shell->signal_fd};
    struct epoll_event endings = {.events = EPOLLIN, .data.fd = shell->ending_fd};
    if (shell->signal_fd < 0 || shell->ending_fd < 0 || shell->waits_fd < 0 ||
        epoll_ctl(shell->waits_fd, EPOLL_CTL_ADD, shell->signal_fd, &signals) < 0 ||
        epoll_ctl(shell->waits_fd, EPOLL_CTL_ADD, shell->ending_fd, &endings) < 0)
        return err_set(err, ERR_INTERNAL, "cannot wait for the terminal");
    if (epoll_ctl(shell->waits_fd, EPOLL_CTL_ADD, STDIN_FILENO, &input) < 0)
        return err_set(err, ERR_INVALID, "standard input must be a terminal or a pipe");
    return 0;
}

/* The best shell that the sandbox has, for the terminal that this one is. */
static int cmd_shell_start(const char *sandbox, struct watching *watching, struct buf *id,
                           struct err *err)
{
    AUTO_JSON struct json_t *command = NULL;
    AUTO_BUF struct buf path = {0}, body = {0};
    struct json_out out = {.buf = &body};
    const char *term = getenv("TERM"); /* NOLINT(concurrency-mt-unsafe): one thread */
    json_begin_object(&out);
    json_key(&out, "command");
    json_put_cstr(&out, "if command -v bash >/dev/null; then PS1='\\w\\$ ' exec bash -i; fi; "
                        "exec sh -i");
    json_key(&out, "tty"), json_put_bool(&out, true);
    json_key(&out, "stdin"), json_put_bool(&out, true);
    json_key(&out, "detached"), json_put_bool(&out, true);
    json_key(&out, "timeoutMs"), json_put_i64(&out, 0);
    json_key(&out, "rows"), json_put_i64(&out, watching->size.ws_row);
    json_key(&out, "cols"), json_put_i64(&out, watching->size.ws_col);
    if (term != NULL && term[0] != '\0' && str_is_utf8(str_of(term))) {
        json_key(&out, "env");
        json_begin_object(&out);
        json_key(&out, "TERM"), json_put_cstr(&out, term);
        json_end_object(&out);
    }
    json_end_object(&out);
    remote_path(&path, "/v1/sandboxes/%s/commands", sandbox);
    if (remote_call(watching->client, "POST", buf_cstr(&path), buf_cstr(&body), &command, err) < 0)
        return -1;
    buf_put(id, remote_text(command, "id"));
    return 0;
}

/* One that goes on: its terminal must be there, and in this sandbox. What it said last is shown
 * again. */
static int cmd_shell_find(struct str sandbox, struct watching *watching, struct err *err)
{
    AUTO_JSON struct json_t *command = NULL;
    AUTO_BUF struct buf path = {0};
    bool has_terminal = false;
    int64_t end = 0;
    remote_path(&path, "/v1/commands/%s", watching->id);
    if (remote_call(watching->client, "GET", buf_cstr(&path), NULL, &command, err) < 0)
        return -1;
    struct str owner = remote_text(command, "sandbox");
    if (!str_eq(owner, sandbox))
        return err_set(err, ERR_CONFLICT, "command '%.72s' belongs to sandbox '%.*s'", watching->id,
                       STR_ARG(owner));
    if (!json_to_bool(json_get(command, "tty"), &has_terminal) || !has_terminal)
        return err_set(err, ERR_CONFLICT,
                       "command '%.72s' has no terminal; see it with 'sandglass logs -f %.72s'",
                       watching->id, watching->id);
    if (json_to_i64(json_get(command, "logEnd"), &end) && end > SHOWN_AGAIN)
        watching->offset = (uint64_t)end - SHOWN_AGAIN;
    return 0;
}

static void tell_way_back(const struct cli_call *call, const struct watching *watching)
{
    (void)fprintf(stderr, "\n%s: attach again with: sandglass shell %s --attach %s\n",
                  watching->is_left
                      ? "detached, the shell continues"
                      : "connection lost; the shell continues if the server is running",
                  call->args[0], watching->id);
}

static int attend(const struct cli_call *call, struct shell *shell, struct err *err)
{
    struct watching *watching = &shell->watching;
    AUTO_BUF struct buf path = {0};
    struct termios before;
    remote_path(&path, "/v1/commands/%s/logs?follow=true", watching->id);
    buf_printf(&path, "&offset=%llu", (unsigned long long)watching->offset);
    if (wait_for_both(shell, err) < 0)
        return -1;
    if (cli_value(call, "attach") != NULL) {
        watching->size = (struct winsize){0};
        send_size(watching);
    }
    if (isatty(STDERR_FILENO) == 1 && isatty(STDIN_FILENO) == 1)
        (void)fprintf(stderr, "sandglass: shell %s; Ctrl-] detaches\n", watching->id);
    bool is_raw = make_raw(&before);
    watching->is_raw = is_raw;
    ending_restore(is_raw ? &before : NULL);
    sg_set_timeout(watching->client, KEYS_MS);
    int result = sg_stream(watching->client, "GET", buf_cstr(&path), NULL, cmd_shell_on_line,
                           shell->waits_fd, on_ready, shell);
    if (is_raw)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    ending_restore(NULL);
    watching->is_raw = false;
    if (watching->is_left || (!watching->has_ended && !watching->is_dropped))
        tell_way_back(call, watching);
    else if (watching->is_dropped || watching->why[0] != '\0')
        (void)fputc('\n', stderr); /* behind whatever stood on the line */
    return watching->is_left ? watching->code : watch_conclude(watching, result, err);
}

static int run_shell(const struct cli_call *call, struct err *err)
{
    AUTO_CLIENT sg_client *client = NULL;
    AUTO_BUF struct buf id = {0}, sandbox = {0};
    struct shell shell = {.waits_fd = -1, .signal_fd = -1, .ending_fd = -1};
    const char *attach = cli_value(call, "attach");
    struct winsize size = {0};
    (void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
    shell.watching.size =
        size.ws_row > 0 && size.ws_col > 0 ? size : (struct winsize){.ws_row = 24, .ws_col = 80};
    if (remote_find_sandbox(call, call->args[0], attach == NULL, &sandbox, err) < 0 ||
        remote_open(call, &client, err) < 0)
        return -1;
    shell.watching.client = client;
    if (attach != NULL)
        buf_put_cstr(&id, attach);
    else if (cmd_shell_start(buf_cstr(&sandbox), &shell.watching, &id, err) < 0)
        return -1;
    shell.watching.id = buf_cstr(&id);
    if (attach != NULL && cmd_shell_find(buf_str(&sandbox), &shell.watching, err) < 0)
        return -1;
    int code = attend(call, &shell, err);
    fd_close(&shell.waits_fd);
    fd_close(&shell.signal_fd);
    return code;
}

static const struct cli_option shell_options[] = {
    REMOTE_OPTIONS, {0, "attach", "COMMAND", "Attach to a running shell"}, {0}};

const struct cli_verb cmd_shell = {
    .name = "shell",
    .args = "SANDBOX",
    .summary = "Open a shell in a sandbox",
    .details = "Exits with the exit code of the shell. After Ctrl-] or a lost connection the shell "
               "keeps running; --attach connects to it again, also from several terminals at once. "
               "The next key resumes a paused sandbox.",
    .options = shell_options,
    .args_min = 1,
    .args_max = 1,
    .run = run_shell,
};
