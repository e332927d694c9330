/* One fetch: its start, the bytes that move, its end. */

#include "io/fetch.h"

#include "io/fetch_internal.h"
#include "io/loop.h"

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
static void fetch_stop(struct fetch *fetch)
{
    if (fetch->is_running)
        (void)curl_multi_remove_handle(fetch->fetcher->multi, fetch->easy);
    fetch->is_running = false;
}

static enum err_code fetch_code_of(CURLcode code)
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

void fetch_finish(struct fetch *fetch, CURLcode code)
{
    fetch_stop(fetch);
    curl_off_t connected_us = 0;
    (void)curl_easy_getinfo(fetch->easy, CURLINFO_CONNECT_TIME_T, &connected_us);
    fetch->never_connected =
        code == CURLE_COULDNT_CONNECT || (code == CURLE_OPERATION_TIMEDOUT && connected_us == 0);
    if (code == CURLE_FILESIZE_EXCEEDED && fetch->why.code == ERR_NONE)
        (void)err_set(&fetch->why, ERR_TOO_LARGE, "the answer's body is larger than %zu bytes",
                      fetch->body.limit);
    if (code != CURLE_OK && fetch->why.code == ERR_NONE)
        (void)err_set(&fetch->why, fetch_code_of(code), "%s", curl_easy_strerror(code));
    if (code == CURLE_OK && !fetch->answer.is_done)
        (void)err_set(&fetch->why, ERR_UNAVAILABLE, "the answer has no head");
    timer_set(fetch->finish, 0, 0);
}

/* The bytes. */

/* False when the fetch must end, with `why` set. */
static bool fetch_count(struct fetch *fetch, size_t bytes, bool is_sent)
{
    return fetch->meter == NULL ||
           fetch->meter->moved(fetch->meter->ctx, bytes, is_sent, &fetch->why) == 0;
}

static bool must_wait(struct fetch *fetch)
{
    fetch->is_paused = fetch->meter != NULL && !fetch->meter->may_move(fetch->meter->ctx);
    return fetch->is_paused;
}

size_t fetch_on_send(char *bytes, size_t size, size_t wanted, void *ctx)
{
    struct fetch *fetch = ctx;
    struct str piece = str_slice(fetch->unsent, 0, size * wanted);
    if (piece.len == 0)
        return 0;
    if (must_wait(fetch))
        return CURL_READFUNC_PAUSE;
    if (!fetch_count(fetch, piece.len, true))
        return CURL_READFUNC_ABORT;
    memcpy(bytes, piece.ptr, piece.len);
    fetch->unsent = str_slice(fetch->unsent, piece.len, fetch->unsent.len);
    return piece.len;
}

size_t fetch_on_head(char *bytes, size_t size, size_t lines, void *ctx)
{
    struct fetch *fetch = ctx;
    struct str line = str_n(bytes, size * lines);
    return fetch_count(fetch, line.len, false) &&
                   fetch_head_take(&fetch->answer, &fetch->arena, line, &fetch->why) == 0
               ? line.len
               : 0;
}

size_t fetch_on_body(char *bytes, size_t size, size_t items, void *ctx)
{
    struct fetch *fetch = ctx;
    struct str piece = str_n(bytes, size * items);
    if (fetch->answer.coding.len > 0) {
        (void)err_set(&fetch->why, ERR_UNAVAILABLE,
                      "the answer is encoded as '%.*s', which was not requested",
                      STR_ARG(str_slice(fetch->answer.coding, 0, 40)));
        return 0;
    }
    if (must_wait(fetch))
        return CURL_WRITEFUNC_PAUSE;
    if (!fetch_count(fetch, piece.len, false))
        return 0;
    if (buf_append(&fetch->body, piece, &fetch->why) < 0) {
        (void)err_set(&fetch->why, ERR_TOO_LARGE, "the answer's body is larger than %zu bytes",
                      fetch->body.limit);
        return 0;
    }
    return piece.len;
}

/* Its life. */

int fetch_start(struct fetcher *fetcher, const struct fetch_request *request,
                void (*done)(void *ctx, const struct fetch_answer *answer, const struct err *why),
                void *ctx, struct fetch **ret_fetch, struct err *err)
{
    loop_assert(fetcher->loop);
    if (fetch_check_request(request, err) < 0)
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
    fetch_set_options(fetch, request);
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
    fetch_stop(fetch);
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
        fetch_finish(fetch, code); /* what it had kept was refused */
}

bool fetch_never_connected(const struct fetch *fetch)
{
    return fetch->never_connected;
}
