/* A client posts its messages, and opens a stream by GET for what belongs to no request.
 *
 * A client is identified by the id of its session in the engine. A client that returns after a
 * restart of the daemon continues: its files are still there, only its subscriptions are lost.
 *
 * A client of revision 2026-07-28 and later has no such id: each of its requests is independent
 * and counts as a client that ends with the request. They use the session of their token (and of
 * the name that the URL may give); a request whose client has disconnected is ended. */

#include "api/mcp/mcp_endpoint.h"

#include "agent/mcp.h"
#include "api/mcp/mcp_client.h"
#include "api/mcp/mcp_head.h"
#include "base/clock.h"
#include "base/crypto/hash.h"

#define SESSION_NAME "mcp"
#define SESSION_HEADER "Mcp-Session-Id"

/* NULL with a reply. */
static struct mcp_client *find_client(struct request *request, struct api *api)
{
    struct err err = {0};
    struct session_info session;
    struct engine_caller caller = request_caller(request);
    struct str id = request_header(request, SESSION_HEADER);
    if (!mcp_head_is_spoken(request))
        return NULL;
    if (id.len == 0) {
        (void)err_set(&err, ERR_INVALID,
                      SESSION_HEADER " is missing: the response to initialize contains it");
        reply_error(request, &err);
        return NULL;
    }
    for (struct mcp_client *client = mcp_clients_of(api)->clients; client != NULL;
         client = client->next)
        if (!client->is_single && str_eq(str_of(client->session), id) &&
            str_eq(str_of(client->tenant), caller.tenant))
            return client;
    if (engine_session_get(api->engine, &caller, id, &session, &err) < 0 ||
        !str_eq(session.name, STR(SESSION_NAME)))
        (void)err_set(&err, ERR_NOT_FOUND, "session not found; initialize a new one");
    else if (mcp_clients_make_room(mcp_clients_of(api), caller.tenant, &err) == 0)
        return mcp_client_new(api, &caller, id, true);
    reply_error(request, &err);
    return NULL;
}

/* --- Requests that stand for themselves --- */

/* The session of the token, and of the name that the URL gives. */
static void name_session(struct request *request, char out[ID_SIZE])
{
    AUTO_BUF struct buf key = {0};
    char hex[HASH_HEX_SIZE];
    struct str name = {0};
    (void)request_query(request, "session", &name);
    buf_printf(&key, "mcp/%s/%s/%.*s", request->caller.tenant, request->caller.token_id,
               STR_ARG(name));
    hash_sha256_hex(buf_str(&key), hex);
    (void)snprintf(out, ID_SIZE, "%.*s", ID_LEN, hex);
}

static void take_single(struct request *request, struct api *api, struct str session)
{
    struct err err = {0};
    struct engine_caller caller = request_caller(request);
    struct mcp_endpoint *endpoint = mcp_clients_of(api);
    if (mcp_clients_make_room(endpoint, caller.tenant, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    for (struct mcp_client *other = endpoint->clients; other != NULL; other = other->next)
        if (other->is_single && !other->is_over && str_eq(str_of(other->session), session))
            mcp_rewatch(other->mcp);
    struct mcp_client *client = mcp_client_new(api, &caller, session, true);
    client->is_single = true;
    mcp_client_take(client, request);
}

/* Another request may have made it at the same moment. */
static void on_own_session(void *ctx, UNUSED const struct session_info *session,
                           const struct err *why)
{
    struct request *request = ctx;
    char id[ID_SIZE];
    name_session(request, id);
    if (why != NULL && why->code != ERR_CONFLICT)
        reply_error(request, why);
    else
        take_single(request, request->rules->ctx, str_of(id));
}

static void post_single(struct request *request, struct api *api)
{
    struct err err = {0};
    struct session_info session;
    struct engine_caller caller = request_caller(request);
    char id[ID_SIZE];
    if (json_get(request->json, "id") == NULL) { /* notifications of a client say nothing there */
        reply_empty(request, 202);
        return;
    }
    if (!mcp_head_is_right(request))
        return;
    name_session(request, id);
    if (engine_session_get(api->engine, &caller, str_of(id), &session, &err) == 0) {
        take_single(request, api, str_of(id));
        return;
    }
    struct session_spec spec = {.id = str_of(id), .name = STR(SESSION_NAME)};
    request_hold(request);
    engine_session_create(api->engine, &caller, &spec, on_own_session, request);
}

/* --- Routes --- */

static void on_session(void *ctx, const struct session_info *session, const struct err *why)
{
    struct request *request = ctx;
    struct api *api = request->rules->ctx;
    struct engine_caller caller = request_caller(request);
    if (why != NULL) {
        reply_error(request, why);
        return;
    }
    reply_header(request, SESSION_HEADER, session->id);
    mcp_client_take(mcp_client_new(api, &caller, session->id, false), request);
}

static void begin_session(struct request *request, struct api *api)
{
    struct err err = {0};
    struct engine_caller caller = request_caller(request);
    char id[ID_SIZE];
    if (mcp_clients_make_room(mcp_clients_of(api), caller.tenant, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    id_new(id);
    struct session_spec spec = {.id = str_of(id), .name = STR(SESSION_NAME)};
    request_hold(request);
    engine_session_create(api->engine, &caller, &spec, on_session, request);
}

static void post(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct err err = {0};
    if (!mcp_is_message(request->json)) { /* nothing would ever answer it */
        (void)err_set(&err, ERR_INVALID, "not a JSON-RPC 2.0 message");
        reply_error(request, &err);
        return;
    }
    if (mcp_head_is_modern(request)) {
        post_single(request, api);
        return;
    }
    if (mcp_is_initialize(request->json)) {
        begin_session(request, api);
        return;
    }
    struct mcp_client *client = find_client(request, api);
    if (client != NULL)
        mcp_client_take(client, request);
}

static void on_stream_closed(void *ctx)
{
    struct mcp_client *client = ctx;
    client->stream = NULL;
    client->used_ms = clock_date_ms();
}

static const struct events_calls stream_events = {.on_closed = on_stream_closed};

/* The newest stream is the one that is written to. */
static void take_place(struct events **at, struct events *with)
{
    if (*at != NULL) {
        events_end(*at);
        events_forget(*at);
    }
    *at = with;
}

static void replay(const struct mcp_client *client, struct events *events, uint64_t stream,
                   uint64_t number)
{
    const struct mcp_log_entry *entry;
    while ((entry = mcp_log_after(&client->log, stream, number)) != NULL) {
        char id[MCP_LOG_ID_SIZE];
        number = entry->number;
        mcp_log_id(stream, number, id);
        events_put(events, "message", str_of(id), str_n(entry->json, entry->len));
    }
}

static void on_replayed(UNUSED void *ctx)
{
}

static const struct events_calls replay_events = {.on_closed = on_replayed};

/* The rest of the answer to a POST: what was missed, and what comes if it is not over. */
static void resume_post(struct mcp_client *client, struct request *request, uint64_t stream,
                        uint64_t number)
{
    struct mcp_post *post = client->posts;
    while (post != NULL && post->stream != stream)
        post = post->next;
    struct events *events = post == NULL ? events_new(request, &replay_events, client)
                                         : events_new(request, &mcp_post_events, post);
    replay(client, events, stream, number);
    if (post != NULL) {
        take_place(&post->events, events);
        return;
    }
    events_end(events);
    events_forget(events);
}

static void listen_to(struct request *request, void *ctx)
{
    struct mcp_client *client = find_client(request, ctx);
    struct str last = {0};
    uint64_t stream = 0, number = 0;
    if (client == NULL)
        return;
    bool is_back = events_last_id(request, &last) && mcp_log_parse(last, &stream, &number);
    if (is_back && stream > 0) {
        resume_post(client, request, stream, number);
        return;
    }
    struct events *events = events_new(request, &stream_events, client);
    if (is_back)
        replay(client, events, 0, number);
    take_place(&client->stream, events);
}

static void end_session(struct request *request, void *ctx)
{
    struct api *api = ctx;
    struct mcp_client *client = find_client(request, api);
    if (client == NULL)
        return;
    struct engine_caller caller = request_caller(request);
    struct str id = request_header(request, SESSION_HEADER);
    mcp_client_free(client);
    request_hold(request);
    engine_session_delete(api->engine, &caller, id, v1_done, request);
}

/* clang-format off */
#define NOUN "mcp"
static const struct route_query post_query[] = {
    {"session", JSON({"type": "string", "maxLength": 64}),
     "From revision 2026-07-28: requests with the same name, or without one, share a sandbox"}, {0},
};

const struct route mcp_routes[] = {
    {"POST", "/mcp", post, "Send messages of the Model Context Protocol", SCOPE_RUN, NOUN,
     .details = "One JSON-RPC message. Up to revision 2025-11-25 the response to initialize has the header Mcp-Session-Id, which every later request repeats; from 2026-07-28 there is no initialize, and the requests of a token share a sandbox. Slow responses are sent as events if Accept allows it. See docs/MCP.md.",
     .query = post_query,
     .request = JSON({"type": "object", "additionalProperties": true}),
     .response = JSON({"type": "object", "required": ["jsonrpc"], "properties": {
        "jsonrpc": {"type": "string"}, "id": {"type": ["string", "integer", "null"]},
        "result": {"type": "object", "additionalProperties": true},
        "error": {"type": "object", "required": ["code", "message"], "additionalProperties": true}}}),
     .gives = FORM_EITHER,
     .errors = E(NOT_FOUND) | E(LIMIT),
     .example = "-d '{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\", \"params\": "
                "{\"protocolVersion\": \"2025-11-25\", \"capabilities\": {}, "
                "\"clientInfo\": {\"name\": \"curl\", \"version\": \"1\"}}}'"},
    {"GET", "/mcp", listen_to, "Receive notifications that belong to no request", SCOPE_RUN, NOUN,
     .details = "notifications/resources/updated and similar ones, as events.",
     .gives = FORM_EVENTS, .errors = E(NOT_FOUND)},
    {"DELETE", "/mcp", end_session, "End a client's session", SCOPE_RUN, NOUN,
     .details = "Also deletes its sandbox and its files.", .gives = FORM_NONE, .status = 204,
     .errors = E(NOT_FOUND) | E(BUSY) | E(CONFLICT)},
    {0},
};
/* clang-format on */
