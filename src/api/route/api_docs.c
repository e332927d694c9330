/* docs/API.md from the table. */

#include "api/route/openapi.h"
#include "api/route/route.h"
#include "base/err.h"
#include "base/format/json.h"
#include "base/format/schema.h"

static const char *const nouns[][2] = {
    {"server", "The server itself"},
    {"run_code", "Run code"},
    {"contexts", "Contexts: interpreters that keep their variables"},
    {"checkpoints", "Checkpoints of /workspace: undo and diff"},
    {"sandboxes", "Sandboxes"},
    {"commands", "Commands"},
    {"files", "Files"},
    {"ports", "Exposed ports"},
    {"sessions", "Sessions"},
    {"tools", "Tools"},
    {"mcp", "Model Context Protocol"},
    {"docs", "Documents and their search"},
    {"volumes", "Volumes"},
    {"zones", "Zones"},
    {"snapshots", "Snapshots"},
    {"events", "Events"},
    {"approvals", "Approvals"},
    {"tokens", "Tokens"},
};

static const char intro[] =
    "# HTTP API\n"
    "\n"
    "<!-- Written by `sandglass api docs` from the route tables in src/api; do not edit. -->\n"
    "\n"
    "All paths are relative to the address that `sandglass serve` prints. Send the token with each "
    "request:\n"
    "`Authorization: Bearer $TOKEN`. `/openapi.json` describes the same routes (OpenAPI 3.1).\n"
    "\n"
    "- **Bodies** are JSON with `Content-Type: application/json`, except where an operation says "
    "raw bytes. Unknown\n"
    "  members and query parameters are rejected with an error that names them.\n"
    "- **Errors** are `{\"error\":{\"code\",\"message\",\"path\"?,\"requestId\"}}`; the code "
    "determines the\n"
    "  status. Any request can fail with `invalid` (400), `unauthorized` (401), `forbidden` (403, "
    "the token lacks the\n"
    "  scope), `misdirected` (421), `limit_reached` (429, with `Retry-After`), `unavailable` (503, "
    "the server is\n"
    "  stopping). An id of another tenant is `not_found`, like an id that does not exist.\n"
    "- **`X-Request-Id`** is taken from the request or generated, and is in the response and in "
    "the log.\n"
    "- **`Idempotency-Key`** where an operation lists it: a sandbox, session, volume, fork, "
    "checkpoint, snapshot or approval is\n"
    "  created once, and the same key with the same request returns it again, also after a restart "
    "of the server; a request\n"
    "  that arrives while the first call is running gets the response of that call. A command is "
    "started once, and the same\n"
    "  key again is a `conflict` that names it. A key with a different request is a `conflict` "
    "too. Keys are kept for a day.\n"
    "- **Streams** of events are `text/event-stream`, or one JSON object per line with `Accept: "
    "application/x-ndjson`.\n"
    "  A heartbeat is sent after 15 s without events. A stream of events with ids can be resumed "
    "after an id with `Last-Event-ID` (or\n"
    "  `?after=`). When the server stops, the last event is `end`.\n"
    "- **Lists** come in pages: `?limit=` and `?after=`, with `next` in the response, null at the "
    "end.\n"
    "- **Compression**: JSON larger than 1 KiB is compressed if the request has `Accept-Encoding: "
    "gzip`.\n"
    "- **CORS** is off. `server.cors_origins` names pages that may use the API.\n"
    "\n"
    "Examples expect `$URL` (such as http://127.0.0.1:7070), `$TOKEN`, and ids in `$SANDBOX`, "
    "`$COMMAND`, `$SESSION`,\n"
    "`$VOLUME`, `$SNAPSHOT`, `$APPROVAL` and `$TOKEN_ID`.\n";

static void put_query(const struct route *row, struct buf *out)
{
    if (row->query == NULL)
        return;
    buf_put_cstr(out, "\nQuery:\n\n");
    for (const struct route_query *query = row->query; query->name != NULL; query++)
        buf_printf(out, "- `%s`: %s\n", query->name, query->help);
}

static bool is_required(const struct json_t *schema, struct str name)
{
    const struct json_t *required = json_get(schema, "required");
    for (size_t i = 0; required != NULL && i < json_len(required); i++) {
        struct str item;
        if (json_to_str(json_at(required, i), &item) && str_eq(item, name))
            return true;
    }
    return false;
}

static void api_docs_put_members(const struct json_t *schema, int depth, struct buf *out)
{
    struct json_t *properties = json_get(schema, "properties"), *member;
    struct str name;
    void *iter = NULL;
    while (properties != NULL && json_next(properties, &iter, &name, &member)) {
        struct str help = {0}, choice;
        buf_printf(out, "%*s- `%.*s` (", depth * 2, "", STR_ARG(name));
        schema_put_type(member, out);
        buf_put_cstr(out, is_required(schema, name) ? ", required)" : ")");
        const struct json_t *choices = json_get(member, "enum");
        for (size_t i = 0; choices != NULL && i < json_len(choices); i++)
            if (json_to_str(json_at(choices, i), &choice))
                buf_printf(out, "%s`%.*s`", i == 0 ? ": " : ", ", STR_ARG(choice));
        if (json_to_str(json_get(member, "description"), &help))
            buf_printf(out, "%s%.*s", choices == NULL ? ": " : "; ", STR_ARG(help));
        buf_put_char(out, '\n');
        api_docs_put_members(member, depth + 1, out);
    }
}

static void put_answer(const struct route *row, struct buf *out)
{
    int status = row->status == 0 ? 200 : row->status;
    static const char *const forms[] = {
        [FORM_JSON] = "JSON",
        [FORM_BYTES] = "raw bytes",
        [FORM_TEXT] = "text",
        [FORM_EVENTS] = "a stream of events",
        [FORM_EITHER] = "JSON, or a stream of events if `Accept` asks for one",
        [FORM_SOCKET] = "a WebSocket",
        [FORM_NONE] = "nothing",
        [FORM_PROXY] = "the response of the server in the sandbox",
    };
    if (row->gives == FORM_SOCKET)
        status = 101;
    buf_printf(out, "\nAnswers %d with %s", status, forms[row->gives]);
    if (row->response != NULL && row->response[0] != '{')
        buf_printf(out, ", `%s`", row->response);
    buf_put_cstr(out, ".");
    bool any = false;
    for (enum err_code code = 0; code < ERR_COUNT; code++) {
        if ((row->errors & (UINT64_C(1) << code)) == 0)
            continue;
        buf_printf(out, "%s`%s`", any ? ", " : " Fails with ", err_wire_name(code));
        any = true;
    }
    buf_put_cstr(out, any ? ".\n" : "\n");
}

/* "$SANDBOX" for {id} of a path below /v1/sandboxes. */
static void put_example_path(const char *pattern, struct buf *out)
{
    static const char *const ids[][2] = {
        {"/v1/sandboxes/", "$SANDBOX"},  {"/v1/commands/", "$COMMAND"},
        {"/v1/sessions/", "$SESSION"},   {"/v1/volumes/", "$VOLUME"},
        {"/v1/snapshots/", "$SNAPSHOT"}, {"/v1/tokens/", "$TOKEN_ID"},
        {"/v1/approvals/", "$APPROVAL"},
    };
    const char *id = "$ID";
    for (size_t i = 0; i < countof(ids); i++)
        if (str_starts(str_of(pattern), str_of(ids[i][0])))
            id = ids[i][1];
    for (const char *c = pattern; *c != '\0'; c++) {
        if (str_starts(str_of(c), STR("{id}"))) {
            buf_put_cstr(out, id);
            c += 3;
        } else if (str_starts(str_of(c), STR("{port}"))) {
            buf_put_cstr(out, "8000");
            c += 5;
        } else if (*c == '{') {
            break;
        } else {
            buf_put_char(out, *c);
        }
    }
}

static void put_example(const struct route *row, struct buf *out)
{
    if (row->example == NULL)
        return;
    struct str query = {0}, args = str_of(row->example);
    if (args.len > 0 && args.ptr[0] == '?') {
        size_t end = str_find_char(args, ' ');
        query = str_slice(args, 0, end);
        args = str_slice(args, end + 1, args.len);
    }
    buf_put_cstr(out, "\n```sh\ncurl ");
    if (strcmp(row->method, "GET") != 0 && strcmp(row->method, "*") != 0)
        buf_printf(out, "-X %s ", row->method);
    if (row->scope != SCOPE_OPEN)
        buf_put_cstr(out, "-H \"Authorization: Bearer $TOKEN\" ");
    if (row->request != NULL && row->takes == FORM_JSON && args.len > 0)
        buf_put_cstr(out, "-H 'Content-Type: application/json' ");
    if (args.len > 0)
        buf_printf(out, "%.*s ", STR_ARG(args));
    buf_put_cstr(out, "\"$URL");
    put_example_path(row->pattern, out);
    buf_printf(out, "%.*s\"\n```\n", STR_ARG(query));
}

static void api_docs_put_row(const struct route *row, struct buf *out)
{
    AUTO_BUF struct buf path = {0};
    openapi_put_path(row->pattern, &path);
    bool asks = str_ends(str_of(row->summary), STR("?"));
    buf_printf(out, "\n### %s `%s`\n\n%s%s", strcmp(row->method, "*") == 0 ? "ANY" : row->method,
               buf_cstr(&path), row->summary, asks ? "" : ".");
    if (row->details != NULL)
        buf_printf(out, " %s", row->details);
    if (row->scope == SCOPE_OPEN)
        buf_put_cstr(out, " Needs no token.\n");
    else
        buf_printf(out, " Scope `%s`.%s\n", scope_name(row->scope),
                   row->is_create ? " Takes `Idempotency-Key`." : "");
    put_query(row, out);
    if (row->takes == FORM_BYTES)
        buf_put_cstr(out, "\nThe body is raw bytes.\n");
    if (row->schema != NULL && json_len(json_get(row->schema, "properties")) > 0) {
        buf_put_cstr(out, "\nBody:\n\n");
        api_docs_put_members(row->schema, 0, out);
    }
    put_answer(row, out);
    put_example(row, out);
}

static bool is_repeat(const struct route *row)
{
    struct str pattern = str_of(row->pattern);
    return strcmp(row->noun, "files") == 0 && !str_starts(pattern, STR("/v1/sandboxes/"));
}

void openapi_put_docs(const struct route *routes, struct buf *out)
{
    buf_put_cstr(out, intro);
    for (size_t i = 0; i < countof(nouns); i++) {
        bool has_head = false;
        for (const struct route *row = routes; row->pattern != NULL; row++) {
            if (strcmp(row->noun, nouns[i][0]) != 0 || is_repeat(row))
                continue;
            if (!has_head)
                buf_printf(out, "\n## %s\n", nouns[i][1]);
            if (!has_head && strcmp(row->noun, "files") == 0)
                buf_put_cstr(out, "\n"
                                  "The routes below exist for `/v1/sandboxes/{id}`, "
                                  "`/v1/sessions/{id}` and `/v1/volumes/{id}`.\n"
                                  "They also work for a volume that no sandbox uses.\n");
            has_head = true;
            api_docs_put_row(row, out);
        }
    }
}
