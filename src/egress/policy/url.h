#pragma once

/* URLs, split strictly. libcurl's and the WHATWG's parsers repair what they can; each repairs
 * differently, and a URL that two readers understand differently is how a gate is passed. Here
 * everything that could be read in two ways is refused, and what is left is read the same by all.
 */

#include "egress/policy/host.h"

struct buf;

enum { URL_LEN_MAX = 8192 };

struct url {
    bool is_https;
    struct host host;
    uint16_t port;     /* the scheme's own when none is written */
    struct str target; /* path and query, as sent; begins with '/'; a part of the text or static */
};

/* http and https only, absolute, no user, no blanks, no bytes outside of printable ASCII. What
 * follows '#' is dropped. INVALID with what is wrong, TOO_LARGE; UNSUPPORTED for another scheme. */
int url_parse(struct str text, struct url *ret_url, struct err *err) MUST_USE;
/* Only the path, without the query. */
struct str url_path(const struct url *url);
const char *url_scheme(const struct url *url);
/* In full; the port only where it is not the scheme's own. */
void url_put(const struct url *url, struct buf *out);
bool url_is_same_origin(const struct url *a, const struct url *b);

/* The absolute text of a Location header as seen from `base` (RFC 3986, 5.2), to be parsed again.
 * INVALID when it holds what no URL may. */
int url_join(const struct url *base, struct str location, struct buf *out,
             struct err *err) MUST_USE;
