#include "isolate/strip/strip.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "isolate/strip/erase.h"
#include "isolate/strip/simplify.h"
#include "isolate/strip/text.h"
#include "isolate/strip/tree.h"

struct strip {
    struct tree *tree;
    struct erase *erase;
    struct simplify *simplify;
    struct buf scratch; /* the source with its types simplified */
    int64_t timeout_ns;
};

struct strip *strip_new(struct strip_limits limits)
{
    struct strip *strip = mem_alloc(sizeof *strip);
    strip->tree = tree_new(limits.heap_bytes > 0 ? limits.heap_bytes : STRIP_HEAP_DEFAULT);
    strip->erase = erase_new();
    strip->simplify = simplify_new();
    int64_t timeout_ms = limits.timeout_ms > 0 ? limits.timeout_ms : STRIP_TIMEOUT_DEFAULT_MS;
    strip->timeout_ns = timeout_ms * 1000000;
    return strip;
}

struct strip *strip_free(struct strip *strip)
{
    if (strip == NULL)
        return NULL;
    strip->tree = tree_free(strip->tree);
    strip->erase = erase_free(strip->erase);
    strip->simplify = simplify_free(strip->simplify);
    buf_done(&strip->scratch);
    free(strip);
    return NULL;
}

/* The messages of one call, with their place. */
static int fail_at(struct str source, uint32_t at, enum err_code code, const char *what,
                   struct strip_place *ret_place, struct err *err)
{
    struct strip_place place = text_place(source, at);
    if (ret_place != NULL)
        *ret_place = place;
    return err_set(err, code, "line %u, column %u: %s", place.line, place.column, what);
}

static int fail_syntax(struct str source, uint32_t at, struct strip_place *ret_place,
                       struct err *err)
{
    char what[80];
    at = text_skip_trivia(source, at);
    struct str token = text_token(source, at);
    if (token.len == 0)
        (void)snprintf(what, sizeof what, "syntax error: unexpected end of the source");
    else
        (void)snprintf(what, sizeof what, "syntax error: unexpected '%.*s'", STR_ARG(token));
    return fail_at(source, at, ERR_INVALID, what, ret_place, err);
}

static int check_source(struct str source, struct strip_place *ret_place, struct err *err)
{
    if (source.len > STRIP_SOURCE_MAX)
        return err_set(err, ERR_TOO_LARGE, "source of %zu bytes is larger than %d", source.len,
                       STRIP_SOURCE_MAX);
    size_t nul = str_find_char(source, '\0');
    if (nul < source.len)
        return fail_at(source, (uint32_t)nul, ERR_INVALID, "NUL byte in the source", ret_place,
                       err);
    if (!str_is_utf8(source))
        return err_set(err, ERR_INVALID, "source is not UTF-8");
    return 0;
}

struct job {
    enum strip_lang lang;
    struct str source;
    char *js; /* a copy of the source, blanked in place */
    int64_t deadline_ns;
};

/* Parses again, the types made simple: `*ret_at` is where this reading failed if it did. */
static enum tree_result walk_simplified(struct strip *strip, const struct job *job,
                                        uint32_t *ret_at)
{
    char *text;
    buf_clear(&strip->scratch);
    if (buf_reserve(&strip->scratch, job->source.len, &text, &(struct err){0}) < 0)
        return TREE_SYNTAX;
    memcpy(text, job->source.ptr, job->source.len);
    if (!simplify_types(strip->simplify, job->source, text, job->deadline_ns))
        return TREE_SYNTAX;
    memcpy(job->js, job->source.ptr, job->source.len);
    struct tree_visitor *visitor = erase_begin(strip->erase, job->source, job->js, true);
    enum tree_result result = tree_walk(strip->tree, job->lang, str_n(text, job->source.len),
                                        job->deadline_ns, visitor, ret_at);
    size_t count;
    const struct simplify_range *removed = simplify_removed(strip->simplify, &count);
    for (size_t i = 0; i < count; i++)
        text_blank(job->js, removed[i].start, removed[i].end);
    return result;
}

static int walk(struct strip *strip, const struct job *job, struct strip_place *ret_place,
                struct err *err)
{
    uint32_t at = 0;
    struct tree_visitor *visitor = erase_begin(strip->erase, job->source, job->js, false);
    enum tree_result result =
        tree_walk(strip->tree, job->lang, job->source, job->deadline_ns, visitor, &at);
    if (result == TREE_SYNTAX || erase_wants_simplified(strip->erase))
        result = walk_simplified(strip, job, &at);
    switch (result) {
    case TREE_SYNTAX:
        return fail_syntax(job->source, at, ret_place, err);
    case TREE_NO_MEMORY:
        return err_set(err, ERR_TOO_LARGE, "parsing needs more memory than allowed");
    case TREE_TIMEOUT:
        return err_set(err, ERR_TIMEOUT, "parsing took more than %lld ms",
                       (long long)(strip->timeout_ns / 1000000));
    case TREE_DONE:
        break;
    }
    struct erase_fault fault = erase_fault(strip->erase);
    if (fault.message == NULL)
        return 0;
    enum err_code code = fault.is_syntax ? ERR_INVALID : ERR_UNSUPPORTED;
    return fail_at(job->source, fault.at, code, fault.message, ret_place, err);
}

int strip_run(struct strip *strip, enum strip_lang lang, struct str source, struct buf *out,
              struct strip_place *ret_place, struct err *err)
{
    if (ret_place != NULL)
        *ret_place = (struct strip_place){0};
    if (check_source(source, ret_place, err) < 0)
        return -1;
    if (source.len == 0)
        return 0;
    char *js;
    if (buf_reserve(out, source.len, &js, err) < 0)
        return -1;
    memcpy(js, source.ptr, source.len);
    struct job job = {.lang = lang,
                      .source = source,
                      .js = js,
                      .deadline_ns = clock_now_ns() + strip->timeout_ns};
    if (walk(strip, &job, ret_place, err) < 0)
        return -1;
    buf_commit(out, text_compact(js, source.len));
    return 0;
}
