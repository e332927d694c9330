/* grep: what it finds, what it passes over, and what a hostile pattern costs (FS-10). */

#include "files/grep.h"

#include <sys/resource.h>

#include "files/needle.h"
#include "files/regex.h"
#include "tree.h"

static struct files_grep grep(struct tree *tree, struct arena *arena, const char *pattern,
                              struct files_grep_options options)
{
    struct err err = {0};
    struct files_grep found = {0};
    CHECK_OK(files_grep(tree->files, STR("."), str_of(pattern), &options, arena, &found, &err));
    return found;
}

TEST(grep_finds_lines)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    tree_put(&tree, "b.c", "int one;\nint two;\r\n\nreturn one;");
    tree_put(&tree, "a/x.h", "void one(void);\n");
    struct files_grep found = grep(&tree, &arena, "one", (struct files_grep_options){0});
    CHECK_INT(found.count, 3);
    CHECK_STR(found.matches[0].path, "a/x.h");
    CHECK_STR(found.matches[1].text, "int one;");
    CHECK(found.matches[2].line == 4 && !found.truncated && found.files == 2);
    CHECK_STR(found.matches[2].text, "return one;");
    found = grep(&tree, &arena, "^int \\w+;\\s*$", (struct files_grep_options){0});
    CHECK_INT(found.count, 2);
    CHECK_STR(found.matches[1].text, "int two;");
    found = grep(&tree, &arena, "ONE|TWO", (struct files_grep_options){.ignore_case = true});
    CHECK_INT(found.count, 4);
    found = grep(&tree, &arena, "one", (struct files_grep_options){.glob = STR("*.h")});
    CHECK_INT(found.count, 1);
    found = grep(&tree, &arena, "one", (struct files_grep_options){.glob = STR("b/*.h")});
    CHECK_INT(found.count, 0);
    found = grep(&tree, &arena, "one(", (struct files_grep_options){.literal = true});
    CHECK_INT(found.count, 1);
    found = grep(&tree, &arena, "^$", (struct files_grep_options){0});
    CHECK(found.count == 1 && found.matches[0].line == 3);
    found = grep(&tree, &arena, "one", (struct files_grep_options){.limit = 2});
    CHECK(found.count == 2 && found.truncated && !found.timed_out);
    CHECK_OK(files_grep(tree.files, STR("b.c"), STR("two"), NULL, &arena, &found, &err));
    CHECK(found.count == 1 && found.matches[0].line == 2);
    CHECK_STR(found.matches[0].path, "b.c");
    CHECK_ERR(files_grep(tree.files, STR("no"), STR("x"), NULL, &arena, &found, &err),
              ERR_NOT_FOUND);
    CHECK_ERR(files_grep(tree.files, STR(".."), STR("x"), NULL, &arena, &found, &err),
              ERR_PATH_ESCAPES);
}

TEST(grep_passes_over_binaries_links_and_what_is_no_file)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    bool created;
    char path[400];
    CHECK_OK(files_write(tree.files, STR("bin"), STR("cnry\0x"), NULL, &created, &err));
    tree_put(&tree, "text", "cnry here");
    test_symlink(tree.dir, "../HOSTFILE", "out");
    test_symlink(tree.dir, "..", "up");
    (void)snprintf(path, sizeof path, "%s/fifo", tree.dir);
    CHECK_INT(mkfifo(path, 0666), 0);
    tree_put(&tree, "sparse", "");
    (void)snprintf(path, sizeof path, "%s/sparse", tree.dir);
    CHECK_INT(truncate(path, (off_t)1 << 40), 0);
    struct files_grep found = grep(&tree, &arena, "cnry", (struct files_grep_options){0});
    CHECK_INT(found.count, 1);
    CHECK_STR(found.matches[0].path, "text");
    CHECK_INT(found.binary, 2);
}

TEST(grep_reads_files_longer_than_its_buffer)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf text = {0};
    for (int i = 1; i <= 100000; i++)
        buf_printf(&text, "line %d\n", i);
    tree_put(&tree, "long", text.ptr);
    struct files_grep found =
        grep(&tree, &arena, "line (31337|99999)$", (struct files_grep_options){0});
    CHECK_INT(found.count, 2);
    CHECK_INT(found.matches[0].line, 31337);
    CHECK_INT(found.matches[1].line, 99999);
    buf_clear(&text);
    buf_put_cstr(&text, "needle at the start ");
    for (int i = 0; i < 700000; i++)
        buf_put_char(&text, 'x');
    buf_put_cstr(&text, " needle at the end\nneedle below\n");
    tree_put(&tree, "wide", text.ptr);
    found = grep(&tree, &arena, "needle", (struct files_grep_options){.line_max = 10});
    CHECK_INT(found.count, 2);
    CHECK_STR(found.matches[0].text, "needle at ");
    CHECK(found.matches[0].is_cut && found.matches[1].line == 2);
    CHECK_STR(found.matches[1].text, "needle bel");
}

TEST(grep_with_threads_finds_the_same)
{
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    char path[64];
    for (int i = 0; i < 300; i++) {
        (void)snprintf(path, sizeof path, "d%d/f%d", i % 20, i);
        tree_put(&tree, path, i % 3 == 0 ? "alpha\nbeta 17\n" : "alpha\n");
    }
    struct files_grep one = grep(&tree, &arena, "bet. \\d+", (struct files_grep_options){0});
    struct files_grep many =
        grep(&tree, &arena, "bet. \\d+", (struct files_grep_options){.threads = 4});
    CHECK_INT(one.count, 100);
    CHECK_INT(many.count, 100);
    for (size_t i = 0; i < one.count; i++)
        CHECK(str_eq(one.matches[i].path, many.matches[i].path));
}

TEST(needle_is_what_every_match_holds)
{
    static const struct {
        const char *pattern, *needle;
        bool is_plain;
    } cases[] = {
        {"hello", "hello", true},      {"hel+o", "hel", false},
        {"hell?o", "hel", false},      {"a|b", "", false},
        {"(a|b)cde", "cde", false},    {"foo\\.bar", "foo.bar", true},
        {"foo.bar", "foo", false},     {"(?i)foo", "", false},
        {"ab{0}cdx", "cdx", false},    {"x{,3}abc", "", false},
        {"[abc]def", "def", false},    {"[]x]yz", "yz", false},
        {"\\x41bc", "", false},        {"\\Qa*b", "", false},
        {"\\bword\\b", "word", false}, {"caf\xc3\xa9*s", "caf", false},
        {"^abc$", "abc", false},       {"a*?bc", "bc", false},
        {"(foo)?barx", "barx", false}, {"[[:alpha:]]x", "", false},
        {"a}b", "a}b", true},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        char out[64];
        size_t len = 0;
        CHECK_INT(needle_of_pattern(str_of(cases[i].pattern), out, &len), cases[i].is_plain);
        CHECK_STR(str_n(out, len), cases[i].needle);
    }
}

TEST(bad_patterns_are_named)
{
    static const struct {
        const char *pattern;
        enum err_code code;
    } cases[] = {
        {"", ERR_INVALID_PATTERN},
        {"[a-", ERR_INVALID_PATTERN},
        {"(a", ERR_INVALID_PATTERN},
        {"*", ERR_INVALID_PATTERN},
        {"(a)\\1", ERR_INVALID_PATTERN},
        {"(\\1)", ERR_INVALID_PATTERN},
        {"\xff", ERR_INVALID_PATTERN},
        {"(.*){1,30000}", ERR_PATTERN_TOO_COMPLEX},
        {"((a{1,100}){1,100}){1,100}", ERR_PATTERN_TOO_COMPLEX},
    };
    struct err err = {0};
    struct regex *regex = NULL;
    for (size_t i = 0; i < countof(cases); i++)
        CHECK_ERR(regex_new(str_of(cases[i].pattern), false, false, &regex, &err), cases[i].code);
    AUTO_BUF struct buf text = {0};
    for (int i = 0; i < 4000; i++)
        buf_put_char(&text, '(');
    CHECK_ERR(regex_new(buf_str(&text), false, false, &regex, &err), ERR_PATTERN_TOO_COMPLEX);
    while (text.len < 1 << 20)
        buf_put_char(&text, 'a');
    CHECK_ERR(regex_new(buf_str(&text), false, false, &regex, &err), ERR_PATTERN_TOO_COMPLEX);
}

TEST(context_comes_once_and_in_order)
{
    static const struct {
        unsigned long long line, column;
        bool is_context;
        const char *text;
    } expected[] = {{1, 0, true, "one"}, {2, 1, false, "two x"}, {3, 3, false, "a x"},
                    {4, 0, true, ""},    {7, 0, true, "seven"},  {8, 5, false, "now x"}};
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    struct err err = {0};
    struct files_grep found = {0};
    struct files_grep_options options = {.context = 1};
    tree_put(&tree, "f", "one\ntwo x\na x\n\nfive\nsi\nseven\r\nnow x");
    CHECK_OK(files_grep(tree.files, STR("."), STR("(two )?x"), &options, &arena, &found, &err));
    CHECK_INT(found.count, countof(expected));
    for (size_t i = 0; i < countof(expected); i++) {
        CHECK_INT(found.matches[i].line, expected[i].line);
        CHECK_INT(found.matches[i].column, expected[i].column);
        CHECK_INT(found.matches[i].is_context, expected[i].is_context);
        CHECK_STR(found.matches[i].text, expected[i].text);
    }
    options.limit = 1; /* counts only matches */
    CHECK_OK(files_grep(tree.files, STR("f"), STR("x"), &options, &arena, &found, &err));
    CHECK_INT(found.count, 3);
    CHECK_INT(found.matches[1].column, 5);
    CHECK(found.truncated);
    /* A line that costs too much for the quick matcher has no column. */
    AUTO_BUF struct buf line = {0};
    while (line.len < 3000)
        buf_put_char(&line, 'a');
    buf_put_char(&line, 'b');
    tree_put(&tree, "g", line.ptr);
    CHECK_OK(files_grep(tree.files, STR("g"), STR("a*b"), NULL, &arena, &found, &err));
    CHECK_INT(found.count, 1);
    CHECK_INT(found.matches[0].column, 0);
}

static double cpu_seconds(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
}

/* FS-10. The bound is CPU time, not the clock on the wall; thrice the promise, for sanitizers. */
TEST(hostile_patterns_cost_little)
{
    static const char *const patterns[] = {
        "(a+)+$",          "(a*)*b",         "(a|a)*b",
        "(a|aa)+$",        "a*a*a*a*a*b",    "(.*)*(.*)*(.*)*x",
        "a{0,900}[ab]*c",  "(?=(a+)+b)a",    "(?:(?=.*a.*b)a)+",
        "(x+x+)+y|(a+)+c", "(a?){50}a{50}b", "(?R)?a",
        ".*.*.*=.*",       "(a+)+b(c+)+d",   "(?=a*b)(?=a*c)(?=a*d)",
    };
    AUTO_TREE struct tree tree = tree_new();
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf text = {0};
    while (text.len < 1 << 20)
        buf_put_char(&text, 'a');
    tree_put(&tree, "one_line", text.ptr);
    for (size_t i = 1000; i < text.len; i += 1000)
        text.ptr[i] = '\n';
    tree_put(&tree, "lines", text.ptr);
    for (size_t i = 30; i < text.len; i += 31)
        text.ptr[i] = '\n';
    tree_put(&tree, "short_lines", text.ptr);
    for (size_t i = 0; i < countof(patterns); i++) {
        struct err err = {0};
        struct files_grep found = {0};
        double before = cpu_seconds();
        int done =
            files_grep(tree.files, STR("."), str_of(patterns[i]), NULL, &arena, &found, &err);
        double cost = cpu_seconds() - before;
        print_message("# %-24s %.2f s %s\n", patterns[i], cost, done == 0 ? "" : err.msg);
        CHECK(done == 0 || err.code == ERR_PATTERN_TOO_COMPLEX || err.code == ERR_INVALID_PATTERN);
        CHECK(cost < 6);
    }
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    print_message("# peak %ld KiB\n", usage.ru_maxrss);
}
