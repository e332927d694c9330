#include "isolate/strip/strip.h"

#include <pthread.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "isolate/strip/declared.h"
#include "isolate/strip/erase.h"
#include "isolate/strip/imports.h"
#include "isolate/strip/simplify.h"
#include "isolate/strip/text.h"
#include "isolate/strip/tree.h"

enum {
    /* The library compares two readings of the source by recursion, up to 190 bytes of stack for
     * each byte of source. */
    STACK_PER_BYTE = 200,
    STACK_KEPT = 512 << 10, /* for everything else */
    STACK_WANTED = STRIP_SOURCE_MAX * STACK_PER_BYTE + STACK_KEPT,
};

struct strip {
    const char *stack_low; /* where this thread's stack ends */
    struct tree *tree;
    struct erase *erase;
    struct simplify *simplify;
    struct buf scratch;  /* the source with its types simplified */
    struct buf packed;   /* the same, shorter */
    uint32_t *from, *to; /* where its bytes stand in the source */
    size_t room;         /* of each */
    int64_t timeout_ns;
};

static const char *find_stack_low(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < STACK_WANTED) {
        limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)STACK_WANTED);
        (void)setrlimit(RLIMIT_STACK, &limit); /* else smaller sources only */
    }
    pthread_attr_t attr;
    void *low = NULL;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return NULL;
    int failed = pthread_attr_getstack(&attr, &low, &size);
    (void)pthread_attr_destroy(&attr);
    return failed ? NULL : low;
}

static size_t source_max(const struct strip *strip)
{
    const char *here = __builtin_frame_address(0);
    if (strip->stack_low == NULL || here < strip->stack_low + STACK_KEPT)
        return 0;
    size_t left = (size_t)(here - strip->stack_low) - STACK_KEPT;
    return MIN(left / STACK_PER_BYTE, (size_t)STRIP_SOURCE_MAX);
}

struct strip *strip_new(struct strip_limits limits)
{
    struct strip *strip = mem_alloc(sizeof *strip);
    strip->stack_low = find_stack_low();
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
    buf_done(&strip->packed);
    free(strip->from);
    free(strip->to);
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

static int check_source(const struct strip *strip, struct str source, struct strip_place *ret_place,
                        struct err *err)
{
    size_t max = source_max(strip);
    if (source.len > max)
        return err_set(err, ERR_TOO_LARGE, "source of %zu bytes is larger than %zu", source.len,
                       max);
    size_t nul = str_find_char(source, '\0');
    if (nul < source.len)
        return fail_at(source, (uint32_t)nul, ERR_INVALID, "NUL byte in the source", ret_place,
                       err);
    if (!str_is_utf8(source))
        return err_set(err, ERR_INVALID, "source is not UTF-8");
    return 0;
}

struct strip_job {
    enum strip_lang lang;
    struct str source;
    char *js; /* a copy of the source, blanked in place */
    int64_t deadline_ns;
};

static struct str strip_pack(struct strip *strip, const char *text, size_t len)
{
    char *packed = NULL;
    buf_clear(&strip->packed);
    if (buf_reserve(&strip->packed, len, &packed, &(struct err){0}) < 0)
        return (struct str){0};
    if (strip->room < len + 1) {
        strip->room = len + 1;
        strip->from = mem_resize(strip->from, strip->room * sizeof *strip->from);
        strip->to = mem_resize(strip->to, strip->room * sizeof *strip->to);
    }
    return str_n(packed, simplify_pack(strip->simplify, text, packed, strip->from, strip->to));
}

/* Reads the source with its types made simple, which is quicker than to parse them and gets over
 * the grammar's gaps. */
static enum tree_result walk_simplified(struct strip *strip, const struct strip_job *job,
                                        uint32_t *ret_at)
{
    char *text;
    buf_clear(&strip->scratch);
    if (buf_reserve(&strip->scratch, job->source.len, &text, &(struct err){0}) < 0)
        return TREE_SYNTAX;
    memcpy(text, job->source.ptr, job->source.len);
    if (!simplify_types(strip->simplify, job->source, text, job->deadline_ns) &&
        clock_now_ns() > job->deadline_ns)
        return TREE_TIMEOUT;
    struct str packed = strip_pack(strip, text, job->source.len);
    struct tree_visitor *visitor = erase_begin(strip->erase, job->source, job->js);
    visitor->from = strip->from;
    visitor->to = strip->to;
    enum tree_result result =
        tree_walk(strip->tree, job->lang, packed, job->deadline_ns, visitor, ret_at);
    visitor->from = visitor->to = NULL;
    size_t count;
    const struct simplify_range *removed = simplify_removed(strip->simplify, &count);
    for (size_t i = 0; i < count; i++)
        text_blank(job->js, removed[i].start, removed[i].end);
    return result;
}

/* Reads the source as it is: where a guess about its types was wrong, and to tell where a syntax
 * error lies. */
static enum tree_result walk_plain(struct strip *strip, const struct strip_job *job,
                                   uint32_t *ret_at)
{
    memcpy(job->js, job->source.ptr, job->source.len);
    struct tree_visitor *visitor = erase_begin(strip->erase, job->source, job->js);
    return tree_walk(strip->tree, job->lang, job->source, job->deadline_ns, visitor, ret_at);
}

static int walk(struct strip *strip, const struct strip_job *job, struct strip_place *ret_place,
                struct err *err)
{
    uint32_t at = 0;
    enum tree_result result = walk_simplified(strip, job, NULL);
    if (result == TREE_SYNTAX)
        result = walk_plain(strip, job, &at);
    switch (result) {
    case TREE_SYNTAX:
        return fail_syntax(job->source, at, ret_place, err);
    case TREE_NO_MEMORY:
        return err_set(err, ERR_TOO_LARGE, "parsing needs more memory than allowed");
    case TREE_TOO_DEEP:
        return err_set(err, ERR_TOO_LARGE, "source is nested too deeply to be parsed");
    case TREE_TIMEOUT:
        return err_set(err, ERR_TIMEOUT, "parsing took more than %lld ms",
                       (long long)(strip->timeout_ns / 1000000));
    case TREE_DONE:
        break;
    }
    struct erase_fault fault = erase_fault(strip->erase);
    if (fault.message == NULL)
        return 0;
    return fail_at(job->source, fault.at, fault.code, fault.message, ret_place, err);
}

int strip_run(struct strip *strip, enum strip_lang lang, struct str source, struct buf *out,
              struct strip_place *ret_place, struct err *err)
{
    if (ret_place != NULL)
        *ret_place = (struct strip_place){0};
    if (check_source(strip, source, ret_place, err) < 0)
        return -1;
    if (source.len == 0)
        return 0;
    char *js;
    if (buf_reserve(out, source.len, &js, err) < 0)
        return -1;
    memcpy(js, source.ptr, source.len);
    struct strip_job job = {.lang = lang,
                            .source = source,
                            .js = js,
                            .deadline_ns = clock_now_ns() + strip->timeout_ns};
    if (walk(strip, &job, ret_place, err) < 0)
        return -1;
    buf_commit(out, text_compact(js, source.len));
    return 0;
}

void strip_names(struct strip *strip, struct str source, struct buf *out)
{
    struct err err = {0};
    size_t before = out->len;
    if (source.len == 0 || check_source(strip, source, NULL, &err) < 0)
        return;
    if (!declared_find(strip->tree, STRIP_TS, source, clock_now_ns() + strip->timeout_ns, out))
        out->len = before;
}

bool strip_imports(struct strip *strip, struct str source, struct buf *out)
{
    struct err err = {0};
    return source.len > 0 && check_source(strip, source, NULL, &err) == 0 &&
           imports_replace(strip->tree, source, clock_now_ns() + strip->timeout_ns, out);
}
