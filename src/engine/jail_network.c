/* The network of a jail's sandbox: a gateway of its own, judged by its policy. */

#include "base/log.h"
#include "egress/gateway.h"
#include "egress/policy.h"
#include "egress/settings.h"
#include "engine/jail_place.h"

static void on_gateway(void *ctx, UNUSED int events)
{
    struct provider *provider = ctx;
    if (!gateway_step(provider->gateway)) {
        /* Nothing leaves a sandbox without it; new ones get a new one. */
        log_error("jail.gateway", LOG_STR("error", "the maker of gateways died"));
        provider->gateway_watch = watch_free(provider->gateway_watch);
    }
}

static int open_gateway(struct provider *provider, struct err *err)
{
    if (provider->gateway != NULL)
        return 0;
    if (gateway_start(provider->host->program, &provider->gateway, err) < 0)
        return -1;
    return watch_new(provider->host->loop, gateway_fd(provider->gateway), WATCH_READ, on_gateway,
                     provider, &provider->gateway_watch, err);
}

bool jail_is_offline(struct str network)
{
    return network.len == 0 || str_eq(network, STR("none"));
}

int jail_network_plan(struct place *place, struct err *err)
{
    if (open_gateway(place->provider, err) < 0)
        return -1;
    place->plan.net = JAIL_NET_GATEWAY;
    place->plan.gateway_port = SETTINGS_PROXY_PORT;
    return 0;
}

int jail_network_join(struct place *place, struct str network, struct err *err)
{
    static const enum porter_socket kinds[JAIL_SOCKETS] = {
        [JAIL_SOCKET_PROXY] = PORTER_PROXY,     [JAIL_SOCKET_DNS] = PORTER_DNS,
        [JAIL_SOCKET_DNS_TCP] = PORTER_DNS_TCP, [JAIL_SOCKET_HTTP] = PORTER_OPEN,
        [JAIL_SOCKET_HTTPS] = PORTER_OPEN,
    };
    AUTO_POLICY struct policy *policy = NULL;
    struct provider *provider = place->provider;
    if (policy_parse(network, POLICY_BY_OPERATOR, &policy, err) < 0)
        return -1;
    struct gateway_session_options options = {
        .policy = policy,
        .dns_servers = provider->dns_servers.len > 0 ? buf_cstr(&provider->dns_servers) : NULL};
    if (gateway_open(provider->gateway, &options, &place->network, err) < 0)
        return -1;
    for (int i = 0; i < JAIL_SOCKETS; i++)
        if (gateway_add(place->network, kinds[i],
                        jail_take_socket(place->jail, (enum jail_socket)i), err) < 0)
            return -1;
    return 0;
}

void jail_network_set(struct place *place, struct str network)
{
    AUTO_POLICY struct policy *policy = NULL;
    struct err err = {0};
    if (place->network == NULL) {
        if (!jail_is_offline(network))
            log_warn("jail.network", LOG_STR("sandbox", place->id),
                     LOG_STR("error", "it was made without a network; the next start has one"));
        return;
    }
    if (policy_parse(network, POLICY_BY_OPERATOR, &policy, &err) < 0 ||
        gateway_set_policy(place->network, policy, &err) < 0)
        log_error("jail.network", LOG_STR("sandbox", place->id), LOG_STR("error", err.msg));
}

void jail_network_stop(struct provider *provider)
{
    provider->gateway_watch = watch_free(provider->gateway_watch);
    provider->gateway = gateway_free(provider->gateway);
}
