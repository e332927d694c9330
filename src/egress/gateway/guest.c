/* A connection out of the sandbox: its life, its deadlines, and how a request is refused. */

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "egress/gateway/egress_proxy_internal.h"
#include "egress/gateway/relay.h"
#include "egress/gateway/socks.h"
#include "egress/keys/rewrite.h"
#include "egress/keys/secrets.h"
#include "egress/keys/talk.h"
#include "io/listen.h"
#include "io/loop.h"

enum { LEAVE_MS = 2000, TURNED_AWAY_MS = 300, READ_SIZE = 16 << 10 };

static void link_guest(struct egress_proxy *proxy, struct guest *guest)
{
    guest->next = proxy->guests;
    guest->link = &proxy->guests;
    if (guest->next != NULL)
        guest->next->link = &guest->next;
    proxy->guests = guest;
    proxy->guest_count++;
}

void guest_free(struct guest *guest)
{
    struct egress_proxy *proxy = guest->proxy;
    *guest->link = guest->next;
    if (guest->next != NULL)
        guest->next->link = guest->link;
    proxy->guest_count--;
    (void)dial_free(guest->dial);
    (void)relay_free(guest->relay);
    (void)talk_free(guest->talk);
    (void)watch_free(guest->watch);
    (void)timer_free(guest->timer);
    fd_close(&guest->fd);
    fd_close(&guest->outer);
    buf_done(&guest->in);
    free(guest);
    egress_proxy_left(proxy);
}

void guest_set_state(struct guest *guest, enum guest_state state, int64_t deadline_ms)
{
    guest->state = state;
    if (deadline_ms > 0)
        timer_set(guest->timer, deadline_ms, 0);
    else
        timer_clear(guest->timer);
    /* While the host is dialled, what the client says can wait in its socket. */
    if (guest->watch != NULL)
        watch_set(guest->watch, state == GUEST_DIALLING ? 0 : WATCH_READ);
}

/* Unread bytes would make the kernel send a reset anyway; here it is meant. */
void guest_reset(struct guest *guest)
{
    struct linger now = {.l_onoff = 1};
    if (guest->fd >= 0)
        (void)setsockopt(guest->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    if (guest->relay != NULL)
        relay_cut(guest->relay);
    if (guest->talk != NULL)
        talk_cut(guest->talk);
    guest_free(guest);
}

bool guest_say(struct guest *guest, struct str bytes)
{
    ssize_t sent = SYS(send(guest->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL));
    if (sent == (ssize_t)bytes.len)
        return true;
    guest_reset(guest);
    return false;
}

void guest_leave(struct guest *guest, struct str last_words)
{
    if (!guest_say(guest, last_words))
        return;
    (void)shutdown(guest->fd, SHUT_WR);
    fd_close(&guest->outer);
    buf_clear(&guest->in);
    guest_set_state(guest, GUEST_LEAVING, LEAVE_MS);
}

static void leave_with_text(struct guest *guest, int status, const char *reason, const char *text)
{
    AUTO_BUF struct buf out = {0};
    rewrite_put_refusal(status, reason, text, false, &out);
    guest_leave(guest, buf_str(&out));
}

static void leave_socks(struct guest *guest, enum socks_reply code)
{
    unsigned char reply[SOCKS_REPLY_SIZE];
    socks_put_reply(code, reply);
    guest_leave(guest, str_n((const char *)reply, sizeof reply));
}

/* Inside an open tunnel, only HTTP can report it. */
static bool can_tell(const struct guest *guest)
{
    return guest->is_http ||
           (guest->state != GUEST_SNIFFING && guest->channel != EGRESS_PROXY_BY_CAPTURE);
}

void guest_refuse(struct guest *guest, const struct verdict *verdict)
{
    egress_proxy_tell(guest->proxy, guest->channel, verdict, guest->host.text, guest->port);
    if (can_tell(guest) && (guest->channel != EGRESS_PROXY_BY_SOCKS || guest->is_http)) {
        int status = verdict->reason == VERDICT_LIMIT          ? 429
                     : verdict->reason == VERDICT_NOT_RESOLVED ? 502
                                                               : 403;
        leave_with_text(guest, status, verdict_reason_name(verdict->reason), verdict->text);
    } else if (can_tell(guest)) {
        leave_socks(guest,
                    verdict->reason == VERDICT_NOT_RESOLVED ? SOCKS_NO_HOST : SOCKS_NOT_ALLOWED);
    } else if (guest->state == GUEST_SNIFFING || guest->port == 443) {
        guest_reset(guest);
    } else {
        guest->refusal = *verdict;
        fd_close(&guest->outer);
        guest_set_state(guest, GUEST_TURNED_AWAY, TURNED_AWAY_MS);
        guest_advance(guest);
    }
}

void guest_fail(struct guest *guest, const struct err *why)
{
    int status = why->code == ERR_TIMEOUT     ? 504
                 : why->code == ERR_INVALID   ? 400
                 : why->code == ERR_TOO_LARGE ? 431
                                              : 502;
    if (!can_tell(guest))
        guest_reset(guest);
    else if (guest->channel == EGRESS_PROXY_BY_SOCKS && !guest->is_http)
        leave_socks(guest, SOCKS_FAILED);
    else
        leave_with_text(guest, status, err_wire_name(why->code), why->msg);
}

/* Bytes. */

static void on_leaving(struct guest *guest)
{
    buf_clear(&guest->in);
}

static void on_nothing(UNUSED struct guest *guest)
{
}

void guest_advance(struct guest *guest)
{
    static void (*const steps[])(struct guest * guest) = {
        [GUEST_FIRST] = guest_on_first,     [GUEST_GREETING] = guest_on_greeting,
        [GUEST_REQUEST] = guest_on_request, [GUEST_HEAD] = guest_on_head,
        [GUEST_DIALLING] = on_nothing,      [GUEST_SNIFFING] = guest_on_sniff,
        [GUEST_PASSING] = on_nothing,       [GUEST_TURNED_AWAY] = guest_on_turned_away,
        [GUEST_LEAVING] = on_leaving,
    };
    steps[guest->state](guest);
}

static void on_readable(void *ctx, UNUSED int events)
{
    struct guest *guest = ctx;
    struct err err = {0};
    char *space;
    if (buf_reserve(&guest->in, READ_SIZE, &space, &err) < 0) {
        guest_reset(guest); /* every state has ended long before */
        return;
    }
    ssize_t got = SYS(recv(guest->fd, space, READ_SIZE, 0));
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        guest_free(guest);
        return;
    }
    buf_commit(&guest->in, (size_t)got);
    guest_advance(guest);
}

static void on_deadline(void *ctx)
{
    struct guest *guest = ctx;
    if (guest->state == GUEST_SNIFFING)
        guest_on_sniff_time(guest);
    else
        guest_reset(guest);
}

/* Where a captured connection wanted to go. */
static bool read_destination(struct guest *guest)
{
    struct addr own = {.len = sizeof own.sa};
    struct ip ip = {0};
    struct err err;
    char text[IP_TEXT_SIZE], shown[IP_TEXT_SIZE + 2];
    if (getsockname(guest->fd, &own.sa.any, &own.len) < 0)
        return false;
    const unsigned char *bytes = own.sa.v6.sin6_addr.s6_addr;
    if (own.sa.any.sa_family == AF_INET) {
        ip.version = 4;
        memcpy(ip.bytes, &own.sa.v4.sin_addr, 4);
    } else if (IN6_IS_ADDR_V4MAPPED(&own.sa.v6.sin6_addr)) {
        ip.version = 4;
        memcpy(ip.bytes, bytes + 12, 4);
    } else {
        ip.version = 6;
        memcpy(ip.bytes, bytes, 16);
    }
    guest->port = (uint16_t)addr_port(&own);
    const struct names_entry *entry = names_find(&guest->proxy->names, &ip);
    if (entry != NULL) {
        guest->host = entry->host;
        return true;
    }
    ip_format(&ip, text);
    (void)snprintf(shown, sizeof shown, ip.version == 6 ? "[%s]" : "%s", text);
    return host_parse(str_of(shown), &guest->host, &err) == 0;
}

void guest_new(struct egress_proxy_listener *listener, int fd)
{
    struct egress_proxy *proxy = listener->proxy;
    struct err err = {0};
    struct guest *guest = mem_alloc(sizeof *guest);
    guest->proxy = proxy;
    guest->fd = fd;
    guest->outer = -1;
    guest->in = buf_with_limit((size_t)proxy->limits.head_bytes + READ_SIZE);
    guest->begin_ms = clock_now_ms();
    guest->timer = timer_new(proxy->loop, on_deadline, guest);
    link_guest(proxy, guest);
    if (watch_new(proxy->loop, fd, WATCH_READ, on_readable, guest, &guest->watch, &err) < 0) {
        guest_free(guest);
        return;
    }
    if (listener->kind == EGRESS_PROXY_PROXY) {
        guest->channel = EGRESS_PROXY_BY_PROXY;
        guest_set_state(guest, GUEST_FIRST, proxy->limits.head_ms);
        return;
    }
    guest->channel = EGRESS_PROXY_BY_CAPTURE;
    if (read_destination(guest))
        guest_begin_tunnel(guest);
    else
        guest_reset(guest);
}

/* The way out. */

void guest_dial(struct guest *guest, const char *scheme, struct str method, struct str path,
                dial_done *done)
{
    struct egress_proxy *proxy = guest->proxy;
    const struct names_entry *entry = names_get(&proxy->names, &guest->host);
    bool is_known = entry != NULL && names_is_fresh(entry);
    struct dial_request request = {
        .policy = proxy->policy,
        .scheme = scheme,
        .host = &guest->host,
        .port = guest->port,
        .method = method,
        .path = path,
        .is_lookup = guest->must_open,
        .known = is_known ? entry->addresses : NULL,
        .known_count = is_known ? entry->address_count : 0,
    };
    struct verdict used_up;
    if (egress_proxy_is_used_up(proxy, guest, &used_up)) {
        guest_refuse(guest, &used_up);
        return;
    }
    guest_set_state(guest, GUEST_DIALLING, 0);
    guest->dial = dial_start(proxy->dialer, &request, done, guest);
}

/* Reports a connection that was cut because no bytes were left, like a refused one. */
static void tell_used_up(const struct guest *guest)
{
    struct verdict used_up;
    if (egress_proxy_is_used_up(guest->proxy, guest, &used_up))
        egress_proxy_tell(guest->proxy, guest->channel, &used_up, guest->host.text, guest->port);
}

static void on_relayed(void *ctx, UNUSED const struct err *why)
{
    tell_used_up(ctx);
    guest_free(ctx);
}

void guest_start_relay(struct guest *guest)
{
    struct err err = {0};
    struct relay_options options = {.inner = guest->fd,
                                    .outer = guest->outer,
                                    .to_outer = buf_str(&guest->in),
                                    .meter = &guest->proxy->meter,
                                    .done = on_relayed,
                                    .ctx = guest};
    guest->watch = watch_free(guest->watch);
    if (relay_start(guest->proxy->loop, &options, &guest->relay, &err) < 0) {
        guest_reset(guest);
        return;
    }
    guest->fd = guest->outer = -1;
    buf_done(&guest->in);
    guest_set_state(guest, GUEST_PASSING, 0);
}

/* Each request is asked for with what the policy says now. */
static struct verdict guest_judge(void *ctx, struct str method, struct str path)
{
    struct guest *guest = ctx;
    struct verdict_request request = {.scheme = guest->is_https ? "https" : "http",
                                      .host = &guest->host,
                                      .port = guest->port,
                                      .method = method,
                                      .path = path};
    struct verdict verdict = verdict_judge(guest->proxy->policy, &request);
    if (!verdict_is_allowed(&verdict))
        egress_proxy_tell(guest->proxy, guest->channel, &verdict, guest->host.text, guest->port);
    return verdict;
}

static void on_talked(void *ctx, const char *reason, const char *why)
{
    struct guest *guest = ctx;
    /* The one refusal that is not ours to make but the conversation's. */
    if (why != NULL && reason != NULL && strcmp(reason, REWRITE_HOST_MISMATCH) == 0) {
        struct verdict verdict = verdict_make(VERDICT_HOST_HEADER, "blocked %.100s:%d: %.80s",
                                              guest->host.text, guest->port, why);
        egress_proxy_tell(guest->proxy, guest->channel, &verdict, guest->host.text, guest->port);
    }
    tell_used_up(guest);
    guest_free(guest);
}

void guest_start_talk(struct guest *guest, bool is_https, bool is_single)
{
    const struct egress_proxy_options *own = &guest->proxy->options;
    struct err err = {0};
    struct talk_options options = {
        .inner = fd_take(&guest->fd),
        .outer = fd_take(&guest->outer),
        .from_inner = buf_str(&guest->in),
        .host = guest->host,
        .port = guest->port,
        .is_https = is_https,
        .tls = own->tls,
        .authority = own->authority,
        .secrets = own->secrets,
        .is_single = is_single,
        .head_max = (size_t)guest->proxy->limits.head_bytes,
        .answer_max = (uint64_t)guest->proxy->limits.answer_bytes,
        .meter = &guest->proxy->meter,
        .judge = guest_judge,
        .done = on_talked,
        .ctx = guest,
    };
    guest->is_https = is_https;
    guest->watch = watch_free(guest->watch);
    guest_set_state(guest, GUEST_PASSING, 0);
    if (talk_start(guest->proxy->loop, &options, &guest->talk, &err) < 0) {
        guest_free(guest);
        return;
    }
    buf_done(&guest->in);
}

int64_t guest_moved_ms(const struct guest *guest)
{
    if (guest->relay != NULL)
        return relay_moved_ms(guest->relay);
    return guest->talk != NULL ? talk_moved_ms(guest->talk) : guest->begin_ms;
}

bool guest_has_input(const struct guest *guest)
{
    return (guest->relay != NULL && relay_has_input(guest->relay)) ||
           (guest->talk != NULL && talk_has_input(guest->talk));
}

void guest_resume(struct guest *guest)
{
    if (guest->relay != NULL)
        relay_resume(guest->relay);
    if (guest->talk != NULL)
        talk_resume(guest->talk);
}
