/* api.fetch: one HTTP request through the gate, under the sandbox's own policy. */

#include "base/arena.h"
#include "base/err.h"
#include "base/format/base64.h"
#include "base/format/json.h"
#include "egress/gate/gate.h"
#include "runtime/bridges.h"

enum { TIMEOUT_MS = 30000 };

static const char url_schema[] =
    "{\"type\":\"string\",\"minLength\":1,\"maxLength\":8192,"
    "\"description\":\"An absolute http or https URL of a host that the policy names.\"}";

static const char options_schema[] =
    "{\"type\":\"object\",\"description\":\"What to send, and how.\","
    "\"additionalProperties\":false,\"properties\":{"
    "\"method\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":20,"
    "\"description\":\"Default: GET.\"},"
    "\"headers\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\","
    "\"maxLength\":16384},\"description\":\"Names and values; headers that set the framing "
    "(Host, Content-Length, ...) are refused.\"},"
    "\"body\":{\"type\":\"string\",\"maxLength\":8388608,\"description\":\"Sent as UTF-8.\"},"
    "\"timeoutMs\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":30000,"
    "\"description\":\"Time for names, connection, redirects and answer.\"},"
    "\"redirect\":{\"type\":\"string\",\"enum\":[\"manual\",\"follow\",\"error\"],"
    "\"description\":\"What to do with a redirect: return it as the answer (manual, the default), "
    "follow up to 5, each checked against the policy, or fail (error).\"}}}";

static const char result_types[] =
    "interface FetchResult {\n"
    "    status: number;\n"
    "    statusText: string;\n"
    "    /** Names in lower case; several values of one name with ', ' between. */\n"
    "    headers: { [name: string]: string };\n"
    "    /** The body, when it is valid UTF-8. */\n"
    "    body?: string;\n"
    "    /** The body in base64, when it is not. */\n"
    "    bodyBase64?: string;\n"
    "    /** Where the answer came from, after redirects. */\n"
    "    url: string;\n"
    "    redirected: boolean;\n"
    "}";

static void put_headers(const struct fetch_answer *answer, struct json_out *out)
{
    AUTO_BUF struct buf value = {0};
    json_begin_object(out);
    for (size_t i = 0; i < answer->header_count; i++) {
        struct str name = answer->headers[i].name;
        bool is_first = true;
        for (size_t j = 0; j < i && is_first; j++)
            is_first = !str_eq(answer->headers[j].name, name);
        if (!is_first)
            continue;
        buf_clear(&value);
        buf_put(&value, answer->headers[i].value);
        for (size_t j = i + 1; j < answer->header_count; j++)
            if (str_eq(answer->headers[j].name, name))
                buf_printf(&value, ", %.*s", STR_ARG(answer->headers[j].value));
        json_key_str(out, name);
        json_put_str(out, buf_str(&value));
    }
    json_end_object(out);
}

static void put_body(struct str body, struct json_out *out)
{
    if (str_is_utf8(body)) {
        json_key(out, "body"), json_put_str(out, body);
        return;
    }
    AUTO_BUF struct buf text = {0};
    base64_put(body, &text);
    json_key(out, "bodyBase64"), json_put_str(out, buf_str(&text));
}

/* A refusal that another policy would lift says how to get one. */
static void bridge_fetch_fail(struct bridge_call *call, const struct verdict *refusal,
                              const struct err *why)
{
    const struct services *services = bridge_services(call);
    bool can_help = refusal != NULL && services->remedy != NULL &&
                    (refusal->reason == VERDICT_HOST || refusal->reason == VERDICT_PORT);
    if (!can_help) {
        bridge_fail(call, why);
        return;
    }
    struct err with_remedy;
    (void)err_set(&with_remedy, why->code, "%.180s; %s", why->msg, services->remedy);
    bridge_fail(call, &with_remedy);
}

static void bridge_fetch_on_done(void *ctx, const struct gate_answer *answer,
                                 const struct verdict *refusal, const struct err *why)
{
    struct bridge_call *call = ctx;
    if (answer == NULL) {
        bridge_fetch_fail(call, refusal, why);
        return;
    }
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    json_begin_object(&out);
    json_key(&out, "status"), json_put_i64(&out, answer->http.status);
    json_key(&out, "statusText"), json_put_str(&out, answer->http.status_text);
    json_key(&out, "headers");
    put_headers(&answer->http, &out);
    put_body(answer->http.body, &out);
    json_key(&out, "url"), json_put_str(&out, answer->url);
    json_key(&out, "redirected"), json_put_bool(&out, answer->is_redirected);
    json_end_object(&out);
    bridge_done(call, buf_str(&text));
}

static int read_headers(struct json_t *object, struct arena *arena, struct gate_request *request,
                        struct err *err)
{
    size_t count = 0;
    void *iter = NULL;
    struct str name;
    struct json_t *value;
    if (json_len(object) > FETCH_REQUEST_HEADERS_MAX)
        return err_set(err, ERR_INVALID, "options.headers must have at most %d names, got %zu",
                       FETCH_REQUEST_HEADERS_MAX, json_len(object));
    struct fetch_header *headers = arena_array(arena, struct fetch_header, json_len(object));
    while (json_next(object, &iter, &name, &value)) {
        headers[count].name = name;
        if (json_to_str(value, &headers[count].value))
            count++;
    }
    request->headers = headers;
    request->header_count = count;
    return 0;
}

/* The common methods in upper case, as JavaScript's `fetch` sends them. */
static struct str common_method(struct str method)
{
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < countof(names); i++)
        if (str_eq_nocase(method, str_of(names[i])))
            return str_of(names[i]);
    return method;
}

static int read_options(const struct json_t *options, struct arena *arena,
                        struct gate_request *request, struct err *err)
{
    struct str text;
    double timeout_ms;
    struct json_t *headers = json_get(options, "headers");
    if (json_to_str(json_get(options, "method"), &text))
        request->method = common_method(text);
    if (json_to_str(json_get(options, "body"), &text))
        request->body = text;
    if (json_to_f64(json_get(options, "timeoutMs"), &timeout_ms))
        request->limits.total_ms = MIN(request->limits.total_ms, (int64_t)timeout_ms);
    if (json_to_str(json_get(options, "redirect"), &text))
        request->redirect = str_eq(text, STR("follow"))  ? GATE_REDIRECT_FOLLOW
                            : str_eq(text, STR("error")) ? GATE_REDIRECT_ERROR
                                                         : GATE_REDIRECT_MANUAL;
    return headers == NULL ? 0 : read_headers(headers, arena, request, err);
}

static int bridge_fetch_start(struct bridge_call *call, struct err *err)
{
    const struct services *services = bridge_services(call);
    const struct json_t *options = bridge_arg(call, 1);
    AUTO_ARENA struct arena arena = {0};
    struct gate_request request = {
        .policy = services->policy,
        .secrets = services->secrets,
        .allowance = services->allowance,
        .on_verdict = services->on_verdict,
        .verdict_ctx = services->verdict_ctx,
        .method = STR("GET"),
        .limits.total_ms = bridge_left_ms(call),
    };
    if (!json_to_str(bridge_arg(call, 0), &request.url))
        return err_set(err, ERR_INVALID, "url must be a string");
    if (options != NULL && read_options(options, &arena, &request, err) < 0)
        return -1;
    *bridge_state(call) = gate_fetch(services->gate, &request, bridge_fetch_on_done, call);
    return 0;
}

static void bridge_fetch_stop(struct bridge_call *call)
{
    *bridge_state(call) = gate_call_free(*bridge_state(call));
}

const struct bridge bridge_fetch = {
    .name = "fetch",
    .description = "Makes one HTTP request to a host that the sandbox's network policy names.",
    .params = {{"url", url_schema, false}, {"options", options_schema, true}},
    .returns = "FetchResult",
    .types = result_types,
    .example = "const answer = await api.fetch('https://api.example.com/items', {\n"
               "    method: 'POST',\n"
               "    headers: { 'Content-Type': 'application/json' },\n"
               "    body: JSON.stringify({ name: 'x' }),\n"
               "    timeoutMs: 2000,\n"
               "});\n"
               "if (answer.status === 201) console.log(JSON.parse(answer.body).id);",
    .timeout_ms = TIMEOUT_MS,
    .start = bridge_fetch_start,
    .stop = bridge_fetch_stop,
};
