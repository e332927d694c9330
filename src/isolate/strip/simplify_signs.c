/* What a sign begins: type arguments or parameters, the parameters of a function, decorators of
 * what is erased. */

#include "isolate/strip/simplify_internal.h"

static bool is_in_decorator(const struct simplify *s, uint32_t i)
{
    for (int n = 0; n < LOOK_BACK_MAX && i > 0; n++, i--)
        if (s->entries.ptr[i - 1].token.kind != TOKEN_WORD && !sign_is(s, i - 1, '.'))
            break;
    return i > 0 &&
           (sign_is(s, i - 1, '@') || (i > 1 && sign_is(s, i - 1, '(') && sign_is(s, i - 2, '@')));
}

/* The token behind the decorator at `i`. */
static uint32_t skip_decorator(const struct simplify *s, uint32_t i)
{
    i++;
    while (i + 1 < s->entries.len &&
           (s->entries.ptr[i].token.kind == TOKEN_WORD || sign_is(s, i, '.'))) {
        bool goes_on = sign_is(s, i, '.') || sign_is(s, i + 1, '.') || sign_is(s, i + 1, '(');
        i++;
        if (!goes_on)
            return i;
    }
    uint32_t close = sign_is(s, i, '(') ? s->entries.ptr[i].match : NONE;
    return close == NONE ? i : close + 1;
}

/* Decorators of `declare class`, which the grammar does not know: they go with it. */
static void simplify_decorators(struct simplify *s, uint32_t first)
{
    uint32_t i = first;
    for (int n = 0; n < LOOK_BACK_MAX && sign_is(s, i, '@'); n++)
        i = skip_decorator(s, i);
    bool is_class =
        word_is(s, i + 1, "class") || (word_is(s, i + 1, "abstract") && word_is(s, i + 2, "class"));
    if (i > first && word_is(s, i, "declare") && is_class)
        simplify_take_out(s, first, end_of(s, i - 1));
}

/* `f<A>(x)`, `` tag<A>`x` ``, `<A>(x) =>`, `{ m<A>(x) {} }`. */
static void simplify_angle(struct simplify *s, uint32_t i)
{
    bool after_operand = i > 0 && simplify_ends_operand(s, i - 1);
    uint32_t end = after_operand ? lex_generics_end(s->source, start_of(s, i), false) : 0;
    bool is_list = end != 0;
    if (!is_list)
        end = lex_generics_end(s->source, start_of(s, i), true);
    if (end == 0)
        return;
    uint32_t next = simplify_index_at(s, i, end);
    bool is_gap = s->entries.ptr[next].token.kind == TOKEN_TEMPLATE ||
                  sign_is(s, next, SIGN_CHAIN) || (!sign_is(s, next, '(') && is_in_decorator(s, i));
    if (is_list && is_gap) {
        simplify_take_out(s, i, end);
        return;
    }
    if (!sign_is(s, next, '(') || s->entries.ptr[next].match == NONE)
        return;
    uint32_t after = s->entries.ptr[next].match + 1;
    bool is_function =
        sign_is(s, after, SIGN_ARROW) || sign_is(s, after, ':') || sign_is(s, after, '{');
    if (is_list || is_function)
        (void)simplify_fill_generics(s, i, end);
}

/* A parenthesis is one of parameters when `=>` or a body follows it. */
static void simplify_parenthesis(struct simplify *s, uint32_t i)
{
    const struct entry *entry = &s->entries.ptr[i];
    if (entry->match == NONE || entry->is_known)
        return;
    uint32_t after = entry->match + 1;
    if (sign_is(s, after, SIGN_ARROW)) {
        simplify_fill_parameters(s, i);
        return;
    }
    const struct token *before = i > 0 ? &s->entries.ptr[i - 1].token : NULL;
    if (!sign_is(s, after, ':') || (before != NULL && lex_is_sign(before, '?')))
        return;
    uint32_t end = lex_type_end(s->source, end_of(s, after));
    if (end == 0)
        return;
    struct token next = lex_token(s->source, end, false);
    bool is_method = before != NULL && simplify_ends_operand(s, i - 1) && lex_is_sign(&next, '{');
    if (lex_is_sign(&next, SIGN_ARROW) || is_method) {
        simplify_fill_parameters(s, i);
        (void)simplify_fill_type(s, after);
    }
}

void simplify_sign(struct simplify *s, uint32_t i)
{
    if (sign_is(s, i, '<'))
        simplify_angle(s, i);
    else if (sign_is(s, i, '('))
        simplify_parenthesis(s, i);
    else if (sign_is(s, i, '@'))
        simplify_decorators(s, i);
}
