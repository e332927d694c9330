#pragma once

/* The encoder: tokens in, one vector for each text out. Texts of a batch stand one behind the
 * other without padding, so that short ones cost only what they are. */

#include "base/base.h"

struct encoder;
struct err;
struct path;
struct weights;
struct workers;

enum {
    ENCODER_VOCAB = 30522,
    ENCODER_TOKENS_MAX = 512, /* of a batch */
    ENCODER_TEXTS_MAX = 64,   /* of a batch */
};

/* Borrows `weights` and the bytes behind them, `path` and `workers`, all until encoder_free. */
int encoder_new(const struct weights *weights, const struct path *path, struct workers *workers,
                struct encoder **ret_encoder, struct err *err) MUST_USE;
struct encoder *encoder_free(struct encoder *encoder);

struct encoder_batch {
    uint16_t ids[ENCODER_TOKENS_MAX];
    size_t ends[ENCODER_TEXTS_MAX]; /* where the ids of each text end */
    size_t texts;
};

/* Memory of one run: as many at a time as there are of these. */
struct encoder_room *encoder_room_new(const struct encoder *encoder);
struct encoder_room *encoder_room_free(struct encoder_room *room);

/* `out` gets EMBED_DIMS floats for each text. `pause` (may be NULL) is called every few
 * milliseconds from the middle of the work; it may run another batch in another room. */
void encoder_run(const struct encoder *encoder, struct encoder_room *room,
                 const struct encoder_batch *batch, void (*pause)(void *ctx), void *ctx,
                 float *out);
