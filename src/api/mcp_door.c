/* A client posts its messages; answers come back as JSON when they are ready at once, else as
 * events of the same reply. What belongs to no request goes to the stream that the client opens by
 * GET.
 *
 * A client is known by the id of its session in the engine. One that comes back after the daemon
 * was started anew goes on where it was: its files are there, only its subscriptions are not.
 *
 * A client of revision 2026-07-28 and later has no such id: each of its requests stands for itself
 * and is a client of its own here, which goes with it. They work in the session of their token
 * (and of the name that the URL may give); what cannot be answered any more is ended.
 *
 * Each reply that became a stream has a number, the one opened by GET has 0; events carry it with
 * their own in their id. A client that comes back with the last id it saw gets what it missed, and
 * what still comes. */

#include "api/mcp_door.h"

#include "agent/mcp.h"
#include "api/events.h"
#include "api/mcp_head.h"
#include "api/mcp_log.h"
#include "api/v1.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/id.h"
#include "io/loop.h"

enum { CLIENTS_MAX = 1000, TENANT_CLIENTS_MAX = 250, SWEEP_MS = 60000, IDLE_MS = 30 * 60000 };
#define SESSION_NAME "mcp"
#define SESSION_HEADER "Mcp-Session-Id"

/* One POST that waits for its answers. */
struct post {
    struct post *next;
    struct client *client;
    struct request *request; /* NULL once its reply is a stream */
    struct events *events;
    char *id;   /* of its request, as JSON text; NULL when it has none or is answered */
    char *kept; /* the answer, until it is sent */
    uint64_t stream;
    bool is_gone, is_taking;
};

struct client {
    struct client *next;
    struct mcp_door *door;
    struct mcp *mcp;
    char session[ID_SIZE];
    char tenant[TENANT_MAX + 1];
    struct post *posts;
    struct events *stream;
    struct mcp_log log;
    uint64_t streams; /* so many were numbered */
    int64_t used_ms;
    bool is_single; /* of one request, without a session of the protocol */
    bool is_over;   /* of a single one: to be freed */
};

struct mcp_door {
    struct api *api;
    struct client *clients;
    size_t count;
    struct timer *sweeper;
    struct timer *reaper; /* of single clients; they may end in the middle of their own calls */
};

/* --- Posts --- */

static void post_free(struct post *post)
{
    struct post **at = &post->client->posts;
    while (*at != post)
        at = &(*at)->next;
    *at = post->next;
    free(post->id);
    free(post->kept);
    free(post);
}

static void end_single(struct client *client)
{
    if (!client->is_single || client->is_over)
        return;
    client->is_over = true;
    timer_set(client->door->reaper, 0, 0);
}

/* Its client went away: the answers have nowhere to go. */
static void on_post_closed(void *ctx)
{
    struct post *post = ctx;
    post->events = NULL;
    post->is_gone = true;
    end_single(post->client);
}

static void on_post_gone(void *ctx)
{
    struct post *post = ctx;
    end_single(post->client);
}

static const struct events_calls post_events = {.on_closed = on_post_closed};

static void reply_kept(struct post *post)
{
    AUTO_BUF struct buf text = {0};
    if (post->kept == NULL) { /* nothing was asked, or it was canceled */
        reply_empty(post->request, 202);
        return;
    }
    buf_put_cstr(&text, post->kept);
    reply_json(post->request, 200, &text);
}

static void finish(struct post *post)
{
    end_single(post->client);
    if (post->request != NULL) {
        reply_kept(post);
    } else if (post->events != NULL) {
        events_end(post->events);
        events_forget(post->events);
    }
    post_free(post);
}

static struct post *post_of(struct client *client, struct str id)
{
    for (struct post *post = client->posts; post != NULL; post = post->next)
        if (post->id != NULL && str_eq(str_of(post->id), id))
            return post;
    return NULL;
}

static void on_message(void *ctx, struct str about, bool is_last, struct str json)
{
    struct client *client = ctx;
    struct post *post = post_of(client, about);
    struct events *events = post == NULL ? client->stream : post->events;
    /* Of a stream that broke it is kept until its client comes back. */
    if (json.len > 0 && (post == NULL || post->request == NULL)) {
        char id[MCP_LOG_ID_SIZE] = "";
        if (!client->is_single)
            mcp_log_add(&client->log, post == NULL ? 0 : post->stream, json, id);
        if (events != NULL)
            events_put(events, "message", str_of(id), json);
    }
    if (post == NULL || !is_last)
        return;
    if (post->request != NULL && json.len > 0) {
        post->kept = mem_alloc(json.len + 1);
        memcpy(post->kept, json.ptr, json.len);
    }
    free(post->id);
    post->id = NULL;
    if (!post->is_taking)
        finish(post);
}

static const struct mcp_calls mcp_calls = {on_message};

/* What a request is answered under; NULL for what gets no answer. */
static char *id_of(const struct json_t *message)
{
    struct buf text = {0};
    struct json_out out = {.buf = &text};
    const struct json_t *id = json_get(message, "id");
    if (id == NULL || json_get(message, "method") == NULL)
        return NULL;
    json_put_value(&out, id);
    return buf_take(&text);
}

/* A client whose connection breaks before the first message can come back, too: an event without
 * data that carries an id. Clients of earlier revisions do not know it. */
static void greet(struct request *request, const struct post *post)
{
    char id[MCP_LOG_ID_SIZE];
    if (!str_eq(request_header(request, "MCP-Protocol-Version"), STR("2025-11-25")))
        return;
    mcp_log_id(post->stream, post->client->log.number, id);
    events_put(post->events, "message", str_of(id), (struct str){0});
}

static void open_stream(struct post *post, struct request *request)
{
    post->request = NULL;
    post->stream = ++post->client->streams;
    post->events = events_new(request, &post_events, post);
    greet(request, post);
}

static void take_post(struct client *client, struct request *request)
{
    struct post *post = mem_alloc(sizeof *post);
    *post = (struct post){.next = client->posts,
                          .client = client,
                          .request = request,
                          .id = id_of(request->json),
                          .is_taking = true};
    client->posts = post;
    client->used_ms = clock_date_ms();
    if (mcp_is_listen(request->json)) /* what it says first is not its answer */
        open_stream(post, request);
    (void)mcp_take(client->mcp, request->json);
    post->is_taking = false;
    if (post->id == NULL) {
        finish(post);
    } else if (post->request == NULL) {
        return;
    } else if (request_accepts(request, "Accept", "text/event-stream")) {
        open_stream(post, request);
    } else {
        if (!request->is_held) /* it is while its session is made */
            request_hold(request);
        if (client->is_single)
            request_on_gone(request, on_post_gone, post);
    }
}

/* --- Clients --- */

static void client_free(struct client *client)
{
    struct mcp_door *door = client->door;
    for (struct client **at = &door->clients; *at != NULL; at = &(*at)->next)
        if (*at == client) {
            *at = client->next;
            break;
        }
    door->count--;
    client->mcp = mcp_free(client->mcp);
    mcp_log_done(&client->log);
    if (client->stream != NULL) {
        events_end(client->stream);
        events_forget(client->stream);
    }
    for (struct post *post = client->posts, *next; post != NULL; post = next) {
        next = post->next;
        finish(post);
    }
    free(client);
}

static bool is_idle(const struct client *client)
{
    return client->posts == NULL && client->stream == NULL && !client->is_single;
}

static void sweep(void *ctx)
{
    struct mcp_door *door = ctx;
    int64_t now = clock_date_ms();
    for (struct client *client = door->clients, *next; client != NULL; client = next) {
        next = client->next;
        if (is_idle(client) && now - client->used_ms > IDLE_MS)
            client_free(client);
    }
}

static void reap(void *ctx)
{
    struct mcp_door *door = ctx;
    for (struct client *client = door->clients, *next; client != NULL; client = next) {
        next = client->next;
        if (client->is_over)
            client_free(client);
    }
}

static struct mcp_door *door_of(struct api *api)
{
    if (api->mcp == NULL) {
        api->mcp = mem_alloc(sizeof *api->mcp);
        api->mcp->api = api;
        api->mcp->sweeper = timer_new(api->loop, sweep, api->mcp);
        timer_set(api->mcp->sweeper, SWEEP_MS, SWEEP_MS);
        api->mcp->reaper = timer_new(api->loop, reap, api->mcp);
    }
    return api->mcp;
}

struct mcp_door *mcp_door_free(struct mcp_door *door)
{
    if (door == NULL)
        return NULL;
    while (door->clients != NULL)
        client_free(door->clients);
    (void)timer_free(door->sweeper);
    (void)timer_free(door->reaper);
    free(door);
    return NULL;
}

/* The one of this tenant, or of all for NULL, that nobody has used for longest; NULL: all are in
 * use. */
static struct client *longest_idle(const struct mcp_door *door, const struct str *tenant,
                                   size_t *ret_count)
{
    struct client *found = NULL;
    *ret_count = 0;
    for (struct client *client = door->clients; client != NULL; client = client->next) {
        if (tenant != NULL && !str_eq(str_of(client->tenant), *tenant))
            continue;
        ++*ret_count;
        if (is_idle(client) && (found == NULL || client->used_ms <= found->used_ms))
            found = client;
    }
    return found;
}

/* One that is idle makes room: its session stays, and it goes on with that when it comes back. No
 * tenant takes the room of all. */
static int make_room(struct mcp_door *door, struct str tenant, struct err *err)
{
    size_t own, all;
    struct client *oldest_own = longest_idle(door, &tenant, &own);
    struct client *oldest = longest_idle(door, NULL, &all);
    struct client *goes = own >= TENANT_CLIENTS_MAX ? oldest_own : oldest;
    if (own < TENANT_CLIENTS_MAX && all < CLIENTS_MAX)
        return 0;
    if (goes == NULL)
        return err_set(err, ERR_LIMIT, "%zu clients are connected already",
                       own >= TENANT_CLIENTS_MAX ? own : all);
    client_free(goes);
    return 0;
}

static struct client *client_new(struct api *api, const struct engine_caller *caller,
                                 struct str session, bool is_known)
{
    struct mcp_door *door = door_of(api);
    struct client *client = mem_alloc(sizeof *client);
    *client = (struct client){.next = door->clients, .door = door, .used_ms = clock_date_ms()};
    (void)snprintf(client->session, sizeof client->session, "%.*s", STR_ARG(session));
    (void)snprintf(client->tenant, sizeof client->tenant, "%.*s", STR_ARG(caller->tenant));
    struct mcp_options options = {.engine = api->engine,
                                  .config = api->config,
                                  .loop = api->loop,
                                  .caller = *caller,
                                  .session = session,
                                  .is_known = is_known};
    client->mcp = mcp_new(&options, &mcp_calls, client);
    door->clients = client;
    door->count++;
    return client;
}

/* NULL with a reply. */
static struct client *find_client(struct request *request, struct api *api)
{
    struct err err = {0};
    struct session_info session;
    struct engine_caller caller = v1_caller(request);
    struct str id = request_header(request, SESSION_HEADER);
    if (!mcp_head_is_spoken(request))
        return NULL;
    if (id.len == 0) {
        (void)err_set(&err, ERR_INVALID, SESSION_HEADER " is missing: initialize gives one");
        reply_error(request, &err);
        return NULL;
    }
    for (struct client *client = door_of(api)->clients; client != NULL; client = client->next)
        if (!client->is_single && str_eq(str_of(client->session), id) &&
            str_eq(str_of(client->tenant), caller.tenant))
            return client;
    if (engine_session_get(api->engine, &caller, id, &session, &err) < 0 ||
        !str_eq(session.name, STR(SESSION_NAME)))
        (void)err_set(&err, ERR_NOT_FOUND, "there is no such session; initialize a new one");
    else if (make_room(door_of(api), caller.tenant, &err) == 0)
        return client_new(api, &caller, id, true);
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
    struct engine_caller caller = v1_caller(request);
    struct mcp_door *door = door_of(api);
    if (make_room(door, caller.tenant, &err) < 0) {
        reply_error(request, &err);
        return;
    }
    for (struct client *other = door->clients; other != NULL; other = other->next)
        if (other->is_single && !other->is_over && str_eq(str_of(other->session), session))
            mcp_rewatch(other->mcp);
    struct client *client = client_new(api, &caller, session, true);
    client->is_single = true;
    take_post(client, request);
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
    struct engine_caller caller = v1_caller(request);
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

/* --- Doors --- */

static void on_session(void *ctx, const struct session_info *session, const struct err *why)
{
    struct request *request = ctx;
    struct api *api = request->rules->ctx;
    struct engine_caller caller = v1_caller(request);
    if (why != NULL) {
        reply_error(request, why);
        return;
    }
    reply_header(request, SESSION_HEADER, session->id);
    take_post(client_new(api, &caller, session->id, false), request);
}

static void begin_session(struct request *request, struct api *api)
{
    struct err err = {0};
    struct engine_caller caller = v1_caller(request);
    char id[ID_SIZE];
    if (make_room(door_of(api), caller.tenant, &err) < 0) {
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
    AUTO_BUF struct buf answer = {0};
    if (!mcp_is_message(request->json)) { /* nothing would ever answer it */
        mcp_put_no_message(&answer);
        reply_json(request, 400, &answer);
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
    struct client *client = find_client(request, api);
    if (client != NULL)
        take_post(client, request);
}

static void on_stream_closed(void *ctx)
{
    struct client *client = ctx;
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

static void replay(const struct client *client, struct events *events, uint64_t stream,
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
static void resume_post(struct client *client, struct request *request, uint64_t stream,
                        uint64_t number)
{
    struct post *post = client->posts;
    while (post != NULL && post->stream != stream)
        post = post->next;
    struct events *events = post == NULL ? events_new(request, &replay_events, client)
                                         : events_new(request, &post_events, post);
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
    struct client *client = find_client(request, ctx);
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
    struct client *client = find_client(request, api);
    if (client == NULL)
        return;
    struct engine_caller caller = v1_caller(request);
    struct str id = request_header(request, SESSION_HEADER);
    client_free(client);
    request_hold(request);
    engine_session_delete(api->engine, &caller, id, v1_done, request);
}

/* clang-format off */
#define NOUN "mcp"
static const struct route_query post_query[] = {
    {"session", JSON({"type": "string", "maxLength": 64}),
     "From revision 2026-07-28 on: requests with the same name, or none, share a sandbox"}, {0},
};

const struct route mcp_routes[] = {
    {"POST", "/mcp", post, "Send messages of the Model Context Protocol", SCOPE_RUN, NOUN,
     .details = "One JSON-RPC message. Up to revision 2025-11-25 the answer to initialize carries the "
                "header Mcp-Session-Id, which every later request repeats; from 2026-07-28 on there "
                "is no initialize, and the requests of a token share a sandbox. Answers that take "
                "time come as events when Accept allows it. docs/MCP.md tells more.",
     .query = post_query,
     .request = JSON({"type": "object", "additionalProperties": true}),
     .response = JSON({"type": "object"}), .gives = FORM_EITHER,
     .errors = E(NOT_FOUND) | E(LIMIT),
     .example = "-d '{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\", \"params\": "
                "{\"protocolVersion\": \"2025-11-25\", \"capabilities\": {}, "
                "\"clientInfo\": {\"name\": \"curl\", \"version\": \"1\"}}}'"},
    {"GET", "/mcp", listen_to, "Listen to what belongs to no request", SCOPE_RUN, NOUN,
     .details = "notifications/resources/updated and its kin, as events.",
     .gives = FORM_EVENTS, .errors = E(NOT_FOUND)},
    {"DELETE", "/mcp", end_session, "End a client's session", SCOPE_RUN, NOUN,
     .details = "With its sandbox and its files.", .gives = FORM_NONE, .status = 204,
     .errors = E(NOT_FOUND) | E(BUSY) | E(CONFLICT)},
    {0},
};
/* clang-format on */
