/* pid 1 of a jail: starts commands, reaps, reports. It holds no secrets and trusts no
 * other process: its children are tenants, its owner's messages are checked. */

#include "jail/wire/init.h"
#include "base/defended.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
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
#include "jail/cgroup/cgroup.h"
#include "jail/inside/init_command.h"
#include "jail/inside/init_group.h"
#include "jail/inside/init_ops.h"
#include "jail/inside/setup.h"
#include "jail/wire/wire.h"

enum { THREAD_STACK = 1 << 20 };

struct running {
    uint32_t id;
    pid_t pid; /* 0: not started yet */
    int64_t since_ns;
    int start_fd;  /* of one that was forked in; -1: none */
    int group;     /* init_group.h */
    int64_t kills; /* of its group, when it started */
};

struct init {
    int control_fd;
    int signal_fd;
    VEC(struct running) running;
    struct ops ops;
    bool needs_thread; /* init_group.h */
    VEC(struct pollfd) waits;
    struct buf out;
    char in[WIRE_MAX];
    int fds[WIRE_FDS_MAX]; /* that came with the message under way */
};

static struct init self; /* pid 1 is one of a kind; static keeps the big buffer off the stack */

/* Without an owner init is not needed: its exit ends every process of the jail. */
static void init_say(const int *fds, size_t fd_count)
{
    struct err err;
    if (wire_send(self.control_fd, buf_str(&self.out), fds, fd_count, &err) < 0)
        _exit(1);
}

static void say_done(uint32_t id, int code)
{
    wire_begin(&self.out, INIT_DONE, id);
    wire_put_u32(&self.out, (uint32_t)code);
    init_say(NULL, 0);
}

static void init_refuse(uint32_t id, enum init_stage stage, int code)
{
    wire_begin(&self.out, INIT_REFUSED, id);
    wire_put_u32(&self.out, stage);
    wire_put_u32(&self.out, (uint32_t)code);
    init_say(NULL, 0);
}

static void say_failed(uint32_t id, const struct err *why)
{
    wire_begin(&self.out, INIT_FAILED, id);
    wire_put_err(&self.out, why);
    init_say(NULL, 0);
}

static struct init_command to_start; /* big, and one is read at a time */

static void on_start(uint32_t id, struct wire_in *in)
{
    if (!init_command_read(&to_start, in, self.fds)) {
        init_refuse(id, INIT_STAGE_MESSAGE, EINVAL);
        return;
    }
    struct init_started started;
    int group = init_group_take();
    int64_t kills = init_group_kills(group);
    if (!init_command_start(&to_start, id, &started)) {
        init_group_leave(group);
        init_refuse(id, started.stage, started.code);
        return;
    }
    *vec_push(&self.running) = (struct running){.id = id,
                                                .pid = started.pid,
                                                .since_ns = started.since_ns,
                                                .start_fd = -1,
                                                .group = group,
                                                .kills = kills};
    wire_begin(&self.out, INIT_STARTED, id);
    wire_put_u32(&self.out, (uint32_t)started.pid);
    init_say(&started.master_fd, started.master_fd >= 0 ? 1 : 0);
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
    if (command->start_fd < 0)
        return kill(-command->pid, sig) < 0 ? errno : 0;
    return send(command->start_fd, &number, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

static int signal_all(int sig)
{
    int code = kill(-1, sig) < 0 ? errno : 0;
    VEC_EACH (command, &self.running)
        if (command->start_fd >= 0 && signal_one(command, sig) == 0)
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

static void init_on_signal(uint32_t id, struct wire_in *in)
{
    uint32_t command = wire_get_u32(in), sig = wire_get_u32(in);
    say_done(id, !wire_ended(in) || sig > 64 ? EINVAL : send_signal(command, (int)sig));
}

static void on_adopt(uint32_t id, struct wire_in *in)
{
    struct err err;
    if (!wire_ended(in) || self.fds[0] < 0) {
        (void)err_set(&err, ERR_INVALID, "init: malformed request");
        return say_failed(id, &err);
    }
    *vec_push(&self.running) = (struct running){.id = id,
                                                .since_ns = clock_now_ns(),
                                                .start_fd = fd_take(&self.fds[0]),
                                                .group = INIT_NO_GROUP};
}

/* Reads the start message of an interpreter, sent before it runs tenant code, or by the zygote if
 * the fork fails. Returns true if the start has failed. */
static bool read_start_message(struct running *command)
{
    struct err err = {0};
    struct wire_head head = {0};
    ssize_t len = wire_recv(command->start_fd, self.in, self.fds, false, &err);
    if (len < 0 && err.sys == EAGAIN)
        return false;
    struct wire_in in = wire_open(str_n(self.in, len > 0 ? (size_t)len : 0), &head);
    uint32_t pid = head.type == INIT_STARTED ? wire_get_u32(&in) : 0;
    wire_close_fds(self.fds);
    if (pid > 1 && pid <= INT32_MAX && wire_ended(&in)) {
        command->pid = (pid_t)pid;
        wire_begin(&self.out, INIT_STARTED, command->id);
        wire_put_u32(&self.out, pid);
        init_say(NULL, 0);
        return false;
    }
    if (head.type == INIT_FAILED)
        wire_get_err(&in, &err);
    else
        (void)err_set(&err, ERR_UNAVAILABLE, "the interpreter died while it was forked");
    say_failed(command->id, &err);
    return true;
}

static void read_start_messages(void)
{
    for (size_t i = self.running.len; i-- > 0;) {
        struct running *command = &self.running.ptr[i];
        if (command->pid != 0 || !read_start_message(command))
            continue;
        fd_close(&command->start_fd);
        vec_remove(&self.running, i);
    }
}

static void on_group(UNUSED uint32_t id, struct wire_in *in)
{
    if (wire_ended(in) && self.fds[PART_FILES - 1] >= 0)
        self.needs_thread |= init_group_add(self.fds);
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
        (void)err_set(&err, ERR_INVALID, "not a port number");
    else
        fd = init_connect((uint16_t)port, &is_waiting, &err);
    if (fd >= 0 && !is_waiting) {
        wire_begin(&self.out, INIT_CONNECTED, id);
        init_say(&fd, 1);
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
            return err_set(err, ERR_INVALID, "the helper program of this operation is missing");
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
        (void)err_set(&err, ERR_INVALID, "init: malformed request");
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
    {INIT_START, on_start},     {INIT_SIGNAL, init_on_signal}, {INIT_CANCEL, on_cancel},
    {INIT_CONNECT, on_connect}, {INIT_REHEARSE, on_rehearse},  {INIT_ADOPT, on_adopt},
    {INIT_GROUP, on_group},
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
    init_refuse(head.id, INIT_STAGE_MESSAGE, ENOSYS);
}

static void init_on_message(void)
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
    struct init_op *op = &self.ops.items.ptr[index];
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
    int64_t kills = init_group_kills(command->group);
    wire_put_i64(&self.out, kills < 0 || command->kills < 0 ? -1 : kills - command->kills);
    wire_put_i64(&self.out, init_group_peak(command->group));
    init_group_leave(command->group);
    init_say(NULL, 0);
}

/* One signal may stand for many children, and most of them are not ours: orphans whose parent
 * ended. */
static void init_reap(void)
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
        read_start_messages(); /* this may have been one whose first word is still unread */
        for (size_t i = 0; i < self.running.len; i++) {
            if (self.running.ptr[i].pid != pid)
                continue;
            report_exit(&self.running.ptr[i], status, &usage);
            fd_close(&self.running.ptr[i].start_fd);
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
            *vec_push(&self.waits) = (struct pollfd){.fd = command->start_fd, .events = POLLIN};
    int wait_ms = init_group_wait_ms();
    int ready = wait_ms == 0 ? 0 : poll(self.waits.ptr, self.waits.len, wait_ms);
    if (ready <= 0) {
        init_group_move();
        return;
    }
    if (self.waits.len > ops + 2)
        read_start_messages();
    if (self.waits.ptr[1].revents != 0)
        init_reap();
    for (size_t i = ops; i-- > 0;) /* from the end: one that is done leaves the list */
        if (self.waits.ptr[i + 2].revents != 0)
            on_op(i);
    if (self.waits.ptr[0].revents != 0)
        init_on_message();
}

static void *work(UNUSED void *unused)
{
    init_group_begin();
    for (;;)
        wait_once();
    return NULL;
}

/* The first thread has nothing left to do. When there cannot be another it continues, and commands
 * run in the group of the jail. */
static void hand_to_thread(void)
{
    pthread_t thread;
    pthread_attr_t attr;
    self.needs_thread = false;
    if (pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, THREAD_STACK) != 0 ||
        pthread_create(&thread, &attr, work, NULL) != 0)
        return;
    for (;;)
        (void)poll(NULL, 0, -1);
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
    init_say(NULL, 0);
    for (;;) {
        wait_once();
        if (self.needs_thread)
            hand_to_thread();
    }
}
