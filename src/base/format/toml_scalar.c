/* TOML's integers, floats, booleans, dates and times. */

#include <math.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/format/toml_internal.h"

static bool is_token_char(int c)
{
    return char_is_alnum(c) || c == '+' || c == '-' || c == '_' || c == '.' || c == ':';
}

static struct str shown(struct str token)
{
    return str_slice(token, 0, 40);
}

/* Digits of `base` with single underscores between them; the underscores are dropped. Gives the
 * digits, or an empty view when there are none or the underscores stand wrong. */
static struct str take_digits(struct toml_parser *p, struct str s, int base)
{
    static const char all[] = "0123456789abcdef";
    char *digits = arena_alloc(p->arena, s.len + 1);
    size_t count = 0;
    bool after_digit = false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '_') {
            if (!after_digit)
                return (struct str){0};
            after_digit = false;
            continue;
        }
        c = base == 16 && c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
        if (memchr(all, c, (size_t)base) == NULL)
            return (struct str){0};
        digits[count++] = c;
        after_digit = true;
    }
    return after_digit ? str_n(digits, count) : (struct str){0};
}

static int fail_number(struct toml_parser *p, struct str token)
{
    return toml_fail(p,
                     "'%.*s' is not a value: expected a string in quotes, a number, true, false, a "
                     "date or time, an array or an inline table",
                     STR_ARG(shown(token)));
}

static int fail_range(struct toml_parser *p, struct str token)
{
    return toml_fail(p, "'%.*s' does not fit into 64 bits", STR_ARG(shown(token)));
}

static int parse_prefixed(struct toml_parser *p, struct str token, struct toml_value *value)
{
    int base = token.ptr[1] == 'x' ? 16 : token.ptr[1] == 'o' ? 8 : 2;
    struct str digits = take_digits(p, str_slice(token, 2, token.len), base);
    if (digits.len == 0)
        return fail_number(p, token);
    int64_t n = 0;
    for (size_t i = 0; i < digits.len; i++) {
        char c = digits.ptr[i];
        if (!mul_i64(n, base, &n) || !add_i64(n, char_is_digit(c) ? c - '0' : c - 'a' + 10, &n))
            return fail_range(p, token);
    }
    value->kind = TOML_INT;
    value->integer = n;
    return 0;
}

static int parse_integer(struct toml_parser *p, struct str token, bool negative, struct str whole,
                         struct toml_value *value)
{
    struct str text = arena_printf(p->arena, "%s%.*s", negative ? "-" : "", STR_ARG(whole));
    value->kind = TOML_INT;
    if (!str_to_i64(text, INT64_MIN, INT64_MAX, &value->integer))
        return fail_range(p, token);
    return 0;
}

/* `fraction` and `exponent` begin with their sign: '.' and 'e'; either may be empty, not both. */
static int parse_float(struct toml_parser *p, struct str token, bool negative, struct str whole,
                       struct str fraction, struct str exponent, struct toml_value *value)
{
    struct str after_point = {0}, power = {0};
    if (fraction.len > 0) {
        after_point = take_digits(p, str_slice(fraction, 1, fraction.len), 10);
        if (after_point.len == 0)
            return toml_fail(p, "'%.*s': a decimal point needs digits on both sides",
                             STR_ARG(shown(token)));
    }
    char sign = '+';
    if (exponent.len > 0) {
        struct str digits = str_slice(exponent, 1, exponent.len);
        if (digits.len > 0 && (digits.ptr[0] == '+' || digits.ptr[0] == '-')) {
            sign = digits.ptr[0];
            digits = str_slice(digits, 1, digits.len);
        }
        power = take_digits(p, digits, 10);
        if (power.len == 0)
            return fail_number(p, token);
    }
    struct str text =
        arena_printf(p->arena, "%.*s.%.*s0e%c%.*s", STR_ARG(whole), STR_ARG(after_point), sign,
                     STR_ARG(power.len > 0 ? power : STR("0")));
    value->kind = TOML_FLOAT;
    value->real = strtod(text.ptr, NULL);
    if (!isfinite(value->real))
        return fail_range(p, token);
    if (negative)
        value->real = -value->real;
    return 0;
}

static int parse_number(struct toml_parser *p, struct str token, struct toml_value *value)
{
    struct str s = token;
    bool has_sign = s.len > 0 && (s.ptr[0] == '+' || s.ptr[0] == '-');
    bool negative = has_sign && s.ptr[0] == '-';
    if (has_sign)
        s = str_slice(s, 1, s.len);
    if (str_eq(s, STR("inf")) || str_eq(s, STR("nan"))) {
        value->kind = TOML_FLOAT;
        value->real = s.ptr[0] == 'i' ? (double)INFINITY : (double)NAN;
        value->real = negative ? -value->real : value->real;
        return 0;
    }
    if (s.len > 1 && s.ptr[0] == '0' && strchr("xob", s.ptr[1]) != NULL) {
        if (has_sign)
            return toml_fail(p, "'%.*s': only decimal numbers take a sign", STR_ARG(shown(token)));
        return parse_prefixed(p, s, value);
    }
    size_t e = MIN(str_find_char(s, 'e'), str_find_char(s, 'E'));
    size_t point = str_find_char(str_slice(s, 0, e), '.');
    struct str whole = take_digits(p, str_slice(s, 0, point), 10);
    if (whole.len == 0)
        return fail_number(p, token);
    if (whole.len > 1 && whole.ptr[0] == '0')
        return toml_fail(p, "'%.*s': a number has no leading zeros", STR_ARG(shown(token)));
    if (point == s.len)
        return parse_integer(p, token, negative, whole, value);
    return parse_float(p, token, negative, whole, str_slice(s, point, e), str_slice(s, e, s.len),
                       value);
}

/* Takes exactly `count` digits from the front. */
static bool take_int(struct str *s, size_t count, int *ret_n)
{
    int64_t n;
    if (s->len < count || s->ptr[0] == '-' ||
        !str_to_i64(str_slice(*s, 0, count), 0, INT32_MAX, &n))
        return false;
    *s = str_slice(*s, count, s->len);
    *ret_n = (int)n;
    return true;
}

static bool take_char(struct str *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c)
        return false;
    *s = str_slice(*s, 1, s->len);
    return true;
}

static bool take_date(struct str *s, struct toml_time *time)
{
    return take_int(s, 4, &time->year) && take_char(s, '-') && take_int(s, 2, &time->month) &&
           take_char(s, '-') && take_int(s, 2, &time->day);
}

static bool take_clock(struct str *s, struct toml_time *time)
{
    if (!take_int(s, 2, &time->hour) || !take_char(s, ':') || !take_int(s, 2, &time->minute) ||
        !take_char(s, ':') || !take_int(s, 2, &time->second))
        return false;
    if (!take_char(s, '.'))
        return true;
    if (s->len == 0 || !char_is_digit(s->ptr[0]))
        return false;
    int scale = 100000000;
    for (; s->len > 0 && char_is_digit(s->ptr[0]); *s = str_slice(*s, 1, s->len), scale /= 10)
        time->nanosecond += (s->ptr[0] - '0') * scale;
    return true;
}

/* "Z" or "+hh:mm"; the hour and minute of the offset are checked here, as only their sum stays. */
static bool take_offset(struct str *s, struct toml_time *time)
{
    if (take_char(s, 'Z') || take_char(s, 'z'))
        return true;
    bool negative = s->len > 0 && s->ptr[0] == '-';
    int hour, minute;
    if (!take_char(s, negative ? '-' : '+') || !take_int(s, 2, &hour) || !take_char(s, ':') ||
        !take_int(s, 2, &minute) || hour > 23 || minute > 59)
        return false;
    time->offset_minutes = (hour * 60 + minute) * (negative ? -1 : 1);
    return true;
}

static bool is_date(const struct toml_time *time)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (time->year % 4 == 0 && time->year % 100 != 0) || time->year % 400 == 0;
    if (time->month < 1 || time->month > 12)
        return false;
    int last = days[time->month - 1] + (leap && time->month == 2);
    return time->day >= 1 && time->day <= last;
}

static bool is_clock(const struct toml_time *time)
{
    return time->hour <= 23 && time->minute <= 59 && time->second <= 60;
}

static bool looks_like_time(struct str token)
{
    struct toml_time time = {0};
    struct str s = token;
    if (take_int(&s, 2, &time.hour) && take_char(&s, ':'))
        return true;
    s = token;
    return take_int(&s, 4, &time.year) && take_char(&s, '-');
}

static int parse_time(struct toml_parser *p, struct str token, struct toml_value *value)
{
    struct toml_time time = {0};
    struct str s = token;
    bool dated = token.len > 4 && token.ptr[4] == '-';
    bool ok = true, timed = !dated;
    value->kind = dated ? TOML_LOCAL_DATE : TOML_LOCAL_TIME;
    if (dated) {
        ok = take_date(&s, &time) && is_date(&time);
        timed = ok && s.len > 0;
        if (timed) {
            value->kind = TOML_LOCAL_DATETIME;
            ok = take_char(&s, 'T') || take_char(&s, 't') || take_char(&s, ' ');
        }
    }
    if (ok && timed)
        ok = take_clock(&s, &time) && is_clock(&time);
    if (ok && dated && timed && s.len > 0) {
        value->kind = TOML_DATETIME;
        ok = take_offset(&s, &time);
    }
    if (!ok || s.len > 0)
        return toml_fail(p, "'%.*s' is not a date or time like 2026-01-31T23:59:59Z",
                         STR_ARG(shown(token)));
    value->time = time;
    return 0;
}

/* What may belong to the value; a date may be parted from its time by one blank. */
static struct str take_token(const struct toml_parser *p)
{
    struct str rest = toml_rest(p);
    size_t len = 0;
    while (len < rest.len && is_token_char((unsigned char)rest.ptr[len]))
        len++;
    struct str word = str_slice(rest, 0, len);
    struct toml_time date = {0};
    bool is_alone = take_date(&word, &date) && word.len == 0;
    if (is_alone && len + 1 < rest.len && rest.ptr[len] == ' ' && char_is_digit(rest.ptr[len + 1]))
        for (len++; len < rest.len && is_token_char((unsigned char)rest.ptr[len]);)
            len++;
    return str_slice(rest, 0, len);
}

int toml_parse_scalar(struct toml_parser *p, struct toml_value *value)
{
    struct str token = take_token(p);
    int result;
    if (token.len == 0)
        return toml_fail_unexpected(p, "where a value is expected");
    if (str_eq(token, STR("true")) || str_eq(token, STR("false"))) {
        value->kind = TOML_BOOL;
        value->flag = token.ptr[0] == 't';
        result = 0;
    } else if (looks_like_time(token)) {
        result = parse_time(p, token, value);
    } else {
        result = parse_number(p, token, value);
    }
    if (result == 0)
        p->at += token.len;
    return result;
}
