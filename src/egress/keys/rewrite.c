#include "egress/keys/rewrite.h"

#include "base/err.h"
#include "base/format/json.h"
#include "egress/keys/rewrite_internal.h"
#include "egress/keys/secrets.h"

/* --- Life --- */

struct rewrite *rewrite_new(const struct rewrite_options *options)
{
    struct rewrite *rewrite = mem_alloc(sizeof *rewrite);
    const struct secrets *secrets = options->is_https ? options->secrets : NULL;
    rewrite->options = *options;
    rewrite->options.secrets = secrets;
    rewrite->scrub = scrub_new(secrets, &options->host, options->port, SCRUB_REPLACE);
    rewrite->mask = scrub_new(secrets, &options->host, options->port, SCRUB_MASK);
    rewrite->to_server.wipes = true;
    rewrite->request.bytes_max = rewrite->answer.bytes_max =
        options->head_max > 0 ? options->head_max : REWRITE_HEAD_MAX;
    rewrite->request.fields_max = REWRITE_REQUEST_FIELDS_MAX;
    rewrite->answer.fields_max = REWRITE_ANSWER_FIELDS_MAX;
    return rewrite;
}

struct rewrite *rewrite_free(struct rewrite *rewrite)
{
    if (rewrite == NULL)
        return NULL;
    (void)scrub_free(rewrite->scrub);
    (void)scrub_free(rewrite->mask);
    http1_head_done(&rewrite->request);
    http1_head_done(&rewrite->answer);
    buf_done(&rewrite->to_server);
    buf_done(&rewrite->to_client);
    buf_done(&rewrite->collected_head);
    buf_done(&rewrite->collected);
    free(rewrite);
    return NULL;
}

struct buf *rewrite_to_server(struct rewrite *rewrite)
{
    return &rewrite->to_server;
}

struct buf *rewrite_to_client(struct rewrite *rewrite)
{
    return &rewrite->to_client;
}

bool rewrite_is_over(const struct rewrite *rewrite)
{
    return rewrite->request_state == REQUEST_OVER;
}

bool rewrite_is_cut(const struct rewrite *rewrite)
{
    return rewrite->is_cut;
}

bool rewrite_is_idle(const struct rewrite *rewrite)
{
    return rewrite->request_state == REQUEST_HEAD && rewrite->request.bytes.len == 0;
}

bool rewrite_is_passing(const struct rewrite *rewrite)
{
    return rewrite->request_state == REQUEST_PASS;
}

const char *rewrite_reason(const struct rewrite *rewrite)
{
    return rewrite->reason;
}

const char *rewrite_why(const struct rewrite *rewrite)
{
    return rewrite->why;
}

/* --- Ends --- */

void rewrite_end(struct rewrite *rewrite, const char *why)
{
    if (why != NULL)
        (void)snprintf(rewrite->why, sizeof rewrite->why, "%s", why);
    rewrite->request_state = REQUEST_OVER;
    rewrite->answer_state = ANSWER_NONE;
}

static const char *status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } rows[] = {
        {400, "Bad Request"},        {403, "Forbidden"},
        {405, "Method Not Allowed"}, {414, "URI Too Long"},
        {429, "Too Many Requests"},  {431, "Request Header Fields Too Large"},
        {502, "Bad Gateway"},        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},    {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < countof(rows); i++)
        if (rows[i].status == status)
            return rows[i].text;
    return "Error";
}

/* Many clients show nothing of a refused request but its status line: it says why. */
static void put_status(int status, const char *text, struct buf *out)
{
    buf_printf(out, "HTTP/1.1 %d %s: ", status, status_text(status));
    for (const char *c = text; *c != '\0'; c++)
        buf_put_char(out, *c >= 0x20 && *c < 0x7f ? *c : '?');
    buf_put_cstr(out, "\r\n");
}

/* `error` is a text, since that is what clients of package indexes show to people. */

void rewrite_put_refusal(int status, const char *reason, const char *text, bool is_head,
                         struct buf *out_bytes)
{
    AUTO_BUF struct buf body = {0};
    struct json_out out = {.buf = &body};
    json_begin_object(&out);
    json_key(&out, "code"), json_put_cstr(&out, reason);
    json_key(&out, "error"), json_put_cstr(&out, text);
    json_end_object(&out);
    buf_put_char(&body, '\n');
    put_status(status, text, out_bytes);
    buf_printf(out_bytes,
               "Content-Type: application/json\r\nContent-Length: %zu\r\n"
               "X-Sandglass-Refused: %s\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
               body.len, reason);
    if (!is_head)
        buf_put(out_bytes, buf_str(&body));
}

void rewrite_refuse(struct rewrite *rewrite, int status, const char *reason, const char *text)
{
    rewrite->reason = reason;
    rewrite_put_refusal(status, reason, text, rewrite->is_head, &rewrite->to_client);
    rewrite_end(rewrite, text);
}

void rewrite_bad_gateway(struct rewrite *rewrite, const char *reason, const char *text)
{
    rewrite_fail(rewrite, 502, reason, text);
}

void rewrite_fail(struct rewrite *rewrite, int status, const char *reason, const char *text)
{
    bool has_request = rewrite->request_state == REQUEST_BODY ||
                       rewrite->request_state == REQUEST_WAIT || rewrite->request.bytes.len > 0;
    bool can_answer = rewrite->answer_state == ANSWER_HEAD ||
                      rewrite->answer_state == ANSWER_NONE ||
                      (rewrite->answer_state == ANSWER_BODY && rewrite->is_collected);
    if (rewrite_is_over(rewrite))
        return;
    if (has_request && can_answer && !rewrite_is_passing(rewrite)) {
        rewrite_refuse(rewrite, status, reason, text);
        return;
    }
    rewrite->is_cut = rewrite->answer_state == ANSWER_BODY || rewrite_is_passing(rewrite);
    rewrite_end(rewrite, text);
}

void rewrite_finish(struct rewrite *rewrite)
{
    if (rewrite->client_closes || rewrite->server_closes) {
        rewrite_end(rewrite, NULL);
        return;
    }
    http1_head_reset(&rewrite->request);
    http1_head_reset(&rewrite->answer);
    rewrite->request_state = REQUEST_HEAD;
    rewrite->answer_state = ANSWER_NONE;
    rewrite->is_head = rewrite->wants_upgrade = rewrite->wants_close = false;
    rewrite->interim_count = 0;
}

/* --- The client's bytes --- */

void rewrite_put_chunk(struct buf *out, struct str data)
{
    if (data.len == 0)
        return;
    buf_printf(out, "%zx\r\n", data.len);
    buf_put(out, data);
    buf_put_cstr(out, "\r\n");
}

static void end_request(struct rewrite *rewrite)
{
    if (rewrite->request_body.framing == HTTP1_CHUNKED)
        buf_put_cstr(&rewrite->to_server, "0\r\n\r\n");
    rewrite->request_state = REQUEST_WAIT;
    if (rewrite->answer_state == ANSWER_DONE)
        rewrite_finish(rewrite);
}

static size_t feed_head(struct rewrite *rewrite, struct str bytes)
{
    size_t used;
    switch (http1_head_feed(&rewrite->request, bytes, &used)) {
    case HTTP1_BAD:
        rewrite_refuse(rewrite, rewrite->request.is_too_large ? 431 : 400, "request_invalid",
                       rewrite->request.why);
        break;
    case HTTP1_DONE:
        rewrite_request_head(rewrite);
        if (rewrite->request_state == REQUEST_BODY && rewrite->request_body.framing == HTTP1_EMPTY)
            end_request(rewrite);
        break;
    default:
        break;
    }
    return used;
}

static size_t feed_body(struct rewrite *rewrite, struct str bytes)
{
    size_t used;
    struct str data;
    enum http1_step step = http1_body_feed(&rewrite->request_body, bytes, &used, &data);
    if (rewrite->request_body.framing == HTTP1_CHUNKED)
        rewrite_put_chunk(&rewrite->to_server, data);
    else
        buf_put(&rewrite->to_server, data);
    if (step == HTTP1_BAD)
        rewrite_fail(rewrite, 400, "request_invalid", rewrite->request_body.why);
    else if (step == HTTP1_DONE)
        end_request(rewrite);
    return used;
}

size_t rewrite_from_client(struct rewrite *rewrite, struct str bytes)
{
    size_t used = 0;
    while (used < bytes.len) {
        struct str rest = str_slice(bytes, used, bytes.len);
        switch (rewrite->request_state) {
        case REQUEST_HEAD:
            used += feed_head(rewrite, rest);
            break;
        case REQUEST_BODY:
            used += feed_body(rewrite, rest);
            break;
        case REQUEST_PASS:
            buf_put(&rewrite->to_server, rest);
            return bytes.len;
        case REQUEST_WAIT:
            return used;
        default: /* refused: the client may send more, which is ignored */
            return bytes.len;
        }
    }
    return used;
}
