#include "api/meta.h"

#include "api/http.h"
#include "api/metrics.h"
#include "api/openapi.h"
#include "api/request.h"
#include "base/err.h"
#include "base/json.h"
#include "engine/engine.h"

static void reply_pairs(struct request *request, const char *const pairs[][2], size_t count)
{
    struct buf body = {0};
    struct json_out json = {.buf = &body};
    json_begin_object(&json);
    for (size_t i = 0; i < count; i++)
        json_key(&json, pairs[i][0]), json_put_cstr(&json, pairs[i][1]);
    json_end_object(&json);
    buf_put_char(&body, '\n');
    reply_json(request, 200, &body);
}

static void healthz(struct request *request, void *ctx)
{
    const struct meta *meta = ctx;
    const char *const pairs[][2] = {{"status", meta->is_draining ? "draining" : "ok"}};
    reply_pairs(request, pairs, countof(pairs));
}

/* While the server stops this is answered with 503 before it comes here. */
static void readyz(struct request *request, void *ctx)
{
    const struct meta *meta = ctx;
    struct err err;
    AUTO_BUF struct buf why = {0};
    const struct engine_dependencies *built = engine_dependencies(meta->engine);
    const char *const pairs[][2] = {{"status", "ready"},
                                    {"snapshot", built->slug},
                                    {"snapshotState", built->state},
                                    {"snapshotDetail", built->detail}};
    if (engine_is_ready(meta->engine, &why)) {
        reply_pairs(request, pairs, built->slug[0] == '\0' ? 1 : countof(pairs));
        return;
    }
    (void)err_set(&err, ERR_UNAVAILABLE, "not ready: %.200s", buf_cstr(&why));
    reply_error(request, &err);
}

static void version(struct request *request, UNUSED void *ctx)
{
    const char *const pairs[][2] = {{"name", "sandglass"}, {"version", SG_VERSION}};
    reply_pairs(request, pairs, countof(pairs));
}

static void put_sandboxes(const struct engine_figures *figures, struct buf *out)
{
    metrics_head(out, "sandglass_sandboxes", "Sandboxes by tier and state.", "gauge");
    for (enum engine_tier tier = ENGINE_TIER_JAIL; tier < ENGINE_TIER_COUNT; tier++)
        for (enum sandbox_state state = 0; state < SANDBOX_STATE_COUNT; state++)
            buf_printf(out, "sandglass_sandboxes{tier=\"%s\",state=\"%s\"} %zu\n",
                       engine_tier_name(tier), sandbox_state_name(state),
                       figures->sandboxes[tier][state]);
}

static void put_timeouts(const struct engine_figures *figures, struct buf *out)
{
    metrics_head(out, "sandglass_timeouts_total", "Time limits that were reached.", "counter");
    buf_printf(out,
               "sandglass_timeouts_total{kind=\"sandbox\"} %llu\n"
               "sandglass_timeouts_total{kind=\"idle\"} %llu\n"
               "sandglass_timeouts_total{kind=\"command\"} %llu\n",
               (unsigned long long)figures->timeouts_absolute,
               (unsigned long long)figures->timeouts_idle,
               (unsigned long long)figures->timeouts_command);
}

static void put_pools(const struct engine_figures *figures, struct buf *out)
{
    static const enum engine_tier tiers[] = {ENGINE_TIER_JAIL, ENGINE_TIER_ISOLATE};
    metrics_head(out, "sandglass_pool", "Jails and workers that wait for whoever comes next.",
                 "gauge");
    for (size_t i = 0; i < countof(tiers); i++) {
        const struct pool_figures *pool = &figures->pools[tiers[i]];
        const char *tier = engine_tier_name(tiers[i]);
        buf_printf(out,
                   "sandglass_pool{tier=\"%s\",state=\"ready\"} %zu\n"
                   "sandglass_pool{tier=\"%s\",state=\"building\"} %zu\n"
                   "sandglass_pool{tier=\"%s\",state=\"wanted\"} %zu\n",
                   tier, pool->ready, tier, pool->building, tier, pool->wanted);
    }
    metrics_head(out, "sandglass_pool_taken_total",
                 "Handed out: ready, or built while somebody waited.", "counter");
    for (size_t i = 0; i < countof(tiers); i++) {
        const struct pool_figures *pool = &figures->pools[tiers[i]];
        const char *tier = engine_tier_name(tiers[i]);
        buf_printf(out,
                   "sandglass_pool_taken_total{tier=\"%s\",how=\"ready\"} %llu\n"
                   "sandglass_pool_taken_total{tier=\"%s\",how=\"built\"} %llu\n",
                   tier, (unsigned long long)pool->served, tier, (unsigned long long)pool->built);
    }
}

static void put_retries(const struct engine_figures *figures, struct buf *out)
{
    metrics_head(out, "sandglass_retries_total", "What was done once more.", "counter");
    buf_printf(out,
               "sandglass_retries_total{kind=\"store\"} %llu\n"
               "sandglass_retries_total{kind=\"run\"} %llu\n",
               (unsigned long long)figures->retries_store,
               (unsigned long long)figures->retries_run);
}

static void put_store(const struct engine_figures *figures, struct buf *out)
{
    metrics_head(out, "sandglass_store_commit_seconds", "Transactions of the store.", "summary");
    buf_printf(
        out, "sandglass_store_commit_seconds_sum %.9g\nsandglass_store_commit_seconds_count %llu\n",
        figures->store.commit_s, (unsigned long long)figures->store.transactions);
    metrics_put(out, "sandglass_store_slowest_commit_seconds", "Since the start.", "gauge",
                figures->store.slowest_commit_s);
    metrics_put(out, "sandglass_store_waiting", "Batches that wait to be written.", "gauge",
                (double)figures->store.waiting);
    metrics_put(out, "sandglass_store_batches_total", "Batches written.", "counter",
                (double)figures->store.batches);
    metrics_put(out, "sandglass_store_failures_total", "Batches that failed.", "counter",
                (double)figures->store.failures);
}

static void put_engine(const struct engine *engine, struct buf *out)
{
    struct engine_figures figures = engine_figures(engine);
    put_sandboxes(&figures, out);
    put_pools(&figures, out);
    put_timeouts(&figures, out);
    put_retries(&figures, out);
    put_store(&figures, out);
    metrics_put(out, "sandglass_sessions", "Sessions.", "gauge", (double)figures.sessions);
    metrics_put(out, "sandglass_volumes", "Volumes.", "gauge", (double)figures.volumes);
    metrics_put(out, "sandglass_snapshots", "Snapshots.", "gauge", (double)figures.snapshots);
    metrics_put(out, "sandglass_commands_running", "Commands that run.", "gauge",
                (double)figures.commands_running);
    metrics_put(out, "sandglass_engine_waiting", "Verbs whose answers are due.", "gauge",
                (double)figures.waiting);
    metrics_put(out, "sandglass_maker_restarts_total",
                "Processes that make sandboxes and had to be replaced.", "counter",
                (double)figures.makers_lost);
}

static void metrics(struct request *request, void *ctx)
{
    const struct meta *meta = ctx;
    struct http_counts counts = http_counts(meta->http);
    struct buf body = {0};
    metrics_write(meta->metrics, &body);
    put_engine(meta->engine, &body);
    metrics_put(&body, "sandglass_http_connections", "Open connections.", "gauge",
                (double)counts.connections);
    metrics_put(&body, "sandglass_http_running_requests", "Requests in work.", "gauge",
                (double)counts.running);
    metrics_put(&body, "sandglass_http_connections_total", "Connections accepted.", "counter",
                (double)counts.accepted);
    metrics_put(&body, "sandglass_http_refused_total", "Requests refused as malformed or too slow.",
                "counter", (double)counts.refused);
    reply_body(request, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

static void openapi(struct request *request, void *ctx)
{
    const struct meta *meta = ctx;
    struct buf body = {0};
    openapi_put(meta->routes, &body);
    reply_json(request, 200, &body);
}

const struct route meta_routes[] = {
    {"GET", "/healthz", healthz, "Is the server alive?", SCOPE_OPEN, "server",
     .response = "{\"type\":\"object\",\"required\":[\"status\"],\"properties\":{\"status\":{"
                 "\"type\":\"string\",\"enum\":[\"ok\",\"draining\"]}}}",
     .example = ""},
    {"GET", "/readyz", readyz, "Does the server take work?", SCOPE_READ, "server",
     .response = "{\"type\":\"object\",\"required\":[\"status\"],\"properties\":{\"status\":{"
                 "\"type\":\"string\"}}}",
     .example = ""},
    {"GET", "/version", version, "Which version is it?", SCOPE_READ, "server",
     .response = "{\"type\":\"object\",\"required\":[\"name\",\"version\"],\"properties\":{"
                 "\"name\":{\"type\":\"string\"},\"version\":{\"type\":\"string\"}}}",
     .example = ""},
    {"GET", "/metrics", metrics, "Figures in Prometheus' text form", SCOPE_READ, "server",
     .gives = FORM_TEXT, .example = ""},
    {"GET", "/openapi.json", openapi, "This API as an OpenAPI 3.1 document", SCOPE_READ, "server",
     .response = "{\"type\":\"object\"}", .example = ""},
    {0},
};
