#pragma once

/* The value of a run as plain JSON, whatever the script made of it.
 *
 *     undefined, function, symbol   null at the top and in arrays, left out of objects (functions
 *                                   and symbols as "[Function: f]", "Symbol(s)")
 *     NaN, infinities               null
 *     bigint                        "123n"
 *     Date                          ISO text, or null when invalid
 *     Map                           an object when all keys are strings, else [key, value] pairs
 *     Set, typed array, buffer      an array
 *     Error                         {name, message, stack}
 *     RegExp                        its text
 *     toJSON                        asked once
 *     getter or proxy that throws   "[Thrown: message]"
 *     NUL, lone surrogates          U+FFFD
 *     circular, too deep, too long  "[Circular]", "[Object]" or "[Array]", "... n more items"
 *
 * Under vm_try. Nothing here throws, and the run's deadline holds for every getter. */

#include "isolate/inside/inspect.h"

struct buf;

struct result_limits {
    int depth;
    uint32_t items;
    size_t bytes;
};

/* Appends JSON to `out`, whose owner must outlive a trap. */
void result_put(const struct inspect *how, vm_value value, const struct result_limits *limits,
                struct buf *out);
