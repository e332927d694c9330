/* `sandglass doctor`: tries everything the product is built on, and says what it found. */

#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <pwd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/doctor.h"
#include "engine/config.h"

/* PRETTY_NAME="..." of os-release(5), which is written for shells. */
static void read_distro(char *out, size_t size)
{
    (void)snprintf(out, size, "unknown distribution");
    AUTO_CLOSE int fd = open("/etc/os-release", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fd = open("/usr/lib/os-release", O_RDONLY | O_CLOEXEC);
    struct err err;
    AUTO_BUF struct buf text = buf_with_limit(64 << 10);
    if (fd < 0 || buf_read_all(&text, fd, &err) < 0)
        return;
    struct str rest = buf_str(&text), line;
    while (str_split(&rest, '\n', &line)) {
        if (!str_starts(line, STR("PRETTY_NAME=")))
            continue;
        struct str value = str_slice(line, sizeof "PRETTY_NAME=" - 1, line.len);
        if (value.len >= 2 && (value.ptr[0] == '"' || value.ptr[0] == '\''))
            value = str_slice(value, 1, value.len - 1);
        (void)snprintf(out, size, "%.*s", STR_ARG(value));
    }
}

static void read_host(struct doctor_report *report)
{
    struct utsname name = {0};
    (void)uname(&name);
    (void)snprintf(report->kernel, sizeof report->kernel, "%s", name.release);
    (void)snprintf(report->arch, sizeof report->arch, "%s", name.machine);
    read_distro(report->distro, sizeof report->distro);
    const struct passwd *user = getpwuid(geteuid());
    if (user != NULL)
        (void)snprintf(report->user, sizeof report->user, "%s", user->pw_name);
    else
        (void)snprintf(report->user, sizeof report->user, "uid %u", geteuid());
}

/* The configuration is let go before anything is started: children need none of its secrets. */
static int find_data_dir(const struct cli_call *call, char *out, size_t size, struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    if (config_load(cli_value(call, "config"), &config, err) < 0)
        return -1;
    return str_to_cstr(config->server.data_dir, out, size, err);
}

static struct doctor_style choose_style(void)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    struct doctor_style style = {0};
    style.colour = isatty(STDOUT_FILENO) && (no_color == NULL || no_color[0] == '\0') &&
                   (term == NULL || strcmp(term, "dumb") != 0);
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (locale == (locale_t)0)
        return style;
    style.utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return style;
}

static int doctor(const struct cli_call *call, struct err *err)
{
    static struct doctor_report report; /* some 30 KB */
    struct probe_env env;
    char data_dir[PROBE_PATH_MAX];
    report = (struct doctor_report){0};
    if (find_data_dir(call, data_dir, sizeof data_dir, err) < 0)
        return -1;
    read_host(&report);
    probe_env_init(&env, data_dir);
    probe_run_all(&env, report.results);
    probe_tier_of(probes, probe_count, report.results, &report.tier);

    AUTO_BUF struct buf out = {0};
    if (cli_has(call, "json"))
        doctor_put_json(&report, &out);
    else
        doctor_put_text(&report, choose_style(), &out);
    cli_print(buf_str(&out));
    return report.tier.kind == PROBE_TIER_JAIL ? EXIT_OK : EXIT_FAILED;
}

const struct cli_verb cmd_doctor = {
    .name = "doctor",
    .args = "",
    .summary = "Try what this host allows and say what is missing",
    .details = "Each line is an attempt made in a short-lived child, not a guess from a version; "
               "nothing is left behind. Exits 0 when jails work here, else 1. docs/DOCTOR.md "
               "explains every line.",
    .options = cli_json_only,
    .run = doctor,
};
