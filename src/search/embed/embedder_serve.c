/* The process that holds the model. It is confined before it reads anything; it ends when its
 * socket does.
 *
 * One thread answers; the others only compute. Between two steps of a batch of background texts it
 * looks at the socket, and computes queries that have arrived before it goes on. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "search/embed/embedder_internal.h"
#include "search/embed/model_internal.h"
#include "search/embed/workers.h"

enum { EXIT_SETUP = 4, BATCH = 8 };

struct waiting {
    uint32_t slot;
    uint32_t len;
    char *text; /* EMBED_TEXT_MAX bytes, made once */
};

struct queue {
    struct waiting items[EMBEDDER_TEXTS];
    size_t first, count; /* a ring */
};

struct server {
    struct embed_model *model;
    struct queue queries, texts;
    struct {
        struct embedder_ask ask;
        char text[EMBED_TEXT_MAX];
    } packet;
};
static_assert((int)EMBEDDER_QUERIES <= (int)EMBEDDER_TEXTS, "a queue has room for either");

/* ---- packets ---- */

/* The daemon never sends more than there are slots: what does not fit is not the daemon. */
static void push(struct queue *queue, uint32_t slot, struct str text)
{
    if (queue->count == countof(queue->items))
        _exit(EXIT_SETUP);
    struct waiting *item = &queue->items[(queue->first + queue->count++) % countof(queue->items)];
    if (item->text == NULL)
        item->text = mem_alloc(EMBED_TEXT_MAX);
    item->slot = slot;
    item->len = (uint32_t)text.len;
    memcpy(item->text, text.ptr, text.len);
}

static void receive(struct server *self)
{
    ssize_t size;
    while ((size = recv(EMBEDDER_SOCKET, &self->packet, sizeof self->packet, MSG_DONTWAIT)) > 0) {
        if ((size_t)size < sizeof self->packet.ask)
            _exit(EXIT_SETUP);
        uint32_t slot = self->packet.ask.slot;
        push(slot < EMBEDDER_QUERIES ? &self->queries : &self->texts, slot,
             str_n(self->packet.text, (size_t)size - sizeof self->packet.ask));
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR))
        _exit(0); /* nobody is left to answer */
}

static void answer(uint32_t slot, const float *vector)
{
    struct embedder_answer answer = {.slot = slot};
    memcpy(answer.vector, vector, sizeof answer.vector);
    while (send(EMBEDDER_SOCKET, &answer, sizeof answer, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            _exit(0);
}

/* ---- work ---- */

static void run_some(struct server *self, struct queue *queue, void (*pause)(void *ctx))
{
    float vectors[BATCH * EMBED_DIMS];
    struct str texts[BATCH] = {0};
    uint32_t slots[BATCH] = {0};
    size_t count = MIN(queue->count, (size_t)BATCH);
    for (size_t i = 0; i < count; i++) {
        const struct waiting *item = &queue->items[(queue->first + i) % countof(queue->items)];
        texts[i] = str_n(item->text, item->len);
        slots[i] = item->slot;
    }
    embed_texts_pausing(self->model, texts, count, pause, self, vectors);
    /* Only now: until then the ring must not give their memory away. */
    queue->first = (queue->first + count) % countof(queue->items);
    queue->count -= count;
    for (size_t i = 0; i < count; i++)
        answer(slots[i], vectors + i * EMBED_DIMS);
}

static void between_steps(void *ctx)
{
    struct server *self = ctx;
    receive(self);
    while (self->queries.count > 0)
        run_some(self, &self->queries, NULL);
}

static void NORETURN serve(struct server *self)
{
    for (;;) {
        struct pollfd ready = {.fd = EMBEDDER_SOCKET, .events = POLLIN};
        bool is_idle = self->queries.count == 0 && self->texts.count == 0;
        if (is_idle && poll(&ready, 1, -1) < 0 && errno != EINTR)
            _exit(EXIT_SETUP);
        between_steps(self);
        if (self->texts.count > 0)
            run_some(self, &self->texts, between_steps);
    }
}

/* ---- start ---- */

static int embedder_serve_load(struct server *self, int threads, struct err *err)
{
    struct workers *workers = NULL;
    if (threads < 1 || threads > EMBED_THREADS_MAX)
        return err_set(err, ERR_INVALID, "a model has 1 to %d threads", EMBED_THREADS_MAX);
    if (workers_start(threads, &workers, err) < 0)
        return -1;
    if (confine_calls(&embedder_calls, err) < 0 ||
        embed_model_load(EMBEDDER_WEIGHTS, EMBEDDER_TOKENIZER, workers, NULL, &self->model, err) <
            0)
        return -1;
    (void)close(EMBEDDER_WEIGHTS);
    (void)close(EMBEDDER_TOKENIZER);
    return 0;
}

int embedder_main(void)
{
    static struct server self;
    struct embedder_start start;
    struct embedder_started started = {0};
    (void)prctl(PR_SET_NAME, "embedder");
    (void)signal(SIGINT, SIG_IGN); /* a terminal's ^C is its parent's to handle */
    (void)signal(SIGPIPE, SIG_IGN);
    confine_privileges(true);
    if (recv(EMBEDDER_SOCKET, &start, sizeof start, 0) != sizeof start)
        return 0;
    int done = embedder_serve_load(&self, start.threads, &started.err);
    if (send(EMBEDDER_SOCKET, &started, sizeof started, MSG_NOSIGNAL) < 0 || done < 0)
        return EXIT_SETUP;
    serve(&self);
}
