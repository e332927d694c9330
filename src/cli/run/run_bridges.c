/* The bridges of `sandglass run`: calls that come from the worker are carried out on a loop of our
 * own, which runs while the worker is waited for. */

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/format/json.h"
#include "cli/cli.h"
#include "cli/net_arg.h"
#include "cli/policy_arg.h"
#include "cli/run/run.h"
#include "cli/secret_arg.h"
#include "config/config.h"
#include "egress/gate/gate.h"
#include "egress/gateway/allowance.h"
#include "io/loop.h"
#include "runtime/bridges.h"

enum {
    CALLS_MAX = 64,
    /* The isolate's own deadline comes first and ends the run, so that a slow server gives a
     * timeout and not an error that the script could catch and go on from. */
    SLACK_MS = 1000,
};

struct running {
    struct run_bridges *bridges;
    struct bridge_call *call; /* NULL: free */
    struct worker *worker;
    uint64_t id;
};

struct run_bridges {
    struct bridge_set *set;
    struct services services;
    struct secrets *secrets; /* NULL for none */
    struct buf servers, ca_file;
    struct gate_options options;
    struct egress_proxy_limits limits;
    /* From the first call on: most code makes none. */
    struct loop *loop;
    struct timer *timer;
    int64_t deadline_ms; /* monotonic */
    struct running calls[CALLS_MAX];
    size_t call_count;
    struct err refusal; /* why the last call could not be */
};

/* --- Life --- */

int run_bridges_new(const struct cli_call *call, const struct config *config,
                    const struct hints *hints, struct run_bridges **ret_bridges, struct err *err)
{
    AUTO_BUF struct buf private = {0}, weather = {0};
    AUTO(run_bridges_freep) struct run_bridges *all = mem_alloc(sizeof *all);
    policy_put_servers(config, &all->servers);
    policy_put_private(config, &private);
    buf_put(&weather, config->bridges.weather_url);
    if (bridge_set_new(bridges, &all->set, err) < 0 ||
        net_limits_from_options(call, config, &all->limits, err) < 0 ||
        secrets_from_args(call, config, &all->secrets, err) < 0 ||
        policy_from_options(call, config, &all->services.policy, NULL, err) < 0 ||
        secrets_check_policy(all->secrets, all->services.policy, err) < 0 ||
        services_set_weather(&all->services, buf_cstr(&weather), buf_cstr(&private), err) < 0)
        return -1;
    all->services.hints = *hints;
    all->services.secrets = all->secrets;
    all->services.remedy = "name it with --allow-host HOST[:PORT]";
    if (config->egress.ca_file.len > 0) {
        buf_put(&all->ca_file, config->egress.ca_file);
        all->options.ca_file = buf_cstr(&all->ca_file);
    }
    all->options.dns_servers = all->servers.len > 0 ? buf_cstr(&all->servers) : NULL;
    *ret_bridges = all;
    all = NULL;
    return 0;
}

bool run_bridges_used_hints(const struct run_bridges *all)
{
    return all->services.used_hints;
}

struct run_bridges *run_bridges_free(struct run_bridges *all)
{
    if (all == NULL)
        return NULL;
    run_bridges_drop(all);
    services_done(&all->services);
    (void)policy_free(all->services.policy);
    (void)gate_free(all->services.gate);
    (void)allowance_free(all->services.allowance);
    (void)secrets_free(all->secrets);
    (void)bridge_set_free(all->set);
    if (all->timer != NULL)
        (void)timer_free(all->timer);
    (void)loop_free(all->loop);
    buf_done(&all->servers);
    buf_done(&all->ca_file);
    free(all);
    return NULL;
}

const char *const *run_bridges_names(const struct run_bridges *all)
{
    return bridge_set_names(all->set);
}

static void run_bridges_let_go(struct running *running)
{
    if (running->call == NULL)
        return;
    running->call = bridge_call_free(running->call);
    running->bridges->call_count--;
}

void run_bridges_drop(struct run_bridges *all)
{
    for (size_t i = 0; i < CALLS_MAX; i++)
        run_bridges_let_go(&all->calls[i]);
}

void run_bridges_put_env(const struct run_bridges *all, struct json_out *out)
{
    for (size_t i = 0; i < secrets_count(all->secrets); i++) {
        const struct secret_entry *entry = secrets_at(all->secrets, i);
        json_key(out, entry->rule.name), json_put_cstr(out, entry->placeholder);
    }
}

void run_bridges_begin(struct run_bridges *all, int64_t timeout_ms)
{
    if (all->secrets != NULL)
        secrets_guard_process();
    all->deadline_ms = clock_now_ms() + timeout_ms + SLACK_MS;
}

/* --- Calls --- */

static void stop_loop(void *ctx)
{
    struct run_bridges *all = ctx;
    loop_stop(all->loop);
}

static int open_loop(struct run_bridges *all, struct err *err)
{
    if (all->services.gate != NULL)
        return 0;
    if (all->loop == NULL && loop_open(&all->loop, err) < 0)
        return -1;
    if (all->timer == NULL)
        all->timer = timer_new(all->loop, stop_loop, all);
    if (all->services.allowance == NULL)
        all->services.allowance = allowance_new(all->loop, &all->limits, NULL, NULL);
    return gate_open(all->loop, &all->options, &all->services.gate, err);
}

/* Results that do not fit any more fail; the script can ask for fewer at once. */
static void on_settled(void *ctx, bool is_ok, struct str json)
{
    struct running *running = ctx;
    struct err err = {0};
    if (worker_answer(running->worker, running->id, is_ok, json, &err) < 0 &&
        err.code == ERR_TOO_LARGE)
        worker_answer_error(running->worker, running->id, &err);
    run_bridges_let_go(running);
    loop_stop(running->bridges->loop);
}

static struct running *find_free(struct run_bridges *all)
{
    for (size_t i = 0; i < CALLS_MAX; i++)
        if (all->calls[i].call == NULL)
            return &all->calls[i];
    return NULL;
}

static int run_bridges_start(struct run_bridges *all, struct worker *worker, uint64_t id,
                             struct str name, struct str args_json, struct err *err)
{
    struct running *running = find_free(all);
    if (running == NULL)
        return err_set(err, ERR_LIMIT, "too many calls at once: await some first");
    if (open_loop(all, err) < 0)
        return -1;
    *running = (struct running){.bridges = all, .worker = worker, .id = id};
    if (bridge_call_start(all->set, all->loop, &all->services, name, args_json,
                          all->deadline_ms - clock_now_ms(), on_settled, running, &running->call,
                          err) < 0)
        return -1;
    all->call_count++;
    return 0;
}

bool run_on_bridge(void *user, struct worker *worker, uint64_t id, struct str name,
                   struct str args_json, const char **ret_why)
{
    struct run_request *request = user;
    struct run_bridges *all = request->bridges;
    if (run_bridges_start(all, worker, id, name, args_json, &all->refusal) == 0)
        return true;
    *ret_why = all->refusal.msg;
    return false;
}

void run_on_cancel(void *user, uint64_t id)
{
    struct run_request *request = user;
    for (size_t i = 0; i < CALLS_MAX; i++)
        if (request->bridges->calls[i].call != NULL && request->bridges->calls[i].id == id)
            run_bridges_let_go(&request->bridges->calls[i]);
}

static void run_bridges_on_ready(void *ctx, UNUSED int events)
{
    stop_loop(ctx);
}

bool run_on_wait(void *user, int fd, bool writes, int64_t ms)
{
    struct run_request *request = user;
    struct run_bridges *all = request->bridges;
    struct watch *watch = NULL;
    struct err err = {0};
    int events = WATCH_READ | (writes ? WATCH_WRITE : 0);
    if (all->call_count == 0 ||
        watch_new(all->loop, fd, events, run_bridges_on_ready, all, &watch, &err) < 0)
        return false;
    timer_set(all->timer, ms, 0);
    loop_run(all->loop);
    timer_clear(all->timer);
    (void)watch_free(watch);
    return true;
}
