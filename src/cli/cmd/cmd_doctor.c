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
#include "cli/cmd/commands.h"
#include "cli/doctor.h"
#include "config/config.h"
#include "runtime/packages.h"
#include "runtime/runtimes.h"

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
    (void)snprintf(report->kernel_release, sizeof report->kernel_release, "%s", name.release);
    (void)snprintf(report->arch, sizeof report->arch, "%s", name.machine);
    read_distro(report->distro, sizeof report->distro);
    const struct passwd *user = getpwuid(geteuid());
    if (user != NULL)
        (void)snprintf(report->user, sizeof report->user, "%s", user->pw_name);
    else
        (void)snprintf(report->user, sizeof report->user, "uid %u", geteuid());
}

/* The configuration is let go before anything is started: children need none of its secrets. */
static int find_data_dir(const struct cli_call *call, char *out, size_t size,
                         struct buf *missing_packages, struct err *err)
{
    AUTO_CONFIG struct config *config = NULL;
    if (config_load(cli_value(call, "config"), &config, err) < 0)
        return -1;
    packages_put_missing(config->jail.python_packages.items, config->jail.python_packages.len,
                         missing_packages);
    return str_to_cstr(config->server.data_dir, out, size, err);
}

/* Runtimes that were added lie in the data directory, where the probes do not look: "node24" is
 * written to the row "runtime.node". */
static void add_runtimes(const char *data_dir, struct probe_result *results)
{
    for (const struct runtime *runtime = runtimes; runtime->name != NULL; runtime++) {
        char version[RUNTIME_VERSION_SIZE];
        if (runtime->source == RUNTIME_HOST ||
            runtime_look(runtime, data_dir, version) == RUNTIME_ABSENT)
            continue;
        for (size_t i = 0; i < probe_count; i++) {
            struct probe_result *result = &results[i];
            AUTO_BUF struct buf detail = {0};
            if (!str_starts(str_of(probes[i].id), STR("runtime.")) ||
                !str_starts(str_of(runtime->name), str_of(probes[i].word)))
                continue;
            if (result->status == PROBE_OK)
                buf_printf(&detail, "%s; ", result->detail);
            buf_printf(&detail, "%s %s, added", runtime->name, version);
            (void)snprintf(result->detail, sizeof result->detail, "%s", buf_cstr(&detail));
            result->status = PROBE_OK;
            break;
        }
    }
}

/* Python without the packages that sandboxes are to have of it. */
static void add_packages(const char *missing, struct probe_result *results)
{
    for (size_t i = 0; i < probe_count; i++) {
        struct probe_result *result = &results[i];
        if (strcmp(probes[i].id, "runtime.python3") != 0 || result->status != PROBE_OK)
            continue;
        AUTO_BUF struct buf detail = {0};
        buf_printf(&detail, "%s; without %s", result->detail, missing);
        (void)snprintf(result->detail, sizeof result->detail, "%s", buf_cstr(&detail));
        (void)snprintf(result->fix, sizeof result->fix, "apt-get install %s", missing);
        result->status = PROBE_PARTIAL;
    }
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
    AUTO_BUF struct buf missing = {0};
    report = (struct doctor_report){0};
    if (find_data_dir(call, data_dir, sizeof data_dir, &missing, err) < 0)
        return -1;
    read_host(&report);
    probe_env_init(&env, data_dir);
    probe_run_all(&env, report.results);
    if (missing.len > 0)
        add_packages(buf_cstr(&missing), report.results);
    add_runtimes(data_dir, report.results);
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
    .summary = "Test what this host supports and report what is missing",
    .details = "Each line is the result of a real test in a short-lived child process, not a guess "
               "from a version number; the tests leave nothing behind. Exits 0 when jails work "
               "here, else 1. docs/DOCTOR.md explains every line.",
    .options = cli_json_only,
    .run = doctor,
};
