/* One hop of a call: its URL is judged, its name resolved once, every address judged, and a judged
 * address connected to and no other. */

#include "egress/gate/gate_internal.h"

#include "base/buf.h"
#include "base/clock.h"
#include "egress/gate/gate_secrets.h"
#include "egress/keys/placeholder.h"

static void connect_next(struct gate_call *call);

static void on_failed(struct gate_call *call, const struct err *why)
{
    bool may_retry = fetch_never_connected(call->fetch) && call->address_next < call->address_count;
    struct err err = *why;
    call->fetch = fetch_free(call->fetch);
    if (may_retry) {
        connect_next(call);
        return;
    }
    (void)err_wrap(&err, "%s", call->url.host.text);
    gate_fail(call, &err);
}

static void on_fetched(void *ctx, const struct fetch_answer *received, const struct err *why)
{
    struct gate_call *call = ctx;
    if (received == NULL) {
        on_failed(call, why);
        return;
    }
    /* Before anything of it is used: a Location may hold the value too. */
    struct fetch_answer cleaned =
        gate_scrub_answer(call->secrets, &call->url, received, &call->arena);
    const struct fetch_answer *answer = &cleaned;
    struct str location = gate_redirect_to(answer);
    if (location.ptr == NULL || call->redirect == GATE_REDIRECT_MANUAL) {
        gate_succeed(call, answer);
        return;
    }
    int status = answer->status;
    location = arena_dup(&call->arena, location);
    call->fetch = fetch_free(call->fetch);
    if (call->redirect == GATE_REDIRECT_FOLLOW) {
        gate_follow(call, status, location);
        return;
    }
    struct verdict verdict =
        verdict_make(VERDICT_REDIRECT, "%.100s answered with a redirect", call->url.host.text);
    gate_refuse(call, ERR_FORBIDDEN, &verdict);
}

static void connect_next(struct gate_call *call)
{
    struct err err = {0};
    AUTO_BUF struct buf values = {.wipes = true};
    struct fetch_header headers[FETCH_REQUEST_HEADERS_MAX];
    int64_t left_ms = call->deadline_ms - clock_now_ms();
    const char *missing =
        gate_missing_secret(call->secrets, &call->url, call->headers, call->header_count);
    if (missing != NULL) {
        (void)err_set(&err, ERR_UNAVAILABLE, PLACEHOLDER_NO_VALUE, missing);
        gate_fail(call, &err);
        return;
    }
    gate_fill_headers(call->secrets, &call->url, call->headers, call->header_count, &values,
                      headers);
    if (call->allowance != NULL && !gate_take_head(call, headers, &err)) {
        gate_fail(call, &err);
        return;
    }
    struct fetch_request request = {
        .meter = call->allowance != NULL ? &call->meter : NULL,
        .is_https = call->url.is_https,
        .host = host_str(&call->url.host),
        .port = call->url.port,
        .address = ip_to_addr(&call->addresses[call->address_next++], call->url.port),
        .target = call->url.target,
        .method = call->method,
        .headers = headers,
        .header_count = call->header_count,
        .body = call->body,
        .limits = call->limits,
    };
    request.limits.total_ms = MAX(left_ms, (int64_t)1);
    if (fetch_start(call->gate->fetcher, &request, on_fetched, call, &call->fetch, &err) < 0)
        gate_fail(call, &err);
}

static void judge_addresses(struct gate_call *call)
{
    struct err err = {0};
    struct ip own[IP_OWN_MAX];
    size_t own_count = 0;
    if (ip_own_list(own, &own_count, &err) < 0) {
        gate_fail(call, &err);
        return;
    }
    struct verdict_request request = {
        .scheme = url_scheme(&call->url),
        .host = &call->url.host,
        .port = call->url.port,
        .method = call->method,
        .path = url_path(&call->url),
        .is_resolved = true,
        .addresses = call->addresses,
        .address_count = call->address_count,
        .own = own,
        .own_count = own_count,
    };
    struct verdict verdict = verdict_judge(call->policy, &request);
    gate_tell(call, &verdict, &call->url.host, call->url.port);
    if (verdict_is_allowed(&verdict))
        connect_next(call);
    else
        gate_refuse(call, ERR_FORBIDDEN, &verdict);
}

static void gate_hop_on_resolved(void *ctx, const struct ip *addresses, size_t count,
                                 const struct err *why)
{
    struct gate_call *call = ctx;
    if (why != NULL) {
        struct verdict verdict = verdict_unresolved(call->url.host.text, why->msg);
        enum err_code code = why->code;
        call->resolve = resolve_free(call->resolve);
        gate_tell(call, &verdict, &call->url.host, call->url.port);
        gate_refuse(call, code, &verdict);
        return;
    }
    memcpy(call->addresses, addresses, count * sizeof *addresses);
    call->address_count = count;
    call->resolve = resolve_free(call->resolve);
    judge_addresses(call);
}

void gate_begin_hop(struct gate_call *call)
{
    struct err err = {0};
    struct url url = {0};
    struct verdict verdict = verdict_judge_url(call->policy, call->method, call->url_text, &url);
    if (!verdict_is_allowed(&verdict)) {
        /* For the record, as far as it can be told what was meant. */
        if (url_parse(call->url_text, &url, &err) == 0)
            gate_tell(call, &verdict, &url.host, url.port);
        gate_refuse(call, ERR_FORBIDDEN, &verdict);
        return;
    }
    call->url = url;
    call->address_next = 0;
    if (!gate_has_bytes_left(call))
        return;
    call->address_count = policy_private_addresses(call->policy, &url.host, &url.port,
                                                   call->addresses, RESOLVE_ADDRESSES_MAX);
    if (host_is_ip(&url.host)) {
        call->addresses[0] = url.host.ip;
        call->address_count = 1;
    }
    if (call->address_count > 0) {
        judge_addresses(call);
        return;
    }
    struct resolve_options options = {
        .servers = call->gate->options->dns_servers,
        .timeout_ms = call->gate->options->resolve_ms,
    };
    if (resolve_start(call->gate->loop, &options, host_str(&url.host), gate_hop_on_resolved, call,
                      &call->resolve, &err) < 0)
        gate_fail(call, &err);
}
