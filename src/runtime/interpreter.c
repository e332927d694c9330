#include "runtime/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/fd_pass.h"
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

struct interpreter {
    int fds[3];
    bool is_dry[3];     /* nothing will come of it */
    struct buf in, out; /* of the line */
    size_t at;          /* where in `in` the next frame begins */
    size_t consumed;    /* of `in`, by the last event that was returned */
    struct frame cut;   /* the head of a frame that is too long to be kept */
    size_t cut_left;    /* bytes of it that are to go by */
    bool is_cut;        /* there is such a frame */
    char output[READ_MAX];
    int64_t before[3]; /* output that was there when a frame came: returned first */
    bool holds_frame;  /* `in` begins with a whole frame, waiting for the output before it */
    bool busy, gone;
    bool is_copying;    /* that is what it is busy with */
    uint32_t quiescing; /* answers to that which are to come */
    uint32_t next_id;
};

static int make_channel(int kind, struct interpreter *interpreter, int inner[3], struct err *err)
{
    int pair[2];
    int made = kind == LINE ? SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
                            : SYS(pipe2(pair, O_CLOEXEC));
    if (made < 0)
        return err_sys(err, errno, "make a channel to the interpreter");
    interpreter->fds[kind] = pair[0];
    inner[kind] = pair[1];
    if (fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0)
        return err_sys(err, errno, "make a channel to the interpreter");
    return 0;
}

int interpreter_open(struct interpreter **ret_interpreter, int ret_inner[3], struct err *err)
{
    AUTO_KERNEL struct interpreter *interpreter = mem_alloc(sizeof *interpreter);
    int inner[3] = {-1, -1, -1};
    interpreter->in = buf_with_limit(INTERPRETER_KEPT_MAX + FRAME_HEAD + 2 * READ_MAX);
    memset(interpreter->fds, -1, sizeof interpreter->fds);
    for (int kind = LINE; kind <= ERR; kind++) {
        if (make_channel(kind, interpreter, inner, err) == 0)
            continue;
        for (int i = LINE; i <= ERR; i++)
            fd_close(&inner[i]);
        return -1;
    }
    memcpy(ret_inner, inner, sizeof inner);
    *ret_interpreter = interpreter;
    interpreter = NULL;
    return 0;
}

struct interpreter *interpreter_free(struct interpreter *interpreter)
{
    if (interpreter == NULL)
        return NULL;
    for (int i = LINE; i <= ERR; i++)
        fd_close(&interpreter->fds[i]);
    buf_done(&interpreter->in);
    buf_done(&interpreter->out);
    free(interpreter);
    return NULL;
}

void interpreter_fds(const struct interpreter *interpreter, int ret_fds[3])
{
    for (int i = LINE; i <= ERR; i++)
        ret_fds[i] = interpreter->is_dry[i] ? -1 : interpreter->fds[i];
}

bool interpreter_wants_write(const struct interpreter *interpreter)
{
    return interpreter->out.len > 0;
}

bool interpreter_is_busy(const struct interpreter *interpreter)
{
    return interpreter->busy;
}

static void flush(struct interpreter *interpreter)
{
    while (interpreter->out.len > 0) {
        ssize_t sent = send(interpreter->fds[LINE], interpreter->out.ptr, interpreter->out.len,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            return; /* no room now, or gone, which reading tells */
        buf_consume(&interpreter->out, (size_t)sent);
    }
}

int interpreter_run(struct interpreter *interpreter, struct str code, struct str language,
                    struct str env, struct err *err)
{
    if (interpreter->gone)
        return err_set(err, ERR_GONE, "the interpreter has exited");
    if (interpreter->busy)
        return err_set(err, ERR_BUSY,
                       "the interpreter runs other code; wait for it or interrupt it");
    if (code.len > CODE_MAX)
        return err_set(err, ERR_TOO_LARGE, "the code has %zu bytes; the limit is %d", code.len,
                       CODE_MAX);
    interpreter->busy = true;
    frame_write(&interpreter->out, FRAME_RUN, ++interpreter->next_id,
                (struct str[]){code, language, env}, 3);
    flush(interpreter);
    return 0;
}

int interpreter_set_env(struct interpreter *interpreter, struct str env, struct err *err)
{
    if (interpreter->gone)
        return err_set(err, ERR_GONE, "the interpreter has exited");
    frame_write(&interpreter->out, FRAME_ENV, 0, &env, 1);
    flush(interpreter);
    return 0;
}

/* One byte, for it is read by itself: what reads frames would lose the descriptor. */
static int send_descriptor(int line, int fd)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    return fd_send(line, &part, 1, &fd, 1, MSG_DONTWAIT) == 1 ? 0 : -1;
}

int interpreter_copy(struct interpreter *interpreter, int fd, uint32_t limit_mib, struct err *err)
{
    if (interpreter->gone)
        return err_set(err, ERR_GONE, "the interpreter has exited");
    if (interpreter->busy)
        return err_set(err, ERR_BUSY, "the interpreter runs code; wait for it or interrupt it");
    frame_write_numbers(&interpreter->out, FRAME_COPY, 0, &limit_mib, 1);
    flush(interpreter);
    if (interpreter->out.len > 0 || send_descriptor(interpreter->fds[LINE], fd) < 0) {
        /* It would wait for the byte and hear nothing else. */
        (void)shutdown(interpreter->fds[LINE], SHUT_RDWR);
        return err_set(err, ERR_GONE, "the interpreter does not read its channel");
    }
    interpreter->busy = interpreter->is_copying = true;
    return 0;
}

static void send_quiesce(struct interpreter *interpreter, uint32_t wanted)
{
    frame_write_numbers(&interpreter->out, FRAME_QUIESCE, 0, &wanted, 1);
    flush(interpreter);
}

int interpreter_quiesce(struct interpreter *interpreter, struct err *err)
{
    if (interpreter->gone)
        return err_set(err, ERR_GONE, "the interpreter has exited");
    if (interpreter->busy)
        return err_set(err, ERR_BUSY, "the interpreter runs code");
    interpreter->quiescing++;
    send_quiesce(interpreter, 1);
    return 0;
}

void interpreter_go_back(struct interpreter *interpreter)
{
    if (!interpreter->gone)
        send_quiesce(interpreter, 0);
}

static bool tell_gone(struct interpreter *interpreter, struct interpreter_event *event,
                      const struct err *why)
{
    if (interpreter->gone)
        return false;
    interpreter->gone = true;
    interpreter->busy = false;
    event->type = INTERPRETER_GONE;
    event->err = *why;
    return true;
}

/* At most `limit` bytes of a pipe as an event. */
static bool take_output(struct interpreter *interpreter, int kind, size_t limit,
                        struct interpreter_event *event)
{
    if (interpreter->is_dry[kind] || limit == 0)
        return false;
    ssize_t got =
        read(interpreter->fds[kind], interpreter->output, MIN(limit, sizeof interpreter->output));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        interpreter->is_dry[kind] = true; /* stays open while it is watched */
    if (got <= 0)
        return false;
    event->type = kind == OUT ? INTERPRETER_STDOUT : INTERPRETER_STDERR;
    event->text = str_n(interpreter->output, (size_t)got);
    return true;
}

/* A frame waits until the output that came before it has been reported; later output, for example
 * from a thread, does not delay it. */
static bool take_output_before(struct interpreter *interpreter, struct interpreter_event *event)
{
    for (int kind = OUT; kind <= ERR; kind++) {
        if (!take_output(interpreter, kind, (size_t)interpreter->before[kind], event)) {
            interpreter->before[kind] = 0;
            continue;
        }
        interpreter->before[kind] -= (int64_t)event->text.len;
        return true;
    }
    return false;
}

static bool read_display(struct frame *frame, struct interpreter_event *event)
{
    uint32_t count;
    if (!frame_number(frame, &count) || count > INTERPRETER_PARTS_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!frame_bytes(frame, &event->parts[i].mime) ||
            !frame_bytes(frame, &event->parts[i].bytes))
            return false;
    event->type = INTERPRETER_DISPLAY;
    event->part_count = count;
    event->main = (frame->flags & FRAME_FLAG_MAIN) != 0;
    return true;
}

static bool read_done(struct interpreter *interpreter, struct frame *frame,
                      struct interpreter_event *event)
{
    uint32_t ok, lost;
    /* An interpreter that has run the code has read all of it. */
    if (!interpreter->busy || interpreter->is_copying || interpreter->out.len > 0 ||
        frame->id != interpreter->next_id || !frame_number(frame, &event->count) ||
        !frame_number(frame, &ok))
        return false;
    event->type = INTERPRETER_DONE;
    event->ok = ok != 0;
    event->lost = frame_number(frame, &lost) && lost != 0;
    interpreter->busy = false;
    return true;
}

static bool read_copied(struct interpreter *interpreter, struct frame *frame,
                        struct interpreter_event *event)
{
    uint32_t ok;
    if (!interpreter->is_copying || !frame_number(frame, &ok) || !frame_bytes(frame, &event->text))
        return false;
    event->type = INTERPRETER_COPIED;
    event->ok = ok != 0;
    interpreter->busy = interpreter->is_copying = false;
    return true;
}

static bool read_quiesced(struct interpreter *interpreter, struct frame *frame,
                          struct interpreter_event *event)
{
    uint32_t ok;
    if (interpreter->quiescing == 0 || !frame_number(frame, &ok))
        return false;
    interpreter->quiescing--;
    event->type = INTERPRETER_QUIESCED;
    event->ok = ok != 0;
    return true;
}

/* A frame that was too long is reported without its contents. */
static bool read_cut(const struct frame *frame, struct interpreter_event *event)
{
    event->type = frame->type == FRAME_DISPLAY ? INTERPRETER_DISPLAY : INTERPRETER_ERROR;
    event->main = (frame->flags & FRAME_FLAG_MAIN) != 0;
    event->name = STR("Error");
    event->message = event->text =
        STR("the code failed with an error message that is too long to be sent");
    return frame->type == FRAME_DISPLAY || frame->type == FRAME_ERROR;
}

static bool read_frame(struct interpreter *interpreter, struct frame *frame,
                       struct interpreter_event *event)
{
    switch (frame->type) {
    case FRAME_READY:
        event->type = INTERPRETER_READY;
        event->live = (frame->flags & FRAME_FLAG_LIVE) != 0;
        return frame_bytes(frame, &event->text);
    case FRAME_DISPLAY:
        return read_display(frame, event);
    case FRAME_ERROR:
        event->type = INTERPRETER_ERROR;
        return frame_bytes(frame, &event->name) && frame_bytes(frame, &event->message) &&
               frame_bytes(frame, &event->text) && frame_bytes(frame, &event->module);
    case FRAME_DONE:
        return read_done(interpreter, frame, event);
    case FRAME_COPIED:
        return read_copied(interpreter, frame, event);
    case FRAME_QUIESCED:
        return read_quiesced(interpreter, frame, event);
    default:
        return false;
    }
}

/* More of the line into `in`; the bytes that came, 0: none now, -1: the other side has closed. */
static ssize_t read_line(struct interpreter *interpreter)
{
    struct err err;
    char *space;
    buf_consume(&interpreter->in, interpreter->at);
    interpreter->at = 0;
    if (interpreter->in.len == 0 && interpreter->in.cap > SPARE_MAX)
        buf_done(&interpreter->in);
    if (interpreter->fds[LINE] < 0 || buf_reserve(&interpreter->in, READ_MAX, &space, &err) < 0)
        return -1;
    ssize_t got = recv(interpreter->fds[LINE], space, READ_MAX, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    buf_commit(&interpreter->in, (size_t)got);
    return got == 0 ? -1 : got;
}

/* A frame that would be dropped is skipped while it arrives: an interpreter that sends only a part
 * of it holds no memory here. While it runs code its time is limited; otherwise it may wait without
 * limit. */
static void find_cut(struct interpreter *interpreter, struct str rest)
{
    struct frame head;
    uint32_t size;
    size_t max = interpreter->busy ? INTERPRETER_KEPT_MAX : INTERPRETER_IDLE_MAX;
    if (interpreter->is_cut || !frame_head(rest, &head, &size) || size <= max || size > FRAME_MAX)
        return;
    interpreter->is_cut = true;
    interpreter->cut = head;
    interpreter->cut_left = FRAME_HEAD + size;
}

/* The size of the next frame, 0: it is not all there, -1: it is longer than any may be. */
static ssize_t look(struct interpreter *interpreter, struct frame *frame, struct err *err)
{
    struct str rest = str_slice(buf_str(&interpreter->in), interpreter->at, interpreter->in.len);
    find_cut(interpreter, rest);
    if (!interpreter->is_cut)
        return frame_read(rest, frame, err);
    size_t by = MIN(interpreter->cut_left, rest.len);
    interpreter->at += by;
    interpreter->cut_left -= by;
    *frame = interpreter->cut;
    return 0;
}

static void count_output_before(struct interpreter *interpreter)
{
    for (int kind = OUT; kind <= ERR; kind++) {
        int waiting = 0;
        if (!interpreter->is_dry[kind] && ioctl(interpreter->fds[kind], FIONREAD, &waiting) == 0)
            interpreter->before[kind] = waiting;
    }
    interpreter->holds_frame = true;
}

/* 1: a whole frame is there, 0: not yet, -1: there will be none. */
static int find_frame(struct interpreter *interpreter, struct frame *frame, ssize_t *ret_size,
                      struct err *err)
{
    for (ssize_t taken = 0, got; taken < TURN_MAX; taken += got) {
        *ret_size = look(interpreter, frame, err);
        if (*ret_size != 0)
            return *ret_size < 0 ? -1 : 1;
        if (interpreter->is_cut && interpreter->cut_left == 0)
            return 1;
        got = read_line(interpreter);
        if (got < 0)
            return err_set(err, ERR_GONE, "the interpreter has exited");
        if (got == 0)
            return 0;
    }
    return 0;
}

static bool take_frame(struct interpreter *interpreter, struct frame *frame, ssize_t size,
                       struct interpreter_event *event)
{
    bool is_cut = interpreter->is_cut;
    interpreter->is_cut = false;
    interpreter->consumed = (size_t)size;
    return is_cut ? read_cut(frame, event) : read_frame(interpreter, frame, event);
}

bool interpreter_next(struct interpreter *interpreter, struct interpreter_event *ret_event)
{
    struct interpreter_event *event = ret_event;
    struct frame frame;
    struct err err = {0};
    ssize_t size;
    *event = (struct interpreter_event){0};
    flush(interpreter);
    interpreter->at += interpreter->consumed;
    interpreter->consumed = 0;
    if (interpreter->gone)
        return take_output(interpreter, OUT, READ_MAX, event) ||
               take_output(interpreter, ERR, READ_MAX, event);
    int found = find_frame(interpreter, &frame, &size, &err);
    if (found == 0)
        return take_output(interpreter, OUT, READ_MAX, event) ||
               take_output(interpreter, ERR, READ_MAX, event);
    if (!interpreter->holds_frame)
        count_output_before(interpreter);
    if (take_output_before(interpreter, event))
        return true;
    interpreter->holds_frame = false;
    if (found < 0)
        return tell_gone(interpreter, event, &err);
    if (take_frame(interpreter, &frame, size, event))
        return true;
    (void)err_set(&err, ERR_INTERNAL, "the interpreter sent an invalid message (%u)", frame.type);
    return tell_gone(interpreter, event, &err);
}
