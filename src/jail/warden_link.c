#include "jail/warden_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/defended.h"
#include "base/fd.h"
#include "jail/client.h"
#include "jail/init_program.h"
#include "jail/kernel.h"
#include "jail/setup.h"
#include "jail/warden.h"

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

static void copy_reason(char out[96], const char *reason)
{
    (void)snprintf(out, 96, "%s", reason == NULL ? "" : reason);
}

static int greet(struct warden_link *warden, struct err *err)
{
    struct wire_head head;
    int fds[WIRE_FDS_MAX];
    ssize_t len = wire_recv(warden->fd, warden->in, fds, true, err);
    if (len < 0)
        return -1;
    wire_close_fds(fds);
    struct wire_in in = wire_open(str_n(warden->in, (size_t)len), &head);
    if (head.type == WARDEN_FAILED) {
        wire_get_err(&in, err);
        return -1;
    }
    if (head.type != WARDEN_READY)
        return err_set(err, ERR_UNAVAILABLE, "it left without a word");
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
    warden->fd = warden->helper_fd = -1;
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
    VEC_EACH (event, &warden->kept) { /* nobody fetched it */
        (void)jail_free(event->jail);
        fd_close(&event->fd);
        for (int i = 0; event->has_sockets && i < JAIL_SOCKETS; i++)
            fd_close(&event->sockets[i]);
    }
    fd_close(&warden->fd);
    fd_close(&warden->helper_fd);
    if (warden->pid > 0)
        while (waitpid(warden->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    vec_done(&warden->kept);
    outbox_done(&warden->outbox);
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

int warden_fd(const struct warden_link *warden)
{
    return warden->fd;
}

bool warden_wants_write(const struct warden_link *warden)
{
    return !warden->is_gone && !outbox_is_empty(&warden->outbox);
}

static void lose(struct warden_link *warden, const struct err *why)
{
    if (warden->is_gone)
        return;
    warden->is_gone = true;
    (void)err_set(&warden->why_gone, ERR_UNAVAILABLE, "the warden is gone%s%s",
                  why == NULL ? "" : ": ", why == NULL ? "" : why->msg);
}

static bool read_made(struct warden_link *warden, struct wire_in *in, int fds[WIRE_FDS_MAX],
                      struct warden_event *event)
{
    uint32_t number = wire_get_u32(in);
    if (!wire_ended(in) || fds[0] < 0 || fds[1] < 0)
        return false;
    event->type = WARDEN_EVENT_MADE;
    event->jail = jail_new(warden, number, fds);
    for (int i = 0; i < 2 + JAIL_SOCKETS; i++)
        fds[i] = -1; /* the jail's now */
    return true;
}

static bool read_stats(struct wire_in *in, struct warden_event *event)
{
    event->type = WARDEN_EVENT_STATS;
    event->stats.oom_kills = wire_get_i64(in);
    event->stats.memory_peak = wire_get_i64(in);
    event->stats.memory_now = wire_get_i64(in);
    event->stats.pids_refused = wire_get_i64(in);
    return wire_ended(in);
}

static bool read_counts(struct wire_in *in, struct warden_event *event)
{
    event->type = WARDEN_EVENT_COUNTS;
    event->counts.ready = wire_get_u32(in);
    event->counts.building = wire_get_u32(in);
    event->counts.wanted = wire_get_u32(in);
    event->counts.served = (uint64_t)wire_get_i64(in);
    event->counts.built = (uint64_t)wire_get_i64(in);
    return wire_ended(in);
}

/* One socket, or those of a gateway. */
static bool read_done(int fds[WIRE_FDS_MAX], struct warden_event *event)
{
    if (fds[0] < 0 || fds[1] < 0) {
        event->fd = fd_take(&fds[0]);
        return true;
    }
    for (int i = 0; i < JAIL_SOCKETS; i++) {
        if (fds[i] < 0)
            return false;
        event->sockets[i] = fds[i];
    }
    for (int i = 0; i < JAIL_SOCKETS; i++)
        fds[i] = -1; /* the event's now */
    event->has_sockets = true;
    return true;
}

static bool read_answer(struct warden_link *warden, struct wire_head head, struct wire_in *in,
                        int fds[WIRE_FDS_MAX], struct warden_event *event)
{
    *event = (struct warden_event){.request = head.id, .fd = -1};
    switch (head.type) {
    case WARDEN_MADE:
        return read_made(warden, in, fds, event);
    case WARDEN_STATS:
        return read_stats(in, event);
    case WARDEN_COUNTS:
        return read_counts(in, event);
    case WARDEN_DONE:
        if (!wire_ended(in))
            return false;
        event->type = WARDEN_EVENT_DONE;
        return read_done(fds, event);
    case WARDEN_KNOCKED:
        event->type = WARDEN_EVENT_KNOCKED;
        event->number = wire_get_u32(in);
        return wire_ended(in);
    case WARDEN_PREPARED:
        event->type = WARDEN_EVENT_PREPARED;
        copy_reason(event->missing, wire_get_cstr(in));
        return wire_ended(in);
    case WARDEN_FAILED:
        event->type = WARDEN_EVENT_FAILED;
        wire_get_err(in, &event->err);
        return true;
    default:
        return false;
    }
}

/* One answer from the socket; false when none is there or the line is lost. */
static bool take(struct warden_link *warden, struct warden_event *ret_event)
{
    int fds[WIRE_FDS_MAX];
    struct err err = {0};
    if (warden->is_gone)
        return false;
    if (outbox_flush(&warden->outbox, warden->fd, &err) < 0) {
        lose(warden, &err);
        return false;
    }
    ssize_t len = wire_recv(warden->fd, warden->in, fds, false, &err);
    if (len < 0 && err.sys == EAGAIN)
        return false;
    if (len <= 0) {
        lose(warden, len < 0 ? &err : NULL);
        return false;
    }
    struct wire_head head;
    struct wire_in in = wire_open(str_n(warden->in, (size_t)len), &head);
    bool good = read_answer(warden, head, &in, fds, ret_event);
    wire_close_fds(fds);
    if (!good) {
        (void)err_set(&err, ERR_INTERNAL, "it answered %u, which cannot be read", head.type);
        lose(warden, &err);
    }
    return good;
}

bool warden_next(struct warden_link *warden, struct warden_event *ret_event)
{
    if (warden->kept.len > 0) {
        *ret_event = warden->kept.ptr[0];
        vec_remove(&warden->kept, 0);
        return true;
    }
    if (take(warden, ret_event))
        return true;
    if (!warden->is_gone || warden->is_gone_told)
        return false;
    warden->is_gone_told = true;
    *ret_event =
        (struct warden_event){.type = WARDEN_EVENT_GONE, .fd = -1, .err = warden->why_gone};
    return true;
}

/* Numbers count from 1; 0 is for what nobody asked. */
uint32_t warden_begin(struct warden_link *warden, uint32_t type)
{
    if (++warden->last_request == 0)
        warden->last_request = 1;
    wire_begin(&warden->out, type, warden->last_request);
    return warden->last_request;
}

int warden_send(struct warden_link *warden, const int *fds, size_t fd_count, struct err *err)
{
    if (warden->is_gone) {
        *err = warden->why_gone;
        return -1;
    }
    if (outbox_send(&warden->outbox, warden->fd, buf_str(&warden->out), fds, fd_count, err) < 0)
        return err_wrap(err, "ask the warden");
    return 0;
}

static int send_request(struct warden_link *warden, uint32_t request, uint32_t *ret_request,
                        struct err *err)
{
    if (warden_send(warden, NULL, 0, err) < 0)
        return -1;
    *ret_request = request;
    return 0;
}

static int check_plan(const struct jail_plan *plan, struct jail_plan *ret_filled, struct err *err)
{
    *ret_filled = *plan;
    jail_plan_fill(ret_filled);
    return jail_plan_check(ret_filled, err);
}

int warden_ask_make(struct warden_link *warden, const struct jail_plan *plan, uint32_t *ret_request,
                    struct err *err)
{
    struct jail_plan filled;
    if (check_plan(plan, &filled, err) < 0)
        return -1;
    uint32_t request = warden_begin(warden, WARDEN_MAKE);
    plan_put(&warden->out, &filled);
    return send_request(warden, request, ret_request, err);
}

int warden_ask_pool(struct warden_link *warden, const struct jail_plan *plan, size_t count,
                    int64_t idle_ms, uint32_t *ret_request, struct err *err)
{
    struct jail_plan filled;
    if (check_plan(plan, &filled, err) < 0)
        return -1;
    uint32_t request = warden_begin(warden, WARDEN_POOL);
    wire_put_u32(&warden->out, (uint32_t)MIN(count, (size_t)UINT32_MAX));
    wire_put_i64(&warden->out, idle_ms);
    plan_put(&warden->out, &filled);
    return send_request(warden, request, ret_request, err);
}

int warden_ask_count(struct warden_link *warden, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(warden, WARDEN_COUNT);
    return send_request(warden, request, ret_request, err);
}

int jail_ask_stat(struct jail *jail, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_STAT);
    wire_put_u32(&jail->warden->out, jail->number);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_kill(struct jail *jail, uint32_t command, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_KILL);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, command);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_freeze(struct jail *jail, bool frozen, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_FREEZE);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, frozen);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_gateway(struct jail *jail, uint16_t proxy_port, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_GATEWAY);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, proxy_port);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_listen(struct jail *jail, uint16_t port, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_LISTEN);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, port);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_layer(struct jail *jail, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_LAYER);
    wire_put_u32(&jail->warden->out, jail->number);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_relayer(struct jail *jail, const struct jail_plan *plan, uint32_t *ret_request,
                     struct err *err)
{
    struct jail_plan filled;
    if (check_plan(plan, &filled, err) < 0)
        return -1;
    uint32_t request = warden_begin(jail->warden, WARDEN_RELAYER);
    wire_put_u32(&jail->warden->out, jail->number);
    plan_put(&jail->warden->out, &filled);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_seal(struct jail *jail, const struct jail_plan *plan, size_t kept, int64_t most_bytes,
                  uint32_t *ret_request, struct err *err)
{
    struct jail_plan filled;
    if (check_plan(plan, &filled, err) < 0)
        return -1;
    uint32_t request = warden_begin(jail->warden, WARDEN_SEAL);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, (uint32_t)kept);
    wire_put_i64(&jail->warden->out, most_bytes);
    plan_put(&jail->warden->out, &filled);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_end(struct jail *jail, uint32_t *ret_request, struct err *err)
{
    if (jail->ended)
        return err_set(err, ERR_GONE, "the jail has ended");
    uint32_t request = warden_begin(jail->warden, WARDEN_END);
    wire_put_u32(&jail->warden->out, jail->number);
    if (send_request(jail->warden, request, ret_request, err) < 0)
        return -1;
    jail->ended = true;
    /* It dies while the warden wakes. Where this fails, or others stand still, that will do. */
    (void)k_pidfd_send_signal(jail->pidfd, SIGKILL);
    return 0;
}

/* --- the same, waiting --- */

static bool find_kept(struct warden_link *warden, uint32_t request, struct warden_event *ret_event)
{
    for (size_t i = 0; i < warden->kept.len; i++) {
        if (warden->kept.ptr[i].request != request)
            continue;
        *ret_event = warden->kept.ptr[i];
        vec_remove(&warden->kept, i);
        return true;
    }
    return false;
}

int warden_await(struct warden_link *warden, uint32_t request, struct warden_event *ret_event,
                 struct err *err)
{
    bool found = find_kept(warden, request, ret_event);
    while (!found) {
        struct pollfd wait = {.fd = warden->fd,
                              .events =
                                  (short)(POLLIN | (warden_wants_write(warden) ? POLLOUT : 0))};
        if (poll(&wait, 1, -1) < 0 && errno != EINTR)
            return err_sys(err, errno, "poll");
        bool came = take(warden, ret_event);
        if (warden->is_gone) {
            *err = warden->why_gone;
            return -1;
        }
        found = came && ret_event->request == request;
        if (came && !found)
            *vec_push(&warden->kept) = *ret_event;
    }
    if (ret_event->type != WARDEN_EVENT_FAILED)
        return 0;
    *err = ret_event->err;
    return -1;
}

int jail_make(struct warden_link *warden, const struct jail_plan *plan, struct jail **ret_jail,
              struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (warden_ask_make(warden, plan, &request, err) < 0 ||
        warden_await(warden, request, &event, err) < 0)
        return -1;
    *ret_jail = event.jail;
    return 0;
}

int warden_pool(struct warden_link *warden, const struct jail_plan *plan, size_t count,
                int64_t idle_ms, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (warden_ask_pool(warden, plan, count, idle_ms, &request, err) < 0)
        return -1;
    return warden_await(warden, request, &event, err);
}

int warden_count(struct warden_link *warden, struct warden_counts *ret_counts, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (warden_ask_count(warden, &request, err) < 0 ||
        warden_await(warden, request, &event, err) < 0)
        return -1;
    *ret_counts = event.counts;
    return 0;
}

int jail_stat(struct jail *jail, struct jail_stats *ret_stats, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_stat(jail, &request, err) < 0 ||
        warden_await(jail->warden, request, &event, err) < 0)
        return -1;
    *ret_stats = event.stats;
    return 0;
}

int jail_kill(struct jail *jail, uint32_t command, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_kill(jail, command, &request, err) < 0)
        return -1;
    return warden_await(jail->warden, request, &event, err);
}

int jail_freeze(struct jail *jail, bool frozen, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_freeze(jail, frozen, &request, err) < 0)
        return -1;
    return warden_await(jail->warden, request, &event, err);
}

int jail_gateway(struct jail *jail, uint16_t proxy_port, int ret_sockets[JAIL_SOCKETS],
                 struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_gateway(jail, proxy_port, &request, err) < 0 ||
        warden_await(jail->warden, request, &event, err) < 0)
        return -1;
    if (!event.has_sockets)
        return err_set(err, ERR_INTERNAL, "the warden sent no sockets");
    memcpy(ret_sockets, event.sockets, sizeof event.sockets);
    return 0;
}

int jail_listen(struct jail *jail, uint16_t port, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_listen(jail, port, &request, err) < 0 ||
        warden_await(jail->warden, request, &event, err) < 0)
        return -1;
    return event.fd < 0 ? err_set(err, ERR_INTERNAL, "the warden sent no socket") : event.fd;
}

int jail_layer(struct jail *jail, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_layer(jail, &request, err) < 0 ||
        warden_await(jail->warden, request, &event, err) < 0)
        return -1;
    return event.fd < 0 ? err_set(err, ERR_INTERNAL, "the warden sent no layer") : event.fd;
}

int jail_seal(struct jail *jail, const struct jail_plan *plan, size_t kept, int64_t most_bytes,
              struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_hold(jail, err) < 0)
        return -1;
    int done = jail_ask_seal(jail, plan, kept, most_bytes, &request, err);
    if (done == 0)
        done = warden_await(jail->warden, request, &event, err);
    jail_release(jail);
    if (done < 0)
        return -1;
    return event.fd < 0 ? err_set(err, ERR_INTERNAL, "the warden sent no layer") : event.fd;
}

int jail_relayer(struct jail *jail, const struct jail_plan *plan, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_relayer(jail, plan, &request, err) < 0)
        return -1;
    return warden_await(jail->warden, request, &event, err);
}

int jail_end(struct jail *jail, struct jail_stats *ret_stats, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_end(jail, &request, err) < 0 ||
        warden_await(jail->warden, request, &event, err) < 0)
        return -1;
    if (ret_stats != NULL)
        *ret_stats = event.stats;
    return 0;
}
