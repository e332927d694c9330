/* Requests: which may pass, and how they are rewritten. */

#include "base/err.h"
#include "egress/keys/placeholder.h"
#include "egress/keys/rewrite_internal.h"
#include "egress/keys/secrets.h"
#include "io/http_words.h"

enum { METHOD_MAX = 32, TARGET_MAX = 16 << 10 };

struct line {
    struct str method, target, path;
    struct url url; /* of an absolute form; `target` may be a part of it */
};

static bool rewrite_request_refuse(struct rewrite *rewrite, int status, const char *reason,
                                   const char *text)
{
    rewrite_refuse(rewrite, status, reason, text);
    return false;
}

/* --- The request line --- */

static bool is_here(const struct rewrite *rewrite, const struct host *host, uint16_t port)
{
    return str_eq(host_str(host), host_str(&rewrite->options.host)) &&
           port == rewrite->options.port;
}

static bool read_version(struct rewrite *rewrite, struct str version)
{
    rewrite->is_http10 = str_eq(version, STR("HTTP/1.0"));
    if (rewrite->is_http10 || str_eq(version, STR("HTTP/1.1")))
        return true;
    bool is_shaped = version.len == 8 && str_starts(version, STR("HTTP/"));
    return is_shaped ? rewrite_request_refuse(rewrite, 505, "request_invalid",
                                              "only HTTP/1.0 and 1.1 are supported")
                     : rewrite_request_refuse(rewrite, 400, "request_invalid",
                                              "the request line is not METHOD PATH HTTP/1.1");
}

/* "http://host/path", as proxies get it, must be for this host too. */
static bool read_absolute(struct rewrite *rewrite, struct line *line)
{
    struct err err;
    if (url_parse(line->target, &line->url, &err) < 0)
        return rewrite_request_refuse(rewrite, 400, "request_invalid", err.msg);
    if (line->url.is_https != rewrite->options.is_https ||
        !is_here(rewrite, &line->url.host, line->url.port))
        return rewrite_request_refuse(rewrite, 403, REWRITE_HOST_MISMATCH,
                                      "the request names another host than its connection");
    line->target = line->url.target;
    return true;
}

static bool rewrite_request_read_line(struct rewrite *rewrite, struct line *line)
{
    struct str rest = rewrite->request.first, version = {0};
    bool has_three = str_split(&rest, ' ', &line->method) && str_split(&rest, ' ', &line->target) &&
                     str_split(&rest, ' ', &version) && rest.len == 0;
    if (!has_three || str_ends(rewrite->request.first, STR(" ")) || !http_is_token(line->method) ||
        line->method.len > METHOD_MAX || !http_is_visible(line->target))
        return rewrite_request_refuse(rewrite, 400, "request_invalid",
                                      "the request line is not METHOD PATH HTTP/1.1");
    rewrite->is_head = str_eq(line->method, STR("HEAD"));
    if (!read_version(rewrite, version))
        return false;
    if (line->target.len > TARGET_MAX)
        return rewrite_request_refuse(rewrite, 414, "request_invalid",
                                      "the path is longer than 16 KiB");
    /* CONNECT would open a tunnel inside, TRACE hands headers back. */
    if (str_eq_nocase(line->method, STR("CONNECT")) || str_eq_nocase(line->method, STR("TRACE")) ||
        str_eq_nocase(line->method, STR("TRACK")))
        return rewrite_request_refuse(rewrite, 405, "method_not_allowed",
                                      "CONNECT and TRACE are not supported");
    bool is_star = str_eq(line->target, STR("*")) && str_eq(line->method, STR("OPTIONS"));
    if (line->target.ptr[0] != '/' && !is_star && !read_absolute(rewrite, line))
        return false;
    if (str_find_char(line->target, '#') < line->target.len)
        return rewrite_request_refuse(rewrite, 400, "request_invalid",
                                      "a request's path cannot contain '#'");
    line->path = str_slice(line->target, 0, str_find_char(line->target, '?'));
    return true;
}

/* --- Headers --- */

static bool read_host(struct rewrite *rewrite)
{
    const struct http1_field *found = NULL;
    struct host host;
    struct err err;
    int64_t port = rewrite->options.is_https ? 443 : 80;
    VEC_EACH (field, &rewrite->request.fields) {
        if (!str_eq_nocase(field->name, STR("Host")))
            continue;
        if (found != NULL)
            return rewrite_request_refuse(rewrite, 400, "request_invalid", "Host is given twice");
        found = field;
    }
    if (found == NULL)
        return rewrite->is_http10 || rewrite_request_refuse(rewrite, 400, "request_invalid",
                                                            "the Host header is missing");
    struct str text = found->value;
    size_t from = text.len > 0 && text.ptr[0] == '[' ? str_find_char(text, ']') : 0;
    size_t colon = from + str_find_char(str_slice(text, from, text.len), ':');
    if (host_parse(str_slice(text, 0, colon), &host, &err) < 0)
        return rewrite_request_refuse(rewrite, 400, "request_invalid", err.msg);
    if (colon < text.len && !str_to_i64(str_slice(text, colon + 1, text.len), 1, 65535, &port))
        return rewrite_request_refuse(rewrite, 400, "request_invalid",
                                      "the Host header's port is invalid");
    return is_here(rewrite, &host, (uint16_t)port) ||
           rewrite_request_refuse(rewrite, 403, REWRITE_HOST_MISMATCH,
                                  "the Host header names another host than the connection");
}

/* A WebSocket is the one other protocol that is let through. */
static void read_connection(struct rewrite *rewrite)
{
    const struct http1_head *head = &rewrite->request;
    const struct http1_field *upgrade = http1_find(head, "Upgrade");
    rewrite->wants_close = rewrite->options.is_single || rewrite->is_http10 ||
                           http1_has_word(head, "Connection", "close");
    rewrite->wants_upgrade = !rewrite->is_http10 && upgrade != NULL &&
                             str_eq_nocase(upgrade->value, STR("websocket")) &&
                             http1_has_word(head, "Connection", "upgrade") &&
                             rewrite->request_body.framing == HTTP1_EMPTY;
}

/* Headers that the client lists for this connection only are not forwarded (RFC 9110). */
static bool is_for_connection(const struct rewrite *rewrite, struct str name)
{
    char word[64];
    struct err err;
    return str_to_cstr(name, word, sizeof word, &err) == 0 &&
           http1_has_word(&rewrite->request, "Connection", word);
}

/* Headers that we write ourselves, or that concern only the connection to the client. */
static bool is_dropped(const struct rewrite *rewrite, struct str name)
{
    static const char *const always[] = {
        "Host", "Connection", "Keep-Alive",     "Content-Length", "Transfer-Encoding",
        "TE",   "Trailer",    "HTTP2-Settings", "Upgrade",
    };
    /* What would hide the value in the answer. */
    static const char *const with_secrets[] = {"Accept-Encoding", "Sec-WebSocket-Extensions"};
    for (size_t i = 0; i < countof(always); i++)
        if (str_eq_nocase(name, str_of(always[i])))
            return true;
    for (size_t i = 0; i < countof(with_secrets) && !scrub_is_idle(rewrite->scrub); i++)
        if (str_eq_nocase(name, str_of(with_secrets[i])))
            return true;
    return str_eq_nocase(str_slice(name, 0, 6), STR("Proxy-"));
}

static void put_field(struct rewrite *rewrite, const struct http1_field *field)
{
    const struct rewrite_options *options = &rewrite->options;
    struct buf *out = &rewrite->to_server;
    buf_put(out, field->name);
    buf_put_cstr(out, ": ");
    if (!placeholder_replace(options->secrets, &options->host, options->port, field->name,
                             field->value, out))
        buf_put(out, field->value);
    buf_put_cstr(out, "\r\n");
}

static void put_framing(struct rewrite *rewrite)
{
    struct buf *out = &rewrite->to_server;
    const struct http1_body *body = &rewrite->request_body;
    if (body->framing == HTTP1_CHUNKED)
        buf_put_cstr(out, "Transfer-Encoding: chunked\r\n");
    else if (body->framing == HTTP1_LENGTH)
        buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)body->left);
    if (!scrub_is_idle(rewrite->scrub))
        buf_put_cstr(out, "Accept-Encoding: identity\r\n");
    if (rewrite->wants_upgrade)
        buf_put_cstr(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    else if (rewrite->wants_close)
        buf_put_cstr(out, "Connection: close\r\n");
}

static void put_request(struct rewrite *rewrite, const struct line *line)
{
    const struct rewrite_options *options = &rewrite->options;
    struct buf *out = &rewrite->to_server;
    buf_put(out, line->method);
    buf_put_char(out, ' ');
    buf_put(out, line->target);
    buf_printf(out, " HTTP/1.1\r\nHost: %s", options->host.text);
    if (options->port != (options->is_https ? 443 : 80))
        buf_printf(out, ":%d", options->port);
    buf_put_cstr(out, "\r\n");
    VEC_EACH (field, &rewrite->request.fields)
        if (!is_dropped(rewrite, field->name) && !is_for_connection(rewrite, field->name))
            put_field(rewrite, field);
    put_framing(rewrite);
    buf_put_cstr(out, "\r\n");
}

/* A key that the operator has not set: the host's own answer would blame the sandbox's code. */
static bool check_values(struct rewrite *rewrite)
{
    const struct rewrite_options *options = &rewrite->options;
    char text[256];
    VEC_EACH (field, &rewrite->request.fields) {
        const char *name = placeholder_without_value(options->secrets, &options->host,
                                                     options->port, field->name, field->value);
        if (name == NULL)
            continue;
        (void)snprintf(text, sizeof text, PLACEHOLDER_NO_VALUE, name);
        return rewrite_request_refuse(rewrite, 403, "secret_missing", text);
    }
    return true;
}

void rewrite_request_head(struct rewrite *rewrite)
{
    struct line line = {0};
    const char *why = NULL;
    if (!rewrite_request_read_line(rewrite, &line) || !read_host(rewrite))
        return;
    if (!http1_read_framing(&rewrite->request, rewrite->is_http10, &rewrite->request_body, &why)) {
        rewrite_refuse(rewrite, 400, "request_invalid", why);
        return;
    }
    if (rewrite->options.judge != NULL) {
        struct verdict verdict =
            rewrite->options.judge(rewrite->options.ctx, line.method, line.path);
        if (!verdict_is_allowed(&verdict)) {
            rewrite_refuse(rewrite, 403, verdict_reason_name(verdict.reason), verdict.text);
            return;
        }
    }
    if (!check_values(rewrite))
        return;
    read_connection(rewrite);
    put_request(rewrite, &line);
    rewrite->request_state = REQUEST_BODY;
    rewrite->answer_state = ANSWER_HEAD;
}
