#include "egress/porter.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "egress/porter_internal.h"
#include "io/loop.h"

enum { SWEEP_MS = 1000, METER_MS = 20, TOLD_MAX = 1024, ACCEPT_AT_ONCE = 16 };

const char *porter_channel_name(enum porter_channel channel)
{
    static const char *const names[] = {
        [PORTER_BY_PROXY] = "proxy", [PORTER_BY_CONNECT] = "connect",
        [PORTER_BY_SOCKS] = "socks", [PORTER_BY_CAPTURE] = "capture",
        [PORTER_BY_DNS] = "dns",
    };
    return names[channel];
}

/* A program that tries the same host again and again is one piece of news. */
void porter_tell(struct porter *porter, enum porter_channel channel, const struct verdict *verdict,
                 const char *host, uint16_t port)
{
    char key[HOST_TEXT_SIZE + 64];
    porter->blocked++;
    (void)snprintf(key, sizeof key, "%s:%d %d", host, port, (int)verdict->reason);
    if (map_has(&porter->told, str_of(key)) || porter->told.len >= TOLD_MAX)
        return;
    (void)map_put(&porter->told, str_of(key), porter);
    struct porter_event event = {
        .channel = channel, .verdict = verdict, .host = host, .port = port};
    if (porter->options.on_blocked != NULL)
        porter->options.on_blocked(porter->options.ctx, &event);
}

static void set_doors(struct porter *porter)
{
    for (size_t i = 0; i < porter->door_count; i++)
        if (porter->doors[i].kind != PORTER_DNS)
            watch_set(porter->doors[i].watch, porter->is_full ? 0 : WATCH_READ);
}

static void open_doors(struct porter *porter)
{
    if (!porter->is_full || (int64_t)porter->guest_count >= porter->limits.connections)
        return;
    porter->is_full = false;
    set_doors(porter);
}

void porter_left(struct porter *porter)
{
    porter->busy_ms = clock_now_ms();
    open_doors(porter);
}

static void on_door(void *ctx, UNUSED int events)
{
    struct porter_door *door = ctx;
    struct porter *porter = door->porter;
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        if ((int64_t)porter->guest_count >= porter->limits.connections) {
            porter->is_full = true;
            set_doors(porter);
            return;
        }
        int fd = SYS(accept4(door->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            porter->is_full = true; /* until somebody leaves, or the next sweep */
            set_doors(porter);
        }
        if (fd < 0)
            return;
        porter->accepted++;
        porter->busy_ms = clock_now_ms();
        if (door->kind == PORTER_DNS_TCP)
            porter_dns_accept(door, fd);
        else
            guest_new(door, fd);
    }
}

/* Whoever only waits for the rate is not silent. */
static bool is_idle(const struct porter *porter, const struct guest *guest, int64_t now)
{
    return guest->state == GUEST_PASSING && now - guest_moved_ms(guest) > porter->limits.idle_ms &&
           (porter->meter.per_second == 0 || !guest_has_input(guest));
}

static void end_idle(struct porter *porter, int64_t now)
{
    for (struct guest *guest = porter->guests, *next; guest != NULL; guest = next) {
        next = guest->next;
        bool is_old = now - guest->begin_ms > porter->limits.total_ms;
        if (is_old || is_idle(porter, guest, now))
            guest_reset(guest);
    }
    porter_dns_sweep(porter, now);
    open_doors(porter);
}

static void on_sweep(void *ctx)
{
    struct porter *porter = ctx;
    int64_t now = clock_now_ms();
    bool was_dry = meter_is_dry(&porter->meter);
    meter_fill(&porter->meter, clock_now_ns());
    /* A sandbox that is always at its rate has connections that end all the same. */
    if (now - porter->swept_ms >= SWEEP_MS || !was_dry) {
        porter->swept_ms = now;
        end_idle(porter, now);
    }
    if (!was_dry || meter_is_dry(&porter->meter))
        return;
    timer_set(porter->sweep, SWEEP_MS, SWEEP_MS);
    for (struct guest *guest = porter->guests, *next; guest != NULL; guest = next) {
        next = guest->next;
        guest_resume(guest);
    }
}

static void on_dry(void *ctx)
{
    struct porter *porter = ctx;
    timer_set(porter->sweep, METER_MS, METER_MS);
}

void porter_set_limits(struct porter *porter, const struct porter_limits *limits)
{
    struct porter_limits filled = *limits;
    if (filled.connections <= 0)
        filled.connections = PORTER_CONNECTIONS;
    if (filled.head_ms <= 0)
        filled.head_ms = PORTER_HEAD_MS;
    if (filled.idle_ms <= 0)
        filled.idle_ms = PORTER_IDLE_MS;
    if (filled.total_ms <= 0)
        filled.total_ms = PORTER_TOTAL_MS;
    if (filled.head_bytes <= 0)
        filled.head_bytes = PORTER_HEAD_BYTES;
    filled.head_bytes = MIN(filled.head_bytes, (int64_t)PORTER_HEAD_BYTES_MAX);
    porter->limits = filled;
    porter->meter.per_second = filled.bytes_per_second;
    /* A limit that was used up before anything comes is still a limit. */
    porter->meter.total_max = filled.bytes_total == 0 ? 0
                              : filled.bytes_total > filled.bytes_before
                                  ? filled.bytes_total - filled.bytes_before
                                  : 1;
    porter->meter.filled_ns = clock_now_ns();
    porter->meter.budget = filled.bytes_per_second / 4;
}

bool porter_is_used_up(const struct porter *porter, const struct guest *guest,
                       struct verdict *ret_verdict)
{
    if (!meter_is_used_up(&porter->meter))
        return false;
    *ret_verdict =
        verdict_make(VERDICT_LIMIT, "blocked %.100s:%d: the sandbox has used up its %lld bytes",
                     guest->host.text, guest->port, (long long)porter->limits.bytes_total);
    return true;
}

int porter_open(struct loop *loop, const struct porter_options *options, struct porter **ret_porter,
                UNUSED struct err *err)
{
    loop_assert(loop);
    struct porter *porter = mem_alloc(sizeof *porter);
    porter->loop = loop;
    porter->options = *options;
    porter->policy = options->policy == NULL ? NULL : policy_ref(options->policy);
    porter->dial_options = (struct dial_options){.dns_servers = options->dns_servers,
                                                 .resolve_ms = options->resolve_ms,
                                                 .no_files = options->no_files};
    porter->dialer = dialer_new(loop, &porter->dial_options);
    porter_set_limits(porter, &options->limits);
    porter->sweep = timer_new(loop, on_sweep, porter);
    porter->meter.on_dry = on_dry;
    porter->meter.ctx = porter;
    timer_set(porter->sweep, SWEEP_MS, SWEEP_MS);
    porter->busy_ms = clock_now_ms();
    *ret_porter = porter;
    return 0;
}

struct porter *porter_free(struct porter *porter)
{
    if (porter == NULL)
        return NULL;
    loop_assert(porter->loop);
    for (size_t i = 0; i < porter->door_count; i++) {
        (void)watch_free(porter->doors[i].watch);
        fd_close(&porter->doors[i].fd);
    }
    porter->door_count = 0;
    while (porter->guests != NULL)
        guest_free(porter->guests);
    porter_dns_done(porter);
    (void)timer_free(porter->sweep);
    (void)dialer_free(porter->dialer);
    (void)policy_free(porter->policy);
    names_done(&porter->names);
    map_done(&porter->told);
    free(porter);
    return NULL;
}

int porter_add(struct porter *porter, enum porter_socket kind, int fd, struct err *err)
{
    loop_assert(porter->loop);
    if (porter->door_count == PORTER_SOCKETS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d sockets", PORTER_SOCKETS_MAX);
    struct porter_door *door = &porter->doors[porter->door_count];
    *door = (struct porter_door){.porter = porter, .kind = kind, .fd = fd};
    int done = kind == PORTER_DNS
                   ? porter_dns_open(door, err)
                   : watch_new(porter->loop, fd, WATCH_READ, on_door, door, &door->watch, err);
    if (done < 0)
        return -1;
    porter->door_count++;
    return 0;
}

void porter_add_name(struct porter *porter, const struct host *host)
{
    struct ip address;
    bool is_new;
    (void)names_address(&porter->names, host, &address, &is_new);
}

void porter_set_policy(struct porter *porter, struct policy *policy)
{
    struct policy *old = porter->policy;
    porter->policy = policy == NULL ? NULL : policy_ref(policy);
    (void)policy_free(old);
    map_done(&porter->told); /* what is blocked now is news */
    for (struct guest *guest = porter->guests, *next; guest != NULL; guest = next) {
        struct verdict_request request = {
            .scheme = "tcp", .host = &guest->host, .port = guest->port, .is_lookup = true};
        struct verdict verdict = {0};
        next = guest->next;
        if (guest->state != GUEST_PASSING && guest->state != GUEST_SNIFFING)
            continue;
        verdict = verdict_judge(porter->policy, &request);
        if (!verdict_is_allowed(&verdict))
            guest_reset(guest);
    }
}

struct porter_stats porter_stats(const struct porter *porter)
{
    return (struct porter_stats){
        .connections = (int64_t)porter->guest_count,
        .accepted = porter->accepted,
        .blocked = porter->blocked,
        .sent = porter->meter.sent,
        .received = porter->meter.received,
    };
}

int64_t porter_idle_ms(const struct porter *porter)
{
    bool is_busy = porter->guest_count > 0 || porter->ask_count > 0;
    return is_busy ? 0 : clock_now_ms() - porter->busy_ms;
}
