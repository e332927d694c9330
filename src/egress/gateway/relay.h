#pragma once

/* Two sockets, joined: what comes in at one goes out at the other, the end of one direction
 * included. Bytes that the other side does not take stop the reading; nothing is kept but one
 * piece per direction. Once a direction has shown to be long its bytes go through a pipe of the
 * kernel and are never copied. */

#include "base/str.h"

struct err;
struct loop;
struct meter;
struct relay;

struct relay_options {
    int inner, outer;    /* the sandbox's and the host's; both taken */
    struct str to_outer; /* bytes read already, to be sent first; copied */
    struct str to_inner;
    struct meter *meter;
    /* Once, later: both directions have ended, or `why`. Free it then. */
    void (*done)(void *ctx, const struct err *why);
    void *ctx;
};

int relay_start(struct loop *loop, const struct relay_options *options, struct relay **ret_relay,
                struct err *err) MUST_USE;
struct relay *relay_free(struct relay *relay);
DEFINE_FREEP(relay)

/* When something moved last; monotonic. */
int64_t relay_moved_ms(const struct relay *relay);
/* After the meter ran out: checks again whether it may continue. */
void relay_resume(struct relay *relay);
/* Whether bytes wait to be taken up: it is not the peers who are silent. */
bool relay_has_input(const struct relay *relay);
/* Once freed the sandbox sees a reset and no end, as what came is not all. */
void relay_cut(const struct relay *relay);
