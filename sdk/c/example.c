/* Runs Python in a fresh sandbox: of the server that SANDGLASS_URL and SANDGLASS_TOKEN name, or,
 * called with a path, of a server of its own.   cc example.c -lsandglass_client -lcurl */
#include <stdio.h>
#include <string.h>

#include "sandglass.h"

static int fail(sg_client *client, const char *what)
{
    (void)fprintf(stderr, "%s: %s (%s)\n", what, sg_error(client), sg_error_code(client));
    sg_close(client);
    return 1;
}

int main(int argc, char **argv)
{
    sg_client *client = argc > 1 ? sg_open_local(argv[1]) : sg_open(NULL, NULL);
    char sandbox[SG_ID_SIZE], *answer = NULL;
    size_t len = 0;
    if (client == NULL)
        return (void)fprintf(stderr, "no server, or no token\n"), 1;
    if (sg_create(client, "{\"tier\": \"jail\"}", sandbox) < 0)
        return fail(client, "create");

    if (sg_file_write(client, sandbox, "/workspace/data.txt", "1 2 3\n", strlen("1 2 3\n")) < 0)
        return fail(client, "write");
    if (sg_run(client, sandbox, "python", "sum(map(int, open('data.txt').read().split()))",
               &answer) < 0)
        return fail(client, "run");
    (void)printf("%s\n", strstr(answer, "\"result\":6") != NULL ? "the sum is 6" : answer);
    sg_free(answer);
    if (sg_exec(client, sandbox, "wc -c <data.txt >size.txt", NULL) < 0)
        return fail(client, "exec");
    if (sg_file_read(client, sandbox, "/workspace/size.txt", &answer, &len) < 0)
        return fail(client, "read");
    (void)printf("%.*s", (int)len, answer);
    sg_free(answer);
    if (sg_delete(client, sandbox) < 0)
        return fail(client, "delete");
    sg_close(client);
    return 0;
}
