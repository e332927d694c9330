/* Snapshots from dependencies: packages are installed in a sandbox of their own, with their real
 * installers and a network that leads to the registries alone; what that sandbox has written is the
 * snapshot, and the sandbox goes.
 *
 * The slug is made from the sorted list, so the same list is built once: whoever asks while it is
 * being built waits for the one that builds. A build that fails leaves nothing but its reason. */

#include "engine/snapshot_build.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "egress/groups.h"
#include "egress/settings.h"
#include "engine/config.h"
#include "engine/installer.h"
#include "runtime/runtimes.h"

enum {
    BUILD_MS = 15 * 60000,
    BUILD_MEMORY = 2 << 10, /* MiB; the files too lie in memory */
    TAIL_MAX = 2000,        /* of the installer's last words */
    DEPENDENCIES_MAX = 256,
};

/* One installer. */
struct installer {
    const char *group; /* of hosts */
    const char *script;
};

/* /node_modules serves every directory; npm does not work in "/" itself. Python looks in the user's
 * own packages. What only the installer needs goes before the picture is taken. */
static const struct installer installers[] = {
    {"npm", "mkdir -p ~/.deps ~/.tmp && cd ~/.deps && export TMPDIR=$HOME/.tmp && "
            "npm install --no-audit --no-fund --no-save --no-package-lock --no-update-notifier "
            "--prefix . -- \"$@\" && mv node_modules /node_modules && cd / && "
            "rm -rf ~/.deps ~/.npm ~/.tmp"},
    {"pypi", "mkdir -p ~/.tmp && cd ~ && export TMPDIR=$HOME/.tmp && "
             "dir=$(python3 -c 'import site; print(site.getusersitepackages())') && "
             "python3 -m pip install --no-cache-dir --disable-pip-version-check --no-input "
             "--target \"$dir\" -- \"$@\" && rm -rf ~/.cache ~/.tmp"},
};

struct building {
    struct job job; /* first */
    struct building *next;
    struct engine *engine;
    char snapshot[ID_SIZE], sandbox[ID_SIZE];
    struct arena arena;
    struct engine_caller caller;
    struct snapshot_dependency *list;
    size_t count;
    struct group_hosts hosts;
    size_t step; /* of `installers` */
    struct exec *exec;
    struct timer *timer;
    struct buf tail;
    bool is_late;
    bool is_working; /* in its sandbox */
    int result;
    struct err err;
    VEC(struct answer *) answers;
};

/* --- Lists --- */

static bool is_python(struct str package)
{
    return str_starts(package, STR("pypi:"));
}

static bool all_of(struct str text, const char *more)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              strchr(more, c) != NULL) ||
            c == '\0')
            return false;
    }
    return true;
}

/* Names and versions from a registry alone: no path, no address, no option. */
static int check_one(struct snapshot_dependency one, struct err *err)
{
    struct str name =
        is_python(one.package) ? str_slice(one.package, 5, one.package.len) : one.package;
    if (name.len == 0 || name.len > 200 || name.ptr[0] == '-' || name.ptr[0] == '.' ||
        !all_of(name, is_python(one.package) ? "._-" : "@/._-"))
        return err_set(
            err, ERR_INVALID, "dependencies: '%.*s' is no package; npm names and pypi:NAME are",
            (int)MIN(one.package.len, (size_t)60), one.package.ptr == NULL ? "" : one.package.ptr);
    if (one.version.len > 60 || !all_of(one.version, ".+_^~-"))
        return err_set(err, ERR_INVALID, "dependencies: '%.*s' is no version of '%.*s'",
                       (int)MIN(one.version.len, (size_t)60), one.version.ptr, STR_ARG(name));
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct snapshot_dependency *left = a, *right = b;
    int order = str_cmp(left->package, right->package);
    return order != 0 ? order : str_cmp(left->version, right->version);
}

int snapshot_dependencies(const struct snapshot_dependency *list, size_t count, struct arena *arena,
                          struct snapshot_dependency **ret_sorted, char ret_slug[32],
                          struct err *err)
{
    AUTO_BUF struct buf text = {0};
    char hex[HASH_HEX_SIZE];
    if (count > DEPENDENCIES_MAX)
        return err_set(err, ERR_INVALID, "dependencies: more than %d", DEPENDENCIES_MAX);
    struct snapshot_dependency *sorted = arena_array(arena, struct snapshot_dependency, count + 1);
    for (size_t i = 0; i < count; i++) {
        if (check_one(list[i], err) < 0)
            return -1;
        sorted[i] = (struct snapshot_dependency){arena_dup(arena, list[i].package),
                                                 arena_dup(arena, list[i].version)};
    }
    qsort(sorted, count, sizeof *sorted, compare);
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%.*s@%.*s\n", STR_ARG(sorted[i].package), STR_ARG(sorted[i].version));
    hash_sha256_hex(buf_str(&text), hex);
    (void)snprintf(ret_slug, 32, "deps-%.20s", hex);
    *ret_sorted = sorted;
    return 0;
}

/* --- The end --- */

static void ignore(UNUSED void *ctx, UNUSED const struct err *why)
{
}

static void building_free(struct building *building)
{
    struct engine *engine = building->engine;
    for (struct building **at = &engine->buildings; *at != NULL; at = &(*at)->next)
        if (*at == building) {
            *at = building->next;
            break;
        }
    (void)timer_free(building->timer);
    group_hosts_done(&building->hosts);
    buf_done(&building->tail);
    vec_done(&building->answers);
    arena_done(&building->arena);
    free(building);
}

/* Whatever came of it, its sandbox goes. */
static void drop_sandbox(struct building *building)
{
    struct sandbox *sandbox = sandbox_find_worked(building->engine, str_of(building->sandbox));
    if (building->sandbox[0] == '\0' || sandbox == NULL)
        return;
    if (building->is_working)
        sandbox_end_work(sandbox);
    building->sandbox[0] = '\0';
    engine_sandbox_delete(building->engine, &building->caller, sandbox->info.id, ignore, NULL);
}

static void finish(struct building *building, const struct err *why)
{
    struct err copy = why == NULL ? (struct err){0} : *why;
    drop_sandbox(building);
    VEC_EACH (answer, &building->answers)
        answer_give(*answer, why == NULL ? NULL : &copy);
    building_free(building);
}

static void fail(struct building *building, const struct err *why)
{
    struct err copy = *why;
    snapshot_build_failed(building->engine, str_of(building->snapshot), &copy);
    finish(building, &copy);
}

static void on_recorded(void *ctx, const struct err *why)
{
    struct building *building = ctx;
    if (why != NULL)
        fail(building, why);
    else
        finish(building, NULL);
}

static void on_picture(void *ctx, struct str image, int64_t size, const struct err *why)
{
    struct building *building = ctx;
    if (why != NULL)
        fail(building, why);
    else
        snapshot_build_ready(building->engine, str_of(building->snapshot), image, size, on_recorded,
                             building);
}

static void freeze(struct building *building, struct sandbox *sandbox)
{
    const struct provider_table *table = engine_table(building->engine, sandbox->info.tier);
    snapshot_build_progress(building->engine, str_of(building->snapshot), "being frozen");
    table->snapshot_create(sandbox->place, str_of(building->snapshot), on_picture, building);
}

/* --- Installing --- */

static void run_step(struct building *building);

static void on_started(void *ctx, struct exec *exec, const struct err *why)
{
    struct building *building = ctx;
    building->exec = exec;
    if (why != NULL)
        fail(building, why);
}

static void on_output(void *ctx, UNUSED enum command_stream stream, struct str bytes)
{
    struct building *building = ctx;
    struct str last = str_slice(bytes, bytes.len > TAIL_MAX ? bytes.len - TAIL_MAX : 0, bytes.len);
    buf_put(&building->tail, last);
    if (building->tail.len > TAIL_MAX)
        buf_consume(&building->tail, building->tail.len - TAIL_MAX);
}

static void on_drain(UNUSED void *ctx)
{
}

static void on_end(void *ctx, const struct exec_end *end, const struct err *why)
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
        (void)err_set(&err, ERR_TIMEOUT, "the installer took more than %d minutes",
                      BUILD_MS / 60000);
    } else if (how.oom) {
        (void)err_set(&err, ERR_LIMIT, "%s ran out of memory: it has %d MiB",
                      installers[building->step].group, BUILD_MEMORY);
    } else if (how.code != 0 || how.signal != 0) {
        struct str reason = installer_reason(buf_str(&building->tail));
        (void)err_set(&err, ERR_UNAVAILABLE, "%s failed: %.*s", installers[building->step].group,
                      STR_ARG(reason));
    }
    if (err.code != ERR_NONE) {
        fail(building, &err);
        return;
    }
    building->step++;
    run_step(building);
}

static void on_time(void *ctx)
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
    bool python = building->step == 1;
    const char **argv = arena_array(&building->arena, const char *, building->count + 6);
    size_t count = 0, packages = 0;
    argv[count++] = "/bin/sh";
    argv[count++] = "-c";
    argv[count++] = installers[building->step].script;
    argv[count++] = "sh";
    for (size_t i = 0; i < building->count; i++) {
        struct snapshot_dependency one = building->list[i];
        if (is_python(one.package) != python)
            continue;
        struct str name = python ? str_slice(one.package, 5, one.package.len) : one.package;
        const char *between = one.version.len == 0 ? "" : python ? "==" : "@";
        argv[count++] = arena_printf(&building->arena, "%.*s%s%.*s", STR_ARG(name), between,
                                     STR_ARG(one.version))
                            .ptr;
        packages++;
    }
    *ret_count = packages;
    return argv;
}

static const char *const *env_of(struct building *building)
{
    AUTO_BUF struct buf text = {0};
    size_t lines = 4, count = 0;
    settings_put(SETTINGS_PROXY_PORT, access(SETTINGS_CA_FILE, R_OK) == 0 ? SETTINGS_CA_FILE : NULL,
                 &text);
    buf_put(&text, buf_str(&building->hosts.settings));
    for (size_t i = 0; i < text.len; i++)
        lines += text.ptr[i] == '\n';
    const char **env = arena_array(&building->arena, const char *, lines + 1);
    env[count++] = "PATH=" RUNTIME_PATH;
    env[count++] = "HOME=/home/sandbox";
    env[count++] = "LANG=C.UTF-8";
    struct str rest = arena_dup(&building->arena, buf_str(&text)), line;
    while (str_split(&rest, '\n', &line))
        if (line.len > 0)
            env[count++] = arena_dup(&building->arena, line).ptr;
    return env;
}

static void run_step(struct building *building)
{
    static const struct exec_calls calls = {on_started, on_output, on_end, on_drain};
    struct sandbox *sandbox = map_get(&building->engine->sandboxes, str_of(building->sandbox));
    struct err err = {0};
    size_t packages = 0;
    const char *const *argv = NULL;
    for (; building->step < countof(installers); building->step++) {
        argv = argv_of(building, &packages);
        if (packages > 0)
            break;
    }
    if (sandbox == NULL || sandbox->place == NULL) {
        (void)err_set(&err, ERR_GONE, "the sandbox of the build is gone");
        fail(building, &err);
        return;
    }
    if (packages == 0) {
        freeze(building, sandbox);
        return;
    }
    char text[64];
    (void)snprintf(text, sizeof text, "%s installs %zu package%s", installers[building->step].group,
                   packages, packages == 1 ? "" : "s");
    snapshot_build_progress(building->engine, str_of(building->snapshot), text);
    buf_clear(&building->tail);
    struct exec_plan plan = {.argv = argv, .env = env_of(building), .cwd = "/"};
    timer_set(building->timer, BUILD_MS, 0);
    engine_table(building->engine, ENGINE_TIER_JAIL)->exec(sandbox->place, &plan, &calls, building);
}

/* --- The sandbox --- */

static void on_made(void *ctx, struct sandbox *sandbox, const struct err *why)
{
    struct building *building = ctx;
    if (why != NULL) {
        building->sandbox[0] = '\0'; /* there is none */
        fail(building, why);
        return;
    }
    building->is_working = true;
    sandbox_begin_work(sandbox);
    run_step(building);
}

static void make_sandbox(struct building *building)
{
    struct engine *engine = building->engine;
    AUTO_BUF struct buf policy = {0};
    struct sandbox *sandbox = NULL;
    struct err err = {0};
    buf_printf(&policy, "allow %s", buf_cstr(&building->hosts.allow));
    if (building->hosts.private.len > 0)
        buf_printf(&policy, "; private %s", buf_cstr(&building->hosts.private));
    struct sandbox_spec spec = {.tier = ENGINE_TIER_JAIL,
                                .name = STR("build of a snapshot"),
                                .limits = {.memory_bytes = (int64_t)BUILD_MEMORY << 20,
                                           .disk_bytes = (int64_t)BUILD_MEMORY << 20},
                                .network = buf_str(&policy),
                                .timeout_ms = -1,
                                .idle_ms = -1};
    if (sandbox_from_spec(engine, &building->caller, &spec, &sandbox, &err) < 0) {
        fail(building, &err);
        return;
    }
    (void)snprintf(building->sandbox, sizeof building->sandbox, "%.*s", STR_ARG(sandbox->info.id));
    sandbox->is_helper = true;
    snapshot_build_in(engine, str_of(building->snapshot), str_of(building->sandbox));
    sandbox_make(sandbox, &building->caller, (struct str){0}, on_made, building);
}

/* --- Hosts, on a worker: names are resolved --- */

static void find_hosts(struct job *job)
{
    struct building *building = (struct building *)job;
    AUTO_BUF struct buf servers = {0};
    struct group_sources sources;
    config_group_sources(building->engine->config, &servers, &sources);
    bool wants[countof(installers)] = {false};
    for (size_t i = 0; i < building->count; i++)
        wants[is_python(building->list[i].package)] = true;
    for (size_t i = 0; building->result == 0 && i < countof(installers); i++)
        if (wants[i])
            building->result = group_expand(str_of(installers[i].group), &sources, &building->hosts,
                                            &building->err);
}

static void hosts_found(struct job *job, bool canceled)
{
    struct building *building = (struct building *)job;
    if (canceled)
        building->result = err_set(&building->err, ERR_CANCELED, "the server stops");
    if (building->result < 0)
        fail(building, &building->err);
    else
        make_sandbox(building);
}

/* --- The beginning --- */

bool snapshot_build_join(struct engine *engine, struct str snapshot, struct answer *answer)
{
    for (struct building *building = engine->buildings; building != NULL; building = building->next)
        if (str_eq(str_of(building->snapshot), snapshot)) {
            *vec_push(&building->answers) = answer;
            return true;
        }
    return false;
}

void snapshot_build(struct engine *engine, const struct engine_caller *caller, struct str snapshot,
                    const struct snapshot_dependency *sorted, size_t count, struct answer *answer)
{
    struct building *building = mem_alloc(sizeof *building);
    struct err err = {0};
    building->engine = engine;
    building->next = engine->buildings;
    engine->buildings = building;
    (void)snprintf(building->snapshot, sizeof building->snapshot, "%.*s", STR_ARG(snapshot));
    building->caller = (struct engine_caller){.tenant = arena_dup(&building->arena, caller->tenant),
                                              .is_operator = true,
                                              .quota = caller->quota};
    building->list = arena_array(&building->arena, struct snapshot_dependency, count + 1);
    for (size_t i = 0; i < count; i++)
        building->list[i] =
            (struct snapshot_dependency){arena_dup(&building->arena, sorted[i].package),
                                         arena_dup(&building->arena, sorted[i].version)};
    building->count = count;
    building->timer = timer_new(engine->loop, on_time, building);
    *vec_push(&building->answers) = answer;
    building->job = (struct job){.run = find_hosts, .done = hosts_found};
    if (pool_submit(engine->pool, &building->job, &err) < 0)
        fail(building, &err);
}
