/* The owner's side of the gateway. */

#include "egress/gateway/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crypto/secret.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/format/json.h"
#include "base/sys.h"
#include "base/vec.h"
#include "egress/gateway/gateway_internal.h"
#include "egress/gateway/names.h"
#include "egress/keys/authority.h"
#include "egress/keys/secrets.h"

enum { NAMES_PACKET = 64 << 10, KEPT_FD = 10, TAKEN_AT_ONCE = 1024 };

struct gateway_session {
    struct gateway *gateway;
    struct gateway_session *next, **link;
    uint32_t number;
    struct gateway_session_options options;
    struct policy *policy;
    char *dns_servers;
    size_t socket_count;
    int proxy_fd;                    /* -1: no proxy */
    int64_t bytes_before, bytes_now; /* moved by proxies that have ended, and by this one */
    VEC(char *) names;               /* that have an address, in order; "" for an unknown one */
};

struct gateway {
    pid_t pid;
    int fd, epoll_fd;
    struct gateway_session *sessions;
    uint32_t next_number;
    bool is_gone;
    char space[POST_MAX];
};

/* In the child: safe calls only, since the caller may have threads. */
static void NORETURN run_spawner(const char *program, int socket)
{
    char name[] = GATEWAY_PROGRAM;
    char *argv[] = {name, NULL};
    int kept = fcntl(socket, F_DUPFD, KEPT_FD);
    if (kept >= 0 && dup2(kept, GATEWAY_FD) >= 0)
        (void)execve(program, argv, environ);
    _exit(127);
}

int gateway_start(const char *program, struct gateway **ret_gateway, struct err *err)
{
    AUTO_GATEWAY struct gateway *gateway = mem_alloc(sizeof *gateway);
    int pair[2];
    gateway->fd = gateway->epoll_fd = -1;
    if (post_pair(pair, err) < 0)
        return -1;
    gateway->fd = pair[0];
    AUTO_CLOSE int inner = pair[1];
    gateway->epoll_fd = SYS(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event event = {.events = EPOLLIN};
    if (gateway->epoll_fd < 0 ||
        SYS(epoll_ctl(gateway->epoll_fd, EPOLL_CTL_ADD, gateway->fd, &event)) < 0)
        return err_sys(err, errno, "epoll");
    gateway->pid = SYS(vfork());
    if (gateway->pid == 0)
        run_spawner(program == NULL ? "/proc/self/exe" : program, inner);
    if (gateway->pid < 0)
        return err_sys(err, errno, "start the gateway");
    *ret_gateway = gateway;
    gateway = NULL;
    return 0;
}

struct gateway *gateway_free(struct gateway *gateway)
{
    if (gateway == NULL)
        return NULL;
    assert(gateway->sessions == NULL);
    if (gateway->fd >= 0)
        (void)shutdown(gateway->fd, SHUT_RDWR); /* a forked child may hold a copy */
    fd_close(&gateway->fd);
    fd_close(&gateway->epoll_fd);
    if (gateway->pid > 0)
        while (waitpid(gateway->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    free(gateway);
    return NULL;
}

int gateway_use_roots(struct gateway *gateway, const char *ca_file, struct err *err)
{
    struct post post = {.type = GATEWAY_ROOTS, .bytes = str_of(ca_file)};
    return post_send(gateway->fd, &post, err);
}

int gateway_fd(const struct gateway *gateway)
{
    return gateway->epoll_fd;
}

/* To the proxy. */

static void forget_proxy(struct gateway_session *session)
{
    session->bytes_before += session->bytes_now;
    session->bytes_now = 0;
    if (session->proxy_fd < 0)
        return;
    /* The spawner has a copy: closing ours would neither notify the proxy nor end the watch. */
    (void)epoll_ctl(session->gateway->epoll_fd, EPOLL_CTL_DEL, session->proxy_fd, NULL);
    (void)shutdown(session->proxy_fd, SHUT_RDWR);
    fd_close(&session->proxy_fd);
}

/* For what the next proxy starts with anyway. A proxy that cannot receive it has ended, or ends
 * because its owner disconnects, so that none continues with an old policy. */
static void tell_or_end(struct gateway_session *session, const struct post *post)
{
    struct err err;
    if (session->proxy_fd >= 0 && post_send(session->proxy_fd, post, &err) < 0)
        forget_proxy(session);
}

static int gateway_tell(struct gateway_session *session, enum gateway_message type,
                        struct str bytes, struct err *err)
{
    struct post post = {.type = type, .bytes = bytes};
    return post_send(session->proxy_fd, &post, err);
}

static int send_names(struct gateway_session *session, struct err *err)
{
    AUTO_BUF struct buf text = {0};
    for (size_t i = 0; i < session->names.len; i++) {
        const char *name = session->names.ptr[i];
        if (name[0] == '\0')
            buf_printf(&text, "gap-%zu.invalid\n", i);
        else
            buf_printf(&text, "%s\n", name);
        if (text.len < NAMES_PACKET && i + 1 < session->names.len)
            continue;
        if (gateway_tell(session, GATEWAY_NAMES, buf_str(&text), err) < 0)
            return -1;
        buf_clear(&text);
    }
    return 0;
}

static void put_config(const struct gateway_session *session, struct buf *out)
{
    const struct egress_proxy_limits *limits = &session->options.limits;
    const int64_t idle_ms = session->options.proxy_idle_ms;
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"connections", limits->connections},
                   {"bytesPerSecond", limits->bytes_per_second},
                   {"bytesTotal", limits->bytes_total},
                   {"headMs", limits->head_ms},
                   {"idleMs", limits->idle_ms},
                   {"totalMs", limits->total_ms},
                   {"headBytes", limits->head_bytes},
                   {"answerBytes", limits->answer_bytes},
                   {"bytesBefore", session->bytes_before},
                   {"proxyIdleMs", idle_ms > 0 ? idle_ms : GATEWAY_IDLE_MS}};
    AUTO_BUF struct buf policy = {0};
    struct json_out json = {.buf = out};
    json_begin_object(&json);
    if (session->policy != NULL) {
        policy_put(session->policy, &policy);
        json_key(&json, "policy"), json_put_str(&json, buf_str(&policy));
    }
    if (session->dns_servers != NULL)
        json_key(&json, "dns"), json_put_cstr(&json, session->dns_servers);
    for (size_t i = 0; i < countof(numbers); i++)
        json_key(&json, numbers[i].key), json_put_i64(&json, numbers[i].value);
    json_end_object(&json);
}

/* Straight to the one process that uses them. */
static int send_keys(struct gateway_session *session, struct err *err)
{
    AUTO_SECRET struct secret *secrets = NULL, *authority = NULL;
    if (session->options.secrets != NULL &&
        (secrets_pack(session->options.secrets, &secrets, err) < 0 ||
         gateway_tell(session, GATEWAY_SECRETS, secret_reveal(secrets), err) < 0))
        return -1;
    if (session->options.authority == NULL)
        return 0;
    if (authority_pack(session->options.authority, &authority, err) < 0)
        return -1;
    return gateway_tell(session, GATEWAY_AUTHORITY, secret_reveal(authority), err);
}

static int configure(struct gateway_session *session, struct err *err)
{
    AUTO_BUF struct buf config = {0};
    put_config(session, &config);
    if (send_names(session, err) < 0 || send_keys(session, err) < 0)
        return -1;
    return gateway_tell(session, GATEWAY_CONFIG, buf_str(&config), err);
}

/* News. */

static struct gateway_session *gateway_find(struct gateway *gateway, uint32_t number)
{
    struct gateway_session *session = gateway->sessions;
    while (session != NULL && session->number != number)
        session = session->next;
    return session;
}

static void gateway_on_started(struct gateway *gateway, struct post *post)
{
    struct gateway_session *session = gateway_find(gateway, post->number);
    struct err err = {0};
    if (session == NULL || post->fd_count != 1)
        return;
    forget_proxy(session);
    session->proxy_fd = fd_take(&post->fds[0]);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = session->number};
    if (epoll_ctl(gateway->epoll_fd, EPOLL_CTL_ADD, session->proxy_fd, &event) < 0 ||
        configure(session, &err) < 0)
        forget_proxy(session); /* it ends; the next connection starts another */
}

static void gateway_on_blocked(struct gateway_session *session, struct str bytes)
{
    AUTO_JSON struct json_t *event = NULL;
    struct err err;
    struct str channel, reason, host, text;
    int64_t port = 0;
    if (session->options.on_blocked == NULL || json_parse(bytes, &event, &err) < 0 ||
        !json_to_str(json_get(event, "channel"), &channel) ||
        !json_to_str(json_get(event, "reason"), &reason) ||
        !json_to_str(json_get(event, "host"), &host) ||
        !json_to_str(json_get(event, "text"), &text) ||
        !json_to_i64(json_get(event, "port"), &port))
        return;
    struct gateway_event news = {.channel = channel.ptr,
                                 .reason = reason.ptr,
                                 .host = host.ptr,
                                 .text = text.ptr,
                                 .port = (uint16_t)port};
    session->options.on_blocked(session->options.ctx, &news);
}

static void on_name(struct gateway_session *session, struct str bytes)
{
    size_t blank = str_find_char(bytes, ' ');
    struct host host;
    struct err err;
    int64_t index;
    if (!str_to_i64(str_slice(bytes, 0, blank), 0, NAMES_MAX - 1, &index) ||
        host_parse(str_slice(bytes, blank + 1, bytes.len), &host, &err) < 0 ||
        (size_t)index < session->names.len)
        return;
    while (session->names.len < (size_t)index)
        *vec_push(&session->names) = mem_dup_cstr("");
    *vec_push(&session->names) = mem_dup_cstr(host.text);
}

static void gateway_on_moved(struct gateway_session *session, struct str bytes)
{
    int64_t now = 0;
    if (!str_to_i64(bytes, session->bytes_now, INT64_MAX >> 1, &now))
        return;
    int64_t more = now - session->bytes_now;
    session->bytes_now = now;
    if (session->options.on_moved != NULL)
        session->options.on_moved(session->options.ctx, more);
}

static void read_proxy(struct gateway *gateway, struct gateway_session *session)
{
    struct err err = {0};
    struct post post = {0};
    int got = 0;
    uint32_t number = session->number;
    /* A call-back may close the session. A proxy that sends more must not delay others: it is read
     * again in the next step. */
    for (size_t taken = 0; taken < TAKEN_AT_ONCE && session != NULL && session->proxy_fd >= 0 &&
                           (got = post_receive(session->proxy_fd, gateway->space, &post, &err)) > 0;
         taken++) {
        post_close_fds(&post);
        if (post.type == GATEWAY_BLOCKED)
            gateway_on_blocked(session, post.bytes);
        else if (post.type == GATEWAY_NAME)
            on_name(session, post.bytes);
        else if (post.type == GATEWAY_MOVED)
            gateway_on_moved(session, post.bytes);
        session = gateway_find(gateway, number);
    }
    if (got < 0 && session != NULL)
        forget_proxy(session);
}

static void read_spawner(struct gateway *gateway)
{
    struct err err = {0};
    struct post post = {0};
    int got;
    while ((got = post_receive(gateway->fd, gateway->space, &post, &err)) > 0) {
        if (post.type == GATEWAY_STARTED)
            gateway_on_started(gateway, &post);
        post_close_fds(&post);
    }
    if (got < 0) {
        gateway->is_gone = true;
        (void)epoll_ctl(gateway->epoll_fd, EPOLL_CTL_DEL, gateway->fd, NULL);
    }
}

bool gateway_step(struct gateway *gateway)
{
    struct epoll_event events[16];
    int count = epoll_wait(gateway->epoll_fd, events, countof(events), 0);
    for (int i = 0; i < count; i++) {
        struct gateway_session *session = gateway_find(gateway, events[i].data.u32);
        if (events[i].data.u32 == 0)
            read_spawner(gateway);
        else if (session != NULL)
            read_proxy(gateway, session);
    }
    return !gateway->is_gone;
}

/* Sessions. */

int gateway_open(struct gateway *gateway, const struct gateway_session_options *options,
                 struct gateway_session **ret_session, struct err *err)
{
    if (gateway->is_gone)
        return err_set(err, ERR_UNAVAILABLE, "the gateway process has exited");
    struct gateway_session *session = mem_alloc(sizeof *session);
    do
        session->number = ++gateway->next_number;
    while (session->number == 0 || gateway_find(gateway, session->number) != NULL);
    session->gateway = gateway;
    session->options = *options;
    session->policy = options->policy == NULL ? NULL : policy_ref(options->policy);
    session->bytes_before = options->limits.bytes_before;
    session->dns_servers = options->dns_servers == NULL ? NULL : mem_dup_cstr(options->dns_servers);
    session->proxy_fd = -1;
    session->next = gateway->sessions;
    session->link = &gateway->sessions;
    if (session->next != NULL)
        session->next->link = &session->next;
    gateway->sessions = session;
    *ret_session = session;
    return 0;
}

struct gateway_session *gateway_close(struct gateway_session *session)
{
    struct err err;
    if (session == NULL)
        return NULL;
    struct post post = {.type = GATEWAY_REMOVE, .number = session->number};
    if (post_send(session->gateway->fd, &post, &err) < 0)
        session->gateway->is_gone = true; /* and its proxies with it */
    *session->link = session->next;
    if (session->next != NULL)
        session->next->link = session->link;
    forget_proxy(session);
    (void)policy_free(session->policy);
    VEC_EACH (name, &session->names)
        free(*name);
    vec_done(&session->names);
    free(session->dns_servers);
    free(session);
    return NULL;
}

int gateway_add(struct gateway_session *session, enum egress_proxy_socket kind, int fd,
                struct err *err)
{
    AUTO_CLOSE int taken = fd;
    if (session->socket_count == EGRESS_PROXY_SOCKETS_MAX)
        return err_set(err, ERR_LIMIT,
                       "a sandbox has at most %d sockets; name fewer ports in its policy",
                       EGRESS_PROXY_SOCKETS_MAX);
    char byte = (char)kind;
    struct post post = {.type = GATEWAY_ADD,
                        .number = session->number,
                        .bytes = str_n(&byte, 1),
                        .fds = {taken},
                        .fd_count = 1};
    if (post_send(session->gateway->fd, &post, err) < 0)
        return -1;
    session->socket_count++;
    return 0;
}

int gateway_set_policy(struct gateway_session *session, struct policy *policy, struct err *err)
{
    AUTO_BUF struct buf text = {0};
    struct policy *old = session->policy;
    session->policy = policy == NULL ? NULL : policy_ref(policy);
    (void)policy_free(old);
    if (policy == NULL)
        buf_put_cstr(&text, "none");
    else
        policy_put(policy, &text);
    struct post post = {.type = GATEWAY_POLICY, .bytes = buf_str(&text)};
    tell_or_end(session, &post);
    if (session->gateway->is_gone)
        return err_set(err, ERR_UNAVAILABLE, "the gateway process has exited");
    return 0;
}

void gateway_set_limits(struct gateway_session *session, const struct egress_proxy_limits *limits)
{
    AUTO_BUF struct buf config = {0};
    session->options.limits = *limits;
    put_config(session, &config);
    struct post post = {.type = GATEWAY_CONFIG, .bytes = buf_str(&config)};
    tell_or_end(session, &post);
}

void gateway_set_keys(struct gateway_session *session, const struct secrets *secrets,
                      struct authority *authority)
{
    session->options.secrets = secrets;
    session->options.authority = authority;
    forget_proxy(session);
}
