/* The name server of a sandbox. Questions for names that the policy does not know are answered here
 * and leave no trace outside; an allowed name is resolved, judged, and answered with the address
 * that stands for it. */

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "egress/gateway/dns.h"
#include "egress/gateway/egress_proxy_internal.h"
#include "io/listen.h"
#include "io/loop.h"
#include "io/stream.h"

/* Lets a socket send from addresses that are local only through a route; since Linux 4.15. */
enum { IPV6_FREEBIND_ = 78 };
enum { ASKS_MAX = 128, AT_ONCE = 32, CONNECTION_MS = 10000 };

/* Where an answer over UDP goes: to whom, and from which of our addresses. */
struct way_back {
    struct addr to;
    bool has_from;
    struct in6_pktinfo from6;
    struct in_pktinfo from4;
};

/* One question under way, or a connection that asks (is_connection), which counts as well. */
struct dns_ask {
    struct egress_proxy *proxy;
    struct dns_ask *next, **link;
    struct dial *dial;
    struct dns_query query;
    char packet[512]; /* the question, to be sent back */
    int udp_fd;
    struct way_back back;
    struct dns_ask *connection; /* over TCP: who asked */
    bool is_connection;
    struct stream *stream;
    int64_t begin_ms;
};

static struct dns_ask *ask_new(struct egress_proxy *proxy)
{
    struct dns_ask *ask = mem_alloc(sizeof *ask);
    ask->proxy = proxy;
    ask->udp_fd = -1;
    ask->begin_ms = clock_now_ms();
    ask->next = proxy->asks;
    ask->link = &proxy->asks;
    if (ask->next != NULL)
        ask->next->link = &ask->next;
    proxy->asks = ask;
    proxy->ask_count++;
    return ask;
}

static void ask_free(struct dns_ask *ask)
{
    struct egress_proxy *proxy = ask->proxy;
    *ask->link = ask->next;
    if (ask->next != NULL)
        ask->next->link = ask->link;
    proxy->ask_count--;
    proxy->busy_ms = clock_now_ms();
    if (ask->is_connection)
        for (struct dns_ask *other = proxy->asks; other != NULL; other = other->next)
            if (other->connection == ask)
                other->connection = NULL;
    (void)dial_free(ask->dial);
    (void)stream_free(ask->stream);
    free(ask);
}

void egress_proxy_dns_done(struct egress_proxy *proxy)
{
    while (proxy->asks != NULL)
        ask_free(proxy->asks);
}

void egress_proxy_dns_sweep(struct egress_proxy *proxy, int64_t now_ms)
{
    for (struct dns_ask *ask = proxy->asks, *next; ask != NULL; ask = next) {
        next = ask->next;
        if (ask->is_connection && now_ms - ask->begin_ms > CONNECTION_MS) {
            ask_free(ask);
            return; /* its questions stay; the next sweep goes on */
        }
    }
}

/* Answers. */

static void send_udp(const struct dns_ask *ask, struct str packet)
{
    struct addr to = ask->back.to;
    struct iovec part = {.iov_base = (void *)(uintptr_t)packet.ptr, .iov_len = packet.len};
    union {
        char space[CMSG_SPACE(sizeof(struct in6_pktinfo))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr message = {
        .msg_name = &to.sa, .msg_namelen = to.len, .msg_iov = &part, .msg_iovlen = 1};
    bool is_v6 = to.sa.any.sa_family == AF_INET6;
    if (ask->back.has_from) {
        size_t size = is_v6 ? sizeof ask->back.from6 : sizeof ask->back.from4;
        message.msg_control = control.space;
        message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = is_v6 ? IPPROTO_IPV6 : IPPROTO_IP;
        head->cmsg_type = is_v6 ? IPV6_PKTINFO : IP_PKTINFO;
        head->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(head), is_v6 ? (const void *)&ask->back.from6 : &ask->back.from4, size);
    }
    (void)sendmsg(ask->udp_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_tcp(const struct dns_ask *ask, struct str packet)
{
    AUTO_BUF struct buf out = {0};
    struct err err;
    if (ask->connection == NULL)
        return; /* hung up */
    buf_put_char(&out, (char)(packet.len >> 8));
    buf_put_char(&out, (char)(packet.len & 0xff));
    buf_put(&out, packet);
    if (stream_write(ask->connection->stream, buf_str(&out), &err) < 0)
        return; /* it has hung up meanwhile, or does not read: its resolver asks again */
}

static void egress_proxy_dns_answer(struct dns_ask *ask, enum dns_code code,
                                    const struct ip *address, const char *why)
{
    AUTO_BUF struct buf out = {0};
    dns_put_answer(&ask->query, code, address, why, &out);
    if (ask->udp_fd >= 0)
        send_udp(ask, buf_str(&out));
    else
        send_tcp(ask, buf_str(&out));
    ask_free(ask);
}

static void egress_proxy_dns_refuse(struct dns_ask *ask, const struct verdict *verdict)
{
    /* Reverse lookups are made by programs for their logs; they are no attempt to go anywhere. */
    if (!str_ends(host_str(&ask->query.host), STR(".arpa")))
        egress_proxy_tell(ask->proxy, EGRESS_PROXY_BY_DNS, verdict, ask->query.host.text, 0);
    egress_proxy_dns_answer(ask, DNS_NO_NAME, NULL, verdict->text);
}

static void give_address(struct dns_ask *ask, const struct ip *addresses, size_t count)
{
    struct egress_proxy *proxy = ask->proxy;
    struct ip address;
    bool is_new;
    if (!names_address(&proxy->names, &ask->query.host, &address, &is_new)) {
        egress_proxy_dns_answer(ask, DNS_FAILED, NULL, "the sandbox has resolved too many names");
        return;
    }
    names_remember(names_get(&proxy->names, &ask->query.host), addresses, count);
    if (is_new && proxy->options.on_name != NULL)
        proxy->options.on_name(proxy->options.ctx, &ask->query.host);
    egress_proxy_dns_answer(ask, DNS_OK, &address, NULL);
}

static void egress_proxy_dns_on_resolved(void *ctx, const struct dial_answer *got)
{
    struct dns_ask *ask = ctx;
    if (got->why == NULL) {
        give_address(ask, got->addresses, got->address_count);
        return;
    }
    bool is_name = got->why->code == ERR_NOT_FOUND || got->why->code == ERR_FORBIDDEN;
    if (verdict_is_allowed(got->verdict) || !is_name)
        egress_proxy_dns_answer(ask, DNS_FAILED, NULL, got->why->msg);
    else
        egress_proxy_dns_refuse(ask, got->verdict);
}

static void resolve(struct dns_ask *ask, uint16_t port)
{
    struct egress_proxy *proxy = ask->proxy;
    const struct names_entry *entry = names_get(&proxy->names, &ask->query.host);
    bool is_known = entry != NULL && names_is_fresh(entry);
    struct dial_request request = {
        .policy = proxy->policy,
        .scheme = "tcp",
        .host = &ask->query.host,
        .port = port,
        .is_lookup = true,
        .only_resolve = true,
        .known = is_known ? entry->addresses : NULL,
        .known_count = is_known ? entry->address_count : 0,
    };
    ask->dial = dial_start(proxy->dialer, &request, egress_proxy_dns_on_resolved, ask);
}

static void egress_proxy_dns_serve(struct dns_ask *ask)
{
    static const struct ip loopback = {.version = 4, .bytes = {127, 0, 0, 1}};
    struct dns_query *query = &ask->query;
    uint16_t port;
    ask->proxy->busy_ms = clock_now_ms();
    if (query->code != DNS_OK) {
        egress_proxy_dns_answer(ask, query->code, NULL, NULL);
    } else if (!query->is_host) {
        egress_proxy_dns_answer(ask, DNS_NO_NAME, NULL, "no policy can allow this name");
    } else if (host_is_localhost(&query->host)) {
        egress_proxy_dns_answer(ask, DNS_OK, query->type == DNS_A ? &loopback : NULL, NULL);
    } else {
        struct verdict verdict = verdict_judge_name(ask->proxy->policy, &query->host, &port);
        if (!verdict_is_allowed(&verdict))
            egress_proxy_dns_refuse(ask, &verdict);
        else if (query->type == DNS_A)
            resolve(ask, port);
        else
            egress_proxy_dns_answer(ask, DNS_OK, NULL,
                                    NULL); /* no other kind of address, and nothing else */
    }
}

/* Copies the question: it outlives the packet. False when there is nothing to answer. */
static bool read_query(struct dns_ask *ask, struct str packet)
{
    size_t len = MIN(packet.len, sizeof ask->packet);
    memcpy(ask->packet, packet.ptr, len);
    return dns_read(str_n(ask->packet, len), &ask->query);
}

/* UDP. */

static void read_way_back(struct msghdr *message, struct way_back *back)
{
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
         head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level == IPPROTO_IPV6 && head->cmsg_type == IPV6_PKTINFO) {
            memcpy(&back->from6, CMSG_DATA(head), sizeof back->from6);
            back->from6.ipi6_ifindex = 0;
            back->has_from = true;
        } else if (head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_PKTINFO) {
            memcpy(&back->from4, CMSG_DATA(head), sizeof back->from4);
            back->from4.ipi_spec_dst = back->from4.ipi_addr;
            back->from4.ipi_ifindex = 0;
            back->has_from = true;
        }
    }
}

/* False when nothing is there. */
static bool take_packet(struct egress_proxy_listener *listener)
{
    static char space[DNS_PACKET_MAX];
    union {
        char space[256];
        struct cmsghdr align;
    } control;
    struct way_back back = {0};
    struct iovec part = {.iov_base = space, .iov_len = sizeof space};
    struct msghdr message = {.msg_name = &back.to.sa,
                             .msg_namelen = sizeof back.to.sa,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    ssize_t got = SYS(recvmsg(listener->fd, &message, MSG_DONTWAIT));
    if (got < 0)
        return false;
    back.to.len = message.msg_namelen;
    read_way_back(&message, &back);
    if (listener->proxy->ask_count >= ASKS_MAX)
        return true; /* dropped; resolvers ask again */
    struct dns_ask *ask = ask_new(listener->proxy);
    ask->udp_fd = listener->fd;
    ask->back = back;
    if (read_query(ask, str_n(space, (size_t)got)))
        egress_proxy_dns_serve(ask);
    else
        ask_free(ask);
    return true;
}

static void on_packets(void *ctx, UNUSED int events)
{
    for (int i = 0; i < AT_ONCE && take_packet(ctx); i++)
        ;
}

int egress_proxy_dns_open(struct egress_proxy_listener *listener, struct err *err)
{
    int one = 1;
    /* A program may query any name server: the answer comes from the address that it queried. */
    bool is_v6 = setsockopt(listener->fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof one) == 0;
    (void)setsockopt(listener->fd, IPPROTO_IPV6, IPV6_FREEBIND_, &one, sizeof one);
    if (!is_v6 && setsockopt(listener->fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof one) < 0)
        return err_sys(err, errno, "prepare the DNS socket");
    return watch_new(listener->proxy->loop, listener->fd, WATCH_READ, on_packets, listener,
                     &listener->watch, err);
}

/* TCP: each packet behind its length. */

static void egress_proxy_dns_on_data(void *ctx, struct buf *in)
{
    struct dns_ask *connection = ctx;
    while (in->len >= 2) {
        size_t len = (size_t)(unsigned char)in->ptr[0] << 8 | (unsigned char)in->ptr[1];
        if (in->len < 2 + len)
            return;
        if (connection->proxy->ask_count >= ASKS_MAX)
            break;
        struct dns_ask *ask = ask_new(connection->proxy);
        ask->connection = connection;
        bool is_query = len <= DNS_PACKET_MAX && read_query(ask, str_n(in->ptr + 2, len));
        buf_consume(in, 2 + len);
        if (!is_query) {
            ask_free(ask);
            ask_free(connection);
            return;
        }
        egress_proxy_dns_serve(ask);
    }
}

static void egress_proxy_dns_on_end(void *ctx, UNUSED const struct err *why)
{
    ask_free(ctx);
}

void egress_proxy_dns_accept(struct egress_proxy_listener *listener, int fd)
{
    static const struct stream_calls calls = {.on_data = egress_proxy_dns_on_data,
                                              .on_end = egress_proxy_dns_on_end};
    struct err err = {0};
    struct dns_ask *connection = NULL;
    if (listener->proxy->ask_count < ASKS_MAX) {
        connection = ask_new(listener->proxy);
        connection->is_connection = true;
        if (stream_open(listener->proxy->loop, fd, &calls, connection, &connection->stream, &err) ==
            0)
            return;
        ask_free(connection);
    }
    fd_close(&fd);
}
