/* What an isolate's place has to do: opened, run, paused, brought back, one after the other. */

#include "base/err.h"
#include "engine/isolate_place.h"
#include "store/blobs.h"

enum { OPS_MAX = 16 }; /* that wait in one sandbox */

static void start(struct op *op);

struct op *isolate_op_new(struct provider *provider, struct place *place, enum op_kind kind,
                          void *ctx)
{
    struct op *op = mem_alloc(sizeof *op);
    op->provider = provider;
    op->place = place;
    op->kind = kind;
    op->ctx = ctx;
    op->bytes.limit = STORE_BLOB_MAX;
    return op;
}

void isolate_op_free(struct op *op)
{
    services_done(&op->services);
    (void)allowance_free(op->allowance);
    (void)network_free(op->network);
    buf_done(&op->bytes);
    buf_done(&op->env_json);
    arena_done(&op->arena);
    free(op);
}

/* The one word that the caller of an op hears. */
void isolate_op_tell(struct op *op, const struct isolate_result *result, struct str image,
                     const struct err *why)
{
    if (op->is_orphan)
        return;
    switch (op->kind) {
    case OP_OPEN:
        op->place_done(op->ctx, why == NULL ? op->place : NULL, why);
        return;
    case OP_EVAL: {
        struct eval_result shown = {.run = result, .limits = &op->limits};
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

void isolate_op_enqueue(struct op *op)
{
    struct place *place = op->place;
    struct err err = {0};
    if (place->op_count >= OPS_MAX) {
        (void)err_set(&err, ERR_BUSY, "%d things wait in this sandbox already", OPS_MAX);
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
    if (place->hand != NULL)
        hand_give(place->hand, false);
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

/* The first op of a place is over; the next one begins. A place that could not be opened goes. */
static void finish(struct op *op, const struct isolate_result *result, struct str image,
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
    isolate_place_drop_old(place); /* no call outlives its evaluation */
    bool is_lost = op->kind == OP_OPEN && why != NULL, is_gone = false;
    struct provider *provider = op->provider;
    op->next = NULL;
    place->ret_gone = &is_gone; /* what is told may end the place */
    isolate_op_tell(op, result, image, why);
    isolate_op_free(op);
    if (is_gone)
        return;
    place->ret_gone = NULL;
    if (is_lost) {
        isolate_place_free(place);
    } else if (place->is_broken) {
        struct err gone = {0};
        (void)err_set(&gone, ERR_GONE, "its isolate ended");
        provider->host->on_gone(provider->host->engine, str_of(place->id), &gone);
    } else if (place->ops != NULL && place->ops != place->started) {
        start(place->ops);
    }
}

static void finish_err(struct op *op, const struct err *why)
{
    finish(op, NULL, (struct str){0}, why);
}

/* --- What comes back --- */

static void on_stored(void *ctx, const char *hash, const struct err *why)
{
    struct op *op = ctx;
    op->is_awaited = false;
    if (why == NULL && op->kind == OP_PAUSE && !op->is_orphan) {
        if (op->place->hand != NULL)
            hand_give(op->place->hand, false);
        op->place->hand = NULL;
        buf_clear(&op->place->image);
        buf_put_cstr(&op->place->image, hash);
    }
    finish(op, NULL, why == NULL ? str_of(hash) : (struct str){0}, why);
}

static void store_image(struct op *op, struct str bytes)
{
    struct buf copy = buf_with_limit(STORE_BLOB_MAX);
    buf_put(&copy, bytes);
    op->size = (int64_t)bytes.len;
    op->is_awaited = true;
    store_put_blob(op->provider->host->store, &copy, on_stored, op);
}

static void on_ended(void *ctx, struct worker_event *event)
{
    struct op *op = ctx;
    struct place *place = op->place;
    if (event->type == WORKER_FAILED) {
        place->is_broken = worker_is_dead(hand_worker(place->hand));
        finish_err(op, &event->err);
    } else if (event->type == WORKER_DONE) {
        place->is_broken = event->result->is_gone;
        finish(op, event->result, (struct str){0}, NULL);
    } else if (event->type == WORKER_BYTES) {
        store_image(op, event->text);
    } else {
        place->isolate = event->number;
        finish(op, NULL, (struct str){0}, NULL);
    }
}

/* --- What is begun --- */

static void begin(struct op *op);

static void on_hand(void *ctx, struct hand *hand, const struct err *why)
{
    struct op *op = ctx;
    op->is_awaited = false;
    if (op->is_orphan) {
        if (hand != NULL)
            hand_give(hand, false);
        isolate_op_free(op);
        return;
    }
    if (why != NULL) {
        finish_err(op, why);
        return;
    }
    if (op->place->hand != NULL) /* the old state goes with its worker */
        hand_give(op->place->hand, false);
    op->place->hand = hand;
    begin(op);
}

static void on_image(void *ctx, struct str bytes, const struct err *why)
{
    struct op *op = ctx;
    op->is_awaited = false;
    if (op->is_orphan || why != NULL) {
        finish_err(op, why);
        return;
    }
    buf_put(&op->bytes, bytes);
    op->is_awaited = true;
    hand_take(op->provider->hands, str_of(op->place->tenant), true, on_hand, op);
}

static int begin_worker(struct op *op, struct err *err)
{
    struct place *place = op->place;
    struct worker *worker = hand_worker(place->hand);
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

static void begin(struct op *op)
{
    struct err err = {0};
    struct place *place = op->place;
    if (begin_worker(op, &err) < 0) {
        place->is_broken = err.code == ERR_GONE;
        finish_err(op, &err);
        return;
    }
    place->services.hints = op->spec.hints;
    hand_follow(place->hand, op->kind == OP_EVAL ? &op->calls : NULL, op->ctx, &place->services,
                op->limits.timeout_ms, on_ended, op);
}

static void start(struct op *op)
{
    op->place->started = op;
    bool needs_hand = op->kind == OP_OPEN || op->kind == OP_RESUME || op->kind == OP_ROLLBACK;
    op->is_awaited = needs_hand;
    if (needs_hand && op->image.len > 0)
        store_get_blob(op->provider->host->store, op->image, on_image, op);
    else if (needs_hand)
        hand_take(op->provider->hands, str_of(op->place->tenant), true, on_hand, op);
    else
        begin(op);
}
