#include "jail/client/jail.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/fd.h"
#include "jail/client/client.h"
#include "jail/wire/init.h"
#include "jail/wire/linux.h"

struct jail *jail_new(struct warden_link *warden, uint32_t number, const int fds[WIRE_FDS_MAX])
{
    struct jail *jail = mem_alloc(sizeof *jail);
    *jail =
        (struct jail){.warden = warden, .number = number, .pidfd = fds[0], .control_fd = fds[1]};
    memcpy(jail->sockets, fds + 2, sizeof jail->sockets);
    return jail;
}

static void asked_done(struct asked *asked)
{
    free(asked->program);
    free(asked->cwd);
}

static void kept_done(struct kept_packet *packet)
{
    wire_close_fds(packet->fds);
    free(packet->bytes);
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
    VEC_EACH (asked, &jail->asked)
        asked_done(asked);
    VEC_EACH (packet, &jail->kept)
        kept_done(packet);
    vec_done(&jail->asked);
    vec_done(&jail->kept);
    outbox_done(&jail->outbox);
    free(jail->last_kept);
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

uint32_t jail_number(const struct jail *jail)
{
    return jail->number;
}

int jail_take_socket(struct jail *jail, enum jail_socket which)
{
    return fd_take(&jail->sockets[which]);
}

bool jail_wants_write(const struct jail *jail)
{
    return !jail->is_gone && !jail->outbox.is_held && !outbox_is_empty(&jail->outbox);
}

int jail_hold(struct jail *jail, size_t commands, struct err *err)
{
    size_t running = 0;
    VEC_EACH (asked, &jail->asked)
        running += asked->kind == ASKED_COMMAND && asked->started;
    if (jail->asked.len > running || running > commands)
        return err_set(err, ERR_BUSY, "an operation is in progress in this jail");
    jail->outbox.is_held = true;
    return 0;
}

void jail_release(struct jail *jail)
{
    struct err lost;
    jail->outbox.is_held = false;
    /* The next read reports that the jail is gone. */
    (void)!outbox_flush(&jail->outbox, jail->control_fd, &lost);
}

struct asked *jail_find_asked(const struct jail *jail, uint32_t id)
{
    VEC_EACH (asked, &jail->asked)
        if (asked->id == id)
            return asked;
    return NULL;
}

static void forget(struct jail *jail, struct asked *asked)
{
    asked_done(asked);
    vec_remove(&jail->asked, (size_t)(asked - jail->asked.ptr));
}

/* --- questions --- */

/* Ids count from 1, and around; one that is under way is not given twice. */
static uint32_t new_id(struct jail *jail)
{
    do {
        jail->last_id++;
    } while (jail->last_id == 0 || jail_find_asked(jail, jail->last_id) != NULL);
    return jail->last_id;
}

struct asked *jail_begin(struct jail *jail, enum asked_kind kind, uint32_t type, struct err *err)
{
    if (jail->is_gone) {
        *err = jail->why_gone;
        return NULL;
    }
    if (jail->asked.len >= JAIL_ASKED_MAX) {
        (void)err_set(err, ERR_BUSY, "%d operations are already in progress in this jail",
                      JAIL_ASKED_MAX);
        return NULL;
    }
    uint32_t id = new_id(jail);
    struct asked *asked = vec_push(&jail->asked);
    *asked = (struct asked){.id = id, .kind = kind};
    wire_begin(&jail->warden->out, type, id);
    return asked;
}

int jail_send(struct jail *jail, const int *fds, size_t fd_count, uint32_t *ret_id, struct err *err)
{
    struct asked *asked = vec_last(&jail->asked);
    struct str packet = buf_str(&jail->warden->out);
    if (outbox_send(&jail->outbox, jail->control_fd, packet, fds, fd_count, err) < 0) {
        forget(jail, asked);
        return err_wrap(err, "send to init");
    }
    *ret_id = asked->id;
    return 0;
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

int jail_ask_start(struct jail *jail, const struct jail_command *command, const int fds[3],
                   uint32_t *ret_id, struct err *err)
{
    struct buf *out = &jail->warden->out;
    const char *cwd = command->cwd == NULL ? "/workspace" : command->cwd;
    if (jail_command_check(command, err) < 0)
        return -1;
    struct asked *asked = jail_begin(jail, ASKED_COMMAND, INIT_START, err);
    if (asked == NULL)
        return -1;
    asked->tty = command->tty;
    asked->program = mem_dup_cstr(command->argv[0]);
    asked->cwd = mem_dup_cstr(cwd);
    wire_put_u32(out, command->tty ? INIT_FLAG_TTY : 0);
    wire_put_u32(out, command->rows);
    wire_put_u32(out, command->cols);
    wire_put_cstr(out, cwd);
    put_words(out, command->argv);
    put_words(out, command->env);
    return jail_send(jail, fds, command->tty ? 0 : 3, ret_id, err);
}

int jail_ask_signal(struct jail *jail, uint32_t id, int sig, uint32_t *ret_id, struct err *err)
{
    if (sig < 0 || sig > 64)
        return err_set(err, ERR_INVALID, "%d is not a signal number", sig);
    if (jail_begin(jail, ASKED_SIGNAL, INIT_SIGNAL, err) == NULL)
        return -1;
    wire_put_u32(&jail->warden->out, id);
    wire_put_u32(&jail->warden->out, (uint32_t)sig);
    return jail_send(jail, NULL, 0, ret_id, err);
}

void jail_rehearse(struct jail *jail)
{
    struct err ignored;
    if (jail->is_gone || jail->asked.len > 0)
        return;
    wire_begin(&jail->warden->out, INIT_REHEARSE, 0);
    (void)!outbox_send(&jail->outbox, jail->control_fd, buf_str(&jail->warden->out), NULL, 0,
                       &ignored);
}

int jail_resize(int tty_fd, uint16_t rows, uint16_t cols, struct err *err)
{
    struct winsize size = {.ws_row = rows, .ws_col = cols};
    if (SYS(ioctl(tty_fd, TIOCSWINSZ, &size)) == 0)
        return 0;
    if (errno == ENOTTY)
        return err_set(err, ERR_INVALID, "only a terminal has rows and columns");
    return err_sys(err, errno, "resize the terminal");
}

/* --- answers --- */

/* Each way not to start has its own words. */
static void jail_explain(const struct asked *asked, uint32_t stage, int code, struct err *err)
{
    const char *program = asked->program;
    switch (stage) {
    case INIT_STAGE_CWD:
        (void)err_set(err, ERR_BAD_CWD, "cannot start in '%s': %s", asked->cwd, strerror(code));
        break;
    case INIT_STAGE_INTERPRETER:
        (void)err_set(err, ERR_PROGRAM_NOT_FOUND,
                      "'%s' exists, but the interpreter it names is not in this sandbox", program);
        break;
    case INIT_STAGE_PROGRAM:
        if (code == ENOENT || code == ENOTDIR)
            (void)err_set(err, ERR_PROGRAM_NOT_FOUND, "no program '%s' in this sandbox", program);
        else if (code == ENOEXEC)
            (void)err_set(err, ERR_EXEC_FORMAT,
                          "'%s' is not a program for this machine (exec format error)", program);
        else if (code == EACCES || code == EPERM)
            (void)err_set(err, ERR_NOT_EXECUTABLE,
                          "cannot run '%s': %s (the file must be executable: chmod +x)", program,
                          strerror(code));
        else
            (void)err_sys(err, code, "cannot run '%s'", program);
        break;
    case INIT_STAGE_LIMIT:
        (void)err_set(err, ERR_LIMIT, "cannot start another command: %s", strerror(code));
        break;
    default:
        (void)err_set(err, ERR_INTERNAL, "init rejected the request as malformed (%d)", code);
    }
    err->sys = code;
}

/* A terminal is what we asked for; anything else that a broken init sends is not let in. */
static bool is_terminal(int fd)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && major(st.st_rdev) == 5 &&
           minor(st.st_rdev) == 2;
}

static bool read_started(struct asked *asked, struct wire_in *in, int fds[WIRE_FDS_MAX],
                         struct jail_event *event)
{
    uint32_t pid = wire_get_u32(in);
    if (!wire_ended(in) || asked->started || (asked->tty && !is_terminal(fds[0])))
        return false;
    asked->started = true;
    event->type = JAIL_EVENT_STARTED;
    event->pid = pid <= INT32_MAX ? (int32_t)pid : 0;
    if (asked->tty)
        event->fd = fd_take(&fds[0]);
    return true;
}

static bool read_refused(struct asked *asked, struct wire_in *in, struct jail_event *event)
{
    uint32_t stage = wire_get_u32(in);
    int code = (int)wire_get_u32(in);
    if (!wire_ended(in) || asked->started)
        return false;
    event->type = JAIL_EVENT_REFUSED;
    jail_explain(asked, stage, code, &event->err);
    return true;
}

static bool read_exit(const struct asked *asked, struct wire_in *in, struct jail_event *event)
{
    struct jail_exit *exit = &event->exit;
    event->type = JAIL_EVENT_EXITED;
    exit->id = asked->id;
    exit->code = (int)wire_get_u32(in);
    exit->signal = (int)wire_get_u32(in);
    exit->user_us = wire_get_i64(in);
    exit->system_us = wire_get_i64(in);
    exit->peak_kib = wire_get_i64(in);
    exit->wall_ns = wire_get_i64(in);
    exit->oom_kills = wire_get_i64(in);
    exit->group_peak = wire_get_i64(in);
    return wire_ended(in) && asked->started;
}

bool jail_exit_is_kill(const struct jail_exit *exit)
{
    return exit->signal == SIGKILL || exit->code == 128 + SIGKILL;
}

bool jail_exit_is_oom(const struct jail_exit *exit, int64_t jail_kills)
{
    if (exit->oom_kills > 0)
        return exit->code != 0 || exit->signal != 0;
    return exit->oom_kills < 0 && jail_kills > 0 && jail_exit_is_kill(exit);
}

static bool read_done(struct wire_in *in, struct jail_event *event)
{
    int code = (int)wire_get_u32(in);
    event->type = code == 0 ? JAIL_EVENT_DONE : JAIL_EVENT_FAILED;
    if (code != 0)
        (void)err_sys(&event->err, code, "signal");
    return wire_ended(in);
}

static bool read_connected(struct wire_in *in, int fds[WIRE_FDS_MAX], struct jail_event *event)
{
    if (!wire_ended(in) || !jail_is_connection(fds[0]))
        return false;
    event->type = JAIL_EVENT_CONNECTED;
    event->fd = fd_take(&fds[0]);
    return true;
}

/* An answer that fits its question. Says whether it was the last one to it. */
static bool read_answer(struct jail *jail, struct asked *asked, uint32_t type, struct wire_in *in,
                        int fds[WIRE_FDS_MAX], struct jail_event *event, bool *ret_last)
{
    bool is_command = asked->kind == ASKED_COMMAND, is_file = asked->kind == ASKED_FILE;
    bool is_connect = asked->kind == ASKED_CONNECT;
    *ret_last = type != INIT_STARTED && type != INIT_PART;
    switch (type) {
    case INIT_STARTED:
        return is_command && read_started(asked, in, fds, event);
    case INIT_REFUSED:
        return is_command && read_refused(asked, in, event);
    case INIT_EXITED:
        return is_command && read_exit(asked, in, event);
    case INIT_DONE:
        return asked->kind == ASKED_SIGNAL && read_done(in, event);
    case INIT_CONNECTED:
        return is_connect && read_connected(in, fds, event);
    case INIT_PART:
        return is_file && jail_read_part(asked, in, event);
    case INIT_ANSWER:
        return is_file && jail_read_file(asked, in, &jail->warden->answer, event);
    case INIT_FAILED:
        if (is_command && (!asked->is_fork || asked->started || !jail_read_failed(in, event)))
            return false;
        if (is_command)
            event->type = JAIL_EVENT_REFUSED;
        return is_command || ((is_file || is_connect) && jail_read_failed(in, event));
    default:
        return false;
    }
}

void jail_lose(struct jail *jail, const struct err *why)
{
    if (jail->is_gone)
        return;
    jail->is_gone = true;
    (void)err_set(&jail->why_gone, ERR_GONE, "the jail has ended%s%s", why == NULL ? "" : ": ",
                  why == NULL ? "" : why->msg);
}

bool jail_read_packet(struct jail *jail, struct str packet, int fds[WIRE_FDS_MAX],
                      struct jail_event *ret_event)
{
    struct wire_head head;
    struct err err;
    bool last = false;
    struct wire_in in = wire_open(packet, &head);
    struct asked *asked = jail_find_asked(jail, head.id);
    *ret_event = (struct jail_event){.id = head.id, .fd = -1};
    bool good = asked != NULL && read_answer(jail, asked, head.type, &in, fds, ret_event, &last);
    wire_close_fds(fds);
    if (good && last)
        forget(jail, asked);
    if (!good) {
        (void)err_set(&err, ERR_INTERNAL, "init sent message %u, which does not answer request %u",
                      head.type, head.id);
        jail_lose(jail, &err);
    }
    return good;
}

size_t jail_take_packet(struct jail *jail, int fds[WIRE_FDS_MAX])
{
    struct err err = {0};
    if (jail->is_gone)
        return 0;
    /* What init said last is read before a socket that takes no more counts as lost. */
    bool can_send = outbox_flush(&jail->outbox, jail->control_fd, &err) == 0;
    ssize_t len = wire_recv(jail->control_fd, jail->warden->in, fds, false, &err);
    if (len < 0 && err.sys == EAGAIN && can_send)
        return 0;
    if (len <= 0)
        jail_lose(jail, len < 0 ? &err : NULL);
    return len <= 0 ? 0 : (size_t)len;
}

bool jail_take_kept(struct jail *jail, size_t index, struct jail_event *ret_event)
{
    struct kept_packet packet = jail->kept.ptr[index];
    vec_remove(&jail->kept, index);
    jail->kept_bytes -= packet.len;
    free(jail->last_kept);
    jail->last_kept = packet.bytes;
    return jail_read_packet(jail, str_n(packet.bytes, packet.len), packet.fds, ret_event);
}

bool jail_next(struct jail *jail, struct jail_event *ret_event)
{
    if (jail->kept.len > 0 && jail_take_kept(jail, 0, ret_event))
        return true;
    int fds[WIRE_FDS_MAX];
    size_t len = jail_take_packet(jail, fds);
    if (len > 0 && jail_read_packet(jail, str_n(jail->warden->in, len), fds, ret_event))
        return true;
    if (!jail->is_gone || jail->is_gone_told)
        return false;
    jail->is_gone_told = true;
    *ret_event = (struct jail_event){.type = JAIL_EVENT_GONE, .fd = -1, .err = jail->why_gone};
    return true;
}
