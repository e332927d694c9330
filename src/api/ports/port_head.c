#include "api/ports/port_head.h"

/* About one connection, or about the framing of the body, which each side does itself. */
static const char *const hops[] = {
    "Connection",
    "Keep-Alive",
    "Proxy-Connection",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "Expect",
    "Content-Length",
};

/* Set by us, whatever the client says: the application may rely on them. */
static const char *const ours[] = {
    "Host",      "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix",
    "Forwarded", "X-Real-IP",       "X-Request-Id",     PORT_HEADER,
};

/* By path an application shares its origin with the API and with other sandboxes: what would tell
 * the browser something about that origin stays here. */
static const char *const of_origin[] = {
    "Set-Cookie",
    "Set-Cookie2",
    "Clear-Site-Data",
    "Strict-Transport-Security",
    "Alt-Svc",
    "Service-Worker-Allowed",
    "NEL",
    "Report-To",
    "Reporting-Endpoints",
    "Origin-Agent-Cluster",
};

/* Scripts run, but without allow-same-origin the page has an opaque origin. */
#define SANDBOX "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"

static bool is_one_of(struct str name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(name, str_of(list[i])))
            return true;
    return false;
}
#define IS_ONE_OF(name, list) is_one_of(name, list, countof(list))

/* Applications that get headers as variables (CGI, WSGI) read X_Forwarded_For as if it were ours.
 */
static bool port_head_is_ours(struct arena *arena, struct str name)
{
    char *spelled = arena_alloc(arena, name.len + 1);
    for (size_t i = 0; i < name.len; i++)
        spelled[i] = name.ptr[i];
    for (size_t i = 0; i < name.len; i++)
        if (spelled[i] == '_')
            spelled[i] = '-';
    struct str shown = str_n(spelled, name.len);
    return IS_ONE_OF(shown, hops) || IS_ONE_OF(shown, ours);
}

static bool has_item(struct str list, struct str name)
{
    struct str item;
    while (str_split(&list, ',', &item))
        if (str_eq_nocase(str_trim(item), name))
            return true;
    return false;
}

/* ---- requests ------------------------------------------------------------------------------ */

static bool is_named_hop(const struct request *request, struct str name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (str_eq_nocase(request->headers[i].name, STR("Connection")) &&
            has_item(request->headers[i].value, name))
            return true;
    return false;
}

static struct str cookie_name(struct str pair)
{
    return str_trim(str_slice(pair, 0, str_find_char(pair, '=')));
}

bool port_cookie(const struct request *request, size_t which, struct str *ret_value)
{
    for (size_t i = 0; i < request->header_count; i++) {
        struct str rest = request->headers[i].value, pair;
        if (!str_eq_nocase(request->headers[i].name, STR("Cookie")))
            continue;
        while (str_split(&rest, ';', &pair)) {
            if (!str_eq(cookie_name(pair), STR(PORT_COOKIE)) || which-- > 0)
                continue;
            *ret_value = str_trim(str_slice(pair, str_find_char(pair, '=') + 1, pair.len));
            return true;
        }
    }
    return false;
}

/* A page whose own address had the token tells it with what it asks for. */
static bool has_token(struct str name, struct str value)
{
    return str_eq_nocase(name, STR("Referer")) && str_find(value, STR(PORT_QUERY)) < value.len;
}

static void put_cookies(struct str value, struct buf *out)
{
    struct str pair;
    bool any = false;
    while (str_split(&value, ';', &pair)) {
        if (str_eq(cookie_name(pair), STR(PORT_COOKIE)))
            continue;
        buf_put_cstr(out, any ? "; " : "Cookie: ");
        buf_put(out, str_trim(pair));
        any = true;
    }
    if (any)
        buf_put_cstr(out, "\r\n");
}

void port_put_query(struct str query, struct buf *out)
{
    struct str pair;
    bool any = false;
    while (query.len > 0 && str_split(&query, '&', &pair)) {
        if (str_eq(str_slice(pair, 0, str_find_char(pair, '=')), STR(PORT_QUERY)))
            continue;
        buf_put_char(out, any ? '&' : '?');
        buf_put(out, pair);
        any = true;
    }
}

static void put_header(struct buf *out, const char *name, struct str value)
{
    buf_printf(out, "%s: ", name);
    buf_put(out, value);
    buf_put_cstr(out, "\r\n");
}

static void put_passed(const struct request *request, const struct port_way *way, struct buf *out)
{
    AUTO_ARENA struct arena arena = {0};
    for (size_t i = 0; i < request->header_count; i++) {
        struct str name = request->headers[i].name, value = request->headers[i].value;
        bool is_cookie = str_eq_nocase(name, STR("Cookie"));
        if (port_head_is_ours(&arena, name) || is_named_hop(request, name) ||
            has_token(name, value) ||
            (str_eq_nocase(name, STR("Authorization")) && !way->keeps_auth) ||
            (is_cookie && !request->by_host))
            continue;
        if (is_cookie) {
            put_cookies(value, out);
            continue;
        }
        buf_put(out, name);
        buf_put_cstr(out, ": ");
        buf_put(out, value);
        buf_put_cstr(out, "\r\n");
    }
}

/* By host name the application sees the name that the browser shows, so that what it compares with
 * Origin fits; by path that name is the API's, and no concern of the application. */
static void put_own(const struct request *request, const struct port_way *way, struct buf *out)
{
    struct str host = request_header(request, "Host");
    if (request->by_host)
        put_header(out, "Host", host);
    else
        buf_printf(out, "Host: localhost:%u\r\n", way->port);
    put_header(out, "X-Forwarded-Host", host);
    put_header(out, "X-Forwarded-Proto", way->is_https ? STR("https") : STR("http"));
    if (way->peer[0] != '\0')
        put_header(out, "X-Forwarded-For", str_of(way->peer));
    if (!request->by_host)
        put_header(out, "X-Forwarded-Prefix", way->prefix);
    put_header(out, "X-Request-Id", str_of(request->id));
}

void port_put_request(const struct request *request, const struct port_way *way, struct buf *out)
{
    struct str length = request_header(request, "Content-Length");
    buf_put(out, request->method);
    buf_put_char(out, ' ');
    buf_put(out, way->path);
    port_put_query(request->query, out);
    buf_put_cstr(out, " HTTP/1.1\r\n");
    put_own(request, way, out);
    put_passed(request, way, out);
    if (way->is_chunked)
        buf_put_cstr(out, "Transfer-Encoding: chunked\r\n");
    else if (length.len > 0)
        put_header(out, "Content-Length", length);
    buf_put_cstr(out, way->is_upgrade ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                                      : "Connection: close\r\n\r\n");
}

/* ---- answers ------------------------------------------------------------------------------- */

static bool is_named_by_answer(const struct upstream *upstream, struct str name)
{
    for (size_t i = 0; i < upstream->header_count; i++)
        if (str_eq_nocase(upstream->headers[i].name, STR("Connection")) &&
            has_item(upstream->headers[i].value, name))
            return true;
    return false;
}

/* A cookie for the whole domain would reach every other sandbox: it becomes one for this host. */
static struct str own_cookie(struct arena *arena, struct str value)
{
    AUTO_BUF struct buf out = {0};
    struct str part;
    while (str_split(&value, ';', &part)) {
        if (out.len > 0 && str_eq_nocase(cookie_name(part), STR("Domain")))
            continue;
        if (out.len > 0)
            buf_put_cstr(&out, "; ");
        buf_put(&out, str_trim(part));
    }
    return arena_dup(arena, buf_str(&out));
}

/* A place on the server inside becomes one below our prefix. */
static struct str own_location(struct arena *arena, struct str value, const struct port_way *way)
{
    char own[64];
    (void)snprintf(own, sizeof own, "http://localhost:%u/", way->port);
    struct str path = value;
    if (str_starts(value, str_of(own)))
        path = str_slice(value, strlen(own) - 1, value.len);
    if (path.len == 0 || path.ptr[0] != '/' || str_starts(path, STR("//")))
        return value;
    return arena_printf(arena, "%.*s%.*s", STR_ARG(way->prefix), STR_ARG(path));
}

static bool is_dropped(const struct request *request, const struct upstream *upstream,
                       struct str name)
{
    return IS_ONE_OF(name, hops) || str_eq_nocase(name, STR("X-Request-Id")) ||
           is_named_by_answer(upstream, name) || (!request->by_host && IS_ONE_OF(name, of_origin));
}

struct request_header *port_answer_headers(struct request *request, const struct upstream *upstream,
                                           const struct port_way *way, size_t *ret_count)
{
    struct arena *arena = &request->arena;
    struct request_header *headers =
        arena_array(arena, struct request_header, upstream->header_count + 1);
    size_t count = 0;
    for (size_t i = 0; i < upstream->header_count; i++) {
        const struct upstream_header *header = &upstream->headers[i];
        struct str value = header->value;
        if (value.len == 0 || is_dropped(request, upstream, header->name))
            continue;
        if (request->by_host && str_eq_nocase(header->name, STR("Set-Cookie")))
            value = own_cookie(arena, value);
        if (!request->by_host && (str_eq_nocase(header->name, STR("Location")) ||
                                  str_eq_nocase(header->name, STR("Content-Location"))))
            value = own_location(arena, value, way);
        headers[count++] =
            (struct request_header){arena_dup(arena, header->name), arena_dup(arena, value)};
    }
    if (!request->by_host)
        headers[count++] = (struct request_header){STR("Content-Security-Policy"), STR(SANDBOX)};
    *ret_count = count;
    return headers;
}
