/* The packages of the configuration that code of a session can import, in whatever it runs. */

#include "base/map.h"
#include "config/config.h"
#include "engine/code/eval.h"
#include "engine/internal.h"
#include "engine/sandbox/sandbox_internal.h"
#include "engine/sandbox/spec.h"
#include "engine/session/session_internal.h"
#include "engine/snapshot/snapshot_build.h"
#include "engine/snapshot/snapshot_internal.h"
#include "runtime/runtimes.h"

static bool is_python(const struct snapshot_package *package)
{
    return str_starts(package->package, STR("pypi:"));
}

/* NULL while it is not ready. */
static const struct snapshot_info *configured(const struct engine *engine)
{
    const struct engine_dependencies *built = &engine->dependencies;
    if (built->slug[0] == '\0' || strcmp(built->state, "ready") != 0)
        return NULL;
    return snapshot_configured(engine);
}

/* Packages for Python are installed for the host's own. */
static bool runs_here(const struct snapshot_package *package, enum engine_tier tier,
                      struct str runtime)
{
    const struct runtime *found = NULL;
    struct err err = {0};
    if (tier == ENGINE_TIER_ISOLATE)
        return package->bundle.len > 0;
    if (tier != ENGINE_TIER_JAIL || !package->is_importable)
        return false;
    if (runtime_choose((struct str){0}, is_python(package) ? STR("python") : STR("javascript"),
                       runtime.len > 0 ? runtime : STR("python3"), &found, &err) < 0)
        return false;
    return !is_python(package) || found->source == RUNTIME_HOST;
}

static void add_key(const struct config *config, struct engine_package *package)
{
    for (size_t i = 0; i < config->sandbox.dependencies.len; i++) {
        const struct config_dependency *dependency = &config->sandbox.dependencies.items[i];
        if (!str_eq(dependency->package, package->package) || dependency->secret_env.len == 0)
            continue;
        package->variable = dependency->secret_env;
        package->has_key = dependency->secret != NULL;
    }
}

size_t engine_session_packages(const struct engine *engine, const struct session_info *session,
                               struct arena *arena, struct engine_package **ret_packages)
{
    const struct snapshot_info *snapshot = configured(engine);
    struct sandbox_spec spec = {0};
    enum engine_tier tier =
        session != NULL ? session->tier : spec_tier(engine, ENGINE_TIER_DEFAULT);
    struct str runtime = session != NULL ? session->runtime : session_runtime(engine, &spec);
    size_t most = snapshot == NULL ? 0 : snapshot->package_count, count = 0;
    struct engine_package *list = arena_array(arena, struct engine_package, most + 1);
    for (size_t i = 0; i < most; i++) {
        const struct snapshot_package *package = &snapshot->packages[i];
        if (!runs_here(package, tier, runtime))
            continue;
        list[count] = (struct engine_package){.package = package->package,
                                              .version = package->version,
                                              .module = package->module,
                                              .is_python = is_python(package)};
        add_key(engine->config, &list[count++]);
    }
    *ret_packages = list;
    return count;
}

/* --- For isolates --- */

/* Only what the text may import goes to the isolate, since all of it goes with every run. */
static bool names_it(const struct eval_spec *spec, struct str package)
{
    bool found = str_find(spec->code, package) < spec->code.len;
    for (size_t i = 0; !found && i < spec->module_count; i++)
        found = str_find(spec->modules[i].source, package) < spec->modules[i].source.len;
    return found;
}

void session_add_modules(const struct engine *engine, struct arena *arena, struct eval_spec *spec)
{
    const struct snapshot_info *snapshot = configured(engine);
    size_t more = snapshot == NULL ? 0 : snapshot->package_count, count = 0;
    struct isolate_module *list =
        arena_array(arena, struct isolate_module, spec->module_count + more + 1);
    for (; count < spec->module_count; count++)
        list[count] = spec->modules[count];
    for (size_t i = 0; i < more; i++) {
        const struct snapshot_package *package = &snapshot->packages[i];
        if (package->bundle.len > 0 && names_it(spec, package->package))
            list[count++] = snapshot_module(package, arena);
    }
    spec->modules = list;
    spec->module_count = count;
}

/* --- Those that are not there --- */

static struct str name_of(struct str package)
{
    return snapshot_is_python(package) ? str_slice(package, 5, package.len) : package;
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
}

/* A Python package and its module mostly have one name but for case and such signs. */
static bool is_same_name(struct str a, struct str b)
{
    size_t i = 0, k = 0;
    for (;; i++, k++) {
        while (i < a.len && strchr("-_.", a.ptr[i]) != NULL)
            i++;
        while (k < b.len && strchr("-_.", b.ptr[k]) != NULL)
            k++;
        if (i >= a.len || k >= b.len)
            return i >= a.len && k >= b.len;
        if (lower(a.ptr[i]) != lower(b.ptr[k]))
            return false;
    }
}

/* npm's "@acme/sdk/deep" is of "@acme/sdk". */
static bool is_of_package(struct str module, struct str package)
{
    struct str name = name_of(package);
    if (snapshot_is_python(package))
        return is_same_name(str_slice(module, 0, str_find_char(module, '.')), name);
    return str_starts(module, name) && (module.len == name.len || module.ptr[name.len] == '/');
}

/* NULL: it is installed, or unknown. */
static const struct snapshot_package *find_missing(const struct engine *engine, struct str module)
{
    const struct snapshot_info *snapshot = configured(engine);
    for (size_t i = 0; snapshot != NULL && i < snapshot->package_count; i++) {
        const struct snapshot_package *package = &snapshot->packages[i];
        if (package->is_missing && is_of_package(module, package->package))
            return package;
    }
    return NULL;
}

static bool is_configured(const struct engine *engine, struct str module)
{
    const struct config_sandbox *config = &engine->config->sandbox;
    for (size_t i = 0; i < config->dependencies.len; i++)
        if (is_of_package(module, config->dependencies.items[i].package))
            return true;
    return false;
}

bool session_explain_import(const struct sandbox *sandbox, struct str module, struct buf *out)
{
    const struct engine *engine = sandbox->engine;
    const struct engine_dependencies *built = &engine->dependencies;
    if (sandbox->info.session.len == 0 || module.len == 0 || built->slug[0] == '\0')
        return false;
    const struct snapshot_package *package = find_missing(engine, module);
    struct str reason = package != NULL ? package->reason : str_of(built->detail);
    bool has_none = strcmp(built->state, "failed") == 0;
    if (package == NULL && !(has_none && is_configured(engine, module)))
        return false;
    buf_printf(out,
               "the server's configuration lists this package ([[sandbox.dependencies]]), but it "
               "could not be installed when the server started: %.*s Its administrator can correct "
               "the entry and restart the server.",
               STR_ARG(reason));
    return true;
}

static void warn_of(const struct snapshot_package *package, void (*call)(void *, struct str),
                    void *ctx)
{
    AUTO_BUF struct buf text = {0};
    if (package->is_importable)
        return;
    buf_printf(&text, "sandbox.dependencies: '%.*s' %s: %.*s", STR_ARG(package->package),
               package->is_missing ? "could not be installed" : "cannot be imported",
               STR_ARG(package->reason));
    call(ctx, buf_str(&text));
}

void session_each_missing(const struct engine *engine, void (*call)(void *ctx, struct str text),
                          void *ctx)
{
    const struct engine_dependencies *built = &engine->dependencies;
    const struct snapshot_info *snapshot = configured(engine);
    AUTO_BUF struct buf text = {0};
    for (size_t i = 0; snapshot != NULL && i < snapshot->package_count; i++)
        warn_of(&snapshot->packages[i], call, ctx);
    if (built->slug[0] == '\0' || strcmp(built->state, "failed") != 0)
        return;
    buf_printf(&text, "sandbox.dependencies: no package could be installed: %s", built->detail);
    call(ctx, buf_str(&text));
}
