/* /v1/sessions: a caller's line of work, with one sandbox at most, a volume and saved modules. */

#include "api/v1.h"

static void put_session(struct json_out *out, const void *thing)
{
    const struct session_info *session = thing;
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, session->id);
    v1_put_str(out, "name", session->name);
    json_key(out, "state"), json_put_cstr(out, session_state_name(session->state));
    json_key(out, "tier"), json_put_cstr(out, engine_tier_name(session->tier));
    v1_put_str(out, "sandbox", session->sandbox);
    v1_put_str(out, "volume", session->volume);
    json_key(out, "warm"), json_put_bool(out, session->warm);
    json_key(out, "idleMs"), json_put_i64(out, session->idle_ms);
    v1_put_date(out, "createdAt", session->created_ms);
    v1_put_date(out, "activeAt", session->active_ms);
    json_end_object(out);
}

static void on_session(void *ctx, const struct session_info *session, const struct err *why)
{
    v1_reply_one(ctx, put_session, session, why);
}

static void create(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct engine_caller caller = v1_caller(request);
    struct session_spec spec = {.id = request_str(request, "id"),
                                .name = request_str(request, "name"),
                                .warm = request_bool(request, "warm", false),
                                .idle_ms = request_int(request, "idleMs", 0)};
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

static void get(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct session_info session;
    struct engine_caller caller = v1_caller(request);
    int got =
        engine_session_get(api->engine, &caller, request_param(request, "id"), &session, &err);
    on_session(request, &session, got < 0 ? &err : NULL);
}

static void list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct session_list found;
    struct engine_page page = v1_page(request);
    struct engine_caller caller = v1_caller(request);
    if (engine_session_list(api->engine, &caller, &page, &request->arena, &found, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    v1_reply_rows(request, "sessions", V1_ROWS(put_session, found));
}

static void use(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = v1_caller(request);
    request_hold(request);
    engine_session_use(api->engine, &caller, request_param(request, "id"), v1_sandbox_done,
                       request);
}

static void rest(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = v1_caller(request);
    request_hold(request);
    engine_session_rest(api->engine, &caller, request_param(request, "id"), on_session, request);
}

static void remove_it(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = v1_caller(request);
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
    v1_put_date(out, "updatedAt", module->updated_ms);
    json_end_object(out);
}

static void list_modules(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct module_info *modules;
    size_t count;
    struct engine_caller caller = v1_caller(request);
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
    struct engine_caller caller = v1_caller(request);
    request_hold(request);
    engine_module_put(api->engine, &caller, request_param(request, "id"),
                      request_str(request, "path"), request_str(request, "source"), v1_done,
                      request);
}

static void delete_module(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct str path = {0};
    struct engine_caller caller = v1_caller(request);
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
    {"POST", "/v1/sessions", create, "Make a session", SCOPE_RUN, NOUN,
     .details = "It has at most one sandbox, made at first use (or at once, with warm), and a volume "
                "that stays when the sandbox is closed after idleMs without work.",
     .request = V1_BODY(JSON("id": {"type": "string", "maxLength": 64,
            "description": "Of your choice, 8 to 64 of a-z 0-9 _ -; left out: a random one"}) ","
        JSON("name": {"type": "string", "maxLength": 64}) ","
        JSON("warm": {"type": "boolean"}) ","
        JSON("idleMs": {"type": "integer", "minimum": 0, "maximum": 86400000}) ","
        "\"sandbox\":" V1_BODY(V1_M_SANDBOX)),
     .response = "Session", .status = 201, .errors = FAILS, .is_create = true, .example = "-d '{}'"},
    {"GET", "/v1/sessions", list, "List sessions", SCOPE_READ, NOUN, .query = v1_page_query,
     .response = "SessionList", .example = ""},
    {"GET", "/v1/sessions/{id}", get, "Look at a session", SCOPE_READ, NOUN,
     .response = "Session", .errors = E(NOT_FOUND), .example = ""},
    {"DELETE", "/v1/sessions/{id}", remove_it, "Delete a session", SCOPE_RUN, NOUN,
     .details = "With its sandbox, its volume and its modules.", .gives = FORM_NONE, .status = 204,
     .errors = FAILS, .example = ""},
    {"POST", "/v1/sessions/{id}/use", use, "Bring a session's sandbox to life", SCOPE_RUN, NOUN,
     .details = "Callers at the same moment share one.", .response = "Sandbox", .errors = FAILS,
     .example = ""},
    {"POST", "/v1/sessions/{id}/rest", rest, "Close a session's sandbox now", SCOPE_RUN, NOUN,
     .response = "Session", .errors = FAILS, .example = ""},
    {"GET", "/v1/sessions/{id}/modules", list_modules, "List a session's saved modules", SCOPE_READ,
     NOUN, .response = "ModuleList", .errors = E(NOT_FOUND), .example = ""},
    {"PUT", "/v1/sessions/{id}/modules", save_module, "Save a module", SCOPE_RUN, NOUN,
     .details = "Code that later evaluations may import by its path.",
     .request = V1_NEEDS(JSON(["path", "source"]),
        JSON("path": {"type": "string", "minLength": 1, "maxLength": 256}) ","
        JSON("source": {"type": "string", "maxLength": 1048576})),
     .gives = FORM_NONE, .status = 204, .errors = FAILS | E(LIMIT) | E(TOO_LARGE),
     .example = "-d '{\"path\": \"lib/one.js\", \"source\": \"export const one = 1\"}'"},
    {"DELETE", "/v1/sessions/{id}/modules", delete_module, "Forget a module", SCOPE_RUN, NOUN,
     .query = module_query, .gives = FORM_NONE, .status = 204, .errors = E(NOT_FOUND),
     .example = "?path=lib/one.js"},
    {0},
};
/* clang-format on */
