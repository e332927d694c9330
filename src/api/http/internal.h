#pragma once

/* What http.c, which calls the HTTP library, and conn.c, which watches over connections, share.
 */

#include "api/http/http.h"
#include "api/http/linger.h"
#include "api/http/strict.h"
#include "base/vec.h"

struct MHD_Daemon;

/* Who controls a connection. RUNS: the library serves it. WAITS: the library has suspended it at
 * our request. WAKES: we have asked the library to resume it, and it has not called back yet.
 * Moves: park, unpark and take_up in http.c; only these call the library. */
enum conn_turn { TURN_RUNS, TURN_WAITS, TURN_WAKES };

/* One connection. It is created and freed when the library reports it. */
struct conn {
    struct http *http;
    int fd;
    struct strict strict;
    struct request *request; /* the one in work, or NULL */
    uint64_t served;         /* requests that reached us through the library */
    enum conn_turn turn;
    bool is_answering; /* its answer is given to the library and not yet sent */
    bool is_cut;
    int64_t since_ms;   /* of the present state: when the head began, or the last request ended */
    int64_t last_ms;    /* of the last byte in */
    int64_t rate_ms;    /* start of the span over which the body's rate counts */
    uint64_t rate_seen; /* body bytes at that time */
    struct conn *next, *prev;
};

struct http {
    struct loop *loop;
    struct MHD_Daemon *daemon;
    int listen_fd;
    struct watch *watch;
    struct timer *timer; /* what the library asks for */
    struct timer *sweep; /* once a second while there are connections */
    struct http_options options;
    VEC(struct conn *) by_fd;
    struct conn *conns;
    struct http_counts counts;
    struct lingers lingers;
    bool is_running; /* inside MHD_run */
    void (*on_drained)(void *ctx);
    void *drained_ctx;
};

/* Near the limit an idle one makes room for it. */
struct conn *conn_open(struct http *http, int fd);
/* Frees it, with the request in work. */
void conn_close(struct conn *conn);
/* The request's answer was sent, or will never be. */
void conn_end_request(struct conn *conn);

/* Answers past the library, as JSON, and ends the connection. */
void conn_answer(struct conn *conn, int status, struct str body, const char *request_id);
/* Notifies every open flow that the server stops. */
void conn_stop_flows(struct http *http, bool is_last);

/* A timer's call, once a second: `ctx` is the server. Ends connections that are too slow, idle for
 * too long or gone. */
void conn_sweep(void *ctx);

/* The server for which the library reads on this thread from now on; NULL for none. What it reads
 * is judged on the way. */
void conn_read_for(struct http *http);
