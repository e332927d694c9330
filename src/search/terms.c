#include "search/terms.h"

static void put_term(void *ctx, struct str term, UNUSED struct str raw)
{
    buf_put_char(ctx, (char)term.len);
    buf_put(ctx, term);
}

void terms_put(struct buf *out, struct str text)
{
    words_each(text, put_term, out);
}

bool terms_are_valid(struct str terms)
{
    while (terms.len > 0) {
        size_t len = (unsigned char)terms.ptr[0];
        if (len == 0 || len > WORD_MAX || len >= terms.len ||
            !str_is_utf8(str_slice(terms, 1, 1 + len)))
            return false;
        terms = str_slice(terms, 1 + len, terms.len);
    }
    return true;
}

void terms_each(struct str terms, words_emit *emit, void *ctx)
{
    while (terms.len > 0) {
        size_t len = (unsigned char)terms.ptr[0];
        emit(ctx, str_slice(terms, 1, 1 + len), (struct str){0});
        terms = str_slice(terms, 1 + len, terms.len);
    }
}
