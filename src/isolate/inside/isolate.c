#include "isolate/inside/isolate.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/embed.h"
#include "base/err.h"
#include "isolate/inside/internal.h"
#include "isolate/strip/strip.h"

const char *isolate_status_name(enum isolate_status status)
{
    static const char *const names[] = {
        [ISOLATE_OK] = "ok",           [ISOLATE_ERROR] = "error",
        [ISOLATE_TIMEOUT] = "timeout", [ISOLATE_MEMORY] = "out_of_memory",
        [ISOLATE_CRASH] = "crash",     [ISOLATE_INTERRUPTED] = "interrupted",
    };
    return (size_t)status < countof(names) ? names[status] : "unknown";
}

struct vm_limits host_vm_limits(const struct isolate_limits *limits)
{
    return (struct vm_limits){
        .memory_bytes =
            MAX(MIN(limits->memory_bytes, (uint64_t)VM_MEMORY_MAX), (uint64_t)VM_MEMORY_MIN),
        .stack_bytes = MIN(limits->stack_bytes, (uint32_t)VM_STACK_MAX),
    };
}

/* --- The template --- */

struct str bootstrap_part(struct str name)
{
    for (const struct embed_file *file = isolate_bootstrap; file->name != NULL; file++)
        if (str_eq(name, str_of(file->name)))
            return file->bytes;
    return (struct str){0};
}

const char *bootstrap_key(void)
{
    static const char *key;
    if (key == NULL)
        key = bootstrap_part(STR("key")).ptr; /* a NUL stands behind each part */
    return key;
}

struct naming {
    struct isolate_engine *engine;
    const char *const *bridges;
    struct buf json;
    bool ok;
};

static void set_bridges(struct vm *vm, void *arg)
{
    struct naming *naming = arg;
    vm_value names = vm_parse_json(vm, buf_str(&naming->json));
    vm_value set = naming->engine->entries.at[ENTRY_SET_BRIDGES];
    vm_value done = vm_call(vm, set, vm_undefined(), &names, 1);
    vm_drop(vm, names);
    naming->ok = vm_kind_of(done) != VM_EXCEPTION;
}

static int name_bridges(struct vm *vm, struct naming *naming, struct err *err)
{
    AUTO_ARENA struct arena arena = {0};
    buf_put_char(&naming->json, '[');
    for (size_t i = 0; naming->bridges != NULL && naming->bridges[i] != NULL; i++)
        buf_printf(&naming->json, "%s\"%s\"", i > 0 ? "," : "", naming->bridges[i]);
    buf_put_char(&naming->json, ']');
    vm_set_arena(vm, &arena);
    enum rt_trap trap = vm_try(vm, 0, 0, set_bridges, naming);
    vm_set_arena(vm, NULL);
    if (trap != RT_OK || !naming->ok)
        return err_set(err, ERR_INTERNAL, "name the bridges: %s", rt_trap_text(trap));
    return 0;
}

/* The image that was made with the program, with the names of the bridges put in. */
static int make_template(struct isolate_engine *engine, struct vm *vm, const char *const *bridges,
                         struct err *err)
{
    AUTO_VM_IMAGE struct vm_image *base = NULL;
    struct naming naming = {.engine = engine, .bridges = bridges};
    struct isolate_limits usual = ISOLATE_LIMITS_DEFAULT;
    struct vm_limits limits = host_vm_limits(&usual);
    struct str entries = bootstrap_part(STR("entries"));
    assert(entries.len == sizeof engine->entries);
    memcpy(&engine->entries, entries.ptr, entries.len);
    if (vm_image_decode(bootstrap_part(STR("template")), vm_engine_key(), &base, err) < 0 ||
        vm_load(vm, base, &limits, err) < 0)
        return err_wrap(err, "load the bootstrap");
    int named = name_bridges(vm, &naming, err);
    buf_done(&naming.json);
    return named < 0 ? -1 : vm_save(vm, &engine->template, err);
}

int isolate_engine_new(const char *const *bridges, struct isolate_engine **ret_engine,
                       struct err *err)
{
    AUTO_ENGINE struct isolate_engine *engine = mem_alloc(sizeof *engine);
    engine->strip = strip_new((struct strip_limits){0});
    AUTO_VM struct vm *vm = NULL;
    if (vm_new(&vm, err) < 0 || make_template(engine, vm, bridges, err) < 0)
        return -1;
    engine->spares[engine->spare_count++] = vm;
    vm = NULL;
    *ret_engine = engine;
    engine = NULL;
    return 0;
}

struct isolate_engine *isolate_engine_free(struct isolate_engine *engine)
{
    if (engine == NULL)
        return NULL;
    for (size_t i = 0; i < engine->spare_count; i++)
        (void)vm_free(engine->spares[i]);
    (void)vm_image_free(engine->template);
    (void)strip_free(engine->strip);
    free(engine);
    return NULL;
}

int isolate_engine_forked(struct isolate_engine *engine, struct err *err)
{
    for (size_t i = 0; i < engine->spare_count; i++)
        vm_forget_seeds(engine->spares[i]);
    return rt_start(err);
}

int isolate_engine_warm(struct isolate_engine *engine, struct err *err)
{
    AUTO_ISOLATE struct isolate *isolate = NULL;
    AUTO_RESULT struct isolate_result result = {0};
    const struct isolate_limits limits = ISOLATE_LIMITS_DEFAULT;
    const struct isolate_call call = {.code = STR("1+1"), .lang = ISOLATE_TS};
    if (isolate_new(engine, &limits, &isolate, err) < 0 ||
        isolate_run(isolate, &call, NULL, &result, err) < 0)
        return -1;
    if (result.status != ISOLATE_OK)
        return err_set(err, ERR_INTERNAL, "the engine failed to start: %s",
                       buf_cstr(&result.error_stack));
    return 0;
}

/* From the spares, or a new one. */
static int take_vm(struct isolate_engine *engine, struct vm **ret_vm, struct err *err)
{
    if (engine->spare_count == 0)
        return vm_new(ret_vm, err);
    *ret_vm = engine->spares[--engine->spare_count];
    return 0;
}

static void give_vm(struct isolate_engine *engine, struct vm *vm)
{
    if (engine->spare_count < SPARES_MAX)
        engine->spares[engine->spare_count++] = vm;
    else
        (void)vm_free(vm);
}

/* --- Isolates --- */

int isolate_bare(struct isolate_engine *engine, const struct isolate_limits *limits,
                 struct isolate **ret_isolate, struct err *err)
{
    struct vm *vm = NULL;
    if (take_vm(engine, &vm, err) < 0)
        return -1;
    struct isolate *isolate = mem_alloc(sizeof *isolate);
    isolate->engine = engine;
    isolate->vm = vm;
    isolate->limits = *limits;
    isolate->born_ns = clock_now_ns();
    vm_set_hooks(vm, &host_hooks, isolate);
    vm_set_arena(vm, &isolate->arena);
    *ret_isolate = isolate;
    return 0;
}

int isolate_new(struct isolate_engine *engine, const struct isolate_limits *limits,
                struct isolate **ret_isolate, struct err *err)
{
    AUTO_ISOLATE struct isolate *isolate = NULL;
    struct vm_limits vm_limits = host_vm_limits(limits);
    if (isolate_bare(engine, limits, &isolate, err) < 0 ||
        vm_load(isolate->vm, engine->template, &vm_limits, err) < 0)
        return err_wrap(err, "make an isolate");
    *ret_isolate = isolate;
    isolate = NULL;
    return 0;
}

void isolate_set_timeout(struct isolate *isolate, int64_t timeout_ms)
{
    isolate->limits.timeout_ms = timeout_ms;
}

struct isolate *isolate_free(struct isolate *isolate)
{
    if (isolate == NULL)
        return NULL;
    while (isolate->answers != NULL) {
        struct answer *next = isolate->answers->next;
        free(isolate->answers);
        isolate->answers = next;
    }
    vm_set_hooks(isolate->vm, NULL, NULL);
    vm_set_arena(isolate->vm, NULL);
    give_vm(isolate->engine, isolate->vm);
    arena_done(&isolate->arena);
    buf_done(&isolate->code);
    buf_done(&isolate->names);
    buf_done(&isolate->imports);
    free(isolate);
    return NULL;
}

uint64_t isolate_memory(const struct isolate *isolate)
{
    return vm_memory_size(isolate->vm);
}

void isolate_result_done(struct isolate_result *result)
{
    buf_done(&result->json);
    buf_done(&result->text);
    buf_done(&result->error_name);
    buf_done(&result->error_message);
    buf_done(&result->error_stack);
    *result = (struct isolate_result){0};
}
