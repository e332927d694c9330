/* The process that makes jails: how it is started, and what it answers. */

#include "jail/client/warden_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/defended.h"
#include "base/fd.h"
#include "jail/client/client.h"
#include "jail/wire/init.h"
#include "jail/wire/init_program.h"
#include "jail/wire/linux.h"
#include "jail/wire/warden.h"

/* In the child: safe calls only, since the caller may have threads. */
static void NORETURN run_warden(int program, int socket, char *without)
{
    char name[] = "sandglass-warden";
    char *argv[] = {name, without, NULL}, *env[] = {NULL};
    int kept = fcntl(socket, F_DUPFD, 10), exe = fcntl(program, F_DUPFD_CLOEXEC, 10);
    if (kept >= 0 && exe >= 0 && dup2(kept, SETUP_CONTROL_FD) >= 0 &&
        dup3(exe, SETUP_CONTROL_FD + 1, O_CLOEXEC) >= 0 &&
        (!DEFENDED(CLOSE_RANGE) || k_close_range(SETUP_CONTROL_FD + 2, ~0u, 0) == 0))
        (void)syscall(SYS_execveat, SETUP_CONTROL_FD + 1, "", argv, env, AT_EMPTY_PATH);
    _exit(127);
}

/* What of the host's control groups a test does without: see cgroup_host_open. Or `many_forks`: see
 * warden_replace_zygotes_soon. */
static char *test_without(void)
{
#ifdef SG_FAULTS
    return getenv("SG_TEST_WITHOUT"); /* NOLINT(concurrency-mt-unsafe): tests set it at the start */
#else
    return NULL;
#endif
}

static int fork_warden(struct warden_link *warden, struct err *err)
{
    AUTO_CLOSE int program = fd_sealed_program("warden", warden_program[0].bytes, 0555, err);
    int pair[2];
    if (program < 0)
        return -1;
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "socketpair");
    warden->fd = pair[0];
    AUTO_CLOSE int inner = pair[1];
    char *without = test_without();
    warden->pid = SYS(vfork());
    if (warden->pid == 0)
        run_warden(program, inner, without);
    if (warden->pid < 0)
        return err_sys(err, errno, "fork");
    return 0;
}

static void copy_reason(char out[96], const char *reason)
{
    (void)snprintf(out, 96, "%s", reason == NULL ? "" : reason);
}

static int read_ready(struct warden_link *warden, struct err *err)
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
        return err_set(err, ERR_UNAVAILABLE, "the warden exited before READY");
    warden->host.privileged = wire_get_u32(&in) != 0;
    warden->host.landlock = (int)wire_get_u32(&in);
    copy_reason(warden->host.no_memory, wire_get_cstr(&in));
    copy_reason(warden->host.no_pids, wire_get_cstr(&in));
    copy_reason(warden->host.no_cpu, wire_get_cstr(&in));
    copy_reason(warden->host.no_freeze, wire_get_cstr(&in));
    return wire_ended(&in) ? 0 : err_set(err, ERR_INTERNAL, "the warden sent a malformed READY");
}

int warden_start(struct warden_link **ret_warden, struct err *err)
{
    AUTO_WARDEN struct warden_link *warden = mem_alloc(sizeof *warden);
    warden->fd = warden->helper_fd = -1;
    warden->out = buf_with_limit(WIRE_MAX);
    if (fork_warden(warden, err) < 0 || read_ready(warden, err) < 0)
        return err_wrap(err, "start the warden");
    *ret_warden = warden;
    warden = NULL;
    return 0;
}

struct warden_link *warden_free(struct warden_link *warden)
{
    if (warden == NULL)
        return NULL;
    VEC_EACH (event, &warden->kept) { /* not fetched */
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
    (void)err_set(&warden->why_gone, ERR_UNAVAILABLE, "the warden process has exited%s%s",
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
    event->stats.zygote = wire_get_u32(in);
    event->stats.cpu_us = wire_get_i64(in);
    event->stats.tasks = wire_get_i64(in);
    event->stats.processes = wire_get_i64(in);
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
    event->counts.cpu_us = wire_get_i64(in);
    event->counts.memory_bytes = wire_get_i64(in);
    return wire_ended(in);
}

/* One socket, or those of a gateway. */
static bool warden_link_read_done(int fds[WIRE_FDS_MAX], struct warden_event *event)
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

static bool warden_link_read_answer(struct warden_link *warden, struct wire_head head,
                                    struct wire_in *in, int fds[WIRE_FDS_MAX],
                                    struct warden_event *event)
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
        return warden_link_read_done(fds, event);
    case WARDEN_SEALED:
        event->type = WARDEN_EVENT_DONE;
        event->layer = wire_get_u32(in);
        if (!wire_ended(in) || fds[0] < 0)
            return false;
        event->fd = fd_take(&fds[0]);
        return true;
    case WARDEN_WANTS_GATEWAY:
    case WARDEN_KILLED_LOCKER:
        event->type = head.type == WARDEN_WANTS_GATEWAY ? WARDEN_EVENT_WANTS_GATEWAY
                                                        : WARDEN_EVENT_KILLED_LOCKER;
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

bool warden_take(struct warden_link *warden, struct warden_event *ret_event)
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
    bool good = warden_link_read_answer(warden, head, &in, fds, ret_event);
    wire_close_fds(fds);
    if (!good) {
        (void)err_set(&err, ERR_INTERNAL, "its answer (type %u) is malformed", head.type);
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
    if (warden_take(warden, ret_event))
        return true;
    if (!warden->is_gone || warden->is_gone_told)
        return false;
    warden->is_gone_told = true;
    *ret_event =
        (struct warden_event){.type = WARDEN_EVENT_GONE, .fd = -1, .err = warden->why_gone};
    return true;
}

/* Numbers count from 1; 0 is for events without a request. */
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
        return err_wrap(err, "send to the warden");
    return 0;
}
