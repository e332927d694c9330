#include "api/server.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "api/door.h"
#include "api/guard.h"
#include "api/home.h"
#include "api/http.h"
#include "api/mcp_door.h"
#include "api/meta.h"
#include "api/metrics.h"
#include "api/openapi.h"
#include "api/port_door.h"
#include "api/rate.h"
#include "api/sign.h"
#include "api/tls.h"
#include "api/v1.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/vec.h"
#include "io/listen.h"

enum { BACKLOG = 1024, FILES_WANTED = 65536, ENGINE_STOP_MS = 10000 };

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
    bool is_stopping_engine;
    struct tls *tls;
    struct door *doors[3];
    size_t door_count;
    struct listener {
        int fd; /* -1 once somebody has taken it */
        enum door_kind kind;
    } listeners[3];
    size_t listener_count;
    struct addr tls_addr, socket;
    bool has_second_socket;
    struct signal_watch *stops[3];
    struct timer *deadline;
    int64_t drain_ms;
    VEC(char *) hosts;   /* ends with NULL */
    VEC(char *) origins; /* ends with NULL */
    int exit_code;
};

/* What a process that holds tokens owes: no core file, no other process of the same user reading
 * its memory, no file readable by others. */
static void harden(void)
{
    struct rlimit none = {0};
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

static void add_host(struct server *server, const char *host, int port)
{
    char text[300];
    if (port > 0) {
        (void)snprintf(text, sizeof text, "%s:%d", host, port);
        *vec_push(&server->hosts) = mem_dup_cstr(text);
    }
    if (port == 0 || port == 80 || port == 443)
        *vec_push(&server->hosts) = mem_dup_cstr(host);
}

/* The names under which we answer, and as whose pages. A name configured without a port is also
 * good without one, for a proxy in front. */
static void collect_names(struct server *server, const char *const *names)
{
    const struct addr *addrs[] = {&server->addr, &server->tls_addr};
    for (size_t i = 0; i < countof(addrs); i++) {
        char text[ADDR_TEXT_SIZE];
        if (addrs[i]->len == 0)
            continue;
        int port = addr_port(addrs[i]);
        addr_format(addrs[i], text);
        add_host(server, "127.0.0.1", port);
        add_host(server, "localhost", port);
        add_host(server, "[::1]", port);
        if (!addr_is_unix(addrs[i]))
            *vec_push(&server->hosts) = mem_dup_cstr(text);
        for (const char *const *name = names; name != NULL && *name != NULL; name++)
            add_host(server, *name, port);
    }
    if (server->has_second_socket)
        add_host(server, "localhost", 0);
    for (; names != NULL && *names != NULL; names++)
        *vec_push(&server->hosts) = mem_dup_cstr(*names);
    VEC_EACH (host, &server->hosts) {
        char origin[320];
        (void)snprintf(origin, sizeof origin, "http://%s", *host);
        *vec_push(&server->origins) = mem_dup_cstr(origin);
        (void)snprintf(origin, sizeof origin, "https://%s", *host);
        *vec_push(&server->origins) = mem_dup_cstr(origin);
    }
    *vec_push(&server->hosts) = NULL;
    *vec_push(&server->origins) = NULL;
}

/* The first token lies in its file, for whoever may read that; the others are the engine's. */
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
    return port_door_find(&server->api, request, host);
}

static struct str find_sandbox(void *ctx, struct request *request)
{
    struct server *server = ctx;
    return v1_sandbox_of(&server->api, request);
}

static bool check_port(void *ctx, struct request *request)
{
    struct server *server = ctx;
    return port_door_check(&server->api, request);
}

static int64_t check_rate(void *ctx, const struct caller *caller)
{
    struct server *server = ctx;
    return rate_take(&server->rates, str_of(caller->token_id), caller->rate_per_minute,
                     clock_now_ms());
}

static void on_engine_stopped(void *ctx, const struct err *why)
{
    struct server *server = ctx;
    if (why != NULL)
        log_warn("engine.stop", LOG_STR("why", why->msg));
    loop_stop(server->loop);
}

/* No request runs any more: what sandboxes hold is put aside, and the store is closed in order. */
static void stop_engine(void *ctx)
{
    struct server *server = ctx;
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
    if (server->is_stopping_engine)
        loop_stop(server->loop);
    else
        stop_engine(server);
}

/* Before the socket is closed: once nobody answers behind it, the file may be another server's. */
static void remove_socket(struct server *server)
{
    if (server->has_socket)
        (void)unlink(server->addr.sa.un.sun_path);
    if (server->has_second_socket)
        (void)unlink(server->socket.sa.un.sun_path);
    server->has_socket = server->has_second_socket = false;
}

static void close_doors(struct server *server)
{
    while (server->door_count > 0)
        (void)door_free(server->doors[--server->door_count]);
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
    close_doors(server);
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
static int listen_at(struct server *server, struct addr *addr, enum door_kind kind, struct err *err)
{
    struct listener *listener = &server->listeners[server->listener_count];
    listener->fd = listen_open(addr, BACKLOG, err);
    listener->kind = kind;
    if (listener->fd < 0)
        return -1;
    server->listener_count++;
    return 0;
}

static int listen_everywhere(struct server *server, const struct server_options *options,
                             struct err *err)
{
    char text[ADDR_TEXT_SIZE + 8];
    bool second_port = server->tls != NULL && options->tls_listen != NULL;
    if (listen_at(server, &server->addr,
                  server->tls != NULL && !second_port ? DOOR_EITHER : DOOR_PLAIN, err) < 0)
        return -1;
    server->has_socket = addr_is_unix(&server->addr);
    if (second_port && (addr_parse(str_of(options->tls_listen), &server->tls_addr, err) < 0 ||
                        listen_at(server, &server->tls_addr, DOOR_TLS, err) < 0))
        return -1;
    if (options->unix_socket == NULL)
        return 0;
    (void)snprintf(text, sizeof text, "unix:%s", options->unix_socket);
    if (addr_parse(str_of(text), &server->socket, err) < 0 ||
        listen_at(server, &server->socket, DOOR_PLAIN, err) < 0)
        return -1;
    server->has_second_socket = true;
    return 0;
}

/* The first plain address is the HTTP library's own; the others come through doors. */
static int open_doors(struct server *server, struct err *err)
{
    for (size_t i = 0; i < server->listener_count; i++) {
        struct listener *listener = &server->listeners[i];
        if (listener->fd < 0)
            continue;
        if (door_open(server->loop, server->http, listener->fd, listener->kind, server->tls,
                      &server->doors[server->door_count], err) < 0)
            return -1;
        listener->fd = -1;
        server->door_count++;
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
                  .hosts = (const char *const *)server->hosts.ptr,
                  .origins = (const char *const *)server->origins.ptr,
                  .cors_origins = options->cors_origins,
                  .check_token = check_token,
                  .check_signature = check_signature,
                  .check_rate = check_rate,
                  .find_port = find_port,
                  .find_sandbox = find_sandbox,
                  .check_port = check_port,
                  .guard = &server->guard},
        .metrics = server->metrics,
        .connections_max = options->connections_max,
        .per_address_max = options->per_address_max,
        .head_ms = options->head_ms,
        .body_idle_ms = options->body_idle_ms,
        .keep_alive_ms = options->keep_alive_ms,
    };
}

/* "box.example.com", or with the port that clients see: 443 is https. */
static void set_domain(struct server *server, const char *domain)
{
    struct str text = str_of(domain);
    size_t colon = str_find_char(text, ':');
    bool is_tls = server->listeners[0].kind != DOOR_PLAIN || server->tls_addr.len > 0;
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
    collect_names(server, options->names);
    set_domain(server, options->domain);
    struct http_options http = http_options_of(server, options);
    struct listener *first = &server->listeners[0];
    bool is_plain = first->kind == DOOR_PLAIN;
    if (http_open(server->loop, is_plain ? first->fd : -1, &http, &server->http, err) < 0)
        return -1;
    if (is_plain)
        first->fd = -1;
    server->api.meta.http = server->http;
    server->api.meta.metrics = server->metrics;
    server->api.meta.routes = server->routes;
    server->api.meta.engine = server->api.engine;
    return open_doors(server, err);
}

static int start(struct server *server, const struct server_options *options, struct err *err)
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
    const struct engine_options engine = {options->config, options->data_dir};
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
    bool is_tls = server->listeners[0].kind == DOOR_EITHER;
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

static void finish(struct server *server)
{
    remove_socket(server);
    close_doors(server);
    for (size_t i = 0; i < server->listener_count; i++)
        fd_close(&server->listeners[i].fd);
    /* A handler that still holds a request would reply to nobody: the process ends anyway. */
    if (server->http != NULL && http_counts(server->http).running == 0)
        server->http = http_free(server->http);
    server->api.mcp = mcp_door_free(server->api.mcp);
    /* Readers of the engine end with their requests, so it goes last. */
    server->api.engine = engine_free(server->api.engine);
    if (server->http == NULL) {
        server->tls = tls_free(server->tls);
        server->metrics = metrics_free(server->metrics);
        server->routes = routes_free(server->routes);
        server->loop = loop_free(server->loop);
        VEC_EACH (host, &server->hosts)
            free(*host);
        VEC_EACH (origin, &server->origins)
            free(*origin);
        vec_done(&server->hosts);
        vec_done(&server->origins);
    }
    rates_done(&server->rates);
    home_close(&server->home);
}

int server_run(const struct server_options *options, struct err *err)
{
    static struct server server; /* one per process, like the loop */
    server = (struct server){.home = {.dir_fd = -1, .lock_fd = -1}};
    harden();
    int done = start(&server, options, err);
    if (done == 0) {
        tell_ready(&server, options);
        loop_run(server.loop);
        log_info("server.stopped", LOG_INT("code", server.exit_code));
        done = server.exit_code;
    }
    finish(&server);
    return done;
}
