#pragma once

/* A copy of what a place has written, on its way to disk: shared by jail_layers.c and
 * jail_squash.c.
 */

#include "engine/jail_layers.h"

#define JAIL_IMAGE "layers" /* how every image begins */

struct keeping {
    struct job job; /* first */
    struct jail_fresh fresh;
    struct keeping *next;
    struct provider *provider;
    struct place *place; /* NULL: it has gone, and nobody waits */
    enum jail_keep how;
    bool is_frozen, is_copied, is_sealed;
    uint32_t version;  /* of what the place had sealed */
    place_fds sources; /* laid onto each other */
    int new_fd, dir_fd, trash_fd;
    struct buf merged; /* image of the frozen ones that become part of it */
    struct buf below;  /* image that the new layer stands on */
    uint64_t bytes, merged_bytes, entries;
    int result;
    struct err err;
    image_done *done;
    void *ctx;
};

/* One more of them, with an id for its layer. `place` may be NULL. */
struct keeping *keeping_new(struct provider *provider, struct place *place, enum jail_keep how);
/* Copies and places its layer, on workers. */
void keeping_submit(struct keeping *keeping);
/* jail_squash.c: it is done. */
void jail_squashed(const struct keeping *keeping);
