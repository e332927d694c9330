/* /v1/sessions: a caller's line of work, with one sandbox at most, a volume and saved modules. */

#include "api/v1/v1.h"

static void put_session(struct json_out *out, const void *thing)
{
    const struct session_info *session = thing;
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, session->id);
    v1_put_str(out, "name", session->name);
    json_key(out, "state"), json_put_cstr(out, session_state_name(session->state));
    json_key(out, "tier"), json_put_cstr(out, engine_tier_name(session->tier));
    v1_put_str(out, "runtime", session->runtime);
    json_key(out, "region"), json_put_str(out, session->region);
    v1_put_str(out, "sandbox", session->sandbox);
    v1_put_str(out, "volume", session->volume);
    json_key(out, "warm"), json_put_bool(out, session->warm);
    json_key(out, "idleMs"), json_put_i64(out, session->idle_ms);
    json_key(out, "volumeTtlMs"), json_put_i64(out, session->volume_ttl_ms);
    v1_put_date(out, "volumeExpiresAt", session->volume_expires_ms);
    v1_put_date(out, "createdAt", session->created_ms);
    v1_put_date(out, "activeAt", session->active_ms);
    v1_put_date(out, "volumeExpiredAt", session->volume_expired_ms);
    json_end_object(out);
}

static void on_session(void *ctx, const struct session_info *session, const struct err *why)
{
    v1_reply_one(ctx, put_session, session, why);
}

static void v1_sessions_create(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct engine_caller caller = request_caller(request);
    struct session_spec spec = {.id = request_str(request, "id"),
                                .name = request_str(request, "name"),
                                .warm = request_bool(request, "warm", false),
                                .idle_ms = v1_time(request->json, "idleMs"),
                                .volume_ttl_ms = v1_time(request->json, "volumeTtlMs")};
    const struct json_t *sandbox =
        request->json == NULL ? NULL : json_get(request->json, "sandbox");
    if (v1_sandbox_spec(request, sandbox, &spec.sandbox, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    request_hold(request);
    engine_session_create(api->engine, &caller, &spec, on_session, request);
    v1_forget_secrets(&spec.sandbox.secrets);
}

static void v1_sessions_get(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct session_info session;
    struct engine_caller caller = request_caller(request);
    int got =
        engine_session_get(api->engine, &caller, request_param(request, "id"), &session, &err);
    on_session(request, &session, got < 0 ? &err : NULL);
}

static void v1_sessions_list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct session_list found;
    struct engine_page page = v1_page(request);
    struct engine_caller caller = request_caller(request);
    if (engine_session_list(api->engine, &caller, &page, &request->arena, &found, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    v1_reply_rows(request, "sessions", V1_ROWS(put_session, found));
}

static void use(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_session_use(api->engine, &caller, request_param(request, "id"), v1_sandbox_done,
                       request);
}

static void rest(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_session_rest(api->engine, &caller, request_param(request, "id"), on_session, request);
}

static void v1_sessions_remove(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    request_hold(request);
    engine_session_delete(api->engine, &caller, request_param(request, "id"), v1_done, request);
}

/* ---- modules ------------------------------------------------------------------------------- */

static void put_module(struct json_out *out, const void *thing)
{
    const struct module_info *module = thing;
    json_begin_object(out);
    json_key(out, "path"), json_put_str(out, module->path);
    json_key(out, "source"), json_put_str(out, module->source);
    v1_put_str(out, "description", module->description);
    json_key(out, "exports"), v1_put_json(out, module->exports, "[]");
    v1_put_str(out, "usage", module->usage);
    json_key(out, "scope"), json_put_str(out, module->scope);
    v1_put_date(out, "updatedAt", module->updated_ms);
    json_end_object(out);
}

static void list_modules(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct module_info *modules;
    size_t count;
    struct engine_caller caller = request_caller(request);
    if (engine_module_list(api->engine, &caller, request_param(request, "id"), &request->arena,
                           &modules, &count, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    v1_reply_rows(request, "modules",
                  &(struct v1_rows){put_module, modules, count, sizeof *modules, NULL});
}

static void save_module(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    struct module_spec spec = {.path = request_str(request, "path"),
                               .source = request_str(request, "source"),
                               .description = request_str(request, "description"),
                               .usage = request_str(request, "usage"),
                               .scope = request_str(request, "scope"),
                               .in_volume = json_get(request->json, "source") == NULL};
    spec.exports = v1_list(request, request->json, "exports", &spec.export_count);
    request_hold(request);
    engine_module_put(api->engine, &caller, request_param(request, "id"), &spec, v1_done, request);
}

static void delete_module(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct str path = {0};
    struct engine_caller caller = request_caller(request);
    (void)request_query(request, "path", &path);
    request_hold(request);
    engine_module_delete(api->engine, &caller, request_param(request, "id"), path, v1_done,
                         request);
}

/* clang-format off */
static const struct route_query module_query[] = {
    {"path", JSON({"type": "string", "minLength": 1}), "Which one"}, {0},
};

#define NOUN "sessions"
#define FAILS (E(NOT_FOUND) | E(CONFLICT) | E(GONE) | E(UNSUPPORTED) | E(BUSY) | E(NO_SPACE))

const struct route v1_session_routes[] = {
    {"POST", "/v1/sessions", v1_sessions_create, "Create a session", SCOPE_RUN, NOUN,
     .details = "It has at most one sandbox, created at first use (or at once, with warm), and a volume that is kept when the sandbox is closed after idleMs without work.",
     .request = V1_BODY(JSON("id": {"type": "string", "maxLength": 64,
            "description": "Id of your choice, 8 to 64 characters of a-z 0-9 _ -; default: a random one"}) ","
        JSON("name": {"type": "string", "maxLength": 64}) ","
        JSON("warm": {"type": "boolean"}) ","
        "\"idleMs\":" V1_TIME("Make it dormant after this many milliseconds without work; 0 or none: never; default: sandbox.idle_seconds of the configuration") ","
        "\"volumeTtlMs\":" V1_TIME("Delete its volume after this many milliseconds without use; 0 or none: never; default: sandbox.volume_ttl_minutes of the configuration") ","
        "\"sandbox\":" V1_BODY(V1_M_SANDBOX)),
     .response = "Session", .status = 201, .errors = FAILS, .is_create = true, .example = "-d '{}'"},
    {"GET", "/v1/sessions", v1_sessions_list, "List sessions", SCOPE_READ, NOUN, .query = v1_page_query,
     .response = "SessionList", .example = ""},
    {"GET", "/v1/sessions/{id}", v1_sessions_get, "Show a session", SCOPE_READ, NOUN,
     .response = "Session", .errors = E(NOT_FOUND), .example = ""},
    {"DELETE", "/v1/sessions/{id}", v1_sessions_remove, "Delete a session", SCOPE_RUN, NOUN,
     .details = "Also deletes its sandbox, its volume and its modules.", .gives = FORM_NONE, .status = 204,
     .errors = FAILS, .example = ""},
    {"POST", "/v1/sessions/{id}/use", use, "Make sure that a session's sandbox runs", SCOPE_RUN, NOUN,
     .details = "Concurrent requests share one sandbox.", .response = "Sandbox", .errors = FAILS,
     .example = ""},
    {"POST", "/v1/sessions/{id}/rest", rest, "Close a session's sandbox now", SCOPE_RUN, NOUN,
     .response = "Session", .errors = FAILS, .example = ""},
    {"GET", "/v1/sessions/{id}/modules", list_modules, "List a session's saved modules", SCOPE_READ,
     NOUN, .response = "ModuleList", .errors = E(NOT_FOUND), .example = ""},
    {"PUT", "/v1/sessions/{id}/modules", save_module, "Save a module", SCOPE_RUN, NOUN,
     .details = "Later runs may import it by its path, and search finds it by its description, exports and usage. Without source it is a file of the session's /workspace, which must exist.",
     .request = V1_NEEDS(JSON(["path"]),
        JSON("path": {"type": "string", "minLength": 1, "maxLength": 256}) ","
        JSON("source": {"type": "string", "maxLength": 1048576}) ","
        JSON("description": {"type": "string", "maxLength": 4000, "description": "What it does"}) ","
        JSON("exports": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 200}}) ","
        JSON("usage": {"type": "string", "maxLength": 4000, "description": "An example"}) ","
        JSON("scope": {"type": "string", "enum": ["session", "user"],
            "description": "user: other sessions of the tenant find it too, and isolates of theirs can import it; default session"})),
     .gives = FORM_NONE, .status = 204, .errors = FAILS | E(LIMIT) | E(TOO_LARGE),
     .example = "-d '{\"path\": \"lib/one.js\", \"source\": \"export const one = 1\"}'"},
    {"DELETE", "/v1/sessions/{id}/modules", delete_module, "Delete a module", SCOPE_RUN, NOUN,
     .query = module_query, .gives = FORM_NONE, .status = 204, .errors = E(NOT_FOUND),
     .example = "?path=lib/one.js"},
    {0},
};
/* clang-format on */
