#include "cli/run/repl_input.h"
#include "test.h"

static bool more(const char *code, const char *language)
{
    return repl_is_unfinished(str_of(code), str_of(language));
}

TEST(python_goes_on_in_brackets_quotes_and_blocks)
{
    CHECK(!more("x = 1\n", "python"));
    CHECK(more("f(1,\n", "python"));
    CHECK(!more("f(1,\n2)\n", "python"));
    CHECK(more("x = \"\"\"a\n", "python"));
    CHECK(!more("x = \"\"\"a\nb\"\"\"\n", "python"));
    CHECK(!more("x = '('  # [\n", "python"));
    CHECK(more("for i in x:\n", "python"));
    CHECK(more("for i in x:\n    f(i)\n", "python"));
    CHECK(!more("for i in x:\n    f(i)\n\n", "python"));
    CHECK(more("@d\n", "python"));
    CHECK(more("x = 1 + \\\n", "python"));
    CHECK(!more("(\n\n", "python")); /* an empty line ends anything */
    CHECK(!more("'it\n", "python")); /* wrong, and not to be mended by more lines */
    CHECK(!more("", "python"));
}

TEST(scripts_go_on_in_brackets_templates_and_comments)
{
    CHECK(!more("f(1)\n", "javascript"));
    CHECK(more("function f() {\n", "javascript"));
    CHECK(more("`a\n", "typescript"));
    CHECK(more("/* a\n", "javascript"));
    CHECK(!more("f(')') // (\n", "javascript"));
}

TEST(shells_go_on_until_their_words_end)
{
    CHECK(!more("echo one\n", "bash"));
    CHECK(more("for i in 1 2; do\n", "bash"));
    CHECK(!more("for i in 1 2; do\necho $i\ndone\n", "bash"));
    CHECK(more("if true; then\n", "bash"));
    CHECK(!more("if true; then\necho\nfi\n", "bash"));
    CHECK(more("echo 'a\n", "bash"));
    CHECK(more("f() {\n", "bash"));
}
