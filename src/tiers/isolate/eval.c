/* Evaluating: in a place, after what it has to do already; or once, in a worker that serves this
 * run and then another of the same tenant. */

#include "base/err.h"
#include "base/format/json.h"
#include "tiers/isolate/place.h"

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
static void fill_eval(struct isolate_op *op, const struct eval_spec *spec,
                      const struct eval_calls *calls, const struct isolate_limits *limits)
{
    op->spec = *spec;
    op->calls = *calls;
    op->limits = *limits;
    op->limits.timeout_ms = isolate_deadline(spec->limit.ms);
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

static void unlink_single(struct isolate_op *op)
{
    struct isolate_op **at = &op->provider->singles;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
}

static void single_over(struct isolate_op *op, const struct isolate_result *result,
                        const struct err *why)
{
    struct eval_result shown = {
        .run = result, .limits = &op->limits, .used_hints = op->services.used_hints};
    struct lease *lease = op->lease;
    unlink_single(op);
    op->calls.on_done(op->ctx, why == NULL ? &shown : NULL, why);
    if (lease != NULL)
        lease_give(lease, true);
    isolate_op_free(op);
}

static void on_single_ended(void *ctx, struct worker_event *event)
{
    if (event->type == WORKER_DONE)
        single_over(ctx, event->result, NULL);
    else
        single_over(ctx, NULL, &event->err);
}

static void on_single_hand(void *ctx, struct lease *lease, const struct err *why)
{
    struct isolate_op *op = ctx;
    struct err err = {0};
    op->lease = lease;
    if (why != NULL) {
        single_over(op, NULL, why);
    } else if (worker_begin_run(lease_worker(lease), 0, &op->limits, &op->call, &err) < 0) {
        single_over(op, NULL, &err);
    } else {
        op->services.hints = op->spec.hints;
        op->services.used_hints = false;
        lease_follow(lease, &op->calls, op->ctx, &op->services, op->limits.timeout_ms,
                     on_single_ended, op);
    }
}

void isolate_eval(struct provider *provider, struct place *place, struct str tenant,
                  const struct eval_spec *spec, const struct eval_calls *calls, void *ctx)
{
    struct isolate_op *op = isolate_op_new(provider, place, OP_EVAL, ctx);
    struct err err = {0};
    if (place != NULL) {
        fill_eval(op, spec, calls, &place->limits);
        isolate_op_enqueue(op);
        return;
    }
    struct isolate_limits limits = eval_limits_of(provider->host->config);
    struct network_spec net = {
        .tenant = tenant, .policy = spec->network, .secrets = &spec->secrets};
    if (spec->memory_bytes > 0)
        limits.memory_bytes = (uint64_t)spec->memory_bytes;
    op->calls = *calls;
    op->next = provider->singles;
    provider->singles = op;
    if (network_new(provider->host->engine, &net, NULL, &op->network, &err) < 0 ||
        isolate_fill_services(provider, op->network, &op->services, &err) < 0) {
        single_over(op, NULL, &err);
        return;
    }
    op->allowance = allowance_new(provider->host->loop, &op->network->limits, NULL, NULL);
    op->services.allowance = op->allowance;
    fill_eval(op, spec, calls, &limits);
    lease_take(provider->leases, tenant, false, on_single_hand, op);
}

void isolate_singles_end(struct provider *provider)
{
    struct err err = {0};
    (void)err_set(&err, ERR_CANCELED, "the server is stopping");
    for (struct isolate_op *op = provider->singles, *next; op != NULL; op = next) {
        next = op->next;
        if (op->lease != NULL)
            single_over(op, NULL, &err);
    }
}
