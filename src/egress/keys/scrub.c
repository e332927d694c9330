#include "egress/keys/scrub.h"

#include "base/buf.h"
#include "base/crypto/secret.h"
#include "egress/keys/secrets.h"

enum {
    HELD_MAX = 16 * SECRET_VALUE_MAX, /* longer than any spelling below */
    REFERENCE_MAX = 10,               /* of "&#...;" */
    BREAKS_MAX = 2,                   /* line ends between two digits of base64 */
    PAIRS_FROM = 32 << 10,            /* bytes of a stream from which a table of pairs pays */
};

/* How a comparison ended: MORE when the text ran out while everything agreed. */
enum outcome { NO, YES, MORE };

/* From `text` on: how much of it was taken. */
typedef enum outcome match_func(struct str value, struct str text, size_t *ret_taken);

struct scrub {
    const struct secret_entry *entries[SECRETS_MAX]; /* the longest value first */
    size_t count;
    enum scrub_mode mode;
    bool starts[256]; /* bytes with which some spelling begins */
    /* The same for two bytes, a bit each; made once a stream is long. */
    uint8_t (*pairs)[256][32];
    uint64_t seen;
    struct buf held;
};

/* --- Spellings --- */

static enum outcome match_plain(struct str value, struct str text, size_t *ret_taken)
{
    size_t len = MIN(value.len, text.len);
    if (memcmp(value.ptr, text.ptr, len) != 0)
        return NO;
    *ret_taken = value.len;
    return len == value.len ? YES : MORE;
}

/* `count` hexadecimal digits behind `from` that give `wanted`. */
static enum outcome match_digits(struct str text, size_t from, size_t count, int wanted,
                                 size_t *ret_taken)
{
    int n = 0;
    for (size_t i = from; i < from + count; i++) {
        if (i >= text.len)
            return MORE;
        int digit = char_hex(text.ptr[i]);
        if (digit < 0)
            return NO;
        n = n * 16 + digit;
    }
    *ret_taken = from + count;
    return n == wanted ? YES : NO;
}

static enum outcome match_backslash(char wanted, struct str text, size_t *ret_taken)
{
    if (text.len < 2)
        return MORE;
    if (text.ptr[1] == 'u')
        return match_digits(text, 2, 4, wanted, ret_taken);
    if (text.ptr[1] == 'x')
        return match_digits(text, 2, 2, wanted, ret_taken);
    *ret_taken = 2;
    return text.ptr[1] == wanted ? YES : NO;
}

static int reference_value(struct str name)
{
    static const struct {
        const char *name;
        char c;
    } rows[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (size_t i = 0; i < countof(rows); i++)
        if (str_eq(name, str_of(rows[i].name)))
            return rows[i].c;
    int64_t n = -1;
    if (str_starts(name, STR("#x")) || str_starts(name, STR("#X"))) {
        n = name.len > 2 ? 0 : -1;
        for (size_t i = 2; i < name.len; i++) {
            int digit = char_hex(name.ptr[i]);
            if (digit < 0)
                return -1;
            n = n * 16 + digit;
        }
        return n < 128 ? (int)n : -1;
    }
    if (str_starts(name, STR("#")) && str_to_i64(str_slice(name, 1, name.len), 0, 127, &n))
        return (int)n;
    return -1;
}

static enum outcome match_reference(char wanted, struct str text, size_t *ret_taken)
{
    size_t end = str_find_char(str_slice(text, 0, REFERENCE_MAX), ';');
    if (end == text.len && text.len < REFERENCE_MAX)
        return MORE;
    if (end >= REFERENCE_MAX || end == text.len)
        return NO;
    *ret_taken = end + 1;
    return reference_value(str_slice(text, 1, end)) == wanted ? YES : NO;
}

/* One character of the value, however it is written. */
static enum outcome match_char(char wanted, struct str text, size_t *ret_taken)
{
    enum outcome outcome = NO;
    if (text.len == 0)
        return MORE;
    if (text.ptr[0] == '%')
        outcome = match_digits(text, 1, 2, wanted, ret_taken);
    else if (text.ptr[0] == '\\')
        outcome = match_backslash(wanted, text, ret_taken);
    else if (text.ptr[0] == '&')
        outcome = match_reference(wanted, text, ret_taken);
    else if (text.ptr[0] == '+' && wanted == ' ')
        outcome = YES, *ret_taken = 1;
    if (outcome == NO && text.ptr[0] == wanted) {
        *ret_taken = 1;
        return YES;
    }
    return outcome;
}

static enum outcome match_escaped(struct str value, struct str text, size_t *ret_taken)
{
    size_t at = 0, taken = 0;
    for (size_t i = 0; i < value.len; i++) {
        enum outcome outcome = match_char(value.ptr[i], str_slice(text, at, text.len), &taken);
        if (outcome != YES)
            return outcome;
        at += taken;
    }
    *ret_taken = at;
    return YES;
}

static enum outcome match_hex(struct str value, struct str text, size_t *ret_taken)
{
    for (size_t i = 0; i < value.len * 2; i++) {
        if (i >= text.len)
            return MORE;
        int wanted = (unsigned char)value.ptr[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15;
        if (char_hex(text.ptr[i]) != wanted)
            return NO;
    }
    *ret_taken = value.len * 2;
    return YES;
}

/* The 6 bits of the value that begin at bit `at`. */
static int sextet(struct str value, size_t at)
{
    uint32_t pair = (uint32_t)(unsigned char)value.ptr[at / 8] << 8;
    if (at / 8 + 1 < value.len)
        pair |= (unsigned char)value.ptr[at / 8 + 1];
    return (int)(pair >> (10 - at % 8) & 63);
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (char_is_digit(c))
        return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

/* Matches the digits that depend only on the value. The value begins `skipped` bits into the first
 * digit: 0, 2 or 4, as 0, 2 or 1 bytes modulo 3 precede it. The one digit at each end that also
 * depends on neighbouring bytes is not replaced; it reveals at most 4 bits. */
static enum outcome match_base64(struct str value, struct str text, size_t first, size_t *ret_taken)
{
    size_t at = 0;
    for (size_t bit = first; bit + 6 <= value.len * 8; bit += 6) {
        for (int breaks = 0; bit > first && at < text.len && breaks < BREAKS_MAX; breaks++)
            at += text.ptr[at] == '\r' || text.ptr[at] == '\n';
        if (at >= text.len)
            return MORE;
        if (base64_value(text.ptr[at]) != sextet(value, bit))
            return NO;
        at++;
    }
    *ret_taken = at;
    return YES;
}

static enum outcome match_base64_0(struct str value, struct str text, size_t *ret_taken)
{
    return match_base64(value, text, 0, ret_taken);
}
static enum outcome match_base64_2(struct str value, struct str text, size_t *ret_taken)
{
    return match_base64(value, text, 2, ret_taken);
}
static enum outcome match_base64_4(struct str value, struct str text, size_t *ret_taken)
{
    return match_base64(value, text, 4, ret_taken);
}

static match_func *const spellings[] = {
    match_plain, match_escaped, match_hex, match_base64_0, match_base64_2, match_base64_4,
};

/* --- Life --- */

static bool may_start(struct str value, struct str text)
{
    for (size_t k = 0; k < countof(spellings); k++) {
        size_t taken;
        if (spellings[k](value, text, &taken) != NO)
            return true;
    }
    return false;
}

static void note_starts(struct scrub *scrub, struct str value)
{
    for (int c = 0; c < 256; c++) {
        char text = (char)c;
        if (may_start(value, str_n(&text, 1)))
            scrub->starts[c] = true;
    }
}

static void note_pairs(struct scrub *scrub, struct str value)
{
    for (int a = 0; a < 256; a++) {
        for (int b = 0; scrub->starts[a] && b < 256; b++) {
            const char text[2] = {(char)a, (char)b};
            if (may_start(value, str_n(text, 2)))
                (*scrub->pairs)[a][b / 8] |= (uint8_t)(1 << b % 8);
        }
    }
}

static void make_pairs(struct scrub *scrub)
{
    scrub->pairs = mem_alloc(sizeof *scrub->pairs);
    for (size_t i = 0; i < scrub->count; i++)
        note_pairs(scrub, secret_reveal(scrub->entries[i]->value));
}

static void scrub_add(struct scrub *scrub, const struct secret_entry *entry)
{
    size_t at = scrub->count++;
    size_t len = secret_reveal(entry->value).len;
    for (; at > 0 && secret_reveal(scrub->entries[at - 1]->value).len < len; at--)
        scrub->entries[at] = scrub->entries[at - 1];
    scrub->entries[at] = entry;
    note_starts(scrub, secret_reveal(entry->value));
}

struct scrub *scrub_new(const struct secrets *secrets, const struct host *host, uint16_t port,
                        enum scrub_mode mode)
{
    struct scrub *scrub = mem_alloc(sizeof *scrub);
    scrub->mode = mode;
    scrub->held = (struct buf){.wipes = true};
    for (size_t i = 0; i < secrets_count(secrets); i++)
        if (secrets_at(secrets, i)->value != NULL &&
            secret_goes_to(secrets_at(secrets, i), host, port))
            scrub_add(scrub, secrets_at(secrets, i));
    return scrub;
}

struct scrub *scrub_free(struct scrub *scrub)
{
    if (scrub == NULL)
        return NULL;
    buf_done(&scrub->held);
    free(scrub->pairs);
    free(scrub);
    return NULL;
}

bool scrub_is_idle(const struct scrub *scrub)
{
    return scrub->count == 0;
}

/* --- Bytes --- */

static void put_instead(struct scrub *scrub, const struct secret_entry *entry, size_t len,
                        struct buf *out)
{
    struct str placeholder = str_of(entry->placeholder);
    if (scrub->mode == SCRUB_REPLACE) {
        buf_put(out, placeholder);
        return;
    }
    buf_put(out, str_slice(placeholder, 0, len));
    for (size_t i = placeholder.len; i < len; i++)
        buf_put_char(out, '*');
}

/* What stands at the beginning of `text`. With nothing to come, MORE is as good as NO. */
static enum outcome scrub_look(const struct scrub *scrub, struct str text, bool is_last,
                               const struct secret_entry **ret_entry, size_t *ret_taken)
{
    for (size_t i = 0; i < scrub->count; i++) {
        struct str value = secret_reveal(scrub->entries[i]->value);
        for (size_t k = 0; k < countof(spellings); k++) {
            enum outcome outcome = spellings[k](value, text, ret_taken);
            if (outcome == NO || (outcome == MORE && is_last))
                continue;
            *ret_entry = scrub->entries[i];
            return outcome;
        }
    }
    return NO;
}

/* The next place where a value could begin. Most bytes are passed over here. */
static size_t scrub_skip(const struct scrub *scrub, struct str text, size_t at)
{
    const unsigned char *bytes = (const unsigned char *)text.ptr;
    for (;; at++) {
        while (at < text.len && !scrub->starts[bytes[at]])
            at++;
        if (at + 1 >= text.len || scrub->pairs == NULL)
            return at;
        unsigned char next = bytes[at + 1];
        if (((*scrub->pairs)[bytes[at]][next / 8] >> next % 8 & 1) != 0)
            return at;
    }
}

/* Gives how many bytes were dealt with; the rest may be the beginning of a value. */
static size_t filter(struct scrub *scrub, struct str text, bool is_last, struct buf *out)
{
    size_t done = 0, at = 0;
    while ((at = scrub_skip(scrub, text, at)) < text.len) {
        const struct secret_entry *entry;
        size_t taken = 0;
        enum outcome outcome =
            scrub_look(scrub, str_slice(text, at, text.len), is_last, &entry, &taken);
        if (outcome == MORE)
            break;
        if (outcome == NO) {
            at++;
            continue;
        }
        buf_put(out, str_slice(text, done, at));
        put_instead(scrub, entry, taken, out);
        done = at += taken;
    }
    buf_put(out, str_slice(text, done, at));
    return at;
}

void scrub_feed(struct scrub *scrub, struct str bytes, struct buf *out)
{
    if (scrub->count == 0) {
        buf_put(out, bytes);
        return;
    }
    scrub->seen += bytes.len;
    if (scrub->pairs == NULL && scrub->seen >= PAIRS_FROM)
        make_pairs(scrub);
    if (scrub->held.len == 0) {
        size_t done = filter(scrub, bytes, false, out);
        buf_put(&scrub->held, str_slice(bytes, done, bytes.len));
    } else {
        buf_put(&scrub->held, bytes);
        buf_consume(&scrub->held, filter(scrub, buf_str(&scrub->held), false, out));
    }
    assert(scrub->held.len <= HELD_MAX);
}

void scrub_end(struct scrub *scrub, struct buf *out)
{
    (void)filter(scrub, buf_str(&scrub->held), true, out);
    buf_clear(&scrub->held);
}

void scrub_text(struct scrub *scrub, struct str text, struct buf *out)
{
    assert(scrub->held.len == 0);
    if (scrub->count == 0)
        buf_put(out, text);
    else
        (void)filter(scrub, text, true, out);
}
