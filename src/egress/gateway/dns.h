#pragma once

/* DNS as the sandbox sees it: one question in, one answer out, made here and nowhere else. */

#include "egress/policy/host.h"

struct buf;

enum {
    DNS_PORT = 53,
    DNS_PACKET_MAX = 4096, /* of a question; ours is short */
    DNS_TTL_SECONDS = 30,
};

enum dns_type { DNS_A = 1, DNS_AAAA = 28 };

enum dns_code {
    DNS_OK = 0,
    DNS_BAD_FORMAT = 1,
    DNS_FAILED = 2,
    DNS_NO_NAME = 3,
    DNS_NOT_IMPLEMENTED = 4,
    DNS_REFUSED = 5,
};

struct dns_query {
    uint16_t id, flags, type, class;
    enum dns_code code; /* DNS_OK, or how it must be answered whatever it asks */
    bool has_edns;
    struct host host;    /* with DNS_OK and `is_host` */
    bool is_host;        /* the name is one that a policy can speak of */
    struct str question; /* as it came, to be sent back; empty when it cannot be */
};

/* False for what gets no answer: too short, or itself an answer. The strings stay in `packet`. */
bool dns_read(struct str packet, struct dns_query *ret_query);

/* `address` (version 4) or NULL for none. `why`, or NULL, goes along as an extended error (RFC
 * 8914) to a client that can read one. */
void dns_put_answer(const struct dns_query *query, enum dns_code code, const struct ip *address,
                    const char *why, struct buf *out);
