/* The packages of a snapshot: reported by the sandbox that installed them, kept with the
 * snapshot's row as a JSON array, one object each:
 *
 *     {"package", "version", "importable", "missing", "reason", "module", "bundle", "bundleReason"}
 *
 * `bundle` is the package with all that it needs as one module, for isolates, which have no files.
 * It was made inside that sandbox; the server stores it and hands it to isolates, and never reads
 * it. All of it is untrusted and is checked when it comes in. */

#include "base/format/json.h"
#include "base/log.h"
#include "base/map.h"
#include "config/config.h"
#include "engine/code/eval.h"
#include "engine/internal.h"
#include "engine/session/session_internal.h"
#include "engine/snapshot/snapshot_build.h"
#include "engine/snapshot/snapshot_internal.h"

enum { TEXT_MAX = 256 };

/* --- Reading --- */

static struct str short_text(const struct json_t *object, const char *name, struct arena *arena)
{
    struct str text = {0};
    if (!json_to_str(json_get(object, name), &text) || !str_is_utf8(text))
        return (struct str){0};
    char *copy = arena_alloc(arena, MIN(text.len, (size_t)TEXT_MAX) + 1);
    size_t len = 0;
    for (size_t i = 0; i < text.len && len < TEXT_MAX; i++)
        if ((unsigned char)text.ptr[i] >= 0x20 && text.ptr[i] != 0x7f)
            copy[len++] = text.ptr[i];
    return str_n(copy, len);
}

static bool read_one(const struct json_t *object, struct arena *arena,
                     struct snapshot_package *ret_package)
{
    struct snapshot_package package = {0};
    if (json_kind(object) != JSON_KIND_OBJECT)
        return false;
    package.package = short_text(object, "package", arena);
    package.version = short_text(object, "version", arena);
    package.reason = short_text(object, "reason", arena);
    package.module = short_text(object, "module", arena);
    package.bundle_reason = short_text(object, "bundleReason", arena);
    (void)!json_to_bool(json_get(object, "importable"), &package.is_importable);
    (void)!json_to_bool(json_get(object, "missing"), &package.is_missing);
    if (json_to_str(json_get(object, "bundle"), &package.bundle))
        package.bundle = arena_dup(arena, package.bundle);
    *ret_package = package;
    return package.package.len > 0;
}

static void put_one(struct json_out *out, const struct snapshot_package *package)
{
    json_begin_object(out);
    json_key(out, "package"), json_put_str(out, package->package);
    json_key(out, "version"), json_put_str(out, package->version);
    json_key(out, "importable"), json_put_bool(out, package->is_importable);
    if (package->is_missing)
        json_key(out, "missing"), json_put_bool(out, true);
    json_key(out, "reason"), json_put_str(out, package->reason);
    json_key(out, "module"), json_put_str(out, package->module);
    if (package->bundle.len > 0)
        json_key(out, "bundle"), json_put_str(out, package->bundle);
    json_key(out, "bundleReason"), json_put_str(out, package->bundle_reason);
    json_end_object(out);
}

/* Lines of objects; what is none is left out. */
static size_t read_lines(struct str lines, struct arena *arena,
                         struct snapshot_package **ret_packages)
{
    struct str rest = lines, line;
    size_t most = 0, count = 0;
    while (str_split(&rest, '\n', &line))
        most += line.len > 0;
    struct snapshot_package *list = arena_array(arena, struct snapshot_package, most + 1);
    rest = lines;
    while (str_split(&rest, '\n', &line)) {
        struct err err = {0};
        AUTO_JSON struct json_t *object = NULL;
        if (line.len > 0 && json_parse(line, &object, &err) == 0 &&
            read_one(object, arena, &list[count]))
            count++;
    }
    *ret_packages = list;
    return count;
}

/* --- The row --- */

void snapshot_read_packages(struct snapshot *snapshot, struct str text)
{
    struct err err = {0};
    AUTO_JSON struct json_t *array = NULL;
    if (text.len == 0 || json_parse(text, &array, &err) < 0)
        return;
    size_t most = json_len(array), count = 0;
    struct snapshot_package *list =
        arena_array(&snapshot->arena, struct snapshot_package, most + 1);
    for (size_t i = 0; i < most; i++)
        count += read_one(json_at(array, i), &snapshot->arena, &list[count]);
    snapshot->info.packages = list;
    snapshot->info.package_count = count;
}

void snapshot_put_packages(const struct snapshot *snapshot, struct buf *out)
{
    struct json_out json = {.buf = out};
    if (snapshot->info.package_count == 0)
        return;
    json_begin_array(&json);
    for (size_t i = 0; i < snapshot->info.package_count; i++)
        put_one(&json, &snapshot->info.packages[i]);
    json_end_array(&json);
}

void snapshot_set_packages(struct engine *engine, struct str id, struct str lines)
{
    struct snapshot *snapshot = map_get(&engine->snapshots, id);
    struct snapshot_package *list = NULL;
    size_t count = read_lines(lines, &snapshot->arena, &list);
    snapshot->info.packages = list;
    snapshot->info.package_count = count;
    for (size_t i = 0; i < count; i++)
        log_info(
            "snapshot.package", LOG_VIEW("snapshot", id), LOG_VIEW("package", list[i].package),
            LOG_VIEW("version", list[i].version),
            LOG_VIEW("problem", list[i].is_importable ? list[i].bundle_reason : list[i].reason));
}

/* --- In an isolate --- */

struct checking {
    struct engine *engine;
    struct engine_caller caller;
    struct arena arena;
    struct snapshot_package *list;
    size_t count, at;
    void (*done)(void *ctx, struct str lines);
    void *ctx;
};

static void check_next(struct checking *checking);

static void give(struct checking *checking)
{
    AUTO_BUF struct buf lines = {0};
    for (size_t i = 0; i < checking->count; i++) {
        put_one(&(struct json_out){.buf = &lines}, &checking->list[i]);
        buf_put_char(&lines, '\n');
    }
    checking->done(checking->ctx, buf_str(&lines));
    arena_done(&checking->arena);
    free(checking);
}

static void on_run(void *ctx, const struct eval_result *result, const struct err *why)
{
    struct checking *checking = ctx;
    struct snapshot_package *package = &checking->list[checking->at];
    bool is_ok = why == NULL && result->run != NULL && result->run->status == ISOLATE_OK;
    if (!is_ok) {
        struct str reason = why != NULL           ? str_of(why->msg)
                            : result->run == NULL ? STR("no isolate ran it")
                            : result->run->error_message.len > 0
                                ? buf_str(&result->run->error_message)
                                : str_of(isolate_status_name(result->run->status));
        package->bundle = (struct str){0};
        package->bundle_reason =
            arena_dup(&checking->arena, str_slice(reason, 0, MIN(reason.len, (size_t)TEXT_MAX)));
    }
    checking->at++;
    check_next(checking);
}

static void check_next(struct checking *checking)
{
    static const struct eval_calls calls = {.on_done = on_run};
    while (checking->at < checking->count && checking->list[checking->at].bundle.len == 0)
        checking->at++;
    if (checking->at == checking->count) {
        give(checking);
        return;
    }
    const struct snapshot_package *package = &checking->list[checking->at];
    struct isolate_module module = snapshot_module(package, &checking->arena);
    struct eval_spec spec = {
        .code =
            arena_printf(&checking->arena, "await import('%.*s'); 1", STR_ARG(package->package)),
        .language = STR("js"),
        .modules = &module,
        .module_count = 1,
        .memory_bytes = session_memory(checking->engine, ENGINE_TIER_ISOLATE),
    };
    (void)engine_eval(checking->engine, &checking->caller, &spec, &calls, checking);
}

struct isolate_module snapshot_module(const struct snapshot_package *package, struct arena *arena)
{
    return (struct isolate_module){
        .path = arena_printf(arena, ISOLATE_PACKAGE "%.*s", STR_ARG(package->package)),
        .source = package->bundle};
}

void snapshot_check_bundles(struct engine *engine, const struct engine_caller *caller,
                            struct str lines, void (*done)(void *ctx, struct str lines), void *ctx)
{
    struct checking *checking = mem_alloc(sizeof *checking);
    checking->engine = engine;
    checking->done = done;
    checking->ctx = ctx;
    checking->caller =
        (struct engine_caller){.tenant = arena_dup(&checking->arena, caller->tenant)};
    checking->count = read_lines(lines, &checking->arena, &checking->list);
    check_next(checking);
}
