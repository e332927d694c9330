#pragma once

/* Kept layers of the tier jail: copies of what sandboxes have written, as directories that nobody
 * writes to any more.
 *
 *     layers/ID       one layer
 *     layers/.new-ID  on its way
 *     layers/.trash   on its way out
 *
 * A sandbox writes into memory; what it has written is sealed there and copied from there, or
 * copied while the sandbox stands still. Its state as an image is a list of layers, lowest first,
 * in one text: "layers/ID/ID". Images are named by rows of the store (paused sandboxes,
 * checkpoints, snapshots); a layer that no image, no place and no work under way names is swept.
 * There is no count that could disagree with that. */

#include "base/id.h"
#include "base/vec.h"
#include "engine/jail_place.h"
#include "io/pool.h"

struct barrier;
struct keeping;

/* A layer on its way, `layers/.new-ID` and then `layers/ID`, until an image names it. */
struct jail_fresh {
    struct jail_fresh *next;
    char id[ID_SIZE];
};

/* The provider's part. */
struct jail_layers {
    int dir_fd, trash_fd;
    struct pool *pool; /* for copying */
    struct jail_fresh *fresh;
    struct keeping *keepings;
    struct timer *sweep_timer;
    struct barrier *barrier; /* of a sweep that waits for the store */
};

int jail_layers_open(struct provider *provider, struct err *err) MUST_USE;
void jail_layers_close(struct provider *provider);

/* The layers of an image, as views into it, behind those that are there. INVALID for what is no
 * image, LIMIT for too many. */
typedef VEC(struct str) layer_ids;
int jail_layers_add(layer_ids *ids, struct str image, struct err *err) MUST_USE;

/* Between the two no sweep takes the layer, whose id is new. After the second an image names it, or
 * the next sweep takes it. */
void jail_layers_begin(struct provider *provider, struct jail_fresh *fresh);
void jail_layers_end(struct provider *provider, struct jail_fresh *fresh);

/* Sets the plan's layers from the snapshots and the image. INVALID for what is no image, LIMIT for
 * too many layers. */
int jail_layers_plan(struct place *place, const struct place_spec *spec, struct err *err) MUST_USE;
/* The same with another image above the place's snapshots; the strings belong to `arena`. */
int jail_layers_replan(struct place *place, struct str image, struct arena *arena,
                       struct jail_plan *plan, struct err *err) MUST_USE;
/* From now on the place stands on this image. */
void jail_layers_stand(struct place *place, struct str image);

/* What the place has written becomes a layer. It is frozen while it is copied; a pause leaves it
 * so. The image names the layers above the place's snapshots, or, WHOLE, those as well. */
enum jail_keep { JAIL_KEEP_PAUSE, JAIL_KEEP_CHECKPOINT, JAIL_KEEP_WHOLE, JAIL_KEEP_SQUASH };
void jail_layers_keep(struct place *place, enum jail_keep how, image_done *done, void *ctx);
/* Makes one layer of those that the place stands on, if they are many, behind everybody's back: the
 * next root is made of it, and what is kept next stands on it. Images that name the old ones keep
 * them. */
void jail_layers_squash(struct place *place);
/* The same of a directory of the host; takes the descriptor. */
void jail_layers_take(struct provider *provider, int dir_fd, image_done *done, void *ctx);
/* Calls `mark` for every image that a copy under way reads or stands on. */
void jail_layers_each_kept(struct provider *provider, void (*mark)(void *ctx, struct str image),
                           void *ctx);
/* The place goes: whoever waits hears it. */
void jail_layers_leave(struct place *place, const struct err *why);

/* Soon everything that nobody names goes. */
void jail_layers_sweep_soon(struct provider *provider);
void jail_layers_reclaim(struct provider *provider, engine_done *done, void *ctx);
bool jail_layers_exist(struct provider *provider, struct str image);

/* jail_seal.c. Holds the place's jail until it is answered; BUSY when anything runs in it. */
int jail_seal_ask(struct place *place, uint32_t *ret_number, struct err *err) MUST_USE;
/* The answer: takes the layer. */
void jail_seal_taken(struct place *place, int fd);
/* All that was sealed is in this image now, which the place stands on. `bytes` of it were written
 * in this life, `sealed_bytes` are what the sealed layers hold. */
void jail_seal_kept(struct place *place, struct str image, int64_t sealed_bytes, int64_t bytes);
/* The place goes, or gets another jail. */
void jail_seal_forget(struct place *place);
