/* Redirects: a Location is judged like a new request and never leads from https to http, and what
 * was meant for only one host is not sent to another. */

#include "egress/gate/gate_internal.h"

#include "base/buf.h"
#include "egress/gate/gate_secrets.h"

static bool is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static struct str find_header(const struct fetch_answer *answer, struct str name)
{
    for (size_t i = 0; i < answer->header_count; i++)
        if (str_eq(answer->headers[i].name, name))
            return answer->headers[i].value;
    return (struct str){0};
}

struct str gate_redirect_to(const struct fetch_answer *answer)
{
    return is_redirect(answer->status) ? find_header(answer, STR("location")) : (struct str){0};
}

static bool is_body_header(UNUSED const struct gate_call *call, struct str name)
{
    return str_eq_nocase(str_slice(name, 0, 8), STR("content-"));
}

/* Headers that must not follow a redirect to another host: those that clients and browsers drop,
 * and those that carry secrets. A key in any other header is the caller's responsibility. */
static bool is_credential(const struct gate_call *call, struct str name)
{
    return str_eq_nocase(name, STR("authorization")) || str_eq_nocase(name, STR("cookie")) ||
           gate_is_secret_header(call->secrets, name);
}

static void drop_headers(struct gate_call *call,
                         bool (*is_dropped)(const struct gate_call *call, struct str name))
{
    size_t kept = 0;
    for (size_t i = 0; i < call->header_count; i++)
        if (!is_dropped(call, call->headers[i].name))
            call->headers[kept++] = call->headers[i];
    call->header_count = kept;
}

/* 303 requires a GET. Clients also switch to GET after a POST that is answered with 301 or 302. */
static void change_method(struct gate_call *call, int status)
{
    bool is_post = str_eq(call->method, STR("POST"));
    bool is_head = str_eq(call->method, STR("HEAD"));
    if ((status == 303 && !is_head) || ((status == 301 || status == 302) && is_post)) {
        call->method = STR("GET");
        call->body = STR("");
        drop_headers(call, is_body_header);
    }
}

void gate_follow(struct gate_call *call, int status, struct str location)
{
    AUTO_BUF struct buf text = {0};
    struct err err = {0};
    struct url next;
    struct verdict verdict;
    if (++call->hops > GATE_REDIRECTS_MAX) {
        verdict = verdict_make(VERDICT_REDIRECT_LOOP, "blocked: more than %d redirects",
                               GATE_REDIRECTS_MAX);
    } else if (url_join(&call->url, location, &text, &err) < 0 ||
               url_parse(buf_str(&text), &next, &err) < 0) {
        verdict = verdict_make(err.code == ERR_UNSUPPORTED ? VERDICT_SCHEME : VERDICT_URL_INVALID,
                               "blocked a redirect: %s", err.msg);
    } else if (call->url.is_https && !next.is_https) {
        verdict = verdict_make(VERDICT_REDIRECT_DOWNGRADE,
                               "blocked a redirect from https to http on %.100s", next.host.text);
    } else {
        if (!url_is_same_origin(&call->url, &next))
            drop_headers(call, is_credential);
        change_method(call, status);
        call->url_text = arena_dup(&call->arena, buf_str(&text));
        gate_begin_hop(call);
        return;
    }
    gate_tell(call, &verdict, &call->url.host, call->url.port);
    gate_refuse(call, ERR_FORBIDDEN, &verdict);
}
