#include "api/server.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/guard.h"
#include "api/home.h"
#include "api/http.h"
#include "api/meta.h"
#include "api/metrics.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/vec.h"
#include "io/listen.h"

enum { BACKLOG = 1024, FILES_WANTED = 65536 };

struct server {
    struct meta meta; /* first: what handlers get */
    struct loop *loop;
    struct home home;
    struct addr addr;
    bool has_socket; /* a file that is ours to remove */
    struct http *http;
    struct metrics *metrics;
    struct route *routes;
    struct guard guard;
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
    if (port == 0 || port == 80)
        *vec_push(&server->hosts) = mem_dup_cstr(host);
}

/* The names under which we answer, and as whose pages. A name configured without a port is also
 * good without one, for a proxy in front. */
static void collect_names(struct server *server, const char *const *names)
{
    int port = addr_port(&server->addr);
    char text[ADDR_TEXT_SIZE];
    addr_format(&server->addr, text);
    add_host(server, "127.0.0.1", port);
    add_host(server, "localhost", port);
    add_host(server, "[::1]", port);
    if (!addr_is_unix(&server->addr))
        *vec_push(&server->hosts) = mem_dup_cstr(text);
    for (; names != NULL && *names != NULL; names++) {
        add_host(server, *names, port);
        *vec_push(&server->hosts) = mem_dup_cstr(*names);
    }
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

static bool check_token(void *ctx, struct str token, struct caller *ret_caller)
{
    struct server *server = ctx;
    if (!home_check_token(&server->home, token))
        return false;
    *ret_caller = (struct caller){.token_id = "first", .tenant = "default", .scopes = ~0U};
    return true;
}

static void stop(void *ctx)
{
    struct server *server = ctx;
    loop_stop(server->loop);
}

static void on_deadline(void *ctx)
{
    struct server *server = ctx;
    log_warn("server.drain_cut", LOG_INT("running", http_counts(server->http).running));
    loop_stop(server->loop);
}

/* Before the socket is closed: once nobody answers behind it, the file may be another server's. */
static void remove_socket(struct server *server)
{
    if (server->has_socket)
        (void)unlink(server->addr.sa.un.sun_path);
    server->has_socket = false;
}

static void on_signal(void *ctx, int signo)
{
    struct server *server = ctx;
    if (server->meta.is_draining) {
        server->exit_code = 1;
        loop_stop(server->loop);
        return;
    }
    log_info("server.stopping", LOG_INT("signal", signo),
             LOG_INT("running", http_counts(server->http).running));
    server->meta.is_draining = true;
    timer_set(server->deadline, server->drain_ms, 0);
    remove_socket(server);
    http_drain(server->http, stop, server);
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

static int start_http(struct server *server, const struct server_options *options, struct err *err)
{
    AUTO_CLOSE int fd = listen_open(&server->addr, BACKLOG, err);
    if (fd < 0)
        return -1;
    server->has_socket = addr_is_unix(&server->addr);
    collect_names(server, options->names);
    static const struct route *const tables[] = {meta_routes, NULL};
    if (routes_new(tables, &server->routes, err) < 0)
        return -1;
    server->metrics = metrics_new(server->routes);
    struct http_options http = {
        .rules = {.routes = server->routes,
                  .ctx = server,
                  .hosts = (const char *const *)server->hosts.ptr,
                  .origins = (const char *const *)server->origins.ptr,
                  .check_token = check_token,
                  .guard = &server->guard},
        .metrics = server->metrics,
        .connections_max = options->connections_max,
        .per_address_max = options->per_address_max,
        .head_ms = options->head_ms,
        .body_idle_ms = options->body_idle_ms,
        .keep_alive_ms = options->keep_alive_ms,
    };
    if (http_open(server->loop, fd, &http, &server->http, err) < 0)
        return -1;
    (void)fd_take(&fd);
    server->meta.http = server->http;
    server->meta.metrics = server->metrics;
    return 0;
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
    server->drain_ms = options->drain_ms;
    server->deadline = timer_new(server->loop, on_deadline, server);
    if (watch_signals(server, err) < 0)
        return -1;
    return start_http(server, options, err);
}

static void tell_ready(struct server *server, const struct server_options *options)
{
    char addr[ADDR_TEXT_SIZE];
    AUTO_BUF struct buf text = {0};
    addr_format(&server->addr, addr);
    log_info("server.ready", LOG_STR("listen", addr), LOG_STR("data_dir", options->data_dir));
    bool is_unix = addr_is_unix(&server->addr);
    buf_printf(&text, "sandglass " SG_VERSION " is ready at %s%s\nToken: %s\n",
               is_unix ? "" : "http://", addr, server->home.token_file);
    struct addr near = addr_nearest(&server->addr);
    addr_format(&near, addr);
    if (is_unix)
        buf_printf(&text, "Try: curl --unix-socket %s http://localhost/healthz\n",
                   server->addr.sa.un.sun_path);
    else /* curl reads brackets as a pattern */
        buf_printf(&text, "Try: curl %shttp://%s/healthz\n", addr[0] == '[' ? "-g " : "", addr);
    if (options->on_ready != NULL)
        options->on_ready(buf_cstr(&text), options->ctx);
}

static void finish(struct server *server)
{
    remove_socket(server);
    /* A handler that still holds a request would reply to nobody: the process ends anyway. */
    if (server->http != NULL && http_counts(server->http).running == 0)
        server->http = http_free(server->http);
    if (server->http == NULL) {
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
