#pragma once

/* Kept layers of the tier jail: copies of what sandboxes have written, as directories that are
 * never written again.
 *
 *     layers/ID       one layer
 *     layers/.new-ID  being made
 *     layers/.trash   being deleted
 *
 * The files that a sandbox has written are sealed where they are, in memory or on the sandbox's
 * disk. From memory they are copied. On a disk they stay, and are copied only for a snapshot, or
 * when sealed layers would use too much of the disk. If they cannot be sealed because a process
 * runs, they are copied while the sandbox is frozen.
 *
 * A state as an image is a list of layers, lowest first, in one text: "layers/PART/PART". A part is
 *
 *     ID        the layer layers/ID
 *     DISK.N    the sealed layer disks/DISK/data/N/upper
 *     DISK.N!   no layer: of this disk, layers up to N are no longer above the image
 *
 * A sandbox's root is its image and above that the layers of its own disk with higher numbers than
 * the image names of that disk. Images are named by rows of the store (sandboxes, checkpoints,
 * snapshots); a layer that no image, no place and no work under way names is swept. There is no
 * count that could disagree with that. Images of snapshots name no disk. */

#include "base/id.h"
#include "base/vec.h"
#include "engine/provider.h"
#include "io/pool.h"

#define JAIL_IMAGE "layers" /* how every image begins */

struct barrier;
struct jail_plan;
struct keeping;
struct map;

/* A layer being made, `layers/.new-ID` and then `layers/ID`, until an image names it. */
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
    bool is_stopping;        /* no sweep begins any more */
};

int tier_layers_open(struct provider *provider, struct err *err) MUST_USE;
/* No sweep begins from now on: before any pool of the provider is closed. */
void tier_layers_stop(struct provider *provider);
void tier_layers_close(struct provider *provider);

/* Appends the layers of an image, as views into it. INVALID if it is not an image, LIMIT for too
 * many. */
typedef VEC(struct str) layer_ids;
int tier_layers_add(layer_ids *ids, struct str image, struct err *err) MUST_USE;
/* The image of these. */
void tier_layers_put(const layer_ids *ids, struct buf *out);

/* Its path on the host, in the arena. */
const char *tier_layers_path(const struct provider *provider, struct str layer,
                             struct arena *arena);
bool tier_layers_is_on_disk(struct str layer);
/* Calls `call` for each disk that the image has layers on; several times for several layers. */
void tier_layers_each_disk(struct str image, void (*call)(void *ctx, struct str disk), void *ctx);
/* The highest number that the image names of this disk; -1: none. */
int64_t tier_layers_top(struct str image, struct str disk);
/* Puts "D.N" into `ret_named` for every layer on a disk that an image, a place or a work under way
 * names, "ID" for every other, and "/D" for every disk of those or of a sandbox's row. */
void tier_layers_mark(struct provider *provider, struct map *ret_named);
bool tier_layers_is_named(const struct map *named, struct str disk);

/* Between the two no sweep takes the layer, whose id is new. After the second an image names it, or
 * the next sweep takes it. */
void tier_layers_begin(struct provider *provider, struct jail_fresh *fresh);
void tier_layers_end(struct provider *provider, struct jail_fresh *fresh);

/* Sets the plan's layers from the snapshots and the image. INVALID for what is no image, LIMIT for
 * too many layers. */
int tier_layers_plan(struct place *place, const struct place_spec *spec, struct err *err) MUST_USE;
/* The same with another image above the place's snapshots; the strings belong to `arena`. */
int tier_layers_replan(struct place *place, struct str image, struct arena *arena,
                       struct jail_plan *plan, struct err *err) MUST_USE;
/* From now on the place is based on this image. */
void tier_layers_stand(struct place *place, struct str image);
/* Whether its written files are being copied. */
bool tier_layers_is_keeping(const struct place *place);
/* Reports the image of a place with a disk to the engine, once the layers that the image names are
 * synced: after a power cut a row must not name a layer that was never written. Until then the row
 * names fewer layers, and the others are found on the disk. */
void tier_layers_told(struct place *place);
/* The same at once, for a change that must be durable with this answer; then the disk is synced. */
void tier_layers_told_now(struct place *place);

/* What the place has written becomes a layer: it is sealed and left on its disk, or copied. It is
 * frozen while it is copied; a pause leaves it
 * so. The image names the layers above the place's snapshots, or, WHOLE, those as well. */
enum jail_keep { JAIL_KEEP_PAUSE, JAIL_KEEP_CHECKPOINT, JAIL_KEEP_WHOLE, JAIL_KEEP_SQUASH };
void tier_layers_keep(struct place *place, enum jail_keep how, image_done *done, void *ctx);
/* Merges the layers below the place into one, if they are many, in the background: the next root
 * and the next saved layers are based on it. Images that name the old layers keep them. */
void tier_layers_squash(struct place *place);
/* The same of a directory of the host; takes the descriptor. */
void tier_layers_take(struct provider *provider, int dir_fd, image_done *done, void *ctx);
/* Calls `mark` for every image that a copy in progress reads or is based on. */
void tier_layers_each_kept(struct provider *provider, void (*mark)(void *ctx, struct str image),
                           void *ctx);
/* The place is ending: requests that wait for it get an error. */
void tier_layers_leave(struct place *place, const struct err *why);

/* Schedules a sweep, which removes every layer that is not named. */
void tier_layers_sweep_soon(struct provider *provider);
void tier_layers_reclaim(struct provider *provider, engine_done *done, void *ctx);
bool tier_layers_exist(struct provider *provider, struct str image);

/* seal.c. Holds the place's jail until the answer comes; BUSY if anything runs in it except
 * `processes` quiescent interpreters (code/quiesce.h). */
int tier_seal_ask(struct place *place, uint32_t processes, uint32_t *ret_number,
                  struct err *err) MUST_USE;
/* The same for a root of this image and an empty layer: a rollback, or a spare that becomes a fork.
 * What was written before is no part of it. */
int tier_seal_ask_back(struct place *place, struct str image, uint32_t *ret_number,
                       struct err *err) MUST_USE;
/* The answer: the place is now based on the image. `number` is the layer that it left. */
void tier_seal_taken_back(struct place *place, struct str image, uint32_t number);
/* The answer: takes the layer. */
void tier_seal_taken(struct place *place, int fd, uint32_t number);
/* Leaves all sealed layers on the disk, as part of the place's image; false if they would use too
 * much of the disk, or the stack is too long. `ret_bytes`: size of the image. */
bool tier_seal_leave(struct place *place, int64_t *ret_bytes);
/* All sealed layers have been copied to these layers, which the place is based on now. `bytes` were
 * copied, `sealed_bytes` is the size of the sealed layers. */
void tier_seal_kept(struct place *place, const layer_ids *ids, int64_t sealed_bytes, int64_t bytes);
/* The place is ending, or gets another jail. */
void tier_seal_forget(struct place *place);
/* From now on the place is based on these layers, and on those of its disk above this number. */
void tier_seal_stand(struct place *place, const layer_ids *ids, int64_t above);

/* told.c: the place is ending, or gets another disk. */
void tier_told_leave(struct place *place);
/* The image that the row will name next; empty: it is named. */
struct str tier_told_image(const struct place *place);

/* rollback.c */
void tier_rollback(struct place *place, struct str image, struct str disk, engine_done *done,
                   void *ctx);
/* The place is ending: requests that wait for it get an error. */
void tier_rollback_leave(struct place *place, const struct err *why);
