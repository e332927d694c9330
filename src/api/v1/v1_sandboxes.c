/* /v1/sandboxes: places with a life. */

#include "api/http/metrics.h"
#include "api/v1/v1.h"

static void on_created(void *ctx, const struct sandbox_info *sandbox, const struct err *why)
{
    v1_observe(ctx, METRICS_CREATE, why == NULL ? engine_tier_name(sandbox->tier) : "none", "",
               why);
    v1_sandbox_done(ctx, sandbox, why);
}

static void v1_sandboxes_create(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct sandbox_spec spec;
    struct engine_caller caller = request_caller(request);
    if (v1_sandbox_spec(request, request->json, &spec, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    request_hold(request);
    engine_sandbox_create(api->engine, &caller, &spec, on_created, request);
    v1_forget_secrets(&spec.secrets);
}

static void v1_sandboxes_get(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct sandbox_info sandbox;
    struct engine_caller caller = request_caller(request);
    int got =
        engine_sandbox_get(api->engine, &caller, request_param(request, "id"), &sandbox, &err);
    v1_sandbox_done(request, &sandbox, got < 0 ? &err : NULL);
}

static void put_amount(struct json_out *out, const char *key, int64_t amount)
{
    json_key(out, key);
    if (amount >= 0)
        json_put_i64(out, amount);
    else
        json_put_null(out);
}

static void put_usage(struct json_out *out, struct str id, const struct sandbox_usage *usage)
{
    const struct sandbox_limits *limits = &usage->limits;
    json_begin_object(out);
    json_key(out, "sandbox"), json_put_str(out, id);
    json_key(out, "cpu"), json_begin_object(out);
    put_amount(out, "usedMs", usage->cpu_us < 0 ? -1 : usage->cpu_us / 1000);
    json_key(out, "cpus");
    if (usage->cpus >= 0)
        json_put_f64(out, usage->cpus);
    else
        json_put_null(out);
    json_key(out, "limitCpus"), json_put_f64(out, (double)limits->cpu_milli / 1000);
    json_end_object(out);
    json_key(out, "memory"), json_begin_object(out);
    put_amount(out, "bytes", usage->memory_bytes);
    put_amount(out, "peakBytes", usage->memory_peak);
    put_amount(out, "limitBytes", limits->memory_bytes);
    json_end_object(out);
    json_key(out, "disk"), json_begin_object(out);
    put_amount(out, "bytes", usage->disk_bytes);
    put_amount(out, "limitBytes", limits->disk_bytes);
    json_end_object(out);
    json_key(out, "network"), json_begin_object(out);
    put_amount(out, "bytes", usage->net_bytes);
    json_end_object(out);
    json_key(out, "processes"), json_begin_object(out);
    put_amount(out, "count", usage->tasks);
    put_amount(out, "limit", limits->pids);
    json_end_object(out);
    json_end_object(out);
}

static void on_usage(void *ctx, const struct sandbox_usage *usage, const struct err *why)
{
    struct request *request = ctx;
    struct v1_answer answer;
    if (why != NULL) {
        reply_error(request, why);
        return;
    }
    put_usage(v1_begin(&answer), request_param(request, "id"), usage);
    v1_reply(request, 200, &answer);
}

static void get_usage(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_sandbox_usage(api->engine, &caller, request_param(request, "id"), on_usage, request);
}

/* "running,paused" */
static int refuse_state(struct str name, struct err *err)
{
    AUTO_BUF struct buf known = {0};
    for (enum sandbox_state state = 0; state < SANDBOX_STATE_COUNT; state++)
        buf_printf(&known, "%s%s", state > 0 ? ", " : "", sandbox_state_name(state));
    return err_set(err, ERR_INVALID, "state: unknown state '%.*s'; valid states: %s",
                   STR_ARG(str_slice(name, 0, 40)), buf_cstr(&known));
}

static int read_states(struct str text, unsigned *ret_states, struct err *err)
{
    struct str name;
    while (str_split(&text, ',', &name)) {
        enum sandbox_state state;
        if (!sandbox_state_of_name(str_trim(name), &state))
            return refuse_state(name, err);
        *ret_states |= 1U << state;
    }
    return 0;
}

/* "team=red,job=7" */
static struct engine_pairs read_labels(struct request *request, struct str text)
{
    size_t most = 1;
    for (size_t i = 0; i < text.len; i++)
        most += text.ptr[i] == ',';
    struct engine_pair *items = arena_array(&request->arena, struct engine_pair, most);
    struct engine_pairs pairs = {.items = items};
    struct str label;
    while (str_split(&text, ',', &label)) {
        size_t equals = str_find_char(label, '=');
        items[pairs.len].name = str_trim(str_slice(label, 0, equals));
        items[pairs.len++].value = str_trim(str_slice(label, equals + 1, label.len));
    }
    return pairs;
}

static void v1_sandboxes_list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct str text;
    struct sandbox_filter filter = {.page = v1_page(request)};
    struct sandbox_list found;
    struct engine_caller caller = request_caller(request);
    (void)request_query(request, "name", &filter.name);
    if (request_query(request, "metadata", &text))
        filter.metadata = read_labels(request, text);
    bool good =
        !request_query(request, "state", &text) || read_states(text, &filter.states, &err) == 0;
    if (!good ||
        engine_sandbox_list(api->engine, &caller, &filter, &request->arena, &found, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    v1_reply_rows(request, "sandboxes", V1_ROWS(v1_put_sandbox, found));
}

/* Members of `limits` that are not of the network; those are replaced as a whole. */
static size_t count_machine_limits(const struct json_t *limits)
{
    static const char *const names[] = {"memoryMb", "cpus", "diskMb"};
    size_t count = 0;
    for (size_t i = 0; i < countof(names) && limits != NULL; i++)
        count += json_get(limits, names[i]) != NULL;
    return count;
}

static void update(struct request *request, void *ctx)
{
    struct api *api = ctx;
    const struct json_t *body = request->json;
    struct engine_caller caller = request_caller(request);
    int64_t timeout_ms = v1_time(body, "timeoutMs"), idle_ms = v1_time(body, "idleMs");
    enum sandbox_on_timeout at = str_eq(v1_str(body, "onTimeout"), STR("kill"))
                                     ? SANDBOX_KILL_AT_TIMEOUT
                                     : SANDBOX_PAUSE_AT_TIMEOUT;
    struct str name = v1_str(body, "name"), network = v1_str(body, "network");
    struct engine_pairs metadata = v1_pairs(request, body, "metadata");
    struct sandbox_secrets secrets = v1_secrets(request, body);
    struct sandbox_limits limits = v1_limits(body);
    const struct json_t *given = body == NULL ? NULL : json_get(body, "limits");
    size_t of_machine = count_machine_limits(given);
    bool has_network = given != NULL && (of_machine == 0 || json_len(given) > of_machine);
#define GIVEN(member, value) (body != NULL && json_get(body, member) != NULL ? &(value) : NULL)
    struct sandbox_change change = {
        .timeout_ms = GIVEN("timeoutMs", timeout_ms),
        .idle_ms = GIVEN("idleMs", idle_ms),
        .on_timeout = GIVEN("onTimeout", at),
        .name = GIVEN("name", name),
        .metadata = GIVEN("metadata", metadata),
        .network = GIVEN("network", network),
        .secrets = GIVEN("secrets", secrets),
        .network_limits = has_network ? &limits : NULL,
        .limits = of_machine > 0 ? &limits : NULL,
    };
#undef GIVEN
    request_hold(request);
    engine_sandbox_update(api->engine, &caller, request_param(request, "id"), &change,
                          v1_sandbox_done, request);
    v1_forget_secrets(&secrets);
}

static void connect_to(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_sandbox_connect(api->engine, &caller, request_param(request, "id"),
                           v1_time(request->json, "timeoutMs"), v1_sandbox_done, request);
}

/* The moves that take nothing but the id. */
#define MOVE(name, verb)                                                                           \
    static void name(struct request *request, void *ctx)                                           \
    {                                                                                              \
        struct api *api = ctx;                                                                     \
        struct engine_caller caller = request_caller(request);                                     \
        request_hold(request);                                                                     \
        verb(api->engine, &caller, request_param(request, "id"), v1_sandbox_done, request);        \
    }
MOVE(pause_it, engine_sandbox_pause)
MOVE(resume, engine_sandbox_resume)
MOVE(stop, engine_sandbox_stop)

static void v1_sandboxes_remove(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_sandbox_delete(api->engine, &caller, request_param(request, "id"), v1_done, request);
}

static void on_forked(void *ctx, const struct sandbox_info *sandboxes, size_t count,
                      const struct err *why)
{
    struct request *request = ctx;
    if (why != NULL) {
        reply_error(request, why);
        return;
    }
    v1_reply_rows(request, "sandboxes",
                  &(struct v1_rows){v1_put_sandbox, sandboxes, count, sizeof *sandboxes, NULL});
}

static void fork_it(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_sandbox_fork(api->engine, &caller, request_param(request, "id"),
                        request_str(request, "checkpoint"),
                        (size_t)request_int(request, "count", 1), on_forked, request);
}

static void on_checkpoint(void *ctx, const struct sandbox_checkpoint *checkpoint,
                          const struct err *why)
{
    v1_reply_one(ctx, v1_put_checkpoint, checkpoint, why);
}

static void checkpoint(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_sandbox_checkpoint(api->engine, &caller, request_param(request, "id"),
                              request_str(request, "name"), on_checkpoint, request);
}

static void rollback(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_sandbox_rollback(api->engine, &caller, request_param(request, "id"),
                            request_str(request, "checkpoint"), v1_sandbox_done, request);
}

/* clang-format off */
static const struct route_query list_query[] = {
    {"state", JSON({"type": "string"}), "Only in these states: running,paused"},
    {"name", JSON({"type": "string"}), "Only with this name"},
    {"metadata", JSON({"type": "string"}), "Only with all of these labels: team=red,job=7"},
    {"limit", JSON({"type": "integer", "minimum": 1, "maximum": 1000}), "Maximum number of items (default 100)"},
    {"after", JSON({"type": "string", "maxLength": 64}), "`next` of the previous page"},
    {0},
};

#define NOUN "sandboxes"
#define MISSING E(NOT_FOUND)
#define MOVES (E(NOT_FOUND) | E(CONFLICT) | E(GONE) | E(UNSUPPORTED) | E(NO_SPACE) | E(BUSY))

const struct route v1_sandbox_routes[] = {
    {"POST", "/v1/sandboxes", v1_sandboxes_create, "Create a sandbox", SCOPE_RUN, NOUN,
     .details = "Responds when it runs. All members are optional; defaults are in the configuration.",
     .request = V1_BODY(V1_M_SANDBOX), .response = "Sandbox", .status = 201,
     .errors = MOVES | E(TOO_LARGE), .is_create = true,
     .example = "-d '{\"metadata\": {\"team\": \"red\"}}'"},
    {"GET", "/v1/sandboxes", v1_sandboxes_list, "List sandboxes", SCOPE_READ, NOUN, .query = list_query,
     .details = "Newest last.", .response = "SandboxList",
     .example = "?state=running&metadata=team=red"},
    {"GET", "/v1/sandboxes/{id}", v1_sandboxes_get, "Show a sandbox", SCOPE_READ, NOUN,
     .response = "Sandbox", .errors = MISSING, .example = ""},
    {"GET", "/v1/sandboxes/{id}/usage", get_usage, "Show the resource usage of a sandbox", SCOPE_READ, NOUN,
     .details = "Together with its limits. `cpu.cpus` is the average number of cores in use since the last such request, or since its start. Unknown values are null: for a sandbox without processes, and for a tier or host that does not measure them. Does not count as work.",
     .response = "Usage", .errors = MISSING, .example = ""},
    {"PATCH", "/v1/sandboxes/{id}", update, "Change a sandbox", SCOPE_RUN, NOUN,
     .details = "Omitted members are unchanged. Metadata, secrets and network limits are replaced as a whole. Memory and cpu limits apply at once to all of its processes, and after a pause or a restart; the memory limit cannot be lower than the memory in use (`conflict`) nor higher than the quota. The disk limit can be changed if the host supports it (a project quota in both directions; an image only to a larger size, and with CAP_SYS_RESOURCE), else the whole request is rejected (`unsupported`). It cannot be changed in one request with the network or secrets. Limits can be changed only for jails. A network policy applies at once, also to open connections; a secret with the same name keeps its placeholder, and its value if the request has none and the hosts and headers are the same. Changed secrets close open connections.",
     .request = V1_BODY(JSON("name": {"type": "string", "maxLength": 64}) ","
        JSON("metadata": {"type": "object", "additionalProperties": {"type": "string"}}) ","
        V1_M_NETWORK "," V1_M_SECRETS ","
        JSON("limits": {"type": "object", "additionalProperties": false, "properties": {)
            V1_MEMORY_MB(1048576) JSON(,
            "diskMb": {"type": "integer", "minimum": 1, "maximum": 1048576},
            "cpus": {"type": "number", "minimum": 0.05, "maximum": 1024},)
        V1_M_NET_LIMITS "}}," V1_M_TIMEOUT ","
        V1_M_IDLE ","
        JSON("onTimeout": {"type": "string", "enum": ["pause", "kill"]})),
     .response = "Sandbox", .errors = MOVES, .example = "-d '{\"name\": \"mine\"}'"},
    {"DELETE", "/v1/sandboxes/{id}", v1_sandboxes_remove, "Delete a sandbox", SCOPE_RUN, NOUN,
     .details = "Stops it first. Deletes its record, commands and logs; its volume is kept.",
     .gives = FORM_NONE, .status = 204, .errors = MOVES, .example = ""},
    {"POST", "/v1/sandboxes/{id}/connect", connect_to, "Make sure that a sandbox runs", SCOPE_RUN, NOUN,
     .details = "Resumes a paused or interrupted sandbox. Counts as work.",
     .request = V1_BODY(V1_M_TIMEOUT), .response = "Sandbox", .errors = MOVES,
     .example = "-d '{\"timeoutMs\": 60000}'"},
    {"POST", "/v1/sandboxes/{id}/timeout", update, "Set when a sandbox is paused", SCOPE_RUN, NOUN,
     .request = V1_NEEDS(JSON(["timeoutMs"]), V1_M_TIMEOUT ","
        JSON("onTimeout": {"type": "string", "enum": ["pause", "kill"]})),
     .response = "Sandbox", .errors = MOVES, .example = "-d '{\"timeoutMs\": 60000}'"},
    {"POST", "/v1/sandboxes/{id}/pause", pause_it, "Pause a sandbox", SCOPE_RUN, NOUN,
     .details = "The next request that needs it running resumes it. Until then the processes of a jail are frozen, and its files are kept on disk: after a restart of the server it continues with those files.",
     .response = "Sandbox", .errors = MOVES, .example = ""},
    {"POST", "/v1/sandboxes/{id}/resume", resume, "Resume a sandbox", SCOPE_RUN, NOUN,
     .response = "Sandbox", .errors = MOVES, .example = ""},
    {"POST", "/v1/sandboxes/{id}/stop", stop, "Stop a sandbox", SCOPE_RUN, NOUN,
     .details = "Its files are deleted; its record and logs are kept until it is deleted.",
     .response = "Sandbox", .errors = MOVES, .example = ""},
    {"POST", "/v1/sandboxes/{id}/fork", fork_it, "Fork a sandbox", SCOPE_RUN,
     NOUN, .details = "Creates sandboxes with the state of this one: all of them or none. The forks of a jail start with its files and with the variables of its Python interpreters; `contexts` says for each interpreter whether it kept its variables (`live`) or starts without them, and why. Other processes are not copied. Volumes are not shared with forks.",
     .request = V1_BODY(JSON("count": {"type": "integer", "minimum": 1, "maximum": 64}) ","
        JSON("checkpoint": {"type": "string", "description": "Id or name of a checkpoint; default: the current state"})),
     .response = "Sandboxes", .status = 201, .errors = MOVES, .is_create = true,
     .example = "-d '{\"count\": 2}'"},
    {"POST", "/v1/sandboxes/{id}/checkpoints", checkpoint, "Save the current state of a sandbox",
     SCOPE_RUN, NOUN,
     .details = "For a jail, saves its files and, while the server runs, the variables of its Python interpreters; its processes are frozen while they are copied.",
     .request = V1_BODY(JSON("name": {"type": "string", "maxLength": 64})),
     .response = "Checkpoint", .status = 201, .errors = MOVES, .is_create = true,
     .example = "-d '{\"name\": \"now\"}'"},
    {"POST", "/v1/sandboxes/{id}/rollback", rollback, "Return to a checkpoint", SCOPE_RUN, NOUN,
     .details = "Ends running commands and deletes later checkpoints. Python interpreters continue with the variables of the checkpoint if they are still kept; else the next run reports `stateLost`.",
     .request = V1_NEEDS(JSON(["checkpoint"]),
        JSON("checkpoint": {"type": "string", "description": "Id or name"})),
     .response = "Sandbox", .errors = MOVES, .example = "-d '{\"checkpoint\": \"before\"}'"},
    {0},
};
/* clang-format on */
