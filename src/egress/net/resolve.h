#pragma once

/* Names to addresses, on the loop (c-ares, included only in resolve.c).
 *
 * c-ares and not getaddrinfo on a worker: a query ends when we say so, where a blocked getaddrinfo
 * would hold its worker for as long as a hostile name server likes; the servers can be chosen; no
 * NSS module runs; and no search domain is tried, so the name asked is the name judged. Each lookup
 * has its own channel: its own source port, nothing cached, nothing shared between tenants. */

#include "egress/policy/address.h"

struct buf;
struct loop;
struct resolve;

enum { RESOLVE_TIMEOUT_MS = 5000, RESOLVE_ADDRESSES_MAX = 64 };

struct resolve_options {
    const char *servers; /* "127.0.0.1:5353,[::1]:53"; NULL for the system's */
    int64_t timeout_ms;  /* 0 for RESOLVE_TIMEOUT_MS */
    /* Opens no file: not resolv.conf, and not hosts either. Needs `servers`. */
    bool no_files;
};

/* The system's name servers as `servers` has them. */
int resolve_list_servers(struct buf *out, struct err *err) MUST_USE;

/* `done` comes once, later, with all addresses (A and AAAA) in the order to try them, or with why
 * not: NOT_FOUND, TIMEOUT, LIMIT (more than RESOLVE_ADDRESSES_MAX), UNAVAILABLE. `name` is
 * canonical (host.h) and no address. */
int resolve_start(struct loop *loop, const struct resolve_options *options, struct str name,
                  void (*done)(void *ctx, const struct ip *addresses, size_t count,
                               const struct err *why),
                  void *ctx, struct resolve **ret_resolve, struct err *err) MUST_USE;
/* Also in `done`, and before it: then `done` never comes. */
struct resolve *resolve_free(struct resolve *resolve);
DEFINE_FREEP(resolve)
