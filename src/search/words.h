#pragma once

/* Text to terms, the same for documents and queries.
 *
 * A term is a word in lower case, without accents, by its Porter stem. Identifiers are given whole
 * and in parts: `createClient`, `create_client` and `create.client` all give "createcli" (the stem
 * of "createclient"), "creat" and "client". Characters of Chinese, Japanese and Korean are terms by
 * themselves. Any bytes may come in; time is proportional to their number. */

#include "base/str.h"

enum {
    WORD_MAX = 64,        /* bytes of a term; the rest of a longer word is ignored */
    IDENTIFIER_MAX = 128, /* bytes of an identifier that is given in parts */
};

/* `term` is borrowed until the call returns. `raw` is the word without stemming. */
typedef void words_emit(void *ctx, struct str term, struct str raw);
void words_each(struct str text, words_emit *emit, void *ctx);

/* A word that carries no meaning of its own in English ("the", "how"), by `raw`. */
bool word_is_common(struct str raw);
