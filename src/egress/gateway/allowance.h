#pragma once

/* The limits that the fetches of one isolate share: how many run at once, bytes per second and
 * total bytes. The limits are those of a proxy (egress_proxy.h), so a sandbox has the same ones in
 * every tier; for isolates they are counted where the requests are made (gate.h).
 *
 * Belongs to its loop's thread. */

#include "egress/gateway/egress_proxy.h"

struct allowance;

/* A fetch that waits for its turn or is in progress; embedded in the struct of its caller. */
struct allowance_user {
    struct allowance *allowance; /* NULL: has nothing of it */
    struct allowance_user *next, **link;
    bool is_waiting;
    void (*on_turn)(void *ctx);   /* may begin now; later, never from within allowance_enter */
    void (*on_refill)(void *ctx); /* bytes may move again */
    void *ctx;
};

/* `moved` (may be NULL) is called with transferred bytes, for the caller's total of a sandbox's
 * life. */
struct allowance *allowance_new(struct loop *loop, const struct egress_proxy_limits *limits,
                                void (*moved)(void *ctx, int64_t bytes), void *ctx);
/* After every user has left. */
struct allowance *allowance_free(struct allowance *allowance);
DEFINE_FREEP(allowance)
/* New limits, in effect from now on, also for fetches in progress. */
void allowance_set_limits(struct allowance *allowance, const struct egress_proxy_limits *limits);
const struct egress_proxy_limits *allowance_limits(const struct allowance *allowance);

/* True when it may begin at once; else `on_turn` says when. */
bool allowance_enter(struct allowance *allowance, struct allowance_user *user) MUST_USE;
/* Also for one that still waits, and for one that has left. */
void allowance_leave(struct allowance_user *user);

bool allowance_is_dry(const struct allowance *allowance); /* wait for `on_refill` */
void allowance_count(struct allowance *allowance, size_t bytes, bool is_sent);
/* LIMIT once the bytes are used up. */
int allowance_check(const struct allowance *allowance, struct err *err) MUST_USE;
