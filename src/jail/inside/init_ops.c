#include "jail/inside/init_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "jail/inside/helper.h"
#include "jail/inside/init_command.h"
#include "jail/wire/init.h"
#include "jail/wire/linux.h"

enum { CONNECT_MS = 10000 };

static struct sockaddr_in6 loopback_of(int family, uint16_t port, socklen_t *ret_len)
{
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in four = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (family == AF_INET)
        memcpy(&six, &four, sizeof four);
    *ret_len = family == AF_INET ? sizeof four : sizeof six;
    return six;
}

/* A descriptor, 0 or more; -1 with errno. EINPROGRESS is success that is still to come. */
static int try_connect(int family, uint16_t port, bool *ret_is_waiting)
{
    socklen_t len;
    struct sockaddr_in6 address = loopback_of(family, port, &len);
    AUTO_CLOSE int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, len) < 0 && errno != EINPROGRESS)
        return -1;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    *ret_is_waiting = poll(&ready, 1, 0) == 0;
    int code = 0;
    socklen_t size = sizeof code;
    if (!*ret_is_waiting && getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 && code != 0) {
        errno = code;
        return -1;
    }
    return fd_take(&fd);
}

int init_connect(uint16_t port, bool *ret_is_waiting, struct err *err)
{
    static const int families[] = {AF_INET, AF_INET6};
    int code = 0;
    for (size_t i = 0; i < countof(families); i++) {
        bool is_waiting = false;
        int fd = try_connect(families[i], port, &is_waiting);
        if (fd >= 0) {
            *ret_is_waiting = is_waiting;
            return fd;
        }
        if (code == 0)
            code = errno;
    }
    if (code == ECONNREFUSED)
        return err_set(err, ERR_NO_LISTENER, "nothing listens on port %u in the sandbox", port);
    return err_sys(err, code, "connect to port %u in the sandbox", port);
}

/* --- the new process --- */

static void finish_connect(int reply_fd, uint32_t id, int fd)
{
    struct file_reply reply;
    struct err err = {0}, ignored;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int code = 0;
    socklen_t size = sizeof code;
    file_reply_init(&reply, reply_fd, id);
    if (poll(&ready, 1, CONNECT_MS) <= 0)
        code = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) < 0)
        code = errno;
    if (code == 0) {
        wire_begin(&reply.out, INIT_CONNECTED, id);
        code = wire_send(reply_fd, buf_str(&reply.out), &fd, 1, &err) < 0;
    } else {
        (void)err_sys(&err, code, "connect");
        code = file_send_failed(&reply, &err, &ignored) < 0;
    }
    _exit(code);
}

/* At fixed numbers, over init's own: nothing else is left open. */
static bool arrange(const struct op_work *work, int reply_fd)
{
    int data = work->row == NULL ? work->connect_fd : work->data_fd;
    int program = fcntl(work->program_fd, F_DUPFD_CLOEXEC, HELPER_PROGRAM_FD + 1);
    if (dup2(reply_fd, HELPER_REPLY_FD) < 0)
        return false;
    if (data >= 0 ? dup2(data, HELPER_DATA_FD) < 0 : close(HELPER_DATA_FD) < 0)
        return false;
    if (program >= 0 && dup3(program, HELPER_PROGRAM_FD, O_CLOEXEC) < 0)
        return false;
    return k_close_range(HELPER_PROGRAM_FD + (program >= 0), ~0u, 0) == 0;
}

static void NORETURN init_ops_run(const struct op_work *work, int reply_fd)
{
    sigset_t blocked;
    (void)sigemptyset(&blocked);
    /* These are short, and would leave a partial file: when cancelled, they still finish. */
    if (work->row != NULL &&
        (work->row->verb == JAIL_FILE_WRITE || work->row->verb == JAIL_FILE_EDIT))
        (void)sigaddset(&blocked, SIGTERM);
    (void)sigprocmask(SIG_SETMASK, &blocked, NULL);
    (void)setsid();
    if (!arrange(work, reply_fd))
        _exit(1);
    int data_fd = work->data_fd >= 0 ? HELPER_DATA_FD : -1;
    if (work->row == NULL)
        finish_connect(HELPER_REPLY_FD, work->id, HELPER_DATA_FD);
    if (work->program_fd >= 0) {
        char name[] = "files";
        char *argv[] = {name, NULL}, *env[] = {NULL};
        (void)syscall(SYS_execveat, HELPER_PROGRAM_FD, "", argv, env, AT_EMPTY_PATH);
        _exit(1);
    }
    struct file_reply reply;
    struct err err;
    file_reply_init(&reply, HELPER_REPLY_FD, work->id);
    _exit(file_serve(work->row, work->question, data_fd, &reply, &err) < 0);
}

/* --- init's side --- */

int ops_start(struct ops *ops, const struct op_work *work, struct err *err)
{
    int pair[2];
    if (ops->items.len >= OPS_MAX)
        return err_set(err, ERR_BUSY,
                       "%d long file operations are already in progress in this sandbox", OPS_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, errno, "cannot start another operation");
    AUTO_CLOSE int ours = pair[0], theirs = pair[1];
    /* The program reads its question from there once it runs. */
    if (work->program_fd >= 0 && wire_try_send(ours, work->packet, NULL, 0, err) != 1)
        return err_set(err, ERR_TOO_LARGE, "the request is too long for the helper");
    init_oom_score(true);
    pid_t pid = fork();
    if (pid == 0)
        init_ops_run(work, theirs);
    init_oom_score(false);
    if (pid < 0)
        return err_set(err, ERR_LIMIT,
                       "the sandbox's process limit leaves no process for this operation");
    *vec_push(&ops->items) = (struct init_op){
        .id = work->id, .pid = pid, .fd = fd_take(&ours), .is_connect = work->row == NULL};
    return 0;
}

void ops_remove(struct ops *ops, size_t index)
{
    fd_close(&ops->items.ptr[index].fd);
    vec_remove(&ops->items, index);
}

bool ops_cancel(struct ops *ops, uint32_t id)
{
    for (size_t i = 0; i < ops->items.len; i++) {
        struct init_op *op = &ops->items.ptr[i];
        if (op->id != id)
            continue;
        if (op->pid > 0) {
            (void)kill(op->pid, SIGTERM);
            (void)kill(op->pid, SIGCONT); /* the tenant may have stopped it */
        }
        ops_remove(ops, i);
        return true;
    }
    return false;
}

void ops_reaped(struct ops *ops, pid_t pid)
{
    VEC_EACH (op, &ops->items)
        if (op->pid == pid)
            op->pid = -1; /* the kernel may soon reuse the number */
}
