#include "api/v1/v1.h"

#include "api/http/events.h"
#include "api/http/metrics.h"
#include "base/clock.h"
#include "base/format/base64.h"

const struct route_query v1_page_query[] = {
    {"limit", JSON({"type" : "integer", "minimum" : 1, "maximum" : 1000}),
     "Maximum number of items (default 100)"},
    {"after", JSON({"type" : "string", "maxLength" : 64}), "`next` of the previous page"},
    {0},
};

struct engine_page v1_page(struct request *request)
{
    struct engine_page page = {.limit = (size_t)request_query_int(request, "limit", 0)};
    (void)request_query(request, "after", &page.after);
    return page;
}

/* ---- reading ------------------------------------------------------------------------------- */

struct str v1_str(const struct json_t *object, const char *name)
{
    struct str text = {0};
    if (object != NULL)
        (void)!json_to_str(json_get(object, name), &text);
    return text;
}

int64_t v1_int(const struct json_t *object, const char *name, int64_t fallback)
{
    int64_t n;
    return object != NULL && json_to_i64(json_get(object, name), &n) ? n : fallback;
}

int64_t v1_time(const struct json_t *object, const char *name)
{
    int64_t ms = v1_int(object, name, 0);
    bool is_given = object != NULL && json_get(object, name) != NULL;
    return is_given && ms <= 0 ? -1 : ms;
}

bool v1_bool(const struct json_t *object, const char *name, bool fallback)
{
    bool flag;
    return object != NULL && json_to_bool(json_get(object, name), &flag) ? flag : fallback;
}

struct engine_pairs v1_pairs(struct request *request, const struct json_t *object, const char *name)
{
    struct json_t *map = object == NULL ? NULL : json_get(object, name), *value;
    struct engine_pairs pairs = {0};
    if (map == NULL || json_len(map) == 0)
        return pairs;
    struct engine_pair *items = arena_array(&request->arena, struct engine_pair, json_len(map));
    void *iter = NULL;
    while (json_next(map, &iter, &items[pairs.len].name, &value)) {
        (void)!json_to_str(value, &items[pairs.len].value);
        if (++pairs.len == json_len(map))
            break;
    }
    pairs.items = items;
    return pairs;
}

const struct str *v1_list(struct request *request, const struct json_t *object, const char *name,
                          size_t *ret_count)
{
    const struct json_t *array = object == NULL ? NULL : json_get(object, name);
    *ret_count = array == NULL ? 0 : json_len(array);
    if (*ret_count == 0)
        return NULL;
    struct str *items = arena_array(&request->arena, struct str, *ret_count);
    for (size_t i = 0; i < *ret_count; i++)
        (void)!json_to_str(json_at(array, i), &items[i]);
    return items;
}

struct sandbox_secrets v1_secrets(struct request *request, const struct json_t *object)
{
    const struct json_t *array = object == NULL ? NULL : json_get(object, "secrets");
    size_t count = array == NULL ? 0 : json_len(array);
    struct sandbox_secret *items = arena_array(&request->arena, struct sandbox_secret, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct json_t *item = json_at(array, i);
        items[i] = (struct sandbox_secret){.name = v1_str(item, "name"),
                                           .config = v1_str(item, "config"),
                                           .value = v1_str(item, "value")};
        items[i].hosts = v1_list(request, item, "hosts", &items[i].host_count);
        items[i].headers = v1_list(request, item, "headers", &items[i].header_count);
    }
    if (count > 0)
        request->body.wipes = true; /* the values stand in it */
    return (struct sandbox_secrets){items, count};
}

void v1_forget_secrets(const struct sandbox_secrets *secrets)
{
    for (size_t i = 0; i < secrets->len; i++)
        if (secrets->items[i].value.len > 0) /* in the parsed body, which is the request's own */
            explicit_bzero((char *)secrets->items[i].value.ptr, secrets->items[i].value.len);
}

struct sandbox_limits v1_limits(const struct json_t *object)
{
    const struct json_t *limits = object == NULL ? NULL : json_get(object, "limits");
    double cpus = 0;
    if (limits != NULL)
        (void)!json_to_f64(json_get(limits, "cpus"), &cpus);
    return (struct sandbox_limits){
        .memory_bytes = v1_int(limits, "memoryMb", 0) << 20,
        .disk_bytes = v1_int(limits, "diskMb", 0) << 20,
        .cpu_milli = (int64_t)(cpus * 1000),
        .pids = v1_int(limits, "pids", 0),
        .exec_ms = v1_time(limits, "execMs"),
        .net_connections = v1_int(limits, "netConnections", 0),
        .net_bytes_per_second = v1_int(limits, "netBytesPerSecond", 0),
        .net_bytes_total = v1_int(limits, "netBytesTotal", 0),
        .net_idle_ms = v1_int(limits, "netIdleMs", 0),
        .net_total_ms = v1_int(limits, "netTotalMs", 0),
        .net_head_bytes = v1_int(limits, "netHeadBytes", 0),
        .net_answer_bytes = v1_int(limits, "netAnswerBytes", 0),
    };
}

int v1_sandbox_spec(struct request *request, const struct json_t *object,
                    struct sandbox_spec *ret_spec, struct err *err)
{
    struct str tier = v1_str(object, "tier");
    struct sandbox_spec spec = {
        .runtime = v1_str(object, "runtime"),
        .name = v1_str(object, "name"),
        .volume = v1_str(object, "volume"),
        .env = v1_pairs(request, object, "env"),
        .metadata = v1_pairs(request, object, "metadata"),
        .limits = v1_limits(object),
        .network = v1_str(object, "network"),
        .secrets = v1_secrets(request, object),
        .timeout_ms = v1_time(object, "timeoutMs"),
        .idle_ms = v1_time(object, "idleMs"),
        .on_timeout = str_eq(v1_str(object, "onTimeout"), STR("kill")) ? SANDBOX_KILL_AT_TIMEOUT
                                                                       : SANDBOX_PAUSE_AT_TIMEOUT,
        .checkpoints = str_eq(v1_str(object, "checkpoints"), STR("turn")) ? SANDBOX_CHECKPOINTS_TURN
                       : str_eq(v1_str(object, "checkpoints"), STR("manual"))
                           ? SANDBOX_CHECKPOINTS_MANUAL
                           : SANDBOX_CHECKPOINTS_DEFAULT,
    };
    spec.snapshots = v1_list(request, object, "snapshots", &spec.snapshot_count);
    spec.requirements = v1_list(request, object, "requirements", &spec.requirement_count);
    if (tier.len > 0 && !engine_tier_of_name(tier, &spec.tier))
        return err_set(err, ERR_INVALID, "unknown tier '%.*s'", STR_ARG(tier));
    *ret_spec = spec;
    return 0;
}

struct str v1_sandbox_of(struct api *api, struct request *request)
{
    struct err err;
    struct session_info session;
    struct command_info command;
    struct engine_caller caller = request_caller(request);
    const struct route *route = request->match.route;
    if (route == NULL || request->caller.scopes == 0)
        return (struct str){0};
    struct str pattern = str_of(route->pattern), id = request_param(request, "id");
    if (str_starts(pattern, STR("/v1/commands/{id}")))
        return engine_command_peek(api->engine, &caller, id, &command)
                   ? arena_dup(&request->arena, command.sandbox)
                   : (struct str){0}; /* the store will say: reply_command */
    struct str named = request_str(request, "sandbox");
    if (named.len > 0)
        return named;
    if (!str_starts(pattern, STR("/v1/sessions/{id}")))
        id = request_str(request, "session");
    if (id.len == 0 || engine_session_get(api->engine, &caller, id, &session, &err) < 0)
        return (struct str){0};
    return arena_dup(&request->arena, session.sandbox);
}

bool v1_find_named(struct api *api, struct request *request)
{
    static const char *const nouns[] = {"/v1/sessions/{id}", "/v1/volumes/{id}",
                                        "/v1/snapshots/{id}", "/v1/tokens/{id}",
                                        "/v1/approvals/{id}"};
    struct str pattern = str_of(request->match.route->pattern);
    struct engine_caller caller = request_caller(request);
    struct sandbox_info sandbox;
    struct err err;
    for (size_t i = 0; i < countof(nouns); i++)
        if (str_starts(pattern, str_of(nouns[i])))
            request_param_decode(request, "id");
    if (!str_starts(pattern, STR("/v1/sandboxes/{id}")))
        return true;
    request_param_decode(request, "id");
    if (engine_sandbox_get(api->engine, &caller, request_param(request, "id"), &sandbox, &err) == 0)
        request_param_set(request, "id", arena_dup(&request->arena, sandbox.id));
    else if (err.code == ERR_CONFLICT) {
        reply_error(request, &err);
        return false;
    }
    return true; /* what is not there, the handler says in its own way */
}

/* ---- writing ------------------------------------------------------------------------------- */

void v1_put_str(struct json_out *out, const char *key, struct str text)
{
    json_key(out, key);
    if (text.len == 0)
        json_put_null(out);
    else
        json_put_str(out, text);
}

void v1_put_json(struct json_out *out, struct str text, const char *fallback)
{
    AUTO_JSON struct json_t *value = NULL;
    struct err err;
    if (json_parse(text.len > 0 ? text : str_of(fallback), &value, &err) == 0)
        json_put_value(out, value);
    else
        json_put_null(out);
}

void v1_put_date(struct json_out *out, const char *key, int64_t date_ms)
{
    char text[CLOCK_TEXT_SIZE];
    json_key(out, key);
    if (date_ms == 0) {
        json_put_null(out);
        return;
    }
    clock_format_utc(date_ms, text);
    json_put_cstr(out, text);
}

void v1_put_state(struct json_out *out, const struct sandbox_info *sandbox)
{
    json_key(out, "sandbox"), json_put_str(out, sandbox->id);
    json_key(out, "state"), json_put_cstr(out, sandbox_state_name(sandbox->state));
    v1_put_str(out, "reason", sandbox->reason);
}

void v1_put_state_event(struct events *events, const struct sandbox_info *sandbox)
{
    AUTO_BUF struct buf data = {0};
    struct json_out out = {.buf = &data};
    json_begin_object(&out);
    v1_put_state(&out, sandbox);
    json_end_object(&out);
    events_put(events, "state", (struct str){0}, buf_str(&data));
}

void v1_put_pairs(struct json_out *out, const char *key, struct engine_pairs pairs)
{
    json_key(out, key);
    json_begin_object(out);
    for (size_t i = 0; i < pairs.len; i++)
        json_key_str(out, pairs.items[i].name), json_put_str(out, pairs.items[i].value);
    json_end_object(out);
}

static void put_limits(struct json_out *out, const struct sandbox_info *sandbox)
{
    const struct sandbox_limits *limits = &sandbox->limits;
    json_key(out, "limits");
    json_begin_object(out);
    json_key(out, "memoryMb"), json_put_i64(out, limits->memory_bytes >> 20);
    json_key(out, "diskMb"), json_put_i64(out, limits->disk_bytes >> 20);
    json_key(out, "cpus"), json_put_f64(out, (double)limits->cpu_milli / 1000);
    json_key(out, "pids"), json_put_i64(out, limits->pids);
    json_key(out, "execMs"), json_put_i64(out, sandbox->cell_ms);
    json_key(out, "commandMs"), json_put_i64(out, sandbox->command_ms);
    json_key(out, "netConnections"), json_put_i64(out, limits->net_connections);
    json_key(out, "netBytesPerSecond"), json_put_i64(out, limits->net_bytes_per_second);
    json_key(out, "netBytesTotal"), json_put_i64(out, limits->net_bytes_total);
    json_key(out, "netIdleMs"), json_put_i64(out, limits->net_idle_ms);
    json_key(out, "netTotalMs"), json_put_i64(out, limits->net_total_ms);
    json_key(out, "netHeadBytes"), json_put_i64(out, limits->net_head_bytes);
    json_key(out, "netAnswerBytes"), json_put_i64(out, limits->net_answer_bytes);
    json_end_object(out);
}

/* Names and bindings; a value, sealed or not, is in no answer. */
static void put_secrets(struct json_out *out, const struct sandbox_secrets *secrets)
{
    json_key(out, "secrets");
    json_begin_array(out);
    for (size_t i = 0; i < secrets->len; i++) {
        const struct sandbox_secret *secret = &secrets->items[i];
        json_begin_object(out);
        json_key(out, "name"), json_put_str(out, secret->name);
        v1_put_str(out, "config", secret->config);
        json_key(out, "hosts"), json_put_texts(out, secret->hosts, secret->host_count);
        json_key(out, "headers"), json_put_texts(out, secret->headers, secret->header_count);
        json_end_object(out);
    }
    json_end_array(out);
}

void v1_put_checkpoint(struct json_out *out, const void *thing)
{
    const struct sandbox_checkpoint *checkpoint = thing;
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, checkpoint->id);
    v1_put_str(out, "name", checkpoint->name);
    v1_put_date(out, "createdAt", checkpoint->created_ms);
    json_key(out, "automatic"), json_put_bool(out, false);
    v1_put_str(out, "skipped", checkpoint->skipped);
    json_end_object(out);
}

static void put_checkpoints(struct json_out *out, const struct sandbox_info *sandbox)
{
    json_key(out, "checkpoints");
    json_begin_array(out);
    for (size_t i = 0; i < sandbox->checkpoint_count; i++)
        v1_put_checkpoint(out, &sandbox->checkpoints[i]);
    json_end_array(out);
}

static void put_life(struct json_out *out, const struct sandbox_info *sandbox)
{
    bool kills = sandbox->on_timeout == SANDBOX_KILL_AT_TIMEOUT;
    json_key(out, "timeoutMs"), json_put_i64(out, sandbox->timeout_ms);
    json_key(out, "idleMs"), json_put_i64(out, sandbox->idle_ms);
    json_key(out, "onTimeout"), json_put_cstr(out, kills ? "kill" : "pause");
    v1_put_date(out, "createdAt", sandbox->created_ms);
    v1_put_date(out, "startedAt", sandbox->started_ms);
    v1_put_date(out, "activeAt", sandbox->active_ms);
    v1_put_date(out, "endedAt", sandbox->ended_ms);
    v1_put_date(out, "expiresAt", sandbox->expires_ms);
}

/* Of a fork: which interpreters have their variables, and why others have not. */
static void put_contexts(struct json_out *out, const struct sandbox_info *sandbox)
{
    json_key(out, "contexts");
    json_begin_array(out);
    for (size_t i = 0; i < sandbox->context_count; i++) {
        const struct sandbox_context *context = &sandbox->contexts[i];
        json_begin_object(out);
        json_key(out, "id"), json_put_str(out, context->id);
        json_key(out, "live"), json_put_bool(out, context->is_live);
        v1_put_str(out, "reason", context->reason);
        json_end_object(out);
    }
    json_end_array(out);
}

void v1_put_sandbox(struct json_out *out, const void *thing)
{
    const struct sandbox_info *sandbox = thing;
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, sandbox->id);
    v1_put_str(out, "name", sandbox->name);
    json_key(out, "tier"), json_put_cstr(out, engine_tier_name(sandbox->tier));
    json_key(out, "runtime"), json_put_str(out, sandbox->runtime);
    json_key(out, "state"), json_put_cstr(out, sandbox_state_name(sandbox->state));
    v1_put_str(out, "reason", sandbox->reason);
    json_key(out, "region"), json_put_str(out, sandbox->region);
    v1_put_str(out, "session", sandbox->session);
    v1_put_str(out, "volume", sandbox->volume);
    v1_put_str(out, "forkedFrom", sandbox->forked_from);
    v1_put_str(out, "skipped", sandbox->skipped);
    json_key(out, "storage"), json_put_cstr(out, sandbox->is_on_disk ? "disk" : "memory");
    json_key(out, "snapshots"), json_put_texts(out, sandbox->snapshots, sandbox->snapshot_count);
    v1_put_pairs(out, "metadata", sandbox->metadata);
    json_key(out, "checkpointMode"), json_put_cstr(out, sandbox->has_turns ? "turn" : "manual");
    put_limits(out, sandbox);
    json_key(out, "network");
    if (sandbox->network.len == 0)
        json_put_cstr(out, "none");
    else
        json_put_str(out, sandbox->network);
    put_secrets(out, &sandbox->secrets);
    put_life(out, sandbox);
    put_checkpoints(out, sandbox);
    if (sandbox->context_count > 0)
        put_contexts(out, sandbox);
    json_key(out, "version"), json_put_i64(out, (int64_t)sandbox->version);
    json_end_object(out);
}

void v1_put_bytes(struct json_out *out, struct str bytes)
{
    if (str_is_utf8(bytes) && str_find_char(bytes, '\0') == bytes.len) {
        json_key(out, "text"), json_put_str(out, bytes);
        return;
    }
    AUTO_BUF struct buf packed = {0};
    base64_put(bytes, &packed);
    json_key(out, "base64"), json_put_str(out, buf_str(&packed));
}

struct json_out *v1_begin(struct v1_answer *answer)
{
    *answer = (struct v1_answer){0};
    answer->json.buf = &answer->buf;
    return &answer->json;
}

void v1_reply(struct request *request, int status, struct v1_answer *answer)
{
    buf_put_char(&answer->buf, '\n');
    reply_json(request, status, &answer->buf);
}

static int status_of(const struct request *request)
{
    int status = request->match.route->status;
    return status == 0 ? 200 : status;
}

void v1_reply_one(struct request *request, v1_put *put, const void *thing, const struct err *why)
{
    struct v1_answer answer;
    if (why != NULL) {
        reply_error(request, why);
        return;
    }
    put(v1_begin(&answer), thing);
    v1_reply(request, status_of(request), &answer);
}

void v1_reply_rows(struct request *request, const char *name, const struct v1_rows *rows)
{
    struct v1_answer answer;
    struct json_out *out = v1_begin(&answer);
    json_begin_object(out);
    json_key(out, name);
    json_begin_array(out);
    for (size_t i = 0; i < rows->count; i++)
        rows->put(out, (const char *)rows->items + i * rows->size);
    json_end_array(out);
    if (rows->next != NULL)
        v1_put_str(out, "next", str_of(rows->next));
    json_end_object(out);
    v1_reply(request, status_of(request), &answer);
}

void v1_observe(struct request *request, int family, const char *tier, const char *kind,
                const struct err *why)
{
    struct api *api = request->rules->ctx;
    double seconds = (double)(clock_now_ns() - request->start_ns) / 1e9;
    metrics_observe(api->meta.metrics, (enum metrics_family)family, tier, kind,
                    why == NULL ? "ok" : err_wire_name(why->code), seconds);
}

void v1_done(void *ctx, const struct err *why)
{
    struct request *request = ctx;
    if (why != NULL)
        reply_error(request, why);
    else
        reply_empty(request, 204);
}

void v1_sandbox_done(void *ctx, const struct sandbox_info *sandbox, const struct err *why)
{
    struct request *request = ctx;
    if (why == NULL)
        request_concerns(request, sandbox->id);
    v1_reply_one(request, v1_put_sandbox, sandbox, why);
}
