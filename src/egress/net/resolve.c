#include "egress/net/resolve.h"

#include <netdb.h>
#include <pthread.h>

#include <ares.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sys.h"
#include "io/loop.h"

enum { SOCKETS_MAX = 16, TRY_MS = 1500, TRIES = 3 };

struct socket_watch {
    struct resolve *resolve;
    ares_socket_t fd;
    struct watch *watch; /* NULL: a free place */
};

/* asking -> answered (on_answer, or on_timer at the deadline) -> `done` called (on_answered).
 * c-ares calls back from within its own functions, so `done` waits for a turn of the loop: it may
 * free everything. */
struct resolve {
    struct loop *loop;
    ares_channel channel;
    struct socket_watch sockets[SOCKETS_MAX];
    struct timer *deadline; /* then: the turn in which `done` is called */
    struct timer *retry;    /* c-ares' own time-outs */
    bool is_answered, is_closing;
    int64_t timeout_ms;
    struct ip addresses[RESOLVE_ADDRESSES_MAX];
    size_t count;
    struct err why;
    void (*done)(void *ctx, const struct ip *addresses, size_t count, const struct err *why);
    void *ctx;
    char name[256];
};

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_code;

static void init_library(void)
{
    library_code = ares_library_init(ARES_LIB_INIT_ALL);
}

static void on_answered(struct resolve *resolve)
{
    bool is_good = resolve->why.code == ERR_NONE;
    resolve->done(resolve->ctx, resolve->addresses, is_good ? resolve->count : 0,
                  is_good ? NULL : &resolve->why);
}

static void resolve_answer(struct resolve *resolve)
{
    resolve->is_answered = true;
    timer_clear(resolve->retry);
    timer_set(resolve->deadline, 0, 0);
}

static void on_deadline(void *ctx)
{
    struct resolve *resolve = ctx;
    if (resolve->is_answered) {
        on_answered(resolve);
        return;
    }
    (void)err_set(&resolve->why, ERR_TIMEOUT, "resolve '%s': no answer within %lld ms",
                  resolve->name, (long long)resolve->timeout_ms);
    resolve->is_answered = true;
    ares_cancel(resolve->channel); /* on_answer comes now and keeps the reason */
    on_answered(resolve);
}

static void arm_retry(struct resolve *resolve)
{
    struct timeval space;
    const struct timeval *wait = ares_timeout(resolve->channel, NULL, &space);
    if (wait == NULL || resolve->is_answered)
        timer_clear(resolve->retry);
    else
        timer_set(resolve->retry, (int64_t)wait->tv_sec * 1000 + wait->tv_usec / 1000 + 1, 0);
}

static void on_retry(void *ctx)
{
    struct resolve *resolve = ctx;
    ares_process_fd(resolve->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    arm_retry(resolve);
}

static void on_socket(void *ctx, int events)
{
    const struct socket_watch *socket = ctx;
    struct resolve *resolve = socket->resolve;
    ares_socket_t fd = socket->fd;
    ares_process_fd(resolve->channel, (events & WATCH_READ) != 0 ? fd : ARES_SOCKET_BAD,
                    (events & WATCH_WRITE) != 0 ? fd : ARES_SOCKET_BAD);
    arm_retry(resolve);
}

static struct socket_watch *find_socket(struct resolve *resolve, ares_socket_t fd)
{
    struct socket_watch *free_place = NULL;
    for (size_t i = 0; i < SOCKETS_MAX; i++) {
        if (resolve->sockets[i].watch != NULL && resolve->sockets[i].fd == fd)
            return &resolve->sockets[i];
        if (resolve->sockets[i].watch == NULL)
            free_place = &resolve->sockets[i];
    }
    return free_place;
}

/* c-ares reports which sockets it wants to be watched; both false when it closes one. */
static void on_socket_state(void *ctx, ares_socket_t fd, int readable, int writable)
{
    struct resolve *resolve = ctx;
    struct socket_watch *socket = find_socket(resolve, fd);
    int events = (readable ? WATCH_READ : 0) | (writable ? WATCH_WRITE : 0);
    if (socket == NULL || (socket->watch == NULL && events == 0))
        return; /* unheard, it times out */
    if (events == 0) {
        socket->watch = watch_free(socket->watch);
    } else if (socket->watch != NULL) {
        watch_set(socket->watch, events);
    } else {
        struct err err;
        socket->resolve = resolve;
        socket->fd = fd;
        if (watch_new(resolve->loop, fd, events, on_socket, socket, &socket->watch, &err) < 0)
            socket->watch = NULL;
    }
}

static bool add_address(struct resolve *resolve, const struct sockaddr *sa)
{
    struct ip ip = {0};
    if (resolve->count == RESOLVE_ADDRESSES_MAX)
        return false;
    if (sa->sa_family == AF_INET) {
        ip.version = 4;
        memcpy(ip.bytes, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
    } else if (sa->sa_family == AF_INET6) {
        ip.version = 6;
        memcpy(ip.bytes, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
    } else {
        return true;
    }
    resolve->addresses[resolve->count++] = ip;
    return true;
}

static void keep_answer(struct resolve *resolve, int status, const struct ares_addrinfo *info)
{
    struct err *why = &resolve->why;
    if (status == ARES_ENOTFOUND || status == ARES_ENODATA) {
        (void)err_set(why, ERR_NOT_FOUND, "no such name");
    } else if (status == ARES_ETIMEOUT) {
        (void)err_set(why, ERR_TIMEOUT, "resolve '%s': no answer from the name server",
                      resolve->name);
    } else if (status != ARES_SUCCESS) {
        (void)err_set(why, ERR_UNAVAILABLE, "resolve '%s': %s", resolve->name,
                      ares_strerror(status));
    } else {
        const struct ares_addrinfo_node *node = info->nodes;
        for (; node != NULL && why->code == ERR_NONE; node = node->ai_next)
            if (!add_address(resolve, node->ai_addr))
                (void)err_set(why, ERR_LIMIT, "resolve '%s': more than %d addresses", resolve->name,
                              RESOLVE_ADDRESSES_MAX);
        if (resolve->count == 0)
            (void)err_set(why, ERR_NOT_FOUND, "resolve '%s': no address", resolve->name);
    }
}

static void resolve_on_answer(void *ctx, int status, UNUSED int timeouts,
                              struct ares_addrinfo *info)
{
    struct resolve *resolve = ctx;
    if (!resolve->is_closing && !resolve->is_answered) {
        keep_answer(resolve, status, info);
        resolve_answer(resolve);
    }
    if (info != NULL)
        ares_freeaddrinfo(info);
}

static int open_channel(struct resolve *resolve, const struct resolve_options *options,
                        struct err *err)
{
    (void)pthread_once(&library_once, init_library);
    if (library_code != ARES_SUCCESS)
        return err_set(err, ERR_INTERNAL, "c-ares: %s", ares_strerror(library_code));
    struct ares_options set = {
        /* The name as it is, and no aliases from a file that the environment names. */
        .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
        .timeout = TRY_MS,
        .tries = TRIES,
        .sock_state_cb = on_socket_state,
        .sock_state_cb_data = resolve,
    };
    int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;
    char only_dns[] = "b";
    if (options->no_files && options->servers != NULL) {
        /* With all of these said c-ares has nothing left to look up in files. */
        set.ndots = 1;
        set.lookups = only_dns;
        mask |= ARES_OPT_NDOTS | ARES_OPT_LOOKUPS | ARES_OPT_SERVERS | ARES_OPT_DOMAINS |
                ARES_OPT_SORTLIST;
    }
    int code = SYS(ares_init_options(&resolve->channel, &set, mask));
    if (code != ARES_SUCCESS) {
        resolve->channel = NULL;
        return err_set(err, ERR_UNAVAILABLE, "open the name resolver: %s", ares_strerror(code));
    }
    if (options->servers == NULL)
        return 0;
    code = ares_set_servers_ports_csv(resolve->channel, options->servers);
    if (code != ARES_SUCCESS)
        return err_set(err, ERR_INVALID, "name servers '%s': %s; write ADDRESS:PORT,...",
                       options->servers, ares_strerror(code));
    return 0;
}

static void put_server(const struct ares_addr_port_node *server, struct buf *out)
{
    struct ip ip = {.version = server->family == AF_INET ? 4 : 6};
    char text[IP_TEXT_SIZE];
    memcpy(ip.bytes, &server->addr, ip.version == 4 ? 4 : 16);
    ip_format(&ip, text);
    int port = server->udp_port == 0 ? 53 : server->udp_port;
    buf_printf(out, ip.version == 4 ? "%s%s:%d" : "%s[%s]:%d", out->len > 0 ? "," : "", text, port);
}

int resolve_list_servers(struct buf *out, struct err *err)
{
    ares_channel channel;
    struct ares_addr_port_node *servers = NULL;
    (void)pthread_once(&library_once, init_library);
    int code = library_code == ARES_SUCCESS ? ares_init(&channel) : library_code;
    if (code != ARES_SUCCESS)
        return err_set(err, ERR_UNAVAILABLE, "read the system's name servers: %s",
                       ares_strerror(code));
    code = ares_get_servers_ports(channel, &servers);
    for (const struct ares_addr_port_node *at = servers; at != NULL; at = at->next)
        put_server(at, out);
    ares_free_data(servers);
    ares_destroy(channel);
    if (code != ARES_SUCCESS || out->len == 0)
        return err_set(err, ERR_UNAVAILABLE, "no name server is configured on this system");
    return 0;
}

int resolve_start(struct loop *loop, const struct resolve_options *options, struct str name,
                  void (*done)(void *ctx, const struct ip *addresses, size_t count,
                               const struct err *why),
                  void *ctx, struct resolve **ret_resolve, struct err *err)
{
    loop_assert(loop);
    struct resolve *resolve = mem_alloc(sizeof *resolve);
    resolve->loop = loop;
    resolve->done = done;
    resolve->ctx = ctx;
    resolve->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : RESOLVE_TIMEOUT_MS;
    resolve->deadline = timer_new(loop, on_deadline, resolve);
    resolve->retry = timer_new(loop, on_retry, resolve);
    if (str_to_cstr(name, resolve->name, sizeof resolve->name, err) < 0 ||
        open_channel(resolve, options, err) < 0) {
        (void)resolve_free(resolve);
        return -1;
    }
    timer_set(resolve->deadline, resolve->timeout_ms, 0);
    const struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    ares_getaddrinfo(resolve->channel, resolve->name, NULL, &hints, resolve_on_answer, resolve);
    if (!resolve->is_answered)
        arm_retry(resolve);
    *ret_resolve = resolve;
    return 0;
}

struct resolve *resolve_free(struct resolve *resolve)
{
    if (resolve == NULL)
        return NULL;
    resolve->is_closing = true;
    if (resolve->channel != NULL)
        ares_destroy(resolve->channel);
    for (size_t i = 0; i < SOCKETS_MAX; i++)
        (void)watch_free(resolve->sockets[i].watch);
    (void)timer_free(resolve->deadline);
    (void)timer_free(resolve->retry);
    free(resolve);
    return NULL;
}
