/* The owner's side of the gateway. */

#include "egress/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/secret.h"
#include "base/sys.h"
#include "base/vec.h"
#include "egress/authority.h"
#include "egress/gateway_internal.h"
#include "egress/names.h"
#include "egress/secrets.h"

enum { NAMES_PACKET = 64 << 10, KEPT_FD = 10, TAKEN_AT_ONCE = 1024 };

struct gateway_session {
    struct gateway *gateway;
    struct gateway_session *next, **link;
    uint32_t number;
    struct gateway_session_options options;
    struct policy *policy;
    char *dns_servers;
    size_t socket_count;
    int worker_fd;                   /* -1: no worker */
    int64_t bytes_before, bytes_now; /* moved by workers that have ended, and by this one */
    VEC(char *) names; /* that have an address, in order; "" for one that was not heard of */
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
static void NORETURN run_maker(const char *program, int socket)
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
        run_maker(program == NULL ? "/proc/self/exe" : program, inner);
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

/* To the worker. */

static void forget_worker(struct gateway_session *session)
{
    session->bytes_before += session->bytes_now;
    session->bytes_now = 0;
    if (session->worker_fd < 0)
        return;
    /* The maker has a copy: closing ours would tell the worker nothing, nor end the watch. */
    (void)epoll_ctl(session->gateway->epoll_fd, EPOLL_CTL_DEL, session->worker_fd, NULL);
    (void)shutdown(session->worker_fd, SHUT_RDWR);
    fd_close(&session->worker_fd);
}

/* For what the next worker begins with anyway: one that cannot be told has ended, or is made to end
 * by losing its owner, so that none goes on with what holds no more. */
static void tell_or_end(struct gateway_session *session, const struct post *post)
{
    struct err err;
    if (session->worker_fd >= 0 && post_send(session->worker_fd, post, &err) < 0)
        forget_worker(session);
}

static int tell(struct gateway_session *session, enum gateway_message type, struct str bytes,
                struct err *err)
{
    struct post post = {.type = type, .bytes = bytes};
    return post_send(session->worker_fd, &post, err);
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
        if (tell(session, GATEWAY_NAMES, buf_str(&text), err) < 0)
            return -1;
        buf_clear(&text);
    }
    return 0;
}

static void put_config(const struct gateway_session *session, struct buf *out)
{
    const struct porter_limits *limits = &session->options.limits;
    const int64_t idle_ms = session->options.worker_idle_ms;
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
                   {"workerIdleMs", idle_ms > 0 ? idle_ms : GATEWAY_IDLE_MS}};
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
         tell(session, GATEWAY_SECRETS, secret_reveal(secrets), err) < 0))
        return -1;
    if (session->options.authority == NULL)
        return 0;
    if (authority_pack(session->options.authority, &authority, err) < 0)
        return -1;
    return tell(session, GATEWAY_AUTHORITY, secret_reveal(authority), err);
}

static int configure(struct gateway_session *session, struct err *err)
{
    AUTO_BUF struct buf config = {0};
    put_config(session, &config);
    if (send_names(session, err) < 0 || send_keys(session, err) < 0)
        return -1;
    return tell(session, GATEWAY_CONFIG, buf_str(&config), err);
}

/* News. */

static struct gateway_session *find(struct gateway *gateway, uint32_t number)
{
    struct gateway_session *session = gateway->sessions;
    while (session != NULL && session->number != number)
        session = session->next;
    return session;
}

static void on_started(struct gateway *gateway, struct post *post)
{
    struct gateway_session *session = find(gateway, post->number);
    struct err err = {0};
    if (session == NULL || post->fd_count != 1)
        return;
    forget_worker(session);
    session->worker_fd = fd_take(&post->fds[0]);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = session->number};
    if (epoll_ctl(gateway->epoll_fd, EPOLL_CTL_ADD, session->worker_fd, &event) < 0 ||
        configure(session, &err) < 0)
        forget_worker(session); /* it ends; the next knock starts another */
}

static void on_blocked(struct gateway_session *session, struct str bytes)
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

static void on_moved(struct gateway_session *session, struct str bytes)
{
    int64_t now = 0;
    if (!str_to_i64(bytes, session->bytes_now, INT64_MAX >> 1, &now))
        return;
    int64_t more = now - session->bytes_now;
    session->bytes_now = now;
    if (session->options.on_moved != NULL)
        session->options.on_moved(session->options.ctx, more);
}

static void read_worker(struct gateway *gateway, struct gateway_session *session)
{
    struct err err = {0};
    struct post post = {0};
    int got = 0;
    uint32_t number = session->number;
    /* A call-back may close the session. A worker that says more has others wait no longer: it is
     * heard again with the next step. */
    for (size_t taken = 0;
         taken < TAKEN_AT_ONCE && session != NULL && session->worker_fd >= 0 &&
         (got = post_receive(session->worker_fd, gateway->space, &post, &err)) > 0;
         taken++) {
        post_close_fds(&post);
        if (post.type == GATEWAY_BLOCKED)
            on_blocked(session, post.bytes);
        else if (post.type == GATEWAY_NAME)
            on_name(session, post.bytes);
        else if (post.type == GATEWAY_MOVED)
            on_moved(session, post.bytes);
        session = find(gateway, number);
    }
    if (got < 0 && session != NULL)
        forget_worker(session);
}

static void read_maker(struct gateway *gateway)
{
    struct err err = {0};
    struct post post = {0};
    int got;
    while ((got = post_receive(gateway->fd, gateway->space, &post, &err)) > 0) {
        if (post.type == GATEWAY_STARTED)
            on_started(gateway, &post);
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
        struct gateway_session *session = find(gateway, events[i].data.u32);
        if (events[i].data.u32 == 0)
            read_maker(gateway);
        else if (session != NULL)
            read_worker(gateway, session);
    }
    return !gateway->is_gone;
}

/* Sessions. */

int gateway_open(struct gateway *gateway, const struct gateway_session_options *options,
                 struct gateway_session **ret_session, struct err *err)
{
    if (gateway->is_gone)
        return err_set(err, ERR_UNAVAILABLE, "the gateway's process is gone");
    struct gateway_session *session = mem_alloc(sizeof *session);
    do
        session->number = ++gateway->next_number;
    while (session->number == 0 || find(gateway, session->number) != NULL);
    session->gateway = gateway;
    session->options = *options;
    session->policy = options->policy == NULL ? NULL : policy_ref(options->policy);
    session->bytes_before = options->limits.bytes_before;
    session->dns_servers = options->dns_servers == NULL ? NULL : mem_dup_cstr(options->dns_servers);
    session->worker_fd = -1;
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
        session->gateway->is_gone = true; /* and its workers with it */
    *session->link = session->next;
    if (session->next != NULL)
        session->next->link = session->link;
    forget_worker(session);
    (void)policy_free(session->policy);
    VEC_EACH (name, &session->names)
        free(*name);
    vec_done(&session->names);
    free(session->dns_servers);
    free(session);
    return NULL;
}

int gateway_add(struct gateway_session *session, enum porter_socket kind, int fd, struct err *err)
{
    AUTO_CLOSE int taken = fd;
    if (session->socket_count == PORTER_SOCKETS_MAX)
        return err_set(err, ERR_LIMIT,
                       "more than %d sockets in one sandbox: let the policy name fewer ports",
                       PORTER_SOCKETS_MAX);
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
        return err_set(err, ERR_UNAVAILABLE, "the gateway's process is gone");
    return 0;
}

void gateway_set_limits(struct gateway_session *session, const struct porter_limits *limits)
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
    forget_worker(session);
}
