#include "jail/inside/file_serve.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "jail/wire/init.h"

enum { PART_FAIR = 60 << 10 };

void file_reply_init(struct file_reply *reply, int fd, uint32_t id)
{
    *reply = (struct file_reply){.fd = fd,
                                 .id = id,
                                 .out = buf_with_limit(WIRE_MAX),
                                 .record = buf_with_limit(WIRE_MAX),
                                 .bytes = buf_with_limit(WIRE_MAX)};
}

void file_reply_done(struct file_reply *reply)
{
    buf_done(&reply->out);
    buf_done(&reply->record);
    buf_done(&reply->bytes);
}

static int send_out(struct file_reply *reply, struct err *err)
{
    int done = wire_send(reply->fd, buf_str(&reply->out), NULL, 0, err);
    buf_clear(&reply->out);
    return done;
}

struct buf *file_part_next(struct file_reply *reply)
{
    buf_clear(&reply->record);
    return &reply->record;
}

int file_part_add(struct file_reply *reply, struct err *err)
{
    if (reply->out.len + reply->record.len > PART_FAIR && file_part_flush(reply, false, err) < 0)
        return -1;
    if (reply->out.len == 0)
        wire_begin(&reply->out, INIT_PART, reply->id);
    buf_put(&reply->out, buf_str(&reply->record));
    return 0;
}

int file_part_flush(struct file_reply *reply, bool always, struct err *err)
{
    if (reply->out.len == 0 && !always)
        return 0;
    if (reply->out.len == 0)
        wire_begin(&reply->out, INIT_PART, reply->id);
    return send_out(reply, err);
}

int file_send_failed(struct file_reply *reply, const struct err *why, struct err *err)
{
    wire_begin(&reply->out, INIT_FAILED, reply->id);
    wire_put_err(&reply->out, why);
    return send_out(reply, err);
}

static int check_question(const struct file_row *row, const struct jail_file *question, int data_fd,
                          struct err *err)
{
    if (question->path.len == 0 || question->path.ptr[0] != '/')
        return err_set(err, ERR_INVALID, "'%.*s' is not absolute; paths in a sandbox begin with /",
                       STR_ARG(question->path));
    if (row->verb == JAIL_FILE_RENAME && (question->to.len == 0 || question->to.ptr[0] != '/'))
        return err_set(err, ERR_INVALID, "'%.*s' is not absolute; paths in a sandbox begin with /",
                       STR_ARG(question->to));
    if (row->needs_fd && data_fd < 0)
        return err_set(err, ERR_INVALID, "this operation needs a descriptor for its data");
    return 0;
}

static int file_serve_work(const struct file_row *row, const struct jail_file *question,
                           int data_fd, struct file_reply *reply, struct jail_file_answer *answer,
                           struct err *err)
{
    /* Opened again each time: the root of a running jail can be replaced. */
    AUTO_FILES struct files *files = NULL;
    struct files_options options = {.in_root = true};
    if (check_question(row, question, data_fd, err) < 0 ||
        files_open("/", &options, &files, err) < 0)
        return -1;
    return row->serve(files, question, data_fd, reply, answer, err);
}

int file_serve(const struct file_row *row, const struct jail_file *question, int data_fd,
               struct file_reply *reply, struct err *err)
{
    struct jail_file_answer answer = {0};
    struct err why = {0};
    int done = file_serve_work(row, question, data_fd, reply, &answer, &why);
    if (done == 0)
        done = file_part_flush(reply, false, &why);
    if (done < 0)
        return file_send_failed(reply, &why, err);
    wire_begin(&reply->out, INIT_ANSWER, reply->id);
    file_put_answer(&reply->out, &answer);
    return send_out(reply, err);
}

/* --- data that comes or goes beside the packets --- */

static volatile sig_atomic_t stopped;
static bool is_gentle;

static void file_serve_on_stop(UNUSED int sig)
{
    stopped = 1;
}

/* The signal comes only while we wait for data, so it cannot slip in just before the waiting. */
void file_stop_gently(void)
{
    struct sigaction action = {.sa_handler = file_serve_on_stop};
    sigset_t stop;
    (void)sigemptyset(&action.sa_mask);
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    is_gentle = true;
}

/* When data and the signal are there at once, ppoll gives the data: the end of a stream that was
 * closed with the cancelling must not count as the end of the file. */
static int file_serve_wait_for(int fd, short events, struct err *err)
{
    struct pollfd wait = {.fd = fd, .events = events};
    sigset_t none, pending;
    (void)sigemptyset(&none);
    (void)sigemptyset(&pending);
    if (ppoll(&wait, 1, NULL, &none) < 0 && errno != EINTR)
        return err_sys(err, errno, "wait for the other side");
    (void)sigpending(&pending);
    if (stopped || sigismember(&pending, SIGTERM) == 1)
        return err_set(err, ERR_CANCELED, "cancelled");
    return 0;
}

/* A socket whose sender shut it down has said all; one that is closed has lost its sender. */
static bool is_cut_off(int fd)
{
    struct stat st;
    struct pollfd end = {.fd = fd, .events = POLLIN};
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && poll(&end, 1, 0) > 0 &&
           (end.revents & POLLHUP) != 0;
}

ssize_t file_stream_read(void *ctx, void *space, size_t size, struct err *err)
{
    struct file_stream *stream = ctx;
    for (;;) {
        if (is_gentle && file_serve_wait_for(stream->fd, POLLIN, err) < 0)
            return -1;
        ssize_t got = SYS(read(stream->fd, space, size));
        if (got == 0 && is_cut_off(stream->fd))
            return err_set(err, ERR_CANCELED, "the data is incomplete: the sender disconnected");
        if (got >= 0) {
            stream->moved += (size_t)got;
            return got;
        }
        if (errno == EAGAIN && file_serve_wait_for(stream->fd, POLLIN, err) < 0)
            return -1;
        if (errno != EAGAIN && errno != EINTR)
            return err_sys(err, errno, "read the data");
    }
}

int file_stream_write(void *ctx, struct str bytes, struct err *err)
{
    struct file_stream *stream = ctx;
    while (bytes.len > 0) {
        ssize_t put = SYS(write(stream->fd, bytes.ptr, bytes.len));
        if (put >= 0) {
            stream->moved += (size_t)put;
            bytes = str_slice(bytes, (size_t)put, bytes.len);
        } else if (errno == EAGAIN) {
            if (file_serve_wait_for(stream->fd, POLLOUT, err) < 0)
                return -1;
        } else if (errno != EINTR) {
            return errno == EPIPE ? err_set(err, ERR_CANCELED, "the reader has closed the stream")
                                  : err_sys(err, errno, "send");
        }
    }
    return 0;
}
