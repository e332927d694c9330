/* Connections that name a host and a port and nothing else: CONNECT, SOCKS and what was captured.
 *
 * What goes through must be meant for the host that was judged, as far as it says so itself: the
 * name in a TLS hello, the Host of an HTTP request. HTTP in clear is passed request by request; TLS
 * and other protocols untouched. */

#include "base/err.h"
#include "base/fd.h"
#include "egress/hello.h"
#include "egress/porter_internal.h"
#include "egress/socks.h"
#include "io/loop.h"

enum {
    HTTPS_PORT = 443,
    HTTP_PORT = 80,
    QUIET_MS = 100, /* a client that says nothing waits for the host to speak first */
    FIRST_LINE_MAX = 8 << 10,
    TLS_FIRST = 0x16,
};

static bool may_be_anything(const struct guest *guest)
{
    return guest->port != HTTPS_PORT && guest->port != HTTP_PORT;
}

static void refuse(struct guest *guest, enum verdict_reason reason, const char *why)
{
    struct verdict verdict =
        verdict_make(reason, "blocked %.100s:%d: %s", guest->host.text, guest->port, why);
    guest_refuse(guest, &verdict);
}

/* The client is told that its way is open. */
static void stand(struct guest *guest)
{
    unsigned char reply[SOCKS_REPLY_SIZE];
    struct str words = STR("");
    if (guest->channel == PORTER_BY_CONNECT)
        words = STR("HTTP/1.1 200 Connection established\r\n\r\n");
    if (guest->channel == PORTER_BY_SOCKS) {
        socks_put_reply(SOCKS_OK, reply);
        words = str_n((const char *)reply, sizeof reply);
    }
    if (!guest_say(guest, words))
        return;
    bool quiet = may_be_anything(guest) && guest->outer >= 0;
    guest_set_state(guest, GUEST_SNIFFING, quiet ? QUIET_MS : guest->porter->limits.head_ms);
    guest_advance(guest);
}

static void on_dialled(void *ctx, const struct dial_answer *answer)
{
    struct guest *guest = ctx;
    struct verdict verdict = *answer->verdict;
    struct err why = {0};
    if (answer->why != NULL)
        why = *answer->why;
    guest->outer = answer->fd;
    guest->dial = dial_free(guest->dial);
    if (guest->outer >= 0 || verdict.reason == VERDICT_NOT_INSPECTED)
        stand(guest); /* perhaps it is HTTP in clear, which can be looked into */
    else if (verdict_is_allowed(&verdict))
        guest_fail(guest, &why);
    else
        guest_refuse(guest, &verdict);
}

void guest_begin_tunnel(struct guest *guest)
{
    guest_dial(guest, "tcp", STR(""), STR(""), on_dialled);
}

/* TLS. */

static bool is_name_of(const struct hello *hello, const struct host *host)
{
    struct host named;
    struct err err;
    if (!hello->has_name)
        return host_is_ip(host);
    return host_parse(hello->name, &named, &err) == 0 && strcmp(named.text, host->text) == 0;
}

static void sniff_tls(struct guest *guest)
{
    struct hello hello;
    switch (hello_read(buf_str(&guest->in), &hello)) {
    case HELLO_MORE:
        guest_set_state(guest, GUEST_SNIFFING, guest->porter->limits.head_ms);
        return;
    case HELLO_BAD:
        refuse(guest, VERDICT_NOT_TLS, "what came is no TLS");
        return;
    case HELLO_DONE:
        break;
    }
    if (!is_name_of(&hello, &guest->host))
        refuse(guest, VERDICT_SERVER_NAME, "the TLS handshake names another host or none");
    else if (guest->outer < 0)
        refuse(guest, VERDICT_NOT_INSPECTED,
               "the policy limits methods or paths on this host, which a tunnel hides");
    else
        guest_start_relay(guest);
}

/* HTTP in clear. */

static bool host_fits(const struct guest *guest, const struct http_head *head)
{
    struct str text = http_find(head, STR("host"));
    AUTO_BUF struct buf base = {0};
    struct err err;
    struct url url;
    if (text.ptr == NULL)
        return head->minor == 0;
    buf_printf(&base, "http://%.*s/", STR_ARG(text));
    return url_parse(buf_str(&base), &url, &err) == 0 && url.port == guest->port &&
           strcmp(url.host.text, guest->host.text) == 0;
}

static struct str path_of(struct str target)
{
    return str_slice(target, 0, str_find_char(target, '?'));
}

static void on_dialled_late(void *ctx, const struct dial_answer *answer);

static void judge_request(struct guest *guest, const struct http_head *head, size_t head_len)
{
    struct verdict_request request = {.scheme = "http",
                                      .host = &guest->host,
                                      .port = guest->port,
                                      .method = head->method,
                                      .path = path_of(head->target)};
    struct verdict verdict = verdict_judge(guest->porter->policy, &request);
    if (head->target.ptr[0] != '/')
        refuse(guest, VERDICT_URL_INVALID, "the request's target is no path");
    else if (!host_fits(guest, head))
        refuse(guest, VERDICT_HOST_HEADER, "the Host header names another");
    else if (!verdict_is_allowed(&verdict))
        guest_refuse(guest, &verdict);
    else if (guest->outer < 0)
        guest_dial(guest, "http", head->method, request.path, on_dialled_late);
    else
        guest_start_exchange(guest, head, head->target, head_len);
}

static void sniff_head(struct guest *guest)
{
    struct err err = {0};
    struct str bytes = buf_str(&guest->in);
    size_t head_len = http_head_end(str_slice(bytes, 0, HTTP_HEAD_MAX));
    guest->is_http = true;
    if (head_len == 0 && bytes.len < HTTP_HEAD_MAX) {
        guest_set_state(guest, GUEST_SNIFFING, guest->porter->limits.head_ms);
        return;
    }
    struct http_head *head = mem_alloc(sizeof *head);
    if (head_len == 0)
        (void)err_set(&err, ERR_INVALID, "the head of the request is longer than %d bytes",
                      HTTP_HEAD_MAX);
    if (head_len == 0 || http_read_request(str_slice(bytes, 0, head_len), head, &err) < 0)
        guest_fail(guest, &err);
    else
        judge_request(guest, head, head_len);
    free(head);
}

static void on_dialled_late(void *ctx, const struct dial_answer *answer)
{
    struct guest *guest = ctx;
    struct verdict verdict = *answer->verdict;
    struct err why = {0};
    if (answer->why != NULL)
        why = *answer->why;
    guest->outer = answer->fd;
    guest->dial = dial_free(guest->dial);
    if (guest->outer >= 0)
        sniff_head(guest);
    else if (verdict_is_allowed(&verdict))
        guest_fail(guest, &why);
    else
        guest_refuse(guest, &verdict);
}

/* What the first line says. */
enum kind { KIND_UNKNOWN, KIND_HTTP, KIND_OTHER };

static enum kind kind_of(struct str bytes)
{
    size_t line = str_find_char(str_slice(bytes, 0, FIRST_LINE_MAX), '\n');
    struct str first = str_slice(bytes, 0, line);
    for (size_t i = 0; i < first.len; i++)
        if ((unsigned char)first.ptr[i] < 0x20 && first.ptr[i] != '\r')
            return KIND_OTHER;
    if (line == bytes.len)
        return KIND_UNKNOWN;
    first = str_trim(first);
    return str_ends(first, STR(" HTTP/1.1")) || str_ends(first, STR(" HTTP/1.0")) ? KIND_HTTP
                                                                                  : KIND_OTHER;
}

/* Neither TLS nor HTTP, or nobody knows yet what. */
static void pass_unknown(struct guest *guest)
{
    if (guest->port == HTTP_PORT)
        refuse(guest, VERDICT_NOT_HTTP, "what came is no HTTP/1");
    else if (guest->outer < 0)
        refuse(guest, VERDICT_NOT_INSPECTED,
               "the policy limits methods or paths on this host, which a tunnel hides");
    else
        guest_start_relay(guest);
}

void guest_on_sniff(struct guest *guest)
{
    struct str bytes = buf_str(&guest->in);
    if (bytes.len == 0)
        return;
    if (guest->port == HTTPS_PORT || bytes.ptr[0] == TLS_FIRST) {
        sniff_tls(guest);
        return;
    }
    enum kind kind = kind_of(bytes);
    if (kind == KIND_HTTP)
        sniff_head(guest);
    else if (kind == KIND_OTHER || bytes.len >= FIRST_LINE_MAX)
        pass_unknown(guest);
}

void guest_on_sniff_time(struct guest *guest)
{
    bool is_begun = guest->in.len > 0 && (guest->is_http || guest->in.ptr[0] == TLS_FIRST);
    if (may_be_anything(guest) && guest->outer >= 0 && !is_begun)
        guest_start_relay(guest);
    else
        guest_reset(guest);
}

/* Refused already; a program that speaks HTTP gets to read why. */
void guest_on_turned_away(struct guest *guest)
{
    struct str bytes = buf_str(&guest->in);
    if (bytes.len == 0)
        return;
    enum kind kind = kind_of(bytes);
    if (kind == KIND_UNKNOWN && bytes.len < FIRST_LINE_MAX)
        return;
    guest->is_http = kind == KIND_HTTP;
    if (!guest->is_http) {
        guest_reset(guest);
        return;
    }
    if (http_head_end(bytes) == 0 && bytes.len < HTTP_HEAD_MAX)
        return;
    struct verdict verdict = guest->refusal;
    guest_refuse(guest, &verdict);
}
