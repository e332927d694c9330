#pragma once

/* A host as it stands in a URL, in its one canonical spelling: the string that is judged is the
 * string that is resolved.
 *
 * A name: letters, digits, '-' and '_', lower case, one trailing dot removed, labels of 1 to 63, at
 * most 253 bytes, "xn--" labels only where IDNA 2008 gives them. An address: a dotted quad, or IPv6
 * in brackets. Whatever looks like a number in any other notation is refused, because resolvers
 * disagree on what it means. */

#include "egress/policy/address.h"

enum { HOST_LEN_MAX = 253, HOST_TEXT_SIZE = HOST_LEN_MAX + 1 };

struct host {
    char text[HOST_TEXT_SIZE]; /* canonical; IPv6 in brackets */
    struct ip ip;              /* version 0 for a name */
};

/* INVALID, with what is wrong. */
int host_parse(struct str text, struct host *ret_host, struct err *err) MUST_USE;

static inline struct str host_str(const struct host *host)
{
    return str_of(host->text);
}
static inline bool host_is_ip(const struct host *host)
{
    return host->ip.version != 0;
}
/* `host` is a subdomain of the canonical name `parent`; a host is not a subdomain of itself. */
bool host_is_below(struct str host, struct str parent);
/* "localhost" and its subdomains, which every resolver maps to loopback (RFC 6761). */
bool host_is_localhost(const struct host *host);

/* For messages: bytes outside of printable ASCII become '?', and what is long is cut. */
enum { HOST_SHOWN_SIZE = 80 };
void host_show(struct str text, char out[HOST_SHOWN_SIZE]);
