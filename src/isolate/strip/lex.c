#include "isolate/strip/lex.h"

#include "isolate/strip/text.h"

static char at_or_nul(struct str source, size_t at)
{
    return at < source.len ? source.ptr[at] : '\0';
}

static bool is_word_char(char c)
{
    return char_is_alnum(c) || c == '_' || c == '$' || c == '\\' || (unsigned char)c >= 0x80;
}

static size_t string_end(struct str source, size_t at)
{
    char quote = source.ptr[at];
    for (size_t i = at + 1; i < source.len; i++) {
        if (source.ptr[i] == '\\')
            i++;
        else if (source.ptr[i] == quote)
            return i + 1;
        else if (source.ptr[i] == '\n')
            return i;
    }
    return source.len;
}

static size_t skip_comment(struct str source, size_t at)
{
    struct str rest = str_slice(source, at, source.len);
    if (str_starts(rest, STR("//")))
        return at + str_find_char(rest, '\n');
    size_t close = str_find(str_slice(rest, 2, rest.len), STR("*/"));
    return MIN(at + 2 + close + 2, source.len);
}

/* Within `${ }`: past one thing that may hide a bracket. */
static size_t skip_code(struct str source, size_t at)
{
    char c = source.ptr[at];
    char next = at_or_nul(source, at + 1);
    if (c == '"' || c == '\'')
        return string_end(source, at);
    if (c == '/' && (next == '/' || next == '*'))
        return skip_comment(source, at);
    return at + 1;
}

static size_t template_end(struct str source, size_t at)
{
    uint32_t braces[LEX_NESTING_MAX]; /* open ones in each `${` around us */
    size_t depth = 0;
    bool in_text = true;
    for (size_t i = at + 1; i < source.len;) {
        char c = source.ptr[i];
        if (in_text) {
            if (c == '`') {
                if (depth == 0)
                    return i + 1;
                in_text = false;
            } else if (c == '$' && at_or_nul(source, i + 1) == '{') {
                if (depth == LEX_NESTING_MAX)
                    return source.len;
                braces[depth++] = 0;
                in_text = false;
                i++;
            }
            i += c == '\\' ? 2 : 1;
            continue;
        }
        if (c == '`') {
            in_text = true;
        } else if (c == '{') {
            braces[depth - 1]++;
        } else if (c == '}') {
            if (braces[depth - 1] == 0) {
                depth--;
                in_text = true;
            } else {
                braces[depth - 1]--;
            }
        }
        i = skip_code(source, i);
    }
    return source.len;
}

static size_t regex_end(struct str source, size_t at)
{
    bool in_class = false;
    for (size_t i = at + 1; i < source.len && source.ptr[i] != '\n'; i++) {
        char c = source.ptr[i];
        if (c == '\\') {
            i++;
        } else if (c == '[') {
            in_class = true;
        } else if (c == ']') {
            in_class = false;
        } else if (c == '/' && !in_class) {
            i++;
            while (is_word_char(at_or_nul(source, i)))
                i++;
            return i;
        }
    }
    return at + 1;
}

static const struct {
    const char *text;
    uint16_t sign;
} SIGNS[] = {
    {"...", SIGN_DOTS},   {"===", SIGN_OTHER},  {"!==", SIGN_OTHER},  {"**=", SIGN_OTHER},
    {"&&=", SIGN_OTHER},  {"||=", SIGN_OTHER},  {"?\?=", SIGN_OTHER}, {"=>", SIGN_ARROW},
    {"&&", SIGN_LOGICAL}, {"||", SIGN_LOGICAL}, {"??", SIGN_LOGICAL}, {"==", SIGN_OTHER},
    {"!=", SIGN_OTHER},   {"<=", SIGN_OTHER},   {"**", SIGN_OTHER},   {"++", SIGN_STEP},
    {"--", SIGN_STEP},    {"+=", SIGN_OTHER},   {"-=", SIGN_OTHER},   {"*=", SIGN_OTHER},
    {"/=", SIGN_OTHER},   {"%=", SIGN_OTHER},   {"&=", SIGN_OTHER},   {"|=", SIGN_OTHER},
    {"^=", SIGN_OTHER},
};

static size_t sign_end(struct str source, size_t at, uint16_t *ret_sign)
{
    struct str rest = str_slice(source, at, source.len);
    if (str_starts(rest, STR("?.")) && !char_is_digit(at_or_nul(source, at + 2))) {
        *ret_sign = SIGN_CHAIN;
        return at + 2;
    }
    char first = rest.ptr[0];
    bool may_be_long = rest.len > 1 && strchr(".=&|?*+-!<>", rest.ptr[1]) != NULL;
    for (size_t i = 0; may_be_long && i < countof(SIGNS); i++) {
        if (SIGNS[i].text[0] != first)
            continue;
        struct str text = str_of(SIGNS[i].text);
        if (str_starts(rest, text)) {
            *ret_sign = SIGNS[i].sign;
            return at + text.len;
        }
    }
    *ret_sign = (unsigned char)source.ptr[at];
    return at + 1;
}

struct token lex_token(struct str source, uint32_t at, bool regex_fits)
{
    struct token token = {.start = text_skip_trivia(source, at)};
    token.after_newline = text_has_newline(source, at, token.start);
    size_t start = token.start;
    size_t end = start;
    char c = at_or_nul(source, start);
    if (start >= source.len) {
        token.kind = TOKEN_END;
    } else if (c == '"' || c == '\'') {
        token.kind = TOKEN_STRING;
        end = string_end(source, start);
    } else if (c == '`') {
        token.kind = TOKEN_TEMPLATE;
        end = template_end(source, start);
    } else if (char_is_digit(c) || (c == '.' && char_is_digit(at_or_nul(source, start + 1)))) {
        token.kind = TOKEN_NUMBER;
        while (is_word_char(at_or_nul(source, end)) || at_or_nul(source, end) == '.')
            end++;
    } else if (is_word_char(c) || c == '#') {
        token.kind = TOKEN_WORD;
        end++;
        while (is_word_char(at_or_nul(source, end)))
            end++;
    } else if (c == '/' && regex_fits) {
        token.kind = TOKEN_REGEX;
        end = regex_end(source, start);
    } else {
        token.kind = TOKEN_SIGN;
        end = sign_end(source, start, &token.sign);
    }
    token.end = (uint32_t)MIN(end, source.len);
    return token;
}

bool lex_is_word(struct str source, const struct token *token, const char *word)
{
    return token->kind == TOKEN_WORD && source.ptr[token->start] == word[0] &&
           str_eq(str_n(source.ptr + token->start, token->end - token->start), str_of(word));
}

/* ---- types ---- */

static char closing(unsigned sign)
{
    switch (sign) {
    case '(':
        return ')';
    case '[':
        return ']';
    case '{':
        return '}';
    case '<':
        return '>';
    default:
        return '\0';
    }
}

uint32_t lex_bracket_end(struct str source, uint32_t at)
{
    char wanted[LEX_NESTING_MAX];
    size_t depth = 0;
    for (;;) {
        struct token token = lex_token(source, at, false);
        if (token.kind == TOKEN_END)
            return 0;
        at = token.end;
        if (token.kind != TOKEN_SIGN)
            continue;
        char close = closing(token.sign);
        if (close != '\0') {
            if (depth == LEX_NESTING_MAX)
                return 0;
            wanted[depth++] = close;
        } else if (strchr(")]}>", (int)token.sign) != NULL && token.sign < 256) {
            if (depth == 0 || wanted[depth - 1] != (char)token.sign)
                return 0;
            if (--depth == 0)
                return at;
        }
    }
}

enum pending { WANT_QUESTION, WANT_COLON };

/* One reading of a type: operands joined by operators; conditional types are kept in a list of
 * what they still want, so there is no recursion. */
struct type_reader {
    struct str source;
    uint32_t at; /* end of the last token taken */
    uint8_t pending[LEX_NESTING_MAX];
    size_t depth;
    bool is_infer; /* the operand just read was `infer X` */
};

static struct token peek(const struct type_reader *reader)
{
    return lex_token(reader->source, reader->at, false);
}

static bool take_bracket(struct type_reader *reader)
{
    struct token token = peek(reader);
    uint32_t end = lex_bracket_end(reader->source, token.start);
    if (end == 0)
        return false;
    reader->at = end;
    return true;
}

static bool is_prefix(const struct type_reader *reader, const struct token *word,
                      const struct token *next)
{
    static const char *const ALWAYS[] = {"keyof", "readonly", "typeof"};
    static const char *const BEFORE_WORD[] = {"unique", "infer", "asserts", "abstract"};
    bool starts_operand =
        next->kind != TOKEN_END &&
        (next->kind != TOKEN_SIGN || lex_is_sign(next, '(') || lex_is_sign(next, '[') ||
         lex_is_sign(next, '{') || lex_is_sign(next, '<'));
    for (size_t i = 0; i < countof(ALWAYS); i++)
        if (lex_is_word(reader->source, word, ALWAYS[i]))
            return starts_operand;
    for (size_t i = 0; i < countof(BEFORE_WORD); i++)
        if (lex_is_word(reader->source, word, BEFORE_WORD[i]))
            return next->kind == TOKEN_WORD && !next->after_newline &&
                   !lex_is_word(reader->source, next, "is") &&
                   !lex_is_word(reader->source, next, "extends");
    return false;
}

/* Words that are types by themselves: `x as number << 2` shifts. */
static bool is_plain_type(const struct type_reader *reader, const struct token *word)
{
    static const char *const PLAIN[] = {
        "any",    "bigint", "boolean", "false", "never",     "null",    "number", "object",
        "string", "symbol", "this",    "true",  "undefined", "unknown", "void",
    };
    for (size_t i = 0; i < countof(PLAIN); i++)
        if (lex_is_word(reader->source, word, PLAIN[i]))
            return true;
    return false;
}

/* `a.b.c<T>`, `import("x").y`, after its first word. */
static bool take_name_rest(struct type_reader *reader, const struct token *word)
{
    if (lex_is_word(reader->source, word, "import") && !take_bracket(reader))
        return false;
    for (;;) {
        struct token token = peek(reader);
        if (!lex_is_sign(&token, '.'))
            break;
        struct token name = lex_token(reader->source, token.end, false);
        if (name.kind != TOKEN_WORD)
            return false;
        reader->at = name.end;
    }
    struct token token = peek(reader);
    bool is_bare = reader->at == word->end;
    if (lex_is_sign(&token, '<') && !token.after_newline &&
        !(is_bare && is_plain_type(reader, word)))
        return take_bracket(reader);
    return true;
}

enum taken { TAKEN, TAKE_OPERAND, TAKE_NOTHING };

static enum taken lex_take_word(struct type_reader *reader, const struct token *word)
{
    struct token next = lex_token(reader->source, word->end, false);
    reader->at = word->end;
    if (lex_is_word(reader->source, word, "new"))
        return lex_is_sign(&next, '(') || lex_is_sign(&next, '<') ? TAKE_OPERAND : TAKE_NOTHING;
    if (is_prefix(reader, word, &next)) {
        if (lex_is_word(reader->source, word, "infer"))
            reader->is_infer = true;
        return TAKE_OPERAND;
    }
    if (!take_name_rest(reader, word))
        return TAKE_NOTHING;
    next = peek(reader);
    if (lex_is_word(reader->source, &next, "is") && !next.after_newline) {
        reader->at = next.end;
        return TAKE_OPERAND;
    }
    return TAKEN;
}

/* `(A)`, or the parameters of a function type. */
static enum taken take_parenthesis(struct type_reader *reader)
{
    if (!take_bracket(reader))
        return TAKE_NOTHING;
    struct token next = peek(reader);
    if (!lex_is_sign(&next, SIGN_ARROW))
        return TAKEN;
    reader->at = next.end;
    return TAKE_OPERAND;
}

/* `<T>(x: T) =>` */
static enum taken take_generic_function(struct type_reader *reader)
{
    if (!take_bracket(reader))
        return TAKE_NOTHING;
    struct token next = peek(reader);
    if (!lex_is_sign(&next, '('))
        return TAKE_NOTHING;
    return take_parenthesis(reader) == TAKE_OPERAND ? TAKE_OPERAND : TAKE_NOTHING;
}

static enum taken take_sign(struct type_reader *reader, const struct token *token)
{
    struct token next = lex_token(reader->source, token->end, false);
    switch (token->sign) {
    case '|':
    case '&':
        reader->at = token->end;
        return TAKE_OPERAND;
    case '-':
        reader->at = next.end;
        return next.kind == TOKEN_NUMBER ? TAKEN : TAKE_NOTHING;
    case '{':
    case '[':
        return take_bracket(reader) ? TAKEN : TAKE_NOTHING;
    case '(':
        return take_parenthesis(reader);
    case '<':
        return take_generic_function(reader);
    default:
        return TAKE_NOTHING;
    }
}

static bool take_operand(struct type_reader *reader)
{
    enum taken taken = TAKE_OPERAND;
    reader->is_infer = false;
    while (taken == TAKE_OPERAND) {
        struct token token = peek(reader);
        switch (token.kind) {
        case TOKEN_WORD:
            taken = lex_take_word(reader, &token);
            break;
        case TOKEN_SIGN:
            taken = take_sign(reader, &token);
            break;
        case TOKEN_NUMBER:
        case TOKEN_STRING:
        case TOKEN_TEMPLATE:
            reader->at = token.end;
            taken = TAKEN;
            break;
        default:
            taken = TAKE_NOTHING;
        }
    }
    return taken == TAKEN;
}

static bool push_pending(struct type_reader *reader, enum pending what)
{
    if (reader->depth == LEX_NESTING_MAX)
        return false;
    reader->pending[reader->depth++] = (uint8_t)what;
    return true;
}

/* After an operand: takes an operator and says that an operand follows (TAKE_OPERAND), takes a
 * suffix (TAKEN), or finds the end (TAKE_NOTHING). */
static enum taken take_operator(struct type_reader *reader)
{
    struct token token = peek(reader);
    if (lex_is_sign(&token, '[') && !token.after_newline)
        return take_bracket(reader) ? TAKEN : TAKE_NOTHING;
    if (lex_is_sign(&token, '|') || lex_is_sign(&token, '&')) {
        reader->at = token.end;
        return TAKE_OPERAND;
    }
    if (lex_is_word(reader->source, &token, "extends") && !token.after_newline) {
        if (!reader->is_infer && !push_pending(reader, WANT_QUESTION))
            return TAKE_NOTHING;
        reader->at = token.end;
        return TAKE_OPERAND;
    }
    if (reader->depth == 0)
        return TAKE_NOTHING;
    bool is_question = reader->pending[reader->depth - 1] == WANT_QUESTION;
    if (!lex_is_sign(&token, is_question ? '?' : ':'))
        return TAKE_NOTHING;
    reader->depth--;
    if (is_question)
        (void)push_pending(reader, WANT_COLON);
    reader->at = token.end;
    return TAKE_OPERAND;
}

uint32_t lex_type_end(struct str source, uint32_t at)
{
    struct type_reader reader = {.source = source, .at = at};
    enum taken taken = TAKE_OPERAND;
    while (taken != TAKE_NOTHING) {
        if (taken == TAKE_OPERAND && !take_operand(&reader))
            return 0;
        taken = take_operator(&reader);
    }
    return reader.depth == 0 ? reader.at : 0;
}

uint32_t lex_generics_end(struct str source, uint32_t at, bool loose)
{
    struct token token = lex_token(source, at, false);
    if (!lex_is_sign(&token, '<'))
        return 0;
    if (loose)
        return lex_bracket_end(source, token.start);
    for (;;) {
        uint32_t end = lex_type_end(source, token.end);
        if (end == 0)
            return 0;
        token = lex_token(source, end, false);
        if (lex_is_sign(&token, '>'))
            return token.end;
        if (!lex_is_sign(&token, ','))
            return 0;
    }
}
