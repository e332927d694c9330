#include "test.h"

#include "base/buf.h"
#include "search/chunk.h"

static struct arena arena;
static struct chunked chunked;

static void split(const char *text, enum doc_format format)
{
    struct err err = {0};
    CHECK_OK(chunk_document(str_of(text), format, STR("@acme/sdk"), &arena, &chunked, &err));
}

static void check_chunk(const char *text, size_t at, const char *heading, const char *content)
{
    CHECK(at < chunked.count);
    CHECK_STR(chunked.chunks[at].heading, heading);
    CHECK_STR(str_n(text + chunked.chunks[at].start, chunked.chunks[at].len), content);
}

TEST(sections_begin_at_second_level)
{
    const char *text = "# T\nintro\n## A\naaa\n### sub\nx\n## Empty\n## B \nbbb\n";
    split(text, DOC_MARKDOWN);
    CHECK_INT(chunked.count, 3);
    check_chunk(text, 0, "T", "intro");
    check_chunk(text, 1, "T > A", "aaa\n### sub\nx");
    check_chunk(text, 2, "T > B", "bbb");
    CHECK_STR(chunked.title, "T");
    arena_done(&arena);
}

TEST(title_is_the_packages_without_another)
{
    const char *text = "just words\n";
    split(text, DOC_MARKDOWN);
    check_chunk(text, 0, "@acme/sdk", "just words");
    const char *front = "---\ntitle: \"The Guide\"\n---\n\n## One\nbody\n";
    split(front, DOC_MARKDOWN);
    CHECK_STR(chunked.title, "The Guide");
    check_chunk(front, 1, "The Guide > One", "body");
    arena_done(&arena);
}

TEST(front_matter_stays_with_the_text_behind_the_title)
{
    const char *text = "---\ntitle: T\n---\n\n# T\n\nIntro.\n\n## A\na\n# Other\no\n";
    split(text, DOC_MARKDOWN);
    CHECK_INT(chunked.count, 3);
    check_chunk(text, 0, "T", "---\ntitle: T\n---\n\n# T\n\nIntro.");
    check_chunk(text, 1, "T > A", "a");
    check_chunk(text, 2, "T", "o");
    arena_done(&arena);
}

/* A heading before a block that fills a chunk was a chunk of its own, and the best result. */
TEST(no_chunk_is_only_a_heading)
{
    AUTO_BUF struct buf text = {0};
    buf_put_cstr(&text, "# T\n## S\nwords\n\n### Part\n\n#### Deep\n\n```\n");
    for (int i = 0; i < 100; i++)
        buf_printf(&text, "line %d of the code\n", i);
    buf_put_cstr(&text, "```\n\n### Last\n");
    split(buf_cstr(&text), DOC_MARKDOWN);
    CHECK_INT(chunked.count, 2);
    CHECK_STR(chunked.chunks[1].heading, "T > S > Part > Deep");
    struct str part = str_n(text.ptr + chunked.chunks[1].start, chunked.chunks[1].len);
    CHECK(str_starts(part, STR("### Part\n\n#### Deep\n\n```\nline 0")));
    CHECK(str_ends(part, STR("```\n\n### Last")));
    arena_done(&arena);
}

TEST(heading_in_a_fence_is_content)
{
    const char *text =
        "## A\n```md\n## not a heading\n```\n~~~~\n## nor this\n~~~\n## still\n~~~~\n"
        "## B\nb\n";
    split(text, DOC_MARKDOWN);
    CHECK_INT(chunked.count, 2);
    check_chunk(text, 1, "@acme/sdk > B", "b");
    arena_done(&arena);
}

TEST(long_section_is_cut_at_paragraphs_with_overlap)
{
    AUTO_BUF struct buf text = {0};
    buf_put_cstr(&text, "# T\n## Long\n");
    for (int i = 0; i < 40; i++)
        buf_printf(&text,
                   "Paragraph %d has a few words that make it about one hundred and fifty "
                   "bytes long, so that many of them are needed for one chunk.\n\n",
                   i);
    split(buf_cstr(&text), DOC_MARKDOWN);
    CHECK(chunked.count >= 3);
    for (size_t i = 0; i < chunked.count; i++) {
        struct str part = str_n(text.ptr + chunked.chunks[i].start, chunked.chunks[i].len);
        CHECK(part.len <= CHUNK_BYTES_MAX && part.len >= CHUNK_REST);
        CHECK(str_starts(part, STR("Paragraph ")));
        CHECK_STR(chunked.chunks[i].heading, "T > Long");
        if (i > 0) /* the last paragraph of the piece before comes again */
            CHECK(chunked.chunks[i].start <
                  chunked.chunks[i - 1].start + chunked.chunks[i - 1].len);
    }
    arena_done(&arena);
}

TEST(piece_has_the_deeper_heading)
{
    AUTO_BUF struct buf text = {0};
    buf_put_cstr(&text, "# T\n## S\n");
    for (int part = 0; part < 3; part++) {
        buf_printf(&text, "### Part %d\n\n", part);
        for (int i = 0; i < 14; i++)
            buf_printf(&text,
                       "Sentence %d of the part, long enough to fill the piece with "
                       "about a hundred bytes of text.\n\n",
                       i);
    }
    split(buf_cstr(&text), DOC_MARKDOWN);
    CHECK_STR(chunked.chunks[0].heading, "T > S > Part 0");
    CHECK_STR(chunked.chunks[chunked.count - 1].heading, "T > S > Part 2");
    arena_done(&arena);
}

TEST(declarations_are_kept_with_their_comment)
{
    const char *text =
        "import { x } from 'y';\n\n"
        "/**\nMakes a client. It talks to the server for you and keeps its connection open until "
        "close is called, which every program should do before it ends. Options that are left out "
        "have the values of the environment, and a wrong one is an error that names it. It is "
        "safe to make many of them.\n*/\n"
        "export declare function createClient(options: Options): Client;\n"
        "export interface Options {\n    url: string;\n}\n";
    split(text, DOC_TYPES);
    CHECK_INT(chunked.count, 2);
    CHECK_STR(chunked.chunks[1].heading, "@acme/sdk > Options");
    CHECK(str_find(str_n(text + chunked.chunks[0].start, chunked.chunks[0].len),
                   STR("createClient(options")) < chunked.chunks[0].len);
    arena_done(&arena);
}

TEST(hostile_documents_cost_their_bounds)
{
    struct err err = {0};
    size_t size = DOCUMENT_MAX;
    AUTO_MEM char *text = mem_alloc(size + 1);
    static const char *const patterns[] = {"a",        "# ",    "\n",        "```\n", "~",
                                           "## x\n",   "[",     "> ",        "- \n",  "/**\n",
                                           "\xc3\xa9", "a\n\n", "###### y\n"};
    for (size_t i = 0; i < countof(patterns); i++) {
        size_t len = strlen(patterns[i]), at = 0;
        for (; at + len <= size; at += len)
            memcpy(text + at, patterns[i], len);
        for (int format = DOC_MARKDOWN; format <= DOC_TYPES; format++)
            (void)!chunk_document(str_n(text, at), (enum doc_format)format, STR("t"), &arena,
                                  &chunked, &err);
        arena_done(&arena);
    }
    CHECK_ERR(chunk_document(str_n(text, size + 1), DOC_TEXT, STR("t"), &arena, &chunked, &err),
              ERR_TOO_LARGE);
    CHECK_ERR(chunk_document(str_n("a\0b", 3), DOC_TEXT, STR("t"), &arena, &chunked, &err),
              ERR_INVALID);
    CHECK_ERR(chunk_document(STR("\xff"), DOC_TEXT, STR("t"), &arena, &chunked, &err), ERR_INVALID);
    arena_done(&arena);
}
