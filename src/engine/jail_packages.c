/* Packages of a run: what it and its sandbox ask for comes before the code; what the code then
 * misses is installed where it may be, and the code runs once more. */

#include <stdarg.h>

#include "engine/jail_run.h"
#include "runtime/packages.h"

enum { INSTALL_MS = 300000 };

static void notice(struct run *run, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void notice(struct run *run, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    struct kernel_event event = {.type = KERNEL_STDERR, .text = str_of(text)};
    run_output_take(&run->output, &event);
    run_tell_output(run, &event);
}

/* What the sandbox and the run ask for and is not there yet. */
static size_t find_unmet(const struct run *run, struct str ret_unmet[PACKAGES_MAX])
{
    const struct place *place = run->context->place;
    const struct eval_spec *spec = run->spec;
    bool is_own = str_eq(str_of(run->context->runtime->name), place->runtime);
    size_t count = 0, own = is_own ? place->requirement_count : 0;
    for (size_t i = 0; i < own + spec->requirement_count && count < PACKAGES_MAX; i++) {
        struct str one = i < own ? place->requirements[i] : spec->requirements[i - own];
        if (!map_has(&place->installed, one))
            ret_unmet[count++] = one;
    }
    return count;
}

static void on_requirements(void *ctx, const struct err *why)
{
    struct run *run = ctx;
    struct str met[PACKAGES_MAX];
    run->install = NULL;
    if (why != NULL) {
        run_output_end(&run->output, RUN_FAILED, "InstallError", why->msg);
        run_finish(run, NULL);
        return;
    }
    for (size_t i = find_unmet(run, met); i-- > 0;)
        (void)map_put(&run->context->place->installed, met[i], run->context->place);
    /* One that has run nothing yet may have imported other versions with its template. */
    if (run->context->run_count == 0)
        context_drop_kernel(run->context);
    run_look_before(run);
}

static void begin_install(struct run *run)
{
    run->phase = INSTALLING;
    run->context->wait = WAIT_INSTALL;
    timer_set(run->context->timer, INSTALL_MS, 0);
}

bool packages_add_required(struct run *run)
{
    struct err err = {0};
    struct str unmet[PACKAGES_MAX];
    size_t count = find_unmet(run, unmet);
    if (count == 0)
        return false;
    begin_install(run);
    if (install_start(run->context, unmet, count, on_requirements, run, &run->install, &err) < 0)
        on_requirements(run, &err);
    return true;
}

/* The error is the code's own; why the package could not be had is added to it. */
static void explain_missing(struct run *run, struct str package, const struct err *why)
{
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, "%s; the package '%.*s' may have it: %s",
               buf_cstr(&run->output.error_message), STR_ARG(package), why->msg);
    buf_clear(&run->output.error_message);
    buf_put(&run->output.error_message, str_slice(buf_str(&text), 0, RUN_ERROR_MAX));
}

static void on_package(void *ctx, const struct err *why)
{
    struct run *run = ctx;
    struct str package = {0};
    run->install = NULL;
    (void)package_of_module(run->context->runtime, buf_str(&run->output.module), &package);
    if (why != NULL) {
        explain_missing(run, package, why);
        run_compare(run);
        return;
    }
    notice(run, "[sandglass] installed '%.*s' for the module '%.100s'; running the code again\n",
           STR_ARG(package), buf_cstr(&run->output.module));
    run_output_retry(&run->output);
    const struct provider_host *host = run->context->place->provider->host;
    host->on_retry(host->engine);
    run_set_deadline(run);
    run_hand_over(run);
}

bool packages_add_missing(struct run *run)
{
    struct err err = {0};
    struct str package = {0};
    if (run->output.status != RUN_FAILED || run->output.module.len == 0 || run->is_retry ||
        run->is_late || run->is_interrupted || !run->spec->may_install ||
        !package_of_module(run->context->runtime, buf_str(&run->output.module), &package))
        return false;
    run->is_retry = true;
    begin_install(run);
    if (install_start(run->context, &package, 1, on_package, run, &run->install, &err) == 0)
        return true;
    explain_missing(run, package, &err);
    return false;
}

void packages_give_up(struct run *run, enum run_status status, const char *name,
                      const char *message)
{
    install_stop(run->install);
    run->install = NULL;
    run_output_end(&run->output, status, name, message);
    run_compare(run);
}
