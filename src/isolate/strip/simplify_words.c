/* What a word begins: a declaration, a class with its members, an import or export, an assertion;
 * or it is a name that the grammar reserves. A row of WORDS for each. */

#include "isolate/strip/simplify_internal.h"

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
    (void)simplify_fill(s, name, at);
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
    (void)simplify_fill(s, name, end);
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
    (void)simplify_fill_annotation(s, next);
}

static void simplify_function(struct simplify *s, uint32_t i)
{
    uint32_t next = i + 1;
    if (sign_is(s, next, '*'))
        next++;
    if (s->entries.ptr[next].token.kind == TOKEN_WORD)
        next++;
    (void)simplify_fill_signature(s, next);
}

/* A new member begins on a new line once the initializer before could have ended. */
static bool ends_value(const struct simplify *s, uint32_t i)
{
    const struct token *token = &s->entries.ptr[i].token;
    bool begins = token->kind == TOKEN_WORD || lex_is_sign(token, '@') || lex_is_sign(token, '[');
    return token->after_newline && begins && simplify_ends_operand(s, i - 1);
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
        simplify_rename(s, i);
    else if (word_is(s, i, "static")) {
        uint32_t bracket = word_is(s, i + 1, "readonly") ? i + 2 : i + 1;
        if (sign_is(s, bracket, '[') && s->entries.ptr[bracket + 1].token.kind == TOKEN_WORD &&
            sign_is(s, bracket + 2, ':'))
            simplify_take_out(s, i, end_of(s, i));
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
            next = MAX(next, simplify_fill_signature(s, i));
        else if (!in_value && sign_is(s, i, ':'))
            next = MAX(next, simplify_fill_type(s, i));
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
            after = MAX(after, simplify_fill_type_parameters(s, next));
        else if (word_is(s, next, "implements"))
            after = MAX(after, simplify_fill_type(s, next));
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
        simplify_rename(s, i);
    if (count == 2 || count == 4)
        simplify_rename(s, i + 1);
    if (count >= 3)
        simplify_rename(s, i + count - 1);
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
    bool after_operand = i > 0 && simplify_ends_operand(s, i - 1);
    bool is_clause = i > 0 && sign_is(s, i - 1, '*');
    if (is_clause)
        return;
    if (!after_operand || s->entries.ptr[i].token.after_newline) {
        simplify_rename(s, i); /* a variable of that name */
        return;
    }
    uint32_t end = is_late(s) ? 0 : lex_type_end(s->source, end_of(s, i));
    if (end == 0)
        return;
    if (is_in_target(s, i)) {
        simplify_take_out(s, i, end);
        return;
    }
    uint32_t next = simplify_fill(s, i + 1, end);
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
        simplify_rename(s, i);
    else if (word_is(s, i, "interface"))
        simplify_interface(s, i);
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

void simplify_word(struct simplify *s, uint32_t i)
{
    const struct token *token = &s->entries.ptr[i].token;
    if (i > 0 && (sign_is(s, i - 1, '.') || sign_is(s, i - 1, SIGN_CHAIN)))
        return;
    for (size_t k = 0; k < countof(WORDS); k++)
        if (lex_is_word(s->source, token, WORDS[k].word))
            WORDS[k].simplify(s, i);
}
