#include "search/embed/embedder.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/fd.h"
#include "base/sys.h"
#include "io/loop.h"
#include "io/proc.h"
#include "search/embed/embedder_internal.h"
#include "search/embed/model_internal.h"

enum { ATTEMPTS = 2, THREADS_DEFAULT_MAX = 4, CAREFUL = 16, TAKEN_AT_ONCE = 64 };

enum text_state { TEXT_WAITING, TEXT_SENT, TEXT_DONE };

/* A call of embedder_embed. Its texts stand one behind the other in `bytes`. */
struct request {
    struct request *next;
    enum embed_priority priority;
    char *bytes;
    size_t size;
    size_t *ends;
    enum text_state *states;
    size_t count, waiting, done; /* `waiting`: not sent */
    float *vectors;
    int attempts; /* processes that ended while they had one of its texts */
    embedder_call *call;
    void *ctx;
};

struct slot {
    struct request *request; /* NULL: free */
    size_t text;
};

/* STOPPED: no process (an old one may be ending: `ending`).
 * STARTING: the process loads its model; nothing was sent. start_process.
 * READY: texts are sent as slots are free. on_started.
 * Back to STOPPED by stop_process: after the idle time, a failure, or the end of the process. */
enum state { STOPPED, STARTING, READY };

struct embedder {
    struct loop *loop;
    char *model_dir, *program;
    int threads;
    int64_t idle_ms;
    enum state state;
    struct proc *proc, *ending;
    int fd;
    struct watch *watch;
    struct timer *idle;
    struct request *requests;      /* in order of arrival */
    size_t request_count, pending; /* and the bytes of their texts */
    struct slot slots[EMBEDDER_SLOTS];
    size_t careful; /* texts to be sent one at a time: an earlier process has crashed */
};

/* ---- requests ---- */

static struct str text_of(const struct request *request, size_t index)
{
    size_t begin = index == 0 ? 0 : request->ends[index - 1];
    return str_n(request->bytes + begin, request->ends[index] - begin);
}

static struct request *request_new(const struct str *texts, size_t count)
{
    struct request *request = mem_alloc(sizeof *request);
    request->count = request->waiting = count;
    request->ends = mem_alloc(count * sizeof *request->ends);
    request->states = mem_alloc(count * sizeof *request->states);
    request->vectors = mem_alloc(count * EMBED_DIMS * sizeof(float));
    for (size_t i = 0; i < count; i++)
        request->ends[i] = request->size += MIN(texts[i].len, (size_t)EMBED_TEXT_MAX);
    request->bytes = mem_alloc(request->size + 1);
    for (size_t i = 0, at = 0; i < count; at = request->ends[i++])
        if (request->ends[i] > at)
            memcpy(request->bytes + at, texts[i].ptr, request->ends[i] - at);
    return request;
}

static void request_free(struct request *request)
{
    free(request->bytes);
    free(request->ends);
    free(request->states);
    free(request->vectors);
    free(request);
}

/* Answers it; the call-back may add requests. */
static void end_request(struct embedder *self, struct request *request, const struct err *err)
{
    struct request **link = &self->requests;
    while (*link != request)
        link = &(*link)->next;
    *link = request->next;
    self->pending -= request->size;
    self->request_count--;
    for (size_t i = 0; i < EMBEDDER_SLOTS; i++)
        assert(self->slots[i].request != request);
    request->call(request->ctx, err == NULL ? request->vectors : NULL, err);
    request_free(request);
}

/* Leaves those that call-backs add meanwhile. */
static void end_all(struct embedder *self, const struct err *err)
{
    struct request *all = self->requests;
    self->requests = NULL;
    while (all != NULL) {
        struct request *request = all;
        all = request->next;
        self->pending -= request->size;
        self->request_count--;
        request->call(request->ctx, NULL, err);
        request_free(request);
    }
}

/* ---- the process ---- */

static void on_exit_of_ending(void *ctx, struct proc_exit how)
{
    (void)how;
    struct embedder *self = ctx;
    self->ending = proc_free(self->ending);
}

/* The end of a process in use is seen on its socket; this only reaps it. */
static void on_exit_of_proc(void *ctx, struct proc_exit how)
{
    struct embedder *self = ctx;
    if (self->ending != NULL)
        on_exit_of_ending(self, how);
    else
        self->proc = proc_free(self->proc);
}

/* Without waiting: the process ends because its socket does, or is killed. */
static void stop_process(struct embedder *self)
{
    self->watch = watch_free(self->watch);
    fd_close(&self->fd);
    self->state = STOPPED;
    memset(self->slots, 0, sizeof self->slots);
    if (self->proc == NULL)
        return;
    proc_kill(self->proc, SIGKILL);
    self->ending = proc_free(self->ending);
    self->ending = self->proc;
    self->proc = NULL;
}

static int default_threads(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return MAX(1, MIN(count, (int)THREADS_DEFAULT_MAX));
}

static void on_socket(void *ctx, int events);

static int run_program(struct embedder *self, int socket, struct err *err)
{
    static const char *const argv[] = {EMBEDDER_PROGRAM, NULL};
    AUTO_CLOSE int weights = -1, tokenizer = -1;
    if (embed_model_files(self->model_dir, &weights, &tokenizer, err) < 0)
        return -1;
    struct proc_fd fds[] = {
        {socket, EMBEDDER_SOCKET}, {weights, EMBEDDER_WEIGHTS}, {tokenizer, EMBEDDER_TOKENIZER}};
    struct proc_options options = {
        .program = self->program, .argv = argv, .fds = fds, .fd_count = countof(fds)};
    return proc_start(self->loop, &options, on_exit_of_proc, self, &self->proc, err);
}

static int start_process(struct embedder *self, struct err *err)
{
    int pair[2];
    const struct embedder_start start = {.threads = self->threads};
    self->ending = proc_free(self->ending);
    if (SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) < 0)
        return err_sys(err, errno, "make a socket for the embedder");
    AUTO_CLOSE int theirs = pair[1];
    self->fd = pair[0];
    if (run_program(self, theirs, err) < 0 ||
        watch_new(self->loop, self->fd, WATCH_READ, on_socket, self, &self->watch, err) < 0) {
        stop_process(self);
        return -1;
    }
    if (SYS(send(self->fd, &start, sizeof start, MSG_NOSIGNAL)) != sizeof start) {
        (void)err_sys(err, errno, "write to the embedder");
        stop_process(self);
        return -1;
    }
    self->state = STARTING;
    return 0;
}

/* ---- sending ---- */

static int free_slot(const struct embedder *self, enum embed_priority priority)
{
    bool is_query = priority == EMBED_QUERY;
    int from = is_query ? 0 : EMBEDDER_QUERIES;
    int to = is_query ? EMBEDDER_QUERIES : EMBEDDER_SLOTS;
    for (int i = 0; self->careful > 0 && i < EMBEDDER_SLOTS; i++)
        if (self->slots[i].request != NULL)
            return -1;
    for (int i = from; i < to; i++)
        if (self->slots[i].request == NULL)
            return i;
    return -1;
}

/* False when the socket is full. */
static bool send_text(struct embedder *self, struct request *request, size_t index, int slot)
{
    struct str text = text_of(request, index);
    struct embedder_ask ask = {.slot = (uint32_t)slot};
    struct iovec parts[] = {{&ask, sizeof ask}, {(void *)(uintptr_t)text.ptr, text.len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = countof(parts)};
    /* The end of the process is news of the socket, which comes next. */
    if (SYS(sendmsg(self->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)) < 0)
        return false;
    self->slots[slot] = (struct slot){request, index};
    request->states[index] = TEXT_SENT;
    request->waiting--;
    return true;
}

static bool send_texts(struct embedder *self, enum embed_priority priority)
{
    for (struct request *request = self->requests; request != NULL; request = request->next) {
        if (request->priority != priority)
            continue;
        for (size_t i = 0; i < request->count && request->waiting > 0; i++) {
            if (request->states[i] != TEXT_WAITING)
                continue;
            int slot = free_slot(self, priority);
            if (slot < 0)
                return true;
            if (!send_text(self, request, i, slot))
                return false;
        }
    }
    return true;
}

static void send_all(struct embedder *self)
{
    bool sent = send_texts(self, EMBED_QUERY) && send_texts(self, EMBED_BACKGROUND);
    watch_set(self->watch, sent ? WATCH_READ : WATCH_READ | WATCH_WRITE);
}

/* ---- receiving ---- */

static void take_answer(struct embedder *self, const struct embedder_answer *answer)
{
    struct slot *slot = &self->slots[answer->slot];
    struct request *request = slot->request;
    memcpy(request->vectors + slot->text * EMBED_DIMS, answer->vector, sizeof answer->vector);
    request->states[slot->text] = TEXT_DONE;
    *slot = (struct slot){0};
    self->careful -= self->careful > 0;
    if (++request->done == request->count)
        end_request(self, request, NULL);
}

/* The requests whose texts the process had; the texts wait again. */
static size_t take_back(struct embedder *self, struct request *ret_hit[EMBEDDER_SLOTS])
{
    size_t hits = 0;
    for (size_t i = 0; i < EMBEDDER_SLOTS; i++) {
        struct request *request = self->slots[i].request;
        if (request == NULL)
            continue;
        request->states[self->slots[i].text] = TEXT_WAITING;
        request->waiting++;
        size_t k = 0;
        while (k < hits && ret_hit[k] != request)
            k++;
        ret_hit[k] = request;
        hits = MAX(hits, k + 1);
    }
    return hits;
}

/* The process has ended by itself. What it had is sent once more, one text at a time, so that the
 * text that makes it crash is the only one to be given up. */
static void on_lost(struct embedder *self)
{
    struct err err = {0};
    struct request *hit[EMBEDDER_SLOTS];
    bool was_ready = self->state == READY;
    size_t hits = take_back(self, hit);
    (void)err_set(&err, ERR_UNAVAILABLE, "the process that computes embeddings has ended");
    stop_process(self); /* first: call-backs may add requests, which start another one */
    self->careful = CAREFUL;
    for (size_t i = 0; i < hits; i++)
        if (++hit[i]->attempts >= ATTEMPTS)
            end_request(self, hit[i], &err);
    if (!was_ready ||
        (self->state == STOPPED && self->requests != NULL && start_process(self, &err) < 0))
        end_all(self, &err);
}

static void embedder_on_started(struct embedder *self, const struct embedder_started *started)
{
    struct err err = started->err;
    err.msg[sizeof err.msg - 1] = '\0';
    if (err.code == ERR_NONE) {
        self->state = READY;
        return;
    }
    stop_process(self);
    end_all(self, &err);
}

static bool is_answer(const struct embedder *self, ssize_t size, uint32_t slot)
{
    return size == sizeof(struct embedder_answer) && slot < EMBEDDER_SLOTS &&
           self->slots[slot].request != NULL;
}

/* One packet. False if none is waiting or the process has ended. */
static bool receive(struct embedder *self)
{
    union {
        struct embedder_started started;
        struct embedder_answer answer;
    } packet = {0};
    ssize_t size = SYS(recv(self->fd, &packet, sizeof packet, MSG_DONTWAIT));
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (self->state == STARTING && size == sizeof packet.started)
        embedder_on_started(self, &packet.started);
    else if (self->state == READY && is_answer(self, size, packet.answer.slot))
        take_answer(self, &packet.answer);
    else
        on_lost(self);
    return self->state == READY;
}

static void on_socket(void *ctx, int events)
{
    struct embedder *self = ctx;
    (void)events;
    for (int i = 0; i < TAKEN_AT_ONCE && receive(self); i++)
        ;
    if (self->state == READY)
        send_all(self);
    if (self->requests == NULL && self->state != STOPPED)
        timer_set(self->idle, self->idle_ms, 0);
}

static void on_idle(void *ctx)
{
    struct embedder *self = ctx;
    if (self->requests == NULL)
        stop_process(self);
}

/* ---- the caller's side ---- */

int embedder_open(struct loop *loop, const struct embedder_options *options,
                  struct embedder **ret_embedder, struct err *err)
{
    loop_assert(loop);
    if (options->threads < 0 || options->threads > EMBED_THREADS_MAX)
        return err_set(err, ERR_INVALID, "a model has 1 to %d threads", EMBED_THREADS_MAX);
    struct embedder *self = mem_alloc(sizeof *self);
    self->loop = loop;
    self->fd = -1;
    self->model_dir = mem_dup_cstr(options->model_dir);
    self->program = mem_dup_cstr(options->program == NULL ? "/proc/self/exe" : options->program);
    self->threads = options->threads == 0 ? default_threads() : options->threads;
    self->idle_ms = options->idle_ms == 0 ? EMBEDDER_IDLE_DEFAULT_MS : options->idle_ms;
    self->idle = timer_new(loop, on_idle, self);
    *ret_embedder = self;
    return 0;
}

struct embedder *embedder_close(struct embedder *embedder)
{
    struct err err = {0};
    if (embedder == NULL)
        return NULL;
    stop_process(embedder);
    embedder->ending = proc_free(embedder->ending);
    (void)err_set(&err, ERR_CANCELED, "the server is ending");
    while (embedder->requests != NULL)
        end_all(embedder, &err);
    embedder->idle = timer_free(embedder->idle);
    free(embedder->model_dir);
    free(embedder->program);
    free(embedder);
    return NULL;
}

static void add_request(struct embedder *self, struct request *request)
{
    struct request **link = &self->requests;
    while (*link != NULL)
        link = &(*link)->next;
    *link = request;
    self->pending += request->size;
    self->request_count++;
    timer_clear(self->idle);
}

int embedder_embed(struct embedder *embedder, const struct str *texts, size_t count,
                   enum embed_priority priority, embedder_call *call, void *ctx, struct err *err)
{
    loop_assert(embedder->loop);
    if (count == 0 || count > EMBEDDER_TEXTS_MAX)
        return err_set(err, ERR_TOO_LARGE, "1 to %d texts can be embedded at once",
                       EMBEDDER_TEXTS_MAX);
    if (embedder->pending > EMBEDDER_PENDING_MAX ||
        embedder->request_count == EMBEDDER_REQUESTS_MAX)
        return err_set(err, ERR_LIMIT, "too many texts wait to be embedded; try again later");
    if (embedder->state == STOPPED && start_process(embedder, err) < 0)
        return -1;
    struct request *request = request_new(texts, count);
    request->priority = priority;
    request->call = call;
    request->ctx = ctx;
    add_request(embedder, request);
    if (embedder->state == READY)
        send_all(embedder);
    return 0;
}
