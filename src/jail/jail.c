#include "jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/defended.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/vec.h"
#include "jail/init.h"
#include "jail/init_program.h"
#include "jail/kernel.h"
#include "jail/setup.h"
#include "jail/warden.h"

struct warden_link {
    int fd;
    pid_t pid;
    uint32_t next_request;
    struct jail_host host;
    struct buf out;
    char in[WIRE_MAX];
};

struct jail {
    struct warden_link *warden;
    uint32_t number;
    int pidfd, control_fd;
    int sockets[JAIL_SOCKETS]; /* -1: none, or taken */
    uint32_t next_id;
    bool ended;
    struct buf out;
    VEC(struct jail_exit) exits; /* came while we waited for something else */
};

static int load_warden(struct err *err)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    AUTO_CLOSE int fd = (int)SYS(syscall(SYS_memfd_create, "warden", flags | MFD_EXEC));
    if (fd < 0 && errno == EINVAL)
        fd = (int)SYS(syscall(SYS_memfd_create, "warden", flags));
    if (fd < 0)
        return err_sys(err, errno, "memfd_create");
    if (fd_write_all(fd, warden_program[0].bytes, err) < 0)
        return -1;
    if (SYS(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)) < 0)
        return err_sys(err, errno, "seal the warden");
    return fd_take(&fd);
}

/* In the child: safe calls only, since the caller may have threads. */
static void NORETURN run_warden(int program, int socket)
{
    char name[] = "sandglass-warden";
    char *argv[] = {name, NULL}, *env[] = {NULL};
    int kept = fcntl(socket, F_DUPFD, 10), exe = fcntl(program, F_DUPFD_CLOEXEC, 10);
    if (kept >= 0 && exe >= 0 && dup2(kept, SETUP_CONTROL_FD) >= 0 &&
        dup3(exe, SETUP_CONTROL_FD + 1, O_CLOEXEC) >= 0 &&
        (!DEFENDED(CLOSE_RANGE) || k_close_range(SETUP_CONTROL_FD + 2, ~0u, 0) == 0))
        (void)syscall(SYS_execveat, SETUP_CONTROL_FD + 1, "", argv, env, AT_EMPTY_PATH);
    _exit(127);
}

static int fork_warden(struct warden_link *warden, struct err *err)
{
    AUTO_CLOSE int program = load_warden(err);
    int pair[2];
    if (program < 0)
        return -1;
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "socketpair");
    warden->fd = pair[0];
    AUTO_CLOSE int inner = pair[1];
    warden->pid = SYS(vfork());
    if (warden->pid == 0)
        run_warden(program, inner);
    if (warden->pid < 0)
        return err_sys(err, errno, "fork");
    return 0;
}

/* Takes the answer to `request`. Only one question is under way at a time. */
static int take_answer(struct warden_link *warden, uint32_t request, uint32_t wanted,
                       struct wire_in *ret_in, int fds[WIRE_FDS_MAX], struct err *err)
{
    struct wire_head head;
    for (;;) {
        ssize_t len = wire_recv(warden->fd, warden->in, fds, true, err);
        if (len < 0)
            return -1;
        if (len == 0)
            return err_set(err, ERR_UNAVAILABLE, "the warden is gone");
        *ret_in = wire_open(str_n(warden->in, (size_t)len), &head);
        if (head.id == request)
            break;
        wire_close_fds(fds);
    }
    if (head.type == wanted)
        return 0;
    wire_close_fds(fds);
    if (head.type != WARDEN_FAILED)
        return err_set(err, ERR_INTERNAL, "the warden answered %u", head.type);
    wire_get_err(ret_in, err);
    return -1;
}

static void copy_reason(char out[96], const char *reason)
{
    (void)snprintf(out, 96, "%s", reason == NULL ? "" : reason);
}

static int greet(struct warden_link *warden, struct err *err)
{
    struct wire_in in;
    int fds[WIRE_FDS_MAX];
    if (take_answer(warden, 0, WARDEN_READY, &in, fds, err) < 0)
        return -1;
    wire_close_fds(fds);
    warden->host.privileged = wire_get_u32(&in) != 0;
    warden->host.landlock = (int)wire_get_u32(&in);
    copy_reason(warden->host.no_memory, wire_get_cstr(&in));
    copy_reason(warden->host.no_pids, wire_get_cstr(&in));
    copy_reason(warden->host.no_cpu, wire_get_cstr(&in));
    copy_reason(warden->host.no_freeze, wire_get_cstr(&in));
    return wire_ended(&in) ? 0 : err_set(err, ERR_INTERNAL, "the warden greets strangely");
}

int warden_start(struct warden_link **ret_warden, struct err *err)
{
    AUTO_WARDEN struct warden_link *warden = mem_alloc(sizeof *warden);
    warden->fd = -1;
    warden->out = buf_with_limit(WIRE_MAX);
    if (fork_warden(warden, err) < 0 || greet(warden, err) < 0)
        return err_wrap(err, "start the warden");
    *ret_warden = warden;
    warden = NULL;
    return 0;
}

struct warden_link *warden_free(struct warden_link *warden)
{
    if (warden == NULL)
        return NULL;
    fd_close(&warden->fd);
    if (warden->pid > 0)
        while (waitpid(warden->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    buf_done(&warden->out);
    free(warden);
    return NULL;
}

const struct jail_host *warden_host(const struct warden_link *warden)
{
    return &warden->host;
}

pid_t warden_pid(const struct warden_link *warden)
{
    return warden->pid;
}

static uint32_t begin_request(struct warden_link *warden, uint32_t type)
{
    uint32_t request = ++warden->next_request;
    if (request == 0)
        request = ++warden->next_request;
    wire_begin(&warden->out, type, request);
    return request;
}

static int ask(struct warden_link *warden, uint32_t request, uint32_t wanted,
               struct wire_in *ret_in, int fds[WIRE_FDS_MAX], struct err *err)
{
    if (wire_send(warden->fd, buf_str(&warden->out), NULL, 0, err) < 0)
        return err_wrap(err, "ask the warden");
    return take_answer(warden, request, wanted, ret_in, fds, err);
}

static int check_plan(const struct jail_plan *plan, struct jail_plan *ret_filled, struct err *err)
{
    *ret_filled = *plan;
    jail_plan_fill(ret_filled);
    return jail_plan_check(ret_filled, err);
}

int warden_pool(struct warden_link *warden, const struct jail_plan *plan, size_t count,
                struct err *err)
{
    struct jail_plan filled;
    struct wire_in in;
    int fds[WIRE_FDS_MAX];
    if (check_plan(plan, &filled, err) < 0)
        return -1;
    uint32_t request = begin_request(warden, WARDEN_POOL);
    wire_put_u32(&warden->out, (uint32_t)count);
    plan_put(&warden->out, &filled);
    return ask(warden, request, WARDEN_DONE, &in, fds, err);
}

int jail_make(struct warden_link *warden, const struct jail_plan *plan, struct jail **ret_jail,
              struct err *err)
{
    struct jail_plan filled;
    struct wire_in in;
    int fds[WIRE_FDS_MAX];
    if (check_plan(plan, &filled, err) < 0)
        return -1;
    uint32_t request = begin_request(warden, WARDEN_MAKE);
    plan_put(&warden->out, &filled);
    if (ask(warden, request, WARDEN_MADE, &in, fds, err) < 0)
        return -1;
    struct jail *jail = mem_alloc(sizeof *jail);
    *jail = (struct jail){.warden = warden,
                          .number = wire_get_u32(&in),
                          .pidfd = fds[0],
                          .control_fd = fds[1],
                          .out = buf_with_limit(WIRE_MAX)};
    memcpy(jail->sockets, fds + 2, sizeof jail->sockets);
    assert(jail->pidfd >= 0 && jail->control_fd >= 0);
    *ret_jail = jail;
    return 0;
}

static int get_stats(struct jail *jail, uint32_t type, struct jail_stats *ret_stats,
                     struct err *err)
{
    struct wire_in in;
    int fds[WIRE_FDS_MAX];
    uint32_t request = begin_request(jail->warden, type);
    wire_put_u32(&jail->warden->out, jail->number);
    if (ask(jail->warden, request, WARDEN_STATS, &in, fds, err) < 0)
        return -1;
    struct jail_stats stats = {0};
    stats.oom_kills = wire_get_i64(&in);
    stats.memory_peak = wire_get_i64(&in);
    stats.memory_now = wire_get_i64(&in);
    stats.pids_refused = wire_get_i64(&in);
    if (!wire_ended(&in))
        return err_set(err, ERR_INTERNAL, "the warden's figures cannot be read");
    *ret_stats = stats;
    return 0;
}

int jail_stat(struct jail *jail, struct jail_stats *ret_stats, struct err *err)
{
    return get_stats(jail, WARDEN_STAT, ret_stats, err);
}

int jail_end(struct jail *jail, struct jail_stats *ret_stats, struct err *err)
{
    struct jail_stats unused;
    if (jail->ended)
        return err_set(err, ERR_GONE, "the jail has ended");
    jail->ended = true;
    return get_stats(jail, WARDEN_END, ret_stats == NULL ? &unused : ret_stats, err);
}

int jail_relayer(struct jail *jail, const struct jail_plan *plan, struct err *err)
{
    struct jail_plan filled;
    struct wire_in in;
    int fds[WIRE_FDS_MAX];
    if (check_plan(plan, &filled, err) < 0)
        return -1;
    uint32_t request = begin_request(jail->warden, WARDEN_RELAYER);
    wire_put_u32(&jail->warden->out, jail->number);
    plan_put(&jail->warden->out, &filled);
    return ask(jail->warden, request, WARDEN_DONE, &in, fds, err);
}

int jail_freeze(struct jail *jail, bool frozen, struct err *err)
{
    struct wire_in in;
    int fds[WIRE_FDS_MAX];
    uint32_t request = begin_request(jail->warden, WARDEN_FREEZE);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, frozen);
    return ask(jail->warden, request, WARDEN_DONE, &in, fds, err);
}

struct jail *jail_free(struct jail *jail)
{
    struct err err;
    if (jail == NULL)
        return NULL;
    /* A warden that is gone took its jails along. */
    if (!jail->ended && jail_end(jail, NULL, &err) < 0)
        (void)k_pidfd_send_signal(jail->pidfd, SIGKILL);
    fd_close(&jail->pidfd);
    fd_close(&jail->control_fd);
    for (int i = 0; i < JAIL_SOCKETS; i++)
        fd_close(&jail->sockets[i]);
    buf_done(&jail->out);
    vec_done(&jail->exits);
    free(jail);
    return NULL;
}

int jail_fd(const struct jail *jail)
{
    return jail->control_fd;
}

int jail_pidfd(const struct jail *jail)
{
    return jail->pidfd;
}

int jail_take_socket(struct jail *jail, enum jail_socket which)
{
    return fd_take(&jail->sockets[which]);
}

int jail_listen(struct jail *jail, uint16_t port, struct err *err)
{
    struct wire_in in;
    int fds[WIRE_FDS_MAX];
    uint32_t request = begin_request(jail->warden, WARDEN_LISTEN);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, port);
    if (ask(jail->warden, request, WARDEN_DONE, &in, fds, err) < 0)
        return -1;
    AUTO_CLOSE int fd = fd_take(&fds[0]);
    wire_close_fds(fds);
    return fd < 0 ? err_set(err, ERR_INTERNAL, "the warden sent no socket") : fd_take(&fd);
}

static void put_words(struct buf *out, const char *const *words)
{
    uint32_t count = 0;
    while (words != NULL && words[count] != NULL)
        count++;
    wire_put_u32(out, count);
    for (uint32_t i = 0; i < count; i++)
        wire_put_cstr(out, words[i]);
}

static int read_exit(struct jail *jail, uint32_t id, struct wire_in *in, struct err *err)
{
    struct jail_exit exit = {.id = id};
    exit.code = (int)wire_get_u32(in);
    exit.signal = (int)wire_get_u32(in);
    exit.user_us = wire_get_i64(in);
    exit.system_us = wire_get_i64(in);
    exit.peak_kib = wire_get_i64(in);
    exit.wall_ns = wire_get_i64(in);
    if (!wire_ended(in))
        return err_set(err, ERR_INTERNAL, "init's report cannot be read");
    *vec_push(&jail->exits) = exit;
    return 0;
}

/* One packet from init. Exits are kept for jail_wait. */
static int take_news(struct jail *jail, struct wire_head *ret_head, struct wire_in *ret_in,
                     int fds[WIRE_FDS_MAX], struct err *err)
{
    ssize_t len = wire_recv(jail->control_fd, jail->warden->in, fds, true, err);
    if (len < 0)
        return -1;
    if (len == 0)
        return err_set(err, ERR_GONE, "the jail is gone");
    *ret_in = wire_open(str_n(jail->warden->in, (size_t)len), ret_head);
    if (ret_head->type != INIT_EXITED)
        return 0;
    wire_close_fds(fds);
    return read_exit(jail, ret_head->id, ret_in, err);
}

static int take_reply(struct jail *jail, uint32_t id, struct wire_head *ret_head,
                      struct wire_in *ret_in, int fds[WIRE_FDS_MAX], struct err *err)
{
    for (;;) {
        if (take_news(jail, ret_head, ret_in, fds, err) < 0)
            return -1;
        if (ret_head->type != INIT_EXITED && ret_head->id == id)
            return 0;
        wire_close_fds(fds);
    }
}

/* Each way not to start has its own words. */
static int explain(const struct jail_command *command, uint32_t stage, int code, struct err *err)
{
    const char *program = command->argv[0], *cwd = command->cwd;
    int done;
    switch (stage) {
    case INIT_STAGE_CWD:
        done = err_set(err, ERR_INVALID, "bad_cwd: '%s': %s", cwd == NULL ? "/workspace" : cwd,
                       strerror(code));
        break;
    case INIT_STAGE_INTERPRETER:
        done =
            err_set(err, ERR_NOT_FOUND,
                    "'%s' is there, but the interpreter it names is not in this sandbox", program);
        break;
    case INIT_STAGE_PROGRAM:
        if (code == ENOENT || code == ENOTDIR)
            done = err_set(err, ERR_NOT_FOUND, "no program '%s' in this sandbox", program);
        else if (code == ENOEXEC)
            done = err_set(err, ERR_INVALID,
                           "'%s' is no program for this machine (exec format error)", program);
        else
            done = err_sys(err, code, "cannot run '%s'", program);
        break;
    case INIT_STAGE_LIMIT:
        done = err_set(err, ERR_LIMIT, "no room for another command: %s", strerror(code));
        break;
    default:
        done = err_set(err, ERR_INTERNAL, "init did not understand (%d)", code);
    }
    err->sys = code;
    return done;
}

/* A terminal is what we asked for; anything else that a broken init sends is not let in. */
static int check_terminal(int fd, struct err *err)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || major(st.st_rdev) != 5 ||
        minor(st.st_rdev) != 2)
        return err_set(err, ERR_INTERNAL, "init sent something that is no terminal");
    return 0;
}

int jail_start(struct jail *jail, const struct jail_command *command, const int fds[3],
               uint32_t *ret_id, int *ret_tty_fd, struct err *err)
{
    if (jail_command_check(command, err) < 0)
        return -1;
    uint32_t id = ++jail->next_id;
    wire_begin(&jail->out, INIT_START, id);
    wire_put_u32(&jail->out, command->tty ? INIT_FLAG_TTY : 0);
    wire_put_u32(&jail->out, command->rows);
    wire_put_u32(&jail->out, command->cols);
    wire_put_cstr(&jail->out, command->cwd == NULL ? "/workspace" : command->cwd);
    put_words(&jail->out, command->argv);
    put_words(&jail->out, command->env);
    if (wire_send(jail->control_fd, buf_str(&jail->out), fds, command->tty ? 0 : 3, err) < 0)
        return err_wrap(err, "ask init");
    struct wire_head head;
    struct wire_in in;
    int got[WIRE_FDS_MAX];
    if (take_reply(jail, id, &head, &in, got, err) < 0)
        return -1;
    AUTO_CLOSE int tty = fd_take(&got[0]);
    wire_close_fds(got);
    if (head.type == INIT_REFUSED) {
        uint32_t stage = wire_get_u32(&in);
        return explain(command, stage, (int)wire_get_u32(&in), err);
    }
    if (command->tty && check_terminal(tty, err) < 0)
        return -1;
    if (command->tty)
        *ret_tty_fd = fd_take(&tty);
    *ret_id = id;
    return 0;
}

int jail_wait(struct jail *jail, int timeout_ms, struct jail_exit *ret_exit, struct err *err)
{
    int64_t until = clock_now_ms() + timeout_ms;
    while (jail->exits.len == 0) {
        struct pollfd wait = {.fd = jail->control_fd, .events = POLLIN};
        int64_t left = timeout_ms < 0 ? -1 : MAX(until - clock_now_ms(), (int64_t)0);
        int ready = poll(&wait, 1, (int)left);
        if (ready < 0 && errno == EINTR)
            return err_sys(err, EINTR, "wait");
        if (ready < 0)
            return err_sys(err, errno, "poll");
        if (ready == 0)
            return err_set(err, ERR_TIMEOUT, "nothing ended within %d ms", timeout_ms);
        struct wire_head head;
        struct wire_in in;
        int fds[WIRE_FDS_MAX];
        if (take_news(jail, &head, &in, fds, err) < 0)
            return -1;
        wire_close_fds(fds);
    }
    *ret_exit = jail->exits.ptr[0];
    vec_remove(&jail->exits, 0);
    return 0;
}

int jail_signal(struct jail *jail, uint32_t id, int sig, struct err *err)
{
    struct wire_head head;
    struct wire_in in;
    int fds[WIRE_FDS_MAX];
    wire_begin(&jail->out, INIT_SIGNAL, id);
    wire_put_u32(&jail->out, (uint32_t)sig);
    if (wire_send(jail->control_fd, buf_str(&jail->out), NULL, 0, err) < 0)
        return err_wrap(err, "ask init");
    if (take_reply(jail, id, &head, &in, fds, err) < 0)
        return -1;
    wire_close_fds(fds);
    int code = (int)wire_get_u32(&in);
    return code == 0 ? 0 : err_sys(err, code, "signal %d", sig);
}
