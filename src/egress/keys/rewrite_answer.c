/* Answers: parsed strictly, rewritten, scrubbed. */

#include "egress/keys/rewrite_internal.h"

struct status {
    int code;
    bool is_http10;
    struct str reason;
};

/* --- Heads --- */

static bool read_status(struct str line, struct status *ret_status)
{
    int64_t code;
    bool is_http10 = str_starts(line, STR("HTTP/1.0 "));
    if (!is_http10 && !str_starts(line, STR("HTTP/1.1 ")))
        return false;
    struct str digits = str_slice(line, 9, 12);
    if (digits.len != 3 || !str_to_i64(digits, 100, 999, &code) ||
        (line.len > 12 && line.ptr[12] != ' '))
        return false;
    *ret_status = (struct status){(int)code, is_http10, str_slice(line, 13, line.len)};
    return true;
}

/* The connection's own business, or a way to the host around this one. */
static bool is_dropped(struct str name)
{
    static const char *const names[] = {
        "Connection", "Keep-Alive", "Content-Length", "Transfer-Encoding", "TE",
        "Trailer",    "Upgrade",    "Alt-Svc",        "Proxy-Connection",  "Proxy-Authenticate",
    };
    for (size_t i = 0; i < countof(names); i++)
        if (str_eq_nocase(name, str_of(names[i])))
            return true;
    return false;
}

static void put_head(struct rewrite *rewrite, const struct status *status, struct buf *out)
{
    buf_printf(out, "HTTP/1.1 %d ", status->code);
    scrub_text(rewrite->scrub, status->reason, out);
    buf_put_cstr(out, "\r\n");
    VEC_EACH (field, &rewrite->answer.fields) {
        if (is_dropped(field->name))
            continue;
        scrub_text(rewrite->scrub, field->name, out);
        buf_put_cstr(out, ": ");
        scrub_text(rewrite->scrub, field->value, out);
        buf_put_cstr(out, "\r\n");
    }
}

static bool has_no_body(const struct rewrite *rewrite, int code)
{
    return rewrite->is_head || code == 204 || code == 304;
}

/* Identity, or nothing that was scrubbed: a compressed body would carry the value through. */
static bool is_readable(const struct rewrite *rewrite)
{
    const struct http1_field *coding = http1_find(&rewrite->answer, "Content-Encoding");
    return scrub_is_idle(rewrite->scrub) || coding == NULL || coding->value.len == 0 ||
           str_eq_nocase(coding->value, STR("identity"));
}

static void choose_framing(struct rewrite *rewrite)
{
    const struct http1_body *body = &rewrite->answer_body;
    bool is_scrubbed = !scrub_is_idle(rewrite->scrub);
    rewrite->is_collected =
        is_scrubbed && body->framing == HTTP1_LENGTH && body->left <= REWRITE_BUFFERED;
    if (body->framing == HTTP1_EMPTY)
        rewrite->client_framing = HTTP1_EMPTY;
    else if (body->framing == HTTP1_LENGTH && (!is_scrubbed || rewrite->is_collected))
        rewrite->client_framing = HTTP1_LENGTH;
    else
        rewrite->client_framing = rewrite->is_http10 ? HTTP1_UNTIL_CLOSE : HTTP1_CHUNKED;
}

static void put_framing(struct rewrite *rewrite, int code, struct buf *out)
{
    const struct http1_field *length = http1_find(&rewrite->answer, "Content-Length");
    if (rewrite->client_framing == HTTP1_CHUNKED)
        buf_put_cstr(out, "Transfer-Encoding: chunked\r\n");
    else if (rewrite->client_framing == HTTP1_LENGTH && !rewrite->is_collected)
        buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)rewrite->answer_body.left);
    else if ((rewrite->is_head || code == 304) && length != NULL)
        buf_printf(out, "Content-Length: %.*s\r\n", STR_ARG(length->value));
    if (rewrite->client_closes)
        buf_put_cstr(out, "Connection: close\r\n");
}

static void end_answer(struct rewrite *rewrite)
{
    struct buf *out = rewrite->is_collected ? &rewrite->collected : &rewrite->to_client;
    if (rewrite->client_framing == HTTP1_CHUNKED) {
        AUTO_BUF struct buf rest = {0};
        scrub_end(rewrite->scrub, &rest);
        rewrite_put_chunk(out, buf_str(&rest));
        buf_put_cstr(out, "0\r\n\r\n");
    } else {
        scrub_end(rewrite->scrub, out);
    }
    if (rewrite->is_collected) {
        buf_put(&rewrite->to_client, buf_str(&rewrite->collected_head));
        buf_printf(&rewrite->to_client, "Content-Length: %zu\r\n\r\n", rewrite->collected.len);
        buf_put(&rewrite->to_client, buf_str(&rewrite->collected));
        buf_done(&rewrite->collected_head);
        buf_done(&rewrite->collected);
        rewrite->is_collected = false;
    }
    rewrite->answer_state = ANSWER_DONE;
    if (rewrite->request_state == REQUEST_WAIT)
        rewrite_finish(rewrite);
    else
        rewrite_end(rewrite, NULL); /* answered before the request was through */
}

static bool is_too_long(const struct rewrite *rewrite, uint64_t bytes)
{
    return rewrite->options.answer_max > 0 && bytes > rewrite->options.answer_max;
}

static void refuse_long(struct rewrite *rewrite)
{
    char text[VERDICT_TEXT_SIZE];
    (void)snprintf(text, sizeof text, "the host's answer is larger than the sandbox's %llu bytes",
                   (unsigned long long)rewrite->options.answer_max);
    rewrite_bad_gateway(rewrite, "answer_too_large", text);
}

static void begin_body(struct rewrite *rewrite, const struct status *status)
{
    struct http1_body *body = &rewrite->answer_body;
    body->is_lenient = true;
    if (has_no_body(rewrite, status->code))
        body->framing = HTTP1_EMPTY;
    else if (body->framing == HTTP1_EMPTY)
        body->framing = HTTP1_UNTIL_CLOSE;
    rewrite->answer_bytes = 0;
    if (body->framing == HTTP1_LENGTH && is_too_long(rewrite, body->left)) {
        refuse_long(rewrite);
        return;
    }
    choose_framing(rewrite);
    rewrite->server_closes = body->framing == HTTP1_UNTIL_CLOSE || status->is_http10 ||
                             http1_has_word(&rewrite->answer, "Connection", "close");
    /* An answer that comes before its request is through leaves the rest of it nowhere to go. */
    rewrite->client_closes = rewrite->wants_close || rewrite->server_closes ||
                             rewrite->client_framing == HTTP1_UNTIL_CLOSE ||
                             rewrite->request_state != REQUEST_WAIT;
    struct buf *out = rewrite->is_collected ? &rewrite->collected_head : &rewrite->to_client;
    put_head(rewrite, status, out);
    put_framing(rewrite, status->code, out);
    if (!rewrite->is_collected)
        buf_put_cstr(out, "\r\n");
    rewrite->answer_state = ANSWER_BODY;
    bool is_empty =
        body->framing == HTTP1_EMPTY || (body->framing == HTTP1_LENGTH && body->left == 0);
    if (is_empty)
        end_answer(rewrite);
}

static void switch_protocols(struct rewrite *rewrite, const struct status *status)
{
    if (!rewrite->wants_upgrade || rewrite->request_state != REQUEST_WAIT) {
        rewrite_bad_gateway(rewrite, "answer_invalid",
                            "the host switched protocols without being asked");
        return;
    }
    put_head(rewrite, status, &rewrite->to_client);
    buf_put_cstr(&rewrite->to_client, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    rewrite->request_state = REQUEST_PASS;
    rewrite->answer_state = ANSWER_NONE;
}

static void interim(struct rewrite *rewrite, const struct status *status)
{
    if (++rewrite->interim_count > REWRITE_INTERIM_MAX) {
        rewrite_bad_gateway(rewrite, "answer_invalid", "the host sends too many 1xx answers");
        return;
    }
    if (!rewrite->is_http10) {
        put_head(rewrite, status, &rewrite->to_client);
        buf_put_cstr(&rewrite->to_client, "\r\n");
    }
    http1_head_reset(&rewrite->answer);
}

static void rewrite_answer_take_head(struct rewrite *rewrite)
{
    struct status status;
    const char *why = NULL;
    if (!read_status(rewrite->answer.first, &status)) {
        rewrite_bad_gateway(rewrite, "answer_invalid", "the host's status line is malformed");
    } else if (status.code == 101) {
        switch_protocols(rewrite, &status);
    } else if (status.code < 200) {
        interim(rewrite, &status);
    } else if (!http1_read_framing(&rewrite->answer, status.is_http10, &rewrite->answer_body,
                                   &why)) {
        rewrite_bad_gateway(rewrite, "answer_invalid", why);
    } else if (!has_no_body(rewrite, status.code) && !is_readable(rewrite)) {
        rewrite_bad_gateway(rewrite, "answer_encoded",
                            "the host sent a compressed answer although identity was asked for; "
                            "it cannot be searched for the secret");
    } else {
        begin_body(rewrite, &status);
    }
}

/* --- Bytes --- */

static size_t feed_head(struct rewrite *rewrite, struct str bytes)
{
    size_t used;
    enum http1_step step = http1_head_feed(&rewrite->answer, bytes, &used);
    if (step == HTTP1_BAD)
        rewrite_bad_gateway(rewrite,
                            rewrite->answer.is_too_large ? "answer_too_large" : "answer_invalid",
                            rewrite->answer.why);
    else if (step == HTTP1_DONE)
        rewrite_answer_take_head(rewrite);
    return used;
}

static void put_data(struct rewrite *rewrite, struct str data)
{
    if (rewrite->is_collected) {
        scrub_feed(rewrite->scrub, data, &rewrite->collected);
    } else if (rewrite->client_framing != HTTP1_CHUNKED) {
        scrub_feed(rewrite->scrub, data, &rewrite->to_client);
    } else if (scrub_is_idle(rewrite->scrub)) {
        rewrite_put_chunk(&rewrite->to_client, data);
    } else {
        AUTO_BUF struct buf clean = {0};
        scrub_feed(rewrite->scrub, data, &clean);
        rewrite_put_chunk(&rewrite->to_client, buf_str(&clean));
    }
}

static size_t feed_body(struct rewrite *rewrite, struct str bytes)
{
    size_t used;
    struct str data;
    enum http1_step step = http1_body_feed(&rewrite->answer_body, bytes, &used, &data);
    rewrite->answer_bytes += data.len;
    if (is_too_long(rewrite, rewrite->answer_bytes)) {
        refuse_long(rewrite);
        return used;
    }
    put_data(rewrite, data);
    if (step == HTTP1_BAD)
        rewrite_bad_gateway(rewrite, "answer_invalid", rewrite->answer_body.why);
    else if (step == HTTP1_DONE)
        end_answer(rewrite);
    return used;
}

void rewrite_from_server(struct rewrite *rewrite, struct str bytes)
{
    while (bytes.len > 0 && !rewrite_is_over(rewrite)) {
        size_t used;
        if (rewrite_is_passing(rewrite)) {
            rewrite_pass_frames(rewrite, bytes);
            return;
        }
        switch (rewrite->answer_state) {
        case ANSWER_HEAD:
            used = feed_head(rewrite, bytes);
            break;
        case ANSWER_BODY:
            used = feed_body(rewrite, bytes);
            break;
        default:
            rewrite_end(rewrite, "the host sent bytes that belong to no request");
            return;
        }
        bytes = str_slice(bytes, used, bytes.len);
    }
}

void rewrite_server_ended(struct rewrite *rewrite, bool in_order)
{
    if (rewrite_is_over(rewrite))
        return;
    bool is_complete = rewrite->answer_state == ANSWER_BODY &&
                       rewrite->answer_body.framing == HTTP1_UNTIL_CLOSE && in_order;
    if (is_complete) {
        end_answer(rewrite);
        if (!rewrite_is_over(rewrite))
            rewrite_end(rewrite, NULL);
    } else if (rewrite_is_passing(rewrite)) {
        scrub_end(rewrite->mask, &rewrite->to_client);
        rewrite->is_cut = !in_order;
        rewrite_end(rewrite, NULL);
    } else if (rewrite_is_idle(rewrite)) {
        rewrite_end(rewrite, NULL);
    } else {
        rewrite_bad_gateway(rewrite, "answer_cut",
                            "the host closed the connection before its "
                            "answer was complete");
    }
}
