#include "base/clock.h"

static int64_t read_ns(clockid_t clock)
{
    struct timespec now;
    int done = clock_gettime(clock, &now);
    assert(done == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t clock_now_ms(void)
{
    return clock_now_ns() / 1000000;
}

int64_t clock_boot_ms(void)
{
    return read_ns(CLOCK_BOOTTIME) / 1000000;
}

int64_t clock_date_ms(void)
{
    return read_ns(CLOCK_REALTIME) / 1000000;
}

void clock_format_utc(int64_t date_ms, char out[CLOCK_TEXT_SIZE])
{
    time_t seconds = (time_t)(date_ms / 1000);
    struct tm parts = {0};
    (void)gmtime_r(&seconds, &parts);
    size_t len = strftime(out, CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(out + len, CLOCK_TEXT_SIZE - len, ".%03dZ", (int)(date_ms % 1000));
}
