#include "runtime/loss.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/format/json.h"

static const struct {
    const char *name, *text;
} rows[LOSS_COUNT] = {
#define X(name, wire, text) [LOSS_##name] = {wire, text},
    LOSS_MAP(X)
#undef X
};

const char *loss_name(enum loss_reason reason)
{
    return rows[reason].name;
}

const char *loss_cause(enum loss_reason reason)
{
    return rows[reason].text;
}

bool loss_of_name(struct str name, enum loss_reason *ret_reason)
{
    for (unsigned i = 1; i < LOSS_COUNT; i++)
        if (str_eq(name, str_of(rows[i].name))) {
            *ret_reason = (enum loss_reason)i;
            return true;
        }
    return false;
}

/* Variables can be made again; files are the greater loss. */
static void put_files_text(const struct loss *loss, const char *date, struct buf *out)
{
    buf_printf(out, "The session's files in /workspace were deleted at %s: ", date);
    if (loss->reason == LOSS_VOLUME_EXPIRED)
        buf_put_cstr(out, "it was unused for longer than its volume's TTL. The setting "
                          "[sandbox] volume_ttl_minutes of the server keeps files longer.");
    else
        buf_put_cstr(out, "its volume was deleted.");
    buf_put_cstr(out, " Variables of earlier runs were lost, too; define them again.");
}

void loss_put_text(const struct loss *loss, struct buf *out)
{
    char date[CLOCK_TEXT_SIZE];
    if (loss->reason == LOSS_NONE)
        return;
    clock_format_utc(loss->at_ms, date);
    if (loss->reason == LOSS_VOLUME_EXPIRED || loss->reason == LOSS_VOLUME_DELETED) {
        put_files_text(loss, date, out);
        return;
    }
    buf_printf(out, "Variables of earlier runs were lost: %s, at %s; define them again.",
               rows[loss->reason].text, date);
}

void loss_put_line(const struct loss *loss, struct buf *out)
{
    loss_put_text(loss, out);
    if (loss->reason != LOSS_NONE)
        buf_put_char(out, '\n');
}

void loss_put_json(const struct loss *loss, struct json_out *out)
{
    static const char *const keys[] = {"stateLostReason", "stateLostAt", "stateLostMessage"};
    bool is_lost = loss->reason != LOSS_NONE;
    json_key(out, "stateLost"), json_put_bool(out, is_lost);
    for (size_t i = 0; !is_lost && i < countof(keys); i++)
        json_key(out, keys[i]), json_put_null(out);
    if (!is_lost)
        return;
    AUTO_BUF struct buf text = {0};
    char date[CLOCK_TEXT_SIZE];
    clock_format_utc(loss->at_ms, date);
    loss_put_text(loss, &text);
    json_key(out, keys[0]), json_put_cstr(out, rows[loss->reason].name);
    json_key(out, keys[1]), json_put_cstr(out, date);
    json_key(out, keys[2]), json_put_str(out, buf_str(&text));
}
