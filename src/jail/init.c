/* pid 1 of a jail: starts commands, reaps, reports. It holds nothing of worth and trusts nobody:
 * its children are tenants, its maker's messages are checked. */

#include "jail/init.h"
#include "base/defended.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/vec.h"
#include "jail/init_command.h"
#include "jail/init_ops.h"
#include "jail/setup.h"
#include "jail/wire.h"

struct running {
    uint32_t id;
    pid_t pid; /* 0: not born yet */
    int64_t since_ns;
    int birth_fd; /* of one that was forked in; -1: none */
};

struct init {
    int control_fd;
    int signal_fd;
    VEC(struct running) running;
    struct ops ops;
    VEC(struct pollfd) waits;
    struct buf out;
    char in[WIRE_MAX];
    int fds[WIRE_FDS_MAX]; /* that came with the message under way */
};

static struct init self; /* pid 1 is one of a kind; static keeps the big buffer off the stack */

/* Without a maker there is nobody to be init for: leaving ends every process in here. */
static void say(const int *fds, size_t fd_count)
{
    struct err err;
    if (wire_send(self.control_fd, buf_str(&self.out), fds, fd_count, &err) < 0)
        _exit(1);
}

static void say_done(uint32_t id, int code)
{
    wire_begin(&self.out, INIT_DONE, id);
    wire_put_u32(&self.out, (uint32_t)code);
    say(NULL, 0);
}

static void refuse(uint32_t id, enum init_stage stage, int code)
{
    wire_begin(&self.out, INIT_REFUSED, id);
    wire_put_u32(&self.out, stage);
    wire_put_u32(&self.out, (uint32_t)code);
    say(NULL, 0);
}

static void say_failed(uint32_t id, const struct err *why)
{
    wire_begin(&self.out, INIT_FAILED, id);
    wire_put_err(&self.out, why);
    say(NULL, 0);
}

static struct init_command to_start; /* big, and one is read at a time */

static void on_start(uint32_t id, struct wire_in *in)
{
    if (!init_command_read(&to_start, in, self.fds)) {
        refuse(id, INIT_STAGE_MESSAGE, EINVAL);
        return;
    }
    struct init_started started;
    if (!init_command_start(&to_start, id, &started)) {
        refuse(id, started.stage, started.code);
        return;
    }
    *vec_push(&self.running) = (struct running){
        .id = id, .pid = started.pid, .since_ns = started.since_ns, .birth_fd = -1};
    wire_begin(&self.out, INIT_STARTED, id);
    wire_put_u32(&self.out, (uint32_t)started.pid);
    say(&started.master_fd, started.master_fd >= 0 ? 1 : 0);
    fd_close(&started.master_fd);
}

/* A first command pays for every page and every path in the kernel that was not used yet: a tenth
 * of a millisecond. A jail that waits for its owner pays ahead, with a command that cannot start:
 * it goes the same way, up to the exec of a directory. */
static void on_rehearse(UNUSED uint32_t id, struct wire_in *in)
{
    static const int streams[] = {0, 1, 2};
    struct init_started started;
    if (!wire_ended(in) || self.running.len > 0)
        return;
    to_start.argv[0] = to_start.cwd = "/";
    to_start.argv[1] = to_start.env[0] = NULL;
    to_start.tty = false;
    to_start.fds = streams;
    if (init_command_start(&to_start, 0, &started))
        _exit(1); /* a directory was run */
    *vec_push(&self.running) = (struct running){0};
    self.running.len = 0;
    while (started.pid > 0 && waitpid(started.pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* One that was forked in lives in a Landlock domain of its own, out of which and into which no
 * signal goes: it is asked to signal itself. */
static int signal_one(const struct running *command, int sig)
{
    unsigned char number = (unsigned char)sig;
    if (command->pid == 0)
        return ESRCH;
    if (command->birth_fd < 0)
        return kill(-command->pid, sig) < 0 ? errno : 0;
    return send(command->birth_fd, &number, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

static int signal_all(int sig)
{
    int code = kill(-1, sig) < 0 ? errno : 0;
    VEC_EACH (command, &self.running)
        if (command->birth_fd >= 0 && signal_one(command, sig) == 0)
            code = 0;
    return code;
}

static int send_signal(uint32_t id, int sig)
{
    if (id == 0)
        return signal_all(sig);
    VEC_EACH (command, &self.running)
        if (command->id == id)
            return signal_one(command, sig);
    return ESRCH;
}

static void on_signal(uint32_t id, struct wire_in *in)
{
    uint32_t command = wire_get_u32(in), sig = wire_get_u32(in);
    say_done(id, !wire_ended(in) || sig > 64 ? EINVAL : send_signal(command, (int)sig));
}

static void on_adopt(uint32_t id, struct wire_in *in)
{
    struct err err;
    if (!wire_ended(in) || self.fds[0] < 0) {
        (void)err_set(&err, ERR_INVALID, "init did not understand the question");
        return say_failed(id, &err);
    }
    *vec_push(&self.running) =
        (struct running){.id = id, .since_ns = clock_now_ns(), .birth_fd = fd_take(&self.fds[0])};
}

/* What a kernel says before it runs anything of a tenant's; its maker, when there is none. Says
 * whether the birth is over without one. */
static bool hear_birth(struct running *command)
{
    struct err err = {0};
    struct wire_head head = {0};
    ssize_t len = wire_recv(command->birth_fd, self.in, self.fds, false, &err);
    if (len < 0 && err.sys == EAGAIN)
        return false;
    struct wire_in in = wire_open(str_n(self.in, len > 0 ? (size_t)len : 0), &head);
    uint32_t pid = head.type == INIT_STARTED ? wire_get_u32(&in) : 0;
    wire_close_fds(self.fds);
    if (pid > 1 && pid <= INT32_MAX && wire_ended(&in)) {
        command->pid = (pid_t)pid;
        wire_begin(&self.out, INIT_STARTED, command->id);
        wire_put_u32(&self.out, pid);
        say(NULL, 0);
        return false;
    }
    if (head.type == INIT_FAILED)
        wire_get_err(&in, &err);
    else
        (void)err_set(&err, ERR_UNAVAILABLE, "the kernel died while it was forked");
    say_failed(command->id, &err);
    return true;
}

static void hear_births(void)
{
    for (size_t i = self.running.len; i-- > 0;) {
        struct running *command = &self.running.ptr[i];
        if (command->pid != 0 || !hear_birth(command))
            continue;
        fd_close(&command->birth_fd);
        vec_remove(&self.running, i);
    }
}

static void on_ping(uint32_t id, struct wire_in *in)
{
    say_done(id, wire_ended(in) ? 0 : EINVAL);
}

static void on_cancel(uint32_t id, UNUSED struct wire_in *in)
{
    struct err err;
    if (!ops_cancel(&self.ops, id))
        return; /* its answer is on the way */
    (void)err_set(&err, ERR_CANCELED, "cancelled");
    say_failed(id, &err);
}

static void on_connect(uint32_t id, struct wire_in *in)
{
    struct err err = {0};
    uint32_t port = wire_get_u32(in);
    bool is_waiting = false;
    AUTO_CLOSE int fd = -1;
    if (!wire_ended(in) || port == 0 || port > 65535)
        (void)err_set(&err, ERR_INVALID, "no port");
    else
        fd = init_connect((uint16_t)port, &is_waiting, &err);
    if (fd >= 0 && !is_waiting) {
        wire_begin(&self.out, INIT_CONNECTED, id);
        say(&fd, 1);
        return;
    }
    struct op_work work = {.id = id, .program_fd = -1, .data_fd = -1, .connect_fd = fd};
    if (fd < 0 || ops_start(&self.ops, &work, &err) < 0)
        say_failed(id, &err);
}

/* The data descriptor comes first, the program last. */
static int start_op(const struct file_row *row, enum file_worker worker,
                    const struct jail_file *question, uint32_t id, struct str packet,
                    struct err *err)
{
    struct op_work work = {.id = id,
                           .row = row,
                           .question = question,
                           .packet = packet,
                           .program_fd = -1,
                           .data_fd = row->needs_fd ? self.fds[0] : -1,
                           .connect_fd = -1};
    if (worker == FILE_HELPER) {
        work.program_fd = self.fds[row->needs_fd ? 1 : 0];
        if (work.program_fd < 0)
            return err_set(err, ERR_INVALID, "this operation needs its program");
    }
    return ops_start(&self.ops, &work, err);
}

static void on_file(const struct file_row *row, uint32_t id, struct str packet)
{
    static struct file_reply reply; /* keeps its memory */
    struct jail_file question;
    struct err err = {0};
    struct wire_head head;
    struct wire_in in = wire_open(packet, &head);
    if (!file_get_question(&in, row->verb, &question)) {
        (void)err_set(&err, ERR_INVALID, "init did not understand the question");
        say_failed(id, &err);
        return;
    }
    enum file_worker worker = file_worker_of(row, &question);
    if (worker != FILE_INLINE) {
        if (start_op(row, worker, &question, id, packet, &err) < 0)
            say_failed(id, &err);
        return;
    }
    if (reply.fd == 0)
        file_reply_init(&reply, self.control_fd, id);
    reply.id = id;
    buf_clear(&reply.bytes);
    if (file_serve(row, &question, -1, &reply, &err) < 0)
        _exit(1);
}

static const struct {
    uint32_t type;
    void (*handle)(uint32_t id, struct wire_in *in);
} handlers[] = {
    {INIT_START, on_start},   {INIT_SIGNAL, on_signal},   {INIT_PING, on_ping},
    {INIT_CANCEL, on_cancel}, {INIT_CONNECT, on_connect}, {INIT_REHEARSE, on_rehearse},
    {INIT_ADOPT, on_adopt},
};

static void dispatch(struct str packet)
{
    struct wire_head head;
    struct wire_in in = wire_open(packet, &head);
    const struct file_row *row = file_row_of(head.type);
    if (row != NULL)
        return on_file(row, head.id, packet);
    for (size_t i = 0; i < countof(handlers); i++)
        if (handlers[i].type == head.type)
            return handlers[i].handle(head.id, &in);
    refuse(head.id, INIT_STAGE_MESSAGE, ENOSYS);
}

static void on_message(void)
{
    struct err err;
    ssize_t len = wire_recv(self.control_fd, self.in, self.fds, true, &err);
    if (len <= 0)
        _exit(0);
    dispatch(str_n(self.in, (size_t)len));
    wire_close_fds(self.fds);
}

/* What a process of ours has to say goes up unread. One that ends without a last word was killed:
 * by the tenant, or for its memory. */
static void on_op(size_t index)
{
    struct op *op = &self.ops.items.ptr[index];
    struct err err = {0};
    struct wire_head head = {0};
    ssize_t len = wire_recv(op->fd, self.in, self.fds, false, &err);
    if (len < 0 && err.sys == EAGAIN)
        return;
    struct str packet = str_n(self.in, len > 0 ? (size_t)len : 0);
    (void)wire_open(packet, &head);
    bool is_last = head.type == INIT_ANSWER || head.type == INIT_FAILED ||
                   (head.type == INIT_CONNECTED && op->is_connect);
    bool is_good = head.id == op->id && (is_last || (head.type == INIT_PART && !op->is_connect));
    if (is_good) {
        if (wire_send(self.control_fd, packet, self.fds, head.type == INIT_CONNECTED, &err) < 0)
            _exit(1);
    } else {
        (void)err_set(&err, ERR_LIMIT, "the operation was killed in the sandbox");
        say_failed(op->id, &err);
    }
    wire_close_fds(self.fds);
    if (is_last || !is_good)
        ops_remove(&self.ops, index);
}

static int64_t micros(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

static void report_exit(const struct running *command, int status, const struct rusage *usage)
{
    wire_begin(&self.out, INIT_EXITED, command->id);
    wire_put_u32(&self.out, WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0);
    wire_put_u32(&self.out, WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0);
    wire_put_i64(&self.out, micros(usage->ru_utime));
    wire_put_i64(&self.out, micros(usage->ru_stime));
    wire_put_i64(&self.out, usage->ru_maxrss);
    wire_put_i64(&self.out, clock_now_ns() - command->since_ns);
    say(NULL, 0);
}

/* One signal may stand for many children, and most children are strangers that lost their
 * parent. */
static void reap(void)
{
    struct signalfd_siginfo info;
    while (read(self.signal_fd, &info, sizeof info) > 0)
        ;
    for (;;) {
        int status;
        struct rusage usage;
        pid_t pid = wait4(-1, &status, WNOHANG, &usage);
        if (pid <= 0)
            return;
        ops_reaped(&self.ops, pid);
        hear_births(); /* this may have been one whose first word is still unread */
        for (size_t i = 0; i < self.running.len; i++) {
            if (self.running.ptr[i].pid != pid)
                continue;
            report_exit(&self.running.ptr[i], status, &usage);
            fd_close(&self.running.ptr[i].birth_fd);
            vec_remove(&self.running, i);
            break;
        }
    }
}

static void open_signals(void)
{
    sigset_t children;
    (void)sigemptyset(&children);
    (void)sigaddset(&children, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &children, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    self.signal_fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (self.signal_fd < 0)
        _exit(1);
}

static void wait_once(void)
{
    size_t ops = self.ops.items.len;
    self.waits.len = 0;
    *vec_push(&self.waits) = (struct pollfd){.fd = self.control_fd, .events = POLLIN};
    *vec_push(&self.waits) = (struct pollfd){.fd = self.signal_fd, .events = POLLIN};
    for (size_t i = 0; i < ops; i++)
        *vec_push(&self.waits) = (struct pollfd){.fd = self.ops.items.ptr[i].fd, .events = POLLIN};
    VEC_EACH (command, &self.running)
        if (command->pid == 0)
            *vec_push(&self.waits) = (struct pollfd){.fd = command->birth_fd, .events = POLLIN};
    if (poll(self.waits.ptr, self.waits.len, -1) < 0)
        return;
    if (self.waits.len > ops + 2)
        hear_births();
    if (self.waits.ptr[1].revents != 0)
        reap();
    for (size_t i = ops; i-- > 0;) /* from the end: one that is done leaves the list */
        if (self.waits.ptr[i + 2].revents != 0)
            on_op(i);
    if (self.waits.ptr[0].revents != 0)
        on_message();
}

void init_serve(void)
{
    /* Our uid is the tenant's too. */
    if (prctl(PR_SET_DUMPABLE, !DEFENDED(INIT_UNDUMPABLE), 0, 0, 0) < 0)
        _exit(1);
    self.control_fd = SETUP_CONTROL_FD;
    if (fcntl(self.control_fd, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(SETUP_OOM_FD, F_SETFD, FD_CLOEXEC) < 0)
        _exit(1);
    open_signals();
    self.out = buf_with_limit(WIRE_MAX);
    wire_begin(&self.out, INIT_READY, 0);
    say(NULL, 0);
    for (;;)
        wait_once();
}
