#pragma once

/* What the owner, the spawner and the proxies say to each other. */

#include "egress/gateway/gateway.h"
#include "egress/gateway/post.h"

enum gateway_message {
    /* owner to spawner */
    GATEWAY_ADD = 1, /* a byte per descriptor: its enum egress_proxy_socket */
    GATEWAY_REMOVE,
    GATEWAY_ROOTS, /* path of the roots that TLS trusts, or nothing for the system's */
    /* spawner to owner */
    GATEWAY_STARTED, /* the owner's socket to the proxy */
    GATEWAY_ENDED,
    /* owner to proxy */
    GATEWAY_NAMES,     /* lines: names that have addresses, in order; before the next */
    GATEWAY_SECRETS,   /* packed; before the next, as is */
    GATEWAY_AUTHORITY, /* packed */
    GATEWAY_CONFIG,    /* JSON; the proxy begins to serve, or holds to it from now on */
    GATEWAY_POLICY,    /* text */
    /* spawner to proxy */
    GATEWAY_SOCKET, /* as ADD */
    /* proxy to owner */
    GATEWAY_BLOCKED, /* JSON */
    GATEWAY_NAME,    /* "17 example.com" */
    GATEWAY_MOVED,   /* "1024": bytes of both directions since the proxy began */
};

struct gateway_socket {
    enum egress_proxy_socket kind;
    int fd;
};

/* In the spawner: what every proxy inherits. Parsing the roots takes milliseconds. */
int gateway_load_roots(struct str path, struct err *err) MUST_USE;

/* All of a proxy: serves these, which it takes, until it is idle. Gives its exit code. */
int gateway_work(int owner_fd, const struct gateway_socket *sockets, size_t count);
