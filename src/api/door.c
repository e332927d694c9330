#include "api/door.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http.h"
#include "api/tls.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "io/listen.h"

enum { ACCEPTS = 64, TLS_HANDSHAKE_BYTE = 0x16, TIRED_MS = 100 };

struct newcomer;
struct door {
    struct loop *loop;
    struct http *http;
    enum door_kind kind;
    struct tls *tls;
    int fd;
    struct watch *watch;
    struct timer *rest; /* no descriptors are left: looking again at once would only turn */
    struct newcomer *newest, *oldest;
    size_t waiting;
};

/* A connection whose first byte has not come. */
struct newcomer {
    struct door *door;
    int fd;
    struct addr peer;
    struct watch *watch;
    struct timer *timer;
    struct newcomer *older, *newer;
};

static void newcomer_free(struct newcomer *newcomer)
{
    struct door *door = newcomer->door;
    *(newcomer->newer == NULL ? &door->newest : &newcomer->newer->older) = newcomer->older;
    *(newcomer->older == NULL ? &door->oldest : &newcomer->older->newer) = newcomer->newer;
    door->waiting--;
    newcomer->watch = watch_free(newcomer->watch);
    newcomer->timer = timer_free(newcomer->timer);
    fd_close(&newcomer->fd);
    free(newcomer);
}

static void serve(struct door *door, int fd, const struct addr *peer, bool is_tls)
{
    struct err err;
    AUTO_CLOSE int own = fd;
    AUTO_CLOSE int plain = -1;
    if (is_tls) {
        if (tls_accept(door->tls, door->loop, own, &plain, &err) < 0)
            return;
        (void)fd_take(&own);
    } else {
        plain = fd_take(&own);
    }
    /* The library looks at the peer for its limits alone. */
    if (http_add_connection(door->http, plain, &peer->sa.any, peer->len, &err) < 0) {
        log_debug("door.refused", LOG_STR("why", err.msg));
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
    struct door *door = newcomer->door;
    struct addr peer = newcomer->peer;
    newcomer->watch = watch_free(newcomer->watch);
    int fd = fd_take(&newcomer->fd);
    newcomer_free(newcomer);
    serve(door, fd, &peer, byte == TLS_HANDSHAKE_BYTE);
}

static void on_late(void *ctx)
{
    newcomer_free(ctx);
}

static void wait_for_byte(struct door *door, int fd, const struct addr *peer)
{
    struct err err;
    if (door->waiting >= DOOR_WAITING_MAX)
        newcomer_free(door->oldest);
    struct newcomer *newcomer = mem_alloc(sizeof *newcomer);
    newcomer->door = door;
    newcomer->fd = fd;
    newcomer->peer = *peer;
    newcomer->older = door->newest;
    *(door->newest == NULL ? &door->oldest : &door->newest->newer) = newcomer;
    door->newest = newcomer;
    door->waiting++;
    newcomer->timer = timer_new(door->loop, on_late, newcomer);
    timer_set(newcomer->timer, DOOR_FIRST_BYTE_MS, 0);
    if (watch_new(door->loop, fd, WATCH_READ, on_first_byte, newcomer, &newcomer->watch, &err) < 0)
        newcomer_free(newcomer);
}

static void greet(struct door *door, int fd, const struct addr *peer)
{
    int byte = door->kind == DOOR_EITHER ? first_byte(fd) : 0;
    if (byte < 0)
        wait_for_byte(door, fd, peer);
    else
        serve(door, fd, peer,
              door->kind == DOOR_TLS || (door->kind == DOOR_EITHER && byte == TLS_HANDSHAKE_BYTE));
}

static void on_connection(void *ctx, UNUSED int events)
{
    struct door *door = ctx;
    for (int i = 0; i < ACCEPTS; i++) {
        struct addr peer = {.len = sizeof peer.sa};
        int fd = accept4(door->fd, &peer.sa.any, &peer.len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            greet(door, fd, &peer);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            watch_set(door->watch, 0);
            timer_set(door->rest, TIRED_MS, 0);
        }
        return;
    }
}

static void on_rested(void *ctx)
{
    struct door *door = ctx;
    watch_set(door->watch, WATCH_READ);
}

int door_open(struct loop *loop, struct http *http, int listen_fd, enum door_kind kind,
              struct tls *tls, struct door **ret_door, struct err *err)
{
    assert(kind == DOOR_PLAIN || tls != NULL);
    struct door *door = mem_alloc(sizeof *door);
    *door = (struct door){.loop = loop, .http = http, .kind = kind, .tls = tls, .fd = -1};
    if (watch_new(loop, listen_fd, WATCH_READ, on_connection, door, &door->watch, err) < 0) {
        free(door);
        return -1;
    }
    door->rest = timer_new(loop, on_rested, door);
    door->fd = listen_fd;
    *ret_door = door;
    return 0;
}

struct door *door_free(struct door *door)
{
    if (door == NULL)
        return NULL;
    struct newcomer *older;
    for (struct newcomer *newcomer = door->newest; newcomer != NULL; newcomer = older) {
        older = newcomer->older;
        newcomer_free(newcomer);
    }
    door->watch = watch_free(door->watch);
    door->rest = timer_free(door->rest);
    fd_close(&door->fd);
    free(door);
    return NULL;
}
