/* The tokens of a source and their brackets. The token before a slash decides whether it is a
 * division or a regular expression. */

#include "isolate/strip/simplify_internal.h"

enum { TOKENS_MAX = 2 << 20 };

static const char *const KEYWORDS[] = {
    "const",  "let",  "var",   "function", "class",      "import",  "export",  "return",
    "typeof", "case", "in",    "of",       "do",         "else",    "void",    "delete",
    "throw",  "new",  "await", "yield",    "instanceof", "default", "extends",
};
static const char *const CONTROL[] = {"if", "for", "while", "switch", "catch", "with", "await"};

static bool is_one_of(struct str word, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (word.ptr[0] == list[i][0] && str_eq(word, str_of(list[i])))
            return true;
    return false;
}

bool simplify_ends_operand(const struct simplify *s, uint32_t i)
{
    /* What may stand on both sides of an operand is as the token before it. */
    for (int k = 0; k < LOOK_BACK_MAX && i > 0; k++, i--)
        if (!sign_is(s, i, '!') && !sign_is(s, i, SIGN_STEP))
            break;
    const struct token *token = &s->entries.ptr[i].token;
    switch (token->kind) {
    case TOKEN_WORD:
        return (i > 0 && (sign_is(s, i - 1, '.') || sign_is(s, i - 1, SIGN_CHAIN))) ||
               !is_one_of(word_of(s, token), KEYWORDS, countof(KEYWORDS));
    case TOKEN_SIGN:
        return token->sign == ')' || token->sign == ']' || token->sign == '}';
    case TOKEN_END:
        return false;
    default:
        return true;
    }
}

static bool regex_fits(const struct simplify *s)
{
    if (s->entries.len == 0)
        return true;
    const struct entry *last = vec_last(&s->entries);
    if (lex_is_sign(&last->token, '}'))
        return true; /* a block is likelier than an object that gets divided */
    if (lex_is_sign(&last->token, ')') && last->match != NONE && last->match > 0) {
        const struct token *before = &s->entries.ptr[last->match - 1].token;
        return before->kind == TOKEN_WORD &&
               is_one_of(word_of(s, before), CONTROL, countof(CONTROL));
    }
    return !simplify_ends_operand(s, (uint32_t)s->entries.len - 1);
}

static void match_bracket(struct simplify *s, uint32_t i)
{
    struct entry *entry = &s->entries.ptr[i];
    entry->outer = s->open.len > 0 ? *vec_last(&s->open) : NONE;
    if (entry->token.kind != TOKEN_SIGN)
        return;
    uint16_t sign = entry->token.sign;
    if (sign == '(' || sign == '[' || sign == '{') {
        *vec_push(&s->open) = i;
    } else if ((sign == ')' || sign == ']' || sign == '}') && s->open.len > 0) {
        uint32_t other = vec_pop(&s->open);
        entry->match = other;
        entry->outer = s->entries.ptr[other].outer;
        s->entries.ptr[other].match = i;
    }
}

bool simplify_read(struct simplify *s)
{
    uint32_t at = 0;
    s->entries.len = 0;
    s->open.len = 0;
    for (;;) {
        struct token token = lex_token(s->source, at, regex_fits(s));
        if (s->entries.len >= TOKENS_MAX)
            return false;
        *vec_push(&s->entries) = (struct entry){.token = token, .match = NONE};
        match_bracket(s, (uint32_t)s->entries.len - 1);
        if (token.kind == TOKEN_END)
            return true;
        at = token.end;
    }
}

uint32_t simplify_index_at(const struct simplify *s, uint32_t i, uint32_t at)
{
    while (i + 1 < s->entries.len && s->entries.ptr[i].token.start < at)
        i++;
    return i;
}
