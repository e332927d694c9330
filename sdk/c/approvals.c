/* Approvals: what waits for a person's decision. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

int sg_approval_request(sg_client *client, const char *spec_json, char **ret_json)
{
    return sg_call(client, "POST", "/v1/approvals", spec_json, ret_json);
}

/* A route with one text in it, escaped. */
static int call_with(sg_client *client, const char *method, const char *route, const char *text,
                     const char *json, char **ret_json)
{
    char *escaped = sg_escape(text);
    size_t size = strlen(route) + (escaped == NULL ? 0 : strlen(escaped)) + 1;
    char *path = malloc(size);
    int result = -1;
    if (escaped == NULL || path == NULL) {
        (void)sg_client_fail(client, "no_space", "out of memory");
    } else {
        (void)snprintf(path, size, "%s%s", route, escaped);
        result = sg_call(client, method, path, json, ret_json);
    }
    free(path);
    sg_free(escaped);
    return result;
}

/* "", "." and ".." would lead to another route. */
static int check_name(sg_client *client, const char *id)
{
    if (strcmp(id, "") == 0 || strcmp(id, ".") == 0 || strcmp(id, "..") == 0)
        return sg_client_fail(client, "invalid", "not a valid approval id");
    return 0;
}

int sg_approval_list(sg_client *client, const char *status, char **ret_json)
{
    if (status == NULL)
        return sg_call(client, "GET", "/v1/approvals", NULL, ret_json);
    return call_with(client, "GET", "/v1/approvals?status=", status, NULL, ret_json);
}

int sg_approval_get(sg_client *client, const char *id, char **ret_json)
{
    if (check_name(client, id) < 0)
        return -1;
    return call_with(client, "GET", "/v1/approvals/", id, NULL, ret_json);
}

/* Adds `,"name":"text"` behind *json, which moves; false when there is no memory. NULL adds
 * nothing.
 */
static int add_member(char **json, const char *name, const char *text)
{
    char *quoted = text == NULL ? NULL : sg_quote(text);
    if (text == NULL)
        return 1;
    size_t len = strlen(*json);
    size_t room = quoted == NULL ? 0 : strlen(name) + strlen(quoted) + 5;
    char *longer = quoted == NULL ? NULL : realloc(*json, len + room);
    if (longer != NULL) {
        (void)snprintf(longer + len, room, ",\"%s\":%s", name, quoted);
        *json = longer;
    }
    free(quoted);
    return longer != NULL;
}

int sg_approval_decide(sg_client *client, const char *id, int approved, const char *subject,
                       const char *digest, const char *note, char **ret_json)
{
    enum { ROOM = 32 };
    int result = -1;
    if (check_name(client, id) < 0)
        return -1;
    char *body = malloc(ROOM), *whole = NULL;
    if (body != NULL)
        (void)snprintf(body, ROOM, "{\"approved\":%s", approved ? "true" : "false");
    if (body == NULL || !add_member(&body, "subject", subject) ||
        !add_member(&body, "digest", digest) || !add_member(&body, "note", note) ||
        (whole = realloc(body, strlen(body) + 2)) == NULL) {
        free(body);
        return sg_client_fail(client, "no_space", "out of memory");
    }
    memcpy(whole + strlen(whole), "}", 2);
    result = call_with(client, "POST", "/v1/approvals/", id, whole, ret_json);
    free(whole);
    return result;
}
