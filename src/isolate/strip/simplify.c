#include "isolate/strip/simplify.h"

#include "base/clock.h"
#include "base/vec.h"
#include "isolate/strip/lex.h"

enum {
    TOKENS_MAX = 2 << 20,
    LOOK_BACK_MAX = 64, /* so that no input makes the work grow with its square */
};

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

/* ---- tokens ---- */

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

static bool word_is(const struct simplify *s, uint32_t i, const char *word)
{
    return i < s->entries.len && lex_is_word(s->source, &s->entries.ptr[i].token, word);
}

static bool sign_is(const struct simplify *s, uint32_t i, unsigned sign)
{
    return i < s->entries.len && lex_is_sign(&s->entries.ptr[i].token, sign);
}

static struct str word_of(const struct simplify *s, const struct token *token)
{
    return str_slice(s->source, token->start, token->end);
}

/* Whether an operand ends with token `i`, so that an operator follows. */
static bool ends_operand(const struct simplify *s, uint32_t i)
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
    return !ends_operand(s, (uint32_t)s->entries.len - 1);
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

static bool read_tokens(struct simplify *s)
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

/* The first token that begins at or after `at`, looking on from `i`. */
static uint32_t index_at(const struct simplify *s, uint32_t i, uint32_t at)
{
    while (i + 1 < s->entries.len && s->entries.ptr[i].token.start < at)
        i++;
    return i;
}

static uint32_t start_of(const struct simplify *s, uint32_t i)
{
    return s->entries.ptr[i].token.start;
}
static uint32_t end_of(const struct simplify *s, uint32_t i)
{
    return s->entries.ptr[i].token.end;
}

/* Each guess may look at all that follows, so each one asks for the time. */
static bool is_late(const struct simplify *s)
{
    return clock_now_ns() > s->deadline_ns;
}

/* ---- overwriting ---- */

/* Puts one name over [start of token `i`, end) and gives the token behind. */
static uint32_t fill(struct simplify *s, uint32_t i, uint32_t end)
{
    uint32_t start = start_of(s, i);
    memset(s->text + start, 'T', end - start);
    s->has_changed = true;
    uint32_t next = index_at(s, i, end);
    for (uint32_t k = i; k < next; k++)
        s->entries.ptr[k].is_dead = true;
    return next;
}

/* Takes [start of token `i`, end) out: blanks for the parser, and for the answer too. */
static void take_out(struct simplify *s, uint32_t i, uint32_t end)
{
    uint32_t start = start_of(s, i);
    (void)fill(s, i, end);
    memset(s->text + start, ' ', end - start);
    *vec_push(&s->removed) = (struct simplify_range){start, end};
}

/* A word that the grammar reserves, used as a name. */
static void rename_word(struct simplify *s, uint32_t i)
{
    (void)fill(s, i, end_of(s, i));
}

/* The type after the colon (or `as`) at `i`; gives the token behind, `i` when it is no type. */
static uint32_t fill_type(struct simplify *s, uint32_t i)
{
    if (is_late(s))
        return i;
    uint32_t end = lex_type_end(s->source, end_of(s, i));
    return end == 0 ? i : fill(s, i + 1, end);
}

static uint32_t fill_annotation(struct simplify *s, uint32_t i)
{
    return sign_is(s, i, ':') ? fill_type(s, i) : i;
}

/* `<...>` at `i` becomes `<TTT,>`; the comma keeps it from being read as JSX. */
static uint32_t fill_generics(struct simplify *s, uint32_t i, uint32_t end)
{
    uint32_t start = start_of(s, i);
    uint32_t next = fill(s, i, end);
    s->text[start] = '<';
    s->text[end - 1] = '>';
    if (end - start > 3)
        s->text[end - 2] = ',';
    return next;
}

static uint32_t fill_parameters_of_type(struct simplify *s, uint32_t i)
{
    if (!sign_is(s, i, '<') || is_late(s))
        return i;
    uint32_t end = lex_generics_end(s->source, start_of(s, i), true);
    return end != 0 ? fill_generics(s, i, end) : i;
}

/* The grammar trips over comments in odd places; nothing is lost without them. */
static void drop_comments(struct simplify *s)
{
    uint32_t at = 0;
    for (size_t i = 0; i < s->entries.len; i++) {
        uint32_t start = s->entries.ptr[i].token.start;
        const char *slash = start > at ? memchr(s->source.ptr + at, '/', start - at) : NULL;
        for (uint32_t k = slash != NULL ? at : start; k < start; k++)
            if (s->text[k] != '\n')
                s->text[k] = ' ';
        s->has_changed |= slash != NULL;
        at = s->entries.ptr[i].token.end;
    }
}

/* ---- what tokens alone can tell ---- */

/* Between the parentheses of a function: a colon before any `=` begins a type. */
static void fill_parameters(struct simplify *s, uint32_t open)
{
    uint32_t close = s->entries.ptr[open].match;
    s->entries.ptr[open].is_known = true;
    bool in_default = false;
    for (uint32_t i = open + 1; i < close;) {
        const struct entry *entry = &s->entries.ptr[i];
        uint32_t next = i + 1;
        if (entry->match != NONE && entry->match > i)
            next = entry->match + 1;
        else if (lex_is_sign(&entry->token, ','))
            in_default = false;
        else if (lex_is_sign(&entry->token, '='))
            in_default = true;
        else if (lex_is_sign(&entry->token, ':') && !in_default)
            next = MAX(next, fill_type(s, i));
        i = next;
    }
}

/* From `<` or `(` on: type parameters, parameters, return type. Gives the token behind. */
static uint32_t fill_signature(struct simplify *s, uint32_t i)
{
    i = fill_parameters_of_type(s, i);
    if (!sign_is(s, i, '(') || s->entries.ptr[i].match == NONE)
        return i;
    fill_parameters(s, i);
    return fill_annotation(s, s->entries.ptr[i].match + 1);
}

static void simplify_interface(struct simplify *s, uint32_t i)
{
    uint32_t name = i + 1;
    if (s->entries.ptr[name].token.kind != TOKEN_WORD || s->entries.ptr[name].token.after_newline)
        return;
    uint32_t at = end_of(s, name);
    for (;;) {
        struct token token = lex_token(s->source, at, false);
        bool is_body = lex_is_sign(&token, '{');
        if (token.kind == TOKEN_END || lex_is_sign(&token, ';') || lex_is_sign(&token, '}') ||
            is_late(s))
            return;
        at = is_body || lex_is_sign(&token, '<') ? lex_bracket_end(s->source, token.start)
                                                 : token.end;
        if (at == 0)
            return;
        if (is_body)
            break;
    }
    (void)fill(s, name, at);
    memcpy(s->text + at - 2, "{}", 2);
}

static void simplify_alias(struct simplify *s, uint32_t i)
{
    uint32_t name = i + 1;
    const struct token *token = &s->entries.ptr[name].token;
    if (token->kind != TOKEN_WORD || token->after_newline)
        return;
    uint32_t at = token->end;
    struct token next = lex_token(s->source, at, false);
    if (lex_is_sign(&next, '<')) {
        at = lex_bracket_end(s->source, next.start);
        next = lex_token(s->source, at, false);
    }
    if (at == 0 || !lex_is_sign(&next, '='))
        return;
    uint32_t end = lex_type_end(s->source, next.end);
    if (end == 0)
        return;
    (void)fill(s, name, end);
    s->text[next.start] = '=';
}

static void simplify_variable(struct simplify *s, uint32_t i)
{
    uint32_t name = i + 1;
    const struct entry *entry = &s->entries.ptr[name];
    if (entry->token.kind == TOKEN_END)
        return;
    uint32_t next = entry->match != NONE && entry->match > name ? entry->match + 1 : name + 1;
    if (sign_is(s, next, '!'))
        next++;
    (void)fill_annotation(s, next);
}

static void simplify_function(struct simplify *s, uint32_t i)
{
    uint32_t next = i + 1;
    if (sign_is(s, next, '*'))
        next++;
    if (s->entries.ptr[next].token.kind == TOKEN_WORD)
        next++;
    (void)fill_signature(s, next);
}

/* A new member begins on a new line once the initializer before could have ended. */
static bool ends_value(const struct simplify *s, uint32_t i)
{
    const struct token *token = &s->entries.ptr[i].token;
    bool begins = token->kind == TOKEN_WORD || lex_is_sign(token, '@') || lex_is_sign(token, '[');
    return token->after_newline && begins && ends_operand(s, i - 1);
}

/* Modifiers in an order or a place that the grammar does not know. */
static void simplify_modifier(struct simplify *s, uint32_t i)
{
    const struct token *next = &s->entries.ptr[i + 1].token;
    bool has_name = next->kind != TOKEN_SIGN || next->sign == '[';
    bool is_name = next->kind == TOKEN_SIGN && strchr("=(;:?!}<,", (int)next->sign) != NULL &&
                   next->sign < 256;
    if (word_is(s, i, "accessor") && has_name && !next->after_newline)
        memset(s->text + start_of(s, i), ' ', end_of(s, i) - start_of(s, i));
    else if (is_name && (word_is(s, i, "abstract") || word_is(s, i, "accessor")))
        rename_word(s, i);
    else if (word_is(s, i, "static")) {
        uint32_t bracket = word_is(s, i + 1, "readonly") ? i + 2 : i + 1;
        if (sign_is(s, bracket, '[') && s->entries.ptr[bracket + 1].token.kind == TOKEN_WORD &&
            sign_is(s, bracket + 2, ':'))
            take_out(s, i, end_of(s, i));
    }
}

static void simplify_members(struct simplify *s, uint32_t open)
{
    uint32_t close = s->entries.ptr[open].match;
    bool in_value = false;
    for (uint32_t i = open + 1; i < close;) {
        const struct entry *entry = &s->entries.ptr[i];
        uint32_t next = i + 1;
        if (in_value && ends_value(s, i))
            in_value = false;
        if (!in_value && entry->token.kind == TOKEN_WORD)
            simplify_modifier(s, i);
        if (!in_value && (sign_is(s, i, '(') || sign_is(s, i, '<')))
            next = MAX(next, fill_signature(s, i));
        else if (!in_value && sign_is(s, i, ':'))
            next = MAX(next, fill_type(s, i));
        else if (entry->match != NONE && entry->match > i)
            next = entry->match + 1;
        else if (sign_is(s, i, '='))
            in_value = true;
        else if (sign_is(s, i, ';'))
            in_value = false;
        i = next;
    }
}

static void simplify_class(struct simplify *s, uint32_t i)
{
    uint32_t next = i + 1;
    if (s->entries.ptr[next].token.kind == TOKEN_WORD && !word_is(s, next, "extends") &&
        !word_is(s, next, "implements"))
        next++;
    while (!sign_is(s, next, '{') && s->entries.ptr[next].token.kind != TOKEN_END && !is_late(s)) {
        const struct entry *entry = &s->entries.ptr[next];
        uint32_t after = next + 1;
        if (sign_is(s, next, '<'))
            after = MAX(after, fill_parameters_of_type(s, next));
        else if (word_is(s, next, "implements"))
            after = MAX(after, fill_type(s, next));
        else if (entry->match != NONE && entry->match > next)
            after = entry->match + 1;
        next = after;
    }
    if (sign_is(s, next, '{') && s->entries.ptr[next].match != NONE)
        simplify_members(s, next);
}

/* `export type * from "x"`: becomes `export type {} from`. */
static void simplify_star(struct simplify *s, uint32_t star)
{
    uint32_t from = star + 1;
    if (word_is(s, from, "as"))
        from += 2;
    if (from >= s->entries.len || !word_is(s, from, "from"))
        return;
    uint32_t start = start_of(s, star);
    uint32_t end = start_of(s, from);
    if (end - start < 2)
        return;
    memset(s->text + start, ' ', end - start);
    memcpy(s->text + start, "{}", 2);
    s->has_changed = true;
}

/* `type` and `as` are also names: `{ type as as }`, `{ type as }`, `{ type }`. */
static void simplify_specifier(struct simplify *s, uint32_t i, uint32_t count)
{
    if (!word_is(s, i, "type") || count > 4)
        return;
    if (count == 1 || count == 3)
        rename_word(s, i);
    if (count == 2 || count == 4)
        rename_word(s, i + 1);
    if (count >= 3)
        rename_word(s, i + count - 1);
}

static void simplify_clause(struct simplify *s, uint32_t open)
{
    uint32_t close = s->entries.ptr[open].match;
    uint32_t first = open + 1;
    for (uint32_t i = first; i <= close; i++) {
        if (i != close && !sign_is(s, i, ','))
            continue;
        if (i > first)
            simplify_specifier(s, first, i - first);
        first = i + 1;
    }
    for (uint32_t i = open; i < close; i++)
        s->entries.ptr[i].is_dead = true;
}

/* `import defer * as n from "x"`, `import source x from "x"`: newer than the grammar. The parser
 * does not see the word; the answer keeps it. */
static void hide_phase(struct simplify *s, uint32_t i)
{
    bool is_phase = (word_is(s, i, "defer") && sign_is(s, i + 1, '*')) ||
                    (word_is(s, i, "source") && i + 2 < s->entries.len &&
                     s->entries.ptr[i + 1].token.kind == TOKEN_WORD && word_is(s, i + 2, "from"));
    if (!is_phase)
        return;
    memset(s->text + start_of(s, i), ' ', end_of(s, i) - start_of(s, i));
    s->has_changed = true;
}

/* After `import` or `export`. */
static void simplify_module_words(struct simplify *s, uint32_t i)
{
    uint32_t next = i + 1;
    if (word_is(s, i, "import"))
        hide_phase(s, next);
    bool is_type = word_is(s, next, "type");
    if (is_type && sign_is(s, next + 1, '*')) {
        if (word_is(s, i, "export"))
            simplify_star(s, next + 1);
        return;
    }
    if (is_type)
        next++;
    if (word_is(s, i, "import") && s->entries.ptr[next].token.kind == TOKEN_WORD &&
        sign_is(s, next + 1, ','))
        next += 2; /* a default import before the list */
    if (sign_is(s, next, '{') && s->entries.ptr[next].match != NONE)
        simplify_clause(s, next);
}

/* Whether an assertion stands where the grammar wants a plain target: in a pattern that is
 * assigned to, in the head of a for loop, in a decorator. */
static bool is_in_target(const struct simplify *s, uint32_t i)
{
    uint32_t k = s->entries.ptr[i].outer;
    for (int n = 0; n < LOOK_BACK_MAX && k != NONE; n++, k = s->entries.ptr[k].outer) {
        if (s->entries.ptr[k].match == NONE)
            return false;
        if (sign_is(s, k, '('))
            return k > 0 && (sign_is(s, k - 1, '@') ||
                             (word_is(s, k - 1, "for") && s->entries.ptr[i].outer == k));
        if (sign_is(s, s->entries.ptr[k].match + 1, '='))
            return true;
    }
    return false;
}

static void simplify_assertion(struct simplify *s, uint32_t i)
{
    bool after_operand = i > 0 && ends_operand(s, i - 1);
    bool is_clause = i > 0 && sign_is(s, i - 1, '*');
    if (is_clause)
        return;
    if (!after_operand || s->entries.ptr[i].token.after_newline) {
        rename_word(s, i); /* a variable of that name */
        return;
    }
    uint32_t end = is_late(s) ? 0 : lex_type_end(s->source, end_of(s, i));
    if (end == 0)
        return;
    if (is_in_target(s, i)) {
        take_out(s, i, end);
        return;
    }
    uint32_t next = fill(s, i + 1, end);
    /* These begin a statement on a new line, but the grammar reads on. */
    const struct token *after = &s->entries.ptr[next].token;
    bool is_next =
        lex_is_sign(after, '[') || lex_is_sign(after, '(') || after->kind == TOKEN_TEMPLATE;
    if (is_next && after->after_newline)
        s->text[end] = ';';
}

/* `abstract` and `interface` as plain names. */
static void simplify_name(struct simplify *s, uint32_t i)
{
    const struct token *next = &s->entries.ptr[i + 1].token;
    bool is_operator = next->kind == TOKEN_SIGN && next->sign != '[' && next->sign != '*' &&
                       next->sign != '{' && next->sign != '@';
    if (next->kind == TOKEN_END || next->after_newline || is_operator)
        rename_word(s, i);
    else if (word_is(s, i, "interface"))
        simplify_interface(s, i);
}

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
        take_out(s, first, end_of(s, i - 1));
}

/* `f<A>(x)`, `` tag<A>`x` ``, `<A>(x) =>`, `{ m<A>(x) {} }`. */
static void simplify_angle(struct simplify *s, uint32_t i)
{
    bool after_operand = i > 0 && ends_operand(s, i - 1);
    uint32_t end = after_operand ? lex_generics_end(s->source, start_of(s, i), false) : 0;
    bool is_list = end != 0;
    if (!is_list)
        end = lex_generics_end(s->source, start_of(s, i), true);
    if (end == 0)
        return;
    uint32_t next = index_at(s, i, end);
    bool is_gap = s->entries.ptr[next].token.kind == TOKEN_TEMPLATE ||
                  sign_is(s, next, SIGN_CHAIN) || (!sign_is(s, next, '(') && is_in_decorator(s, i));
    if (is_list && is_gap) {
        take_out(s, i, end);
        return;
    }
    if (!sign_is(s, next, '(') || s->entries.ptr[next].match == NONE)
        return;
    uint32_t after = s->entries.ptr[next].match + 1;
    bool is_function =
        sign_is(s, after, SIGN_ARROW) || sign_is(s, after, ':') || sign_is(s, after, '{');
    if (is_list || is_function)
        (void)fill_generics(s, i, end);
}

/* A parenthesis is one of parameters when `=>` or a body follows it. */
static void simplify_parenthesis(struct simplify *s, uint32_t i)
{
    const struct entry *entry = &s->entries.ptr[i];
    if (entry->match == NONE || entry->is_known)
        return;
    uint32_t after = entry->match + 1;
    if (sign_is(s, after, SIGN_ARROW)) {
        fill_parameters(s, i);
        return;
    }
    const struct token *before = i > 0 ? &s->entries.ptr[i - 1].token : NULL;
    if (!sign_is(s, after, ':') || (before != NULL && lex_is_sign(before, '?')))
        return;
    uint32_t end = lex_type_end(s->source, end_of(s, after));
    if (end == 0)
        return;
    struct token next = lex_token(s->source, end, false);
    bool is_method = before != NULL && ends_operand(s, i - 1) && lex_is_sign(&next, '{');
    if (lex_is_sign(&next, SIGN_ARROW) || is_method) {
        fill_parameters(s, i);
        (void)fill_type(s, after);
    }
}

static const struct {
    const char *word;
    void (*simplify)(struct simplify *s, uint32_t i);
} WORDS[] = {
    {"interface", simplify_name},      {"abstract", simplify_name},
    {"type", simplify_alias},          {"const", simplify_variable},
    {"let", simplify_variable},        {"var", simplify_variable},
    {"function", simplify_function},   {"class", simplify_class},
    {"export", simplify_module_words}, {"import", simplify_module_words},
    {"as", simplify_assertion},        {"satisfies", simplify_assertion},
};

static void simplify_token(struct simplify *s, uint32_t i)
{
    const struct entry *entry = &s->entries.ptr[i];
    if (sign_is(s, i, '<'))
        simplify_angle(s, i);
    else if (sign_is(s, i, '('))
        simplify_parenthesis(s, i);
    else if (sign_is(s, i, '@'))
        simplify_decorators(s, i);
    if (entry->token.kind != TOKEN_WORD)
        return;
    if (i > 0 && (sign_is(s, i - 1, '.') || sign_is(s, i - 1, SIGN_CHAIN)))
        return;
    for (size_t k = 0; k < countof(WORDS); k++)
        if (lex_is_word(s->source, &entry->token, WORDS[k].word))
            WORDS[k].simplify(s, i);
}

/* ---- the door ---- */

struct simplify *simplify_new(void)
{
    return mem_alloc(sizeof(struct simplify));
}

struct simplify *simplify_free(struct simplify *s)
{
    if (s == NULL)
        return NULL;
    vec_done(&s->entries);
    vec_done(&s->open);
    vec_done(&s->removed);
    free(s);
    return NULL;
}

bool simplify_types(struct simplify *s, struct str source, char *text, int64_t deadline_ns)
{
    s->source = source;
    s->text = text;
    s->has_changed = false;
    s->deadline_ns = deadline_ns;
    s->removed.len = 0;
    if (!read_tokens(s))
        return false;
    drop_comments(s);
    /* TOKEN_END stays last, so the token after any other one exists. */
    for (uint32_t i = 0; i + 1 < s->entries.len; i++) {
        if (is_late(s))
            return false;
        if (!s->entries.ptr[i].is_dead)
            simplify_token(s, i);
    }
    return s->has_changed;
}

const struct simplify_range *simplify_removed(const struct simplify *s, size_t *ret_count)
{
    *ret_count = s->removed.len;
    return s->removed.ptr;
}

/* ---- for the parser ---- */

struct pack {
    char *packed;
    uint32_t *from, *to;
    size_t len;
    bool is_soft; /* the last byte may stand for more */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void pack_byte(struct pack *pack, char c, uint32_t at, bool is_soft)
{
    char *last = pack->len > 0 ? &pack->packed[pack->len - 1] : NULL;
    bool same = is_soft && pack->is_soft && last != NULL &&
                ((is_blank(c) && is_blank(*last)) || (c == 'T' && *last == 'T'));
    if (same) {
        if (c == '\n')
            *last = c; /* a line's end may end a statement */
        pack->to[pack->len - 1] = at + 1;
        return;
    }
    pack->packed[pack->len] = c;
    pack->from[pack->len] = at;
    pack->to[pack->len++] = at + 1;
    pack->is_soft = is_soft && (is_blank(c) || c == 'T');
}

size_t simplify_pack(const struct simplify *s, const char *text, char *packed, uint32_t *from,
                     uint32_t *to)
{
    struct pack pack = {.packed = packed, .from = from, .to = to};
    uint32_t at = 0;
    VEC_EACH (entry, &s->entries) {
        for (; at < entry->token.start; at++)
            pack_byte(&pack, text[at], at, true);
        for (; at < entry->token.end; at++)
            pack_byte(&pack, text[at], at, entry->is_dead);
    }
    for (; at < s->source.len; at++)
        pack_byte(&pack, text[at], at, false);
    from[pack.len] = (uint32_t)s->source.len;
    return pack.len;
}
