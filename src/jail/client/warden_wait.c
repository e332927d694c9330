/* The same requests as blocking calls. */

#include <errno.h>
#include <poll.h>

#include "jail/client/client.h"

static bool find_kept(struct warden_link *warden, uint32_t request, struct warden_event *ret_event)
{
    for (size_t i = 0; i < warden->kept.len; i++) {
        if (warden->kept.ptr[i].request != request)
            continue;
        *ret_event = warden->kept.ptr[i];
        vec_remove(&warden->kept, i);
        return true;
    }
    return false;
}

int warden_await(struct warden_link *warden, uint32_t request, struct warden_event *ret_event,
                 struct err *err)
{
    bool found = find_kept(warden, request, ret_event);
    while (!found) {
        struct pollfd wait = {.fd = warden->fd,
                              .events =
                                  (short)(POLLIN | (warden_wants_write(warden) ? POLLOUT : 0))};
        if (poll(&wait, 1, -1) < 0 && errno != EINTR)
            return err_sys(err, errno, "poll");
        bool came = warden_take(warden, ret_event);
        if (warden->is_gone) {
            *err = warden->why_gone;
            return -1;
        }
        found = came && ret_event->request == request;
        if (came && !found)
            *vec_push(&warden->kept) = *ret_event;
    }
    if (ret_event->type != WARDEN_EVENT_FAILED)
        return 0;
    *err = ret_event->err;
    return -1;
}

int jail_make(struct warden_link *warden, const struct jail_plan *plan, struct jail **ret_jail,
              struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (warden_ask_make(warden, plan, &request, err) < 0 ||
        warden_await(warden, request, &event, err) < 0)
        return -1;
    *ret_jail = event.jail;
    return 0;
}

int jail_kill(struct jail *jail, uint32_t command, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_kill(jail, command, &request, err) < 0)
        return -1;
    return warden_await(jail->warden, request, &event, err);
}

int jail_gateway(struct jail *jail, uint16_t proxy_port, int ret_sockets[JAIL_SOCKETS],
                 struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_gateway(jail, proxy_port, &request, err) < 0 ||
        warden_await(jail->warden, request, &event, err) < 0)
        return -1;
    if (!event.has_sockets)
        return err_set(err, ERR_INTERNAL, "the warden sent no sockets");
    memcpy(ret_sockets, event.sockets, sizeof event.sockets);
    return 0;
}

int jail_listen(struct jail *jail, uint16_t port, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_listen(jail, port, &request, err) < 0 ||
        warden_await(jail->warden, request, &event, err) < 0)
        return -1;
    return event.fd < 0 ? err_set(err, ERR_INTERNAL, "the warden sent no socket") : event.fd;
}

int jail_end(struct jail *jail, struct jail_stats *ret_stats, struct err *err)
{
    uint32_t request;
    struct warden_event event;
    if (jail_ask_end(jail, &request, err) < 0 ||
        warden_await(jail->warden, request, &event, err) < 0)
        return -1;
    if (ret_stats != NULL)
        *ret_stats = event.stats;
    return 0;
}
