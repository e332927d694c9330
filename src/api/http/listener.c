#include "api/http/listener.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http/http.h"
#include "api/http/tls.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "io/listen.h"

enum { ACCEPTS = 64, TLS_HANDSHAKE_BYTE = 0x16, TIRED_MS = 100 };

struct newcomer;
struct listener {
    struct loop *loop;
    struct http *http;
    enum listener_kind kind;
    struct tls *tls;
    int fd;
    struct watch *watch;
    struct timer *rest; /* no descriptors are left: looking again at once would only turn */
    struct newcomer *newest, *oldest;
    size_t waiting;
};

/* A connection whose first byte has not come. */
struct newcomer {
    struct listener *listener;
    int fd;
    struct addr peer;
    struct watch *watch;
    struct timer *timer;
    struct newcomer *older, *newer;
};

static void newcomer_free(struct newcomer *newcomer)
{
    struct listener *listener = newcomer->listener;
    *(newcomer->newer == NULL ? &listener->newest : &newcomer->newer->older) = newcomer->older;
    *(newcomer->older == NULL ? &listener->oldest : &newcomer->older->newer) = newcomer->newer;
    listener->waiting--;
    newcomer->watch = watch_free(newcomer->watch);
    newcomer->timer = timer_free(newcomer->timer);
    fd_close(&newcomer->fd);
    free(newcomer);
}

static void listener_serve(struct listener *listener, int fd, const struct addr *peer, bool is_tls)
{
    struct err err;
    AUTO_CLOSE int own = fd;
    AUTO_CLOSE int plain = -1;
    if (is_tls) {
        if (tls_accept(listener->tls, listener->loop, own, &plain, &err) < 0)
            return;
        (void)fd_take(&own);
    } else {
        plain = fd_take(&own);
    }
    /* The library uses the peer's address only for its limits. */
    if (http_add_connection(listener->http, plain, &peer->sa.any, peer->len, &err) < 0) {
        log_debug("listener.refused", LOG_STR("why", err.msg));
        return;
    }
    (void)fd_take(&plain);
}

/* -1: no byte yet. */
static int first_byte(int fd)
{
    unsigned char byte;
    ssize_t count = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count == 1)
        return byte;
    return count < 0 && (errno == EAGAIN || errno == EINTR) ? -1 : 0;
}

static void on_first_byte(void *ctx, UNUSED int events)
{
    struct newcomer *newcomer = ctx;
    int byte = first_byte(newcomer->fd);
    if (byte < 0)
        return;
    struct listener *listener = newcomer->listener;
    struct addr peer = newcomer->peer;
    newcomer->watch = watch_free(newcomer->watch);
    int fd = fd_take(&newcomer->fd);
    newcomer_free(newcomer);
    listener_serve(listener, fd, &peer, byte == TLS_HANDSHAKE_BYTE);
}

static void on_late(void *ctx)
{
    newcomer_free(ctx);
}

static void wait_for_byte(struct listener *listener, int fd, const struct addr *peer)
{
    struct err err;
    if (listener->waiting >= LISTENER_WAITING_MAX)
        newcomer_free(listener->oldest);
    struct newcomer *newcomer = mem_alloc(sizeof *newcomer);
    newcomer->listener = listener;
    newcomer->fd = fd;
    newcomer->peer = *peer;
    newcomer->older = listener->newest;
    *(listener->newest == NULL ? &listener->oldest : &listener->newest->newer) = newcomer;
    listener->newest = newcomer;
    listener->waiting++;
    newcomer->timer = timer_new(listener->loop, on_late, newcomer);
    timer_set(newcomer->timer, LISTENER_FIRST_BYTE_MS, 0);
    if (watch_new(listener->loop, fd, WATCH_READ, on_first_byte, newcomer, &newcomer->watch, &err) <
        0)
        newcomer_free(newcomer);
}

static void accept_one(struct listener *listener, int fd, const struct addr *peer)
{
    int byte = listener->kind == LISTENER_EITHER ? first_byte(fd) : 0;
    if (byte < 0)
        wait_for_byte(listener, fd, peer);
    else
        listener_serve(listener, fd, peer,
                       listener->kind == LISTENER_TLS ||
                           (listener->kind == LISTENER_EITHER && byte == TLS_HANDSHAKE_BYTE));
}

static void on_connection(void *ctx, UNUSED int events)
{
    struct listener *listener = ctx;
    for (int i = 0; i < ACCEPTS; i++) {
        struct addr peer = {.len = sizeof peer.sa};
        int fd = accept4(listener->fd, &peer.sa.any, &peer.len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            accept_one(listener, fd, &peer);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            watch_set(listener->watch, 0);
            timer_set(listener->rest, TIRED_MS, 0);
        }
        return;
    }
}

static void on_rested(void *ctx)
{
    struct listener *listener = ctx;
    watch_set(listener->watch, WATCH_READ);
}

int listener_open(struct loop *loop, struct http *http, int listen_fd, enum listener_kind kind,
                  struct tls *tls, struct listener **ret_listener, struct err *err)
{
    assert(kind == LISTENER_PLAIN || tls != NULL);
    struct listener *listener = mem_alloc(sizeof *listener);
    *listener = (struct listener){.loop = loop, .http = http, .kind = kind, .tls = tls, .fd = -1};
    if (watch_new(loop, listen_fd, WATCH_READ, on_connection, listener, &listener->watch, err) <
        0) {
        free(listener);
        return -1;
    }
    listener->rest = timer_new(loop, on_rested, listener);
    listener->fd = listen_fd;
    *ret_listener = listener;
    return 0;
}

struct listener *listener_free(struct listener *listener)
{
    if (listener == NULL)
        return NULL;
    struct newcomer *older;
    for (struct newcomer *newcomer = listener->newest; newcomer != NULL; newcomer = older) {
        older = newcomer->older;
        newcomer_free(newcomer);
    }
    listener->watch = watch_free(listener->watch);
    listener->rest = timer_free(listener->rest);
    fd_close(&listener->fd);
    free(listener);
    return NULL;
}
