#include "api/http/sign.h"

#include "api/http/api.h"
#include "api/http/request.h"
#include "base/clock.h"
#include "base/err.h"

static void signature_of(const struct api *api, struct str method, struct str route,
                         struct str tenant, struct str path, int64_t expires_s,
                         char out[HASH_HEX_SIZE])
{
    AUTO_BUF struct buf text = {0};
    /* Lengths before texts: no two requests give the same bytes. */
    buf_printf(&text, "v1 %lld %.*s %zu %zu %zu\n%.*s\n%.*s\n", (long long)expires_s,
               STR_ARG(method), route.len, tenant.len, path.len, STR_ARG(route), STR_ARG(tenant));
    buf_put(&text, path);
    hash_hmac_hex(str_n((const char *)api->signing_key, HASH_SIZE), buf_str(&text), out);
}

/* The first word is another one than a signed URL's: neither can stand for the other. */
void sign_port(const struct api *api, struct str id, uint16_t port, struct str key,
               int64_t expires_s, char out[HASH_HEX_SIZE])
{
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, "port %lld %u %zu %zu\n%.*s\n%.*s", (long long)expires_s, port, id.len,
               key.len, STR_ARG(id), STR_ARG(key));
    hash_hmac_hex(str_n((const char *)api->signing_key, HASH_SIZE), buf_str(&text), out);
}

static void put_escaped(struct str text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bool plain = char_is_alnum(c) || c == '/' || c == '.' || c == '-' || c == '_' || c == '~';
        if (plain)
            buf_put_char(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

void sign_url(const struct api *api, struct str method, struct str route, struct str tenant,
              struct str path, int64_t expires_s, struct buf *out)
{
    char signature[HASH_HEX_SIZE];
    signature_of(api, method, route, tenant, path, expires_s, signature);
    buf_printf(out, "%.*s?path=", STR_ARG(route));
    put_escaped(path, out);
    buf_printf(out, "&expires=%lld&tenant=", (long long)expires_s);
    put_escaped(tenant, out);
    buf_printf(out, "&signature=%s", signature);
}

static enum sign_found refuse_date(int64_t expires_s, struct err *err)
{
    char text[CLOCK_TEXT_SIZE];
    clock_format_utc(expires_s * 1000, text);
    (void)err_set(err, ERR_UNAUTHORIZED,
                  "this signed URL expired at %s; request a new one with POST .../files/sign",
                  text);
    return SIGN_EXPIRED;
}

/* Only a request with the right signature learns that it has expired. */
enum sign_found sign_check(const struct api *api, struct request *request,
                           struct caller *ret_caller, struct err *err)
{
    char right[HASH_HEX_SIZE] = "";
    struct str path, expires, tenant, given;
    int64_t expires_s = 0;
    const struct route *route = request->match.route;
    if (!request_query(request, "signature", &given))
        return SIGN_NONE;
    struct str method = str_eq(request->method, STR("HEAD")) ? STR("GET") : request->method;
    if (route != NULL && route->is_signed && request_query(request, "path", &path) &&
        request_query(request, "expires", &expires) && request_query(request, "tenant", &tenant) &&
        tenant.len <= TENANT_MAX && str_to_i64(expires, 0, INT64_MAX / 1000, &expires_s))
        signature_of(api, method, request->path, tenant, path, expires_s, right);
    if (right[0] == '\0' || given.len != HASH_HEX_SIZE - 1 ||
        !hash_equal(right, given.ptr, given.len)) {
        (void)err_set(err, ERR_UNAUTHORIZED,
                      "the URL's signature is not for this method and path, or the URL was "
                      "changed; request a new one with POST .../files/sign");
        return SIGN_WRONG;
    }
    if (expires_s * 1000 < clock_date_ms())
        return refuse_date(expires_s, err);
    *ret_caller = (struct caller){.token_id = "signed", .scopes = SCOPE_BIT(SCOPE_FILES)};
    (void)snprintf(ret_caller->tenant, sizeof ret_caller->tenant, "%.*s", STR_ARG(tenant));
    return SIGN_GOOD;
}
