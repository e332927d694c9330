#pragma once

/* One HTTP request and its answer, as handlers see it; nothing here knows the HTTP library.
 *
 * A request belongs to the loop's thread. It lives until its answer was sent or its client has
 * gone after the answer was given: a handler that replies later calls request_hold first, and may
 * count on the request until it replies. Every request gets exactly one reply: a whole one
 * (reply_*), one whose bytes come over time (api/http/flow.h) or another protocol (reply_upgrade).
 */

#include "api/http/sign.h"
#include "api/route/route.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/id.h"
#include "engine/caller.h"

struct conn;
struct err;
struct flow;
struct guard;
struct json_t;
struct port_way;
struct sockaddr;

enum {
    REQUEST_HEADERS_MAX = 128,
    REQUEST_ID_MAX = 64,
    REPLY_HEADERS_MAX = 16,
    TENANT_MAX = 64,
    GZIP_MIN = 1024, /* shorter answers are not worth packing */
};

struct request_header {
    struct str name, value;
};

/* On whose behalf a request is made. */
struct caller {
    char token_id[ID_SIZE];
    char token_name[ENGINE_NAME_MAX + 1]; /* may be empty */
    char tenant[TENANT_MAX + 1];
    uint32_t scopes; /* SCOPE_BIT(...) */
    struct engine_quota quota;
    int64_t rate_per_minute; /* 0: no limit */
};

/* Takes a body as it comes. */
struct body_sink {
    /* The sink must consume all of `bytes`. If it needs time, it calls request_pause_body, and no
     * more bytes come before request_resume_body. On failure the error is sent to the client. */
    int (*on_bytes)(void *ctx, struct str bytes, struct err *err);
    /* The body is complete: reply, or hold and reply later. */
    void (*on_end)(void *ctx);
    /* Instead of on_end: the client has disconnected, or an error was sent. The request ends
     * now. */
    void (*on_abort)(void *ctx);
};

/* How far the request has come in. HEAD: its head is complete and being judged, or the handler of a
 * streamed body is making up its mind. BODY: bytes of it go to the buffer or the sink. WHOLE: all
 * is there. Moves: http.c's begin and on_request. */
enum request_stage { STAGE_HEAD, STAGE_BODY, STAGE_WHOLE };

struct request {
    struct arena arena; /* for whatever lives as long as the request */
    char id[REQUEST_ID_MAX + 1];
    struct str sandbox; /* that it is about, once that is known; for the log */
    struct str method;
    struct str target; /* as sent */
    struct str path;   /* of the target, not decoded */
    struct str query;  /* behind the '?', not decoded */
    struct request_header headers[REQUEST_HEADERS_MAX];
    size_t header_count;
    enum request_stage stage;
    struct buf body;
    struct json_t *json;         /* the body, checked against the row's schema; else NULL */
    const struct sockaddr *peer; /* NULL when unknown */
    bool is_http10;
    bool is_tls;          /* decrypted here */
    bool by_host;         /* Host named a port of a sandbox */
    struct port_way *way; /* of a FORM_PROXY row, once it was let in; api/ports/port_head.h */
    struct route_match match;
    struct caller caller;
    int64_t start_ns;

    const struct body_sink *sink;
    void *sink_ctx;
    bool is_paused;             /* the sink wants no more for now */
    bool skips_body;            /* the reply was given with the head; what comes is not looked at */
    void (*on_gone)(void *ctx); /* see request_on_gone */
    void *gone_ctx;
    void (*on_done)(void *ctx); /* see request_on_done */
    void *done_ctx;
    const struct request_rules *rules;

    /* The reply, for http.c to send. */
    bool is_held, has_reply, must_close, is_cors;
    bool is_foreign; /* the headers are a sandbox's own: none of ours are added */
    int status;
    const char *content_type;
    struct buf reply;
    struct flow *flow; /* instead of `reply` */
    void (*on_upgrade)(void *ctx, struct request *request, int fd, struct str extra);
    void *upgrade_ctx, *upgrade_handle;
    bool was_upgraded;
    void (*on_stop)(void *ctx); /* of an upgraded connection: the server stops */
    struct request_header reply_headers[REPLY_HEADERS_MAX];
    size_t reply_header_count;
    const struct request_header *foreign_headers; /* in the arena; sent as they are */
    size_t foreign_count;
    struct http *http;
    struct conn *conn;
    void *connection;
};

/* What decides before a handler is asked. */
struct request_rules {
    const struct route *routes;
    void *ctx;                  /* for handlers and the calls below */
    const char *const *hosts;   /* what Host may say, with port; ends with NULL */
    const char *const *origins; /* what Origin may say; ends with NULL */
    /* Origins whose pages may read answers too; ends with NULL. */
    const char *const *cors_origins;
    bool (*check_token)(void *ctx, struct str token, struct caller *ret_caller);
    /* A URL that carries its own permission; NULL: none does. */
    enum sign_found (*check_signature)(void *ctx, struct request *request,
                                       struct caller *ret_caller, struct err *err);
    /* Seconds until this caller may ask again; 0: now. NULL: always. */
    int64_t (*check_rate)(void *ctx, const struct caller *caller);
    /* A Host that names a port of a sandbox: gives the path to serve. NULL: there are none. */
    bool (*find_port)(void *ctx, struct request *request, struct str host);
    /* The sandbox behind a path that names something else, for the log; NULL: not known. */
    struct str (*find_sandbox)(void *ctx, struct request *request);
    /* Puts the id into the path's parameters where a name was given; false with a reply. */
    bool (*find_named)(void *ctx, struct request *request);
    /* Who may use a row of FORM_PROXY, instead of Origin and token; false with a reply. */
    bool (*check_port)(void *ctx, struct request *request);
    struct guard *guard; /* counts wrong tokens; NULL: they are not counted */
    bool is_draining;
};

/* Empty when absent. Names in any case. */
struct str request_header(const struct request *request, const char *name);
/* The caller, for the engine. Borrows from the request. */
struct engine_caller request_caller(struct request *request);
/* "https://box.example.com:7070": the server as this client reached it, by its Host header, which
 * was checked when the request was admitted. Behind a proxy X-Forwarded-Proto gives the scheme. */
void request_put_origin(const struct request *request, struct buf *out);
size_t request_count_headers(const struct request *request, const char *name);
/* Whether a header that lists things ("gzip, br;q=0.5") has this one and does not refuse it. */
bool request_accepts(const struct request *request, const char *header, const char *what);
/* Decoded into the arena; false when absent. INVALID (with a reply) is left to the caller's own
 * check of the value: bytes that are no valid %-form stay as they are. */
bool request_query(struct request *request, const char *name, struct str *ret_value);
/* As a number that the row's schema has let through; `fallback` when absent. */
int64_t request_query_int(struct request *request, const char *name, int64_t fallback);
bool request_query_bool(struct request *request, const char *name);
struct str request_param(const struct request *request, const char *name);
/* Of the path, which has it as it was sent: undoes the percent-encoding; gives it another value. */
void request_param_decode(struct request *request, const char *name);
void request_param_set(struct request *request, const char *name, struct str value);
/* The body as JSON: MEDIA_TYPE unless Content-Type is application/json. */
int request_json(const struct request *request, struct json_t **ret_value,
                 struct err *err) MUST_USE;
/* Members of the checked body: absent ones give an empty view, the fallback or false. */
struct str request_str(const struct request *request, const char *name);
int64_t request_int(const struct request *request, const char *name, int64_t fallback);
bool request_bool(const struct request *request, const char *name, bool fallback);

/* The sandbox that the answer speaks of. Copied. */
void request_concerns(struct request *request, struct str sandbox);
/* Lines of the log are this request's until request_log(NULL). */
void request_log(const struct request *request);

/* The reply comes later, from another call-back on the loop. */
void request_hold(struct request *request);
/* While held: `call` is called at most once, when the client has disconnected. The handler must
 * still reply. */
void request_on_gone(struct request *request, void (*call)(void *ctx), void *ctx);

/* `call` comes once, when the request is let go of, whatever became of it. */
void request_on_done(struct request *request, void (*call)(void *ctx), void *ctx);

/* For rows that stream their body, instead of a reply; also later, from a held request. `sink` is
 * borrowed and lives as long as the request. */
void request_take_body(struct request *request, const struct body_sink *sink, void *ctx);
void request_pause_body(struct request *request);
void request_resume_body(struct request *request);

/* Takes what `body` holds. */
void reply_body(struct request *request, int status, const char *content_type, struct buf *body);
void reply_json(struct request *request, int status, struct buf *json);
void reply_empty(struct request *request, int status);
/* {"error":{"code","message","path"?,"requestId"}}, status from the one table; the path is the
 * member of the body that the message begins with, if any (api/http/error_path.h). */
void reply_error(struct request *request, const struct err *err);
/* With a path of the caller's: which file it is about. */
void reply_error_at(struct request *request, const struct err *err, struct str path);
/* Before the reply. The value is copied. */
void reply_header(struct request *request, const char *name, struct str value);
/* 101: the connection belongs to `on_open` from then on, until http_upgrade_done. `extra` holds the
 * bytes after the head. If the client has already disconnected, `fd` is -1 and needs no cleanup.
 * Set the headers of the other protocol before this call. */
void reply_upgrade(struct request *request, const char *protocol,
                   void (*on_open)(void *ctx, struct request *request, int fd, struct str extra),
                   void *ctx);

/* For http.c. */

/* Head complete: finds the route and checks Host, Origin, token. May reply. */
void request_begin(struct request *request, const struct request_rules *rules);
/* Body complete: calls the handler. */
void request_dispatch(struct request *request, const struct request_rules *rules);
void request_done(struct request *request);
/* For api/ports. False with a reply. */
bool request_check_origin(struct request *request, const struct request_rules *rules);
void request_refuse_token(struct request *request, const struct request_rules *rules);
/* The error body that every refusal carries. `path` may be NULL. */
void error_body(struct buf *out, const char *code, const char *message, struct str path,
                const char *request_id);
