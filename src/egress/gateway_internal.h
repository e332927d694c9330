#pragma once

/* What the owner, the maker and the workers say to each other. */

#include "egress/gateway.h"
#include "egress/post.h"

enum gateway_message {
    /* owner to maker */
    GATEWAY_ADD = 1, /* a byte per descriptor: its enum porter_socket */
    GATEWAY_REMOVE,
    GATEWAY_ROOTS, /* path of the roots that TLS trusts, or nothing for the system's */
    /* maker to owner */
    GATEWAY_STARTED, /* the owner's socket to the worker */
    GATEWAY_ENDED,
    /* owner to worker */
    GATEWAY_NAMES,     /* lines: names that have addresses, in order; before the next */
    GATEWAY_SECRETS,   /* packed; before the next, as is */
    GATEWAY_AUTHORITY, /* packed */
    GATEWAY_CONFIG,    /* JSON; the worker begins to serve, or holds to it from now on */
    GATEWAY_POLICY,    /* text */
    /* maker to worker */
    GATEWAY_SOCKET, /* as ADD */
    /* worker to owner */
    GATEWAY_BLOCKED, /* JSON */
    GATEWAY_NAME,    /* "17 example.com" */
    GATEWAY_MOVED,   /* "1024": bytes of both directions since the worker began */
};

struct gateway_socket {
    enum porter_socket kind;
    int fd;
};

/* In the maker: what every worker is born with. Parsing the roots takes milliseconds. */
int gateway_load_roots(struct str path, struct err *err) MUST_USE;

/* All of a worker: serves these, which it takes, until it is idle. Gives its exit code. */
int gateway_work(int owner_fd, const struct gateway_socket *sockets, size_t count);
