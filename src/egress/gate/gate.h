#pragma once

/* An HTTP request that goes only where its policy allows: the name is judged, resolved once, judged
 * again with every address, and connected to a judged address and no other. Redirects are off
 * unless asked for; each hop is then judged like a request of its own. */

#include "egress/policy/verdict.h"
#include "io/fetch.h"

struct allowance;
struct gate;
struct gate_call;
struct loop;
struct secrets;

enum { GATE_REDIRECTS_MAX = 5 };

struct gate_options {
    const char *dns_servers; /* see resolve.h; NULL for the system's */
    const char *ca_file;     /* see fetch.h; NULL for the system's */
    int64_t resolve_ms;      /* 0 for RESOLVE_TIMEOUT_MS */
    /* May be NULL. Every decision, for logs and events: never the path. */
    void (*on_verdict)(void *ctx, const struct verdict *verdict, const struct host *host,
                       uint16_t port);
    void *ctx;
};

enum gate_redirect {
    GATE_REDIRECT_MANUAL, /* a 3xx is an answer like others */
    GATE_REDIRECT_FOLLOW,
    GATE_REDIRECT_ERROR,
};

struct gate_request {
    struct policy *policy; /* referenced until the call is freed */
    struct str url, method;
    const struct fetch_header *headers;
    size_t header_count;
    struct str body; /* all copied */
    enum gate_redirect redirect;
    struct fetch_limits limits; /* total_ms covers names and redirects too */
    /* What all requests of one sandbox have together, times and sizes among it; the stricter word
     * counts. Outlives the call; NULL for none. */
    struct allowance *allowance;
    /* Placeholders in the headers become values where secrets.h says so, and answers are scrubbed
     * of them. Outlives the call; NULL for none. */
    const struct secrets *secrets;
    /* As in gate_options, only for this request; may be NULL. Not after the call was freed. */
    void (*on_verdict)(void *ctx, const struct verdict *verdict, const struct host *host,
                       uint16_t port);
    void *verdict_ctx;
};

struct gate_answer {
    struct fetch_answer http;
    struct str url; /* of the last hop */
    bool is_redirected;
};

/* Options are borrowed until gate_free. */
int gate_open(struct loop *loop, const struct gate_options *options, struct gate **ret_gate,
              struct err *err) MUST_USE;
struct gate *gate_free(struct gate *gate); /* after every call was freed */
DEFINE_FREEP(gate)
#define AUTO_GATE AUTO(gate_freep)

/* `done` comes once, later: with the answer, which lives until gate_call_free; or with `why`
 * (FORBIDDEN when refused by policy, LIMIT when the allowance is used up, INVALID for a request
 * that cannot be, others as in fetch.h)
 * and, when the gate refused, with `refusal`. */
typedef void gate_done(void *ctx, const struct gate_answer *answer, const struct verdict *refusal,
                       const struct err *why);
struct gate_call *gate_fetch(struct gate *gate, const struct gate_request *request, gate_done *done,
                             void *ctx) MUST_USE;
/* Also in `done`, and before it: then `done` never comes. */
struct gate_call *gate_call_free(struct gate_call *call);
DEFINE_FREEP(gate_call)
