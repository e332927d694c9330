#pragma once

/* The tier isolate from inside, for provider_isolate.c and the isolate_*.c beside it. */

#include "base/buf.h"
#include "base/vec.h"
#include "egress/allowance.h"
#include "egress/gate.h"
#include "engine/isolate_hand.h"
#include "engine/network.h"
#include "runtime/bridges.h"

struct provider {
    const struct provider_host *host;
    struct hands *hands;
    struct gate *gate;
    struct gate_options gate_options;
    struct buf dns_servers, ca_file, private;
    struct op *singles; /* one-shot runs under way */
};

enum op_kind { OP_OPEN, OP_EVAL, OP_PAUSE, OP_SHOOT, OP_ROLLBACK, OP_RESUME };

/* Something that a place, or a worker for one run alone, has to do. */
struct op {
    struct op *next;
    struct provider *provider;
    struct place *place; /* NULL: a single run; also once the place has gone (is_orphan) */
    enum op_kind kind;
    bool is_orphan;
    bool is_awaited; /* a call-back will come for it that nobody can take back */
    struct arena arena;
    struct eval_spec spec;
    struct eval_calls calls;
    struct isolate_limits limits;
    struct isolate_call call;
    struct buf env_json;
    struct network *network;     /* of a single run */
    struct services services;    /* of a single run */
    struct allowance *allowance; /* of a single run */
    struct hand *hand;           /* of a single run */
    struct str image;            /* of ROLLBACK, RESUME, OPEN */
    struct buf bytes;            /* the image itself */
    place_done *place_done;
    image_done *image_done;
    engine_done *plain_done;
    void *ctx;
    int64_t size;
};

struct place {
    struct provider *provider;
    char *id, *tenant;
    struct isolate_limits limits;
    struct services services;
    struct allowance *allowance;
    struct hand *hand; /* NULL while it lies aside */
    uint32_t isolate;
    struct network *network;
    VEC(struct network *) old; /* networks that calls under way may still hold */
    struct engine_pairs env;   /* in `arena` */
    struct arena arena;
    struct op *ops, **last_op; /* the first is under way */
    size_t op_count;
    const struct op *started; /* the one under way */
    struct buf image;         /* of its last pause */
    bool is_broken;
    bool *ret_gone; /* set when it goes while somebody is told something */
};

/* The services borrow what the network holds. */
int isolate_fill_services(struct provider *provider, struct network *network,
                          struct services *services, struct err *err) MUST_USE;
struct isolate_limits isolate_limits_of(const struct config *config);

/* isolate_ops.c: what a place has to do, one after the other. */
struct op *isolate_op_new(struct provider *provider, struct place *place, enum op_kind kind,
                          void *ctx);
void isolate_op_free(struct op *op);
/* The one word that the caller of an op hears. */
void isolate_op_tell(struct op *op, const struct isolate_result *result, struct str image,
                     const struct err *why);
void isolate_op_enqueue(struct op *op);
void isolate_place_free(struct place *place);
/* Networks that no call under way holds any more. */
void isolate_place_drop_old(struct place *place);

/* isolate_eval.c: runs in a place, and those that have a worker for themselves. */
void isolate_eval(struct provider *provider, struct place *place, struct str tenant,
                  const struct eval_spec *spec, const struct eval_calls *calls, void *ctx);
/* The provider goes: single runs under way hear so. */
void isolate_singles_end(struct provider *provider);
