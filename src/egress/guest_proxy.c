/* What a program that knows of the proxy says first: an HTTP head or SOCKS 5. */

#include "base/err.h"
#include "base/fd.h"
#include "egress/exchange.h"
#include "egress/porter_internal.h"
#include "egress/socks.h"
#include "io/loop.h"

void guest_on_first(struct guest *guest)
{
    bool is_socks = guest->in.len > 0 && guest->in.ptr[0] == SOCKS_VERSION;
    guest_set_state(guest, is_socks ? GUEST_GREETING : GUEST_HEAD, guest->porter->limits.head_ms);
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
    guest->channel = PORTER_BY_SOCKS;
    buf_consume(&guest->in, used);
    if (method != 0) {
        guest_leave(guest, str_n(reply, sizeof reply));
        return;
    }
    if (!guest_say(guest, str_n(reply, sizeof reply)))
        return;
    guest_set_state(guest, GUEST_REQUEST, guest->porter->limits.head_ms);
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

static void begin_connect(struct guest *guest, const struct http_head *head, size_t head_len)
{
    struct err err = {0};
    guest->channel = PORTER_BY_CONNECT;
    if (head->framing != HTTP_NO_BODY) {
        (void)err_set(&err, ERR_INVALID, "CONNECT has no body");
        guest_fail(guest, &err);
        return;
    }
    if (read_authority(head->target, &guest->host, &guest->port, &err) < 0) {
        struct verdict verdict = verdict_make(VERDICT_HOST_INVALID, "blocked: %s", err.msg);
        guest_refuse(guest, &verdict);
        return;
    }
    buf_consume(&guest->in, head_len);
    guest_begin_tunnel(guest);
}

/* The head is read again when the host is there: its strings lie in the buffer, which stays. */
static void on_dialled(void *ctx, const struct dial_answer *answer)
{
    struct guest *guest = ctx;
    struct err err = {0};
    struct url url;
    struct str bytes = buf_str(&guest->in);
    size_t head_len = http_head_end(bytes);
    if (answer->fd < 0) {
        struct err why = *answer->why;
        struct verdict verdict = *answer->verdict;
        guest->dial = dial_free(guest->dial);
        if (verdict_is_allowed(&verdict))
            guest_fail(guest, &why);
        else
            guest_refuse(guest, &verdict);
        return;
    }
    guest->outer = answer->fd;
    guest->dial = dial_free(guest->dial);
    struct http_head *head = mem_alloc(sizeof *head);
    if (http_read_request(str_slice(bytes, 0, head_len), head, &err) < 0 ||
        url_parse(head->target, &url, &err) < 0)
        guest_fail(guest, &err);
    else
        guest_start_exchange(guest, head, url.target, head_len);
    free(head);
}

/* The Host field must say what the target says; RFC 9112 lets the target win, a server might not.
 */
static bool host_fits(const struct http_head *head, const struct url *url)
{
    struct str text = http_find(head, STR("host"));
    AUTO_BUF struct buf base = {0};
    struct err err;
    struct url other;
    if (text.ptr == NULL)
        return true;
    buf_printf(&base, "http://%.*s/", STR_ARG(text));
    return url_parse(buf_str(&base), &other, &err) == 0 && url_is_same_origin(url, &other);
}

static void begin_request(struct guest *guest, const struct http_head *head)
{
    struct url url = {0};
    struct err err = {0};
    if (head->target.ptr[0] == '/' || str_eq(head->target, STR("*"))) {
        (void)err_set(&err, ERR_INVALID,
                      "this is the sandbox's proxy: it takes absolute URLs and CONNECT");
        guest_fail(guest, &err);
        return;
    }
    if (url_parse(head->target, &url, &err) < 0 || url.is_https) {
        struct verdict verdict =
            url.is_https
                ? verdict_make(VERDICT_SCHEME, "blocked: https goes through CONNECT")
                : verdict_make(err.code == ERR_UNSUPPORTED ? VERDICT_SCHEME : VERDICT_URL_INVALID,
                               "blocked: %s", err.msg);
        guest_refuse(guest, &verdict);
        return;
    }
    guest->host = url.host;
    guest->port = url.port;
    if (!host_fits(head, &url)) {
        struct verdict verdict =
            verdict_make(VERDICT_HOST_HEADER, "blocked %.100s:%d: the Host header names another",
                         url.host.text, url.port);
        guest_refuse(guest, &verdict);
        return;
    }
    guest_dial(guest, "http", head->method, url_path(&url), on_dialled);
}

void guest_on_head(struct guest *guest)
{
    struct err err = {0};
    struct str bytes = buf_str(&guest->in);
    size_t head_len = http_head_end(str_slice(bytes, 0, HTTP_HEAD_MAX));
    if (head_len == 0 && bytes.len < HTTP_HEAD_MAX)
        return;
    struct http_head *head = mem_alloc(sizeof *head);
    if (head_len == 0)
        (void)err_set(&err, ERR_INVALID, "the head of the request is longer than %d bytes",
                      HTTP_HEAD_MAX);
    if (head_len == 0 || http_read_request(str_slice(bytes, 0, head_len), head, &err) < 0)
        guest_fail(guest, &err);
    else if (str_eq(head->method, STR("CONNECT")))
        begin_connect(guest, head, head_len);
    else
        begin_request(guest, head);
    free(head);
}
