/* The installers of a snapshot's build, in its sandbox, and what they leave out. */

#include <unistd.h>

#include "base/embed.h"
#include "base/format/json.h"
#include "base/log.h"
#include "base/map.h"
#include "egress/policy/settings.h"
#include "engine/installer.h"
#include "engine/internal.h"
#include "engine/provider.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/snapshot/snapshot_building.h"
#include "runtime/runtimes.h"

enum {
    BUILD_MS = 15 * 60000,
    TAIL_MAX = 2000, /* of the installer's last words */
    DESCRIBED_MAX = 12 << 20,
};

/* What makes one module of a package, for isolates; runs in the build's sandbox only. */
#define BUNDLER "esbuild@0.28.2"
#define BUNDLER_DIR "/home/sandbox/.bundler"

/* One step: an installer, or a look at what it has installed. */
struct step {
    const char *group; /* of hosts */
    const char *script;
    const char *describes; /* by this file of snapshot_scripts, as standard input; NULL: installs */
    bool is_python;
};

extern const struct embed_file snapshot_scripts[];

/* /node_modules serves every directory; npm does not work in "/" itself. Python looks in the user's
 * own packages. What only the installer needs goes before the picture is taken. Each installer can
 * be run again with more packages, and one that fails leaves what an earlier one installed. */
static const struct step steps[] = {
    {"npm", "mkdir -p ~/.deps ~/.tmp && cd ~/.deps && export TMPDIR=$HOME/.tmp && "
            "npm install --no-audit --no-fund --no-save --no-package-lock --no-update-notifier "
            "--prefix . -- \"$@\" && rm -rf /node_modules && mv node_modules /node_modules; "
            "status=$?; cd /; rm -rf ~/.deps ~/.npm ~/.tmp; exit $status"},
    {"pypi",
     "mkdir -p ~/.tmp && cd ~ && export TMPDIR=$HOME/.tmp && "
     "dir=$(python3 -c 'import site; print(site.getusersitepackages())') && "
     "python3 -m pip install --no-cache-dir --disable-pip-version-check --no-input "
     "--upgrade --target \"$dir\" -- \"$@\"; "
     "status=$?; rm -rf ~/.cache ~/.tmp; exit $status",
     .is_python = true},
    {"npm",
     "cd /; if [ -n \"$SG_BUNDLE\" ]; then mkdir -p \"$SG_BUNDLE\" ~/.tmp && "
     "(cd \"$SG_BUNDLE\" && TMPDIR=$HOME/.tmp npm install --no-audit --no-fund --no-save "
     "--no-package-lock --no-update-notifier --prefix . -- " BUNDLER " >&2 </dev/null); fi; "
     "node --input-type=module - \"$@\"; rm -rf \"${SG_BUNDLE:-/none}\" ~/.npm ~/.tmp",
     .describes = "describe_npm"},
    {"pypi", "python3 - \"$@\"", .describes = "describe_pypi", .is_python = true},
};

/* --- What cannot be installed --- */

static bool is_of_step(const struct building *building, size_t i)
{
    return snapshot_is_python(building->list[i].package) == steps[building->step].is_python;
}

static void leave_out(struct building *building, size_t i, const struct err *why)
{
    struct str package = building->list[i].package;
    log_warn("snapshot.left_out", LOG_STR("snapshot", building->snapshot),
             LOG_VIEW("package", package), LOG_STR("error", why->msg));
    building->outcomes[i].failure = arena_dup(&building->arena, str_of(why->msg));
}

/* The next package of this step, from `from` on; `count` if no package is left. */
static size_t next_of_step(const struct building *building, size_t from)
{
    while (from < building->count && !is_of_step(building, from))
        from++;
    return from;
}

static void end_step(struct building *building)
{
    building->is_one_by_one = false;
    building->step++;
    building_run_step(building);
}

/* One was tried, `why` is NULL when it could be installed. */
static void try_next(struct building *building, const struct err *why)
{
    if (why != NULL)
        leave_out(building, building->trying, why);
    else
        building->outcomes[building->trying].is_installed = true;
    building->trying = next_of_step(building, building->trying + 1);
    if (building->trying == building->count)
        end_step(building);
    else
        building_run_step(building);
}

/* The installer failed with all of them: which it was is found out, unless it can be none. */
static void find_failing(struct building *building, const struct err *why)
{
    size_t first = next_of_step(building, 0);
    bool is_only = next_of_step(building, first + 1) == building->count;
    if (!is_only && !installer_was_cut_off(buf_str(&building->tail))) {
        building->is_one_by_one = true;
        building->trying = first;
        building_run_step(building);
        return;
    }
    for (size_t i = first; i < building->count; i = next_of_step(building, i + 1))
        leave_out(building, i, why);
    end_step(building);
}

static size_t count_left_out(const struct building *building)
{
    size_t count = 0;
    for (size_t i = 0; i < building->count; i++)
        count += building->outcomes[i].failure.len > 0;
    return count;
}

/* As the sandbox describes the others. */
static void describe_left_out(struct building *building)
{
    for (size_t i = 0; i < building->count; i++) {
        struct json_out json = {.buf = &building->described};
        if (building->outcomes[i].failure.len == 0)
            continue;
        json_begin_object(&json);
        json_key(&json, "package"), json_put_str(&json, building->list[i].package);
        json_key(&json, "missing"), json_put_bool(&json, true);
        json_key(&json, "reason"), json_put_str(&json, building->outcomes[i].failure);
        json_end_object(&json);
        buf_put_char(&building->described, '\n');
    }
}

/* --- Installing --- */

static void snapshot_install_on_started(void *ctx, struct exec *exec, const struct err *why)
{
    struct building *building = ctx;
    building->exec = exec;
    if (why != NULL)
        building_fail(building, why);
}

static void snapshot_install_on_output(void *ctx, enum command_stream stream, struct str bytes)
{
    struct building *building = ctx;
    if (steps[building->step].describes != NULL && stream == COMMAND_STDOUT) {
        if (building->described.len + bytes.len <= DESCRIBED_MAX)
            buf_put(&building->described, bytes);
        return;
    }
    struct str last = str_slice(bytes, bytes.len > TAIL_MAX ? bytes.len - TAIL_MAX : 0, bytes.len);
    buf_put(&building->tail, last);
    if (building->tail.len > TAIL_MAX)
        buf_consume(&building->tail, building->tail.len - TAIL_MAX);
}

static void snapshot_install_on_drain(UNUSED void *ctx)
{
}

static void snapshot_install_on_end(void *ctx, const struct exec_end *end, const struct err *why)
{
    struct building *building = ctx;
    const struct provider_table *table = engine_table(building->engine, ENGINE_TIER_JAIL);
    struct err err = {0};
    struct exec_end how = end == NULL ? (struct exec_end){0} : *end; /* it is the handle's */
    table->exec_free(building->exec);
    building->exec = NULL;
    timer_clear(building->timer);
    if (why != NULL) {
        err = *why;
    } else if (building->is_late) {
        (void)err_set(&err, ERR_TIMEOUT, "the installer ran for more than %d minutes",
                      BUILD_MS / 60000);
    } else if (how.oom) {
        (void)err_set(&err, ERR_LIMIT, "%s ran out of memory (limit %d MiB)",
                      steps[building->step].group, BUILD_MEMORY_MIB);
    } else if (how.code != 0 || how.signal != 0) {
        AUTO_BUF struct buf text = {0};
        installer_explain(buf_str(&building->tail), steps[building->step].group, &text);
        (void)err_set(&err, ERR_UNAVAILABLE, "%s: %s", steps[building->step].group,
                      buf_cstr(&text));
    }
    bool installs = steps[building->step].describes == NULL;
    bool may_go_on = building->may_leave_out && why == NULL && !building->is_late;
    if (installs && err.code != ERR_NONE && !may_go_on) {
        building_fail(building, &err);
        return;
    }
    if (installs && building->is_one_by_one) {
        try_next(building, err.code != ERR_NONE ? &err : NULL);
        return;
    }
    if (installs && err.code != ERR_NONE) {
        find_failing(building, &err);
        return;
    }
    if (err.code != ERR_NONE) /* they are installed, but their description is missing */
        log_warn("snapshot.describe", LOG_STR("snapshot", building->snapshot),
                 LOG_STR("error", err.msg));
    building->step++;
    building_run_step(building);
}

void building_on_time(void *ctx)
{
    struct building *building = ctx;
    struct err err = {0};
    building->is_late = true;
    if (building->exec != NULL)
        (void)!engine_table(building->engine, ENGINE_TIER_JAIL)
            ->exec_signal(building->exec, 9, &err);
}

/* "sh -c SCRIPT sh name@version ..." */
static const char *const *argv_of(struct building *building, size_t *ret_count)
{
    const struct step *step = &steps[building->step];
    bool python = step->is_python;
    const char **argv = arena_array(&building->arena, const char *, building->count + 6);
    size_t count = 0, packages = 0;
    argv[count++] = "/bin/sh";
    argv[count++] = "-c";
    argv[count++] = steps[building->step].script;
    argv[count++] = "sh";
    for (size_t i = 0; i < building->count; i++) {
        struct snapshot_dependency one = building->list[i];
        bool is_tried =
            !building->is_one_by_one || building->outcomes[i].is_installed || i == building->trying;
        if (!is_of_step(building, i) || building->outcomes[i].failure.len > 0 || !is_tried)
            continue;
        struct str name = python ? str_slice(one.package, 5, one.package.len) : one.package;
        struct str version = step->describes != NULL ? (struct str){0} : one.version;
        const char *between = version.len == 0 ? "" : python ? "==" : "@";
        argv[count++] =
            arena_printf(&building->arena, "%.*s%s%.*s", STR_ARG(name), between, STR_ARG(version))
                .ptr;
        packages++;
    }
    *ret_count = packages;
    return argv;
}

static const char *const *env_of(struct building *building)
{
    AUTO_BUF struct buf text = {0};
    size_t lines = 5, count = 0;
    settings_put(SETTINGS_PROXY_PORT, access(SETTINGS_CA_FILE, R_OK) == 0 ? SETTINGS_CA_FILE : NULL,
                 &text);
    buf_put(&text, buf_str(&building->hosts.settings));
    for (size_t i = 0; i < text.len; i++)
        lines += text.ptr[i] == '\n';
    const char **env = arena_array(&building->arena, const char *, lines + 1);
    env[count++] = runtime_env((struct str){0})[0]; /* PATH */
    env[count++] = "HOME=/home/sandbox";
    env[count++] = "LANG=C.UTF-8";
    if (building->needs_bundles)
        env[count++] = "SG_BUNDLE=" BUNDLER_DIR;
    struct str rest = arena_dup(&building->arena, buf_str(&text)), line;
    while (str_split(&rest, '\n', &line))
        if (line.len > 0)
            env[count++] = arena_dup(&building->arena, line).ptr;
    return env;
}

static struct str script_of(const struct step *step)
{
    for (const struct embed_file *file = snapshot_scripts; file->name != NULL; file++)
        if (step->describes != NULL && strcmp(file->name, step->describes) == 0)
            return file->bytes;
    return (struct str){0};
}

void building_run_step(struct building *building)
{
    static const struct exec_calls calls = {snapshot_install_on_started, snapshot_install_on_output,
                                            snapshot_install_on_end, snapshot_install_on_drain};
    struct sandbox *sandbox = map_get(&building->engine->sandboxes, str_of(building->sandbox));
    struct err err = {0};
    size_t packages = 0;
    const char *const *argv = NULL;
    for (; building->step < countof(steps); building->step++) {
        argv = argv_of(building, &packages);
        if (packages > 0)
            break;
    }
    if (sandbox == NULL || sandbox->place == NULL) {
        (void)err_set(&err, ERR_GONE, "the sandbox of the build no longer exists");
        building_fail(building, &err);
        return;
    }
    if (packages == 0 && count_left_out(building) == building->count) {
        struct str reason = building->outcomes[0].failure;
        (void)err_set(&err, ERR_UNAVAILABLE, "%.*s", STR_ARG(reason));
        building_fail(building, &err);
        return;
    }
    if (packages == 0) {
        describe_left_out(building);
        building_freeze(building);
        return;
    }
    char text[64];
    const struct step *step = &steps[building->step];
    (void)snprintf(text, sizeof text, "%s %s %zu package%s", step->group,
                   step->describes == NULL ? "installs" : "looks at", packages,
                   packages == 1 ? "" : "s");
    snapshot_build_progress(building->engine, str_of(building->snapshot), text);
    buf_clear(&building->tail);
    struct exec_plan plan = {
        .argv = argv, .env = env_of(building), .cwd = "/", .input = script_of(step)};
    plan.has_stdin = plan.input.len > 0;
    timer_set(building->timer, BUILD_MS, 0);
    engine_table(building->engine, ENGINE_TIER_JAIL)->exec(sandbox->place, &plan, &calls, building);
}
