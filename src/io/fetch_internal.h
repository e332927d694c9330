#pragma once

/* Only for the fetch*.c files: libcurl's handles, and the functions that they share. */

#include <curl/curl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "io/fetch.h"
#include "io/fetch_head.h"

struct fetcher {
    struct loop *loop;
    CURLM *multi;
    struct timer *timer;
    char *ca_file;
    size_t fetches; /* not freed yet */
};

/* running (in `multi`) -> finished (fetch_finish) -> `done` called (on_finished). libcurl calls us
 * from within its own functions, so `done` waits for a turn of the loop: it may free everything. */
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

/* fetch.c: libcurl is through with it, well or not; `done` is called in a later turn. Outside of
 * libcurl's call-backs only. */
void fetch_finish(struct fetch *fetch, CURLcode code);

/* fetch.c, called by libcurl: a piece of the request's body, a line of the answer's head, a piece
 * of its body. Each ends the fetch, with `why` set, when its limits or its meter say so. */
size_t fetch_on_send(char *bytes, size_t size, size_t wanted, void *ctx);
size_t fetch_on_head(char *bytes, size_t size, size_t lines, void *ctx);
size_t fetch_on_body(char *bytes, size_t size, size_t items, void *ctx);

/* fetch_check.c: INVALID for what no request may hold, TOO_LARGE. */
int fetch_check_request(const struct fetch_request *request, struct err *err) MUST_USE;

/* fetch_options.c: tells libcurl all there is to know about a checked request; `fetcher`, `easy`
 * and `meter` are set. */
void fetch_set_options(struct fetch *fetch, const struct fetch_request *request);
