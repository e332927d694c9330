/* A client posts its messages; answers come back as JSON when they are ready at once, else as
 * events of the same reply. */

#include "api/mcp/mcp_client.h"

#include "agent/mcp.h"
#include "api/mcp/mcp_endpoint.h"
#include "base/clock.h"
#include "io/loop.h"

enum { CLIENTS_MAX = 1000, TENANT_CLIENTS_MAX = 250, SWEEP_MS = 60000, IDLE_MS = 30 * 60000 };

/* --- Posts --- */

static void post_free(struct mcp_post *post)
{
    struct mcp_post **at = &post->client->posts;
    while (*at != post)
        at = &(*at)->next;
    *at = post->next;
    free(post->id);
    free(post->kept);
    free(post);
}

static void end_single(struct mcp_client *client)
{
    if (!client->is_single || client->is_over)
        return;
    client->is_over = true;
    timer_set(client->endpoint->reaper, 0, 0);
}

/* Its client went away: the answers have nowhere to go. */
static void on_post_closed(void *ctx)
{
    struct mcp_post *post = ctx;
    post->events = NULL;
    post->is_gone = true;
    end_single(post->client);
}

static void on_post_gone(void *ctx)
{
    struct mcp_post *post = ctx;
    end_single(post->client);
}

const struct events_calls mcp_post_events = {.on_closed = on_post_closed, .ends_itself = true};

static void reply_kept(struct mcp_post *post)
{
    AUTO_BUF struct buf text = {0};
    if (post->kept == NULL) { /* nothing was asked, or it was canceled */
        reply_empty(post->request, 202);
        return;
    }
    buf_put_cstr(&text, post->kept);
    reply_json(post->request, 200, &text);
}

static void mcp_client_finish(struct mcp_post *post)
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

static struct mcp_post *post_of(struct mcp_client *client, struct str id)
{
    for (struct mcp_post *post = client->posts; post != NULL; post = post->next)
        if (post->id != NULL && str_eq(str_of(post->id), id))
            return post;
    return NULL;
}

static void on_message(void *ctx, struct str about, bool is_last, struct str json)
{
    struct mcp_client *client = ctx;
    struct mcp_post *post = post_of(client, about);
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
        mcp_client_finish(post);
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
static void reply_initialize(struct request *request, const struct mcp_post *post)
{
    char id[MCP_LOG_ID_SIZE];
    if (!str_eq(request_header(request, "MCP-Protocol-Version"), STR("2025-11-25")))
        return;
    mcp_log_id(post->stream, post->client->log.number, id);
    events_put(post->events, "message", str_of(id), (struct str){0});
}

static void open_stream(struct mcp_post *post, struct request *request)
{
    post->request = NULL;
    post->stream = ++post->client->streams;
    post->events = events_new(request, &mcp_post_events, post);
    reply_initialize(request, post);
}

void mcp_client_take(struct mcp_client *client, struct request *request)
{
    struct mcp_post *post = mem_alloc(sizeof *post);
    *post = (struct mcp_post){.next = client->posts,
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
        mcp_client_finish(post);
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

void mcp_client_free(struct mcp_client *client)
{
    struct mcp_endpoint *endpoint = client->endpoint;
    for (struct mcp_client **at = &endpoint->clients; *at != NULL; at = &(*at)->next)
        if (*at == client) {
            *at = client->next;
            break;
        }
    endpoint->count--;
    client->mcp = mcp_free(client->mcp);
    mcp_log_done(&client->log);
    if (client->stream != NULL) {
        events_end(client->stream);
        events_forget(client->stream);
    }
    for (struct mcp_post *post = client->posts, *next; post != NULL; post = next) {
        next = post->next;
        mcp_client_finish(post);
    }
    free(client);
}

static bool is_idle(const struct mcp_client *client)
{
    return client->posts == NULL && client->stream == NULL && !client->is_single;
}

static void sweep(void *ctx)
{
    struct mcp_endpoint *endpoint = ctx;
    int64_t now = clock_date_ms();
    for (struct mcp_client *client = endpoint->clients, *next; client != NULL; client = next) {
        next = client->next;
        if (is_idle(client) && now - client->used_ms > IDLE_MS)
            mcp_client_free(client);
    }
}

static void reap(void *ctx)
{
    struct mcp_endpoint *endpoint = ctx;
    for (struct mcp_client *client = endpoint->clients, *next; client != NULL; client = next) {
        next = client->next;
        if (client->is_over)
            mcp_client_free(client);
    }
}

struct mcp_endpoint *mcp_clients_of(struct api *api)
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

struct mcp_endpoint *mcp_endpoint_free(struct mcp_endpoint *endpoint)
{
    if (endpoint == NULL)
        return NULL;
    while (endpoint->clients != NULL)
        mcp_client_free(endpoint->clients);
    (void)timer_free(endpoint->sweeper);
    (void)timer_free(endpoint->reaper);
    free(endpoint);
    return NULL;
}

/* The one of this tenant, or of all for NULL, that was unused for the longest time; NULL: all are
 * in use. */
static struct mcp_client *longest_idle(const struct mcp_endpoint *endpoint,
                                       const struct str *tenant, size_t *ret_count)
{
    struct mcp_client *found = NULL;
    *ret_count = 0;
    for (struct mcp_client *client = endpoint->clients; client != NULL; client = client->next) {
        if (tenant != NULL && !str_eq(str_of(client->tenant), *tenant))
            continue;
        ++*ret_count;
        if (is_idle(client) && (found == NULL || client->used_ms <= found->used_ms))
            found = client;
    }
    return found;
}

int mcp_clients_make_room(struct mcp_endpoint *endpoint, struct str tenant, struct err *err)
{
    size_t own, all;
    struct mcp_client *oldest_own = longest_idle(endpoint, &tenant, &own);
    struct mcp_client *oldest = longest_idle(endpoint, NULL, &all);
    struct mcp_client *goes = own >= TENANT_CLIENTS_MAX ? oldest_own : oldest;
    if (own < TENANT_CLIENTS_MAX && all < CLIENTS_MAX)
        return 0;
    if (goes == NULL)
        return err_set(err, ERR_LIMIT, "already %zu clients connected",
                       own >= TENANT_CLIENTS_MAX ? own : all);
    mcp_client_free(goes);
    return 0;
}

struct mcp_client *mcp_client_new(struct api *api, const struct engine_caller *caller,
                                  struct str session, bool is_known)
{
    struct mcp_endpoint *endpoint = mcp_clients_of(api);
    struct mcp_client *client = mem_alloc(sizeof *client);
    *client = (struct mcp_client){
        .next = endpoint->clients, .endpoint = endpoint, .used_ms = clock_date_ms()};
    (void)snprintf(client->session, sizeof client->session, "%.*s", STR_ARG(session));
    (void)snprintf(client->tenant, sizeof client->tenant, "%.*s", STR_ARG(caller->tenant));
    struct mcp_options options = {.engine = api->engine,
                                  .config = api->config,
                                  .loop = api->loop,
                                  .caller = *caller,
                                  .session = session,
                                  .is_known = is_known};
    client->mcp = mcp_new(&options, &mcp_calls, client);
    endpoint->clients = client;
    endpoint->count++;
    return client;
}
