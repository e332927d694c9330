/* Connections: every byte that the HTTP library reads is judged here first, and who is too slow,
 * idle for too long or gone is let go. Nothing here knows the library. */

#include <errno.h>
#include <unistd.h>

#include "api/http/flow.h"
#include "api/http/internal.h"
#include "api/http/metrics.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/log.h"

/* The server whose bytes are being read on this thread: recv is judged only for it. */
static _Thread_local struct http *reading;

void conn_read_for(struct http *http)
{
    reading = http;
}

/* The library has no hook between the socket and its parser, so the linker gives us one: the
 * option --wrap=recv sends its calls here. begin() in http.c refuses what did not come this way. */
ssize_t __real_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);

/* Of every status that the table of errors (base/err.h) knows, and of the parser's own. */
static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {421, "Misdirected Request"},
        {423, "Locked"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < countof(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return status < 500 ? "Bad Request" : "Error";
}

static const char *code_of(int status)
{
    if (status == 408)
        return err_wire_name(ERR_TIMEOUT);
    if (status == 505)
        return err_wire_name(ERR_UNSUPPORTED);
    return err_wire_name(status == 400 ? ERR_INVALID : ERR_TOO_LARGE);
}

void conn_answer(struct conn *conn, int status, struct str body, const char *request_id)
{
    if (conn->is_cut)
        return;
    conn->is_cut = true;
    if (!conn->is_answering) {
        AUTO_BUF struct buf text = {0};
        buf_printf(&text,
                   "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                   "X-Request-Id: %s\r\nContent-Length: %zu\r\n\r\n",
                   status, reason_of(status), request_id, body.len);
        buf_put(&text, body);
        (void)send(conn->fd, text.ptr, text.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    linger_add(&conn->http->lingers, conn->fd);
}

/* The library sees an end of input. */
static void conn_cut(struct conn *conn, int status, const char *why)
{
    if (conn->is_cut)
        return;
    conn->http->counts.refused++;
    char id[ID_SIZE];
    id_new(id);
    log_debug("http.refused", LOG_STR("request", id), LOG_INT("status", status),
              LOG_STR("why", why));
    if (conn->http->options.metrics != NULL)
        metrics_count(conn->http->options.metrics, METRICS_NO_ROUTE, status, 0);
    AUTO_BUF struct buf body = {0};
    error_body(&body, code_of(status), why, (struct str){0}, id);
    conn_answer(conn, status, buf_str(&body), id);
}

static void note_bytes(struct conn *conn, bool was_between)
{
    conn->last_ms = clock_now_ms();
    if (was_between)
        conn->since_ms = conn->last_ms;
    if (!strict_in_body(&conn->strict) || conn->strict.body_seen < conn->rate_seen) {
        conn->rate_ms = conn->last_ms;
        conn->rate_seen = 0;
    }
}

static ssize_t judged_recv(struct conn *conn, void *buf, size_t len, int flags)
{
    if (conn->strict.state != STRICT_BAD && !conn->is_cut) {
        bool was_between = conn->strict.state == STRICT_BETWEEN;
        size_t good;
        ssize_t count = __real_recv(conn->fd, buf, len, flags);
        if (count <= 0)
            return count;
        bool sound = strict_feed(&conn->strict, str_n(buf, (size_t)count), &good);
        note_bytes(conn, was_between);
        if (sound)
            return count;
        if (good > 0) {
            /* Makes the library come back for more after the sound requests. */
            (void)shutdown(conn->fd, SHUT_RD);
            return (ssize_t)good;
        }
    }
    if (!conn->is_cut)
        conn_cut(conn, conn->strict.status, conn->strict.why);
    return 0;
}

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
    struct http *http = reading;
    struct conn *conn = NULL;
    if (http != NULL && fd >= 0 && (size_t)fd < http->by_fd.len)
        conn = http->by_fd.ptr[fd];
    return conn == NULL ? __real_recv(fd, buf, len, flags) : judged_recv(conn, buf, len, flags);
}

static bool is_idle(const struct conn *conn)
{
    return conn->strict.state == STRICT_BETWEEN && conn->request == NULL;
}

/* Near the limit the connection that has been idle longest makes room: holding connections open
 * must not keep others out. */
static void make_room(struct http *http)
{
    size_t max = http->options.connections_max;
    struct conn *oldest = NULL;
    if (http->counts.connections + 1 + MAX(max / 64, (size_t)1) <= max)
        return;
    for (struct conn *conn = http->conns; conn != NULL; conn = conn->next)
        if (is_idle(conn) && !conn->is_cut &&
            (oldest == NULL || conn->since_ms <= oldest->since_ms))
            oldest = conn;
    if (oldest == NULL)
        return;
    oldest->is_cut = true;
    (void)shutdown(oldest->fd, SHUT_RDWR);
}

struct conn *conn_open(struct http *http, int fd)
{
    struct conn *conn = mem_alloc(sizeof *conn);
    make_room(http);
    conn->http = http;
    conn->fd = fd;
    conn->since_ms = conn->last_ms = clock_now_ms();
    conn->next = http->conns;
    if (conn->next != NULL)
        conn->next->prev = conn;
    http->conns = conn;
    while (http->by_fd.len <= (size_t)conn->fd)
        (void)vec_push(&http->by_fd);
    http->by_fd.ptr[conn->fd] = conn;
    http->counts.connections++;
    http->counts.accepted++;
    if (!timer_is_set(http->sweep))
        timer_set(http->sweep, 1000, 1000);
    return conn;
}

void conn_end_request(struct conn *conn)
{
    struct request *request = conn->request;
    conn->request = NULL;
    conn->is_answering = false;
    conn->strict.body_max = 0; /* until the next one's row is known */
    conn->since_ms = clock_now_ms();
    if (request == NULL)
        return;
    if (request->connection != NULL)
        conn->http->counts.running--;
    request_done(request);
    free(request);
}

void conn_close(struct conn *conn)
{
    struct http *http = conn->http;
    conn_end_request(conn);
    http->by_fd.ptr[conn->fd] = NULL;
    if (conn->prev != NULL)
        conn->prev->next = conn->next;
    else
        http->conns = conn->next;
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
    if (--http->counts.connections == 0)
        timer_clear(http->sweep);
    strict_done(&conn->strict);
    free(conn);
}

/* Why a client takes too long; NULL if it does not. */
static const char *lateness(struct conn *conn, int64_t now)
{
    const struct http_options *options = &conn->http->options;
    if (conn->strict.state == STRICT_PASS || conn->is_answering)
        return NULL;
    if (strict_in_head(&conn->strict))
        return now - conn->since_ms > options->head_ms ? "the request's headers took too long"
                                                       : NULL;
    if (!strict_in_body(&conn->strict))
        return NULL;
    if (conn->request != NULL && (conn->request->is_paused || conn->request->is_held)) {
        conn->last_ms = conn->rate_ms = now; /* it is us who are slow */
        conn->rate_seen = conn->strict.body_seen;
        return NULL;
    }
    if (now - conn->last_ms > options->body_idle_ms)
        return "no data of the request's body arrived for longer than server.body_idle_seconds";
    if (now - conn->rate_ms < options->body_idle_ms)
        return NULL;
    uint64_t least = (uint64_t)(options->body_idle_ms * HTTP_BODY_RATE / 1000);
    bool slow = conn->strict.body_seen - conn->rate_seen < least;
    conn->rate_ms = now;
    conn->rate_seen = conn->strict.body_seen;
    return slow ? "the request's body arrived too slowly for longer than server.body_idle_seconds"
                : NULL;
}

/* The library reads until the socket is empty and then waits for the next edge; an end of input
 * that came together with the last bytes makes none. */
static bool has_vanished(const struct conn *conn)
{
    const struct request *request = conn->request;
    bool waits = request != NULL && ((request->flow != NULL && flow_unsent(request->flow) == 0) ||
                                     (request->on_gone != NULL && !request->has_reply));
    if (conn->strict.state == STRICT_PASS || (!is_idle(conn) && !strict_in_head(&conn->strict) &&
                                              !strict_in_body(&conn->strict) && !waits))
        return false;
    char byte;
    ssize_t count = __real_recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
}

/* The library does not look at a connection that waits for us. */
static void on_vanished(struct conn *conn)
{
    struct request *request = conn->request;
    (void)shutdown(conn->fd, SHUT_RDWR);
    if (request == NULL || request->connection == NULL)
        return;
    void (*gone)(void *ctx) = request->on_gone;
    request->on_gone = NULL;
    if (request->flow != NULL)
        flow_break(request->flow);
    else if (request->sink != NULL && request->stage != STAGE_WHOLE)
        request_resume_body(request);
    else if (gone != NULL && !request->has_reply)
        gone(request->gone_ctx);
}

void conn_stop_flows(struct http *http, bool is_last)
{
    for (struct conn *conn = http->conns; conn != NULL; conn = conn->next) {
        struct request *request = conn->request;
        if (request != NULL && request->flow != NULL)
            flow_stop(request->flow, is_last);
        else if (!is_last && request != NULL && request->upgrade_handle != NULL &&
                 request->on_stop != NULL)
            request->on_stop(request->upgrade_ctx);
    }
}

void conn_sweep(void *ctx)
{
    struct http *http = ctx;
    int64_t now = clock_now_ms();
    bool draining = http->options.rules.is_draining;
    for (struct conn *conn = http->conns; conn != NULL; conn = conn->next) {
        const char *late = lateness(conn, now);
        bool is_old = now - conn->since_ms > http->options.keep_alive_ms;
        if (late != NULL) {
            conn_cut(conn, 408, late);
            (void)shutdown(conn->fd, SHUT_RDWR);
        } else if (has_vanished(conn)) {
            on_vanished(conn);
        } else if (is_idle(conn) && (draining || is_old)) {
            (void)shutdown(conn->fd, SHUT_RDWR);
        }
    }
}
