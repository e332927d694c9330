#pragma once

/* One line per event, key=value or JSON, on standard error.
 *
 *     log_warn("exec.timeout", LOG_STR("sandbox", id), LOG_INT("after_ms", n));
 *
 * `error` wakes an operator, `warn` says what we did instead, `info` marks lifecycle, `debug` is
 * free. Ids and sizes are logged; code, file contents and secrets are not. Safe from any thread: a
 * line is one write. Control bytes are escaped, so a line is always one line. An event that comes
 * more than LOG_RATE times in a second is left out until the next one, which begins with
 * `log.dropped` and how many: a client cannot fill a disk by causing errors. */

#include "base/str.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

enum { LOG_LINE_MAX = 4096, LOG_VALUE_MAX = 1024, LOG_RATE = 200 };

struct log_field {
    const char *key;
    enum { LOG_FIELD_STR, LOG_FIELD_INT, LOG_FIELD_FLOAT, LOG_FIELD_ID } type;
    struct str text;
    int64_t number;
    double real;
};

#define LOG_STR(key, cstr) ((struct log_field){(key), LOG_FIELD_STR, str_of(cstr), 0, 0})
#define LOG_VIEW(key, view) ((struct log_field){(key), LOG_FIELD_STR, (view), 0, 0})
/* Which one it is about; left out while that is empty: LOG_ID("sandbox", id). */
#define LOG_ID(key, view) ((struct log_field){(key), LOG_FIELD_ID, (view), 0, 0})
#define LOG_INT(key, n) ((struct log_field){(key), LOG_FIELD_INT, {0}, (int64_t)(n), 0})
#define LOG_FLOAT(key, x) ((struct log_field){(key), LOG_FIELD_FLOAT, {0}, 0, (x)})

/* Set once at start, before threads. */
void log_setup(enum log_level level, enum log_format format, int fd);
bool log_is_on(enum log_level level);

/* Put into every line of this thread until changed, as `request` and `sandbox`; "" for none. At
 * most 64 bytes of each are kept. A line that names its own has only that. */
void log_set_ids(struct str request, struct str sandbox);

void log_write(enum log_level level, const char *event, const struct log_field *fields,
               size_t count);

/* The empty first field lets the list be empty without a stray comma. */
#define LOG_LIST_(...) ((const struct log_field[]){{0}, ##__VA_ARGS__})
#define LOG_AT_(level, event, ...)                                                                 \
    do {                                                                                           \
        if (log_is_on(level))                                                                      \
            log_write((level), (event), LOG_LIST_(__VA_ARGS__) + 1,                                \
                      countof(LOG_LIST_(__VA_ARGS__)) - 1);                                        \
    } while (0)
#define log_error(event, ...) LOG_AT_(LOG_ERROR, event, __VA_ARGS__)
#define log_warn(event, ...) LOG_AT_(LOG_WARN, event, __VA_ARGS__)
#define log_info(event, ...) LOG_AT_(LOG_INFO, event, __VA_ARGS__)
#define log_debug(event, ...) LOG_AT_(LOG_DEBUG, event, __VA_ARGS__)
