#include "isolate/strip/text.h"

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

/* Length in bytes of the white space character at `at`, 0 if it is another one. */
static size_t space_len(struct str source, size_t at)
{
    unsigned char c = (unsigned char)source.ptr[at];
    if (c == ' ' || (c >= '\t' && c <= '\r'))
        return 1;
    if (c < 0xc2)
        return 0;
    struct str rest = str_slice(source, at, source.len);
    if (str_starts(rest, STR("\xc2\xa0")))
        return 2;
    static const char *const WIDE[] = {"\xef\xbb\xbf", "\xe2\x80\xa8", "\xe2\x80\xa9",
                                       "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80",
                                       "\xe1\x9a\x80"};
    for (size_t i = 0; i < countof(WIDE); i++)
        if (str_starts(rest, str_of(WIDE[i])))
            return 3;
    /* U+2000 to U+200A */
    if (rest.len >= 3 && memcmp(rest.ptr, "\xe2\x80", 2) == 0 && (unsigned char)rest.ptr[2] <= 0x8a)
        return 3;
    return 0;
}

static size_t comment_end(struct str source, size_t at)
{
    if (source.ptr[at] != '/')
        return at;
    struct str rest = str_slice(source, at, source.len);
    if (str_starts(rest, STR("//")))
        return at + str_find_char(rest, '\n');
    if (!str_starts(rest, STR("/*")))
        return at;
    struct str inside = str_slice(rest, 2, rest.len);
    return MIN(at + 2 + str_find(inside, STR("*/")) + 2, source.len);
}

uint32_t text_skip_trivia(struct str source, uint32_t at)
{
    size_t i = at;
    while (i < source.len) {
        size_t space = space_len(source, i);
        size_t next = space > 0 ? i + space : comment_end(source, i);
        if (next == i)
            break;
        i = next;
    }
    return (uint32_t)i;
}

bool text_has_newline(struct str source, uint32_t from, uint32_t to)
{
    return from < to && memchr(source.ptr + from, '\n', to - from) != NULL;
}

static bool is_word(char c)
{
    return char_is_alnum(c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

struct str text_token(struct str source, uint32_t at)
{
    enum { TOKEN_SHOWN = 40 };
    size_t end = at;
    while (end < source.len && is_word(source.ptr[end]) && end - at < TOKEN_SHOWN)
        end++;
    if (end == at && at < source.len)
        end = at + 1;
    /* Not in the middle of a character. */
    while (end < source.len && ((unsigned char)source.ptr[end] & 0xc0) == 0x80)
        end++;
    return str_slice(source, at, end);
}

struct strip_place text_place(struct str source, uint32_t at)
{
    struct strip_place place = {.line = 1, .column = 1};
    for (size_t i = 0; i < at && i < source.len; i++) {
        unsigned char c = (unsigned char)source.ptr[i];
        if (c == '\n') {
            place.line++;
            place.column = 1;
        } else if ((c & 0xc0) != 0x80) {
            place.column += c >= 0xf0 ? 2 : 1;
        }
    }
    return place;
}

static const struct {
    const char *text; /* longest first */
    enum text_binding binding;
} OPERATORS[] = {
    {">>>=", BIND_NONE},
    {"**=", BIND_NONE},
    {"===", BIND_EQUALITY},
    {"!==", BIND_EQUALITY},
    {">>>", BIND_SHIFT},
    {"<<=", BIND_NONE},
    {">>=", BIND_NONE},
    {"&&=", BIND_NONE},
    {"||=", BIND_NONE},
    {"?\?=", BIND_NONE},
    {"**", BIND_POWER},
    {"==", BIND_EQUALITY},
    {"!=", BIND_EQUALITY},
    {"<=", BIND_RELATION},
    {">=", BIND_RELATION},
    {"<<", BIND_SHIFT},
    {">>", BIND_SHIFT},
    {"&&", BIND_AND},
    {"||", BIND_OR},
    {"??", BIND_NULLISH},
    {"++", BIND_NONE},
    {"--", BIND_NONE},
    {"+=", BIND_NONE},
    {"-=", BIND_NONE},
    {"*=", BIND_NONE},
    {"/=", BIND_NONE},
    {"%=", BIND_NONE},
    {"&=", BIND_NONE},
    {"|=", BIND_NONE},
    {"^=", BIND_NONE},
    {"=>", BIND_NONE},
    {"*", BIND_PRODUCT},
    {"/", BIND_PRODUCT},
    {"%", BIND_PRODUCT},
    {"+", BIND_SUM},
    {"-", BIND_SUM},
    {"<", BIND_RELATION},
    {">", BIND_RELATION},
    {"&", 9},
    {"^", 8},
    {"|", 7},
};

enum text_binding text_operator(struct str source, uint32_t at)
{
    struct str rest = str_slice(source, at, source.len);
    if (rest.len == 0)
        return BIND_NONE;
    if (rest.ptr[0] == 'i') {
        size_t word = 0;
        while (word < rest.len && is_word(rest.ptr[word]))
            word++;
        struct str name = str_slice(rest, 0, word);
        bool is_relation = str_eq(name, STR("in")) || str_eq(name, STR("instanceof"));
        return is_relation ? BIND_RELATION : BIND_NONE;
    }
    for (size_t i = 0; i < countof(OPERATORS); i++)
        if (OPERATORS[i].text[0] == rest.ptr[0] && str_starts(rest, str_of(OPERATORS[i].text)))
            return OPERATORS[i].binding;
    return BIND_NONE;
}

void text_blank(char *out, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        unsigned char c = (unsigned char)out[i];
        if (c < 0x80) {
            if (!is_line_end(out[i]) && c != '\0')
                out[i] = ' ';
        } else if ((c & 0xc0) == 0x80) {
            out[i] = '\0';
        } else {
            out[i] = ' ';
            /* Past U+FFFF a character is two units. */
            if (c >= 0xf0 && i + 1 < to)
                out[++i] = ' ';
        }
    }
}

size_t text_compact(char *out, size_t len)
{
    char *hole = memchr(out, '\0', len);
    if (hole == NULL)
        return len;
    size_t to = (size_t)(hole - out);
    for (size_t from = to; from < len; from++)
        if (out[from] != '\0')
            out[to++] = out[from];
    return to;
}
