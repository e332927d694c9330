#pragma once

/* A copy of what a place has written, being written to disk: shared by keep.c, keep_copy.c,
 * seal.c and squash.c. */

#include "tiers/jail/layers/layers.h"
#include "tiers/jail/layers/sealed.h"

struct keeping {
    struct job job; /* first */
    struct jail_fresh fresh;
    struct keeping *next;
    struct provider *provider;
    struct place *place; /* NULL: it is gone, and no request waits */
    enum jail_keep how;
    bool is_frozen, is_copied, is_sealed;
    bool is_left;      /* what it wrote stays on its disk: `below` is the image */
    uint32_t version;  /* of what the place had sealed */
    place_fds sources; /* laid onto each other */
    int new_fd, dir_fd, trash_fd;
    struct buf merged; /* image of the frozen ones that become part of it */
    struct buf below;  /* image below the new layer */
    struct buf lent;   /* the disks of those */
    uint64_t bytes, merged_bytes, entries;
    uint64_t moved_bytes; /* of `merged`, from disks to `layers/` */
    int64_t left_bytes;   /* with is_left: what the image takes */
    uint64_t skipped;     /* what could not be copied: how many, and their first names */
    struct buf skipped_names;
    int result;
    struct err err;
    image_done *done;
    void *ctx;
};

/* One more of them, with an id for its layer. `place` may be NULL. */
struct keeping *keeping_new(struct provider *provider, struct place *place, enum jail_keep how);
/* keep_copy.c: on a worker. */
void keeping_run(struct job *base);
/* Copies and places its layer, on workers. */
void keeping_submit(struct keeping *keeping);
/* squash.c: it is done. */
void tier_squashed(const struct keeping *keeping);
