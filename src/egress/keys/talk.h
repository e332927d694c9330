#pragma once

/* An HTTP/1 conversation between a sandbox and a host that the gate inspects: the sockets, and
 * where it is encrypted the TLS ends, around a rewrite (rewrite.h), which judges every request and
 * rewrites everything. Towards the sandbox TLS has a certificate of the sandbox's own authority;
 * towards the host it is verified. */

#include "egress/policy/verdict.h"

struct authority;
struct err;
struct loop;
struct meter;
struct secrets;
struct talk;
struct tls_trust;

struct talk_options {
    int inner, outer;      /* the sandbox's and the host's; both taken */
    struct str from_inner; /* what was read already; copied */
    struct host host;
    uint16_t port;
    bool is_https; /* opened; needs the next two */
    struct tls_trust *tls;
    struct authority *authority;
    const struct secrets *secrets; /* NULL for none; outlives it */
    bool is_single;                /* only one exchange: for requests to a proxy */
    size_t head_max;               /* as in rewrite.h; 0 for the default */
    uint64_t answer_max;
    struct meter *meter;
    struct verdict (*judge)(void *ctx, struct str method, struct str path);
    /* Once, later: the conversation is over. `why` is for a log, NULL when all was well;
     * `reason` as in rewrite_reason. */
    void (*done)(void *ctx, const char *reason, const char *why);
    void *ctx;
};

/* FORBIDDEN when the authority may not vouch for the host. */
int talk_start(struct loop *loop, const struct talk_options *options, struct talk **ret_talk,
               struct err *err) MUST_USE;
struct talk *talk_free(struct talk *talk);
DEFINE_FREEP(talk)

int64_t talk_moved_ms(const struct talk *talk);
void talk_resume(struct talk *talk);          /* after the meter ran dry */
bool talk_has_input(const struct talk *talk); /* as with a relay */
void talk_cut(const struct talk *talk);
