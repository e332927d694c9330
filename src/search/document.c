/* Taking a record: nothing of it is trusted. */

#include "search/document.h"

#include <string.h>

#include "base/err.h"
#include "search/document_internal.h"
#include "search/terms.h"

enum { REASON_MAX = 160 };

/* --- Parts of a record --- */

static bool get_u32(struct str *rest, size_t *ret_n)
{
    uint32_t number = 0;
    if (rest->len < sizeof number)
        return false;
    memcpy(&number, rest->ptr, sizeof number);
    *rest = str_slice(*rest, sizeof number, rest->len);
    *ret_n = number;
    return true;
}

static bool get_bytes(struct str *rest, size_t max, struct str *ret_bytes)
{
    size_t len = 0;
    if (!get_u32(rest, &len) || len > max || len > rest->len)
        return false;
    *ret_bytes = str_slice(*rest, 0, len);
    *rest = str_slice(*rest, len, rest->len);
    return true;
}

static bool is_text(struct str text)
{
    return str_is_utf8(text) && str_find_char(text, '\0') == text.len;
}

static bool is_line(struct str text, size_t max)
{
    return text.len <= max && is_text(text) && str_find_char(text, '\n') == text.len;
}

static bool get_line(struct str *rest, size_t max, struct str *ret_line)
{
    return get_bytes(rest, max, ret_line) && is_line(*ret_line, max);
}

static bool are_terms(struct str terms, size_t of_bytes)
{
    return terms.len <= of_bytes * DOCUMENT_TERMS_FACTOR && terms_are_valid(terms);
}

/* --- Chunks --- */

/* Begins and ends between two characters. */
static bool is_range(struct str text, size_t start, size_t len)
{
    if (len == 0 || len > CHUNK_BYTES_MAX || start > text.len || len > text.len - start)
        return false;
    size_t end = start + len;
    return ((unsigned char)text.ptr[start] & 0xc0) != 0x80 &&
           (end == text.len || ((unsigned char)text.ptr[end] & 0xc0) != 0x80);
}

/* Chunks follow each other; two share a short paragraph at most. */
static bool is_behind(const struct document_chunk *chunk, const struct document_chunk *before)
{
    return chunk->start > before->start &&
           chunk->start + CHUNK_OVERLAP >= before->start + before->len;
}

static bool is_asked(const struct document_chunk *chunk, const struct chunk *asked)
{
    return chunk->start == asked->start && chunk->len == asked->len &&
           str_eq(chunk->heading, asked->heading);
}

static bool is_chunk(struct str text, const struct document_chunk *chunk)
{
    return is_range(text, chunk->start, chunk->len) &&
           is_line(chunk->heading, DOCUMENT_HEADING_MAX) &&
           are_terms(chunk->heading_terms, chunk->heading.len) &&
           are_terms(chunk->terms, chunk->len);
}

static bool get_chunk(struct str *rest, struct document_chunk *chunk)
{
    return get_u32(rest, &chunk->start) && get_u32(rest, &chunk->len) &&
           get_bytes(rest, SIZE_MAX, &chunk->heading) &&
           get_bytes(rest, SIZE_MAX, &chunk->heading_terms) &&
           get_bytes(rest, SIZE_MAX, &chunk->terms);
}

bool document_has_chunks(struct str text, const struct document_chunk *chunks, size_t count)
{
    if (text.len > DOCUMENT_MAX || !is_text(text) || count > CHUNKS_PER_DOCUMENT)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!is_chunk(text, &chunks[i]) || (i > 0 && !is_behind(&chunks[i], &chunks[i - 1])))
            return false;
    return true;
}

static bool get_chunks(struct str *rest, const struct document_ask *ask, struct arena *arena,
                       struct document *document)
{
    size_t count = 0;
    if (!get_u32(rest, &count) || count > CHUNKS_PER_DOCUMENT ||
        (ask->chunks != NULL && count != ask->chunk_count))
        return false;
    document->chunks = arena_array(arena, struct document_chunk, count + 1);
    for (size_t i = 0; i < count; i++) {
        struct document_chunk *chunk = &document->chunks[i];
        if (!get_chunk(rest, chunk) || (ask->chunks != NULL && !is_asked(chunk, &ask->chunks[i])))
            return false;
    }
    document->count = count;
    return document_has_chunks(document->text, document->chunks, count);
}

/* --- The whole --- */

static int document_refuse(struct str rest, size_t kind, struct err *err)
{
    struct str reason = {0};
    char shown[REASON_MAX + 1] = "";
    if (!get_line(&rest, sizeof err->msg, &reason) || rest.len > 0)
        return err_set(err, ERR_INVALID, "the document could not be read");
    for (size_t i = 0; i < MIN(reason.len, (size_t)REASON_MAX); i++)
        shown[i] = reason.ptr[i] >= 0x20 && reason.ptr[i] < 0x7f ? reason.ptr[i] : '?';
    return err_set(err, kind == RECORD_TOO_LARGE ? ERR_TOO_LARGE : ERR_INVALID, "%s", shown);
}

static bool get_text(struct str *rest, const struct document_ask *ask, struct document *document)
{
    bool is_html = ask->format == DOC_HTML;
    struct str converted = {0};
    if (!get_bytes(rest, is_html ? DOCUMENT_MAX : 0, &converted))
        return false;
    document->format = is_html ? DOC_MARKDOWN : ask->format;
    document->text = is_html ? converted : ask->text;
    return document->text.len <= DOCUMENT_MAX && is_text(document->text);
}

int document_take(struct str record, const struct document_ask *ask, struct arena *arena,
                  struct document *ret_document, struct err *err)
{
    struct document document = {0};
    struct str rest = record;
    size_t kind = 0;
    bool is_good = get_u32(&rest, &kind);
    if (is_good && (kind == RECORD_INVALID || kind == RECORD_TOO_LARGE))
        return document_refuse(rest, kind, err);
    is_good = is_good && kind == RECORD_READ && get_text(&rest, ask, &document) &&
              get_line(&rest, DOCUMENT_TITLE_MAX, &document.title) &&
              get_chunks(&rest, ask, arena, &document) && rest.len == 0;
    if (!is_good)
        return err_set(err, ERR_INVALID, "the process that read the document gave a false record");
    *ret_document = document;
    return 0;
}

/* A chunk has a few numbers and a path of headings besides its terms, and chunks overlap. */
size_t document_record_max(const struct document_ask *ask)
{
    size_t text = ask->format == DOC_HTML ? DOCUMENT_MAX : ask->text.len;
    size_t chunks = ask->chunks != NULL ? ask->chunk_count : text / 2 + 1;
    size_t heading = (DOCUMENT_TERMS_FACTOR + 1) * DOCUMENT_HEADING_MAX;
    chunks = MIN(chunks, (size_t)CHUNKS_PER_DOCUMENT);
    return 4096 + 2 * text * (DOCUMENT_TERMS_FACTOR + 1) + chunks * (heading + 64);
}
