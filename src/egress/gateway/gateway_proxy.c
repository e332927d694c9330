/* The process of an egress proxy: serves one sandbox, locked. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "base/id.h"
#include "egress/gateway/gateway_internal.h"
#include "egress/gateway/lock.h"
#include "egress/keys/authority.h"
#include "egress/keys/secrets.h"
#include "egress/keys/tls_end.h"
#include "egress/net/resolve.h"
#include "io/loop.h"

enum { CHECK_MS = 1000, DESCRIPTORS = 8192 };

static struct {
    struct loop *loop;
    int owner_fd;
    struct watch *owner;
    struct timer *check;
    struct gateway_socket sockets[EGRESS_PROXY_SOCKETS_MAX]; /* not yet the proxy's */
    size_t socket_count;
    struct egress_proxy *proxy;
    VEC(struct host) names; /* from before */
    size_t name_count;      /* that have an address */
    struct buf servers;
    struct tls_trust *tls; /* inherited; NULL: no connection is opened */
    struct secrets *secrets;
    struct authority *authority;
    int64_t idle_ms, told_bytes;
    char space[POST_MAX];
} self;

/* An owner that does not read loses news, not more. */
static void gateway_proxy_say(enum gateway_message type, struct str bytes)
{
    struct err err;
    struct post post = {.type = type, .bytes = bytes};
    if (post_send(self.owner_fd, &post, &err) < 0 && err.sys == EPIPE)
        loop_stop(self.loop);
}

static void gateway_proxy_on_blocked(UNUSED void *ctx, const struct egress_proxy_event *event)
{
    AUTO_BUF struct buf text = {0};
    struct json_out json = {.buf = &text};
    json_begin_object(&json);
    json_key(&json, "channel"), json_put_cstr(&json, egress_proxy_channel_name(event->channel));
    json_key(&json, "reason"), json_put_cstr(&json, verdict_reason_name(event->verdict->reason));
    json_key(&json, "host"), json_put_cstr(&json, event->host);
    json_key(&json, "port"), json_put_i64(&json, event->port);
    json_key(&json, "text"), json_put_cstr(&json, event->verdict->text);
    json_end_object(&json);
    gateway_proxy_say(GATEWAY_BLOCKED, buf_str(&text));
}

static void on_name(UNUSED void *ctx, const struct host *host)
{
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, "%zu %s", self.name_count++, host->text);
    gateway_proxy_say(GATEWAY_NAME, buf_str(&text));
}

/* A limit on all bytes counts what every proxy of the sandbox has moved. */
static void tell_bytes(void)
{
    AUTO_BUF struct buf text = {0};
    if (self.proxy == NULL)
        return;
    struct egress_proxy_stats stats = egress_proxy_stats(self.proxy);
    if (stats.sent + stats.received == self.told_bytes)
        return;
    self.told_bytes = stats.sent + stats.received;
    buf_printf(&text, "%lld", (long long)self.told_bytes);
    gateway_proxy_say(GATEWAY_MOVED, buf_str(&text));
}

static void on_check(UNUSED void *ctx)
{
    tell_bytes();
    if (self.proxy != NULL && egress_proxy_idle_ms(self.proxy) >= self.idle_ms)
        loop_stop(self.loop);
}

/* Words of the owner. */

static int64_t number(const struct json_t *object, const char *key)
{
    int64_t n = 0;
    return json_to_i64(json_get(object, key), &n) ? n : 0;
}

static struct egress_proxy_limits read_limits(const struct json_t *config)
{
    return (struct egress_proxy_limits){.connections = number(config, "connections"),
                                        .bytes_per_second = number(config, "bytesPerSecond"),
                                        .bytes_total = number(config, "bytesTotal"),
                                        .head_ms = number(config, "headMs"),
                                        .idle_ms = number(config, "idleMs"),
                                        .total_ms = number(config, "totalMs"),
                                        .head_bytes = number(config, "headBytes"),
                                        .answer_bytes = number(config, "answerBytes"),
                                        .bytes_before = number(config, "bytesBefore")};
}

static int open_proxy(const struct json_t *config, struct policy *policy, struct err *err)
{
    struct str servers = {0};
    if (json_to_str(json_get(config, "dns"), &servers)) {
        buf_clear(&self.servers);
        buf_put(&self.servers, servers);
    }
    struct egress_proxy_options options = {
        .policy = policy,
        .dns_servers = buf_cstr(&self.servers),
        .no_files = true,
        .limits = read_limits(config),
        .tls = self.tls,
        .authority = self.authority,
        .secrets = self.secrets,
        .on_blocked = gateway_proxy_on_blocked,
        .on_name = on_name,
    };
    self.idle_ms = number(config, "proxyIdleMs");
    if (egress_proxy_open(self.loop, &options, &self.proxy, err) < 0)
        return -1;
    VEC_EACH (host, &self.names)
        egress_proxy_add_name(self.proxy, host);
    self.name_count = self.names.len;
    for (size_t i = 0; i < self.socket_count; i++)
        if (egress_proxy_add(self.proxy, self.sockets[i].kind, self.sockets[i].fd, err) < 0)
            return -1;
    self.socket_count = 0;
    return 0;
}

static int on_config(const struct post *post, struct err *err)
{
    AUTO_JSON struct json_t *config = NULL;
    AUTO_POLICY struct policy *policy = NULL;
    struct str text;
    if (json_parse(post->bytes, &config, err) < 0)
        return -1;
    if (json_to_str(json_get(config, "policy"), &text) &&
        policy_parse(text, POLICY_BY_OPERATOR, &policy, err) < 0)
        return -1;
    if (self.proxy == NULL)
        return open_proxy(config, policy, err);
    struct egress_proxy_limits limits = read_limits(config);
    egress_proxy_set_policy(self.proxy, policy);
    egress_proxy_set_limits(self.proxy, &limits);
    return 0;
}

static int on_policy(const struct post *post, struct err *err)
{
    AUTO_POLICY struct policy *policy = NULL;
    if (policy_parse(post->bytes, POLICY_BY_OPERATOR, &policy, err) < 0)
        return -1;
    if (self.proxy != NULL)
        egress_proxy_set_policy(self.proxy, policy);
    return 0;
}

static int on_names(const struct post *post, struct err *err)
{
    struct str rest = post->bytes, line;
    while (str_split(&rest, '\n', &line))
        if (line.len > 0 && host_parse(line, vec_push(&self.names), err) < 0)
            return -1;
    return 0;
}

/* What was unpacked is wiped where it arrived. */
static int on_packed(const struct post *post, struct err *err)
{
    int done = 0;
    if (post->type == GATEWAY_SECRETS && self.secrets == NULL)
        done = secrets_unpack(post->bytes, &self.secrets, err);
    else if (post->type == GATEWAY_AUTHORITY && self.authority == NULL)
        done = authority_unpack(post->bytes, &self.authority, err);
    explicit_bzero(self.space, sizeof self.space);
    return done;
}

static int on_sockets(struct post *post, struct err *err)
{
    for (size_t i = 0; i < post->fd_count && i < post->bytes.len; i++) {
        enum egress_proxy_socket kind = (enum egress_proxy_socket)post->bytes.ptr[i];
        if (self.proxy == NULL && self.socket_count < EGRESS_PROXY_SOCKETS_MAX)
            self.sockets[self.socket_count++] =
                (struct gateway_socket){.kind = kind, .fd = fd_take(&post->fds[i])};
        else if (self.proxy != NULL && egress_proxy_add(self.proxy, kind, post->fds[i], err) == 0)
            post->fds[i] = -1;
    }
    return 0;
}

static int on_post(struct post *post, struct err *err)
{
    switch (post->type) {
    case GATEWAY_NAMES:
        return on_names(post, err);
    case GATEWAY_SECRETS:
    case GATEWAY_AUTHORITY:
        return on_packed(post, err);
    case GATEWAY_CONFIG:
        return on_config(post, err);
    case GATEWAY_POLICY:
        return on_policy(post, err);
    case GATEWAY_SOCKET:
        return on_sockets(post, err);
    default:
        return err_set(err, ERR_INVALID, "unknown message %u", post->type);
    }
}

/* What the owner says is right, or it is gone: in both cases nothing is served without a policy. */
static void on_owner(UNUSED void *ctx, UNUSED int events)
{
    struct err err = {0};
    struct post post = {0};
    int got;
    while ((got = post_receive(self.owner_fd, self.space, &post, &err)) > 0) {
        int done = on_post(&post, &err);
        post_close_fds(&post);
        if (done < 0) {
            got = -1;
            break;
        }
    }
    if (got < 0)
        loop_stop(self.loop);
}

int gateway_load_roots(struct str path, struct err *err)
{
    AUTO_BUF struct buf roots = {0};
    char name[PATH_MAX];
    if (path.len == 0 && authority_read_host_bundle(&roots, err) < 0)
        return -1;
    if (path.len > 0) {
        if (str_to_cstr(path, name, sizeof name, err) < 0)
            return -1;
        AUTO_CLOSE int fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return err_sys(err, errno, "open '%s'", name);
        if (buf_read_all(&roots, fd, err) < 0)
            return -1;
    }
    self.tls = tls_trust_free(self.tls);
    return tls_trust_new(buf_str(&roots), &self.tls, err);
}

static int gateway_proxy_begin(struct err *err)
{
    if (loop_open(&self.loop, err) < 0)
        return -1;
    self.check = timer_new(self.loop, on_check, NULL);
    timer_set(self.check, CHECK_MS, CHECK_MS);
    if (watch_new(self.loop, self.owner_fd, WATCH_READ, on_owner, NULL, &self.owner, err) < 0)
        return -1;
    /* While files can still be read. Without any the owner has to name servers. */
    struct err none;
    if (resolve_list_servers(&self.servers, &none) < 0)
        buf_put_cstr(&self.servers, "127.0.0.1");
    return lock_enter(DESCRIPTORS, err);
}

int gateway_work(int owner_fd, const struct gateway_socket *sockets, size_t count)
{
    struct err err = {0};
    unsigned seed;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /* For a c-ares that finds no better randomness. */
    id_random(&seed, sizeof seed);
    srand(seed);
    self.owner_fd = owner_fd;
    self.idle_ms = GATEWAY_IDLE_MS;
    self.socket_count = MIN(count, (size_t)EGRESS_PROXY_SOCKETS_MAX);
    memcpy(self.sockets, sockets, self.socket_count * sizeof *sockets);
    if (gateway_proxy_begin(&err) < 0)
        return 1;
    on_owner(NULL, 0);
    loop_run(self.loop);
    tell_bytes();
    /* Open connections end with the process; there is nothing to save. */
    return 0;
}
