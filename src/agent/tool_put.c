/* The table as others want to read it: JSON in their shapes, a prompt, a page. */

#include "agent/internal.h"

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

void tools_put(const struct config *config, enum tool_format format, struct json_out *out)
{
    json_begin_array(out);
    if (tools_are_offered(config))
        for (const struct tool *tool = tools; tool->name != NULL; tool++)
            put_tool(out, tool, format);
    json_end_array(out);
}

void tools_put_prompt(const struct config *config, struct buf *out)
{
    if (!tools_are_offered(config))
        return;
    buf_put_cstr(out,
                 "You have a sandbox: a computer of your own for this conversation.\n"
                 "- run_code runs code and gives its value; bash runs shell commands. State "
                 "and files stay from call to call.\n"
                 "- Files live in /workspace: use read, write, edit, glob and grep on them.\n");
    if (config->sandbox.dependencies.len > 0) {
        buf_put_cstr(out, "- These packages are installed:");
        for (size_t i = 0; i < config->sandbox.dependencies.len; i++)
            buf_printf(out, "%s %.*s", i > 0 ? "," : "",
                       STR_ARG(config->sandbox.dependencies.items[i].package));
        buf_put_cstr(out, ".\n");
    }
    buf_put_cstr(out, "- An error says what to try next; an answer that was cut says how to get "
                      "the rest.\n");
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
        struct str type = {0}, help = {0}, name;
        bool is_needed = false;
        for (size_t i = 0; i < json_len(required); i++)
            is_needed |= json_to_str(json_at(required, i), &name) && str_eq(name, key);
        (void)!json_to_str(json_get(value, "type"), &type);
        (void)!json_to_str(json_get(value, "description"), &help);
        buf_printf(out, "| `%.*s` | %.*s%s | %.*s |\n", STR_ARG(key), STR_ARG(type),
                   is_needed ? ", needed" : "", STR_ARG(help));
    }
}

void tools_put_doc(struct buf *out)
{
    buf_put_cstr(out,
                 "# Tools\n\n"
                 "<!-- Written by `sandglass tools docs` from src/agent/tool_table.c; do not edit. "
                 "-->\n\n"
                 "What a language model is offered. All of them work in the session of the call; a "
                 "model never\nsees a sandbox. `GET /v1/tools?format=openai|anthropic|mcp|json` "
                 "gives them as JSON,\n`POST /v1/sessions/{id}/tools/{name}` (or "
                 "/v1/sandboxes/{id}/tools/{name}) calls one, and so do the\nMCP server "
                 "(docs/MCP.md) and the TypeScript package (sdk/ts).\n\n"
                 "A call that goes wrong answers `{\"success\": false, \"error\": {\"code\", "
                 "\"message\", \"hint\"}}`;\nthe hint says what to try next.\n");
    for (const struct tool *tool = tools; tool->name != NULL; tool++) {
        buf_printf(out, "\n## `%s`\n\n%s%s\n\n| argument | type | meaning |\n|---|---|---|\n",
                   tool->name, tool->description,
                   tool->flags & TOOL_READ_ONLY ? " Changes nothing." : "");
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
        buf_printf(out, "  %s: ", tool->name);
        put_tool(&json, tool, TOOLS_JSON);
        json = (struct json_out){.buf = out};
        buf_put_cstr(out, ",\n");
    }
    buf_put_cstr(out, "} as const;\n");
}
