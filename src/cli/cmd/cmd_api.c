/* sandglass api ...: the HTTP API as a document for programs, and as the page made from it. */

#include "api/route/openapi.h"
#include "api/route/route.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "cli/cmd/commands.h"

static int cmd_api_print(void (*put)(const struct route *routes, struct buf *out), struct err *err)
{
    struct route *routes = NULL;
    AUTO_BUF struct buf out = {0};
    if (routes_new(api_tables, &routes, err) < 0)
        return -1;
    put(routes, &out);
    routes = routes_free(routes);
    cli_print(buf_str(&out));
    return EXIT_OK;
}

static int schema(UNUSED const struct cli_call *call, struct err *err)
{
    return cmd_api_print(openapi_put, err);
}

static int docs(UNUSED const struct cli_call *call, struct err *err)
{
    return cmd_api_print(openapi_put_docs, err);
}

const struct cli_verb cmd_api_schema = {
    .name = "api schema",
    .args = "",
    .summary = "Print the HTTP API as an OpenAPI 3.1 document",
    .run = schema,
};

const struct cli_verb cmd_api_docs = {
    .name = "api docs",
    .args = "",
    .summary = "Print docs/API.md",
    .hidden = true,
    .run = docs,
};
