/* What an interpreter says is a tenant's word: whatever it is, the answer is JSON and has a bound.
 */

#include "test.h"

#include "base/format/json.h"
#include "runtime/memory_end.h"
#include "runtime/output.h"
#include "runtime/packages.h"
#include "runtime/runtimes.h"

static char filler[2 << 20];

static void say(struct run_output *output, enum interpreter_event_type type, struct str text)
{
    struct interpreter_event event = {.type = type, .text = text};
    run_output_take(output, &event);
}

static void show(struct run_output *output, bool main, struct str mime, struct str bytes)
{
    struct interpreter_event event = {
        .type = INTERPRETER_DISPLAY, .main = main, .parts = {{mime, bytes}}, .part_count = 1};
    run_output_take(output, &event);
}

static void put(const struct run_output *output, struct buf *text)
{
    struct json_out out = {.buf = text};
    json_begin_object(&out);
    run_output_put_members(output, &(struct loss){0}, &out);
    json_end_object(&out);
}

static struct str member(const struct json_t *object, const char *name)
{
    struct str text = STR("(none)");
    (void)!json_to_str(json_get(object, name), &text);
    return text;
}

TEST(an_answer_has_a_bound_whatever_is_said)
{
    AUTO_RUN_OUTPUT struct run_output output = {0};
    AUTO_BUF struct buf text = {0};
    memset(filler, 1, sizeof filler); /* six bytes of JSON each */
    struct str worst = str_n(filler, sizeof filler);
    for (int i = 0; i < 4; i++) {
        say(&output, INTERPRETER_STDOUT, worst);
        say(&output, INTERPRETER_STDERR, worst);
    }
    for (int i = 0; i < 2000; i++)
        show(&output, i == 0, STR("text/plain"), str_slice(worst, 0, i == 0 ? 1 << 20 : 8192));
    for (int i = 0; i < 2000; i++)
        run_output_add_file(&output, RUN_FILE_CREATED, str_slice(worst, 0, 4096), 1);
    struct interpreter_event event = {
        .type = INTERPRETER_ERROR, .name = worst, .message = worst, .text = worst, .module = worst};
    run_output_take(&output, &event);
    put(&output, &text);
    CHECK(text.len < BUF_LIMIT_DEFAULT);
    CHECK_INT(excerpt_view(&output.out, 0).cut, 4 * sizeof filler - RUN_OUTPUT_MAX);
    CHECK(output.dropped_values > 0 && output.has_more_files);
}

/* What is shown is also given as a text and as a value. */
TEST(no_letter_and_no_number_makes_an_answer_too_long)
{
    AUTO_RUN_OUTPUT struct run_output output = {0}, numbers = {0};
    AUTO_BUF struct buf bytes = {0}, text = {0};
    struct err err = {0};
    char *space;
    CHECK_OK(buf_reserve(&bytes, 12 << 20, &space, &err));
    memset(space, 0x7f, 12 << 20);
    show(&output, true, STR("text/html"), str_n(space, 12 << 20));
    CHECK_INT(output.values.len, 1);
    put(&output, &text);
    CHECK(text.len < 13 << 20);

    buf_clear(&text);
    buf_put_char(&bytes, '[');
    while (bytes.len < 11 << 19)
        buf_put_cstr(&bytes, "1e14,1e14,1e14,1e14,1e14,1e14,1e14,1e14,1e14,1e14,1e14,1e14,");
    buf_put_cstr(&bytes, "1]");
    show(&numbers, true, STR("application/json"), buf_str(&bytes));
    CHECK_INT(numbers.values.len, 1);
    put(&numbers, &text);
    CHECK(strncmp(buf_cstr(&text), "{\"result\":null,", 15) == 0);
}

TEST(types_are_listed_once_and_bytes_as_base64)
{
    struct err err = {0};
    AUTO_RUN_OUTPUT struct run_output output = {0};
    AUTO_BUF struct buf text = {0};
    AUTO_JSON struct json_t *answer = NULL;
    struct interpreter_event event = {
        .type = INTERPRETER_DISPLAY,
        .main = true,
        .parts = {{STR("text/plain"), STR("\xff one")},
                  {STR("text/plain"), STR("two")},
                  {STR(""), STR("three")},
                  {STR("bad\xff"), STR("four")},
                  {STR("image/png"), STR("\x89PNG")},
                  {STR("application/json"), STR("{\"a\": 1, \"a\": 2}")}},
        .part_count = 6};
    run_output_take(&output, &event);
    put(&output, &text);
    CHECK_OK(json_parse(buf_str(&text), &answer, &err));
    const struct json_t *data = json_get(json_at(json_get(answer, "results"), 0), "data");
    CHECK_INT(json_len(data), 3);
    CHECK_STR(member(data, "image/png"), "iVBORw==");
    CHECK_STR(member(answer, "text"), "\xef\xbf\xbd one");
    CHECK_INT(json_kind(json_get(answer, "result")), JSON_KIND_NULL); /* it was no JSON */
    buf_clear(&text); /* a stream tells the event itself */
    answer = json_free(answer);
    run_value_put_json(event.parts, event.part_count, true, &(struct json_out){.buf = &text});
    CHECK_OK(json_parse(buf_str(&text), &answer, &err));
    CHECK_INT(json_len(json_get(answer, "data")), 3);
}

TEST(a_value_of_no_type_is_none)
{
    AUTO_RUN_OUTPUT struct run_output output = {0};
    AUTO_BUF struct buf text = {0};
    show(&output, true, STR(""), STR("seen by nobody"));
    CHECK_INT(output.values.len, 0);
    CHECK_INT(output.dropped_values, 1);
    put(&output, &text);
    CHECK(strstr(buf_cstr(&text), "\"results\":[]") != NULL);
}

TEST(an_end_that_the_code_did_not_mean_is_said)
{
    struct err err = {0};
    AUTO_RUN_OUTPUT struct run_output output = {0};
    AUTO_BUF struct buf text = {0};
    AUTO_JSON struct json_t *answer = NULL;
    struct interpreter_event done = {.type = INTERPRETER_DONE, .count = 3};
    run_output_take(&output, &done);
    CHECK_INT(output.status, RUN_FAILED);
    run_output_end(&output, RUN_OUT_OF_MEMORY, "OutOfMemory", "too much");
    put(&output, &text);
    CHECK_OK(json_parse(buf_str(&text), &answer, &err));
    CHECK_STR(member(answer, "status"), "out_of_memory");
    CHECK_STR(member(json_get(answer, "error"), "message"), "too much");
    run_output_retry(&output);
    CHECK_INT(output.status, RUN_OK);
}

TEST(the_short_form_takes_an_error_before_a_picture_before_text)
{
    AUTO_RUN_OUTPUT struct run_output output = {0};
    AUTO_BUF struct buf text = {0};
    say(&output, INTERPRETER_STDOUT, STR("said"));
    show(&output, true, STR("text/plain"), STR("7"));
    run_output_put_short(&output, &(struct loss){0}, &(struct json_out){.buf = &text});
    CHECK_CSTR(buf_cstr(&text), "{\"type\":\"text\",\"content\":\"said\\n7\"}");
    show(&output, false, STR("image/png"), STR("abc"));
    buf_clear(&text);
    run_output_put_short(&output, &(struct loss){0}, &(struct json_out){.buf = &text});
    CHECK_CSTR(buf_cstr(&text), "{\"type\":\"image/png\",\"content\":\"YWJj\"}");
    run_output_end(&output, RUN_FAILED, "Bad", "luck");
    buf_clear(&text);
    run_output_put_short(&output, &(struct loss){0}, &(struct json_out){.buf = &text});
    CHECK_CSTR(buf_cstr(&text), "{\"type\":\"error\",\"content\":\"Bad: luck\"}");
}

TEST(packages_are_names_that_no_installer_takes_for_options)
{
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    const char *argv[PACKAGE_ARGS_MAX];
    static const struct runtime python = {.name = "python3", .language = "python"};
    static const struct runtime bash = {.name = "bash", .language = "bash"};
    struct str package = {0};
    CHECK(package_of_module(&python, STR("cv2.gapi"), &package));
    CHECK_STR(package, "opencv-python-headless");
    CHECK(package_of_module(&python, STR("flask"), &package));
    CHECK_STR(package, "flask");
    CHECK(!package_of_module(&python, STR("--index-url=x"), &package));
    CHECK(!package_of_module(&python, STR(""), &package));
    CHECK(!package_of_module(&bash, STR("flask"), &package));
    CHECK_OK(package_check(STR("requests[socks]>=2,<3"), &err));
    CHECK_ERR(package_check(STR("-r/etc/passwd"), &err), ERR_INVALID);
    CHECK_ERR(package_check(STR("x @ http://host/x"), &err), ERR_INVALID);
    CHECK_ERR(package_check(STR(""), &err), ERR_INVALID);
    CHECK_ERR(package_check(STR("x\0y"), &err), ERR_INVALID); /* not the package x */
    CHECK_OK(package_command(&python, &package, 1, &arena, argv, &err));
    CHECK_CSTR(argv[0], "/usr/bin/python3");
    CHECK_ERR(package_command(&bash, &package, 1, &arena, argv, &err), ERR_UNSUPPORTED);
}

TEST(packages_of_npm_are_names_too)
{
    static const struct {
        const char *module, *node, *deno; /* NULL: none */
    } rows[] = {{"left-pad", "left-pad", "left-pad"},
                {"left-pad/lib/x.js", "left-pad", "left-pad"},
                {"@my/tool/sub", "@my/tool", "@my/tool"},
                {"npm:left-pad@^1", NULL, "npm:left-pad@^1"},
                {"jsr:@std/path", NULL, "jsr:@std/path"},
                {"./own.mjs", NULL, NULL},
                {"/etc/passwd", NULL, NULL},
                {"@my", NULL, NULL},
                {"--registry=x", NULL, NULL},
                {"https://host/x.js", NULL, NULL},
                {"", NULL, NULL}};
    static const struct runtime node = {.name = "node24", .language = "javascript"};
    static const struct runtime deno = {.name = "deno", .language = "javascript"};
    for (size_t i = 0; i < countof(rows); i++) {
        struct str package = {0};
        CHECK(package_of_module(&node, str_of(rows[i].module), &package) == (rows[i].node != NULL));
        if (rows[i].node != NULL)
            CHECK(str_eq(package, str_of(rows[i].node)));
        CHECK(package_of_module(&deno, str_of(rows[i].module), &package) == (rows[i].deno != NULL));
        if (rows[i].deno != NULL)
            CHECK(str_eq(package, str_of(rows[i].deno)));
    }
    struct str package = {0};
    CHECK(!package_of_module(&node, STR("left\0pad"), &package));
    CHECK(!package_of_module(&deno, STR("npm:left@1\0"), &package));
}

TEST(requirements_of_npm_name_no_address)
{
    struct err err = {0};
    AUTO_ARENA struct arena arena = {0};
    const char *argv[PACKAGE_ARGS_MAX];
    static const struct runtime node = {.name = "node24", .language = "javascript"};
    static const struct runtime deno = {.name = "deno", .language = "javascript"};
    static const char *const bad[] = {"x@file:/etc", "user/repo", "git+https://host/x", "@/x",
                                      "x@",          "../x",      "@my/--x y"};
    for (size_t i = 0; i < countof(bad); i++)
        CHECK_ERR(package_command(&node, (struct str[]){str_of(bad[i])}, 1, &arena, argv, &err),
                  ERR_INVALID);
    CHECK_OK(package_command(&node, (struct str[]){STR("@my/x@^1.2 || 3")}, 1, &arena, argv, &err));
    CHECK_CSTR(argv[1], "npm");
    CHECK_OK(package_command(&deno, (struct str[]){STR("x@1")}, 1, &arena, argv, &err));
    CHECK_CSTR(argv[1], "cache");
    CHECK_CSTR(argv[4], "npm:x@1");
    CHECK_ERR(package_command(&node, (struct str[]){STR("x>=2,<3")}, 1, &arena, argv, &err),
              ERR_INVALID);
}

TEST(a_runtime_is_meant_by_its_name_its_language_or_not_at_all)
{
    struct err err = {0};
    const struct runtime *runtime = NULL;
    struct str none = {0};
    CHECK_OK(runtime_choose(none, none, STR("bash"), &runtime, &err));
    CHECK_CSTR(runtime->name, "bash");
    CHECK_OK(runtime_choose(none, STR("shell"), STR("python3"), &runtime, &err));
    CHECK_CSTR(runtime->name, "bash");
    CHECK(runtime_speaks(runtime, none, STR("sh")) && !runtime_speaks(runtime, none, STR("py")));
    /* Where no runtime is installed, the advice is the one that a new installation has. */
    runtimes_use("/nowhere");
    CHECK_ERR(runtime_choose(none, STR("javascript"), STR("bash"), &runtime, &err),
              ERR_UNAVAILABLE);
    CHECK(strstr(err.msg, "runtime add node24") != NULL);
    CHECK_ERR(runtime_choose(STR("cobol"), none, STR("bash"), &runtime, &err), ERR_NOT_FOUND);
    CHECK_ERR(runtime_choose(none, STR("cobol"), STR("bash"), &runtime, &err), ERR_NOT_FOUND);
    CHECK_MSG("no runtime runs 'cobol'; the languages are python, ");
    CHECK_ERR(runtime_choose(STR("bash"), STR("Python"), none, &runtime, &err), ERR_INVALID);
    CHECK_MSG("runtime 'bash' does not run Python");
    CHECK_OK(runtime_choose(STR("bash"), STR("Shell"), none, &runtime, &err));
    CHECK(runtime_is_name(STR("python3")) && !runtime_is_name(STR("python")));
}

static void check_end(const struct memory_end *end, const char *wanted)
{
    AUTO_BUF struct buf text = {0};
    memory_end_put(end, &text);
    CHECK_STR(buf_str(&text), wanted);
}

TEST(the_end_of_memory_says_how_to_get_more)
{
    struct memory_end end = {.what = STR("'bash'")};
    check_end(&end, "out of memory: 'bash' was killed; --memory gives it more");
    end.sandbox = STR("sb1");
    end.rest = "the sandbox goes on";
    end.peak_bytes = -1;
    check_end(&end, "out of memory: 'bash' was killed; the sandbox goes on. To raise the limit: "
                    "`sandglass sandbox update sb1 --memory 1024m`, or PATCH limits.memoryMb");
    end.peak_bytes = 180 << 20;
    end.limit_bytes = 192 << 20;
    check_end(&end, "out of memory: 'bash' was killed at the sandbox's limit of 192 MiB (peak 180 "
                    "MiB); the sandbox goes on. To raise the limit: `sandglass sandbox update "
                    "sb1 --memory 384m`, or PATCH limits.memoryMb");
    end.is_of_session = true;
    check_end(&end,
              "out of memory: 'bash' was killed at the sandbox's limit of 192 MiB (peak 180 "
              "MiB); the sandbox goes on. To raise the limit: `sandglass sandbox update "
              "sb1 --memory 384m`, or PATCH limits.memoryMb; this lasts until the sandbox is "
              "replaced. To give a session more memory from the start: `sandglass session create "
              "--memory 384m` (sandbox.limits.memoryMb); [sandbox] memory_mb sets the server's "
              "default");
}
