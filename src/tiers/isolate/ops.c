/* What an isolate's place has to do: opened, run, paused, brought back, one after the other. */

#include "base/err.h"
#include "store/blobs.h"
#include "tiers/isolate/place.h"

enum { OPS_MAX = 16 }; /* that wait in one sandbox */

static void start(struct isolate_op *op);

struct isolate_op *isolate_op_new(struct provider *provider, struct place *place, enum op_kind kind,
                                  void *ctx)
{
    struct isolate_op *op = mem_alloc(sizeof *op);
    op->provider = provider;
    op->place = place;
    op->kind = kind;
    op->ctx = ctx;
    op->bytes.limit = STORE_BLOB_MAX;
    return op;
}

void isolate_op_free(struct isolate_op *op)
{
    services_done(&op->services);
    (void)allowance_free(op->allowance);
    (void)network_free(op->network);
    buf_done(&op->bytes);
    buf_done(&op->env_json);
    arena_done(&op->arena);
    free(op);
}

/* Calls back the caller of an operation, exactly once. */
void isolate_op_tell(struct isolate_op *op, const struct isolate_result *result, struct str image,
                     const struct err *why)
{
    if (op->is_orphan)
        return;
    switch (op->kind) {
    case OP_OPEN:
        op->place_done(op->ctx, why == NULL ? op->place : NULL, why);
        return;
    case OP_EVAL: {
        struct eval_result shown = {
            .run = result, .limits = &op->limits, .used_hints = op->place->services.used_hints};
        op->calls.on_done(op->ctx, why == NULL ? &shown : NULL, why);
        return;
    }
    case OP_PAUSE:
    case OP_SHOOT:
        op->image_done(op->ctx, image, op->size, why);
        return;
    case OP_ROLLBACK:
    case OP_RESUME:
        op->plain_done(op->ctx, why);
        return;
    }
}

void isolate_op_enqueue(struct isolate_op *op)
{
    struct place *place = op->place;
    struct err err = {0};
    if (place->op_count >= OPS_MAX) {
        (void)err_set(&err, ERR_BUSY, "%d operations already wait in this sandbox", OPS_MAX);
        isolate_op_tell(op, NULL, (struct str){0}, &err);
        isolate_op_free(op);
        return;
    }
    bool is_first = place->ops == NULL;
    *place->last_op = op;
    place->last_op = &op->next;
    place->op_count++;
    if (is_first)
        start(op);
}

void isolate_place_drop_old(struct place *place)
{
    while (place->old.len > 0)
        (void)network_free(vec_pop(&place->old));
}

void isolate_place_free(struct place *place)
{
    if (place->ret_gone != NULL)
        *place->ret_gone = true;
    buf_done(&place->image);
    if (place->lease != NULL)
        lease_give(place->lease, false);
    services_done(&place->services);
    (void)allowance_free(place->allowance);
    isolate_place_drop_old(place);
    vec_done(&place->old);
    (void)network_free(place->network);
    arena_done(&place->arena);
    free(place->id);
    free(place->tenant);
    free(place);
}

static void on_reopened(void *ctx, const struct err *why)
{
    struct place *place = ctx;
    place->is_broken = why != NULL;
}

/* The code has ended its isolate: the sandbox continues with a new one, before other requests.
 * The answer of the run has reported that the variables are lost. */
static void reopen(struct place *place)
{
    struct isolate_op *op = isolate_op_new(place->provider, place, OP_RESUME, place);
    place->is_broken = false;
    op->plain_done = on_reopened;
    op->limits = place->limits;
    op->next = place->ops;
    if (place->ops == NULL)
        place->last_op = &op->next;
    place->ops = op;
    place->op_count++;
    start(op);
}

/* The first op of a place is over; the next one begins. A place that could not be opened goes. */
static void ops_finish(struct isolate_op *op, const struct isolate_result *result, struct str image,
                       const struct err *why)
{
    struct place *place = op->place;
    if (op->is_orphan) {
        isolate_op_free(op);
        return;
    }
    place->ops = op->next;
    place->op_count--;
    if (place->ops == NULL)
        place->last_op = &place->ops;
    if (place->started == op)
        place->started = NULL;
    isolate_place_drop_old(place); /* no call outlives its evaluation */
    bool is_lost = op->kind == OP_OPEN && why != NULL, is_gone = false;
    bool may_reopen = op->kind == OP_EVAL && result != NULL;
    struct provider *provider = op->provider;
    op->next = NULL;
    place->ret_gone = &is_gone; /* a call-back may end the place */
    isolate_op_tell(op, result, image, why);
    isolate_op_free(op);
    if (is_gone)
        return;
    place->ret_gone = NULL;
    if (is_lost) {
        isolate_place_free(place);
    } else if (place->is_broken && may_reopen) {
        reopen(place);
    } else if (place->is_broken) {
        struct err gone = {0};
        (void)err_set(&gone, ERR_GONE, "its isolate ended");
        provider->host->on_gone(provider->host->engine, str_of(place->id), &gone);
    } else if (place->ops != NULL && place->ops != place->started) {
        start(place->ops);
    }
}

static void finish_err(struct isolate_op *op, const struct err *why)
{
    ops_finish(op, NULL, (struct str){0}, why);
}

/* --- What comes back --- */

static void on_stored(void *ctx, const char *hash, const struct err *why)
{
    struct isolate_op *op = ctx;
    op->is_awaited = false;
    if (why == NULL && op->kind == OP_PAUSE && !op->is_orphan) {
        if (op->place->lease != NULL)
            lease_give(op->place->lease, false);
        op->place->lease = NULL;
        buf_clear(&op->place->image);
        buf_put_cstr(&op->place->image, hash);
    }
    ops_finish(op, NULL, why == NULL ? str_of(hash) : (struct str){0}, why);
}

static void store_image(struct isolate_op *op, struct str bytes)
{
    struct buf copy = buf_with_limit(STORE_BLOB_MAX);
    buf_put(&copy, bytes);
    op->size = (int64_t)bytes.len;
    op->is_awaited = true;
    store_put_blob(op->provider->host->store, &copy, on_stored, op);
}

static void on_ended(void *ctx, struct worker_event *event)
{
    struct isolate_op *op = ctx;
    struct place *place = op->place;
    if (event->type == WORKER_FAILED) {
        place->is_broken = worker_is_dead(lease_worker(place->lease));
        finish_err(op, &event->err);
    } else if (event->type == WORKER_DONE) {
        place->is_broken = event->result->is_gone;
        ops_finish(op, event->result, (struct str){0}, NULL);
    } else if (event->type == WORKER_BYTES) {
        store_image(op, event->text);
    } else {
        place->isolate = event->number;
        ops_finish(op, NULL, (struct str){0}, NULL);
    }
}

/* --- What is begun --- */

static void ops_begin(struct isolate_op *op);

static void on_hand(void *ctx, struct lease *lease, const struct err *why)
{
    struct isolate_op *op = ctx;
    op->is_awaited = false;
    if (op->is_orphan) {
        if (lease != NULL)
            lease_give(lease, false);
        isolate_op_free(op);
        return;
    }
    if (why != NULL) {
        finish_err(op, why);
        return;
    }
    if (op->place->lease != NULL) /* the old state goes with its worker */
        lease_give(op->place->lease, false);
    op->place->lease = lease;
    ops_begin(op);
}

static void on_image(void *ctx, struct str bytes, const struct err *why)
{
    struct isolate_op *op = ctx;
    op->is_awaited = false;
    if (op->is_orphan || why != NULL) {
        finish_err(op, why);
        return;
    }
    buf_put(&op->bytes, bytes);
    op->is_awaited = true;
    lease_take(op->provider->leases, str_of(op->place->tenant), true, on_hand, op);
}

static int begin_worker(struct isolate_op *op, struct err *err)
{
    struct place *place = op->place;
    struct worker *worker = lease_worker(place->lease);
    switch (op->kind) {
    case OP_OPEN:
    case OP_RESUME:
    case OP_ROLLBACK:
        return op->bytes.len > 0
                   ? worker_begin_resume(worker, buf_str(&op->bytes), &place->limits, err)
                   : worker_begin_open(worker, &place->limits, err);
    case OP_EVAL:
        return worker_begin_run(worker, place->isolate, &op->limits, &op->call, err);
    case OP_PAUSE:
    case OP_SHOOT:
        return worker_begin_pause(worker, place->isolate, err);
    }
    return -1;
}

static void ops_begin(struct isolate_op *op)
{
    struct err err = {0};
    struct place *place = op->place;
    if (begin_worker(op, &err) < 0) {
        place->is_broken = err.code == ERR_GONE;
        finish_err(op, &err);
        return;
    }
    place->services.hints = op->spec.hints;
    place->services.used_hints = false;
    lease_follow(place->lease, op->kind == OP_EVAL ? &op->calls : NULL, op->ctx, &place->services,
                 op->limits.timeout_ms, on_ended, op);
}

static void start(struct isolate_op *op)
{
    op->place->started = op;
    bool needs_hand = op->kind == OP_OPEN || op->kind == OP_RESUME || op->kind == OP_ROLLBACK;
    op->is_awaited = needs_hand;
    if (needs_hand && op->image.len > 0)
        store_get_blob(op->provider->host->store, op->image, on_image, op);
    else if (needs_hand)
        lease_take(op->provider->leases, str_of(op->place->tenant), true, on_hand, op);
    else
        ops_begin(op);
}
