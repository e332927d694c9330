/* The everyday calls: create, run, exec, files. Each makes its request's JSON. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

char *sg_quote(const char *text)
{
    size_t len = strlen(text), at = 0;
    char *out = malloc(len * 6 + 3);
    if (out == NULL)
        return NULL;
    out[at++] = '"';
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            out[at++] = '\\', out[at++] = (char)c;
        else if (c < 0x20)
            at += (size_t)snprintf(out + at, 7, "\\u%04x", c);
        else
            out[at++] = (char)c;
    }
    out[at++] = '"';
    out[at] = '\0';
    return out;
}

static int no_memory(sg_client *client)
{
    return sg_client_fail(client, "no_space", "out of memory");
}

/* Whatever an id holds, it leads to no other route. */
static int check_id(sg_client *client, const char *id)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t len = strlen(id);
    if (len == 0 || len >= SG_ID_SIZE || strspn(id, allowed) != len)
        return sg_client_fail(client, "invalid", "not a valid sandbox id");
    return 0;
}

int sg_create(sg_client *client, const char *spec_json, char id[SG_ID_SIZE])
{
    char *answer = NULL;
    if (sg_call(client, "POST", "/v1/sandboxes", spec_json == NULL ? "{}" : spec_json, &answer) < 0)
        return -1;
    const char *found = strstr(answer, "\"id\":\"");
    size_t len = found == NULL ? 0 : strcspn(found + 6, "\"");
    if (len > 0 && len < SG_ID_SIZE)
        (void)snprintf(id, SG_ID_SIZE, "%.*s", (int)len, found + 6);
    sg_free(answer);
    if (len == 0 || len >= SG_ID_SIZE)
        return sg_client_fail(client, "internal", "the response has no id");
    return 0;
}

int sg_delete(sg_client *client, const char *sandbox)
{
    char path[SG_ID_SIZE + 32];
    if (check_id(client, sandbox) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s", sandbox);
    return sg_call(client, "DELETE", path, NULL, NULL);
}

/* POST {first_name: first, second_name: second} to a route of the sandbox. */
static int post_two(sg_client *client, const char *sandbox, const char *route, const char *names[2],
                    const char *values[2], char **ret_json)
{
    char path[SG_ID_SIZE + 64];
    if (check_id(client, sandbox) < 0)
        return -1;
    char *first = sg_quote(values[0]), *second = values[1] == NULL ? NULL : sg_quote(values[1]);
    size_t size = (first == NULL ? 0 : strlen(first)) + (second == NULL ? 0 : strlen(second)) + 64;
    char *body = malloc(size);
    int result = -1;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/%s", sandbox, route);
    if (first == NULL || body == NULL || (values[1] != NULL && second == NULL)) {
        (void)no_memory(client);
    } else {
        if (second == NULL)
            (void)snprintf(body, size, "{\"%s\":%s}", names[0], first);
        else
            (void)snprintf(body, size, "{\"%s\":%s,\"%s\":%s}", names[0], first, names[1], second);
        result = sg_call(client, "POST", path, body, ret_json);
    }
    free(first);
    free(second);
    free(body);
    return result;
}

int sg_run(sg_client *client, const char *sandbox, const char *language, const char *code,
           char **ret_json)
{
    return post_two(client, sandbox, "run_code", (const char *[2]){"code", "language"},
                    (const char *[2]){code, language}, ret_json);
}

int sg_exec(sg_client *client, const char *sandbox, const char *command, char **ret_json)
{
    return post_two(client, sandbox, "commands", (const char *[2]){"command", NULL},
                    (const char *[2]){command, NULL}, ret_json);
}

int sg_undo(sg_client *client, const char *sandbox, const char *to, char **ret_json)
{
    return post_two(client, sandbox, "undo", (const char *[2]){"to", NULL},
                    (const char *[2]){to == NULL ? "" : to, NULL}, ret_json);
}

int sg_diff(sg_client *client, const char *sandbox, const char *from, const char *to,
            char **ret_json)
{
    if (check_id(client, sandbox) < 0)
        return -1;
    char *first = sg_escape(from == NULL ? "" : from), *second = sg_escape(to == NULL ? "" : to);
    size_t size = (first == NULL ? 0 : strlen(first)) + (second == NULL ? 0 : strlen(second)) +
                  strlen(sandbox) + 64;
    char *route = malloc(size);
    int result = -1;
    if (first == NULL || second == NULL || route == NULL) {
        (void)no_memory(client);
    } else {
        (void)snprintf(route, size, "/v1/sandboxes/%s/diff?from=%s&to=%s", sandbox, first, second);
        result = sg_call(client, "GET", route, NULL, ret_json);
    }
    free(route);
    sg_free(first);
    sg_free(second);
    return result;
}

static char *file_route(const char *sandbox, const char *path)
{
    char *escaped = sg_escape(path);
    size_t size = (escaped == NULL ? 0 : strlen(escaped)) + strlen(sandbox) + 64;
    char *route = escaped == NULL ? NULL : malloc(size);
    if (route != NULL)
        (void)snprintf(route, size, "/v1/sandboxes/%s/files?path=%s", sandbox, escaped);
    sg_free(escaped);
    return route;
}

struct bytes {
    char *ptr;
    size_t len, at;
};

static int take(void *ctx, const char *bytes, size_t len)
{
    struct bytes *all = ctx;
    char *grown = realloc(all->ptr, all->len + len + 1);
    if (grown == NULL)
        return -1;
    all->ptr = grown;
    memcpy(all->ptr + all->len, bytes, len);
    all->len += len;
    return 0;
}

static long give(void *ctx, char *out, size_t room)
{
    struct bytes *all = ctx;
    size_t count = all->len - all->at < room ? all->len - all->at : room;
    memcpy(out, all->ptr + all->at, count);
    all->at += count;
    return (long)count;
}

int sg_file_read(sg_client *client, const char *sandbox, const char *path, char **ret_bytes,
                 size_t *ret_len)
{
    struct bytes all = {0};
    if (check_id(client, sandbox) < 0)
        return -1;
    char *route = file_route(sandbox, path);
    if (route == NULL)
        return no_memory(client);
    int result = sg_download(client, route, take, &all);
    free(route);
    if (result == 0 && all.ptr == NULL)
        all.ptr = calloc(1, 1); /* an empty file */
    if (result < 0 || all.ptr == NULL) {
        free(all.ptr);
        return -1;
    }
    all.ptr[all.len] = '\0';
    *ret_bytes = all.ptr;
    *ret_len = all.len;
    return 0;
}

int sg_file_write(sg_client *client, const char *sandbox, const char *path, const char *bytes,
                  size_t len)
{
    struct bytes all = {.ptr = (char *)bytes, .len = len};
    if (check_id(client, sandbox) < 0)
        return -1;
    char *route = file_route(sandbox, path);
    if (route == NULL)
        return no_memory(client);
    int result = sg_upload(client, "PUT", route, give, &all, (int64_t)len, NULL);
    free(route);
    return result;
}

int sg_docs_add(sg_client *client, const char *spec_json, char **ret_json)
{
    return sg_call(client, "POST", "/v1/docs", spec_json, ret_json);
}

int sg_docs_search(sg_client *client, const char *query, const char *more, char **ret_json)
{
    char *escaped = sg_escape(query);
    size_t size = (escaped == NULL ? 0 : strlen(escaped)) + (more == NULL ? 0 : strlen(more)) + 32;
    char *door = escaped == NULL ? NULL : malloc(size);
    if (door != NULL)
        (void)snprintf(door, size, "/v1/docs/search?query=%s%s", escaped, more == NULL ? "" : more);
    sg_free(escaped);
    if (door == NULL)
        return no_memory(client);
    int result = sg_call(client, "GET", door, NULL, ret_json);
    free(door);
    return result;
}
