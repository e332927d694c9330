/* Reading a document: in the confined process, and in tests. */

#include <string.h>

#include "base/err.h"
#include "search/document_internal.h"
#include "search/html.h"
#include "search/terms.h"

static void put_u32(struct buf *out, size_t n)
{
    uint32_t number = (uint32_t)n;
    buf_put(out, str_n((const char *)&number, sizeof number));
}

static void put_text(struct buf *out, struct str text)
{
    put_u32(out, text.len);
    buf_put(out, text);
}

void document_put_failure(struct buf *record, const struct err *why)
{
    put_u32(record, why->code == ERR_TOO_LARGE ? RECORD_TOO_LARGE : RECORD_INVALID);
    put_text(record, str_of(why->msg));
}

static int put_terms(struct buf *out, struct str text, struct err *err)
{
    AUTO_BUF struct buf terms = {0};
    terms_put(&terms, text);
    put_u32(out, terms.len);
    return buf_append(out, buf_str(&terms), err);
}

static int put_chunk(struct buf *out, struct str text, const struct chunk *chunk, struct err *err)
{
    put_u32(out, chunk->start);
    put_u32(out, chunk->len);
    put_text(out, chunk->heading);
    if (put_terms(out, chunk->heading, err) < 0)
        return -1;
    return put_terms(out, str_slice(text, chunk->start, chunk->start + chunk->len), err);
}

static int put_chunks(struct buf *out, struct str text, const struct chunk *chunks, size_t count,
                      struct err *err)
{
    put_u32(out, count);
    for (size_t i = 0; i < count; i++)
        if (put_chunk(out, text, &chunks[i], err) < 0)
            return -1;
    return 0;
}

static int convert(const struct document_ask *ask, struct buf *out, struct err *err)
{
    if (html_to_markdown(ask->text, out, err) < 0)
        return -1;
    return out->len <= DOCUMENT_MAX
               ? 0
               : err_set(err, ERR_TOO_LARGE, "the text of the page is too long");
}

int document_read(const struct document_ask *ask, struct buf *record, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    AUTO_BUF struct buf converted = buf_with_limit(HTML_OUT_MAX);
    struct chunked chunked = {.title = ask->title};
    struct str text = ask->text;
    bool is_html = ask->format == DOC_HTML;
    if (is_html && convert(ask, &converted, err) < 0)
        return -1;
    if (is_html)
        text = buf_str(&converted);
    if (ask->chunks == NULL && chunk_document(text, is_html ? DOC_MARKDOWN : ask->format,
                                              ask->title, &arena, &chunked, err) < 0)
        return -1;
    put_u32(record, RECORD_READ);
    put_text(record, buf_str(&converted));
    put_text(record, chunked.title);
    return ask->chunks == NULL ? put_chunks(record, text, chunked.chunks, chunked.count, err)
                               : put_chunks(record, text, ask->chunks, ask->chunk_count, err);
}
