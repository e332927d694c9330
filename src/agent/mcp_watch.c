/* Subscriptions: one watch over all of /workspace, for what resources/subscribe has named and for
 * the streams that subscriptions/listen keeps open. */

#include "agent/mcp_internal.h"

#define ROOT MCP_FILE_ROOT

enum { LISTENS_MAX = 32, LISTEN_URIS_MAX = 256 };

/* A subscription of its own, until it is canceled or its client goes. */
struct mcp_listen {
    struct mcp_listen *next;
    struct mcp_asked asked; /* its id is `id` */
    char *id;
    bool wants_list;
    struct map paths; /* path -> itself */
};

/* --- Telling --- */

static void put_subscription(struct json_out *out, struct str id)
{
    json_key(out, "_meta");
    json_begin_object(out);
    json_key(out, MCP_META "subscriptionId"), mcp_put_json(out, id);
    json_end_object(out);
}

/* To a subscription, or to the client as a whole for NULL. */
static void mcp_watch_tell(struct mcp *mcp, const struct mcp_listen *listen, const char *method,
                           struct str uri)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    struct str about = listen == NULL ? (struct str){0} : listen->asked.id;
    json_begin_object(mcp_begin_note(&out, &text, method));
    if (listen != NULL)
        put_subscription(&out, about);
    if (uri.len > 0)
        json_key(&out, "uri"), json_put_str(&out, uri);
    json_end_object(&out);
    mcp_send_note(mcp, about, &out);
}

static void tell_updated(struct mcp *mcp, struct str path)
{
    AUTO_BUF struct buf uri = {0};
    mcp_put_uri(&uri, str_slice(path, strlen(ROOT), path.len));
    if (map_has(&mcp->subscriptions, path))
        mcp_watch_tell(mcp, NULL, "notifications/resources/updated", buf_str(&uri));
    for (const struct mcp_listen *at = mcp->listens; at != NULL; at = at->next)
        if (map_has(&at->paths, path))
            mcp_watch_tell(mcp, at, "notifications/resources/updated", buf_str(&uri));
}

static void tell_list_changed(struct mcp *mcp)
{
    struct str none = {0};
    if (mcp->subscriptions.len > 0)
        mcp_watch_tell(mcp, NULL, "notifications/resources/list_changed", none);
    for (const struct mcp_listen *at = mcp->listens; at != NULL; at = at->next)
        if (at->wants_list)
            mcp_watch_tell(mcp, at, "notifications/resources/list_changed", none);
}

/* --- The watch --- */

static void mcp_watch_on_event(void *ctx, const struct file_event *event)
{
    struct mcp *mcp = ctx;
    AUTO_BUF struct buf path = {0};
    /* Below the watched directory, or whole. */
    if (event->path.len == 0 || event->path.ptr[0] != '/')
        buf_put_cstr(&path, ROOT "/");
    buf_put(&path, event->path);
    tell_updated(mcp, buf_str(&path));
    if (event->change != FILE_MODIFIED && !event->is_directory)
        tell_list_changed(mcp);
}

/* The sandbox rests: the next call wakes it, and the watch with it. */
static void on_watch_end(void *ctx, UNUSED const struct err *why)
{
    struct mcp *mcp = ctx;
    mcp->watcher = file_watcher_free(mcp->watcher);
}

static const struct file_watch_calls watch_calls = {mcp_watch_on_event, on_watch_end};

static bool is_watched(const struct mcp *mcp)
{
    bool is_wanted = mcp->subscriptions.len > 0;
    for (const struct mcp_listen *at = mcp->listens; at != NULL; at = at->next)
        is_wanted = is_wanted || at->wants_list || at->paths.len > 0;
    return is_wanted;
}

void mcp_rewatch(struct mcp *mcp)
{
    struct file_place place = {.session = mcp->context.session};
    struct err err = {0};
    if (mcp->watcher == NULL && is_watched(mcp))
        (void)!engine_file_watch(mcp->context.engine, &mcp->context.caller, &place, STR(ROOT), true,
                                 &watch_calls, mcp, &mcp->watcher, &err);
}

static void unwatch(struct mcp *mcp)
{
    if (!is_watched(mcp))
        mcp->watcher = file_watcher_free(mcp->watcher);
}

/* --- resources/subscribe, resources/unsubscribe --- */

void mcp_subscribe(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params)
{
    AUTO_BUF struct buf path = {0};
    struct str uri;
    if (!mcp_uri_of(mcp, asked, params, &uri, &path))
        return;
    (void)map_put(&mcp->subscriptions, buf_str(&path), mcp);
    mcp_rewatch(mcp);
    mcp_send_empty(mcp, asked);
}

void mcp_unsubscribe(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params)
{
    AUTO_BUF struct buf path = {0};
    struct str uri;
    if (!mcp_uri_of(mcp, asked, params, &uri, &path))
        return;
    (void)map_remove(&mcp->subscriptions, buf_str(&path));
    unwatch(mcp);
    mcp_send_empty(mcp, asked);
}

/* --- subscriptions/listen --- */

static struct mcp_listen **find_listen(struct mcp *mcp, struct str id, size_t *ret_count)
{
    struct mcp_listen **at = &mcp->listens;
    for (*ret_count = 0; *at != NULL && !str_eq((*at)->asked.id, id); at = &(*at)->next)
        ++*ret_count;
    return at;
}

static void listen_free(struct mcp_listen *listen)
{
    map_done(&listen->paths);
    free(listen->id);
    free(listen);
}

/* What is honored of what was asked for; a URI that is not ours is left out. Tools and prompts
 * never change. */
static void put_accepted(struct mcp_listen *listen, const struct json_t *wanted,
                         struct json_out *out)
{
    const struct json_t *uris = json_get(wanted, "resourceSubscriptions");
    json_key(out, "notifications");
    json_begin_object(out);
    (void)!json_to_bool(json_get(wanted, "resourcesListChanged"), &listen->wants_list);
    if (listen->wants_list)
        json_key(out, "resourcesListChanged"), json_put_bool(out, true);
    if (uris != NULL && json_kind(uris) == JSON_KIND_ARRAY) {
        json_key(out, "resourceSubscriptions");
        json_begin_array(out);
        for (size_t i = 0; i < json_len(uris) && listen->paths.len < LISTEN_URIS_MAX; i++) {
            AUTO_BUF struct buf path = {0};
            struct str uri;
            if (!json_to_str(json_at(uris, i), &uri) || !mcp_path_of(uri, &path))
                continue;
            (void)map_put(&listen->paths, buf_str(&path), listen);
            json_put_str(out, uri);
        }
        json_end_array(out);
    }
    json_end_object(out);
}

static void acknowledge(struct mcp *mcp, struct mcp_listen *listen, const struct json_t *wanted)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out;
    json_begin_object(mcp_begin_note(&out, &text, "notifications/subscriptions/acknowledged"));
    put_subscription(&out, listen->asked.id);
    put_accepted(listen, wanted, &out);
    json_end_object(&out);
    mcp_send_note(mcp, listen->asked.id, &out);
}

void mcp_listen(struct mcp *mcp, const struct mcp_asked *asked, const struct json_t *params)
{
    const struct json_t *wanted = json_get(params, "notifications");
    size_t count;
    struct mcp_listen **end = find_listen(mcp, asked->id, &count);
    if (!mcp_is_object(wanted)) {
        mcp_send_error(mcp, asked->id, RPC_PARAMS, "notifications: must be an object");
        return;
    }
    if (*end != NULL || count == LISTENS_MAX) {
        mcp_send_error(mcp, asked->id, RPC_PARAMS,
                       *end != NULL ? "a subscription with this id already exists"
                                    : "already 32 subscriptions: end one of them first");
        return;
    }
    struct mcp_listen *listen = mem_alloc(sizeof *listen);
    *listen = (struct mcp_listen){.asked = *asked, .id = mem_dup(asked->id.ptr, asked->id.len)};
    listen->asked.id = str_n(listen->id, asked->id.len);
    listen->asked.is_listen = true;
    *end = listen;
    acknowledge(mcp, listen, wanted);
    mcp_rewatch(mcp);
}

bool mcp_unlisten(struct mcp *mcp, struct str id)
{
    size_t count;
    struct mcp_listen **at = find_listen(mcp, id, &count), *listen = *at;
    if (listen == NULL)
        return false;
    *at = listen->next;
    unwatch(mcp);
    mcp->calls->on_message(mcp->ctx, listen->asked.id, true, (struct str){0});
    listen_free(listen);
    return true;
}

void mcp_watch_done(struct mcp *mcp)
{
    while (mcp->listens != NULL) {
        struct mcp_listen *listen = mcp->listens;
        mcp->listens = listen->next;
        mcp_send_empty(mcp, &listen->asked);
        listen_free(listen);
    }
    mcp->watcher = file_watcher_free(mcp->watcher);
    map_done(&mcp->subscriptions);
}
