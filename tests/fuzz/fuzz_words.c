/* Any bytes: terms are short, not empty, and as many as the bytes allow; the excerpt lies inside.
 */

#include "fuzz.h"

#include "search/excerpt.h"
#include "search/words.h"

static void check(void *ctx, struct str term, struct str raw)
{
    assert(term.len > 0 && term.len <= WORD_MAX && raw.len <= WORD_MAX);
    (void)word_is_common(raw);
    ++*(size_t *)ctx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_n((const char *)data, size);
    size_t count = 0;
    words_each(text, check, &count);
    assert(count <= 3 * size);
    struct str terms[] = {STR("a"), STR("the")};
    struct str part = excerpt_around(text, terms, 2, 50);
    assert(part.len <= MAX(size, (size_t)50) && (size <= 50 || part.len <= 50));
    return 0;
}
