#include "cli/doctor.h"

#include "base/format/json.h"

enum { TITLE_WIDTH = 26 };

struct mark {
    const char *utf8, *ascii, *colour;
};

static const struct mark marks[] = {
    [PROBE_OK] = {"✓", "+", "\033[32m"},
    [PROBE_PARTIAL] = {"~", "~", "\033[33m"},
    [PROBE_MISSING] = {"✗", "x", "\033[31m"},
    [PROBE_INFO] = {"–", "-", ""},
};

#define BOLD "\033[1m"
#define PLAIN "\033[0m"

static void put_painted(struct doctor_style style, const char *colour, const char *text,
                        struct buf *out)
{
    bool paint = style.colour && colour[0] != '\0';
    buf_printf(out, "%s%s%s", paint ? colour : "", text, paint ? PLAIN : "");
}

static bool needs_advice(const struct probe_result *result)
{
    return result->status == PROBE_MISSING || result->status == PROBE_PARTIAL;
}

static const char *fix_of(const struct probe *probe, const struct probe_result *result)
{
    return result->fix[0] != '\0' ? result->fix : probe->fix;
}

static void doctor_put_row(const struct probe *probe, const struct probe_result *result,
                           struct doctor_style style, struct buf *out)
{
    const struct mark *mark = &marks[result->status];
    buf_put_cstr(out, "  ");
    put_painted(style, mark->colour, style.utf8 ? mark->utf8 : mark->ascii, out);
    buf_printf(out, " %-*s %s\n", TITLE_WIDTH, probe->title, result->detail);
    if (!needs_advice(result))
        return;
    if (probe->cost[0] != '\0')
        buf_printf(out, "      costs: %s\n", probe->cost);
    if (fix_of(probe, result)[0] != '\0')
        buf_printf(out, "      fix:   %s\n", fix_of(probe, result));
}

void doctor_put_text(const struct doctor_report *report, struct doctor_style style, struct buf *out)
{
    buf_printf(out, "Linux %s, %s, %s, as %s\n", report->kernel_release, report->arch,
               report->distro, report->user);
    for (size_t i = 0; i < probe_count; i++) {
        if (i == 0 || strcmp(probes[i].heading, probes[i - 1].heading) != 0) {
            buf_put_char(out, '\n');
            put_painted(style, BOLD, probes[i].heading, out);
            buf_put_char(out, '\n');
        }
        doctor_put_row(&probes[i], &report->results[i], style, out);
    }
    buf_put_cstr(out, "\nStrongest tier here: ");
    put_painted(style, BOLD, report->tier.name, out);
    buf_put_char(out, '\n');
    if (report->tier.reason[0] != '\0')
        buf_printf(out, "  because %s\n", report->tier.reason);
}

static void put_field(struct json_out *json, const char *key, const char *value)
{
    json_key(json, key);
    json_put_cstr(json, value);
}

static void put_probe(struct json_out *json, const struct probe *probe,
                      const struct probe_result *result)
{
    bool advice = needs_advice(result);
    const char *fix = fix_of(probe, result);
    json_begin_object(json);
    put_field(json, "id", probe->id);
    put_field(json, "title", probe->title);
    put_field(json, "status", probe_status_name(result->status));
    put_field(json, "detail", result->detail);
    put_field(json, "cost", advice && probe->cost[0] != '\0' ? probe->cost : NULL);
    put_field(json, "fix", advice && fix[0] != '\0' ? fix : NULL);
    json_end_object(json);
}

void doctor_put_json(const struct doctor_report *report, struct buf *out)
{
    struct json_out json = {.buf = out, .pretty = true};
    json_begin_object(&json);
    put_field(&json, "tier", report->tier.name);
    put_field(&json, "reason", report->tier.reason[0] != '\0' ? report->tier.reason : NULL);
    json_key(&json, "host");
    json_begin_object(&json);
    put_field(&json, "kernel", report->kernel_release);
    put_field(&json, "arch", report->arch);
    put_field(&json, "distro", report->distro);
    put_field(&json, "user", report->user);
    json_end_object(&json);
    json_key(&json, "probes");
    json_begin_array(&json);
    for (size_t i = 0; i < probe_count; i++)
        put_probe(&json, &probes[i], &report->results[i]);
    json_end_array(&json);
    json_end_object(&json);
    buf_put_char(out, '\n');
}
