/* What a client may write into a request: the words around which requests are smuggled are ours. */

#include "base/err.h"
#include "io/fetch_internal.h"
#include "io/http_words.h"

int fetch_check_method(struct str method, struct err *err)
{
    static const char *const refused[] = {"CONNECT", "TRACE", "TRACK"};
    if (!http_is_token(method) || method.len > 20)
        return err_set(err, ERR_INVALID, "the method must be one word like GET");
    for (size_t i = 0; i < countof(refused); i++)
        if (str_eq_nocase(method, str_of(refused[i])))
            return err_set(err, ERR_INVALID, "method '%s' is not allowed", refused[i]);
    return 0;
}

static bool fetch_check_is_ours(struct str name)
{
    static const char *const names[] = {
        "host", "connection", "keep-alive", "transfer-encoding", "content-length", "upgrade",
        "te",   "trailer",    "expect",     "http2-settings",
    };
    for (size_t i = 0; i < countof(names); i++)
        if (str_eq_nocase(name, str_of(names[i])))
            return true;
    return str_eq_nocase(str_slice(name, 0, 6), STR("proxy-"));
}

int fetch_check_header(struct str name, struct str value, struct err *err)
{
    if (!http_is_token(name) || name.len > 256)
        return err_set(err, ERR_INVALID,
                       "a header's name must be one word of letters, digits "
                       "and '-'");
    if (fetch_check_is_ours(name))
        return err_set(err, ERR_INVALID, "header '%.*s' cannot be set by the client",
                       STR_ARG(name));
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return err_set(err, ERR_INVALID,
                           "header '%.*s': its value contains a control character (CR, LF or NUL?)",
                           STR_ARG(name));
    }
    return 0;
}

int fetch_check_request(const struct fetch_request *request, struct err *err)
{
    size_t bytes = 0;
    bool is_bare = str_eq(request->method, STR("GET")) || str_eq(request->method, STR("HEAD"));
    if (fetch_check_method(request->method, err) < 0)
        return -1;
    if (is_bare && request->body.len > 0)
        return err_set(err, ERR_INVALID, "a %.*s request has no body", STR_ARG(request->method));
    if (request->body.len > FETCH_REQUEST_BODY_MAX)
        return err_set(err, ERR_TOO_LARGE, "the request body has more than %d bytes",
                       FETCH_REQUEST_BODY_MAX);
    for (size_t i = 0; i < request->header_count; i++) {
        bytes += request->headers[i].name.len + request->headers[i].value.len + 4;
        if (fetch_check_header(request->headers[i].name, request->headers[i].value, err) < 0)
            return -1;
    }
    if (request->header_count > FETCH_REQUEST_HEADERS_MAX || bytes > FETCH_REQUEST_HEAD_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d request headers or %d bytes of them",
                       FETCH_REQUEST_HEADERS_MAX, FETCH_REQUEST_HEAD_MAX);
    for (size_t i = 0; i < request->target.len; i++)
        if (request->target.ptr[i] <= 0x20 || request->target.ptr[i] > 0x7e)
            return err_set(err, ERR_INVALID, "the path contains a byte that is not valid in a URL");
    return 0;
}
