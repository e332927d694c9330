/* The options of libcurl for a request: one address to connect to, none of libcurl's own
 * defaults. */

#include "io/fetch_internal.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/sys.h"

enum { PIECE = 16 << 10, PIECE_MIN = 1 << 10 };

/* Where it connects. */

static bool is_address(const struct addr *addr, const struct sockaddr *sa)
{
    if (sa->sa_family != addr->sa.any.sa_family)
        return false;
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)sa;
        return v4->sin_port == addr->sa.v4.sin_port &&
               v4->sin_addr.s_addr == addr->sa.v4.sin_addr.s_addr;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)sa;
    return v6->sin6_port == addr->sa.v6.sin6_port &&
           memcmp(&v6->sin6_addr, &addr->sa.v6.sin6_addr, sizeof v6->sin6_addr) == 0;
}

static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct fetch *fetch = ctx;
    if (purpose != CURLSOCKTYPE_IPCXN || !is_address(&fetch->address, &to->addr)) {
        (void)err_set(&fetch->why, ERR_INTERNAL,
                      "the client connected to an address that was not checked");
        return CURL_SOCKET_BAD;
    }
    return SYS(socket(to->family, to->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to->protocol));
}

static void format_ip(const struct addr *addr, char out[INET6_ADDRSTRLEN])
{
    const void *bytes = addr->sa.any.sa_family == AF_INET ? (const void *)&addr->sa.v4.sin_addr
                                                          : (const void *)&addr->sa.v6.sin6_addr;
    const char *text = inet_ntop(addr->sa.any.sa_family, bytes, out, INET6_ADDRSTRLEN);
    assert(text != NULL);
}

/* Connected (TLS included), nothing sent yet: the last look at who is there. */
static int check_peer(void *ctx, char *peer_ip, UNUSED char *local_ip, int peer_port,
                      UNUSED int local_port)
{
    struct fetch *fetch = ctx;
    char expected[INET6_ADDRSTRLEN];
    format_ip(&fetch->address, expected);
    if (strcmp(peer_ip, expected) == 0 && peer_port == addr_port(&fetch->address))
        return CURL_PREREQFUNC_OK;
    (void)err_set(&fetch->why, ERR_INTERNAL, "the peer has an address that was not checked");
    return CURL_PREREQFUNC_ABORT;
}

/* The request. */

static void add_line(struct fetch *fetch, const char *line)
{
    struct curl_slist *longer = curl_slist_append(fetch->head, line);
    assert(longer != NULL); /* small allocations do not fail */
    fetch->head = longer;
}

static bool is_named(const struct fetch_request *request, struct str name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (str_eq_nocase(request->headers[i].name, name))
            return true;
    return false;
}

static void set_headers(struct fetch *fetch, const struct fetch_request *request)
{
    for (size_t i = 0; i < request->header_count; i++) {
        struct str name = request->headers[i].name, value = str_trim(request->headers[i].value);
        if (str_eq_nocase(name, STR("accept-encoding")))
            continue;
        /* libcurl takes "Name:" as a wish to drop the header, "Name;" as an empty value. */
        AUTO_BUF struct buf line = {.wipes = true};
        buf_put(&line, name);
        buf_put_cstr(&line, value.len == 0 ? ";" : ": ");
        buf_put(&line, value);
        add_line(fetch, buf_cstr(&line));
    }
    add_line(fetch, "Accept-Encoding: identity");
    add_line(fetch, "Expect:");
    if (!is_named(request, STR("user-agent")))
        add_line(fetch, "User-Agent: sandglass/" SG_VERSION);
    if (!is_named(request, STR("content-type")))
        add_line(fetch, "Content-Type:");
}

#define SET(option, value)                                                                         \
    do {                                                                                           \
        CURLcode set_code_ = curl_easy_setopt(fetch->easy, (option), (value));                     \
        assert(set_code_ == CURLE_OK);                                                             \
    } while (0)

static void set_method(struct fetch *fetch, const struct fetch_request *request)
{
    if (request->body.len > 0) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_READFUNCTION, fetch_on_send);
        SET(CURLOPT_READDATA, fetch);
        fetch->unsent = arena_dup(&fetch->arena, request->body);
    } else if (str_eq(request->method, STR("POST")) || str_eq(request->method, STR("PUT")) ||
               str_eq(request->method, STR("PATCH"))) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0); /* says Content-Length: 0 */
        SET(CURLOPT_POSTFIELDS, "");
    }
    if (str_eq(request->method, STR("HEAD")))
        SET(CURLOPT_NOBODY, 1L);
    else
        SET(CURLOPT_CUSTOMREQUEST, arena_dup(&fetch->arena, request->method).ptr);
}

static void set_target(struct fetch *fetch, const struct fetch_request *request)
{
    char ip[INET6_ADDRSTRLEN];
    format_ip(&request->address, ip);
    bool is_v6 = request->address.sa.any.sa_family == AF_INET6;
    struct str url =
        arena_printf(&fetch->arena, "%s://%.*s:%d%.*s", request->is_https ? "https" : "http",
                     STR_ARG(request->host), request->port, STR_ARG(request->target));
    struct str to = arena_printf(&fetch->arena, "::%s%s%s:%d", is_v6 ? "[" : "", ip,
                                 is_v6 ? "]" : "", addr_port(&request->address));
    fetch->address = request->address;
    fetch->connect_to = curl_slist_append(NULL, to.ptr);
    SET(CURLOPT_URL, url.ptr);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_CONNECT_TO, fetch->connect_to);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_OPENSOCKETDATA, fetch);
    SET(CURLOPT_PREREQFUNCTION, check_peer);
    SET(CURLOPT_PREREQDATA, fetch);
    SET(CURLOPT_FRESH_CONNECT, 1L);
    SET(CURLOPT_FORBID_REUSE, 1L);
}

static void set_limits(struct fetch *fetch, const struct fetch_limits *limits)
{
    size_t body_max = limits->body_max > 0 ? limits->body_max : FETCH_BODY_MAX;
    fetch->answer.max = limits->head_max > 0 ? limits->head_max : FETCH_HEAD_MAX;
    fetch->body = buf_with_limit(body_max);
    SET(CURLOPT_CONNECTTIMEOUT_MS,
        (long)(limits->connect_ms > 0 ? limits->connect_ms : FETCH_CONNECT_MS));
    SET(CURLOPT_TIMEOUT_MS, (long)(limits->total_ms > 0 ? limits->total_ms : FETCH_TOTAL_MS));
    SET(CURLOPT_LOW_SPEED_LIMIT, (long)FETCH_SLOW_BYTES);
    SET(CURLOPT_LOW_SPEED_TIME,
        (long)(limits->slow_seconds > 0 ? limits->slow_seconds : FETCH_SLOW_SECONDS));
    SET(CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)body_max);
    size_t piece = fetch->meter != NULL ? fetch->meter->piece_max : 0;
    SET(CURLOPT_BUFFERSIZE,
        piece > 0 && piece < PIECE ? (long)MAX(piece, (size_t)PIECE_MIN) : (long)PIECE);
}

static void set_manners(struct fetch *fetch)
{
    SET(CURLOPT_PRIVATE, fetch);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, ""); /* also says no to the environment's */
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (fetch->fetcher->ca_file != NULL)
        SET(CURLOPT_CAINFO, fetch->fetcher->ca_file);
    SET(CURLOPT_HEADERFUNCTION, fetch_on_head);
    SET(CURLOPT_HEADERDATA, fetch);
    SET(CURLOPT_WRITEFUNCTION, fetch_on_body);
    SET(CURLOPT_WRITEDATA, fetch);
    SET(CURLOPT_HTTPHEADER, fetch->head);
}

void fetch_set_options(struct fetch *fetch, const struct fetch_request *request)
{
    set_headers(fetch, request);
    set_method(fetch, request);
    set_target(fetch, request);
    set_limits(fetch, &request->limits);
    set_manners(fetch);
}
