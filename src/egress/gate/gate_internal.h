#pragma once

/* Only for the gate*.c files. */

#include "base/arena.h"
#include "base/err.h"
#include "egress/gate/gate.h"
#include "egress/gateway/allowance.h"
#include "egress/net/resolve.h"

struct gate {
    struct loop *loop;
    const struct gate_options *options;
    struct fetcher *fetcher;
    size_t calls;
};

/* One hop: judged by name (gate_begin_hop) -> resolving -> judged with addresses (judge_addresses)
 * -> connecting, address by address (connect_next) -> answered (on_fetched) -> the next hop
 * (gate_follow), or the end (gate_succeed, gate_fail, gate_refuse). Ends found while starting wait
 * for a turn of the loop. Before the first hop a call may have to wait for others of its sandbox
 * (gate_enter). */
struct gate_call {
    struct gate *gate;
    struct policy *policy;
    struct arena arena;
    struct str url_text, method, body;
    struct fetch_header *headers; /* with placeholders, never values */
    size_t header_count;
    const struct secrets *secrets;
    void (*on_verdict)(void *ctx, const struct verdict *verdict, const struct host *host,
                       uint16_t port);
    void *verdict_ctx;
    enum gate_redirect redirect;
    struct fetch_limits limits;
    int64_t deadline_ms; /* monotonic */
    struct timer *timer; /* the deadline; once ended: the turn in which `done` is called */
    bool is_ended;

    struct url url;
    int hops;
    struct resolve *resolve;
    struct ip addresses[RESOLVE_ADDRESSES_MAX];
    size_t address_count, address_next;
    struct fetch *fetch;
    struct allowance *allowance; /* NULL: none */
    struct allowance_user user;
    struct fetch_meter meter;
    struct timer *idle; /* NULL: no limit but the client's own */

    struct err why;
    struct verdict refusal;
    bool is_refused;
    gate_done *done;
    void *ctx;
};

/* gate.c: the ends of a call; nothing of it may be touched after gate_succeed, which calls `done`.
 */
void gate_succeed(struct gate_call *call, const struct fetch_answer *http);
void gate_fail(struct gate_call *call, const struct err *why);
void gate_refuse(struct gate_call *call, enum err_code code, const struct verdict *verdict);
/* Reports one decision to the caller that records decisions. */
void gate_tell(const struct gate_call *call, const struct verdict *verdict, const struct host *host,
               uint16_t port);

/* gate_hop.c: judges `url_text` and goes there, or ends the call. */
void gate_begin_hop(struct gate_call *call);

/* gate_redirect.c: where an answer leads; a NULL ptr when it leads nowhere. */
struct str gate_redirect_to(const struct fetch_answer *answer);
/* The next hop there, with what may be taken along, or a refusal. */
void gate_follow(struct gate_call *call, int status, struct str location);

/* gate_allowance.c: how long the call may last, by its own word and its sandbox's. */
int64_t gate_total_ms(const struct gate_request *request);
/* Puts the call under the sandbox's limits; false while others of it come first: then its first hop
 * is begun later. `allowance` may be NULL. */
bool gate_enter(struct gate_call *call, struct allowance *allowance);
/* Before a request is made, and again before each redirect is followed; false: the call ended. */
bool gate_has_bytes_left(struct gate_call *call);
/* The request's head, which libcurl writes: its parts are counted before. */
bool gate_take_head(struct gate_call *call, const struct fetch_header *headers,
                    struct err *err) MUST_USE;
