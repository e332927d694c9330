#pragma once

/* Two sockets joined: what comes from one goes to the other, unread, at the pace of the slower.
 * Belongs to the loop's thread. */

#include "base/str.h"

struct err;
struct loop;
struct tunnel;

enum {
    TUNNEL_HALF_MS = 10000,  /* what the one side gets to finish after the other has */
    TUNNEL_STUCK_MS = 75000, /* a side that takes nothing for so long ends it */
};

struct tunnel_calls {
    void (*on_bytes)(void *ctx);  /* some went through */
    void (*on_closed)(void *ctx); /* both sides have ended; to be freed */
};

/* Takes both descriptors, also when it fails. `for_a` and `for_b` are sent first. */
int tunnel_open(struct loop *loop, int fd_a, int fd_b, struct str for_a, struct str for_b,
                const struct tunnel_calls *calls, void *ctx, struct tunnel **ret_tunnel,
                struct err *err) MUST_USE;
/* Closes both at once. No call-back comes after it. */
struct tunnel *tunnel_free(struct tunnel *tunnel);
