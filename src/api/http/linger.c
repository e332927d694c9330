#include "api/http/linger.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"

struct lingerer {
    struct lingers *lingers;
    int fd;
    struct watch *watch;
    struct timer *timer;
    struct lingerer *next, *prev;
};

static void linger_end(void *ctx)
{
    struct lingerer *lingerer = ctx;
    struct lingers *lingers = lingerer->lingers;
    if (lingerer->prev != NULL)
        lingerer->prev->next = lingerer->next;
    else
        lingers->first = lingerer->next;
    if (lingerer->next != NULL)
        lingerer->next->prev = lingerer->prev;
    lingers->count--;
    (void)watch_free(lingerer->watch);
    (void)timer_free(lingerer->timer);
    fd_close(&lingerer->fd);
    free(lingerer);
}

static void on_bytes(void *ctx, UNUSED int events)
{
    struct lingerer *lingerer = ctx;
    char bytes[16 << 10];
    ssize_t count = read(lingerer->fd, bytes, sizeof bytes);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
        linger_end(lingerer);
}

void linger_add(struct lingers *lingers, int fd)
{
    (void)shutdown(fd, SHUT_WR);
    AUTO_CLOSE int kept = lingers->count < LINGER_MAX ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (kept < 0)
        return;
    struct err err;
    struct lingerer *lingerer = mem_alloc(sizeof *lingerer);
    if (watch_new(lingers->loop, kept, WATCH_READ, on_bytes, lingerer, &lingerer->watch, &err) <
        0) {
        free(lingerer);
        return;
    }
    lingerer->lingers = lingers;
    lingerer->fd = fd_take(&kept);
    lingerer->timer = timer_new(lingers->loop, linger_end, lingerer);
    timer_set(lingerer->timer, LINGER_MS, 0);
    lingerer->next = lingers->first;
    if (lingers->first != NULL)
        lingers->first->prev = lingerer;
    lingers->first = lingerer;
    lingers->count++;
}

void linger_done(struct lingers *lingers)
{
    struct lingerer *next;
    for (struct lingerer *lingerer = lingers->first; lingerer != NULL; lingerer = next) {
        next = lingerer->next;
        linger_end(lingerer);
    }
}
