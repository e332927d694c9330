/* /v1/approvals: what waits for a person's decision, and the decisions. */

#include "api/v1/v1.h"

static void put_approval(struct json_out *out, const void *thing)
{
    const struct approval_info *approval = thing;
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, approval->id);
    json_key(out, "kind"), json_put_str(out, approval->kind);
    json_key(out, "subject"), json_put_str(out, approval->subject);
    json_key(out, "digest"), json_put_str(out, approval->digest);
    json_key(out, "title"), json_put_str(out, approval->title);
    json_key(out, "detail"), v1_put_json(out, approval->detail, "null");
    json_key(out, "status"), json_put_cstr(out, approval_state_name(approval->state));
    v1_put_str(out, "sandbox", approval->sandbox);
    v1_put_str(out, "requestedBy", approval->requested_by);
    v1_put_str(out, "requestedByToken", approval->requested_token);
    v1_put_date(out, "requestedAt", approval->requested_ms);
    v1_put_date(out, "expiresAt", approval->expires_ms);
    v1_put_str(out, "decidedBy", approval->decided_by);
    v1_put_str(out, "decidedByToken", approval->decided_token);
    v1_put_date(out, "decidedAt", approval->decided_ms);
    v1_put_str(out, "note", approval->note);
    v1_put_str(out, "reason", approval->reason);
    v1_put_date(out, "endedAt", approval->ended_ms);
    json_end_object(out);
}

static void on_approval(void *ctx, const struct approval_info *approval, const struct err *why)
{
    v1_reply_one(ctx, put_approval, approval, why);
}

static void approvals_create(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    AUTO_BUF struct buf detail = {0};
    struct json_out out = {.buf = &detail};
    const struct json_t *value = json_get(request->json, "detail");
    if (value != NULL)
        json_put_value(&out, value);
    struct approval_spec spec = {
        .kind = STR("custom"),
        .subject = request_str(request, "subject"),
        .title = request_str(request, "title"),
        .digest = request_str(request, "digest"),
        .detail = buf_str(&detail),
        .expires_ms = request_int(request, "expiresSeconds", 0) * 1000,
    };
    request_hold(request);
    engine_approval_request(api->engine, &caller, &spec, on_approval, request);
}

static void approvals_get(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct approval_info approval;
    struct engine_caller caller = request_caller(request);
    int got =
        engine_approval_get(api->engine, &caller, request_param(request, "id"), &approval, &err);
    on_approval(request, &approval, got < 0 ? &err : NULL);
}

static void approvals_list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct str status = {0};
    enum approval_state state;
    struct approval_list found;
    struct approval_filter filter = {.page = v1_page(request)};
    struct engine_caller caller = request_caller(request);
    (void)request_query(request, "status", &status);
    (void)request_query(request, "kind", &filter.kind);
    (void)request_query(request, "subject", &filter.subject);
    if (status.len > 0 && approval_state_of_name(status, &state))
        filter.states = 1U << state;
    if (engine_approval_list(api->engine, &caller, &filter, &request->arena, &found, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    v1_reply_rows(request, "approvals", V1_ROWS(put_approval, found));
}

static void approvals_decide(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    struct approval_decision decision = {
        .is_approved = v1_bool(request->json, "approved", false),
        .subject = request_str(request, "subject"),
        .digest = request_str(request, "digest"),
        .note = request_str(request, "note"),
    };
    request_hold(request);
    engine_approval_decide(api->engine, &caller, request_param(request, "id"), &decision,
                           on_approval, request);
}

/* Only those that programs request: the others are used by the engine. */
static bool is_open(struct request *request, struct api *api, const struct engine_caller *caller)
{
    struct err err;
    struct approval_info approval;
    struct str id = request_param(request, "id");
    if (engine_approval_get(api->engine, caller, id, &approval, &err) == 0) {
        if (engine_approval_is_open_kind(api->engine, approval.kind))
            return true;
        (void)err_set(&err, ERR_FORBIDDEN,
                      "only the server may use or withdraw approvals of the kind '%.*s'",
                      STR_ARG(approval.kind));
    }
    reply_error(request, &err);
    return false;
}

static void approvals_use(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    if (!is_open(request, api, &caller))
        return;
    request_hold(request);
    engine_approval_use(api->engine, &caller, request_param(request, "id"),
                        request_str(request, "digest"), on_approval, request);
}

static void approvals_withdraw(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct engine_caller caller = request_caller(request);
    if (!is_open(request, api, &caller))
        return;
    request_hold(request);
    engine_approval_withdraw(api->engine, &caller, request_param(request, "id"), on_approval,
                             request);
}

/* clang-format off */
#define NOUN "approvals"

static const struct route_query list_query[] = {
    {"status", JSON({"type": "string", "enum": ["pending", "approved", "used", "rejected", "expired", "void"]}),
     "Only approvals with this status"},
    {"kind", JSON({"type": "string", "maxLength": 64}), "Only approvals of this kind"},
    {"subject", JSON({"type": "string", "maxLength": 200}), "Only approvals about this subject"},
    {"limit", JSON({"type": "integer", "minimum": 1, "maximum": 1000}), "Maximum number of items (default 100)"},
    {"after", JSON({"type": "string", "maxLength": 64}), "`next` of the previous page"},
    {0},
};

const struct route v1_approval_routes[] = {
    {"POST", "/v1/approvals", approvals_create, "Request an approval", SCOPE_RUN, NOUN,
     .details = "For programs that wait for a person: follow the events approval.*, or poll, and read status and note. The same request again returns the open approval; another title, detail or digest for the same subject makes the earlier one void.",
     .request = V1_NEEDS(JSON(["kind", "subject", "title"]),
        JSON("kind": {"type": "string", "enum": ["custom"]}) ","
        JSON("subject": {"type": "string", "minLength": 1, "maxLength": 200,
            "description": "What it is about, in the program's words; the decision must name it"}) ","
        JSON("title": {"type": "string", "minLength": 1, "maxLength": 300, "description": "One line for the person who decides"}) ","
        JSON("detail": {"type": "object", "additionalProperties": true,
            "description": "More for the person who decides, at most 16 KiB"}) ","
        JSON("digest": {"type": "string", "minLength": 1, "maxLength": 128,
            "description": "Hash of exactly what is to be approved; default: of subject, title and detail"}) ","
        JSON("expiresSeconds": {"type": "integer", "minimum": 1, "maximum": 2592000,
            "description": "Default: approvals.expire_hours of the configuration"})),
     .response = "Approval", .status = 201, .errors = E(TOO_LARGE) | E(CONFLICT), .is_create = true,
     .example = "-d '{\"kind\": \"custom\", \"subject\": \"deploy-42\", \"title\": \"Deploy build 42 to production\", \"detail\": {\"image\": \"app:42\"}}'"},
    {"GET", "/v1/approvals", approvals_list, "List approvals", SCOPE_READ, NOUN, .query = list_query,
     .response = "ApprovalList", .example = "?status=pending"},
    {"GET", "/v1/approvals/{id}", approvals_get, "Show an approval", SCOPE_READ, NOUN,
     .details = "By id, or by subject: the open one, else the newest.", .response = "Approval",
     .errors = E(NOT_FOUND) | E(CONFLICT), .example = ""},
    {"POST", "/v1/approvals/{id}", approvals_decide, "Approve or reject", SCOPE_APPROVE, NOUN,
     .details = "By id only. The scope `approve` is never implied by another one. `subject`, and `digest` if it is given, must be those of the approval: they say what the person saw. The first decision is final; a later one is refused with the name of the person and the time.",
     .request = V1_NEEDS(JSON(["approved", "subject"]),
        JSON("approved": {"type": "boolean"}) ","
        JSON("subject": {"type": "string", "minLength": 1, "maxLength": 200}) ","
        JSON("digest": {"type": "string", "minLength": 1, "maxLength": 128}) ","
        JSON("note": {"type": "string", "maxLength": 4096, "description": "For the requester"})),
     .response = "Approval", .errors = E(NOT_FOUND) | E(CONFLICT) | E(UNSUPPORTED),
     .example = "-d '{\"approved\": false, \"subject\": \"deploy-42\", \"note\": \"not on a Friday\"}'"},
    {"POST", "/v1/approvals/{id}/use", approvals_use, "Use an approval", SCOPE_RUN, NOUN,
     .details = "Only for the kind custom: marks the approval as used. Exactly one call succeeds.",
     .request = V1_BODY(JSON("digest": {"type": "string", "minLength": 1, "maxLength": 128,
        "description": "Must be that of the approval"})),
     .response = "Approval", .errors = E(NOT_FOUND) | E(CONFLICT), .example = NULL},
    {"DELETE", "/v1/approvals/{id}", approvals_withdraw, "Withdraw a request", SCOPE_RUN, NOUN,
     .details = "Only for the kind custom: withdraws the request. The approval becomes void and stays listed.",
     .response = "Approval", .errors = E(NOT_FOUND) | E(CONFLICT), .example = NULL},
    {0},
};
/* clang-format on */
