#include "base/str.h"

#include <errno.h>
#include <math.h>

#include "base/err.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    return true;
}

int str_cmp(struct str a, struct str b)
{
    size_t len = MIN(a.len, b.len);
    int order = len == 0 ? 0 : memcmp(a.ptr, b.ptr, len);
    if (order != 0)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_eq(str_n(s.ptr, prefix.len), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len && str_eq(str_n(s.ptr + (s.len - suffix.len), suffix.len), suffix);
}

size_t str_find_char(struct str s, char c)
{
    const char *at = s.len == 0 ? NULL : memchr(s.ptr, c, s.len);
    return at == NULL ? s.len : (size_t)(at - s.ptr);
}

size_t str_find(struct str s, struct str needle)
{
    if (needle.len == 0)
        return 0;
    const char *at = s.len == 0 ? NULL : memmem(s.ptr, s.len, needle.ptr, needle.len);
    return at == NULL ? s.len : (size_t)(at - s.ptr);
}

struct str str_slice(struct str s, size_t from, size_t to)
{
    to = MIN(to, s.len);
    from = MIN(from, to);
    return str_n(s.len == 0 ? s.ptr : s.ptr + from, to - from);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
    while (s.len > 0 && is_blank(s.ptr[0]))
        s = str_slice(s, 1, s.len);
    while (s.len > 0 && is_blank(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

bool str_split(struct str *rest, char sep, struct str *ret_part)
{
    if (rest->ptr == NULL)
        return false;
    size_t at = str_find_char(*rest, sep);
    *ret_part = str_slice(*rest, 0, at);
    /* A NULL pointer marks the end, so that a trailing separator still yields its empty part. */
    if (at == rest->len)
        *rest = (struct str){0};
    else
        *rest = str_slice(*rest, at + 1, rest->len);
    return true;
}

bool str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret_n)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    if (negative)
        s = str_slice(s, 1, s.len);
    if (s.len == 0)
        return false;
    int64_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        int digit = s.ptr[i] - '0';
        /* Counting down for negatives reaches INT64_MIN without overflow. */
        if (!mul_i64(n, 10, &n) || !add_i64(n, negative ? -digit : digit, &n))
            return false;
    }
    if (n < min || n > max)
        return false;
    *ret_n = n;
    return true;
}

int char_hex(int c)
{
    if (char_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool str_is_hex(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!char_is_digit(s.ptr[i]) && !(s.ptr[i] >= 'a' && s.ptr[i] <= 'f'))
            return false;
    return true;
}

bool str_to_hex(struct str s, uint64_t *ret_n)
{
    uint64_t n = 0;
    if (s.len == 0 || s.len > 15)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        int digit = char_hex(s.ptr[i]);
        if (digit < 0)
            return false;
        n = n << 4 | (uint64_t)digit;
    }
    *ret_n = n;
    return true;
}

bool str_to_f64(struct str s, double *ret_n)
{
    char text[64];
    if (s.len == 0 || s.len >= sizeof text)
        return false;
    /* strtod would also take blanks, hex, "inf" and "nan". */
    struct str allowed = STR("0123456789+-.eE");
    for (size_t i = 0; i < s.len; i++)
        if (str_find_char(allowed, s.ptr[i]) == allowed.len)
            return false;
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    char *end = NULL;
    double n = strtod(text, &end);
    if (end != text + s.len || !isfinite(n))
        return false;
    *ret_n = n;
    return true;
}

size_t str_utf8_len(struct str s)
{
    if (s.len == 0)
        return 0;
    const unsigned char *p = (const unsigned char *)s.ptr;
    if (p[0] < 0x80)
        return 1;
    size_t len;
    unsigned char low = 0x80, high = 0xbf; /* the narrower range of the second byte */
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        len = 2;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        len = 3;
        if (p[0] == 0xe0)
            low = 0xa0;
        if (p[0] == 0xed)
            high = 0x9f;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        len = 4;
        if (p[0] == 0xf0)
            low = 0x90;
        if (p[0] == 0xf4)
            high = 0x8f;
    } else {
        return 0;
    }
    if (s.len < len || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    return len;
}

bool str_is_utf8(struct str s)
{
    while (s.len > 0) {
        size_t len = str_utf8_len(s);
        if (len == 0)
            return false;
        s = str_slice(s, len, s.len);
    }
    return true;
}

int str_to_cstr(struct str s, char *out, size_t out_size, struct err *err)
{
    if (s.len >= out_size)
        return err_set(err, ERR_TOO_LARGE, "'%.*s...' is longer than %zu bytes",
                       STR_ARG(str_slice(s, 0, 40)), out_size - 1);
    if (str_find_char(s, '\0') != s.len)
        return err_set(err, ERR_INVALID, "'%.*s' holds a NUL byte", STR_ARG(s));
    if (s.len > 0)
        memcpy(out, s.ptr, s.len);
    out[s.len] = '\0';
    return 0;
}

size_t str_distance(struct str a, struct str b)
{
    enum { LONGEST = 64 }; /* words, not texts */
    if (a.len > LONGEST || b.len > LONGEST)
        return MAX(a.len, b.len);
    /* Three rows of the usual table: a swap of neighbours looks two rows back. */
    size_t rows[3][LONGEST + 1];
    for (size_t j = 0; j <= b.len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t *now = rows[i % 3], *prev = rows[(i + 2) % 3], *prev2 = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t replace = prev[j - 1] + (a.ptr[i - 1] != b.ptr[j - 1]);
            size_t insert_or_delete = MIN(prev[j], now[j - 1]) + 1;
            now[j] = MIN(replace, insert_or_delete);
            if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1])
                now[j] = MIN(now[j], prev2[j - 2] + 1);
        }
    }
    return rows[a.len % 3][b.len];
}

void nearest_offer(struct nearest *nearest, struct str candidate)
{
    size_t distance = str_distance(nearest->word, candidate);
    /* A third of the word may be wrong; beyond that a suggestion misleads. */
    size_t tolerated = MAX(nearest->word.len / 3, (size_t)1);
    if (distance > tolerated || (nearest->best.len > 0 && distance >= nearest->distance))
        return;
    nearest->best = candidate;
    nearest->distance = distance;
}
