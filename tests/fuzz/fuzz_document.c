/* Two questions. A document, any bytes: what is read of it is a record that is taken. A record, any
 * bytes: it is refused, or its chunks lie inside the text and its terms are whole. */

#include "fuzz.h"

#include "base/err.h"
#include "search/document.h"
#include "search/terms.h"

static void count(void *ctx, struct str term, UNUSED struct str raw)
{
    assert(term.len > 0 && term.len <= WORD_MAX && str_is_utf8(term));
    ++*(size_t *)ctx;
}

static void check(const struct document *document)
{
    size_t terms = 0;
    assert(str_is_utf8(document->title) && str_is_utf8(document->text));
    for (size_t i = 0; i < document->count; i++) {
        const struct document_chunk *chunk = &document->chunks[i];
        assert(chunk->len > 0 && chunk->len <= CHUNK_BYTES_MAX);
        assert(chunk->start + chunk->len <= document->text.len);
        assert(str_is_utf8(chunk->heading));
        assert(str_is_utf8(str_slice(document->text, chunk->start, chunk->start + chunk->len)));
        terms_each(chunk->heading_terms, count, &terms);
        terms_each(chunk->terms, count, &terms);
    }
}

static void read_document(struct str text, enum doc_format format)
{
    AUTO_ARENA struct arena arena = {0};
    struct document_ask ask = {.title = STR("title"), .text = text, .format = format};
    AUTO_BUF struct buf record = buf_with_limit(document_record_max(&ask));
    struct document document = {0};
    struct err err = {0};
    if (document_read(&ask, &record, &err) < 0) {
        assert(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
        return;
    }
    int result = document_take(buf_str(&record), &ask, &arena, &document, &err);
    assert(result == 0);
    check(&document);
}

/* The first byte is how much of the rest is the text; the record follows. */
static void take_record(struct str bytes, enum doc_format format)
{
    AUTO_ARENA struct arena arena = {0};
    size_t len = bytes.len == 0 ? 0 : (unsigned char)bytes.ptr[0];
    struct document_ask ask = {.text = str_slice(bytes, 1, 1 + len), .format = format};
    struct document document = {0};
    struct err err = {0};
    if (document_take(str_slice(bytes, 1 + len, bytes.len), &ask, &arena, &document, &err) == 0)
        check(&document);
    else
        assert(err.code == ERR_INVALID || err.code == ERR_TOO_LARGE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str rest = str_n((const char *)data + 1, size - 1);
    enum doc_format format = (enum doc_format)(data[0] % 4);
    if (data[0] & 0x80)
        take_record(rest, format);
    else
        read_document(rest, format);
    return 0;
}
