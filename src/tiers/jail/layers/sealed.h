#pragma once

/* Sealed layers that the jail of a place still uses. */

#include "base/buf.h"
#include "base/vec.h"

struct syncing;

typedef VEC(int) place_fds;

/* A layer that was sealed; N of N/upper on its disk. */
struct sealed_layer {
    int fd;
    uint32_t number;
};
typedef VEC(struct sealed_layer) sealed_layers;

/* Layers of a place that were sealed in its jail (seal.c), oldest first. */
struct place_sealed {
    sealed_layers fresh; /* in no image yet */
    place_fds stale;     /* in memory: copied into own_image, and still part of the jail's root */
    int64_t stale_bytes; /* of those, or of such layers of the disk */
    int64_t bytes;       /* of own_image below `layers/`, as far as it was written in this life */
    int64_t going_bytes; /* of layers of the disk that the last seal freed: they go soon */
    int64_t left_bytes;  /* that lay on the disk when layers were left there last */
    bool keeps_stack;    /* its layers cannot be made into one: a file cannot be copied */
    size_t unsynced;     /* layers that own_image names and the disk may not have yet */
    struct syncing *syncing; /* a sync of the disk under way, NULL: none */
    struct buf mounted;      /* the image that the jail's root was made of last, "": own_image */
    struct buf asked;        /* the image that it is being made of */
    uint32_t version;        /* changes with any of these */
};
