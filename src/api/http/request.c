#include "api/http/request.h"

#include "api/http/error_path.h"
#include "api/http/flow.h"
#include "api/http/gzip.h"
#include "api/http/http.h"
#include "base/crypto/hash.h"
#include "base/err.h"
#include "base/format/json.h"
#include "base/format/schema.h"
#include "base/log.h"

struct str request_header(const struct request *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (str_eq_nocase(request->headers[i].name, str_of(name)))
            return request->headers[i].value;
    return (struct str){0};
}

void request_put_origin(const struct request *request, struct buf *out)
{
    struct str host = request_header(request, "Host");
    bool is_https = request->is_tls ||
                    str_eq_nocase(request_header(request, "X-Forwarded-Proto"), STR("https"));
    buf_printf(out, "%s://%.*s", is_https ? "https" : "http", STR_ARG(host));
}

size_t request_count_headers(const struct request *request, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < request->header_count; i++)
        count += str_eq_nocase(request->headers[i].name, str_of(name));
    return count;
}

/* "gzip;q=0" refuses what it names. */
static bool is_refused(struct str params)
{
    struct str param;
    while (str_split(&params, ';', &param)) {
        double q = 1;
        param = str_trim(param);
        if (str_starts(param, STR("q=")) && str_to_f64(str_slice(param, 2, param.len), &q) &&
            q <= 0)
            return true;
    }
    return false;
}

bool request_accepts(const struct request *request, const char *header, const char *what)
{
    struct str rest = request_header(request, header), item;
    while (str_split(&rest, ',', &item)) {
        size_t end = str_find_char(item, ';');
        if (str_eq_nocase(str_trim(str_slice(item, 0, end)), str_of(what)))
            return !is_refused(str_slice(item, end + 1, item.len));
    }
    return false;
}

static struct str decode(struct arena *arena, struct str raw, bool plus_is_blank)
{
    char *out = arena_alloc(arena, raw.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.ptr[i] == '+' && plus_is_blank ? ' ' : raw.ptr[i];
        if (c == '%' && i + 2 < raw.len) {
            int high = char_hex(raw.ptr[i + 1]), low = char_hex(raw.ptr[i + 2]);
            if (high >= 0 && low >= 0) {
                c = (char)(high * 16 + low);
                i += 2;
            }
        }
        out[len++] = c;
    }
    return str_n(out, len);
}

bool request_query(struct request *request, const char *name, struct str *ret_value)
{
    struct str rest = request->query, pair;
    while (str_split(&rest, '&', &pair)) {
        size_t equals = str_find_char(pair, '=');
        if (!str_eq(str_slice(pair, 0, equals), str_of(name)))
            continue;
        *ret_value = decode(&request->arena, str_slice(pair, equals + 1, pair.len), true);
        return true;
    }
    return false;
}

/* Read as JSON, like check_param in admit.c reads it: a value that passed the schema must not be
 * taken for absent here. */
int64_t request_query_int(struct request *request, const char *name, int64_t fallback)
{
    struct str text;
    struct err err;
    int64_t n;
    AUTO_JSON struct json_t *value = NULL;
    if (request_query(request, name, &text) && json_parse(text, &value, &err) == 0 &&
        json_to_i64(value, &n))
        return n;
    return fallback;
}

bool request_query_bool(struct request *request, const char *name)
{
    struct str text;
    struct err err;
    bool flag = false;
    AUTO_JSON struct json_t *value = NULL;
    if (!request_query(request, name, &text))
        return false;
    if (text.len == 0 || str_eq(text, STR("1")))
        return true;
    return json_parse(text, &value, &err) == 0 && json_to_bool(value, &flag) && flag;
}

struct str request_param(const struct request *request, const char *name)
{
    return route_param(&request->match, name);
}

void request_param_decode(struct request *request, const char *name)
{
    request_param_set(request, name, decode(&request->arena, request_param(request, name), false));
}

void request_param_set(struct request *request, const char *name, struct str value)
{
    struct route_match *match = &request->match;
    for (size_t i = 0; i < match->param_count; i++)
        if (str_eq(match->params[i].name, str_of(name)))
            match->params[i].value = value;
}

int request_json(const struct request *request, struct json_t **ret_value, struct err *err)
{
    struct str type = request_header(request, "Content-Type");
    type = str_trim(str_slice(type, 0, str_find_char(type, ';')));
    if (!str_eq_nocase(type, STR("application/json")))
        return err_set(err, ERR_MEDIA_TYPE, "send the body with Content-Type: application/json");
    return json_parse(buf_str(&request->body), ret_value, err);
}

struct str request_str(const struct request *request, const char *name)
{
    struct str text = {0};
    if (request->json != NULL)
        (void)!json_to_str(json_get(request->json, name), &text);
    return text;
}

int64_t request_int(const struct request *request, const char *name, int64_t fallback)
{
    int64_t n;
    if (request->json != NULL && json_to_i64(json_get(request->json, name), &n))
        return n;
    return fallback;
}

bool request_bool(const struct request *request, const char *name, bool fallback)
{
    bool flag;
    if (request->json != NULL && json_to_bool(json_get(request->json, name), &flag))
        return flag;
    return fallback;
}

void request_hold(struct request *request)
{
    assert(!request->has_reply && !request->is_held);
    request->is_held = true;
}

void request_on_gone(struct request *request, void (*call)(void *ctx), void *ctx)
{
    request->on_gone = call;
    request->gone_ctx = ctx;
}

void request_on_done(struct request *request, void (*call)(void *ctx), void *ctx)
{
    request->on_done = call;
    request->done_ctx = ctx;
}

void request_take_body(struct request *request, const struct body_sink *sink, void *ctx)
{
    assert(request->sink == NULL && request->stage == STAGE_HEAD);
    request->sink = sink;
    request->sink_ctx = ctx;
    if (request->is_held) {
        request->is_held = false;
        http_resume(request);
    }
}

void request_pause_body(struct request *request)
{
    request->is_paused = true;
}

void request_resume_body(struct request *request)
{
    request->is_paused = false;
    http_resume(request);
}

void reply_header(struct request *request, const char *name, struct str value)
{
    assert(request->reply_header_count < REPLY_HEADERS_MAX && !request->has_reply);
    request->reply_headers[request->reply_header_count++] =
        (struct request_header){str_of(name), arena_dup(&request->arena, value)};
}

static void request_pack(struct request *request, const char *content_type)
{
    struct buf packed = {0};
    if (request->reply.len < GZIP_MIN || !request_accepts(request, "Accept-Encoding", "gzip") ||
        (!str_starts(str_of(content_type), STR("application/json")) &&
         !str_starts(str_of(content_type), STR("text/"))))
        return;
    if (gzip_pack(buf_str(&request->reply), &packed)) {
        buf_done(&request->reply);
        request->reply = packed;
        reply_header(request, "Content-Encoding", STR("gzip"));
        reply_header(request, "Vary", STR("Accept-Encoding"));
    } else {
        buf_done(&packed);
    }
}

void reply_body(struct request *request, int status, const char *content_type, struct buf *body)
{
    assert(!request->has_reply);
    request->status = status;
    request->content_type = content_type;
    request->reply = *body;
    *body = (struct buf){0};
    if (content_type != NULL)
        request_pack(request, content_type);
    request->has_reply = true;
    if (request->is_held || request->stage == STAGE_BODY)
        http_resume(request);
}

void reply_json(struct request *request, int status, struct buf *json)
{
    reply_body(request, status, "application/json", json);
}

void request_concerns(struct request *request, struct str sandbox)
{
    if (request->sandbox.len == 0)
        request->sandbox = arena_dup(&request->arena, sandbox);
}

void request_log(const struct request *request)
{
    struct str none = {0};
    log_set_ids(request == NULL ? none : str_of(request->id),
                request == NULL ? none : request->sandbox);
}

void reply_empty(struct request *request, int status)
{
    reply_body(request, status, NULL, &(struct buf){0});
}

void reply_upgrade(struct request *request, const char *protocol,
                   void (*on_open)(void *ctx, struct request *request, int fd, struct str extra),
                   void *ctx)
{
    reply_header(request, "Upgrade", str_of(protocol));
    request->on_upgrade = on_open;
    request->upgrade_ctx = ctx;
    reply_body(request, 101, NULL, &(struct buf){0});
}

void error_body(struct buf *out, const char *code, const char *message, struct str path,
                const char *request_id)
{
    struct json_out json = {.buf = out};
    json_begin_object(&json);
    json_key(&json, "error");
    json_begin_object(&json);
    json_key(&json, "code"), json_put_cstr(&json, code);
    json_key(&json, "message"), json_put_cstr(&json, message);
    if (path.len > 0)
        json_key(&json, "path"), json_put_str(&json, path);
    json_key(&json, "requestId"), json_put_cstr(&json, request_id);
    json_end_object(&json);
    json_end_object(&json);
    buf_put_char(out, '\n');
}

void reply_error_at(struct request *request, const struct err *err, struct str path)
{
    struct buf body = {0};
    error_body(&body, err_wire_name(err->code), err->msg, path, request->id);
    if (err->code == ERR_LIMIT || err->code == ERR_UNAVAILABLE) {
        bool told = false;
        for (size_t i = 0; i < request->reply_header_count; i++)
            told |= str_eq(request->reply_headers[i].name, STR("Retry-After"));
        if (!told)
            reply_header(request, "Retry-After", STR("1"));
    }
    if (err->code == ERR_INTERNAL)
        log_error("http.internal", LOG_ID("request", str_of(request->id)),
                  LOG_ID("sandbox", request->sandbox), LOG_STR("why", err->msg));
    reply_json(request, err_http_status(err->code), &body);
}

void reply_error(struct request *request, const struct err *err)
{
    const struct route *route = request->match.route;
    struct json_t *schema = route == NULL ? NULL : route->schema;
    reply_error_at(request, err, error_path_of_member(&request->arena, schema, err->msg));
}

static bool check_body(struct request *request)
{
    struct err err;
    const struct route *route = request->match.route;
    if (route->schema == NULL || request->json != NULL)
        return true;
    /* A body that may be left out altogether. */
    if (request->body.len == 0 && json_get(route->schema, "required") == NULL &&
        request_header(request, "Content-Type").len == 0)
        return true;
    if (request_json(request, &request->json, &err) < 0) {
        reply_error(request, &err);
        return false;
    }
    if (schema_check(route->schema, request->json, "", &err) < 0) {
        reply_error_at(request, &err, error_path_of_schema(&request->arena, err.msg));
        return false;
    }
    return true;
}

void request_dispatch(struct request *request, const struct request_rules *rules)
{
    if (!check_body(request))
        return;
    request->match.route->handle(request, rules->ctx);
    assert(request->has_reply || request->is_held || request->sink != NULL);
}

void request_done(struct request *request)
{
    request->flow = flow_free(request->flow);
    if (request->sink != NULL && request->stage != STAGE_WHOLE)
        request->sink->on_abort(request->sink_ctx);
    if (request->on_upgrade != NULL && !request->was_upgraded)
        request->on_upgrade(request->upgrade_ctx, request, -1, (struct str){0});
    if (request->on_done != NULL)
        request->on_done(request->done_ctx);
    request->json = json_free(request->json);
    buf_done(&request->body);
    buf_done(&request->reply);
    arena_done(&request->arena);
}

struct engine_caller request_caller(struct request *request)
{
    const struct caller *caller = &request->caller;
    struct engine_caller result = {
        .tenant = str_of(caller->tenant),
        .is_operator = (caller->scopes & SCOPE_BIT(SCOPE_ADMIN)) != 0,
        .quota = caller->quota,
        .token = str_of(caller->token_id),
        .token_name = str_of(caller->token_name),
        .may_approve = (caller->scopes & SCOPE_BIT(SCOPE_APPROVE)) != 0,
    };
    struct str key = request_header(request, "Idempotency-Key");
    if (key.len > 0 && request->match.route->is_create) {
        char *hex = arena_alloc(&request->arena, HASH_HEX_SIZE);
        hash_sha256_hex(buf_str(&request->body), hex);
        result.request_hash = str_of(hex);
        result.key = key;
        result.key_scope = arena_printf(&request->arena, "%s %.*s", request->match.route->pattern,
                                        STR_ARG(request_param(request, "id")));
    }
    return result;
}
