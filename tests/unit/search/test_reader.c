#include "search/reader.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "test.h"

static struct arena arena;

static void read_all(const char *program, const struct document_ask *asks, size_t count,
                     struct reader_answer *answers)
{
    struct err err = {0};
    struct reader_options options = {.program = program, .wall_ms = 60000};
    CHECK_OK(reader_read(&options, asks, count, &arena, answers, &err));
}

static struct document_ask ask_of(const char *text, enum doc_format format)
{
    return (struct document_ask){.title = STR("title"), .text = str_of(text), .format = format};
}

static struct str text_of(const struct reader_answer *answer, size_t chunk)
{
    CHECK_CSTR(answer->why.msg, "");
    CHECK(chunk < answer->document.count);
    const struct document_chunk *at = &answer->document.chunks[chunk];
    return str_slice(answer->document.text, at->start, at->start + at->len);
}

TEST(documents_of_all_kinds)
{
    struct document_ask asks[] = {
        ask_of("# Guide\n## Login\nUse a token.\n## Upload\nIn parts.\n", DOC_MARKDOWN),
        ask_of("plain words\n", DOC_TEXT),
        ask_of("export declare function openHatch(): void;\n", DOC_TYPES),
        ask_of("<title>Web</title><script>evil()</script><h2>Use</h2><p>hello</p>", DOC_HTML),
        ask_of("", DOC_TEXT),
    };
    struct reader_answer answers[countof(asks)];
    read_all(SANDGLASS, asks, countof(asks), answers);
    CHECK_STR(text_of(&answers[0], 1), "In parts.");
    CHECK_STR(answers[0].document.chunks[0].heading, "Guide > Login");
    CHECK_STR(text_of(&answers[1], 0), "plain words");
    CHECK_STR(answers[2].document.chunks[0].heading, "title > openHatch");
    CHECK_STR(text_of(&answers[3], 0), "hello");
    CHECK_STR(answers[3].document.title, "Web");
    CHECK_INT(answers[3].document.format, DOC_MARKDOWN);
    CHECK_INT(answers[4].document.count, 0);
    arena_done(&arena);
}

TEST(what_is_no_text_is_named)
{
    struct document_ask asks[] = {ask_of("\xff\xfe", DOC_TEXT),
                                  ask_of("good", DOC_TEXT),
                                  {.text = STR("a\0b"), .format = DOC_MARKDOWN},
                                  {.title = STR("a\nb"), .text = STR("x"), .format = DOC_TEXT}};
    struct reader_answer answers[countof(asks)];
    read_all(SANDGLASS, asks, countof(asks), answers);
    CHECK_CSTR(answers[0].why.msg, "the document is not UTF-8 text");
    CHECK_STR(text_of(&answers[1], 0), "good");
    CHECK_INT(answers[2].why.code, ERR_INVALID);
    CHECK(strstr(answers[3].why.msg, "its name is not one line") != NULL);
    arena_done(&arena);
}

/* The document that ends its process is known, and the others are read. */
TEST(a_document_that_ends_the_process)
{
    struct document_ask asks[] = {ask_of("one", DOC_TEXT), ask_of("crash", DOC_TEXT),
                                  ask_of("two", DOC_TEXT), ask_of("leave", DOC_TEXT),
                                  ask_of("three", DOC_TEXT)};
    struct reader_answer answers[countof(asks)];
    read_all(LIAR, asks, countof(asks), answers);
    CHECK_STR(text_of(&answers[0], 0), "one");
    CHECK_CSTR(answers[1].why.msg, "the process that read it was ended by signal 6");
    CHECK_STR(text_of(&answers[2], 0), "two");
    CHECK_CSTR(answers[3].why.msg, "the process that read it ended early with code 7");
    CHECK_STR(text_of(&answers[4], 0), "three");
    arena_done(&arena);
}

TEST(a_document_that_takes_too_long)
{
    struct err err = {0};
    struct document_ask asks[] = {ask_of("sleep", DOC_TEXT), ask_of("two", DOC_TEXT)};
    struct reader_answer answers[countof(asks)];
    struct reader_options options = {.program = LIAR, .wall_ms = 5000};
    CHECK_OK(reader_read(&options, asks, countof(asks), &arena, answers, &err));
    CHECK_CSTR(answers[0].why.msg, "reading it took more than 5 s");
    CHECK_STR(text_of(&answers[1], 0), "two");
    arena_done(&arena);
}

/* However many documents fail, few processes are spent on one source. */
TEST(failures_of_one_source_are_bounded)
{
    struct document_ask asks[100];
    struct reader_answer answers[countof(asks)];
    for (size_t i = 0; i < countof(asks); i++)
        asks[i] = ask_of("leave", DOC_TEXT);
    read_all(LIAR, asks, countof(asks), answers);
    CHECK_CSTR(answers[READER_FAILURES_MAX - 1].why.msg,
               "the process that read it ended early with code 7");
    for (size_t i = READER_FAILURES_MAX; i < countof(asks); i++)
        CHECK_CSTR(answers[i].why.msg, "not read: 4 documents before it could not be read");
    arena_done(&arena);
}

TEST(records_that_lie)
{
    static const char *const texts[] = {"garbage", "longer", "shorter", "twice"};
    for (size_t i = 0; i < countof(texts); i++) {
        struct document_ask asks[] = {ask_of("one", DOC_TEXT), ask_of(texts[i], DOC_TEXT),
                                      ask_of("other words", DOC_TEXT)};
        struct reader_answer answers[countof(asks)];
        read_all(LIAR, asks, countof(asks), answers);
        CHECK_STR(text_of(&answers[0], 0), "one");
        CHECK(strcmp(texts[i], "twice") == 0 || answers[1].why.code == ERR_INVALID);
        /* A record in the wrong place says nothing false of the text. */
        if (answers[2].why.code == ERR_NONE)
            CHECK(str_eq(answers[2].document.text, asks[2].text));
    }
    arena_done(&arena);
}

TEST(a_stop_ends_the_wait)
{
    struct err err = {0};
    atomic_bool stop = true;
    struct document_ask ask = ask_of("sleep", DOC_TEXT);
    struct reader_answer answer;
    struct reader_options options = {.program = LIAR, .stop = &stop};
    CHECK_ERR(reader_read(&options, &ask, 1, &arena, &answer, &err), ERR_CANCELED);
    options = (struct reader_options){.program = "/does/not/exist"};
    CHECK_ERR(reader_read(&options, &ask, 1, &arena, &answer, &err), ERR_NOT_FOUND);
    arena_done(&arena);
}

TEST(many_documents_need_few_processes)
{
    enum { COUNT = 1200 };
    struct document_ask *asks = arena_array(&arena, struct document_ask, COUNT);
    struct reader_answer *answers = arena_array(&arena, struct reader_answer, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        asks[i] = ask_of("", DOC_MARKDOWN);
        asks[i].text = arena_printf(&arena, "## S\nword%zu\n", i);
    }
    read_all(SANDGLASS, asks, COUNT, answers);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(str_starts(text_of(&answers[i], 0), STR("word")));
    arena_done(&arena);
}

/* Deep, wide and endless documents end in a record or in an error; the next document is read. */
TEST(hostile_documents_cost_their_bounds)
{
    static const struct {
        const char *pattern;
        enum doc_format format;
    } cases[] = {
        {"<div>", DOC_HTML},
        {"<a b='", DOC_HTML},
        {"&#x41;", DOC_HTML},
        {"<!--", DOC_HTML},
        {"<table>", DOC_HTML},
        {"<svg><", DOC_HTML},
        {"<script>", DOC_HTML},
        {"x", DOC_TEXT},
        {"x", DOC_MARKDOWN},
        {"x", DOC_HTML},
        {"#", DOC_MARKDOWN},
        {"# a\n", DOC_MARKDOWN},
        {"###### a\n", DOC_MARKDOWN},
        {"```\n", DOC_MARKDOWN},
        {"> ", DOC_MARKDOWN},
        {"[", DOC_MARKDOWN},
        {"* ", DOC_MARKDOWN},
        {"aB", DOC_TEXT},
        {"\n\na", DOC_TEXT},
        {"export type A\n", DOC_TYPES},
        {"/**\n", DOC_TYPES},
        {"\xe4\xb8\x80", DOC_TEXT},
        {"a.", DOC_TEXT},
        {"---\n", DOC_MARKDOWN},
    };
    size_t size = DOCUMENT_MAX - 16;
    AUTO_MEM char *text = mem_alloc(size + 1);
    for (size_t i = 0; i < countof(cases); i++) {
        size_t len = strlen(cases[i].pattern), at = 0;
        for (; at + len <= size; at += len)
            memcpy(text + at, cases[i].pattern, len);
        struct document_ask asks[] = {{STR("t"), str_n(text, at), cases[i].format, NULL, 0},
                                      ask_of("next", DOC_TEXT)};
        struct reader_answer answers[countof(asks)];
        read_all(SANDGLASS, asks, countof(asks), answers);
        if (answers[0].why.code != ERR_NONE)
            CHECK(answers[0].why.code == ERR_INVALID || answers[0].why.code == ERR_TOO_LARGE);
        CHECK(strstr(answers[0].why.msg, "false record") == NULL);
        CHECK_STR(text_of(&answers[1], 0), "next");
        arena_done(&arena);
    }
}

/* 10 MB in one word are refused before a process sees them. */
TEST(documents_beyond_the_limit)
{
    AUTO_MEM char *text = mem_alloc(10 << 20);
    memset(text, 'x', 10 << 20);
    struct document_ask ask = {STR("t"), str_n(text, 10 << 20), DOC_TEXT, NULL, 0};
    struct reader_answer answer;
    read_all("/does/not/exist", &ask, 1, &answer);
    CHECK_INT(answer.why.code, ERR_TOO_LARGE);
    arena_done(&arena);
}
