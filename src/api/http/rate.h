#pragma once

/* How often each token asks: a bucket that fills by its rate and holds a minute's worth. Bounded:
 * past RATE_TOKENS_MAX the oldest bucket is forgotten. */

#include "base/map.h"

enum { RATE_TOKENS_MAX = 4096 };

struct rates {
    struct map by_token;
};

/* Seconds until the token may ask again; 0: now, and it is counted. */
int64_t rate_take(struct rates *rates, struct str token_id, int64_t per_minute, int64_t now_ms);
void rates_done(struct rates *rates);
