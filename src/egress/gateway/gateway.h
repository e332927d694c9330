#pragma once

/* The gateway: separate processes between sandboxes and the network.
 *
 * A spawner, started early and with one thread, holds the sockets of every sandbox and reads
 * nothing. When something arrives on one of them it forks a proxy only for that sandbox, which
 * locks itself (lock.h) and serves it (egress_proxy.h) until it has been idle for a while. Policy
 * and secrets go from the owner straight to the proxy: the spawner never sees them, and so no
 * proxy can hold another sandbox's.
 *
 * The owner's side, below, belongs to one thread and never waits. */

#include "egress/gateway/egress_proxy.h"

struct authority;
struct err;
struct gateway;
struct gateway_session;
struct secrets;

enum { GATEWAY_IDLE_MS = 30000, GATEWAY_FD = 3 };

/* The name by which this program knows that it is the spawner; see gateway_main. */
#define GATEWAY_PROGRAM "sandglass-gateway"

/* `program` is the file to run as GATEWAY_PROGRAM; NULL for the one that runs now. Not waited for.
 */
int gateway_start(const char *program, struct gateway **ret_gateway, struct err *err) MUST_USE;
/* Ends the spawner and every proxy. After every session was closed. */
struct gateway *gateway_free(struct gateway *gateway);
DEFINE_FREEP(gateway)
#define AUTO_GATEWAY AUTO(gateway_freep)

/* What opened connections trust towards hosts: the certificates in this file, NULL for the
 * system's. Needed before the first session that opens any; the owner has made sure that it can be
 * read. */
int gateway_use_roots(struct gateway *gateway, const char *ca_file, struct err *err) MUST_USE;

/* Readable when gateway_step has something to do; for poll and for an event loop. */
int gateway_fd(const struct gateway *gateway);
/* Takes what has come and calls back. False once the spawner is gone. */
bool gateway_step(struct gateway *gateway);

struct gateway_event {
    const char *channel; /* "proxy", "connect", "socks", "capture", "dns" */
    const char *reason;  /* machine-readable, as in verdict.h */
    const char *host, *text;
    uint16_t port; /* 0 for a lookup */
};

struct gateway_session_options {
    struct policy *policy;   /* referenced; NULL: nothing is allowed */
    const char *dns_servers; /* copied; NULL for the system's */
    struct egress_proxy_limits limits;
    int64_t proxy_idle_ms; /* 0 for GATEWAY_IDLE_MS */
    /* For connections that are opened (opened.h); both may be NULL and outlive the session. */
    const struct secrets *secrets;
    struct authority *authority;
    void (*on_blocked)(void *ctx, const struct gateway_event *event); /* may be NULL */
    void (*on_moved)(void *ctx, int64_t bytes); /* may be NULL; bytes moved, both directions */
    void *ctx;
};

int gateway_open(struct gateway *gateway, const struct gateway_session_options *options,
                 struct gateway_session **ret_session, struct err *err) MUST_USE;
/* Ends its proxy; the sockets are closed. */
struct gateway_session *gateway_close(struct gateway_session *session);
static inline void gateway_closep(struct gateway_session **p)
{
    *p = gateway_close(*p);
}
#define AUTO_SESSION AUTO(gateway_closep)

/* Adds a socket from inside the sandbox's namespace; takes it, also on failure. LIMIT past
 * EGRESS_PROXY_SOCKETS_MAX. */
int gateway_add(struct gateway_session *session, enum egress_proxy_socket kind, int fd,
                struct err *err) MUST_USE;
/* Holds as soon as the proxy has read it; the next proxy begins with it. UNAVAILABLE once the
 * spawner is gone, and nothing leaves any more. */
int gateway_set_policy(struct gateway_session *session, struct policy *policy,
                       struct err *err) MUST_USE;

void gateway_set_limits(struct gateway_session *session, const struct egress_proxy_limits *limits);
/* Other secrets, and the authority that opens their hosts; borrowed as in the options. The proxy
 * ends with the old ones, and every open connection with it: no connection continues with a value
 * that is no longer valid. */
void gateway_set_keys(struct gateway_session *session, const struct secrets *secrets,
                      struct authority *authority);

/* The spawner: all of the process. Its socket to the owner is GATEWAY_FD. */
int gateway_main(void);
