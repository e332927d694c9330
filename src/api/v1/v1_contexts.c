/* /v1/sandboxes/ID/contexts and /v1/sessions/ID/contexts: the interpreters that run code. */

#include "api/v1/v1.h"

static void put_context(struct json_out *out, const void *thing)
{
    const struct context_info *context = thing;
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, context->id);
    json_key(out, "runtime"), json_put_str(out, context->runtime);
    json_key(out, "language"), json_put_str(out, context->language);
    json_key(out, "cwd"), json_put_str(out, context->cwd);
    json_key(out, "state"), json_put_cstr(out, context_state_name(context->state));
    json_key(out, "waiting"), json_put_i64(out, (int64_t)context->waiting);
    json_key(out, "executionCount"), json_put_i64(out, (int64_t)context->run_count);
    v1_put_date(out, "createdAt", context->created_ms);
    json_end_object(out);
}

static void on_one(void *ctx, const struct context_info *contexts, size_t count,
                   const struct err *why)
{
    if (why == NULL && count == 0)
        reply_empty(ctx, 204);
    else
        v1_reply_one(ctx, put_context, contexts, why);
}

static void on_list(void *ctx, const struct context_info *contexts, size_t count,
                    const struct err *why)
{
    if (why != NULL)
        reply_error(ctx, why);
    else
        v1_reply_rows(ctx, "contexts",
                      &(struct v1_rows){put_context, contexts, count, sizeof *contexts, NULL});
}

static void contexts_ask(struct request *request, struct api *api,
                         const struct context_request *wanted, context_done *done)
{
    struct engine_caller caller = request_caller(request);
    struct file_place place = v1_place(request);
    request_hold(request);
    engine_context(api->engine, &caller, place.sandbox, place.session, wanted, done, request);
}

static void contexts_create(struct request *request, void *ctx)
{
    struct context_request wanted = {.op = CONTEXT_CREATE,
                                     .runtime = request_str(request, "runtime"),
                                     .language = request_str(request, "language"),
                                     .cwd = request_str(request, "cwd"),
                                     .env = v1_pairs(request, request->json, "env")};
    contexts_ask(request, ctx, &wanted, on_one);
}

static void contexts_list(struct request *request, void *ctx)
{
    struct context_request wanted = {.op = CONTEXT_LIST};
    contexts_ask(request, ctx, &wanted, on_list);
}

static void act(struct request *request, struct api *api, enum context_op op)
{
    struct context_request wanted = {.op = op, .id = request_param(request, "context")};
    contexts_ask(request, api, &wanted, on_one);
}

static void contexts_get(struct request *request, void *ctx)
{
    act(request, ctx, CONTEXT_GET);
}

static void contexts_remove_it(struct request *request, void *ctx)
{
    act(request, ctx, CONTEXT_DELETE);
}

static void restart(struct request *request, void *ctx)
{
    act(request, ctx, CONTEXT_RESTART);
}

static void interrupt(struct request *request, void *ctx)
{
    act(request, ctx, CONTEXT_INTERRUPT);
}

/* clang-format off */
#define NOUN "contexts"
#define FAILS (E(NOT_FOUND) | E(GONE) | E(BUSY) | E(CONFLICT) | E(UNSUPPORTED) | E(LIMIT) | E(UNAVAILABLE))
#define BODY V1_BODY( \
    JSON("runtime": {"type": "string", "maxLength": 64}) "," \
    JSON("language": {"type": "string", "maxLength": 32, \
        "description": "Instead of a runtime; default: the sandbox's runtime"}) "," \
    JSON("cwd": {"type": "string", "maxLength": 4096, \
        "description": "Working directory at start; default /workspace"}) "," \
    V1_M_ENV)
#define ROWS(PLACE, OF) \
    {"POST", PLACE "/contexts", contexts_create, "Create a context of " OF, SCOPE_RUN, NOUN, \
     .details = "A separate interpreter with its own variables and working directory. It is " \
                "started by the first run.", \
     .request = BODY, .response = "Context", .status = 201, .errors = FAILS, \
     .example = "-d '{\"runtime\": \"python3\", \"cwd\": \"/tmp\"}'"}, \
    {"GET", PLACE "/contexts", contexts_list, "List the contexts of " OF, SCOPE_READ, NOUN, \
     .details = "A runtime that has run code without a named context has its own context " \
                "name.", \
     .response = "ContextList", .errors = FAILS, .example = ""}, \
    {"GET", PLACE "/contexts/{context}", contexts_get, "Show a context of " OF, SCOPE_READ, NOUN, \
     .response = "Context", .errors = FAILS}, \
    {"DELETE", PLACE "/contexts/{context}", contexts_remove_it, "Delete a context of " OF, SCOPE_RUN, NOUN, \
     .details = "Ends its interpreter and the code that runs in it.", .gives = FORM_NONE, .status = 204, \
     .errors = FAILS}, \
    {"POST", PLACE "/contexts/{context}/interrupt", interrupt, \
     "Interrupt what a context of " OF " runs", SCOPE_RUN, NOUN, \
     .details = "As Ctrl-C does; its variables are kept.", .response = "Context", .errors = FAILS}, \
    {"POST", PLACE "/contexts/{context}/restart", restart, "Restart a context of " OF, SCOPE_RUN, \
     NOUN, .details = "Its variables are lost; the code that runs in it ends.", .response = "Context", \
     .errors = FAILS}

const struct route v1_context_routes[] = {
    ROWS("/v1/sandboxes/{id}", "a sandbox"),
    ROWS("/v1/sessions/{id}", "a session"),
    {0},
};
/* clang-format on */
