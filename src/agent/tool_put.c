/* The table as others want to read it: JSON in their shapes, a prompt, a page. */

#include "agent/internal.h"
#include "base/format/schema.h"

bool tool_format_of_name(struct str name, enum tool_format *ret_format)
{
    static const char *const names[] = {[TOOLS_JSON] = "json",
                                        [TOOLS_OPENAI] = "openai",
                                        [TOOLS_ANTHROPIC] = "anthropic",
                                        [TOOLS_MCP] = "mcp"};
    for (size_t i = 0; i < countof(names); i++)
        if (str_eq(name, str_of(names[i]))) {
            *ret_format = (enum tool_format)i;
            return true;
        }
    return false;
}

/* Our own text, which the tests have parsed. */
static void put_schema(struct json_out *out, const char *key, const char *schema)
{
    struct err err = {0};
    AUTO_JSON struct json_t *value = NULL;
    if (json_parse(str_of(schema), &value, &err) < 0)
        return;
    json_key(out, key), json_put_value(out, value);
}

static void put_annotations(struct json_out *out, const struct tool *tool)
{
    json_begin_object(out);
    json_key(out, "title"), json_put_cstr(out, tool->title);
    json_key(out, "readOnlyHint"), json_put_bool(out, tool->flags & TOOL_READ_ONLY);
    json_key(out, "destructiveHint"), json_put_bool(out, tool->flags & TOOL_DESTRUCTIVE);
    json_key(out, "idempotentHint");
    json_put_bool(out, tool->flags & (TOOL_REPEATABLE | TOOL_READ_ONLY));
    json_key(out, "openWorldHint"), json_put_bool(out, tool->flags & TOOL_OPEN_WORLD);
    json_end_object(out);
}

static void put_names(struct json_out *out, const struct tool *tool)
{
    json_key(out, "name"), json_put_cstr(out, tool->name);
    json_key(out, "description"), json_put_cstr(out, tool->description);
}

static void put_tool(struct json_out *out, const struct tool *tool, enum tool_format format)
{
    json_begin_object(out);
    switch (format) {
    case TOOLS_OPENAI:
        json_key(out, "type"), json_put_cstr(out, "function");
        json_key(out, "function");
        json_begin_object(out);
        put_names(out, tool);
        put_schema(out, "parameters", tool->input);
        json_end_object(out);
        break;
    case TOOLS_ANTHROPIC:
        put_names(out, tool);
        put_schema(out, "input_schema", tool->input);
        break;
    case TOOLS_MCP:
    case TOOLS_JSON:
        put_names(out, tool);
        json_key(out, "title"), json_put_cstr(out, tool->title);
        put_schema(out, "inputSchema", tool->input);
        put_schema(out, "outputSchema", tool->output);
        json_key(out, "annotations"), put_annotations(out, tool);
        break;
    }
    json_end_object(out);
}

unsigned tools_also(const struct engine *engine, struct str tenant, bool has_turns)
{
    return (engine_docs_has(engine, tenant) ? TOOL_OF_DOCS : 0U) | (has_turns ? TOOL_OF_TURNS : 0U);
}

static bool is_offered(const struct config *config, const struct tool *tool, unsigned also)
{
    unsigned needs = tool->flags & (TOOL_OF_TURNS | TOOL_OF_DOCS);
    return (needs & ~also) == 0 && (!(needs & TOOL_OF_TURNS) || config->sandbox.undo_tool);
}

void tools_put(const struct config *config, enum tool_format format, unsigned also,
               struct json_out *out)
{
    json_begin_array(out);
    if (tools_are_offered(config))
        for (const struct tool *tool = tools; tool->name != NULL; tool++)
            if (is_offered(config, tool, also))
                put_tool(out, tool, format);
    json_end_array(out);
}

static void put_package(const struct engine_package *package, struct buf *out)
{
    size_t prefix = package->is_python ? strlen("pypi:") : 0;
    struct str name = str_slice(package->package, prefix, package->package.len);
    buf_printf(out, "%.*s %.*s", STR_ARG(name), STR_ARG(package->version));
    if (package->module.len > 0 && !str_eq(package->module, name))
        buf_printf(out, " (import %.*s)", STR_ARG(package->module));
    if (package->variable.len > 0 && package->has_key)
        buf_printf(out, " (its key is in the environment variable %.*s)",
                   STR_ARG(package->variable));
    else if (package->variable.len > 0)
        buf_printf(out, " (its key %.*s is not set on this server: calls that need it fail)",
                   STR_ARG(package->variable));
}

static void put_language(const struct engine_package *packages, size_t count, bool is_python,
                         struct buf *out)
{
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        if (packages[i].is_python != is_python)
            continue;
        if (shown++ == 0)
            buf_printf(out, "- Packages for %s, installed, import them: ",
                       is_python ? "Python" : "TypeScript and JavaScript");
        else
            buf_put_cstr(out, ", ");
        put_package(&packages[i], out);
    }
    if (shown > 0)
        buf_put_cstr(out, ".\n");
}

static void put_packages(const struct engine *engine, const struct session_info *session,
                         struct buf *out)
{
    AUTO_ARENA struct arena arena = {0};
    struct engine_package *packages = NULL;
    const struct engine_dependencies *built = engine_dependencies(engine);
    size_t count = engine_session_packages(engine, session, &arena, &packages);
    bool has_key = false;
    for (size_t i = 0; i < count; i++)
        has_key |= packages[i].variable.len > 0 && packages[i].has_key;
    put_language(packages, count, false, out);
    put_language(packages, count, true, out);
    if (has_key)
        buf_put_cstr(out, "- The variable of a key holds a placeholder that is replaced in "
                          "requests to the package's hosts: use it as it is.\n");
    if (built->slug[0] != '\0' && strcmp(built->state, "building") == 0)
        buf_put_cstr(out, "- More packages are being installed; the first call waits for them.\n");
}

void tools_put_prompt(const struct engine *engine, const struct config *config, struct str tenant,
                      const struct session_info *session, struct buf *out)
{
    if (!tools_are_offered(config))
        return;
    buf_put_cstr(out, "You have a sandbox: a computer that only this conversation uses.\n"
                      "- run_code runs code and returns its value; bash runs shell commands. State "
                      "and files are kept between calls.\n"
                      "- Files are in /workspace: use read, write, edit, glob and grep on them.\n");
    put_packages(engine, session, out);
    if (engine_docs_has(engine, tenant))
        buf_put_cstr(out, "- search_docs finds documentation of packages and modules that were "
                          "saved earlier: call it before you write code against a package.\n");
    buf_put_cstr(
        out, "- An error says what to try next; a truncated result says how to get the rest.\n");
}

/* --- docs/TOOLS.md --- */

static void put_members(struct buf *out, const char *text)
{
    struct err err = {0};
    AUTO_JSON struct json_t *schema = NULL;
    if (json_parse(str_of(text), &schema, &err) < 0)
        return;
    const struct json_t *required = json_get(schema, "required");
    struct json_t *properties = json_get(schema, "properties"), *value;
    struct str key;
    void *iter = NULL;
    while (json_next(properties, &iter, &key, &value)) {
        AUTO_BUF struct buf type = {0};
        struct str help = {0}, name;
        bool is_needed = false;
        for (size_t i = 0; i < json_len(required); i++)
            is_needed |= json_to_str(json_at(required, i), &name) && str_eq(name, key);
        schema_put_type(value, &type);
        (void)!json_to_str(json_get(value, "description"), &help);
        buf_printf(out, "| `%.*s` | %.*s%s | %.*s |\n", STR_ARG(key), STR_ARG(buf_str(&type)),
                   is_needed ? ", needed" : "", STR_ARG(help));
    }
}

void tools_put_doc(struct buf *out)
{
    buf_put_cstr(
        out,
        "# Tools\n"
        "\n"
        "<!-- Written by `sandglass tools docs` from src/agent/tool_table.c; do not edit. -->\n"
        "\n"
        "The tools for language models. All of them work in the session of the call; a model "
        "never\n"
        "sees a sandbox id. `GET /v1/tools?format=openai|anthropic|mcp|json` returns them as "
        "JSON,\n"
        "`POST /v1/sessions/{id}/tools/{name}` (or /v1/sandboxes/{id}/tools/{name}) calls one, and "
        "so do the\n"
        "MCP server (docs/MCP.md) and the TypeScript package (sdk/ts).\n"
        "\n"
        "A failed call returns `{\"success\": false, \"error\": {\"code\", \"message\", "
        "\"hint\"}}`;\n"
        "the hint says what to try next.\n"
        "\n"
        "`systemPrompt` of `GET /v1/tools`, and `instructions` over MCP, say in a few lines how to "
        "use them. They\n"
        "list only those packages of `[[sandbox.dependencies]]` that code of the session can "
        "import at that moment,\n"
        "each with its version and the variable of its key.\n");
    for (const struct tool *tool = tools; tool->name != NULL; tool++) {
        buf_printf(out, "\n## `%s`\n\n%s%s%s\n\n| argument | type | meaning |\n|---|---|---|\n",
                   tool->name, tool->description,
                   tool->flags & TOOL_READ_ONLY ? " Changes nothing." : "",
                   tool->flags & TOOL_OF_TURNS
                       ? "\n"
                         "\n"
                         "Offered only with `[sandbox] undo_tool = true`, and over MCP only in a "
                         "session with automatic checkpoints\n"
                         "(`checkpoints` is `turn`). Without automatic checkpoints a call fails "
                         "with the error `conflict`. The tools of\n"
                         "the TypeScript package do not include it."
                   : tool->flags & TOOL_OF_DOCS
                       ? "\n"
                         "\n"
                         "Offered only when there are documents or saved modules to search "
                         "(docs/SEARCH.md)."
                       : "");
        put_members(out, tool->input);
    }
}

void tools_put_typescript(struct buf *out)
{
    struct json_out json = {.buf = out};
    buf_put_cstr(out, "// Written by `sandglass tools ts` from src/agent/tool_table.c; do not edit."
                      "\n\n/** The tools of the server, as it describes them to a model. */\n"
                      "export const toolTable = {\n");
    for (const struct tool *tool = tools; tool->name != NULL; tool++) {
        if (tool->flags & TOOL_OF_TURNS)
            continue;
        buf_printf(out, "  %s: ", tool->name);
        put_tool(&json, tool, TOOLS_JSON);
        json = (struct json_out){.buf = out};
        buf_put_cstr(out, ",\n");
    }
    buf_put_cstr(out, "} as const;\n");
}
