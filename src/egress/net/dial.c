#include "egress/net/dial.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "egress/net/resolve.h"
#include "io/listen.h"
#include "io/loop.h"

enum { OWN_FRESH_MS = 1000 };

struct dialer {
    struct loop *loop;
    const struct dial_options *options;
    struct ip own[IP_OWN_MAX]; /* this machine's addresses, as of own_ms */
    size_t own_count;
    int64_t own_ms;
};

/* judged by name (dial_start) -> resolving -> judged with addresses (judge) -> connecting, one
 * address after the other (connect_next, on_connected) -> ended (end), with `done` in a turn of its
 * own, since it may free everything. */
struct dial {
    struct dialer *dialer;
    struct policy *policy;
    struct arena arena;
    struct verdict_request request;
    struct host host;
    bool only_resolve;
    struct resolve *resolve;
    struct ip addresses[RESOLVE_ADDRESSES_MAX];
    size_t address_count, address_next;
    int fd;
    struct watch *watch;
    struct timer *timer; /* the deadline of the step; once ended: the turn of `done` */
    int64_t deadline_ms;
    bool is_ended;
    struct verdict verdict;
    struct err why;
    dial_done *done;
    void *ctx;
};

struct dialer *dialer_new(struct loop *loop, const struct dial_options *options)
{
    struct dialer *dialer = mem_alloc(sizeof *dialer);
    dialer->loop = loop;
    dialer->options = options;
    return dialer;
}

struct dialer *dialer_free(struct dialer *dialer)
{
    free(dialer);
    return NULL;
}

static void dial_end(struct dial *dial)
{
    dial->is_ended = true;
    dial->watch = watch_free(dial->watch);
    timer_set(dial->timer, 0, 0);
}

static void dial_refuse(struct dial *dial, enum err_code code, const struct verdict *verdict)
{
    dial->verdict = *verdict;
    (void)err_set(&dial->why, code, "%s", verdict->text);
    dial_end(dial);
}

static void connect_next(struct dial *dial);

/* The step took too long, or all is over. */
static void dial_on_timer(void *ctx)
{
    struct dial *dial = ctx;
    if (!dial->is_ended && dial->fd >= 0) {
        dial->watch = watch_free(dial->watch);
        fd_close(&dial->fd);
        (void)err_set(&dial->why, ERR_TIMEOUT, "%.100s:%d does not answer", dial->host.text,
                      dial->request.port);
        connect_next(dial);
        return;
    }
    bool is_good = dial->why.code == ERR_NONE;
    struct dial_answer answer = {.fd = is_good ? fd_take(&dial->fd) : -1,
                                 .addresses = dial->addresses,
                                 .address_count = is_good ? dial->address_count : 0,
                                 .verdict = &dial->verdict,
                                 .why = is_good ? NULL : &dial->why};
    dial->done(dial->ctx, &answer);
}

/* The kernel connects to the address that we gave it. Check the peer anyway: another peer would
 * bypass the policy. */
static bool is_peer(const struct dial *dial)
{
    struct addr wanted = ip_to_addr(&dial->addresses[dial->address_next - 1], dial->request.port);
    struct addr peer = {.len = sizeof peer.sa};
    if (getpeername(dial->fd, &peer.sa.any, &peer.len) < 0)
        return false;
    char one[ADDR_TEXT_SIZE], other[ADDR_TEXT_SIZE];
    addr_format(&wanted, one);
    addr_format(&peer, other);
    return strcmp(one, other) == 0;
}

static void on_connected(void *ctx, UNUSED int events)
{
    struct dial *dial = ctx;
    int code = 0;
    socklen_t len = sizeof code;
    if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
        code = errno;
    if (code == 0 && is_peer(dial)) {
        dial->why.code = ERR_NONE;
        dial_end(dial);
        return;
    }
    dial->watch = watch_free(dial->watch);
    fd_close(&dial->fd);
    (void)err_sys(&dial->why, code == 0 ? ECONNABORTED : code, "connect to %.100s:%d",
                  dial->host.text, dial->request.port);
    connect_next(dial);
}

/* False when this address cannot even be tried. */
static bool try_connect(struct dial *dial, const struct ip *ip)
{
    struct addr to = ip_to_addr(ip, dial->request.port);
    int one = 1;
    dial->fd = SYS(socket(to.sa.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (dial->fd < 0)
        return false;
    (void)setsockopt(dial->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (SYS(connect(dial->fd, &to.sa.any, to.len)) == 0 || errno == EINPROGRESS)
        return watch_new(dial->dialer->loop, dial->fd, WATCH_WRITE, on_connected, dial,
                         &dial->watch, &dial->why) == 0;
    (void)err_sys(&dial->why, errno, "connect to %.100s:%d", dial->host.text, dial->request.port);
    return false;
}

static void connect_next(struct dial *dial)
{
    int64_t left_ms = dial->deadline_ms - clock_now_ms();
    while (dial->address_next < dial->address_count && left_ms > 0) {
        if (try_connect(dial, &dial->addresses[dial->address_next++])) {
            timer_set(dial->timer, MIN(left_ms, (int64_t)DIAL_ADDRESS_MS), 0);
            return;
        }
        fd_close(&dial->fd);
    }
    if (dial->why.code == ERR_NONE)
        (void)err_set(&dial->why, ERR_TIMEOUT, "no connection to %.100s within the time limit",
                      dial->host.text);
    dial_end(dial);
}

static int read_own(struct dialer *dialer, struct err *err)
{
    int64_t now = clock_now_ms();
    if (dialer->own_ms != 0 && now - dialer->own_ms < OWN_FRESH_MS)
        return 0;
    if (ip_own_list(dialer->own, &dialer->own_count, err) < 0)
        return -1;
    dialer->own_ms = now;
    return 0;
}

static void dial_judge(struct dial *dial)
{
    if (read_own(dial->dialer, &dial->why) < 0) {
        dial_end(dial);
        return;
    }
    struct verdict_request *request = &dial->request;
    request->is_resolved = true;
    request->addresses = dial->addresses;
    request->address_count = dial->address_count;
    request->own = dial->dialer->own;
    request->own_count = dial->dialer->own_count;
    dial->verdict = verdict_judge(dial->policy, request);
    if (!verdict_is_allowed(&dial->verdict))
        dial_refuse(dial, ERR_FORBIDDEN, &dial->verdict);
    else if (dial->only_resolve)
        dial_end(dial);
    else
        connect_next(dial);
}

static void dial_on_resolved(void *ctx, const struct ip *addresses, size_t count,
                             const struct err *why)
{
    struct dial *dial = ctx;
    if (why != NULL) {
        struct verdict verdict = verdict_unresolved(dial->host.text, why->msg);
        dial_refuse(dial, why->code, &verdict);
        return;
    }
    memcpy(dial->addresses, addresses, count * sizeof *addresses);
    dial->address_count = count;
    dial_judge(dial);
}

static void dial_begin(struct dial *dial, const struct dial_request *request)
{
    dial->verdict = verdict_judge(dial->policy, &dial->request);
    if (!verdict_is_allowed(&dial->verdict)) {
        dial_refuse(dial, ERR_FORBIDDEN, &dial->verdict);
        return;
    }
    if (host_is_ip(&dial->host) || request->known_count > 0) {
        const struct ip *from = request->known_count > 0 ? request->known : &dial->host.ip;
        size_t count = MAX(request->known_count, (size_t)1);
        dial->address_count = MIN(count, (size_t)RESOLVE_ADDRESSES_MAX);
        memcpy(dial->addresses, from, dial->address_count * sizeof *from);
        dial_judge(dial);
        return;
    }
    /* A name that is looked up has no port yet: whichever the operator has named it with. */
    uint16_t port = request->is_lookup ? 0 : request->port;
    dial->address_count = policy_private_addresses(dial->policy, &dial->host, &port,
                                                   dial->addresses, RESOLVE_ADDRESSES_MAX);
    if (dial->address_count > 0) {
        dial->request.port = port;
        dial_judge(dial);
        return;
    }
    struct resolve_options options = {.servers = dial->dialer->options->dns_servers,
                                      .timeout_ms = dial->dialer->options->resolve_ms,
                                      .no_files = dial->dialer->options->no_files};
    if (resolve_start(dial->dialer->loop, &options, host_str(&dial->host), dial_on_resolved, dial,
                      &dial->resolve, &dial->why) < 0)
        dial_end(dial);
}

struct dial *dial_start(struct dialer *dialer, const struct dial_request *request, dial_done *done,
                        void *ctx)
{
    loop_assert(dialer->loop);
    struct dial *dial = mem_alloc(sizeof *dial);
    dial->dialer = dialer;
    dial->policy = request->policy == NULL ? NULL : policy_ref(request->policy);
    dial->host = *request->host;
    dial->only_resolve = request->only_resolve;
    dial->fd = -1;
    dial->done = done;
    dial->ctx = ctx;
    dial->timer = timer_new(dialer->loop, dial_on_timer, dial);
    dial->deadline_ms = clock_now_ms() + DIAL_TOTAL_MS;
    dial->request = (struct verdict_request){.scheme = request->scheme,
                                             .host = &dial->host,
                                             .port = request->port,
                                             .method = arena_dup(&dial->arena, request->method),
                                             .path = arena_dup(&dial->arena, request->path),
                                             .is_lookup = request->is_lookup};
    dial_begin(dial, request);
    return dial;
}

struct dial *dial_free(struct dial *dial)
{
    if (dial == NULL)
        return NULL;
    (void)resolve_free(dial->resolve);
    (void)watch_free(dial->watch);
    (void)timer_free(dial->timer);
    (void)policy_free(dial->policy);
    fd_close(&dial->fd);
    arena_done(&dial->arena);
    free(dial);
    return NULL;
}
