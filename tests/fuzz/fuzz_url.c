/* Any bytes: either one line that says what is wrong, or a URL that is printed as one that reads as
 * the same, whose host is its own canonical form, and from which every Location leads to text that
 * is a URL or is refused. */

#include "fuzz.h"

#include "base/buf.h"
#include "base/err.h"
#include "egress/policy/url.h"

static void check_host(const struct host *host)
{
    struct err err = {0};
    struct host again;
    int result = host_parse(host_str(host), &again, &err);
    assert(result == 0 && strcmp(again.text, host->text) == 0 && ip_eq(&again.ip, &host->ip));
    for (const char *c = host->text; *c != '\0'; c++)
        assert(*c > 0x20 && *c < 0x7f && strchr("@/\\%?#", *c) == NULL);
}

static void check_message(const struct err *err)
{
    assert(err->msg[0] != '\0' && strpbrk(err->msg, "\r\n") == NULL &&
           str_is_utf8(str_of(err->msg)));
}

static void check_join(const struct url *base, struct str location)
{
    struct err err = {0};
    struct url next;
    AUTO_BUF struct buf joined = {0};
    if (url_join(base, location, &joined, &err) < 0 || url_parse(buf_str(&joined), &next, &err) < 0)
        check_message(&err);
    else
        check_host(&next.host);
}

/* The first line is the URL, the rest a Location. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_n((const char *)data, size);
    size_t end = str_find_char(text, '\n');
    struct err err = {0};
    struct url url, again;
    if (url_parse(str_slice(text, 0, end), &url, &err) < 0) {
        check_message(&err);
        return 0;
    }
    assert(url.port > 0 && url.target.len > 0 && url.target.ptr[0] == '/');
    check_host(&url.host);
    AUTO_BUF struct buf shown = {0};
    url_put(&url, &shown);
    int result = url_parse(buf_str(&shown), &again, &err);
    assert(result == 0 && url_is_same_origin(&url, &again) && str_eq(url.target, again.target));
    if (end < text.len)
        check_join(&url, str_slice(text, end + 1, text.len));
    return 0;
}
