#pragma once

/* The lifetime of an object whose callbacks may free it.
 *
 * The object has a struct hold. Its own functions hold it around each callback, and callbacks may
 * run inside one another. x_free ends it: the memory is freed at once if no function holds the
 * object, otherwise when the last one releases it. In between the object still exists and is_freed
 * is true: its functions check that after each callback and do nothing more.
 *
 *     hold_take(&x->hold);
 *     x->calls.on_data(x->ctx, bytes);
 *     if (hold_release(&x->hold))
 *         x_done(x);                   // frees the memory
 *     else if (!x->hold.is_freed)
 *         go_on(x);
 *
 * A flag instead of the count is wrong as soon as callbacks nest: the inner one resets it. For one
 * thread, without atomics. All zero: not held. */

#include "base/base.h"

struct hold {
    uint32_t count;
    bool is_freed;
};

static inline void hold_take(struct hold *hold)
{
    assert(hold->count < UINT32_MAX);
    hold->count++;
}

/* True: it was freed, and this was the last holder. The caller frees the memory. */
MUST_USE static inline bool hold_release(struct hold *hold)
{
    assert(hold->count > 0);
    return --hold->count == 0 && hold->is_freed;
}

/* For x_free. True: no function holds it, and the caller frees the memory. */
MUST_USE static inline bool hold_end(struct hold *hold)
{
    assert(!hold->is_freed);
    hold->is_freed = true;
    return hold->count == 0;
}
