/* Who may ask: every check that comes before a handler, in the order in which they are made. */

#include "api/http/guard.h"
#include "api/http/request.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/format/json.h"
#include "base/format/schema.h"
#include "base/id.h"
#include "base/log.h"

static bool is_request_id(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (!char_is_alnum(c) && c != '-' && c != '_' && c != '.')
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
    request_log(request);
}

/* The path may name it; what else names one, the handler or find_sandbox knows. */
static void note_sandbox(struct request *request)
{
    const struct route *route = request->match.route;
    struct str id = request_param(request, "id");
    if (route == NULL || !str_starts(str_of(route->pattern), STR("/v1/sandboxes/{id}")) ||
        !id_is_valid(id))
        return;
    request->sandbox = id;
    request_log(request);
}

static bool is_listed(const char *const *list, struct str value)
{
    for (; list != NULL && *list != NULL; list++)
        if (str_eq_nocase(str_of(*list), value))
            return true;
    return false;
}

/* Also finds the port of a sandbox that Host may name. */
static bool knows_host(struct request *request, const struct request_rules *rules)
{
    struct str host = request_header(request, "Host");
    return is_listed(rules->hosts, host) ||
           (rules->find_port != NULL && rules->find_port(rules->ctx, request, host));
}

/* A page that resolves its own name to our address sends its own name in Host. */
static void refuse_host(struct request *request)
{
    struct err err;
    struct str host = request_header(request, "Host");
    (void)err_set(&err, ERR_MISDIRECTED,
                  "this server does not accept the host name '%.*s'; use the address it printed at "
                  "start, or add the name with --name",
                  STR_ARG(str_slice(host, 0, 100)));
    reply_error(request, &err);
}

bool request_check_origin(struct request *request, const struct request_rules *rules)
{
    struct err err;
    size_t count = request_count_headers(request, "Origin");
    struct str origin = request_header(request, "Origin");
    if (count == 0 || (count == 1 && is_listed(rules->origins, origin)))
        return true;
    if (count == 1 && is_listed(rules->cors_origins, origin)) {
        request->is_cors = true;
        reply_header(request, "Access-Control-Allow-Origin", origin);
        reply_header(request, "Access-Control-Expose-Headers",
                     STR("X-Request-Id, ETag, Content-Range, Retry-After"));
        reply_header(request, "Vary", STR("Origin"));
        return true;
    }
    (void)err_set(&err, ERR_FORBIDDEN,
                  "pages of the origin '%.*s' may not use this server; see server.cors_origins",
                  STR_ARG(str_slice(origin, 0, 100)));
    reply_error(request, &err);
    return false;
}

static void refuse_caller(struct request *request, const struct err *why)
{
    reply_header(request, "WWW-Authenticate", STR("Bearer"));
    reply_error(request, why);
}

/* What may have been a guess counts. */
static void refuse_guess(struct request *request, const struct request_rules *rules,
                         const struct err *why)
{
    struct err err;
    int64_t wait_s =
        rules->guard == NULL ? 0 : guard_fail(rules->guard, request->peer, clock_now_ms());
    if (wait_s <= 0) {
        refuse_caller(request, why);
        return;
    }
    (void)err_set(&err, ERR_LIMIT, "too many wrong tokens from this address; send the right one");
    reply_header(request, "Retry-After", arena_printf(&request->arena, "%lld", (long long)wait_s));
    reply_error(request, &err);
}

void request_refuse_token(struct request *request, const struct request_rules *rules)
{
    struct err err;
    (void)err_set(&err, ERR_UNAUTHORIZED,
                  "send the token: -H \"Authorization: Bearer $(cat TOKEN_FILE)\"");
    refuse_guess(request, rules, &err);
}

/* A browser asks this before it sends a page's request; it carries no token. */
static bool is_preflight(const struct request *request)
{
    return request->is_cors && str_eq(request->method, STR("OPTIONS")) &&
           request_header(request, "Access-Control-Request-Method").len > 0;
}

static void answer_preflight(struct request *request)
{
    reply_header(request, "Access-Control-Allow-Methods",
                 STR("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    reply_header(request, "Access-Control-Allow-Headers",
                 STR("Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, "
                     "Last-Event-ID, Range, X-Request-Id"));
    reply_header(request, "Access-Control-Max-Age", STR("600"));
    reply_empty(request, 204);
}

static bool check_token(struct request *request, const struct request_rules *rules)
{
    struct err err;
    if (request_count_headers(request, "Authorization") > 1) {
        (void)err_set(&err, ERR_INVALID, "duplicate Authorization header");
        reply_error(request, &err);
        return false;
    }
    struct str given = request_header(request, "Authorization");
    struct str scheme = str_slice(given, 0, 7);
    if (str_eq_nocase(scheme, STR("Bearer ")) &&
        rules->check_token(rules->ctx, str_slice(given, 7, given.len), &request->caller))
        return true;
    enum sign_found found =
        given.len > 0 || rules->check_signature == NULL
            ? SIGN_NONE
            : rules->check_signature(rules->ctx, request, &request->caller, &err);
    if (found == SIGN_WRONG)
        refuse_guess(request, rules, &err);
    else if (found == SIGN_EXPIRED)
        refuse_caller(request, &err);
    else if (found == SIGN_NONE)
        request_refuse_token(request, rules);
    return found == SIGN_GOOD;
}

static bool check_rate(struct request *request, const struct request_rules *rules)
{
    struct err err;
    int64_t wait_s =
        rules->check_rate == NULL ? 0 : rules->check_rate(rules->ctx, &request->caller);
    if (wait_s <= 0)
        return true;
    (void)err_set(&err, ERR_LIMIT, "too many requests with this token; wait %lld s",
                  (long long)wait_s);
    reply_header(request, "Retry-After", arena_printf(&request->arena, "%lld", (long long)wait_s));
    reply_error(request, &err);
    return false;
}

static bool check_scope(struct request *request)
{
    struct err err;
    enum route_scope scope = request->match.route->scope;
    if (scope == SCOPE_OPEN || (request->caller.scopes & SCOPE_BIT(scope)) != 0)
        return true;
    (void)err_set(&err, ERR_FORBIDDEN,
                  "this token lacks the scope '%s'; create one that has it with 'sandglass token "
                  "create --scope %s'",
                  scope_name(scope), scope_name(scope));
    reply_error(request, &err);
    return false;
}

static bool admit_find_named(struct request *request, const struct request_rules *rules)
{
    return request->match.param_count == 0 || rules->find_named == NULL ||
           rules->find_named(rules->ctx, request);
}

static int check_param(struct request *request, const struct route_query *known, struct err *err)
{
    struct str text = {0};
    AUTO_JSON struct json_t *schema = NULL;
    AUTO_JSON struct json_t *value = NULL;
    struct str type = {0};
    if (json_parse(str_of(known->schema), &schema, err) < 0)
        return -1;
    (void)request_query(request, known->name, &text);
    (void)!json_to_str(json_get(schema, "type"), &type);
    if (str_eq(type, STR("boolean")) && (text.len == 0 || str_eq(text, STR("1"))))
        return 0;
    AUTO_BUF struct buf quoted = {0};
    struct json_out out = {.buf = &quoted};
    bool is_text = str_eq(type, STR("string"));
    if (!is_text && json_parse(text, &value, err) == 0)
        return schema_check(schema, value, known->name, err);
    if (!str_is_utf8(text))
        return err_set(err, ERR_INVALID, "%s is not UTF-8", known->name);
    json_put_str(&out, text);
    if (json_parse(buf_str(&quoted), &value, err) < 0)
        return err_wrap(err, "%s", known->name);
    return schema_check(schema, value, known->name, err);
}

static int check_query_item(struct request *request, struct str name, struct err *err)
{
    struct nearest nearest = {.word = name};
    for (const struct route_query *known = request->match.route->query;
         known != NULL && known->name != NULL; known++) {
        if (str_eq(name, str_of(known->name)))
            return check_param(request, known, err);
        nearest_offer(&nearest, str_of(known->name));
    }
    if (nearest.best.len > 0)
        return err_set(err, ERR_INVALID, "unknown query parameter '%.*s'; did you mean '%.*s'?",
                       STR_ARG(str_slice(name, 0, 40)), STR_ARG(nearest.best));
    return err_set(err, ERR_INVALID, "unknown query parameter '%.*s'",
                   STR_ARG(str_slice(name, 0, 40)));
}

static bool check_query(struct request *request)
{
    struct err err;
    struct str rest = request->query, pair;
    if (request->match.route->takes == FORM_PROXY)
        return true;
    while (str_split(&rest, '&', &pair)) {
        struct str name = str_slice(pair, 0, str_find_char(pair, '='));
        if (name.len == 0 || check_query_item(request, name, &err) == 0)
            continue;
        reply_error_at(request, &err, name);
        return false;
    }
    return true;
}

static bool check_route(struct request *request)
{
    struct err err;
    if (request->match.route != NULL)
        return true;
    if (request->match.path_known) {
        reply_header(request, "Allow", str_of(request->match.allow));
        if (str_eq(request->method, STR("OPTIONS"))) {
            reply_empty(request, 204);
            return false;
        }
        (void)err_set(&err, ERR_METHOD, "method %.*s is not allowed on '%.*s'; allowed: %s",
                      STR_ARG(request->method), STR_ARG(str_slice(request->path, 0, 100)),
                      request->match.allow);
    } else {
        (void)err_set(&err, ERR_NOT_FOUND, "no route '%.*s'",
                      STR_ARG(str_slice(request->path, 0, 100)));
    }
    reply_error(request, &err);
    return false;
}

static bool check_body_size(struct request *request)
{
    struct err err;
    const struct route *route = request->match.route;
    size_t max = route->body_max;
    if (max == 0 && route_streams(route))
        return true;
    max = max == 0 ? ROUTE_BODY_MAX : max;
    request->body = buf_with_limit(max);
    struct str length = request_header(request, "Content-Length");
    int64_t n;
    if (length.len == 0 || str_to_i64(str_trim(length), 0, (int64_t)max, &n))
        return true;
    (void)err_set(&err, ERR_TOO_LARGE, "the body has %.*s bytes; at most %zu are accepted",
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
    request->rules = rules;
    size_t mark = str_find_char(request->target, '?');
    request->path = str_slice(request->target, 0, mark);
    request->query = str_slice(request->target, mark + 1, request->target.len);
    struct route_match *match = &request->match;
    bool is_ours = knows_host(request, rules);
    route_find(rules->routes, request->method, request->path, match);
    /* Access is checked before the path, so that an unknown client learns nothing from it. Only
     * probes of liveness may come by any name: a load balancer uses the address. */
    bool is_open = match->route != NULL && match->route->scope == SCOPE_OPEN;
    if (!is_ours && !is_open) {
        refuse_host(request);
        return;
    }
    note_sandbox(request);
    if (match->route != NULL && match->route->takes == FORM_PROXY) {
        /* The applications behind have origins and preflights of their own. */
        if (rules->check_port(rules->ctx, request) && check_draining(request, rules) &&
            check_rate(request, rules))
            (void)check_scope(request);
        return;
    }
    if (!request_check_origin(request, rules))
        return;
    if (is_preflight(request)) {
        answer_preflight(request);
        return;
    }
    if (!is_open && (!check_token(request, rules) || !check_draining(request, rules) ||
                     !check_rate(request, rules)))
        return;
    if (check_route(request) && check_scope(request) && admit_find_named(request, rules) &&
        check_query(request))
        (void)check_body_size(request);
}
