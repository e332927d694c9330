/* JavaScript sandboxes: each a worker of its own that holds one isolate. What is put aside is the
 * isolate's bytes, in a blob. */

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "egress/allowance.h"
#include "egress/gate.h"
#include "egress/policy.h"
#include "engine/config.h"
#include "engine/isolate_hand.h"
#include "engine/network.h"
#include "runtime/bridges.h"
#include "store/blobs.h"

enum { OPS_MAX = 16 }; /* that wait in one sandbox */

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

static void start(struct op *op);

/* --- Services --- */

static void put_list(const struct config_list *list, struct buf *out)
{
    for (size_t i = 0; i < list->len; i++)
        buf_printf(out, "%s%.*s", i > 0 ? "," : "", STR_ARG(list->items[i]));
}

/* The services borrow what the network holds. */
static int fill_services(struct provider *provider, struct network *network,
                         struct services *services, struct err *err)
{
    const struct config *config = provider->host->config;
    AUTO_BUF struct buf weather = {0};
    buf_put(&weather, config->bridges.weather_url);
    *services = (struct services){.gate = provider->gate};
    services->remedy = "allow it in the sandbox's network policy";
    services->policy = network->policy;
    services->secrets = network->secrets;
    return services_set_weather(services, buf_cstr(&weather), buf_cstr(&provider->private), err);
}

/* --- Ops --- */

static struct op *op_new(struct provider *provider, struct place *place, enum op_kind kind,
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

static void op_free(struct op *op)
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
static void tell(struct op *op, const struct isolate_result *result, struct str image,
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

static void enqueue(struct op *op)
{
    struct place *place = op->place;
    struct err err = {0};
    if (place->op_count >= OPS_MAX) {
        (void)err_set(&err, ERR_BUSY, "%d things wait in this sandbox already", OPS_MAX);
        tell(op, NULL, (struct str){0}, &err);
        op_free(op);
        return;
    }
    bool is_first = place->ops == NULL;
    *place->last_op = op;
    place->last_op = &op->next;
    place->op_count++;
    if (is_first)
        start(op);
}

static void drop_old(struct place *place)
{
    while (place->old.len > 0)
        (void)network_free(vec_pop(&place->old));
}

static void place_free(struct place *place)
{
    if (place->ret_gone != NULL)
        *place->ret_gone = true;
    buf_done(&place->image);
    if (place->hand != NULL)
        hand_give(place->hand, false);
    services_done(&place->services);
    (void)allowance_free(place->allowance);
    drop_old(place);
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
        op_free(op);
        return;
    }
    place->ops = op->next;
    place->op_count--;
    if (place->ops == NULL)
        place->last_op = &place->ops;
    drop_old(place); /* no call outlives its evaluation */
    bool is_lost = op->kind == OP_OPEN && why != NULL, is_gone = false;
    struct provider *provider = op->provider;
    op->next = NULL;
    place->ret_gone = &is_gone; /* what is told may end the place */
    tell(op, result, image, why);
    op_free(op);
    if (is_gone)
        return;
    place->ret_gone = NULL;
    if (is_lost) {
        place_free(place);
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
        op_free(op);
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

/* --- Places --- */

static struct isolate_limits limits_of(const struct config *config)
{
    struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    limits.timeout_ms = config->isolate.timeout_ms;
    limits.memory_bytes = (uint64_t)config->isolate.memory_mb << 20;
    limits.code_chars = (uint32_t)config->isolate.code_max_chars;
    limits.console_lines = (uint32_t)config->isolate.console_lines;
    limits.result_depth = (int)config->isolate.result_depth;
    limits.result_items = (uint32_t)config->isolate.result_items;
    return limits;
}

static char *dup_str(struct str text)
{
    char *copy = mem_alloc(text.len + 1);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    return copy;
}

static void on_verdict(void *ctx, const struct verdict *verdict, const struct host *host,
                       uint16_t port)
{
    const struct place *place = ctx;
    const struct provider_host *to = place->provider->host;
    if (!verdict_is_allowed(verdict))
        to->on_blocked(to->engine, str_of(place->id), "fetch", host->text, port,
                       verdict_reason_name(verdict->reason), verdict->text);
}

static void on_moved(void *ctx, int64_t bytes)
{
    const struct place *place = ctx;
    const struct provider_host *to = place->provider->host;
    to->on_moved(to->engine, str_of(place->id), bytes);
}

static void allow(struct place *place, int64_t moved)
{
    struct porter_limits limits = place->network->limits;
    limits.bytes_before = moved;
    place->allowance = allowance_new(place->provider->host->loop, &limits, on_moved, place);
    place->services.allowance = place->allowance;
}

static void create(struct provider *provider, const struct place_spec *spec, place_done *done,
                   void *ctx)
{
    const struct sandbox_info *info = spec->sandbox;
    struct place *place = mem_alloc(sizeof *place);
    struct op *op = op_new(provider, place, OP_OPEN, ctx);
    struct err err = {0};
    place->provider = provider;
    place->last_op = &place->ops;
    place->id = dup_str(info->id);
    place->tenant = dup_str(info->tenant);
    place->limits = limits_of(provider->host->config);
    place->limits.memory_bytes = (uint64_t)info->limits.memory_bytes;
    place->limits.timeout_ms = isolate_clamp_timeout(info->limits.exec_ms);
    op->place_done = done;
    op->limits = place->limits;
    op->image = arena_dup(&op->arena, spec->image);
    place->network = network_ref(spec->network);
    place->env = pairs_dup(&info->env, &place->arena);
    if (spec->volume.len > 0 || spec->snapshot_count > 0) {
        (void)err_set(&err, ERR_UNSUPPORTED, "a sandbox of the tier 'isolate' has no files");
    } else if (fill_services(provider, place->network, &place->services, &err) == 0) {
        place->services.on_verdict = on_verdict;
        place->services.verdict_ctx = place;
        allow(place, spec->net_moved);
        enqueue(op);
        return;
    }
    tell(op, NULL, (struct str){0}, &err);
    op_free(op);
    place_free(place);
}

static void end(struct place *place, UNUSED bool keep_image, engine_done *done, void *ctx)
{
    struct err err = {0};
    (void)err_set(&err, ERR_GONE, "the sandbox ended");
    while (place->ops != NULL) {
        struct op *op = place->ops;
        place->ops = op->next;
        tell(op, NULL, (struct str){0}, &err);
        op->is_orphan = true;
        op->place = NULL;
        if (!op->is_awaited)
            op_free(op);
    }
    place_free(place);
    done(ctx, NULL);
}

/* Calls under way hold the old one until they end. */
static void set_network(struct place *place, struct network *network, engine_done *done, void *ctx)
{
    struct services fresh = {0};
    struct err err = {0};
    if (fill_services(place->provider, network, &fresh, &err) < 0) {
        done(ctx, &err);
        return;
    }
    fresh.on_verdict = on_verdict;
    fresh.verdict_ctx = place;
    fresh.hints = place->services.hints;
    fresh.allowance = place->allowance;
    allowance_set_limits(place->allowance, &network->limits);
    services_done(&place->services);
    place->services = fresh;
    *vec_push(&place->old) = place->network;
    place->network = network_ref(network);
    if (place->ops == NULL)
        drop_old(place);
    done(ctx, NULL);
}

static void take_picture(struct place *place, enum op_kind kind, image_done *done, void *ctx)
{
    struct op *op = op_new(place->provider, place, kind, ctx);
    op->image_done = done;
    enqueue(op);
}

static void pause_place(struct place *place, image_done *done, void *ctx)
{
    take_picture(place, OP_PAUSE, done, ctx);
}

static void checkpoint(struct place *place, image_done *done, void *ctx)
{
    take_picture(place, OP_SHOOT, done, ctx);
}

static void go_back(struct place *place, enum op_kind kind, struct str image, engine_done *done,
                    void *ctx)
{
    struct op *op = op_new(place->provider, place, kind, ctx);
    op->plain_done = done;
    op->image = arena_dup(&op->arena, image);
    op->limits = place->limits;
    enqueue(op);
}

static void rollback(struct place *place, struct str image, engine_done *done, void *ctx)
{
    go_back(place, OP_ROLLBACK, image, done, ctx);
}

static void resume(struct place *place, engine_done *done, void *ctx)
{
    go_back(place, OP_RESUME, buf_str(&place->image), done, ctx);
}

/* --- Evaluating --- */

static bool has_name(const struct engine_pairs *env, struct str name)
{
    for (size_t i = 0; i < env->len; i++)
        if (str_eq(env->items[i].name, name))
            return true;
    return false;
}

/* Placeholders, and what was asked for, which wins. */
static void put_env(const struct network *network, const struct engine_pairs *env,
                    struct arena *arena, struct buf *out)
{
    struct json_out json = {.buf = out};
    struct engine_pairs own = network_env(network, false, arena);
    json_begin_object(&json);
    for (size_t i = 0; i < own.len; i++)
        if (!has_name(env, own.items[i].name))
            json_key_str(&json, own.items[i].name), json_put_str(&json, own.items[i].value);
    for (size_t i = 0; i < env->len; i++)
        json_key_str(&json, env->items[i].name), json_put_str(&json, env->items[i].value);
    json_end_object(&json);
}

/* The spec lives as long as the run: the engine keeps it. */
static void fill_eval(struct op *op, const struct eval_spec *spec, const struct eval_calls *calls,
                      const struct isolate_limits *limits)
{
    op->spec = *spec;
    op->calls = *calls;
    op->limits = *limits;
    if (spec->timeout_ms != 0)
        op->limits.timeout_ms = isolate_clamp_timeout(spec->timeout_ms);
    const struct network *network = op->place != NULL ? op->place->network : op->network;
    const struct engine_pairs *env =
        spec->env.len == 0 && op->place != NULL ? &op->place->env : &spec->env;
    put_env(network, env, &op->arena, &op->env_json);
    op->call = (struct isolate_call){
        .code = spec->code,
        .lang = spec->lang,
        .file = spec->file.len > 0 ? spec->file.ptr : NULL,
        .is_session = op->place != NULL,
        .wants_text = spec->wants_text,
        .modules = spec->modules,
        .module_count = spec->module_count,
        .env_json = buf_str(&op->env_json),
    };
}

static void unlink_single(struct op *op)
{
    struct op **at = &op->provider->singles;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
}

static void single_over(struct op *op, const struct isolate_result *result, const struct err *why)
{
    struct eval_result shown = {.run = result, .limits = &op->limits};
    struct hand *hand = op->hand;
    unlink_single(op);
    op->calls.on_done(op->ctx, why == NULL ? &shown : NULL, why);
    if (hand != NULL)
        hand_give(hand, true);
    op_free(op);
}

static void on_single_ended(void *ctx, struct worker_event *event)
{
    if (event->type == WORKER_DONE)
        single_over(ctx, event->result, NULL);
    else
        single_over(ctx, NULL, &event->err);
}

static void on_single_hand(void *ctx, struct hand *hand, const struct err *why)
{
    struct op *op = ctx;
    struct err err = {0};
    op->hand = hand;
    if (why != NULL) {
        single_over(op, NULL, why);
    } else if (worker_begin_run(hand_worker(hand), 0, &op->limits, &op->call, &err) < 0) {
        single_over(op, NULL, &err);
    } else {
        op->services.hints = op->spec.hints;
        hand_follow(hand, &op->calls, op->ctx, &op->services, op->limits.timeout_ms,
                    on_single_ended, op);
    }
}

static void eval(struct provider *provider, struct place *place, struct str tenant,
                 const struct eval_spec *spec, const struct eval_calls *calls, void *ctx)
{
    struct op *op = op_new(provider, place, OP_EVAL, ctx);
    struct err err = {0};
    if (place != NULL) {
        fill_eval(op, spec, calls, &place->limits);
        enqueue(op);
        return;
    }
    struct isolate_limits limits = limits_of(provider->host->config);
    struct network_spec net = {
        .tenant = tenant, .policy = spec->network, .secrets = &spec->secrets};
    if (spec->memory_bytes > 0)
        limits.memory_bytes = (uint64_t)spec->memory_bytes;
    op->calls = *calls;
    op->next = provider->singles;
    provider->singles = op;
    if (network_new(provider->host->engine, &net, NULL, &op->network, &err) < 0 ||
        fill_services(provider, op->network, &op->services, &err) < 0) {
        single_over(op, NULL, &err);
        return;
    }
    op->allowance = allowance_new(provider->host->loop, &op->network->limits, NULL, NULL);
    op->services.allowance = op->allowance;
    fill_eval(op, spec, calls, &limits);
    hand_take(provider->hands, tenant, false, on_single_hand, op);
}

/* --- Opening --- */

static void on_maker_gone(void *ctx, const struct err *why)
{
    struct provider *provider = ctx;
    provider->host->on_maker_gone(provider->host->engine, ENGINE_TIER_ISOLATE, why);
}

static void close_provider(struct provider *provider)
{
    struct err err = {0};
    (void)err_set(&err, ERR_CANCELED, "the server stops");
    for (struct op *op = provider->singles, *next; op != NULL; op = next) {
        next = op->next;
        if (op->hand != NULL)
            single_over(op, NULL, &err);
    }
    if (provider->hands != NULL)
        hands_close(provider->hands);
    (void)gate_free(provider->gate);
    buf_done(&provider->dns_servers);
    buf_done(&provider->ca_file);
    buf_done(&provider->private);
    free(provider);
}

static int open_provider(const struct provider_host *host, struct provider **ret_provider,
                         struct err *err)
{
    static const struct hands_calls calls = {on_maker_gone};
    const struct config_egress *egress = &host->config->egress;
    struct provider *provider = mem_alloc(sizeof *provider);
    provider->host = host;
    put_list(&egress->dns_servers, &provider->dns_servers);
    put_list(&egress->private, &provider->private);
    buf_put(&provider->ca_file, egress->ca_file);
    provider->gate_options.dns_servers =
        provider->dns_servers.len > 0 ? buf_cstr(&provider->dns_servers) : NULL;
    provider->gate_options.ca_file =
        provider->ca_file.len > 0 ? buf_cstr(&provider->ca_file) : NULL;
    if (gate_open(host->loop, &provider->gate_options, &provider->gate, err) < 0 ||
        hands_open(host, &calls, provider, &provider->hands, err) < 0) {
        close_provider(provider);
        return -1;
    }
    *ret_provider = provider;
    return 0;
}

static void pool(struct provider *provider, struct pool_figures *ret_figures)
{
    *ret_figures = hands_pool(provider->hands);
}

const struct provider_table provider_isolate = {
    .name = "isolate",
    .tier = ENGINE_TIER_ISOLATE,
    .runtime = "js",
    .keeps_images = true,
    .open = open_provider,
    .close = close_provider,
    .pool = pool,
    .sandbox_create = create,
    .sandbox_end = end,
    .eval = eval,
    .pause = pause_place,
    .resume = resume,
    .checkpoint = checkpoint,
    .rollback = rollback,
    .network = set_network,
};
