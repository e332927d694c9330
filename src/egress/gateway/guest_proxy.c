/* What a program that knows of the proxy says first: an HTTP head or SOCKS 5. */

#include "base/err.h"
#include "base/fd.h"
#include "egress/gateway/egress_proxy_internal.h"
#include "egress/gateway/socks.h"
#include "egress/keys/http1.h"
#include "io/http_words.h"
#include "io/loop.h"

void guest_on_first(struct guest *guest)
{
    bool is_socks = guest->in.len > 0 && guest->in.ptr[0] == SOCKS_VERSION;
    guest_set_state(guest, is_socks ? GUEST_GREETING : GUEST_HEAD, guest->proxy->limits.head_ms);
    guest_advance(guest);
}

/* SOCKS. */

void guest_on_greeting(struct guest *guest)
{
    unsigned char method = 0;
    size_t used = socks_read_greeting(buf_str(&guest->in), &method);
    if (used == 0)
        return;
    const char reply[2] = {SOCKS_VERSION, (char)method};
    guest->channel = EGRESS_PROXY_BY_SOCKS;
    buf_consume(&guest->in, used);
    if (method != 0) {
        guest_leave(guest, str_n(reply, sizeof reply));
        return;
    }
    if (!guest_say(guest, str_n(reply, sizeof reply)))
        return;
    guest_set_state(guest, GUEST_REQUEST, guest->proxy->limits.head_ms);
    guest_advance(guest);
}

void guest_on_request(struct guest *guest)
{
    struct err err = {0};
    enum socks_reply reply = SOCKS_OK;
    size_t used = socks_read_request(buf_str(&guest->in), &guest->host, &guest->port, &reply, &err);
    if (used == 0)
        return;
    buf_consume(&guest->in, used);
    if (reply == SOCKS_OK) {
        guest_begin_tunnel(guest);
    } else if (reply == SOCKS_NOT_ALLOWED) {
        struct verdict verdict = verdict_make(VERDICT_HOST_INVALID, "blocked: %s", err.msg);
        guest_refuse(guest, &verdict);
    } else {
        unsigned char bytes[SOCKS_REPLY_SIZE];
        socks_put_reply(reply, bytes);
        guest_leave(guest, str_n((const char *)bytes, sizeof bytes));
    }
}

/* HTTP. */

/* "host:port" of CONNECT: the port is written, IPv6 stands in brackets. */
static int read_authority(struct str text, struct host *ret_host, uint16_t *ret_port,
                          struct err *err)
{
    size_t colon = text.len;
    int64_t port = 0;
    while (colon > 0 && text.ptr[colon - 1] != ':')
        colon--;
    if (colon == 0 || !str_to_i64(str_slice(text, colon, text.len), 1, UINT16_MAX, &port))
        return err_set(err, ERR_INVALID, "CONNECT needs HOST:PORT");
    if (host_parse(str_slice(text, 0, colon - 1), ret_host, err) < 0)
        return -1;
    *ret_port = (uint16_t)port;
    return 0;
}

static void begin_connect(struct guest *guest, struct str target, size_t head_len)
{
    struct err err = {0};
    guest->channel = EGRESS_PROXY_BY_CONNECT;
    if (read_authority(target, &guest->host, &guest->port, &err) < 0) {
        struct verdict verdict = verdict_make(VERDICT_HOST_INVALID, "blocked: %s", err.msg);
        guest_refuse(guest, &verdict);
        return;
    }
    buf_consume(&guest->in, head_len);
    guest_begin_tunnel(guest);
}

/* The conversation reads the request again, from its first byte. */
static void on_dialled(void *ctx, const struct dial_answer *answer)
{
    struct guest *guest = ctx;
    struct err why = {0};
    struct verdict verdict = *answer->verdict;
    if (answer->why != NULL)
        why = *answer->why;
    guest->outer = answer->fd;
    guest->dial = dial_free(guest->dial);
    if (guest->outer >= 0)
        guest_start_talk(guest, false, true);
    else if (verdict_is_allowed(&verdict))
        guest_fail(guest, &why);
    else
        guest_refuse(guest, &verdict);
}

static void begin_request(struct guest *guest, struct str method, struct str target)
{
    struct url url = {0};
    struct err err = {0};
    if (target.len == 0 || target.ptr[0] == '/' || str_eq(target, STR("*"))) {
        (void)err_set(&err, ERR_INVALID,
                      "this is the sandbox's proxy: it accepts only absolute URLs and CONNECT");
        guest_fail(guest, &err);
        return;
    }
    if (url_parse(target, &url, &err) < 0 || url.is_https) {
        struct verdict verdict =
            url.is_https
                ? verdict_make(VERDICT_SCHEME, "blocked: use CONNECT for https")
                : verdict_make(err.code == ERR_UNSUPPORTED ? VERDICT_SCHEME : VERDICT_URL_INVALID,
                               "blocked: %s", err.msg);
        guest_refuse(guest, &verdict);
        return;
    }
    guest->host = url.host;
    guest->port = url.port;
    guest_dial(guest, "http", method, url_path(&url), on_dialled);
}

static void guest_proxy_begin(struct guest *guest, const struct http1_head *head, size_t head_len)
{
    struct str rest = head->first, method = {0}, target = {0}, version = {0};
    struct err err = {0};
    bool has_three = str_split(&rest, ' ', &method) && str_split(&rest, ' ', &target) &&
                     str_split(&rest, ' ', &version) && rest.len == 0;
    if (!has_three || !http_is_token(method) || !str_starts(version, STR("HTTP/1."))) {
        (void)err_set(&err, ERR_INVALID, "the request line is not METHOD URL HTTP/1.1");
        guest_fail(guest, &err);
    } else if (str_eq(method, STR("CONNECT"))) {
        begin_connect(guest, target, head_len);
    } else {
        begin_request(guest, method, target);
    }
}

void guest_on_head(struct guest *guest)
{
    struct http1_head head = {.bytes_max = (size_t)guest->proxy->limits.head_bytes,
                              .fields_max = GUEST_FIELDS_MAX};
    struct err err = {0};
    size_t used = 0;
    switch (http1_head_feed(&head, buf_str(&guest->in), &used)) {
    case HTTP1_MORE:
        break;
    case HTTP1_BAD:
        (void)err_set(&err, head.is_too_large ? ERR_TOO_LARGE : ERR_INVALID, "%s", head.why);
        guest_fail(guest, &err);
        break;
    case HTTP1_DONE:
        guest_proxy_begin(guest, &head, used);
        break;
    }
    http1_head_done(&head);
}
