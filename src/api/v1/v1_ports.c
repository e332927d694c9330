/* /v1/sandboxes/{id}/ports: servers in a sandbox, and who beside its tenant may reach them. */

#include "api/ports/port_access.h"
#include "api/ports/port_head.h"
#include "api/ports/proxy.h"
#include "api/v1/v1.h"
#include "base/clock.h"

enum { TOKEN_SECONDS = 3600, TOKEN_SECONDS_MAX = 30 * 24 * 3600 };

static void put_port(struct json_out *out, const struct request *request, struct str id,
                     const struct sandbox_port *port)
{
    AUTO_BUF struct buf url = {0};
    AUTO_BUF struct buf path = {0};
    port_put_url(request->rules->ctx, request, id, port->port, NULL, &url);
    port_put_path(id, port->port, &path);
    json_key(out, "port"), json_put_i64(out, port->port);
    json_key(out, "public"), json_put_bool(out, port->is_public);
    v1_put_str(out, "url", buf_str(&url));
    json_key(out, "path"), json_put_str(out, buf_str(&path));
    v1_put_date(out, "createdAt", port->created_ms);
}

static bool read_port(struct request *request, uint16_t *ret_port)
{
    struct err err;
    int64_t port;
    if (str_to_i64(request_param(request, "port"), 1, UINT16_MAX, &port)) {
        *ret_port = (uint16_t)port;
        return true;
    }
    (void)err_set(&err, ERR_INVALID, "port: must be 1 to 65535");
    reply_error(request, &err);
    return false;
}

static void ports_list(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct sandbox_info sandbox;
    struct v1_answer answer;
    struct engine_caller caller = request_caller(request);
    if (engine_sandbox_get(api->engine, &caller, request_param(request, "id"), &sandbox, &err) <
        0) {
        reply_error(request, &err);
        return;
    }
    struct json_out *out = v1_begin(&answer);
    json_begin_object(out);
    json_key(out, "ports");
    json_begin_array(out);
    for (size_t i = 0; i < sandbox.port_count; i++) {
        json_begin_object(out);
        put_port(out, request, sandbox.id, &sandbox.ports[i]);
        json_end_object(out);
    }
    json_end_array(out);
    json_end_object(out);
    v1_reply(request, 200, &answer);
}

static void reply_port(struct request *request, const struct sandbox_port *port, int status)
{
    struct v1_answer answer;
    struct json_out *out = v1_begin(&answer);
    json_begin_object(out);
    put_port(out, request, request_param(request, "id"), port);
    json_end_object(out);
    v1_reply(request, status, &answer);
}

static void ports_get(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err;
    struct sandbox_info sandbox;
    uint16_t port;
    struct engine_caller caller = request_caller(request);
    if (!read_port(request, &port))
        return;
    if (engine_sandbox_get(api->engine, &caller, request_param(request, "id"), &sandbox, &err) <
        0) {
        reply_error(request, &err);
        return;
    }
    for (size_t i = 0; i < sandbox.port_count; i++) {
        if (sandbox.ports[i].port == port) {
            reply_port(request, &sandbox.ports[i], 200);
            return;
        }
    }
    (void)err_set(&err, ERR_NOT_FOUND, "port %u is not exposed; expose it with PUT", port);
    reply_error(request, &err);
}

static void on_exposed(void *ctx, const struct sandbox_port *port, const struct err *why)
{
    struct request *request = ctx;
    if (why != NULL)
        reply_error(request, why);
    else
        reply_port(request, port, 200);
}

static void expose(struct request *request, void *ctx)
{
    struct api *api = ctx;
    uint16_t port;
    struct engine_caller caller = request_caller(request);
    if (!read_port(request, &port))
        return;
    request_hold(request);
    engine_port_expose(api->engine, &caller, request_param(request, "id"), port,
                       request_bool(request, "public", false), on_exposed, request);
}

static void hide(struct request *request, void *ctx)
{
    struct api *api = ctx;
    uint16_t port;
    struct engine_caller caller = request_caller(request);
    if (!read_port(request, &port))
        return;
    request_hold(request);
    engine_port_hide(api->engine, &caller, request_param(request, "id"), port, v1_done, request);
}

static void reply_token(void *ctx, const struct sandbox_port *port, const struct err *why)
{
    struct request *request = ctx;
    struct api *api = request->rules->ctx;
    if (why != NULL) {
        reply_error(request, why);
        return;
    }
    char token[PORT_TOKEN_SIZE];
    struct str id = request_param(request, "id");
    int64_t expires_s =
        clock_date_ms() / 1000 + request_int(request, "seconds", (int64_t)TOKEN_SECONDS);
    AUTO_BUF struct buf url = {0};
    struct v1_answer answer;
    port_token(api, id, port, expires_s, token);
    port_put_url(api, request, id, port->port, token, &url);
    struct json_out *out = v1_begin(&answer);
    json_begin_object(out);
    json_key(out, "token"), json_put_cstr(out, token);
    v1_put_date(out, "expiresAt", expires_s * 1000);
    v1_put_str(out, "openUrl", buf_str(&url));
    put_port(out, request, id, port);
    json_end_object(out);
    v1_reply(request, 201, &answer);
    explicit_bzero(token, sizeof token);
}

/* A port that is not exposed is exposed to holders of a token; a public one stays public. */
static void make_token(struct request *request, void *ctx)
{
    struct api *api = ctx;
    uint16_t port;
    struct str tenant;
    struct sandbox_port known = {0};
    struct str id = request_param(request, "id");
    struct engine_caller caller = request_caller(request);
    if (!read_port(request, &port))
        return;
    bool is_public = engine_port_find(api->engine, id, port, &tenant, &known) && known.is_public;
    request_hold(request);
    engine_port_expose(api->engine, &caller, id, port, is_public, reply_token, request);
}

static void pass_on(struct request *request, void *ctx)
{
    proxy_request(request, ctx);
}

/* clang-format off */
#define NOUN "ports"
#define FAILS (E(NOT_FOUND) | E(GONE) | E(UNSUPPORTED))

const struct route v1_port_routes[] = {
    {"GET", "/v1/sandboxes/{id}/ports", ports_list, "List the exposed ports of a sandbox", SCOPE_READ, NOUN,
     .response = "Ports", .errors = E(NOT_FOUND), .example = ""},
    {"PUT", "/v1/sandboxes/{id}/ports/{port}", expose, "Expose a port", SCOPE_RUN, NOUN,
     .details = "A server that listens on this port of 127.0.0.1 or ::1 in the sandbox can then be reached by host name and by path, by everyone or with a token for the port. The server may start later. Repeat the request to change who has access.",
     .request = V1_BODY(JSON("public": {"type": "boolean",
        "description": "Allow access to everyone who knows the address (default false)"})),
     .response = "Port", .errors = FAILS | E(LIMIT), .example = "-d '{\"public\":true}'"},
    {"GET", "/v1/sandboxes/{id}/ports/{port}", ports_get, "Show an exposed port", SCOPE_READ, NOUN,
     .response = "Port", .errors = E(NOT_FOUND), .example = ""},
    {"POST", "/v1/sandboxes/{id}/ports/{port}", make_token, "Create a token for a port", SCOPE_RUN, NOUN,
     .details = "For users of the application who may not use the API. Send it in the header "
                PORT_HEADER ", or in the query as " PORT_QUERY "; a browser is then redirected to the URL without it. Exposes the port if it is not exposed.",
     .request = V1_BODY(JSON("seconds": {"type": "integer", "minimum": 1, "maximum": 2592000,
        "description": "Lifetime in seconds (default 3600); it also ends when the port is no longer exposed"})),
     .response = "PortToken", .status = 201, .errors = FAILS | E(LIMIT), .example = "-d '{\"seconds\":600}'"},
    {"DELETE", "/v1/sandboxes/{id}/ports/{port}", hide, "Stop exposing a port", SCOPE_RUN, NOUN,
     .details = "Revokes its tokens. Open connections stay open.",
     .gives = FORM_NONE, .status = 204, .errors = FAILS, .example = ""},
    {"*", "/v1/sandboxes/{id}/ports/{port}/{rest...}", pass_on, "Send a request to a server in a sandbox", SCOPE_RUN, NOUN,
     .details = "Any method, HTTP and WebSocket, streaming in both directions. The tenant's own token gives access to every port; others need a token for the port, unless the port is public. docs/PORTS.md has the rules.",
     .takes = FORM_PROXY, .gives = FORM_PROXY,
     .errors = FAILS | E(NO_LISTENER) | E(BAD_ANSWER) | E(BUSY) | E(TIMEOUT)},
    {0},
};
/* clang-format on */
static_assert(TOKEN_SECONDS_MAX == 2592000, "the schema says so");
