#pragma once

/* Takes secrets out of what a host answers: where a value stands, its placeholder is put.
 *
 * A value is found as it is, with its characters escaped in any mixture of %41, \u0041, \x41, \" ,
 * &#65; and &amp;, in hexadecimal, and in base64 of either alphabet at any offset ("user:VALUE"
 * included). However the bytes are cut, it is found across the cuts; only what may be the beginning
 * of a value is held back until more is known. What a host turns into something else (a digest, a
 * cipher, reversed) is not found: bind secrets to hosts that do not hand them out. */

#include "egress/policy/host.h"

struct buf;
struct scrub;
struct secrets;

enum scrub_mode {
    SCRUB_REPLACE, /* the placeholder, whatever the length */
    SCRUB_MASK,    /* of the same length: the placeholder, cut or filled up with '*' */
};

/* Looks for the secrets that are bound to this host and port. They stay the caller's and outlive
 * it. */
struct scrub *scrub_new(const struct secrets *secrets, const struct host *host, uint16_t port,
                        enum scrub_mode mode);
struct scrub *scrub_free(struct scrub *scrub);
DEFINE_FREEP(scrub)
#define AUTO_SCRUB AUTO(scrub_freep)

/* No secret is bound there: everything passes as it is. */
bool scrub_is_idle(const struct scrub *scrub);
/* One stream: pieces, and its end, which gives what was held back. */
void scrub_feed(struct scrub *scrub, struct str bytes, struct buf *out);
void scrub_end(struct scrub *scrub, struct buf *out);
/* A text that is whole, like a header; between streams only. */
void scrub_text(struct scrub *scrub, struct str text, struct buf *out);
