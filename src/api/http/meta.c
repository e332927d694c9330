#include "api/http/meta.h"

#include "api/http/http.h"
#include "api/http/metrics.h"
#include "api/http/request.h"
#include "api/route/openapi.h"
#include "base/err.h"
#include "base/format/json.h"
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

static void put_warning(void *ctx, struct str text)
{
    json_put_str(ctx, text);
}

static void put_docs(struct json_out *json, const struct engine *engine)
{
    struct engine_docs docs;
    engine_docs_status(engine, &docs);
    json_key(json, "docs");
    json_begin_object(json);
    json_key(json, "state"), json_put_cstr(json, docs.state);
    json_key(json, "detail"), json_put_cstr(json, docs.detail);
    json_key(json, "sources"), json_put_i64(json, (int64_t)docs.sources);
    json_key(json, "waiting"), json_put_i64(json, (int64_t)docs.waiting);
    json_key(json, "failed"), json_put_i64(json, (int64_t)docs.failed);
    json_key(json, "chunks"), json_put_i64(json, (int64_t)docs.chunks);
    json_key(json, "vectors"), json_put_i64(json, (int64_t)docs.vectors);
    json_key(json, "model"), json_put_cstr(json, docs.model[0] == '\0' ? NULL : docs.model);
    json_end_object(json);
}

/* While the server stops this is answered with 503 before it comes here. */
static void readyz(struct request *request, void *ctx)
{
    const struct meta *meta = ctx;
    struct err err;
    AUTO_BUF struct buf why = {0};
    const struct engine_dependencies *built = engine_dependencies(meta->engine);
    if (engine_is_ready(meta->engine, &why)) {
        struct buf body = {0};
        struct json_out json = {.buf = &body};
        json_begin_object(&json);
        json_key(&json, "status"), json_put_cstr(&json, "ready");
        if (built->slug[0] != '\0') {
            json_key(&json, "snapshot"), json_put_cstr(&json, built->slug);
            json_key(&json, "snapshotState"), json_put_cstr(&json, built->state);
            json_key(&json, "snapshotDetail"), json_put_cstr(&json, built->detail);
        }
        put_docs(&json, meta->engine);
        json_key(&json, "warnings");
        json_begin_array(&json);
        engine_each_warning(meta->engine, put_warning, &json);
        json_end_array(&json);
        json_end_object(&json);
        buf_put_char(&body, '\n');
        reply_json(request, 200, &body);
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
    metrics_head(out, "sandglass_timeouts_total", "Time limits reached.", "counter");
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
    metrics_head(out, "sandglass_pool", "Jails and workers that are ready for the next request.",
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
                 "Jails and workers used: ready ones, or built while a request waited.", "counter");
    for (size_t i = 0; i < countof(tiers); i++) {
        const struct pool_figures *pool = &figures->pools[tiers[i]];
        const char *tier = engine_tier_name(tiers[i]);
        buf_printf(out,
                   "sandglass_pool_taken_total{tier=\"%s\",how=\"ready\"} %llu\n"
                   "sandglass_pool_taken_total{tier=\"%s\",how=\"built\"} %llu\n",
                   tier, (unsigned long long)pool->served, tier, (unsigned long long)pool->built);
    }
}

/* Of all together: a line for each would have no bound. GET /v1/sandboxes/{id}/usage has one's. */
static void put_use(const struct engine_figures *figures, struct buf *out)
{
    const struct pool_figures *jails = &figures->pools[ENGINE_TIER_JAIL];
    if (jails->memory_bytes > 0)
        metrics_put(out, "sandglass_jails_memory_bytes",
                    "Memory used by jails, including those in the pool.", "gauge",
                    (double)jails->memory_bytes);
    if (jails->cpu_us > 0)
        metrics_put(out, "sandglass_jails_cpu_seconds_total", "Processor time of all jails.",
                    "counter", (double)jails->cpu_us / 1e6);
    if (jails->disk_bytes >= 0)
        metrics_put(out, "sandglass_sandboxes_disk_bytes",
                    "Disk space used by the files of sandboxes that have a jail.", "gauge",
                    (double)jails->disk_bytes);
    metrics_put(out, "sandglass_network_bytes_total",
                "Network bytes of sandboxes, both directions.", "counter",
                (double)figures->net_bytes);
    metrics_put(out, "sandglass_sandboxes_memory_limit_bytes",
                "Sum of the memory limits of running sandboxes.", "gauge",
                (double)figures->memory_limit_bytes);
    metrics_put(out, "sandglass_sandboxes_disk_limit_bytes",
                "Sum of the disk limits of running sandboxes.", "gauge",
                (double)figures->disk_limit_bytes);
}

static void put_variables(const struct engine_figures *figures, struct buf *out)
{
    metrics_put(out, "sandglass_variables_kept",
                "Dormant sessions and checkpoints whose interpreters' memory is kept.", "gauge",
                (double)figures->variables.count);
    metrics_put(out, "sandglass_variables_kept_bytes", "That memory.", "gauge",
                (double)figures->variables.bytes);
    metrics_put(out, "sandglass_variables_dropped_total", "Dropped for lack of memory.", "counter",
                (double)figures->variables.dropped);
}

static void put_retries(const struct engine_figures *figures, struct buf *out)
{
    metrics_head(out, "sandglass_retries_total", "Retries.", "counter");
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
    metrics_put(out, "sandglass_store_waiting", "Batches waiting to be written.", "gauge",
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
    put_use(&figures, out);
    put_variables(&figures, out);
    put_store(&figures, out);
    metrics_put(out, "sandglass_sessions", "Sessions.", "gauge", (double)figures.sessions);
    metrics_put(out, "sandglass_volumes", "Volumes.", "gauge", (double)figures.volumes);
    metrics_put(out, "sandglass_snapshots", "Snapshots.", "gauge", (double)figures.snapshots);
    metrics_put(out, "sandglass_commands_running", "Running commands.", "gauge",
                (double)figures.commands_running);
    metrics_put(out, "sandglass_engine_waiting", "Operations in progress.", "gauge",
                (double)figures.waiting);
    metrics_put(out, "sandglass_builder_restarts_total",
                "Restarts of the processes that create sandboxes.", "counter",
                (double)figures.processes_lost);
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
    metrics_put(&body, "sandglass_http_running_requests", "Requests in progress.", "gauge",
                (double)counts.running);
    metrics_put(&body, "sandglass_http_connections_total", "Connections accepted.", "counter",
                (double)counts.accepted);
    metrics_put(&body, "sandglass_http_refused_total",
                "Requests rejected as malformed or too slow.", "counter", (double)counts.refused);
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
    {"GET", "/healthz", healthz, "Check that the server is alive", SCOPE_OPEN, "server",
     .response = "{\"type\":\"object\",\"required\":[\"status\"],\"properties\":{\"status\":{"
                 "\"type\":\"string\",\"enum\":[\"ok\",\"draining\"]}}}",
     .example = ""},
    {"GET", "/readyz", readyz, "Check that the server accepts work", SCOPE_READ, "server",
     .details = "snapshot, snapshotState and snapshotDetail report the installation of "
                "[[sandbox.dependencies]]; warnings list what the operator should correct, such as "
                "a key whose environment variable is not set, or a package that could not be "
                "installed, with the reason; docs shows what is indexed for search.",
     .response = JSON({
         "type" : "object",
         "required" : [ "status", "warnings" ],
         "properties" : {
             "status" : {"type" : "string"},
             "snapshot" : {"type" : "string"},
             "snapshotState" : {"type" : "string", "enum" : [ "building", "ready", "failed" ]},
             "snapshotDetail" : {"type" : "string"},
             "docs" : {
                 "type" : "object",
                 "required" : [
                     "state", "detail", "sources", "waiting", "failed", "chunks", "vectors", "model"
                 ],
                 "properties" : {
                     "state" : {
                         "type" : "string",
                         "enum" : [ "starting", "indexing", "ready", "failed" ]
                     },
                     "detail" : {"type" : "string"},
                     "sources" : {"type" : "integer"},
                     "waiting" : {"type" : "integer"},
                     "failed" : {"type" : "integer"},
                     "chunks" : {"type" : "integer"},
                     "vectors" : {"type" : "integer"},
                     "model" : {"type" : [ "string", "null" ]}
                 }
             },
             "warnings" : {"type" : "array", "items" : {"type" : "string"}}
         }
     }),
     .example = ""},
    {"GET", "/version", version, "Show the version", SCOPE_READ, "server",
     .response = "{\"type\":\"object\",\"required\":[\"name\",\"version\"],\"properties\":{"
                 "\"name\":{\"type\":\"string\"},\"version\":{\"type\":\"string\"}}}",
     .example = ""},
    {"GET", "/metrics", metrics, "Metrics in Prometheus text format", SCOPE_READ, "server",
     .gives = FORM_TEXT, .example = ""},
    {"GET", "/openapi.json", openapi, "This API as an OpenAPI 3.1 document", SCOPE_READ, "server",
     .response = JSON({
         "type" : "object",
         "required" : [ "openapi", "info", "paths", "components" ],
         "additionalProperties" : true
     }),
     .example = ""},
    {0},
};
