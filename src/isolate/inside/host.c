/* What scripts may ask of their surroundings, and nothing else. A new ability is a row in `ops` and
 * its function; the numbers are known to bootstrap/core.js too. */

#include <math.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "isolate/inside/internal.h"
#include "isolate/inside/layout.h"
#include "isolate/inside/module_path.h"
#include "isolate/strip/strip.h"

enum host_op {
    HOST_LOG = 1,     /* (stream, indent, args): a console call */
    HOST_NOW = 2,     /* date in milliseconds */
    HOST_CHUNK = 3,   /* (name): the function of a piece of the bootstrap */
    HOST_BRIDGE = 4,  /* (id, name, json): undefined, or why not */
    HOST_INSPECT = 5, /* (args, how, depth): text */
    HOST_ELAPSED = 6, /* milliseconds since the isolate began */
    HOST_RANDOM = 7,  /* (count): that many random bytes */
    HOST_CANCEL = 8,  /* (id): the bridge call's answer is not wanted any more */
};

enum { RANDOM_MAX = 65536, BRIDGE_NAME_MAX = 64 };

struct inspect host_inspect(struct isolate *isolate)
{
    return (struct inspect){
        .vm = isolate->vm,
        .arena = &isolate->arena,
        .peek = isolate->engine->entries.at[ENTRY_PEEK],
        .stop = isolate->engine->entries.at[ENTRY_STOP],
        .bytes_max = isolate->limits.line_bytes,
        .depth = 2,
    };
}

static double host_number_at(struct vm *vm, const vm_value *args, size_t count, size_t index)
{
    if (index >= count || vm_kind_of(args[index]) != VM_NUMBER)
        return 0;
    return vm_to_number(vm, args[index]);
}

static struct str text_at(struct isolate *isolate, const vm_value *args, size_t count, size_t index)
{
    struct str text = {0};
    if (index < count && vm_kind_of(args[index]) == VM_STRING)
        (void)vm_text(isolate->vm, args[index], &isolate->arena, &text);
    return text;
}

static vm_value op_log(struct isolate *isolate, const vm_value *args, size_t count)
{
    struct isolate_result *result = isolate->result;
    int stream = host_number_at(isolate->vm, args, count, 0) == 1;
    if (result == NULL || count < 3)
        return vm_undefined();
    if (result->lines[stream] >= isolate->limits.console_lines) {
        result->dropped[stream]++;
        return vm_undefined();
    }
    result->lines[stream]++;
    struct inspect how = host_inspect(isolate);
    struct str text = layout_well_formed(&isolate->arena, inspect_format(&how, args[2]));
    int indent = (int)fmin(host_number_at(isolate->vm, args, count, 1), 100);
    if (indent > 0) {
        text = layout_indent(&isolate->arena, text, (size_t)indent);
        text = arena_printf(&isolate->arena, "%*s%.*s", indent, "", STR_ARG(text));
    }
    if (isolate->host != NULL && isolate->host->console != NULL)
        isolate->host->console(isolate->host->user, stream == 1 ? ISOLATE_STDERR : ISOLATE_STDOUT,
                               text);
    return vm_undefined();
}

static vm_value op_now(struct isolate *isolate, UNUSED const vm_value *args, UNUSED size_t count)
{
    return vm_from_number(isolate->vm, (double)clock_date_ms());
}

static vm_value op_elapsed(struct isolate *isolate, UNUSED const vm_value *args,
                           UNUSED size_t count)
{
    return vm_from_number(isolate->vm, (double)(clock_now_ns() - isolate->born_ns) / 1e6);
}

static vm_value op_chunk(struct isolate *isolate, const vm_value *args, size_t count)
{
    struct str name = text_at(isolate, args, count, 0);
    static const char *const no_code[] = {"template", "entries", "key"};
    struct str bytecode = bootstrap_part(name);
    for (size_t i = 0; i < countof(no_code); i++)
        if (str_eq(name, str_of(no_code[i])))
            bytecode = (struct str){0};
    if (bytecode.len == 0)
        return vm_throw_error(isolate->vm, "Error", STR("no such piece of the bootstrap"));
    return vm_eval_bytecode(isolate->vm, bytecode);
}

static vm_value op_bridge(struct isolate *isolate, const vm_value *args, size_t count)
{
    const char *why = "this isolate has no bridges";
    uint32_t id = (uint32_t)host_number_at(isolate->vm, args, count, 0);
    struct str name = text_at(isolate, args, count, 1), json = text_at(isolate, args, count, 2);
    if (isolate->pending_count == BRIDGES_PENDING_MAX)
        why = "too many calls at once: await some first";
    else if (name.len > 0 && name.len <= BRIDGE_NAME_MAX && isolate->host != NULL &&
             isolate->host->bridge != NULL) {
        isolate->pending[isolate->pending_count++] = id;
        if (isolate->host->bridge(isolate->host->user, id, name, json, &why))
            return vm_undefined();
        isolate->pending_count--;
    }
    return vm_from_str(isolate->vm, str_of(why));
}

static vm_value op_cancel(struct isolate *isolate, const vm_value *args, size_t count)
{
    uint32_t id = (uint32_t)host_number_at(isolate->vm, args, count, 0);
    for (size_t i = 0; i < isolate->pending_count; i++) {
        if (isolate->pending[i] != id)
            continue;
        isolate->pending[i] = isolate->pending[--isolate->pending_count];
        if (isolate->host != NULL && isolate->host->cancel != NULL)
            isolate->host->cancel(isolate->host->user, id);
        break;
    }
    return vm_undefined();
}

static vm_value op_inspect(struct isolate *isolate, const vm_value *args, size_t count)
{
    if (count < 1)
        return vm_undefined();
    struct inspect how = host_inspect(isolate);
    if (count > 2) {
        how.depth = (int)fmax(fmin(host_number_at(isolate->vm, args, count, 2), 100), 0);
        vm_value first = vm_get_index(isolate->vm, args[0], 0);
        struct str text = inspect_value(&how, first);
        vm_drop(isolate->vm, first);
        return vm_from_str(isolate->vm, text);
    }
    return vm_from_str(isolate->vm, inspect_format(&how, args[0]));
}

static vm_value op_random(struct isolate *isolate, const vm_value *args, size_t count)
{
    double wanted = fmin(host_number_at(isolate->vm, args, count, 0), RANDOM_MAX);
    size_t size = wanted >= 1 ? (size_t)wanted : 0;
    char *bytes = arena_alloc(&isolate->arena, size + 1);
    id_random(bytes, size);
    return vm_from_bytes(isolate->vm, str_n(bytes, size));
}

static vm_value (*const ops[])(struct isolate *, const vm_value *, size_t) = {
    [HOST_LOG] = op_log,       [HOST_NOW] = op_now,         [HOST_CHUNK] = op_chunk,
    [HOST_BRIDGE] = op_bridge, [HOST_INSPECT] = op_inspect, [HOST_ELAPSED] = op_elapsed,
    [HOST_RANDOM] = op_random, [HOST_CANCEL] = op_cancel,
};

static vm_value on_call(UNUSED struct vm *vm, void *user, int op, const vm_value *args,
                        size_t count)
{
    struct isolate *isolate = user;
    if (op <= 0 || (size_t)op >= countof(ops) || ops[op] == NULL)
        return vm_undefined();
    isolate->busy++;
    vm_value answer = ops[op](isolate, args, count);
    if (--isolate->busy == 0)
        arena_reset(&isolate->arena);
    return answer;
}

/* --- Modules: the files the call brought along, by relative path --- */

static bool is_typescript(struct str path, enum strip_lang *ret_lang)
{
    *ret_lang = str_ends(path, STR(".tsx")) ? STRIP_TSX : STRIP_TS;
    return *ret_lang == STRIP_TSX || str_ends(path, STR(".ts")) || str_ends(path, STR(".mts")) ||
           str_ends(path, STR(".cts"));
}

static const struct isolate_module *find_module(const struct isolate_call *call, struct str path)
{
    for (size_t i = 0; call != NULL && i < call->module_count; i++) {
        struct str known = call->modules[i].path;
        if (str_starts(known, STR("./")))
            known = str_slice(known, 2, known.len);
        if (str_eq(known, path))
            return &call->modules[i];
    }
    return NULL;
}

/* Of a package that was brought along the name is the path. */
static bool resolve_package(struct isolate *isolate, struct str specifier, struct str *ret)
{
    struct str prefix = STR(ISOLATE_PACKAGE);
    struct str name =
        str_starts(specifier, prefix)
            ? arena_dup(&isolate->arena, specifier)
            : arena_printf(&isolate->arena, ISOLATE_PACKAGE "%.*s", STR_ARG(specifier));
    if (find_module(isolate->call, name) != NULL) {
        *ret = name;
        return true;
    }
    *ret = arena_printf(&isolate->arena,
                        "cannot import '%.*s': only files of the session, by a relative path, and "
                        "packages of the configuration can be imported in an isolate; other "
                        "packages need a sandbox of the tier 'jail'",
                        STR_ARG(specifier));
    return false;
}

static bool on_resolve(UNUSED struct vm *vm, void *user, struct str base, struct str specifier,
                       struct str *ret)
{
    struct isolate *isolate = user;
    struct str path;
    bool relative = str_starts(specifier, STR("./")) || str_starts(specifier, STR("../")) ||
                    str_starts(specifier, STR("/"));
    if (!relative)
        return resolve_package(isolate, specifier, ret);
    if (!module_path_join(&isolate->arena, base, specifier, &path)) {
        *ret = arena_printf(&isolate->arena, "cannot import '%.*s': it leads out of the session",
                            STR_ARG(specifier));
        return false;
    }
    *ret = path;
    return true;
}

static bool on_load(UNUSED struct vm *vm, void *user, struct str name, struct str *ret)
{
    struct isolate *isolate = user;
    const struct isolate_module *module = find_module(isolate->call, name);
    if (module == NULL) {
        *ret = arena_printf(&isolate->arena, "cannot find module '%.*s'", STR_ARG(name));
        return false;
    }
    enum strip_lang lang;
    if (str_starts(name, STR(ISOLATE_PACKAGE)) || !is_typescript(name, &lang)) {
        *ret = module->source;
        return true;
    }
    struct err err = {0};
    buf_clear(&isolate->code); /* the main code is in the engine by now */
    if (strip_run(isolate->engine->strip, lang, module->source, &isolate->code, NULL, &err) < 0) {
        *ret = arena_printf(&isolate->arena, "%.*s: %s", STR_ARG(name), err.msg);
        return false;
    }
    *ret = buf_str(&isolate->code);
    return true;
}

/* Remembers unhandled rejections; a later handler removes them again. */
static void on_rejected(struct vm *vm, void *user, vm_value promise, vm_value reason, bool handled)
{
    struct isolate *isolate = user;
    for (size_t i = 0; handled && i < isolate->rejection_count; i++)
        if (isolate->rejections[i].promise == promise) {
            vm_drop(vm, promise);
            vm_drop(vm, isolate->rejections[i].reason);
            isolate->rejections[i] = isolate->rejections[--isolate->rejection_count];
            return;
        }
    if (handled || isolate->rejection_count == REJECTIONS_MAX)
        return;
    size_t at = isolate->rejection_count++;
    isolate->rejections[at].promise = vm_dup(vm, promise);
    isolate->rejections[at].reason = vm_dup(vm, reason);
}

const struct vm_hooks host_hooks = {
    .call = on_call,
    .resolve = on_resolve,
    .load = on_load,
    .rejected = on_rejected,
};
