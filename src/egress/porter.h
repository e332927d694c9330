#pragma once

/* The porter of one sandbox: serves the sockets that stand inside its network namespace.
 *
 * The socket names the sandbox; nothing that a client says does. What arrives on the proxy's socket
 * is an HTTP request in absolute form, CONNECT or SOCKS 5, told apart by the first byte; what
 * arrives on an open one wanted to go to the socket's own address; names are looked up on the DNS
 * sockets. All of it ends in one question (verdict.h) and one way out (dial.h).
 *
 * Belongs to its loop's thread. In the product it is alone in a locked process (gateway.h). */

#include "egress/verdict.h"

struct authority;
struct err;
struct loop;
struct porter;
struct secrets;
struct tls_trust;

enum porter_socket { PORTER_PROXY, PORTER_DNS, PORTER_DNS_TCP, PORTER_OPEN };

enum {
    PORTER_CONNECTIONS = 1024,
    PORTER_HEAD_MS = 10000,
    PORTER_IDLE_MS = 300000,
    PORTER_TOTAL_MS = 24 * 3600 * 1000,
    PORTER_SOCKETS_MAX = 64,
    PORTER_HEAD_BYTES = 64 << 10,
    PORTER_HEAD_BYTES_MAX = 1 << 20,
};

/* 0 for the defaults above; the rates have none. */
struct porter_limits {
    int64_t connections;
    int64_t bytes_per_second, bytes_total; /* of both directions together; 0: no limit */
    int64_t head_ms;                       /* until a client has said what it wants */
    int64_t idle_ms, total_ms;             /* of one connection */
    int64_t head_bytes;                    /* of an HTTP message */
    int64_t answer_bytes; /* of an HTTP answer's body, where it is read; 0: no limit */
    int64_t bytes_before; /* of bytes_total, that an earlier porter of this sandbox has moved */
};

enum porter_channel {
    PORTER_BY_PROXY,
    PORTER_BY_CONNECT,
    PORTER_BY_SOCKS,
    PORTER_BY_CAPTURE,
    PORTER_BY_DNS,
};
const char *porter_channel_name(enum porter_channel channel);

struct porter_event {
    enum porter_channel channel;
    const struct verdict *verdict; /* a refusal */
    const char *host;              /* "" when it could not be read */
    uint16_t port;                 /* 0 for a lookup */
};

struct porter_options {
    struct policy *policy;   /* referenced; NULL: nothing is allowed */
    const char *dns_servers; /* see resolve.h; NULL for the system's; borrowed */
    int64_t resolve_ms;      /* 0 for RESOLVE_TIMEOUT_MS */
    bool no_files;           /* see resolve.h */
    struct porter_limits limits;
    /* For connections that are opened: those to hosts with secrets, and to hosts whose methods or
     * paths the policy limits. All borrowed; without `tls` none is opened. */
    struct tls_trust *tls;
    struct authority *authority;
    const struct secrets *secrets;
    /* May be NULL. Each refusal once per host, port and reason. */
    void (*on_blocked)(void *ctx, const struct porter_event *event);
    /* May be NULL. A name got an address, the first one the first, and so on: who gives them back
     * to the next porter (porter_add_name) keeps what programs have cached valid. */
    void (*on_name)(void *ctx, const struct host *host);
    void *ctx;
};

struct porter_stats {
    int64_t connections; /* now */
    int64_t accepted, blocked, sent, received;
};

int porter_open(struct loop *loop, const struct porter_options *options, struct porter **ret_porter,
                struct err *err) MUST_USE;
struct porter *porter_free(struct porter *porter);
DEFINE_FREEP(porter)
#define AUTO_PORTER AUTO(porter_freep)

/* Takes `fd` on success: a listening socket, or a UDP one for PORTER_DNS. */
int porter_add(struct porter *porter, enum porter_socket kind, int fd, struct err *err) MUST_USE;
/* Before the first lookup. */
void porter_add_name(struct porter *porter, const struct host *host);
/* Holds from now on; connections that it would not allow are ended. */
void porter_set_policy(struct porter *porter, struct policy *policy);
void porter_set_limits(struct porter *porter, const struct porter_limits *limits);

struct porter_stats porter_stats(const struct porter *porter);
/* How long nothing has been open and nothing has come. */
int64_t porter_idle_ms(const struct porter *porter);
