/* Connections that name a host and a port and nothing else: CONNECT, SOCKS and what was captured.
 *
 * What goes through must be meant for the host that was judged, as far as it says so itself: the
 * name in a TLS hello, the Host of an HTTP request. HTTP in clear is passed request by request, and
 * so is TLS where a secret or a rule of the policy asks for it; everything else untouched. */

#include "base/err.h"
#include "base/fd.h"
#include "egress/gateway/egress_proxy_internal.h"
#include "egress/gateway/hello.h"
#include "egress/gateway/socks.h"
#include "egress/keys/secrets.h"
#include "io/loop.h"

enum {
    HTTPS_PORT = 443,
    HTTP_PORT = 80,
    QUIET_MS = 100, /* a client that says nothing waits for the host to speak first */
    FIRST_LINE_MAX = 8 << 10,
    TLS_FIRST = 0x16,
};

/* Secrets are sent only over TLS. If one is bound to the host, wait for a slow client's first
 * bytes. */
static bool may_be_anything(const struct guest *guest)
{
    return guest->port != HTTPS_PORT && guest->port != HTTP_PORT &&
           !secrets_go_to(guest->proxy->options.secrets, &guest->host, guest->port);
}

static void guest_tunnel_refuse(struct guest *guest, enum verdict_reason reason, const char *why)
{
    struct verdict verdict =
        verdict_make(reason, "blocked %.100s:%d: %s", guest->host.text, guest->port, why);
    guest_refuse(guest, &verdict);
}

/* Reports to the client that its connection is open. */
static void stand(struct guest *guest)
{
    unsigned char reply[SOCKS_REPLY_SIZE];
    struct str words = STR("");
    if (guest->channel == EGRESS_PROXY_BY_CONNECT)
        words = STR("HTTP/1.1 200 Connection established\r\n\r\n");
    if (guest->channel == EGRESS_PROXY_BY_SOCKS) {
        socks_put_reply(SOCKS_OK, reply);
        words = str_n((const char *)reply, sizeof reply);
    }
    if (!guest_say(guest, words))
        return;
    bool may_wait = may_be_anything(guest) && !guest->must_open;
    guest_set_state(guest, GUEST_SNIFFING, may_wait ? QUIET_MS : guest->proxy->limits.head_ms);
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
    if (guest->outer >= 0)
        stand(guest);
    else if (verdict_is_allowed(&verdict))
        guest_fail(guest, &why);
    else
        guest_refuse(guest, &verdict);
}

void guest_begin_tunnel(struct guest *guest)
{
    struct verdict_request request = {.scheme = "tcp", .host = &guest->host, .port = guest->port};
    struct verdict verdict = verdict_judge(guest->proxy->policy, &request);
    guest->must_open = verdict.reason == VERDICT_NOT_INSPECTED;
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
        guest_set_state(guest, GUEST_SNIFFING, guest->proxy->limits.head_ms);
        return;
    case HELLO_BAD:
        guest_tunnel_refuse(guest, VERDICT_NOT_TLS, "the client did not send TLS");
        return;
    case HELLO_DONE:
        break;
    }
    const struct egress_proxy_options *own = &guest->proxy->options;
    bool opens = guest->must_open || secrets_go_to(own->secrets, &guest->host, guest->port);
    if (!is_name_of(&hello, &guest->host))
        guest_tunnel_refuse(guest, VERDICT_SERVER_NAME,
                            "the TLS handshake names another host or no host");
    else if (!opens)
        guest_start_relay(guest);
    else if (own->tls != NULL && own->authority != NULL)
        guest_start_talk(guest, true, false);
    else
        guest_tunnel_refuse(
            guest, VERDICT_NOT_INSPECTED,
            "the policy limits methods or paths on this host, which a tunnel hides");
}

/* What the first line says. */
enum kind { KIND_UNKNOWN, KIND_HTTP, KIND_OTHER };

static enum kind guest_tunnel_kind_of(struct str bytes)
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

/* Neither TLS nor HTTP, or not known yet. */
static void pass_unknown(struct guest *guest)
{
    if (guest->port == HTTP_PORT)
        guest_tunnel_refuse(guest, VERDICT_NOT_HTTP, "the client did not send HTTP/1");
    else if (guest->must_open)
        guest_tunnel_refuse(
            guest, VERDICT_NOT_INSPECTED,
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
    enum kind kind = guest_tunnel_kind_of(bytes);
    if (kind == KIND_HTTP)
        guest_start_talk(guest, false, false);
    else if (kind == KIND_OTHER || bytes.len >= FIRST_LINE_MAX)
        pass_unknown(guest);
}

void guest_on_sniff_time(struct guest *guest)
{
    bool is_begun = guest->in.len > 0 && guest->in.ptr[0] == TLS_FIRST;
    if (may_be_anything(guest) && !guest->must_open && !is_begun)
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
    enum kind kind = guest_tunnel_kind_of(bytes);
    if (kind == KIND_UNKNOWN && bytes.len < FIRST_LINE_MAX)
        return;
    guest->is_http = kind == KIND_HTTP;
    if (!guest->is_http) {
        guest_reset(guest);
        return;
    }
    if (str_find(bytes, STR("\r\n\r\n")) == bytes.len &&
        (int64_t)bytes.len < guest->proxy->limits.head_bytes)
        return;
    struct verdict verdict = guest->refusal;
    guest_refuse(guest, &verdict);
}
