#include "api/server.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/home.h"
#include "api/http/api.h"
#include "api/http/guard.h"
#include "api/http/http.h"
#include "api/http/listener.h"
#include "api/http/meta.h"
#include "api/http/metrics.h"
#include "api/http/rate.h"
#include "api/http/sign.h"
#include "api/http/tls.h"
#include "api/mcp/mcp_endpoint.h"
#include "api/ports/port_access.h"
#include "api/route/openapi.h"
#include "api/server_names.h"
#include "api/v1/v1.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "io/listen.h"

enum { BACKLOG = 1024, FILES_WANTED = 65536, ENGINE_STOP_MS = 10000, LAST_ANSWERS_MS = 2000 };

struct server {
    struct api api; /* first: what handlers get */
    struct loop *loop;
    struct home home;
    struct addr addr;
    bool has_socket; /* a file that is ours to remove */
    struct http *http;
    struct metrics *metrics;
    struct route *routes;
    struct guard guard;
    struct rates rates;
    bool is_stopping_engine, is_engine_stopped;
    struct tls *tls;
    struct listener *listeners[3];
    size_t listener_count;
    struct bound_socket {
        int fd; /* -1 once it was taken */
        enum listener_kind kind;
    } bound[3];
    size_t bound_count;
    struct addr tls_addr, socket;
    bool has_second_socket;
    struct signal_watch *stops[3];
    struct timer *deadline;
    int64_t drain_ms;
    struct server_names names;
    int exit_code;
};

/* What a process that holds tokens owes: no core file, no other process of the same user reading
 * its memory, no file readable by others. */
static void harden(void)
{
    struct rlimit none = {1, 1}; /* not 0: see lockdown.c; jails inherit it */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)umask(077);
    (void)signal(SIGPIPE, SIG_IGN);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_WANTED) {
        files.rlim_cur = MIN(files.rlim_max, (rlim_t)FILES_WANTED);
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

/* The first token is in its file, for users who may read it; the others are the engine's. */
static bool check_token(void *ctx, struct str token, struct caller *ret_caller)
{
    struct server *server = ctx;
    struct token_info info;
    if (home_check_token(&server->home, token)) {
        *ret_caller = (struct caller){.token_id = "first", .tenant = "default", .scopes = ~0U};
        return true;
    }
    if (!engine_token_find(server->api.engine, token, &info))
        return false;
    *ret_caller = (struct caller){.scopes = v1_scopes_of_token(info.scopes),
                                  .quota = info.quota,
                                  .rate_per_minute = info.rate_per_minute};
    (void)snprintf(ret_caller->token_id, sizeof ret_caller->token_id, "%.*s", STR_ARG(info.id));
    (void)snprintf(ret_caller->token_name, sizeof ret_caller->token_name, "%.*s",
                   STR_ARG(info.name));
    (void)snprintf(ret_caller->tenant, sizeof ret_caller->tenant, "%.*s", STR_ARG(info.tenant));
    return true;
}

static enum sign_found check_signature(void *ctx, struct request *request,
                                       struct caller *ret_caller, struct err *err)
{
    struct server *server = ctx;
    return sign_check(&server->api, request, ret_caller, err);
}

static bool find_port(void *ctx, struct request *request, struct str host)
{
    struct server *server = ctx;
    return port_access_find(&server->api, request, host);
}

static struct str find_sandbox(void *ctx, struct request *request)
{
    struct server *server = ctx;
    return v1_sandbox_of(&server->api, request);
}

static bool find_named(void *ctx, struct request *request)
{
    struct server *server = ctx;
    return v1_find_named(&server->api, request);
}

static bool check_port(void *ctx, struct request *request)
{
    struct server *server = ctx;
    return port_access_check(&server->api, request);
}

static int64_t check_rate(void *ctx, const struct caller *caller)
{
    struct server *server = ctx;
    return rate_take(&server->rates, str_of(caller->token_id), caller->rate_per_minute,
                     clock_now_ms());
}

/* Waiting callers got the answer that the server was stopped; send these answers first. */
static void on_engine_stopped(void *ctx, const struct err *why)
{
    struct server *server = ctx;
    if (why != NULL)
        log_warn("engine.stop", LOG_STR("why", why->msg));
    server->is_engine_stopped = true;
    if (server->http == NULL) /* after a second signal: the loop ended before the engine */
        return;
    if (http_counts(server->http).running == 0)
        loop_stop(server->loop);
    else
        timer_set(server->deadline, LAST_ANSWERS_MS, 0);
}

/* No request runs any more: what sandboxes hold is put aside, and the store is closed in order. */
static void stop_engine(void *ctx)
{
    struct server *server = ctx;
    if (server->is_engine_stopped)
        loop_stop(server->loop);
    if (server->is_stopping_engine)
        return;
    server->is_stopping_engine = true;
    timer_set(server->deadline, ENGINE_STOP_MS, 0);
    engine_stop(server->api.engine, on_engine_stopped, server);
}

static void on_deadline(void *ctx)
{
    struct server *server = ctx;
    log_warn("server.drain_cut", LOG_INT("running", http_counts(server->http).running));
    if (server->is_stopping_engine) {
        loop_stop(server->loop);
        return;
    }
    http_end_streams(server->http);
    stop_engine(server);
}

/* Before the socket is closed: once this server does not answer, the file may be another server's.
 */
static void remove_socket(struct server *server)
{
    if (server->has_socket)
        (void)unlink(server->addr.sa.un.sun_path);
    if (server->has_second_socket)
        (void)unlink(server->socket.sa.un.sun_path);
    server->has_socket = server->has_second_socket = false;
}

static void close_listeners(struct server *server)
{
    while (server->listener_count > 0)
        (void)listener_free(server->listeners[--server->listener_count]);
}

static void on_signal(void *ctx, int signo)
{
    struct server *server = ctx;
    if (server->api.meta.is_draining) {
        server->exit_code = 1;
        loop_stop(server->loop);
        return;
    }
    log_info("server.stopping", LOG_INT("signal", signo),
             LOG_INT("running", http_counts(server->http).running));
    server->api.meta.is_draining = true;
    timer_set(server->deadline, server->drain_ms, 0);
    remove_socket(server);
    close_listeners(server);
    http_drain(server->http, stop_engine, server);
}

/* A closed terminal ends the server as SIGTERM does, unless nohup asked for the contrary. */
static int watch_signals(struct server *server, struct err *err)
{
    static const int signals[countof(server->stops)] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < countof(signals); i++) {
        struct sigaction before = {0};
        (void)sigaction(signals[i], NULL, &before);
        if (signals[i] == SIGHUP && before.sa_handler == SIG_IGN)
            continue;
        if (signal_watch_new(server->loop, signals[i], on_signal, server, &server->stops[i], err) <
            0)
            return -1;
    }
    return 0;
}

/* Sockets first: names need their ports, and the HTTP server needs the names. */
static int listen_at(struct server *server, struct addr *addr, enum listener_kind kind,
                     struct err *err)
{
    struct bound_socket *socket = &server->bound[server->bound_count];
    socket->fd = listen_open(addr, BACKLOG, err);
    socket->kind = kind;
    if (socket->fd < 0)
        return -1;
    server->bound_count++;
    return 0;
}

static int listen_everywhere(struct server *server, const struct server_options *options,
                             struct err *err)
{
    char text[ADDR_TEXT_SIZE + 8];
    bool second_port = server->tls != NULL && options->tls_listen != NULL;
    if (listen_at(server, &server->addr,
                  server->tls != NULL && !second_port ? LISTENER_EITHER : LISTENER_PLAIN, err) < 0)
        return -1;
    server->has_socket = addr_is_unix(&server->addr);
    if (second_port && (addr_parse(str_of(options->tls_listen), &server->tls_addr, err) < 0 ||
                        listen_at(server, &server->tls_addr, LISTENER_TLS, err) < 0))
        return -1;
    if (options->unix_socket == NULL)
        return 0;
    (void)snprintf(text, sizeof text, "unix:%s", options->unix_socket);
    if (addr_parse(str_of(text), &server->socket, err) < 0 ||
        listen_at(server, &server->socket, LISTENER_PLAIN, err) < 0)
        return -1;
    server->has_second_socket = true;
    return 0;
}

/* The first plain address is the HTTP library's own; the others come through listeners. */
static int open_listeners(struct server *server, struct err *err)
{
    for (size_t i = 0; i < server->bound_count; i++) {
        struct bound_socket *socket = &server->bound[i];
        if (socket->fd < 0)
            continue;
        if (listener_open(server->loop, server->http, socket->fd, socket->kind, server->tls,
                          &server->listeners[server->listener_count], err) < 0)
            return -1;
        socket->fd = -1;
        server->listener_count++;
    }
    return 0;
}

static int open_tls(struct server *server, const struct server_options *options, struct err *err)
{
    if (options->tls_cert == NULL && options->tls_key == NULL)
        return 0;
    if (options->tls_cert == NULL || options->tls_key == NULL)
        return err_set(err, ERR_INVALID, "TLS needs both server.tls_cert and server.tls_key");
    return tls_open(options->tls_cert, options->tls_key, &server->tls, err);
}

static struct http_options http_options_of(struct server *server,
                                           const struct server_options *options)
{
    return (struct http_options){
        .rules = {.routes = server->routes,
                  .ctx = server,
                  .hosts = (const char *const *)server->names.hosts.ptr,
                  .origins = (const char *const *)server->names.origins.ptr,
                  .cors_origins = options->cors_origins,
                  .check_token = check_token,
                  .check_signature = check_signature,
                  .check_rate = check_rate,
                  .find_port = find_port,
                  .find_sandbox = find_sandbox,
                  .find_named = find_named,
                  .check_port = check_port,
                  .guard = &server->guard},
        .metrics = server->metrics,
        .connections_max = options->connections_max,
        .per_address_max = options->per_address_max,
        .head_ms = options->head_ms,
        .body_idle_ms = options->body_idle_ms,
        .reader_idle_ms = options->reader_idle_ms,
        .keep_alive_ms = options->keep_alive_ms,
    };
}

/* "box.example.com", or with the port that clients see: 443 is https. */
static void set_domain(struct server *server, const char *domain)
{
    struct str text = str_of(domain);
    size_t colon = str_find_char(text, ':');
    bool is_tls = server->bound[0].kind != LISTENER_PLAIN || server->tls_addr.len > 0;
    int64_t port = addr_port(server->tls_addr.len > 0 ? &server->tls_addr : &server->addr);
    if (colon < text.len) {
        (void)!str_to_i64(str_slice(text, colon + 1, text.len), 0, UINT16_MAX, &port);
        is_tls = port == 443;
    }
    (void)snprintf(server->api.domain.name, sizeof server->api.domain.name, "%.*s",
                   STR_ARG(str_slice(text, 0, colon)));
    server->api.domain.port = (int)port;
    server->api.domain.is_https = is_tls;
}

static int start_http(struct server *server, const struct server_options *options, struct err *err)
{
    if (routes_new(api_tables, &server->routes, err) < 0)
        return -1;
    server->metrics = metrics_new(server->routes);
    const struct addr *addrs[] = {&server->addr, &server->tls_addr};
    server_names_collect(&server->names, addrs, countof(addrs), server->has_second_socket,
                         options->names);
    set_domain(server, options->domain);
    struct http_options http = http_options_of(server, options);
    struct bound_socket *first = &server->bound[0];
    bool is_plain = first->kind == LISTENER_PLAIN;
    if (http_open(server->loop, is_plain ? first->fd : -1, &http, &server->http, err) < 0)
        return -1;
    if (is_plain)
        first->fd = -1;
    server->api.meta.http = server->http;
    server->api.meta.metrics = server->metrics;
    server->api.meta.routes = server->routes;
    server->api.meta.engine = server->api.engine;
    return open_listeners(server, err);
}

static int server_start(struct server *server, const struct server_options *options,
                        struct err *err)
{
    if (addr_parse(str_of(options->listen), &server->addr, err) < 0)
        return -1;
    bool is_public = !addr_is_loopback(&server->addr);
    if (home_open(options->data_dir, options->token_file, is_public, &server->home, err) < 0)
        return is_public ? err_wrap(err, "listen on %s", options->listen) : -1;
    if (loop_open(&server->loop, err) < 0)
        return -1;
    server->api.loop = server->loop;
    server->api.config = options->config;
    if (home_signing_key(&server->home, server->api.signing_key, err) < 0)
        return -1;
    /* The address first: one that is taken must not make the store move. */
    if (open_tls(server, options, err) < 0 || listen_everywhere(server, options, err) < 0)
        return -1;
    const struct engine_options engine = {
        .config = options->config, .data_dir = options->data_dir, .tiers = options->tiers};
    if (engine_open(server->loop, &engine, &server->api.engine, err) < 0)
        return -1;
    server->drain_ms = options->drain_ms;
    server->deadline = timer_new(server->loop, on_deadline, server);
    if (watch_signals(server, err) < 0)
        return -1;
    return start_http(server, options, err);
}

/* Where this machine's own commands reach the server; a port that speaks TLS speaks HTTP as well.
 */
static void put_near_url(struct server *server, struct buf *url)
{
    char text[ADDR_TEXT_SIZE];
    struct addr near = addr_nearest(&server->addr);
    addr_format(&near, text);
    buf_printf(url, "%s%s", addr_is_unix(&near) ? "" : "http://", text);
}

/* A line for a shell that shows the server at work. */
static void put_first_try(struct server *server, const char *url, struct buf *text)
{
    buf_put_cstr(text, "Try: curl ");
    if (addr_is_unix(&server->addr))
        buf_printf(text, "--unix-socket %s ", server->addr.sa.un.sun_path);
    else if (strchr(url, '[') != NULL)
        buf_put_cstr(text, "-g "); /* curl reads brackets as a pattern */
    buf_printf(text, "-H \"Authorization: Bearer $(cat '%s')\" --json '{\"code\": \"6 * 7\"}' ",
               server->home.token_file);
    buf_printf(text, "%s/v1/run_code\n", addr_is_unix(&server->addr) ? "http://localhost" : url);
}

static void tell_ready(struct server *server, const struct server_options *options)
{
    char addr[ADDR_TEXT_SIZE];
    AUTO_BUF struct buf text = {0};
    AUTO_BUF struct buf url = {0};
    struct err err;
    addr_format(&server->addr, addr);
    log_info("server.ready", LOG_STR("listen", addr), LOG_STR("data_dir", options->data_dir));
    bool is_tls = server->bound[0].kind == LISTENER_EITHER;
    const char *scheme = addr_is_unix(&server->addr) ? "" : (is_tls ? "https://" : "http://");
    buf_printf(&text, "sandglass " SG_VERSION " is ready at %s%s\nToken: %s\n", scheme, addr,
               server->home.token_file);
    put_near_url(server, &url);
    if (home_tell_url(&server->home, buf_str(&url), &err) < 0)
        log_warn("server.url_untold", LOG_STR("why", err.msg));
    put_first_try(server, buf_cstr(&url), &text);
    if (options->on_ready != NULL)
        options->on_ready(buf_cstr(&text), options->ctx);
}

static void server_finish(struct server *server)
{
    remove_socket(server);
    close_listeners(server);
    for (size_t i = 0; i < server->bound_count; i++)
        fd_close(&server->bound[i].fd);
    /* A handler that still holds a request could not reply: the process ends anyway. */
    if (server->http != NULL && http_counts(server->http).running == 0)
        server->http = http_free(server->http);
    server->api.mcp = mcp_endpoint_free(server->api.mcp);
    /* Readers of the engine end with their requests, so it goes last. */
    server->api.engine = engine_free(server->api.engine);
    if (server->http == NULL) {
        server->tls = tls_free(server->tls);
        server->metrics = metrics_free(server->metrics);
        server->routes = routes_free(server->routes);
        server->loop = loop_free(server->loop);
        server_names_done(&server->names);
    }
    rates_done(&server->rates);
    home_close(&server->home);
}

int server_run(const struct server_options *options, struct err *err)
{
    static struct server server; /* one per process, like the loop */
    server = (struct server){.home = {.dir_fd = -1, .lock_fd = -1}};
    harden();
    int done = server_start(&server, options, err);
    if (done == 0) {
        tell_ready(&server, options);
        loop_run(server.loop);
        log_info("server.stopped", LOG_INT("code", server.exit_code));
        done = server.exit_code;
    }
    server_finish(&server);
    return done;
}
