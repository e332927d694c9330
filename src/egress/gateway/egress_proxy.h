#pragma once

/* The proxy of one sandbox: serves the sockets inside its network namespace.
 *
 * The socket identifies the sandbox; nothing that a client sends does. The proxy's socket takes
 * HTTP requests in absolute form, CONNECT and SOCKS 5, distinguished by the first byte; the
 * destination of a connection on a captured port is the socket's own address; names are resolved on
 * the DNS sockets. Every request is judged by the same function (verdict.h) and connected by the
 * same one (dial.h).
 *
 * Belongs to its loop's thread. In the product each proxy has its own locked process
 * (gateway.h). */

#include "egress/policy/verdict.h"

struct authority;
struct err;
struct loop;
struct egress_proxy;
struct secrets;
struct tls_trust;

enum egress_proxy_socket {
    EGRESS_PROXY_PROXY,
    EGRESS_PROXY_DNS,
    EGRESS_PROXY_DNS_TCP,
    EGRESS_PROXY_OPEN
};

enum {
    EGRESS_PROXY_CONNECTIONS = 1024,
    EGRESS_PROXY_HEAD_MS = 10000,
    EGRESS_PROXY_IDLE_MS = 300000,
    EGRESS_PROXY_TOTAL_MS = 24 * 3600 * 1000,
    EGRESS_PROXY_SOCKETS_MAX = 64,
    EGRESS_PROXY_HEAD_BYTES = 64 << 10,
    EGRESS_PROXY_HEAD_BYTES_MAX = 1 << 20,
};

/* 0 for the defaults above; the rates have none. */
struct egress_proxy_limits {
    int64_t connections;
    int64_t bytes_per_second, bytes_total; /* of both directions together; 0: no limit */
    int64_t head_ms;                       /* until a client has said what it wants */
    int64_t idle_ms, total_ms;             /* of one connection */
    int64_t head_bytes;                    /* of an HTTP message */
    int64_t answer_bytes; /* of an HTTP answer's body, where it is read; 0: no limit */
    int64_t bytes_before; /* of bytes_total, that an earlier proxy of this sandbox has moved */
};

enum egress_proxy_channel {
    EGRESS_PROXY_BY_PROXY,
    EGRESS_PROXY_BY_CONNECT,
    EGRESS_PROXY_BY_SOCKS,
    EGRESS_PROXY_BY_CAPTURE,
    EGRESS_PROXY_BY_DNS,
};
const char *egress_proxy_channel_name(enum egress_proxy_channel channel);

struct egress_proxy_event {
    enum egress_proxy_channel channel;
    const struct verdict *verdict; /* a refusal */
    const char *host;              /* "" when it could not be read */
    uint16_t port;                 /* 0 for a lookup */
};

struct egress_proxy_options {
    struct policy *policy;   /* referenced; NULL: nothing is allowed */
    const char *dns_servers; /* see resolve.h; NULL for the system's; borrowed */
    int64_t resolve_ms;      /* 0 for RESOLVE_TIMEOUT_MS */
    bool no_files;           /* see resolve.h */
    struct egress_proxy_limits limits;
    /* For connections that are opened: those to hosts with secrets, and to hosts whose methods or
     * paths the policy limits. All borrowed; without `tls` none is opened. */
    struct tls_trust *tls;
    struct authority *authority;
    const struct secrets *secrets;
    /* May be NULL. Each refusal once per host, port and reason. */
    void (*on_blocked)(void *ctx, const struct egress_proxy_event *event);
    /* May be NULL. A name got an address, the first one the first, and so on: who gives them back
     * to the next proxy (egress_proxy_add_name) keeps what programs have cached valid. */
    void (*on_name)(void *ctx, const struct host *host);
    void *ctx;
};

struct egress_proxy_stats {
    int64_t connections; /* now */
    int64_t accepted, blocked, sent, received;
};

int egress_proxy_open(struct loop *loop, const struct egress_proxy_options *options,
                      struct egress_proxy **ret_proxy, struct err *err) MUST_USE;
struct egress_proxy *egress_proxy_free(struct egress_proxy *proxy);
DEFINE_FREEP(egress_proxy)
#define AUTO_EGRESS_PROXY AUTO(egress_proxy_freep)

/* Takes `fd` on success: a listening socket, or a UDP one for EGRESS_PROXY_DNS. */
int egress_proxy_add(struct egress_proxy *proxy, enum egress_proxy_socket kind, int fd,
                     struct err *err) MUST_USE;
/* Before the first lookup. */
void egress_proxy_add_name(struct egress_proxy *proxy, const struct host *host);
/* Holds from now on; connections that it would not allow are ended. */
void egress_proxy_set_policy(struct egress_proxy *proxy, struct policy *policy);
void egress_proxy_set_limits(struct egress_proxy *proxy, const struct egress_proxy_limits *limits);

struct egress_proxy_stats egress_proxy_stats(const struct egress_proxy *proxy);
/* How long nothing has been open and nothing has come. */
int64_t egress_proxy_idle_ms(const struct egress_proxy *proxy);
