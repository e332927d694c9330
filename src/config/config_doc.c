/* The schema, written out: a table for people, JSON Schema for editors, docs/CONFIG.md. */

#include "base/buf.h"
#include "base/format/json.h"
#include "config/config.h"
#include "config/config_schema.h"

/* "1 to 600", "text or json", "URL": what a value may be, in few words. */
static void put_allowed(const struct config_key *key, struct buf *out)
{
    switch (key->type) {
    case CONFIG_INT:
    case CONFIG_FLOAT:
        buf_printf(out, "%s %.15g to %.15g", key->type == CONFIG_INT ? "integer" : "number",
                   key->min, key->max);
        if (key->takes_none)
            buf_put_cstr(out, "; 0 or \"none\": no limit");
        break;
    case CONFIG_CHOICE:
        for (int i = 0; key->choices[i] != NULL; i++)
            buf_printf(out, "%s\"%s\"", i > 0 ? ", " : "", key->choices[i]);
        break;
    case CONFIG_BOOL:
        buf_put_cstr(out, "true or false");
        break;
    case CONFIG_LIST:
        buf_printf(out, "up to %.0f, each %s", key->max, config_form_name(key->form));
        break;
    case CONFIG_FREE:
        buf_put_cstr(out, "a table of anything");
        break;
    case CONFIG_SECRET:
        buf_put_cstr(out, "not in the file");
        break;
    default:
        buf_put_cstr(out, config_form_name(key->form));
    }
}

static void put_default(const struct config_key *key, struct buf *out)
{
    bool quoted = key->type == CONFIG_STR || key->type == CONFIG_CHOICE;
    if (key->required)
        buf_put_cstr(out, "required");
    else if (key->note != NULL)
        buf_put_cstr(out, key->note);
    else if (key->fallback != NULL)
        buf_printf(out, quoted ? "\"%s\"" : "%s", key->fallback);
    else
        buf_put_cstr(out, "none");
}

/* "[sandbox]", "[providers.NAME]", "[[sandbox.dependencies]]". */
static void put_header(const struct config_key *key, struct buf *out)
{
    bool is_array = key->type == CONFIG_TABLES;
    struct str rest = str_of(key->opens), part;
    buf_put_cstr(out, is_array ? "[[" : "[");
    for (bool first = true; str_split(&rest, '.', &part); first = false) {
        if (!first)
            buf_put_char(out, '.');
        if (str_ends(part, STR("[]")))
            part.len -= 2;
        buf_put(out, str_eq(part, STR("*")) ? STR("NAME") : part);
    }
    buf_put_cstr(out, is_array ? "]]" : "]");
}

/* For people. */

static void put_section_text(const char *in, struct buf *out)
{
    CONFIG_KEYS_IN (key, in) {
        if (config_is_section(key))
            continue;
        AUTO_BUF struct buf allowed = {0}, fallback = {0};
        put_allowed(key, &allowed);
        put_default(key, &fallback);
        buf_printf(out, "  %-28s %s\n", key->name, key->help);
        buf_printf(out, "  %-28s %s; %s%s", "", buf_cstr(&allowed),
                   key->required ? "" : "default: ", buf_cstr(&fallback));
        if (key->env != NULL)
            buf_printf(out, "; $%s overrides it", key->env);
        buf_put_char(out, '\n');
    }
    CONFIG_KEYS_IN (key, in) {
        if (!config_is_section(key))
            continue;
        buf_put_char(out, '\n');
        put_header(key, out);
        buf_printf(out, "  %s\n", key->help);
        put_section_text(key->opens, out);
    }
}

void config_put_schema(struct buf *out)
{
    buf_put_cstr(out, "Top of the file\n");
    put_section_text("", out);
}

/* JSON Schema 2020-12. */

static void put_properties(const char *in, struct json_out *out);

static void put_default_json(const struct config_key *key, struct json_out *out)
{
    if (key->fallback == NULL || key->note != NULL)
        return;
    int64_t integer;
    double real;
    struct str text = str_of(key->fallback);
    json_key(out, "default");
    if (key->type == CONFIG_INT && str_to_i64(text, INT64_MIN, INT64_MAX, &integer))
        json_put_i64(out, integer);
    else if (key->type == CONFIG_FLOAT && str_to_f64(text, &real))
        json_put_f64(out, real);
    else if (key->type == CONFIG_BOOL)
        json_put_bool(out, str_eq(text, STR("true")));
    else
        json_put_str(out, text);
}

static void put_string_json(const struct config_key *key, struct json_out *out)
{
    json_key(out, "type"), json_put_cstr(out, "string");
    json_key(out, "minLength"), json_put_i64(out, 1);
    if (key->form == CONFIG_URL)
        json_key(out, "pattern"), json_put_cstr(out, "^https?://");
    if (key->form == CONFIG_VARIABLE)
        json_key(out, "pattern"), json_put_cstr(out, "^[A-Za-z_][A-Za-z0-9_]*$");
    if (key->form == CONFIG_PATH)
        json_key(out, "pattern"), json_put_cstr(out, "^(/|~/)");
    if (key->form == CONFIG_NAME)
        json_key(out, "pattern"), json_put_cstr(out, "^[a-z0-9][a-z0-9_-]*$");
}

/* A number, or "none". */
static void put_limit_json(const struct config_key *key, struct json_out *out)
{
    json_key(out, "anyOf");
    json_begin_array(out);
    json_begin_object(out);
    json_key(out, "type"), json_put_cstr(out, "integer");
    json_key(out, "minimum"), json_put_f64(out, key->min);
    json_key(out, "maximum"), json_put_f64(out, key->max);
    json_end_object(out);
    json_begin_object(out);
    json_key(out, "const"), json_put_cstr(out, "none");
    json_end_object(out);
    json_end_array(out);
}

static void put_number_json(const struct config_key *key, struct json_out *out)
{
    bool whole = key->type == CONFIG_INT;
    if (key->takes_none) {
        put_limit_json(key, out);
        return;
    }
    json_key(out, "type"), json_put_cstr(out, whole ? "integer" : "number");
    json_key(out, "minimum"), json_put_f64(out, key->min);
    json_key(out, "maximum"), json_put_f64(out, key->max);
}

static void put_choices_json(const struct config_key *key, struct json_out *out)
{
    json_key(out, "enum");
    json_begin_array(out);
    for (int i = 0; key->choices[i] != NULL; i++)
        json_put_cstr(out, key->choices[i]);
    json_end_array(out);
}

static void put_array_json(const struct config_key *key, struct json_out *out)
{
    json_key(out, "type"), json_put_cstr(out, "array");
    json_key(out, "maxItems"), json_put_i64(out, (int64_t)key->max);
    json_key(out, "items");
    json_begin_object(out);
    if (key->type == CONFIG_LIST)
        put_string_json(key, out);
    else
        put_properties(key->opens, out);
    json_end_object(out);
}

static void put_map_json(const struct config_key *key, struct json_out *out)
{
    json_key(out, "type"), json_put_cstr(out, "object");
    json_key(out, "maxProperties"), json_put_i64(out, (int64_t)key->max);
    json_key(out, "propertyNames");
    json_begin_object(out);
    json_key(out, "pattern"), json_put_cstr(out, "^[a-z0-9][a-z0-9_-]*$");
    json_end_object(out);
    json_key(out, "additionalProperties");
    json_begin_object(out);
    put_properties(key->opens, out);
    json_end_object(out);
}

static void put_key_json(const struct config_key *key, struct json_out *out)
{
    json_key(out, key->name);
    json_begin_object(out);
    json_key(out, "description"), json_put_cstr(out, key->help);
    switch (key->type) {
    case CONFIG_INT:
    case CONFIG_FLOAT:
        put_number_json(key, out);
        break;
    case CONFIG_BOOL:
        json_key(out, "type"), json_put_cstr(out, "boolean");
        break;
    case CONFIG_CHOICE:
        put_choices_json(key, out);
        break;
    case CONFIG_LIST:
    case CONFIG_TABLES:
        put_array_json(key, out);
        break;
    case CONFIG_FREE:
        json_key(out, "type"), json_put_cstr(out, "object");
        break;
    case CONFIG_TABLE:
        put_properties(key->opens, out);
        break;
    case CONFIG_MAP:
        put_map_json(key, out);
        break;
    default:
        put_string_json(key, out);
    }
    put_default_json(key, out);
    json_end_object(out);
}

/* The members of an object schema for one section; secrets are no part of the file. */
static void put_properties(const char *in, struct json_out *out)
{
    json_key(out, "type"), json_put_cstr(out, "object");
    json_key(out, "additionalProperties"), json_put_bool(out, false);
    json_key(out, "properties");
    json_begin_object(out);
    CONFIG_KEYS_IN (key, in)
        if (key->type != CONFIG_SECRET)
            put_key_json(key, out);
    json_end_object(out);
    bool any = false;
    CONFIG_KEYS_IN (key, in) {
        if (!key->required)
            continue;
        if (!any)
            json_key(out, "required"), json_begin_array(out);
        any = true;
        json_put_cstr(out, key->name);
    }
    if (any)
        json_end_array(out);
}

void config_put_schema_json(struct buf *out)
{
    struct json_out json = {.buf = out, .pretty = true};
    json_begin_object(&json);
    json_key(&json, "$schema");
    json_put_cstr(&json, "https://json-schema.org/draft/2020-12/schema");
    json_key(&json, "title"), json_put_cstr(&json, "sandglass config.toml");
    put_properties("", &json);
    json_end_object(&json);
    buf_put_char(out, '\n');
}

/* docs/CONFIG.md. */

static const char docs_head[] =
    "# Configuration\n"
    "\n"
    "<!-- Written by `sandglass config docs` from src/config/config_schema.c; do not edit. -->\n"
    "\n"
    "The file is optional: every key has a default. It is looked for in this order, and the first\n"
    "one found is the only one read:\n"
    "\n"
    "1. `--config FILE` (must exist)\n"
    "2. `$SANDGLASS_CONFIG` (must exist)\n"
    "3. `$XDG_CONFIG_HOME/sandglass/config.toml`, else `~/.config/sandglass/config.toml`\n"
    "4. `/etc/sandglass/config.toml`\n"
    "\n"
    "`sandglass config show` prints the effective values and where each came from;\n"
    "`sandglass config schema --json` is a JSON Schema for editors. Unknown keys, wrong types and\n"
    "values out of range are errors that name file, line and column.\n"
    "\n"
    "Keys and tokens are never in the file. They are read from the environment at start, kept in\n"
    "locked memory, removed from the environment and never printed.\n"
    "\n"
    "```toml\n"
    "default_model = \"groq/llama-3.3-70b\"\n"
    "\n"
    "[providers.groq] # the key is read from GROQ_API_KEY\n"
    "\n"
    "[[providers.groq.models]]\n"
    "id = \"llama-3.3-70b\"\n"
    "label = \"Llama 3.3\"\n"
    "\n"
    "[server]\n"
    "listen = \"127.0.0.1:7070\"\n"
    "\n"
    "[sandbox]\n"
    "provider = \"jail\"\n"
    "memory_mb = 1280\n"
    "\n"
    "[[sandbox.dependencies]]\n"
    "package = \"@linear/sdk\"\n"
    "version = \"1.2.3\"\n"
    "docs = [\"https://linear.app/developers/sdk.md\"]\n"
    "secret_env = \"LINEAR_API_KEY\"\n"
    "hosts = [\"api.linear.app\"]\n"
    "```\n";

static void put_section_docs(const char *in, struct buf *out)
{
    buf_put_cstr(out, "| key | value | default | meaning |\n|---|---|---|---|\n");
    CONFIG_KEYS_IN (key, in) {
        if (config_is_section(key))
            continue;
        buf_printf(out, "| `%s` | ", key->name);
        put_allowed(key, out);
        buf_put_cstr(out, " | ");
        put_default(key, out);
        buf_printf(out, " | %s", key->help);
        if (key->env != NULL)
            buf_printf(out, "; `$%s` overrides it", key->env);
        buf_put_cstr(out, " |\n");
    }
    CONFIG_KEYS_IN (key, in) {
        if (!config_is_section(key))
            continue;
        buf_put_cstr(out, "\n## `");
        put_header(key, out);
        buf_printf(out, "`\n\n%s.\n\n", key->help);
        put_section_docs(key->opens, out);
    }
}

void config_put_docs(struct buf *out)
{
    buf_put_cstr(out, docs_head);
    buf_put_cstr(out, "\n## Top of the file\n\n");
    put_section_docs("", out);
}
