/* Approvals through the C library: requests one, and prints what became of a decision about it.
 * Arguments: the text of the subject and note. The token of SANDGLASS_TOKEN may approve. */

#include <stdio.h>
#include <string.h>

#include "sandglass.h"

static int member(const char *json, const char *name, char *out, size_t size)
{
    char key[32];
    (void)snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = strstr(json, key);
    if (at == NULL)
        return -1;
    at += strlen(key);
    (void)snprintf(out, size, "%.*s", (int)strcspn(at, "\""), at);
    return 0;
}

static int failed(const sg_client *client, const char *what)
{
    (void)fprintf(stderr, "%s: %s: %s\n", what, sg_error_code(client), sg_error(client));
    return 1;
}

int main(int argc, char **argv)
{
    char id[SG_ID_SIZE], digest[80], status[16];
    char *json = NULL;
    sg_client *client = argc == 2 ? sg_open(NULL, NULL) : NULL;
    if (client == NULL)
        return 2;
    if (sg_approval_request(client, "{\"kind\":\"custom\",\"subject\":\"c\",\"title\":\"From C\"}",
                            &json) < 0)
        return failed(client, "request");
    if (member(json, "id", id, sizeof id) < 0 || member(json, "digest", digest, sizeof digest) < 0)
        return 3;
    sg_free(json);
    if (sg_approval_list(client, "pending", &json) < 0)
        return failed(client, "list");
    (void)printf("listed %d\n", strstr(json, id) != NULL);
    sg_free(json);
    if (sg_approval_decide(client, id, 1, "another", NULL, NULL, NULL) == 0)
        return 4;
    (void)printf("refused %s\n", sg_error_code(client));
    if (sg_approval_decide(client, id, 0, "c", digest, argv[1], NULL) < 0)
        return failed(client, "decide");
    if (sg_approval_get(client, id, &json) < 0 || member(json, "status", status, sizeof status) < 0)
        return failed(client, "get");
    (void)printf("%s %s\n", status, json);
    sg_free(json);
    sg_close(client);
    return 0;
}
