#include "egress/policy/url.h"

#include "base/buf.h"
#include "base/err.h"

enum { PORT_HTTP = 80, PORT_HTTPS = 443 };

static int url_refuse(struct err *err, struct str text, const char *why)
{
    char shown[HOST_SHOWN_SIZE];
    host_show(text, shown);
    return err_set(err, ERR_INVALID, "URL '%s': %s", shown, why);
}

static int check_bytes(struct str text, struct err *err)
{
    if (text.len > URL_LEN_MAX)
        return err_set(err, ERR_TOO_LARGE, "the URL has more than %d bytes", URL_LEN_MAX);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c <= 0x20 || c == 0x7f)
            return url_refuse(err, text, "contains a blank or control character; write it as %XX");
        if (c > 0x7f)
            return url_refuse(err, text, "only ASCII; write the rest as %XX, hosts as xn-- labels");
        if (c == '\\')
            return url_refuse(err, text, "contains a backslash; write / or %5C");
    }
    return 0;
}

/* Letters, digits, '+', '-', '.' before ':'; 0 when the text does not begin with a scheme. */
static size_t scheme_len(struct str text)
{
    size_t colon = str_find_char(text, ':');
    if (colon == text.len)
        return 0;
    for (size_t i = 0; i < colon; i++) {
        char c = text.ptr[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool is_other = char_is_digit(c) || c == '+' || c == '-' || c == '.';
        if (!is_letter && (i == 0 || !is_other))
            return 0;
    }
    return colon;
}

static int parse_scheme(struct str *text, bool *ret_is_https, struct err *err)
{
    size_t len = scheme_len(*text);
    struct str scheme = str_slice(*text, 0, len);
    if (len == 0)
        return url_refuse(err, *text, "not absolute; it must begin with http:// or https://");
    bool is_https = str_eq_nocase(scheme, STR("https"));
    if (!is_https && !str_eq_nocase(scheme, STR("http"))) {
        char shown[HOST_SHOWN_SIZE];
        host_show(scheme, shown);
        return err_set(err, ERR_UNSUPPORTED, "scheme '%s': only http and https are supported",
                       shown);
    }
    struct str rest = str_slice(*text, len, text->len);
    if (!str_starts(rest, STR("://")))
        return url_refuse(err, *text, "'//' is missing after the scheme");
    *text = str_slice(rest, 3, rest.len);
    *ret_is_https = is_https;
    return 0;
}

static int parse_port(struct str text, struct str authority, uint16_t *ret_port, struct err *err)
{
    int64_t port;
    bool padded = text.len > 0 && text.ptr[0] == '0';
    if (padded || !str_to_i64(text, 1, 65535, &port))
        return url_refuse(err, authority, "the port must be a number from 1 to 65535");
    *ret_port = (uint16_t)port;
    return 0;
}

static int parse_authority(struct str text, struct url *url, struct err *err)
{
    if (str_find_char(text, '@') < text.len)
        return url_refuse(err, text,
                          "a user or password before '@' is not supported; use a header");
    size_t from = text.len > 0 && text.ptr[0] == '[' ? str_find_char(text, ']') : 0;
    size_t colon = from + str_find_char(str_slice(text, from, text.len), ':');
    url->port = url->is_https ? PORT_HTTPS : PORT_HTTP;
    if (colon < text.len &&
        parse_port(str_slice(text, colon + 1, text.len), text, &url->port, err) < 0)
        return -1;
    return host_parse(str_slice(text, 0, colon), &url->host, err);
}

static size_t find_any(struct str text, const char *chars)
{
    size_t i = 0;
    while (i < text.len && strchr(chars, text.ptr[i]) == NULL)
        i++;
    return i;
}

int url_parse(struct str text, struct url *ret_url, struct err *err)
{
    struct url url = {0};
    if (check_bytes(text, err) < 0)
        return -1;
    struct str rest = text;
    if (parse_scheme(&rest, &url.is_https, err) < 0)
        return -1;
    size_t end = find_any(rest, "/?#");
    if (parse_authority(str_slice(rest, 0, end), &url, err) < 0)
        return -1;
    /* "http://ok.test#@evil.test": old readers look for '@' first. A '/' settles it. */
    if (end < rest.len && rest.ptr[end] != '/')
        return url_refuse(err, text, "'?' or '#' directly after the host; write / before it");
    rest = str_slice(rest, end, rest.len);
    rest = str_slice(rest, 0, str_find_char(rest, '#'));
    url.target = rest.len == 0 ? STR("/") : rest;
    *ret_url = url;
    return 0;
}

struct str url_path(const struct url *url)
{
    return str_slice(url->target, 0, str_find_char(url->target, '?'));
}

const char *url_scheme(const struct url *url)
{
    return url->is_https ? "https" : "http";
}

void url_put(const struct url *url, struct buf *out)
{
    buf_printf(out, "%s://%s", url_scheme(url), url->host.text);
    if (url->port != (url->is_https ? PORT_HTTPS : PORT_HTTP))
        buf_printf(out, ":%d", url->port);
    buf_put(out, url->target);
}

bool url_is_same_origin(const struct url *a, const struct url *b)
{
    return a->is_https == b->is_https && a->port == b->port &&
           strcmp(a->host.text, b->host.text) == 0;
}

/* Back to before the last '/' that was written since `start`. */
static void drop_segment(struct buf *out, size_t start)
{
    while (out->len > start && out->ptr[out->len - 1] != '/')
        out->ptr[--out->len] = '\0';
    if (out->len > start)
        out->ptr[--out->len] = '\0';
}

/* RFC 3986, 5.2.4, segment by segment. */
static void put_without_dots(struct str path, struct buf *out)
{
    size_t start = out->len;
    struct str rest = str_slice(path, 1, path.len), segment;
    bool is_dot = false; /* of the last segment: the path then ends in '/' */
    while (str_split(&rest, '/', &segment)) {
        bool is_up = str_eq(segment, STR(".."));
        is_dot = is_up || str_eq(segment, STR("."));
        if (is_up)
            drop_segment(out, start);
        if (is_dot)
            continue;
        buf_put_char(out, '/');
        buf_put(out, segment);
    }
    if (is_dot || out->len == start)
        buf_put_char(out, '/');
}

static void put_path(const struct url *base, struct str path, struct buf *out)
{
    struct str before = url_path(base);
    AUTO_BUF struct buf merged = {0};
    if (path.ptr[0] != '/') {
        while (before.ptr[before.len - 1] != '/')
            before.len--;
        buf_put(&merged, before);
    }
    buf_put(&merged, path);
    put_without_dots(buf_str(&merged), out);
}

int url_join(const struct url *base, struct str location, struct buf *out, struct err *err)
{
    if (check_bytes(location, err) < 0)
        return -1;
    location = str_slice(location, 0, str_find_char(location, '#'));
    if (scheme_len(location) > 0 || str_starts(location, STR("//"))) {
        if (location.ptr[0] == '/')
            buf_printf(out, "%s:", url_scheme(base));
        buf_put(out, location);
        return 0;
    }
    struct url origin = *base;
    struct str path = str_slice(location, 0, str_find_char(location, '?'));
    origin.target = location.len == 0 ? base->target : path.len == 0 ? url_path(base) : STR("");
    url_put(&origin, out);
    if (path.len > 0)
        put_path(base, path, out);
    buf_put(out, str_slice(location, path.len, location.len));
    return 0;
}
