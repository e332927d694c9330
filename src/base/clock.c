#include "base/clock.h"

#ifdef SG_FAULTS
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#endif

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

#ifdef SG_FAULTS
/* Fault plan 9.5: the clock is set. SG_CLOCK_SHIFT names a file that says by how many
 * milliseconds; builds without faults know nothing of it. */
static int64_t shift_ms(void)
{
    static const char *path;
    static bool is_read;
    char text[32] = {0};
    int64_t shift = 0;
    if (!is_read) {
        path = getenv("SG_CLOCK_SHIFT");
        is_read = true;
    }
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t len = read(fd, text, sizeof text - 1);
    (void)close(fd);
    return len > 0 && str_to_i64(str_n(text, (size_t)len), INT32_MIN, INT32_MAX, &shift) ? shift
                                                                                         : 0;
}
#else
static int64_t shift_ms(void)
{
    return 0;
}
#endif

int64_t clock_date_ms(void)
{
    return read_ns(CLOCK_REALTIME) / 1000000 + shift_ms();
}

void clock_format_utc(int64_t date_ms, char out[CLOCK_TEXT_SIZE])
{
    int ms = (int)((date_ms % 1000 + 1000) % 1000); /* of the second before, before 1970 */
    time_t seconds = (time_t)((date_ms - ms) / 1000);
    struct tm parts = {0};
    (void)gmtime_r(&seconds, &parts);
    size_t len = strftime(out, CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(out + len, CLOCK_TEXT_SIZE - len, ".%03dZ", ms);
}
