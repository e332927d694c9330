#include "api/http/rate.h"

enum { MINUTE_MS = 60000 };

struct bucket {
    double level; /* requests that may be made now */
    int64_t since_ms;
};

static struct bucket *bucket_of(struct rates *rates, struct str token_id, int64_t per_minute,
                                int64_t now_ms)
{
    struct bucket *bucket = map_get(&rates->by_token, token_id);
    if (bucket != NULL)
        return bucket;
    if (rates->by_token.len >= RATE_TOKENS_MAX)
        free(map_remove(&rates->by_token, map_next(&rates->by_token, NULL)->key));
    bucket = mem_alloc(sizeof *bucket);
    *bucket = (struct bucket){(double)per_minute, now_ms};
    (void)map_put(&rates->by_token, token_id, bucket);
    return bucket;
}

int64_t rate_take(struct rates *rates, struct str token_id, int64_t per_minute, int64_t now_ms)
{
    if (per_minute <= 0)
        return 0;
    struct bucket *bucket = bucket_of(rates, token_id, per_minute, now_ms);
    double per_ms = (double)per_minute / MINUTE_MS;
    bucket->level += (double)(now_ms - bucket->since_ms) * per_ms;
    bucket->level = MIN(bucket->level, (double)per_minute);
    bucket->since_ms = now_ms;
    if (bucket->level >= 1) {
        bucket->level -= 1;
        return 0;
    }
    return (int64_t)((1 - bucket->level) / per_ms / 1000) + 1;
}

void rates_done(struct rates *rates)
{
    MAP_EACH (entry, &rates->by_token)
        free(entry->value);
    map_done(&rates->by_token);
}
