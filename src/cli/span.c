#include "cli/span.h"

#include "base/buf.h"
#include "base/clock.h"

void span_put(int64_t seconds, struct buf *out)
{
    seconds = MAX(seconds, (int64_t)0);
    if (seconds < 120)
        buf_printf(out, "%llds", (long long)seconds);
    else if (seconds < 7200)
        buf_printf(out, "%lldm", (long long)seconds / 60);
    else if (seconds < 172800)
        buf_printf(out, "%lldh", (long long)seconds / 3600);
    else
        buf_printf(out, "%lldd", (long long)seconds / 86400);
}

/* Seconds since 1970 of "2026-11-16T07:00:00.000Z"; false when it is not a time. */
static bool read_date(struct str text, int64_t *ret_seconds)
{
    static const struct {
        size_t at, len;
    } parts[] = {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}};
    int64_t n[countof(parts)];
    for (size_t i = 0; i < countof(parts); i++)
        if (!str_to_i64(str_slice(text, parts[i].at, parts[i].at + parts[i].len), 0, 9999, &n[i]))
            return false;
    /* Days, from a year that begins in March. */
    int64_t year = n[0] - (n[1] <= 2), month = (n[1] + 9) % 12;
    int64_t days =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + n[2] - 1 - 719468;
    *ret_seconds = days * 86400 + n[3] * 3600 + n[4] * 60 + n[5];
    return true;
}

void span_put_date(struct str date, int sign, struct buf *out)
{
    int64_t then;
    if (read_date(date, &then))
        span_put(sign * (then - clock_date_ms() / 1000), out);
    else
        buf_put_char(out, '-');
}

void span_put_exact(int64_t ms, struct buf *out)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    size_t at = 0;
    while (at + 1 < countof(units) && (ms == 0 || ms % units[at].ms != 0))
        at++;
    buf_printf(out, "%lld%s", (long long)(ms / units[at].ms), units[at].unit);
}
