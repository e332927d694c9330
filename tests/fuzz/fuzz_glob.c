/* A pattern, a newline, a path. The automaton agrees with a matcher so simple that it is surely
 * right, and its work stays within pattern times path. */

#include "fuzz.h"

#include "base/buf.h"
#include "base/err.h"
#include "files/glob.h"

enum { EXPANSIONS_MAX = 300, STEPS_MAX = 200000 };

/* The reference gives up on what would take it forever. */
struct reference {
    int64_t steps;
    int expansions;
};

static size_t char_len(struct str s)
{
    size_t len = str_utf8_len(s);
    return len == 0 ? 1 : len;
}

static struct str rest_of(struct str s, size_t from)
{
    return str_slice(s, from, s.len);
}

/* Of one character, byte by byte: shorter is smaller in UTF-8, and a stray byte greater than all.
 */
static int compare_chars(struct str a, struct str b)
{
    bool a_bad = str_utf8_len(a) == 0, b_bad = str_utf8_len(b) == 0;
    return a_bad != b_bad ? a_bad - b_bad : str_cmp(a, b);
}

static struct str take_char(struct str *s)
{
    struct str c = str_slice(*s, 0, char_len(*s));
    *s = rest_of(*s, c.len);
    return c;
}

/* Index behind "[...]", or 0. */
static size_t class_end(struct str p)
{
    size_t i = 1;
    if (i < p.len && (p.ptr[i] == '!' || p.ptr[i] == '^'))
        i++;
    for (size_t first = i; i < p.len; i++) {
        if (p.ptr[i] == '\\')
            i++;
        else if (p.ptr[i] == ']' && i != first)
            return i + 1;
    }
    return 0;
}

static bool class_matches(struct str body, struct str c)
{
    bool negated = body.len > 0 && (body.ptr[0] == '!' || body.ptr[0] == '^');
    if (negated)
        body = rest_of(body, 1);
    bool found = false;
    while (body.len > 0) {
        if (body.ptr[0] == '\\' && body.len > 1)
            body = rest_of(body, 1);
        struct str from = take_char(&body), to = from;
        if (body.len > 1 && body.ptr[0] == '-') {
            body = rest_of(body, 1);
            if (body.ptr[0] == '\\' && body.len > 1)
                body = rest_of(body, 1);
            to = take_char(&body);
        }
        found |= compare_chars(c, from) >= 0 && compare_chars(c, to) <= 0;
    }
    return found != negated;
}

/* By definition, with backtracking. `at_start`: p begins a component. */
static bool matches(struct reference *ref, struct str p, struct str s, bool at_start)
{
    if (--ref->steps < 0)
        return false;
    if (p.len == 0)
        return s.len == 0;
    char c = p.ptr[0];
    if (c == '*') {
        size_t stars = 0;
        while (stars < p.len && p.ptr[stars] == '*')
            stars++;
        bool is_end = stars == p.len;
        if (stars == 2 && at_start && is_end)
            return s.len > 0;
        if (stars == 2 && at_start && p.ptr[2] == '/') {
            if (matches(ref, rest_of(p, 3), s, true))
                return true;
            size_t slash = str_find_char(s, '/');
            return slash > 0 && slash < s.len && matches(ref, p, rest_of(s, slash + 1), true);
        }
        if (matches(ref, rest_of(p, stars), s, false))
            return true;
        return s.len > 0 && s.ptr[0] != '/' && matches(ref, p, rest_of(s, char_len(s)), false);
    }
    if (s.len == 0)
        return false;
    struct str one = str_slice(s, 0, char_len(s)), behind = rest_of(s, one.len);
    if (c == '?')
        return c != '\0' && s.ptr[0] != '/' && matches(ref, rest_of(p, 1), behind, false);
    if (c == '[') {
        size_t end = class_end(p);
        return s.ptr[0] != '/' && class_matches(str_slice(p, 1, end - 1), one) &&
               matches(ref, rest_of(p, end), behind, false);
    }
    if (c == '\\')
        p = rest_of(p, 1);
    struct str literal = take_char(&p);
    return str_eq(literal, one) && matches(ref, p, behind, literal.ptr[0] == '/');
}

/* Index of `stop` or `other` at this level of braces, from `at`; p.len when it is missing. */
static size_t find_at_level(struct str p, size_t at, char stop, char other)
{
    int level = 0;
    for (size_t i = at; i < p.len; i++) {
        if (level == 0 && (p.ptr[i] == stop || p.ptr[i] == other))
            return i;
        if (p.ptr[i] == '\\')
            i++;
        else if (p.ptr[i] == '[' && class_end(rest_of(p, i)) > 0)
            i += class_end(rest_of(p, i)) - 1;
        else if (p.ptr[i] == '{')
            level++;
        else if (p.ptr[i] == '}')
            level--;
    }
    return p.len;
}

/* Tries every reading of the braces. */
static bool any_matches(struct reference *ref, struct str p, size_t from, struct str s)
{
    size_t open = find_at_level(p, from, '{', '{');
    if (open == p.len) {
        ref->expansions++;
        return matches(ref, p, s, true);
    }
    size_t close = find_at_level(p, open + 1, '}', '}');
    bool found = false;
    for (size_t at = open + 1; at <= close && ref->expansions < EXPANSIONS_MAX;) {
        size_t comma = find_at_level(p, at, ',', '}');
        AUTO_BUF struct buf text = {0};
        buf_put(&text, str_slice(p, 0, open));
        buf_put(&text, str_slice(p, at, comma));
        buf_put(&text, rest_of(p, close + 1));
        found |= any_matches(ref, buf_str(&text), open, s);
        at = comma + 1;
    }
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = str_n((const char *)data, size);
    size_t newline = str_find_char(input, '\n');
    struct str pattern = str_slice(input, 0, newline), path = str_slice(input, newline + 1, size);
    struct err err = {0};
    AUTO_GLOB struct glob *glob = NULL;
    if (glob_new(pattern, &glob, &err) < 0) {
        assert(err.code == ERR_INVALID_PATTERN || err.code == ERR_PATTERN_TOO_COMPLEX);
        return 0;
    }
    bool got = glob_match(glob, path);
    assert(glob_work(glob) <= 4 * (uint64_t)glob_size(glob) * (path.len + 1));
    for (size_t i = 0; got && i < path.len; i++)
        if (path.ptr[i] == '/')
            assert(glob_may_match_below(glob, str_slice(path, 0, i)) || i == 0);
    struct reference ref = {.steps = STEPS_MAX};
    bool expected = any_matches(&ref, pattern, 0, path);
    bool is_known = ref.steps >= 0 && ref.expansions < EXPANSIONS_MAX;
    assert(!is_known || got == expected);
    return 0;
}
