#pragma once

/* Internals of the tier isolate, for the files of this directory. */

#include "base/buf.h"
#include "base/vec.h"
#include "egress/gate/gate.h"
#include "egress/gateway/allowance.h"
#include "engine/network.h"
#include "runtime/bridges.h"
#include "tiers/isolate/lease.h"

struct provider {
    const struct provider_host *host;
    struct leases *leases;
    struct gate *gate;
    struct gate_options gate_options;
    struct buf dns_servers, ca_file, private;
    struct isolate_op *singles; /* one-shot runs under way */
};

enum op_kind { OP_OPEN, OP_EVAL, OP_PAUSE, OP_SHOOT, OP_ROLLBACK, OP_RESUME };

/* An operation of a place, or of a worker used only for one run. */
struct isolate_op {
    struct isolate_op *next;
    struct provider *provider;
    struct place *place; /* NULL: a single run, or the place has ended (is_orphan) */
    enum op_kind kind;
    bool is_orphan;
    bool is_awaited; /* its call-back is pending and cannot be cancelled */
    struct arena arena;
    struct eval_spec spec;
    struct eval_calls calls;
    struct isolate_limits limits;
    struct isolate_call call;
    struct buf env_json;
    struct network *network;     /* of a single run */
    struct services services;    /* of a single run */
    struct allowance *allowance; /* of a single run */
    struct lease *lease;         /* of a single run */
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
    struct lease *lease; /* NULL while the sandbox is paused */
    uint32_t isolate;
    struct network *network;
    VEC(struct network *) old; /* networks that calls under way may still hold */
    struct engine_pairs env;   /* in `arena` */
    struct arena arena;
    struct isolate_op *ops, **last_op; /* the first is under way */
    size_t op_count;
    const struct isolate_op *started; /* the one under way, or NULL */
    struct buf image;                 /* of its last pause */
    bool is_broken;
    bool *ret_gone; /* set when the place is freed during a call-back */
};

/* context.c */
void isolate_context(struct place *place, const struct context_request *request, context_done *done,
                     void *ctx);

/* The services borrow what the network holds. */
int isolate_fill_services(struct provider *provider, struct network *network,
                          struct services *services, struct err *err) MUST_USE;

/* ops.c: what a place has to do, one after the other. */
struct isolate_op *isolate_op_new(struct provider *provider, struct place *place, enum op_kind kind,
                                  void *ctx);
void isolate_op_free(struct isolate_op *op);
/* Calls back the caller of an operation, exactly once. */
void isolate_op_tell(struct isolate_op *op, const struct isolate_result *result, struct str image,
                     const struct err *why);
void isolate_op_enqueue(struct isolate_op *op);
void isolate_place_free(struct place *place);
/* Networks that no call under way holds any more. */
void isolate_place_drop_old(struct place *place);

/* eval.c: runs in a place, and runs with a worker of their own. */
void isolate_eval(struct provider *provider, struct place *place, struct str tenant,
                  const struct eval_spec *spec, const struct eval_calls *calls, void *ctx);
/* The provider is closing: single runs in progress end with an error. */
void isolate_singles_end(struct provider *provider);
