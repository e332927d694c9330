#include "io/fetch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <curl/curl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/sys.h"
#include "base/vec.h"
#include "io/fetch_head.h"
#include "io/loop.h"

enum { PIECE = 16 << 10, PIECE_MIN = 1 << 10 };

struct fetcher {
    struct loop *loop;
    CURLM *multi;
    struct timer *timer;
    char *ca_file;
    size_t fetches; /* not freed yet */
};

struct fetch_socket {
    struct fetcher *fetcher;
    curl_socket_t fd;
    struct watch *watch;
};

/* running (in `multi`) -> finished (finish) -> `done` called (on_finished). libcurl calls us from
 * within its own functions, so `done` waits for a turn of the loop: it may free everything. */
struct fetch {
    struct fetcher *fetcher;
    CURL *easy;
    struct curl_slist *head, *connect_to;
    struct timer *finish;
    bool is_running, never_connected;
    struct addr address;
    struct arena arena; /* texts of request and answer */
    struct buf body;
    struct fetch_head answer;
    const struct fetch_meter *meter;
    struct str unsent; /* of the request's body; in `arena` */
    bool is_paused;
    struct err why; /* ours, when we ended it; otherwise filled from libcurl's code */
    void (*done)(void *ctx, const struct fetch_answer *answer, const struct err *why);
    void *ctx;
};

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static CURLcode library_code;

static void init_library(void)
{
    struct sigaction now;
    /* OpenSSL writes without MSG_NOSIGNAL: a peer that goes would take us along. */
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        (void)signal(SIGPIPE, SIG_IGN);
    library_code = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* The end of a fetch. */

static void on_finished(void *ctx)
{
    struct fetch *fetch = ctx;
    struct fetch_answer answer = {
        .status = fetch->answer.status,
        .status_text = fetch->answer.status_text,
        .headers = fetch->answer.headers.ptr,
        .header_count = fetch->answer.headers.len,
        .body = buf_str(&fetch->body),
    };
    bool is_good = fetch->why.code == ERR_NONE;
    fetch->done(fetch->ctx, is_good ? &answer : NULL, is_good ? NULL : &fetch->why);
}

/* Outside of libcurl's call-backs only. */
static void stop(struct fetch *fetch)
{
    if (fetch->is_running)
        (void)curl_multi_remove_handle(fetch->fetcher->multi, fetch->easy);
    fetch->is_running = false;
}

static enum err_code code_of(CURLcode code)
{
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return ERR_TIMEOUT;
    case CURLE_FILESIZE_EXCEEDED:
        return ERR_TOO_LARGE;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
        return ERR_FORBIDDEN;
    default:
        return ERR_UNAVAILABLE;
    }
}

static void finish(struct fetch *fetch, CURLcode code)
{
    stop(fetch);
    curl_off_t connected_us = 0;
    (void)curl_easy_getinfo(fetch->easy, CURLINFO_CONNECT_TIME_T, &connected_us);
    fetch->never_connected =
        code == CURLE_COULDNT_CONNECT || (code == CURLE_OPERATION_TIMEDOUT && connected_us == 0);
    if (code == CURLE_FILESIZE_EXCEEDED && fetch->why.code == ERR_NONE)
        (void)err_set(&fetch->why, ERR_TOO_LARGE, "the answer's body is larger than %zu bytes",
                      fetch->body.limit);
    if (code != CURLE_OK && fetch->why.code == ERR_NONE)
        (void)err_set(&fetch->why, code_of(code), "%s", curl_easy_strerror(code));
    if (code == CURLE_OK && !fetch->answer.is_done)
        (void)err_set(&fetch->why, ERR_UNAVAILABLE, "the answer has no head");
    timer_set(fetch->finish, 0, 0);
}

static void collect(struct fetcher *fetcher)
{
    int left;
    for (CURLMsg *msg; (msg = curl_multi_info_read(fetcher->multi, &left)) != NULL;) {
        struct fetch *fetch = NULL;
        if (msg->msg != CURLMSG_DONE)
            continue;
        CURLcode code = msg->data.result; /* gone once the handle is removed */
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&fetch);
        finish(fetch, code);
    }
}

/* Between libcurl and the loop. */

static void on_timer(void *ctx)
{
    struct fetcher *fetcher = ctx;
    int running;
    (void)curl_multi_socket_action(fetcher->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect(fetcher);
}

static int on_timeout_changed(UNUSED CURLM *multi, long timeout_ms, void *ctx)
{
    struct fetcher *fetcher = ctx;
    if (timeout_ms < 0)
        timer_clear(fetcher->timer);
    else
        timer_set(fetcher->timer, timeout_ms, 0);
    return 0;
}

static void on_ready(void *ctx, int events)
{
    const struct fetch_socket *socket = ctx;
    struct fetcher *fetcher = socket->fetcher;
    int running, mask = 0;
    if ((events & WATCH_READ) != 0)
        mask |= CURL_CSELECT_IN;
    if ((events & WATCH_WRITE) != 0)
        mask |= CURL_CSELECT_OUT;
    (void)curl_multi_socket_action(fetcher->multi, socket->fd, mask, &running);
    collect(fetcher);
}

static void drop_socket(struct fetcher *fetcher, struct fetch_socket *socket)
{
    if (socket == NULL)
        return;
    (void)curl_multi_assign(fetcher->multi, socket->fd, NULL);
    (void)watch_free(socket->watch);
    free(socket);
}

static int on_socket_changed(UNUSED CURL *easy, curl_socket_t fd, int what, void *ctx,
                             void *socket_ctx)
{
    struct fetcher *fetcher = ctx;
    struct fetch_socket *socket = socket_ctx;
    struct err err;
    if (what == CURL_POLL_REMOVE) {
        drop_socket(fetcher, socket);
        return 0;
    }
    int events = ((what & CURL_POLL_IN) != 0 ? WATCH_READ : 0) |
                 ((what & CURL_POLL_OUT) != 0 ? WATCH_WRITE : 0);
    if (socket != NULL) {
        watch_set(socket->watch, events);
        return 0;
    }
    socket = mem_alloc(sizeof *socket);
    *socket = (struct fetch_socket){.fetcher = fetcher, .fd = fd};
    if (watch_new(fetcher->loop, fd, events, on_ready, socket, &socket->watch, &err) < 0) {
        free(socket);
        return 0; /* unheard, it runs into its time limit */
    }
    (void)curl_multi_assign(fetcher->multi, fd, socket);
    return 0;
}

/* Where it connects. */

static bool is_address(const struct addr *addr, const struct sockaddr *sa)
{
    if (sa->sa_family != addr->sa.any.sa_family)
        return false;
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)sa;
        return v4->sin_port == addr->sa.v4.sin_port &&
               v4->sin_addr.s_addr == addr->sa.v4.sin_addr.s_addr;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)sa;
    return v6->sin6_port == addr->sa.v6.sin6_port &&
           memcmp(&v6->sin6_addr, &addr->sa.v6.sin6_addr, sizeof v6->sin6_addr) == 0;
}

static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct fetch *fetch = ctx;
    if (purpose != CURLSOCKTYPE_IPCXN || !is_address(&fetch->address, &to->addr)) {
        (void)err_set(&fetch->why, ERR_INTERNAL, "the client turned to another address");
        return CURL_SOCKET_BAD;
    }
    return SYS(socket(to->family, to->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to->protocol));
}

static void format_ip(const struct addr *addr, char out[INET6_ADDRSTRLEN])
{
    const void *bytes = addr->sa.any.sa_family == AF_INET ? (const void *)&addr->sa.v4.sin_addr
                                                          : (const void *)&addr->sa.v6.sin6_addr;
    const char *text = inet_ntop(addr->sa.any.sa_family, bytes, out, INET6_ADDRSTRLEN);
    assert(text != NULL);
}

/* Connected (TLS included), nothing sent yet: the last look at who is there. */
static int check_peer(void *ctx, char *peer_ip, UNUSED char *local_ip, int peer_port,
                      UNUSED int local_port)
{
    struct fetch *fetch = ctx;
    char expected[INET6_ADDRSTRLEN];
    format_ip(&fetch->address, expected);
    if (strcmp(peer_ip, expected) == 0 && peer_port == addr_port(&fetch->address))
        return CURL_PREREQFUNC_OK;
    (void)err_set(&fetch->why, ERR_INTERNAL, "the peer has another address");
    return CURL_PREREQFUNC_ABORT;
}

/* Counting. False when the fetch must end, with `why` set. */
static bool count(struct fetch *fetch, size_t bytes, bool is_sent)
{
    return fetch->meter == NULL ||
           fetch->meter->moved(fetch->meter->ctx, bytes, is_sent, &fetch->why) == 0;
}

static bool must_wait(struct fetch *fetch)
{
    fetch->is_paused = fetch->meter != NULL && !fetch->meter->may_move(fetch->meter->ctx);
    return fetch->is_paused;
}

static size_t on_send(char *bytes, size_t size, size_t wanted, void *ctx)
{
    struct fetch *fetch = ctx;
    struct str piece = str_slice(fetch->unsent, 0, size * wanted);
    if (piece.len == 0)
        return 0;
    if (must_wait(fetch))
        return CURL_READFUNC_PAUSE;
    if (!count(fetch, piece.len, true))
        return CURL_READFUNC_ABORT;
    memcpy(bytes, piece.ptr, piece.len);
    fetch->unsent = str_slice(fetch->unsent, piece.len, fetch->unsent.len);
    return piece.len;
}

/* The answer. Each of these gives 0 when the fetch must end, with `why` set. */

static size_t on_head(char *bytes, size_t size, size_t lines, void *ctx)
{
    struct fetch *fetch = ctx;
    struct str line = str_n(bytes, size * lines);
    return count(fetch, line.len, false) &&
                   fetch_head_take(&fetch->answer, &fetch->arena, line, &fetch->why) == 0
               ? line.len
               : 0;
}

static size_t on_body(char *bytes, size_t size, size_t items, void *ctx)
{
    struct fetch *fetch = ctx;
    struct str piece = str_n(bytes, size * items);
    if (fetch->answer.coding.len > 0) {
        (void)err_set(&fetch->why, ERR_UNAVAILABLE,
                      "the answer is coded as '%.*s', which was not asked for",
                      STR_ARG(str_slice(fetch->answer.coding, 0, 40)));
        return 0;
    }
    if (must_wait(fetch))
        return CURL_WRITEFUNC_PAUSE;
    if (!count(fetch, piece.len, false))
        return 0;
    if (buf_append(&fetch->body, piece, &fetch->why) < 0) {
        (void)err_set(&fetch->why, ERR_TOO_LARGE, "the answer's body is larger than %zu bytes",
                      fetch->body.limit);
        return 0;
    }
    return piece.len;
}

/* The request. */

static void add_line(struct fetch *fetch, const char *line)
{
    struct curl_slist *longer = curl_slist_append(fetch->head, line);
    assert(longer != NULL); /* small allocations do not fail */
    fetch->head = longer;
}

static bool is_named(const struct fetch_request *request, struct str name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (str_eq_nocase(request->headers[i].name, name))
            return true;
    return false;
}

static int check_request(const struct fetch_request *request, struct err *err)
{
    size_t bytes = 0;
    bool is_bare = str_eq(request->method, STR("GET")) || str_eq(request->method, STR("HEAD"));
    if (fetch_check_method(request->method, err) < 0)
        return -1;
    if (is_bare && request->body.len > 0)
        return err_set(err, ERR_INVALID, "%.*s has no body", STR_ARG(request->method));
    if (request->body.len > FETCH_REQUEST_BODY_MAX)
        return err_set(err, ERR_TOO_LARGE, "a request body of more than %d bytes",
                       FETCH_REQUEST_BODY_MAX);
    for (size_t i = 0; i < request->header_count; i++) {
        bytes += request->headers[i].name.len + request->headers[i].value.len + 4;
        if (fetch_check_header(request->headers[i].name, request->headers[i].value, err) < 0)
            return -1;
    }
    if (request->header_count > FETCH_REQUEST_HEADERS_MAX || bytes > FETCH_REQUEST_HEAD_MAX)
        return err_set(err, ERR_TOO_LARGE, "more than %d request headers or %d bytes of them",
                       FETCH_REQUEST_HEADERS_MAX, FETCH_REQUEST_HEAD_MAX);
    for (size_t i = 0; i < request->target.len; i++)
        if (request->target.ptr[i] <= 0x20 || request->target.ptr[i] > 0x7e)
            return err_set(err, ERR_INVALID, "the path holds a byte that no URL has");
    return 0;
}

static void set_headers(struct fetch *fetch, const struct fetch_request *request)
{
    for (size_t i = 0; i < request->header_count; i++) {
        struct str name = request->headers[i].name, value = str_trim(request->headers[i].value);
        if (str_eq_nocase(name, STR("accept-encoding")))
            continue;
        /* libcurl takes "Name:" as a wish to drop the header, "Name;" as an empty value. */
        AUTO_BUF struct buf line = {.wipes = true};
        buf_put(&line, name);
        buf_put_cstr(&line, value.len == 0 ? ";" : ": ");
        buf_put(&line, value);
        add_line(fetch, buf_cstr(&line));
    }
    add_line(fetch, "Accept-Encoding: identity");
    add_line(fetch, "Expect:");
    if (!is_named(request, STR("user-agent")))
        add_line(fetch, "User-Agent: sandglass/" SG_VERSION);
    if (!is_named(request, STR("content-type")))
        add_line(fetch, "Content-Type:");
}

#define SET(option, value)                                                                         \
    do {                                                                                           \
        CURLcode set_code_ = curl_easy_setopt(fetch->easy, (option), (value));                     \
        assert(set_code_ == CURLE_OK);                                                             \
    } while (0)

static void set_method(struct fetch *fetch, const struct fetch_request *request)
{
    if (request->body.len > 0) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_READFUNCTION, on_send);
        SET(CURLOPT_READDATA, fetch);
        fetch->unsent = arena_dup(&fetch->arena, request->body);
    } else if (str_eq(request->method, STR("POST")) || str_eq(request->method, STR("PUT")) ||
               str_eq(request->method, STR("PATCH"))) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0); /* says Content-Length: 0 */
        SET(CURLOPT_POSTFIELDS, "");
    }
    if (str_eq(request->method, STR("HEAD")))
        SET(CURLOPT_NOBODY, 1L);
    else
        SET(CURLOPT_CUSTOMREQUEST, arena_dup(&fetch->arena, request->method).ptr);
}

static void set_target(struct fetch *fetch, const struct fetch_request *request)
{
    char ip[INET6_ADDRSTRLEN];
    format_ip(&request->address, ip);
    bool is_v6 = request->address.sa.any.sa_family == AF_INET6;
    struct str url =
        arena_printf(&fetch->arena, "%s://%.*s:%d%.*s", request->is_https ? "https" : "http",
                     STR_ARG(request->host), request->port, STR_ARG(request->target));
    struct str to = arena_printf(&fetch->arena, "::%s%s%s:%d", is_v6 ? "[" : "", ip,
                                 is_v6 ? "]" : "", addr_port(&request->address));
    fetch->address = request->address;
    fetch->connect_to = curl_slist_append(NULL, to.ptr);
    SET(CURLOPT_URL, url.ptr);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_CONNECT_TO, fetch->connect_to);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_OPENSOCKETDATA, fetch);
    SET(CURLOPT_PREREQFUNCTION, check_peer);
    SET(CURLOPT_PREREQDATA, fetch);
    SET(CURLOPT_FRESH_CONNECT, 1L);
    SET(CURLOPT_FORBID_REUSE, 1L);
}

static void set_limits(struct fetch *fetch, const struct fetch_limits *limits)
{
    size_t body_max = limits->body_max > 0 ? limits->body_max : FETCH_BODY_MAX;
    fetch->answer.max = limits->head_max > 0 ? limits->head_max : FETCH_HEAD_MAX;
    fetch->body = buf_with_limit(body_max);
    SET(CURLOPT_CONNECTTIMEOUT_MS,
        (long)(limits->connect_ms > 0 ? limits->connect_ms : FETCH_CONNECT_MS));
    SET(CURLOPT_TIMEOUT_MS, (long)(limits->total_ms > 0 ? limits->total_ms : FETCH_TOTAL_MS));
    SET(CURLOPT_LOW_SPEED_LIMIT, (long)FETCH_SLOW_BYTES);
    SET(CURLOPT_LOW_SPEED_TIME,
        (long)(limits->slow_seconds > 0 ? limits->slow_seconds : FETCH_SLOW_SECONDS));
    SET(CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)body_max);
    size_t piece = fetch->meter != NULL ? fetch->meter->piece_max : 0;
    SET(CURLOPT_BUFFERSIZE,
        piece > 0 && piece < PIECE ? (long)MAX(piece, (size_t)PIECE_MIN) : (long)PIECE);
}

static void set_manners(struct fetch *fetch)
{
    SET(CURLOPT_PRIVATE, fetch);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, ""); /* also says no to the environment's */
    SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (fetch->fetcher->ca_file != NULL)
        SET(CURLOPT_CAINFO, fetch->fetcher->ca_file);
    SET(CURLOPT_HEADERFUNCTION, on_head);
    SET(CURLOPT_HEADERDATA, fetch);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, fetch);
    SET(CURLOPT_HTTPHEADER, fetch->head);
}

int fetch_start(struct fetcher *fetcher, const struct fetch_request *request,
                void (*done)(void *ctx, const struct fetch_answer *answer, const struct err *why),
                void *ctx, struct fetch **ret_fetch, struct err *err)
{
    loop_assert(fetcher->loop);
    if (check_request(request, err) < 0)
        return -1;
    CURL *easy = curl_easy_init();
    assert(easy != NULL); /* small allocations do not fail */
    struct fetch *fetch = mem_alloc(sizeof *fetch);
    fetch->fetcher = fetcher;
    fetch->easy = easy;
    fetch->done = done;
    fetch->ctx = ctx;
    fetch->meter = request->meter;
    fetch->finish = timer_new(fetcher->loop, on_finished, fetch);
    fetcher->fetches++;
    set_headers(fetch, request);
    set_method(fetch, request);
    set_target(fetch, request);
    set_limits(fetch, &request->limits);
    set_manners(fetch);
    CURLMcode code = curl_multi_add_handle(fetcher->multi, easy);
    if (code != CURLM_OK) {
        (void)fetch_free(fetch);
        return err_set(err, ERR_INTERNAL, "libcurl: %s", curl_multi_strerror(code));
    }
    fetch->is_running = true;
    *ret_fetch = fetch;
    return 0;
}

struct fetch *fetch_free(struct fetch *fetch)
{
    if (fetch == NULL)
        return NULL;
    stop(fetch);
    curl_easy_cleanup(fetch->easy);
    /* Its headers may have held a key; libcurl's own copies are beyond reach. */
    for (struct curl_slist *line = fetch->head; line != NULL; line = line->next)
        explicit_bzero(line->data, strlen(line->data));
    curl_slist_free_all(fetch->head);
    curl_slist_free_all(fetch->connect_to);
    (void)timer_free(fetch->finish);
    vec_done(&fetch->answer.headers);
    buf_done(&fetch->body);
    arena_done(&fetch->arena);
    fetch->fetcher->fetches--;
    free(fetch);
    return NULL;
}

void fetch_resume(struct fetch *fetch)
{
    if (!fetch->is_running || !fetch->is_paused)
        return;
    fetch->is_paused = false;
    CURLcode code = curl_easy_pause(fetch->easy, CURLPAUSE_CONT);
    if (code != CURLE_OK)
        finish(fetch, code); /* what it had kept was refused */
}

bool fetch_never_connected(const struct fetch *fetch)
{
    return fetch->never_connected;
}

int fetcher_open(struct loop *loop, const char *ca_file, struct fetcher **ret_fetcher,
                 struct err *err)
{
    loop_assert(loop);
    (void)pthread_once(&library_once, init_library);
    CURLM *multi = library_code == CURLE_OK ? curl_multi_init() : NULL;
    if (multi == NULL)
        return err_set(err, ERR_INTERNAL, "libcurl: %s", curl_easy_strerror(library_code));
    struct fetcher *fetcher = mem_alloc(sizeof *fetcher);
    fetcher->loop = loop;
    fetcher->multi = multi;
    fetcher->ca_file = ca_file == NULL ? NULL : mem_dup_cstr(ca_file);
    fetcher->timer = timer_new(loop, on_timer, fetcher);
    (void)curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket_changed);
    (void)curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, fetcher);
    (void)curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timeout_changed);
    (void)curl_multi_setopt(multi, CURLMOPT_TIMERDATA, fetcher);
    *ret_fetcher = fetcher;
    return 0;
}

struct fetcher *fetcher_free(struct fetcher *fetcher)
{
    if (fetcher == NULL)
        return NULL;
    loop_assert(fetcher->loop);
    assert(fetcher->fetches == 0);
    (void)curl_multi_cleanup(fetcher->multi);
    (void)timer_free(fetcher->timer);
    free(fetcher->ca_file);
    free(fetcher);
    return NULL;
}
