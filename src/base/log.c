#include "base/log.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/format/json.h"
#include "base/sip.h"

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static enum log_level threshold = LOG_INFO;
static enum log_format format = LOG_TEXT;
static int log_fd = STDERR_FILENO;
static _Thread_local char request_id[65], sandbox_id[65];

void log_setup(enum log_level level, enum log_format line_format, int fd)
{
    threshold = level;
    format = line_format;
    log_fd = fd;
}

bool log_is_on(enum log_level level)
{
    return level <= threshold;
}

void log_set_ids(struct str request, struct str sandbox)
{
    (void)snprintf(request_id, sizeof request_id, "%.*s", STR_ARG(request));
    (void)snprintf(sandbox_id, sizeof sandbox_id, "%.*s", STR_ARG(sandbox));
}

static bool needs_quotes(struct str value)
{
    if (value.len == 0)
        return true;
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if (c <= 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '=')
            return true;
    }
    return false;
}

/* A value as the writer of either format sees it: text is cut, so that a line stays bounded. */
static void log_put_value(struct json_out *out, const struct log_field *field, bool bare)
{
    struct str text = str_slice(field->text, 0, LOG_VALUE_MAX);
    if (field->type == LOG_FIELD_INT)
        json_put_i64(out, field->number);
    else if (field->type == LOG_FIELD_FLOAT)
        json_put_f64(out, field->real);
    else if (bare && !needs_quotes(text))
        buf_put(out->buf, text);
    else
        json_put_str(out, text);
}

static bool log_is_left_out(const struct log_field *field)
{
    return field->type == LOG_FIELD_ID && field->text.len == 0;
}

static void compose_json(struct json_out *out, const struct log_field *fields, size_t count)
{
    for (const struct log_field *field = fields; field < fields + count; field++) {
        if (log_is_left_out(field))
            continue;
        json_key(out, field->key);
        log_put_value(out, field, false);
    }
}

static void compose_text(struct buf *line, const struct log_field *fields, size_t count)
{
    for (const struct log_field *field = fields; field < fields + count; field++) {
        if (log_is_left_out(field))
            continue;
        if (line->len > 0)
            buf_put_char(line, ' ');
        buf_printf(line, "%s=", field->key);
        struct json_out out = {.buf = line};
        log_put_value(&out, field, true);
    }
}

/* How often an event came in the present second. Two threads at the turn of a second may count a
 * line wrongly; the bound stays. */
struct pace {
    atomic_llong second;
    atomic_uint lines, dropped;
};
enum { PACES = 256 };
static struct pace paces[PACES];

/* False: enough of this event for now. `*ret_dropped` lines were left out before this one. */
static bool may_pass(const char *event, unsigned *ret_dropped)
{
    struct pace *pace = &paces[sip_hash(str_of(event)) % PACES];
    long long now = clock_now_ms() / 1000;
    *ret_dropped = 0;
    if (atomic_exchange(&pace->second, now) != now) {
        atomic_store(&pace->lines, 0);
        *ret_dropped = atomic_exchange(&pace->dropped, 0);
    }
    if (atomic_fetch_add(&pace->lines, 1) < LOG_RATE)
        return true;
    atomic_fetch_add(&pace->dropped, 1);
    return false;
}

static void write_line(enum log_level level, const char *event, const struct log_field *fields,
                       size_t count);

void log_write(enum log_level level, const char *event, const struct log_field *fields,
               size_t count)
{
    unsigned dropped;
    if (!may_pass(event, &dropped))
        return;
    if (dropped > 0) {
        const struct log_field about[] = {LOG_STR("of", event), LOG_INT("lines", dropped)};
        write_line(LOG_WARN, "log.dropped", about, countof(about));
    }
    write_line(level, event, fields, count);
}

/* The thread's, unless the line has its own. */
static struct log_field id_for(const char *key, const char *id, const struct log_field *fields,
                               size_t count)
{
    for (const struct log_field *field = fields; field < fields + count; field++)
        if (!log_is_left_out(field) && str_eq(str_of(field->key), str_of(key)))
            id = "";
    return LOG_ID(key, str_of(id));
}

static void write_line(enum log_level level, const char *event, const struct log_field *fields,
                       size_t count)
{
    char when[CLOCK_TEXT_SIZE];
    clock_format_utc(clock_date_ms(), when);
    const struct log_field head[] = {
        LOG_STR("time", when),
        LOG_STR("level", level_names[level]),
        LOG_STR("event", event),
        id_for("request", request_id, fields, count),
        id_for("sandbox", sandbox_id, fields, count),
    };
    AUTO_BUF struct buf line = {0};
    if (format == LOG_JSON) {
        struct json_out out = {.buf = &line};
        json_begin_object(&out);
        compose_json(&out, head, countof(head));
        compose_json(&out, fields, count);
        json_end_object(&out);
    } else {
        compose_text(&line, head, countof(head));
        compose_text(&line, fields, count);
    }
    buf_put_char(&line, '\n');
    /* An error of the log itself cannot be logged. */
    (void)!write(log_fd, line.ptr, line.len);
}
