/* The spawner: holds the sockets of all sandboxes, reads none, forks a proxy for a sandbox when
 * something arrives on its sockets. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/vec.h"
#include "egress/gateway/gateway_internal.h"

enum { REST_MS = 500, EVENTS = 32 };

/* WAITING: no proxy, its sockets are watched. SERVED: a proxy has them too. RESTING: its proxy
 * died badly; watched again after a while. */
enum state { WAITING, SERVED, RESTING };

struct proxy_session {
    uint32_t number; /* 0: a free place */
    enum state state;
    struct gateway_socket sockets[EGRESS_PROXY_SOCKETS_MAX];
    size_t count;
    pid_t pid;
    int pidfd, proxy_fd;
    int64_t rest_until_ms;
};

static struct {
    int owner_fd, epoll_fd;
    VEC(struct proxy_session) sessions;
    size_t resting;
    bool leaving;
    char space[POST_MAX];
} self;

/* epoll words: the place of the session, and whether it is its proxy's pidfd. */
enum { WORD_OWNER = UINT32_MAX };

static void gateway_spawner_watch(int fd, size_t index, bool is_proxy)
{
    struct epoll_event event = {.events = EPOLLIN,
                                .data.u64 = (uint64_t)is_proxy << 32 | (uint32_t)index};
    (void)epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void unwatch(int fd)
{
    (void)epoll_ctl(self.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void watch_sockets(size_t index, bool on)
{
    struct proxy_session *session = &self.sessions.ptr[index];
    for (size_t i = 0; i < session->count; i++)
        if (on)
            gateway_spawner_watch(session->sockets[i].fd, index, false);
        else
            unwatch(session->sockets[i].fd);
}

static void gateway_spawner_tell(enum gateway_message type, uint32_t number, int fd)
{
    struct err err;
    struct post post = {.type = type, .number = number, .fds = {fd}, .fd_count = fd >= 0 ? 1 : 0};
    /* An owner that cannot be told has gone, or will find its proxy dead: nothing is served
     * without its word. */
    if (post_send(self.owner_fd, &post, &err) < 0 && err.sys == EPIPE)
        self.leaving = true;
}

static struct proxy_session *gateway_spawner_find(uint32_t number)
{
    VEC_EACH (session, &self.sessions)
        if (session->number == number)
            return session;
    return NULL;
}

/* In the child: closes everything of other sandboxes. */
static int gateway_spawner_work(size_t index, int owner_end)
{
    struct proxy_session own = self.sessions.ptr[index];
    VEC_EACH (session, &self.sessions) {
        if (session->number == 0 || session->number == own.number)
            continue;
        for (size_t i = 0; i < session->count; i++)
            fd_close(&session->sockets[i].fd);
        fd_close(&session->pidfd);
        fd_close(&session->proxy_fd);
    }
    fd_close(&self.epoll_fd);
    fd_close(&self.owner_fd);
    return gateway_work(owner_end, own.sockets, own.count);
}

static void rest(struct proxy_session *session)
{
    self.resting += session->state != RESTING;
    session->state = RESTING;
    session->rest_until_ms = clock_now_ms() + REST_MS;
}

static void start_proxy(size_t index)
{
    struct proxy_session *session = &self.sessions.ptr[index];
    int pair[2];
    struct err err;
    watch_sockets(index, false);
    if (post_pair(pair, &err) < 0)
        return rest(session);
    session->pid = fork();
    if (session->pid == 0) {
        fd_close(&pair[0]);
        _exit(gateway_spawner_work(index, pair[1]));
    }
    fd_close(&pair[1]);
    session->pidfd = session->pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, session->pid, 0);
    if (session->pidfd < 0) {
        if (session->pid > 0)
            (void)kill(session->pid, SIGKILL);
        fd_close(&pair[0]);
        return rest(session);
    }
    session->state = SERVED;
    gateway_spawner_watch(session->pidfd, index, true);
    session->proxy_fd = pair[0];
    gateway_spawner_tell(GATEWAY_STARTED, session->number, pair[0]);
}

static void on_proxy_end(size_t index)
{
    struct proxy_session *session = &self.sessions.ptr[index];
    int status = 0;
    if (waitpid(session->pid, &status, WNOHANG) != session->pid)
        return;
    unwatch(session->pidfd);
    fd_close(&session->pidfd);
    fd_close(&session->proxy_fd);
    session->pid = 0;
    gateway_spawner_tell(GATEWAY_ENDED, session->number, -1);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return rest(session);
    session->state = WAITING;
    watch_sockets(index, true);
}

static void wake_resting(void)
{
    int64_t now = clock_now_ms();
    for (size_t i = 0; i < self.sessions.len && self.resting > 0; i++) {
        struct proxy_session *session = &self.sessions.ptr[i];
        if (session->number == 0 || session->state != RESTING || now < session->rest_until_ms)
            continue;
        session->state = WAITING;
        self.resting--;
        watch_sockets(i, true);
    }
}

/* Words of the owner. */

static struct proxy_session *new_session(uint32_t number)
{
    struct proxy_session *session = gateway_spawner_find(0);
    if (session == NULL)
        session = vec_push(&self.sessions);
    *session = (struct proxy_session){.number = number, .pidfd = -1, .proxy_fd = -1};
    return session;
}

/* Only the spawner knows which sockets a proxy started with; the owner may not know of the proxy
 * yet. A proxy that its owner has given up gets none: the next one has them all. */
static void gateway_spawner_give(struct proxy_session *session, const struct gateway_socket *socket)
{
    struct err err = {0};
    char kind = (char)socket->kind;
    struct post post = {
        .type = GATEWAY_SOCKET, .bytes = str_n(&kind, 1), .fds = {socket->fd}, .fd_count = 1};
    if (post_send(session->proxy_fd, &post, &err) < 0 && err.sys != EPIPE)
        (void)kill(session->pid, SIGKILL);
}

static void on_add(struct post *post)
{
    struct proxy_session *session = gateway_spawner_find(post->number);
    if (post->number == 0 || post->bytes.len != post->fd_count)
        return;
    if (session == NULL)
        session = new_session(post->number);
    for (size_t i = 0; i < post->fd_count && session->count < EGRESS_PROXY_SOCKETS_MAX; i++) {
        struct gateway_socket *socket = &session->sockets[session->count++];
        socket->kind = (enum egress_proxy_socket)post->bytes.ptr[i];
        socket->fd = fd_take(&post->fds[i]);
        if (session->state == WAITING)
            gateway_spawner_watch(socket->fd, (size_t)(session - self.sessions.ptr), false);
        else if (session->state == SERVED)
            gateway_spawner_give(session, socket);
    }
}

static void end_proxy(struct proxy_session *session)
{
    if (session->pid <= 0)
        return;
    (void)kill(session->pid, SIGKILL);
    while (waitpid(session->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    session->pid = 0;
}

static void on_remove(uint32_t number)
{
    struct proxy_session *session = number == 0 ? NULL : gateway_spawner_find(number);
    if (session == NULL)
        return;
    end_proxy(session);
    fd_close(&session->pidfd);
    fd_close(&session->proxy_fd);
    for (size_t i = 0; i < session->count; i++)
        fd_close(&session->sockets[i].fd);
    self.resting -= session->state == RESTING;
    *session = (struct proxy_session){.pidfd = -1, .proxy_fd = -1};
}

static void on_owner(void)
{
    struct err err = {0};
    struct post post = {0};
    int got;
    while ((got = post_receive(self.owner_fd, self.space, &post, &err)) > 0) {
        if (post.type == GATEWAY_ADD)
            on_add(&post);
        else if (post.type == GATEWAY_REMOVE)
            on_remove(post.number);
        else if (post.type == GATEWAY_ROOTS && gateway_load_roots(post.bytes, &err) < 0)
            err = (struct err){0}; /* without them connections that must be opened are refused */
        post_close_fds(&post);
    }
    if (got < 0)
        self.leaving = true;
}

static void gateway_spawner_on_event(const struct epoll_event *event)
{
    uint32_t index = (uint32_t)event->data.u64;
    if (index == WORD_OWNER) {
        on_owner();
        return;
    }
    struct proxy_session *session = &self.sessions.ptr[index];
    if (session->number == 0)
        return;
    if (event->data.u64 >> 32 != 0)
        on_proxy_end(index);
    else if (session->state == WAITING)
        start_proxy(index);
}

static void gateway_spawner_run(void)
{
    while (!self.leaving) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(self.epoll_fd, events, EVENTS, self.resting > 0 ? REST_MS : -1);
        for (int i = 0; i < count; i++)
            gateway_spawner_on_event(&events[i]);
        wake_resting();
    }
    VEC_EACH (session, &self.sessions)
        end_proxy(session);
}

int gateway_main(void)
{
    /* Ctrl-C goes to the whole terminal group; the owner decides when we leave. */
    static const int ignored[] = {SIGPIPE, SIGINT, SIGQUIT, SIGTSTP, SIGTERM, SIGHUP};
    for (size_t i = 0; i < countof(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    self.owner_fd = GATEWAY_FD;
    self.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WORD_OWNER};
    if (fcntl(self.owner_fd, F_SETFD, FD_CLOEXEC) < 0 || self.epoll_fd < 0 ||
        epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, self.owner_fd, &event) < 0)
        return 1;
    gateway_spawner_run();
    return 0;
}
