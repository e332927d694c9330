/* /v1/tokens: who may use the server, and for what. */

#include "api/v1/v1.h"
#include "base/clock.h"

/* The table's scopes and the engine's are one list, written down once each. */
static const struct {
    enum route_scope ours;
    unsigned theirs;
} scopes[] = {
    {SCOPE_READ, TOKEN_READ},   {SCOPE_RUN, TOKEN_RUN},         {SCOPE_FILES, TOKEN_FILES},
    {SCOPE_ADMIN, TOKEN_ADMIN}, {SCOPE_APPROVE, TOKEN_APPROVE},
};

uint32_t v1_scopes_of_token(unsigned token_scopes)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < countof(scopes); i++)
        if ((token_scopes & scopes[i].theirs) != 0)
            bits |= SCOPE_BIT(scopes[i].ours);
    return bits;
}

static void put_token(struct json_out *out, const struct token_info *token, const char *secret)
{
    json_begin_object(out);
    json_key(out, "id"), json_put_str(out, token->id);
    v1_put_str(out, "name", token->name);
    json_key(out, "tenant"), json_put_str(out, token->tenant);
    json_key(out, "scopes");
    json_begin_array(out);
    for (size_t i = 0; i < countof(scopes); i++)
        if ((token->scopes & scopes[i].theirs) != 0)
            json_put_cstr(out, scope_name(scopes[i].ours));
    json_end_array(out);
    v1_put_date(out, "createdAt", token->created_ms);
    v1_put_date(out, "expiresAt", token->expires_ms);
    json_key(out, "ratePerMinute"), json_put_i64(out, token->rate_per_minute);
    json_key(out, "quota");
    json_begin_object(out);
    json_key(out, "sandboxes"), json_put_i64(out, token->quota.sandboxes);
    json_key(out, "memoryMb"), json_put_i64(out, token->quota.memory_bytes >> 20);
    json_key(out, "diskMb"), json_put_i64(out, token->quota.disk_bytes >> 20);
    json_end_object(out);
    if (secret != NULL)
        json_key(out, "token"), json_put_cstr(out, secret);
    json_end_object(out);
}

static void put_listed(struct json_out *out, const void *thing)
{
    put_token(out, thing, NULL);
}

static void on_created(void *ctx, const struct token_info *token, const char *secret,
                       const struct err *why)
{
    struct request *request = ctx;
    struct v1_answer answer;
    if (why != NULL) {
        reply_error(request, why);
        return;
    }
    put_token(v1_begin(&answer), token, secret);
    v1_reply(request, 201, &answer);
}

static unsigned read_scopes(const struct json_t *list)
{
    unsigned bits = 0;
    for (size_t i = 0; list != NULL && i < json_len(list); i++) {
        struct str name = {0};
        enum route_scope scope;
        (void)!json_to_str(json_at(list, i), &name);
        if (!scope_of_name(name, &scope))
            continue;
        for (size_t k = 0; k < countof(scopes); k++)
            bits |= scopes[k].ours == scope ? scopes[k].theirs : 0;
    }
    return bits;
}

/* `admin` does not lead to `approve`: else a token without it could make one that has it. */
static bool may_grant(struct request *request, unsigned wanted)
{
    struct err err;
    if ((wanted & TOKEN_APPROVE) == 0 || request_caller(request).may_approve)
        return true;
    (void)err_set(&err, ERR_FORBIDDEN,
                  "scopes: only a token that has the scope 'approve' may give it to another");
    reply_error_at(request, &err, STR("scopes"));
    return false;
}

static void tokens_create(struct request *request, void *ctx)
{
    struct api *api = ctx;
    const struct json_t *quota = json_get(request->json, "quota");
    struct str tenant = request_str(request, "tenant");
    int64_t seconds = request_int(request, "expiresSeconds", 0);
    struct token_spec spec = {
        .tenant = tenant.len > 0 ? tenant : str_of(request->caller.tenant),
        .name = request_str(request, "name"),
        .scopes = read_scopes(json_get(request->json, "scopes")),
        .expires_ms = seconds == 0 ? 0 : clock_date_ms() + seconds * 1000,
        .rate_per_minute = request_int(request, "ratePerMinute", 0),
        .quota = {.sandboxes = v1_int(quota, "sandboxes", 0),
                  .memory_bytes = v1_int(quota, "memoryMb", 0) << 20,
                  .disk_bytes = v1_int(quota, "diskMb", 0) << 20},
    };
    if (!may_grant(request, spec.scopes))
        return;
    request_hold(request);
    engine_token_create(api->engine, &spec, on_created, request);
}

static void list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct token_info *tokens;
    size_t count;
    if (engine_token_list(api->engine, &request->arena, &tokens, &count, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    v1_reply_rows(request, "tokens",
                  &(struct v1_rows){put_listed, tokens, count, sizeof *tokens, NULL});
}

static void tokens_remove_it(struct request *request, void *ctx)
{
    struct api *api = ctx;
    request_hold(request);
    engine_token_delete(api->engine, request_param(request, "id"), v1_done, request);
}

/* clang-format off */
#define NOUN "tokens"

const struct route v1_token_routes[] = {
    {"POST", "/v1/tokens", tokens_create, "Create a token", SCOPE_ADMIN, NOUN,
     .details = "Only this response contains the token itself; the server stores its digest. A token sees only the objects of its tenant: those of others are not found. The scope `approve` can be given only by a token that has it.",
     .request = V1_NEEDS(JSON(["scopes"]),
        JSON("scopes": {"type": "array", "minItems": 1, "maxItems": 5, "items": {"type": "string",
            "enum": ["read", "run", "files", "admin", "approve"]}}) ","
        JSON("name": {"type": "string", "maxLength": 64}) ","
        JSON("tenant": {"type": "string", "minLength": 1, "maxLength": 64,
            "description": "Default: the tenant of the token of this request"}) ","
        JSON("expiresSeconds": {"type": "integer", "minimum": 1, "maximum": 315360000}) ","
        JSON("ratePerMinute": {"type": "integer", "minimum": 0, "maximum": 60000000}) ","
        JSON("quota": {"type": "object", "additionalProperties": false, "properties": {
            "sandboxes": {"type": "integer", "minimum": 0, "maximum": 1000000},
            "memoryMb": {"type": "integer", "minimum": 0, "maximum": 1073741824},
            "diskMb": {"type": "integer", "minimum": 0, "maximum": 1073741824}}})),
     .response = "NewToken", .status = 201, .errors = E(CONFLICT),
     .example = "-d '{\"name\": \"ci\", \"scopes\": [\"read\", \"run\"]}'"},
    {"GET", "/v1/tokens", list, "List tokens", SCOPE_ADMIN, NOUN, .response = "TokenList",
     .example = ""},
    {"DELETE", "/v1/tokens/{id}", tokens_remove_it, "Revoke a token", SCOPE_ADMIN, NOUN,
     .gives = FORM_NONE, .status = 204, .errors = E(NOT_FOUND) | E(CONFLICT), .example = ""},
    {0},
};
/* clang-format on */
