#include "test.h"

#include "base/format/json.h"
#include "cli/doctor.h"

/* All fine but Landlock, whose fix depends on the case. */
static struct doctor_report *make_report(void)
{
    static struct doctor_report report;
    report = (struct doctor_report){
        .kernel_release = "6.1.0", .arch = "x86_64", .distro = "Debian \"12\"", .user = "root"};
    for (size_t i = 0; i < probe_count; i++) {
        struct probe_result *result = &report.results[i];
        (void)snprintf(result->detail, sizeof result->detail, "detail %zu", i);
        if (strcmp(probes[i].id, "landlock") == 0) {
            result->status = PROBE_MISSING;
            (void)snprintf(result->fix, sizeof result->fix, "special fix");
        } else if (strcmp(probes[i].id, "io_uring") == 0) {
            result->status = PROBE_INFO;
        }
    }
    probe_tier_of(probes, probe_count, report.results, &report.tier);
    return &report;
}

TEST(text_marks_and_advises)
{
    AUTO_BUF struct buf out = {0};
    doctor_put_text(make_report(), (struct doctor_style){.utf8 = true}, &out);
    const char *text = buf_cstr(&out);
    CHECK(strstr(text, "Linux 6.1.0, x86_64, Debian \"12\", as root\n") == text);
    CHECK(strstr(text, "\nNamespaces\n  ✓ user namespace             detail 0\n") != NULL);
    CHECK(strstr(text, "  ✗ Landlock ") != NULL);
    CHECK(strstr(text, "      costs: one protection fewer for a jail's files\n"
                       "      fix:   special fix\n") != NULL);
    CHECK(strstr(text, "  – io_uring ") != NULL);
    CHECK(strstr(text, "\nStrongest tier here: jail: without Landlock\n  because Landlock: ") !=
          NULL);
    CHECK(strchr(text, '\033') == NULL);
}

TEST(text_falls_back_to_ascii)
{
    AUTO_BUF struct buf out = {0};
    doctor_put_text(make_report(), (struct doctor_style){0}, &out);
    for (size_t i = 0; i < out.len; i++)
        CHECK((unsigned char)out.ptr[i] < 0x80);
    CHECK(strstr(buf_cstr(&out), "  x Landlock ") != NULL);
}

TEST(colour_is_only_paint)
{
    AUTO_BUF struct buf plain = {0}, painted = {0}, stripped = {0};
    doctor_put_text(make_report(), (struct doctor_style){.utf8 = true}, &plain);
    doctor_put_text(make_report(), (struct doctor_style){.utf8 = true, .colour = true}, &painted);
    CHECK(strstr(buf_cstr(&painted), "\033[31m✗\033[0m Landlock") != NULL);
    for (size_t i = 0; i < painted.len; i++) {
        if (painted.ptr[i] == '\033')
            while (painted.ptr[i] != 'm')
                i++;
        else
            buf_put_char(&stripped, painted.ptr[i]);
    }
    CHECK_STR(buf_str(&stripped), buf_cstr(&plain));
}

static void check_field(const struct json_t *object, const char *key, const char *expected)
{
    struct str value;
    CHECK(json_to_str(json_get(object, key), &value));
    CHECK_STR(value, expected);
}

TEST(json_has_the_documented_shape)
{
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    doctor_put_json(make_report(), &out);
    AUTO_JSON struct json_t *root = NULL;
    CHECK_OK(json_parse(buf_str(&out), &root, &err));
    check_field(root, "tier", "jail: without Landlock");
    check_field(json_get(root, "host"), "distro", "Debian \"12\"");
    const struct json_t *rows = json_get(root, "probes");
    CHECK_INT(json_len(rows), probe_count);
    for (size_t i = 0; i < probe_count; i++) {
        const struct json_t *row = json_at(rows, i);
        bool bad = strcmp(probes[i].id, "landlock") == 0;
        CHECK_INT(json_len(row), 6);
        check_field(row, "id", probes[i].id);
        check_field(row, "title", probes[i].title);
        CHECK_INT(json_kind(json_get(row, "cost")), bad ? JSON_KIND_STR : JSON_KIND_NULL);
        if (bad) {
            check_field(row, "status", "missing");
            check_field(row, "fix", "special fix");
        }
    }
}
