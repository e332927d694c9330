#include "api/http/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <unistd.h>

#include "api/http/exchange.h"
#include "api/http/flow.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"

enum { POOL_SIZE = 48 << 10, FLOW_BLOCK = 64 << 10, STUCK_READER_S = 75 };

static struct conn *conn_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = conn_open(cls, info->connect_fd);
    } else if (*socket_context != NULL) {
        conn_close(*socket_context);
        *socket_context = NULL;
    }
}

/* ---- turns --------------------------------------------------------------------------------- */

/* The library crashes when a connection is suspended twice, and forgets one that is closed while
 * it is suspended. */
static void park(struct conn *conn)
{
    assert(conn->turn == TURN_RUNS);
    MHD_suspend_connection(conn->request->connection);
    conn->turn = TURN_WAITS;
}

/* A handler may hold and reply in one go: then the library was never told to wait. */
static void unpark(struct conn *conn)
{
    if (conn->turn != TURN_WAITS)
        return;
    MHD_resume_connection(conn->request->connection);
    conn->turn = TURN_WAKES;
}

/* The library has come with something; false when it should not have. */
static bool take_up(struct conn *conn)
{
    if (conn->turn == TURN_WAITS)
        return false;
    conn->turn = TURN_RUNS;
    return true;
}

/* ---- requests ------------------------------------------------------------------------------ */

static void *on_uri(UNUSED void *cls, const char *uri, struct MHD_Connection *connection)
{
    struct conn *conn = conn_of(connection);
    struct request *request = mem_alloc(sizeof *request);
    request->http = conn->http;
    request->conn = conn;
    request->start_ns = clock_now_ns();
    request->target = arena_dup(&request->arena, str_of(uri));
    assert(conn->request == NULL);
    conn->request = request;
    return request;
}

static size_t keep_escapes(UNUSED void *cls, UNUSED struct MHD_Connection *connection, char *s)
{
    return strlen(s);
}

static enum MHD_Result add_header(void *cls, UNUSED enum MHD_ValueKind kind, const char *name,
                                  size_t name_len, const char *value, size_t value_len)
{
    struct request *request = cls;
    if (request->header_count < REQUEST_HEADERS_MAX)
        request->headers[request->header_count++] =
            (struct request_header){str_n(name, name_len), str_n(value, value_len)};
    return MHD_YES;
}

static void http_begin(struct conn *conn, struct MHD_Connection *connection, const char *method)
{
    struct request *request = conn->request;
    request->connection = connection;
    request->method = arena_dup(&request->arena, str_of(method));
    const union MHD_ConnectionInfo *peer =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    request->peer = peer == NULL ? NULL : peer->client_addr;
    (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, add_header, request);
    exchange_begin(conn, request);
}

/* ---- replies ------------------------------------------------------------------------------- */

/* More of a flow's bytes for the library; 0 while it waits for them, suspended. */
static ssize_t read_flow(void *cls, UNUSED uint64_t pos, char *out, size_t max)
{
    struct request *request = cls;
    struct flow *flow = request->flow;
    if (!take_up(request->conn))
        return 0;
    if (flow_is_broken(flow))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t count = flow_take(flow, out, max);
    if (count > 0)
        return (ssize_t)count;
    if (flow_is_done(flow))
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (flow_unsent(flow) == 0)
        park(request->conn);
    return 0;
}

static void on_upgraded(void *cls, struct MHD_Connection *connection, UNUSED void *req_cls,
                        const char *extra, size_t extra_len, MHD_socket sock,
                        struct MHD_UpgradeResponseHandle *handle)
{
    struct request *request = cls;
    struct conn *conn = conn_of(connection);
    conn->strict.state = STRICT_PASS;
    request->upgrade_handle = handle;
    request->was_upgraded = true;
    request->on_upgrade(request->upgrade_ctx, request, sock, str_n(extra, extra_len));
}

static struct MHD_Response *make_body(struct request *request)
{
    if (request->flow != NULL) {
        int64_t length = flow_length(request->flow);
        /* The library clears the block of each response that it makes. */
        size_t block = length < 0 ? FLOW_BLOCK : (size_t)MAX(MIN(length, FLOW_BLOCK), 1);
        return MHD_create_response_from_callback(length < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)length,
                                                 block, read_flow, request, NULL);
    }
    if (request->on_upgrade != NULL)
        return MHD_create_response_for_upgrade(on_upgraded, request);
    size_t len = request->reply.len;
    return MHD_create_response_from_buffer(len, buf_take(&request->reply), MHD_RESPMEM_MUST_FREE);
}

static void put_header(void *ctx, const char *name, const char *value)
{
    (void)MHD_add_response_header(ctx, name, value);
}

static struct MHD_Response *make_response(struct request *request)
{
    struct MHD_Response *response = make_body(request);
    assert(response != NULL);
    exchange_headers(request, put_header, response);
    return response;
}

static enum MHD_Result send_reply(struct conn *conn, struct request *request)
{
    struct http *http = conn->http;
    exchange_note(http, request);
    request->must_close = request->must_close || http->options.rules.is_draining;
    struct MHD_Response *response = make_response(request);
    /* The library ends a body in chunks also where HEAD forbids one. */
    if (request->flow != NULL && flow_length(request->flow) < 0 &&
        str_eq(request->method, STR("HEAD")))
        (void)MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    conn->is_answering = true;
    /* The library detects clients that do not read: only it sees whether bytes leave. */
    (void)MHD_set_connection_option(request->connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                    request->flow != NULL
                                        ? (unsigned)(http->options.reader_idle_ms / 1000)
                                        : (unsigned)STUCK_READER_S);
    enum MHD_Result queued =
        MHD_queue_response(request->connection, (unsigned)request->status, response);
    MHD_destroy_response(response);
    return queued;
}

/* ---- the library's calls ------------------------------------------------------------------- */

static enum MHD_Result on_head(struct conn *conn, struct request *request)
{
    if (request->has_reply && strict_in_body(&conn->strict)) {
        request->must_close = true; /* the body will not be read */
        request->stage = STAGE_WHOLE;
        return send_reply(conn, request);
    }
    if (!request->has_reply && (request->is_held || request->is_paused)) {
        park(conn);
        return MHD_YES; /* and asks again, with the head, once it goes on */
    }
    request->stage = STAGE_BODY;
    request->skips_body = request->has_reply;
    return MHD_YES;
}

static enum MHD_Result on_body(struct conn *conn, struct request *request, struct str bytes)
{
    if (request->skips_body)
        return MHD_YES;
    if (!request->has_reply)
        exchange_take_body(request, bytes);
    if (request->has_reply) {
        exchange_answer_early(conn, request);
        return MHD_NO;
    }
    if (request->is_paused)
        park(conn);
    return MHD_YES;
}

static enum MHD_Result on_request(UNUSED void *cls, struct MHD_Connection *connection,
                                  UNUSED const char *url, const char *method,
                                  UNUSED const char *version, const char *upload_data,
                                  size_t *upload_size, UNUSED void **req_cls)
{
    struct conn *conn = conn_of(connection);
    struct request *request = conn->request;
    /* While it goes through the chunks that it has, it does not look whether one made it wait. It
     * keeps what is not taken and brings it again. */
    if (!take_up(conn))
        return MHD_YES;
    if (request->connection == NULL) {
        http_begin(conn, connection, method);
        request_log(NULL);
    }
    if (request->stage == STAGE_HEAD)
        return on_head(conn, request);
    if (*upload_size > 0) {
        size_t size = *upload_size;
        *upload_size = 0;
        return on_body(conn, request, str_n(upload_data, size));
    }
    if (request->stage == STAGE_BODY) {
        if (request->is_paused) { /* a reader that is behind: the end can wait */
            park(conn);
            return MHD_YES;
        }
        request->stage = STAGE_WHOLE;
        if (!request->has_reply)
            exchange_dispatch(request);
        if (!request->has_reply)
            park(conn);
    }
    return request->has_reply ? send_reply(conn, request) : MHD_YES;
}

static void on_completed(UNUSED void *cls, struct MHD_Connection *connection, UNUSED void **req_cls,
                         UNUSED enum MHD_RequestTerminationCode why)
{
    struct conn *conn = conn_of(connection);
    if (conn == NULL)
        return;
    assert(conn->turn != TURN_WAITS);
    conn->turn = TURN_RUNS;
    /* The end of an upgraded connection is reported with the library's lock held. */
    if (conn->request == NULL || !conn->request->was_upgraded)
        (void)MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
    if (conn->request != NULL && conn->request->must_close && !conn->is_cut)
        linger_add(&conn->http->lingers, conn->fd);
    conn_end_request(conn);
}

void http_resume(struct request *request)
{
    struct http *http = request->http;
    loop_assert(http->loop);
    if (request->has_reply && request->stage == STAGE_BODY && !request->skips_body)
        exchange_answer_early(request->conn, request);
    unpark(request->conn);
    if (!http->is_running)
        timer_set(http->timer, 0, 0);
}

void http_upgrade_done(struct request *request)
{
    struct http *http = request->http;
    loop_assert(http->loop);
    struct MHD_UpgradeResponseHandle *handle = request->upgrade_handle;
    request->upgrade_handle = NULL;
    (void)MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
    if (!http->is_running)
        timer_set(http->timer, 0, 0);
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void check_drained(struct http *http)
{
    if (http->on_drained == NULL || http->counts.running > 0)
        return;
    if (http->lingers.count > 0) {
        timer_set(http->timer, 10, 0); /* at most LINGER_MS in all */
        return;
    }
    void (*call)(void *ctx) = http->on_drained;
    http->on_drained = NULL;
    call(http->drained_ctx);
}

static void pump(struct http *http)
{
    loop_assert(http->loop);
    assert(!http->is_running);
    http->is_running = true;
    conn_read_for(http);
    size_t before = http->counts.connections;
    (void)MHD_run(http->daemon);
    conn_read_for(NULL);
    http->is_running = false;
    MHD_UNSIGNED_LONG_LONG wait_ms;
    /* At its limit the library stops listening, and begins again only in the run after a close. */
    if (http->counts.connections < before)
        timer_set(http->timer, 0, 0);
    else if (MHD_get_timeout(http->daemon, &wait_ms) == MHD_YES)
        timer_set(http->timer, (int64_t)MIN(wait_ms, 60000ULL), 0);
    else
        timer_clear(http->timer);
    check_drained(http);
}

static void on_readable(void *ctx, UNUSED int events)
{
    pump(ctx);
}

static void on_timer(void *ctx)
{
    pump(ctx);
}

static void on_library_log(UNUSED void *cls, const char *fmt, va_list args)
{
    char text[256];
    if (!log_is_on(LOG_DEBUG))
        return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)vsnprintf(text, sizeof text, fmt, args);
#pragma GCC diagnostic pop
    log_debug("http.library", LOG_VIEW("says", str_trim(str_of(text))));
}

static void set_defaults(struct http_options *options)
{
#define OR_DEFAULT(field, value) options->field = options->field == 0 ? (value) : options->field
    OR_DEFAULT(connections_max, HTTP_CONNECTIONS_MAX);
    OR_DEFAULT(per_address_max, HTTP_PER_ADDRESS_MAX);
    OR_DEFAULT(head_ms, HTTP_HEAD_MS);
    OR_DEFAULT(body_idle_ms, HTTP_BODY_IDLE_MS);
    OR_DEFAULT(keep_alive_ms, HTTP_KEEP_ALIVE_MS);
#undef OR_DEFAULT
}

static struct MHD_Daemon *start_daemon(struct http *http, int listen_fd)
{
    unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE | MHD_USE_ERROR_LOG;
    if (listen_fd < 0)
        flags |= MHD_USE_NO_LISTEN_SOCKET;
    struct MHD_OptionItem listen[] = {{MHD_OPTION_LISTEN_SOCKET, listen_fd, NULL},
                                      {MHD_OPTION_END, 0, NULL}};
    if (listen_fd < 0)
        listen[0] = listen[1];
    /* The log's option comes first: the library speaks through it while it reads the others. */
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_library_log, NULL,
        MHD_OPTION_ARRAY, listen, MHD_OPTION_CONNECTION_LIMIT, http->options.connections_max,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, http->options.per_address_max,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_SIZE, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, http, MHD_OPTION_URI_LOG_CALLBACK, on_uri, http, MHD_OPTION_UNESCAPE_CALLBACK,
        keep_escapes, NULL, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
}

int http_open(struct loop *loop, int listen_fd, const struct http_options *options,
              struct http **ret_http, struct err *err)
{
    loop_assert(loop);
    struct http *http = mem_alloc(sizeof *http);
    http->loop = loop;
    http->lingers.loop = loop;
    http->listen_fd = -1;
    http->options = *options;
    set_defaults(&http->options);
    http->timer = timer_new(loop, on_timer, http);
    http->sweep = timer_new(loop, conn_sweep, http);
    http->daemon = start_daemon(http, listen_fd);
    if (http->daemon == NULL) {
        (void)http_free(http);
        return err_set(err, ERR_INTERNAL, "cannot start the HTTP library");
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (watch_new(loop, info->epoll_fd, WATCH_READ, on_readable, http, &http->watch, err) < 0) {
        (void)MHD_quiesce_daemon(http->daemon); /* the socket stays the caller's */
        (void)http_free(http);
        return -1;
    }
    http->listen_fd = listen_fd;
    *ret_http = http;
    return 0;
}

static void stop_listening(struct http *http)
{
    if (http->listen_fd < 0)
        return;
    (void)MHD_quiesce_daemon(http->daemon);
    fd_close(&http->listen_fd);
}

struct http *http_free(struct http *http)
{
    if (http == NULL)
        return NULL;
    http->watch = watch_free(http->watch);
    http->timer = timer_free(http->timer);
    if (http->daemon != NULL) {
        stop_listening(http);
        conn_read_for(http);
        MHD_stop_daemon(http->daemon);
        conn_read_for(NULL);
    }
    http->sweep = timer_free(http->sweep);
    linger_done(&http->lingers);
    vec_done(&http->by_fd);
    free(http);
    return NULL;
}

int http_add_connection(struct http *http, int fd, const struct sockaddr *peer, socklen_t peer_len,
                        struct err *err)
{
    loop_assert(http->loop);
    if (MHD_add_connection(http->daemon, fd, peer, peer_len) != MHD_YES)
        return err_sys(err, errno, "serve a connection");
    timer_set(http->timer, 0, 0);
    return 0;
}

void http_drain(struct http *http, void (*call)(void *ctx), void *ctx)
{
    loop_assert(http->loop);
    http->options.rules.is_draining = true;
    http->on_drained = call;
    http->drained_ctx = ctx;
    stop_listening(http);
    conn_stop_flows(http, false);
    conn_sweep(http);
    timer_set(http->timer, 0, 0);
}

void http_end_streams(struct http *http)
{
    conn_stop_flows(http, true);
    timer_set(http->timer, 0, 0);
}

struct http_counts http_counts(const struct http *http)
{
    return http->counts;
}

struct loop *http_loop(const struct http *http)
{
    return http->loop;
}
