/* What can be changed while a sandbox lives. Its network comes first: only when the place has taken
 * it does the rest hold, and the record is written. */

#include "base/id.h"
#include "base/log.h"
#include "engine/answer.h"
#include "engine/feed_internal.h"
#include "engine/internal.h"
#include "engine/network.h"
#include "engine/quota.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/spec.h"
#include "store/store.h"

struct changing {
    struct want want; /* a place that is being made or brought back is waited for */
    struct groups_want groups;
    bool has_waited; /* for the groups that its policy names */
    struct engine *engine;
    struct sandbox *sandbox; /* busy until it is done */
    struct answer *answer;
    struct arena arena; /* of the texts below */
    struct sandbox_change change;
    int64_t timeout_ms, idle_ms;
    enum sandbox_on_timeout on_timeout;
    struct str name, policy;
    struct engine_pairs metadata;
    struct arena keys;
    struct sandbox_secrets secrets; /* in `keys` */
    struct sandbox_limits network_limits;
    struct sandbox_limits limits;        /* of memory, cpu and disk */
    bool is_limited;                     /* the place has taken them */
    int64_t raising_bytes, raising_disk; /* counted in the sandbox while this is under way */
    struct network *network;             /* NULL: nothing of it changes now */
};

static void changing_free(struct changing *changing)
{
    (void)network_free(changing->network);
    if (changing->raising_bytes > 0)
        changing->sandbox->raising_bytes -= changing->raising_bytes;
    if (changing->raising_disk > 0)
        changing->sandbox->raising_disk -= changing->raising_disk;
    arena_done(&changing->arena);
    arena_done(&changing->keys);
    free(changing);
}

static void give_up(struct changing *changing, const struct err *why)
{
    answer_give(changing->answer, why);
    changing_free(changing);
}

static int check_limits(const struct engine *engine, const struct sandbox *sandbox,
                        const struct sandbox_limits *limits, struct err *err)
{
    enum engine_tier tier = sandbox->info.tier;
    if (engine_table(engine, tier)->limit == NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "the memory, cpu and disk limits of a sandbox of the tier '%s' are set when "
                       "it is created and cannot be changed",
                       engine_tier_name(tier));
    return spec_check_limits(limits, err);
}

/* What it is about to get counts from now on, so that two changes at once cannot pass together what
 * each may have. */
static int reserve(struct changing *changing, const struct engine_caller *caller, struct err *err)
{
    const struct sandbox_limits *limits = changing->change.limits;
    struct sandbox *sandbox = changing->sandbox;
    if (limits == NULL)
        return 0;
    const struct sandbox_limits *now = &sandbox->info.limits;
    struct engine_quota more = {
        .memory_bytes = MAX(limits->memory_bytes - now->memory_bytes, (int64_t)0),
        .disk_bytes = MAX(limits->disk_bytes - now->disk_bytes, (int64_t)0)};
    if (more.memory_bytes == 0 && more.disk_bytes == 0)
        return 0;
    if (quota_check(changing->engine, caller, &more, err) < 0)
        return -1;
    sandbox->raising_bytes += changing->raising_bytes = more.memory_bytes;
    sandbox->raising_disk += changing->raising_disk = more.disk_bytes;
    return 0;
}

/* A disk that has grown may not be able to shrink again: nothing that can fail comes after it. */
static int check_disk(const struct sandbox_change *change, struct err *err)
{
    bool has_disk = change->limits != NULL && change->limits->disk_bytes != 0;
    if (has_disk &&
        (change->network != NULL || change->secrets != NULL || change->network_limits != NULL))
        return err_set(err, ERR_INVALID,
                       "limits.diskMb: cannot be changed together with the network, secrets or "
                       "network limits; change it in a separate request");
    return 0;
}

static int check_change(const struct engine *engine, const struct engine_caller *caller,
                        const struct sandbox *sandbox, const struct sandbox_change *change,
                        struct buf *policy, struct err *err)
{
    if (change->timeout_ms != NULL && spec_check_time(*change->timeout_ms, "timeoutMs", err) < 0)
        return -1;
    if (change->idle_ms != NULL && spec_check_time(*change->idle_ms, "idleMs", err) < 0)
        return -1;
    if (change->name != NULL && engine_check_name(*change->name, "name", err) < 0)
        return -1;
    if (change->metadata != NULL && spec_check_metadata(change->metadata, err) < 0)
        return -1;
    if (change->network_limits != NULL && spec_check_limits(change->network_limits, err) < 0)
        return -1;
    if (change->limits != NULL && check_limits(engine, sandbox, change->limits, err) < 0)
        return -1;
    if (check_disk(change, err) < 0)
        return -1;
    if (change->network != NULL && spec_policy(caller, *change->network, policy, err) < 0)
        return -1;
    struct str text = change->network != NULL ? buf_str(policy) : sandbox->info.network;
    return change->secrets == NULL ? 0
                                   : spec_check_secrets(engine, caller, change->secrets, text, err);
}

/* The caller's structs are gone when it comes to be applied. */
static void keep_change(struct changing *changing, const struct sandbox_change *change,
                        struct str policy)
{
    struct sandbox_change *kept = &changing->change;
    struct arena *arena = &changing->arena;
#define KEEP(field, copy)                                                                          \
    do {                                                                                           \
        if (change->field != NULL) {                                                               \
            changing->field = (copy);                                                              \
            kept->field = &changing->field;                                                        \
        }                                                                                          \
    } while (0)
    KEEP(timeout_ms, *change->timeout_ms);
    KEEP(idle_ms, *change->idle_ms);
    KEEP(on_timeout, *change->on_timeout);
    KEEP(name, arena_dup(arena, *change->name));
    KEEP(metadata, pairs_dup(change->metadata, arena));
    if (change->network != NULL) {
        changing->policy = arena_dup(arena, policy);
        kept->network = &changing->policy;
    }
    KEEP(network_limits, *change->network_limits);
    KEEP(limits, *change->limits);
#undef KEEP
    if (change->secrets != NULL)
        kept->secrets = &changing->secrets;
}

static void change_labels(struct sandbox *sandbox, const struct sandbox_change *change)
{
    struct sandbox_info *info = &sandbox->info;
    struct arena fresh = {0};
    info->name = arena_dup(&fresh, change->name != NULL ? *change->name : info->name);
    info->metadata =
        pairs_dup(change->metadata != NULL ? change->metadata : &info->metadata, &fresh);
    arena_done(&sandbox->labels);
    sandbox->labels = fresh;
}

static struct sandbox_limits with_network_of(struct sandbox_limits limits,
                                             const struct sandbox_limits *network)
{
    limits.net_connections = network->net_connections;
    limits.net_bytes_per_second = network->net_bytes_per_second;
    limits.net_bytes_total = network->net_bytes_total;
    limits.net_idle_ms = network->net_idle_ms;
    limits.net_total_ms = network->net_total_ms;
    limits.net_head_bytes = network->net_head_bytes;
    limits.net_answer_bytes = network->net_answer_bytes;
    return limits;
}

/* What is 0 stays. */
static struct sandbox_limits with_machine_of(struct sandbox_limits limits,
                                             const struct sandbox_limits *machine)
{
    if (machine->memory_bytes != 0)
        limits.memory_bytes = machine->memory_bytes;
    if (machine->cpu_milli != 0)
        limits.cpu_milli = machine->cpu_milli;
    if (machine->disk_bytes != 0)
        limits.disk_bytes = machine->disk_bytes;
    return limits;
}

static void sandbox_change_apply(struct changing *changing)
{
    struct sandbox *sandbox = changing->sandbox;
    struct sandbox_info *info = &sandbox->info;
    const struct sandbox_change *change = &changing->change;
    change_labels(sandbox, change);
    if (change->timeout_ms != NULL)
        sandbox_set_timeout(sandbox, MAX(*change->timeout_ms, (int64_t)0));
    if (change->idle_ms != NULL)
        info->idle_ms = MAX(*change->idle_ms, (int64_t)0);
    if (change->on_timeout != NULL)
        info->on_timeout = *change->on_timeout;
    if (change->network != NULL)
        sandbox_set_network(sandbox, *change->network);
    if (change->network_limits != NULL)
        info->limits = with_network_of(info->limits, change->network_limits);
    if (change->limits != NULL)
        info->limits = with_machine_of(info->limits, change->limits);
    if (change->secrets != NULL) {
        info->secrets = changing->secrets;
        arena_done(&sandbox->keys);
        sandbox->keys = changing->keys;
        changing->keys = (struct arena){0};
    }
    if (changing->network != NULL)
        sandbox_set_net(sandbox, network_ref(changing->network));
    info->version++;
    sandbox_touch(sandbox);
}

static void sandbox_change_finish(struct changing *changing)
{
    struct sandbox *sandbox = changing->sandbox;
    sandbox_change_apply(changing);
    struct store_batch *batch = store_begin(changing->engine->store);
    sandbox_save(sandbox, batch);
    feed_publish(changing->engine, batch, EVENT_SANDBOX_UPDATED, sandbox->info.tenant,
                 sandbox->info.id, sandbox->info.id, "", "");
    sandbox_commit(sandbox, batch, STORE_QUICK, changing->answer);
    changing_free(changing);
}

static void on_restored(UNUSED void *ctx, const struct err *why)
{
    if (why != NULL)
        log_warn("sandbox.limits", LOG_STR("error", why->msg));
}

/* One change holds as a whole or not at all: when its network is refused, the limits that the place
 * has taken are those before again. */
static void give_up_limited(struct changing *changing, const struct err *why)
{
    struct sandbox *sandbox = changing->sandbox;
    if (changing->is_limited && sandbox->place != NULL)
        engine_table(changing->engine, sandbox->info.tier)
            ->limit(sandbox->place, &sandbox->info.limits, on_restored, NULL);
    give_up(changing, why);
}

static void on_network(void *ctx, const struct err *why)
{
    struct changing *changing = ctx;
    sandbox_end_work(changing->sandbox);
    if (why != NULL)
        give_up_limited(changing, why);
    else
        sandbox_change_finish(changing);
}

static int make_network(struct changing *changing, struct err *err)
{
    const struct sandbox_info *info = &changing->sandbox->info;
    const struct sandbox_change *change = &changing->change;
    struct sandbox_limits limits = change->network_limits == NULL
                                       ? info->limits
                                       : with_network_of(info->limits, change->network_limits);
    struct network_spec spec = {
        .tenant = info->tenant,
        .policy = change->network != NULL ? *change->network : info->network,
        .secrets = change->secrets,
        .limits = &limits,
    };
    return network_new(changing->engine, &spec, changing->sandbox->net, &changing->network, err);
}

/* The sandbox may have moved on meanwhile. */
static void groups_known(struct groups_want *want)
{
    struct changing *changing = CONTAINER_OF(want, struct changing, groups);
    struct sandbox *sandbox = changing->sandbox;
    struct err err = {0};
    changing->has_waited = true;
    sandbox_end_work(sandbox);
    if (changing->engine->is_stopping)
        (void)err_set(&err, ERR_UNAVAILABLE, "the server is stopping");
    else if (sandbox->hold.is_freed)
        (void)err_set(&err, ERR_GONE, "sandbox '%.*s' no longer exists", STR_ARG(sandbox->info.id));
    if (err.code != ERR_NONE)
        give_up_limited(changing, &err);
    else
        sandbox_wait(sandbox, &changing->want);
}

static bool wait_for_groups(struct changing *changing)
{
    const struct sandbox_change *change = &changing->change;
    struct sandbox *sandbox = changing->sandbox;
    if (changing->has_waited ||
        !network_waits(changing->engine,
                       change->network != NULL ? *change->network : sandbox->info.network))
        return false;
    changing->groups.call = groups_known;
    sandbox_begin_work(sandbox);
    network_wait(changing->engine, &changing->groups);
    return true;
}

static void begin_network(struct changing *changing)
{
    struct sandbox *sandbox = changing->sandbox;
    const struct sandbox_change *change = &changing->change;
    const struct provider_table *table = engine_table(changing->engine, sandbox->info.tier);
    struct err err = {0};
    bool is_new =
        change->network != NULL || change->secrets != NULL || change->network_limits != NULL;
    bool is_live = sandbox->place != NULL && sandbox->net != NULL && table->network != NULL;
    if (!is_new || !is_live) {
        sandbox_change_finish(changing);
        return;
    }
    if (wait_for_groups(changing))
        return;
    if (make_network(changing, &err) < 0) {
        give_up_limited(changing, &err);
        return;
    }
    /* The certificates that the sandbox trusts are written by one of its processes, which is frozen
     * now. */
    if (sandbox->info.state == SANDBOX_PAUSED && sandbox->info.tier == ENGINE_TIER_JAIL &&
        changing->network->authority != NULL &&
        changing->network->authority != sandbox->net->authority) {
        (void)err_set(&err, ERR_CONFLICT,
                      "the sandbox is paused: resume it before you change the hosts of its secrets "
                      "or its rules on methods and paths");
        give_up_limited(changing, &err);
        return;
    }
    sandbox_begin_work(sandbox);
    table->network(sandbox->place, changing->network, on_network, changing);
}

static void on_limited(void *ctx, const struct err *why)
{
    struct changing *changing = ctx;
    sandbox_end_work(changing->sandbox);
    changing->is_limited = why == NULL;
    if (why != NULL)
        give_up(changing, why);
    else
        begin_network(changing);
}

static void sandbox_change_begin(struct changing *changing)
{
    struct sandbox *sandbox = changing->sandbox;
    const struct sandbox_change *change = &changing->change;
    struct err err = {0};
    if (change->limits == NULL || changing->is_limited) {
        begin_network(changing);
        return;
    }
    struct sandbox_limits limits = with_machine_of(sandbox->info.limits, change->limits);
    if (sandbox->place == NULL) {
        if (limits.disk_bytes == sandbox->info.limits.disk_bytes) {
            begin_network(changing);
            return;
        }
        (void)err_set(&err, ERR_CONFLICT,
                      "the disk of sandbox '%.*s' is not mounted: resume the sandbox before you "
                      "change the disk's size",
                      STR_ARG(sandbox->info.id));
        give_up(changing, &err);
        return;
    }
    sandbox_begin_work(sandbox);
    engine_table(changing->engine, sandbox->info.tier)
        ->limit(sandbox->place, &limits, on_limited, changing);
}

static void settled(struct want *want, struct sandbox *sandbox, const struct err *why)
{
    struct changing *changing = (struct changing *)want;
    struct err err = {0};
    if (why != NULL) {
        give_up(changing, why);
        return;
    }
    if (sandbox->info.state == SANDBOX_STOPPED) {
        (void)err_set(&err, ERR_GONE, "sandbox '%.*s' has stopped", STR_ARG(sandbox->info.id));
        give_up(changing, &err);
        return;
    }
    changing->sandbox = sandbox;
    sandbox_change_begin(changing);
}

void engine_sandbox_update(struct engine *engine, const struct engine_caller *caller, struct str id,
                           const struct sandbox_change *change, sandbox_done *done, void *ctx)
{
    struct answer *answer = answer_sandbox(engine, done, ctx);
    AUTO_BUF struct buf policy = {0};
    struct err err = {0};
    struct sandbox *sandbox = NULL;
    if (engine_check_caller(engine, caller, &err) == 0)
        sandbox = sandbox_find(engine, caller, id, &err);
    if (sandbox == NULL || check_change(engine, caller, sandbox, change, &policy, &err) < 0) {
        answer_give(answer, &err);
        return;
    }
    struct changing *changing = mem_alloc(sizeof *changing);
    changing->want.call = settled;
    changing->engine = engine;
    changing->answer = answer;
    changing->sandbox = sandbox;
    keep_change(changing, change, buf_str(&policy));
    if (reserve(changing, caller, &err) < 0 ||
        (change->secrets != NULL &&
         keyring_keep(engine, sandbox->info.tenant, change->secrets, &sandbox->info.secrets,
                      &changing->keys, &changing->secrets, &err) < 0))
        give_up(changing, &err);
    else
        sandbox_wait(sandbox, &changing->want);
}

struct renewing {
    struct network *network;
    char sandbox[ID_SIZE];
    engine_done *done;
    void *ctx;
};

static void on_renewed(void *ctx, const struct err *why)
{
    struct renewing *renewing = ctx;
    if (why != NULL)
        log_warn("sandbox.network", LOG_STR("sandbox", renewing->sandbox),
                 LOG_STR("error", why->msg));
    (void)network_free(renewing->network);
    if (renewing->done != NULL)
        renewing->done(renewing->ctx, why);
    free(renewing);
}

void sandbox_renew_network(struct sandbox *sandbox, engine_done *done, void *ctx)
{
    const struct sandbox_info *info = &sandbox->info;
    const struct provider_table *table = engine_table(sandbox->engine, info->tier);
    struct network_spec spec = {info->tenant, info->network, &info->secrets, &info->limits};
    struct network *network = NULL;
    struct err err = {0};
    bool is_needed = info->secrets.len > 0 && table->network != NULL && sandbox->place != NULL;
    if (is_needed && network_new(sandbox->engine, &spec, NULL, &network, &err) < 0)
        log_warn("sandbox.network", LOG_VIEW("sandbox", info->id), LOG_STR("error", err.msg));
    if (network == NULL) {
        if (done != NULL)
            done(ctx, is_needed ? &err : NULL);
        return;
    }
    sandbox_set_net(sandbox, network_ref(network));
    struct renewing *renewing = mem_alloc(sizeof *renewing);
    *renewing = (struct renewing){.network = network, .done = done, .ctx = ctx};
    (void)snprintf(renewing->sandbox, sizeof renewing->sandbox, "%.*s", STR_ARG(info->id));
    table->network(sandbox->place, network, on_renewed, renewing);
}
