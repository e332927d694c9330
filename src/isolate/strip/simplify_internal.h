#pragma once

/* Only for the simplify*.c files: the tokens of a source, and what may be done with them. `i` is an
 * index of `entries`; the last one is TOKEN_END, so the token after any other exists. */

#include "base/clock.h"
#include "base/vec.h"
#include "isolate/strip/lex.h"
#include "isolate/strip/simplify.h"

enum { LOOK_BACK_MAX = 64 }; /* so that no input makes the work grow with its square */

#define NONE UINT32_MAX

struct entry {
    struct token token;
    uint32_t match; /* index of the other bracket, or NONE */
    uint32_t outer; /* index of the bracket around it, or NONE */
    bool is_dead;   /* inside a type that was overwritten */
    bool is_known;  /* a parenthesis that was looked at */
};

struct simplify {
    struct str source;
    char *text;
    bool has_changed;
    int64_t deadline_ns;
    VEC(struct entry) entries; /* the last is TOKEN_END */
    VEC(uint32_t) open;
    VEC(struct simplify_range) removed;
};

static inline bool word_is(const struct simplify *s, uint32_t i, const char *word)
{
    return i < s->entries.len && lex_is_word(s->source, &s->entries.ptr[i].token, word);
}

static inline bool sign_is(const struct simplify *s, uint32_t i, unsigned sign)
{
    return i < s->entries.len && lex_is_sign(&s->entries.ptr[i].token, sign);
}

static inline struct str word_of(const struct simplify *s, const struct token *token)
{
    return str_slice(s->source, token->start, token->end);
}

static inline uint32_t start_of(const struct simplify *s, uint32_t i)
{
    return s->entries.ptr[i].token.start;
}

static inline uint32_t end_of(const struct simplify *s, uint32_t i)
{
    return s->entries.ptr[i].token.end;
}

/* Each guess may look at all that follows, so each one asks for the time. */
static inline bool is_late(const struct simplify *s)
{
    return clock_now_ns() > s->deadline_ns;
}

/* simplify_tokens.c: all tokens with their brackets; false when there are too many. */
bool simplify_read(struct simplify *s) MUST_USE;
/* Whether an operand ends with token `i`, so that an operator follows. */
bool simplify_ends_operand(const struct simplify *s, uint32_t i);
/* The first token that begins at or after `at`, looking on from `i`. */
uint32_t simplify_index_at(const struct simplify *s, uint32_t i, uint32_t at);

/* simplify_fill.c: overwriting. Those that give a token give the one behind, `i` itself when there
 * was nothing of the kind. */
/* Puts one name over [start of token `i`, end). */
uint32_t simplify_fill(struct simplify *s, uint32_t i, uint32_t end);
/* Takes [start of token `i`, end) out: blanks for the parser, and for the answer too. */
void simplify_take_out(struct simplify *s, uint32_t i, uint32_t end);
/* A word that the grammar reserves, used as a name. */
void simplify_rename(struct simplify *s, uint32_t i);
/* The type after the colon (or `as`) at `i`. */
uint32_t simplify_fill_type(struct simplify *s, uint32_t i);
uint32_t simplify_fill_annotation(struct simplify *s, uint32_t i); /* when there is a colon */
/* `<...>` at `i` becomes `<TTT,>`; the comma keeps it from being read as JSX. */
uint32_t simplify_fill_generics(struct simplify *s, uint32_t i, uint32_t end);
uint32_t simplify_fill_type_parameters(struct simplify *s, uint32_t i);
/* Between the parentheses of a function: a colon before any `=` begins a type. */
void simplify_fill_parameters(struct simplify *s, uint32_t open);
/* From `<` or `(` on: type parameters, parameters, return type. */
uint32_t simplify_fill_signature(struct simplify *s, uint32_t i);
/* The grammar trips over comments in odd places; nothing is lost without them. */
void simplify_drop_comments(struct simplify *s);

/* simplify_words.c, simplify_signs.c: what the token at `i` begins, as far as tokens can tell. */
void simplify_word(struct simplify *s, uint32_t i);
void simplify_sign(struct simplify *s, uint32_t i);
