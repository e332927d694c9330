#include "egress/gate.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "egress/allowance.h"
#include "egress/gate_secrets.h"
#include "egress/resolve.h"
#include "io/loop.h"

struct gate {
    struct loop *loop;
    const struct gate_options *options;
    struct fetcher *fetcher;
    size_t calls;
};

/* One hop: judged by name (begin_hop) -> resolving -> judged with addresses (judge_addresses) ->
 * connecting, address by address (connect_next) -> answered (on_fetched) -> the next hop, or the
 * end (succeed, fail, refuse). Ends found while starting wait for a turn of the loop. Before the
 * first hop a call may have to wait for others of its sandbox (allowance.h). */
struct gate_call {
    struct gate *gate;
    struct policy *policy;
    struct arena arena;
    struct str url_text, method, body;
    struct fetch_header *headers; /* with placeholders, never values */
    size_t header_count;
    const struct secrets *secrets;
    void (*on_verdict)(void *ctx, const struct verdict *verdict, const struct host *host,
                       uint16_t port);
    void *verdict_ctx;
    enum gate_redirect redirect;
    struct fetch_limits limits;
    int64_t deadline_ms; /* monotonic */
    struct timer *timer; /* the deadline; once ended: the turn in which `done` is called */
    bool is_ended;

    struct url url;
    int hops;
    struct resolve *resolve;
    struct ip addresses[RESOLVE_ADDRESSES_MAX];
    size_t address_count, address_next;
    struct fetch *fetch;
    struct allowance *allowance; /* NULL: none */
    struct allowance_user user;
    struct fetch_meter meter;
    struct timer *idle; /* NULL: no limit but the client's own */

    struct err why;
    struct verdict refusal;
    bool is_refused;
    gate_done *done;
    void *ctx;
};

static void begin_hop(struct gate_call *call);

/* Ends. */

static void end(struct gate_call *call)
{
    call->is_ended = true;
    allowance_leave(&call->user);
    if (call->idle != NULL)
        timer_clear(call->idle);
    timer_set(call->timer, 0, 0);
}

static void fail(struct gate_call *call, const struct err *why)
{
    call->why = *why;
    end(call);
}

static void refuse(struct gate_call *call, enum err_code code, const struct verdict *verdict)
{
    call->refusal = *verdict;
    call->is_refused = true;
    struct err why;
    (void)err_set(&why, code, "%s", verdict->text);
    fail(call, &why);
}

static void on_timer(void *ctx)
{
    struct gate_call *call = ctx;
    if (!call->is_ended) {
        call->resolve = resolve_free(call->resolve);
        call->fetch = fetch_free(call->fetch);
        if (call->user.is_waiting)
            (void)err_set(&call->why, ERR_TIMEOUT,
                          "not begun in time: other requests of the sandbox had its connections");
        else
            (void)err_set(&call->why, ERR_TIMEOUT, "%s: no answer in time", call->url.host.text);
        end(call);
        timer_clear(call->timer);
    }
    call->done(call->ctx, NULL, call->is_refused ? &call->refusal : NULL, &call->why);
}

static void tell(const struct gate_call *call, const struct verdict *verdict,
                 const struct host *host, uint16_t port)
{
    const struct gate_options *options = call->gate->options;
    if (options->on_verdict != NULL)
        options->on_verdict(options->ctx, verdict, host, port);
    if (call->on_verdict != NULL)
        call->on_verdict(call->verdict_ctx, verdict, host, port);
}

/* What the sandbox may use. */

static bool may_move(void *ctx)
{
    const struct gate_call *call = ctx;
    return !allowance_is_dry(call->allowance);
}

static void tell_used_up(const struct gate_call *call, const struct err *why)
{
    struct verdict verdict = verdict_make(VERDICT_LIMIT, "blocked %.100s:%d: %.100s",
                                          call->url.host.text, call->url.port, why->msg);
    tell(call, &verdict, &call->url.host, call->url.port);
}

static int on_moved(void *ctx, size_t bytes, bool is_sent, struct err *err)
{
    struct gate_call *call = ctx;
    if (call->idle != NULL)
        timer_set(call->idle, allowance_limits(call->allowance)->idle_ms, 0);
    allowance_count(call->allowance, bytes, is_sent);
    if (allowance_check(call->allowance, err) == 0)
        return 0;
    tell_used_up(call, err);
    return -1;
}

static void on_idle(void *ctx)
{
    struct gate_call *call = ctx;
    if (allowance_is_dry(call->allowance)) { /* it waits for us, not for the host */
        timer_set(call->idle, allowance_limits(call->allowance)->idle_ms, 0);
        return;
    }
    call->resolve = resolve_free(call->resolve);
    call->fetch = fetch_free(call->fetch);
    struct err why;
    (void)err_set(&why, ERR_TIMEOUT, "%.100s: silent for too long", call->url.host.text);
    fail(call, &why);
}

static void on_refill(void *ctx)
{
    struct gate_call *call = ctx;
    if (call->fetch != NULL)
        fetch_resume(call->fetch);
}

static int64_t stricter(int64_t one, int64_t other)
{
    return one <= 0 ? other : other <= 0 ? one : MIN(one, other);
}

static void use_limits(struct gate_call *call, const struct porter_limits *limits)
{
    call->limits.total_ms = stricter(call->limits.total_ms, limits->total_ms);
    call->limits.head_max = (size_t)stricter(
        call->limits.head_max > 0 ? (int64_t)call->limits.head_max : FETCH_HEAD_MAX,
        limits->head_bytes);
    call->limits.body_max = (size_t)stricter(
        call->limits.body_max > 0 ? (int64_t)call->limits.body_max : FETCH_BODY_MAX,
        limits->answer_bytes);
    call->meter = (struct fetch_meter){.may_move = may_move,
                                       .moved = on_moved,
                                       .piece_max = (size_t)(limits->bytes_per_second / 4),
                                       .ctx = call};
    if (limits->idle_ms > 0)
        call->idle = timer_new(call->gate->loop, on_idle, call);
}

/* Redirects. */

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

static bool is_body_header(UNUSED const struct gate_call *call, struct str name)
{
    return str_eq_nocase(str_slice(name, 0, 8), STR("content-"));
}

/* What was meant for one host alone: what clients and browsers agree on, and the headers of
 * secrets. One that carries a key by another name is the caller's own affair. */
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

/* 303 asks for a GET, and so does everybody's reading of 301 and 302 after a POST. */
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

static void follow(struct gate_call *call, int status, struct str location)
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
        begin_hop(call);
        return;
    }
    tell(call, &verdict, &call->url.host, call->url.port);
    refuse(call, ERR_FORBIDDEN, &verdict);
}

/* One hop. */

static void succeed(struct gate_call *call, const struct fetch_answer *http)
{
    AUTO_BUF struct buf url = {0};
    url_put(&call->url, &url);
    struct gate_answer answer = {
        .http = *http,
        .url = arena_dup(&call->arena, buf_str(&url)),
        .is_redirected = call->hops > 0,
    };
    end(call);
    timer_clear(call->timer);
    call->done(call->ctx, &answer, NULL, NULL);
}

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
    fail(call, &err);
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
    struct str location = find_header(answer, STR("location"));
    bool leads_on = is_redirect(answer->status) && location.ptr != NULL;
    if (!leads_on || call->redirect == GATE_REDIRECT_MANUAL) {
        succeed(call, answer);
        return;
    }
    int status = answer->status;
    location = arena_dup(&call->arena, location);
    call->fetch = fetch_free(call->fetch);
    if (call->redirect == GATE_REDIRECT_FOLLOW) {
        follow(call, status, location);
        return;
    }
    struct verdict verdict =
        verdict_make(VERDICT_REDIRECT, "%.100s answered with a redirect", call->url.host.text);
    refuse(call, ERR_FORBIDDEN, &verdict);
}

/* The request's head, which libcurl writes: its parts are counted before. */
static bool take_head(struct gate_call *call, const struct fetch_header *headers, struct err *err)
{
    size_t bytes = call->method.len + call->url.target.len + strlen(call->url.host.text);
    for (size_t i = 0; i < call->header_count; i++)
        bytes += headers[i].name.len + headers[i].value.len + strlen(": \r\n");
    return on_moved(call, bytes, true, err) == 0;
}

static void connect_next(struct gate_call *call)
{
    struct err err = {0};
    AUTO_BUF struct buf values = {.wipes = true};
    struct fetch_header headers[FETCH_REQUEST_HEADERS_MAX];
    int64_t left_ms = call->deadline_ms - clock_now_ms();
    gate_fill_headers(call->secrets, &call->url, call->headers, call->header_count, &values,
                      headers);
    if (call->allowance != NULL && !take_head(call, headers, &err)) {
        fail(call, &err);
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
        fail(call, &err);
}

static void judge_addresses(struct gate_call *call)
{
    struct err err = {0};
    struct ip own[IP_OWN_MAX];
    size_t own_count = 0;
    if (ip_own_list(own, &own_count, &err) < 0) {
        fail(call, &err);
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
    tell(call, &verdict, &call->url.host, call->url.port);
    if (verdict_is_allowed(&verdict))
        connect_next(call);
    else
        refuse(call, ERR_FORBIDDEN, &verdict);
}

static void on_resolved(void *ctx, const struct ip *addresses, size_t count, const struct err *why)
{
    struct gate_call *call = ctx;
    if (why != NULL) {
        struct verdict verdict = verdict_make(VERDICT_NOT_RESOLVED, "blocked %.100s:%d: %.100s",
                                              call->url.host.text, call->url.port, why->msg);
        enum err_code code = why->code;
        call->resolve = resolve_free(call->resolve);
        tell(call, &verdict, &call->url.host, call->url.port);
        refuse(call, code, &verdict);
        return;
    }
    memcpy(call->addresses, addresses, count * sizeof *addresses);
    call->address_count = count;
    call->resolve = resolve_free(call->resolve);
    judge_addresses(call);
}

/* Before a request is made, and again before each redirect is followed. */
static bool has_bytes_left(struct gate_call *call)
{
    struct err err = {0};
    if (call->allowance == NULL || allowance_check(call->allowance, &err) == 0)
        return true;
    tell_used_up(call, &err);
    fail(call, &err);
    return false;
}

static void begin_hop(struct gate_call *call)
{
    struct err err = {0};
    struct url url = {0};
    struct verdict verdict = verdict_judge_url(call->policy, call->method, call->url_text, &url);
    if (!verdict_is_allowed(&verdict)) {
        /* For the record, as far as it can be told what was meant. */
        if (url_parse(call->url_text, &url, &err) == 0)
            tell(call, &verdict, &url.host, url.port);
        refuse(call, ERR_FORBIDDEN, &verdict);
        return;
    }
    call->url = url;
    call->address_next = 0;
    if (!has_bytes_left(call))
        return;
    if (host_is_ip(&url.host)) {
        call->addresses[0] = url.host.ip;
        call->address_count = 1;
        judge_addresses(call);
        return;
    }
    struct resolve_options options = {
        .servers = call->gate->options->dns_servers,
        .timeout_ms = call->gate->options->resolve_ms,
    };
    if (resolve_start(call->gate->loop, &options, host_str(&url.host), on_resolved, call,
                      &call->resolve, &err) < 0)
        fail(call, &err);
}

/* A call. */

static int check_request(const struct gate_request *request, struct err *err)
{
    if (request->header_count > FETCH_REQUEST_HEADERS_MAX)
        return err_set(err, ERR_INVALID, "more than %d headers", FETCH_REQUEST_HEADERS_MAX);
    if (request->body.len > FETCH_REQUEST_BODY_MAX)
        return err_set(err, ERR_TOO_LARGE, "a body of more than %d bytes", FETCH_REQUEST_BODY_MAX);
    for (size_t i = 0; i < request->header_count; i++)
        if (fetch_check_header(request->headers[i].name, request->headers[i].value, err) < 0)
            return -1;
    return fetch_check_method(request->method, err);
}

static void copy_request(struct gate_call *call, const struct gate_request *request)
{
    struct arena *arena = &call->arena;
    call->url_text = arena_dup(arena, request->url);
    call->method = arena_dup(arena, request->method);
    call->body = arena_dup(arena, request->body);
    call->headers = arena_array(arena, struct fetch_header, request->header_count);
    call->header_count = request->header_count;
    for (size_t i = 0; i < request->header_count; i++) {
        call->headers[i].name = arena_dup(arena, request->headers[i].name);
        call->headers[i].value = arena_dup(arena, request->headers[i].value);
    }
    call->secrets = request->secrets;
    call->on_verdict = request->on_verdict;
    call->verdict_ctx = request->verdict_ctx;
    call->redirect = request->redirect;
    call->limits = request->limits;
}

static void on_turn(void *ctx)
{
    begin_hop(ctx);
}

/* False while others of the sandbox come first. */
static bool enter(struct gate_call *call, struct allowance *allowance)
{
    if (allowance == NULL)
        return true;
    call->allowance = allowance;
    call->user = (struct allowance_user){.on_turn = on_turn, .on_refill = on_refill, .ctx = call};
    use_limits(call, allowance_limits(allowance));
    return allowance_enter(allowance, &call->user);
}

struct gate_call *gate_fetch(struct gate *gate, const struct gate_request *request, gate_done *done,
                             void *ctx)
{
    loop_assert(gate->loop);
    struct gate_call *call = mem_alloc(sizeof *call);
    struct err err = {0};
    int64_t total_ms = request->limits.total_ms > 0 ? request->limits.total_ms : FETCH_TOTAL_MS;
    if (request->allowance != NULL)
        total_ms = stricter(total_ms, allowance_limits(request->allowance)->total_ms);
    gate->calls++;
    call->gate = gate;
    call->policy = request->policy == NULL ? NULL : policy_ref(request->policy);
    call->done = done;
    call->ctx = ctx;
    call->timer = timer_new(gate->loop, on_timer, call);
    call->deadline_ms = clock_now_ms() + total_ms;
    timer_set(call->timer, total_ms, 0);
    if (check_request(request, &err) < 0) {
        fail(call, &err);
        return call;
    }
    copy_request(call, request);
    if (enter(call, request->allowance))
        begin_hop(call);
    return call;
}

struct gate_call *gate_call_free(struct gate_call *call)
{
    if (call == NULL)
        return NULL;
    (void)resolve_free(call->resolve);
    (void)fetch_free(call->fetch);
    allowance_leave(&call->user);
    (void)timer_free(call->timer);
    if (call->idle != NULL)
        (void)timer_free(call->idle);
    (void)policy_free(call->policy);
    arena_done(&call->arena);
    call->gate->calls--;
    free(call);
    return NULL;
}

int gate_open(struct loop *loop, const struct gate_options *options, struct gate **ret_gate,
              struct err *err)
{
    struct fetcher *fetcher = NULL;
    if (fetcher_open(loop, options->ca_file, &fetcher, err) < 0)
        return -1;
    struct gate *gate = mem_alloc(sizeof *gate);
    *gate = (struct gate){.loop = loop, .options = options, .fetcher = fetcher};
    *ret_gate = gate;
    return 0;
}

struct gate *gate_free(struct gate *gate)
{
    if (gate == NULL)
        return NULL;
    assert(gate->calls == 0);
    (void)fetcher_free(gate->fetcher);
    free(gate);
    return NULL;
}
