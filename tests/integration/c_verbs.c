/* Calls of the C library against the server of SANDGLASS_URL: prints a name and the answer of each,
 * one per line. */

#include <stdio.h>
#include <string.h>

#include "sandglass.h"

static int failed(const sg_client *client, const char *what)
{
    (void)fprintf(stderr, "%s: %s: %s\n", what, sg_error_code(client), sg_error(client));
    return 1;
}

static void show(const char *name, char *answer)
{
    (void)printf("%s %.*s\n", name, (int)strcspn(answer, "\n"), answer);
    sg_free(answer);
}

static int run_code(sg_client *client, const char *sandbox)
{
    char *answer = NULL;
    if (sg_run(client, sandbox, "python", "x = 41", NULL) < 0 ||
        sg_run(client, sandbox, "python", "x", &answer) < 0)
        return failed(client, "run");
    show("kept", answer);
    if (sg_run(client, sandbox, "python", "import os; os._exit(3)", &answer) < 0)
        return failed(client, "run that ends its interpreter");
    show("lost", answer);
    return 0;
}

static int go_back(sg_client *client, const char *sandbox)
{
    char *answer = NULL;
    size_t len = 0;
    if (sg_exec(client, sandbox, "echo one >note", NULL) < 0 ||
        sg_exec(client, sandbox, "echo two >note", NULL) < 0)
        return failed(client, "exec");
    if (sg_diff(client, sandbox, NULL, NULL, &answer) < 0)
        return failed(client, "diff");
    show("diff", answer);
    if (sg_undo(client, sandbox, NULL, &answer) < 0)
        return failed(client, "undo");
    show("undo", answer);
    if (sg_file_read(client, sandbox, "/workspace/note", &answer, &len) < 0)
        return failed(client, "read");
    show("note", answer);
    if (sg_diff(client, sandbox, NULL, NULL, &answer) < 0)
        return failed(client, "diff");
    show("since", answer);
    if (sg_diff(client, sandbox, "another one", NULL, &answer) == 0)
        return 3;
    (void)printf("unknown %s\n", sg_error(client));
    if (sg_undo(client, sandbox, "another one", &answer) == 0)
        return 3;
    (void)printf("nowhere %s\n", sg_error(client));
    if (sg_undo(client, "no/id", NULL, &answer) == 0)
        return 3;
    (void)printf("refused %s %s\n", sg_error_code(client), sg_error(client));
    return 0;
}

static int search(sg_client *client)
{
    char *answer = NULL;
    if (sg_docs_add(client,
                    "{\"name\": \"guide.md\", \"package\": \"@acme/sdk\", "
                    "\"text\": \"# Guide\\n\\n## Birds\\n\\nCall createPenguin & wait.\\n\"}",
                    &answer) < 0)
        return failed(client, "docs add");
    show("added", answer);
    if (sg_docs_search(client, "createPenguin & wait?", "&package=%40acme%2Fsdk", &answer) < 0)
        return failed(client, "docs search");
    show("found", answer);
    if (sg_docs_search(client, "createPenguin", "&package=other", &answer) < 0)
        return failed(client, "docs search");
    show("elsewhere", answer);
    return 0;
}

int main(void)
{
    char sandbox[SG_ID_SIZE];
    sg_client *client = sg_open(NULL, NULL);
    if (client == NULL)
        return 2;
    if (sg_create(client, "{\"tier\": \"jail\", \"checkpoints\": \"turn\"}", sandbox) < 0)
        return failed(client, "create");
    int result = run_code(client, sandbox);
    if (result == 0)
        result = go_back(client, sandbox);
    if (result == 0)
        result = search(client);
    sg_close(client);
    return result;
}
