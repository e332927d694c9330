/* /v1/sandboxes: places with a life. */

#include "api/metrics.h"
#include "api/v1.h"

static void on_created(void *ctx, const struct sandbox_info *sandbox, const struct err *why)
{
    v1_observe(ctx, METRICS_CREATE, why == NULL ? engine_tier_name(sandbox->tier) : "none", "",
               why);
    v1_sandbox_done(ctx, sandbox, why);
}

static void create(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct sandbox_spec spec;
    struct engine_caller caller = v1_caller(request);
    if (v1_sandbox_spec(request, request->json, &spec, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    request_hold(request);
    engine_sandbox_create(api->engine, &caller, &spec, on_created, request);
    v1_forget_secrets(&spec.secrets);
}

static void get(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct sandbox_info sandbox;
    struct engine_caller caller = v1_caller(request);
    int got =
        engine_sandbox_get(api->engine, &caller, request_param(request, "id"), &sandbox, &err);
    v1_sandbox_done(request, &sandbox, got < 0 ? &err : NULL);
}

/* "running,paused" */
static int refuse_state(struct str name, struct err *err)
{
    AUTO_BUF struct buf known = {0};
    for (enum sandbox_state state = 0; state < SANDBOX_STATE_COUNT; state++)
        buf_printf(&known, "%s%s", state > 0 ? ", " : "", sandbox_state_name(state));
    return err_set(err, ERR_INVALID, "state: there is no '%.*s'; there are %s",
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

static void list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct str text;
    struct sandbox_filter filter = {.page = v1_page(request)};
    struct sandbox_list found;
    struct engine_caller caller = v1_caller(request);
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

static void update(struct request *request, void *ctx)
{
    struct api *api = ctx;
    const struct json_t *body = request->json;
    struct engine_caller caller = v1_caller(request);
    int64_t timeout_ms = v1_int(body, "timeoutMs", 0), idle_ms = v1_int(body, "idleMs", 0);
    enum sandbox_on_timeout at = str_eq(v1_str(body, "onTimeout"), STR("kill"))
                                     ? SANDBOX_KILL_AT_TIMEOUT
                                     : SANDBOX_PAUSE_AT_TIMEOUT;
    struct str name = v1_str(body, "name"), network = v1_str(body, "network");
    struct engine_pairs metadata = v1_pairs(request, body, "metadata");
    struct sandbox_secrets secrets = v1_secrets(request, body);
    struct sandbox_limits limits = v1_limits(body);
#define GIVEN(member, value) (body != NULL && json_get(body, member) != NULL ? &(value) : NULL)
    struct sandbox_change change = {
        .timeout_ms = GIVEN("timeoutMs", timeout_ms),
        .idle_ms = GIVEN("idleMs", idle_ms),
        .on_timeout = GIVEN("onTimeout", at),
        .name = GIVEN("name", name),
        .metadata = GIVEN("metadata", metadata),
        .network = GIVEN("network", network),
        .secrets = GIVEN("secrets", secrets),
        .network_limits = GIVEN("limits", limits),
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
    struct engine_caller caller = v1_caller(request);
    request_hold(request);
    engine_sandbox_connect(api->engine, &caller, request_param(request, "id"),
                           request_int(request, "timeoutMs", 0), v1_sandbox_done, request);
}

/* The moves that take nothing but the id. */
#define MOVE(name, verb)                                                                           \
    static void name(struct request *request, void *ctx)                                           \
    {                                                                                              \
        struct api *api = ctx;                                                                     \
        struct engine_caller caller = v1_caller(request);                                          \
        request_hold(request);                                                                     \
        verb(api->engine, &caller, request_param(request, "id"), v1_sandbox_done, request);        \
    }
MOVE(pause_it, engine_sandbox_pause)
MOVE(resume, engine_sandbox_resume)
MOVE(stop, engine_sandbox_stop)

static void remove_it(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = v1_caller(request);
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
    struct engine_caller caller = v1_caller(request);
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
    struct engine_caller caller = v1_caller(request);
    request_hold(request);
    engine_sandbox_checkpoint(api->engine, &caller, request_param(request, "id"),
                              request_str(request, "name"), on_checkpoint, request);
}

static void rollback(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = v1_caller(request);
    request_hold(request);
    engine_sandbox_rollback(api->engine, &caller, request_param(request, "id"),
                            request_str(request, "checkpoint"), v1_sandbox_done, request);
}

/* clang-format off */
static const struct route_query list_query[] = {
    {"state", JSON({"type": "string"}), "Of these states alone: running,paused"},
    {"name", JSON({"type": "string"}), "Of this name alone"},
    {"metadata", JSON({"type": "string"}), "With all of these labels: team=red,job=7"},
    {"limit", JSON({"type": "integer", "minimum": 1, "maximum": 1000}), "At most so many (100)"},
    {"after", JSON({"type": "string", "maxLength": 64}), "`next` of the page before"},
    {0},
};

#define NOUN "sandboxes"
#define MISSING E(NOT_FOUND)
#define MOVES (E(NOT_FOUND) | E(CONFLICT) | E(GONE) | E(UNSUPPORTED) | E(NO_SPACE) | E(BUSY))

const struct route v1_sandbox_routes[] = {
    {"POST", "/v1/sandboxes", create, "Make a sandbox", SCOPE_RUN, NOUN,
     .details = "Answers when it runs. Everything may be left out: the configuration has the rest.",
     .request = V1_BODY(V1_M_SANDBOX), .response = "Sandbox", .status = 201,
     .errors = MOVES | E(TOO_LARGE), .is_create = true,
     .example = "-d '{\"metadata\": {\"team\": \"red\"}}'"},
    {"GET", "/v1/sandboxes", list, "List sandboxes", SCOPE_READ, NOUN, .query = list_query,
     .details = "The newest come last.", .response = "SandboxList",
     .example = "?state=running&metadata=team=red"},
    {"GET", "/v1/sandboxes/{id}", get, "Look at a sandbox", SCOPE_READ, NOUN,
     .response = "Sandbox", .errors = MISSING, .example = ""},
    {"PATCH", "/v1/sandboxes/{id}", update, "Change a living sandbox", SCOPE_RUN, NOUN,
     .details = "What is left out stays. Metadata, secrets and limits of the network are replaced as "
                "a whole. A network policy holds at once, for open connections too; a secret that "
                "keeps its name keeps its placeholder, and its value when none is given for the "
                "same hosts and headers. Other secrets end open connections.",
     .request = V1_BODY(JSON("name": {"type": "string", "maxLength": 64}) ","
        JSON("metadata": {"type": "object", "additionalProperties": {"type": "string"}}) ","
        V1_M_NETWORK "," V1_M_SECRETS ","
        JSON("limits": {"type": "object", "additionalProperties": false, "properties": {)
        V1_M_NET_LIMITS "}}," V1_M_TIMEOUT ","
        JSON("idleMs": {"type": "integer", "minimum": -1, "maximum": 31536000000}) ","
        JSON("onTimeout": {"type": "string", "enum": ["pause", "kill"]})),
     .response = "Sandbox", .errors = MOVES, .example = "-d '{\"name\": \"mine\"}'"},
    {"DELETE", "/v1/sandboxes/{id}", remove_it, "Delete a sandbox", SCOPE_RUN, NOUN,
     .details = "Stops it first. Its record, commands and logs go; its volume stays.",
     .gives = FORM_NONE, .status = 204, .errors = MOVES, .example = ""},
    {"POST", "/v1/sandboxes/{id}/connect", connect_to, "Bring a sandbox to life", SCOPE_RUN, NOUN,
     .details = "A paused or interrupted one is resumed. Counts as work.",
     .request = V1_BODY(V1_M_TIMEOUT), .response = "Sandbox", .errors = MOVES,
     .example = "-d '{\"timeoutMs\": 60000}'"},
    {"POST", "/v1/sandboxes/{id}/timeout", update, "Set when a sandbox is paused", SCOPE_RUN, NOUN,
     .request = V1_NEEDS(JSON(["timeoutMs"]), V1_M_TIMEOUT ","
        JSON("onTimeout": {"type": "string", "enum": ["pause", "kill"]})),
     .response = "Sandbox", .errors = MOVES, .example = "-d '{\"timeoutMs\": 60000}'"},
    {"POST", "/v1/sandboxes/{id}/pause", pause_it, "Pause a sandbox", SCOPE_RUN, NOUN,
     .details = "Whatever needs it running resumes it. A jail's processes stand still until then, "
                "and its files are kept on disk: after a restart of the server it goes on with those.",
     .response = "Sandbox", .errors = MOVES, .example = ""},
    {"POST", "/v1/sandboxes/{id}/resume", resume, "Resume a sandbox", SCOPE_RUN, NOUN,
     .response = "Sandbox", .errors = MOVES, .example = ""},
    {"POST", "/v1/sandboxes/{id}/stop", stop, "Stop a sandbox", SCOPE_RUN, NOUN,
     .details = "Its files go; its record and logs stay until it is deleted.",
     .response = "Sandbox", .errors = MOVES, .example = ""},
    {"POST", "/v1/sandboxes/{id}/fork", fork_it, "Make sandboxes with this one's state", SCOPE_RUN,
     NOUN, .details = "All of them or none. The forks of a jail begin with its files and with the variables of its "
                "Python kernels; `contexts` says of each interpreter whether it goes on (`live`) or begins "
                "anew, and why. Other processes are not copied. Volumes are not shared with forks.",
     .request = V1_BODY(JSON("count": {"type": "integer", "minimum": 1, "maximum": 64}) ","
        JSON("checkpoint": {"type": "string", "description": "Id or name; left out: as it is now"})),
     .response = "Sandboxes", .status = 201, .errors = MOVES, .is_create = true,
     .example = "-d '{\"count\": 2}'"},
    {"POST", "/v1/sandboxes/{id}/checkpoints", checkpoint, "Keep a sandbox's present state",
     SCOPE_RUN, NOUN,
     .details = "Of a jail its files; it stands still while they are copied.",
     .request = V1_BODY(JSON("name": {"type": "string", "maxLength": 64})),
     .response = "Checkpoint", .status = 201, .errors = MOVES, .is_create = true,
     .example = "-d '{\"name\": \"now\"}'"},
    {"POST", "/v1/sandboxes/{id}/rollback", rollback, "Go back to a checkpoint", SCOPE_RUN, NOUN,
     .details = "Commands that run in it end; later checkpoints are dropped.",
     .request = V1_NEEDS(JSON(["checkpoint"]),
        JSON("checkpoint": {"type": "string", "description": "Id or name"})),
     .response = "Sandbox", .errors = MOVES, .example = "-d '{\"checkpoint\": \"before\"}'"},
    {0},
};
/* clang-format on */
