/* Requests to a warden. None of these waits; jail/client/warden_link.h describes the answers. */

#include <signal.h>

#include "jail/client/client.h"
#include "jail/wire/linux.h"
#include "jail/wire/warden.h"

static int send_request(struct warden_link *warden, uint32_t request, uint32_t *ret_request,
                        struct err *err)
{
    if (warden_send(warden, NULL, 0, err) < 0)
        return -1;
    *ret_request = request;
    return 0;
}

static int check_plan(const struct jail_plan *plan, struct jail_plan *ret_filled, struct err *err)
{
    *ret_filled = *plan;
    jail_plan_fill(ret_filled);
    return jail_plan_check(ret_filled, err);
}

int warden_ask_make(struct warden_link *warden, const struct jail_plan *plan, uint32_t *ret_request,
                    struct err *err)
{
    struct jail_plan filled;
    if (check_plan(plan, &filled, err) < 0)
        return -1;
    uint32_t request = warden_begin(warden, WARDEN_MAKE);
    plan_put(&warden->out, &filled);
    return send_request(warden, request, ret_request, err);
}

int warden_ask_pool(struct warden_link *warden, const struct jail_plan *plan, size_t count,
                    int64_t idle_ms, uint32_t *ret_request, struct err *err)
{
    struct jail_plan filled;
    if (check_plan(plan, &filled, err) < 0)
        return -1;
    uint32_t request = warden_begin(warden, WARDEN_POOL);
    wire_put_u32(&warden->out, (uint32_t)MIN(count, (size_t)UINT32_MAX));
    wire_put_i64(&warden->out, idle_ms);
    plan_put(&warden->out, &filled);
    return send_request(warden, request, ret_request, err);
}

int warden_ask_count(struct warden_link *warden, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(warden, WARDEN_COUNT);
    return send_request(warden, request, ret_request, err);
}

int jail_ask_stat(struct jail *jail, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_STAT);
    wire_put_u32(&jail->warden->out, jail->number);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_kill(struct jail *jail, uint32_t command, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_KILL);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, command);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_freeze(struct jail *jail, bool frozen, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_FREEZE);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, frozen);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_gateway(struct jail *jail, uint16_t proxy_port, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_GATEWAY);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, proxy_port);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_listen(struct jail *jail, uint16_t port, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_LISTEN);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, port);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_layer(struct jail *jail, uint32_t *ret_request, struct err *err)
{
    uint32_t request = warden_begin(jail->warden, WARDEN_LAYER);
    wire_put_u32(&jail->warden->out, jail->number);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_seal(struct jail *jail, const struct jail_plan *plan, const struct jail_seal *seal,
                  uint32_t *ret_request, struct err *err)
{
    struct jail_plan filled;
    if (check_plan(plan, &filled, err) < 0)
        return -1;
    uint32_t request = warden_begin(jail->warden, WARDEN_SEAL);
    wire_put_u32(&jail->warden->out, jail->number);
    wire_put_u32(&jail->warden->out, (uint32_t)seal->kept);
    wire_put_i64(&jail->warden->out, seal->most_bytes);
    wire_put_u32(&jail->warden->out, seal->processes);
    plan_put(&jail->warden->out, &filled);
    return send_request(jail->warden, request, ret_request, err);
}

int jail_ask_end(struct jail *jail, uint32_t *ret_request, struct err *err)
{
    if (jail->ended)
        return err_set(err, ERR_GONE, "the jail has ended");
    uint32_t request = warden_begin(jail->warden, WARDEN_END);
    wire_put_u32(&jail->warden->out, jail->number);
    if (send_request(jail->warden, request, ret_request, err) < 0)
        return -1;
    jail->ended = true;
    /* Kills init at once, while the warden wakes up. If this fails, or processes are frozen, the
     * warden's request ends them. */
    (void)k_pidfd_send_signal(jail->pidfd, SIGKILL);
    return 0;
}
