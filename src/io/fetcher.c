/* libcurl on the loop: it says which sockets and which time it waits for, the loop says when. */

#include "io/fetch_internal.h"

#include <pthread.h>
#include <signal.h>

#include "io/loop.h"

struct fetch_socket {
    struct fetcher *fetcher;
    curl_socket_t fd;
    struct watch *watch;
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

static void collect(struct fetcher *fetcher)
{
    int left;
    for (CURLMsg *msg; (msg = curl_multi_info_read(fetcher->multi, &left)) != NULL;) {
        struct fetch *fetch = NULL;
        if (msg->msg != CURLMSG_DONE)
            continue;
        CURLcode code = msg->data.result; /* gone once the handle is removed */
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&fetch);
        fetch_finish(fetch, code);
    }
}

/* Between libcurl and the loop. */

static void fetcher_on_timer(void *ctx)
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

static void fetcher_on_ready(void *ctx, int events)
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
    if (watch_new(fetcher->loop, fd, events, fetcher_on_ready, socket, &socket->watch, &err) < 0) {
        free(socket);
        return 0; /* unheard, it runs into its time limit */
    }
    (void)curl_multi_assign(fetcher->multi, fd, socket);
    return 0;
}

/* Its life. */

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
    fetcher->timer = timer_new(loop, fetcher_on_timer, fetcher);
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
