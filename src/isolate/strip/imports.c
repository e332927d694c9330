/* Static imports of a script as dynamic ones, so that what stands behind them can be evaluated as a
 * script: its last expression is its value, and what it declares stays.
 *
 *     import a, { b as c } from "x"    var { default: a, b: c } = await import("x");
 *     import * as all from "x"         var all = await import("x");
 *     import a, * as all from "x"      var all = await import("x"), a = all.default;
 *     import "x"                       await import("x");
 *
 * Lines keep their numbers. A name that the module does not export is undefined. */

#include "isolate/strip/imports.h"

#include "base/buf.h"
#include "base/vec.h"
#include "isolate/strip/text.h"

struct part {
    uint32_t start, end;
};

struct found {
    VEC(struct part) imports;
    bool has_export, is_inside;
};

static bool imports_enter(void *ctx, const struct tree_node *node)
{
    struct found *found = ctx;
    if (!found->is_inside) {
        found->is_inside = true; /* of the program */
        return true;
    }
    found->has_export |= node->kind == TREE_EXPORT;
    if (node->kind == TREE_IMPORT)
        *vec_push(&found->imports) = (struct part){node->start, node->end};
    return false;
}

static void imports_leave(UNUSED void *ctx)
{
}

/* --- One statement --- */

struct words {
    struct str source;
    uint32_t at, end;
    struct str word; /* at hand: a name, a sign, or a string with its quotes */
};

static bool is_name_byte(char c)
{
    return char_is_alnum(c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static uint32_t end_of_word(const struct words *words)
{
    struct str source = words->source;
    uint32_t end = words->at + 1;
    char first = source.ptr[words->at];
    if (first == '"' || first == '\'') {
        while (end < words->end && source.ptr[end] != first)
            end += source.ptr[end] == '\\' ? 2 : 1;
        return MIN(end + 1, words->end);
    }
    while (is_name_byte(first) && end < words->end && is_name_byte(source.ptr[end]))
        end++;
    return end;
}

static void next(struct words *words)
{
    words->at = text_skip_trivia(words->source, words->at);
    if (words->at >= words->end) {
        words->word = (struct str){0};
        return;
    }
    uint32_t end = end_of_word(words);
    words->word = str_slice(words->source, words->at, end);
    words->at = end;
}

static bool imports_take(struct words *words, const char *word)
{
    if (!str_eq(words->word, str_of(word)))
        return false;
    next(words);
    return true;
}

static bool is_string(struct str word)
{
    return word.len >= 2 && (word.ptr[0] == '"' || word.ptr[0] == '\'');
}

/* "{ b as c, d }" as members of a pattern. */
static bool imports_put_members(struct words *words, struct buf *pattern)
{
    while (words->word.len > 0 && !imports_take(words, "}")) {
        struct str name = words->word;
        next(words);
        buf_printf(pattern, "%s%.*s", pattern->len > 0 ? ", " : "", STR_ARG(name));
        if (imports_take(words, "as")) {
            buf_printf(pattern, ": %.*s", STR_ARG(words->word));
            next(words);
        } else if (is_string(name)) {
            return false;
        }
        if (!imports_take(words, ",") && !str_eq(words->word, STR("}")))
            return false;
    }
    return true;
}

struct import {
    struct str whole, first, from, with; /* "* as whole", the default, "x", { type: ... } */
    struct buf pattern;
};

static bool read_import(struct words *words, struct import *import)
{
    next(words);
    if (!imports_take(words, "import"))
        return false;
    if (!is_string(words->word)) {
        if (words->word.len > 0 && is_name_byte(words->word.ptr[0])) {
            import->first = words->word;
            next(words);
            (void)imports_take(words, ",");
        }
        if (imports_take(words, "*")) {
            if (!imports_take(words, "as"))
                return false;
            import->whole = words->word;
            next(words);
        } else if (imports_take(words, "{") && !imports_put_members(words, &import->pattern)) {
            return false;
        }
        if (!imports_take(words, "from"))
            return false;
    }
    import->from = words->word;
    next(words);
    if (str_eq(words->word, STR("with"))) {
        uint32_t from = words->at;
        while (words->word.len > 0 && !str_eq(words->word, STR("}")))
            next(words);
        import->with = str_slice(words->source, from, words->at);
    }
    return is_string(import->from);
}

static void put_call(const struct import *import, struct buf *out)
{
    buf_printf(out, "await import(%.*s", STR_ARG(import->from));
    if (import->with.len > 0)
        buf_printf(out, ", { with: %.*s }", STR_ARG(import->with));
    buf_put_char(out, ')');
}

static void put_import(const struct import *import, struct buf *out)
{
    struct str first = import->first;
    if (import->whole.len > 0) {
        buf_printf(out, "var %.*s = ", STR_ARG(import->whole));
        put_call(import, out);
        if (first.len > 0)
            buf_printf(out, ", %.*s = %.*s.default", STR_ARG(first), STR_ARG(import->whole));
    } else if (first.len > 0 || import->pattern.len > 0) {
        buf_put_cstr(out, "var { ");
        if (first.len > 0)
            buf_printf(out, "default: %.*s%s", STR_ARG(first), import->pattern.len > 0 ? ", " : "");
        buf_printf(out, "%s } = ", buf_cstr(&import->pattern));
        put_call(import, out);
    } else {
        put_call(import, out);
    }
    buf_put_char(out, ';');
}

static bool put_statement(struct str source, struct part part, struct buf *out)
{
    struct words words = {.source = source, .at = part.start, .end = part.end};
    struct import import = {0};
    bool is_read = read_import(&words, &import);
    if (is_read)
        put_import(&import, out);
    buf_done(&import.pattern);
    for (uint32_t i = part.start; is_read && i < part.end; i++)
        if (source.ptr[i] == '\n')
            buf_put_char(out, '\n');
    return is_read;
}

/* --- All of them --- */

bool imports_replace(struct tree *tree, struct str source, int64_t deadline_ns, struct buf *out)
{
    struct found found = {0};
    struct tree_visitor visitor = {.ctx = &found, .enter = imports_enter, .leave = imports_leave};
    size_t before = out->len;
    bool is_done = tree_walk(tree, STRIP_TS, source, deadline_ns, &visitor, NULL) == TREE_DONE &&
                   found.imports.len > 0 && !found.has_export;
    uint32_t at = 0;
    VEC_EACH (part, &found.imports) {
        if (!is_done)
            break;
        buf_put(out, str_slice(source, at, part->start));
        is_done = put_statement(source, *part, out);
        at = part->end;
    }
    vec_done(&found.imports);
    if (is_done)
        buf_put(out, str_slice(source, at, source.len));
    else
        out->len = before;
    return is_done;
}
