#pragma once

/* A connection to a host that the policy allows, or the reason why not: judged by name, resolved
 * once, judged with every address, connected to a judged one, and the peer is compared with it.
 * Every channel of the gateway connects through here. */

#include "egress/policy/verdict.h"

struct dial;
struct dialer;
struct loop;

enum { DIAL_ADDRESS_MS = 5000, DIAL_TOTAL_MS = 15000 };

struct dial_options {
    const char *dns_servers; /* see resolve.h; NULL for the system's */
    int64_t resolve_ms;      /* 0 for RESOLVE_TIMEOUT_MS */
    bool no_files;           /* see resolve.h */
};

/* Options are borrowed until dialer_free. */
struct dialer *dialer_new(struct loop *loop, const struct dial_options *options) MUST_USE;
struct dialer *dialer_free(struct dialer *dialer); /* after every dial was freed */

struct dial_request {
    struct policy *policy; /* referenced until the dial is freed; NULL: nothing is allowed */
    /* Scheme, host, port, method, path and is_lookup are as in a verdict; strings are copied as far
     * as they are needed later. */
    const char *scheme;
    const struct host *host;
    uint16_t port;
    struct str method, path;
    bool is_lookup;
    bool only_resolve;      /* stop before connecting: the answer has addresses and no descriptor */
    const struct ip *known; /* what the name resolved to a moment ago; may be NULL */
    size_t known_count;
};

struct dial_answer {
    int fd; /* connected, non-blocking, the receiver's; -1 when not */
    const struct ip *addresses;
    size_t address_count;
    const struct verdict *verdict; /* the last one; a refusal when there is no descriptor */
    const struct err *why;         /* NULL when all went well; set as well when it is a refusal */
};

/* `done` comes once, later. */
typedef void dial_done(void *ctx, const struct dial_answer *answer);
struct dial *dial_start(struct dialer *dialer, const struct dial_request *request, dial_done *done,
                        void *ctx) MUST_USE;
/* Also in `done`, and before it: then `done` never comes. */
struct dial *dial_free(struct dial *dial);
DEFINE_FREEP(dial)
