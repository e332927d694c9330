#pragma once

/* What http.c, which speaks to the HTTP library, and conn.c, which watches over connections, share.
 */

#include "api/http.h"
#include "api/linger.h"
#include "api/strict.h"
#include "base/vec.h"

struct MHD_Daemon;

/* Whose turn it is. RUNS: the library's, it serves the connection. WAITS: ours, the library was
 * told to leave it alone. WAKES: the library was told to go on and has not come back yet. Moves:
 * park, unpark and take_up in http.c, which alone tell the library. */
enum conn_turn { TURN_RUNS, TURN_WAITS, TURN_WAKES };

/* One connection. It is made and freed when the library tells of it. */
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
/* Tells every open flow that the server stops. */
void conn_stop_flows(struct http *http);

/* A timer's call, once a second: `ctx` is the server. Ends connections that are too slow, idle for
 * too long or gone. */
void conn_sweep(void *ctx);

/* The server for which the library reads on this thread from now on; NULL for none. What it reads
 * is judged on the way. */
void conn_read_for(struct http *http);
