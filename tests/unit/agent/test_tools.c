/* The table of tools, and calls of them as the API and MCP make them. */

#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include "agent/internal.h"
#include "base/format/schema.h"

/* An engine, a sandbox for the calls to work in, and the last answer. */
struct desk {
    struct rig rig;
    struct tool_context context;
    bool has_answer, is_error, fits_schema;
    struct json_t *answer;
    size_t image_count;
    char mime[64];
    size_t streamed; /* bytes that came before the answer */
};

static void desk_open(struct desk *desk, const char *toml)
{
    *desk = (struct desk){0};
    rig_open(&desk->rig, toml);
    CHECK_INT(rig_create(&desk->rig, &(struct sandbox_spec){0}), 0);
    desk->context = (struct tool_context){.engine = desk->rig.engine,
                                          .config = desk->rig.config,
                                          .loop = desk->rig.loop,
                                          .caller = desk->rig.caller,
                                          .sandbox = str_of(desk->rig.id)};
}

static void desk_done(struct desk *desk)
{
    desk->answer = json_free(desk->answer);
    rig_done(&desk->rig);
}

static void on_output(void *ctx, UNUSED bool is_stderr, struct str text)
{
    struct desk *desk = ctx;
    desk->streamed += text.len;
}

static void on_done(void *ctx, const struct tool_answer *answer)
{
    struct desk *desk = ctx;
    struct err err = {0};
    desk->has_answer = true;
    desk->is_error = answer->is_error;
    desk->fits_schema = answer->fits_schema;
    desk->image_count = answer->image_count;
    if (answer->image_count > 0)
        (void)snprintf(desk->mime, sizeof desk->mime, "%.*s", STR_ARG(answer->images[0].mime));
    CHECK_OK(json_parse(answer->json, &desk->answer, &err));
    rig_on_plain(&desk->rig, NULL);
}

static const struct tool_calls calls = {on_output, on_done};

static struct tool_run *begin(struct desk *desk, const char *name, struct str args)
{
    AUTO_JSON struct json_t *value = NULL;
    struct err err = {0};
    desk->answer = json_free(desk->answer);
    desk->has_answer = false;
    desk->streamed = 0;
    if (args.len > 0)
        CHECK_OK(json_parse(args, &value, &err));
    desk->rig.awaited++;
    struct tool_run *run = tool_start(&desk->context, str_of(name), value, &calls, desk);
    CHECK(!desk->has_answer); /* it comes later than the call */
    return run;
}

/* True when the tool did it. `args` is JSON, NULL for none. */
static bool call(struct desk *desk, const char *name, const char *args)
{
    (void)begin(desk, name, args == NULL ? (struct str){0} : str_of(args));
    CHECK_INT(rig_wait(&desk->rig), 0);
    return !desk->is_error;
}

static struct str text_of(const struct desk *desk, const char *name)
{
    struct str text = STR("(none)");
    (void)!json_to_str(json_get(desk->answer, name), &text);
    return text;
}

static int64_t number_of(const struct desk *desk, const char *name)
{
    int64_t n = -1;
    (void)!json_to_i64(json_get(desk->answer, name), &n);
    return n;
}

static bool flag_of(const struct desk *desk, const char *name)
{
    bool flag = false;
    CHECK(json_to_bool(json_get(desk->answer, name), &flag));
    return flag;
}

static bool has_text(struct str text, const char *part)
{
    return memmem(text.ptr, text.len, part, strlen(part)) != NULL;
}

/* The last answer is an error of this code whose message holds `part`, and it says what to do. */
static void check_failed(const struct desk *desk, const char *code, const char *part)
{
    struct str got = {0}, message = {0}, hint = {0};
    const struct json_t *error = json_get(desk->answer, "error");
    CHECK(desk->is_error && !desk->fits_schema && !flag_of(desk, "success"));
    CHECK(error != NULL);
    CHECK(json_to_str(json_get(error, "code"), &got));
    CHECK_STR(got, code);
    CHECK(json_to_str(json_get(error, "message"), &message));
    if (!has_text(message, part))
        CHECK_STR(message, part);
    CHECK(json_to_str(json_get(error, "hint"), &hint) && hint.len > 0);
}

/* --- The table --- */

static struct json_t *parse(const char *text)
{
    struct json_t *value = NULL;
    struct err err = {0};
    CHECK_OK(json_parse(str_of(text), &value, &err));
    return value;
}

/* What is required is described. */
static void check_required(const struct json_t *schema)
{
    const struct json_t *required = json_get(schema, "required");
    const struct json_t *properties = json_get(schema, "properties");
    struct str type = {0};
    CHECK(json_to_str(json_get(schema, "type"), &type));
    CHECK_STR(type, "object");
    CHECK(properties != NULL);
    for (size_t i = 0; required != NULL && i < json_len(required); i++) {
        struct str name = {0};
        char key[64];
        CHECK(json_to_str(json_at(required, i), &name));
        (void)snprintf(key, sizeof key, "%.*s", STR_ARG(name));
        CHECK(json_get(properties, key) != NULL);
    }
}

TEST(every_row_is_whole)
{
    size_t count = 0;
    for (const struct tool *tool = tools; tool->name != NULL; tool++, count++) {
        struct err err = {0};
        bool is_open = true;
        AUTO_JSON struct json_t *input = parse(tool->input);
        AUTO_JSON struct json_t *output = parse(tool->output);
        CHECK_INT(strspn(tool->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(tool->name));
        CHECK(tool->title[0] != '\0' && tool->description[0] != '\0' && tool->start != NULL);
        CHECK_OK(schema_check_schema(input, &err)); /* all of it is checked */
        check_required(input);
        check_required(output);
        CHECK(json_to_bool(json_get(input, "additionalProperties"), &is_open) && !is_open);
        CHECK((tool->flags & (TOOL_READ_ONLY | TOOL_DESTRUCTIVE)) !=
              (TOOL_READ_ONLY | TOOL_DESTRUCTIVE));
        for (const struct tool *other = tools; other != tool; other++)
            assert_string_not_equal(other->name, tool->name);
    }
    CHECK(count > 10);
}

TEST(tools_are_offered_as_configured)
{
    struct desk desk;
    desk_open(&desk, NULL);
    struct config *config = desk.rig.config;
    CHECK_CSTR(tool_find(config, STR("read"))->name, "read");
    CHECK(tool_find(config, STR("rea")) == NULL);
    CHECK(tool_find(config, STR("")) == NULL);
    CHECK(tool_find(config, STR("undo")) == NULL);
    config->sandbox.undo_tool = true;
    CHECK(tool_find(config, STR("undo")) != NULL);
    config->sandbox.is_off = true;
    CHECK(!tools_are_offered(config));
    CHECK(tool_find(config, STR("read")) == NULL);
    CHECK(!call(&desk, "read", "{\"path\": \"a\"}"));
    check_failed(&desk, "not_found", "'read'");
    desk_done(&desk);
}

static size_t put(const struct config *config, enum tool_format format, bool has_turns,
                  struct json_t **ret_rows)
{
    AUTO_BUF struct buf text = {0};
    struct json_out out = {.buf = &text};
    struct err err = {0};
    tools_put(config, format, TOOL_OF_DOCS | (has_turns ? TOOL_OF_TURNS : 0U), &out);
    CHECK_OK(json_parse(buf_str(&text), ret_rows, &err));
    return json_len(*ret_rows);
}

TEST(each_format_has_its_shape)
{
    static const struct {
        const char *name, *schema;
        enum tool_format format;
    } rows[] = {{"json", "inputSchema", TOOLS_JSON},
                {"openai", "parameters", TOOLS_OPENAI},
                {"anthropic", "input_schema", TOOLS_ANTHROPIC},
                {"mcp", "inputSchema", TOOLS_MCP}};
    struct desk desk;
    desk_open(&desk, NULL);
    struct config *config = desk.rig.config;
    size_t all = 0;
    while (tools[all].name != NULL)
        all++;
    for (size_t i = 0; i < countof(rows); i++) {
        AUTO_JSON struct json_t *list = NULL;
        enum tool_format format;
        CHECK(tool_format_of_name(str_of(rows[i].name), &format) && format == rows[i].format);
        CHECK_INT(put(config, format, true, &list), all - 1); /* without undo */
        for (size_t k = 0; k < json_len(list); k++) {
            const struct json_t *row = json_at(list, k);
            if (format == TOOLS_OPENAI)
                row = json_get(row, "function");
            struct str name = {0};
            CHECK(json_to_str(json_get(row, "name"), &name));
            CHECK(tool_find(config, name) != NULL);
            CHECK(json_get(json_get(row, rows[i].schema), "properties") != NULL);
            CHECK((json_get(row, "outputSchema") != NULL) ==
                  (json_get(row, "annotations") != NULL));
        }
    }
    enum tool_format format;
    CHECK(!tool_format_of_name(STR("xml"), &format));
    AUTO_JSON struct json_t *with = NULL;
    AUTO_JSON struct json_t *without = NULL;
    AUTO_JSON struct json_t *none = NULL;
    config->sandbox.undo_tool = true;
    CHECK_INT(put(config, TOOLS_MCP, true, &with), all);
    CHECK_INT(put(config, TOOLS_MCP, false, &without), all - 1); /* nothing to undo there */
    config->sandbox.is_off = true;
    CHECK_INT(put(config, TOOLS_MCP, true, &none), 0);
    desk_done(&desk);
}

/* --- Arguments --- */

TEST(arguments_are_checked_before_anything_is_done)
{
    static const struct {
        const char *tool, *args, *part;
    } rows[] = {
        {"write", NULL, "path"},
        {"write", "{\"path\": \"a\"}", "content"},
        {"write", "{\"path\": 7, \"content\": \"x\"}", "path must be"},
        {"write", "{\"path\": \"a\", \"content\": null}", "content must be"},
        {"write", "{\"path\": \"\", \"content\": \"x\"}", "path must"},
        {"write", "{\"path\": \"a\", \"content\": \"x\", \"mode\": 7}", "mode"},
        {"write", "[\"a\", \"x\"]", "object"},
        {"write", "\"a\"", "object"},
        {"read", "{\"path\": \"a\", \"offset\": 0}", "offset must be"},
        {"read", "{\"path\": \"a\", \"limit\": 1.5}", "limit must be"},
        {"read", "{\"path\": \"a\", \"limit\": \"2\"}", "limit must be"},
        {"edit", "{\"path\": \"a\", \"oldString\": \"\", \"newString\": \"\"}", "oldString"},
        {"grep", "{\"pattern\": \"x\", \"maxResults\": 1001}", "maxResults must be"},
        {"delete", "{\"path\": \"a\", \"recursive\": \"yes\"}", "recursive must be"},
        {"run_code", "{\"code\": \"1\"}", "description"},
        {"run_code", "{\"code\": \"1\", \"description\": \"\", \"language\": \"cobol\"}",
         "language"},
        {"bash", "{\"command\": \"\"}", "command"},
        {"bash_output", "{\"id\": \"x\", \"waitMs\": 600001}", "waitMs must be"},
    };
    struct desk desk;
    desk_open(&desk, NULL);
    for (size_t i = 0; i < countof(rows); i++) {
        CHECK(!call(&desk, rows[i].tool, rows[i].args));
        check_failed(&desk, "invalid", rows[i].part);
    }
    CHECK(call(&desk, "list", NULL)); /* none is needed, and nothing was written */
    CHECK_INT(json_len(json_get(desk.answer, "entries")), 0);
    desk_done(&desk);
}

TEST(a_path_that_is_too_long_is_refused)
{
    struct desk desk;
    AUTO_BUF struct buf args = {0};
    desk_open(&desk, NULL);
    buf_put_cstr(&args, "{\"path\": \"");
    for (int i = 0; i < 4097; i++)
        buf_put_char(&args, 'a');
    buf_put_cstr(&args, "\"}");
    CHECK(!call(&desk, "exists", buf_cstr(&args)));
    check_failed(&desk, "invalid", "path must");
    desk_done(&desk);
}

TEST(an_unknown_tool_is_an_answer)
{
    struct desk desk;
    desk_open(&desk, NULL);
    CHECK(!call(&desk, "format_disk", "{}"));
    check_failed(&desk, "not_found", "'format_disk'");
    desk_done(&desk);
}

TEST(paths_are_below_the_workspace)
{
    struct desk desk;
    desk_open(&desk, NULL);
    CHECK(call(&desk, "write", "{\"path\": \"d/a.txt\", \"content\": \"one\"}"));
    CHECK_STR(text_of(&desk, "path"), "/workspace/d/a.txt");
    CHECK(flag_of(&desk, "created"));
    CHECK(call(&desk, "write", "{\"path\": \"/workspace/d/a.txt\", \"content\": \"two\"}"));
    CHECK(!flag_of(&desk, "created")); /* the same file */
    CHECK(call(&desk, "list", "{\"path\": \".\"}"));
    CHECK_INT(json_len(json_get(desk.answer, "entries")), 1);
    CHECK(call(&desk, "glob", "{\"pattern\": \"**/*.txt\"}"));
    struct str path = {0};
    CHECK(json_to_str(json_at(json_get(desk.answer, "paths"), 0), &path));
    CHECK_STR(path, "/workspace/d/a.txt");
    CHECK(!call(&desk, "write", "{\"path\": \"../../etc/passwd\", \"content\": \"x\"}"));
    CHECK(!call(&desk, "read", "{\"path\": \"../etc/passwd\"}"));
    desk_done(&desk);
}

/* --- Answers --- */

TEST(answers_are_what_the_table_says)
{
    static const struct {
        const char *tool, *args;
    } rows[] = {
        {"write", "{\"path\": \"a.txt\", \"content\": \"one\\ntwo\\n\"}"},
        {"read", "{\"path\": \"a.txt\"}"},
        {"read", "{\"path\": \"a.txt\", \"limit\": 1}"},
        {"edit", "{\"path\": \"a.txt\", \"oldString\": \"two\", \"newString\": \"2\"}"},
        {"glob", "{\"pattern\": \"*\"}"},
        {"list", "{\"recursive\": true}"},
        {"exists", "{\"path\": \"a.txt\"}"},
        {"exists", "{\"path\": \"b.txt\"}"},
        {"move", "{\"from\": \"a.txt\", \"to\": \"b.txt\"}"},
        {"delete", "{\"path\": \"b.txt\"}"},
    };
    struct desk desk;
    desk_open(&desk, NULL);
    for (size_t i = 0; i < countof(rows); i++) {
        struct err err = {0};
        AUTO_JSON struct json_t *schema =
            parse(tool_find(desk.rig.config, str_of(rows[i].tool))->output);
        CHECK(call(&desk, rows[i].tool, rows[i].args));
        CHECK(desk.fits_schema && flag_of(&desk, "success"));
        CHECK_OK(schema_check(schema, desk.answer, rows[i].tool, &err));
    }
    desk_done(&desk);
}

TEST(failures_tell_what_to_do)
{
    struct desk desk;
    desk_open(&desk, NULL);
    CHECK(call(&desk, "exists", "{\"path\": \"none\"}"));
    CHECK(!flag_of(&desk, "exists"));
    CHECK(!call(&desk, "read", "{\"path\": \"none\"}"));
    check_failed(&desk, "not_found", "none");
    CHECK(call(&desk, "write", "{\"path\": \"d/a\", \"content\": \"x x\"}"));
    CHECK(!call(&desk, "read", "{\"path\": \"d\"}"));
    check_failed(&desk, "not_a_file", "");
    CHECK(!call(&desk, "edit", "{\"path\": \"d/a\", \"oldString\": \"y\", \"newString\": \"\"}"));
    check_failed(&desk, "no_match", "");
    CHECK(!call(&desk, "edit", "{\"path\": \"d/a\", \"oldString\": \"x\", \"newString\": \"\"}"));
    check_failed(&desk, "ambiguous_match", "");
    CHECK(!call(&desk, "grep", "{\"pattern\": \"(\"}"));
    check_failed(&desk, "unsupported", "cannot grep");
    CHECK(!call(&desk, "run_code", "{\"code\": \"1\", \"description\": \"\"}"));
    check_failed(&desk, "unsupported", "memory");
    desk.context.sandbox = STR("nobody");
    CHECK(!call(&desk, "exists", "{\"path\": \"none\"}")); /* not the same as no such file */
    check_failed(&desk, "not_found", "nobody");
    desk_done(&desk);
}

TEST(a_file_is_read_by_lines)
{
    struct desk desk;
    AUTO_BUF struct buf args = {0};
    desk_open(&desk, NULL);
    buf_put_cstr(&args, "{\"path\": \"long\", \"content\": \"");
    for (int i = 1; i <= 20000; i++)
        buf_printf(&args, "line %d\\n", i);
    buf_put_cstr(&args, "end\"}");
    CHECK(call(&desk, "write", buf_cstr(&args)));
    CHECK(!call(&desk, "read", "{\"path\": \"long\"}"));
    check_failed(&desk, "too_large", "long");
    CHECK(call(&desk, "read", "{\"path\": \"long\", \"offset\": 15000, \"limit\": 2}"));
    CHECK_STR(text_of(&desk, "content"), "line 15000\nline 15001\n");
    CHECK(flag_of(&desk, "truncated"));
    CHECK_INT(number_of(&desk, "nextOffset"), 15002);
    CHECK(call(&desk, "read", "{\"path\": \"long\", \"offset\": 20000}"));
    CHECK_STR(text_of(&desk, "content"), "line 20000\nend");
    CHECK_INT(number_of(&desk, "lines"), 2);
    CHECK(!flag_of(&desk, "truncated"));
    CHECK(call(&desk, "read", "{\"path\": \"long\", \"offset\": 1, \"limit\": 100000}"));
    CHECK(text_of(&desk, "content").len <= TOOL_TEXT_MAX);
    CHECK(flag_of(&desk, "truncated"));
    CHECK_INT(number_of(&desk, "nextOffset"), number_of(&desk, "lines") + 1);
    desk_done(&desk);
}

TEST(a_picture_is_shown_and_other_bytes_are_not)
{
    struct desk desk;
    desk_open(&desk, NULL);
    CHECK_INT(rig_write(&desk.rig, desk.rig.id, "/workspace/a", "GIF89a..."), 0);
    CHECK(call(&desk, "read", "{\"path\": \"a\"}"));
    CHECK_INT(desk.image_count, 1);
    CHECK_CSTR(desk.mime, "image/gif");
    CHECK(json_get(desk.answer, "content") == NULL);
    CHECK_INT(rig_write(&desk.rig, desk.rig.id, "/workspace/b",
                        "\x7f"
                        "ELF\xff\xfe"),
              0);
    CHECK(!call(&desk, "read", "{\"path\": \"b\"}"));
    check_failed(&desk, "unsupported", "not text");
    CHECK_INT(desk.image_count, 0);
    desk_done(&desk);
}

TEST(text_is_cut_between_characters)
{
    AUTO_BUF struct buf text = {0};
    AUTO_BUF struct buf whole = {0};
    AUTO_BUF struct buf cut = {0};
    for (int i = 0; i < 5000; i++)
        buf_put_cstr(&text, "\xc3\xa4");
    tool_put_cut(&(struct json_out){.buf = &whole}, buf_str(&text), text.len);
    CHECK_INT(whole.len, text.len + 2); /* nothing but the quotes */
    tool_put_cut(&(struct json_out){.buf = &cut}, buf_str(&text), 402);
    CHECK(cut.len > 300 && cut.len < 500);
    CHECK(has_text(buf_str(&cut), "left out"));
    CHECK(!has_text(buf_str(&cut), "\xef\xbf\xbd"));
}

TEST(a_canceled_call_is_not_answered)
{
    struct desk desk;
    desk_open(&desk, NULL);
    tool_cancel(begin(&desk, "write", STR("{\"path\": \"a\", \"content\": \"x\"}")));
    tool_cancel(begin(&desk, "no_such_tool", STR("{}")));
    rig_run_ms(&desk.rig, 200);
    CHECK(!desk.has_answer);
    desk.rig.awaited -= 2;
    CHECK(call(&desk, "list", NULL)); /* what comes next is its own */
    CHECK(json_get(desk.answer, "entries") != NULL);
    desk_done(&desk);
}

/* --- Code, in an isolate --- */

#define ISOLATES "[sandbox]\nprovider = \"isolate\"\n[isolate]\nconsole_lines = 100000\n"

static bool run_code(struct desk *desk, const char *code)
{
    AUTO_BUF struct buf args = {0};
    struct json_out out = {.buf = &args};
    json_begin_object(&out);
    json_key(&out, "code"), json_put_cstr(&out, code);
    json_key(&out, "description"), json_put_cstr(&out, "a test");
    json_end_object(&out);
    return call(desk, "run_code", buf_cstr(&args));
}

TEST(output_is_cut_at_its_limit_and_says_so)
{
    struct desk desk;
    desk_open(&desk, ISOLATES);
    CHECK(run_code(&desk, "for (let i = 0; i < 20000; i++) console.log(`line ${i}`); 7"));
    struct str text = text_of(&desk, "stdout");
    CHECK_INT(number_of(&desk, "result"), 7);
    CHECK(text.len > TOOL_OUTPUT_MAX / 2 && text.len <= TOOL_OUTPUT_MAX + 200);
    CHECK(str_starts(text, STR("line 0\nline 1\n")));
    CHECK(str_ends(text, STR("line 19999\n")));
    CHECK(has_text(text, "omitted; write long output to a file"));
    CHECK_INT(desk.streamed, 20000 * strlen("line \n") + 10 + 90 * 2 + 900 * 3 + 9000 * 4 + 50000);
    /* What fits is whole. */
    CHECK(run_code(&desk, "console.error('x'.repeat(30 * 1024 - 1))"));
    text = text_of(&desk, "stderr");
    CHECK_INT(text.len, TOOL_OUTPUT_MAX);
    CHECK(!has_text(text, "left out"));
    desk_done(&desk);
}

TEST(a_value_is_cut_at_its_limit)
{
    struct desk desk;
    desk_open(&desk, ISOLATES);
    CHECK(run_code(&desk, "({ a: [1, 'two'] })"));
    CHECK_INT(json_len(json_get(json_get(desk.answer, "result"), "a")), 2);
    CHECK(run_code(&desk, "'y'.repeat(200000)"));
    struct str text = text_of(&desk, "result");
    CHECK(text.len > TOOL_VALUE_MAX / 2 && text.len <= TOOL_VALUE_MAX + 200);
    CHECK(has_text(text, "left out"));
    desk_done(&desk);
}

TEST(code_that_fails_has_an_answer_of_its_own)
{
    struct desk desk;
    desk_open(&desk, ISOLATES);
    CHECK(!run_code(&desk, "console.log('before'); throw new TypeError('no')"));
    CHECK(desk.fits_schema && !flag_of(&desk, "success"));
    CHECK_STR(text_of(&desk, "stdout"), "before\n");
    struct str name = {0}, message = {0};
    const struct json_t *error = json_get(desk.answer, "error");
    CHECK(json_to_str(json_get(error, "name"), &name));
    CHECK_STR(name, "TypeError");
    CHECK(json_to_str(json_get(error, "message"), &message));
    CHECK_STR(message, "no");
    desk_done(&desk);
}

TEST(a_nul_in_output_hides_nothing)
{
    struct desk desk;
    desk_open(&desk, ISOLATES);
    CHECK(run_code(&desk, "console.log('a\\0b')"));
    CHECK_STR(text_of(&desk, "stdout"), "a\xef\xbf\xbd"
                                        "b\n");
    desk_done(&desk);
}
