#pragma once

/* Tokens of TypeScript, one at a time, from any place.
 *
 * Angle brackets are always single signs, so that `>>` closes two lists. A template literal is
 * one token with all that is inside it. */

#include "base/str.h"

enum token_kind {
    TOKEN_END,
    TOKEN_WORD,
    TOKEN_NUMBER,
    TOKEN_STRING,
    TOKEN_TEMPLATE,
    TOKEN_REGEX,
    TOKEN_SIGN,
};

enum token_sign { /* others are their own character */
                  SIGN_ARROW = 256,
                  SIGN_DOTS,
                  SIGN_CHAIN,   /* ?. */
                  SIGN_LOGICAL, /* && || ?? */
                  SIGN_STEP,    /* ++ -- */
                  SIGN_OTHER,   /* an operator of several characters */
};

struct token {
    enum token_kind kind;
    bool after_newline;
    uint16_t sign; /* with TOKEN_SIGN */
    uint32_t start;
    uint32_t end;
};

/* The token at or after `at`. A `/` begins a regular expression when `regex_fits`. */
struct token lex_token(struct str source, uint32_t at, bool regex_fits);

bool lex_is_word(struct str source, const struct token *token, const char *word);
static inline bool lex_is_sign(const struct token *token, unsigned sign)
{
    return token->kind == TOKEN_SIGN && token->sign == sign;
}

enum { LEX_NESTING_MAX = 256 };

/* The end of a type that begins at `at` (or after blanks there), 0 if no type begins there. Also
 * accepts what only a return type may be: `x is T`, `asserts x`. */
uint32_t lex_type_end(struct str source, uint32_t at);
/* The end of `<A, B>` that begins at `at`, 0 when that is not a list of types. With `loose` any
 * balanced content goes, as type parameters have. */
uint32_t lex_generics_end(struct str source, uint32_t at, bool loose);
/* Past the bracket that closes the one at `at`, counting all four kinds; 0 when none does. Only
 * for types: `<` and `>` are taken for brackets, and no regular expression is expected. */
uint32_t lex_bracket_end(struct str source, uint32_t at);
