#include "cli/meter.h"

#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

enum { REDRAW_MS = 100 };

struct meter meter_of(const char *name)
{
    return (struct meter){.name = name, .on_terminal = isatty(STDERR_FILENO) == 1};
}

void meter_show(void *ctx, const char *step, uint64_t have, uint64_t total)
{
    struct meter *meter = ctx;
    AUTO_BUF struct buf line = {0};
    bool is_new = strcmp(meter->step, step) != 0;
    int64_t now_ms = clock_now_ms();
    bool due = meter->on_terminal && (have == total || now_ms - meter->drawn_ms >= REDRAW_MS);
    if (!is_new && !due)
        return;
    meter->drawn_ms = now_ms;
    (void)snprintf(meter->step, sizeof meter->step, "%s", step);
    buf_printf(&line, "%s%s: %s", meter->on_terminal ? "\r\033[K" : "", meter->name, step);
    if (total > 0 && meter->on_terminal)
        buf_printf(&line, " %llu of %llu MB, %llu %%", (unsigned long long)(have >> 20),
                   (unsigned long long)(total >> 20), (unsigned long long)(have * 100 / total));
    if (!meter->on_terminal)
        buf_put_char(&line, '\n');
    meter->open_line = meter->on_terminal;
    (void)!write(STDERR_FILENO, line.ptr, line.len);
}

void meter_end(const struct meter *meter)
{
    if (meter->open_line)
        (void)!write(STDERR_FILENO, "\r\033[K", 4);
}
