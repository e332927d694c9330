#pragma once

/* One HTTP request and its answer, passed between a sandbox and a host.
 *
 * Exactly the request that was judged goes out: its head was written anew, its body ends where its
 * framing says, and nothing that the sandbox sends behind it is ever read by the host. The answer's
 * head is written anew as well. One exchange per connection, so that no two requests can be taken
 * for each other. */

#include "base/str.h"
#include "egress/http_head.h"

struct err;
struct exchange;
struct loop;
struct meter;

enum { EXCHANGE_EARLY_MAX = 8 }; /* answers 1xx before the one that counts */

struct exchange_options {
    int inner, outer; /* the sandbox's and the host's; both taken on success */
    const struct http_head *request;
    struct str head;    /* as it goes out; copied */
    struct str rest;    /* what was read behind the request's head; copied */
    bool wants_upgrade; /* the request asks for another protocol: 101 makes it a tunnel */
    struct meter *meter;
    /* Once, later: all was sent, or `why`. Free it then. */
    void (*done)(void *ctx, const struct err *why);
    void *ctx;
};

int exchange_start(struct loop *loop, const struct exchange_options *options,
                   struct exchange **ret_exchange, struct err *err) MUST_USE;
struct exchange *exchange_free(struct exchange *exchange);
DEFINE_FREEP(exchange)

int64_t exchange_moved_ms(const struct exchange *exchange);
void exchange_resume(struct exchange *exchange); /* after the meter ran dry */

/* The head of a request as it goes to the host: origin form, this Host, one request per connection.
 */
void exchange_put_request(const struct http_head *request, struct str target, struct str host,
                          bool wants_upgrade, struct buf *out);
/* A whole answer in plain text, for what the gate itself has to say. */
void exchange_put_text(int status, const char *reason_name, const char *text, struct buf *out);
