#pragma once

/* Names and chains of layers, and words that jail/volumes.c shares; for the two alone. */

#include "base/vec.h"
#include "jail/layers.h"

enum {
    LAYER_NAME_SIZE = 96,  /* "4294967295-ID.4294967295" */
    LAYER_PATH_SIZE = 192, /* "ID/layers/NAME" */
};

struct stock_name {
    char text[32];
};

struct layers {
    char *home;
    int sandboxes_fd;
    int snapshots_fd;
    int trash_fd;
    int cache_fd; /* templates of quota images */
    int stock_fd; /* sandboxes made ahead, without a name */
    VEC(struct stock_name) stock;
    uint32_t owner; /* of what tenants write */
};

struct layer {
    uint32_t number;
    char parent_id[LAYERS_ID_SIZE]; /* "": the same sandbox */
    uint32_t parent;                /* 0 and no parent_id: nothing below */
};
void layer_format(const struct layer *layer, char out[LAYER_NAME_SIZE]);
bool layer_parse(struct str name, struct layer *ret_layer);

/* All layers of one sandbox, by number. */
struct layer_set {
    VEC(struct layer) all;
};
void layer_set_done(struct layer_set *set);
#define AUTO_LAYER_SET AUTO(layer_set_done)
int layer_set_read(int layers_fd, struct layer_set *set, struct err *err) MUST_USE;
const struct layer *layer_set_find(const struct layer_set *set, uint32_t number);
/* The one that takes the writes. */
const struct layer *layer_set_top(const struct layer_set *set);
/* Whether `number` is `from` or below it, within this sandbox. */
bool layer_set_reaches(const struct layer_set *set, uint32_t from, uint32_t number);

/* A whole stack, highest first, over all sandboxes that it was forked from. */
struct layer_chain {
    size_t count;
    char paths[LAYERS_DEPTH_MAX][LAYER_PATH_SIZE]; /* below `sandboxes/` */
};
int layer_chain_read(struct layers *layers, const char *id, struct layer_chain *chain,
                     struct err *err) MUST_USE;

/* An open sandbox directory. */
struct layer_box {
    int fd;
    int layers_fd;
};
#define LAYER_BOX_NONE                                                                             \
    {                                                                                              \
        .fd = -1, .layers_fd = -1                                                                  \
    }
void layer_box_close(struct layer_box *box);
#define AUTO_BOX AUTO(layer_box_close)
/* NOT_FOUND also for one that is gone but kept, unless `even_gone`. */
int layer_box_open(struct layers *layers, const char *id, bool even_gone, struct layer_box *box,
                   struct err *err) MUST_USE;
int layer_open_dir(int dir_fd, const char *name, struct err *err) MUST_USE;
/* The part `name` of the data directory, made if need be. */
int layer_open_part(const char *home, const char *name, struct err *err) MUST_USE;
/* Who owns on disk what tenants write. Were it root, a file with the set-id bit would be a weapon
 * for whoever can reach it; the jail's mounts map it to the jail's own id. */
uint32_t layer_owner(void);
int layer_give_away(uint32_t owner, int dir_fd, const char *name, struct err *err) MUST_USE;

/* Calls `each` for every entry but dots; stops at the first failure. */
int layer_each(int dir_fd, int (*each)(void *ctx, const char *name, struct err *err), void *ctx,
               struct err *err) MUST_USE;

/* Coming to be: layers_make.c. */
int layer_make_tenant_dir(const struct layers *layers, int dir_fd, const char *name,
                          struct err *err) MUST_USE;
int layer_open_trash(int layers_fd, struct err *err) MUST_USE;
int layer_discard(int layers_fd, const char *name, struct err *err) MUST_USE;
/* Whether its sandbox has a limit of size. */
bool layer_is_limited(int layers_fd);
/* Puts an empty layer in its place. */
int layer_add(const struct layers *layers, int layers_fd, const struct layer *layer,
              struct err *err) MUST_USE;
int layer_make_box(struct layers *layers, const char *id, const char *const *snapshots,
                   const struct layer *first, const struct quota_limit *limit,
                   struct err *err) MUST_USE;
/* For layer_each: one more name of the stock. */
int layer_note_stock(void *ctx, const char *name, struct err *err);

/* Makes the layer that the next checkpoint or rollback takes, unless it is there. */
int layers_make_spare(const struct layers *layers, int layers_fd, struct err *err) MUST_USE;

/* Moves layers that neither the stack nor a fork needs to the trash. */
void layers_prune(struct layer_box *box);
/* Undoes its limit and moves it to the trash. */
int layers_remove_box(struct layers *layers, const char *name, struct err *err);

/* A rollback that keeps what it dropped from the stack, and the way back from it or from a
 * checkpoint: takes the top layer away, with whatever was written to it. */
int layers_rollback_keep(struct layers *layers, const char *id, uint32_t number,
                         struct err *err) MUST_USE;
int layers_drop_top(struct layers *layers, const char *id, struct err *err) MUST_USE;
