#include "search/document.h"

#include <string.h>

#include "base/err.h"
#include "test.h"

static struct arena arena;

static void end(void)
{
    arena_done(&arena);
}

/* A record that is made part by part, true or not. */
struct writing {
    struct buf record;
    struct document_ask ask;
};

static struct str n32(size_t n)
{
    uint32_t number = (uint32_t)n;
    return arena_dup(&arena, str_n((const char *)&number, sizeof number));
}

static void put_text(struct buf *out, struct str text)
{
    buf_put(out, n32(text.len));
    buf_put(out, text);
}

static void put_chunk(struct buf *out, size_t start, size_t len, struct str heading,
                      struct str heading_terms, struct str terms)
{
    buf_put(out, n32(start));
    buf_put(out, n32(len));
    put_text(out, heading);
    put_text(out, heading_terms);
    put_text(out, terms);
}

/* The head of a record of a document with `chunks` chunks. */
static struct buf head(struct str converted, struct str title, size_t chunks)
{
    struct buf out = {0};
    buf_put(&out, n32(0));
    put_text(&out, converted);
    put_text(&out, title);
    buf_put(&out, n32(chunks));
    return out;
}

static enum err_code take(struct buf *record, const struct document_ask *ask)
{
    struct err err = {0};
    struct document document = {0};
    int result = document_take(buf_str(record), ask, &arena, &document, &err);
    buf_done(record);
    return result == 0 ? ERR_NONE : err.code;
}

static const struct document_ask text_ask = {
    .title = {"t", 1}, .text = {"alpha beta", 10}, .format = DOC_TEXT};

static enum err_code take_chunk(size_t start, size_t len, struct str heading,
                                struct str heading_terms, struct str terms)
{
    struct buf record = head((struct str){0}, STR("t"), 1);
    put_chunk(&record, start, len, heading, heading_terms, terms);
    return take(&record, &text_ask);
}

TEST(what_is_read_is_taken)
{
    static const enum doc_format formats[] = {DOC_MARKDOWN, DOC_TEXT, DOC_TYPES, DOC_HTML};
    struct str text = STR("# Title\n<p>one</p>\n## Use\ncreateClient(token)\n\nmore\n"
                          "export declare function f(): void;\n");
    for (size_t i = 0; i < countof(formats); i++) {
        struct err err = {0};
        AUTO_BUF struct buf record = {0};
        struct document_ask ask = {.title = STR("t"), .text = text, .format = formats[i]};
        struct document document = {0};
        CHECK_OK(document_read(&ask, &record, &err));
        CHECK(record.len <= document_record_max(&ask));
        CHECK_OK(document_take(buf_str(&record), &ask, &arena, &document, &err));
        CHECK(document.count > 0 && document.chunks[0].terms.len > 0);
        /* The same again, for chunks that are known. */
        struct chunk *chunks = arena_array(&arena, struct chunk, document.count);
        for (size_t j = 0; j < document.count; j++)
            chunks[j] = (struct chunk){document.chunks[j].heading, document.chunks[j].start,
                                       document.chunks[j].len};
        struct document_ask again = {.title = document.title,
                                     .text = document.text,
                                     .format = document.format,
                                     .chunks = chunks,
                                     .chunk_count = document.count};
        struct document terms = {0};
        AUTO_BUF struct buf second = {0};
        CHECK_OK(document_read(&again, &second, &err));
        CHECK_OK(document_take(buf_str(&second), &again, &arena, &terms, &err));
        CHECK_INT(terms.count, document.count);
        CHECK(str_eq(terms.chunks[0].terms, document.chunks[0].terms));
    }
    end();
}

TEST(chunks_that_lie)
{
    CHECK_INT(take_chunk(0, 5, STR("h"), STR("\1h"), STR("\5alpha")), ERR_NONE);
    CHECK_INT(take_chunk(0, 0, STR("h"), STR("\1h"), STR("")), ERR_INVALID);
    CHECK_INT(take_chunk(0, 11, STR("h"), STR("\1h"), STR("\5alpha")), ERR_INVALID);
    CHECK_INT(take_chunk(10, 1, STR("h"), STR("\1h"), STR("\5alpha")), ERR_INVALID);
    CHECK_INT(take_chunk(UINT32_MAX, 2, STR("h"), STR("\1h"), STR("\5alpha")), ERR_INVALID);
    CHECK_INT(take_chunk(2, UINT32_MAX, STR("h"), STR("\1h"), STR("\5alpha")), ERR_INVALID);
    /* Headings are one line of UTF-8. */
    CHECK_INT(take_chunk(0, 5, STR("a\nb"), STR("\1h"), STR("\5alpha")), ERR_INVALID);
    CHECK_INT(take_chunk(0, 5, STR("a\0b"), STR("\1h"), STR("\5alpha")), ERR_INVALID);
    CHECK_INT(take_chunk(0, 5, STR("\xff"), STR("\1h"), STR("\5alpha")), ERR_INVALID);
    end();
}

TEST(terms_that_lie)
{
    char longest[1 + WORD_MAX + 1], many[200];
    memset(longest, 'x', sizeof longest);
    memset(many, 1, sizeof many);
    CHECK_INT(take_chunk(0, 5, STR("h"), STR(""), STR("\6alpha")), ERR_INVALID);
    CHECK_INT(take_chunk(0, 5, STR("h"), STR(""), STR("\0")), ERR_INVALID);
    CHECK_INT(take_chunk(0, 5, STR("h"), STR(""), STR("\1\xff")), ERR_INVALID);
    CHECK_INT(take_chunk(0, 5, STR("h"), STR("\2"), STR("\5alpha")), ERR_INVALID);
    longest[0] = WORD_MAX + 1;
    struct buf record = head((struct str){0}, STR("t"), 1);
    put_chunk(&record, 0, 10, STR("h"), STR(""), str_n(longest, sizeof longest));
    CHECK_INT(take(&record, &text_ask), ERR_INVALID);
    /* More of them than a text of that length can have. */
    record = head((struct str){0}, STR("t"), 1);
    put_chunk(&record, 0, 10, STR("h"), STR(""), str_n(many, sizeof many));
    CHECK_INT(take(&record, &text_ask), ERR_INVALID);
    end();
}

TEST(orders_that_lie)
{
    char text[4000];
    memset(text, 'x', sizeof text);
    const struct document_ask ask = {
        .title = STR("t"), .text = str_n(text, sizeof text), .format = DOC_TEXT};
    const struct {
        size_t first, first_len, second, second_len;
        enum err_code expected;
    } cases[] = {
        {0, 1000, 1000, 1000, ERR_NONE},    {0, 1000, 800, 1000, ERR_NONE},
        {0, 1000, 0, 1000, ERR_INVALID},    {1000, 1000, 0, 1000, ERR_INVALID},
        {0, 2000, 1000, 1000, ERR_INVALID}, {0, CHUNK_BYTES_MAX + 1, 3000, 10, ERR_INVALID},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct buf record = head((struct str){0}, STR("t"), 2);
        put_chunk(&record, cases[i].first, cases[i].first_len, STR("h"), STR(""), STR("\1x"));
        put_chunk(&record, cases[i].second, cases[i].second_len, STR("h"), STR(""), STR("\1x"));
        CHECK_INT(take(&record, &ask), cases[i].expected);
    }
    end();
}

TEST(texts_and_titles_that_lie)
{
    const struct document_ask html = {.title = STR("t"), .text = STR("<p>"), .format = DOC_HTML};
    struct buf record = head(STR("fine\n"), STR("t"), 0);
    CHECK_INT(take(&record, &html), ERR_NONE);
    record = head(STR("\xff"), STR("t"), 0);
    CHECK_INT(take(&record, &html), ERR_INVALID);
    record = head(STR("a\0b"), STR("t"), 0);
    CHECK_INT(take(&record, &html), ERR_INVALID);
    /* Only HTML is converted: nothing else gets another text. */
    record = head(STR("other"), STR("t"), 0);
    CHECK_INT(take(&record, &text_ask), ERR_INVALID);
    record = head((struct str){0}, STR("a\nb"), 0);
    CHECK_INT(take(&record, &text_ask), ERR_INVALID);
    char title[DOCUMENT_TITLE_MAX + 1];
    memset(title, 'x', sizeof title);
    record = head((struct str){0}, str_n(title, sizeof title), 0);
    CHECK_INT(take(&record, &text_ask), ERR_INVALID);
    /* A document that is no text is none, whatever the process says of it. */
    const struct document_ask binary = {.text = STR("a\0b"), .format = DOC_TEXT};
    record = head((struct str){0}, STR("t"), 0);
    CHECK_INT(take(&record, &binary), ERR_INVALID);
    end();
}

TEST(ranges_lie_between_characters)
{
    const struct document_ask ask = {
        .title = STR("t"), .text = STR("a\xc3\xa9z"), .format = DOC_TEXT};
    const struct {
        size_t start, len;
        enum err_code expected;
    } cases[] = {{0, 4, ERR_NONE}, {1, 2, ERR_NONE}, {2, 2, ERR_INVALID}, {0, 2, ERR_INVALID}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct buf record = head((struct str){0}, STR("t"), 1);
        put_chunk(&record, cases[i].start, cases[i].len, STR("h"), STR(""), STR(""));
        CHECK_INT(take(&record, &ask), cases[i].expected);
    }
    end();
}

TEST(other_chunks_than_those_that_were_asked_about)
{
    const struct chunk asked[] = {{STR("h"), 0, 5}};
    struct document_ask ask = text_ask;
    ask.chunks = asked;
    ask.chunk_count = 1;
    const struct {
        size_t start, len;
        struct str heading;
        enum err_code expected;
    } cases[] = {{0, 5, STR("h"), ERR_NONE},
                 {0, 4, STR("h"), ERR_INVALID},
                 {1, 5, STR("h"), ERR_INVALID},
                 {0, 5, STR("g"), ERR_INVALID}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct buf record = head((struct str){0}, STR("t"), 1);
        put_chunk(&record, cases[i].start, cases[i].len, cases[i].heading, STR(""), STR(""));
        CHECK_INT(take(&record, &ask), cases[i].expected);
    }
    struct buf record = head((struct str){0}, STR("t"), 0);
    CHECK_INT(take(&record, &ask), ERR_INVALID);
    end();
}

TEST(cut_and_padded_records)
{
    struct err err = {0};
    AUTO_BUF struct buf whole = {0};
    struct document document = {0};
    CHECK_OK(document_read(&text_ask, &whole, &err));
    for (size_t len = 0; len < whole.len; len++)
        CHECK_ERR(document_take(str_n(whole.ptr, len), &text_ask, &arena, &document, &err),
                  ERR_INVALID);
    buf_put_char(&whole, 'x');
    CHECK_ERR(document_take(buf_str(&whole), &text_ask, &arena, &document, &err), ERR_INVALID);
    /* A number of chunks that the record does not have. */
    struct buf record = head((struct str){0}, STR("t"), CHUNKS_PER_DOCUMENT + 1);
    CHECK_INT(take(&record, &text_ask), ERR_INVALID);
    record = head((struct str){0}, STR("t"), CHUNKS_PER_DOCUMENT);
    CHECK_INT(take(&record, &text_ask), ERR_INVALID);
    end();
}

TEST(reasons_are_plain_text)
{
    struct err err = {0}, why = {0};
    struct document document = {0};
    AUTO_BUF struct buf record = {0};
    (void)err_set(&why, ERR_TOO_LARGE, "much too long\x1b[2J");
    document_put_failure(&record, &why);
    CHECK_ERR(document_take(buf_str(&record), &text_ask, &arena, &document, &err), ERR_TOO_LARGE);
    CHECK_CSTR(err.msg, "much too long?[2J");
    buf_clear(&record);
    buf_put(&record, n32(77));
    CHECK_ERR(document_take(buf_str(&record), &text_ask, &arena, &document, &err), ERR_INVALID);
    end();
}
