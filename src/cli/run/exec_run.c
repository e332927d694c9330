/* Runs one command in a new jail and connects it with the caller. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "cli/run/exec.h"
#include "egress/keys/authority.h"
#include "egress/keys/secrets.h"
#include "runtime/runtimes.h"

enum { CHUNK = 64 << 10 };

/* Bytes on their way from one descriptor to another; a reader that is slow stops the flow. */
struct flow {
    int from, to;
    struct exec_kept *kept; /* instead of `to` */
    size_t at, len;
    char bytes[CHUNK];
    bool ended;
};

enum { IN, OUT, ERR_, FLOWS };

struct exec_run {
    struct exec_request *request;
    struct exec_result *result;
    struct jail *jail;
    struct exec_net *net;
    uint32_t id;
    int signal_fd;
    int tty_fd; /* the command's terminal, or -1 */
    struct flow flows[FLOWS];
    struct termios saved;
    bool raw;
    bool exited, ended;
    bool has_asked;               /* the jail, in this round */
    int64_t deadline_ms, kill_ms; /* 0: none */
    bool killed;
    int interrupts;
};

static void flow_open(struct flow *flow, int from, int to)
{
    flow->from = from;
    flow->to = to;
    flow->kept = NULL;
    flow->at = flow->len = 0;
    flow->ended = from < 0;
}

static void flow_end(struct flow *flow)
{
    flow->ended = true;
    if (flow->from > 2)
        fd_close(&flow->from);
    if (flow->to > 2)
        fd_close(&flow->to);
}

static void flow_read(struct flow *flow)
{
    ssize_t got = read(flow->from, flow->bytes, CHUNK);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) { /* EIO: the last holder of a terminal left */
        flow_end(flow);
        return;
    }
    if (flow->kept != NULL) {
        exec_keep(flow->kept, str_n(flow->bytes, (size_t)got));
        return;
    }
    flow->at = 0;
    flow->len = (size_t)got;
}

/* The caller's descriptors stay as they are, blocking ones too: a write must not wait for a reader
 * that has stopped, or no deadline would ever be seen. */
static ssize_t write_some(int fd, char *bytes, size_t len)
{
    struct iovec part = {.iov_base = bytes, .iov_len = len};
    ssize_t wrote = pwritev2(fd, &part, 1, -1, RWF_NOWAIT);
    if (wrote >= 0 || errno != EOPNOTSUPP)
        return wrote;
    return write(fd, bytes, MIN(len, (size_t)PIPE_BUF)); /* a terminal or a plain file */
}

static void flow_write(struct flow *flow)
{
    ssize_t wrote = write_some(flow->to, flow->bytes + flow->at, flow->len - flow->at);
    if (wrote < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (wrote < 0) { /* no reader any more: the command gets EPIPE */
        flow_end(flow);
        return;
    }
    flow->at += (size_t)wrote;
    if (flow->at == flow->len)
        flow->at = flow->len = 0;
}

static bool flow_has_bytes(const struct flow *flow)
{
    return flow->len > flow->at;
}

static void flow_move(struct flow *flow)
{
    if (flow_has_bytes(flow))
        flow_write(flow);
    else
        flow_read(flow);
}

/* A pipe for each stream: no descriptor of the host's files or terminals goes in. */
static int open_pipes(struct exec_run *run, int inner[3], struct err *err)
{
    int pairs[3][2];
    for (int i = 0; i < 3; i++)
        if (pipe2(pairs[i], O_CLOEXEC) < 0)
            return err_sys(err, errno, "pipe");
    bool json = run->request->json;
    flow_open(&run->flows[IN], STDIN_FILENO, pairs[0][1]);
    flow_open(&run->flows[OUT], pairs[1][0], STDOUT_FILENO);
    flow_open(&run->flows[ERR_], pairs[2][0], STDERR_FILENO);
    if (json) {
        run->flows[OUT].kept = &run->result->out;
        run->flows[ERR_].kept = &run->result->err;
    }
    (void)fcntl(pairs[0][1], F_SETFL, O_NONBLOCK);
    inner[0] = pairs[0][0];
    inner[1] = pairs[1][1];
    inner[2] = pairs[2][1];
    return 0;
}

static void copy_size(struct exec_run *run)
{
    struct winsize size;
    if (run->tty_fd >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
        (void)ioctl(run->tty_fd, TIOCSWINSZ, &size);
}

static void go_raw(struct exec_run *run)
{
    if (tcgetattr(STDIN_FILENO, &run->saved) < 0)
        return;
    struct termios raw = run->saved;
    cfmakeraw(&raw);
    run->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void go_back(struct exec_run *run)
{
    if (run->raw)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &run->saved);
    run->raw = false;
}

static int start_tty(struct exec_run *run, struct err *err)
{
    struct winsize size;
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) {
        run->request->command.rows = size.ws_row;
        run->request->command.cols = size.ws_col;
    }
    if (jail_start(run->jail, &run->request->command, NULL, &run->id, &run->tty_fd, err) < 0)
        return -1;
    int second = fcntl(run->tty_fd, F_DUPFD_CLOEXEC, 3);
    flow_open(&run->flows[IN], STDIN_FILENO, second);
    flow_open(&run->flows[OUT], run->tty_fd, STDOUT_FILENO);
    if (run->request->json)
        run->flows[OUT].kept = &run->result->out;
    go_raw(run);
    return 0;
}

static int start_plain(struct exec_run *run, struct err *err)
{
    int inner[3] = {-1, -1, -1};
    if (open_pipes(run, inner, err) < 0)
        return -1;
    int done = jail_start(run->jail, &run->request->command, inner, &run->id, NULL, err);
    for (int i = 0; i < 3; i++)
        fd_close(&inner[i]);
    return done;
}

static void open_signals(struct exec_run *run)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < countof(caught); i++)
        (void)sigaddset(&set, caught[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* With all its descendants, also those that left its process group. It reports its end as any other
 * does, so that its times are known; one that cannot ends with the jail. */
static void kill_command(struct exec_run *run)
{
    struct err err;
    run->ended = run->killed || jail_kill(run->jail, run->id, &err) < 0;
    run->killed = true;
    run->kill_ms = clock_now_ms() + RUNTIME_GRACE_MS;
}

/* Its end may be told before the answer to this, and is put aside then: the jail's descriptor says
 * nothing of it any more. */
static bool tell_command(struct exec_run *run, int sig)
{
    struct err err;
    run->has_asked = true;
    return jail_signal(run->jail, run->id, sig, &err) == 0;
}

/* Signals are forwarded to the command. The third one kills it; the next one ends the jail. */
static void on_signals(struct exec_run *run)
{
    struct signalfd_siginfo info;
    while (read(run->signal_fd, &info, sizeof info) == sizeof info) {
        int sig = (int)info.ssi_signo;
        if (sig == SIGWINCH) {
            copy_size(run);
            continue;
        }
        if (++run->interrupts >= 3 || !tell_command(run, sig))
            kill_command(run);
        else if (sig == SIGTERM || sig == SIGHUP) /* a frozen command could not handle it */
            (void)tell_command(run, SIGCONT);
    }
}

static void on_jail(struct exec_run *run)
{
    struct err err = {0};
    struct jail_exit exit;
    if (jail_wait(run->jail, 0, &exit, &err) < 0) {
        if (err.code == ERR_TIMEOUT || err.sys == EINTR)
            return;
        run->result->reason = EXEC_GONE;
        run->ended = true;
        return;
    }
    if (exit.id != run->id)
        return;
    run->result->exit = exit;
    if (run->result->reason != EXEC_TIMED_OUT)
        run->result->reason = exit.signal != 0 ? EXEC_SIGNALED : EXEC_EXITED;
    run->exited = true;
}

static void exec_run_on_time(struct exec_run *run)
{
    int64_t now = clock_now_ms();
    if (run->kill_ms != 0 && now >= run->kill_ms) {
        kill_command(run);
    } else if (run->kill_ms == 0 && run->deadline_ms != 0 && now >= run->deadline_ms) {
        run->result->reason = EXEC_TIMED_OUT;
        run->kill_ms = now + RUNTIME_GRACE_MS;
        if (!tell_command(run, SIGTERM))
            kill_command(run);
    }
}

static int wait_ms(const struct exec_run *run)
{
    int64_t until = run->kill_ms != 0 ? run->kill_ms : run->deadline_ms;
    if (until == 0)
        return -1;
    return (int)MIN(MAX(until - clock_now_ms(), (int64_t)0), (int64_t)60000);
}

/* What each flow waits for: room when it holds bytes, else bytes. */
static void exec_run_prepare(const struct flow *flow, struct pollfd *wait)
{
    bool writes = flow_has_bytes(flow);
    wait->fd = flow->ended ? -1 : writes ? flow->to : flow->from;
    wait->events = writes ? POLLOUT : POLLIN;
    wait->revents = 0;
}

static void advance(struct exec_run *run)
{
    struct pollfd waits[FLOWS + 3];
    for (int i = 0; i < FLOWS; i++)
        exec_run_prepare(&run->flows[i], &waits[i]);
    waits[FLOWS] = (struct pollfd){.fd = run->signal_fd, .events = POLLIN};
    waits[FLOWS + 2] = (struct pollfd){.fd = exec_net_fd(run->net), .events = POLLIN};
    waits[FLOWS + 1] =
        (struct pollfd){.fd = run->exited ? -1 : jail_fd(run->jail), .events = POLLIN};
    if (poll(waits, countof(waits), wait_ms(run)) < 0)
        return;
    for (int i = 0; i < FLOWS; i++) {
        if (waits[i].revents != 0)
            flow_move(&run->flows[i]);
    }
    if (waits[FLOWS].revents != 0)
        on_signals(run);
    if (waits[FLOWS + 2].revents != 0)
        exec_net_step(run->net);
    if (waits[FLOWS + 1].revents != 0)
        on_jail(run);
    if (!run->exited)
        exec_run_on_time(run);
    if (!run->exited && run->has_asked)
        on_jail(run);
    run->has_asked = false;
}

/* Everything in the jail is dead: what it wrote is in the pipes, and they end. A reader that has
 * stopped holds us up no longer than the command was given; a signal ends the wait. */
static void exec_run_drain(struct exec_run *run)
{
    int patience_ms = run->result->reason == EXEC_TIMED_OUT ? RUNTIME_GRACE_MS : -1;
    run->flows[IN].ended = true;
    while (!run->flows[OUT].ended || !run->flows[ERR_].ended) {
        struct pollfd waits[FLOWS + 1];
        for (int i = 0; i < FLOWS; i++)
            exec_run_prepare(&run->flows[i], &waits[i]);
        waits[FLOWS] = (struct pollfd){.fd = run->signal_fd, .events = POLLIN};
        int ready = poll(waits, countof(waits), patience_ms);
        if (ready == 0 || waits[FLOWS].revents != 0)
            return;
        for (int i = 0; ready > 0 && i < FLOWS; i++)
            if (waits[i].revents != 0)
                flow_move(&run->flows[i]);
    }
}

/* A command that did not live to report its end was killed with its jail. Only this command ran in
 * the jail, so the kills of the jail are the command's. */
static void exec_run_judge(struct exec_result *result, bool reported)
{
    if (!reported)
        result->exit.signal = SIGKILL;
    struct jail_exit exit = result->exit;
    exit.oom_kills = -1;
    if (result->reason != EXEC_TIMED_OUT && jail_exit_is_oom(&exit, result->stats.oom_kills))
        result->reason = EXEC_OOM;
}

static int run_command(struct exec_run *run, struct err *err)
{
    struct exec_request *request = run->request;
    if (request->limit.ms > 0 && DEFENDED(LIMIT_TIME))
        run->deadline_ms = clock_now_ms() + request->limit.ms;
    open_signals(run);
    if ((request->command.tty ? start_tty(run, err) : start_plain(run, err)) < 0)
        return -1;
    while (!run->exited && !run->ended)
        advance(run);
    struct err ended = {0};
    if (jail_end(run->jail, &run->result->stats, &ended) < 0)
        run->result->stats = (struct jail_stats){-1, -1, -1, -1};
    exec_run_drain(run);
    exec_net_step(run->net); /* what it said last */
    exec_run_judge(run->result, run->exited);
    return 0;
}

/* A limit that this host cannot enforce is refused. Use `none` to run without it. */
static int check_limit(int64_t limit, const char *why, const char *what, const char *option,
                       struct err *err)
{
    if (limit == JAIL_UNLIMITED || why[0] == '\0')
        return 0;
    return err_set(
        err, ERR_UNSUPPORTED,
        "this host cannot limit %s (cgroup: %s); use --%s none to run without this limit", what,
        why, option);
}

int exec_check_host(const struct exec_request *request, const struct jail_host *host,
                    struct exec_result *result, struct err *err)
{
    const struct jail_limits *limits = &request->plan.limits;
    if (check_limit(limits->memory_bytes, host->no_memory, "memory", "memory", err) < 0 ||
        check_limit(limits->cpu_milli, host->no_cpu, "cpu time", "cpus", err) < 0)
        return -1;
    result->memory_unlimited = limits->memory_bytes == JAIL_UNLIMITED;
    result->cpus_unlimited = limits->cpu_milli == JAIL_UNLIMITED;
    if (host->landlock == 0)
        (void)fprintf(stderr, "sandglass: warning: this kernel has no Landlock, so one protection "
                              "of files is missing\n");
    return 0;
}

void exec_set_env(struct exec_request *request, const char *pair)
{
    assert(request->env_count + 1 < EXEC_ENV_MAX);
    request->env_count = runtime_env_set(request->env, request->env_count, pair);
}

int exec_add_env(struct exec_request *request, const char *given, struct err *err)
{
    const char *pair = strchr(given, '=') != NULL ? given : NULL;
    size_t len = strlen(given);
    for (size_t i = 0; pair == NULL && environ[i] != NULL; i++)
        if (strncmp(environ[i], given, len) == 0 && environ[i][len] == '=')
            pair = environ[i];
    if (pair == NULL)
        return err_set(err, ERR_INVALID, "--env %s: this variable is not set in the environment",
                       given);
    exec_set_env(request, pair);
    return 0;
}

void exec_request_done(struct exec_request *request)
{
    for (size_t i = 0; i < request->hold_count; i++)
        disk_quota_let_go(&request->holds[i]);
    for (size_t i = 0; i < request->path_count; i++)
        free(request->paths[i]);
    request->policy = policy_free(request->policy);
    request->secrets = secrets_free(request->secrets);
    request->authority = authority_free(request->authority);
    buf_done(&request->dns_servers);
    buf_done(&request->ca_file);
    buf_done(&request->settings);
}

int exec_run(struct exec_request *request, struct exec_result *ret_result, struct err *err)
{
    int64_t begin = clock_now_ns();
    AUTO_WARDEN struct warden_link *warden = NULL;
    if (warden_start(&warden, err) < 0)
        return -1;
    AUTO(exec_net_freep) struct exec_net *net = NULL;
    AUTO_JAIL struct jail *jail = NULL;
    if (exec_check_host(request, warden_host(warden), ret_result, err) < 0 ||
        exec_net_start(request, ret_result, &net, err) < 0 ||
        jail_make(warden, &request->plan, &jail, err) < 0 ||
        exec_net_open(net, warden, jail, err) < 0)
        return -1;
    ret_result->make_ns = clock_now_ns() - begin;
    static struct exec_run run; /* its buffers are big, and a process runs one command */
    run.request = request;
    run.result = ret_result;
    run.jail = jail;
    run.net = net;
    run.signal_fd = run.tty_fd = -1;
    for (int i = 0; i < FLOWS; i++)
        flow_open(&run.flows[i], -1, -1);
    int done = run_command(&run, err);
    go_back(&run);
    for (int i = 0; i < FLOWS; i++)
        flow_end(&run.flows[i]);
    fd_close(&run.signal_fd);
    ret_result->total_ns = clock_now_ns() - begin;
    return done;
}
