#include "egress/gateway/egress_proxy.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "egress/gateway/egress_proxy_internal.h"
#include "io/loop.h"

enum { SWEEP_MS = 1000, METER_MS = 20, TOLD_MAX = 1024, ACCEPT_AT_ONCE = 16 };

const char *egress_proxy_channel_name(enum egress_proxy_channel channel)
{
    static const char *const names[] = {
        [EGRESS_PROXY_BY_PROXY] = "proxy", [EGRESS_PROXY_BY_CONNECT] = "connect",
        [EGRESS_PROXY_BY_SOCKS] = "socks", [EGRESS_PROXY_BY_CAPTURE] = "capture",
        [EGRESS_PROXY_BY_DNS] = "dns",
    };
    return names[channel];
}

/* A program that tries the same host again and again is one piece of news. */
void egress_proxy_tell(struct egress_proxy *proxy, enum egress_proxy_channel channel,
                       const struct verdict *verdict, const char *host, uint16_t port)
{
    char key[HOST_TEXT_SIZE + 64];
    proxy->blocked++;
    (void)snprintf(key, sizeof key, "%s:%d %d", host, port, (int)verdict->reason);
    if (map_has(&proxy->told, str_of(key)) || proxy->told.len >= TOLD_MAX)
        return;
    (void)map_put(&proxy->told, str_of(key), proxy);
    struct egress_proxy_event event = {
        .channel = channel, .verdict = verdict, .host = host, .port = port};
    if (proxy->options.on_blocked != NULL)
        proxy->options.on_blocked(proxy->options.ctx, &event);
}

static void set_listeners(struct egress_proxy *proxy)
{
    for (size_t i = 0; i < proxy->listener_count; i++)
        if (proxy->listeners[i].kind != EGRESS_PROXY_DNS)
            watch_set(proxy->listeners[i].watch, proxy->is_full ? 0 : WATCH_READ);
}

static void open_listeners(struct egress_proxy *proxy)
{
    if (!proxy->is_full || (int64_t)proxy->guest_count >= proxy->limits.connections)
        return;
    proxy->is_full = false;
    set_listeners(proxy);
}

void egress_proxy_left(struct egress_proxy *proxy)
{
    proxy->busy_ms = clock_now_ms();
    open_listeners(proxy);
}

static void on_connection(void *ctx, UNUSED int events)
{
    struct egress_proxy_listener *listener = ctx;
    struct egress_proxy *proxy = listener->proxy;
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        if ((int64_t)proxy->guest_count >= proxy->limits.connections) {
            proxy->is_full = true;
            set_listeners(proxy);
            return;
        }
        int fd = SYS(accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            proxy->is_full = true; /* until a connection ends, or the next sweep */
            set_listeners(proxy);
        }
        if (fd < 0)
            return;
        proxy->accepted++;
        proxy->busy_ms = clock_now_ms();
        if (listener->kind == EGRESS_PROXY_DNS_TCP)
            egress_proxy_dns_accept(listener, fd);
        else
            guest_new(listener, fd);
    }
}

/* A connection that only waits for the rate limit is not idle. */
static bool is_idle(const struct egress_proxy *proxy, const struct guest *guest, int64_t now)
{
    return guest->state == GUEST_PASSING && now - guest_moved_ms(guest) > proxy->limits.idle_ms &&
           (proxy->meter.per_second == 0 || !guest_has_input(guest));
}

static void end_idle(struct egress_proxy *proxy, int64_t now)
{
    for (struct guest *guest = proxy->guests, *next; guest != NULL; guest = next) {
        next = guest->next;
        bool is_old = now - guest->begin_ms > proxy->limits.total_ms;
        if (is_old || is_idle(proxy, guest, now))
            guest_reset(guest);
    }
    egress_proxy_dns_sweep(proxy, now);
    open_listeners(proxy);
}

static void on_sweep(void *ctx)
{
    struct egress_proxy *proxy = ctx;
    int64_t now = clock_now_ms();
    bool was_dry = meter_is_dry(&proxy->meter);
    meter_fill(&proxy->meter, clock_now_ns());
    /* Connections also end in a sandbox that is always at its rate limit. */
    if (now - proxy->swept_ms >= SWEEP_MS || !was_dry) {
        proxy->swept_ms = now;
        end_idle(proxy, now);
    }
    if (!was_dry || meter_is_dry(&proxy->meter))
        return;
    timer_set(proxy->sweep, SWEEP_MS, SWEEP_MS);
    for (struct guest *guest = proxy->guests, *next; guest != NULL; guest = next) {
        next = guest->next;
        guest_resume(guest);
    }
}

static void on_dry(void *ctx)
{
    struct egress_proxy *proxy = ctx;
    timer_set(proxy->sweep, METER_MS, METER_MS);
}

void egress_proxy_set_limits(struct egress_proxy *proxy, const struct egress_proxy_limits *limits)
{
    struct egress_proxy_limits filled = *limits;
    if (filled.connections <= 0)
        filled.connections = EGRESS_PROXY_CONNECTIONS;
    if (filled.head_ms <= 0)
        filled.head_ms = EGRESS_PROXY_HEAD_MS;
    if (filled.idle_ms <= 0)
        filled.idle_ms = EGRESS_PROXY_IDLE_MS;
    if (filled.total_ms <= 0)
        filled.total_ms = EGRESS_PROXY_TOTAL_MS;
    if (filled.head_bytes <= 0)
        filled.head_bytes = EGRESS_PROXY_HEAD_BYTES;
    filled.head_bytes = MIN(filled.head_bytes, (int64_t)EGRESS_PROXY_HEAD_BYTES_MAX);
    proxy->limits = filled;
    proxy->meter.per_second = filled.bytes_per_second;
    /* A limit that was used up before anything comes is still a limit. */
    proxy->meter.total_max = filled.bytes_total == 0 ? 0
                             : filled.bytes_total > filled.bytes_before
                                 ? filled.bytes_total - filled.bytes_before
                                 : 1;
    proxy->meter.filled_ns = clock_now_ns();
    proxy->meter.budget = filled.bytes_per_second / 4;
}

bool egress_proxy_is_used_up(const struct egress_proxy *proxy, const struct guest *guest,
                             struct verdict *ret_verdict)
{
    if (!meter_is_used_up(&proxy->meter))
        return false;
    *ret_verdict =
        verdict_make(VERDICT_LIMIT, "blocked %.100s:%d: the sandbox has used up its %lld bytes",
                     guest->host.text, guest->port, (long long)proxy->limits.bytes_total);
    return true;
}

int egress_proxy_open(struct loop *loop, const struct egress_proxy_options *options,
                      struct egress_proxy **ret_proxy, UNUSED struct err *err)
{
    loop_assert(loop);
    struct egress_proxy *proxy = mem_alloc(sizeof *proxy);
    proxy->loop = loop;
    proxy->options = *options;
    proxy->policy = options->policy == NULL ? NULL : policy_ref(options->policy);
    proxy->dial_options = (struct dial_options){.dns_servers = options->dns_servers,
                                                .resolve_ms = options->resolve_ms,
                                                .no_files = options->no_files};
    proxy->dialer = dialer_new(loop, &proxy->dial_options);
    egress_proxy_set_limits(proxy, &options->limits);
    proxy->sweep = timer_new(loop, on_sweep, proxy);
    proxy->meter.on_dry = on_dry;
    proxy->meter.ctx = proxy;
    timer_set(proxy->sweep, SWEEP_MS, SWEEP_MS);
    proxy->busy_ms = clock_now_ms();
    *ret_proxy = proxy;
    return 0;
}

struct egress_proxy *egress_proxy_free(struct egress_proxy *proxy)
{
    if (proxy == NULL)
        return NULL;
    loop_assert(proxy->loop);
    for (size_t i = 0; i < proxy->listener_count; i++) {
        (void)watch_free(proxy->listeners[i].watch);
        fd_close(&proxy->listeners[i].fd);
    }
    proxy->listener_count = 0;
    while (proxy->guests != NULL)
        guest_free(proxy->guests);
    egress_proxy_dns_done(proxy);
    (void)timer_free(proxy->sweep);
    (void)dialer_free(proxy->dialer);
    (void)policy_free(proxy->policy);
    names_done(&proxy->names);
    map_done(&proxy->told);
    free(proxy);
    return NULL;
}

int egress_proxy_add(struct egress_proxy *proxy, enum egress_proxy_socket kind, int fd,
                     struct err *err)
{
    loop_assert(proxy->loop);
    if (proxy->listener_count == EGRESS_PROXY_SOCKETS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d sockets", EGRESS_PROXY_SOCKETS_MAX);
    struct egress_proxy_listener *listener = &proxy->listeners[proxy->listener_count];
    *listener = (struct egress_proxy_listener){.proxy = proxy, .kind = kind, .fd = fd};
    int done = kind == EGRESS_PROXY_DNS ? egress_proxy_dns_open(listener, err)
                                        : watch_new(proxy->loop, fd, WATCH_READ, on_connection,
                                                    listener, &listener->watch, err);
    if (done < 0)
        return -1;
    proxy->listener_count++;
    return 0;
}

void egress_proxy_add_name(struct egress_proxy *proxy, const struct host *host)
{
    struct ip address;
    bool is_new;
    (void)names_address(&proxy->names, host, &address, &is_new);
}

void egress_proxy_set_policy(struct egress_proxy *proxy, struct policy *policy)
{
    struct policy *old = proxy->policy;
    proxy->policy = policy == NULL ? NULL : policy_ref(policy);
    (void)policy_free(old);
    map_done(&proxy->told); /* what is blocked now is news */
    for (struct guest *guest = proxy->guests, *next; guest != NULL; guest = next) {
        struct verdict_request request = {
            .scheme = "tcp", .host = &guest->host, .port = guest->port, .is_lookup = true};
        struct verdict verdict = {0};
        next = guest->next;
        if (guest->state != GUEST_PASSING && guest->state != GUEST_SNIFFING)
            continue;
        verdict = verdict_judge(proxy->policy, &request);
        if (!verdict_is_allowed(&verdict))
            guest_reset(guest);
    }
}

struct egress_proxy_stats egress_proxy_stats(const struct egress_proxy *proxy)
{
    return (struct egress_proxy_stats){
        .connections = (int64_t)proxy->guest_count,
        .accepted = proxy->accepted,
        .blocked = proxy->blocked,
        .sent = proxy->meter.sent,
        .received = proxy->meter.received,
    };
}

int64_t egress_proxy_idle_ms(const struct egress_proxy *proxy)
{
    bool is_busy = proxy->guest_count > 0 || proxy->ask_count > 0;
    return is_busy ? 0 : clock_now_ms() - proxy->busy_ms;
}
