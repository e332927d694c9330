#include "runtime/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/sys.h"
#include "kernel/frame.h"

enum {
    LINE,
    OUT,
    ERR,
    READ_MAX = 64 << 10,
    CODE_MAX = 4 << 20,
    TURN_MAX = 4 << 20, /* bytes of the line that are read before others have their turn */
    SPARE_MAX = 1 << 20 /* bytes of an empty buffer that are kept for what comes */
};

struct kernel {
    int fds[3];
    bool is_dry[3];     /* nothing will come of it */
    struct buf in, out; /* of the line */
    size_t at;          /* where in `in` the next frame begins */
    size_t consumed;    /* of `in`, by the event that was told last */
    struct frame cut;   /* the head of a frame that is too long to be kept */
    size_t cut_left;    /* bytes of it that are to go by */
    bool is_cut;        /* there is such a frame */
    char output[READ_MAX];
    int64_t before[3]; /* output that was there when a frame came: told first */
    bool holds_frame;  /* `in` begins with a whole frame, waiting for the output before it */
    bool busy, gone;
    bool is_copying; /* that is what it is busy with */
    uint32_t next_id;
};

static int make_channel(int kind, struct kernel *kernel, int inner[3], struct err *err)
{
    int pair[2];
    int made = kind == LINE ? SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
                            : SYS(pipe2(pair, O_CLOEXEC));
    if (made < 0)
        return err_sys(err, errno, "make a channel to the kernel");
    kernel->fds[kind] = pair[0];
    inner[kind] = pair[1];
    if (fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0)
        return err_sys(err, errno, "make a channel to the kernel");
    return 0;
}

int kernel_open(struct kernel **ret_kernel, int ret_inner[3], struct err *err)
{
    AUTO_KERNEL struct kernel *kernel = mem_alloc(sizeof *kernel);
    int inner[3] = {-1, -1, -1};
    kernel->in = buf_with_limit(KERNEL_KEPT_MAX + FRAME_HEAD + 2 * READ_MAX);
    memset(kernel->fds, -1, sizeof kernel->fds);
    for (int kind = LINE; kind <= ERR; kind++) {
        if (make_channel(kind, kernel, inner, err) == 0)
            continue;
        for (int i = LINE; i <= ERR; i++)
            fd_close(&inner[i]);
        return -1;
    }
    memcpy(ret_inner, inner, sizeof inner);
    *ret_kernel = kernel;
    kernel = NULL;
    return 0;
}

struct kernel *kernel_free(struct kernel *kernel)
{
    if (kernel == NULL)
        return NULL;
    for (int i = LINE; i <= ERR; i++)
        fd_close(&kernel->fds[i]);
    buf_done(&kernel->in);
    buf_done(&kernel->out);
    free(kernel);
    return NULL;
}

void kernel_fds(const struct kernel *kernel, int ret_fds[3])
{
    for (int i = LINE; i <= ERR; i++)
        ret_fds[i] = kernel->is_dry[i] ? -1 : kernel->fds[i];
}

bool kernel_wants_write(const struct kernel *kernel)
{
    return kernel->out.len > 0;
}

bool kernel_is_busy(const struct kernel *kernel)
{
    return kernel->busy;
}

static void flush(struct kernel *kernel)
{
    while (kernel->out.len > 0) {
        ssize_t sent =
            send(kernel->fds[LINE], kernel->out.ptr, kernel->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            return; /* no room now, or gone, which reading tells */
        buf_consume(&kernel->out, (size_t)sent);
    }
}

int kernel_run(struct kernel *kernel, struct str code, struct str language, struct str env,
               struct err *err)
{
    if (kernel->gone)
        return err_set(err, ERR_GONE, "the kernel is gone");
    if (kernel->busy)
        return err_set(err, ERR_BUSY, "the kernel runs other code; wait for it or interrupt it");
    if (code.len > CODE_MAX)
        return err_set(err, ERR_TOO_LARGE, "code of %zu bytes; at most %d", code.len, CODE_MAX);
    kernel->busy = true;
    frame_write(&kernel->out, FRAME_RUN, ++kernel->next_id, (struct str[]){code, language, env}, 3);
    flush(kernel);
    return 0;
}

int kernel_set_env(struct kernel *kernel, struct str env, struct err *err)
{
    if (kernel->gone)
        return err_set(err, ERR_GONE, "the kernel is gone");
    frame_write(&kernel->out, FRAME_ENV, 0, &env, 1);
    flush(kernel);
    return 0;
}

/* One byte, for it is read by itself: what reads frames would lose the descriptor. */
static int send_descriptor(int line, int fd)
{
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    return SYS(sendmsg(line, &message, MSG_NOSIGNAL | MSG_DONTWAIT)) == 1 ? 0 : -1;
}

int kernel_copy(struct kernel *kernel, int fd, uint32_t limit_mib, struct err *err)
{
    if (kernel->gone)
        return err_set(err, ERR_GONE, "the kernel is gone");
    if (kernel->busy)
        return err_set(err, ERR_BUSY, "the kernel runs code; wait for it or interrupt it");
    frame_write_numbers(&kernel->out, FRAME_COPY, 0, &limit_mib, 1);
    flush(kernel);
    if (kernel->out.len > 0 || send_descriptor(kernel->fds[LINE], fd) < 0) {
        /* It would wait for the byte and hear nothing else. */
        (void)shutdown(kernel->fds[LINE], SHUT_RDWR);
        return err_set(err, ERR_GONE, "the kernel does not listen");
    }
    kernel->busy = kernel->is_copying = true;
    return 0;
}

static bool tell_gone(struct kernel *kernel, struct kernel_event *event, const struct err *why)
{
    if (kernel->gone)
        return false;
    kernel->gone = true;
    kernel->busy = false;
    event->type = KERNEL_GONE;
    event->err = *why;
    return true;
}

/* At most `limit` bytes of a pipe as an event. */
static bool take_output(struct kernel *kernel, int kind, size_t limit, struct kernel_event *event)
{
    if (kernel->is_dry[kind] || limit == 0)
        return false;
    ssize_t got = read(kernel->fds[kind], kernel->output, MIN(limit, sizeof kernel->output));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        kernel->is_dry[kind] = true; /* it stays open: somebody watches it */
    if (got <= 0)
        return false;
    event->type = kind == OUT ? KERNEL_STDOUT : KERNEL_STDERR;
    event->text = str_n(kernel->output, (size_t)got);
    return true;
}

/* A frame waits until the output that was there before it is told; what comes later, from a thread
 * say, does not hold it up. */
static bool take_output_before(struct kernel *kernel, struct kernel_event *event)
{
    for (int kind = OUT; kind <= ERR; kind++) {
        if (!take_output(kernel, kind, (size_t)kernel->before[kind], event)) {
            kernel->before[kind] = 0;
            continue;
        }
        kernel->before[kind] -= (int64_t)event->text.len;
        return true;
    }
    return false;
}

static bool read_display(struct frame *frame, struct kernel_event *event)
{
    uint32_t count;
    if (!frame_number(frame, &count) || count > KERNEL_PARTS_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!frame_bytes(frame, &event->parts[i].mime) ||
            !frame_bytes(frame, &event->parts[i].bytes))
            return false;
    event->type = KERNEL_DISPLAY;
    event->part_count = count;
    event->main = (frame->flags & FRAME_FLAG_MAIN) != 0;
    return true;
}

static bool read_done(struct kernel *kernel, struct frame *frame, struct kernel_event *event)
{
    uint32_t ok, lost;
    /* Who has run the code has read all of it. */
    if (!kernel->busy || kernel->is_copying || kernel->out.len > 0 ||
        frame->id != kernel->next_id || !frame_number(frame, &event->count) ||
        !frame_number(frame, &ok))
        return false;
    event->type = KERNEL_DONE;
    event->ok = ok != 0;
    event->lost = frame_number(frame, &lost) && lost != 0;
    kernel->busy = false;
    return true;
}

static bool read_copied(struct kernel *kernel, struct frame *frame, struct kernel_event *event)
{
    uint32_t ok;
    if (!kernel->is_copying || !frame_number(frame, &ok) || !frame_bytes(frame, &event->text))
        return false;
    event->type = KERNEL_COPIED;
    event->ok = ok != 0;
    kernel->busy = kernel->is_copying = false;
    return true;
}

/* What was too long is told without what was in it. */
static bool read_cut(const struct frame *frame, struct kernel_event *event)
{
    event->type = frame->type == FRAME_DISPLAY ? KERNEL_DISPLAY : KERNEL_ERROR;
    event->main = (frame->flags & FRAME_FLAG_MAIN) != 0;
    event->name = STR("Error");
    event->message = event->text = STR("the code failed with a message too long to be told");
    return frame->type == FRAME_DISPLAY || frame->type == FRAME_ERROR;
}

static bool read_frame(struct kernel *kernel, struct frame *frame, struct kernel_event *event)
{
    switch (frame->type) {
    case FRAME_READY:
        event->type = KERNEL_READY;
        event->live = (frame->flags & FRAME_FLAG_LIVE) != 0;
        return frame_bytes(frame, &event->text);
    case FRAME_DISPLAY:
        return read_display(frame, event);
    case FRAME_ERROR:
        event->type = KERNEL_ERROR;
        return frame_bytes(frame, &event->name) && frame_bytes(frame, &event->message) &&
               frame_bytes(frame, &event->text) && frame_bytes(frame, &event->module);
    case FRAME_DONE:
        return read_done(kernel, frame, event);
    case FRAME_COPIED:
        return read_copied(kernel, frame, event);
    default:
        return false;
    }
}

/* More of the line into `in`; the bytes that came, 0: none now, -1: the other side has closed. */
static ssize_t read_line(struct kernel *kernel)
{
    struct err err;
    char *space;
    buf_consume(&kernel->in, kernel->at);
    kernel->at = 0;
    if (kernel->in.len == 0 && kernel->in.cap > SPARE_MAX)
        buf_done(&kernel->in);
    if (kernel->fds[LINE] < 0 || buf_reserve(&kernel->in, READ_MAX, &space, &err) < 0)
        return -1;
    ssize_t got = recv(kernel->fds[LINE], space, READ_MAX, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    buf_commit(&kernel->in, (size_t)got);
    return got == 0 ? -1 : got;
}

/* A frame that nobody would keep goes by: a kernel that sends only a part of it, and waits, holds
 * no memory here. While it runs code its time is limited, else it may wait for ever. */
static void find_cut(struct kernel *kernel, struct str rest)
{
    struct frame head;
    uint32_t size;
    size_t max = kernel->busy ? KERNEL_KEPT_MAX : KERNEL_IDLE_MAX;
    if (kernel->is_cut || !frame_head(rest, &head, &size) || size <= max || size > FRAME_MAX)
        return;
    kernel->is_cut = true;
    kernel->cut = head;
    kernel->cut_left = FRAME_HEAD + size;
}

/* The size of the next frame, 0: it is not all there, -1: it is longer than any may be. */
static ssize_t look(struct kernel *kernel, struct frame *frame, struct err *err)
{
    struct str rest = str_slice(buf_str(&kernel->in), kernel->at, kernel->in.len);
    find_cut(kernel, rest);
    if (!kernel->is_cut)
        return frame_read(rest, frame, err);
    size_t by = MIN(kernel->cut_left, rest.len);
    kernel->at += by;
    kernel->cut_left -= by;
    *frame = kernel->cut;
    return 0;
}

static void count_output_before(struct kernel *kernel)
{
    for (int kind = OUT; kind <= ERR; kind++) {
        int waiting = 0;
        if (!kernel->is_dry[kind] && ioctl(kernel->fds[kind], FIONREAD, &waiting) == 0)
            kernel->before[kind] = waiting;
    }
    kernel->holds_frame = true;
}

/* 1: a whole frame is there, 0: not yet, -1: there will be none. */
static int find_frame(struct kernel *kernel, struct frame *frame, ssize_t *ret_size,
                      struct err *err)
{
    for (ssize_t taken = 0, got; taken < TURN_MAX; taken += got) {
        *ret_size = look(kernel, frame, err);
        if (*ret_size != 0)
            return *ret_size < 0 ? -1 : 1;
        if (kernel->is_cut && kernel->cut_left == 0)
            return 1;
        got = read_line(kernel);
        if (got < 0)
            return err_set(err, ERR_GONE, "the kernel is gone");
        if (got == 0)
            return 0;
    }
    return 0;
}

static bool take_frame(struct kernel *kernel, struct frame *frame, ssize_t size,
                       struct kernel_event *event)
{
    bool is_cut = kernel->is_cut;
    kernel->is_cut = false;
    kernel->consumed = (size_t)size;
    return is_cut ? read_cut(frame, event) : read_frame(kernel, frame, event);
}

bool kernel_next(struct kernel *kernel, struct kernel_event *ret_event)
{
    struct kernel_event *event = ret_event;
    struct frame frame;
    struct err err = {0};
    ssize_t size;
    *event = (struct kernel_event){0};
    flush(kernel);
    kernel->at += kernel->consumed;
    kernel->consumed = 0;
    if (kernel->gone)
        return take_output(kernel, OUT, READ_MAX, event) ||
               take_output(kernel, ERR, READ_MAX, event);
    int found = find_frame(kernel, &frame, &size, &err);
    if (found == 0)
        return take_output(kernel, OUT, READ_MAX, event) ||
               take_output(kernel, ERR, READ_MAX, event);
    if (!kernel->holds_frame)
        count_output_before(kernel);
    if (take_output_before(kernel, event))
        return true;
    kernel->holds_frame = false;
    if (found < 0)
        return tell_gone(kernel, event, &err);
    if (take_frame(kernel, &frame, size, event))
        return true;
    (void)err_set(&err, ERR_INTERNAL, "the kernel said what makes no sense (%u)", frame.type);
    return tell_gone(kernel, event, &err);
}
