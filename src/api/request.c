#include "api/request.h"

#include "api/guard.h"
#include "api/http.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json.h"
#include "base/log.h"

struct str request_header(const struct request *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (str_eq_nocase(request->headers[i].name, str_of(name)))
            return request->headers[i].value;
    return (struct str){0};
}

static size_t count_headers(const struct request *request, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < request->header_count; i++)
        count += str_eq_nocase(request->headers[i].name, str_of(name));
    return count;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static struct str decode(struct arena *arena, struct str raw)
{
    char *out = arena_alloc(arena, raw.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.ptr[i] == '+' ? ' ' : raw.ptr[i];
        if (c == '%' && i + 2 < raw.len) {
            int high = hex_digit(raw.ptr[i + 1]), low = hex_digit(raw.ptr[i + 2]);
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
        *ret_value = decode(&request->arena, str_slice(pair, equals + 1, pair.len));
        return true;
    }
    return false;
}

struct str request_param(const struct request *request, const char *name)
{
    return route_param(&request->match, name);
}

int request_json(const struct request *request, struct json_t **ret_value, struct err *err)
{
    struct str type = request_header(request, "Content-Type");
    type = str_trim(str_slice(type, 0, str_find_char(type, ';')));
    if (!str_eq_nocase(type, STR("application/json")))
        return err_set(err, ERR_MEDIA_TYPE, "send the body with Content-Type: application/json");
    return json_parse(buf_str(&request->body), ret_value, err);
}

void request_hold(struct request *request)
{
    assert(!request->has_reply && !request->is_held);
    request->is_held = true;
}

void reply_header(struct request *request, const char *name, struct str value)
{
    assert(request->reply_header_count < REPLY_HEADERS_MAX && !request->has_reply);
    request->reply_headers[request->reply_header_count++] =
        (struct request_header){str_of(name), arena_dup(&request->arena, value)};
}

void reply_body(struct request *request, int status, const char *content_type, struct buf *body)
{
    assert(!request->has_reply);
    request->has_reply = true;
    request->status = status;
    request->content_type = content_type;
    request->reply = *body;
    *body = (struct buf){0};
    if (request->is_held)
        http_resume(request);
}

void reply_json(struct request *request, int status, struct buf *json)
{
    reply_body(request, status, "application/json", json);
}

void reply_text(struct request *request, int status, const char *text)
{
    struct buf body = {0};
    buf_put_cstr(&body, text);
    reply_body(request, status, "text/plain; charset=utf-8", &body);
}

void error_body(struct buf *out, const char *code, const char *message, const char *request_id)
{
    struct json_out json = {.buf = out};
    json_begin_object(&json);
    json_key(&json, "error");
    json_begin_object(&json);
    json_key(&json, "code"), json_put_cstr(&json, code);
    json_key(&json, "message"), json_put_cstr(&json, message);
    json_key(&json, "requestId"), json_put_cstr(&json, request_id);
    json_end_object(&json);
    json_end_object(&json);
    buf_put_char(out, '\n');
}

void reply_error(struct request *request, const struct err *err)
{
    struct buf body = {0};
    error_body(&body, err_wire_name(err->code), err->msg, request->id);
    reply_json(request, err_http_status(err->code), &body);
}

static bool is_request_id(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && c != '-' && c != '_' && c != '.')
            return false;
    }
    return s.len > 0 && s.len <= REQUEST_ID_MAX;
}

static void choose_id(struct request *request)
{
    struct str given = request_header(request, "X-Request-Id");
    if (is_request_id(given))
        (void)snprintf(request->id, sizeof request->id, "%.*s", STR_ARG(given));
    else
        id_new(request->id);
    log_set_request_id(str_of(request->id));
}

static bool is_listed(const char *const *list, struct str value)
{
    for (; list != NULL && *list != NULL; list++)
        if (str_eq_nocase(str_of(*list), value))
            return true;
    return false;
}

/* A page that resolves its own name to our address sends its own name in Host. */
static bool check_host(struct request *request, const struct request_rules *rules)
{
    struct err err;
    struct str host = request_header(request, "Host");
    if (is_listed(rules->hosts, host))
        return true;
    (void)err_set(&err, ERR_MISDIRECTED,
                  "this server is not '%.*s'; use the address it printed at start, or name it with "
                  "--name",
                  STR_ARG(str_slice(host, 0, 100)));
    reply_error(request, &err);
    return false;
}

static bool check_origin(struct request *request, const struct request_rules *rules)
{
    struct err err;
    size_t count = count_headers(request, "Origin");
    struct str origin = request_header(request, "Origin");
    if (count == 0 || (count == 1 && is_listed(rules->origins, origin)))
        return true;
    (void)err_set(&err, ERR_FORBIDDEN, "pages of '%.*s' may not use this server",
                  STR_ARG(str_slice(origin, 0, 100)));
    reply_error(request, &err);
    return false;
}

static void refuse_token(struct request *request, const struct request_rules *rules)
{
    struct err err;
    int64_t wait_s =
        rules->guard == NULL ? 0 : guard_fail(rules->guard, request->peer, clock_now_ms());
    if (wait_s > 0) {
        (void)err_set(&err, ERR_LIMIT,
                      "too many wrong tokens from this address; send the right one");
        reply_header(request, "Retry-After",
                     arena_printf(&request->arena, "%lld", (long long)wait_s));
    } else {
        (void)err_set(&err, ERR_UNAUTHORIZED,
                      "send the token: -H \"Authorization: Bearer $(cat TOKEN_FILE)\"");
        reply_header(request, "WWW-Authenticate", STR("Bearer"));
    }
    reply_error(request, &err);
}

static bool check_token(struct request *request, const struct request_rules *rules)
{
    struct err err;
    if (count_headers(request, "Authorization") > 1) {
        (void)err_set(&err, ERR_INVALID, "Authorization comes twice");
        reply_error(request, &err);
        return false;
    }
    struct str given = request_header(request, "Authorization");
    struct str scheme = str_slice(given, 0, 7);
    if (str_eq_nocase(scheme, STR("Bearer ")) &&
        rules->check_token(rules->ctx, str_slice(given, 7, given.len)))
        return true;
    refuse_token(request, rules);
    return false;
}

static bool check_route(struct request *request, const struct request_rules *rules)
{
    struct err err;
    route_find(rules->routes, request->method, request->path, &request->match);
    if (request->match.route != NULL)
        return true;
    if (request->match.path_known) {
        reply_header(request, "Allow", str_of(request->match.allow));
        if (str_eq(request->method, STR("OPTIONS"))) {
            reply_body(request, 204, NULL, &(struct buf){0});
            return false;
        }
        (void)err_set(&err, ERR_METHOD, "%.*s is not allowed on '%.*s'; allowed are %s",
                      STR_ARG(request->method), STR_ARG(str_slice(request->path, 0, 100)),
                      request->match.allow);
    } else {
        (void)err_set(&err, ERR_NOT_FOUND, "there is no '%.*s'",
                      STR_ARG(str_slice(request->path, 0, 100)));
    }
    reply_error(request, &err);
    return false;
}

static bool check_body_size(struct request *request)
{
    struct err err;
    size_t max = request->match.route->body_max;
    max = max == 0 ? ROUTE_BODY_MAX : max;
    request->body = buf_with_limit(max);
    struct str length = request_header(request, "Content-Length");
    int64_t n;
    if (length.len == 0 || str_to_i64(str_trim(length), 0, (int64_t)max, &n))
        return true;
    (void)err_set(&err, ERR_TOO_LARGE, "the body has %.*s bytes; at most %zu are taken",
                  STR_ARG(str_slice(length, 0, 20)), max);
    reply_error(request, &err);
    return false;
}

static bool check_draining(struct request *request, const struct request_rules *rules)
{
    struct err err;
    if (!rules->is_draining)
        return true;
    request->must_close = true;
    (void)err_set(&err, ERR_UNAVAILABLE, "the server is stopping");
    reply_header(request, "Retry-After", STR("1"));
    reply_error(request, &err);
    return false;
}

void request_begin(struct request *request, const struct request_rules *rules)
{
    choose_id(request);
    size_t mark = str_find_char(request->target, '?');
    request->path = str_slice(request->target, 0, mark);
    request->query = str_slice(request->target, mark + 1, request->target.len);
    /* Who may ask comes before what is there: a stranger learns nothing from the path. */
    if (!check_host(request, rules) || !check_origin(request, rules))
        return;
    struct route_match match;
    route_find(rules->routes, request->method, request->path, &match);
    bool is_open = match.route != NULL && match.route->is_open;
    if (!is_open && (!check_token(request, rules) || !check_draining(request, rules)))
        return;
    if (check_route(request, rules))
        (void)check_body_size(request);
}

void request_dispatch(struct request *request, const struct request_rules *rules)
{
    request->match.route->handle(request, rules->ctx);
    assert(request->has_reply || request->is_held);
}

void request_done(struct request *request)
{
    buf_done(&request->body);
    buf_done(&request->reply);
    arena_done(&request->arena);
}
