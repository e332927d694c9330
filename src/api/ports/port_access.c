#include "api/ports/port_access.h"

#include <arpa/inet.h>

#include "api/http/api.h"
#include "api/http/sign.h"
#include "api/ports/port_head.h"
#include "base/clock.h"
#include "base/err.h"
#include "engine/engine.h"

/* ---- names --------------------------------------------------------------------------------- */

static struct str without_port(struct str host)
{
    return str_slice(host, 0, str_find_char(host, ':'));
}

bool port_access_find(const struct api *api, struct request *request, struct str host)
{
    struct str name = without_port(host), domain = str_of(api->domain.name);
    size_t dot = str_find_char(name, '.'), dash = str_find_char(name, '-');
    int64_t port;
    if (domain.len == 0 || dash >= dot ||
        !str_eq_nocase(str_slice(name, dot + 1, name.len), domain) ||
        !str_to_i64(str_slice(name, 0, dash), 1, UINT16_MAX, &port))
        return false;
    char id[ID_SIZE] = "";
    struct str given = str_slice(name, dash + 1, dot);
    if (given.len >= sizeof id)
        return false;
    for (size_t i = 0; i < given.len; i++) /* host names have no case */
        id[i] =
            (char)(given.ptr[i] >= 'A' && given.ptr[i] <= 'Z' ? given.ptr[i] | 0x20 : given.ptr[i]);
    if (!id_is_valid(str_of(id)))
        return false;
    struct str path = str_starts(request->path, STR("/")) ? request->path : STR("/");
    request->path = arena_printf(&request->arena, "/v1/sandboxes/%s/ports/%d%.*s", id, (int)port,
                                 STR_ARG(path));
    request->by_host = true;
    return true;
}

static void put_by_name(const struct api *api, struct str id, uint16_t port, struct buf *out)
{
    int usual = api->domain.is_https ? 443 : 80;
    buf_printf(out, "%s://%u-%.*s.%s", api->domain.is_https ? "https" : "http", port, STR_ARG(id),
               api->domain.name);
    if (api->domain.port != usual)
        buf_printf(out, ":%d", api->domain.port);
    buf_put_char(out, '/');
}

void port_put_path(struct str id, uint16_t port, struct buf *out)
{
    buf_printf(out, "/v1/sandboxes/%.*s/ports/%u/", STR_ARG(id), port);
}

void port_put_url(const struct api *api, const struct request *request, struct str id,
                  uint16_t port, const char *token, struct buf *out)
{
    if (api->domain.name[0] != '\0') {
        put_by_name(api, id, port, out);
    } else {
        request_put_origin(request, out);
        port_put_path(id, port, out);
    }
    if (token != NULL)
        buf_printf(out, "?" PORT_QUERY "=%s", token);
}

static void put_peer(const struct sockaddr *peer, char out[64])
{
    out[0] = '\0';
    if (peer != NULL && peer->sa_family == AF_INET)
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, out,
                        64);
    else if (peer != NULL && peer->sa_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr,
                        out, 64);
}

static int find_way(const struct api *api, struct request *request, struct err *err)
{
    struct port_way *way = arena_new(&request->arena, struct port_way);
    int64_t port;
    *way = (struct port_way){.id = request_param(request, "id"),
                             .is_https =
                                 request->is_tls || (request->by_host && api->domain.is_https)};
    if (!str_to_i64(request_param(request, "port"), 1, UINT16_MAX, &port))
        return err_set(err, ERR_INVALID, "port: must be 1 to 65535");
    size_t slash = request->path.len - request_param(request, "rest").len - 1;
    way->port = (uint16_t)port;
    way->prefix = str_slice(request->path, 0, slash);
    way->path = str_slice(request->path, slash, request->path.len);
    way->is_chunked = request_header(request, "Transfer-Encoding").len > 0;
    way->is_upgrade = request_accepts(request, "Connection", "upgrade") &&
                      request_accepts(request, "Upgrade", "websocket") && !way->is_chunked &&
                      request_header(request, "Content-Length").len == 0;
    put_peer(request->peer, way->peer);
    request->way = way;
    if (str_eq(request->method, STR("TRACE")) || str_eq(request->method, STR("CONNECT")))
        return err_set(err, ERR_METHOD, "%.*s is not forwarded", STR_ARG(request->method));
    return 0;
}

/* ---- tokens -------------------------------------------------------------------------------- */

void port_token(const struct api *api, struct str id, const struct sandbox_port *port,
                int64_t expires_s, char out[PORT_TOKEN_SIZE])
{
    char signature[HASH_HEX_SIZE];
    sign_port(api, id, port->port, str_of(port->key), expires_s, signature);
    (void)snprintf(out, PORT_TOKEN_SIZE, "sgp_%lld_%s", (long long)expires_s, signature);
}

static bool is_good(const struct api *api, struct str id, const struct sandbox_port *port,
                    struct str given)
{
    char right[PORT_TOKEN_SIZE];
    int64_t expires_s;
    struct str rest = str_slice(given, 4, given.len);
    struct str date = str_slice(rest, 0, str_find_char(rest, '_'));
    if (port->key[0] == '\0' || !str_starts(given, STR("sgp_")) ||
        !str_to_i64(date, 0, INT64_MAX / 1000, &expires_s) || expires_s * 1000 < clock_date_ms())
        return false;
    port_token(api, id, port, expires_s, right);
    return given.len == strlen(right) && hash_equal(right, given.ptr, given.len);
}

/* A browser sends cookies also with what pages of other sandboxes make it ask for: they are of the
 * same site. Only what this application's own pages ask for counts, and where a person goes. */
static bool cookie_counts(const struct request *request)
{
    struct str origin = request_header(request, "Origin");
    struct str host = request_header(request, "Host");
    struct str site = request_header(request, "Sec-Fetch-Site");
    if (!request->by_host)
        return false;
    if (origin.len > 0) {
        size_t mark = str_find(origin, STR("://"));
        return request_count_headers(request, "Origin") == 1 && mark < origin.len &&
               str_eq_nocase(str_slice(origin, mark + 3, origin.len), host);
    }
    return site.len == 0 || str_eq(site, STR("same-origin")) || str_eq(site, STR("none")) ||
           (str_eq(request_header(request, "Sec-Fetch-Mode"), STR("navigate")) &&
            str_eq(request_header(request, "Sec-Fetch-Dest"), STR("document")));
}

/* The address with the token in it is not to stay in a browser's history or in a Referer. */
static void go_in(struct request *request, struct str token)
{
    AUTO_BUF struct buf cookie = {0};
    AUTO_BUF struct buf place = {0};
    buf_printf(&cookie, PORT_COOKIE "=%.*s; Path=/; HttpOnly; SameSite=Lax%s", STR_ARG(token),
               request->way->is_https ? "; Secure" : "");
    buf_put(&place, request->way->path);
    /* Two slashes would be the start of another host's address, and browsers take a backslash for
     * one. */
    if (str_starts(request->way->path, STR("//")) || str_starts(request->way->path, STR("/\\")))
        buf_clear(&place), buf_put_char(&place, '/');
    port_put_query(request->query, &place);
    reply_header(request, "Set-Cookie", buf_str(&cookie));
    reply_header(request, "Referrer-Policy", STR("no-referrer"));
    reply_header(request, "Location", buf_str(&place));
    reply_empty(request, 303);
}

static bool has_port_token(const struct api *api, struct request *request,
                           const struct sandbox_port *port)
{
    struct str token = request_header(request, PORT_HEADER);
    struct str id = request->way->id;
    if (token.len > 0)
        return is_good(api, id, port, token);
    if (request_query(request, PORT_QUERY, &token)) {
        bool good = is_good(api, id, port, token);
        if (good && request->by_host && str_eq(request->method, STR("GET")) &&
            request_accepts(request, "Accept", "text/html"))
            go_in(request, token);
        return good;
    }
    for (size_t i = 0; cookie_counts(request) && port_cookie(request, i, &token); i++)
        if (is_good(api, id, port, token))
            return true;
    return false;
}

/* ---- who ----------------------------------------------------------------------------------- */

/* Made by us once, though it may be void now: it is not shown to code in a sandbox. */
static bool looks_like_ours(struct str token)
{
    for (size_t i = 0; i < token.len; i++)
        if (!((token.ptr[i] >= 'a' && token.ptr[i] <= 'z') || char_is_digit(token.ptr[i])))
            return false;
    return token.len == TOKEN_LEN;
}

/* A token of the API opens every port of its tenant, and goes no further than here. */
static bool has_api_token(struct request *request)
{
    const struct request_rules *rules = request->rules;
    struct str given = request_header(request, "Authorization");
    struct str token = str_slice(given, 7, given.len);
    bool is_bearer = str_eq_nocase(str_slice(given, 0, 7), STR("Bearer "));
    bool is_ours = is_bearer && rules->check_token(rules->ctx, token, &request->caller);
    /* By path the header is for us; by host name what is not ours is the application's. */
    request->way->keeps_auth =
        request->by_host && !is_ours && !(is_bearer && looks_like_ours(token));
    return is_ours;
}

static void port_access_become(struct request *request, const char *who, struct str tenant)
{
    request->caller = (struct caller){.scopes = SCOPE_BIT(SCOPE_RUN)};
    (void)snprintf(request->caller.token_id, sizeof request->caller.token_id, "%s", who);
    (void)snprintf(request->caller.tenant, sizeof request->caller.tenant, "%.*s", STR_ARG(tenant));
}

static bool port_access_refuse(struct request *request, const struct err *err)
{
    reply_error(request, err);
    return false;
}

/* The path may name the sandbox: whose it is, a token of the API says. */
static bool port_access_find_named(struct api *api, struct request *request, struct err *err)
{
    struct sandbox_info sandbox;
    struct engine_caller caller = {.tenant = str_of(request->caller.tenant)};
    if (id_is_valid(request->way->id))
        return true;
    if (engine_sandbox_get(api->engine, &caller, request->way->id, &sandbox, err) < 0)
        return false;
    request->way->id = arena_dup(&request->arena, sandbox.id);
    return true;
}

bool port_access_check(struct api *api, struct request *request)
{
    struct err err;
    struct str tenant = {0};
    struct sandbox_port port = {0};
    if (find_way(api, request, &err) < 0)
        return port_access_refuse(request, &err);
    if (request_count_headers(request, "Authorization") > 1) {
        (void)err_set(&err, ERR_INVALID, "duplicate Authorization header");
        return port_access_refuse(request, &err);
    }
    if (has_api_token(request)) {
        if (!port_access_find_named(api, request, &err))
            return port_access_refuse(request, &err);
        return request->by_host || request_check_origin(request, request->rules);
    }
    if (engine_port_find(api->engine, request->way->id, request->way->port, &tenant, &port)) {
        if (port.is_public || has_port_token(api, request, &port)) {
            port_access_become(request, port.is_public ? "public" : "port", tenant);
            return !request->has_reply;
        }
    }
    request_refuse_token(request, request->rules);
    return false;
}
