/* Packages of a run: the requirements of the run and its sandbox are installed before the code; a
 * package that the code then misses is installed if allowed, and the code runs once more.
 *
 * Installed requirements are recorded next to the packages, in the working tree: a sandbox that
 * continues from that tree (a fork, the next sandbox of a session, one that was resumed) has the
 * packages and does not install them again. The tenant can change this record, and only its own
 * packages depend on it. */

#include <stdarg.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "engine/installer.h"
#include "engine/network.h"
#include "io/loop.h"
#include "runtime/output.h"
#include "runtime/packages.h"
#include "tiers/jail/code/interpreter.h"
#include "tiers/jail/code/run.h"
#include "tiers/jail/files/files.h"
#include "tiers/jail/place.h"
#include "tiers/jail/provider_jail.h"

enum { INSTALL_MS = 300000, NOTE_MAX = 64 << 10 };

#define NOTE "/workspace/.sandglass/installed" /* a line for each: runtime, space, requirement */

struct noting {
    struct run *run; /* NULL: no run waits for it any more */
    struct buf text;
};

static void notice(struct run *run, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void notice(struct run *run, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    struct interpreter_event event = {.type = INTERPRETER_STDERR, .text = str_of(text)};
    run_output_take(&run->output, &event);
    run_tell_output(run, &event);
}

/* ---- what is there ---- */

/* Runtimes share a directory of packages, but what is built for one may not do for another. */
static struct str note_of(const struct run *run, struct str requirement, struct buf *buf)
{
    buf_clear(buf);
    buf_printf(buf, "%s %.*s", run->context->runtime->name, STR_ARG(requirement));
    return buf_str(buf);
}

/* What the sandbox and the run ask for and is not there yet. */
static size_t find_unmet(const struct run *run, struct str ret_unmet[PACKAGES_MAX])
{
    const struct place *place = run->context->place;
    const struct eval_spec *spec = run->spec;
    bool is_own = str_eq(str_of(run->context->runtime->name), place->runtime);
    size_t count = 0, own = is_own ? place->requirement_count : 0;
    AUTO_BUF struct buf note = {0};
    for (size_t i = 0; i < own + spec->requirement_count && count < PACKAGES_MAX; i++) {
        struct str one = i < own ? place->requirements[i] : spec->requirements[i - own];
        if (!map_has(&place->installed, note_of(run, one, &note)))
            ret_unmet[count++] = one;
    }
    return count;
}

/* The package's name, where a requirement says more than that. */
static struct str name_of(struct str requirement)
{
    size_t len = 1; /* npm's "@scope/name@1" begins with what ends others */
    while (len < requirement.len && strchr("<>=!~;[ @^*", requirement.ptr[len]) == NULL)
        len++;
    return str_slice(requirement, 0, len);
}

static struct str name_of_note(struct str note)
{
    size_t runtime = str_find_char(note, ' ') + 1;
    struct str name = name_of(str_slice(note, runtime, note.len));
    return str_slice(note, 0, MIN(runtime, note.len) + name.len);
}

/* The sandbox's own are met once, whatever its runs ask for later. */
static bool is_own(const struct run *run, struct str note)
{
    const struct place *place = run->context->place;
    AUTO_BUF struct buf own = {0};
    for (size_t i = 0; i < place->requirement_count; i++)
        if (str_eq(note_of(run, place->requirements[i], &own), note))
            return true;
    return false;
}

/* Another requirement of the same package was met with another version, which is gone now. */
static void forget_others(const struct run *run, struct str requirement)
{
    struct map *installed = &run->context->place->installed;
    AUTO_BUF struct buf name = {0};
    struct str begin = note_of(run, name_of(requirement), &name);
    MAP_EACH (entry, installed)
        if (str_eq(name_of_note(entry->key), begin) && !is_own(run, entry->key))
            (void)map_remove(installed, entry->key);
}

static void remember(const struct run *run, const struct str *met, size_t count)
{
    struct place *place = run->context->place;
    AUTO_BUF struct buf note = {0};
    for (size_t i = 0; i < count; i++)
        forget_others(run, met[i]);
    for (size_t i = 0; i < count; i++)
        (void)map_put(&place->installed, note_of(run, met[i], &note), place);
}

/* ---- the note of it ---- */

static struct run *noting_end(struct noting *noting)
{
    struct run *run = noting->run;
    if (run != NULL)
        run->noting = NULL;
    buf_done(&noting->text);
    free(noting);
    return run;
}

static void note_ask(struct run *run, const struct file_request *request, file_done *done)
{
    struct noting *noting = mem_alloc(sizeof *noting);
    struct file_request asked = *request;
    *noting = (struct noting){.run = run};
    buf_put(&noting->text, request->bytes);
    asked.bytes = buf_str(&noting->text);
    run->noting = noting;
    tier_files(run->context->place, &asked, done, noting);
}

/* If the note cannot be written, the next run only installs the packages again. */
static void on_written(void *ctx, UNUSED const struct file_answer *answer,
                       UNUSED const struct err *why)
{
    struct run *run = noting_end(ctx);
    if (run != NULL)
        run_look_before(run);
}

static void write_note(struct run *run)
{
    AUTO_BUF struct buf text = {0};
    MAP_EACH (entry, &run->context->place->installed)
        buf_printf(&text, "%.*s\n", STR_ARG(entry->key));
    struct file_request request = {.op = FILE_WRITE,
                                   .path = STR(NOTE),
                                   .bytes = buf_str(&text),
                                   .mode = 0644,
                                   .make_parents = true};
    note_ask(run, &request, on_written);
}

static void take_note(struct place *place, struct str text)
{
    struct str line;
    place->is_noted = true;
    while (str_split(&text, '\n', &line))
        if (line.len > 0 && line.len <= 2 * PACKAGE_NAME_MAX)
            (void)map_put(&place->installed, line, place);
}

static void install_unmet(struct run *run);

static void packages_on_read(void *ctx, const struct file_answer *answer,
                             UNUSED const struct err *why)
{
    struct run *run = noting_end(ctx);
    if (run == NULL)
        return;
    take_note(run->context->place, answer == NULL ? (struct str){0} : answer->bytes);
    install_unmet(run);
}

static void read_note(struct run *run)
{
    struct file_request request = {.op = FILE_READ, .path = STR(NOTE), .limit = NOTE_MAX};
    note_ask(run, &request, packages_on_read);
}

/* ---- before the code ---- */

static void on_requirements(void *ctx, const struct err *why)
{
    struct run *run = ctx;
    struct str met[PACKAGES_MAX];
    run->install = NULL;
    if (why != NULL) {
        AUTO_BUF struct buf text = {0};
        buf_printf(&text, "the requirements could not be installed: %s", why->msg);
        run_output_end(&run->output, RUN_FAILED, "InstallError", buf_cstr(&text));
        run_finish(run, NULL);
        return;
    }
    remember(run, met, find_unmet(run, met));
    /* One that has run nothing yet may have imported other versions with its zygote. */
    if (run->context->run_count == 0)
        context_drop_interpreter(run->context);
    write_note(run);
}

static void begin_install(struct run *run)
{
    run_go(run, INSTALLING);
    run->context->wait = WAIT_INSTALL;
    timer_set(run->context->timer, INSTALL_MS, 0);
}

static void install_unmet(struct run *run)
{
    struct err err = {0};
    struct str unmet[PACKAGES_MAX];
    size_t count = find_unmet(run, unmet);
    if (count == 0)
        run_look_before(run);
    else if (install_start(run->context, unmet, count, on_requirements, run, &run->install, &err) <
             0)
        on_requirements(run, &err);
}

bool packages_add_required(struct run *run)
{
    struct str unmet[PACKAGES_MAX];
    if (find_unmet(run, unmet) == 0)
        return false;
    begin_install(run);
    if (run->context->place->is_noted)
        install_unmet(run);
    else
        read_note(run);
    return true;
}

/* ---- after the code ---- */

/* The error is the code's own; why the package could not be installed is added to its message and,
 * for who reads that only (models, people at a terminal), to its traceback. */
static void add_text(struct run_output *output, struct str text)
{
    AUTO_BUF struct buf message = {0};
    buf_printf(&message, "%s; %.*s", buf_cstr(&output->error_message), STR_ARG(text));
    buf_clear(&output->error_message);
    buf_put(&output->error_message, str_slice(buf_str(&message), 0, RUN_ERROR_MAX));
    if (output->traceback.len == 0)
        return;
    bool has_end = output->traceback.ptr[output->traceback.len - 1] == '\n';
    buf_printf(&output->traceback, "%s[sandglass] %.*s\n", has_end ? "" : "\n", STR_ARG(text));
}

static void explain_missing(struct run *run, struct str package, const struct err *why)
{
    AUTO_BUF struct buf text = {0};
    buf_printf(&text, "package '%.*s' could not be installed: %s", STR_ARG(package), why->msg);
    add_text(&run->output, buf_str(&text));
}

/* The code itself has called pip (%pip), which has printed at length what went wrong. */
static void explain_pip(struct run *run)
{
    const struct place *place = run->context->place;
    struct run_output *output = &run->output;
    AUTO_BUF struct buf text = {0}, said = {0};
    if (!str_eq(buf_str(&output->error_name), STR("CalledProcessError")) ||
        !str_starts(buf_str(&output->error_message), STR("Command 'pip' ")))
        return;
    struct excerpt_view view = excerpt_view(&output->err, 0);
    buf_put(&said, view.head);
    buf_put(&said, view.tail);
    buf_put_cstr(&text, "pip failed: ");
    if (place->network_in_effect == NULL || network_is_offline(place->network_in_effect))
        buf_put_cstr(&text, INSTALL_OFFLINE("pypi"));
    else
        installer_explain(buf_str(&said), "pypi", &text);
    add_text(output, buf_str(&text));
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
    if (run->output.status == RUN_FAILED)
        explain_pip(run);
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

void packages_leave(struct run *run)
{
    if (run->install != NULL)
        install_stop(run->install);
    run->install = NULL;
    if (run->noting != NULL)
        run->noting->run = NULL;
    run->noting = NULL;
}

void packages_give_up(struct run *run, enum run_status status, const char *name,
                      const char *message)
{
    packages_leave(run);
    run_output_end(&run->output, status, name, message);
    run_compare(run);
}
