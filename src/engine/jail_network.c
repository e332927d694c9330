/* The network of a jail's sandbox: a gateway of its own, judged by its policy.
 *
 * A jail is made without one. What it shall reach comes as a change, at its beginning and later:
 * the warden opens sockets inside, they go to a session of the gateway, the ports that the policy
 * names get sockets of their own, the roots that the jail trusts are written, and only then does
 * the new policy hold. A step that fails leaves what held before.
 *
 * A sandbox that may reach nothing costs nothing here until one of its programs asks a proxy for
 * something: then it gets a gateway too, which tells it that it has no network. */

#include "base/fd.h"
#include "base/log.h"
#include "egress/authority.h"
#include "egress/gateway.h"
#include "egress/settings.h"
#include "engine/config.h"
#include "engine/jail_place.h"
#include "engine/network.h"

static_assert((int)SETTINGS_PROXY_PORT == (int)JAIL_PROXY_PORT, "the socket that every jail has");

struct net_change {
    struct place *place; /* NULL: it has gone, and the warden still owes an answer */
    struct network *network;
    engine_done *done;
    void *ctx;
    VEC(uint16_t) ports; /* still to be opened, the last one first */
    void *writer;        /* of the roots; NULL: none */
    bool is_asking;      /* the warden */
    bool must_join;      /* though it may reach nothing: there is somebody to be told so */
    bool is_knock;       /* a program's, who waits for the warden alone; one that was asked for
                          * takes its place */
};

static void change_free(struct net_change *change)
{
    (void)network_free(change->network);
    vec_done(&change->ports);
    free(change);
}

/* The last word; whoever hears it may end the place. */
static void finish(struct net_change *change, const struct err *why)
{
    struct place *place = change->place;
    engine_done *done = change->done;
    void *ctx = change->ctx;
    place->net_change = NULL;
    if (why == NULL) {
        struct network *old = place->net;
        place->net = network_ref(change->network);
        (void)network_free(old);
    }
    change_free(change);
    done(ctx, why);
}

/* --- What holds --- */

static void apply(struct net_change *change)
{
    struct place *place = change->place;
    const struct network *old = place->net, *new = change->network;
    struct err err = {0};
    bool has_other_keys =
        old == NULL || old->secrets != new->secrets || old->authority != new->authority;
    if (has_other_keys && (new->secrets != NULL || (old != NULL && old->secrets != NULL) ||
                           new->authority != NULL || (old != NULL && old->authority != NULL)))
        gateway_set_keys(place->network, new->secrets, new->authority);
    gateway_set_limits(place->network, &new->limits);
    int done = gateway_set_policy(place->network, new->policy, &err);
    finish(change, done < 0 ? &err : NULL);
}

/* --- The roots that it trusts --- */

static void on_written(void *ctx, UNUSED const struct file_answer *answer, const struct err *why)
{
    struct net_change *change = ctx;
    void *writer = change->writer;
    change->writer = NULL;
    jail_writer_free(writer);
    if (change->place == NULL)
        change_free(change);
    else if (why != NULL)
        finish(change, why);
    else
        apply(change);
}

static int write_roots(struct net_change *change, struct err *err)
{
    static const struct file_writer_calls calls = {.on_done = on_written};
    AUTO_BUF struct buf bundle = {0};
    struct file_put put = {.path = STR(NETWORK_CA_FILE), .make_parents = true, .mode = 0644};
    if (jail_roots_bundle(change->network->authority, &bundle, err) < 0 ||
        jail_roots_write(change->place, buf_str(&bundle), err) < 0 ||
        jail_file_put(change->place, &put, &calls, change, &change->writer, err) < 0)
        return err_wrap(err, "write what the sandbox trusts");
    (void)jail_writer_write(change->writer, buf_str(&bundle));
    jail_writer_finish(change->writer);
    return 0;
}

static void give_roots(struct net_change *change)
{
    struct place *place = change->place;
    const struct authority *authority = change->network->authority;
    struct err err = {0};
    if (authority == NULL || (place->net != NULL && place->net->authority == authority)) {
        apply(change);
    } else if (write_roots(change, &err) < 0) {
        finish(change, &err);
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

static void join(struct net_change *change);
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

static void on_port(struct request *request, const struct warden_event *event,
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
        (void)err_wrap(&err, "network: port %d is taken inside", change->ports.ptr[0]);
        finish(change, &err);
    } else if (place->network == NULL) { /* the gateway died meanwhile */
        join(change);
    } else if (gateway_add(place->network, PORTER_OPEN, fd_take(&fd), &err) < 0) {
        finish(change, &err);
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
        finish(change, &err);
        return;
    }
    change->is_asking = true;
    (void)jail_warden_asked(change->place->provider, number, on_port, change);
}

/* --- The gateway --- */

static void on_blocked(void *ctx, const struct gateway_event *event)
{
    const struct place *place = ctx;
    const struct provider_host *host = place->provider->host;
    host->on_blocked(host->engine, str_of(place->id), event->channel, event->host, event->port,
                     event->reason, event->text);
}

static void on_moved(void *ctx, int64_t bytes)
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

static struct net_change *begin(struct place *place, struct network *network, engine_done *done,
                                void *ctx)
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
    log_error("jail.gateway", LOG_STR("error", "the maker of gateways died; another is started"));
    for (struct place *place = provider->places; place != NULL; place = place->next) {
        place->lost_network = place->network != NULL;
        place->network = gateway_close(place->network);
        place->ports.len = 0;
    }
    jail_network_stop(provider);
    for (struct place *place = provider->places; place != NULL; place = place->next) {
        struct network *network = place->net;
        if (network == NULL || !place->lost_network || place->net_change != NULL || place->is_gone)
            continue;
        place->net = NULL; /* nothing of it holds now */
        struct net_change *change = begin(place, network, on_joined_again, place);
        change->must_join = true;
        join(change);
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
    static const enum porter_socket kinds[JAIL_SOCKETS] = {
        [JAIL_SOCKET_PROXY] = PORTER_PROXY,     [JAIL_SOCKET_DNS] = PORTER_DNS,
        [JAIL_SOCKET_DNS_TCP] = PORTER_DNS_TCP, [JAIL_SOCKET_HTTP] = PORTER_OPEN,
        [JAIL_SOCKET_HTTPS] = PORTER_OPEN,
    };
    struct provider *provider = place->provider;
    struct gateway_session_options options = {
        .dns_servers = provider->dns_servers.len > 0 ? buf_cstr(&provider->dns_servers) : NULL,
        .limits.bytes_before = place->net_moved,
        .on_blocked = on_blocked,
        .on_moved = on_moved,
        .ctx = place};
    int done = gateway_open(provider->gateway, &options, &place->network, err);
    for (int i = 0; i < JAIL_SOCKETS; i++) {
        int fd = sockets[i];
        if (done < 0)
            fd_close(&fd);
        else
            done = gateway_add(place->network, kinds[i], fd, err);
    }
    return done;
}

static void on_sockets(struct request *request, const struct warden_event *event,
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
            finish(change, why);
        return;
    }
    if (!event->has_sockets) {
        (void)err_set(&err, ERR_INTERNAL, "the warden sent no sockets");
        finish(change, &err);
    } else if (open_gateway(change->place->provider, change->network->authority != NULL, &err) <
                   0 ||
               open_session(change->place, event->sockets, &err) < 0) {
        finish(change, &err);
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
        finish(change, &err);
        return;
    }
    change->is_asking = true;
    (void)jail_warden_asked(change->place->provider, number, on_sockets, change);
}

static void join(struct net_change *change)
{
    struct place *place = change->place;
    struct err err = {0};
    bool is_silent = network_is_offline(change->network) && !change->must_join;
    if (place->network == NULL && is_silent) {
        finish(change, NULL);
    } else if (open_gateway(place->provider, change->network->authority != NULL, &err) < 0) {
        finish(change, &err);
    } else if (place->network == NULL) {
        ask_sockets(change);
    } else {
        want_ports(change);
        open_port(change);
    }
}

/* The sockets that it waits for are this one's as well. */
static void replace(struct net_change *knock, struct network *network, engine_done *done, void *ctx)
{
    struct network *old = knock->network;
    knock->network = network_ref(network);
    knock->done = done;
    knock->ctx = ctx;
    knock->is_knock = false;
    (void)network_free(old);
}

void jail_network_set(struct place *place, struct network *network, engine_done *done, void *ctx)
{
    struct err err = {0};
    if (place->net_change != NULL && place->net_change->is_knock) {
        replace(place->net_change, network, done, ctx);
    } else if (place->net_change != NULL) {
        (void)err_set(&err, ERR_BUSY, "its network is being changed; try again");
        done(ctx, &err);
    } else {
        join(begin(place, network, done, ctx));
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
        log_info("jail.knock", LOG_STR("sandbox", place->id), LOG_STR("error", why->msg));
}

void jail_network_knocked(struct provider *provider, uint32_t number)
{
    struct place *place = find_place(provider, number);
    /* One that is getting a network will be answered by it. */
    if (place == NULL || place->net == NULL || place->network != NULL || place->net_change != NULL)
        return;
    struct net_change *knock = begin(place, place->net, on_heard, place);
    knock->must_join = knock->is_knock = true;
    join(knock);
}

void jail_network_end(struct place *place, const struct err *why)
{
    struct net_change *change = place->net_change;
    if (change == NULL)
        return;
    engine_done *done = change->done;
    void *ctx = change->ctx;
    place->net_change = NULL;
    change->place = NULL;
    if (change->writer != NULL) {
        jail_writer_free(change->writer);
        change->writer = NULL;
    }
    if (!change->is_asking)
        change_free(change);
    done(ctx, why);
}

void jail_network_stop(struct provider *provider)
{
    provider->gateway_watch = watch_free(provider->gateway_watch);
    provider->gateway = gateway_free(provider->gateway);
    provider->has_roots = false;
}
