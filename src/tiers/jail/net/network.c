/* The network of a jail's sandbox: its own gateway, which applies its policy.
 *
 * A jail is made without a network. What it may reach is set by a change, at its start and later:
 * the warden opens sockets inside, they go to a session of the gateway, the ports that the policy
 * names get sockets of their own, the certificates that the jail trusts are written, and only then
 * the new policy takes effect. A step that fails leaves the previous policy in effect.
 *
 * A sandbox that may reach nothing costs nothing here until one of its programs connects to the
 * proxy: then it gets a gateway too, which answers that it has no network. */

#include "tiers/jail/net/network.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "config/config.h"
#include "egress/gateway/gateway.h"
#include "egress/keys/authority.h"
#include "egress/policy/settings.h"
#include "engine/network.h"
#include "io/loop.h"
#include "jail/client/jail.h"
#include "tiers/jail/files/files.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"
#include "tiers/jail/warden.h"

static_assert((int)SETTINGS_PROXY_PORT == (int)JAIL_PROXY_PORT, "the socket that every jail has");

struct net_change {
    struct place *place; /* NULL: it has gone, and the warden still owes an answer */
    struct network *network;
    engine_done *done;
    void *ctx;
    VEC(uint16_t) ports; /* still to be opened, the last one first */
    void *writer;        /* of the roots; NULL: none */
    bool is_asking;      /* the warden */
    bool must_join;      /* also without an allowed host: its proxy explains the refusal */
    /* A program in the jail caused it, and it waits only for the warden. A change that a caller
     * requests replaces it. */
    bool is_wanted;
};

static void change_free(struct net_change *change)
{
    (void)network_free(change->network);
    vec_done(&change->ports);
    free(change);
}

/* Ends the change; the call-back may end the place. */
static void network_finish(struct net_change *change, const struct err *why)
{
    struct place *place = change->place;
    engine_done *done = change->done;
    void *ctx = change->ctx;
    place->net_change = NULL;
    if (why == NULL) {
        struct network *old = place->network_in_effect;
        place->network_in_effect = network_ref(change->network);
        (void)network_free(old);
    }
    change_free(change);
    done(ctx, why);
}

/* --- What holds --- */

static void network_apply(struct net_change *change)
{
    struct place *place = change->place;
    const struct network *old = place->network_in_effect, *new = change->network;
    struct err err = {0};
    bool has_other_keys =
        old == NULL || old->secrets != new->secrets || old->authority != new->authority;
    if (has_other_keys && (new->secrets != NULL || (old != NULL && old->secrets != NULL) ||
                           new->authority != NULL || (old != NULL && old->authority != NULL)))
        gateway_set_keys(place->gateway_session, new->secrets, new->authority);
    gateway_set_limits(place->gateway_session, &new->limits);
    int done = gateway_set_policy(place->gateway_session, new->policy, &err);
    network_finish(change, done < 0 ? &err : NULL);
}

/* --- The roots that it trusts --- */

static void network_on_written(void *ctx, UNUSED const struct file_answer *answer,
                               const struct err *why)
{
    struct net_change *change = ctx;
    void *writer = change->writer;
    change->writer = NULL;
    tier_writer_free(writer);
    if (change->place == NULL)
        change_free(change);
    else if (why != NULL)
        network_finish(change, why);
    else
        network_apply(change);
}

static int write_roots(struct net_change *change, struct err *err)
{
    static const struct file_writer_calls calls = {.on_done = network_on_written};
    AUTO_BUF struct buf bundle = {0};
    struct file_put put = {.path = STR(NETWORK_CA_FILE), .make_parents = true, .mode = 0644};
    if (tier_roots_bundle(change->network->authority, &bundle, err) < 0 ||
        tier_roots_write(change->place, buf_str(&bundle), err) < 0 ||
        tier_file_put(change->place, &put, &calls, change, &change->writer, err) < 0)
        return err_wrap(err, "write the sandbox's trusted certificates");
    (void)tier_writer_write(change->writer, buf_str(&bundle));
    tier_writer_finish(change->writer);
    return 0;
}

static void give_roots(struct net_change *change)
{
    struct place *place = change->place;
    const struct authority *authority = change->network->authority;
    struct err err = {0};
    if (authority == NULL ||
        (place->network_in_effect != NULL && place->network_in_effect->authority == authority)) {
        network_apply(change);
    } else if (write_roots(change, &err) < 0) {
        network_finish(change, &err);
    }
}

/* --- Ports --- */

static bool has_port(const struct place *place, const struct net_change *change, uint16_t port)
{
    if (port == 0 || port == 53 || port == 80 || port == 443 || port == SETTINGS_PROXY_PORT)
        return true;
    VEC_EACH (have, &place->ports)
        if (*have == port)
            return true;
    VEC_EACH (wanted, &change->ports)
        if (*wanted == port)
            return true;
    return false;
}

static void want_ports(struct net_change *change)
{
    const struct policy *policy = change->network->policy;
    change->ports.len = 0;
    VEC_EACH (rule, &policy->allow)
        for (size_t i = 0; i < rule->port_count; i++)
            if (!has_port(change->place, change, rule->ports[i]))
                *vec_push(&change->ports) = rule->ports[i];
    VEC_EACH (entry, &policy->private)
        if (!has_port(change->place, change, entry->port))
            *vec_push(&change->ports) = entry->port;
}

static void network_join(struct net_change *change);
static void open_port(struct net_change *change);

/* True when the answer still counts for something. */
static bool answered(struct net_change *change)
{
    change->is_asking = false;
    if (change->place != NULL)
        return true;
    change_free(change);
    return false;
}

static void on_port(struct warden_request *request, const struct warden_event *event,
                    const struct err *why)
{
    struct net_change *change = request->ctx;
    AUTO_CLOSE int fd = event == NULL ? -1 : event->fd;
    struct err err = {0};
    if (!answered(change))
        return;
    struct place *place = change->place;
    if (why != NULL) {
        err = *why;
        (void)err_wrap(&err, "network: port %d is already in use inside the sandbox",
                       change->ports.ptr[0]);
        network_finish(change, &err);
    } else if (place->gateway_session == NULL) { /* the gateway died meanwhile */
        network_join(change);
    } else if (gateway_add(place->gateway_session, EGRESS_PROXY_OPEN, fd_take(&fd), &err) < 0) {
        network_finish(change, &err);
    } else {
        *vec_push(&place->ports) = change->ports.ptr[0];
        vec_remove(&change->ports, 0);
        open_port(change);
    }
}

static void open_port(struct net_change *change)
{
    struct err err = {0};
    uint32_t number = 0;
    if (change->ports.len == 0) {
        give_roots(change);
        return;
    }
    if (jail_ask_listen(change->place->jail, change->ports.ptr[0], &number, &err) < 0) {
        network_finish(change, &err);
        return;
    }
    change->is_asking = true;
    (void)tier_warden_asked(change->place->provider, number, on_port, change);
}

/* --- The gateway --- */

static void network_on_blocked(void *ctx, const struct gateway_event *event)
{
    const struct place *place = ctx;
    const struct provider_host *host = place->provider->host;
    host->on_blocked(host->engine, str_of(place->id), event->channel, event->host, event->port,
                     event->reason, event->text);
}

static void network_on_moved(void *ctx, int64_t bytes)
{
    struct place *place = ctx;
    const struct provider_host *host = place->provider->host;
    place->net_moved += bytes;
    host->on_moved(host->engine, str_of(place->id), bytes);
}

static void on_joined_again(void *ctx, const struct err *why)
{
    const struct place *place = ctx;
    if (why != NULL)
        log_error("jail.network", LOG_STR("sandbox", place->id), LOG_STR("error", why->msg));
}

static struct net_change *network_begin(struct place *place, struct network *network,
                                        engine_done *done, void *ctx)
{
    struct net_change *change = mem_alloc(sizeof *change);
    *change = (struct net_change){
        .place = place, .network = network_ref(network), .done = done, .ctx = ctx};
    place->net_change = change;
    return change;
}

/* Nothing leaves without it; every sandbox is given to the next one. */
static void gateway_died(struct provider *provider)
{
    log_error(
        "jail.gateway",
        LOG_STR("error", "the process that creates gateways died; a new one is being started"));
    for (struct place *place = provider->places; place != NULL; place = place->next) {
        place->lost_network = place->gateway_session != NULL;
        place->gateway_session = gateway_close(place->gateway_session);
        place->ports.len = 0;
    }
    tier_network_stop(provider);
    for (struct place *place = provider->places; place != NULL; place = place->next) {
        struct network *network = place->network_in_effect;
        if (network == NULL || !place->lost_network || place->net_change != NULL || place->is_gone)
            continue;
        place->network_in_effect = NULL; /* nothing of it holds now */
        struct net_change *change = network_begin(place, network, on_joined_again, place);
        change->must_join = true;
        network_join(change);
        (void)network_free(network);
    }
}

static void on_gateway(void *ctx, UNUSED int events)
{
    struct provider *provider = ctx;
    if (!gateway_step(provider->gateway))
        gateway_died(provider);
}

static int open_gateway(struct provider *provider, bool needs_roots, struct err *err)
{
    const struct str file = provider->host->config->egress.ca_file;
    AUTO_BUF struct buf path = {0};
    if (provider->gateway == NULL) {
        if (gateway_start(provider->host->program, &provider->gateway, err) < 0)
            return -1;
        if (watch_new(provider->host->loop, gateway_fd(provider->gateway), WATCH_READ, on_gateway,
                      provider, &provider->gateway_watch, err) < 0)
            return -1;
    }
    if (!needs_roots || provider->has_roots)
        return 0;
    buf_put(&path, file);
    provider->has_roots = true;
    return gateway_use_roots(provider->gateway, file.len > 0 ? buf_cstr(&path) : NULL, err);
}

/* Nothing is allowed yet. */
static int open_session(struct place *place, const int sockets[JAIL_SOCKETS], struct err *err)
{
    static const enum egress_proxy_socket kinds[JAIL_SOCKETS] = {
        [JAIL_SOCKET_PROXY] = EGRESS_PROXY_PROXY,     [JAIL_SOCKET_DNS] = EGRESS_PROXY_DNS,
        [JAIL_SOCKET_DNS_TCP] = EGRESS_PROXY_DNS_TCP, [JAIL_SOCKET_HTTP] = EGRESS_PROXY_OPEN,
        [JAIL_SOCKET_HTTPS] = EGRESS_PROXY_OPEN,
    };
    struct provider *provider = place->provider;
    struct gateway_session_options options = {
        .dns_servers = provider->dns_servers.len > 0 ? buf_cstr(&provider->dns_servers) : NULL,
        .limits.bytes_before = place->net_moved,
        .on_blocked = network_on_blocked,
        .on_moved = network_on_moved,
        .ctx = place};
    int done = gateway_open(provider->gateway, &options, &place->gateway_session, err);
    for (int i = 0; i < JAIL_SOCKETS; i++) {
        int fd = sockets[i];
        if (done < 0)
            fd_close(&fd);
        else
            done = gateway_add(place->gateway_session, kinds[i], fd, err);
    }
    return done;
}

static void on_sockets(struct warden_request *request, const struct warden_event *event,
                       const struct err *why)
{
    struct net_change *change = request->ctx;
    struct err err = {0};
    bool counts = answered(change);
    if (!counts || why != NULL) {
        for (int i = 0; event != NULL && event->has_sockets && i < JAIL_SOCKETS; i++) {
            int fd = event->sockets[i];
            fd_close(&fd);
        }
        if (counts)
            network_finish(change, why);
        return;
    }
    if (!event->has_sockets) {
        (void)err_set(&err, ERR_INTERNAL, "the warden sent no sockets");
        network_finish(change, &err);
    } else if (open_gateway(change->place->provider, change->network->authority != NULL, &err) <
                   0 ||
               open_session(change->place, event->sockets, &err) < 0) {
        network_finish(change, &err);
    } else {
        want_ports(change);
        open_port(change);
    }
}

static void ask_sockets(struct net_change *change)
{
    struct err err = {0};
    uint32_t number = 0;
    if (jail_ask_gateway(change->place->jail, SETTINGS_PROXY_PORT, &number, &err) < 0) {
        network_finish(change, &err);
        return;
    }
    change->is_asking = true;
    (void)tier_warden_asked(change->place->provider, number, on_sockets, change);
}

static void network_join(struct net_change *change)
{
    struct place *place = change->place;
    struct err err = {0};
    bool is_silent = network_is_offline(change->network) && !change->must_join;
    if (place->gateway_session == NULL && is_silent) {
        network_finish(change, NULL);
    } else if (open_gateway(place->provider, change->network->authority != NULL, &err) < 0) {
        network_finish(change, &err);
    } else if (place->gateway_session == NULL) {
        ask_sockets(change);
    } else {
        want_ports(change);
        open_port(change);
    }
}

/* The sockets that it waits for are this one's as well. */
static void replace(struct net_change *change, struct network *network, engine_done *done,
                    void *ctx)
{
    struct network *old = change->network;
    change->network = network_ref(network);
    change->done = done;
    change->ctx = ctx;
    change->is_wanted = false;
    (void)network_free(old);
}

void tier_network_set(struct place *place, struct network *network, engine_done *done, void *ctx)
{
    struct err err = {0};
    if (place->net_change != NULL && place->net_change->is_wanted) {
        replace(place->net_change, network, done, ctx);
    } else if (place->net_change != NULL) {
        (void)err_set(&err, ERR_BUSY, "its network is being changed; try again");
        done(ctx, &err);
    } else {
        network_join(network_begin(place, network, done, ctx));
    }
}

static struct place *find_place(const struct provider *provider, uint32_t number)
{
    for (struct place *place = provider->places; place != NULL; place = place->next)
        if (place->jail != NULL && !place->is_gone && jail_number(place->jail) == number)
            return place;
    return NULL;
}

static void on_heard(void *ctx, const struct err *why)
{
    const struct place *place = ctx;
    if (why != NULL)
        log_info("jail.gateway_wanted", LOG_STR("sandbox", place->id), LOG_STR("error", why->msg));
}

void tier_network_wanted(struct provider *provider, uint32_t number)
{
    struct place *place = find_place(provider, number);
    /* One that is getting a network will be answered by it. */
    if (place == NULL || place->network_in_effect == NULL || place->gateway_session != NULL ||
        place->net_change != NULL)
        return;
    struct net_change *change = network_begin(place, place->network_in_effect, on_heard, place);
    change->must_join = change->is_wanted = true;
    network_join(change);
}

void tier_network_end(struct place *place, const struct err *why)
{
    struct net_change *change = place->net_change;
    if (change == NULL)
        return;
    engine_done *done = change->done;
    void *ctx = change->ctx;
    place->net_change = NULL;
    change->place = NULL;
    if (change->writer != NULL) {
        tier_writer_free(change->writer);
        change->writer = NULL;
    }
    if (!change->is_asking)
        change_free(change);
    done(ctx, why);
}

void tier_network_stop(struct provider *provider)
{
    provider->gateway_watch = watch_free(provider->gateway_watch);
    provider->gateway = gateway_free(provider->gateway);
    provider->has_roots = false;
}
